"""Dictionaries that are tables: workbooks, CSV and Markdown state the same, within limits."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from click.testing import CliRunner

from app.cli import main
from app.uploads.drafting import tables
from app.uploads.drafting.dictionaries import dictionary_in
from app.uploads.drafting.samples import Described, DictionaryError
from tests.tiers import in_one

CSV = "age,sex,income,day,owner\n" + "31,1,1.5,2020-01-31,Y\n45,2,2.5,2021-02-28,N\n" * 20
HEADER = ["Variable", "Description", "Type", "Codes", "Missing values", "Unit", "Min", "Max"]
ROWS: list[list[Any]] = [
    ["age", "Age of the person", "integer", None, -9, "years", 0, 120],
    ["Sex", "Sex at birth", "numeric", "1=male; 2=female", "9 = refused", None, None, None],
    ["income", "Income", "Float", "-", None, "EUR", 0, 2500.5],
    ["day", "Day of the visit", "date", None, None, None, date(2020, 1, 1), date(2030, 12, 31)],
    ["owner", "Owns the home", "yes/no", "Y; N", None, None, None, None],
]
AGE = {
    "type": "integer", "lower": 0, "upper": 120, "label": "Age of the person",
    "unit_of_measure": "years", "na": ["-9"],
}  # fmt: skip


def workbook(*sheets: tuple[str, Sequence[Sequence[Any]]]) -> bytes:
    book, file = openpyxl.Workbook(), io.BytesIO()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    book.save(file)
    return file.getvalue()


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)


def _lines(sign: str, rows: Sequence[Sequence[Any]]) -> str:
    quote = {",": '"{}"', ";": '"{}"'}.get(sign, "{}")
    return "\n".join(sign.join(quote.format(_text(cell)) for cell in row) for row in rows)


MARKDOWN = "\n".join([
    "# Variables of the survey", "", "What the columns are.", "",
    "| " + " | ".join(HEADER) + " |", "| :-- " + "| --- " * 6 + "| --: |",
    *("| " + " | ".join(map(_text, row)) + " |" for row in ROWS), "", "Made in *2024*.",
]).replace("| age |", "| `age` |")  # fmt: skip
KINDS = {
    "a workbook": workbook(
        ("About", [["Survey of 2024"], ["name", "Office of statistics"]]),
        ("Variables", [["Variables of the survey"], [], HEADER, *ROWS]),
        ("Data", [["age", "sex"], [31, 1]]),
    ),
    "commas": _lines(",", [HEADER, *ROWS]).encode(),
    "semicolons": _lines(";", [["Codebook"], HEADER, *ROWS]).encode("utf-8-sig"),
    "tabs, UTF-16": _lines("\t", [HEADER, *ROWS]).encode("utf-16"),
    "Markdown": MARKDOWN.encode(),
}


def _drafted(folder: Path, dictionary: bytes) -> tuple[dict[str, Any], str]:
    (folder / "a.csv").write_text(CSV)
    (folder / "dictionary").write_bytes(dictionary)
    paths = [str(folder / "a.csv"), "--dictionary", str(folder / "dictionary")]
    done = CliRunner().invoke(main, ["datasets", "draft", *paths])
    assert done.exit_code == 0, done.output
    columns = dict(json.loads(done.stdout)["columns"])
    assert {column.pop("missing") for column in columns.values()} == {"keep"}
    return columns, done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_states_the_same_in_each_kind_of_file(tmp_path: Path, kind: str) -> None:
    columns, said = _drafted(tmp_path, KINDS[kind])
    assert columns["age"] == AGE
    assert columns["sex"] == {
        "type": "category", "values": ["1", "2"], "labels": {"1": "male", "2": "female"},
        "label": "Sex at birth", "na": ["9"],
    }  # fmt: skip
    assert columns["income"] == {
        "type": "number", "lower": 0, "upper": 2500.5, "label": "Income", "unit_of_measure": "EUR",
    }  # fmt: skip
    assert (columns["day"]["lower"], columns["day"]["upper"]) == ("2020-01-01", "2030-12-31")
    assert columns["owner"] == {
        "type": "boolean", "true": ["yes", "y"], "false": ["no", "n"], "label": "Owns the home",
    }  # fmt: skip
    assert "what is valid, not what occurs" in said
    assert ("3 sheets or tables" in said and "read: Variables" in said) == (kind == "a workbook")


def test_a_codebook_with_a_line_for_each_value_is_read(tmp_path: Path) -> None:
    lines: list[list[Any]] = [
        ["Spalte", "Bezeichnung", "Wert", "Bedeutung"], ["age", "Alter", "", ""],
        ["sex", "Geschlecht", 1, "männlich"], [None, None, 2, "weiblich"],
    ]  # fmt: skip
    columns, _ = _drafted(tmp_path, workbook(("Codes", lines)))
    assert columns["sex"] == {
        "type": "category", "values": ["1", "2"], "label": "Geschlecht",
        "labels": {"1": "männlich", "2": "weiblich"},
    }  # fmt: skip
    assert columns["age"]["label"] == "Alter"


_OF_COLUMNS: list[list[Any]] = [
    ["variable", "label", "type", "value set", "missing values", "min", "max"],
    ["age", "Age", "integer", None, None, 0, 120],
    ["sex", "Sex at birth", "numeric", "SEXES", 9, None, None],
    ["income", "Income", "number", None, None, 0, 2500.5],
    ["owner", "Owns the home", "category", "JANEIN", None, None, None],
]
_OF_VALUES: list[list[Any]] = [
    ["Variable", "Value", "Label"], ["SEX", 1, "male"], [None, 2, "female"],
    ["SEX", 9, "refused"], ["income", -9, "refused"], ["income", -8, "does not know"],
    ["other", 1, "a"], ["other", 2, "b"],
]  # fmt: skip
_OF_LISTS: list[list[Any]] = [
    ["Code list", "Code", "Meaning"], ["JaNein", "Y", "ja"], ["JaNein", "N", "nein"],
]  # fmt: skip


def _in_markdown(title: str, rows: Sequence[Sequence[Any]]) -> str:
    header, *below = ["| " + " | ".join(map(_text, row)) + " |" for row in rows]
    return "\n".join([f"# {title}", "", header, "|---" * len(rows[0]) + "|", *below, ""])


_TABLES = {"Columns": _OF_COLUMNS, "Values": _OF_VALUES, "Lists": _OF_LISTS}
_JOINED = {
    "a workbook": workbook(*_TABLES.items()),
    "sheets of values first": workbook(*reversed(_TABLES.items())),
    "Markdown": "\n".join(map(_in_markdown, *zip(*_TABLES.items(), strict=True))).encode(),
}


@pytest.mark.parametrize("kind", _JOINED)
def test_a_sheet_of_values_is_joined_to_the_sheet_of_columns(tmp_path: Path, kind: str) -> None:
    """By the column's name in any case, or by the name of a list; codes of no value are none."""
    columns, said = _drafted(tmp_path, _JOINED[kind])
    assert columns["sex"] == {
        "type": "category", "values": ["1", "2"], "labels": {"1": "male", "2": "female"},
        "label": "Sex at birth", "na": ["9"],
    }  # fmt: skip
    assert columns["owner"]["labels"] == {"Y": "ja", "N": "nein"}
    assert columns["income"] == {"type": "number", "lower": 0, "upper": 2500.5, "label": "Income"}
    assert "put it into `na`" in said, "-9 and -8 are outside of what is valid"
    assert columns["age"]["upper"] == 120
    values = {"Values, Lists", "Lists, Values", "2, 3"}
    assert any(f"and values from {each}" in said for each in values), said


