"""Formulas that the papers print wrongly, each on neighbours that reveal the error.

A trial is a pair of neighbours, the event of the audit, and the law twice: as printed, and
corrected. Draws are the shipped ones wherever a shipped sampler takes a printed constant. With a
negative ridge there is no such sampler; then the tilted loss is minimised by search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.catalog import calibrate
from mechanisms.contract import Plan, Statistic
from mechanisms.domain import NumberColumn, Schema
from mechanisms.kng.quantile_regression import QuantileRegressionDraw
from mechanisms.objectives.losses import gradient_sensitivity
from mechanisms.perturbation.calibration import ridge
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import Randomness
from mechanisms.samplers.intervals import GridCodes, draw_point
from mechanisms.samplers.knorm import draw_in_ball
from mechanisms.sketches import ArrayData, distinct
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.quantile_regression import QuantileRegression
from studies.figures.cells import Dice

Values = NDArray[np.float64]
Pair = tuple[Values, Values]

EPSILON = Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One printed error: its place, its neighbours' rows, and what to do with them.

    Attributes
    ----------
    exact
        Returns the largest log ratio of the two laws, or that of the event where ``of_event``.
        Takes whether the law is as printed; it is not asked for that where ``infinite``.
    counts
        Returns how often the event happened under each neighbour, in a number of draws.
    draws
        Per data set, in the full study.
    """

    panel: str
    printed: str
    right: str
    rows: int
    event: str
    exact: Callable[[bool], float]
    counts: Callable[[bool, Dice, int], tuple[int, int]]
    draws: int
    of_event: bool = False
    infinite: bool = False


# Quantiles: KNG (3) ---------------------------------------------------------------------------

GRID_END = 40
_ROWS = 10


def quantile_codes(level: Fraction) -> tuple[list[int], list[int]]:
    """Return tau n records at 0, one at 2 and the rest at the end; one of them moves to the end.

    Over most of the grid the score then falls from 1 to 0, and at 0 and 1 it rises by 1.
    """
    low = int(level * _ROWS)
    rest = [GRID_END] * (_ROWS - low - 1)
    return [0] * low + [2, *rest], [0] * (low - 1) + [2, GRID_END, *rest]


def quantile_rate(level: Fraction, *, printed: bool) -> Fraction:
    """Return epsilon / (2 Delta), Delta = 2 (1 - tau) as printed, and 1."""
    return EPSILON / (2 * (2 * (1 - level) if printed else 1))


def quantile_loss(level: Fraction, *, printed: bool) -> float:
    """Return the largest log ratio over the grid."""
    rate, points = float(quantile_rate(level, printed=printed)), np.arange(GRID_END + 1)
    logs = []
    for codes in quantile_codes(level):
        under, reached = (np.searchsorted(codes, points, side=side) for side in ("left", "right"))
        target = float(level * _ROWS)
        exponent = -rate * np.maximum(0, np.maximum(under - target, target - reached))
        logs.append(exponent - np.log(np.exp(exponent).sum()))
    return float(np.abs(logs[0] - logs[1]).max())


def _quantile_counts(printed: bool, dice: Dice, draws: int) -> tuple[int, int]:
    level = Fraction(9, 10)
    rate = quantile_rate(level, printed=printed)
    found = []
    for codes in quantile_codes(level):
        held = distinct(np.array(codes, dtype=np.int32))
        grid = GridCodes.count(*held, low=0, high=GRID_END)
        found.append(
            sum(
                draw_point(grid, level=level, rate=rate, randomness=dice.draws) <= 1
                for _ in range(draws)
            )
        )
    return found[0], found[1]


QUANTILE = Trial(
    panel="quantile, tau = 0.9: KNG (3)",
    printed="Delta = 2 (1 - tau)",
    right="1",
    rows=_ROWS,
    event="t <= 1",
    exact=lambda printed: quantile_loss(Fraction(9, 10), printed=printed),
    counts=_quantile_counts,
    draws=60_000,
)

# Quantile regression: KNG (2) -----------------------------------------------------------------

_UNIT = NumberColumn(lower=Fraction(-1), upper=Fraction(1))
_TAU, _EDGE = Fraction(9, 10), 0.75
_SLOPES: tuple[Pair, Pair] = (
    (np.array([1.0, -0.8, 1.0]), np.array([_EDGE, -0.8 * _EDGE, 1.0])),
    (np.array([1.0, -0.8, -1.0]), np.array([_EDGE, -0.8 * _EDGE, 1.0])),
)
"""Two records change the gradient's sign at the edge; the third record's x is turned round."""

_BINS = 40_000


