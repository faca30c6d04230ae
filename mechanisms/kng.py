"""The K-norm gradient mechanism (Reimherr & Awan 2019, Theorem 3.1).

    f(theta) ∝ exp(-epsilon / (2 Delta) * ||grad l_n(theta; D)||_K),

on a bounded convex set and with respect to any base measure that does not
depend on the data. This module dispatches on the statistic and holds the
quantile; :mod:`mechanisms.kng_linear` holds linear regression and
:mod:`mechanisms.kng_boxes` what is drawn on boxes.

*Quantile.* The base measure is the counting measure on the column's public
grid (a boolean column's grid is {0, 1}). The gradient at t is
``#{y <= t} - tau n``, an exact multiple of 1e-9, and Delta is exact
(:func:`mechanisms.statistics.quantile.gradient_sensitivity`); where t equals a
record the check loss has a kink, and the smallest subgradient counts. The draw
is exact: :mod:`mechanisms.samplers.intervals`. In one dimension all norms agree.

*Several levels* are drawn one by one, each with an equal part of epsilon, then
sorted, which is post-processing.
"""

from __future__ import annotations

from mechanisms.domain import Schema
from mechanisms.kng_boxes import calibrate_quantile_regression
from mechanisms.kng_linear import calibrate_linear
from mechanisms.privacy import Guarantee, PrivacyLoss
from mechanisms.samplers.intervals import draw_point
from mechanisms.statistics.base import (
    InvalidStatisticError,
    Noise,
    Plan,
    Statistic,
    require_numbers,
)
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.quantile import Quantile, decimal_text, gradient_sensitivity
from mechanisms.statistics.quantile_draw import EachLevelAlone, QuantileDraw
from mechanisms.statistics.quantile_regression import QuantileRegression

THEOREM = "Reimherr & Awan 2019 (KNG), Theorem 3.1"


def calibrate(statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str) -> Plan:
    """Return the plan of a K-norm gradient release.

    Raises
    ------
    InvalidStatisticError
        The statistic does not fit the schema, or has no K-norm gradient release.
    """
    if isinstance(statistic, Quantile):
        return calibrate_quantile(statistic, schema, epsilon, norm)
    if isinstance(statistic, LinearRegression):
        return calibrate_linear(statistic, schema, epsilon, norm)
    if isinstance(statistic, QuantileRegression):
        return calibrate_quantile_regression(statistic, schema, epsilon, norm)
    raise InvalidStatisticError(
        "kng releases quantile, linear_regression and quantile_regression", field_name="mechanism"
    )


def calibrate_quantile(
    statistic: Quantile, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a quantile release, epsilon-DP in total over all levels."""
    statistic.check(schema)
    if norm not in ("auto", *Quantile.mechanisms["kng"]):
        raise InvalidStatisticError("quantile by kng offers the norm linf", field_name="norm")
    (column,) = require_numbers(schema, [statistic.column], "column")
    levels = statistic.exact_levels()
    deltas = [gradient_sensitivity(level, schema.adjacency) for level in levels]
    draw = QuantileDraw(
        name=statistic.column,
        column=column,
        levels=levels,
        sampler=EachLevelAlone(
            levels=levels,
            rates=tuple(epsilon.fraction / len(levels) / (2 * delta) for delta in deltas),
            point=draw_point,
        ),
    )
    return Plan(
        mechanism="kng",
        norm="linf",
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity=decimal_text(max(deltas)),
            sensitivity_unit="records at or below a value (largest over the levels)",
            theorem=THEOREM,
        ),
        grid={statistic.column: float(1 if column.boolean else column.step)},
        reason="One dimension: every norm gives the same law, drawn exactly on the public grid.",
        draw=draw,
        preview=_no_noise,
        details={
            "noise": "Not stated: an exact draw from the K-norm gradient law, whose spread depends "
            "on how the records lie around each level.",
            "epsilon_per_level": str(epsilon.fraction / len(levels)),
            "sensitivities": [
                {"level": decimal_text(level), "sensitivity": decimal_text(delta)}
                for level, delta in zip(levels, deltas, strict=True)
            ],
        },
    )


def _no_noise(assumed_rows: int | None) -> Noise | None:  # noqa: ARG001
    """Return None: the law of a quantile depends on the data."""
    return None
