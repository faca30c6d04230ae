"""A new data set at the desk: drafted from a header, checked at its cells, sent, and read once."""

from __future__ import annotations

import gzip
import io
import json
from datetime import date, timedelta
from random import Random
from typing import Any
from uuid import uuid4

import httpx
import openpyxl
import polars as pl
import pytest

from app.desk.forms import TYPICAL, looks_read_off
from tests.contract.service import ADMIN_KEY, Service, upload
from tests.desk.browsing import Browsing, Page, created, signed_in

NEW = "/desk/datasets/new"
SENTINEL = "98219471"
HEADER = b"age,is_owner,ward,born\n"
ROWS = HEADER + b"20,true,north,1980-02-03\n30,false,south,1981-02-03\n" * 20
FILLED = {
    "columns.0.lower": "0",
    "columns.0.upper": "120",
    "columns.2.type": "category",
    "columns.2.values": "north\nsouth",
    "columns.3.lower": "1900-01-01",
    "columns.3.upper": "2030-12-31",
    "epsilon": "3",
}


def _draft(browsing: Browsing, content: bytes = ROWS, name: str = "people.csv") -> Page:
    return browsing.send(browsing.open(NEW), "Draft", file=(name, content))


def _typed(browsing: Browsing, page: Page, **types: str) -> Page:
    """Return a page with the fields of types that are chosen without script, by their places."""
    filled = {f"columns.{at.removeprefix('at_')}.type": each for at, each in types.items()}
    return browsing.send(page, "Check", status=422, **filled)


def _rows(number: int = 40) -> bytes:
    """Return rows of people whom no other test has uploaded."""
    chance = Random(uuid4().int)
    born = [date(1950, 1, 1) + timedelta(chance.randrange(18_000)) for _ in range(number)]
    ages = chance.sample(range(20, 20 + number), number)
    wards = chance.choices(("north", "south"), k=number)
    rows = [f"{ages[at]},true,{wards[at]},{born[at]}\n" for at in range(number)]
    return HEADER + "".join(rows).encode()


def test_whether_the_same_people_came_before_has_to_be_answered(
    curator: Browsing, admin: httpx.Client
) -> None:
    """The answer is bound by the ledger, and public; who says yes names the account."""
    earlier = upload(admin)
    file, named = ("people.csv", _rows()), {**FILLED, "name": f"wave 2 {uuid4()}"}
    page = _draft(curator)
    assert _value(page, "same_people") == ""
    for button in ("Check", "Upload"):
        open_ = curator.send(page, button, file=file, status=422, same_people="", **named)
        assert _faults(open_).keys() == {"Same people"}
        wrong = curator.send(
            open_, button, file=file, status=422, same_people="", **{"columns.0.upper": "x"}
        )
        assert {"Same people", "age upper"} <= _faults(wrong).keys()
    second = curator.send(open_, "Upload", file=file, status=422, same_people="yes")
    assert "second budget" in _faults(second)["Same people"]
    shown = curator.send(
        second, "Upload", file=file, same_people="unknown", name=f"wave 3 {uuid4()}"
    )
    assert "does not know whether its people are in an earlier data set" in shown.text
    shared = created(curator, second, "Upload", file=file, account=earlier["account"], epsilon="")
    assert "its people may be in an earlier data set" in shared.text
    found = admin.get(f"/v1/datasets/{shared.path.rsplit('/', 1)[1]}").json()
    assert (found["same_people"], found["account"]) == ("yes", earlier["account"])


def _value(page: Page, name: str) -> str:
    return str(page.form("Upload").fields[name])


def _faults(page: Page) -> dict[str, str]:
    """Return what is wrong at each field, by the field's label."""
    found = {}
    for each in page.tree.xpath("//p[@class='fault']"):
        field = each.get("id").removesuffix("-fault")
        labels = page.tree.xpath(f"//label[@for='{field}' or .//*[@id='{field}']]")
        found[" ".join(labels[0].text_content().split()) if labels else field] = each.text
    return found


def test_the_form_has_what_a_data_set_needs(curator: Browsing, analyst: Browsing) -> None:
    page = curator.open(NEW)
    assert page.heading == "New data set"
    assert {"File", "Name", "Review", "Epsilon budget", "Adjacency", "Max rows"} <= set(
        page.labels()
    )
    buttons = [each.text for each in page.tree.xpath("//form[@data-upload]//button[not(@hidden)]")]
    assert buttons == [
        "Draft", "Copy its columns", "Import", "Check", "Upload", "Save for later",
        "Export the spec",
    ]  # fmt: skip
    for path in (NEW, f"{NEW}/draft", f"{NEW}/check"):
        assert analyst.client.post(path, files={"file": ("a.csv", ROWS)}).status_code == 403
    assert analyst.open(NEW, status=403).alerts()


