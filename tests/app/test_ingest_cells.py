"""Cells without a value: empty ones and declared markers are missing, all others are refused."""

from __future__ import annotations

import io
from typing import Any

import polars as pl
import pytest

from app.domain.columns import InvalidSpecError
from app.domain.datasets import columns_json
from app.domain.upload_reports import ColumnCounts, UploadReport
from app.uploads.ingest import ingest
from app.uploads.trouble import Limits
from mechanisms.domain import CODE_MAX
from mechanisms.privacy import Adjacency
from tests.app.uploads import SENTINEL, columns_spec, encode, troubles
from tests.tiers import in_one

NUMBER: dict[str, Any] = {"type": "number", "lower": 0, "upper": 10, "missing": 5}
CATEGORY: dict[str, Any] = {"type": "category", "values": ["a", "b"], "missing": "b"}
BOOLEAN: dict[str, Any] = {"type": "boolean", "missing": True}


def _parquet(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


def _report(content: bytes, **columns: dict[str, Any]) -> UploadReport:
    report = UploadReport()
    list(ingest(io.BytesIO(content), columns_spec(columns), report=report))
    return report


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (NUMBER, "not a number"),
        (CATEGORY, "not one of the declared values"),
        (BOOLEAN, "not true, false, 1 or 0"),
    ],
)
def test_a_fill_value_never_takes_the_place_of_what_cannot_be_read(
    column: dict[str, Any], reason: str
) -> None:
    content = f"x,y\n,\n{SENTINEL},\n".encode()
    assert troubles(content, columns_spec({"x": column})) == [(2, "x", reason)]
    spec = columns_spec({"x": {**column, "unreadable": "missing"}})
    codes = encode(content, spec)["x"].tolist()
    assert codes[0] == codes[1]


def test_dropping_is_for_missing_cells_too_and_not_for_unreadable_ones() -> None:
    spec = columns_spec(
        {"x": {**NUMBER, "missing": "drop"}}, adjacency=Adjacency.ADD_REMOVE, max_rows=9
    )
    assert encode(b"x,y\n1,\n,\n", spec)["x"].size == 1
    assert troubles(b"x,y\n1,\nwords,\n", spec) == [(2, "x", "not a number")]


@pytest.mark.parametrize("chunk_bytes", [8, 1 << 20])
def test_markers_are_missing_in_every_spelling_of_a_number(chunk_bytes: int) -> None:
    spec = columns_spec({"x": {**NUMBER, "na": ["NA", ".", -99]}, "c": {**CATEGORY, "na": ["?"]}})
    content = b"x,c\n-99,a\n-99.0,?\n NA ,a\n.,a\n-9.9e1,a\n10,a\n-98,a\n,\n"
    codes = encode(content, spec, chunk_bytes=chunk_bytes)
    assert codes["x"].tolist() == [0, 0, 0, 0, 0, CODE_MAX, -CODE_MAX, 0]
    assert codes["c"].tolist() == [0, 1, 0, 0, 0, 0, 0, 1]


def test_a_marker_under_reject_is_missing_and_a_near_miss_is_unreadable() -> None:
    spec = columns_spec({"x": {**NUMBER, "missing": "reject", "na": ["NA"]}})
    assert troubles(b"x\nNA\nna\n", spec) == [(1, "x", "missing"), (2, "x", "not a number")]


def test_nan_is_no_missing_cell_unless_it_is_a_marker() -> None:
    frame = pl.DataFrame({"x": [1.0, float("nan"), None]})
    for content in (_parquet(frame), b"x,y\n1,\nNaN,\n,\n"):
        assert troubles(content, columns_spec({"x": NUMBER})) == [(2, "x", "not a number")]
        marked = columns_spec({"x": {**NUMBER, "na": ["nan"]}})
        assert encode(content, marked)["x"].tolist()[1:] == [0, 0]


