"""The grids of a number column: cells with round edges for sketches and quantiles, and candidates.

*Candidates on a scale s*, for quantiles under the base measure ``log``, are round numbers that are
fine in relative terms: multiples of u as far as c u from 0, c = 20,000, for u = u_0, and then each
next one of 1, 2 and 5 times a power of ten; u_0 is at most s / 8,000, and at least 1 among whole
numbers. So two of them are at most 1 / 8,000 of their size apart, or s / 8,000 near 0. All numbers
of four digits are candidates, and the bounds. *Coarse* ones have c = 100 and s / 40. A record lies
at the largest candidate that is not above it: a function of that record alone.

*Masses.* A candidate's is the number of its *places*, a whole number of 1 or more, in proportion to
the difference of asinh(x / s) to the next candidate; there are about 2**22 places. Candidates and
masses are public, whatever their floats round to.
"""

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
FINE, COARSE = 20_000, 100
"""How many multiples of a unit are candidates: as far as that from 0."""

_FIRST = Fraction(5, 2)  # s is at least this share of all multiples of the first unit
_PLACES = 1 << 22
_EXACT_INTEGERS = 1 << 50  # a float's reciprocal then misses the cell of a value by at most one

Values = NDArray[Any]
Integers = NDArray[np.int64]


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

    def starts_at(self, values: Values) -> bool:
        """Return whether a cell starts at each of these values."""
        if self.whole:
            return not (values.astype(np.int64) % int(self.step)).any()
        places = self._places(values.astype(np.float64))
        return bool((self._starts(places.astype(np.float64)) == values).all())

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


@dataclass(frozen=True, slots=True, eq=False)
class LogGrid:
    """Ascending candidates, and where the places of each begin: one entry more, the last is all.

    The first candidate is the lower bound, and the last one the upper bound.
    """

    values: NDArray[Any]
    places: Integers

    def at(self, values: NDArray[Any]) -> Integers:
        """Return which candidate each value within the bounds lies at, counted from 0."""
        found: Integers = np.searchsorted(self.values, values, side="right") - 1
        return np.maximum(found, 0)


@lru_cache(maxsize=8)
def log_grid(
    lower: Fraction, upper: Fraction, whole: bool, scale: Fraction, each: int = FINE
) -> LogGrid:
    """Return the candidates between these bounds on this scale; recent ones are cached."""
    unit = _first_unit(scale, whole, each)
    above, below = (_multiples(unit, end, whole, each) for end in (upper, -lower))
    ends = [int(end) if whole else float(end) for end in (lower, upper)]
    # No 0 twice; what is not within the bounds goes.
    every = np.concatenate([-below[:0:-1], above if len(above) else below[:1]])
    low, high = np.array(ends, dtype=every.dtype)
    values = np.concatenate([[low], every[(every > low) & (every < high)], [high]])
    end = ends[1] + 1 if whole else ends[1]
    curve = np.arcsinh(np.append(values, end).astype(np.float64) / float(scale))
    masses = np.rint(np.diff(curve) * (_PLACES / (curve[-1] - curve[0]))).astype(np.int64)
    places: Integers = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(np.maximum(masses, 1), out=places[1:])
    return LogGrid(values=values, places=places)


def first_step(scale: Fraction, *, whole: bool) -> Fraction:
    """Return the least distance of two candidates on this scale."""
    return _size(_first_unit(scale, whole, FINE))


Unit = tuple[int, int]
"""m and k of m 10**k, with m = 1, 2 or 5."""


def _first_unit(scale: Fraction, whole: bool, each: int) -> Unit:
    """Return the largest round step of which 2 / 5 of the multiples are within the scale."""
    most = scale * _FIRST / each
    if whole and most <= 1:
        return 1, 0
    exponent = math.floor(math.log10(most)) - 1  # its rounding is undone below
    mantissa = 1
    while (unit := _next((mantissa, exponent))) and _size(unit) <= most:
        mantissa, exponent = unit
    return mantissa, exponent


def _next(unit: Unit) -> Unit:
    mantissa, exponent = unit
    return {1: 2, 2: 5, 5: 1}[mantissa], exponent + (mantissa == 5)


def _size(unit: Unit) -> Fraction:
    return unit[0] * Fraction(10) ** unit[1]


def _multiples(unit: Unit, limit: Fraction, whole: bool, each: int) -> NDArray[Any]:
    """Return the candidates from 0 to a limit, ascending; none where it is below 0."""
    parts: list[NDArray[Any]] = [np.zeros(0, dtype=np.int64 if whole else np.float64)]
    first = 0
    while first * _size(unit) <= limit:
        last = min(math.floor(limit / _size(unit)), each - 1)
        parts.append(_times(np.arange(first, last + 1), unit, whole))
        following = _next(unit)
        first, unit = int(each * _size(unit) / _size(following)), following
    return np.concatenate(parts)


def _times(numbers: Integers, unit: Unit, whole: bool) -> NDArray[Any]:
    """Return multiples of a unit; by operations that round alike on every machine."""
    mantissa, exponent = unit
    if whole:
        return np.asarray(numbers * (mantissa * 10**exponent))
    if exponent < 0:
        return numbers * mantissa / float(10**-exponent)
    return numbers * float(mantissa * 10**exponent)