@pytest.mark.parametrize("packed", [False, True])
def test_a_table_is_drafted_with_types_and_without_what_rows_hold(
    curator: Browsing, packed: bool
) -> None:
    row = f"{SENTINEL};yes;7;31.12.2020;1,5\n".encode() * 9
    content = b"age [years];is_owner;person_id;day;How tall are you?\n" + row
    page = _draft(curator, gzip.compress(content) if packed else content)
    assert _value(page, "name") == "people"
    assert _value(page, "delimiter") == ";"
    assert _value(page, "decimal") == ","
    for place in ("type", "lower", "upper", "values", "missing"):
        assert f"age [years] {place}" in page.labels()
    assert _value(page, "columns.0.type") == "integer"
    assert _value(page, "columns.0.unit_of_measure") == "years"
    assert _value(page, "columns.1.type") == "boolean"
    assert _value(page, "columns.1.true") == "yes\ny"
    assert _value(page, "columns.2.type") == "left out", "who knows better can choose a type"
    assert _value(page, "columns.3.format") == "%d.%m.%Y"
    assert _value(page, "columns.4.name") == "how_tall_are_you"
    assert _value(page, "columns.4.source") == "How tall are you?"
    assert "age: often 0 to 120 years" in page.text
    assert "person_id is left out" in page.text
    assert "never from the rows" in page.text
    assert SENTINEL not in page.answer.text


def _workbook(rows: list[list[Any]]) -> bytes:
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in rows:
        book.active.append(row)
    book.save(file)
    return file.getvalue()


def test_an_excel_workbook_is_drafted_and_taken_in(curator: Browsing) -> None:
    chance = Random(uuid4().int)
    rows: list[list[Any]] = [["age", "ward"]]
    rows += [[chance.randrange(10**6), chance.choice(("north", "south"))] for _ in range(40)]
    sheet = _workbook(rows)
    page = _draft(curator, sheet, "people.xlsx")
    assert _value(page, "columns.0.type") == "integer"
    assert _value(page, "columns.1.type") == "category"
    filled = {
        "columns.0.lower": "0", "columns.0.upper": "1000000", "columns.1.values": "north\nsouth",
        "epsilon": "3", "name": f"excel {uuid4()}",
    }  # fmt: skip
    made = curator.send(page, "Upload", file=("people.xlsx", sheet), **filled)
    assert "40 rows" in made.text or "40" in made.text
    assert "/desk/datasets/ds_" in str(made.answer.url)


def test_a_dictionary_fills_what_it_states(curator: Browsing) -> None:
    schema = {
        "fields": [
            {"name": "age", "type": "integer", "title": "Age", "missingValues": ["-9"],
             "constraints": {"minimum": 0, "maximum": 120}},
            {"name": "ward", "type": "string",
             "categories": [{"value": "north", "label": "The north"}, {"value": "south"}]},
        ]
    }  # fmt: skip
    dictionary = json.dumps(schema).encode()
    page = curator.send(
        curator.open(NEW), "Draft", file=("people.csv", ROWS), dictionary=dictionary
    )
    assert [_value(page, f"columns.0.{name}") for name in ("lower", "upper", "label", "na")] == [
        "0", "120", "Age", "-9",
    ]  # fmt: skip
    assert _value(page, "columns.2.values") == "north\nsouth"
    assert _value(page, "columns.2.labels") == "north = The north"
    assert _value(page, "columns.0.missing") == "keep"
    wrong = curator.send(
        curator.open(NEW), "Draft", status=422, file=("people.csv", ROWS),
        dictionary=b'<!DOCTYPE a [<!ENTITY b "c">]><codeBook>&b;</codeBook>',
    )  # fmt: skip
    assert "entities" in _faults(wrong)["Dictionary"]


