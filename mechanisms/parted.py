"""Public parts of private rows, each a data set of its own, from one pass over the rows.

    part c = the rows that a public map places in c.

*Computation.* The first request for a sketch of a part computes it for all parts: blocks are read
once, sorted by their place, and each run of one place is summed. Rows in no part are summed like
another part and then dropped, so the time of a sketch reveals little about the number of rows in
the parts. Sketches are exact integers, whatever the order.

**Privacy.** A part is as private as its rows; nothing here is released.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import pairwise
from typing import Generic, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block, Data, T
from mechanisms.domain import celled, summed
from mechanisms.grids import MOST_CELLS
from mechanisms.sketches import Ordered, exact_gram, merge_ordered

_KEY_BITS = MOST_CELLS.bit_length()  # of a cell's number

Gram = list[list[int]]
Places = NDArray[np.uint16]
Counted = tuple[NDArray[np.int64], NDArray[np.int64]]


class Placing(Protocol):
    """A public map from a row to the part it is in; two with the same key are the same map."""

    @property
    def key(self) -> Hashable: ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the arrays of a block that it reads, at least one."""

    @property
    def cells(self) -> int:
        """Return the number of parts."""

    def place(self, block: Block) -> NDArray[np.uint16]:
        """Return the part of each row; ``cells`` for a row in none."""


def parts_of(data: Data, placing: Placing) -> list[Part]:
    """Return the parts, which share what is computed for one of them."""
    whole = _Whole(data, placing)
    return [Part(whole, place) for place in range(placing.cells)]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One part of the rows, as data."""

    whole: _Whole
    place: int

    @property
    def rows(self) -> int:
        """Return how many rows the part has: private under either adjacency."""
        return int(self.whole.counts()[self.place])

    def gram(self, columns: Sequence[str]) -> Gram:
        """Return the exact Gram matrix of (1, sum codes of the named number columns)."""
        # The other rows of this table belong to other parts and later draws.
        return [row.copy() for row in self.whole.grams(tuple(columns))[self.place]]

    def ordered(self, column: str) -> Ordered:
        """Return a number column's occupied cells, ascending, and their counts."""
        return self.whole.ordered(column)[self.place]

    def category_counts(self, column: str) -> NDArray[np.int64]:
        """Return how often each declared value of a category column occurs."""
        counts: NDArray[np.int64] = self.whole.category_counts(column)[self.place]
        return counts

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Yield the part's rows, in blocks that may be empty."""
        for block, place in self.whole.blocks(columns):
            here = place == self.place
            yield {name: block[name][here] for name in columns}

    def map(self, function: Callable[[Block], T], columns: Sequence[str], /) -> Iterator[T]:
        """Yield the function's result for each of the blocks."""
        placing = self.whole.placing
        wanted = tuple(dict.fromkeys((*columns, *placing.columns)))
        here = _Here(placing, self.place, tuple(columns), function)
        return self.whole.data.map(here, wanted)

    def remembered(self, key: Hashable, make: Callable[[], T], nbytes: Callable[[T], int], /) -> T:
        """Return the cached object of these rows and this key, or make it."""
        return self.whole.remembered((self.place, key), make, nbytes)


@dataclass(frozen=True, slots=True)
class _Here(Generic[T]):
    """A function of a part's rows, as one of all rows."""

    placing: Placing
    place: int
    columns: tuple[str, ...]
    function: Callable[[Block], T]

    def __call__(self, block: Block) -> T:
        here = self.placing.place(block) == self.place
        return self.function({name: block[name][here] for name in self.columns})


