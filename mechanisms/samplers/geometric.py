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

*Tied records spread over a finer grid, lazily.* Every place of a code a of the grid becomes
``2**FINE_BITS`` fine points, and the code's records take distinct ones of them, a uniformly random
subset. A release computed from the spread records, then cut back to codes, keeps its epsilon:
spread the records two neighbours have in common first, and the differing one last, on a uniform
point still free in its code. That gives each spread data set its law, and makes them neighbours
whatever the points; a mixture of epsilon-DP laws is epsilon-DP.

Spreading makes the rank of a record reach every number from 1 to n, so that a
mechanism which scores ranks can distinguish levels inside a tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechanisms.exact.balls import rational
from mechanisms.exact.continuous import settled
from mechanisms.exact.floats import Integers, Words
from mechanisms.randomness import Randomness
from mechanisms.samplers.intervals import GridCodes

# Tied records spread over a finer grid, lazily

FINE_BITS = 32  # 2**32 places in each code: more than there are records
_WORD_BYTES = 8  # one place is cut from each 64-bit word


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Runs of fine points between two neighbouring records, and how many records lie at or below.

    Ascending in ``ranks``; every length is positive.
    """

    starts: Integers
    lengths: Integers
    ranks: Integers

    def rank_of(self, point: int) -> int:
        """Return the rank of the last step that starts at or below a fine point."""
        return int(self.ranks[np.searchsorted(self.starts, point, side="right") - 1])


class FineGrid:
    """One spread of the records; codes are spread when first asked for, and then stay."""

    __slots__ = ("_bits", "_grid", "_known", "_points", "_randomness", "_ranks", "high", "low")

    def __init__(self, grid: GridCodes, randomness: Randomness, *, bits: int = FINE_BITS) -> None:
        self._grid = grid
        self._bits = bits
        self._randomness = randomness
        self._known = np.zeros(len(grid.codes), dtype=bool)
        self._points: Integers = np.zeros(0, dtype=np.int64)
        self._ranks: Integers = np.zeros(0, dtype=np.int64)
        self.low = grid.first << bits
        self.high = self.low + (grid.span << bits) - 1

    @property
    def rows(self) -> int:
        """Return the number of records."""
        return int(self._grid.reached[-1])

    @property
    def span(self) -> int:
        """Return the number of fine points."""
        return self.high - self.low + 1

    def code(self, point: int) -> int:
        """Return the code that a fine point belongs to."""
        return self._grid.point(point >> self._bits)

    def steps(self, windows: list[tuple[int, int]]) -> Steps:
        """Return the steps of all ranks in these closed windows of ranks, and perhaps others.

        Only the records of ranks next to the windows are spread.
        """
        wanted = np.zeros_like(self._known)
        for first, last in windows:
            # The record of rank r starts step r and the one of rank r + 1 ends it.
            start = np.searchsorted(self._grid.reached, first) - 1
            end = np.searchsorted(self._grid.reached, last + 1)
            wanted[max(int(start), 0) : int(end)] = True
        self._spread(wanted & ~self._known)
        return self._assemble()

    def all_steps(self) -> Steps:
        """Return every step, all records spread."""
        return self.steps([(0, self.rows)])

    def _assemble(self) -> Steps:
        points, ranks = self._points, self._ranks
        ends = np.append(points[1:], self.high + 1)
        known = np.append(ranks[1:], self.rows + 1) == ranks + 1
        if len(ranks) and ranks[0] == 1:
            points, ranks = np.append(self.low, points), np.append(0, ranks)
            ends, known = np.append(points[1], ends), np.append(True, known)
        lengths = ends - points
        # Where the next record's rank is not one more, codes between are not spread yet.
        kept = known & (lengths > 0)
        return Steps(starts=points[kept], lengths=lengths[kept], ranks=ranks[kept])

    def _spread(self, fresh: NDArray[np.bool_]) -> None:
        """Give the records of these codes distinct fine points."""
        if not fresh.any():
            return
        codes = self._grid.codes[fresh]
        counts = np.diff(self._grid.reached)[fresh]
        points: Integers = np.zeros(0, dtype=np.int64)
        missing = counts
        while missing.any():
            # A place drawn twice is drawn again: by symmetry all sets of that size
            # stay equally likely.
            points = np.union1d(points, self._uniform(codes, missing))
            missing = counts - np.diff(np.searchsorted(points, self._edges(codes)), axis=0)[0]
        before = np.repeat(self._grid.reached[:-1][fresh], counts)
        within = np.arange(len(points)) - np.repeat(np.cumsum(counts) - counts, counts)
        order = np.argsort(np.concatenate([self._points, points]), kind="stable")
        self._points = np.concatenate([self._points, points])[order]
        self._ranks = np.concatenate([self._ranks, before + within + 1])[order]
        self._known |= fresh

    def _uniform(self, codes: Integers, counts: Integers) -> Integers:
        """Return independent uniform fine points of each code: ``counts`` of them, or fewer.

        Words beyond the last point are left out, whatever the others are.
        """
        starts, ends = self._edges(codes)
        total = int(counts.sum())
        raw = self._randomness.bits(8 * _WORD_BYTES * total).to_bytes(_WORD_BYTES * total, "little")
        words = np.frombuffer(raw, dtype="<u8") & np.repeat(_masks(ends - starts), counts)
        points = np.repeat(starts, counts) + words.astype(np.int64)
        within: Integers = points[points < np.repeat(ends, counts)]
        return within

    def _edges(self, codes: Integers) -> Integers:
        """Return the first fine point of each code (row 0) and the first beyond it (row 1)."""
        edges = [self._grid.places(codes), self._grid.places(codes + 1)]
        return np.stack(edges) << self._bits


def _masks(lengths: Integers) -> Words:
    """Return the least 2**k - 1 that is at least one less than each positive length."""
    found = (lengths - 1).astype(np.uint64)
    for shift in (1, 2, 4, 8, 16, 32):
        found |= found >> np.uint64(shift)
    return found


# Exact geometric variables, many at a time

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
