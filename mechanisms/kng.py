"""The K-norm gradient mechanism (Reimherr & Awan 2019, Theorem 3.1).

    f(theta) ∝ exp(-epsilon / (2 Delta) * ||grad l_n(theta; D)||_K),

on a bounded convex set and with respect to any base measure that does not
depend on the data. This module dispatches on the statistic and holds the
quantile; :mod:`mechanisms.kng_linear` holds linear regression.

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

from dataclasses import dataclass
from fractions import Fraction

from mechanisms.domain import CODE_MAX, NumberColumn, Schema
from mechanisms.kng_linear import calibrate_linear
from mechanisms.privacy import Epsilon, Guarantee
from mechanisms.randomness import Randomness
from mechanisms.samplers.intervals import GridCodes, draw_point
from mechanisms.statistics.base import (
    Data,
    InvalidStatisticError,
    Noise,
    Outcome,
    Plan,
    Statistic,
    require_numbers,
)
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.quantile import Quantile, decimal_text, gradient_sensitivity

THEOREM = "Reimherr & Awan 2019 (KNG), Theorem 3.1"


def calibrate(statistic: Statistic, schema: Schema, epsilon: Epsilon, norm: str) -> Plan:
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
    raise InvalidStatisticError(
        "kng releases quantile and linear_regression", field_name="mechanism"
    )


def calibrate_quantile(statistic: Quantile, schema: Schema, epsilon: Epsilon, norm: str) -> Plan:
    """Return the plan of a quantile release, epsilon-DP in total over all levels."""
    statistic.check(schema)
    if norm not in ("auto", *Quantile.mechanisms["kng"]):
        raise InvalidStatisticError("quantile by kng offers the norm linf", field_name="norm")
    (column,) = require_numbers(schema, [statistic.column], "column")
    levels = statistic.exact_levels()
    deltas = [gradient_sensitivity(level, schema.adjacency) for level in levels]
    draw = _QuantileDraw(
        name=statistic.column,
        column=column,
        levels=levels,
        rates=tuple(epsilon.fraction / len(levels) / (2 * delta) for delta in deltas),
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
            "epsilon_per_level": str(epsilon.fraction / len(levels)),
            "sensitivities": [
                {"level": decimal_text(level), "sensitivity": decimal_text(delta)}
                for level, delta in zip(levels, deltas, strict=True)
            ],
        },
    )


@dataclass(frozen=True, slots=True)
class _QuantileDraw:
    """Draws one point per level, sorts them, and returns them in the column's units."""

    name: str
    column: NumberColumn
    levels: tuple[Fraction, ...]
    rates: tuple[Fraction, ...]

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        codes, counts = data.ordered(self.name)
        low, high = -CODE_MAX, CODE_MAX
        if self.column.boolean:
            low, high, codes = 0, 1, (codes + CODE_MAX) // (2 * CODE_MAX)
        grid = GridCodes.count(codes, counts, low=low, high=high)
        points = sorted(
            draw_point(grid, level=level, rate=rate, randomness=randomness)
            for level, rate in zip(self.levels, self.rates, strict=True)
        )
        released = dict(zip(sorted(self.levels), points, strict=True))
        quantiles = [
            {"level": decimal_text(level), "value": self._value(released[level])}
            for level in self.levels
        ]
        return Outcome(value={"quantiles": quantiles}, noise=None)

    def _value(self, point: int) -> float:
        return float(point if self.column.boolean else self.column.decode(point))


def _no_noise(assumed_rows: int | None) -> Noise | None:  # noqa: ARG001
    """Return None: the law of a quantile depends on the data."""
    return None
