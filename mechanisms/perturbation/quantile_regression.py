"""Quantile regression by objective perturbation of the check loss, smoothed by a public width."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from mechanisms.contract import Data, Drawing, Plan
from mechanisms.domain import Schema
from mechanisms.objectives.losses import Loss, SmoothedCheckObjective, smoothed_check_loss
from mechanisms.perturbation.calibration import NARROWEST, smoothing_width
from mechanisms.perturbation.release import Newton, Perturbed, plan_fit
from mechanisms.privacy import PrivacyLoss
from mechanisms.statistics.designs.rows import CodeRows, passes, sums_of_codes
from mechanisms.statistics.designs.scaling import design
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.weights import weighing, weights_of

_NARROWED = 4


@weighing
def calibrate_quantile_regression(
    statistic: QuantileRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a quantile regression, epsilon-DP."""
    dimension = statistic.scaling(schema).dimension
    width = smoothing_width(epsilon.fraction, dimension, schema.known_rows)
    return plan_fit(
        PerturbedQuantileRegression,
        statistic,
        schema,
        epsilon,
        norm,
        scaling=statistic.scaling(schema),
        loss=_loss(statistic, schema, width),
        newton=Newton(ms_per_cell=2e-4, passes=24),
        width=width,
        details={"smoothing_width": float(width)},
    )


def _loss(statistic: QuantileRegression, schema: Schema, width: Fraction) -> Loss:
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
            _loss(statistic, schema, self.width),
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
