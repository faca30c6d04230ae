"""Drafting a spec from a header, checking a file here, and files of other programs."""

from __future__ import annotations

import gzip
import json
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import openpyxl
import polars as pl
import pyreadstat
import pytest
from click.testing import CliRunner, Result

from app.cli.commands import main

CELL = "sentinel99812"


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["datasets", *map(str, arguments)])


def _drafted(file: Path) -> dict[str, Any]:
    done = _run("draft", file)
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def _spec(folder: Path, columns: dict[str, Any], **changes: Any) -> Path:
    body = {
        "name": "x", "adjacency": "replace_one", "columns": columns, "budget": {"epsilon": "1"},
    }  # fmt: skip
    path = folder / "spec.json"
    path.write_text(json.dumps({**body, **changes}), "utf-8")
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_a_draft_is_made_of_the_header_alone(tmp_path: Path, packed: bool) -> None:
    names = "income [EUR];is_owner;date_of_birth;visited_at;visits (count);income [EUR];person_id;"
    header = f"{names};born\n"
    content = header.encode() + b"\xff\xfe no text at all"
    file = tmp_path / "people.csv"
    file.write_bytes(gzip.compress(content) if packed else content)
    done = _run("draft", file)
    spec = json.loads(done.stdout)
    assert (spec["name"], spec["delimiter"], spec["adjacency"]) == ("people", ";", None)
    assert spec["columns"] == {
        "income [EUR]": {
            "type": "number", "lower": None, "upper": None, "label": "income",
            "unit_of_measure": "EUR",
        },
        "is_owner": {"type": "boolean"},
        "date_of_birth": {"type": "date", "lower": None, "upper": None},
        "visited_at": {"type": "datetime", "lower": None, "upper": None},
        "visits (count)": {
            "type": "integer", "lower": None, "upper": None, "label": "visits",
            "unit_of_measure": "count",
        },
        "born": {"type": "date", "lower": None, "upper": None},
    }  # fmt: skip
    assert "twice" in done.stderr
    assert "person_id is left out" in done.stderr
    assert "left out" in done.stderr


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_names_may_be_in_quotes(tmp_path: Path, delimiter: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text(delimiter.join(['"age"', '"score, in all; of\n""ten"""', "born"]) + "\n1\n")
    spec = _drafted(file)
    # a name with a line's end in it is none
    assert [*spec["columns"]] == ["age", "born"]
    assert spec.get("delimiter", ",") == delimiter


def test_rows_change_nothing_in_a_draft(tmp_path: Path) -> None:
    drafts = set()
    for rows in ("", "1,2\n", f"{CELL},\n" * 100):
        file = tmp_path / "a.csv"
        file.write_text(f"age,score\n{rows}")
        drafts.add(_run("draft", file).stdout)
    assert len(drafts) == 1
    assert CELL not in drafts.pop()


def test_types_of_parquet_are_in_the_draft(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"n": [1], "x": [1.5], "d": [date(2020, 1, 1)], "m": [datetime(2020, 1, 1)], "t": [CELL],
         "b": [True]}
    )  # fmt: skip
    frame.write_parquet(tmp_path / "a.parquet")
    columns = _drafted(tmp_path / "a.parquet")["columns"]
    assert [each["type"] for each in columns.values()] == [
        "integer", "number", "date", "datetime", "category", "boolean",
    ]  # fmt: skip
    assert columns["t"] == {"type": "category", "values": []}


