"""One column's cells as values, and which of them hold no value or cannot be read.

A cell is *missing* when it is empty or one of the declared markers. One that is neither
missing nor of the column's type is *unreadable*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.domain.columns import FALSE, TRUE, Reading
from app.uploads.grids import Ends, ends_of
from app.uploads.moments import Listed, parser_of
from app.uploads.prf import BLANK
from app.uploads.spellings import dictionary_of, plain_numbers, spelt_numbers
from app.uploads.trouble import (
    MISSING,
    NOT_A_BOOLEAN,
    NOT_A_DATE,
    NOT_A_DATETIME,
    NOT_A_NUMBER,
    NOT_A_SPELLING,
    NOT_FINITE,
    NOT_IN_FORMAT,
    NOT_WHOLE,
    UNKNOWN_VALUE,
)
from mechanisms.domain import NumberColumn, Values
from mechanisms.words import WHITE, spelling

_DIGESTED = {"date": 86_400_000.0, "datetime": 1_000.0}
"""Milliseconds of a unit, see :mod:`app.uploads.file_cells`."""

Places = NDArray[np.int32]
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Markers:
    """Missing-value codes, in addition to the empty cell: texts, and the numbers among them."""

    texts: tuple[str, ...]
    numbers: tuple[float, ...]
    not_a_number: bool

    @classmethod
    def of(cls, na: tuple[str, ...]) -> Markers:
        """Return the markers that are declared."""
        texts = tuple(marker.strip(WHITE) for marker in na)
        read = pl.Series(texts, dtype=pl.String).cast(pl.Float64, strict=False).drop_nulls()
        numbers = [float(number) for number in read]
        plain = tuple(number for number in numbers if not math.isnan(number))
        return cls(texts, plain, len(plain) < len(numbers))

    def among(self, cells: pl.Series) -> Mask:
        """Say which texts are empty or markers."""
        stripped = cells.str.strip_chars(WHITE)
        return stripped.is_in(["", *self.texts]).fill_null(value=True).to_numpy()

    def among_numbers(self, values: Floats) -> Mask:
        """Say which numbers are markers."""
        found = np.isin(values, self.numbers)
        return found | np.isnan(values) if self.not_a_number else found


class Plain(NamedTuple):
    """Numbers or places, arbitrary where ``missing``, and the ends of numbers where none is."""

    values: Floats | Places
    missing: Mask | None
    ends: Ends | None = None


class Read(NamedTuple):
    """Values as they are stored, arbitrary where ``missing``, which is None when nothing is.

    ``reason`` words one row. ``unreadable`` are those of the missing that hold something, None
    where none does. ``numbers`` are a number column's values as they are in the file; as many of
    them were moved to a bound as the counts say. ``others`` are texts that no list has, and that a
    level represents. ``ends`` are those of the numbers, where none is missing.
    """

    values: Values
    missing: Mask | None
    unreadable: Mask | None
    reason: Callable[[int], str]
    numbers: Floats | None = None
    clamped_low: int = 0
    clamped_high: int = 0
    others: Mask | None = None
    unit_ms: float = 1.0
    ends: Ends | None = None

    @property
    def unbounded(self) -> tuple[Floats | Places, Mask | None]:
        """Return the cells before any bounds: numbers, or places in the list of values."""
        return self.values if self.numbers is None else self.numbers, self.missing

    @property
    def plain(self) -> Plain:
        """Return them as digests know them: times in milliseconds, and others as nothing."""
        if self.numbers is not None:
            if self.unit_ms != 1:
                return Plain(self.numbers * self.unit_ms, self.missing)
            return Plain(self.numbers, self.missing, self.ends)
        if self.missing is None or self.others is None:
            return Plain(self.values, self.others if self.missing is None else self.missing)
        return Plain(self.values, self.missing | self.others)


@dataclass(frozen=True, slots=True)
class Numbers:
    """How a column of numbers, dates or moments is read.

    ``parse`` makes numbers of texts, and ``otherwise`` is said of a text that is none. ``whole``
    makes 64-bit integers of them, where bounds are beyond the precision of floats.
    """

    column: NumberColumn
    markers: Markers
    parse: Callable[[pl.Series], pl.Series]
    otherwise: str
    whole: Callable[[pl.Series], pl.Series] | None = None

    @classmethod
    def of(cls, column: NumberColumn, reading: Reading) -> Numbers:
        """Return how a column is read by its declaration."""
        markers = Markers.of(reading.na)
        if column.timed is not None:
            markers = Markers(markers.texts, (), False)
            words = NOT_A_DATE if column.timed == "date" else NOT_A_DATETIME
            words = NOT_IN_FORMAT if reading.format else words
            return cls(column, markers, parser_of(column.timed, reading), words)
        parse: Callable[..., pl.Series] = plain_numbers
        if not reading.plain_numbers:
            parse = partial(spelt_numbers, decimal=reading.decimal, thousands=reading.thousands)
        whole = partial(parse, kind=pl.Int64()) if column.beyond_floats else None
        return cls(column, markers, parse, NOT_A_NUMBER, whole)

    def read(self, cells: pl.Series) -> Read:
        """Read a column's cells, numbers or texts."""
        texts, given = cells if cells.dtype == pl.String else None, cells
        cells = cells.cast(pl.Float64) if texts is None else self.parse(texts)
        values = (cells.fill_null(float("nan")) if cells.null_count() else cells).to_numpy()
        if self.column.kind == "datetime":
            # A moment is a whole second: the one that it lies in.
            values = np.floor(values)
        ends = ends_of(values)
        missing = self._wrong(values, ends)
        if self.markers.numbers:
            marked = self.markers.among_numbers(values)
            if marked.any():
                missing = marked if missing is None else missing | marked
        if missing is None:
            low, high = _outside(self.column, values, ends)
            found = Read(self._stored(values, given), None, None, _missing, values, low, high)
            return found._replace(unit_ms=self._unit_ms, ends=ends)
        stored = self._stored(np.where(missing, 0.0, values), given)
        return self._partly(cells, texts, values, missing)._replace(values=stored)

    @property
    def _unit_ms(self) -> float:
        timed = self.column.timed
        return 1.0 if timed is None else _DIGESTED[timed]

    def _wrong(self, values: Floats, ends: Ends | None) -> Mask | None:
        """Return which cells hold no such number; None where all do."""
        whole = self.column.kind == "integer"
        if ends is not None and not whole:
            return None
        finite = np.isfinite(values)
        if whole:
            finite &= np.rint(values) == values
        return None if finite.all() else ~finite

    def _partly(
        self, cells: pl.Series, texts: pl.Series | None, values: Floats, missing: Mask
    ) -> Read:
        """Return what was read where some cells hold no value."""
        nulls = cells.is_null().to_numpy()
        absent = nulls if texts is None else self.markers.among(texts)
        if self.markers.numbers or self.markers.not_a_number:
            read = np.ones(len(values), dtype=np.bool_) if texts is None else ~nulls
            absent = absent | (read & self.markers.among_numbers(values))
        unreadable = missing & ~absent
        low, high = _outside(self.column, values[~missing], None)

        def reason(row: int) -> str:
            if not unreadable[row]:
                return MISSING
            if nulls[row] or np.isnan(values[row]):
                return self.otherwise
            return NOT_FINITE if np.isinf(values[row]) else NOT_WHOLE

        found = Read(values, missing, _any(unreadable), reason, values, low, high)
        return found._replace(unit_ms=self._unit_ms)

    def _stored(self, values: Floats, cells: pl.Series) -> Values:
        """Return values as they are stored; ``cells`` are what they were read from."""
        stored = self.column.clamped(values)
        if self.whole is None:
            return stored
        texts = cells.dtype == pl.String
        whole = self.whole(cells) if texts else cells.cast(pl.Int64, strict=False)
        # What a float spells, as 1e18, is no text of an integer.
        read = whole.is_not_null().to_numpy()
        return np.where(read, self.column.clamped(whole.fill_null(0).to_numpy()), stored)


