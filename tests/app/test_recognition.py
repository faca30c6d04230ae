"""Files that are no table are named with the way out: in uploads, checks and drafts alike."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import polars as pl
import pytest
from click.testing import CliRunner

from app.cli import main
from app.domain.problems import Problem
from app.uploads.drafting.samples import sample_of
from app.uploads.recognition import other_delimiter, recognised
from app.uploads.trouble import Limits, UnreadableError
from app.uploads.workbook import DAMAGED, workbook_frame
from tests.app.uploads import columns_spec, read_upload, troubles
from tests.tiers import in_one

SENTINEL = "sentinel99812"


def _zip(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, SENTINEL)
    return file.getvalue()


KINDS: dict[str, tuple[bytes, str]] = {
    "pdf": (b"%PDF-1.7\n%\xe2\xe3", "PDF"),
    "zip": (_zip("a.csv"), "ZIP"),
    "ods": (_zip("mimetype/application/vnd.oasis.opendocument.spreadsheet"), "OpenDocument"),
    "word": (_zip("word/document.xml"), "Word"),
    "old excel": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), ".xls"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(60), "image"),
    "jpeg": (b"\xff\xd8\xff\xe0" + bytes(60), "image"),
    "html": (b"\n<!DOCTYPE html>\n<html><body>", "HTML"),
    "table": (b"<table><tr><td>1</td></tr></table>", "HTML"),
    "json": (b'[{"age": 31}]', "JSON"),
    "xml": (b'<?xml version="1.0"?><a/>', "XML"),
    "spss": (b"$FL2@(#) SPSS" + bytes(60), "SPSS"),
    "stata": (b"<stata_dta><header>", "Stata"),
    "sas": (b"HEADER RECORD*******LIBRARY", "SAS"),
    "7z": (b"7z\xbc\xaf\x27\x1c" + bytes(60), "archive"),
    "sqlite": (b"SQLite format 3\x00" + bytes(60), "SQLite"),
    "rds": (gzip.compress(b"X\n\x00\x00\x00\x03" + bytes(60)), "R data"),
}
SPEC = {"income": {"type": "number", "lower": 0, "upper": 100}}


@pytest.mark.parametrize(("content", "name"), KINDS.values(), ids=KINDS)
def test_each_kind_is_named_with_the_way_out_wherever_it_is_read(
    content: bytes, name: str, tmp_path: Path
) -> None:
    ((_, _, said),) = troubles(content, columns_spec(SPEC))
    assert name in said
    assert said.startswith("the file is ")
    assert ": " in said
    with pytest.raises(UnreadableError) as refused:
        sample_of(io.BytesIO(content))
    assert str(refused.value) == said
    (tmp_path / "a.csv").write_bytes(content)
    (tmp_path / "spec.json").write_text(
        json.dumps(
            {"name": "x", "adjacency": "replace_one", "columns": SPEC, "budget": {"epsilon": 1}}
        )
    )
    for command in (["draft", "a.csv"], ["check", "a.csv", "spec.json"]):
        paths = [command[0], *(str(tmp_path / each) for each in command[1:])]
        done = CliRunner().invoke(main, ["datasets", *paths])
        assert done.exit_code == 1
        assert said in done.stderr
        assert SENTINEL not in done.output


@in_one(
    "text", ["BMI,age\n1,2\n", "RIFF,x\n", "GIF,x\n", "{id},x\n", "[EUR],x\n", "<5,5+\n", "x\n"]
)
def test_a_header_that_only_looks_so_is_a_header(text: str) -> None:
    assert recognised(text.encode()) is None


@pytest.mark.parametrize(
    ("text", "way_out"),
    [
        ("income;age\n1;2\n", '"delimiter": ";"'),
        ("income\tage\n1\t2\n", '"delimiter": "\\t"'),
        ("age|income\n1|2\n", '"delimiter": "|"'),
    ],
)
def test_a_wrong_delimiter_is_named_once(text: str, way_out: str) -> None:
    ((_, _, said),) = troubles(text.encode(), columns_spec({**SPEC, "age": SPEC["income"]}))
    assert way_out in said


def test_a_missing_column_is_no_wrong_delimiter() -> None:
    assert other_delimiter(["a", "b"], ",", {"c"}) is None
    assert other_delimiter(["a;b", "c"], ",", {"c"}) is None


def _workbook(*rows: list[Any]) -> bytes:
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in rows:
        book.active.append(row)
    book.save(file)
    return file.getvalue()


COLUMNS = columns_spec(
    {
        "income": {"type": "number", "lower": 0, "upper": 100, "missing": 0},
        "ward": {"type": "category", "values": ["1", "n"]},
        "seen": {"type": "datetime", "lower": "2020-01-01", "upper": "2030-01-01"},
        "owner": {"type": "boolean"},
    }
)


def test_an_excel_workbook_is_read_as_the_same_table_in_parquet(tmp_path: Path) -> None:
    moment = datetime(2024, 3, 10, 2, 30)
    rows = [[1.5, 1, moment, True], [None, "n", moment, False], [7, 1, moment, True]]
    sheet = _workbook(["income", "ward", "seen", "owner"], *rows, [None] * 4)
    frame = pl.DataFrame(
        {
            "income": [1.5, None, 7.0], "ward": ["1", "n", "1"], "seen": [moment] * 3,
            "owner": [True, False, True],
        }
    )  # fmt: skip
    parquet = io.BytesIO()
    frame.write_parquet(parquet)
    (found,), (expected,) = (
        list(read_upload(io.BytesIO(each), COLUMNS)) for each in (sheet, parquet.getvalue())
    )
    assert found.keys() == expected.keys()
    for name, codes in expected.items():
        assert np.array_equal(found[name], codes), name


def test_title_rows_and_columns_of_format_alone_are_left_out() -> None:
    sheet = _workbook(["Report", None], [None, None], ["age", None], [30, None], [31, None])
    frame = workbook_frame(io.BytesIO(sheet), skip_rows=2)
    assert frame.to_dict(as_series=False) == {"age": [30, 31]}


def test_a_workbook_is_bounded_before_it_is_unpacked() -> None:
    sheet = _workbook(["age"], *([at] for at in range(100)))
    for changes in (
        {"max_expanded_bytes": 1000}, {"max_upload_rows": 50}, {"max_file_columns": 0},
    ):  # fmt: skip
        with pytest.raises(Problem) as refused:
            workbook_frame(io.BytesIO(sheet), Limits(**changes))
        assert refused.value.code == "too-large"
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b"")
        archive.writestr("xl/sharedStrings.xml", bytes(1 << 27))
    with pytest.raises(Problem) as refused:
        workbook_frame(io.BytesIO(bomb.getvalue()))
    assert refused.value.extras["limit"] == "max_compression_ratio"


@pytest.mark.parametrize("cut", [30, 500, -40])
def test_a_damaged_workbook_is_one_sentence(cut: int) -> None:
    content = _workbook(["income"], [1])[:cut] + b"xl/"
    ((_, _, said),) = troubles(content, columns_spec(SPEC))
    assert said == DAMAGED
