"""From private codes to released quantiles, for every mechanism.

A mechanism draws a list of grid points for the levels
(:class:`LevelSampler`); this module reads the column, sorts the points, which is
post-processing, and writes the answer in the column's units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from typing import Protocol

import numpy as np

from mechanisms.contract import Block, Data, Outcome
from mechanisms.domain import NumberColumn, Schema, exact
from mechanisms.exact.fractions import decimal_text
from mechanisms.grids import MOST_CELLS
from mechanisms.randomness import Randomness
from mechanisms.samplers.geometric import FINE_BITS
from mechanisms.samplers.intervals import GridCodes
from mechanisms.sketches import Ordered, distinct, merge_ordered

_FINE_POINTS_BITS = 53  # of all candidates with their fine points: lengths stay exact in floats
_MS_PER_SORTED = 1e-4  # a row whose value is read and sorted among others
_DRAWN_MS, _DRAWN_JOINTLY_MS = 0.3, 2.0  # measured; of one level, and of several, whatever the rows


@dataclass(frozen=True, slots=True)
class Candidates:
    """The public values that a quantile may be: integers ``low`` to ``high`` stand for them.

    They are the starts of the column's cells. Where those are wider than one whole number, and the
    public bound on rows lets all of them be held, they are the whole numbers themselves, and
    rows are read.
    """

    column: NumberColumn
    whole: bool
    high: int
    low: int = 0

    @classmethod
    def of(cls, column: NumberColumn, schema: Schema) -> Candidates:
        """Return those of a column, by public facts."""
        width = int(column.upper - column.lower)
        bits = width.bit_length() + schema.row_bound.bit_length()
        if column.whole and column.grid.step > 1 and bits <= _FINE_POINTS_BITS:
            return cls(column, True, width)
        return cls(column, False, column.grid.size - 1)

    @property
    def step(self) -> Fraction:
        """Return the distance of two candidates, in the column's units."""
        return Fraction(1) if self.whole else self.column.grid.step

    @property
    def fine_bits(self) -> int:
        """Return the bits of the places that ties at one candidate are spread over."""
        return min(FINE_BITS, _FINE_POINTS_BITS - self.high.bit_length())

    def expected_ms(self, levels: int, rows: int) -> float:
        """Return about how many milliseconds a draw takes: a walk over distinct values each."""
        walked = rows if self.whole else min(rows, MOST_CELLS)
        read_ms = _MS_PER_SORTED * rows if self.whole else 0.0
        drawn_ms = _DRAWN_MS if levels == 1 else _DRAWN_JOINTLY_MS
        return drawn_ms + read_ms + (1e-4 * walked + 0.05 * levels) * levels

    def grid(self, name: str, data: Data) -> GridCodes:
        """Return how many records lie at which candidate.

        A record lies at its whole number, or at the start of its cell. Each record's candidate
        depends on that record alone, so neighbours stay neighbours.
        """
        if not self.whole:
            cells, counts = data.ordered(name)
            return GridCodes.count(cells, counts, low=self.low, high=self.high)
        values, counts = data.remembered(
            ("whole", name),
            partial(_whole_numbers, name, data),
            lambda found: found[0].nbytes + found[1].nbytes,
        )
        offsets = values.astype(np.int64) - int(self.column.lower)
        return GridCodes.count(offsets, counts, low=self.low, high=self.high)

    def value(self, point: int) -> float:
        """Return the number that a candidate is, in the column's units."""
        if self.whole:
            return int(self.column.lower) + point
        start = self.column.grid.starts(np.array([point]))
        # The first cell may start below the lower bound.
        found = self.column.clamped(start).tolist()[0]
        return found if self.column.whole else float(found)


def _whole_numbers(name: str, data: Data) -> Ordered:
    """Return the distinct values of a column of whole numbers, ascending, and their counts."""
    nothing: Ordered = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    return reduce(merge_ordered, data.map(partial(_distinct_of, name), [exact(name)]), nothing)


def _distinct_of(name: str, block: Block) -> Ordered:
    return distinct(block[exact(name)])


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
        """Return how many records lie at which candidate."""
        return self.candidates.grid(self.name, data)
