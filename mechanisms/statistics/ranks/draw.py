"""From private codes to released quantiles, for every mechanism.

A mechanism draws a list of grid points for the levels
(:class:`LevelSampler`); this module reads the column, sorts the points, which is
post-processing, and writes the answer in the column's units.

Errors in rank of released quantiles: public numbers that compare ways to draw levels.

Where records are many and distinct, the rank of the point released for level j is
off from n q_j by a random delta_j whose law depends on nothing private. Means of
|delta_j|, in records:

*One by one*, an equal part of epsilon each: ``exp(-rate_j |delta_j|)`` with
``rate_j = epsilon / (2 m Delta_j)``, so 1 / rate_j.

*Jointly*: ``exp(-rate sum |delta_j - delta_{j-1}|)``, delta_0 = delta_{m+1} = 0, a walk of m + 1
Laplace steps bound to end where it began. The sum of k steps has density

    f_k(x) = exp(-|x|) sum over i < k of (k-1+i choose i) |x|^(k-1-i) / ((k-1-i)! 2^(k+i))

in units of 1 / rate, and delta_j the density f_j f_{m+1-j}, normalised. Between the ends it
grows as the root of their distance, where one by one it grows as m: jointly is the
better way for many levels, always under replace-one, and one by one only for two
to about six levels close together under add-remove, where its own Delta is smaller.
Measured at 10,000 distinct records and epsilon = 1 (``studies/quantiles.py``), jointly and one
by one: quartiles 4.2 and 5.8, deciles 4.3 and 16.5, twenty-quantiles 7.7 and 36 under
replace-one; levels 0.5 and 0.51 under add-remove 3.3 and 2.4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial, reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block, Data, Json, Outcome, require_numbers
from mechanisms.domain import CODE_MAX, NumberColumn, Schema, Values, exact
from mechanisms.exact.floats import Floats
from mechanisms.exact.fractions import decimal_text
from mechanisms.grids import FINE, MOST_CELLS, LogGrid, first_step, log_grid
from mechanisms.privacy import Adjacency, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.samplers.geometric import FINE_BITS
from mechanisms.samplers.intervals import GridCodes
from mechanisms.sketches import Ordered, distinct, merge_ordered
from mechanisms.statistics.quantile import (
    BaseMeasure,
    gradient_sensitivity,
    joint_sensitivity,
    scale_of,
)
from mechanisms.statistics.weights import Weights, weights_of

_FINE_POINTS_BITS = 53  # of all candidates with their fine points: lengths stay exact in floats
_MS_PER_SORTED = 1e-4  # a row whose value is read and sorted among others
_DRAWN_MS, _DRAWN_JOINTLY_MS = 0.3, 2.0  # measured; of one level, and of several, whatever the rows


@dataclass(frozen=True, slots=True)
class Candidates:
    """The public values that a quantile may be: integers ``low`` to ``high`` stand for them.

    They are the starts of the column's cells. Where those are wider than one whole number, and the
    public bound on rows lets all of them be held, they are the whole numbers themselves, and
    rows are read. With a ``scale`` they are those of ``log`` (:mod:`mechanisms.grids`), too.
    """

    column: NumberColumn
    whole: bool
    high: int
    low: int = 0
    scale: Fraction | None = None
    multiples: int = FINE

    @classmethod
    def of(cls, statistic: Levels, schema: Schema) -> Candidates:
        """Return those of the column that is asked about, by public facts."""
        (column,) = require_numbers(schema, [statistic.column], "column")
        scale = scale_of(column, statistic.base_measure, statistic.exact_levels())
        if scale is not None:
            return cls.on_scale(column, scale)
        width = int(column.upper - column.lower)
        bits = width.bit_length() + schema.row_bound.bit_length()
        if column.whole and column.grid.step > 1 and bits <= _FINE_POINTS_BITS:
            return cls(column, True, width)
        return cls(column, False, column.grid.size - 1)

    @classmethod
    def on_scale(cls, column: NumberColumn, scale: Fraction, multiples: int = FINE) -> Candidates:
        """Return those of a column on a scale; how fine they are is of :mod:`mechanisms.grids`."""
        last = len(_on_scale(column, scale, multiples).values) - 1
        return cls(column, False, last, scale=scale, multiples=multiples)

    @property
    def step(self) -> Fraction:
        """Return the distance of two candidates, in the column's units; the least that there is."""
        if self.scale is not None:
            return first_step(self.scale, whole=self.column.whole)
        return Fraction(1) if self.whole else self.column.grid.step

    @property
    def measure(self) -> str:
        """Return the base measure in words."""
        if self.scale is None:
            return "uniform"
        return f"uniform in asinh(x / {float(self.scale):.6g})"

    @property
    def places(self) -> int:
        """Return how many places all candidates have, by which the base measure weighs them."""
        if self.scale is None:
            return self.high - self.low + 1
        return int(_on_scale(self.column, self.scale, self.multiples).places[-1])

    @property
    def fine_bits(self) -> int:
        """Return the bits of the points that ties at one place are spread over."""
        return min(FINE_BITS, _FINE_POINTS_BITS - (self.places - 1).bit_length())

    @property
    def reads_rows(self) -> bool:
        """Return whether records are counted row by row: no sketch holds their counts."""
        return self.whole or self.scale is not None

    def expected_ms(self, levels: int, rows: int, *, weighted: bool = False) -> float:
        """Return about how many milliseconds a draw takes: a walk over distinct values each."""
        read = self.reads_rows or weighted
        walked = rows if read else min(rows, MOST_CELLS)
        read_ms = _MS_PER_SORTED * rows if read else 0.0
        drawn_ms = _DRAWN_MS if levels == 1 else _DRAWN_JOINTLY_MS
        return drawn_ms + read_ms + (1e-4 * walked + 0.05 * levels) * levels

    def grid(self, name: str, data: Data, weights: Weights | None = None) -> GridCodes:
        """Return how many records lie at which candidate; of weights, the sum of their parts.

        A record lies at its whole number, or at the start of its cell. Each record's candidate
        depends on that record alone, so neighbours stay neighbours.
        """
        if weights is not None or self.reads_rows:
            codes, counts = self._counted(name, data, weights)
        else:
            codes, counts = data.ordered(name)
        starts = None
        if self.scale is not None:
            starts = _on_scale(self.column, self.scale, self.multiples).places
        return GridCodes.count(codes, counts, low=self.low, high=self.high, starts=starts)

    def at(self, values: Values) -> NDArray[np.integer[Any]]:
        """Return the candidate that each value lies at."""
        if self.scale is not None:
            return _on_scale(self.column, self.scale, self.multiples).at(values)
        if self.whole:
            return values.astype(np.int64) - int(self.column.lower)
        return self.column.grid.cells(values)

    def _counted(self, name: str, data: Data, weights: Weights | None) -> Ordered:
        """Return the distinct candidates that rows lie at, ascending, and their counts."""
        nothing: Ordered = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        read = [exact(name), *([] if weights is None else [weights.name])]
        some = partial(_counts_of, self, name, weights)
        return data.remembered(
            ("candidates", self, name, weights),
            lambda: reduce(merge_ordered, data.map(some, read), nothing),
            lambda found: found[0].nbytes + found[1].nbytes,
        )

    def value(self, point: int) -> float:
        """Return the number that a candidate is, in the column's units."""
        if self.scale is not None:
            found = _on_scale(self.column, self.scale, self.multiples).values[point]
            number: float = found.tolist()
            return number
        if self.whole:
            return int(self.column.lower) + point
        start = self.column.grid.starts(np.array([point]))
        # The first cell may start below the lower bound.
        found = self.column.clamped(start).tolist()[0]
        return found if self.column.whole else float(found)


