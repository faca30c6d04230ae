"""Sketches of an upload while it streams by, and as they are stored.

The numbers are those of :class:`mechanisms.sketches.Sketch`. What differs is
memory and form: a column's cells are counted in one dense array, of a place for each,
instead of by sorting and merging, for several columns at a time, and
each column's counts become a file of their own, so that a mean never loads
what only a quantile needs. The files are those of :mod:`app.engine.schema`.

Where passes are made elsewhere (:mod:`app.engine.choice`), several parts of many columns are
sketched once they are written. What has few columns, or one part, is sketched as it comes by: to
read it takes longer. All are sums of integers, so the files are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.executor import Executor, Part
from app.engine.schema import (
    GRAM,
    SUMMARY,
    Gram,
    column_bytes,
    column_file,
    number_columns,
    read_column,
    read_gram,
)
from app.vault.stored import Attached
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Values, array_of, summed
from mechanisms.grids import Grid
from mechanisms.sketches import distinct, limb_sums, merge_ordered

DENSE_COLUMNS = 16
"""Columns counted at a time: up to 16 MiB each."""
SORTED_ROWS = 1 << 17
"""Up to this many rows a column is sorted instead, which is cheaper than up to 2**21 places."""
COUNTED_ROWS = 1 << 20
"""The number counted at once: the places then fit the CPU cache."""
_FEW_CELLS = 1 << 14
"""Up to this many cells, rows are counted as they come: all counts fit the CPU cache."""
_CODED_ROWS = 1 << 15
"""The number of rows whose sum codes are made at a time."""
NARROW_ROWS = 2**31 - 1
"""Up to this many rows a count fits 32 bits."""


class SketchBuilder:
    """Adds up blocks; then yields the sketch files.

    Parameters
    ----------
    columns
        Those of the data set.
    executor
        Where several parts of many columns are sketched, once they are written; None: here.
    """

    def __init__(self, columns: Mapping[str, Column], executor: Executor | None = None) -> None:
        self._columns = columns
        self._numbers = number_columns(columns)
        # fewer are counted as they come by, while the next rows are read: no pass is as cheap
        self._executor = executor if len(self._numbers) > DENSE_COLUMNS else None
        self._sums = _Sums(columns)
        self._counters = self._counting(self._numbers[:DENSE_COLUMNS])

    def _counting(self, names: Sequence[str]) -> dict[str, _Counter]:
        return {name: _Counter(_cells_of(self._columns, name)) for name in names}

    def add(self, block: Mapping[str, Values]) -> None:
        """Add a part's rows: the values of every column."""
        if self._executor is not None and self._sums.rows:
            return  # there are several
        self._sums.add(block)
        for name, counter in self._counters.items():
            counter.add(block[name])

    def files(self, parts: Sequence[Part]) -> Iterator[tuple[str, bytes]]:
        """Yield each file's name and bytes; ``parts`` hold the rows that were added.

        Columns that were not counted on the way are counted from the parts,
        several at a time.
        """
        if self._executor is not None and len(parts) > 1:
            yield from _sketched(self._columns, parts, self._executor)
            return
        yield from self._sums.files()
        for start in range(0, len(self._numbers), DENSE_COLUMNS):
            names = self._numbers[start : start + DENSE_COLUMNS]
            counters = self._counters if start == 0 else self._counting(names)
            if start:
                for part in parts:
                    block = part.read(names)
                    for name, counter in counters.items():
                        counter.add(block[name])
            for index, name in enumerate(names, start):
                yield column_file(index), column_bytes(*counters[name].ordered())
            counters.clear()


def added(
    files: Iterable[tuple[str, bytes]], earlier: Mapping[str, Attached]
) -> Iterator[tuple[str, bytes]]:
    """Yield sketch files with the stored ones of earlier rows added: integers, so exactly."""
    summary = json.loads(earlier[SUMMARY].read())
    for name, content in files:
        if name == SUMMARY:
            own = json.loads(content)
            categories = {
                column: np.add(counts, summary["categories"][column]).tolist()
                for column, counts in own["categories"].items()
            }
            rows = own["rows"] + summary["rows"]
            yield name, json.dumps({"rows": rows, "categories": categories}).encode()
        elif name == GRAM:
            total = read_gram(earlier[GRAM].read())
            total.add(read_gram(content))
            yield name, total.to_bytes()
        else:
            both = merge_ordered(read_column(earlier[name].read()), read_column(content))
            yield name, column_bytes(*both)


