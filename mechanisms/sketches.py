"""Integer sketches: everything that most releases need from a data set.

One pass over the rows of a data set (see :mod:`mechanisms.domain`) yields

- the exact Gram matrix of (1, the sum codes of every number column),
- each number column's occupied cells on its grid, ascending, with their counts,
- each category column's counts.

A mean, a quantile or a linear regression then costs the same at a thousand
rows as at a hundred million. Sketches are integers, so merging is exactly
associative and commutative: any split of the rows gives identical numbers.

*Conventions.* A grid has at most 2**21 cells, which bounds a sketch's size whatever the row
count. The Gram matrix is an object array of Python integers (it never overflows).

*Exact products at BLAS speed.* A sum code, ``|a| <= 2**34``, is ``a = 2**17 h + l`` with limbs
``-2**16 <= l < 2**16`` and so ``|h| <= 2**17``. Then

    sum a b = 2**34 sum h h' + 2**17 (sum h l' + sum l h') + sum l l',

and no product of limbs exceeds 2**34. Sums of at most 2**19 of them are integers up to 2**53, which
``float64`` holds exactly, in whatever order they are added. Over n rows no sum exceeds
``2**34 n`` (the middle one is ``2 2**17 2**16 n``), so 64-bit integers hold those of 2**28 rows.
They are the same bit for bit on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block, T
from mechanisms.domain import (
    CODE_BITS,
    SUM_BITS,
    CategoryColumn,
    Column,
    NumberColumn,
    Schema,
    Values,
    array_of,
    coded,
    column_named,
    exact,
    facts_of,
    is_presence,
    presence_of,
    presence_values,
    summed,
)
from mechanisms.exact.fractions import once

Ordered = tuple[NDArray[np.integer[Any]], NDArray[np.int64]]
"""Distinct integers, ascending, and how often each occurs."""

LIMB_BITS = SUM_BITS // 2
SUM_ROWS = 1 << (62 - SUM_BITS)  # sums of products of limbs of this many rows fit 64-bit integers
_PIECE_ROWS = 1 << 12  # limbs at a time: they stay in the CPU cache
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
        Number column to (occupied cells of its grid ascending, their counts).
    categories
        Category column to the count of each declared value.
    """

    rows: int
    gram: NDArray[np.object_]
    ordered: Mapping[str, Ordered]
    categories: Mapping[str, NDArray[np.int64]]

    @classmethod
    def from_block(cls, block: Block, columns: Mapping[str, Column]) -> Sketch:
        """Sketch one block, which holds the values of every one of the schema's columns."""
        numbers = [name for name, column in columns.items() if isinstance(column, NumberColumn)]
        rows = len(next(iter(block.values()))) if block else 0
        return cls(
            rows=rows,
            gram=exact_gram(_sum_codes(columns, block, numbers), rows),
            ordered={
                name: distinct(column.grid.cells(block[exact(name)]))
                for name, column in columns.items()
                if isinstance(column, NumberColumn)
            },
            categories={
                name: np.bincount(block[exact(name)], minlength=len(column.values)).astype(np.int64)
                for name, column in columns.items()
                if isinstance(column, CategoryColumn)
            },
        )

    @classmethod
    def empty(cls, columns: Mapping[str, Column]) -> Sketch:
        """Return the sketch of no rows: the neutral element of ``merge``."""
        nothing = {exact(name): np.zeros(0, column.dtype) for name, column in columns.items()}
        return cls.from_block(nothing, columns)

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
    """Data held in memory as whole arrays; for tests and library users.

    Attributes
    ----------
    columns
        The public facts of each column.
    codes
        Each column's codes, int32 of shape (rows,).
    values
        Each column's values, of the column's ``dtype``. None: values that have these codes.

    >>> from fractions import Fraction
    >>> from mechanisms.domain import SUM_MAX
    >>> from mechanisms.privacy import Adjacency
    >>> schema = Schema({"x": NumberColumn(Fraction(0), Fraction(2))}, Adjacency.REPLACE_ONE, 3)
    >>> data = ArrayData.from_values(schema, {"x": [0.0, 1.0, 9.0]})
    >>> data.gram(["x"]) == [[3, 0], [0, 2 * SUM_MAX**2]]
    True
    """

    columns: Mapping[str, Column]
    codes: Mapping[str, NDArray[np.int32]]
    values: Mapping[str, Values] | None = None

    def __post_init__(self) -> None:
        if set(self.columns) != {name for name in self.codes if not is_presence(name)}:
            raise ValueError("give one array of codes per column")
        if len({len(codes) for codes in self.codes.values()}) > 1:
            raise ValueError("columns differ in length")

    @classmethod
    def from_values(cls, schema: Schema, values: Mapping[str, Sequence[object]]) -> ArrayData:
        """Hold plain values: numbers are clamped, categories looked up, None is no value."""
        columns = schema.as_stored
        own: dict[str, Values] = {}
        for name, cells in values.items():
            given = cells
            if name in schema.optional:
                lacking = np.array([cell is None for cell in cells], dtype=np.bool_)
                own[presence_of(name)] = presence_values(lacking, len(cells))
                given = [_any_value(columns[name]) if cell is None else cell for cell in cells]
            own[name] = _values(columns[name], given)
        codes = {name: coded(facts_of(columns, name), column) for name, column in own.items()}
        return cls(columns=columns, codes=codes, values=own)

    @once
    def sketch(self) -> Sketch:
        """The sketch of all rows, made at first use."""
        rows = {exact(name): self.values_of(name) for name in self.columns}
        made = Sketch.from_block(rows, self.columns)
        if self.values is not None:
            return made
        numbers = [self.array(summed(name)) for name in made.ordered]
        return replace(made, gram=exact_gram(numbers, self.rows))

    def values_of(self, column: str) -> Values:
        """Return a column's values."""
        if self.values is not None:
            return self.values[column]
        facts = facts_of(self.columns, column)
        codes = self.codes[column]
        return facts.values_of(codes) if isinstance(facts, NumberColumn) else codes

    @property
    def rows(self) -> int:
        """Return the true row count."""
        return len(next(iter(self.codes.values()))) if self.codes else 0

    def gram(self, columns: Sequence[str]) -> list[list[int]]:
        """Return the exact Gram matrix of (1, sum codes of the named number columns)."""
        return self.sketch.sub_gram(columns)

    def ordered(self, column: str) -> Ordered:
        """Return a number column's occupied cells, ascending, and their counts."""
        return self.sketch.ordered[column]

    def category_counts(self, column: str) -> NDArray[np.int64]:
        """Return how often each declared value of a category column occurs."""
        return self.sketch.categories[column]

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Yield the named columns in blocks of at most 2**18 rows."""
        whole = {name: self.array(name) for name in columns}
        for start in range(0, self.rows, _BLOCK_ROWS):
            yield {name: array[start : start + _BLOCK_ROWS] for name, array in whole.items()}

    def array(self, name: str) -> Values:
        """Return the content of blocks under this name."""
        column = column_named(name)
        if column == name:
            return self.codes[name]
        facts = facts_of(self.columns, column)
        given = self.values is None and isinstance(facts, NumberColumn) and not facts.whole
        if given and name == summed(column):
            # Of rows that are given as codes, what is summed is those.
            return self.codes[column].astype(np.int64) << (SUM_BITS - CODE_BITS)
        return array_of(name, facts, self.values_of(column))

    def map(self, function: Callable[[Block], T], columns: Sequence[str], /) -> Iterator[T]:
        """Yield the function's result for each of the blocks."""
        return map(function, self.blocks(columns))

    def remembered(self, _key: Hashable, make: Callable[[], T], _size: Callable[[T], int], /) -> T:
        """Make it again: data in memory have no cache."""
        return make()


