"""From private codes to released quantiles, whichever mechanism draws the points.

A mechanism says how a list of grid points is drawn for the levels
(:class:`LevelSampler`); this module reads the column, sorts the points, which is
post-processing, and writes the answer in the column's units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from mechanisms.contract import Data, Outcome
from mechanisms.domain import CODE_MAX, NumberColumn
from mechanisms.exact.decimals import decimal_text
from mechanisms.randomness import Randomness
from mechanisms.samplers.intervals import GridCodes

_MOST_DISTINCT = 2**21  # a column has no more codes


def expected_ms(levels: int, rows: int) -> float:
    """Return about how many milliseconds a draw takes: a walk over the distinct values each."""
    return (1e-4 * min(rows, _MOST_DISTINCT) + 0.05 * levels) * levels


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
    column: NumberColumn
    levels: tuple[Fraction, ...]
    sampler: LevelSampler

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        points = sorted(self.sampler(self.grid(data), randomness))
        released = dict(zip(sorted(self.levels), points, strict=True))
        quantiles = [
            {"level": decimal_text(level), "value": self._value(released[level])}
            for level in self.levels
        ]
        return Outcome(value={"quantiles": quantiles}, noise=None)

    def grid(self, data: Data) -> GridCodes:
        """Return the column's codes on its public grid; a boolean column's is {0, 1}.

        That of whole numbers is theirs, counted from the lower bound. A number lies at most
        half a code from its own code, so a quarter of a step: each code is read as its number.
        Each record's point depends on that record alone, so neighbours stay neighbours.
        """
        codes, counts = data.ordered(self.name)
        if self.column.grid_step != 1:
            return GridCodes.count(codes, counts, low=-CODE_MAX, high=CODE_MAX)
        width = int(self.column.upper - self.column.lower)
        # The nearest whole number, in integers: nothing here is above 2**43.
        places = (2 * (codes.astype(np.int64) + CODE_MAX) * width + 2 * CODE_MAX) // (4 * CODE_MAX)
        points, starts = np.unique(places, return_index=True)
        if len(points) < len(places):
            counts = np.add.reduceat(counts, starts)
        return GridCodes.count(points.astype(np.int32), counts, low=0, high=width)

    def _value(self, point: int) -> float:
        if self.column.grid_step == 1:
            found = self.column.lower + point
        else:
            found = self.column.decode(point)
        return round(found) if self.column.whole else float(found)
