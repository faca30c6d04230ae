"""Extended objective perturbation (Awan & Slavkovic, Algorithm 2, Theorem 5.1), exact.

    theta = argmin over Theta of  sum_i l(theta; record i) + gamma/2 ||theta||^2 + V'theta
    V ~ exp(-(epsilon q / Delta) ||V||_K),   gamma = lambda / (exp(epsilon (1 - q)) - 1)

Delta bounds the K-norm of the difference of two records' gradients (of one
record's under add-remove) at any theta in Theta; lambda bounds the only
eigenvalue of a record's Hessian. This module plans what the service offers;
:class:`mechanisms.perturbation.calibration.Perturbation` is the mechanism itself, for

- losses: squared, logistic, the check loss smoothed by a logistic kernel
  (:mod:`mechanisms.objectives.smoothed_check`), Huber's
  (:mod:`mechanisms.objectives.huber`, with why its jumping Hessian does no harm). Their
  constants are derived in :mod:`mechanisms.objectives.losses`. Smoothing is a public
  choice of what is minimised: it costs accuracy, not privacy, as Delta is the
  check loss' own and lambda = d / (4 h) is exact;
- norms: l1, l2, l-infinity, and any body K (:mod:`mechanisms.samplers.bodies`), such as
  polytopes and the hull of a quantile regression's changes (norm "optimal");
- regions Theta: R^d, l1, l2 and l-infinity balls, boxes (:mod:`mechanisms.samplers.regions`);
- public convex regularisers r (:mod:`mechanisms.objectives.regularised`).

**Errors in print.** Algorithm 2 has exp(epsilon (q - 1)) - 1, which is negative.

**What is exact.** V is drawn as lazy reals (:mod:`mechanisms.exact.continuous`),
the objective is defined by integer codes, and the minimiser is rounded to a
public grid only where a certificate says which point is right
(:mod:`mechanisms.samplers.minimiser`). gamma is an exact rational, rounded up,
and never below 2**-20: more ridge is still private, and with less neither the
certificate nor an answer on separable data would stay finite in practice.

**Why a constraint costs nothing.** Let Pi be the projection onto Theta and put
``z = theta - grad L(theta) - gamma theta - V``; then theta = Pi(z), so releasing
theta is post-processing of z. As a function of z, V = Pi(z) - z - (grad L + gamma)(Pi(z)),
a Lipschitz bijection of R^d with ``dV/dz = -M``, ``M = (H + gamma I) P + I - P``, where
H is the Hessian of the sum (r included) at theta and P the derivative of Pi, which exists
almost everywhere and is symmetric with 0 <= P <= I. For neighbours, V differs by the
difference of two gradients at the same theta: the tilt's densities are within
exp(epsilon q). Let M_0 be M for the records in common; a record with Hessian
w x x' makes it M_0 + w x x'P, whose determinant is ``det(M_0) (1 + w x'P M_0^-1 x)``.
For invertible P, ``P M_0^-1 = (C + gamma I + P^-1 - I)^-1`` with C >= 0, and P^-1 >= I, so
``0 <= gamma x'P M_0^-1 x <= ||x||^2``; a singular P is a limit of such. With
w ||x||^2 <= lambda the determinants are within 1 + lambda/gamma <= exp(epsilon (1 - q)),
as without the constraint.

**Privacy.** epsilon-DP, pure, for either adjacency; under add-remove no constant
depends on the row count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import (
    Alternative,
    Data,
    InvalidStatisticError,
    Outcome,
    Plan,
    Statistic,
    no_noise,
)
from mechanisms.domain import CODE_MAX, Schema
from mechanisms.objectives.logistic import LogisticObjective
from mechanisms.objectives.losses import (
    Loss,
    Norm,
    logistic_loss,
    smoothed_check_loss,
    squared_loss,
)
from mechanisms.objectives.quadratic import LeastSquaresObjective
from mechanisms.objectives.smoothed_check import SmoothedCheckObjective
from mechanisms.perturbation.calibration import (
    Perturbation,
    automatic_q,
    ridge,
    smoothing_width,
    step_exponent,
)
from mechanisms.privacy import Adjacency, Guarantee, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.samplers.objective import Objective
from mechanisms.samplers.regions import l1_region
from mechanisms.statistics.designs.rows import code_rows
from mechanisms.statistics.designs.scaling import RegressionScaling, design
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression, signed_rows
from mechanisms.statistics.quantile_regression import QuantileRegression

THEOREM = "Awan & Slavkovic 2021, Theorem 5.1 (extended objective perturbation)"

Regression = LinearRegression | LogisticRegression | QuantileRegression
Rows = NDArray[np.float64]

_CACHED_BYTES = 1 << 29
_MS_PER_ENTRY = 0.03


def calibrate(statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str) -> Plan:
    """Return the plan of a release by objective perturbation.

    Parameters
    ----------
    statistic : LinearRegression, LogisticRegression or QuantileRegression
        The question.
    norm : {"auto", "linf", "l2", "l1", "optimal"}
        The norm of the tilt; auto is the hull's where one is offered, else linf,
        whose coordinates vary least of the three.

    Raises
    ------
    InvalidStatisticError
        The statistic does not fit the schema, or is not offered here.

    Notes
    -----
    **Privacy.** Theorem 5.1; Delta and lambda as :class:`Loss` derives them.
    """
    statistic.check(schema)
    norms = statistic.mechanisms.get("objective_perturbation", ())
    if norms and norm not in ("auto", *norms):
        raise InvalidStatisticError(
            f"objective_perturbation offers the norms {', '.join(norms)}", field_name="norm"
        )
    best = "optimal" if "optimal" in norms else "linf"
    chosen = cast(Norm, best if norm == "auto" else norm)
    if isinstance(statistic, LogisticRegression):
        draw = _logistic(statistic, schema, epsilon, chosen)
    elif isinstance(statistic, LinearRegression):
        draw = _linear(statistic, schema, epsilon, chosen)
    elif isinstance(statistic, QuantileRegression):
        draw = _quantile(statistic, schema, epsilon, chosen)
    else:
        raise InvalidStatisticError(
            "objective_perturbation releases linear_regression, logistic_regression and "
            "quantile_regression",
            field_name="mechanism",
        )
    return _plan(draw, schema, epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivePerturbation:
    """A calibrated draw; every field is public."""

    statistic: Regression
    schema: Schema
    scaling: RegressionScaling
    objective: Callable[[Data], Objective]
    loss: Loss
    norm: Norm
    epsilon: Fraction
    q: Fraction
    ridge: Fraction
    bound: Fraction | None
    step_exponent: int
    ms_per_cell: float
    details: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Draw one answer, in the columns' units."""
        step = Fraction(2) ** self.step_exponent
        theta = [step * index for index in self.indices(self.objective(data), randomness)]
        coefficients = self.scaling.unscale(theta)
        return Outcome(
            value={"coefficients": {name: float(x) for name, x in coefficients.items()}},
            noise=None,
        )

    @property
    def expected_ms(self) -> float:
        """Return the time of Newton's method over the rows, and of linear algebra."""
        d = self.loss.dimension
        return self.ms_per_cell * self.schema.row_bound * d + _MS_PER_ENTRY * d**2

    def indices(self, objective: Objective, randomness: Randomness) -> tuple[int, ...]:
        """Return theta on the public grid, as integers."""
        hull = self.loss.hull if self.norm == "optimal" else None
        drawn = Perturbation(
            dimension=self.loss.dimension,
            norm=hull or ("linf" if self.norm == "optimal" else self.norm),
            sensitivity_squared=self.loss.sensitivity_squared(self.norm),
            epsilon=self.epsilon,
            q=self.q,
            ridge=self.ridge,
            region=l1_region(self.bound),
            step_exponent=self.step_exponent,
        )
        return drawn.indices(objective, randomness)


