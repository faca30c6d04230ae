"""Points in cells: a bounded number of cells, whatever the number of points.

A cell keeps the count of its points, the exact sum of their coordinates, and the least and the
largest of each. Cells are dyadic cubes, in the order of their interleaved bits, so that a coarser
level joins neighbours in that order. The level is the finest that leaves at most ``MOST_CELLS``
cells. Cells of some of the points are no more than cells of all of them, so the level, and every
integer kept, is the same in whichever order and portions the points come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from mechanisms.exact.floats import Integers, Words

MOST_CELLS = 1 << 18
"""About 30 MB of them."""

FINENESS = {2: 32, 3: 8, 4: 4}
"""How many cells a graded frame has from its middle to any distance, by dimension."""

_BYTE = 8
_WORD = 64


@dataclass(frozen=True, slots=True)
class Frame:
    """The cube that all points lie in: its least corner, and the bits of its sides.

    Where ``inner`` is not 0, the resolution is coarser far from the middle: at a distance r beyond
    ``inner`` it is about r over :data:`FINENESS`.
    """

    lower: tuple[int, ...]
    bits: int
    inner: int = 0

    @property
    def dimension(self) -> int:
        """Return d."""
        return len(self.lower)

    def keys(self, points: Integers) -> Words:
        """Return the interleaved bits of points (n x d), the lowest ones left out beyond 64."""
        d = self.dimension
        lost = max(0, self.bits - _WORD // d)
        keys = np.zeros(len(points), dtype=np.uint64)
        spread = _spread(d)
        for j, low in enumerate(self.lower):
            moved = (points[:, j] - low) >> lost
            for byte in range(0, self.bits - lost, _BYTE):
                part = spread[(moved >> byte) & 255]
                keys |= part << np.uint64(byte * d + j)
        return self._graded(keys, points, lost) if self.inner else keys

    def _graded(self, keys: Words, points: Integers, lost: int) -> Words:
        """Return keys without the bits that are finer than needed so far from the middle."""
        middle = np.array(self.lower) + (1 << self.bits - 1)
        away = np.maximum(np.abs(points - middle).max(axis=1), self.inner)
        _, power = np.frexp(away / FINENESS[self.dimension])
        level = np.clip(power - 1 - lost, 0, _WORD // self.dimension - 1).astype(np.uint64)
        shift = level * np.uint64(self.dimension)
        return np.asarray(keys >> shift << shift)


def _spread(dimension: int) -> Words:
    """Return the bytes with d - 1 zeros after each bit."""
    table = np.zeros(256, dtype=np.uint64)
    for bit in range(min(_BYTE, -(-_WORD // dimension))):
        on = (np.arange(256) >> bit & 1).astype(np.uint64)
        table |= on << np.uint64(bit * dimension)
    return table


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cells in the order of their keys: counts (m), sums, least and largest coordinates (m x d)."""

    level: int
    keys: Words
    counts: Integers
    sums: Integers
    least: Integers
    largest: Integers

    @classmethod
    def of(cls, points: Integers, frame: Frame) -> Cells:
        """Return the cells of some points (n x d) inside the frame."""
        ones = np.ones(len(points), dtype=np.int64)
        found = cls(0, frame.keys(points), ones, points, points, points)
        return found._sorted()._fitting()

    @classmethod
    def all(cls, parts: Iterable[Cells], frame: Frame) -> Cells:
        """Return the cells of all the points that some cells were made of, in one frame."""
        empty = cls.of(np.zeros((0, frame.dimension), dtype=np.int64), frame)
        return reduce(cls._with, parts, empty)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def exact(self) -> bool:
        """Return whether each cell is one point, with its count."""
        return bool((self.least == self.largest).all())

    def _with(self, other: Cells) -> Cells:
        # Keys of two levels cannot be compared, and a coarse cell cannot be parted again.
        level = max(self.level, other.level)
        one, two = self._at(level), other._at(level)
        joined = Cells(
            level,
            np.concatenate([one.keys, two.keys]),
            np.concatenate([one.counts, two.counts]),
            np.concatenate([one.sums, two.sums]),
            np.concatenate([one.least, two.least]),
            np.concatenate([one.largest, two.largest]),
        )
        return joined._sorted()._fitting()

    def _sorted(self) -> Cells:
        order = np.argsort(self.keys, kind="stable")
        return Cells(
            self.level,
            self.keys[order],
            self.counts[order],
            self.sums[order],
            self.least[order],
            self.largest[order],
        )

    def _fitting(self) -> Cells:
        """Return the finest level, from this one on, with few enough cells."""
        level = self.level
        # There is one cell more than there are changes of key.
        while np.count_nonzero(np.diff(self._coarse(level))) >= MOST_CELLS:
            level += 1
        return self._at(level)

    def _coarse(self, level: int) -> Words:
        shift = (level - self.level) * self.sums.shape[1]
        return self.keys >> np.uint64(shift) if shift < _WORD else np.zeros_like(self.keys)

    def _at(self, level: int) -> Cells:
        """Return the cells of a coarser level, or of this one, equal keys joined."""
        if not len(self):
            return Cells(level, self.keys, self.counts, self.sums, self.least, self.largest)
        keys = self._coarse(level)
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        return Cells(
            level,
            keys[starts],
            np.add.reduceat(self.counts, starts),
            np.add.reduceat(self.sums, starts),
            np.minimum.reduceat(self.least, starts),
            np.maximum.reduceat(self.largest, starts),
        )