def exact_gram(sum_codes: Sequence[NDArray[np.int64]], rows: int) -> NDArray[np.object_]:
    """Return the exact Gram matrix of (1, columns of sum codes)."""
    size = 1 + len(sum_codes)
    total: NDArray[np.object_] = np.array([[0] * size for _ in range(size)], dtype=object)
    for start in range(0, rows, SUM_ROWS):
        some = [column[start : start + SUM_ROWS] for column in sum_codes]
        low, middle, high = limb_sums(some, min(SUM_ROWS, rows - start)).astype(object)
        total = total + (high << SUM_BITS) + (middle << LIMB_BITS) + low
    return total


def limb_sums(sum_codes: Sequence[NDArray[np.int64]], rows: int) -> NDArray[np.int64]:
    """Return the parts of :func:`exact_gram`, for at most ``SUM_ROWS`` rows: they fit 64 bits.

    Three matrices L, M and H, of shape (3, 1 + columns, 1 + columns): the Gram matrix is
    ``L + 2**17 M + 2**34 H``.
    """
    size = 1 + len(sum_codes)
    total = np.zeros((2 * size, 2 * size), dtype=np.int64)
    stacked = np.zeros((2 * size, min(rows, _PIECE_ROWS)))  # low limbs, then high ones
    stacked[0] = 1.0
    for start in range(0, rows, _PIECE_ROWS):
        end = min(rows, start + _PIECE_ROWS)
        piece = stacked[:, : end - start]
        for index, column in enumerate(sum_codes, start=1):
            piece[index], piece[size + index] = limbs_of(column[start:end])
        total += (piece @ piece.T).astype(np.int64)
    low, mixed, high = total[:size, :size], total[:size, size:], total[size:, size:]
    return np.stack([low, mixed + mixed.T, high])


