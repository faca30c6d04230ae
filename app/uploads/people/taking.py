"""The rows of an upload by person: what the reader sends becomes the rows that are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.domain.columns import Fill
from app.domain.datasets import ColumnsSpec
from app.domain.upload_problems import ColumnCounts, PeopleCounts, UploadReport
from app.engine.schema import presences_of
from app.uploads.people.canonical import IdRule, canonical_ids, canonical_markers
from app.uploads.people.counting import RowsStored, by_person, kept
from app.uploads.people.reducing import Grouping, Reduction
from app.uploads.people.spill import Spill
from app.uploads.people.wire import (
    PERSON,
    WORDS,
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
from mechanisms.domain import Values

# Blocks of rows as the reading process sends them where rows are people's

Mask = NDArray[np.bool_]
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
        return rows[kept(rows, room, self._prf)]

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
