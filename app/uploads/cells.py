"""From cells to stored values, with the row numbers of whatever does not fit.

A column arrives either *typed* (floats that the CSV or Parquet reader parsed, and Parquet's
truths, dictionaries and whole numbers that stand for texts) or as *text* (what else is boolean
or a category, and numbers that the typed reader refused). Both give the same values for the
same cell. :mod:`app.uploads.read_cells` reads one column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np
import polars as pl

from app.domain.columns import BooleanSpec, CategorySpec, ColumnSpec, Fill, Missing
from app.domain.datasets import ColumnsSpec
from app.domain.upload_problems import ColumnCounts, UploadReport
from app.engine.schema import column_of, derived_of
from app.uploads.moments import Listed
from app.uploads.people.taking import PeopleWords
from app.uploads.prf import Prf
from app.uploads.read_cells import (
    Markers,
    Mask,
    Numbers,
    Read,
    Truths,
    read_boolean,
    read_category,
    read_texts,
)
from app.uploads.row_digests import RowDigester
from app.uploads.trouble import Trouble, Troubles
from mechanisms.domain import NumberColumn, Values, is_presence, presence_of, presence_values
from mechanisms.expressions.derived import DerivedColumn, with_derived
from mechanisms.words import value_text


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes one declared column."""

    read: Callable[[pl.Series], Read]
    missing: Missing
    unreadable: Literal["reject", "missing"]
    fill: int | float

    @classmethod
    def of(cls, spec: ColumnSpec) -> Encoder:
        """Return the encoder a declaration asks for."""
        value = spec.missing.value if isinstance(spec.missing, Fill) else None
        markers = Markers.of(spec.reading.na)
        fill: int | float = 0
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
        return cls(read, spec.missing, spec.reading.unreadable, fill)

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