def limbs_of(
    numbers: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return l and h, ``-2**16 <= l < 2**16``, of numbers ``2**17 h + l``."""
    high = (numbers + (1 << (LIMB_BITS - 1))) >> LIMB_BITS
    return numbers - (high << LIMB_BITS), high


def distinct(numbers: NDArray[np.integer[Any]]) -> Ordered:
    """Return the distinct integers among some, ascending, and how often each occurs."""
    found, counts = np.unique(numbers, return_counts=True)
    return found, counts.astype(np.int64, copy=False)


def merge_ordered(first: Ordered, second: Ordered) -> Ordered:
    """Return the distinct integers of both, ascending, and how often each occurs in them."""
    codes = np.concatenate([first[0], second[0]])
    # Without a row there is no run for reduceat to begin.
    if not len(codes):
        return first
    order = np.argsort(codes, kind="stable")  # two sorted runs: a linear merge
    codes = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    counts = np.concatenate([first[1], second[1]])[order]
    return codes[starts], np.add.reduceat(counts, starts)


def _sum_codes(
    columns: Mapping[str, Column], block: Block, numbers: Sequence[str]
) -> list[NDArray[np.int64]]:
    """Return the sum codes of number columns of a block of values."""
    return [array_of(summed(name), columns[name], block[exact(name)]) for name in numbers]


def _any_value(column: Column) -> object:
    """Return the stored placeholder of a missing value."""
    return float(column.midpoint) if isinstance(column, NumberColumn) else column.values[-1]


def _values(column: Column, values: Sequence[object]) -> Values:
    if isinstance(column, NumberColumn):
        return column.clamped(_numbers(values))
    place = {value: index for index, value in enumerate(column.values)}
    return np.array([place[str(value)] for value in values], dtype=np.int32)


def _numbers(values: Sequence[object]) -> Values:
    """Return plain numbers in the type that holds them exactly."""
    whole = all(isinstance(value, int) for value in values)
    return np.asarray(values, dtype=np.int64 if whole and len(values) else np.float64)
