"""The share of its epsilon that each offer with a density can use: a search for worst neighbours.

For one coefficient, quantile or column the density is summed on a fine grid, so that the log ratio
of two neighbours is exact up to that. Rows are few values with counts; a search changes values,
counts and the row that is replaced or removed, and keeps what raises the largest log ratio. What
it finds is at most epsilon; 1 less its share of epsilon bounds the slack from above, as no search
sees all data sets. ``make bench ARGS=slack`` repeats it:

===============================  ===========  ==========
offer                            replace_one  add_remove
===============================  ===========  ==========
linear, kng                      1.000        1.000
linear, exponential              0.505        1.000
check loss, tau = 0.5, kng       1.000        1.000
check loss, tau = 0.9, kng       1.000        1.000
check loss, 0.5, exponential     0.550        1.000
check loss, 0.9, exponential     0.909        1.000
geometric median, kng            1.000        1.000
===============================  ===========  ==========

Below 0.9 is the exponential mechanism alone, with one coefficient and ``replace_one``: two records'
losses grow towards the same ends of the line then, so that their difference spans little more than
one Delta. With two coefficients it spans nearly 2 Delta: for least squares records x = (1, 0) and
(0, 1), y = -1, differ by (1 + B)^2 - 1 at theta = (B, 0) and by as much the other way at (0, B). It
is the baseline, and stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

_GRID = np.linspace(-1, 1, 1601)
_BOUND = 10.0
_THETA = np.sign(_GRID) * _BOUND * np.abs(_GRID) ** 3  # finer near zero
_MEASURE = np.gradient(_THETA)
_EPSILON = 1.0
_COUNTS = (0.0, 1.0, 2.0, 5.0, 20.0, 100.0, 1000.0, 30_000.0)

Exponent = Callable[[Values, Values, bool], Values]
"""From rows (k x 2), counts and whether a row is replaced, E on the grid: f is exp(-E) there."""


@dataclass(frozen=True, slots=True)
class Slack:
    """The share of epsilon that the worst neighbours found reach."""

    offer: str
    adjacency: str
    reached: float


def _linear_kng(rows: Values, counts: Values, replaced: bool) -> Values:
    length = np.abs(_THETA)
    divisor = 1 + length
    if replaced:
        longer = np.maximum(length, 0.5)
        divisor = (1 + longer) / 2 + 1 / (8 * longer)
    rate = _EPSILON / (8 if replaced else 4)
    ridge = (1 + _BOUND) / (4 * rate * _BOUND)
    x, y = rows.T
    gradient = 2 * _THETA * (counts @ x**2) + ridge * _THETA - 2 * (counts @ (x * y))
    return np.asarray(rate * np.abs(gradient) / divisor + 2 * np.log1p(length))


def _linear_exponential(rows: Values, counts: Values, replaced: bool) -> Values:
    rate = _EPSILON / ((2 if replaced else 1) * (1 + _BOUND) ** 2)
    x, y = rows.T
    loss = counts @ (y[:, None] - x[:, None] * _THETA) ** 2
    return np.asarray(rate * loss + _THETA**2 / (2 * _BOUND**2))


def _check(tau: float) -> tuple[Exponent, Exponent]:
    most = max(tau, 1 - tau)

    def kng(rows: Values, counts: Values, replaced: bool) -> Values:
        x, y = rows[:, :1], rows[:, 1:]
        gradient = counts @ (((y <= x * _THETA) - tau) * x)
        return np.asarray(_EPSILON / ((4 if replaced else 2) * most) * np.abs(gradient))

    def exponential(rows: Values, counts: Values, replaced: bool) -> Values:
        rate = _EPSILON / ((2 if replaced else 1) * most * (1 + _BOUND))
        residual = rows[:, 1:] - rows[:, :1] * _THETA
        return np.asarray(rate * (counts @ (residual * (tau - (residual <= 0)))))

    return kng, exponential


def _median(rows: Values, counts: Values, replaced: bool) -> Values:
    signs = counts @ np.sign(_GRID - rows[:, :1])
    return np.asarray(_EPSILON / (4 if replaced else 2) * np.abs(signs))


_CHECK = {tau: _check(tau) for tau in (0.5, 0.9)}
OFFERS: dict[str, tuple[Exponent, Values]] = {
    "linear, kng": (_linear_kng, _MEASURE),
    "linear, exponential": (_linear_exponential, _MEASURE),
    "quantile regression 0.5, kng": (_CHECK[0.5][0], _MEASURE),
    "quantile regression 0.9, kng": (_CHECK[0.9][0], _MEASURE),
    "quantile regression 0.5, exponential": (_CHECK[0.5][1], _MEASURE),
    "quantile regression 0.9, exponential": (_CHECK[0.9][1], _MEASURE),
    "geometric median, kng": (_median, np.gradient(_GRID)),
}
"""The exponent of one coefficient or column under each offer, and the widths of its grid."""


def study(*, starts: int = 10, steps: int = 600, seed: int = 1) -> Iterator[Slack]:
    """Yield the largest share of epsilon found for each offer under both adjacencies."""
    for offer, (exponent, measure) in OFFERS.items():
        for adjacency in ("replace_one", "add_remove"):
            rng = np.random.default_rng(seed)
            replaced = adjacency == "replace_one"
            reached = max(_climb(exponent, measure, replaced, steps, rng) for _ in range(starts))
            yield Slack(offer, adjacency, reached / _EPSILON)


def _climb(
    exponent: Exponent, measure: Values, replaced: bool, steps: int, rng: np.random.Generator
) -> float:
    """Return the largest log ratio that a climb by random changes ends at."""
    rows, counts = rng.choice([-1.0, 0.0, 1.0], (5, 2)), rng.choice(_COUNTS, 5)
    best = _ratio(exponent, measure, replaced, rows, counts)
    for step in range(steps):
        other, others = rows.copy(), counts.copy()
        place = rng.integers(5)
        if rng.uniform() < 0.4:
            others[place] = rng.choice(_COUNTS)
        elif step % 2:
            other[place, rng.integers(2)] = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0])
        else:
            moved = other[place] + rng.normal(size=2) * rng.choice([0.3, 0.03])
            other[place] = np.clip(moved, -1, 1)
        found = _ratio(exponent, measure, replaced, other, others)
        if found > best:
            rows, counts, best = other, others, found
    return best


def _ratio(
    exponent: Exponent, measure: Values, replaced: bool, rows: Values, counts: Values
) -> float:
    """Return the largest |log ratio| where row 0 is replaced by row 1, or removed."""
    held = np.concatenate([[0.0, 0.0], counts[2:]])
    with_first, with_second = held.copy(), held.copy()
    with_first[0] = 1
    with_second[1] = 1 if replaced else 0
    logs = []
    for weights in (with_first, with_second):
        value = -exponent(rows, weights, replaced)
        top = value.max()
        logs.append(value - top - np.log((measure * np.exp(value - top)).sum()))
    return float(np.abs(logs[0] - logs[1]).max())
