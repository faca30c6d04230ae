"""Answers as rows: every number once, with what the answer says of it, by its key."""

from __future__ import annotations

import csv
import re
from io import StringIO
from typing import Any

from app.client.tables import html_of, lines_of
from app.client.tables import rows_of as client_rows
from app.desk.figures import figure
from app.services.releases.public_moments import tidy_csv
from app.tidy.names import said_of
from app.tidy.pivots import as_csv, as_latex, as_markdown, pivots_of
from app.tidy.printed import printed, printed_any
from app.tidy.rows import Row, rows_of

MATRIX: dict[str, Any] = {
    "statistic": {"kind": "covariance", "columns": ["a", "b"]},
    "epsilon": "1",
    "value": {"matrix": [[1.5, 0.25], [0.25, 2.0]]},
    "noise": {"std": {}, "interval_95": {"matrix": [[[1, 2], [0, 1]], [[0, 1], [1, 3]]]}},
}
GROUPS: dict[str, Any] = {
    "statistic": {"kind": "histogram", "columns": ["b"], "by": ["term"]},
    "epsilon": "0.5",
    "value": {
        "groups": [
            {"by": {"term": each}, "value": {"cells": [{"cell": {"b": "x, y"}, "count": number}]}}
            for each, number in (("north", 3), ("south", 4))
        ]
    },
    "noise": None,
}
STACK: dict[str, Any] = {
    "statistic": {
        "kind": "stack",
        "parts": [
            {"statistic": {"kind": "mean", "columns": ["born"], "by": ["sex"]}},
            {"statistic": {"kind": "quantile", "column": "a"}},
            {"statistic": {"kind": "moments", "columns": ["a", "count"]}},
            {"statistic": {"kind": "std", "columns": ["a"]}},
        ],
    },
    "epsilon": "1",
    "value": {
        "parts": [
            {"groups": [{"by": {"sex": "M"}, "value": {"born": "1980-01-01"}}]},
            {"quantiles": [{"level": "0.5", "value": 7}]},
            {"count": 9, "means": {"a": 1.0, "count": 2.0}, "second": [[3.0, 4.0], [4.0, None]]},
            {"a": 0.125},
        ]
    },
    "noise": {
        "std": {},
        "interval_95": {
            "parts": [
                {"groups": [{"by": {}, "value": {"born": ["1979-01-01", "1981-01-01"]}}]},
                {"quantiles": [{"level": "0.5", "value": None}]},
                {"count": [8, 10], "means": {"a": [0, 2], "count": [1, 3]}, "second": None},
                {"a": [0, 1]},
            ]
        },
    },
}
REGRESSION: dict[str, Any] = {
    "statistic": {"kind": "linear_regression", "target": "b", "features": ["a"]},
    "epsilon": "2",
    "value": {"coefficients": {"(intercept)": 1.0, "a": 2.0}},
    "noise": {"std": {}, "interval_95": {"coefficients": {"(intercept)": [0, 2], "a": [1, 3]}}},
    "inference": {
        "terms": [
            {
                "term": "a", "place": ["coefficients", "a"], "estimate": 2.0, "std_error": 1,
                "confidence_95": [0, 4], "noise_95": None,
            }
        ],
        "fit": [
            {
                "term": "r_squared", "estimate": None, "reason": "Cannot be said: why.",
                "std_error": 1, "confidence_95": [0.5, 1], "noise_95": None,
            }
        ],
    },
}  # fmt: skip
QUANTILES: dict[str, Any] = {
    "statistic": {"kind": "quantile", "column": "a", "levels": [0.25], "by": ["sex"]},
    "epsilon": "1",
    "value": {
        "groups": [
            {"by": {"sex": sex}, "value": {"quantiles": [{"level": "0.25", "value": value}]}}
            for sex, value in (("f", 5), ("m", 6))
        ]
    },
    "noise": None,
    "inference": {
        "terms": [
            {
                "term": "0.25", "place": ["groups", n, "value", "quantiles", 0, "value"],
                "by": {"sex": "any text"}, "estimate": 5, "std_error": 1,
                "confidence_95": [4 + n, 7 + n], "noise_95": None,
            }
            for n in range(2)
        ],
        "fit": [],
    },
}  # fmt: skip
AT_EDGE: dict[str, Any] = {
    "statistic": {"kind": "std", "columns": ["a"], "by": ["sex"]},
    "epsilon": "1",
    "value": {"groups": [{"by": {"sex": "f"}, "value": {"a": 0.0}},
                         {"by": {"sex": "m"}, "value": {"a": 4.0}}]},
    "noise": {"std": {}, "interval_95": {"groups": [{"value": {"a": [0.0, 2.0]}},
                                                    {"value": {"a": [3.0, 6.0]}}]}},
    "at_edge": [{"place": ["groups", 0, "value", "a"], "reason": "Cannot be said: why."}],
}  # fmt: skip
ANSWERS = (MATRIX, GROUPS, STACK, REGRESSION, QUANTILES, AT_EDGE)


