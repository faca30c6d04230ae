"""The grid of a number column: cells with round edges, for sketches and quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_CELLS = 1 << 21  # of a grid
PIECE = 1 << 15  # values at a time: floats then stay in the CPU cache
_EXACT_INTEGERS = 1 << 50  # a float's reciprocal then misses the cell of a value by at most one

Values = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells [i s, (i + 1) s) of a number column, s the ``step``, m 10**k with m = 1, 2 or 5.

    The first cell, number 0, is that of the lower bound: ``first`` is its i. Round edges are
    starts of cells, so a count between them is a count of cells. Which edges are depends on
    public facts alone. The start of a cell is the binary64 nearest to i s, or, of whole
    kinds, the integer.
    """

    mantissa: int
    exponent: int
    first: int
    size: int
    whole: bool

    @property
    def step(self) -> Fraction:
        """Return s, in the column's units."""
        return self.mantissa * Fraction(10) ** self.exponent

    @classmethod
    def between(cls, lower: Fraction, upper: Fraction, *, whole: bool) -> Grid:
        """Return the finest grid of at most 2**21 cells."""
        most = max(abs(lower), abs(upper))
        wanted = max((upper - lower) / (MOST_CELLS - 2), most / _EXACT_INTEGERS)
        if whole:
            wanted = max(wanted, Fraction(1))
        exponent = math.floor(math.log10(wanted)) - 1
        mantissa = 1
        while mantissa * Fraction(10) ** exponent < wanted:
            mantissa = {1: 2, 2: 5, 5: 1}[mantissa]
            exponent += mantissa == 1
        step = mantissa * Fraction(10) ** exponent
        first, last = math.floor(lower / step), math.floor(upper / step)
        found = cls(mantissa, exponent, first, last - first + 1, whole)
        if whole:
            return found
        # Bounds are compared as the floats that values are clamped to.
        ends = found.cells(np.array([float(lower), float(upper)])).tolist()
        return cls(mantissa, exponent, first + ends[0], ends[1] - ends[0] + 1, whole)

    def cells(self, values: Values) -> NDArray[np.int32]:
        """Return the cell of each value, counted from 0."""
        found = np.empty(len(values), dtype=np.int32)
        for start in range(0, len(values), PIECE):
            part = slice(start, start + PIECE)
            found[part] = self._places(values[part]) - self.first
        return found

    def starts(self, cells: NDArray[np.integer[Any]]) -> Values:
        """Return where cells start; the first may start below the column's lower bound."""
        places = cells.astype(np.int64) + self.first
        if self.whole:
            return np.asarray(places * int(self.step))
        return self._starts(places.astype(np.float64))

    def starts_at(self, value: float) -> bool:
        """Return whether a cell starts at this value."""
        if self.whole:
            return value % int(self.step) == 0
        place = self._places(np.array([value], dtype=np.float64))
        return bool(self._starts(place.astype(np.float64))[0] == value)

    def _places(self, values: Values) -> NDArray[np.int64]:
        if self.whole:
            step = int(self.step)
            wide = values.astype(np.int64, copy=False)
            return wide if step == 1 else wide // step
        place = np.floor(values * float(1 / self.step))
        # The product is off by rounding, so by one cell at most.
        place -= values < self._starts(place)
        place += values >= self._starts(place + 1)
        return place.astype(np.int64)

    def _starts(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        scale = 10.0 ** abs(self.exponent)
        if self.exponent < 0:
            return np.asarray(places * self.mantissa / scale)
        return np.asarray(places * (self.mantissa * scale))


@lru_cache(maxsize=4096)
def grid_of(lower: Fraction, upper: Fraction, whole: bool) -> Grid:
    """Return the grid between these bounds; recent ones are cached."""
    return Grid.between(lower, upper, whole=whole)
