"""One column's cells as codes, and which of them hold no value or cannot be read.

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

from app.domain.columns import Reading
from app.uploads.grids import Ends, ends_of
from app.uploads.prf import BLANK
from app.uploads.spellings import dictionary_of, plain_numbers, spelt_numbers, times
from app.uploads.trouble import (
    MISSING,
    NOT_A_BOOLEAN,
    NOT_A_DATE,
    NOT_A_DATETIME,
    NOT_A_NUMBER,
    NOT_FINITE,
    NOT_WHOLE,
    UNKNOWN_VALUE,
)
from mechanisms.domain import CODE_MAX, NumberColumn

_DIGESTED = {"date": 86_400_000.0, "datetime": 1_000.0}
"""Milliseconds of a unit, see :mod:`app.uploads.file_cells`."""
_BOOLEANS = pl.Enum(["false", "true", "0", "1"])

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Markers:
    """What stands for a missing cell beside an empty one: texts, and the numbers among them."""

    texts: tuple[str, ...]
    numbers: tuple[float, ...]
    not_a_number: bool

    @classmethod
    def of(cls, na: tuple[str, ...]) -> Markers:
        """Return the markers that are declared."""
        texts = tuple(marker.strip(BLANK) for marker in na)
        read = pl.Series(texts, dtype=pl.String).cast(pl.Float64, strict=False).drop_nulls()
        numbers = [float(number) for number in read]
        plain = tuple(number for number in numbers if not math.isnan(number))
        return cls(texts, plain, len(plain) < len(numbers))

    def among(self, cells: pl.Series) -> Mask:
        """Say which texts are empty or markers."""
        stripped = cells.str.strip_chars(BLANK)
        return stripped.is_in(["", *self.texts]).fill_null(value=True).to_numpy()

    def among_numbers(self, values: Floats) -> Mask:
        """Say which numbers are markers."""
        found = np.isin(values, self.numbers)
        return found | np.isnan(values) if self.not_a_number else found


class Plain(NamedTuple):
    """Numbers or codes, arbitrary where ``missing``, and the ends of numbers where none is."""

    values: Floats | Codes
    missing: Mask | None
    ends: Ends | None = None


class Read(NamedTuple):
    """Codes, arbitrary where ``missing``; None when nothing is. ``reason`` words one row.

    ``unreadable`` are those of the missing that hold something, None where none does.
    ``numbers`` are a number column's values as they are in the file, and so many of them
    were moved to a bound. ``others`` are texts that no list has, and that a level stands for.
    ``ends`` are those of the numbers, where none is missing. ``listed`` are the cells as texts of
    the list, where each is one of it or null.
    """

    codes: Codes
    missing: Mask | None
    unreadable: Mask | None
    reason: Callable[[int], str]
    numbers: Floats | None = None
    clamped_low: int = 0
    clamped_high: int = 0
    others: Mask | None = None
    unit_ms: float = 1.0
    listed: pl.Series | None = None
    ends: Ends | None = None

    @property
    def values(self) -> tuple[Floats | Codes, Mask | None]:
        """Return the cells before any bounds: numbers, or places in the list of values."""
        return self.codes if self.numbers is None else self.numbers, self.missing

    @property
    def plain(self) -> Plain:
        """Return them as digests know them: times in milliseconds, and others as nothing."""
        if self.numbers is not None:
            if self.unit_ms != 1:
                return Plain(self.numbers * self.unit_ms, self.missing)
            return Plain(self.numbers, self.missing, self.ends)
        if self.missing is None or self.others is None:
            return Plain(self.codes, self.others if self.missing is None else self.missing)
        return Plain(self.codes, self.missing | self.others)


@dataclass(frozen=True, slots=True)
class Numbers:
    """How a column of numbers, dates or moments is read.

    ``parse`` makes numbers of texts, and ``otherwise`` is said of a text that is none.
    """

    column: NumberColumn
    markers: Markers
    parse: Callable[[pl.Series], pl.Series]
    otherwise: str

    @classmethod
    def of(cls, column: NumberColumn, reading: Reading) -> Numbers:
        """Return how a column is read by its declaration."""
        markers = Markers.of(reading.na)
        if column.timed is not None:
            markers = Markers(markers.texts, (), False)
            words = NOT_A_DATE if column.timed == "date" else NOT_A_DATETIME
            return cls(column, markers, partial(times, kind=column.timed), words)
        if reading.plain_numbers:
            return cls(column, markers, plain_numbers, NOT_A_NUMBER)
        parse = partial(spelt_numbers, decimal=reading.decimal, thousands=reading.thousands)
        return cls(column, markers, parse, NOT_A_NUMBER)

    def read(self, cells: pl.Series) -> Read:
        """Read a column's cells, numbers or texts."""
        texts = cells if cells.dtype == pl.String else None
        if texts is not None:
            cells = self.parse(texts)
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
            codes = _encode(self.column, values)
            found = Read(codes, None, None, _missing, values, low, high)
            return found._replace(unit_ms=self._unit_ms, ends=ends)
        return self._partly(cells, texts, values, missing)

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
        codes = _encode(self.column, np.where(missing, 0.0, values))

        def reason(row: int) -> str:
            if not unreadable[row]:
                return MISSING
            if nulls[row] or np.isnan(values[row]):
                return self.otherwise
            return NOT_FINITE if np.isinf(values[row]) else NOT_WHOLE

        found = Read(codes, missing, _any(unreadable), reason, values, low, high)
        return found._replace(unit_ms=self._unit_ms)