def test_an_excel_dictionary_fills_what_it_states_and_names_its_sheet(curator: Browsing) -> None:
    book, file = openpyxl.Workbook(), io.BytesIO()
    book.active.append(["The survey of the wards"])
    sheet = book.create_sheet("Variables")
    for row in (
        ["Name", "Label", "Values", "Minimum", "Maximum"], ["age", "Age", None, 0, 120],
        ["ward", "Ward", "north=The north; south", None, None],
    ):  # fmt: skip
        sheet.append(row)
    book.save(file)
    page = curator.send(
        curator.open(NEW), "Draft", file=("people.csv", ROWS), dictionary=file.getvalue()
    )
    assert [_value(page, f"columns.0.{name}") for name in ("lower", "upper", "label")] == [
        "0", "120", "Age",
    ]  # fmt: skip
    assert _value(page, "columns.2.values") == "north\nsouth"
    assert _value(page, "columns.2.labels") == "north = The north"
    assert "2 sheets or tables" in page.text
    assert "read: Variables" in page.text
    wrong = curator.send(
        curator.open(NEW), "Draft", status=422, file=("people.csv", ROWS),
        dictionary=b"Notes about the survey\n",
    )  # fmt: skip
    assert "name | label | type | values" in _faults(wrong)["Dictionary"]


def test_a_dictionary_comes_before_guesses_and_after_what_was_filled_in(curator: Browsing) -> None:
    schema = {
        "fields": [
            {"name": "age", "type": "number"},
            {"name": "is_owner", "type": "string"},
            {"name": "ward", "type": "boolean", "trueValues": ["north"]},
        ]
    }
    page = _draft(curator)
    assert [_value(page, f"columns.{at}.type") for at in range(3)] == [
        "integer", "boolean", "category",
    ]  # fmt: skip
    page = _typed(curator, page, at_1="integer")
    page = curator.send(
        page, "Draft", file=("people.csv", ROWS), dictionary=json.dumps(schema).encode()
    )
    assert [_value(page, f"columns.{at}.type") for at in range(3)] == [
        "number", "integer", "boolean",
    ]  # fmt: skip
    assert _value(page, "columns.2.true") == "north"


def test_what_a_dictionary_has_said_stays_where_the_file_is_chosen_again(curator: Browsing) -> None:
    """As by who goes on with what was saved, and chooses the file; another dictionary replaces."""
    page = curator.open(NEW)
    for lower, chosen, label in ((18, True, "Age"), (18, False, "Age"), (18, False, "Age"),
                                 (20, True, "Years")):  # fmt: skip
        age = {"name": "age", "type": "integer", "title": label, "constraints": {"minimum": lower}}
        schema = json.dumps({"fields": [age], "missingValues": ["-9"]}).encode()
        sent = {"dictionary": schema} if chosen else {}
        page = curator.send(page, "Draft", file=("people.csv", ROWS), **sent)
        said = [_value(page, f"columns.0.{each}") for each in ("type", "lower", "label")]
        assert said == ["integer", str(lower), label]
        assert "-9" in _value(page, "na")
        assert _value(page, "columns.2.type") == "category", "what was guessed of others stays"


def test_codes_and_a_name_of_a_dictionary_replace_what_was_guessed(curator: Browsing) -> None:
    rows = b"age,ward\n" + b"41,north\nNA,south\n-9,north\n" * 20
    schema = json.dumps({
        "title": "People of the wards", "fields": [{"name": "age"}], "missingValues": ["NA", "-9"],
    }).encode()  # fmt: skip
    page = curator.send(curator.open(NEW), "Draft", file=("people.csv", rows))
    assert (_value(page, "na"), _value(page, "name")) == ("NA", "people")
    again = curator.send(page, "Draft", file=("people.csv", rows), dictionary=schema)
    assert _value(again, "na") == "NA\n-9"
    own = curator.send(page, "Draft", file=("people.csv", rows), dictionary=schema, na="none")
    assert _value(own, "na") == "none"


@pytest.mark.parametrize("button", ["Draft", "Upload"])
@pytest.mark.parametrize(
    ("content", "said"), [(b"%PDF-1.7 " + SENTINEL.encode(), "PDF"), (b"<html>", "HTML")]
)
def test_what_is_no_table_is_named(
    curator: Browsing, button: str, content: bytes, said: str
) -> None:
    page = curator.open(NEW) if button == "Draft" else _draft(curator)
    filled = {} if button == "Draft" else {**FILLED, "name": f"no table {uuid4()}"}
    refused = curator.send(page, button, status=422, file=("a.csv", content), **filled)
    assert said in refused.text
    assert SENTINEL not in refused.answer.text


def test_a_parquet_file_tells_its_types_and_none_of_its_rows(curator: Browsing) -> None:
    file = io.BytesIO()
    pl.DataFrame({"visits": [int(SENTINEL)] * 9, "ward": [SENTINEL] * 9}).write_parquet(file)
    page = _draft(curator, file.getvalue(), "visits.parquet")
    assert _value(page, "columns.0.type") == "integer"
    assert _value(page, "columns.1.type") == "category"
    assert SENTINEL not in page.answer.text