def _on_scale(column: NumberColumn, scale: Fraction, multiples: int) -> LogGrid:
    return log_grid(column.lower, column.upper, column.whole, scale, multiples)


def _counts_of(candidates: Candidates, name: str, weights: Weights | None, block: Block) -> Ordered:
    """Return the distinct candidates of a block's rows, and their counts or sums of parts.

    Floats hold the sums exactly: a part has at most 20 bits, and a block at most 2**18 rows.
    """
    at = candidates.at(block[exact(name)])
    if weights is None:
        return distinct(at)
    found, places = np.unique(at, return_inverse=True)
    sums = np.bincount(places, weights=weights.shares(block[weights.name]), minlength=len(found))
    kept = sums > 0  # records without weight are nowhere
    return found[kept], sums[kept].astype(np.int64)


class Levels(Protocol):
    """A question about levels of a column."""

    @property
    def column(self) -> str: ...

    @property
    def base_measure(self) -> BaseMeasure: ...

    @property
    def weights(self) -> str | None: ...

    def exact_levels(self) -> tuple[Fraction, ...]: ...


class LevelSampler(Protocol):
    """Draws one grid point per level; all of its fields are public."""

    def __call__(self, grid: GridCodes, randomness: Randomness) -> Sequence[int]:
        """Return as many points as there are levels, in any order."""


class PointSampler(Protocol):
    """Draws one grid point for one level."""

    def __call__(
        self, grid: GridCodes, *, level: Fraction, rate: Fraction, randomness: Randomness
    ) -> int:
        """Return a point; the law's exponent is ``rate`` times the score of the level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EachLevelAlone:
    """Draws the levels independently, level j at its own rate."""

    levels: tuple[Fraction, ...]
    rates: tuple[Fraction, ...]
    point: PointSampler

    def __call__(self, grid: GridCodes, randomness: Randomness) -> Sequence[int]:
        """Return one point per level, in the order of the levels."""
        return [
            self.point(grid, level=level, rate=rate, randomness=randomness)
            for level, rate in zip(self.levels, self.rates, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileDraw:
    """Draws the points of all levels, sorts them, and returns them in the column's units."""

    name: str
    candidates: Candidates
    levels: tuple[Fraction, ...]
    sampler: LevelSampler
    weights: Weights | None = None

    @classmethod
    def of(cls, statistic: Levels, schema: Schema, sampler: LevelSampler) -> QuantileDraw:
        """Return the draw of a statistic's levels by this sampler."""
        return cls(
            name=statistic.column,
            candidates=Candidates.of(statistic, schema),
            levels=statistic.exact_levels(),
            sampler=sampler,
            weights=weights_of(statistic, schema),
        )

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        points = sorted(self.sampler(self.grid(data), randomness))
        released = dict(zip(sorted(self.levels), points, strict=True))
        quantiles = [
            {"level": decimal_text(level), "value": self.candidates.value(released[level])}
            for level in self.levels
        ]
        return Outcome(value={"quantiles": quantiles}, noise=None)

    def grid(self, data: Data) -> GridCodes:
        """Return how many records lie at which candidate, or the sums of their weights."""
        return self.candidates.grid(self.name, data, self.weights)


