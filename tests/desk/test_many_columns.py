"""Many columns of a new data set: set at once, filled down, copied, imported, checked, exported."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.desk.declaring import (
    PLACES,
    READING,
    form_of,
    spec_of,
    with_columns,
    with_own_signs,
)
from app.desk.forms import EMPTY, Faults, Form
from app.domain.columns import Reading
from app.domain.problems import Problem
from tests.contract.service import upload
from tests.desk.browsing import Browsing, Page
from tests.tiers import in_one

NEW = "/desk/datasets/new"
HEADER = b"age,height,weight,ward\n"
ROWS = HEADER + b"20,170,70,north\n30,180,80,south\n" * 20
SPEC: dict[str, Any] = {
    "name": "people",
    "description": "One row a person.",
    "adjacency": "add_remove",
    "columns": {
        "age": {"type": "integer", "lower": 0, "upper": 120, "typical": {"mean": 40, "std": 12.5}},
        "ward": {
            "type": "category", "values": ["north", "south"], "labels": {"north": "N"},
            "within": {"column": "side", "of": {"north": "up", "south": "down"}}, "trim": False,
            "typical": {"north": 0.3}, "missing": "keep",
        },
        "when": {
            "type": "date", "lower": "2000-01-01", "upper": "2020-12-31", "format": ["%d.%m.%Y"],
            "source": "Day of visit", "unreadable": "missing",
        },
        "pay": {
            "type": "number", "lower": 0, "upper": 9000, "decimal": ".", "thousands": " ",
            "bare_number": False,
        },
        "rent": {"type": "number", "lower": 0, "upper": 900, "decimal": ".", "thousands": None},
        "job": {"type": "category", "values": ["a", "b"], "other": "b"},
        "own": {"type": "boolean", "true": ["ja"], "false": ["nein"], "typical": 0.5},
    },
    "derive": {"half": "age / 2", "rest": {"expr": "age - 20", "lower": 0, "upper": 50}},
    "budget": {"epsilon": "3", "delta": "0.000001"},
    "policy": {
        "review": "above:0.5", "max_epsilon_per_release": "1", "allowed": ["count", "mean"],
        "reviewers": 2,
    },
    "max_rows": 1000,
    "unit": {"column": "id", "max_rows": 3, "id": "text", "reduce": {"age": "max"}},
    "overlap": {"reason": "other people"},
    "design": {
        "weight": "pay", "strata": "ward", "replicates": ["rent", "half", "a*b"], "scale": 0.125,
        "rscales": [0.5, 1, 0.75],
    },
    "delimiter": ";", "encoding": "windows-1252", "decimal": ",", "thousands": ".",
    "skip_rows": 2, "same_people": "no", "na": ["NA", "-99"],
}  # fmt: skip


def _drafted(curator: Browsing) -> Page:
    return curator.send(curator.open(NEW), "Draft", file=("people.csv", ROWS))


def _values(page: Page, field: str) -> list[str]:
    fields = page.form("Upload").fields
    return [str(fields[f"columns.{at}.{field}"]) for at in range(4)]


def test_a_spec_comes_back_from_the_form_as_it_was() -> None:
    """Whatever a spec may say the form has a field for."""
    assert spec_of(form_of(SPEC, EMPTY)) == SPEC
    said = {member for column in SPEC["columns"].values() for member in column}
    said |= {"of", "label", "timezone", "unit_of_measure", "na"}  # elsewhere
    assert said == {*PLACES, *READING}
    assert {each.name for each in fields(Reading)} <= {*READING}, "what a file's cells may say"


@in_one("name", sorted(SPEC.keys() - {"columns", "policy"}))
def test_a_spec_without_one_of_its_members_comes_back(name: str) -> None:
    left = {key: value for key, value in SPEC.items() if key != name}
    filled = {"name": "", "description": "", "adjacency": ""}
    assert spec_of(form_of(left, EMPTY)) == {
        **{k: v for k, v in filled.items() if k == name},
        **left,
    }


@pytest.mark.parametrize(
    ("spec", "said"),
    [({}, "must have columns"), ({"columns": {"a": 1}}, "must have columns"),
     ({"columns": [], "name": "x"}, "must have columns"), ({**SPEC, "colour": 1}, "colour")],
)  # fmt: skip
def test_what_is_no_spec_is_refused(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(Problem) as refused:
        form_of(spec, EMPTY)
    ((field, message),) = Faults(refused.value).all
    assert field == "spec"
    assert said in message


_OBJECTS = (
    "", "columns.ward", "columns.ward.within", "derive.rest", "budget", "policy", "unit", "overlap",
    "design",
)  # fmt: skip


def _with(place: str, change: Callable[[dict[str, Any], str], None], name: str) -> dict[str, Any]:
    """Return the spec with one object changed: the one at a place."""
    spec: dict[str, Any] = json.loads(json.dumps(SPEC))
    found = spec
    for each in filter(None, place.split(".")):
        found = found[each]
    change(found, name)
    return spec


def _add(members: dict[str, Any], name: str) -> None:
    members[name] = 1


@pytest.mark.parametrize("place", _OBJECTS)
def test_an_import_loses_no_member_that_has_no_field(place: str) -> None:
    """It is refused by its place, whichever object it is in."""
    with pytest.raises(Problem) as refused:
        form_of(_with(place, _add, "colour"), EMPTY)
    ((field, message),) = Faults(refused.value).all
    assert field == "spec"
    assert message == f"has what the form has no field for: {f'{place}.colour'.lstrip('.')}"


@in_one("odd", [None, 5, 0.5, True, "odd", [], ["a"], [["a"]], {}, {"a": 1}, {"expr": 2}])
def test_an_import_of_odd_values_fails_nowhere(odd: Any) -> None:
    """It is refused, or fills the form with what the upload will refuse."""

    def put(members: dict[str, Any], name: str) -> None:
        members[name] = odd

    for place in _OBJECTS:
        found: Any = SPEC
        for each in filter(None, place.split(".")):
            found = found[each]
        for name in found:
            with suppress(Problem):
                spec_of(form_of(_with(place, put, name), EMPTY))


def test_one_field_of_chosen_columns_is_set_and_filled_down(curator: Browsing) -> None:
    page = _drafted(curator)
    chosen = {"columns.1.chosen": "yes", "columns.2.chosen": "yes"}
    filled = curator.send(page, "Set in all chosen", one_field="label", one_value="keep", **chosen)
    assert _values(filled, "label") == ["", "keep", "keep", ""]
    assert "The table is filled in." in filled.text
    every = curator.send(page, "Set in all chosen", one_field="label", one_value="keep")
    assert _values(every, "label") == ["keep"] * 4
    down = curator.send(
        every, "Fill down", one_field="upper",
        **{"columns.0.upper": "250", "columns.1.upper": "300"},
    )  # fmt: skip
    assert _values(down, "upper") == ["250", "300", "250", "250"], "what is filled in stays"
    types = curator.send(every, "Fill down", one_field="type", **{"columns.0.type": "number"})
    assert _values(types, "type") == ["number"] * 4


def test_columns_are_copied_from_an_earlier_data_set(
    curator: Browsing, admin: httpx.Client
) -> None:
    columns = {
        "income": {"type": "number", "lower": 0, "upper": 100, "unit_of_measure": "EUR"},
        "ward": {"type": "category", "values": ["north", "south"], "labels": {"north": "N"}},
    }
    rows = "income,ward\n" + "5,north\n" * 30
    earlier = upload(admin, rows=rows, columns=columns, name=f"earlier {uuid4()}")
    copied = curator.send(_drafted(curator), "Copy its columns", copied=str(earlier["id"]))
    assert _values(copied, "values")[3] == "north\nsouth"
    assert copied.form("Upload").fields["columns.3.labels"] == "north = N"
    assert _values(copied, "type")[:3] == ["integer"] * 3, "columns of other names stay"
    whole = curator.send(curator.open(NEW), "Copy its columns", copied=str(earlier["id"]))
    assert whole.form("Upload").fields["columns.0.unit_of_measure"] == "EUR"
    lacking = b"age,height\n" + b"20,170\n" * 20
    page = curator.send(curator.open(NEW), "Draft", file=("people.csv", lacking))
    added = curator.send(page, "Copy its columns", copied=str(earlier["id"]))
    names = [str(added.form("Upload").fields[f"columns.{at}.name"]) for at in range(4)]
    assert names == ["age", "height", "income", "ward"], "none is lost that the draft left out"
    refused = curator.send(_drafted(curator), "Copy its columns", status=422, copied="")
    assert "Earlier data set: is required" in refused.alerts()[0]


def test_people_bounds_and_derived_columns_are_copied_too(
    curator: Browsing, admin: httpx.Client
) -> None:
    earlier = upload(
        admin, name=f"panel {uuid4()}", adjacency="add_remove", max_rows=500,
        rows="who,age\n" + "".join(f"panel{n // 2},{60 + n}\n" for n in range(60)),
        columns={"age": {"type": "integer", "lower": 0, "upper": 120}},
        unit={"column": "who", "max_rows": 2}, derive={"half": "age / 2"},
    )  # fmt: skip
    page = curator.open(NEW)
    copied = curator.send(page, "Copy its columns", copied=str(earlier["id"]), unit_max_rows="9")
    fields = copied.form("Upload").fields
    said = {name: str(fields[name]) for name in ("adjacency", "max_rows", "unit_column", "derive")}
    assert said == {
        "adjacency": "add_remove", "max_rows": "500", "unit_column": "who",
        "derive": "half = age/2 from 0 to 60",
    }  # fmt: skip
    assert str(fields["unit_max_rows"]) == "9", "what is filled in stays"
    assert str(fields["account"]) == str(fields["epsilon"]) == "", "a budget is not copied"


def test_copied_numbers_are_read_as_they_were_whatever_the_next_file_uses() -> None:
    """Points of an earlier file are no thousands separators, though this one's are."""
    plain = {"type": "number", "lower": 0, "upper": 9}
    spelt = {**plain, "decimal": ",", "thousands": "."}
    form = Form([("decimal", ","), ("thousands", ".")])
    earlier = {"plain": plain, "spelt": spelt, "own": {"type": "boolean"}}
    copied = spec_of(with_columns(form, with_own_signs(earlier, form)))["columns"]
    assert copied == {
        "plain": {**plain, "decimal": ".", "thousands": None},
        "spelt": plain,
        "own": {"type": "boolean"},
    }


