"""The grid that a column's numbers lie on, as they are written: its step and its ends."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_LOOKED_AT = 1 << 12  # numbers that show the step; the ends are those of all
_MOST_DECIMALS = 9
_MOST_ZEROS = 6
# Digests keep integers whole, and others with a float's 24 bits
_INTEGER_BITS, _FLOAT_BITS = 50.0, 24.0

Ends = tuple[float, float]
"""The least and the greatest of some numbers."""


def ends_of(numbers: NDArray[np.float64]) -> Ends | None:
    """Return the ends of some numbers; None where there is none, or one of them is not finite."""
    if not len(numbers):
        return None
    # of a NaN both are one
    ends = float(numbers.min()), float(numbers.max())
    return ends if all(map(math.isfinite, ends)) else None


class Grid:
    """Collects what shows how many values a column of numbers could hold."""

    def __init__(self) -> None:
        self._low, self._high = math.inf, -math.inf
        self._looked_at = np.zeros(0)

    def add(self, numbers: NDArray[np.float64], ends: Ends | None = None) -> None:
        """Look at some more finite numbers, whose ends may be known."""
        ends = ends or ends_of(numbers)
        if ends is not None:
            self._low, self._high = min(self._low, ends[0]), max(self._high, ends[1])
        if (room := _LOOKED_AT - len(self._looked_at)) > 0:
            self._looked_at = np.concatenate([self._looked_at, numbers[:room]])

    def bits(self) -> float:
        """Return the logarithm of how many values the column could hold, as it is written."""
        if not self._low < self._high:
            return 0.0
        step, most = _step_of(self._looked_at)
        return min(most, math.log2(1 + (self._high - self._low) / step))

    def even_bits(self) -> float:
        """Return the same where values stand at even distances: the days of a year, say."""
        step, _ = _step_of(self._looked_at)
        places = np.unique(np.rint(self._looked_at / step))
        if self._low < self._high and len(places) > 1 and abs(places).max() < 2.0**53:
            common = int(np.gcd.reduce(np.diff(places).astype(np.int64)))
            return min(self.bits(), math.log2(1 + (self._high - self._low) / (step * common)))
        return self.bits()


def _step_of(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the largest power of ten that all are multiples of, and the most bits to believe."""
    for decimals in range(-_MOST_ZEROS, _MOST_DECIMALS + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = values * 10.0**decimals
            off = np.abs(scaled - np.rint(scaled))
            # A decimal is no float, and its multiples are off by some units in the last place.
            fits = off <= 1e-9 * np.maximum(1.0, np.abs(scaled))
        if fits.all():
            return 10.0**-decimals, _INTEGER_BITS if decimals <= 0 else _FLOAT_BITS
    return 10.0**-_MOST_DECIMALS, _FLOAT_BITS
