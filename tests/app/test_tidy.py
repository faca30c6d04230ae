"""Answers as tidy rows: every number once, beside its own intervals."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

from app.client.tables import rows_of
from app.services.publishing.pictures import MOST_BARS, chart
from app.services.releases.tidy import CSV_COLUMNS, TidyRow, tidy_csv, tidy_rows

MATRIX: dict[str, Any] = {
    "statistic": {"kind": "covariance", "columns": ["a", "b"]},
    "epsilon": "1",
    "value": {"matrix": [[1.5, 0.25], [0.25, 2.0]]},
    "noise": {"std": {}, "interval_95": {"matrix": [[[1, 2], [0, 1]], [[0, 1], [1, 3]]]}},
}
GROUPS: dict[str, Any] = {
    "statistic": {"kind": "histogram", "columns": ["b"], "by": ["a"]},
    "epsilon": "0.5",
    "value": {
        "groups": [
            {"by": {"a": each}, "value": {"cells": [{"cell": {"b": "x, y"}, "count": number}]}}
            for each, number in (("north", 3), ("south", 4))
        ]
    },
    "noise": None,
}
STACK: dict[str, Any] = {
    "statistic": {
        "kind": "stack",
        "parts": [
            {"statistic": {"kind": "mean", "columns": ["born"]}},
            {"statistic": {"kind": "quantile", "column": "a"}},
            {"statistic": {"kind": "moments", "columns": ["a", "b"]}},
        ],
    },
    "epsilon": "1",
    "value": {
        "parts": [
            {"born": "1980-01-01"},
            {"quantiles": [{"level": "0.5", "value": 7}]},
            {"count": 9, "means": {"a": 1.0, "b": 2.0}, "second": [[3.0, 4.0], [4.0, None]]},
        ]
    },
    "noise": {
        "std": {},
        "interval_95": {
            "parts": [
                {"born": ["1979-01-01", "1981-01-01"]},
                {"quantiles": [{"level": "0.5", "value": None}]},
                {"count": [8, 10], "means": {"a": [0, 2], "b": [1, 3]}, "second": None},
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
                "term": "a", "estimate": 2.0, "std_error": 1, "confidence_95": [0, 4],
                "noise_95": None,
            }
        ],
        "fit": [
            {
                "term": "r_squared", "estimate": 0.5, "std_error": 1, "confidence_95": [0, 1],
                "noise_95": [0.25, 0.75],
            }
        ],
    },
}  # fmt: skip


def named(answer: dict[str, Any]) -> dict[str, TidyRow]:
    return {row.name: row for row in tidy_rows(answer)}


def test_a_symmetric_matrix_tells_each_number_once() -> None:
    rows = named(MATRIX)
    assert {name: row.estimate for name, row in rows.items()} == {
        "a:a": 1.5, "a:b": 0.25, "b:b": 2.0
    }  # fmt: skip
    assert rows["b:b"].noise == (1, 3)


def test_groups_and_cells_name_a_number() -> None:
    rows = named(GROUPS)
    assert {name: row.estimate for name, row in rows.items()} == {
        "count[a=north, b=x, y]": 3, "count[a=south, b=x, y]": 4
    }  # fmt: skip
    assert all(row.noise is row.confidence is None for row in rows.values())


def test_parts_times_and_what_has_no_interval() -> None:
    rows = named(STACK)
    assert (rows["born[part=1]"].estimate, rows["born[part=1]"].noise) == (
        "1980-01-01", ("1979-01-01", "1981-01-01")
    )  # fmt: skip
    assert rows["level 0.5[part=2]"] == TidyRow(term="level 0.5", labels={"part": "2"}, estimate=7)
    assert rows["a:b[part=3]"].estimate == 4.0
    assert rows["b:b[part=3]"].estimate is None
    assert rows["count[part=3]"].noise == (8, 10)


def test_confidence_is_its_own_term_s_and_a_fit_comes_last() -> None:
    rows = named(REGRESSION)
    assert [*rows] == ["(intercept)", "a", "r_squared"]
    assert rows["(intercept)"].confidence is None
    assert (rows["a"].noise, rows["a"].confidence) == ((1, 3), (0, 4))
    assert (rows["r_squared"].noise, rows["r_squared"].confidence) == ((0.25, 0.75), (0, 1))


def test_the_client_tells_the_same_numbers() -> None:
    for answer in (MATRIX, GROUPS, REGRESSION):
        seen = [row["value"] for row in rows_of(answer)]
        assert seen == [row.estimate for row in tidy_rows(answer)][: len(seen)]


def test_a_csv_file_has_the_same_rows() -> None:
    (head, *lines) = csv.reader(StringIO(tidy_csv(STACK)))
    assert tuple(head) == CSV_COLUMNS
    assert lines[0] == ["born[part=1]", "1980-01-01", "1979-01-01", "1981-01-01", "", "", "1"]
    assert lines[-1] == ["b:b[part=3]", "", "", "", "", "", "1"]
    assert {len(line) for line in lines} == {len(CSV_COLUMNS)}


def test_a_chart_draws_numbers_and_leaves_texts_out() -> None:
    drawn = chart(tidy_rows(STACK), title="<a> & b")
    assert (
        drawn.count("<circle") == len([r for r in tidy_rows(STACK) if r.estimate is not None]) - 1
    )
    assert "<a>" not in drawn
    assert "style" not in drawn
    assert chart(tidy_rows({**STACK, "value": {"born": "1980-01-01"}}), title="t") == ""
    many = [TidyRow(term=str(n), estimate=0) for n in range(MOST_BARS + 5)]
    assert chart(many, title="t").count("<circle") == MOST_BARS


def test_numbers_of_unlike_sizes_have_scales_of_their_own() -> None:
    alike = [TidyRow(term="a", estimate=1, noise=(0, 2)), TidyRow(term="b", estimate=5)]
    assert 'class="zero"' in chart(alike, title="t")
    unlike = [*alike, TidyRow(term="c", estimate=1e6, noise=(0, 2e6))]
    drawn = chart(unlike, title="t")
    assert 'class="zero"' not in drawn
    for end in ("0", "2", "5", "2,000,000"):
        assert f">{end}</text>" in drawn
