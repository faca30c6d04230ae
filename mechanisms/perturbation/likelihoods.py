"""Regressions by objective perturbation of sums over rows.

The likelihoods of logistic, Poisson, multinomial and Cox regression; and the check loss of quantile
regression, smoothed by a public width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from mechanisms.contract import Alternative, Data, Drawing, Plan
from mechanisms.domain import Schema
from mechanisms.exact.fractions import as_written
from mechanisms.objectives.exponential import (
    PoissonObjective,
    hazard_loss,
    hazard_objective,
    poisson_loss,
    softmax_loss,
    softmax_objective,
)
from mechanisms.objectives.losses import (
    Loss,
    SmoothedCheckObjective,
    logistic_loss,
    smoothed_check_loss,
)
from mechanisms.objectives.several import SeveralObjective
from mechanisms.objectives.sigmoid import LogisticObjective
from mechanisms.perturbation.calibration import NARROWEST, smoothing_width
from mechanisms.perturbation.release import Newton, Perturbed, plan_fit
from mechanisms.privacy import PrivacyLoss
from mechanisms.samplers.minimiser import Objective
from mechanisms.statistics.designs.cox_regression import LARGEST_CEILING, CoxRegression
from mechanisms.statistics.designs.multinomial_regression import MultinomialRegression
from mechanisms.statistics.designs.poisson_regression import PoissonRegression
from mechanisms.statistics.designs.rows import CodeRows, MarkedRows, passes, sums_of_codes
from mechanisms.statistics.designs.scaling import design
from mechanisms.statistics.logistic_regression import LogisticRegression, SignedCodes
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.weights import weighing, weights_of


def _itself(objective: Callable[[Data], Objective]) -> Callable[[Data], Sequence[Objective]]:
    """Return what leads to what is estimated: the minimiser without ridge and tilt."""
    return lambda data: [objective(data)]


@weighing
def calibrate_logistic(
    statistic: LogisticRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a logistic regression, epsilon-DP."""
    return plan_fit(
        PerturbedLogistic,
        statistic,
        schema,
        epsilon,
        norm,
        scaling=statistic.scaling(schema),
        loss=_logistic(statistic, schema),
        newton=Newton(ms_per_cell=1e-4, passes=13),
        q=None if statistic.q == "auto" else as_written(statistic.q),
    )