def test_bounds_and_units_are_those_of_numbers_whatever_the_type_is_called(tmp_path: Path) -> None:
    rows = [f"{at} or so,b{at % 3},{at} or so" for at in range(200)]
    (tmp_path / "a.csv").write_text("\n".join(["pay,kind,note", *rows]))
    lines = b"variable;label;type;min;max\npay;Pay;odd;0;9\nkind;Kind;odd;;\nnote;Note;odd;;\n"
    (tmp_path / "d.csv").write_bytes(lines)
    paths = [str(tmp_path / "a.csv"), "--dictionary", str(tmp_path / "d.csv")]
    done = CliRunner().invoke(main, ["datasets", "draft", *paths])
    columns = json.loads(done.stdout)["columns"]
    assert {name: each["type"] for name, each in columns.items()} == {
        "pay": "number", "kind": "category"
    }  # fmt: skip
    assert (columns["pay"]["lower"], columns["pay"]["upper"]) == (0, 9)


def test_values_with_labels_of_their_own_are_not_joined(tmp_path: Path) -> None:
    columns: list[list[Any]] = [
        ["variable", "values", "label"],
        ["sex", "1=m; 2=f", "Sex"],
        ["age", None, "Age"],
    ]
    drafted, said = _drafted(tmp_path, workbook(("A", columns), ("B", _OF_VALUES)))
    assert drafted["sex"]["labels"] == {"1": "m", "2": "f"}
    assert "the first one with a known header is read: A" in said


def test_minimum_and_maximum_of_the_rows_are_no_bounds(tmp_path: Path) -> None:
    lines = b"variable,label,n,mean,min,max\nage,Age,812,38.2,18,97\n"
    columns, said = _drafted(tmp_path, lines)
    assert (columns["age"]["lower"], columns["age"]["upper"]) == (None, None)
    assert columns["age"]["label"] == "Age"
    assert "next to summaries of rows" in said