@pytest.mark.parametrize("content", [b"", b"PAR1PAR1", b"\x00\x01"])
def test_a_file_without_a_header_has_no_draft(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    done = _run("draft", tmp_path / "a.csv")
    assert done.exit_code == 1
    assert "Traceback" not in done.output


def test_every_empty_place_of_a_draft_is_told_at_once(tmp_path: Path) -> None:
    names = [f"x{place}" for place in range(30)]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n")
    spec = tmp_path / "spec.json"
    spec.write_text(_run("draft", tmp_path / "a.csv").stdout)
    done = _run("check", tmp_path / "a.csv", spec)
    assert done.exit_code == 1
    for place in range(30):
        assert f"spec.columns[{place}].lower" in done.stderr
        assert f"spec.columns[{place}].upper" in done.stderr
    assert "spec.adjacency" in done.stderr
    assert "spec.budget.epsilon" in done.stderr


def test_a_file_is_checked_as_the_service_would_read_it(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("x,y\n13,1\n14,0\n0.5,1\n,1\n")
    narrow = {"type": "number", "lower": 0, "upper": 1, "missing": 0}
    spec = _spec(tmp_path, {"x": narrow, "y": {"type": "boolean"}})
    done = _run("check", file, spec)
    assert done.exit_code == 0, done.output
    assert "rows: 4 read, 0 dropped" in done.stdout
    assert "x: 1 filled, 2 clamped high" in done.stdout
    assert "warning: x: 2 of 3 values lie outside the bounds" in done.stdout
    told = json.loads(_run("check", file, spec, "--json").stdout)
    assert told["columns"]["x"]["clamped_high"] == 2
    assert told["warnings"][0]["column"] == "x"


def test_faults_of_the_file_are_told_by_row_and_column(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"x\n1\n{CELL}\nNA\n")
    spec = _spec(tmp_path, {"x": {"type": "number", "lower": 0, "upper": 1}})
    done = _run("check", file, spec)
    assert done.exit_code == 1
    assert "row 2, column x: not a number" in done.stderr
    assert "row 3, column x: not a number" in done.stderr
    assert CELL not in done.output


def test_people_are_read_here_too(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,x\na,1\na,0\nb,1\n")
    spec = _spec(
        tmp_path, {"x": {"type": "number", "lower": 0, "upper": 1}}, adjacency="add_remove",
        max_rows=10, unit={"column": "id", "max_rows": 2},
    )  # fmt: skip
    told = _run("check", file, spec).stdout
    assert "rows: 3 read" in told
    assert "people: 2, half of them with 1 rows or fewer, one with 2; 0 rows left out" in told
    few = spec.read_text().replace('"max_rows": 10', '"max_rows": 2')
    spec.write_text(few)
    refused = _run("check", file, spec)
    assert refused.exit_code == 1
    assert "more rows than the declared max_rows" in refused.stderr


FRAME = pl.DataFrame(
    {
        "age": [30.0, None, 41.0],
        "score": [1.5, 2.5, None],
        "day": [date(2020, 1, 1), None, date(2021, 2, 3)],
        "sex": ["f", "m", "f"],
    }
)
COLUMNS = {
    "age": {"type": "integer", "lower": 0, "upper": 120, "missing": 0},
    "score": {"type": "number", "lower": 0, "upper": 2, "missing": 0},
    "day": {"type": "date", "lower": "2000-01-01", "upper": "2030-01-01", "missing": "2000-01-01"},
    "sex": {"type": "category", "values": ["f", "m"]},
}


def _written(path: Path) -> Path:
    match path.suffix:
        case ".sav":
            pyreadstat.write_sav(FRAME, str(path))
        case ".dta":
            pyreadstat.write_dta(FRAME, str(path))
        case ".xpt":
            pyreadstat.write_xport(FRAME, str(path))
        case _:
            book = openpyxl.Workbook()
            sheet = book.active
            for row in (FRAME.columns, *FRAME.rows()):
                sheet.append(list(row))
            book.save(path)
    return path


@pytest.mark.parametrize("kind", ["xlsx", "sav", "dta", "xpt"])
def test_files_of_other_programs_are_read_here(tmp_path: Path, kind: str) -> None:
    file = _written(tmp_path / f"people.{kind}")
    columns = _drafted(file)["columns"]
    assert [columns[name]["type"] for name in ("age", "score", "sex")] == [
        "integer", "number", "category",
    ]  # fmt: skip
    told = json.loads(_run("check", file, _spec(tmp_path, COLUMNS), "--json").stdout)
    assert told["rows"] == 3
    assert told["columns"]["age"]["filled"] == 1
    assert told["columns"]["score"] | {"clamped_high": 1, "filled": 1} == told["columns"]["score"]
    assert told["columns"]["day"]["filled"] == 1


def test_an_error_in_a_sheet_is_refused_and_not_missing(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["age", None], [30, None], ["#DIV/0!", None], [None, None], [41, None]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    spec = _spec(tmp_path, {"age": COLUMNS["age"]})
    done = _run("check", tmp_path / "a.xlsx", spec)
    assert "row 2, column age: not a number" in done.stderr
    told = "\n".join(line for line in done.stderr.splitlines() if "row" in line)
    assert "row 3" not in told


@pytest.mark.parametrize("kind", ["xlsx", "sav", "sas7bdat"])
def test_what_only_has_the_name_of_such_a_file_is_one_sentence(tmp_path: Path, kind: str) -> None:
    (tmp_path / f"a.{kind}").write_text(CELL)
    done = _run("draft", tmp_path / f"a.{kind}")
    assert done.exit_code == 1
    assert "cannot be read as" in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize("kind", ["xlsx", "dta"])
def test_without_the_extra_it_is_named(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _written(tmp_path / f"a.{kind}")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    done = _run("draft", file)
    assert done.exit_code == 1
    assert "pip install 'release-desk[files]'" in done.stderr