def _slope_delta(*, printed: bool) -> Fraction:
    right = gradient_sensitivity(_TAU, Adjacency.REPLACE_ONE)
    return 2 * (1 - _TAU) if printed else right


def _slope_loss(printed: bool) -> float:
    theta = -1 + (2 * np.arange(_BINS) + 1) / _BINS
    rate = float(EPSILON / (2 * _slope_delta(printed=printed)))
    logs = []
    for x, y in _SLOPES:
        gradient = ((y <= np.outer(theta, x)) - float(_TAU)) @ x
        exponent = -rate * np.abs(gradient)
        logs.append(exponent - np.log(np.exp(exponent).sum()))
    return float(np.abs(logs[0] - logs[1]).max())


def _slope_counts(printed: bool, dice: Dice, draws: int) -> tuple[int, int]:
    asked = QuantileRegression(
        target="y", features=("x",), intercept=False, tau=float(_TAU), bound=1.0
    )
    columns = {"x": _UNIT, "y": _UNIT}
    plan = _planned(asked, columns, rows=3, mechanism="kng")
    assert isinstance(plan.draw, QuantileRegressionDraw)
    drawn = replace(plan.draw, rate=EPSILON / (2 * _slope_delta(printed=printed)))
    return _coefficients_above(drawn, columns, _SLOPES, dice.draws, draws)


def _coefficients_above(
    drawn: QuantileRegressionDraw,
    columns: dict[str, NumberColumn],
    pair: Sequence[Pair],
    randomness: Randomness,
    draws: int,
) -> tuple[int, int]:
    found = []
    for x, y in pair:
        data = _data(columns, x, y)
        values = (drawn(data, randomness).value["coefficients"] for _ in range(draws))
        found.append(sum(value["x"] > _EDGE for value in values if isinstance(value, dict)))
    return found[0], found[1]


SLOPE = Trial(
    panel="quantile regression, tau = 0.9: KNG (2)",
    printed="Delta = 2 (1 - tau)",
    right="2 max(tau, 1 - tau)",
    rows=3,
    event=f"theta > {_EDGE}",
    exact=_slope_loss,
    counts=_slope_counts,
    draws=20_000,
)

# Objective perturbation: SS Algorithm 2, Theorem 5.1 --------------------------------------------

_Q, _INNER = Fraction(1, 2), 0.8
_LABELLED: tuple[Pair, Pair] = (
    (np.array([1.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0])),
    (np.array([1.0, 1.0, 0.0]), np.array([0.0, 1.0, 1.0])),
)
_TILT_RATE = float(EPSILON * _Q / 2)
_GRID_POINTS = 401


def _gamma(*, printed: bool) -> float:
    """Return lambda / (exp(epsilon (q - 1)) - 1), below zero, or with 1 - q in it."""
    if printed:
        return 0.25 / float(np.expm1(float(EPSILON * (_Q - 1))))
    return float(ridge(EPSILON, _Q, Fraction(1, 4)))