@pytest.mark.parametrize("content", [b"", b"PAR1PAR1", b"\x1f\x8b\x08broken", b"\xff\xfe\x00"])
def test_what_has_no_header_is_refused_at_the_file(curator: Browsing, content: bytes) -> None:
    page = curator.send(curator.open(NEW), "Draft", file=("a.csv", content), status=422)
    assert _faults(page).keys() == {"File"}
    nothing = curator.send(curator.open(NEW), "Draft", status=422)
    assert "is required" in _faults(nothing)["File"]


def test_drafting_again_keeps_what_was_filled_in(curator: Browsing) -> None:
    page = _draft(curator)
    filled = {"columns.2.values": "north", "name": "mine"}
    again = curator.send(page, "Draft", file=("b.csv", b"ward,height\n"), **filled)
    assert _value(again, "columns.0.values") == "north"
    assert _value(again, "name") == "mine"
    assert "height of a person" in again.text


def test_all_mistakes_are_told_at_once_at_their_cells(curator: Browsing) -> None:
    page = _draft(curator, b"lower,upper,ward\n", "name.csv")
    wrong = {
        "columns.0.lower": "5", "columns.0.upper": "4", "columns.1.lower": "much",
        "columns.2.type": "category", "columns.2.values": "a\na", "columns.0.missing": "drop",
        "name": "", "epsilon": "-1", "review": "above", "review_above": "x",
        "max_rows": "few", "max_epsilon_per_release": "0",
    }  # fmt: skip
    checked = curator.send(page, "Check", status=422, **wrong)
    faults = _faults(checked)
    assert {
        "Name", "Epsilon budget", "Review above", "Max rows", "Max epsilon per release",
        "lower lower", "upper lower", "upper upper", "ward values",
    } <= faults.keys(), faults  # fmt: skip
    assert faults["upper lower"] == "must be a number"
    assert _value(checked, "columns.1.lower") == "much"
    assert len(checked.alerts()) == 1
    listed = [each.text for each in checked.tree.xpath("//*[@role='alert']//a")]
    assert {"lower lower", "upper lower", "ward values"} <= set(listed)
    for link in checked.tree.xpath("//*[@role='alert']//a/@href"):
        assert checked.tree.xpath(f"//*[@id='{link[1:]}']"), link


def test_mistakes_are_told_in_the_words_of_the_form(curator: Browsing) -> None:
    page = curator.send(curator.open(NEW), "Check", status=422, review="above")
    assert _faults(page) == {
        "Name": "must not be empty",
        "columns": "must not be empty",
        "Epsilon budget": "is required",
        "Review above": "must be a positive decimal number",
    }
    filled = {**FILLED, "name": "wards", "columns.2.values": "north"}
    file = ("people.csv", _rows())
    (messages,) = curator.send(_draft(curator), "Upload", status=422, file=file, **filled).alerts()
    assert "Each kind of fault once." in messages
    assert "`" not in messages


def test_mistakes_of_form_and_of_rules_come_together(curator: Browsing) -> None:
    page = _draft(curator)
    wrong = {
        **FILLED, "name": "", "epsilon": "x", "columns.0.missing": "drop",
        "unit_column": "ward", "unit_max_rows": "2", "columns.3.lower": "1900",
    }  # fmt: skip
    checked = curator.send(page, "Check", status=422, **wrong)
    assert {"Name", "Epsilon budget", "age missing", "born lower"} <= _faults(checked).keys()
    sound = {"columns.3.lower": "1900-01-01"}
    sent = curator.send(checked, "Upload", status=422, **sound)
    faults = {"Name", "Epsilon budget", "age missing", "Person identifier", "File"}
    assert faults <= _faults(sent).keys(), "what people are messages by needs sound columns"


def test_a_number_that_is_too_large_is_told_at_its_cell_beside_all_else(curator: Browsing) -> None:
    page = _draft(curator)
    wrong = {
        **FILLED, "name": "", "columns.0.upper": "1e999", "columns.0.missing": "-1e999",
        "columns.0.typical": "mean 1e999\nstd 1", "columns.1.typical": "1e999", "max_rows": "1e999",
    }  # fmt: skip
    checked = curator.send(page, "Check", status=422, **wrong)
    at = {"Name", "age upper", "age missing", "age typical", "is_owner typical", "Max rows"}
    assert _faults(checked).keys() == at


