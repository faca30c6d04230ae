"""Quantile regression by objective perturbation of the check loss, smoothed by a public width."""

from __future__ import annotations

from fractions import Fraction

from mechanisms.contract import Data, Plan
from mechanisms.domain import Schema
from mechanisms.objectives.losses import SmoothedCheckObjective, smoothed_check_loss
from mechanisms.perturbation.calibration import smoothing_width
from mechanisms.perturbation.release import Newton, plan_fit
from mechanisms.privacy import PrivacyLoss
from mechanisms.statistics.designs.rows import CodeRows, passes, sums_of_codes
from mechanisms.statistics.designs.scaling import design
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.weights import weighing, weights_of


@weighing
def calibrate_quantile_regression(
    statistic: QuantileRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a quantile regression, epsilon-DP."""
    dimension = statistic.scaling(schema).dimension
    width = smoothing_width(epsilon.fraction, dimension, schema.known_rows)
    return plan_fit(
        statistic,
        schema,
        epsilon,
        norm,
        objective=lambda data: smoothed_check_objective(statistic, width, schema, data),
        loss=smoothed_check_loss(
            dimension,
            statistic.exact_tau,
            width,
            intercept=statistic.intercept,
            adjacency=schema.adjacency,
        ),
        bound=statistic.exact_bound,
        newton=Newton(ms_per_cell=2e-4, passes=24),
        details={"smoothing_width": float(width)},
    )


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
