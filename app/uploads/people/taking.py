"""The rows of an upload by person: what the reader sends becomes the rows that are stored.

Where a declaration asks for one row of each person, it is made of that person's rows alone:

    row(p)_c = clamp(r_c(cells of p in column c, in the order of the file)),

r_c a sum, mean, least, largest, first or last cell, or a count of the rows. Cells are reduced as
the file has them, before bounds; what comes of them is clamped to the column's public bounds. Of a
column that keeps its missing cells those with a value are reduced, and where there is none the
person has none.

**Privacy.** Each row is a function of one person's own rows, in their own order, so a person more
or less is one row more or less. Sums are taken one cell after the other within a person, by floats
whose rounding no other person's rows can change: whatever it is, it is the same in both neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.domain.columns import Fill
from app.domain.datasets import ColumnsSpec
from app.domain.units import Reducer
from app.domain.upload_reports import ColumnCounts, PeopleCounts, UploadReport
from app.engine.schema import column_of, derived_of, presences_of
from app.uploads.people.canonical import IdRule, canonical_ids, canonical_markers
from app.uploads.people.counting import Counts, Places, RowsStored, by_person, kept
from app.uploads.people.wire import (
    PERSON,
    WORDS,
    Spill,
    Words,
    digests_of,
    fields_of,
    id_words,
    is_number,
    missing,
    packed,
    tells_missing,
    unpacked,
)
from app.uploads.prf import Prf
from app.uploads.samples import Digests, Sample, Sampler
from app.uploads.trouble import MORE_ROWS, Trouble, Troubles
from mechanisms.domain import NumberColumn, Values, presence_of, presence_values
from mechanisms.expressions.derived import DerivedColumn, with_derived

Mask = NDArray[np.bool_]
Reduced = NDArray[Any]
_LARGEST = 1e200
"""Cells beyond count as this one, so that no sum of them is infinite."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """Whose rows are whose: each person's are side by side in ``order``, as the file has them."""

    order: Places
    starts: Places
    counts: Counts

    def reduced(self, cells: Reduced, how: Reducer) -> Reduced:
        """Return one cell of each person, or a number made of them."""
        ordered: Reduced = cells[self.order]
        match how:
            case "first":
                return np.asarray(ordered[self.starts])
            case "last":
                return np.asarray(ordered[self.starts + self.counts - 1])
            case "min":
                return np.asarray(np.minimum.reduceat(ordered, self.starts))
            case "max":
                return np.asarray(np.maximum.reduceat(ordered, self.starts))
        whose = np.repeat(np.arange(len(self.starts)), self.counts)
        totals = np.bincount(whose, weights=ordered, minlength=len(self.starts))  # one by one
        return np.asarray(totals / self.counts if how == "mean" else totals)

    def having(self, there: Mask) -> tuple[Grouping, Mask]:
        """Return the grouping of rows that have a value, and which people have no such row.

        Those are of one row there, which has none.
        """
        people = len(self.starts)
        whose = np.repeat(np.arange(people), self.counts)
        ordered = there[self.order]
        having = np.bincount(whose[ordered], minlength=people) > 0
        kept = ordered.copy()
        kept[self.starts[~having]] = True
        counts = np.bincount(whose[kept], minlength=people)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(self.starts.dtype)
        return Grouping(self.order[kept], starts, counts), ~having

    def all_of(self, mask: Mask, how: Reducer) -> Mask:
        """Say for which people nothing was there to be reduced."""
        if how in ("first", "last"):
            return self.reduced(mask, how).astype(np.bool_)
        return np.asarray(np.logical_and.reduceat(mask[self.order], self.starts))


