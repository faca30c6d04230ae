"""Tied records spread over a finer grid, lazily.

Every code a of the column's grid becomes ``2**FINE_BITS`` fine points, and its records
take distinct ones of them, a uniformly random subset. A release computed from
the spread records, then cut back to codes, keeps its epsilon: spread the records
two neighbours have in common first, and the differing one last, on a uniform
point still free in its code. That gives each spread data set its law, and makes
them neighbours whatever the points; a mixture of epsilon-DP laws is epsilon-DP.

Spreading makes the rank of a record reach every number from 1 to n, so that a
mechanism which scores ranks can distinguish levels inside a tie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.arrays import Integers
from mechanisms.randomness import Randomness
from mechanisms.samplers.intervals import GridCodes

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
        self.low = grid.low << bits
        self.high = ((grid.high + 1) << bits) - 1

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
        return point >> self._bits

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
        """Return ``counts`` independent uniform fine points of each code."""
        total = int(counts.sum())
        raw = self._randomness.bits(8 * _WORD_BYTES * total).to_bytes(_WORD_BYTES * total, "little")
        words = np.frombuffer(raw, dtype="<u8") & np.uint64((1 << self._bits) - 1)
        return np.repeat(codes << self._bits, counts) + words.astype(np.int64)

    def _edges(self, codes: Integers) -> Integers:
        """Return the first fine point of each code (row 0) and the first beyond it (row 1)."""
        return np.stack([codes << self._bits, (codes + 1) << self._bits])
