"""What a block of rows holds between the process that reads a file and the one that stores it.

Arrays of one type each: the stored columns' values, or, where a person's rows are reduced, what
they are reduced from: numbers before any bounds, and which cells were missing. The words of the
person's digest come last. Names that are not the columns' own are no names of columns.

*Whose a row is: a keyed digest of the id in it, of 128 bits; the id itself is never stored.* Two
ids are one person exactly if they have the same canonical text
(:mod:`app.uploads.people.canonical`). A row whose id is empty, or a declared marker of what is
missing, has the digest 0 and is a person of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.domain.columns import BooleanSpec, CategorySpec, ColumnSpec, Fill
from app.domain.datasets import ColumnsSpec
from app.engine.schema import presences_of, schema_of
from app.uploads.prf import Prf
from app.uploads.samples import Digests
from mechanisms.domain import Column, NumberColumn, Values

# Whose a row is: a keyed digest of the id in it, of 128 bits; the id itself is never stored

Words = NDArray[np.int32]

WORDS = 4
"""A digest as words of 32 bits, as blocks carry them."""


def id_words(prf: Prf, texts: pl.Series) -> list[Words]:
    """Return the digests of some canonical ids, empty where there is none, as columns of words."""
    here = (texts != "").to_numpy()
    digests = np.zeros((len(texts), 2), dtype=np.uint64)
    if here.all():
        digests[:] = prf.of_ids(texts)
    else:
        digests[here] = prf.of_ids(texts.filter(pl.Series(here)))
    words = digests.view(np.int32)
    return [np.ascontiguousarray(words[:, place]) for place in range(WORDS)]


def digests_of(words: Words) -> Digests:
    """Return the digests, of shape (n, 2), that rows of words are."""
    return np.ascontiguousarray(words).view(np.uint64)


# What a block of rows holds between the process that reads a file and the one that stores it

PERSON = tuple(f"\0person {place}" for place in range(WORDS))
_WORD = np.dtype(np.int32)


@dataclass(frozen=True, slots=True)
class Field:
    """An array of a block: its type, and the least and the largest that a value may be."""

    dtype: np.dtype[Any] = _WORD
    low: float = -inf
    high: float = inf

    @classmethod
    def of(cls, column: Column) -> Field:
        """Return that of a stored column's values."""
        if not isinstance(column, NumberColumn):
            return cls(column.dtype, 0, len(column.values) - 1)
        low, high = column.clamped(np.array([-inf, inf])).tolist()
        return cls(column.dtype, low, high)

    @property
    def words(self) -> int:
        """Return how many words of 32 bits a value takes."""
        return self.dtype.itemsize // _WORD.itemsize

    def holds(self, values: Values) -> bool:
        """Return whether all values are finite numbers within the range."""
        if not len(values):
            return True
        ends = values.min(), values.max()
        return bool(np.isfinite(ends).all() and self.low <= ends[0] and ends[1] <= self.high)


def missing(name: str) -> str:
    """Return the name of the word that says whether a cell was missing."""
    return f"\0missing {name}"


def is_number(column: ColumnSpec) -> bool:
    """Say whether a column's cells are numbers, which are reduced before they are clamped."""
    return not isinstance(column, CategorySpec | BooleanSpec)


def tells_missing(column: ColumnSpec) -> bool:
    """Say whether a column may lack cells, and still has a row for each."""
    return column.missing == "keep" or isinstance(column.missing, Fill)


def fields_of(spec: ColumnsSpec) -> Mapping[str, Field]:
    """Return the arrays of a block in order."""
    columns = schema_of(spec, rows=None).as_stored
    presences = dict.fromkeys(presences_of(spec), Field(low=0, high=1))
    stored = {name: Field.of(column) for name, column in columns.items()} | presences
    if spec.unit is None:
        return stored
    person = dict.fromkeys(PERSON, Field())
    if spec.unit.reduce is None:
        return {**stored, **person}
    return {**dict(_unreduced(spec, stored)), **person}


def _unreduced(spec: ColumnsSpec, stored: Mapping[str, Field]) -> Iterator[tuple[str, Field]]:
    for name, column in spec.in_file.items():
        yield name, Field(np.dtype(np.float64)) if is_number(column) else stored[name]
        if tells_missing(column):
            yield missing(name), Field(low=0, high=1)


def row_bytes(fields: Mapping[str, Field]) -> int:
    """Return the bytes of a row."""
    return sum(field.dtype.itemsize for field in fields.values())


def arrays_of(body: memoryview, fields: Mapping[str, Field]) -> dict[str, Values]:
    """Return the arrays that some bytes are, one after the other.

    Raises
    ------
    ValueError
        They are of no whole number of rows.
    """
    rows, rest = divmod(len(body), row_bytes(fields))
    if rest:
        raise ValueError("a part of a row")
    found, start = {}, 0
    for name, field in fields.items():
        found[name] = np.frombuffer(body, dtype=field.dtype, count=rows, offset=start)
        start += found[name].nbytes
    return found


def packed(block: Mapping[str, Values], fields: Mapping[str, Field]) -> Words:
    """Return the rows of a block as words of 32 bits, of shape (rows, words)."""
    columns = [
        np.ascontiguousarray(block[name], dtype=field.dtype).view(np.int32).reshape(-1, field.words)
        for name, field in fields.items()
    ]
    return np.concatenate(columns, axis=1)


def unpacked(rows: Words, fields: Mapping[str, Field]) -> dict[str, NDArray[Any]]:
    """Return the inverse of :func:`packed`."""
    found, start = {}, 0
    for name, field in fields.items():
        own = np.ascontiguousarray(rows[:, start : start + field.words])
        found[name] = own.view(field.dtype).ravel()
        start += field.words
    return found
