"""The stored form of a data set's sketches: names of files, writing and reading them.

*Stored form.* ``sketch.json``: row count and category counts. ``gram.npy``: the
Gram matrix of (1, number columns in declared order), as two arrays in numpy's
own format: what its integers are above 32 bits (the narrowest signed type), and
their lowest 32 bits. As JSON, a million integers take the interpreter to
themselves for as long as they are read. ``column-<i>.npy`` for the i-th number
column: its distinct codes ascending (int32), then their counts (the narrowest
unsigned type).

Data sets stored before there was a ``gram.npy`` have the matrix in ``sketch.json``.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.domain import Column, NumberColumn
from mechanisms.sketches import Ordered

SUMMARY = "sketch.json"
GRAM = "gram.npy"
WORD_BITS = 32
LOW_BITS = (1 << WORD_BITS) - 1


@dataclass(frozen=True, slots=True, eq=False)
class GramWords:
    """A matrix of integers of up to 95 bits: ``high * 2**32 + low``.

    A million integers of Python would take six times the memory.
    """

    high: NDArray[np.signedinteger[Any]]
    low: NDArray[np.uint32]

    def some(self, places: Sequence[int]) -> list[list[int]]:
        """Return the rows and columns at these places, as Python integers."""
        picked = np.ix_(places, places)
        return [
            [(above << WORD_BITS) + below for above, below in zip(*row, strict=True)]
            for row in zip(self.high[picked].tolist(), self.low[picked].tolist(), strict=True)
        ]

    @property
    def nbytes(self) -> int:
        """Return the memory it takes."""
        return self.high.nbytes + self.low.nbytes

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        return _arrays_bytes(self.high, self.low)


def read_gram(gram: bytes | None, summary: Mapping[str, Any]) -> GramWords:
    """Return the stored Gram matrix, from its own file or else from the summary."""
    if gram is not None:
        high, low = _arrays_of(gram)
        return GramWords(high, low)
    rows = summary["gram"]
    # The shift rounds down for negative numbers too, so the low word is never negative.
    high = np.array([[each >> WORD_BITS for each in row] for row in rows], dtype=np.int64)
    low = np.array([[each & LOW_BITS for each in row] for row in rows], dtype=np.uint32)
    return GramWords(high, low)


def number_columns(columns: Mapping[str, Column]) -> list[str]:
    """Return the names of the number (and boolean) columns, in declared order."""
    return [name for name, column in columns.items() if isinstance(column, NumberColumn)]


def column_file(index: int) -> str:
    """Return the name of the file with the i-th number column's counts."""
    return f"column-{index:05d}.npy"


def column_bytes(codes: NDArray[np.int32], counts: NDArray[np.integer[Any]]) -> bytes:
    """Return the stored form of a column's distinct codes, ascending, and their counts."""
    # Most counts are small: a column then takes a fraction of the space.
    narrowest = np.min_scalar_type(int(counts.max(initial=0)))
    return _arrays_bytes(codes, counts.astype(narrowest))


def read_column(content: bytes) -> Ordered:
    """Return the inverse of :func:`column_bytes`."""
    codes, counts = _arrays_of(content)
    return codes, counts.astype(np.int64)


def _arrays_bytes(*arrays: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    for array in arrays:
        np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _arrays_of(content: bytes) -> tuple[NDArray[Any], NDArray[Any]]:
    buffer = io.BytesIO(content)
    return np.load(buffer, allow_pickle=False), np.load(buffer, allow_pickle=False)