def test_a_spec_is_imported_and_exported(curator: Browsing) -> None:
    page = curator.send(curator.open(NEW), "Import", spec=json.dumps(SPEC))
    form = page.form("Upload")
    assert form.fields["columns.1.of"] == "north = up\nsouth = down"
    fields = {name: value for name, value in form.form_values() if name != "allowed"}
    answer = curator.client.post(
        f"{NEW}/columns",
        data={**fields, "allowed": ["count", "mean"], "change": "export"},
        files={"file": ("", b"")},
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == 'attachment; filename="spec.json"'
    assert answer.json() == {k: v for k, v in SPEC.items() if k != "overlap"}, "an admin's field"
    for wrong in ("", "[1]", "{", "[" * 100_000):
        refused = curator.send(curator.open(NEW), "Import", status=422, spec=wrong)
        assert "Spec as JSON: " in refused.alerts()[0]


def test_check_reads_the_file_as_an_upload_does_and_stores_nothing(
    curator: Browsing, admin: httpx.Client
) -> None:
    bounds = {f"columns.{at}.{end}": to for at in range(3)
              for end, to in (("lower", "0"), ("upper", "75"))}  # fmt: skip
    ward = {"columns.3.type": "category", "columns.3.values": "north\nsouth"}
    filled = {**bounds, **ward, "epsilon": "1", "name": f"checked {uuid4()}"}
    before = admin.get("/v1/datasets").json()["items"]
    page = _drafted(curator)
    alone = curator.send(page, "Check", **filled)
    assert "Nothing is wrong with the declaration." in alone.text
    checked = curator.send(page, "Check", file=("people.csv", ROWS), **filled)
    assert "Nothing is wrong with the declaration and the file. Nothing is stored." in checked.text
    uploaded = curator.send(page, "Upload", file=("people.csv", ROWS), **filled)

    def read(shown: Page) -> list[str]:
        tables = shown.tree.xpath("//table[.//th[.='Above upper bound (clamped)']]")
        return " ".join(tables[0].text_content().split()).split(" ")

    assert read(checked) == read(uploaded)
    curator.send(uploaded, "Discard upload")
    page = _drafted(curator)
    page = _drafted(curator)
    wrong = ("people.csv", ROWS + b"1,2,3,west\n")
    said = [
        curator.send(page, button, status=422, file=wrong, **filled).alerts()
        for button in ("Check", "Upload")
    ]
    assert said[0] == said[1]
    assert "41" in said[0][0]
    assert admin.get("/v1/datasets").json()["items"] == before


def test_a_page_of_many_columns_stays_small(curator: Browsing) -> None:
    names = ",".join(f"item_{at}" for at in range(25))
    rows = f"{names}\n{','.join(['1'] * 25)}\n".encode()
    page = curator.send(curator.open(NEW), "Draft", file=("items.csv", rows))
    assert len(page.answer.content) < 60_000


def test_what_few_columns_need_is_folded_unless_it_is_wrong(curator: Browsing) -> None:
    """Without script, too; the end of a row says what is filled in."""
    page = curator.send(curator.open(NEW), "Draft", file=("days.csv", b"day,n\n1.2.2024,4\n"))
    said = [" ".join(each.text_content().split()) for each in page.tree.xpath("//tbody//summary")]
    assert said == ["day more format %d.%m.%Y", "n more"]
    assert not page.tree.xpath("//details[@open]//*[@name='columns.0.format']")
    fields = {"columns.1.typical": "mean 1e999\nstd 1", "name": "days of few"}
    wrong = curator.send(page, "Check", status=422, **fields)
    assert wrong.tree.xpath("//details[@open]//*[@name='columns.1.typical'][@aria-invalid]")


def test_how_years_of_two_digits_are_read_is_said_before_the_upload(curator: Browsing) -> None:
    rows = b"born,n\n" + b"1.2.55,4\n3.4.71,5\n" * 20
    page = curator.send(curator.open(NEW), "Draft", file=("born.csv", rows))
    assert "its years of two digits are read as 1970 to 2069" in page.text
    assert "some of its dates are then in the future" in page.text
    (field,) = page.tree.xpath("//details[@open]//textarea[@name='columns.0.format']")
    assert "columns.0.format-help" in field.get("aria-describedby")
    (said,) = page.tree.xpath("//*[@id='columns.0.format-help']")
    assert "55 is 2055" in said.text_content()
    filled = {
        "columns.0.lower": "1900-01-01", "columns.0.upper": "2020-12-31", "columns.1.lower": "0",
        "columns.1.upper": "10", "epsilon": "1", "name": f"born {uuid4()}",
    }  # fmt: skip
    checked = curator.send(page, "Check", file=("born.csv", rows), **filled)
    assert "There are notes at some fields of the table." in checked.text
    assert "20 dates are in the future" in checked.text
