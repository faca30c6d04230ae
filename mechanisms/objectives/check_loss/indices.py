"""Sorted indices in few bytes: thousands of boxes keep those of their open records.

*Few* are kept as they are, at four bytes each. *Many* take what is least: the same, a bit for each
of all records, or the gaps between them. A gap g is ``g // 255`` bytes of 255 and one of
``g % 255``: a byte, for most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int32]

_FEW = 1 << 10
_MORE = 255  # the gap goes on with the next byte


@dataclass(frozen=True, slots=True, eq=False)
class Few:
    """Indices as they are."""

    index: Index

    @property
    def nbytes(self) -> int:
        """Return how many bytes they take."""
        return self.index.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Bits:
    """A bit for each of all records."""

    bits: NDArray[np.uint8]

    @property
    def index(self) -> Index:
        """Return the indices."""
        return np.flatnonzero(np.unpackbits(self.bits)).astype(np.int32)

    @property
    def nbytes(self) -> int:
        """Return how many bytes they take."""
        return self.bits.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """The gaps before the indices, from 0 on."""

    gaps: NDArray[np.uint8]

    @property
    def index(self) -> Index:
        """Return the indices."""
        return np.asarray(np.cumsum(self.gaps, dtype=np.int32)[self.gaps != _MORE])

    @property
    def nbytes(self) -> int:
        """Return how many bytes they take."""
        return self.gaps.nbytes


def kept(index: Index, records: int) -> Few | Bits | Gaps:
    """Return sorted indices, each once and below the number of records, in few bytes."""
    if len(index) <= _FEW:
        return Few(index)
    gaps = np.diff(index, prepend=0)
    more = gaps // _MORE
    size = len(gaps) + int(more.sum())
    if 8 * min(size, index.nbytes) >= records:
        is_there = np.zeros(records, dtype=np.bool_)
        is_there[index] = True
        return Bits(np.packbits(is_there))
    if size >= index.nbytes:
        return Few(index)
    ends = np.cumsum(more + 1) - 1
    found = np.full(size, _MORE, dtype=np.uint8)
    found[ends] = gaps % _MORE
    return Gaps(found)