def named(answer: dict[str, Any]) -> dict[str, Row]:
    rows = rows_of(answer)
    found = {row.name: row for row in rows}
    assert len(found) == len(rows), "two numbers have one name"
    return found


def test_a_symmetric_matrix_tells_each_number_once() -> None:
    rows = named(MATRIX)
    assert {name: row.estimate for name, row in rows.items()} == {
        "a:a": 1.5, "a:b": 0.25, "b:b": 2.0
    }  # fmt: skip
    assert rows["b:b"].noise == (1, 3)


def test_groups_and_cells_name_a_number() -> None:
    rows = named(GROUPS)
    assert {name: row.estimate for name, row in rows.items()} == {
        "count (term=north, b=x, y)": 3, "count (term=south, b=x, y)": 4
    }  # fmt: skip
    assert all(row.noise is row.confidence is None for row in rows.values())


def test_numbers_of_a_stack_say_their_statistic() -> None:
    rows = named(STACK)
    born = rows["mean of born (sex=M)"]
    assert (born.estimate, born.noise) == ("1980-01-01", ("1979-01-01", "1981-01-01"))
    assert rows["quantile 0.5 of a"].estimate == 7
    assert rows["quantile 0.5 of a"].noise is None
    assert rows["mean of a × count"].estimate == 4.0
    assert rows["mean of count × count"].estimate is None
    assert rows["mean of count"].estimate == 2.0
    assert rows["count"].noise == (8, 10)
    assert rows["standard deviation of a"].key.part == 4


def test_inference_is_joined_by_place_and_never_by_text() -> None:
    rows = named(QUANTILES)
    assert rows["level 0.25 (sex=f)"].confidence == (4, 7)
    assert rows["level 0.25 (sex=m)"].confidence == (5, 8)
    assert [row["confidence_low"] for row in client_rows(QUANTILES)] == [4, 5]
    lines = [*csv.DictReader(StringIO(tidy_csv(QUANTILES)))]
    assert [line["confidence_high"] for line in lines] == ["7", "8"]


def test_confidence_is_its_own_term_s_and_a_fit_comes_last() -> None:
    rows = named(REGRESSION)
    assert [*rows] == ["(intercept)", "a", "R squared"]
    assert rows["(intercept)"].confidence is None
    assert (rows["a"].noise, rows["a"].confidence) == ((1, 3), (0, 4))
    fit = rows["R squared"]
    assert (fit.shown, fit.note, fit.confidence) == (
        "cannot be said", "Cannot be said: why.", (0.5, 1)
    )  # fmt: skip
    (line,) = [each for each in client_rows(REGRESSION) if each["term"] == "r_squared"]
    assert (line["value"], line["note"]) == (None, "Cannot be said: why.")


def test_a_fit_of_a_stack_is_its_part_s() -> None:
    fit = {**REGRESSION["inference"]["fit"][0], "place": ["parts", 1, "fit", "r_squared"]}
    parts = [{"statistic": {"kind": "count"}}, {"statistic": REGRESSION["statistic"]}]
    answer = {
        "statistic": {"kind": "stack", "parts": parts},
        "value": {"parts": [{"count": 9}, REGRESSION["value"]]},
        "inference": {"terms": [], "fit": [fit]},
    }
    last = client_rows(answer)[-1]
    assert (last["part"], last["statistic"]) == (2, REGRESSION["statistic"]["kind"])