def logistic_objective(
    statistic: LogisticRegression, schema: Schema, data: Data
) -> LogisticObjective:
    """Return the logistic loss of private rows."""
    mapping = design(statistic.scaling(schema))
    rows = _passes(lambda: signed_rows(statistic, schema, data), schema, len(mapping.slopes) + 1)
    return LogisticObjective(rows, mapping)


def smoothed_check_objective(
    statistic: QuantileRegression, width: Fraction, schema: Schema, data: Data
) -> SmoothedCheckObjective:
    """Return the smoothed check loss of private rows."""
    scaling = statistic.scaling(schema)
    assert scaling.target is not None
    mapping, target, columns = design(scaling), scaling.target, scaling.columns
    sums = [Fraction(total, CODE_MAX) for total in data.gram(columns)[0]]
    codes = [sums[0] * CODE_MAX, *sums[1:-1]]
    return SmoothedCheckObjective(
        _passes(lambda: code_rows(data, columns), schema, len(columns) + 1),
        mapping,
        target=(Fraction(target.offset, target.divisor), target.slope),
        tau=statistic.exact_tau,
        width=width,
        totals=[
            sum((w * a for w, a in zip(row, codes, strict=True)), Fraction(0))
            for row in mapping.matrix()
        ],
    )


def _passes(
    read: Callable[[], Iterator[Rows]], schema: Schema, columns: int
) -> Callable[[], Iterable[Rows]]:
    """Return what yields the rows once per pass.

    They are kept in memory between passes when the *public* row count (or its
    bound) allows it, and read again for each pass otherwise.
    """
    if schema.row_bound * columns * 8 > _CACHED_BYTES:
        return read
    chunks = list(read())
    return lambda: chunks


