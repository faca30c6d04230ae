"""Dictionaries: what each kind states is in the draft, what it does not state is empty."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pyreadstat
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.uploads.drafting.dictionaries import dictionary_in
from app.uploads.drafting.samples import DictionaryError
from tests.tiers import in_one

CSV = "age,sex,income,day,owner,note\n" + "31,f,1.5,2020-01-31,Y,x\n45,m,2.5,2021-02-28,N,y\n" * 20
AGE = {
    "type": "integer", "lower": 0, "upper": 120, "label": "Age of the person",
    "unit_of_measure": "years", "na": ["-9", "NA"],
}  # fmt: skip
SEX = {"type": "category", "values": ["f", "m"], "labels": {"f": "female", "m": "male"}}
NOTE = {"type": "category", "values": []}
SCHEMA = {
    "fields": [
        {"name": "age", "type": "integer", "title": "Age of the person", "unit": "years",
         "constraints": {"minimum": 0, "maximum": 120}, "missingValues": ["-9"]},
        {"name": "Sex", "type": "string",
         "categories": [{"value": "f", "label": "female"}, {"value": "m", "label": "male"}]},
        {"name": "income", "type": "number"},
        {"name": "day", "type": "date", "constraints": {"minimum": "2020-01-01"}},
        {"name": "owner", "type": "boolean", "trueValues": ["Y"], "falseValues": ["N"]},
        {"name": "gone", "type": "string"},
    ],
    "missingValues": ["", "NA"],
}  # fmt: skip
CSVW = {
    "@context": "http://www.w3.org/ns/csvw",
    "url": "http://example.org/never-fetched.csv",
    "tableSchema": {
        "null": ["", "NA"],
        "columns": [
            {"titles": ["age"], "name": "a", "dc:description": "Age of the person", "null": "-9",
             "datatype": {"base": "integer", "minimum": "0", "maxInclusive": 120},
             "schema:unitText": "years"},
            {"titles": {"en": "sex"}, "datatype": {"base": "string", "format": "f|m"}},
            {"name": "income", "datatype": "decimal"},
            {"name": "day", "datatype": {"base": "date", "minimum": "2020-01-01"}},
            {"name": "owner", "datatype": {"base": "boolean", "format": "Y|N"}},
        ],
    },
}  # fmt: skip
DDI = """<?xml version="1.0" encoding="ISO-8859-1"?>
<codeBook xmlns="ddi:codebook:2_5"><dataDscr>
<var name="age" intrvl="contin" dcml="0" measUnit="years"><labl>Age of
 the person</labl><valrng><range min="0" max="60"/><range min="61" max="120"/></valrng>
 <invalrng><item VALUE="-9"/><item VALUE="NA"/></invalrng><sumStat type="max">97</sumStat>
 <varFormat type="numeric"/></var>
<var name="sex"><catgry><catValu>f</catValu><labl>female</labl><catStat>123</catStat></catgry>
 <catgry><catValu>m</catValu><labl>male</labl></catgry>
 <catgry missing="Y"><catValu>x</catValu><labl>refused</labl></catgry></var>
