"""From cells to integer codes, with the row numbers of whatever does not fit.

A column arrives either *typed* (floats that the CSV or Parquet reader parsed, and Parquet's
truths, dictionaries and whole numbers that stand for texts) or as *text* (what else is boolean
or a category, and numbers that the typed reader refused). Both give the same codes for the
same cell. :mod:`app.uploads.read_cells` reads one column.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np
import polars as pl

from app.domain.columns import BooleanSpec, CategorySpec, ColumnSpec, Fill, Missing, NumberSpec
from app.domain.datasets import ColumnsSpec
from app.domain.upload_reports import ColumnCounts, UploadReport
from app.engine.schema import column_of, derived_of
from app.uploads.people.sending import PeopleWords
from app.uploads.prf import Prf
from app.uploads.read_cells import (
    Codes,
    Markers,
    Mask,
    Numbers,
    Read,
    read_boolean,
    read_category,
    read_texts,
)
from app.uploads.row_digests import RowDigester
from app.uploads.trouble import MAX_LISTED, Trouble, Troubles
from mechanisms.domain import CODE_MAX, NumberColumn
from mechanisms.expressions.derived import DerivedColumn

_Refused = Iterator[tuple[int, int, str, str]]


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes one declared column; ``as_spelt`` says that any reader would see its numbers."""

    read: Callable[[pl.Series], Read]
    missing: Missing
    unreadable: Literal["reject", "missing"]
    fill: int
    as_spelt: bool = True

    @classmethod
    def of(cls, spec: ColumnSpec) -> Encoder:
        """Return the encoder a declaration asks for."""
        value = spec.missing.value if isinstance(spec.missing, Fill) else None
        markers, fill = Markers.of(spec.reading.na), 0
        read: Callable[[pl.Series], Read]
        match spec:
            case CategorySpec():
                kind = pl.Enum(spec.values)
                fill = spec.values.index(value) if isinstance(value, str) else 0
                other = None if spec.other is None else spec.values.index(spec.other)
                listed = partial(read_category, kind=kind, markers=markers, other=other)
                read = partial(read_texts, reader=listed)
            case BooleanSpec():
                fill = CODE_MAX if value else -CODE_MAX
                read = partial(read_texts, reader=partial(read_boolean, markers=markers))
            case _:
                column = column_of(spec)
                assert isinstance(column, NumberColumn)
                if isinstance(value, Fraction):
                    fill = column.encode_one(float(value))
                read = Numbers.of(column, spec.reading).read
        as_spelt = not isinstance(spec, NumberSpec) or _is_plain(spec)
        return cls(read, spec.missing, spec.reading.unreadable, fill, as_spelt)

    def refused(self, read: Read) -> Mask | None:
        """Return which cells refuse the upload."""
        if self.missing == "reject":
            return read.missing
        return read.unreadable if self.unreadable == "reject" else None

    def count(self, read: Read, rows: int, counts: ColumnCounts) -> None:
        """Add what became of some cells, none of which is refused."""
        missing = 0 if read.missing is None else int(read.missing.sum())
        counts.values += rows - missing
        counts.clamped_low += read.clamped_low
        counts.clamped_high += read.clamped_high
        if isinstance(self.missing, Fill):
            counts.filled += missing
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
        looked_at: Sequence[str] = (),
    ) -> dict[str, Codes]:
        """Return the block of codes of some rows, and add to ``troubles`` what is refused.

        Derived columns come last; they are made of the codes, with what is missing filled in.

        ``first_row`` is the number of the frame's first row. Where something
        is refused the codes mean nothing. The digester sees the columns that are
        ``looked_at`` as it would if none were declared.
        """
        found = {name: encoder.read(frame[name]) for name, encoder in self.encoders.items()}
        refused = (
            _listing(place, name, self.encoders[name], read)
            for place, (name, read) in enumerate(found.items())
        )
        # Each column's are in the order of rows: merged, those of the file's first rows come first.
        troubles.extend(
            Trouble(first_row + row, name, reason) for row, _, name, reason in heapq.merge(*refused)
        )
        if self.digester is not None:
            seen = {name: self._seen(name, found.get(name), frame) for name in looked_at}
            self.digester.add({name: read.plain for name, read in found.items()}, seen)
        block = {name: self._filled(name, read, frame.height) for name, read in found.items()}
        masks = {name: read.missing for name, read in found.items() if read.missing is not None}
        for name, column in self.derived.items():
            block[name] = column.codes(block, masks)
        if self.people is not None:
            values = {name: read.values for name, read in found.items()}
            block = self.people.words(frame, block, values, masks)
        self.report.rows += frame.height
        return self._kept(block, masks)

    def _seen(self, name: str, read: Read | None, frame: pl.DataFrame) -> pl.Series:
        """Return a column as the digests of the file know it: spelt in their way."""
        encoder = self.encoders.get(name)
        if read is not None and read.listed is not None:
            return read.listed
        if encoder is None or encoder.as_spelt or read is None or read.numbers is None:
            return frame[name]
        numbers, missing, _ = read.plain
        return pl.Series(name, numbers if missing is None else np.where(missing, np.nan, numbers))

    def _filled(self, name: str, read: Read, rows: int) -> Codes:
        """Return a column's codes, with what is missing filled in, and count its cells."""
        encoder = self.encoders[name]
        encoder.count(read, rows, self.report.columns[name])
        if read.missing is None or not isinstance(encoder.missing, Fill):
            return read.codes
        return np.where(read.missing, np.int32(encoder.fill), read.codes)

    def _kept(self, block: dict[str, Codes], masks: Mapping[str, Mask]) -> dict[str, Codes]:
        """Return the rows that are not left out."""
        drops = [mask for name, mask in masks.items() if self.encoders[name].missing == "drop"]
        if not drops:
            return block
        dropped = np.logical_or.reduce(drops)
        self.report.rows_dropped += int(dropped.sum())
        return {name: codes[~dropped] for name, codes in block.items()}


def _is_plain(spec: NumberSpec) -> bool:
    """Say whether a column's cells are numbers as programs spell them, all of which count."""
    counted = spec.kind in ("number", "integer")
    return counted and spec.reading.plain_numbers and not spec.reading.na


def _listing(place: int, name: str, encoder: Encoder, read: Read) -> _Refused:
    refused = encoder.refused(read)
    if refused is not None:
        for row in np.flatnonzero(refused)[:MAX_LISTED].tolist():
            yield row, place, name, read.reason(row)
