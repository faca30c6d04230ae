"""One table of many: which one an address shows, and that all of its numbers are of that table."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import pytest

from app.desk.arranging import Arrangement, numbers_of, pivot_file
from app.domain.problems import Problem
from app.services.releases.cells import Cut, page_of, taken_of
from app.tidy.keys import StoredTables, at, cells_in, first_tables, is_long, read_answer
from app.tidy.rows import rows_of

NAMES = ("a", "b", "c", "d")


def table(*columns: str) -> dict[str, Any]:
    cells = [
        {"cell": dict(zip(columns, each, strict=True)), "count": 10 * at + len(columns)}
        for at, each in enumerate(product(("x", "y"), repeat=len(columns)))
    ]
    return {"columns": [*columns], "cells": cells}


def answer(order: int, names: tuple[str, ...] = NAMES) -> dict[str, Any]:
    tables = [table(*each) for each in combinations(names, order)]
    spread = [
        {**t, "cells": [{**c, "count": [c["count"] - 1, c["count"] + 1]} for c in t["cells"]]}
        for t in tables
    ]
    return {
        "statistic": {"kind": "tables", "columns": [*names]},
        "value": {"tables": tables, "rows": 40},
        "noise": {"std": None, "interval_95": {"tables": spread, "rows": [40, 40]}},
    }


HARD = ("a", 'b],"count":1', '{"columns":["x"],"rows":', '\\"]')
"""Names that look like what comes after a table, or like another one."""


def stored(columns: tuple[str, ...] = HARD) -> bytes:
    """Return an answer as it is stored: one standard deviation for each table."""
    full = answer(2, columns)
    thin = [{"columns": each["columns"], "count": 2.5} for each in full["value"]["tables"]]
    full["noise"]["std"] = {"tables": thin, "rows": 0.0}
    return json.dumps({"id": "rel_1", **full}, separators=(",", ":"), ensure_ascii=False).encode()


def test_a_stored_answer_is_read_table_by_table() -> None:
    """All of it is what a whole reading has, and one table is read without the others."""
    content = stored()
    whole, found = json.loads(content), read_answer(content)
    tables = found["value"]["tables"]
    assert isinstance(tables, StoredTables)
    for path in (("value",), ("noise", "std"), ("noise", "interval_95")):
        own, parts = (at(each, path)["tables"] for each in (whole, found))
        assert [dict(each) for each in parts] == own
        assert [dict(each) for each in parts[1:3]] == own[1:3]
    assert [each["columns"] for each in tables] == [each["columns"] for each in own]
    assert [cells_in(each) for each in tables] == [4] * 6
    assert at(found["noise"]["std"], ("tables", 1, "cells", 3, "count")) == 2.5
    assert rows_of(found) == rows_of(whole)
    first = content.index(b'"cells":')
    broken = read_answer(content[:first] + b'"cells"!' + content[first + 8 :])["value"]["tables"]
    assert dict(broken[1]) == whole["value"]["tables"][1]
    with pytest.raises(json.JSONDecodeError):
        dict(broken[0])


def test_numbers_in_order_read_each_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million cells take time in proportion to their number; a few are read without the rest."""
    found, read = read_answer(stored()), []
    loads = json.loads
    monkeypatch.setattr("app.tidy.keys.json.loads", lambda text: read.append(text) or loads(text))
    everything = rows_of(found)
    cells = [text for text in read if b'"cells"' in text or b'"count"' in text]
    assert len(cells) == 3 * 6
    read.clear()
    some = rows_of(first_tables(found, 5))
    own = [row for row in some if row.key.cell]
    assert len(own) == 8
    assert own == [row for row in everything if row.key.cell][:8]
    assert not is_long(found)
    monkeypatch.setattr("app.tidy.keys.MOST_LINES", 23)
    assert is_long(found)


def test_an_answer_of_groups_or_of_no_tables_is_read_as_a_whole() -> None:
    own = {"value": {"groups": [{"by": {"s": "f"}, "value": answer(2)["value"]}]}, "noise": None}
    for whole in (own, {"value": None, "noise": None}, {"value": {"count": 3}}):
        content = json.dumps(whole, separators=(",", ":")).encode()
        assert read_answer(content) == whole