def _outside(column: NumberColumn, values: Floats, ends: Ends | None) -> tuple[int, int]:
    """Return how many values lie below and above the bounds."""
    lower, upper = float(column.lower), float(column.upper)
    if ends is not None and lower <= ends[0] and ends[1] <= upper:
        return 0, 0
    return int(np.count_nonzero(values < lower)), int(np.count_nonzero(values > upper))


def _encode(column: NumberColumn, values: Floats) -> Codes:
    with np.errstate(over="ignore"):  # far outside the bounds: an infinity, then clamped
        return column.encode(values)


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
        read.codes[rows], missing, unreadable, lambda row: read.reason(rows[row]), others=others
    )


def read_boolean(cells: pl.Series, markers: Markers) -> Read:
    """Read a column of true or false."""
    lowered = cells.str.strip_chars(BLANK).str.to_lowercase()
    read = _read_enum(lowered, cells, _BOOLEANS, markers, NOT_A_BOOLEAN)
    return read._replace(codes=np.where(read.codes & 1, np.int32(CODE_MAX), np.int32(-CODE_MAX)))


def read_category(cells: pl.Series, kind: pl.Enum, markers: Markers, other: int | None) -> Read:
    """Read a column of texts of a closed list; ``other`` is the place of all other texts."""
    read = _read_enum(cells, cells, kind, markers, UNKNOWN_VALUE)
    others = read.unreadable
    if other is None or others is None or read.missing is None:
        return read
    codes = np.where(others, np.int32(other), read.codes)
    return read._replace(
        codes=codes, missing=_any(read.missing & ~others), unreadable=None, others=others
    )


def _read_enum(
    cells: pl.Series, as_written: pl.Series, kind: pl.Enum, markers: Markers, otherwise: str
) -> Read:
    known = cells.cast(kind, strict=False)
    places = known.to_physical()
    if not places.null_count():
        return Read(places.to_numpy().astype(np.int32), None, None, _missing, listed=known)
    codes = places.fill_null(0).to_numpy().astype(np.int32)
    missing = places.is_null().to_numpy()
    unreadable = missing & ~markers.among(as_written)
    found = Read(
        codes, missing, _any(unreadable), lambda row: otherwise if unreadable[row] else MISSING
    )
    return found._replace(listed=known if known.null_count() == cells.null_count() else None)


def _any(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def _missing(_: int) -> str:
    return MISSING