<var name="income" intrvl="contin"><valrng><range min="0"/></valrng><sumStat type="max">2</sumStat>
</var></dataDscr></codeBook>"""


def _draft(folder: Path, dictionary: bytes, file: str = CSV) -> Result:
    (folder / "a.csv").write_text(file)
    (folder / "dictionary").write_bytes(dictionary)
    paths = [str(folder / "a.csv"), "--dictionary", str(folder / "dictionary")]
    return CliRunner().invoke(main, ["datasets", "draft", *paths])


def _columns(folder: Path, dictionary: bytes) -> dict[str, Any]:
    done = _draft(folder, dictionary)
    assert done.exit_code == 0, done.output
    columns = dict(json.loads(done.stdout)["columns"])
    assert {column.pop("missing") for column in columns.values()} == {"keep"}
    return columns


@pytest.mark.parametrize("kind", ["schema", "package", "csvw", "ddi"])
def test_what_a_dictionary_states_is_in_the_draft(tmp_path: Path, kind: str) -> None:
    package = {"resources": [{"path": "http://example.org/never.csv", "schema": SCHEMA}]}
    documents = {
        "schema": json.dumps(SCHEMA), "package": json.dumps(package), "csvw": json.dumps(CSVW),
        "ddi": DDI,
    }  # fmt: skip
    columns = _columns(tmp_path, documents[kind].encode("iso-8859-1"))
    assert columns["age"] == AGE
    labels = {} if kind == "csvw" else {"labels": SEX["labels"]}
    missing = {"na": ["x"]} if kind == "ddi" else {}
    assert columns["sex"] == {"type": "category", "values": ["f", "m"], **labels, **missing}
    # a bound that is not stated, or is that of the rows, stays empty
    lower = 0 if kind == "ddi" else None
    assert (columns["income"]["lower"], columns["income"]["upper"]) == (lower, None)
    assert columns["note"] == NOTE
    if kind != "ddi":
        assert columns["day"] == {"type": "date", "lower": "2020-01-01", "upper": None}
        assert columns["owner"] == {"type": "boolean", "true": ["Y"], "false": ["N"]}


def test_codes_of_a_dictionary_are_no_cells_when_types_are_guessed(tmp_path: Path) -> None:
    codes = {"fields": [{"name": "pay"}], "missingValues": ["refused", "unknown"]}
    file = "pay;note\n" + "".join(f"{n},5;n{n}\nrefused;m{n}\n" for n in range(40))
    spec = json.loads(_draft(tmp_path, json.dumps(codes).encode(), file).stdout)
    assert spec["columns"].keys() == {"pay"}
    assert spec["columns"]["pay"]["type"] == "number"
    assert spec["decimal"] == ","


def test_what_a_dictionary_declares_is_not_said_to_be_left_out(tmp_path: Path) -> None:
    stated = {"fields": [{"name": "pay", "type": "number"}]}
    file = "pay;note\n" + "".join(f"{n} EUR;n{n}\n" for n in range(40))
    said = _draft(tmp_path, json.dumps(stated).encode(), file).stderr
    assert "note: nearly each cell" in said
    assert "pay: nearly each cell" not in said


def test_what_is_in_the_dictionary_alone_is_said(tmp_path: Path) -> None:
    assert (
        "gone is in the dictionary and not in the file"
        in _draft(tmp_path, json.dumps(SCHEMA).encode()).stderr
    )


FRAME = pl.DataFrame(
    {"sex": [1, 2, 9], "income": [1.5, -8, 3], "day": [date(2020, 1, 1)] * 3, "n": [0, 1, 2]}
)


@pytest.mark.parametrize("kind", ["sav", "dta"])
def test_a_file_of_another_program_is_its_own_dictionary(tmp_path: Path, kind: str) -> None:
    file = str(tmp_path / f"a.{kind}")
    labels = ["Sex of person", "Income", "Day", "Visits"]
    named = {"sex": {1: "male", 2: "female"}}
    if kind == "sav":
        named["sex"][9] = "refused"
        ranges = {"sex": [9], "income": [{"lo": -9, "hi": -7}]}
        pyreadstat.write_sav(
            FRAME, file, column_labels=labels, variable_value_labels=named, missing_ranges=ranges
        )
    else:
        pyreadstat.write_dta(FRAME, file, column_labels=labels, variable_value_labels=named)
    done = CliRunner().invoke(main, ["datasets", "draft", file, "--dictionary", file])
    columns = json.loads(done.stdout)["columns"]
    assert columns["sex"]["values"] == ["1", "2"]
    assert columns["sex"]["labels"] == {"1": "male", "2": "female"}
    assert [each["label"] for each in columns.values()] == labels
    assert [each["type"] for each in columns.values()] == ["category", "number", "date", "integer"]
    assert columns["income"]["lower"] is None
    if kind == "sav":
        assert columns["sex"]["na"] == ["9"]
        assert columns["income"]["na"] == ["-9", "-8", "-7"]


@pytest.mark.parametrize("kind", ["por", "xpt"])
def test_a_portable_file_is_its_own_dictionary_of_labels(tmp_path: Path, kind: str) -> None:
    """These formats are written without labels of values."""
    file = str(tmp_path / f"a.{kind}")
    labels = ["Sex of person", "Income", "Day", "Visits"]
    write = pyreadstat.write_por if kind == "por" else pyreadstat.write_xport
    write(FRAME, file, column_labels=labels)
    done = CliRunner().invoke(main, ["datasets", "draft", file, "--dictionary", file])
    assert done.exit_code == 0, done.output
    columns = json.loads(done.stdout)["columns"]
    assert [name.lower() for name in columns] == FRAME.columns
    assert [each["label"] for each in columns.values()] == labels
    assert [each["type"] for each in columns.values()][1:] == ["number", "date", "integer"]
    assert not any(each.get("lower") or each.get("values") for each in columns.values())


BOMB = '<!DOCTYPE a [<!ENTITY a "aa"><!ENTITY b "&a;&a;&a;">]><codeBook>&b;</codeBook>'
OUTSIDE = '<!DOCTYPE a SYSTEM "file:///etc/passwd"><codeBook><var name="a"/></codeBook>'


@in_one(
    ("content", "said"),
    [
        (BOMB.encode(), "entities"),
        (OUTSIDE.encode(), "entities"),
        (("<a>" * 5000).encode(), "too deep"),
        (b"<codeBook><var name='a'>", "no well-formed XML"),
        (b'<?xml version="1.0" encoding="no-such"?><codeBook/>', "XML"),
        (b"<codeBook></codeBook>", "no DDI codebook"),
        (b"<html></html>", "no DDI codebook"),
        (b'{"columns": []}', "neither a Frictionless"),
        (b'{"fields": 3}', "neither"),
        (b'{"resources": []}', "neither"),
        (b'{"tables": [3]}', "neither"),
        (b"{" * 100_000, "no JSON"),
        (b"%PDF-1.7", "PDF"),
        (b"PK\x03\x04", "ZIP"),
        (b"$FL2 ...", "SPSS"),
        (b"\x00name,label\n", "Frictionless"),
        (b"", "Frictionless"),
    ],
)
def test_what_is_no_dictionary_is_named(content: bytes, said: str) -> None:
    with pytest.raises(DictionaryError, match=said):
        dictionary_in(content)


@pytest.mark.parametrize(
    "fields",
    [
        [{"name": "age", "type": ["x"]}], [{"name": 3, "constraints": 7}], [None, 4, "age"],
        [{"name": "age", "type": "integer", "constraints": {"minimum": "few", "maximum": True}}],
        [{"name": "age", "missingValues": {"a": 1}, "title": {"en": ["x"]}, "categories": [[1]]}],
    ],
)  # fmt: skip
def test_odd_members_say_nothing(tmp_path: Path, fields: Any) -> None:
    columns = _columns(tmp_path, json.dumps({"fields": fields}).encode())
    assert (columns["age"]["type"] != "integer") or columns["age"]["lower"] is None
