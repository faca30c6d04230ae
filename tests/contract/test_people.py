"""One person with several rows, over HTTP: who is protected, what is kept, and what it costs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx
import pytest

from tests.contract.service import ask, assert_problem, send_upload, settled, spec, spent, upload
from tests.contract.test_releases import STATISTICS

COLUMNS = {
    "income": {"type": "number", "lower": 0, "upper": 100},
    "food": {"type": "number", "lower": 0, "upper": 50},
    "region": {"type": "category", "values": ["north", "south"]},
    "owner": {"type": "boolean"},
}
UNIT = {"column": "person", "max_rows": 3}
PEOPLE = [person * person % 17 for person in range(60)]
ROOM: dict[str, Any] = {
    "adjacency": "add_remove",
    "max_rows": 1000,
    "columns": COLUMNS,
    "budget": {"epsilon": "1000000"},
}


def file_of(tag: str) -> str:
    """A file whose people and rows are not those of another tag."""
    shift = sum(map(ord, tag)) / 1000
    lines = [
        f"{tag}{person},{row % 97 + shift},{row % 41},{('north', 'south')[row % 2]},{row % 3 // 2}"
        for row, person in enumerate(PEOPLE)
    ]
    return "\n".join(["person,income,food,region,owner", *lines, ""])


@pytest.fixture(scope="module")
def dataset(curator: httpx.Client) -> dict[str, Any]:
    return upload(curator, file_of("fixture"), unit=UNIT, **ROOM)


def preview(client: httpx.Client, dataset: str, statistic: Any, **more: Any) -> dict[str, Any]:
    body = {"statistic": statistic, "epsilon": "0.5", **more}
    answer = client.post(f"/v1/datasets/{dataset}/previews", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_data_set_says_who_a_person_is(curator: httpx.Client, dataset: dict[str, Any]) -> None:
    assert dataset["unit"] == UNIT
    assert dataset["protects"] == "one person, up to 3 rows"
    assert dataset["rows"] is None
    assert "person" not in dataset["columns"]
    shown = {name: reported for name, reported in dataset.items() if name != "report"}
    assert curator.get(f"/v1/datasets/{dataset['id']}").json() == shown
    plain = upload(curator)
    assert (plain["unit"], plain["protects"]) == (None, "one row is one person")


OF_INDEPENDENT_ROWS = {"test"}
PERSONAL = [each for each in STATISTICS if each["kind"] not in OF_INDEPENDENT_ROWS]


@pytest.mark.parametrize("statistic", PERSONAL, ids=lambda body: f"{body['kind']}")
def test_every_statistic_is_drawn_at_a_share_and_costs_epsilon(
    curator: httpx.Client, dataset: dict[str, Any], statistic: Any
) -> None:
    name, before = dataset["id"], spent(curator, dataset["id"])
    shown = preview(curator, name, statistic)
    body = settled(curator, ask(curator, name, statistic, epsilon="0.5")).json()
    for reported in (shown["guarantee"], body["guarantee"]):
        assert reported["protects"] == "one person, up to 3 rows"
        assert reported["epsilon"] == "0.5"
    assert shown["cost"] == "0.5"
    assert "(add_remove, one person, up to 3 rows)" in body["citation"]
    assert body["details"]["epsilon_per_row"] == "1/6"
    assert float(spent(curator, name)) - float(before) == pytest.approx(0.5)


def test_without_a_unit_one_row_is_one_person(curator: httpx.Client) -> None:
    name = upload(curator)["id"]
    mean = {"kind": "mean", "columns": ["income"]}
    body = ask(curator, name, mean).json()
    for reported in (preview(curator, name, mean)["guarantee"], body["guarantee"]):
        assert reported["protects"] == "one row is one person"
    assert "rows_per_person" not in body["details"]


def test_at_most_k_rows_of_each_person_are_counted(
    curator: httpx.Client, dataset: dict[str, Any]
) -> None:
    kept = sum(min(3, rows) for rows in Counter(PEOPLE).values())
    count = ask(curator, dataset["id"], {"kind": "count"}, epsilon="3000").json()
    assert round(count["value"]["count"]) == kept < len(PEOPLE)


def test_the_uploader_is_told_whose_the_rows_are(curator: httpx.Client) -> None:
    content = file_of("told").replace("told0,", "NA,")
    body = upload(curator, content, unit=UNIT, na=["NA"], **ROOM)
    counts = Counter(PEOPLE)
    nobody = counts.pop(0)
    assert body["report"]["people"] == {
        "people": len(counts),
        "median_rows": sorted(counts.values())[(len(counts) - 1) // 2],
        "most_rows": max(counts.values()),
        "rows_without_id": nobody,
        "rows_left_out": sum(max(0, each - 3) for each in counts.values()),
    }
    assert body["unit"] == {**UNIT, "na": ["NA"]}
    shown = curator.get(f"/v1/datasets/{body['id']}").json()
    assert "report" not in shown
    assert "people" not in upload(curator)["report"]


def test_the_catalog_tells_how_many_rows_a_person_may_have(curator: httpx.Client) -> None:
    offers = curator.get("/v1/catalog").json()["items"]
    rows = {
        (offer["statistic"] in OF_INDEPENDENT_ROWS, offer["rows_per_person"]) for offer in offers
    }
    assert rows == {(False, 1000), (True, 1)}


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda body: f"{body['kind']}")
def test_what_takes_rows_to_be_independent_is_refused(
    curator: httpx.Client, dataset: dict[str, Any], statistic: Any
) -> None:
    body = {"statistic": statistic, "epsilon": "0.5"}
    answer = curator.post(f"/v1/datasets/{dataset['id']}/previews", json=body)
    assert answer.status_code == (422 if statistic["kind"] in OF_INDEPENDENT_ROWS else 200)


def test_noise_grows_with_the_rows_of_a_person(
    curator: httpx.Client, dataset: dict[str, Any]
) -> None:
    """A sum for three rows at epsilon has the noise of one row at a third of it."""
    total = {"kind": "sum", "columns": ["income"]}
    one = upload(curator, file_of("single"), unit={**UNIT, "max_rows": 1}, **ROOM)
    assert one["protects"] == "one person, up to 1 row"
    third = preview(curator, one["id"], total, epsilon="0.25")["noise"]
    whole = preview(curator, dataset["id"], total, epsilon="0.75")["noise"]
    assert whole["std"] == pytest.approx(third["std"])


def test_rows_are_reduced_to_one_of_each_person(curator: httpx.Client) -> None:
    reduce = {"food": "sum", "visits": "count", "income": "max"}
    visits = {"type": "number", "lower": 0, "upper": 4}
    found = upload(
        curator,
        file_of("reduced"),
        unit={"column": "person", "reduce": reduce},
        **{**ROOM, "columns": {**COLUMNS, "visits": visits}},
    )
    assert found["unit"] == {"column": "person", "max_rows": None, "reduce": reduce}
    assert found["protects"] == "one person, whose rows are reduced to one"
    asked = {"kind": "sum", "columns": ["visits"]}
    body = ask(curator, found["id"], asked, epsilon="5000").json()
    counts = Counter(PEOPLE).values()
    assert body["value"]["visits"] == pytest.approx(sum(min(4, each) for each in counts), abs=0.1)
    assert body["guarantee"]["protects"] == found["protects"]
    people = ask(curator, found["id"], {"kind": "count"}, epsilon="1000").json()
    assert round(people["value"]["count"]) == len(counts)


def test_zcdp_is_charged_as_for_any_release_of_its_epsilon(curator: httpx.Client) -> None:
    budget = {"epsilon": "3", "delta": "0.000001"}
    found = upload(curator, file_of("zcdp"), unit=UNIT, **{**ROOM, "budget": budget})
    median = {"kind": "quantile", "column": "income", "levels": [0.5]}
    total = {"kind": "sum", "columns": ["income"]}
    assert preview(curator, found["id"], total)["charge"] == {"amount": "0.125", "unit": "rho"}
    assert preview(curator, found["id"], median)["charge"] == {"amount": "0.03125", "unit": "rho"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"unit": {"column": "person"}}, "spec.unit.max_rows"),
        ({"unit": {**UNIT, "max_rows": 0}}, "spec.unit.max_rows"),
        ({"unit": {**UNIT, "max_rows": 1001}}, "spec.unit.max_rows"),
        ({"unit": {**UNIT, "rows": 3}}, "spec.unit"),
        ({"unit": {"max_rows": 3}}, "spec.unit.column"),
        ({"unit": {**UNIT, "column": "income"}}, "spec.unit.column"),
        ({"unit": {"column": "person", "reduce": {}}}, "spec.unit.reduce"),
        ({"unit": {"column": "person", "reduce": {"nobody": "sum"}}}, "spec.unit.reduce[0]"),
        ({"unit": {"column": "person", "reduce": {"income": "median"}}}, "spec.unit.reduce"),
        ({"unit": {"column": "person", "reduce": {"region": "sum"}}}, "spec.unit.reduce[0]"),
        ({"unit": UNIT, "adjacency": "replace_one", "max_rows": None}, "spec.unit"),
    ],
)
def test_a_unit_that_does_not_fit_is_refused_with_its_place(
    curator: httpx.Client, changes: dict[str, Any], field: str
) -> None:
    refused = send_upload(curator, file_of("refused"), spec(**{**ROOM, **changes}))
    found = assert_problem(refused, 422, "invalid-request")
    assert field in str(found)


def test_the_same_people_are_known_by_their_ids_alone(curator: httpx.Client) -> None:
    """In a file that shares no other column; others' ids are other people."""
    first = upload(curator, file_of("lineage"), unit=UNIT, **ROOM)
    other = {"score": {"type": "number", "lower": 0, "upper": 1}}

    def again(tag: str) -> httpx.Response:
        people = sorted({f"{tag}{person}" for person in PEOPLE})
        lines = [f"{name},{place * 0.37 % 1:.3f}" for place, name in enumerate(people)]
        content = "\n".join(["member,score", *lines, ""])
        unit = {"column": "member", "max_rows": 1}
        return send_upload(curator, content, spec(**{**ROOM, "columns": other}, unit=unit))

    refused = assert_problem(again("lineage"), 409, "overlapping-dataset")
    assert refused["dataset"] == first["id"]
    assert again("stranger").status_code == 201