TYPICAL_OF = {
    "columns.0.typical": "mean 40\nstd: 12.5",
    "columns.2.typical": "north = 0.3\nsouth 2",
}


def test_what_is_typical_is_stated_for_synthetic_rows(
    admin: httpx.Client, curator: Browsing
) -> None:
    name = f"people {uuid4()}"
    page = _draft(curator)
    filled = {**FILLED, **TYPICAL_OF, "name": name}
    shown = created(curator, page, "Upload", file=("people.csv", _rows()), **filled)
    columns = admin.get(f"/v1/{shown.path.removeprefix('/desk/')}").json()["columns"]
    assert columns["age"]["typical"] == {"mean": 40, "std": 12.5}
    assert columns["ward"]["typical"] == {"north": 0.3, "south": 2}
    assert "typical: mean 40, std 12.5" in shown.text


def test_what_cannot_be_typical_is_told_at_its_cell(curator: Browsing) -> None:
    page = _draft(curator)
    wrong = {**FILLED, "columns.0.typical": "mean 4000\nstd 1", "columns.2.typical": "nowhere"}
    checked = curator.send(page, "Check", status=422, **wrong)
    assert {"age typical", "ward typical"} <= _faults(checked).keys()
    assert _value(checked, "columns.2.typical") == "nowhere"
    half = curator.send(checked, "Check", status=422, **{"columns.0.typical": "mean 40"})
    assert _faults(half)["age typical"] == "'std': is required"
    sent = curator.send(checked, "Upload", status=422, file=("people.csv", _rows()))
    assert _faults(sent) == _faults(checked), "the same, at the same cells"


def test_a_declaration_without_mistakes_is_said_to_be_one(curator: Browsing) -> None:
    page = _draft(curator)
    checked = curator.send(
        page, "Check", **{**FILLED, "columns.0.type": "number", "columns.0.upper": "97.31"}
    )
    assert "Nothing is wrong" in checked.text
    (doubt,) = checked.tree.xpath("//p[@class='doubt']")
    assert doubt.get("id").startswith("columns.0.upper")
    assert not checked.alerts()


def test_bounds_that_are_typical_do_not_look_read_off() -> None:
    for each in TYPICAL:
        assert not looks_read_off(each.lower)
        assert not looks_read_off(each.upper)


def test_an_upload_shows_once_how_the_file_was_read(
    admin: httpx.Client, curator: Browsing, chief: Browsing
) -> None:
    name = f"people {uuid4()}"
    page = _draft(curator)
    filled = {**FILLED, "name": name, "columns.0.upper": "30", "columns.0.unit_of_measure": "years"}
    file = ("people.csv", _rows())
    shown = created(curator, page, "Upload", file=file, **filled)
    assert shown.heading == name
    assert shown.path.startswith("/desk/datasets/ds_")
    assert "How the file was read" in shown.text
    (row,) = shown.tree.xpath("//section[@aria-labelledby='report']//tr[td='age']")
    assert [each.text for each in row.xpath("td")] == ["age", "40", "0", "0", "0", "29", "0", "0"]
    assert "lie outside the bounds" in shown.text
    for again in (curator.open(shown.path), chief.open(shown.path)):
        assert "How the file was read" not in again.text
    facts = admin.get(f"/v1/{shown.path.removeprefix('/desk/')}").json()
    assert facts["columns"]["age"]["unit_of_measure"] == "years"
    assert facts["columns"]["ward"]["values"] == ["north", "south"]
    assert facts["budget"]["epsilon"]["total"] == "3"
    # a double click: it is there once, and the second answer leads to it
    second = curator.send(page, "Upload", file=file, **filled)
    assert second.path == shown.path


def test_a_report_is_for_who_has_sent_the_file(curator: Browsing, chief: Browsing) -> None:
    filled = {**FILLED, "name": f"people {uuid4()}"}
    page = curator.send(_draft(curator), "Upload", file=("people.csv", _rows()), **filled)
    form = page.form("Create data set")
    sent = curator.client.post(form.action, data=dict(form.form_values()), follow_redirects=False)
    there = sent.headers["location"]
    said = sent.headers["set-cookie"].lower().split("; ")
    assert {"httponly", "samesite=strict", f"path={there.partition('?')[0]}"} <= set(said)
    carried = {name: text for name, text in sent.cookies.items() if "report" in name}
    for other in ({name: _other(text) for name, text in carried.items()}, {}):
        assert "How the file was read" not in _with(curator, there, other)
    assert "How the file was read" not in _with(chief, there, carried), "it is another session's"
    assert "How the file was read" in curator.open(there).text
    assert "How the file was read" not in curator.open(there).text