def _one(header: str, row: str) -> Described:
    return dictionary_in(f"name\t{header}\nx\t{row}\n".encode()).columns["x"]


@pytest.mark.parametrize(
    ("listed", "labels"),
    [
        ("1=male; 2=female", {"1": "male", "2": "female"}),
        ("1, Male | 2, Female, or none", {"1": "Male", "2": "Female, or none"}),
        ("1 - low, 2 - middle, or high", {"1": "low", "2": "middle, or high"}),
        ("(1) low; (2) high", {"1": "low", "2": "high"}),
        ('"f": female; "m": male', {"f": "female", "m": "male"}),
        ("-1 = before; +1 = after", {"-1": "before", "+1": "after"}),
        ("north, south", {"north": None, "south": None}),
    ],
)
def test_lists_of_values_are_read_as_they_are_written(
    listed: str, labels: dict[str, str | None]
) -> None:
    found = _one("values", listed)
    assert found.type == "category"
    assert {value: found.labels.get(value) for value in found.values} == labels


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ("range", "0-120", (None, 0, 120)),
        ("type\tvalues", "integer\t0 to 120", ("integer", 0, 120)),
        ("Typ\tWertebereich", "Ganzzahl\t[-5,5; 10]", ("integer", -5.5, 10)),
        ("type\tmin", "varchar(20)\t3", ("category", None, None)),
        ("type\tmax", "F8.2\tabout 3", (None, None, None)),
        ("type\tmin\tmax", "float64\t0,5\t1", ("number", 0.5, 1)),
        ("type\tvalues", "ordinal\t1-3", ("category", None, None)),
        ("type\tvalues", "integer\t-9=refused", ("integer", None, None)),
    ],
)
def test_types_and_ranges_are_read_as_they_are_written(
    header: str, row: str, expected: tuple[Any, ...]
) -> None:
    found = _one(header, row)
    assert (found.type, found.lower, found.upper) == expected
    assert list(found.values) == (["1", "2", "3"] if "ordinal" in row else [])
    assert bool(found.notes) == ("refused" in row)


def test_a_wide_range_of_an_ordinal_lists_no_values() -> None:
    assert not _one("type\tvalues", "ordinal\t1-5000").values


def test_cells_of_markdown_have_bars_and_line_ends() -> None:
    text = "name | values\n--- | ---\n**x** | 1 = a \\| b<br>2 = c\ny | 3 = d; 4 = e\n"
    columns = dictionary_in(text.encode()).columns
    assert columns["x"].labels == {"1": "a | b", "2": "c"}
    assert columns["y"].labels == {"3": "d", "4": "e"}


def zipped(**members: bytes) -> bytes:
    """Return a workbook with some members replaced, or a damaged one."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(KINDS["a workbook"])) as sound,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made,
    ):
        for each in sound.namelist():
            content = next((new for name, new in members.items() if name in each), None)
            made.writestr(each, sound.read(each) if content is None else content)
    return file.getvalue()


_ENTITIES = b'<!DOCTYPE a [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><sst>&b;</sst>'
_OUTSIDE = '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>'
_FAR = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>%s'
_WIDE = _FAR % b'<row r="1"><c r="ZZZ1"><v>1</v></c></row></sheetData></worksheet>'
_LONG = _FAR % b'<row r="9999999"><c r="A9999999"><v>1</v></c></row></sheetData></worksheet>'


@in_one(
    ("content", "said"),
    [
        (zipped(theme=bytes(tables.MOST_BYTES)), "once it is unpacked"),
        (zipped(styles=_ENTITIES), "DOCTYPE"),
        (zipped(sheet1=_OUTSIDE.encode("utf-16")), "DOCTYPE"),
        (zipped(sheet1=b"<worksheet"), "save it again"),
        (zipped(workbook=b""), "save it again"),
        (zipped(sheet1=_WIDE), "500 columns"),
        (zipped(sheet1=_LONG, sheet2=_LONG), "100000 rows"),
        (KINDS["a workbook"][:-40], "save it again"),
        (workbook(("Sheet", [["Nothing"], ["to", "see"]])), "one cell must be `name`"),
        (workbook(("Sheet", [])), "one cell must be `name`"),
        (b"name,label\n", "no rows below"),
        (b"age,sex\n31,f\n", "name | label | type"),
        (b"Some words about the survey.\n", "name | label | type"),
        (b"| a | b |\n| --- | --- |\n" * 3000, "name | label | type"),
        (b"name,label\n" + b"x,y\n" * (tables.MOST_ROWS + 1), "more than"),
        (b"name,label\n" + b"x," + b"y" * (tables.MOST_TEXT + 1), "characters"),
        (b"\x01\x00\x02 a program", "not a Frictionless"),
    ],
)
def test_what_is_no_table_of_columns_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(DictionaryError) as refused:
        dictionary_in(content)
    assert said in str(refused.value)