def _logistic(statistic: LogisticRegression, schema: Schema) -> Loss:
    return logistic_loss(
        statistic.scaling(schema).dimension, schema.adjacency, statistic.exact_bound
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedLogistic(Perturbed):
    """The parameters of a logistic regression."""

    def drawing(self, statistic: LogisticRegression, schema: Schema) -> Drawing:
        """Return how it is drawn."""
        objective = partial(logistic_objective, statistic, schema)
        return self.drawing_of(
            statistic.scaling(schema), _logistic(statistic, schema), objective, _itself(objective)
        )


def logistic_objective(
    statistic: LogisticRegression, schema: Schema, data: Data
) -> LogisticObjective:
    """Return the logistic loss of private rows."""
    read = SignedCodes.of(statistic, schema)
    rows, mapping = passes(data, read, schema), design(statistic.scaling(schema))
    return LogisticObjective(rows, mapping, weighted=read.weights is not None)


@weighing
def calibrate_poisson(
    statistic: PoissonRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a Poisson regression, epsilon-DP."""
    return plan_fit(
        PerturbedPoisson,
        statistic,
        schema,
        epsilon,
        norm,
        scaling=statistic.scaling(schema),
        loss=_poisson(statistic, schema),
        newton=Newton(ms_per_cell=3e-4, passes=30),
        q=None if statistic.q == "auto" else as_written(statistic.q),
        details={"clipped_mean": float(statistic.counted(schema).upper)},
    )


def _poisson(statistic: PoissonRegression, schema: Schema) -> Loss:
    return poisson_loss(statistic.scaling(schema).dimension, schema.adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedPoisson(Perturbed):
    """The parameters of a Poisson regression."""

    def drawing(self, statistic: PoissonRegression, schema: Schema) -> Drawing:
        """Return how it is drawn."""
        objective = partial(poisson_objective, statistic, schema)
        return self.drawing_of(
            statistic.scaling(schema), _poisson(statistic, schema), objective, _itself(objective)
        )


def poisson_objective(statistic: PoissonRegression, schema: Schema, data: Data) -> PoissonObjective:
    """Return the clipped Poisson loss of private rows."""
    weights = weights_of(statistic, schema)
    own = () if statistic.offset is None else (statistic.offset,)
    names = (*statistic.names, *own, str(statistic.target))
    return PoissonObjective(
        passes(data, CodeRows(names, weights), schema),
        design(statistic.scaling(schema)),
        constant=statistic.start(schema),
        offset=statistic.offset_width(schema),
        target=statistic.target_shares(schema),
        weighted=weights is not None,
    )


@weighing
def calibrate_multinomial(
    statistic: MultinomialRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a multinomial regression, epsilon-DP."""
    scaling = statistic.scaling(schema)
    return plan_fit(
        PerturbedMultinomial,
        statistic,
        schema,
        epsilon,
        norm,
        scaling=scaling,
        loss=_softmax(statistic, schema),
        newton=Newton(ms_per_cell=1e-3 * len(scaling.levels), passes=20),
        q=None if statistic.q == "auto" else as_written(statistic.q),
        details={"reference": statistic.reference_of(schema), "levels": list(scaling.levels)},
    )


def _softmax(statistic: MultinomialRegression, schema: Schema) -> Loss:
    scaling = statistic.scaling(schema)
    return softmax_loss(scaling.plain.dimension, len(scaling.levels), schema.adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedMultinomial(Perturbed):
    """The parameters of a multinomial regression."""

    def drawing(self, statistic: MultinomialRegression, schema: Schema) -> Drawing:
        """Return how it is drawn."""
        objective = partial(multinomial_objective, statistic, schema)
        return self.drawing_of(
            statistic.scaling(schema), _softmax(statistic, schema), objective, _itself(objective)
        )


def multinomial_objective(
    statistic: MultinomialRegression, schema: Schema, data: Data
) -> SeveralObjective:
    """Return the multinomial loss of private rows."""
    weights, scaling = weights_of(statistic, schema), statistic.scaling(schema)
    read = MarkedRows(statistic.names, statistic.marks(schema), weights)
    return softmax_objective(
        passes(data, read, schema, width=read.width),
        design(scaling.plain),
        len(scaling.levels),
        weighted=weights is not None,
    )


@weighing
def calibrate_cox(
    statistic: CoxRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a Cox regression, epsilon-DP."""
    scaling = statistic.scaling(schema)
    return plan_fit(
        PerturbedCox,
        statistic,
        schema,
        epsilon,
        norm,
        scaling=scaling,
        loss=_hazards(statistic, schema),
        newton=Newton(ms_per_cell=1e-3 * len(scaling.intervals), passes=30),
        q=None if statistic.q == "auto" else as_written(statistic.q),
        details={
            "clipped_hazard": float(statistic.exact_ceiling),
            "times": [float(each) for each in scaling.times],
        },
    )


def _hazards(statistic: CoxRegression, schema: Schema) -> Loss:
    scaling = statistic.scaling(schema)
    return hazard_loss(
        len(scaling.intervals), len(scaling.features), statistic.exact_ceiling, schema.adjacency
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedCox(Perturbed):
    """The parameters of a Cox regression."""

    def drawing(self, statistic: CoxRegression, schema: Schema) -> Drawing:
        """Return how it is drawn."""
        objective = partial(cox_objective, statistic, schema)
        unclipped = partial(cox_objective, statistic, schema, ceiling=LARGEST_CEILING)
        return self.drawing_of(
            statistic.scaling(schema),
            _hazards(statistic, schema),
            objective,
            lambda data: [objective(data), unclipped(data)],
        )


def cox_objective(
    statistic: CoxRegression, schema: Schema, data: Data, *, ceiling: Fraction | None = None
) -> SeveralObjective:
    """Return the clipped likelihood of private rows, in coordinates of the statistic's ceiling.

    ``ceiling`` is another one, beyond which its hazards are clipped.
    """
    weights, scaling = weights_of(statistic, schema), statistic.scaling(schema)
    own = () if statistic.offset is None else (statistic.offset,)
    read = MarkedRows((*statistic.names, *own), statistic.marks(schema), weights)
    return hazard_objective(
        passes(data, read, schema, width=read.width),
        design(scaling.plain),
        ceiling=scaling.ceiling if ceiling is None else ceiling,
        starts=scaling.starts,
        offset=statistic.offset_width(schema),
        weighted=weights is not None,
    )


# Quantile regression

_NARROWED = 4
_FEW = 3
_BY_KNG = (
    "kng has about a third of the error, as a job. "
    "It takes a second as a rule, and no bound on its time is proved."
)
"""Measured with up to :data:`_FEW` coefficients: 0.30 to 0.40 (``studies.choices --others``)."""


@weighing
def calibrate_quantile_regression(
    statistic: QuantileRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a quantile regression, epsilon-DP."""
    dimension = statistic.scaling(schema).dimension
    width = smoothing_width(epsilon.fraction, dimension, schema.known_rows)
    plan = plan_fit(
        PerturbedQuantileRegression,
        statistic,
        schema,
        epsilon,
        norm,
        scaling=statistic.scaling(schema),
        loss=_smoothed(statistic, schema, width),
        newton=Newton(ms_per_cell=2e-4, passes=24),
        width=width,
        details={"smoothing_width": float(width)},
    )
    if dimension > _FEW:
        return plan
    hull = statistic.intercept and 2 * statistic.exact_tau != 1 and schema.known_rows is not None
    other = Alternative("kng", "optimal" if hull else "linf", _BY_KNG)
    return replace(
        plan,
        reason=f"{plan.reason} {_BY_KNG}",
        alternatives=(other, *plan.alternatives),
    )


def _smoothed(statistic: QuantileRegression, schema: Schema, width: Fraction) -> Loss:
    return smoothed_check_loss(
        statistic.scaling(schema).dimension,
        statistic.exact_tau,
        width,
        intercept=statistic.intercept,
        adjacency=schema.adjacency,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedQuantileRegression(Perturbed):
    """The parameters of a quantile regression; ``width`` is that of the smoothed loss."""

    width: Fraction

    def drawing(self, statistic: QuantileRegression, schema: Schema) -> Drawing:
        """Return how it is drawn."""
        objective = partial(smoothed_check_objective, statistic, self.width, schema)
        return self.drawing_of(
            statistic.scaling(schema),
            _smoothed(statistic, schema, self.width),
            objective,
            partial(_narrower, statistic, self.width, schema),
        )


def _narrower(
    statistic: QuantileRegression, width: Fraction, schema: Schema, data: Data
) -> list[SmoothedCheckObjective]:
    """Return the loss with ever less smoothing, down to next to none."""
    found = []
    while width > NARROWEST:
        width = max(width / _NARROWED, NARROWEST)
        found.append(smoothed_check_objective(statistic, width, schema, data))
    return found


def smoothed_check_objective(
    statistic: QuantileRegression, width: Fraction, schema: Schema, data: Data
) -> SmoothedCheckObjective:
    """Return the smoothed check loss of private rows."""
    scaling = statistic.scaling(schema)
    assert scaling.target is not None
    mapping, target, columns = design(scaling), scaling.target, scaling.columns
    weights = weights_of(statistic, schema)
    # Sums over records of 1 and of each feature's code / F; the target comes last, and is not one.
    codes = sums_of_codes(data, columns, weights)[:-1]
    return SmoothedCheckObjective(
        passes(data, CodeRows(tuple(columns), weights), schema),
        mapping,
        target=(Fraction(target.offset, target.divisor), target.slope),
        tau=statistic.exact_tau,
        width=width,
        totals=[
            sum((w * a for w, a in zip(row, codes, strict=True)), Fraction(0))
            for row in mapping.matrix()
        ],
        weighted=weights is not None,
    )
