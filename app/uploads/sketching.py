"""Sketches of an upload while it streams by, and as they are stored.

The numbers are those of :class:`mechanisms.sketches.Sketch`. What differs is
memory and form: a column's codes are counted in one dense array of 2**21 + 1
places instead of by sorting and merging, for so many columns at a time, and
each column's counts become a file of their own, so that a mean never loads
what only a quantile needs. The files are those of :mod:`app.engine.sketch_files`.

Where passes are made elsewhere (:mod:`app.engine.choice`), several parts of many columns are
sketched once they are written. What has few columns, or one part, is sketched as it comes by: to
read it takes longer. All are sums of integers, so the files are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.engine.executor import Executor, Part
from app.engine.sketch_files import (
    GRAM,
    LOW_BITS,
    SUMMARY,
    WORD_BITS,
    GramWords,
    column_bytes,
    column_file,
    number_columns,
    read_column,
    read_gram,
)
from mechanisms.contract import Block
from mechanisms.domain import CODE_MAX, CategoryColumn, Column
from mechanisms.sketches import SUM_ROWS, distinct, gram_of_some, merge_ordered

DENSE_COLUMNS = 16
"""Columns counted at a time: 16 MiB each."""
SORTED_ROWS = 1 << 17
"""Up to so many rows a column is sorted instead, which is cheaper than 2**21 places."""
COUNTED_ROWS = 1 << 20
"""So many are counted at once: the places then stay where the processor finds them soon."""
NARROW_ROWS = 2**31 - 1
"""Up to so many rows a count fits 32 bits."""


class File(Protocol):
    """A stored file."""

    def read(self) -> bytes: ...


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
        self._counters = {name: _Counter() for name in self._numbers[:DENSE_COLUMNS]}

    def add(self, block: Block) -> None:
        """Add a part's block, which holds every column."""
        if self._executor is not None and self._sums.rows:
            return  # there are several
        self._sums.add(block)
        for name, counter in self._counters.items():
            counter.add(block[name])

    def files(self, parts: Sequence[Part]) -> Iterator[tuple[str, bytes]]:
        """Yield each file's name and bytes; ``parts`` hold the rows that were added.

        Columns that were not counted on the way are counted from the parts,
        so many at a time.
        """
        if self._executor is not None and len(parts) > 1:
            yield from _sketched(self._columns, parts, self._executor)
            return
        yield from self._sums.files()
        for start in range(0, len(self._numbers), DENSE_COLUMNS):
            names = self._numbers[start : start + DENSE_COLUMNS]
            counters = self._counters if start == 0 else {name: _Counter() for name in names}
            if start:
                for part in parts:
                    block = part.read(names)
                    for name, counter in counters.items():
                        counter.add(block[name])
            for index, name in enumerate(names, start):
                yield column_file(index), column_bytes(*counters[name].ordered())
            counters.clear()


def added(
    files: Iterable[tuple[str, bytes]], earlier: Mapping[str, File]
) -> Iterator[tuple[str, bytes]]:
    """Yield sketch files with the stored ones of earlier rows added: integers, so exactly."""
    summary = json.loads(earlier[SUMMARY].read())
    gram = earlier.get(GRAM)
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
            stored = read_gram(None if gram is None else gram.read(), summary)
            yield name, _Gram.of(stored, read_gram(content, {})).words().to_bytes()
        else:
            both = merge_ordered(read_column(earlier[name].read()), read_column(content))
            yield name, column_bytes(*both)


def _sketched(
    columns: Mapping[str, Column], parts: Sequence[Part], executor: Executor
) -> Iterator[tuple[str, bytes]]:
    """Yield the same files: sums by part, counts by column, each by whoever reads it."""
    kept = executor.keep(parts, list(columns))
    sums = _Sums(columns)
    for some in executor.map(partial(_sums_of, columns), kept):
        sums.merge(some)
    yield from sums.files()
    counted = executor.each(partial(_counts_of, tuple(parts)), number_columns(columns))
    for index, content in enumerate(counted):
        yield column_file(index), content


def _sums_of(columns: Mapping[str, Column], block: Block) -> _Sums:
    sums = _Sums(columns)
    sums.add(block)
    return sums


def _counts_of(parts: Sequence[Part], column: str) -> bytes:
    counter = _Counter()
    for part in parts:
        counter.add(part.read([column])[column])
    return column_bytes(*counter.ordered())


