"""The stored form of a data set's sketches: names of files, writing and reading them.

*Stored form.* ``sketch.json``: row count and category counts. ``gram.npy``: the
Gram matrix of (1, sum codes of number columns in declared order), as three arrays in numpy's
own format (:class:`Gram`). As JSON, a million integers take the interpreter to
themselves for as long as they are read. ``column-<i>.npy`` for the i-th number
column: the occupied cells of its grid ascending (int32), then their counts (the narrowest
unsigned type).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.domain import SUM_BITS, Column, NumberColumn
from mechanisms.sketches import LIMB_BITS, Ordered

SUMMARY = "sketch.json"
GRAM = "gram.npy"
_LIMB = (1 << LIMB_BITS) - 1
_WORD = (1 << SUM_BITS) - 1


class Gram:
    """A matrix of integers ``high * 2**68 + middle * 2**34 + low``, to which sums are added.

    ``low`` and ``middle`` are in [0, 2**34), ``high`` has a sign. Entries of n rows are within
    ``2**68 n``, so n may be anything that fits 62 bits. A million integers of Python would take
    six times the memory.
    """

    __slots__ = ("high", "low", "middle")

    def __init__(
        self, high: NDArray[np.int64], middle: NDArray[np.int64], low: NDArray[np.int64]
    ) -> None:
        self.high, self.middle, self.low = high, middle, low

    @classmethod
    def empty(cls, columns: int) -> Gram:
        """Return the matrix of no rows, with ``columns`` columns and 1."""
        high, middle, low = np.zeros((3, 1 + columns, 1 + columns), dtype=np.int64)
        return cls(high, middle, low)

    def add_limbs(self, sums: NDArray[np.int64]) -> None:
        """Add what :func:`mechanisms.sketches.limb_sums` makes of some rows."""
        low, mixed, high = sums
        self.low += low + ((mixed & _LIMB) << LIMB_BITS)
        self.middle += (mixed >> LIMB_BITS) + high
        self._carry()

    def add(self, other: Gram) -> None:
        """Add another matrix."""
        self.low += other.low
        self.middle += other.middle
        self.high += other.high
        self._carry()

    def _carry(self) -> None:
        self.middle += self.low >> SUM_BITS
        self.low &= _WORD
        self.high += self.middle >> SUM_BITS
        self.middle &= _WORD

    def some(self, places: Sequence[int]) -> list[list[int]]:
        """Return the rows and columns at these places, as Python integers."""
        picked = np.ix_(places, places)
        words = (each[picked].astype(object) for each in (self.high, self.middle, self.low))
        high, middle, low = words
        found: list[list[int]] = ((((high << SUM_BITS) + middle) << SUM_BITS) + low).tolist()
        return found

    @property
    def nbytes(self) -> int:
        """Return the memory it takes."""
        return self.high.nbytes + self.middle.nbytes + self.low.nbytes

    def to_bytes(self) -> bytes:
        """Return the stored form: the highest words in the narrowest signed type."""
        lowest, highest = int(self.high.min()), int(self.high.max())
        # Of a negative number numpy names a signed type, and -1 - highest needs as many bits.
        narrowest = np.min_scalar_type(min(lowest, -1 - highest))
        return _arrays_bytes(self.high.astype(narrowest), self.middle, self.low)


def read_gram(content: bytes) -> Gram:
    """Return the stored Gram matrix."""
    high, middle, low = _arrays_of(content, 3)
    return Gram(high.astype(np.int64), middle, low)


def number_columns(columns: Mapping[str, Column]) -> list[str]:
    """Return the names of the number (and boolean) columns, in declared order."""
    return [name for name, column in columns.items() if isinstance(column, NumberColumn)]


def column_file(index: int) -> str:
    """Return the name of the file with the i-th number column's counts."""
    return f"column-{index:05d}.npy"


def column_bytes(cells: NDArray[np.integer[Any]], counts: NDArray[np.integer[Any]]) -> bytes:
    """Return the stored form of a column's occupied cells, ascending, and their counts."""
    # Most counts are small: a column then takes a fraction of the space.
    narrowest = np.min_scalar_type(int(counts.max(initial=0)))
    return _arrays_bytes(cells.astype(np.int32, copy=False), counts.astype(narrowest))


def read_column(content: bytes) -> Ordered:
    """Return the inverse of :func:`column_bytes`."""
    cells, counts = _arrays_of(content, 2)
    return cells, counts.astype(np.int64)


def _arrays_bytes(*arrays: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    for array in arrays:
        np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _arrays_of(content: bytes, count: int) -> list[NDArray[Any]]:
    buffer = io.BytesIO(content)
    return [np.load(buffer, allow_pickle=False) for _ in range(count)]
