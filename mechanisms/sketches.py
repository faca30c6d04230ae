"""Integer sketches: everything most releases need to know about a data set.

One pass over the codes of a data set (see :mod:`mechanisms.domain`) yields

- the exact Gram matrix of (1, every number column),
- each number column's distinct codes, ascending, with their counts,
- each category column's counts.

A mean, a quantile or a linear regression then costs the same at a thousand
rows as at a hundred million. Sketches are integers, so merging is exactly
associative and commutative: any split of the rows gives identical numbers.

*Conventions.* Codes are int32 in [-F, F], F = 2**20, so a column holds at most
2**21 + 1 distinct ones, which bounds a sketch's size whatever the row count.
The Gram matrix is an object array of Python integers (it never overflows);
blocks of 2**13 rows of ``float64`` products stay at or below 2**53 and are
therefore exact integers at BLAS speed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block, T
from mechanisms.domain import (
    CODE_BITS,
    EXACT_ROWS,
    CategoryColumn,
    Column,
    NumberColumn,
    Schema,
)
from mechanisms.exact.once import once

Ordered = tuple[NDArray[np.int32], NDArray[np.int64]]

SUM_ROWS = 1 << (62 - 2 * CODE_BITS)  # so many products of two codes fit 64-bit integers
_BLOCK_ROWS = 1 << 18  # a megabyte of each column


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """The integer summary of some rows; ``merge`` adds two of them.

    Attributes
    ----------
    rows
        Number of rows (private under add-remove).
    gram
        Object array of Python integers, shape (1 + numbers, 1 + numbers),
        row 0 for the constant 1, then the number columns in ``ordered``'s order.
    ordered
        Number column to (distinct codes ascending, their counts).
    categories
        Category column to the count of each declared value.
    """

    rows: int
    gram: NDArray[np.object_]
    ordered: Mapping[str, Ordered]
    categories: Mapping[str, NDArray[np.int64]]

    @classmethod
    def from_block(cls, block: Block, columns: Mapping[str, Column]) -> Sketch:
        """Sketch one block, which holds every one of the schema's columns."""
        numbers = [name for name, column in columns.items() if isinstance(column, NumberColumn)]
        rows = len(next(iter(block.values()))) if block else 0
        return cls(
            rows=rows,
            gram=exact_gram([block[name] for name in numbers], rows),
            ordered={name: distinct(block[name]) for name in numbers},
            categories={
                name: np.bincount(block[name], minlength=len(column.values)).astype(np.int64)
                for name, column in columns.items()
                if isinstance(column, CategoryColumn)
            },
        )

    @classmethod
    def empty(cls, columns: Mapping[str, Column]) -> Sketch:
        """Return the sketch of no rows: the neutral element of ``merge``."""
        return cls.from_block({name: np.zeros(0, dtype=np.int32) for name in columns}, columns)

    @staticmethod
    def merge(first: Sketch, second: Sketch) -> Sketch:
        """Return the sketch of both sets of rows; associative and commutative.

        Raises
        ------
        ValueError
            The two sketches are not of the same columns.
        """
        if (*first.ordered,) != (*second.ordered,) or (*first.categories,) != (*second.categories,):
            raise ValueError("sketches of different columns cannot be merged")
        return Sketch(
            rows=first.rows + second.rows,
            gram=first.gram + second.gram,
            ordered={
                name: merge_ordered(first.ordered[name], second.ordered[name])
                for name in first.ordered
            },
            categories={
                name: counts + second.categories[name] for name, counts in first.categories.items()
            },
        )

    def sub_gram(self, names: Sequence[str]) -> list[list[int]]:
        """Return the Gram matrix of (1, the named number columns), as Python integers."""
        place = {name: 1 + index for index, name in enumerate(self.ordered)}
        picked = [0, *(place[name] for name in names)]
        return [[int(self.gram[i, j]) for j in picked] for i in picked]