def _logistic(
    statistic: LogisticRegression, schema: Schema, epsilon: PrivacyLoss, norm: Norm
) -> ObjectivePerturbation:
    scaling = statistic.scaling(schema)
    return _calibrated(
        statistic,
        schema,
        epsilon,
        objective=lambda data: logistic_objective(statistic, schema, data),
        loss=logistic_loss(scaling.dimension, schema.adjacency),
        norm=norm,
        ms_per_cell=1e-4,
        wanted=None if statistic.q == "auto" else Fraction(repr(statistic.q)),
        bound=None if statistic.bound is None else Fraction(repr(float(statistic.bound))),
    )


def _linear(
    statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss, norm: Norm
) -> ObjectivePerturbation:
    if statistic.ridge is not None:
        raise InvalidStatisticError(
            "objective_perturbation sets its own ridge; leave it out", field_name="ridge"
        )
    scaling, bound = statistic.scaling(schema), statistic.exact_bound

    def objective(data: Data) -> LeastSquaresObjective:
        normal = scaling.normal_equations(data.gram(scaling.columns))
        return LeastSquaresObjective(normal.xx, normal.xy)

    return _calibrated(
        statistic,
        schema,
        epsilon,
        objective=objective,
        loss=squared_loss(scaling.dimension, bound, schema.adjacency),
        norm=norm,
        bound=bound,
        ms_per_cell=0.0,  # the sketches hold the sums
    )


def _quantile(
    statistic: QuantileRegression, schema: Schema, epsilon: PrivacyLoss, norm: Norm
) -> ObjectivePerturbation:
    dimension = statistic.scaling(schema).dimension
    width = smoothing_width(epsilon.fraction, dimension, _public_rows(schema))
    return _calibrated(
        statistic,
        schema,
        epsilon,
        objective=lambda data: smoothed_check_objective(statistic, width, schema, data),
        loss=smoothed_check_loss(
            dimension,
            statistic.exact_tau,
            width,
            intercept=statistic.intercept,
            adjacency=schema.adjacency,
        ),
        norm=norm,
        bound=statistic.exact_bound,
        ms_per_cell=2e-4,
        details={"smoothing_width": float(width)},
    )


def _public_rows(schema: Schema) -> int | None:
    """Return n where it is public, None under add-remove."""
    return schema.rows if schema.adjacency is Adjacency.REPLACE_ONE else None