@dataclass(frozen=True, slots=True, eq=False)
class _Whole:
    """All parts of one data set; the last entry of every sketch but one is that of no part."""

    data: Data
    placing: Placing
    known: dict[Hashable, object] = field(default_factory=dict)

    def remembered(self, key: Hashable, make: Callable[[], T], nbytes: Callable[[T], int]) -> T:
        """Return a value that is cached here or with the data, or make it."""
        if key not in self.known:
            self.known[key] = self.data.remembered((self.placing.key, key), make, nbytes)
        return cast(T, self.known[key])

    def blocks(self, columns: Sequence[str]) -> Iterator[tuple[Block, Places]]:
        """Yield blocks of rows with the place of each row."""
        wanted = tuple(dict.fromkeys((*columns, *self.placing.columns)))
        for block in self.data.blocks(wanted):
            yield block, self.placing.place(block)

    def map(self, function: Callable[[Block, Places], T], columns: Sequence[str]) -> Iterator[T]:
        """Yield the function's result for each block and the places of its rows."""
        wanted = tuple(dict.fromkeys((*columns, *self.placing.columns)))
        return self.data.map(_Placed(self.placing, function), wanted)

    def counts(self) -> NDArray[np.int64]:
        return self.remembered("rows", self._counts, lambda made: made.nbytes)

    def grams(self, columns: tuple[str, ...]) -> list[Gram]:
        bytes_each = 100 * (1 + len(columns)) ** 2  # Python's integers
        return self.remembered(
            ("gram", columns), lambda: self._grams(columns), lambda made: bytes_each * len(made)
        )

    def ordered(self, column: str) -> list[Ordered]:
        return self.remembered(
            ("ordered", column),
            lambda: self._ordered(column),
            lambda made: sum(codes.nbytes + counts.nbytes for codes, counts in made),
        )

    def category_counts(self, column: str) -> NDArray[np.int64]:
        return self.remembered(
            ("categories", column), lambda: self._categories(column), lambda made: made.nbytes
        )

    def _counts(self) -> NDArray[np.int64]:
        size = self.placing.cells + 1
        counts = np.zeros(size, dtype=np.int64)
        for some in self.map(partial(_rows_each, size), ()):
            counts += some
        return counts

    def _grams(self, columns: tuple[str, ...]) -> list[Gram]:
        size = self.placing.cells + 1
        empty = exact_gram([np.zeros(0, dtype=np.int64)] * len(columns), 0)
        names = tuple(map(summed, columns))
        # One matrix stands for all cells, so it is replaced below and never added to in place.
        totals = [empty] * size
        for some in self.map(partial(_grams_each, size, names), names):
            for cell, gram in some.items():
                totals[cell] = totals[cell] + gram
        return [[[int(entry) for entry in row] for row in total] for total in totals]

    def _ordered(self, column: str) -> list[Ordered]:
        found = self.map(partial(_cells_each, column), (celled(column),))
        nothing = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        # A key is a row's part, then its cell: sorted, each part's cells are one run, ascending.
        keys, counts = reduce(_merged, found, nothing)
        cells = (keys & ((1 << _KEY_BITS) - 1)).astype(np.int32)
        starts = np.arange(self.placing.cells + 1, dtype=np.int64) << _KEY_BITS
        ends = np.searchsorted(keys, starts).tolist()
        return [(cells[low:high], counts[low:high]) for low, high in pairwise(ends)]

    def _categories(self, column: str) -> NDArray[np.int64]:
        size, values = self.placing.cells + 1, len(self.data.category_counts(column))
        counts = np.zeros(size * values, dtype=np.int64)
        for some in self.map(partial(_values_each, column, values, len(counts)), (column,)):
            counts += some
        return counts.reshape(size, values)


@dataclass(frozen=True, slots=True)
class _Placed(Generic[T]):
    """A function of a block and the places of its rows, as one of the block alone."""

    placing: Placing
    function: Callable[[Block, Places], T]

    def __call__(self, block: Block) -> T:
        return self.function(block, self.placing.place(block))


def _rows_each(size: int, _: Block, place: Places) -> NDArray[np.int64]:
    return np.bincount(place, minlength=size)


def _grams_each(
    size: int, names: Sequence[str], block: Block, place: Places
) -> dict[int, NDArray[np.object_]]:
    """Return the matrices of the parts that have rows here."""
    # Sorted once, the rows of a part are a slice of every column.
    order = np.argsort(place, kind="stable")
    sum_codes = [block[name][order] for name in names]
    ends = np.cumsum(np.bincount(place, minlength=size)).tolist()
    return {
        cell: exact_gram([column[low:high] for column in sum_codes], high - low)
        for cell, (low, high) in enumerate(pairwise([0, *ends]))
        if low < high
    }


def _cells_each(column: str, block: Block, place: Places) -> Counted:
    return _distinct((place.astype(np.int64) << _KEY_BITS) + block[celled(column)])


def _values_each(
    column: str, values: int, size: int, block: Block, place: Places
) -> NDArray[np.int64]:
    return np.bincount(place.astype(np.int64) * values + block[column], minlength=size)


def _distinct(keys: NDArray[np.int64]) -> Counted:
    found, counts = np.unique(keys, return_counts=True)
    return found, counts.astype(np.int64, copy=False)


def _merged(first: Counted, second: Counted) -> Counted:
    return cast(Counted, merge_ordered(cast(Ordered, first), cast(Ordered, second)))