@dataclass(frozen=True)
class ArrayData:
    """Data held in memory as whole arrays of codes; for tests and library users.

    >>> from fractions import Fraction
    >>> from mechanisms.domain import CODE_MAX
    >>> from mechanisms.privacy import Adjacency
    >>> schema = Schema({"x": NumberColumn(Fraction(0), Fraction(2))}, Adjacency.REPLACE_ONE, 3)
    >>> data = ArrayData.from_values(schema, {"x": [0.0, 1.0, 9.0]})
    >>> data.gram(["x"]) == [[3, 0], [0, 2 * CODE_MAX**2]]
    True
    """

    columns: Mapping[str, Column]
    codes: Mapping[str, NDArray[np.int32]]

    def __post_init__(self) -> None:
        if set(self.columns) != set(self.codes):
            raise ValueError("give one array of codes per column")
        if len({len(codes) for codes in self.codes.values()}) > 1:
            raise ValueError("columns differ in length")

    @classmethod
    def from_values(cls, schema: Schema, values: Mapping[str, Sequence[object]]) -> ArrayData:
        """Encode plain values: numbers are clamped, categories looked up."""
        return cls(
            columns=schema.columns,
            codes={name: _encode(schema.columns[name], column) for name, column in values.items()},
        )

    @once
    def sketch(self) -> Sketch:
        """The sketch of all rows, made at first use."""
        return Sketch.from_block(self.codes, self.columns)

    @property
    def rows(self) -> int:
        """Return the true row count."""
        return len(next(iter(self.codes.values()))) if self.codes else 0

    def gram(self, columns: Sequence[str]) -> list[list[int]]:
        """Return the exact Gram matrix of (1, codes of the named number columns)."""
        return self.sketch.sub_gram(columns)

    def ordered(self, column: str) -> Ordered:
        """Return a number column's distinct codes, ascending, and their counts."""
        return self.sketch.ordered[column]

    def category_counts(self, column: str) -> NDArray[np.int64]:
        """Return how often each declared value of a category column occurs."""
        return self.sketch.categories[column]

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Yield the named columns in blocks of at most 2**18 rows."""
        for start in range(0, self.rows, _BLOCK_ROWS):
            yield {name: self.codes[name][start : start + _BLOCK_ROWS] for name in columns}

    def map(self, function: Callable[[Block], T], columns: Sequence[str], /) -> Iterator[T]:
        """Yield the function's result for each of the blocks."""
        return map(function, self.blocks(columns))

    def remembered(self, _key: Hashable, make: Callable[[], T], _size: Callable[[T], int], /) -> T:
        """Make it anew: data in memory remember nothing."""
        return make()


def exact_gram(codes: Sequence[NDArray[np.int32]], rows: int) -> NDArray[np.object_]:
    """Return the exact Gram matrix of (1, columns of codes), each |code| <= 2**20."""
    size = 1 + len(codes)
    total: NDArray[np.object_] = np.array([[0] * size for _ in range(size)], dtype=object)
    # 64 bits hold the sum of so many rows; Python's integers take over from there.
    for start in range(0, rows, SUM_ROWS):
        some = [column[start : start + SUM_ROWS] for column in codes]
        total = total + gram_of_some(some, min(SUM_ROWS, rows - start)).astype(object)
    return total


def gram_of_some(codes: Sequence[NDArray[np.int32]], rows: int) -> NDArray[np.int64]:
    """Return what :func:`exact_gram` does, for at most ``SUM_ROWS`` rows: it fits 64 bits."""
    size = 1 + len(codes)
    total = np.zeros((size, size), dtype=np.int64)
    stacked = np.empty((size, min(rows, EXACT_ROWS)))
    for low in range(0, rows, EXACT_ROWS):
        high = min(rows, low + EXACT_ROWS)
        piece = stacked[:, : high - low]
        piece[0] = 1.0
        for index, column in enumerate(codes):
            piece[1 + index] = column[low:high]
        total += (piece @ piece.T).astype(np.int64)
    return total


def distinct(codes: NDArray[np.int32]) -> Ordered:
    """Return the distinct codes, ascending, and how often each occurs."""
    found, counts = np.unique(codes, return_counts=True)
    return found.astype(np.int32, copy=False), counts.astype(np.int64, copy=False)


def merge_ordered(first: Ordered, second: Ordered) -> Ordered:
    """Return the distinct codes of both, ascending, and how often each occurs in them."""
    codes = np.concatenate([first[0], second[0]])
    # Without a row there is no run for reduceat to begin.
    if not len(codes):
        return first
    order = np.argsort(codes, kind="stable")  # two sorted runs: a linear merge
    codes = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    counts = np.concatenate([first[1], second[1]])[order]
    return codes[starts], np.add.reduceat(counts, starts)


def _encode(column: Column, values: Sequence[object]) -> NDArray[np.int32]:
    if isinstance(column, NumberColumn):
        return column.encode(np.asarray(values, dtype=np.float64))
    place = {value: index for index, value in enumerate(column.values)}
    return np.array([place[str(value)] for value in values], dtype=np.int32)
