"""From cells to stored values, with the row numbers of whatever does not fit.

A column arrives either *typed* (floats that the CSV or Parquet reader parsed, and Parquet's
truths, dictionaries and whole numbers that stand for texts) or as *text* (what else is boolean
or a category, and numbers that the typed reader refused). Both give the same values for the
same cell.

A cell is *missing* when it is empty or one of the declared markers. One that is neither missing nor
of the column's type is *unreadable*.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.domain.columns import (
    FALSE,
    TRUE,
    BooleanSpec,
    CategorySpec,
    ColumnSpec,
    Fill,
    Missing,
    Reading,
)
from app.domain.datasets import ColumnsSpec
from app.domain.upload_reports import ColumnCounts, UploadReport
from app.engine.schema import column_of, derived_of
from app.uploads.people.taking import PeopleWords
from app.uploads.prf import BLANK, Ends, Prf, ends_of
from app.uploads.row_digests import RowDigester
from app.uploads.spellings import Listed, dictionary_of, parser_of, plain_numbers, spelt_numbers
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
    Trouble,
    Troubles,
)
from mechanisms.domain import NumberColumn, Values, is_presence, presence_of, presence_values
from mechanisms.expressions.derived import DerivedColumn, with_derived
from mechanisms.words import WHITE, spelling, value_text

_DIGESTED = {"date": 86_400_000.0, "datetime": 1_000.0}
"""Milliseconds of a unit."""

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
            parse = partial(
                spelt_numbers,
                decimal=reading.decimal,
                thousands=reading.thousands,
                bare=reading.bare_number,
            )
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


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes one declared column.

    What is above ``future`` is counted: dates after today, where years have two digits.
    """

    read: Callable[[pl.Series], Read]
    missing: Missing
    unreadable: Literal["reject", "missing"]
    fill: int | float
    future: float = math.inf

    @classmethod
    def of(cls, spec: ColumnSpec) -> Encoder:
        """Return the encoder a declaration asks for."""
        value = spec.missing.value if isinstance(spec.missing, Fill) else None
        markers = Markers.of(spec.reading.na)
        fill: int | float = 0
        future = math.inf
        read: Callable[[pl.Series], Read]
        match spec:
            case CategorySpec():
                matched = Listed.of(spec.values, partial(value_text, trim=spec.trim))
                fill = spec.values.index(value) if isinstance(value, str) else 0
                if spec.missing == "keep":
                    fill = len(spec.values)  # the index after the last
                other = None if spec.other is None else spec.values.index(spec.other)
                listed = partial(read_category, listed=matched, markers=markers, other=other)
                read = partial(read_texts, reader=listed)
            case BooleanSpec():
                fill = int(bool(value))
                truths = Truths.of(spec.reading)
                read = partial(read_boolean, truths=truths, markers=markers)
            case _:
                column = column_of(spec)
                assert isinstance(column, NumberColumn)
                # What stands where a cell stays missing is read by no answer, but has the bounds.
                taken = value if isinstance(value, Fraction) else column.lower
                own = np.int64(int(taken)) if column.whole else np.float64(float(taken))
                (fill,) = column.clamped(np.array([own])).tolist()
                read = Numbers.of(column, spec.reading).read
                if column.timed is not None and any("%y" in each for each in spec.reading.format):
                    future = 1000 * time.time() / _DIGESTED[column.timed]
        return cls(read, spec.missing, spec.reading.unreadable, fill, future)

    def refused(self, read: Read) -> Mask | None:
        """Return which cells refuse the upload."""
        if self.missing == "reject":
            return read.missing
        return read.unreadable if self.unreadable == "reject" else None

    def count(self, read: Read, rows: int, counts: ColumnCounts) -> None:
        """Add what became of some cells, none of which is refused."""
        missing = 0 if read.missing is None else int(read.missing.sum())
        if read.numbers is not None and math.isfinite(self.future):
            there = read.numbers if read.missing is None else read.numbers[~read.missing]
            counts.future += int(np.count_nonzero(there > self.future))
        counts.values += rows - missing
        counts.clamped_low += read.clamped_low
        counts.clamped_high += read.clamped_high
        if isinstance(self.missing, Fill):
            counts.filled += missing
        elif self.missing == "keep":
            counts.missing += missing
        if read.unreadable is not None:
            counts.unreadable += int(read.unreadable.sum())
        if read.others is not None:
            counts.other += int(read.others.sum())


