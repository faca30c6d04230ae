"""Files as people have them: encodings, title lines, headers, and spellings of values."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from app.domain.columns import InvalidSpecError
from app.domain.datasets import ENCODINGS, ColumnsSpec, TextFile
from app.domain.upload_reports import UploadReport
from app.uploads.ingest import ingest
from app.uploads.recognition import Transcoded, likely_encoding
from app.uploads.trouble import Limits
from tests.app.uploads import columns_spec, encode, troubles
from tests.tiers import in_one

CATEGORY: dict[str, Any] = {"type": "category", "values": ["café", "1", "süd west"]}
HEADER = "Q1\n“Where do you live?”; " + "and why, " * 200


def _spec(column: dict[str, Any], **text: Any) -> ColumnsSpec:
    return replace(columns_spec({"c": column}), text=TextFile(**text))


def _parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pl.DataFrame(columns).write_parquet(file)
    return file.getvalue()


@in_one("chunk_bytes", [3, 1 << 20])
@in_one("encoding", [*ENCODINGS, "utf-16-be", "utf-8-sig"])
def test_a_file_is_read_in_its_encoding_and_refused_in_another(
    encoding: str, chunk_bytes: int
) -> None:
    content = "x;c\r\n1;café\r\n2; süd west \r\n3;1.0\r\n".encode(encoding)
    own = {"utf-16-be": "utf-16", "utf-8-sig": "utf-8"}.get(encoding, encoding)
    for declared in ENCODINGS:
        spec = _spec(CATEGORY, encoding=declared, delimiter=";")
        one_byte = {own, declared} == {"iso-8859-1", "windows-1252"}
        if declared == own or one_byte:
            assert encode(content, spec, chunk_bytes=chunk_bytes)["c"].tolist() == [0, 2, 1]
            continue
        reason = troubles(content, spec, chunk_bytes=1 << 20)[0][2]
        likely = "windows-1252" if own == "iso-8859-1" else own
        assert f'declare "encoding": "{likely}"' in reason


def test_letters_that_only_windows_has_are_not_latin_1() -> None:
    content = "c\n1\n1€\n".encode("cp1252")
    reason = troubles(content, _spec(CATEGORY, encoding="iso-8859-1"))[0][2]
    assert '"encoding": "windows-1252"' in reason


@pytest.mark.parametrize("text", ["name\nZoë", "é", "Zoë\nZoë"])
def test_a_last_letter_of_one_byte_is_no_character_that_is_cut(text: str) -> None:
    assert likely_encoding(text.encode("cp1252")) == "windows-1252"
    assert likely_encoding(text.encode()) == "utf-8"
    assert likely_encoding((text + "ë").encode()[:-1]) == "utf-8"


def test_a_text_is_transcoded_in_bounded_pieces() -> None:
    text = "ж€𝄞\n" * 1000
    source = io.BytesIO(text.encode("utf-16"))
    transcoded = Transcoded(source, "utf-16")
    pieces = list(iter(lambda: transcoded.read(7), b""))
    assert {len(piece) for piece in pieces[:-1]} == {7}
    assert b"".join(pieces).decode() == text


@pytest.mark.parametrize("chunk_bytes", [2, 1 << 20])
def test_title_lines_are_skipped_whatever_they_hold(chunk_bytes: int) -> None:
    titles = 'Report of 3" pipes\n\n"generated, 2024\n'
    content = f"{titles}c\n1\ncafé\n".encode()
    spec = _spec(CATEGORY, skip_rows=3)
    assert encode(content, spec, chunk_bytes=chunk_bytes)["c"].tolist() == [1, 0]
    assert "empty" in troubles(titles.encode(), spec)[0][2]
    too_many = _spec(CATEGORY, skip_rows=100)
    assert "no header below" in troubles(titles.encode(), too_many)[0][2]


def test_a_column_has_the_name_that_the_spec_gives_its_header() -> None:
    spec = columns_spec(
        {
            "place": {**CATEGORY, "source": HEADER},
            "b": {"type": "boolean", "source": "a"},
            "a": {"type": "integer", "lower": 0, "upper": 9, "source": "b"},
            "unnamed": {"type": "integer", "lower": 0, "upper": 9, "source": ""},
        }
    )
    lines = HEADER.replace("\n", "\r\n")
    csv = f'a,"{lines}",b,place,\ntrue,café,9,x,0\nfalse,1,0,y,9\n'.encode()
    frame = {
        "a": [True, False],
        HEADER: ["café", "1"],
        "b": [9, 0],
        "place": ["x", "y"],
        "": [0, 9],
    }
    for content in (csv, _parquet(**frame)):
        codes = encode(content, spec)
        assert codes["place"].tolist() == [0, 1]
        assert [codes[name].argmax() for name in ("a", "b", "unnamed")] == [0, 0, 1]


def test_a_header_that_is_not_there_is_told_by_the_columns_name() -> None:
    spec = columns_spec({"c": {**CATEGORY, "source": "Q1"}})
    assert troubles(b"c\n1\n", spec)[0][1] == "c"


def test_two_columns_are_not_read_from_one_header() -> None:
    columns = {"a": {**CATEGORY, "source": "q"}, "b": {**CATEGORY, "source": "q"}}
    with pytest.raises(InvalidSpecError) as caught:
        columns_spec(columns)
    assert caught.value.field_name == "columns.b.source"


YES: dict[str, Any] = {"type": "boolean", "true": ["Yes", "STRASSE", "1"], "false": ["no", "2"]}


@pytest.mark.parametrize(
    ("column", "cells", "codes"),
    [
        (
            YES,
            ["yes", " Y\u0045S\u00a0", "straße", "1.0", "No", "2", "2.00"],
            [1, 1, 1, 1, 0, 0, 0],
        ),
        ({"type": "boolean"}, ["TRUE", "1.0", "0.0", "1", "false", "0."], [1, 1, 0, 1, 0, 0]),
    ],
)
def test_booleans_are_spelt_as_declared(
    column: dict[str, Any], cells: list[str], codes: list[int]
) -> None:
    content = "\n".join(["c", *cells, ""]).encode()
    for each in (content, _parquet(c=cells)):
        found = encode(each, _spec(column))["c"]
        assert (found > found.min()).astype(int).tolist() == codes


def test_a_spelling_that_is_not_declared_is_unreadable_and_truths_of_parquet_are_themselves() -> (
    None
):
    assert [row for row, _, _ in troubles(b"c\nyes\ntrue\n0\n", _spec(YES))] == [2, 3]
    found = encode(_parquet(c=[True, False]), _spec(YES))["c"]
    assert found[0] > found[1]
    for numbers in ([1, 2], [1.0, 2.0]):
        found = encode(_parquet(c=numbers), _spec(YES))["c"]
        assert found[0] > found[1]


@pytest.mark.parametrize(
    ("declared", "place"),
    [
        ({"true": [], "false": ["no"]}, "true"),
        ({"true": [" "]}, "true"),
        ({"true": ["0.0"]}, "false"),
        ({"true": ["x"], "false": ["X "]}, "false"),
    ],
)
def test_unsound_spellings(declared: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        columns_spec({"c": {"type": "boolean", **declared}})
    assert caught.value.field_name == f"columns.c.{place}"


def test_a_category_is_one_however_it_is_spaced_composed_or_typed() -> None:
    cells = ["café", "cafe\u0301", " café\u3000", "1", "1.0", "1.", "süd west", "\u2009süd west"]
    content = "\n".join(["c", *cells, ""]).encode()
    spec = _spec({**CATEGORY, "values": [" cafe\u0301", "1", "süd west\u00a0"]})
    for each in (content, _parquet(c=cells)):
        assert encode(each, spec)["c"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert spec.columns["c"].values == ("café", "1", "süd west")  # type: ignore[union-attr]
    exact = _spec({**CATEGORY, "trim": False})
    assert [row for row, _, _ in troubles(content, exact)] == [2, 3, 8]


@pytest.mark.parametrize("kind", [pl.Float64, pl.Float32, pl.Int8, pl.Decimal(9, 2), pl.String])
def test_whole_floats_are_codes_in_parquet(kind: Any) -> None:
    spec = _spec({"type": "category", "values": ["1", "2", "100"], "missing": "2"})
    content = _parquet(c=pl.Series([1, 100, None, 2]).cast(kind))
    assert encode(content, spec)["c"].tolist() == [0, 2, 1, 1]


@pytest.mark.parametrize("values", [["a", " a"], ["é", "e\u0301"], ["1", "1.0"]])
def test_values_that_become_one_are_refused(values: list[str]) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        columns_spec({"c": {"type": "category", "values": values}})
    assert caught.value.field_name == "columns.c.values"
    if values != ["1", "1.0"]:
        columns_spec({"c": {"type": "category", "values": values, "trim": False}})


@pytest.mark.parametrize(
    ("labels", "wrong"),
    [({"1 ": "one"}, False), ({"3": "three"}, True), ({"1": "one", " 1": "uno"}, True)],
)
def test_labels_are_for_declared_values(labels: dict[str, str], wrong: bool) -> None:
    column = {**CATEGORY, "labels": labels}
    if wrong:
        with pytest.raises(InvalidSpecError) as caught:
            columns_spec({"c": column})
        assert caught.value.field_name == "columns.c.labels"
    else:
        assert columns_spec({"c": column}).columns["c"].labels == (("1", "one"),)  # type: ignore[union-attr]


@pytest.mark.parametrize("declared", ["'", "’", " ", "\u00a0", "\u202f"])
def test_signs_between_groups_stand_for_those_of_their_kind(declared: str) -> None:
    column = {"type": "number", "lower": 0, "upper": 2**20, "thousands": declared, "decimal": ","}
    signs = "'’" if declared in "'’" else " \u00a0\u202f\u2009"
    content = "c;\n" + "".join(f"1{sign}000{sign}000,5;\n" for sign in signs) + "1000000,5;\n"
    found = encode(content.encode(), _spec(column, delimiter=";"))["c"]
    assert len(found) == len(signs) + 1
    assert len(set(found.tolist())) == 1


@in_one("chunk_bytes", [40, 1 << 20])
@in_one(
    ("cells", "count"),
    [
        (["12.345", "1.234", "987", "-1.000"] * 9, 27),
        (["12.345", "1.234", "12.34"] * 9, 0),
        (["12.345", "0.512"] * 9, 0),
        (["12.345", "1234.567"] * 9, 0),
        (["12.345"] * 18 + ["12.340", "12.3400"], 0),
        (["12", "5", "0"] * 9, 0),
        (["12.345", "", "NA"] * 9, 9),
    ],
)
def test_points_that_may_separate_thousands_are_a_warning(
    cells: list[str], count: int, chunk_bytes: int
) -> None:
    column = {"type": "number", "lower": 0, "upper": 5000, "missing": 0, "na": ["NA"]}
    spec, report = columns_spec({"c": column}), UploadReport()
    content = "c\n" + "".join(f"{cell}\n" for cell in cells)
    list(ingest(io.BytesIO(content.encode()), spec, limits=Limits(chunk_bytes=chunk_bytes),
                report=report))  # fmt: skip
    assert report.columns["c"].like_thousands == count
    reported = [message for _, message in report.warnings() if "12.345" in message]
    assert len(reported) == (count > 0)


def test_dates_that_two_digits_put_into_the_future_are_a_warning() -> None:
    """00 to 69 are 2000 to 2069; years of four digits are what they are."""
    column = {"type": "date", "lower": "1900-01-01", "upper": "2020-12-31", "missing": "keep"}
    cells = ["1.2.55", "1.2.69", "1.2.70", "1.2.04", "", "1.2.2055"]
    for pattern, used, count in (("%d.%m.%y", cells[:5], 2), ("%d.%m.%Y", cells[4:], 0)):
        spec, report = columns_spec({"c": {**column, "format": pattern}}), UploadReport()
        content = "c,d\n" + "".join(f"{cell},x\n" for cell in used)
        list(ingest(io.BytesIO(content.encode()), spec, report=report))
        assert report.columns["c"].future == count
        reported = [message for _, message in report.warnings() if "two digits" in message]
        assert len(reported) == (count > 0)
