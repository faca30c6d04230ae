"""Sorted indices in few bytes: thousands of boxes keep those of their open records.

*Few* are stored as they are, at four bytes each. *Many* use the smallest of three forms: the
same, a bit for each of all records, or the gaps between them. A gap g is ``g // 255`` bytes of 255
and one of ``g % 255``: a byte, for most.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int32]

_FEW = 1 << 10
_MORE = 255  # the gap continues in the next byte


@dataclass(frozen=True, slots=True, eq=False)
class Kept(ABC):
    """Indices in a form of their own."""

    data: NDArray[Any]

    @property
    @abstractmethod
    def index(self) -> Index:
        """Return the indices."""

    @property
    def nbytes(self) -> int:
        """Return how many bytes they take."""
        return self.data.nbytes


class Few(Kept):
    """Indices as they are."""

    __slots__ = ()

    @property
    def index(self) -> Index:
        """Return the indices."""
        return self.data


class Bits(Kept):
    """A bit for each of all records."""

    __slots__ = ()

    @property
    def index(self) -> Index:
        """Return the indices."""
        return np.flatnonzero(np.unpackbits(self.data)).astype(np.int32)


class Gaps(Kept):
    """The gaps before the indices, from 0 on."""

    __slots__ = ()

    @property
    def index(self) -> Index:
        """Return the indices."""
        return np.asarray(np.cumsum(self.data, dtype=np.int32)[self.data != _MORE])


def kept(index: Index, records: int) -> Kept:
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
