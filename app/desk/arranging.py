"""The numbers of an answer, arranged for a page: a chart, tables, and which table of many.

    answer + what the address says --arranged--> rows, a chart, tables of rows and columns, files

A release of ``tables`` has up to thousands of tables. A page shows one of them: a column down, one
across, and where wanted one value of a third. Only its numbers are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request

from app.desk.figures import Columns, Figure, Say, figure
from app.domain.problems import Problem
from app.tidy.keys import StoredTables, at, cells_in, with_tables
from app.tidy.names import Labels, all_of, label, labels_of, marked, narrowed, statistic
from app.tidy.pivots import FILES, Pivot, pivots_of
from app.tidy.printed import Printed, printed
from app.tidy.rows import Row, notes_of, rows_of
from mechanisms.inference.bought import HOW_TO_ASK

MOST_ROWS = 1_000
"""At most this many numbers are shown on a page; a file has them all."""
_SORT = re.compile(r"-?[1-9]\d{0,3}", re.ASCII)
_TABLES = 50
"""Tables that a page of their list names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """What an address says of the arrangement of numbers.

    Attributes
    ----------
    across
        What is in the columns of tables: an empty text for nothing, None where it is not said.
    rows
        Of many tables, the column in the rows of the one that is shown.
    slice, value
        A third column, and the one value of it that is shown. An empty text is for no such column;
        where it is not said, a table of three columns has its third one here.
    intervals
        Whether each number of a table of counts has its interval below it.
    page
        The page of the list of tables, from 1.
    sort
        The column of numbers, from 1, that rows are sorted by; negative: the largest first; 0: rows
        are in the order of their names.
    """

    across: str | None = None
    rows: str | None = None
    slice: str | None = None
    value: str | None = None
    intervals: bool = False
    page: int = 1
    sort: int = 0

    @classmethod
    def of(cls, request: Request) -> Arrangement:
        """Return what a request's address says; anything that makes no sense is left out."""
        said = request.query_params
        page, sort = said.get("page", "1"), said.get("sort", "")
        return cls(
            across=said.get("across"),
            rows=said.get("rows"),
            slice=said.get("slice"),
            value=said.get("value"),
            intervals=bool(said.get("intervals")),
            page=int(page) if page.isascii() and page.isdigit() and len(page) < 6 else 1,
            sort=int(sort) if _SORT.fullmatch(sort) else 0,
        )

    @property
    def query(self) -> str:
        """Return this as the end of an address, the page of the list apart."""
        table = {"rows": self.rows, "across": self.across, "slice": self.slice, "value": self.value}
        chosen = self.across is not None or self.rows is not None
        said = {**(table if chosen else {}), "sort": self.sort or None}
        query = urlencode({name: text for name, text in said.items() if text is not None})
        return f"?{query}" if query else ""

    def sorted_by(self, column: int) -> str:
        """Return the end of the address that sorts by a column: down, then up, then not at all."""
        turns = {-column: column, column: 0}
        return replace(self, sort=turns.get(self.sort, -column)).query


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """Which of many tables is shown, and which others there are.

    Attributes
    ----------
    columns
        The columns that any table has.
    rows, across, slice
        Those of the table that is shown; an empty text for none.
    values, value
        The values of the column ``slice`` with their labels, and the one that is shown.
    unlike
        What is wanted and no table has, as a sentence; empty where one has all.
    listed
        One page of the list: a table's name, and the address that shows it.
    page, pages, count
        The page of the list, how many it has, and how many tables there are.
    intervals
        Whether each number has its interval below it.
    """

    columns: Sequence[str]
    rows: str
    across: str
    slice: str
    values: Sequence[tuple[str, str]]
    value: str
    unlike: str
    listed: Sequence[tuple[str, str]]
    page: int
    pages: int
    count: int
    intervals: bool

    @property
    def arrangement(self) -> Arrangement:
        """Return what shows this table alone."""
        return Arrangement(
            rows=self.rows, across=self.across, slice=self.slice, value=self.value or None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What a page shows of an answer's numbers.

    Attributes
    ----------
    rows, more
        Rows of the list, and how many the answer has besides.
    figure
        Their chart; None where none can be drawn.
    confident
        Whether any of them has a confidence interval.
    notes
        Why numbers are missing, each reason once.
    labels
        What values of categories are called.
    table
        The table that journals print, for a summary alone.
    pivots
        The numbers of groups as tables of rows and columns; none where there are no groups, or the
        answer has a table of its own.
    browser
        Where the answer is of many tables, which of them these are.
    arrangement
        What arranges them so; its ``query`` is the end of the addresses of files that show the
        same.
    """

    rows: Sequence[Row]
    more: int
    figure: Figure | None
    confident: bool
    notes: Sequence[str]
    labels: Labels
    table: Printed | None
    pivots: Sequence[Pivot]
    browser: Browser | None
    arrangement: Arrangement


def numbers_of(
    answer: Mapping[str, Any],
    name: str,
    columns: Columns,
    wanted: Arrangement | None = None,
    say: Say = str,
) -> Numbers:
    """Return the numbers of an answer; ``name`` is the accessible name of their chart.

    ``say`` says the words of the chart in the language of a page; a file has them in English.
    """
    wanted, browser = wanted or Arrangement(), None
    tables = at(answer, ("value", "tables"))
    if isinstance(tables, list | StoredTables) and tables:
        chosen, browser = _chosen(tables, wanted, labels_of(columns))
        one = with_tables(answer, slice(chosen, chosen + 1))
        rows = tuple(row for row in rows_of(one) if _is_in(row, browser))
        drawn = tuple(row for row in rows if row.key.cell)
        more = sum(map(cells_in, tables)) - min(len(drawn), MOST_ROWS)
        wanted = replace(browser.arrangement, sort=wanted.sort)
    else:
        rows = drawn = rows_of(answer)
        more = max(0, len(rows) - MOST_ROWS)
    table, said = printed(answer, columns), narrowed(answer.get("statistic") or {})
    found = numbers_in(drawn, name, columns, wanted, say=say, said=said)
    return replace(
        found,
        rows=rows[:MOST_ROWS],
        more=more,
        confident=any(row.confidence is not None for row in rows),
        notes=[*notes_of(rows), *_without_intervals(rows, answer)],
        table=table,
        pivots=found.pivots if table is None else (),
        browser=browser,
    )


_NO_INTERVAL = marked("No interval is shown where the noise of a number depends on the data.")
_NOT_ASKED: Mapping[str, str] = {
    HOW_TO_ASK: marked("Standard errors and confidence intervals were not asked for.")
}
"""What a page says in place of how a program asks."""


def _without_intervals(rows: Sequence[Row], answer: Mapping[str, Any]) -> Sequence[str]:
    """Return why statistics have numbers and no interval at all, a sentence each."""
    known = {statistic(row.key) for row in rows if row.interval}
    bare = [row for row in rows if row.estimate is not None and statistic(row.key) not in known]
    if not bare:
        return ()
    places = {row.key.part for row in bare}
    details = answer.get("details") or {}
    parts = enumerate(details.get("parts") or (), start=1)
    facts = [details, *(part.get("details") or {} for at, part in parts if at in places)]
    whys = dict.fromkeys(each["no_inference"] for each in facts if each.get("no_inference"))
    return [_NO_INTERVAL, *(_NOT_ASKED.get(each) or f"{each}." for each in whys)]


def numbers_in(
    rows: Sequence[Row],
    name: str,
    columns: Columns,
    wanted: Arrangement,
    *,
    say: Say = str,
    said: str = "",
) -> Numbers:
    """Return numbers arranged; ``said`` is which records they are about, as titles say it."""
    pivots = pivots_of(rows, columns, wanted.across, said)
    return Numbers(
        rows=rows[:MOST_ROWS],
        more=max(0, len(rows) - MOST_ROWS),
        figure=figure(rows, say(name), columns, say, said),
        confident=any(row.confidence is not None for row in rows),
        notes=notes_of(rows),
        labels=labels_of(columns),
        table=None,
        pivots=[each.sorted_by(wanted.sort) for each in pivots],
        browser=None,
        arrangement=wanted,
    )


def pivot_file(numbers: Numbers | None, ending: str) -> tuple[str, bytes]:
    """Return tables of numbers as a file: its media type and its content.

    Raises
    ------
    Problem
        ``not-found``: there are none, or not as such a file.
    """
    if numbers is None or not numbers.pivots or ending not in FILES:
        raise Problem("not-found")
    kind, written = FILES[ending]
    return kind, written(numbers.pivots)


# One table of many


def _chosen(
    tables: Sequence[Mapping[str, Any]], wanted: Arrangement, labels: Labels
) -> tuple[int, Browser]:
    """Return which table is shown, and what a page says of it and of the others."""
    first = [*tables[0]["columns"], ""]
    rows = wanted.rows if wanted.rows is not None else first[0]
    across = (wanted.across or "") if wanted.rows is not None else first[1]
    slice_ = wanted.slice if wanted.slice and wanted.slice not in (rows, across) else ""
    unlike, found = "", _with(tables, rows, across, slice_)
    if found is None and slice_:
        unlike = _unlike(rows, across, slice_)
        slice_, found = "", _with(tables, rows, across, "")
    if found is None:
        unlike = _unlike(rows, across)
        rows, across, slice_, found = first[0], first[1], "", 0
    if wanted.slice is None:
        slice_ = next((each for each in tables[found]["columns"] if each not in (rows, across)), "")
    seen = (str(each["cell"][slice_]) for each in tables[found]["cells"] if slice_)
    values = [(each, label(slice_, each, labels)) for each in dict.fromkeys(seen)]
    known = [each for each, _ in values]
    page, pages = wanted.page, -(-len(tables) // _TABLES)
    page = min(max(page, 1), pages)
    return found, Browser(
        columns=list(dict.fromkeys(name for each in tables for name in each["columns"])),
        rows=rows,
        across=across,
        slice=slice_,
        values=values,
        value=wanted.value if wanted.value in known else (known[0] if known else ""),
        unlike=unlike,
        listed=[_listed(each["columns"]) for each in tables[(page - 1) * _TABLES :][:_TABLES]],
        page=page,
        pages=pages,
        count=len(tables),
        intervals=wanted.intervals,
    )


def _unlike(*columns: str) -> str:
    return marked("No table has %(columns)s together.", columns=all_of([*filter(None, columns)]))


def _with(tables: Sequence[Mapping[str, Any]], rows: str, across: str, slice_: str) -> int | None:
    """Return the smallest table that has these columns, the first of several."""
    needed = {rows, across, slice_} - {""}
    fit = [at for at, each in enumerate(tables) if needed <= {*each["columns"]}]
    return min(fit, key=lambda at: len(tables[at]["columns"]), default=None)


def _listed(columns: Sequence[str]) -> tuple[str, str]:
    wanted = Arrangement(rows=columns[0], across=columns[1] if len(columns) > 1 else "")
    return " × ".join(columns), wanted.query


def _is_in(row: Row, browser: Browser) -> bool:
    """Return whether a number is of the slice that is shown, or of no cell."""
    cell = row.key.cell
    return not cell or not browser.slice or str(cell.get(browser.slice)) == browser.value