def level_rates(statistic: Levels, schema: Schema, epsilon: PrivacyLoss) -> tuple[Fraction, ...]:
    """Return the rate of each level, drawn one by one with an equal part of epsilon.

    ``epsilon / (2 m Delta)`` for each record; with weights for each of ``CODE_MAX`` parts of the
    largest weight (:mod:`mechanisms.statistics.weights`), which sums of weights count.
    """
    levels = statistic.exact_levels()
    # Exact, not in whole nanos: the parts must add up to epsilon.
    share = epsilon.fraction / len(levels)
    if statistic.weights is not None:
        share /= CODE_MAX
    return tuple(share / (2 * gradient_sensitivity(level, schema.adjacency)) for level in levels)


def rank_unit(statistic: Levels) -> str:
    """Return in what a rank is counted, in words."""
    counted = "records" if statistic.weights is None else "largest weights"
    return f"{counted} at or below a value (largest over the levels)"


def weight_facts(statistic: Levels, schema: Schema) -> Json:
    """Return the public facts about the weights by which records count; none without."""
    weights = weights_of(statistic, schema)
    if weights is None:
        return {}
    note = "Errors in rank are in units of the largest weight."
    return {"weights": {**weights.facts(), "note": note}}


# Errors in rank of released quantiles: public numbers that compare ways to draw levels


_EXACT_LEVELS = 12  # beyond, a Gaussian bridge is near enough
_FARTHEST, _POINTS = 30.0, 4001  # of a law that is below exp(-30) there


def split_rank_errors(
    levels: Sequence[Fraction], epsilon: Fraction, adjacency: Adjacency
) -> list[float]:
    """Return the mean |delta_j| of levels drawn one by one."""
    unit = 2 * len(levels) / epsilon
    return [float(unit * gradient_sensitivity(level, adjacency)) for level in levels]


def joint_rank_errors(
    levels: Sequence[Fraction], epsilon: Fraction, adjacency: Adjacency
) -> list[float]:
    """Return the mean |delta_j| of levels drawn jointly, in the order of the levels."""
    unit = float(2 * joint_sensitivity(levels, adjacency) / epsilon)
    ideal = dict(zip(sorted(levels), bridge_errors(len(levels)), strict=True))
    return [unit * ideal[level] for level in levels]


@lru_cache(maxsize=64)
def bridge_errors(count: int) -> Sequence[float]:
    """Return the mean |delta_j| of the bound walk at rate 1, j = 1 .. count.

    Exact for up to 12 levels; beyond, of a Gaussian bridge with steps of the
    same variance, whose error is below 5%.
    """
    if count > _EXACT_LEVELS:
        return [
            math.sqrt(4 / math.pi * j * (count + 1 - j) / (count + 1)) for j in range(1, count + 1)
        ]
    return [_bridge_error(j, count + 1 - j) for j in range(1, count + 1)]


@lru_cache(maxsize=32)
def bridge_law(count: int, place: int | None = None) -> tuple[Floats, Floats]:
    """Return points and odds of a delta of the bound walk at rate 1: of up to 12 levels.

    ``place`` is that of the level, from 1; None for the middle one, which misses by most.
    """
    place = (count + 1) // 2 if place is None else place
    points = np.linspace(-_FARTHEST, _FARTHEST, _POINTS)
    sizes = np.abs(points)
    factors = (
        sum(float(weight) * sizes**power for power, weight in enumerate(_walk_density(steps)))
        for steps in (place, count + 1 - place)
    )
    odds = np.exp(-2 * sizes)
    for factor in factors:
        odds = odds * factor
    return points, odds / odds.sum()


def _bridge_error(before: int, after: int) -> float:
    """Return the integral of |x| f_before f_after over that of f_before f_after."""
    mean, total = Fraction(0), Fraction(0)
    for power, weight in enumerate(_walk_density(before)):
        for other, factor in enumerate(_walk_density(after)):
            size = power + other
            total += weight * factor * Fraction(math.factorial(size), 2 ** (size + 1))
            mean += weight * factor * Fraction(math.factorial(size + 1), 2 ** (size + 2))
    return float(mean / total)


def _walk_density(steps: int) -> list[Fraction]:
    """Return the coefficients of |x|^0, |x|^1, .. in exp(|x|) f_steps(x)."""
    last = steps - 1
    return [
        Fraction(
            math.comb(2 * last - power, last - power),
            math.factorial(power) * 2 ** (steps + last - power),
        )
        for power in range(steps)
    ]