def _other(text: str) -> str:
    return f"{'B' if text[0] == 'A' else 'A'}{text[1:]}"


def _with(browsing: Browsing, path: str, cookies: dict[str, str]) -> str:
    """Return a page as a browser with other cookies next to its session sees it."""
    jar = browsing.client.cookies.jar
    session = {each.name: each.value or "" for each in jar if each.path == "/"}
    with httpx.Client(base_url=browsing.client.base_url, cookies={**session, **cookies}) as client:
        answer = client.get(path)
    assert answer.status_code == 200
    return answer.text


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_everything_that_can_be_declared_arrives(
    admin: httpx.Client, curator: Browsing, adjacency: str
) -> None:
    rows = b'"Who\nis it?";x [m];y;t\n' + b"".join(b"%03d;1,5;NA;a\n" % at for at in range(20))
    person = {"column": "Who\nis it?", "max_rows": 2, "id": "text", "decimal": ","}
    asked = {"unit_column": "Who\nis it?", "unit_max_rows": "2", "unit_id": "text"}
    people = asked if adjacency == "add_remove" else {}
    filled = {
        "name": f"all {uuid4()}", "description": "Of one town.", "adjacency": adjacency,
        "max_rows": "100", "epsilon": "2", "delta": "0.000001", "review": "above",
        "review_above": "0.5", "reviewers": "2",
        "max_epsilon_per_release": "1", "allowed": ["mean", "count"],
        "decimal": ",", "thousands": ".", "na": "NA\n-99", **people,
        "columns.0.type": "left out", "columns.1.lower": "0", "columns.1.upper": "10",
        "columns.1.label": "height", "columns.2.lower": "0", "columns.2.upper": "1",
        "columns.2.missing": "0", "columns.3.type": "category", "columns.3.values": "a\nb",
    }  # fmt: skip
    page = _draft(curator, rows)
    shown = created(curator, page, "Upload", file=("a.csv", rows), **filled)
    facts: dict[str, Any] = admin.get(f"/v1/{shown.path.removeprefix('/desk/')}").json()
    assert facts["description"] == "Of one town."
    assert facts["adjacency"] == adjacency
    assert facts["max_rows"] == 100
    assert facts["budget"]["delta"] == "0.000001"
    assert facts["policy"] | {
        "review": "above:0.5", "reviewers": 2,
        "max_epsilon_per_release": "1", "allowed": ["mean", "count"],
    } == facts["policy"]  # fmt: skip
    assert facts["unit"] == ({**person, "na": facts["unit"]["na"]} if people else None)
    assert facts["columns"].keys() == {"x [m]", "y", "t"}
    assert facts["columns"]["x [m]"]["label"] == "height"
    row = shown.tree.xpath("//section[@aria-labelledby='report']//tr[td='y']/td")
    assert [each.text for each in row][1:3] == ["0", "20"]


def test_cells_are_on_no_page_whatever_is_wrong_with_them(
    service: Service, admin: httpx.Client, curator: Browsing
) -> None:
    own = uuid4().int  # so many rows of their own are none that another test has sent
    ages = [f"{(own + 7 * at) % 99991 / 1000}" for at in range(300)]
    rows = b"age,ward\n" + f"{SENTINEL},{SENTINEL}\n".encode() * 2
    rows += "".join(f"{age},x{SENTINEL}\n" for age in ages).encode()
    page = _draft(curator, rows)
    filled = {
        "name": f"cells {uuid4()}", "columns.0.lower": "0", "columns.0.upper": "100",
        "columns.1.type": "category", "columns.1.values": "a\nb", "epsilon": "1",
    }  # fmt: skip
    refused = curator.send(page, "Upload", file=("a.csv", rows), status=422, **filled)
    cells = refused.tree.xpath("//*[@role='alert']//tbody/tr[1]/td")
    messages = ["not one of the declared values", "ward", "302", "1, 2, 3, 4, 5"]
    assert [each.text for each in cells] == messages
    assert SENTINEL not in refused.answer.text
    # clamped, it is taken in, and no page tells
    good = {**filled, "columns.1.type": "left out"}
    shown = created(curator, refused, "Upload", file=("a.csv", rows), **good)
    for path in (shown.path, "/desk/datasets", "/desk", "/desk/releases"):
        assert SENTINEL not in curator.open(path).answer.text
    assert SENTINEL not in shown.answer.text


