"""Exact geometric variables, many at a time.

Law: ``P(G = k) = (1 - q) q**k`` on k >= 0 with ``q = exp(-rate)``, rate > 0 rational.

The binary digits of a geometric variable are independent, digit j being one
with probability ``1 / (1 + exp(rate 2**j))``, and what lies above the first J
digits is again geometric, non-zero with probability ``exp(-rate 2**J)``. So a
batch of variables is a table of independent coin flips, and the *sum* of the
batch is ``sum_j 2**j (ones in digit column j)``.

Each coin is an exact lazy comparison. A 32-bit prefix of a uniform real is
compared with the certified 32-bit prefix of the coin's probability (an integer
found in ball arithmetic); equal prefixes are settled with more bits of both.
The probabilities are irrational, so this ends. No float is involved.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechanisms.exact.balls import rational
from mechanisms.exact.certainty import settled
from mechanisms.randomness import Randomness

_WORD = 32  # bits of a coin drawn ahead for every variable
_MORE = 64  # bits drawn when those leave a coin open
# exp(-23) < 2**-32: above it the certified prefix of the overflow coin is zero.
_NEGLIGIBLE_RATE = 23
# Digits of one variable that an int64 holds, with room for what overflows them.
_INT64_DIGITS = 54
_POWERS = np.array([1 << column for column in range(_INT64_DIGITS)], dtype=np.int64)


class Geometric:
    """The geometric law of one rate, with its certified coin prefixes.

    Parameters
    ----------
    rate : Fraction
        ``-log q``, positive.

    Notes
    -----
    Building one costs some hundred microseconds (the prefixes); :func:`geometric`
    keeps recent ones.
    """

    __slots__ = ("_digits", "_prefixes", "rate")

    def __init__(self, rate: Fraction) -> None:
        if rate <= 0:
            raise ValueError("the rate must be positive")
        self.rate = rate
        self._digits = 0
        while rate * (1 << self._digits) < _NEGLIGIBLE_RATE:
            self._digits += 1
        prefixes = [self._prefix(column, _WORD) for column in range(self._digits + 1)]
        self._prefixes = np.array(prefixes, dtype=np.uint32)

    def draw(self, randomness: Randomness, count: int) -> NDArray[np.int64] | NDArray[np.object_]:
        """Return ``count`` independent variables, as int64 where they surely fit, else as ints."""
        flips = self._flips(randomness, count)
        values: NDArray[np.int64] | NDArray[np.object_]
        values = _number(flips[:, : min(self._digits, _INT64_DIGITS)])
        for start in range(_INT64_DIGITS, self._digits, _INT64_DIGITS):
            above = _number(flips[:, start : min(self._digits, start + _INT64_DIGITS)])
            values = values.astype(object) + (above.astype(object) << start)
        for row in flips[:, -1].nonzero()[0]:
            values[row] += self._overflow(randomness)
        return values

    def draw_sum(self, randomness: Randomness, count: int) -> int:
        """Return the sum of ``count`` independent variables."""
        ones: list[int] = self._flips(randomness, count).sum(axis=0).tolist()
        total = sum(number << j for j, number in enumerate(ones[:-1]))
        return total + sum(self._overflow(randomness) for _ in range(ones[-1]))

    def _flips(self, randomness: Randomness, count: int) -> NDArray[np.bool_]:
        """Return a (count, digits + 1) table of coins; the last column says "overflows"."""
        columns = self._digits + 1
        words = np.frombuffer(
            randomness.bits(_WORD * count * columns).to_bytes(4 * count * columns, "little"),
            dtype="<u4",
        ).reshape(count, columns)
        flips: NDArray[np.bool_] = words < self._prefixes
        for row, column in zip(*(words == self._prefixes).nonzero(), strict=True):
            flips[row, column] = self._settle(randomness, int(column), int(words[row, column]))
        return flips

    def _settle(self, randomness: Randomness, column: int, prefix: int) -> bool:
        """Decide a coin whose first bits equal those of its probability."""
        bits = _WORD
        while True:
            bits += _MORE
            prefix = (prefix << _MORE) | randomness.bits(_MORE)
            certain = self._prefix(column, bits)
            if prefix != certain:
                return prefix < certain

    def _prefix(self, column: int, bits: int) -> int:
        """Return ``floor(2**bits p)`` for the coin of this column, certified."""
        return coin_prefix(self.rate * (1 << column), column == self._digits, bits)

    def _overflow(self, randomness: Randomness) -> int:
        """Return a variable conditional on reaching ``2**digits``, that offset's multiple only."""
        above = 1 + randomness.geometric_exp(self.rate * (1 << self._digits))
        return above << self._digits


def _number(digits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the numbers that rows of binary digits make, the lowest first."""
    found: NDArray[np.int64] = digits @ _POWERS[: digits.shape[1]]
    return found


def coin_prefix(exponent: Fraction, overflow: bool, bits: int) -> int:
    """Return the first bits of ``exp(-x)`` (overflow) or ``1 / (1 + exp(x))``, certified."""

    def look(_: int) -> int | None:
        power = rational(exponent).exp()
        probability = 1 / power if overflow else 1 / (1 + power)
        prefix = (probability * arb((1, bits))).floor().unique_fmpz()
        return None if prefix is None else int(prefix)

    return settled(look, first_bits=bits + _MORE)


@lru_cache(maxsize=256)
def geometric(rate: Fraction) -> Geometric:
    """Return the geometric law of this rate; laws are immutable and cached."""
    return Geometric(rate)