class _Sums:
    """What is added up over rows: their number, the Gram matrix, and categories' counts."""

    __slots__ = ("_categories", "_gram", "_numbers", "rows")

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.rows = 0
        self._numbers = number_columns(columns)
        self._gram = _Gram(len(self._numbers))
        self._categories = {
            name: np.zeros(len(column.values), dtype=np.int64)
            for name, column in columns.items()
            if isinstance(column, CategoryColumn)
        }

    def add(self, block: Block) -> None:
        """Add a block."""
        rows = len(next(iter(block.values())))
        self.rows += rows
        for start in range(0, rows, SUM_ROWS):
            some = [block[name][start : start + SUM_ROWS] for name in self._numbers]
            self._gram.add(gram_of_some(some, min(SUM_ROWS, rows - start)))
        for name, so_far in self._categories.items():
            self._categories[name] = so_far + np.bincount(block[name], minlength=len(so_far))

    def merge(self, other: _Sums) -> None:
        """Add what is the same of other rows."""
        self.rows += other.rows
        self._gram.merge(other._gram)
        for name, counts in other._categories.items():
            self._categories[name] = self._categories[name] + counts

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files that hold them."""
        categories = {name: counts.tolist() for name, counts in self._categories.items()}
        yield SUMMARY, json.dumps({"rows": self.rows, "categories": categories}).encode()
        yield GRAM, self._gram.words().to_bytes()


class _Gram:
    """An exact sum of up to 2**31 matrices of 64 bits, in two words."""

    __slots__ = ("_high", "_low")

    def __init__(self, columns: int) -> None:
        self._high = np.zeros((1 + columns, 1 + columns), dtype=np.int64)
        self._low = np.zeros_like(self._high)

    @classmethod
    def of(cls, *sums: GramWords) -> _Gram:
        """Return the sum of some sums."""
        found = cls(len(sums[0].high) - 1)
        for words in sums:
            found._high += words.high
            found._low += words.low
            found._carry()
        return found

    def add(self, part: NDArray[np.int64]) -> None:
        """Add a matrix."""
        self._high += part >> WORD_BITS
        self._low += part & LOW_BITS
        self._carry()

    def merge(self, other: _Gram) -> None:
        """Add another sum."""
        self._high += other._high
        self._low += other._low
        self._carry()

    def _carry(self) -> None:
        self._high += self._low >> WORD_BITS
        self._low &= LOW_BITS

    def words(self) -> GramWords:
        """Return the sum."""
        lowest, highest = int(self._high.min()), int(self._high.max())
        # Of a negative number numpy names a signed type, and -1 - highest needs as many bits.
        narrowest = np.min_scalar_type(min(lowest, -1 - highest))
        return GramWords(self._high.astype(narrowest), self._low.astype(np.uint32))


class _Counter:
    """How often each code of one column has occurred: by sorting at first, then densely."""

    __slots__ = ("_counts", "_few", "_rows", "_waiting")

    def __init__(self) -> None:
        self._few: list[NDArray[np.int32]] = []
        self._waiting = 0
        self._rows = 0
        self._counts: NDArray[np.int32] | NDArray[np.int64] | None = None

    def add(self, codes: NDArray[np.int32]) -> None:
        self._few.append(codes)
        self._waiting += len(codes)
        if self._waiting >= COUNTED_ROWS:
            self._count()

    def _count(self) -> None:
        """Count what waits."""
        self._rows += self._waiting
        if self._counts is None:
            self._counts = np.zeros(2 * CODE_MAX + 1, dtype=np.int32)
        if self._rows > NARROW_ROWS and self._counts.dtype == np.int32:
            self._counts = self._counts.astype(np.int64)
        # Of the counts' own type: a cast would make adding at places many times slower.
        one = self._counts.dtype.type(1)
        for few in self._few:
            # in order, so that places which are counted one after the other lie side by side
            places = np.add(np.sort(few), CODE_MAX, dtype=np.intp)
            np.add.at(self._counts, places, one)
        self._few.clear()
        self._waiting = 0

    def ordered(self) -> tuple[NDArray[np.int32], NDArray[np.integer[Any]]]:
        if self._rows + self._waiting > SORTED_ROWS:
            self._count()
        if self._counts is None:
            return distinct(np.concatenate([np.zeros(0, dtype=np.int32), *self._few]))
        used = self._counts != 0
        codes = np.flatnonzero(used).astype(np.int32)
        codes -= CODE_MAX
        return codes, self._counts[used]
