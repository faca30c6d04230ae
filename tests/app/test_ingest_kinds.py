"""Whole numbers, dates, moments, other texts, and numbers in other spellings."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import polars as pl
import pytest

from app.domain.columns import InvalidSpecError
from app.domain.datasets import TextFile, columns_json
from app.domain.upload_reports import UploadReport
from app.engine.schema import schema_of
from app.uploads.ingest import ingest
from app.uploads.trouble import NOT_A_DATE, NOT_A_DATETIME
from mechanisms.domain import NumberColumn, number_of, text_of
from tests.app.uploads import columns_spec, encode, troubles
from tests.tiers import in_one

INTEGER: dict[str, Any] = {"type": "integer", "lower": 0, "upper": 120}
DATE: dict[str, Any] = {"type": "date", "lower": "1900-01-01", "upper": "2030-12-31"}
MOMENT: dict[str, Any] = {
    "type": "datetime", "lower": "2020-01-01T00:00:00Z", "upper": "2020-12-31T00:00:00Z",
}  # fmt: skip


def _parquet(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


def _values(content: bytes, column: dict[str, Any]) -> list[float]:
    declared = columns_spec({"x": column})
    facts = schema_of(declared, rows=None).columns["x"]
    assert isinstance(facts, NumberColumn)
    return [float(round(facts.decode(code))) for code in encode(content, declared)["x"].tolist()]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_whole_number_with_decimals_cannot_be_read(kind: str) -> None:
    csv = b"x\n65\n65.0\n65.5\n"
    content = csv if kind == "csv" else _parquet(pl.DataFrame({"x": [65.0, 65.0, 65.5]}))
    assert troubles(content, columns_spec({"x": INTEGER})) == [(3, "x", "not a whole number")]
    assert _values(b"x\n65\n1e2\n130\n", INTEGER) == [65, 100, 120]


TIMES = ["2020-02-29", " 1970-01-01 ", "2031-01-01"]


def test_dates_are_days_in_every_format() -> None:
    days = [18321.0, 0.0, 22279.0]
    assert _values(("x\n" + "\n".join(TIMES)).encode(), DATE) == days
    dates = [date(2020, 2, 29), date(1970, 1, 1), date(2031, 1, 1)]
    assert _values(_parquet(pl.DataFrame({"x": dates})), DATE) == days
    moments = [datetime(2020, 2, 29, 13), datetime(1970, 1, 1), datetime(2031, 1, 1)]
    assert _values(_parquet(pl.DataFrame({"x": moments})), DATE) == days
    assert _values(_parquet(pl.DataFrame({"x": TIMES})), DATE) == days


def test_what_is_no_date_cannot_be_read() -> None:
    content = b"x\n2020-02-30\n20200101\n2020-01-01T10:00\n1.5\n12/31/2020\n"
    expected = [(row, "x", NOT_A_DATE) for row in range(1, 6)]
    assert troubles(content, columns_spec({"x": DATE})) == expected
    numbers = _parquet(pl.DataFrame({"x": [18321]}))
    ((_, column, _),) = troubles(numbers, columns_spec({"x": DATE}))
    assert column == "x"


def test_moments_are_seconds_in_utc() -> None:
    texts = ["2020-06-01T12:00:00Z", "2020-06-01 14:00+02:00", "2020-06-01T12:00:00.9"]
    seconds = _values(("x\n" + "\n".join(texts)).encode(), MOMENT)
    noon = datetime(2020, 6, 1, 12, tzinfo=UTC).timestamp()
    assert all(abs(found - noon) <= 15 for found in seconds)  # the grid's step
    assert len(set(seconds)) == 1
    frame = pl.DataFrame({"x": [datetime(2020, 6, 1, 12)]})
    assert _values(_parquet(frame), MOMENT) == seconds[:1]
    assert troubles(b"x\n2020-06-01T25:00\n", columns_spec({"x": MOMENT})) == [
        (1, "x", NOT_A_DATETIME)
    ]


@pytest.mark.parametrize("text", ["2020-02-29", "0001-01-01", "9999-12-31"])
def test_dates_read_back_as_they_were_written(text: str) -> None:
    assert text_of("date", number_of("date", text)) == text
    assert text_of("datetime", number_of("datetime", text)) == f"{text}T00:00:00Z"


def test_what_lies_beyond_all_dates_is_told_as_the_first_or_the_last() -> None:
    last, first = "9999-12-31", "0001-01-01"
    for number, text in ((1e300, last), (-1e300, first)):
        assert text_of("date", number) == text
    assert text_of("datetime", 1e300) == f"{last}T23:59:59Z"
    assert text_of("datetime", -1e300) == f"{first}T00:00:00Z"
    for text in (first, last):
        assert text_of("date", number_of("date", text)) == text


def test_declarations_of_times_read_back_as_they_were_written() -> None:
    columns = {
        "i": {**INTEGER, "missing": 3, "label": "Age", "unit_of_measure": "years"},
        "d": {**DATE, "missing": "2000-01-01"},
        "m": {**MOMENT, "missing": "reject"},
        "c": {"type": "category", "values": ["a", "rest"], "missing": "rest", "other": "rest"},
        "n": {
            "type": "number", "lower": 0, "upper": 9, "missing": "reject", "decimal": ",",
            "thousands": ".", "bare_number": False,
        },
    }  # fmt: skip
    assert columns_json(columns_spec(columns)) == columns


@in_one(
    ("column", "place"),
    [
        ({**INTEGER, "lower": 0.5}, "columns.x.lower"),
        ({**INTEGER, "upper": 2**63}, "columns.x.upper"),
        ({**INTEGER, "missing": 0.5}, "columns.x.missing"),
        ({**DATE, "lower": 5}, "columns.x.lower"),
        ({**DATE, "lower": "yesterday"}, "columns.x.lower"),
        ({**DATE, "upper": "1800-01-01"}, "columns.x.lower"),
        ({**DATE, "missing": "never"}, "columns.x.missing"),
        ({**MOMENT, "upper": "2020-13-01"}, "columns.x.upper"),
        ({**INTEGER, "decimal": ";"}, "columns.x.decimal"),
        ({**INTEGER, "decimal": ",", "thousands": ","}, "columns.x.thousands"),
        ({**INTEGER, "bare_number": "no"}, "columns.x.bare_number"),
        ({**INTEGER, "label": "a\nb"}, "columns.x.label"),
        ({**INTEGER, "unit_of_measure": ""}, "columns.x.unit_of_measure"),
        ({"type": "category", "values": ["a"], "other": ""}, "columns.x.values"),
        ({"type": "category", "values": ["a"], "other": 5}, "columns.x.other"),
    ],
)
def test_unsound_declarations(column: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        columns_spec({"x": column})
    assert caught.value.field_name == place


def test_both_bounds_of_a_date_are_told_at_once() -> None:
    with pytest.raises(InvalidSpecError) as caught:
        columns_spec({"x": {**DATE, "lower": "x", "upper": 3}})
    assert [each.field_name for each in caught.value.faults] == [
        "columns.x.lower", "columns.x.upper",
    ]  # fmt: skip


@pytest.mark.parametrize("listed", [True, False])
def test_other_stands_for_every_text_that_is_not_listed(listed: bool) -> None:
    values = ["a", "other"] if listed else ["a"]
    column = {"type": "category", "values": values, "other": "other", "missing": "a"}
    spec = columns_spec({"x": column})
    report = UploadReport()
    (block,) = ingest(io.BytesIO(b"x,y\na,\nb,\n,\nother,\nA,\n"), spec, report=report)
    assert block["x"].tolist() == [0, 1, 0, 1, 1]
    counts = report.columns["x"]
    assert (counts.values, counts.filled, counts.other, counts.unreadable) == (4, 1, 2, 0)
    assert columns_json(spec)["x"]["values"] == ["a", "other"]


def test_a_missing_cell_may_be_a_level_of_its_own() -> None:
    column = {"type": "category", "values": ["a", "unknown"], "missing": "unknown", "na": ["9"]}
    assert encode(b"x,y\na,\n9,\n,\n", columns_spec({"x": column}))["x"].tolist() == [0, 1, 1]


SPELT = {"type": "number", "lower": 0, "upper": 10_000, "decimal": ",", "thousands": "."}


def test_a_decimal_comma_and_groups_of_three_digits() -> None:
    content = b'x\n"1,5"\n"1.234,0"\n"9.999"\n-3\n'
    plain = b"x\n1.5\n1234\n9999\n-3\n"
    number = {"type": "number", "lower": 0, "upper": 10_000}
    spelt = encode(content, columns_spec({"x": SPELT}))["x"].tolist()
    assert spelt == encode(plain, columns_spec({"x": number}))["x"].tolist()
    wrong = b'x\n1.5\n"1.23.456"\n"1,5,5"\n'
    assert [row for row, _, _ in troubles(wrong, columns_spec({"x": SPELT}))] == [1, 2, 3]


def test_signs_and_letters_around_a_number_that_is_not_bare_do_not_count() -> None:
    spec = columns_spec({"x": {**SPELT, "lower": -10_000, "bare_number": False, "na": ["k.A."]}})
    cells = ("1.234,5 €", "€ 7", "-€ 3", "$-4", "38,5 %", "12 kg", "EUR 1.000", ",5€", "6")
    rows = b"x\n" + "".join(f'"{each}"\n' for each in cells).encode()
    plain = {"type": "number", "lower": -10_000, "upper": 10_000}
    same = b"x\n1234.5\n7\n-3\n-4\n38.5\n12\n1000\n.5\n6\n"
    assert (
        encode(rows, spec)["x"].tolist() == encode(same, columns_spec({"x": plain}))["x"].tolist()
    )
    wrong = 'x\nk.A.\n"5 or 6"\n"-€-3"\n"1.2.3 €"\n"€"\n'.encode()
    assert [row for row, _, reason in troubles(wrong, spec) if "number" in reason] == [2, 3, 4, 5]


@in_one("chunk_bytes", [4, 1 << 20])
@in_one("delimiter", [";", "\t", "|"])
def test_cells_may_stand_between_other_signs(delimiter: str, chunk_bytes: int) -> None:
    plain = columns_spec({"x": SPELT, "c": {"type": "category", "values": ["a,b", 'c"d']}})
    spec = replace(plain, text=TextFile(delimiter=delimiter))
    rows = ["x;c", "1,5;a,b", '2,5;"c""d"', ""]
    content = "\n".join(rows).replace(";", delimiter).encode()
    assert encode(content, spec, chunk_bytes=chunk_bytes)["c"].tolist() == [0, 1]
    ragged = f"x{delimiter}c\n1{delimiter}a,b{delimiter}2\n".encode()
    assert troubles(ragged, spec) == [(1, None, "has too many cells for the header")]