def test_a_name_that_is_taken_is_refused_at_the_name(
    admin: httpx.Client, curator: Browsing
) -> None:
    name = upload(admin)["name"]
    page = _draft(curator)
    refused = curator.send(
        page, "Upload", file=("a.csv", ROWS), status=409, **{**FILLED, "name": name}
    )
    assert "Name" in _faults(refused)
    kept = created(curator, refused, "Upload", file=("a.csv", _rows()), name=f"x {uuid4()}")
    assert kept.path.startswith("/desk/datasets/ds_")


def test_an_upload_without_its_file_says_so(curator: Browsing) -> None:
    page = _draft(curator)
    refused = curator.send(page, "Upload", status=422, **{**FILLED, "name": f"x {uuid4()}"})
    assert "is required" in _faults(refused)["File"]


def test_hostile_headers_are_text(curator: Browsing) -> None:
    hostile = '<script>alert(1)</script>{{ 7*7 }}"><img src=x onerror=y>'
    quoted = '"' + hostile.replace('"', '""') + '",age\n'
    page = _draft(curator, quoted.encode(), '"><script>.csv')
    assert "script_alert_1_script_7_7_img_src_x lower" in page.labels()
    assert _value(page, "columns.0.source") == hostile
    assert not page.tree.xpath("//main//script|//main//img|//@onerror")
    checked = curator.send(page, "Check", status=422)
    assert not checked.tree.xpath("//main//script|//main//img|//@onerror")


def test_another_site_cannot_upload(curator: Browsing) -> None:
    for path in (NEW, f"{NEW}/draft", f"{NEW}/check"):
        sent = curator.client.post(
            path, files={"file": ("a.csv", ROWS)}, headers={"Sec-Fetch-Site": "cross-site"}
        )
        assert sent.status_code == 403
        assert curator.client.post(path, data={"name": "x"}).status_code == 415


def test_only_an_admin_says_that_people_are_others(service: Service, curator: Browsing) -> None:
    assert "Other people" not in curator.open(NEW).labels()
    with signed_in(service, ADMIN_KEY) as chief:
        assert "Other people" in chief.open(NEW).labels()
    page = _draft(curator)
    fields = dict(page.form("Upload").form_values()) | FILLED
    sent = curator.client.post(
        NEW, data={**fields, "name": f"x {uuid4()}", "overlap": "mine", "same_people": "no"},
        files={"file": ("a.csv", ROWS)},
    )  # fmt: skip
    assert sent.status_code == 403