def test_markers_in_parquet_are_numbers_and_texts() -> None:
    frame = pl.DataFrame({"x": [-99, 10, None], "c": ["a", "?", None], "o": [1, 9, 0]})
    spec = columns_spec(
        {
            "x": {**NUMBER, "na": ["-99"]},
            "c": {**CATEGORY, "na": ["?"]},
            "o": {**BOOLEAN, "na": ["9"]},
        }
    )
    codes = encode(_parquet(frame), spec)
    assert codes["x"].tolist() == [0, CODE_MAX, 0]
    assert codes["c"].tolist() == [0, 1, 1]
    assert codes["o"].tolist() == [CODE_MAX, CODE_MAX, -CODE_MAX]


def test_a_cell_of_blanks_is_empty() -> None:
    spec = columns_spec({"x": NUMBER, "c": CATEGORY, "o": BOOLEAN})
    assert encode(b"x,c,o\n , \t,  \n", spec)["c"].tolist() == [1]


@in_one(
    "column",
    [
        {**CATEGORY, "na": ["a"]},
        {**NUMBER, "na": [""]},
        {**NUMBER, "na": ["x"] * 101},
        {**NUMBER, "na": "NA"},
        {**NUMBER, "na": [True]},
        {**NUMBER, "unreadable": "drop"},
    ],
)
def test_unsound_markers(column: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpecError):
        columns_spec({"x": column})


def test_a_declaration_of_an_earlier_version_reads_and_writes_as_it_did() -> None:
    columns: dict[str, Any] = {"n": NUMBER, "c": CATEGORY, "o": BOOLEAN}
    assert columns_json(columns_spec(columns)) == columns
    said = {"n": {**NUMBER, "na": ["NA"], "unreadable": "missing"}}
    assert columns_json(columns_spec(said)) == said


def test_all_that_is_wrong_with_columns_is_told_at_once() -> None:
    with pytest.raises(InvalidSpecError) as caught:
        columns_spec(
            {
                "x": {**NUMBER, "lower": 20, "na": [""]},
                "c": {**CATEGORY, "values": ["a", "a"]},
                "o": {"type": "boolean", "missing": "drop"},
            }
        )
    assert [fault.field_name for fault in caught.value.faults] == [
        "columns.x.lower", "columns.x.na", "columns.c.values", "columns.o.missing",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [1, 1 << 20])
def test_the_report_counts_what_became_of_each_cell(width: int) -> None:
    spec = {**NUMBER, "na": ["-99"], "unreadable": "missing"}
    content = b"x,c\n-1,a\n11,a\n12,?\n-99,a\nwords,a\n,\n10,b\n0,b\n"
    report = UploadReport()
    columns = columns_spec({"x": spec, "c": {**CATEGORY, "unreadable": "missing"}})
    list(ingest(io.BytesIO(content), columns, limits=Limits(chunk_bytes=width), report=report))
    assert (report.rows, report.rows_dropped) == (8, 0)
    assert report.columns == {
        "x": ColumnCounts(values=5, filled=3, unreadable=1, clamped_low=1, clamped_high=2),
        "c": ColumnCounts(values=6, filled=2, unreadable=1),
    }


def test_bounds_that_move_most_values_are_a_warning() -> None:
    narrow = {"type": "number", "lower": 0, "upper": 1}
    ((name, message),) = _report(b"x\n13\n14\n0.5\n", x=narrow).warnings()
    assert name == "x"
    assert message.startswith("2 of 3 values lie outside the bounds")
    assert "look at upper" in message
    assert not list(_report(b"x\n13\n0\n", x=narrow).warnings())
    assert not list(_report(b"x\n", x=narrow).warnings())
    ((_, filled),) = _report(b"x,y\n,\n,\n3,\n", x=NUMBER).warnings()
    assert filled.startswith("2 cells were filled in")


def test_a_report_that_a_reader_makes_up_is_not_believed() -> None:
    good = UploadReport(3, 1, {"x": ColumnCounts(values=2)})
    assert UploadReport.of(good.to_json(), ["x"]) == good
    for bad in ({}, {"rows": -1, "rows_dropped": 0, "columns": {}}, good.to_json() | {"rows": "3"}):
        with pytest.raises((KeyError, ValueError)):
            UploadReport.of(bad, ["x"])
    with pytest.raises(KeyError):
        UploadReport.of(good.to_json(), ["another"])