class Reduction:
    """Reduces people's rows as a spec says."""

    def __init__(self, spec: ColumnsSpec) -> None:
        assert spec.unit is not None
        self._spec = spec
        self._unit = spec.unit
        self._derived: Mapping[str, DerivedColumn] = derived_of(spec)
        self.clamped: dict[str, tuple[int, int]] = {}
        """By column, how many people's numbers were moved to the lower bound and to the upper."""
        self.missing: dict[str, int] = {}
        """By column that keeps missing cells, how many people have no value."""

    def rows(self, given: Mapping[str, Values], grouping: Grouping) -> dict[str, Values]:
        """Return the stored columns of each person, from arrays as blocks carry them."""
        block: dict[str, Values] = {}
        masks: dict[str, Mask] = {}
        for name, column in self._spec.own.items():
            how, kind = self._unit.reducer(name), column_of(column)
            mask = given.get(missing(name))
            own = grouping
            if column.missing == "keep" and mask is not None:
                own, lacking = grouping.having(mask == 0)
                masks[name] = lacking
                block[presence_of(name)] = presence_values(lacking, len(lacking))
                self.missing[name] = self.missing.get(name, 0) + int(lacking.sum())
            elif mask is not None:
                masks[name] = grouping.all_of(mask.astype(np.bool_), how)
            if how == "count":
                cells: Reduced = grouping.counts.astype(np.float64)
            elif is_number(column):
                numbers = np.clip(given[name], -_LARGEST, _LARGEST)
                cells = own.reduced(numbers, how)
            else:
                cells = own.reduced(given[name], how)
            if isinstance(kind, NumberColumn) and cells.dtype == np.float64:
                cells = np.rint(cells) if kind.whole else cells  # a mean of whole numbers
                self._count(name, cells if name not in masks else cells[~masks[name]], kind)
                cells = kind.clamped(cells)
            block[name] = cells.astype(kind.dtype, copy=False)
        return with_derived(self._derived, block, masks)

    def _count(self, name: str, cells: NDArray[np.float64], column: NumberColumn) -> None:
        low, high = self.clamped.get(name, (0, 0))
        low += int(np.count_nonzero(cells < float(column.lower)))
        high += int(np.count_nonzero(cells > float(column.upper)))
        self.clamped[name] = low, high


# Blocks of rows as the reading process sends them where rows are people's

Cells = Mapping[str, tuple[Values, Mask | None]]


class PeopleWords:
    """Adds to the cells of rows whose they are.

    Parameters
    ----------
    spec
        The declared columns, with their unit.
    prf
        What digests ids.
    """

    def __init__(self, spec: ColumnsSpec, prf: Prf) -> None:
        assert spec.unit is not None
        self._spec = spec
        self._column = spec.unit.column
        self._rule = IdRule.of(spec.unit)
        self._markers = canonical_markers(spec.unit.na, self._rule)
        self._reduced = spec.unit.reduce is not None
        self._prf = prf

    def ids(self, frame: pl.DataFrame, first_row: int) -> tuple[pl.Series, Sequence[Trouble]]:
        """Return the canonical ids of some rows, and what refuses the upload in them."""
        texts, refused = canonical_ids(frame[self._column], self._rule, self._markers)
        troubles = [
            Trouble.of(reason, self._column, np.flatnonzero(rows), first_row)
            for reason, rows in refused.items()
        ]
        return texts, troubles

    def rows(
        self,
        ids: pl.Series,
        block: Mapping[str, Values],
        cells: Cells,
        masks: Mapping[str, Mask],
    ) -> dict[str, Values]:
        """Return the arrays of some rows.

        Parameters
        ----------
        ids
            The rows' canonical ids.
        block
            Their values, with what is missing filled in.
        cells
            Their cells before any bounds, and which are missing.
        masks
            Which are missing, for columns that lack any.
        """
        found = self._unreduced(block, cells, masks) if self._reduced else dict(block)
        words = id_words(self._prf, ids)
        return {**found, **dict(zip(PERSON, words, strict=True))}

    def _unreduced(
        self, block: Mapping[str, Values], cells: Cells, masks: Mapping[str, Mask]
    ) -> dict[str, Values]:
        found: dict[str, Values] = {}
        for name, column in self._spec.in_file.items():
            fill = column.missing.value if isinstance(column.missing, Fill) else 0
            mask = masks.get(name)
            found[name] = block[name]
            if is_number(column):
                numbers = cells[name][0].astype(np.float64)
                found[name] = numbers if mask is None else np.where(mask, float(fill), numbers)
            if tells_missing(column):
                absent = np.zeros(len(block[name]), dtype=np.int32)
                found[missing(name)] = absent if mask is None else mask.astype(np.int32)
        return found


# The rows of an upload by person: what the reader sends becomes the rows that are stored

_KEEP_PEOPLE = 1 << 17
_MOST_TOLD = 1 << 16
"""People with more rows count as having this many, in the median that a report shows."""


