"""The cells of released tables, or the numbers of groups, as lines: JSON Lines or CSV, by pages.

An answer of a million cells is some hundred megabytes of JSON, which few programs read at once. Its
lines are computed from the stored answer alone: no data set is opened, and nothing is charged.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise
from typing import Any, Literal
from urllib.parse import urlencode

import anyio.to_thread

from app.domain.problems import invalid_request
from app.services.people.keys import Caller
from app.services.plans.plans import PlanService
from app.services.plans.questions import read_question
from app.services.releases.derivations import answer_of_stored
from app.services.releases.releases import ReleaseService
from app.store import ReleaseRecord
from app.tidy.keys import MOST_LINES, at, cells_in
from app.tidy.names import grouping
from app.tidy.pivots import csv_text
from app.tidy.rows import Row, rows_of
from mechanisms.statistics.tables import MarginStatistic

Lines = Literal["jsonl", "csv"]

MEDIA_TYPES: Mapping[Lines, str] = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}
_ONLY_TABLES = "only a release of tables or of groups has cells; others are read as a whole"
_MS_PER_BYTE = 2e-5  # measured; of an answer that is read
_MS_PER_LINE = 5e-3
_NOISE = ("noise_std", "noise_low", "noise_high")
_NUMBER = ("statistic", "term", "value", *_NOISE, "note")
_TAKEN = frozenset(_NUMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Which cells: those of one table or of all, ``limit`` of them after the first ``after``."""

    format: Lines
    table: int | None
    after: int
    limit: int

    def address(self, release: str) -> str:
        """Return the address of these cells."""
        asked = {"format": self.format, "after": self.after, "limit": self.limit}
        one = {} if self.table is None else {"table": self.table}
        return f"/v1/releases/{release}/cells?{urlencode({**asked, **one})}"


@dataclass(frozen=True, slots=True)
class CellPage:
    """Lines of cells, and where the next ones are."""

    content: bytes
    next: Cut | None