def test_a_number_at_the_edge_of_what_is_possible_is_not_shown_as_one() -> None:
    first, second = rows_of(AT_EDGE)
    assert (first.estimate, first.shown, first.noise) == (None, "cannot be said", (0, 2))
    assert (second.estimate, second.note) == (4.0, None)
    one, other = [*csv.DictReader(StringIO(tidy_csv(AT_EDGE)))]
    assert (one["estimate"], one["note"], one["noise_high"]) == ("", "Cannot be said: why.", "2.0")
    assert (other["estimate"], other["note"]) == ("4.0", "")
    found = client_rows(AT_EDGE)
    assert [row["value"] for row in found] == [None, 4.0]
    head, line, _, note = lines_of(found)
    assert head.split() == ["sex", "term", "value", "noise_low", "noise_high"]
    assert line.split() == ["f", "a", "cannot", "be", "said", "0", "2"]
    assert note == "Cannot be said: why."
    page = html_of("std", found)
    assert "<td>cannot be said</td>" in page
    assert page.count("Cannot be said: why.") == 1
    assert (page.count("<svg"), page.count("<circle")) == (2, 1), "an interval without its dot"
    drawn = figure(rows_of(AT_EDGE), "t", {})
    assert drawn is not None
    assert (drawn.svg.count('class="noise"'), drawn.svg.count("<circle")) == (2, 1)
    said = re.search(r'y="([\d.]+)"[^>]*>cannot be said', str(drawn.svg))
    bars = [float(y) for y in re.findall(r'class="noise" x1="[^"]*" y1="([\d.]+)"', str(drawn.svg))]
    assert said is not None
    assert min(abs(y - float(said[1])) for y in bars) >= 5, "a text on its interval"


BOUND: dict[str, Any] = {
    "statistic": {"kind": "test", "test": "welch", "columns": ["a"], "groups": "b", "by": ["sex"]},
    "epsilon": "1",
    "value": {"groups": [{"by": {"sex": sex}, "value": {"statistic": 9.0, "p_value": p}}
                         for sex, p in (("f", 0.003), ("m", 0.25))]},
    "noise": None,
    "at_most": [{"place": ["groups", 0, "value", "p_value"], "reason": "At most this: why."}],
}  # fmt: skip


def test_an_upper_bound_has_its_sign_in_every_form_that_people_read() -> None:
    first, bound, second, plain = rows_of(BOUND)
    shown = ["9", "≤ 0.003", "9", "0.25"]
    assert [row.shown for row in (first, bound, second, plain)] == shown
    assert (bound.estimate, plain.at_most) == (0.003, None), "programs read the number"
    lines = [*csv.DictReader(StringIO(tidy_csv(BOUND)))]
    assert [line["estimate"] for line in lines] == ["9.0", "0.003", "9.0", "0.25"]
    assert [line["note"] for line in lines] == ["", "At most this: why.", "", ""]
    found = client_rows(BOUND)
    assert [row["value"] for row in found] == [9.0, 0.003, 9.0, 0.25]
    text = "\n".join(lines_of(found))
    assert (text.count("≤ 0.003"), text.count("cannot be said")) == (1, 0)
    assert text.endswith("At most this: why.")
    assert "<td>≤ 0.003</td>" in html_of("test", found)
    table = printed_any(BOUND)
    assert table is not None
    assert "≤ 0.003" in table.text()
    assert "| ≤ 0.003 |" in table.markdown()
    assert r"& $\leq$ 0.003" in table.latex(), "pdfLaTeX has no letter for it"
    pivots = pivots_of(rows_of(BOUND), {})
    assert "f,9.0,≤ 0.003" in as_csv(pivots)
    assert "| f | 9 | ≤ 0.003 |" in as_markdown(pivots)
    assert r"f & 9 & $\leq$ 0.003 \\" in as_latex(pivots)


def test_every_form_has_the_same_numbers() -> None:
    for answer in ANSWERS:
        rows, found = rows_of(answer), client_rows(answer)
        lines = [*csv.DictReader(StringIO(tidy_csv(answer)))]
        assert len(rows) == len(found) == len(lines)
        for row, line, reported in zip(rows, lines, found, strict=True):
            assert reported["value"] == row.estimate
            assert line["estimate"] == ("" if row.estimate is None else str(row.estimate))
            assert (reported["noise_low"], reported["noise_high"]) == (row.noise or (None, None))
            assert reported["term"] == line["term"] == row.term
            assert line["statistic"] == row.statistic