def test_a_page_of_cells_reads_the_tables_that_it_is_of() -> None:
    """Pages join to all cells; a table that is on no page is not read."""
    record: Any = SimpleNamespace(result=stored())
    whole = Cut(format="jsonl", table=None, after=0, limit=100)
    lines = page_of(taken_of(record, whole), whole).content.splitlines()
    assert [json.loads(each)["table"] for each in lines] == [at for at in range(6) for _ in "1234"]
    assert json.loads(lines[5])["noise_std"] == 2.5
    assert len(json.loads(lines[5])["cell"]) == 2
    for limit in (1, 3, 4, 7):
        joined: list[bytes] = []
        cut: Cut | None = replace(whole, limit=limit)
        while cut is not None:
            found = page_of(taken_of(record, cut), cut)
            joined += found.content.splitlines()
            cut = found.next
        assert joined == lines
    taken = taken_of(record, replace(whole, after=9, limit=4))
    assert ([place for place, _ in taken.tables], taken.skipped, taken.total) == ([2, 3], 1, 24)
    one = replace(whole, format="csv", table=4, after=2, limit=1)
    assert page_of(taken_of(record, one), one).content.count(b"\n") == 2
    assert not taken_of(record, replace(whole, after=99)).tables


def test_the_table_that_is_wanted_is_shown_and_no_other() -> None:
    found = numbers_of(answer(2), "n", {}, Arrangement(rows="c", across="b"))
    (pivot,) = found.pivots
    assert (pivot.down, pivot.across) == (["c"], "b")
    shown = [[cell and cell.estimate for cell in cells] for _, cells in pivot.lines]
    assert shown == [[2, 22], [12, 32]], "its own numbers, rows and columns exchanged"
    assert pivot.said(pivot.lines[0][1][0]) == "1 to 3"
    assert found.browser is not None
    assert (found.browser.unlike, found.browser.count) == ("", 6)
    assert found.more == 6 * 4 - 4
    assert {*(row.key.cell.keys() and frozenset(row.key.cell) for row in found.rows[:-1])} == {
        frozenset("bc")
    }


def test_a_third_column_is_sliced_unless_that_is_not_wanted() -> None:
    def shown(**said: Any) -> tuple[str, str, int]:
        found = numbers_of(answer(3), "n", {}, Arrangement(**said))
        assert found.browser is not None
        cells = [cell for _, line in found.pivots[0].lines for cell in line]
        assert {row.key.place for row in found.rows if row.key.cell} == {
            cell.key.place for cell in cells if cell
        }
        return found.browser.slice, found.browser.value, len(cells)

    assert shown() == ("c", "x", 4)
    assert shown(rows="a", across="b", slice="d", value="y") == ("d", "y", 4)
    assert shown(rows="a", across="b", slice="d", value="none such") == ("d", "x", 4)
    assert shown(rows="a", across="b", slice="") == ("", "", 8)
    assert shown(rows="a", across="b", slice="a") == ("", "", 8)


@pytest.mark.parametrize(
    ("said", "unlike"),
    [
        ({"rows": "a", "across": "e"}, "a and e"),
        ({"rows": "", "across": ""}, ""),
        ({"rows": "a", "across": "b", "slice": "c"}, "a, b and c"),
        ({"rows": "e", "across": ""}, "e"),
    ],
)
def test_what_no_table_has_is_said_and_another_one_shown(said: dict[str, Any], unlike: str) -> None:
    found = numbers_of(answer(2), "n", {}, Arrangement(**said))
    assert found.browser is not None
    assert unlike in found.browser.unlike
    assert bool(unlike) == bool(found.browser.unlike)
    assert len(found.pivots) == 1


def test_thousands_of_tables_are_listed_in_pages() -> None:
    many = answer(2, tuple(f"c{n}" for n in range(100)))
    first = numbers_of(many, "n", {}).browser
    last = numbers_of(many, "n", {}, Arrangement(page=10**4)).browser
    assert first is not None
    assert last is not None
    assert (first.count, first.pages, len(first.listed)) == (4950, 99, 50)
    assert (last.page, len(last.listed)) == (99, 50)
    assert last.listed[-1] == ("c98 × c99", "?rows=c98&across=c99")


def test_a_file_is_of_the_table_that_is_shown() -> None:
    wanted = Arrangement(rows="a", across="", slice="")
    kind, content = pivot_file(numbers_of(answer(1), "", {}, wanted), "csv")
    assert kind == "text/csv; charset=utf-8"
    assert content.decode().splitlines()[1:] == ["x,1,0,2", "y,11,10,12"]
    with pytest.raises(Problem):
        pivot_file(numbers_of(answer(1), "", {}, wanted), "ods")