@dataclass(frozen=True, slots=True)
class RowEncoder:
    """Encodes rows of all declared columns; ``report`` counts what became of them.

    ``derived`` says how more columns are made of those. ``digester`` sees every row's cells as
    they are in the file. ``people`` says whose rows are whose.
    """

    encoders: Mapping[str, Encoder]
    derived: Mapping[str, DerivedColumn]
    report: UploadReport
    digester: RowDigester | None = None
    people: PeopleWords | None = None

    @classmethod
    def of(
        cls,
        spec: ColumnsSpec,
        report: UploadReport,
        digester: RowDigester | None = None,
        ids: Prf | None = None,
    ) -> RowEncoder:
        """Return the encoder of a declaration; ``ids`` digests ids where there are any."""
        encoders = {name: Encoder.of(column) for name, column in spec.in_file.items()}
        report.columns.update({name: ColumnCounts() for name in encoders})
        people = None if spec.unit is None or ids is None else PeopleWords(spec, ids)
        # what a person's rows are reduced to is what columns are derived from
        later = spec.unit is not None and spec.unit.reduce is not None
        return cls(encoders, {} if later else derived_of(spec), report, digester, people)

    def encode(
        self,
        frame: pl.DataFrame,
        first_row: int,
        troubles: Troubles,
    ) -> dict[str, Values] | None:
        """Return the values of some rows, and add to ``troubles`` what is refused.

        Derived columns come last; they are made of the values, with what is missing filled in.

        ``first_row`` is the number of the frame's first row. Once something is refused there
        is no block.
        """
        found = {name: encoder.read(frame[name]) for name, encoder in self.encoders.items()}
        for name, read in found.items():
            troubles.extend(_refused(name, self.encoders[name], read, first_row))
        ids = None
        if self.people is not None:
            ids, refused = self.people.ids(frame, first_row)
            troubles.extend(refused)
        if troubles:  # nothing is stored of the file: it is read on to count what is wrong
            self.report.rows += frame.height
            return None
        if self.digester is not None:
            self.digester.add({name: read.plain for name, read in found.items()})
        block = {name: self._filled(name, read, frame.height) for name, read in found.items()}
        masks = {name: read.missing for name, read in found.items() if read.missing is not None}
        for name, encoder in self.encoders.items():
            if encoder.missing == "keep":
                block[presence_of(name)] = presence_values(masks.get(name), frame.height)
        block = with_derived(self.derived, block, masks)
        # Which cells are there comes last, as the reader of a row's words expects.
        block = {name: block[name] for name in sorted(block, key=is_presence)}
        if self.people is not None and ids is not None:
            cells = {name: read.unbounded for name, read in found.items()}
            block = self.people.rows(ids, block, cells, masks)
        self.report.rows += frame.height
        return self._kept(block, masks)

    def _filled(self, name: str, read: Read, rows: int) -> Values:
        """Return a column's values, with what is missing filled in, and count its cells."""
        encoder = self.encoders[name]
        encoder.count(read, rows, self.report.columns[name])
        if read.missing is None or not (
            encoder.missing == "keep" or isinstance(encoder.missing, Fill)
        ):
            return read.values
        return np.where(read.missing, read.values.dtype.type(encoder.fill), read.values)

    def _kept(self, block: dict[str, Values], masks: Mapping[str, Mask]) -> dict[str, Values]:
        """Return the rows that are not left out."""
        drops = [mask for name, mask in masks.items() if self.encoders[name].missing == "drop"]
        if not drops:
            return block
        dropped = np.logical_or.reduce(drops)
        self.report.rows_dropped += int(dropped.sum())
        return {name: values[~dropped] for name, values in block.items()}


def _refused(name: str, encoder: Encoder, read: Read, first_row: int) -> Iterator[Trouble]:
    """Yield what refuses the upload in a column's cells, by kind."""
    refused = encoder.refused(read)
    if refused is None:
        return
    rows = np.flatnonzero(refused)
    kinds = np.zeros(len(rows), dtype=np.int8)
    if read.unreadable is not None:
        kinds += read.unreadable[rows]
        if read.numbers is not None:  # infinite, or not whole
            values = read.numbers[rows]
            kinds[(kinds > 0) & np.isinf(values)] = 2
            kinds[(kinds > 0) & np.isfinite(values)] = 3
    for kind in np.unique(kinds).tolist():
        places = rows[kinds == kind]
        yield Trouble.of(read.reason(int(places[0])), name, places, first_row)