def test_one_row_of_each_person_is_made_as_the_form_says(
    admin: httpx.Client, curator: Browsing
) -> None:
    rows = b"who,spend,visits,own\n" + b"".join(b"%d,%d.5,1,yes\n" % (n // 2, n) for n in range(60))
    page = _typed(curator, _draft(curator, b"who,spend,own\n"), at_2="boolean")
    assert "One row per person" in page.labels()
    filled = {
        "name": f"reduced {uuid4()}", "adjacency": "add_remove", "max_rows": "100", "epsilon": "1",
        "unit_column": "who", "unit_reduce": "spend = sum\r\nown: last", "same_people": "no",
        "columns.0.type": "left out", "columns.1.lower": "0", "columns.1.upper": "200",
        "columns.2.type": "boolean", "columns.2.true": "yes", "columns.2.false": "no",
    }  # fmt: skip
    for lines, wrong in (
        ("spend = sum\nvisits = count", '"visits" is none of the columns'),
        ("own = mean", '"mean" is not offered for own, a boolean'),
        ("spend = median", "sum"),
        ("spend", "sum"),
    ):
        messages = _faults(
            curator.send(page, "Check", status=422, **{**filled, "unit_reduce": lines})
        )
        assert messages.keys() == {"One row per person"}
        assert wrong in messages["One row per person"]
    shown = created(curator, page, "Upload", file=("a.csv", rows), **filled)
    facts: dict[str, Any] = admin.get(f"/v1/{shown.path.removeprefix('/desk/')}").json()
    assert facts["unit"]["reduce"] == {"spend": "sum", "own": "last"}
    assert facts["unit"]["max_rows"] is None


def test_how_cells_are_written_is_declared_by_column(
    admin: httpx.Client, curator: Browsing
) -> None:
    head = b"age,is_owner,ward,when\n"
    page = _typed(curator, _draft(curator, head), at_1="boolean", at_2="category", at_3="datetime")
    named = {"one_field": "source", "one_value": "Alter", "columns.0.chosen": "yes"}
    page = curator.send(page, "Set in all chosen", **named)
    for name, place in (("ward", "labels"), ("ward", "trim"), ("is_owner", "true"),
                        ("when", "format"), ("when", "timezone"), ("age", "source")):  # fmt: skip
        assert f"{name} {place}" in page.labels()
    chance = Random(uuid4().int)
    lines = [
        f"{chance.uniform(20, 90):.3f};{chance.choice(('JA', 'nein'))};{chance.choice('12')}.0;"
        f"{chance.randrange(1, 29)}.03.2024 {chance.randrange(24):02}:00"
        for _ in range(40)
    ]
    rows = "Zürich, a report\nAlter (Jahre);is_owner;ward;when\n" + "\n".join(lines)
    filled = {
        "columns.0.lower": "0", "columns.0.upper": "120", "columns.0.source": "Alter (Jahre)",
        "columns.1.true": "ja\r\nj", "columns.1.false": "nein",
        "columns.2.type": "category", "columns.2.values": "1\n2", "columns.2.trim": "no",
        "columns.2.labels": "1 = north\n2: far south",
        "columns.3.type": "datetime", "columns.3.lower": "2024-01-01",
        "columns.3.upper": "2024-12-31", "columns.3.format": "%d.%m.%Y %H:%M",
        "columns.3.timezone": "Europe/Zurich", "epsilon": "1", "delimiter": ";",
        "encoding": "windows-1252", "skip_rows": "1", "name": f"written {uuid4()}",
    }  # fmt: skip
    shown = created(curator, page, file=("a.csv", rows.encode("cp1252")), **filled)
    facts: dict[str, Any] = admin.get(f"/v1/{shown.path.removeprefix('/desk/')}").json()
    columns = facts["columns"]
    assert columns["age"]["source"] == "Alter (Jahre)"
    assert (columns["is_owner"]["true"], columns["is_owner"]["false"]) == (["ja", "j"], ["nein"])
    assert columns["ward"]["labels"] == {"1": "north", "2": "far south"}
    assert columns["ward"]["trim"] is False
    assert columns["when"]["format"] == "%d.%m.%Y %H:%M"
    assert columns["when"]["lower"] == "2023-12-31T23:00:00Z"
    filled |= {"columns.3.format": "%d.%m", "columns.2.labels": "3 = west"}
    messages = _faults(curator.send(page, "Check", status=422, **{**filled, "skip_rows": "x"}))
    assert messages.keys() >= {"Skip rows"}
    messages = _faults(curator.send(page, "Check", status=422, **filled))
    assert messages.keys() == {"when format", "ward labels"}


def test_what_values_are_within_is_declared_by_a_name_and_lines(
    admin: httpx.Client, curator: Browsing
) -> None:
    page = _typed(curator, _draft(curator, b"town,age\n"), at_0="category")
    assert {"town within", "town of"} <= set(page.labels())
    rows = "town,age\n" + "a,1\nb,2\nc,3\n" * 9
    filled = {
        "columns.0.type": "category", "columns.0.values": "a\nb\nc", "columns.0.within": "region",
        "columns.0.of": "a = north\nb: far south\nc far south",
        "columns.1.type": "integer", "columns.1.lower": "0", "columns.1.upper": "9",
        "epsilon": "1", "name": f"within {uuid4()}",
    }  # fmt: skip
    refused = curator.send(page, "Check", status=422, **{**filled, "columns.0.of": "a = north"})
    assert _faults(refused).keys() == {"town of"}
    refused = curator.send(page, "Check", status=422, **{**filled, "columns.0.within": "age"})
    assert _faults(refused).keys() == {"town within"}
    read = {"columns.1.name": "region", "columns.1.type": "category"}
    read |= {"columns.1.values": "north\nfar south", "columns.1.missing": "north"}
    refused = curator.send(page, "Check", status=422, **{**filled, **read})
    assert _faults(refused).keys() == {"region missing"}
    curator.send(page, "Check", **{**filled, **read, "columns.1.missing": "keep"})
    shown = created(curator, page, file=("a.csv", rows.encode()), **filled)
    assert "within region" in shown.text
    facts: dict[str, Any] = admin.get(f"/v1/{shown.path.removeprefix('/desk/')}").json()
    assert facts["columns"]["town"]["within"]["of"] == {
        "a": "north", "b": "far south", "c": "far south",
    }  # fmt: skip
    assert facts["columns"]["region"]["values"] == ["north", "far south"]
