"""Elementwise functions in float64 whose error is proved, not trusted.

Only +, -, *, / and comparisons of IEEE 754 doubles are assumed, each rounded
to nearest (relative error at most u = 2**-53), and exact scaling by powers of
two. No function of a mathematical library is on the certified path.

*Certified rounding: a vector known as balls becomes one point of a public grid, or waits.* A value
x is rounded to the index ``floor(x / step + 1/2)`` of the grid ``step * Z``. When x is known only
as a ball, the index is certain exactly if both ends of the ball give the same one. Rounding an
exact draw this way is post-processing: the caller answers "undecided" with more random bits or
more working precision, never with a float.

python-flint keeps its working precision in one process-wide setting. Every
computation whose *tightness* matters runs inside :func:`working_precision`;
its *validity* never depends on the precision, since balls certify themselves.

Arrays of numbers in place of single ones: floats in place of exact fractions.

The code that computes an answer from noisy coordinates also computes many answers from arrays of
them, in one pass. Simulations of the expected error use this; no release is made of floats.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from flint import arb, ctx, fmpq
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


# Elementwise functions in float64 whose error is proved, not trusted


# Certified rounding: a vector known as balls becomes one point of a public grid, or waits

_PRECISION_LOCK = threading.RLock()


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Run the block with this many bits of ball arithmetic, one thread at a time.

    The lock is re-entrant, so an evaluation at more bits may nest; the
    precision found on entry is put back on exit.
    """
    with _PRECISION_LOCK:
        before = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = before


def grid_index(ball: arb, step_exponent: int) -> int | None:
    """Return the index of the grid point ``k * 2**step_exponent`` the ball rounds to, if one.

    Parameters
    ----------
    ball : arb
        An enclosure of the value.
    step_exponent : int
        The grid step is ``2**step_exponent``.

    Returns
    -------
    int or None
        ``floor(x / step + 1/2)`` when it is the same for every x in the ball.
    """
    if not ball.is_finite():
        return None
    index = (arb(ball) * arb((1, -step_exponent)) + arb((1, -1))).floor().unique_fmpz()
    return None if index is None else int(index)


def grid_point(balls: Sequence[arb], step_exponent: int) -> tuple[int, ...] | None:
    """Return the grid point the whole vector rounds to, or None while any coordinate is open."""
    indices: list[int] = []
    for ball in balls:
        index = grid_index(ball, step_exponent)
        if index is None:
            return None
        indices.append(index)
    return tuple(indices)


# Elementwise functions in float64 whose error is proved, not trusted

UNIT_ROUNDOFF = 2.0**-53
"""Largest relative error of one rounding to nearest."""

SPACING = 2 * UNIT_ROUNDOFF
"""From 1 to the next float: covers the roundings of an operation and of an operand."""

SIGMOID_ERROR = 2.0**-49
"""Relative error of :func:`sigmoid` at the float it is given."""

SIGMOID_FLOOR = 2.0**-1000
"""Absolute error, on top, of arguments below -700."""

_CELLS = 64  # 2**(j/64): the rest is below log(2)/128, where five terms are enough
LOWEST = -700.0
"""The least argument of :func:`exp_nonpositive`: exp(-700) is still a normal float."""


def _exact_constants() -> tuple[float, float, Floats]:
    """Return log(2)/64 in two pieces, the first of 30 bits, and 2**(j/64), correctly rounded."""
    with working_precision(200):
        step = arb(2).log() / _CELLS
        high = math.floor(float(step * 2**36)) / 2.0**36
        table = [float(arb(2) ** arb(fmpq(j, _CELLS))) for j in range(_CELLS)]
        return high, float(step - high), np.array(table)


_STEP_HIGH, _STEP_LOW, _POWERS = _exact_constants()
_SERIES = tuple(float(Fraction(1, k)) for k in (120, 24, 6, 2))


def exp_nonpositive(x: Floats) -> Floats:
    """Return exp(x) for x in [-700, 0], relative error at most 2**-51.

    x = k log(2)/64 + r with integer k and |r| <= log(2)/128 + 2**-40. The first
    product k * high has at most 30 + 17 bits, so it is exact, and so is its
    difference from x up to 2**-60; the second piece adds less than 2**-70.
    exp(r) - 1 is its Taylor polynomial of degree 5: truncation below 2**-54,
    evaluation below 2**-58. The table entry, the product and the sum with it
    add at most 2**-53 each. Together below 2**-51.
    """
    k = np.rint(x * (1 / _STEP_HIGH))
    r = (x - k * _STEP_HIGH) - k * _STEP_LOW
    series = np.full_like(r, _SERIES[0])
    for coefficient in _SERIES[1:]:
        series = series * r + coefficient
    growth = (series * r) * r + r
    # Masking and shifting both round down, so they agree where k is negative too.
    index = k.astype(np.int32)
    power = _POWERS[index & (_CELLS - 1)]
    answer: Floats = np.ldexp(power + power * growth, index >> 6)
    return answer


def sigmoid(t: Floats) -> tuple[Floats, Floats]:
    """Return 1 / (1 + exp(-t)) and its complement 1 / (1 + exp(t)), elementwise.

    Each has relative error at most ``SIGMOID_ERROR`` plus, for arguments
    beyond 700 in absolute value, absolute error at most ``SIGMOID_FLOOR``:
    exp contributes 2**-51 to numerator and denominator, the sum 2**-53 and the
    quotient 2**-53.
    """
    # Of -|t| only: nothing overflows, and 1 + small loses nothing to cancellation.
    small = exp_nonpositive(np.maximum(-np.abs(t), LOWEST))
    whole = 1 + small
    low, high = small / whole, 1 / whole
    positive = t > 0
    return np.where(positive, high, low), np.where(positive, low, high)