def test_a_csv_file_has_a_column_for_each_part_of_a_key() -> None:
    (head, *lines) = csv.reader(StringIO(tidy_csv(STACK)))
    assert head[:4] == ["part", "statistic", "term", "sex"]
    assert lines[0][:9] == [
        "1", "mean", "born", "M", "1980-01-01", "", "1979-01-01", "1981-01-01", ""
    ]  # fmt: skip
    assert lines[-1][:5] == ["4", "std", "a", "", "0.125"]
    assert {len(line) for line in lines} == {len(head)}
    (head, *_) = csv.reader(StringIO(tidy_csv(GROUPS)))
    assert head[:4] == ["statistic", "term", "by term", "b"]


def _summary(*intervals_of: str) -> dict[str, Any]:
    rows = [
        {"by": {}, "column": f"c{at}", "level": None, "measure": "mean", "value": 5.0,
         "interval": [4.0, 6.0], "interval_of": each}
        for at, each in enumerate(intervals_of)
    ]  # fmt: skip
    return {"statistic": {"kind": "summary"}, "value": {"rows": rows}}


def test_the_note_of_a_printed_table_says_what_its_intervals_are_of() -> None:
    notes = {
        kinds: printed(_summary(*kinds))
        for kinds in (("population",), ("data",), ("population", "data"))
    }
    assert all(notes.values())
    said = {kinds: table.note for kinds, table in notes.items() if table}
    assert "sampling error and privacy noise together." in said["population",]
    assert "privacy noise alone, without sampling error." in said["data",]
    assert "marked * are of privacy noise alone" in said["population", "data"]
    starred = [table.rows[0][1].endswith("*") for table in notes.values() if table]
    assert starred == [False, False, False]
    both = notes["population", "data"]
    assert both is not None
    assert [row[1][-2:] for row in both.rows] == ["6]", "]*"]


def test_what_is_at_the_edge_is_no_number_in_a_printed_table() -> None:
    """Of any measure that shares a cell: a standard deviation of 0 was printed as one."""
    answer, at_edge = _summary("data"), {"reason": "Cannot be said: it is at the edge."}
    like = answer["value"]["rows"][0]
    more = {"sd": 0.0, "median": 5.0, "lower_quartile": 4.0, "upper_quartile": 9.0}
    rows = [like, *({**like, "measure": each, "value": value} for each, value in more.items())]
    shares = [{**like, "level": "a", "measure": each, "value": 0.0} for each in ("share", "count")]
    answer["value"]["rows"] = [*rows, *shares]
    answer["at_edge"] = [{"place": ["rows", at, "value"], **at_edge} for at in (1, 4, 5, 6)]
    table = printed(answer)
    assert table is not None
    unsaid = "cannot be said"
    assert [row[1] for row in table.rows] == [
        f"5 ({unsaid}) [4 to 6]",
        f"5 (4 to {unsaid}) [4 to 6]",
        f"{unsaid} ({unsaid}) [400.0% to 600.0%]",
    ]  # fmt: skip
    answer["at_edge"] = [{"place": ["rows", 0, "value"], **at_edge}]
    table = printed(answer)
    assert table is not None
    assert table.rows[0][1] == f"{unsaid} (0) [4 to 6]"


def test_every_file_says_which_records_count_and_how_much() -> None:
    asked = {"kind": "mean", "columns": ["a"], "weights": "w_1"}
    answer: dict[str, Any] = {
        "statistic": {**asked, "where": [{"column": "wave", "op": "==", "value": 2023}]},
        "epsilon": "1",
        "value": {"a": 5.0},
        "about_missing": ["Records without a value of a are left out."],
        "details": {"estimates": "It is a line."},
    }
    said = "Where wave is 2023, weighted by w_1. Records without a value of a are left out. It is a"
    table = printed_any(answer)
    assert table is not None
    assert said in table.text()
    assert said.replace("_", r"\_") in table.markdown()
    assert said.replace("_", r"\_") in table.latex()
    assert said in tidy_csv(answer)
    stack = {"kind": "stack", "parts": [{"statistic": {"kind": "count"}}, {"statistic": asked}]}
    assert said_of({"statistic": stack}) == ("Part 2: weighted by w_1.",)


def test_a_note_in_latex_is_no_comment_from_its_percent_sign_on() -> None:
    table = printed(_summary("population"))
    assert table is not None
    assert r"95\% confidence intervals" in table.latex()