class PeopleRows:
    """Turns blocks of people's rows into blocks of stored rows, person by person.

    Parameters
    ----------
    spec
        The declared columns, with their unit.
    prf
        What chooses among a person's rows, by a secret key.
    directory
        Where files may be made on the way.
    stored
        Looks up what earlier versions hold of a person, and stores what there is now.
    """

    def __init__(
        self, spec: ColumnsSpec, prf: Prf, directory: Path, stored: RowsStored | None = None
    ) -> None:
        assert spec.unit is not None
        self._fields = fields_of(spec)
        self._stored = [*spec.stored, *presences_of(spec)]
        self._most = spec.unit.kept_rows
        self._bound = spec.max_rows
        self._prf = prf
        self._reduction = None if spec.unit.reduce is None else Reduction(spec)
        self._spill = Spill(directory, sum(field.words for field in self._fields.values()))
        self._people = Sampler(_KEEP_PEOPLE, patient=True)
        self._having = np.zeros(_MOST_TOLD + 1, dtype=np.int64)
        self._counts = PeopleCounts()
        self._rows_stored = stored
        self._rows = 0

    def taken(self, blocks: Iterable[Mapping[str, Values]]) -> Iterator[Mapping[str, Values]]:
        """Yield the stored rows of all people.

        Raises
        ------
        Problem
            What reading raises; ``too-large`` where one person has too many rows;
            ``invalid-upload`` for more rows than the spec's ``max_rows``, which bounds what would
            be stored of this file alone: the refusal does not reveal what earlier versions hold of
            its people.
        """
        for block in self._all(blocks):
            if self._bound is not None and self._rows > self._bound:
                raise Troubles([Trouble(MORE_ROWS)]).refusal()
            yield block

    def _all(self, blocks: Iterable[Mapping[str, Values]]) -> Iterator[Mapping[str, Values]]:
        for block in blocks:
            rows = packed(block, self._fields)
            known = rows[:, -WORDS:].any(axis=1)  # no id is written as zeros
            if not known.all():
                yield from self._alone(rows[~known])
            self._spill.add(rows[known])
        for rows in self._spill.groups():
            yield from self._together(rows)

    def report_in(self, report: UploadReport) -> None:
        """Put in a report whose the rows were, and of reduced columns what became of people."""
        report.people = replace(self._counts, median_rows=_median(self._having))
        if self._reduction is None:
            return
        people = self._counts.people + self._counts.rows_without_id
        for name, (low, high) in self._reduction.clamped.items():
            counts = report.columns.setdefault(name, ColumnCounts())
            counts.missing = self._reduction.missing.get(name, 0)
            counts.values = people - counts.missing
            counts.clamped_low, counts.clamped_high = low, high

    def people(self) -> Sample | None:
        """Return a sample of the people, by their digests; of those who have an id."""
        return self._people.sample()

    def _alone(self, rows: Words) -> Iterator[Mapping[str, Values]]:
        """Yield rows that have no id: each is a person's own."""
        self._counts.rows_without_id += len(rows)
        self._rows += len(rows)
        places = np.arange(len(rows))
        yield self._made(rows, Grouping(places, places, np.ones_like(places)))

    def _together(self, rows: Words) -> Iterator[Mapping[str, Values]]:
        people = digests_of(rows[:, -WORDS:])
        grouping = Grouping(*by_person(people))
        self._people.add(_of_people(people, grouping))
        self._count(grouping.counts)
        if self._reduction is None:
            rows = self._kept(rows, people, grouping)
        else:
            self._rows += len(grouping.counts)
        if len(rows):
            yield self._made(rows, grouping)

    def _kept(self, rows: Words, people: Digests, grouping: Grouping) -> Words:
        """Return the rows that are stored; the report counts the rows that this file has too many.

        Showing how many rows earlier versions leave room for would reveal something about them.
        """
        alone = np.minimum(grouping.counts, self._most)
        self._rows += int(alone.sum())
        self._counts.rows_left_out += int((grouping.counts - alone).sum())
        room = np.full_like(grouping.counts, self._most)
        if self._rows_stored is not None:
            who = people[grouping.order[grouping.starts]]
            room = np.maximum(room - self._rows_stored.before(who), 0)
            self._rows_stored.note(who, np.minimum(grouping.counts, room))
        return rows[kept(rows, grouping.order, grouping.counts, room, self._prf)]

    def _count(self, rows: NDArray[np.int64]) -> None:
        """Count people by how many rows they have."""
        counts = self._counts
        counts.people += len(rows)
        counts.most_rows = max(counts.most_rows, int(rows.max(initial=0)))
        self._having += np.bincount(np.minimum(rows, _MOST_TOLD), minlength=_MOST_TOLD + 1)

    def _made(self, rows: Words, grouping: Grouping) -> Mapping[str, Values]:
        block = unpacked(rows, self._fields)
        if self._reduction is None:
            return {name: block[name] for name in self._stored}
        return self._reduction.rows(block, grouping)


def _median(having: NDArray[np.int64]) -> int:
    """Return the median of rows per person, given the number of people by number of rows."""
    people = np.cumsum(having)
    return int(np.searchsorted(2 * people, people[-1])) if people[-1] else 0


def _of_people(people: Digests, grouping: Grouping) -> Digests:
    return np.ascontiguousarray(people[grouping.order[grouping.starts], 0])
