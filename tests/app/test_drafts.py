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

from app.cli import main

CELL = "sentinel99812"


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["datasets", *map(str, arguments)])


def _drafted(file: Path) -> dict[str, Any]:
    done = _run("draft", file)
    assert done.exit_code == 0, done.output
    return _kept(done.stdout)


def _kept(text: str) -> dict[str, Any]:
    """Return a draft, each of whose columns keeps missing cells, without that."""
    spec = dict(json.loads(text))
    for column in spec["columns"].values():
        assert column.pop("missing") == "keep"
    return spec


def _spec(folder: Path, columns: dict[str, Any], **changes: Any) -> Path:
    body = {
        "name": "x", "adjacency": "replace_one", "columns": columns, "budget": {"epsilon": "1"},
    }  # fmt: skip
    path = folder / "spec.json"
    path.write_text(json.dumps({**body, **changes}), "utf-8")
    return path


def _csv(folder: Path, text: str | bytes, name: str = "people.csv") -> Path:
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def _rows(*cells: str) -> str:
    """Return a column's name and cells that come again and again."""
    return "\n".join([cells[0], *cells[1:] * (40 // len(cells[1:]) + 1)]) + "\n"


@pytest.mark.parametrize("packed", [False, True])
def test_without_rows_a_draft_is_made_of_names(tmp_path: Path, packed: bool) -> None:
    names = "income [EUR];is_owner;date_of_birth;visited_at;visits (count);income [EUR];person_id;"
    content = f"{names};born;sex\n".encode()
    file = _csv(tmp_path, gzip.compress(content) if packed else content)
    done = _run("draft", file)
    spec = _kept(done.stdout)
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
        "sex": {"type": "category", "values": []},
    }  # fmt: skip
    assert "twice" in done.stderr
    assert "person_id is left out" in done.stderr
    assert "never from the rows" in done.stderr


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_headers_of_any_kind_get_a_name_and_are_its_source(tmp_path: Path, delimiter: str) -> None:
    long = "Which of these best describes what you did in the last seven days? " * 3
    names = ['"age"', '"score, in all; of\n""ten"""', "born", f'"{long.strip()}"']
    spec = _drafted(_csv(tmp_path, delimiter.join(names) + "\n"))
    assert spec.get("delimiter", ",") == delimiter
    assert {name: each.get("source") for name, each in spec["columns"].items()} == {
        "age": None,
        "score_in_all_of_ten": 'score, in all; of\n"ten"',
        "born": None,
        "which_of_these_best_describes_what_you": long.strip(),
    }


GUESSES: list[tuple[str, dict[str, Any]]] = [
    (_rows("age", "31", "45"), {"type": "integer"}),
    (_rows("sex", "1", "2"), {"type": "category"}),
    (_rows("region", "1", "16"), {"type": "category"}),
    (_rows("sex", "f", "m"), {"type": "category"}),
    (_rows("weight", "1.25", "0.75"), {"type": "number"}),
    (_rows("owner", "1", "0"), {"type": "boolean"}),
    (_rows("owner", "TRUE", "false"), {"type": "boolean"}),
    (_rows("owner", "Yes", "no"), {"type": "boolean", "true": ["yes", "y"], "false": ["no", "n"]}),
    (
        _rows("owner", "Ja", "Nein"),
        {"type": "boolean", "true": ["ja", "j"], "false": ["nein", "n"]},
    ),
    (_rows("x", "2020-01-31", "2019-12-01"), {"type": "date"}),
    (_rows("x", "31.01.2020", "1.12.2019"), {"type": "date", "format": "%d.%m.%Y"}),
    (_rows("x", "01/31/2020", "12/01/2019"), {"type": "date", "format": "%m/%d/%Y"}),
    (_rows("x", "31.01.2020", "2019-12-01"), {"type": "date", "format": ["%Y-%m-%d", "%d.%m.%Y"]}),
    (
        _rows("x", "31.01.2020", "2019-12-01", "16.5.22"),
        {"type": "date", "format": ["%Y-%m-%d", "%d.%m.%Y", "%d.%m.%y"]},
    ),
    (
        _rows("x", "31.01.2020 08:15", "1.12.2019 23:59"),
        {"type": "datetime", "format": "%d.%m.%Y %H:%M"},
    ),
    (_rows("x", "2020-01-31T08:15:00Z", "2020-01-31 08:15:00+01:00"), {"type": "datetime"}),
    (_rows("plz", "01234", "80331"), {"type": "category"}),
    (_rows("x", "NA", "1.5"), {"type": "number"}),
    (_rows("x", "1.0", "2.0"), {"type": "integer"}),
    (
        _rows("x", "1.50 €", "-3.00 €"),
        {"type": "number", "bare_number": False, "unit_of_measure": "€"},
    ),
    (_rows("x", "$5", "$ 6"), {"type": "integer", "bare_number": False, "unit_of_measure": "$"}),
    (_rows("x", "38.5 %", "40"), {"type": "number", "bare_number": False}),
    (_rows("x", "1.5 EUR", "2.5 €", "3"), {"type": "number", "bare_number": False}),
    (_rows("x", "flat 5", "flat 6"), {"type": "category"}),
    (_rows("x", *"123456789", "refused"), {"type": "integer"}),
    (_rows("plz", "01234", "80331", "81234", "81235", "unknown"), {"type": "category"}),
]


@pytest.mark.parametrize(("text", "expected"), GUESSES)
def test_types_are_guessed_from_how_cells_are_spelt(
    tmp_path: Path, text: str, expected: dict[str, Any]
) -> None:
    spec = _drafted(_csv(tmp_path, text))
    (column,) = spec["columns"].values()
    empty = {"lower": None, "upper": None}
    wanted = {"values": []} if expected["type"] == "category" else empty
    assert column == {**({} if expected["type"] == "boolean" else wanted), **expected}
    assert ("na" in spec) == ("NA" in text)


def test_how_the_file_is_written_is_guessed_and_its_draft_reads_it(tmp_path: Path) -> None:
    rows = "".join(
        f"{at % 9},5;1.{at % 900 + 100},25;Köln;31.12.20{at % 20:02}\n" for at in range(50)
    )
    text = f"Bericht über alles\nStand: heute\nnote;lohn;ort;tag\n{rows}"
    spec = _drafted(_csv(tmp_path, text.encode("windows-1252")))
    dialect = ("encoding", "skip_rows", "delimiter", "decimal", "thousands")
    assert [spec[name] for name in dialect] == ["windows-1252", 2, ";", ",", "."]
    columns = spec["columns"]
    assert {name: each["type"] for name, each in columns.items()} == {
        "note": "number", "lohn": "number", "ort": "category", "tag": "date",
    }  # fmt: skip
    columns["note"] |= {"lower": 0, "upper": 10}
    columns["lohn"] |= {"lower": 0, "upper": 5000}
    columns["ort"]["values"] = ["Köln"]
    columns["tag"] |= {"lower": "2000-01-01", "upper": "2030-01-01"}
    spec |= {"adjacency": "replace_one", "budget": {"epsilon": "1"}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    reported = json.loads(
        _run("check", tmp_path / "people.csv", tmp_path / "spec.json", "--json").stdout
    )
    assert reported["rows"] == 50
    assert not reported["warnings"]


def test_a_separator_that_one_column_needs_is_that_of_all(tmp_path: Path) -> None:
    rows = "".join(f"{n}.234,5;{n}0345,5;{n};a;b\n" for n in range(1, 10))
    spec = _drafted(_csv(tmp_path, f"pay;steps;n;one;two\n{rows}"))
    spec["columns"] = {name: spec["columns"][name] for name in ("pay", "steps", "n")}
    assert (spec["decimal"], spec["thousands"]) == (",", ".")
    for column in spec["columns"].values():
        assert "decimal" not in column
        column.update(lower=0, upper=100_000)
    written = {name: spec[name] for name in ("delimiter", "decimal", "thousands")}
    declared = _spec(tmp_path, spec["columns"], **written)
    checked = _run("check", tmp_path / "people.csv", declared)
    assert checked.exit_code == 0, checked.output


def test_what_may_be_a_decimal_mark_makes_no_separator(tmp_path: Path) -> None:
    rows = "".join(f'{n}000.5,{n}111.25,"1,234"\n' for n in range(1, 10))
    assert "thousands" not in _drafted(_csv(tmp_path, f"a,b,c\n{rows}"))


def test_codes_for_missing_values_of_other_languages_are_known(tmp_path: Path) -> None:
    spec = _drafted(_csv(tmp_path, "pay;owner\n" + "1.234,50 €;ja\nk.A.;n.a.\n2,25 €;nein\n" * 30))
    assert (spec["decimal"], spec["thousands"], spec["na"]) == (",", ".", ["k.A.", "n.a."])
    assert {name: each["type"] for name, each in spec["columns"].items()} == {
        "pay": "number", "owner": "boolean",
    }  # fmt: skip


def test_a_few_texts_among_numbers_are_noted_and_not_repeated(tmp_path: Path) -> None:
    done = _run("draft", _csv(tmp_path, _rows("x", *"123456789", CELL)))
    assert "x: a few of its cells are no numbers" in done.stderr
    assert CELL not in done.stdout + done.stderr


def test_utf_16_is_drafted_and_read(tmp_path: Path) -> None:
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        spec = _drafted(_csv(tmp_path, "age,sex\n31,f\n45,m\n".encode(encoding)))
        assert (spec["encoding"], [*spec["columns"]]) == ("utf-16", ["age", "sex"])


def test_nothing_that_rows_hold_is_in_a_draft(tmp_path: Path) -> None:
    rows = "".join(f"{at % 50},{CELL}{at % 3},99812{at},{CELL}-{at}\n" for at in range(99))
    file = _csv(tmp_path, f"person_id,group,income,remark\n{rows}")
    done = _run("draft", file)
    assert "99812" not in done.output
    assert "remark: nearly each cell has a text of its own" in done.stderr
    assert "since some have several rows" in done.stderr
    spec = _kept(done.stdout)
    assert spec["columns"] == {
        "group": {"type": "category", "values": []},
        "income": {"type": "integer", "lower": None, "upper": None},
    }


def test_a_line_that_is_cut_at_the_end_of_the_sample_changes_nothing(tmp_path: Path) -> None:
    row = "1234567,2020-01-01\n"
    done = _run("draft", _csv(tmp_path, "x,day\n" + row * (3 * 2**20 // len(row))))
    assert "another number of cells" not in done.stderr
    assert [each["type"] for each in json.loads(done.stdout)["columns"].values()] == [
        "integer", "date",
    ]  # fmt: skip


def test_types_of_parquet_are_in_the_draft(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"n": [1], "x": [1.5], "d": [date(2020, 1, 1)], "m": [datetime(2020, 1, 1, 8)], "t": [CELL],
         "b": [True], "z": [datetime(2020, 1, 1, 8)]}
    ).with_columns(pl.col("z").dt.replace_time_zone("Europe/Berlin"))  # fmt: skip
    frame.write_parquet(tmp_path / "a.parquet")
    columns = _drafted(tmp_path / "a.parquet")["columns"]
    assert [each["type"] for each in columns.values()] == [
        "integer", "number", "date", "datetime", "category", "boolean", "datetime",
    ]  # fmt: skip
    assert columns["t"] == {"type": "category", "values": []}
    assert columns["z"]["timezone"] == "Europe/Berlin"


@pytest.mark.parametrize("content", [b"", b"PAR1PAR1", b"\x00\x01", b"\x1f\x8b\x08broken"])
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
    reported = json.loads(_run("check", file, spec, "--json").stdout)
    assert reported["columns"]["x"]["clamped_high"] == 2
    assert reported["warnings"][0]["column"] == "x"


def test_faults_of_the_file_are_told_by_row_and_column(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"x\n1\n{CELL}\nNA\n")
    spec = _spec(tmp_path, {"x": {"type": "number", "lower": 0, "upper": 1}})
    done = _run("check", file, spec)
    assert done.exit_code == 1
    assert "column x, rows 2, 3: not a number" in done.stderr
    assert CELL not in done.output


def test_people_are_read_here_too(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,x\na,1\na,0\nb,1\n")
    spec = _spec(
        tmp_path, {"x": {"type": "number", "lower": 0, "upper": 1}}, adjacency="add_remove",
        max_rows=10, unit={"column": "id", "max_rows": 2},
    )  # fmt: skip
    reported = _run("check", file, spec).stdout
    assert "rows: 3 read" in reported
    assert "people: 2, with 1 rows each in the median and 2 at most; 0 rows left out" in reported
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
    reported = json.loads(_run("check", file, _spec(tmp_path, COLUMNS), "--json").stdout)
    assert reported["rows"] == 3
    assert reported["columns"]["age"]["filled"] == 1
    assert (
        reported["columns"]["score"] | {"clamped_high": 1, "filled": 1}
        == reported["columns"]["score"]
    )
    assert reported["columns"]["day"]["filled"] == 1


def test_an_error_in_a_sheet_is_refused_and_not_missing(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["age", None], [30, None], ["#DIV/0!", None], [None, None], [41, None]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    spec = _spec(tmp_path, {"age": COLUMNS["age"]})
    done = _run("check", tmp_path / "a.xlsx", spec)
    assert "column age, row 2: not a number" in done.stderr


@pytest.mark.parametrize("kind", ["xlsx", "sav", "sas7bdat"])
def test_what_only_has_the_name_of_such_a_file_is_one_sentence(tmp_path: Path, kind: str) -> None:
    (tmp_path / f"a.{kind}").write_text(CELL)
    done = _run("draft", tmp_path / f"a.{kind}")
    assert done.exit_code == 1
    assert "cannot be read as" in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize("kind", ["sav", "dta"])
def test_without_the_extra_it_is_named(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _written(tmp_path / f"a.{kind}")
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    done = _run("draft", file)
    assert done.exit_code == 1
    assert "pip install pyreadstat" in done.stderr


@pytest.mark.parametrize("name", ["long.csv", "long.csv.gz", "long.parquet"])
def test_a_draft_of_a_long_file_says_from_how_many_rows_it_is(tmp_path: Path, name: str) -> None:
    for rows in (50, 90_000):
        file, frame = tmp_path / name, pl.DataFrame({"age": range(rows), "sex": ["f"] * rows})
        if name.endswith(".parquet"):
            frame.write_parquet(file)
        else:
            text = frame.write_csv().encode() * (1 if rows < 100 else 2)
            file.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        assert ("of a longer file" in _run("draft", file).stderr) == (rows > 50)