def _calibrated(
    statistic: Regression,
    schema: Schema,
    epsilon: PrivacyLoss,
    *,
    objective: Callable[[Data], Objective],
    loss: Loss,
    norm: Norm,
    bound: Fraction | None,
    ms_per_cell: float,
    wanted: Fraction | None = None,
    details: Mapping[str, float] | None = None,
) -> ObjectivePerturbation:
    exact = epsilon.fraction
    q = automatic_q(exact, loss, norm, _public_rows(schema)) if wanted is None else wanted
    gamma = ridge(exact, q, loss.eigenvalue)
    spread = loss.tilt_std(norm, float(exact * q))
    return ObjectivePerturbation(
        statistic=statistic,
        schema=schema,
        scaling=statistic.scaling(schema),
        objective=objective,
        loss=loss,
        norm=norm,
        epsilon=exact,
        q=q,
        ridge=gamma,
        bound=bound,
        step_exponent=step_exponent(spread, gamma, loss, schema.row_bound, l1_region(bound)),
        ms_per_cell=ms_per_cell,
        details=details or {},
    )


def _plan(draw: ObjectivePerturbation, schema: Schema, epsilon: PrivacyLoss) -> Plan:
    step = Fraction(2) ** draw.step_exponent
    unit_slopes = [Fraction(0)] * draw.loss.dimension
    steps: dict[str, float] = {}
    for index, name in enumerate(draw.scaling.names):
        single = [step if j == index else zero for j, zero in enumerate(unit_slopes)]
        steps[name] = float(draw.scaling.unscale(single)[name])
    return Plan(
        mechanism="objective_perturbation",
        norm=draw.norm,
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity=draw.loss.sensitivity_text(draw.norm),
            sensitivity_unit=f"{draw.norm} norm of a change in the gradient, scaled columns",
            theorem=THEOREM,
        ),
        grid={"coefficients": steps, "scaled": float(step)},
        reason=_reason(draw),
        draw=draw,
        preview=no_noise,
        expected_ms=draw.expected_ms,
        time_depends_on_data=True,
        alternatives=_alternatives(draw),
        details={
            "noise": "Not stated: the tilt's law is known (tilt_std), but how far it moves the "
            "coefficients depends on the private curvature.",
            "q": float(draw.q),
            "gamma": float(draw.ridge),
            "lambda": float(draw.loss.eigenvalue),
            "bound": None if draw.bound is None else float(draw.bound),
            "sensitivity_is": "a certified upper bound",
            "tilt_std": draw.loss.tilt_std(draw.norm, float(draw.epsilon * draw.q)),
            **draw.details,
        },
    )


def _reason(draw: ObjectivePerturbation) -> str:
    if draw.norm == "optimal" and draw.loss.hull is not None:
        return (
            "The hull of all changes of the gradient lies inside the l-infinity ball of radius "
            "Delta_inf, so given its direction the noise is no larger "
            "(Awan & Slavkovic, Theorem 4.5)."
        )
    if draw.norm in ("linf", "optimal"):
        return (
            "A gradient's entries can all change by Delta_inf at once, so the l-infinity ball "
            "fits the adjacent output space best (Awan & Slavkovic, Theorem 4.12, section 5.1)."
        )
    return "The norm was asked for; linf has the smaller noise in every coordinate."


def _alternatives(draw: ObjectivePerturbation) -> tuple[Alternative, ...]:
    budget = float(draw.epsilon * draw.q)
    here = draw.loss.tilt_std(draw.norm, budget)
    found: list[Alternative] = []
    for norm in draw.statistic.mechanisms["objective_perturbation"]:
        if norm != draw.norm:
            there = draw.loss.tilt_std(cast(Norm, norm), budget)
            text = (
                f"standard deviation of the tilt per coordinate {there / here:.2f} times as large"
            )
            found.append(Alternative("objective_perturbation", norm, text, there))
    return tuple(found)
