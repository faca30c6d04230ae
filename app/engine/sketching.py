"""Sketches of an upload while it streams by, and as they are stored.

The numbers are those of :class:`mechanisms.sketches.Sketch`. What differs is
memory and form: a column's codes are counted in one dense array of 2**21 + 1
places instead of by sorting and merging, for so many columns at a time, and
each column's counts become a file of their own, so that a mean never loads
what only a quantile needs.

*Stored form.* ``sketch.json``: row count, Gram matrix of (1, number columns in
declared order) and category counts, all integers. ``column-<i>.npy`` for the
i-th number column: its distinct codes ascending (int32), then their counts
(the narrowest unsigned type), as two arrays in numpy's own format.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.executor import Part
from mechanisms.domain import CODE_MAX, CategoryColumn, Column, NumberColumn
from mechanisms.sketches import Ordered, distinct, exact_gram
from mechanisms.statistics.base import Block

SUMMARY = "sketch.json"
DENSE_COLUMNS = 16
"""Columns counted at a time: 16 MiB each."""
SORTED_ROWS = 1 << 17
"""Up to so many rows a column is sorted instead, which is cheaper than 2**21 places."""


class SketchBuilder:
    """Adds up blocks; then yields the sketch files."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._numbers = number_columns(columns)
        self._rows = 0
        self._gram = exact_gram([np.zeros(0, dtype=np.int32)] * len(self._numbers), 0)
        self._categories = {
            name: np.zeros(len(column.values), dtype=np.int64)
            for name, column in columns.items()
            if isinstance(column, CategoryColumn)
        }
        self._counters = {name: _Counter() for name in self._numbers[:DENSE_COLUMNS]}

    def add(self, block: Block) -> None:
        """Add a block, which holds every column."""
        rows = len(next(iter(block.values())))
        self._rows += rows
        self._gram = self._gram + exact_gram([block[name] for name in self._numbers], rows)
        for name, so_far in self._categories.items():
            self._categories[name] = so_far + np.bincount(block[name], minlength=len(so_far))
        for name, counter in self._counters.items():
            counter.add(block[name])

    def files(self, parts: Sequence[Part]) -> Iterator[tuple[str, bytes]]:
        """Yield each file's name and bytes; ``parts`` hold the rows that were added.

        Columns that were not counted on the way are counted from the parts,
        so many at a time.
        """
        yield SUMMARY, self._summary()
        for start in range(0, len(self._numbers), DENSE_COLUMNS):
            names = self._numbers[start : start + DENSE_COLUMNS]
            counters = self._counters if start == 0 else {name: _Counter() for name in names}
            if start:
                for part in parts:
                    block = part.read(names)
                    for name, counter in counters.items():
                        counter.add(block[name])
            for index, name in enumerate(names, start):
                yield column_file(index), _column_bytes(counters[name].ordered())
            counters.clear()

    def _summary(self) -> bytes:
        content = {
            "rows": self._rows,
            "gram": self._gram.tolist(),
            "categories": {name: counts.tolist() for name, counts in self._categories.items()},
        }
        return json.dumps(content, separators=(",", ":")).encode()


class _Counter:
    """How often each code of one column has occurred: by sorting at first, then densely."""

    __slots__ = ("_counts", "_few", "_rows")

    def __init__(self) -> None:
        self._few: list[NDArray[np.int32]] = []
        self._rows = 0
        self._counts: NDArray[np.int64] | None = None

    def add(self, codes: NDArray[np.int32]) -> None:
        self._few.append(codes)
        self._rows += len(codes)
        if self._rows > SORTED_ROWS:
            if self._counts is None:
                self._counts = np.zeros(2 * CODE_MAX + 1, dtype=np.int64)
            for few in self._few:
                np.add.at(self._counts, few + np.int32(CODE_MAX), 1)
            self._few.clear()

    def ordered(self) -> Ordered:
        if self._counts is None:
            return distinct(np.concatenate([np.zeros(0, dtype=np.int32), *self._few]))
        places = np.flatnonzero(self._counts != 0)
        return (places - CODE_MAX).astype(np.int32), self._counts[places]


def number_columns(columns: Mapping[str, Column]) -> list[str]:
    """Return the names of the number (and boolean) columns, in declared order."""
    return [name for name, column in columns.items() if isinstance(column, NumberColumn)]


def column_file(index: int) -> str:
    """Return the name of the file with the i-th number column's counts."""
    return f"column-{index:05d}.npy"


def _column_bytes(ordered: Ordered) -> bytes:
    codes, counts = ordered
    buffer = io.BytesIO()
    np.save(buffer, codes, allow_pickle=False)
    narrowest = np.min_scalar_type(int(counts.max(initial=0)))
    np.save(buffer, counts.astype(narrowest), allow_pickle=False)
    return buffer.getvalue()


def read_column(content: bytes) -> Ordered:
    """Return the inverse of what :meth:`SketchBuilder.files` gave for a column."""
    buffer = io.BytesIO(content)
    codes: NDArray[np.int32] = np.load(buffer, allow_pickle=False)
    counts: NDArray[Any] = np.load(buffer, allow_pickle=False)
    return codes, counts.astype(np.int64)