class CellService:
    """Shows the cells of tables, to those who may see the release."""

    def __init__(self, releases: ReleaseService, plans: PlanService) -> None:
        self._releases = releases
        self._plans = plans

    async def page(self, release: str, cut: Cut, *, caller: Caller) -> CellPage:
        """Return some cells of a release of tables.

        Raises
        ------
        Problem
            ``not-found`` for foreign and unknown releases alike; ``invalid-request`` when the
            release has no result, is not of tables or groups, or has no such table; ``busy``.
        """
        record = await self._releases.get(release, caller=caller)
        return await self._page(record, cut, caller.person)

    async def _page(self, record: ReleaseRecord, cut: Cut, person: str) -> CellPage:
        statistic = read_question(record.request).statistic
        by: Sequence[object] = getattr(statistic, "by", ())
        if not (isinstance(statistic, MarginStatistic) or by):
            raise invalid_request("release", _ONLY_TABLES)
        if by:
            read_ms = _MS_PER_BYTE * len(record.result or b"")
            return await self._plans.compute(
                page_of_groups,
                record,
                cut,
                person=person,
                expected_ms=read_ms + _MS_PER_LINE * cut.limit,
            )
        # other tables stay where they are: a calculating process gets those of the page alone
        taken = await anyio.to_thread.run_sync(taken_of, record, cut)
        return await self._plans.compute(
            page_of,
            taken,
            cut,
            person=person,
            expected_ms=_MS_PER_LINE * (taken.cells + cut.limit),
        )

    async def whole(self, release: str, form: Lines, *, caller: Caller) -> AsyncIterator[bytes]:
        """Yield all cells of a release of tables, page by page, with one line of names.

        Raises
        ------
        Problem
            As :meth:`page`.
        """
        record = await self._releases.get(release, caller=caller)
        async for each in self.lines(record, form, person=caller.person):
            yield each

    async def lines(
        self, record: ReleaseRecord, form: Lines, *, person: str
    ) -> AsyncIterator[bytes]:
        """Yield all cells of a release that a person may see; of what is public ``""`` is everyone.

        Raises
        ------
        Problem
            As :meth:`page`.
        """
        cut: Cut | None = Cut(format=form, table=None, after=0, limit=MOST_LINES)
        while cut is not None:
            found = await self._page(record, cut, person)
            named = form == "csv" and cut.after > 0
            yield found.content.partition(b"\n")[2] if named else found.content
            cut = found.next


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The tables that a page is of.

    Attributes
    ----------
    tables
        Each table's place, and its counts, deviations and intervals as they are stored.
    skipped, cells, total
        How many of their first cells are before the page; how many they have, and all that are
        asked for.
    names
        The columns of all tables that are asked for.
    """

    tables: Sequence[tuple[int, Sequence[Mapping[str, Any]]]]
    skipped: int
    cells: int
    total: int
    names: Sequence[str]


def taken_of(record: ReleaseRecord, cut: Cut) -> Taken:
    """Return the tables of a stored release that a page is of, without reading the others' cells.

    Raises
    ------
    Problem
        ``invalid-request``.
    """
    answer = answer_of_stored(record, "release")
    parts = [answer["value"], answer["noise"]["std"], answer["noise"]["interval_95"]]
    tables = parts[0]["tables"]
    if cut.table is not None and cut.table >= len(tables):
        raise invalid_request("table", f"the release has {len(tables)} tables, counted from 0")
    places = range(len(tables)) if cut.table is None else [cut.table]
    ends = [*accumulate((cells_in(tables[place]) for place in places), initial=0)]
    within = [
        at
        for at, (begin, end) in enumerate(pairwise(ends))
        if begin < cut.after + cut.limit and end > cut.after
    ]
    taken = [places[at] for at in within]
    return Taken(
        tables=[(place, [part["tables"][place] for part in parts]) for place in taken],
        skipped=cut.after - ends[within[0]] if within else 0,
        cells=ends[within[-1] + 1] - ends[within[0]] if within else 0,
        total=ends[-1],
        names=list(dict.fromkeys(name for place in places for name in tables[place]["columns"])),
    )


def page_of(taken: Taken, cut: Cut) -> CellPage:
    """Return some cells of the tables that they are of."""
    found = islice(_cells(taken), taken.skipped, taken.skipped + cut.limit)
    content = _lines(found) if cut.format == "jsonl" else _csv(taken.names, found)
    return _page(content, cut, taken.total)


def _page(content: str, cut: Cut, total: int) -> CellPage:
    end = cut.after + cut.limit
    return CellPage(content.encode(), replace(cut, after=end) if end < total else None)


def _lines(found: Iterable[Mapping[str, Any]]) -> str:
    lines = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in found)
    return "".join(f"{line}\n" for line in lines)


def page_of_groups(record: ReleaseRecord, cut: Cut) -> CellPage:
    """Return some numbers of the answers of all groups: those that tables and data frames show.

    Raises
    ------
    Problem
        ``invalid-request``.
    """
    answer = answer_of_stored(record, "release")
    if cut.table is not None:
        raise invalid_request("table", "is for tables that are not of groups")
    rows = rows_of(answer)
    groups = grouping([row.key for row in rows], _TAKEN)
    found = ((groups.cells(row.key), _number(row)) for row in rows[cut.after :][: cut.limit])
    if cut.format == "jsonl":
        return _page(_lines({"cell": cell, **own} for cell, own in found), cut, len(rows))
    lines = ((*map(cell.get, groups.names), *own.values()) for cell, own in found)
    return _page(csv_text((*groups.names, *_NUMBER), lines), cut, len(rows))


def _number(row: Row) -> dict[str, Any]:
    """Return what is shown of a number in a group."""
    low, high = row.noise or (None, None)
    shown = (row.statistic, row.term, row.estimate, row.noise_std, low, high, row.remark)
    return dict(zip(_NUMBER, shown, strict=True))


def _cells(taken: Taken) -> Iterator[dict[str, Any]]:
    """Yield the cells of some tables, each with the law of its noise."""
    for place, (counts, stds, intervals) in taken.tables:
        for index, cell in enumerate(counts["cells"]):
            std = at(stds, ("cells", index, "count"))
            low, high = at(intervals, ("cells", index, "count"))
            yield {
                "table": place,
                "cell": cell["cell"],
                "count": cell["count"],
                **dict(zip(_NOISE, (std, low, high), strict=True)),
            }


def _csv(names: Sequence[str], cells: Iterator[dict[str, Any]]) -> str:
    rows = (
        (each["table"], *map(each["cell"].get, names), each["count"], *map(each.get, _NOISE))
        for each in cells
    )
    return csv_text(("table", *names, "count", *_NOISE), rows)