def _minimisers(x: Values, y: Values, gamma: float, tilts: Values) -> Values:
    """Return argmin over [-1, 1] of the tilted loss, by search: it need not be convex."""
    grid = np.linspace(-1, 1, _GRID_POINTS)
    t = np.outer(grid, x)
    loss = (np.logaddexp(0, t) - y * t).sum(axis=1) + gamma / 2 * grid**2
    parts = np.array_split(tilts, 1 + len(tilts) // 2000)
    return np.concatenate(
        [grid[np.argmin(loss[:, None] + grid[:, None] * part, axis=0)] for part in parts]
    )


def _inner_loss(printed: bool) -> float:
    """Return the log ratio of the event's probabilities, by quadrature over the tilt.

    As printed it is infinite: the second neighbour's loss is concave then, and least at an end
    whatever the tilt.
    """
    share = (np.arange(_BINS) + 0.5) / _BINS
    tilts = np.where(share < 0.5, np.log(2 * share), -np.log(2 - 2 * share)) / _TILT_RATE
    inside = [
        (np.abs(_minimisers(x, y, _gamma(printed=printed), tilts)) < _INNER).mean()
        for x, y in _LABELLED
    ]
    return float(abs(np.log(inside[0] / inside[1])))


def _inner_counts(printed: bool, dice: Dice, draws: int) -> tuple[int, int]:
    found = []
    for x, y in _LABELLED:
        if printed:
            tilts = dice.data.laplace(scale=1 / _TILT_RATE, size=draws)
            theta = _minimisers(x, y, _gamma(printed=True), tilts)
        else:
            theta = _shipped_fits(x, y, dice.draws, draws)
        found.append(int((np.abs(theta) < _INNER).sum()))
    return found[0], found[1]


def _shipped_fits(x: Values, y: Values, randomness: Randomness, draws: int) -> Values:
    asked = LogisticRegression(target="y", features=("x",), intercept=False, bound=1.0, q=float(_Q))
    flag = NumberColumn(lower=Fraction(0), upper=Fraction(1), boolean=True)
    columns = {"x": _UNIT, "y": flag}
    plan = _planned(asked, columns, rows=3, mechanism="objective_perturbation")
    data = _data(columns, x, y)
    values = (plan.draw(data, randomness).value["coefficients"] for _ in range(draws))
    return np.array([value["x"] for value in values if isinstance(value, dict)])


TILT = Trial(
    panel="objective perturbation: SS Algorithm 2",
    printed="gamma by exp(epsilon (q - 1)) - 1",
    right="exp(epsilon (1 - q)) - 1",
    rows=3,
    event=f"|theta| < {_INNER}",
    exact=_inner_loss,
    counts=_inner_counts,
    draws=60_000,
    of_event=True,
    infinite=True,
)

# The K-norm mechanism in two dimensions: SS Algorithm 8 -----------------------------------------

_DELTA = 64


def _in_square(point: Sequence[int], radius: int) -> bool:
    return max(map(abs, point)) <= radius


def _square_counts(printed: bool, dice: Dice, draws: int) -> tuple[int, int]:
    found = []
    for statistic in (0, _DELTA):
        count = 0
        for _ in range(draws):
            if printed:  # U alone, without its radius
                first = dice.draws.below(2 * _DELTA + 1) - _DELTA
            else:
                rate = EPSILON / _DELTA
                first, _ = draw_in_ball(dice.draws, [Fraction(1)] * 2, _in_square, rate)
            count += statistic + first < 0
        found.append(count)
    return found[0], found[1]


SQUARE = Trial(
    panel="K-norm noise: SS Algorithm 8",
    printed="T + U",
    right="T + r U",
    rows=1,
    event="first coordinate < 0",
    # a location family reaches it; as printed supports are bounded, and differ
    exact=lambda _printed: float(EPSILON),
    counts=_square_counts,
    draws=60_000,
    infinite=True,
)

# Linear regression: KNG (1) ---------------------------------------------------------------------

_LINES: tuple[Pair, Pair] = (
    (np.array([1.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0])),
    (np.array([1.0, 1.0, 1.0]), np.array([1.0, 1.0, -1.0])),
)
_MIDDLE = 0.5
_BOUND = 1


def _line_laws(printed: bool) -> tuple[Values, list[Values]]:
    """Return points of [-1, 1] and both densities there: 8 (1 + B) as printed, or 4 (1 + B)."""
    theta = -1 + (2 * np.arange(_BINS) + 1) / _BINS
    rate = float(EPSILON) / ((8 if printed else 4) * (1 + _BOUND))
    laws = []
    for x, y in _LINES:
        weight = np.exp(-rate * np.abs((y - np.outer(theta, x)) @ x))
        laws.append(weight / weight.sum())
    return theta, laws


def _line_loss(printed: bool) -> float:
    _, (one, other) = _line_laws(printed)
    return float(np.abs(np.log(one / other)).max())


def _line_counts(printed: bool, dice: Dice, draws: int) -> tuple[int, int]:
    theta, laws = _line_laws(printed)
    found = [
        int((theta[np.searchsorted(np.cumsum(law), dice.data.random(draws))] > _MIDDLE).sum())
        for law in laws
    ]
    return found[0], found[1]


LINE = Trial(
    panel="linear regression: KNG (1)",
    printed="epsilon / (8 (1 + B))",
    right="epsilon / (4 (1 + B))",
    rows=3,
    event=f"theta > {_MIDDLE}",
    exact=_line_loss,
    counts=_line_counts,
    draws=60_000,
)

TRIALS = (QUANTILE, SLOPE, TILT, SQUARE, LINE)


def _planned(
    asked: Statistic, columns: dict[str, NumberColumn], *, rows: int, mechanism: str
) -> Plan:
    schema = Schema(dict(columns), Adjacency.REPLACE_ONE, rows)
    return calibrate(asked, schema, Epsilon.parse(str(EPSILON)), mechanism=mechanism)


def _data(columns: dict[str, NumberColumn], x: Values, y: Values) -> ArrayData:
    schema = Schema(dict(columns), Adjacency.REPLACE_ONE, len(x))
    return ArrayData.from_values(schema, {"x": list(x), "y": list(y)})