def _sketched(
    columns: Mapping[str, Column], parts: Sequence[Part], executor: Executor
) -> Iterator[tuple[str, bytes]]:
    """Yield the same files: sums by part, counts by column, each written by its reader."""
    kept = executor.keep(parts, list(columns))
    sums = _Sums(columns)
    for some in executor.map(partial(_sums_of, columns), kept):
        sums.merge(some)
    yield from sums.files()
    names = number_columns(columns)
    grids = [(name, _cells_of(columns, name)) for name in names]
    counted = executor.each(partial(_counts_of, tuple(parts)), grids)
    for index, content in enumerate(counted):
        yield column_file(index), content


def _sums_of(columns: Mapping[str, Column], block: Mapping[str, Values]) -> _Sums:
    sums = _Sums(columns)
    sums.add(block)
    return sums


def _counts_of(parts: Sequence[Part], counted: tuple[str, Grid]) -> bytes:
    column, grid = counted
    counter = _Counter(grid)
    for part in parts:
        counter.add(part.read([column])[column])
    return column_bytes(*counter.ordered())


def _cells_of(columns: Mapping[str, Column], name: str) -> Grid:
    column = columns[name]
    assert isinstance(column, NumberColumn)
    return column.grid


class _Sums:
    """What is added up over rows: their number, the Gram matrix, and categories' counts."""

    __slots__ = ("_categories", "_columns", "_gram", "_numbers", "rows")

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.rows = 0
        self._columns = columns
        self._numbers = number_columns(columns)
        self._gram = Gram.empty(len(self._numbers))
        self._categories = {
            name: np.zeros(len(column.values), dtype=np.int64)
            for name, column in columns.items()
            if isinstance(column, CategoryColumn)
        }

    def add(self, block: Mapping[str, Values]) -> None:
        """Add a block of values."""
        rows = len(next(iter(block.values())))
        self.rows += rows
        for start in range(0, rows, _CODED_ROWS):
            part = slice(start, start + _CODED_ROWS)
            sum_codes = [
                array_of(summed(name), self._columns[name], block[name][part])
                for name in self._numbers
            ]
            self._gram.add_limbs(limb_sums(sum_codes, min(_CODED_ROWS, rows - start)))
        for name, so_far in self._categories.items():
            self._categories[name] = so_far + np.bincount(block[name], minlength=len(so_far))

    def merge(self, other: _Sums) -> None:
        """Add what is the same of other rows."""
        self.rows += other.rows
        self._gram.add(other._gram)
        for name, counts in other._categories.items():
            self._categories[name] = self._categories[name] + counts

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files that hold them."""
        categories = {name: counts.tolist() for name, counts in self._categories.items()}
        yield SUMMARY, json.dumps({"rows": self.rows, "categories": categories}).encode()
        yield GRAM, self._gram.to_bytes()


class _Counter:
    """How often each cell of one column has occurred: by sorting at first, then densely."""

    __slots__ = ("_counts", "_few", "_grid", "_rows", "_waiting")

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._few: list[NDArray[np.int32]] = []
        self._waiting = 0
        self._rows = 0
        self._counts: NDArray[np.int32] | NDArray[np.int64] | None = None

    def add(self, values: Values) -> None:
        self._few.append(self._grid.cells(values))
        self._waiting += len(values)
        if self._waiting >= COUNTED_ROWS:
            self._count()

    def _count(self) -> None:
        """Count what waits."""
        self._rows += self._waiting
        if self._counts is None:
            self._counts = np.zeros(self._grid.size, dtype=np.int32)
        if self._rows > NARROW_ROWS and self._counts.dtype == np.int32:
            self._counts = self._counts.astype(np.int64)
        # Of the counts' own type: a cast would make adding at places many times slower.
        one = self._counts.dtype.type(1)
        for few in self._few:
            if self._grid.size <= _FEW_CELLS:
                self._counts += np.bincount(few, minlength=self._grid.size)
                continue
            # in order, so that places which are counted one after the other are neighbours
            np.add.at(self._counts, np.sort(few).astype(np.intp), one)
        self._few.clear()
        self._waiting = 0

    def ordered(self) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
        if self._rows + self._waiting > SORTED_ROWS:
            self._count()
        if self._counts is None:
            return distinct(np.concatenate([np.zeros(0, dtype=np.int32), *self._few]))
        used = self._counts != 0
        return np.flatnonzero(used).astype(np.int32), self._counts[used]