def _outside(column: NumberColumn, values: Floats, ends: Ends | None) -> tuple[int, int]:
    """Return how many values lie below and above the bounds."""
    lower, upper = float(column.lower), float(column.upper)
    if ends is not None and lower <= ends[0] and ends[1] <= upper:
        return 0, 0
    return int(np.count_nonzero(values < lower)), int(np.count_nonzero(values > upper))


def read_texts(cells: pl.Series, reader: Callable[[pl.Series], Read]) -> Read:
    """Read a column of texts, or of what stands for them: each different one is read once."""
    texts, rows = dictionary_of(cells)
    read = reader(texts)
    if rows is None:
        return read
    missing, unreadable, others = (
        None if mask is None else mask[rows]
        for mask in (read.missing, read.unreadable, read.others)
    )
    return Read(
        read.values[rows], missing, unreadable, lambda row: read.reason(rows[row]), others=others
    )


@dataclass(frozen=True, slots=True)
class Truths:
    """How a column of true or false is spelt: first the texts for false, then those for true."""

    listed: Listed
    false: int

    @classmethod
    def of(cls, reading: Reading) -> Truths:
        """Return how a column is read by its declaration."""
        false, true = (
            [*dict.fromkeys(map(spelling, texts))] for texts in (reading.false, reading.true)
        )
        return cls(Listed.of([*false, *true], spelling), len(false))

    def read(self, cells: pl.Series, markers: Markers) -> Read:
        """Read a column of texts."""
        lowered = cells.str.strip_chars(BLANK).str.to_lowercase()
        read = _read_listed(lowered, cells, self.listed, markers, self.otherwise)
        return read._replace(values=(read.values >= self.false).astype(np.int32))

    @property
    def otherwise(self) -> str:
        """Return what is said of a text that is none of them."""
        usual = (*FALSE, *TRUE) == (*self.listed.texts,)
        return NOT_A_BOOLEAN if usual else NOT_A_SPELLING


def read_boolean(cells: pl.Series, truths: Truths, markers: Markers) -> Read:
    """Read a column of true or false; a file's own truths are what they are however it spells."""
    spelt = _USUAL if cells.dtype == pl.Boolean else truths
    return read_texts(cells, partial(spelt.read, markers=markers))


_USUAL = Truths.of(Reading())


def read_category(cells: pl.Series, listed: Listed, markers: Markers, other: int | None) -> Read:
    """Read a column of texts of a closed list; ``other`` is the place of all other texts."""
    read = _read_listed(cells, cells, listed, markers, UNKNOWN_VALUE)
    others = read.unreadable
    if other is None or others is None or read.missing is None:
        return read
    values = np.where(others, np.int32(other), read.values)
    return read._replace(
        values=values, missing=_any(read.missing & ~others), unreadable=None, others=others
    )


def _read_listed(
    cells: pl.Series, as_written: pl.Series, listed: Listed, markers: Markers, otherwise: str
) -> Read:
    places = listed.among(cells).to_physical()
    if not places.null_count():
        return Read(places.to_numpy().astype(np.int32), None, None, _missing)
    values = places.fill_null(0).to_numpy().astype(np.int32)
    missing = places.is_null().to_numpy()
    unreadable = missing & ~markers.among(as_written)
    return Read(
        values, missing, _any(unreadable), lambda row: otherwise if unreadable[row] else MISSING
    )


def _any(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def _missing(_: int) -> str:
    return MISSING
