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

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.domain.columns import BooleanSpec, CategorySpec, ColumnSpec, Fill
from app.domain.datasets import ColumnsSpec
from app.engine.schema import presences_of, schema_of
from app.uploads.prf import Prf
from app.uploads.samples import Digests
from app.uploads.trouble import too_large
from app.vault.stored import private
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


GROUPS = 256
_HELD_BYTES = 1 << 26
_MOST_GROUP_BYTES = 1 << 29


class Spill:
    """Takes rows of words in; then yields them by groups of people: a hash partition on disk.

    Rows arrive in the order of the file and stay in that order within a group; all rows of a person
    are in one group, chosen by bits of the person's digest. Up to ``held_bytes`` are held in memory
    as one group. Beyond that each group is a file of its own, which is gone once it has been read.

    *Memory.* A group is about 1/256 of the rows, wherever no person has a large part of all. So
    10**7 rows of 100 columns, 4 GB, are read 16 MB at a time. A group of more than
    :data:`_MOST_GROUP_BYTES` is refused: it is one person's, or the upload is beyond 10**11 cells.

    Parameters
    ----------
    directory
        Where the groups' files are made, in a directory of their own.
    width
        Words in a row; the last ones are the person's digest.
    held_bytes
        How much is held in memory.
    """

    def __init__(self, directory: Path, width: int, *, held_bytes: int = _HELD_BYTES) -> None:
        self._directory = directory / "people"
        self._width = width
        self._held_bytes = held_bytes
        self._held: list[Words] = []
        self._bytes = 0
        self._spilled = False

    def add(self, rows: Words) -> None:
        """Take in some rows, of shape (n, width)."""
        self._held.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > self._held_bytes:
            self._write()

    def groups(self) -> Iterator[Words]:
        """Yield the rows of each group, of shape (n, width), once; empty ones are left out.

        Raises
        ------
        Problem
            ``too-large``: a person has too many rows.
        """
        try:
            if self._spilled:
                self._write()
                for place in range(GROUPS):
                    if (path := self._path(place)).exists():
                        yield self._read(path)
            elif self._held:
                yield self._taken()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _taken(self) -> Words:
        rows = np.concatenate([np.zeros((0, self._width), dtype=np.int32), *self._held])
        self._held, self._bytes = [], 0
        return rows

    def _write(self) -> None:
        """Append what is held to the files of its groups."""
        self._spilled = True
        self._directory.mkdir(mode=0o700, exist_ok=True)
        rows = self._taken()
        place = (digests_of(rows[:, -WORDS:])[:, 0] % np.uint64(GROUPS)).astype(np.intp)
        rows = rows[np.argsort(place, kind="stable")]
        for group, own in enumerate(_runs(rows, np.bincount(place, minlength=GROUPS).tolist())):
            if len(own):
                with open(self._path(group), "ab", opener=private) as file:
                    file.write(own.tobytes())

    def _read(self, path: Path) -> Words:
        if path.stat().st_size > _MOST_GROUP_BYTES:
            raise too_large("most bytes of a group of people", _MOST_GROUP_BYTES)
        rows = np.fromfile(path, dtype=np.int32).reshape(-1, self._width)
        path.unlink()
        return rows

    def _path(self, group: int) -> Path:
        return self._directory / f"{group:02x}"


def _runs(rows: Words, sizes: Sequence[int]) -> Iterator[NDArray[np.int32]]:
    start = 0
    for size in sizes:
        yield rows[start : start + size]
        start += size
