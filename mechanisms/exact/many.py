"""Arrays of numbers in place of single ones: floats in place of exact fractions.

The code that computes an answer from noisy coordinates also computes many answers from arrays of
them, in one pass. Simulations of the expected error use this; no release is made of floats.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

# Names for the arrays that certified code computes with

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


# Arrays of numbers in place of single ones: floats in place of exact fractions


class Many:
    """Floats that add, multiply and divide with each other and with fractions, one by one.

    Parameters
    ----------
    floats
        The numbers.
    """

    __slots__ = ("floats",)

    def __init__(self, floats: Floats) -> None:
        self.floats = floats

    def __add__(self, other: Many | Fraction | int) -> Many:
        return Many(self.floats + _floats(other))

    __radd__ = __add__

    def __mul__(self, other: Many | Fraction | int) -> Many:
        return Many(self.floats * _floats(other))

    __rmul__ = __mul__

    def __sub__(self, other: Many | Fraction | int) -> Many:
        return Many(self.floats - _floats(other))

    def __neg__(self) -> Many:
        return Many(-self.floats)

    def __abs__(self) -> Many:
        return Many(np.abs(self.floats))

    def __rtruediv__(self, other: Fraction | int) -> Many:
        return Many(float(other) / self.floats)

    def __truediv__(self, other: Many | Fraction | int) -> Many:
        return Many(self.floats / _floats(other))

    def map(self, function: Callable[..., Floats], *others: Many | Fraction) -> Many:
        """Return a function's results for the numbers, and for others."""
        return Many(function(self.floats, *map(_floats, others)))


def _floats(number: Many | Fraction | int) -> Any:
    return number.floats if isinstance(number, Many) else float(number)


Number = TypeVar("Number", Fraction, Many)


def at_least(number: Number, low: Fraction) -> Number:
    """Return the larger of two numbers, or of each of :class:`Many` and one."""
    return number.map(np.maximum, low) if isinstance(number, Many) else max(number, low)


def clamped(number: Number, low: Fraction, high: Fraction) -> Number:
    """Return the point of [low, high] next to a number, or to each of :class:`Many`."""
    if isinstance(number, Many):
        return number.map(np.clip, low, high)
    return min(max(number, low), high)
