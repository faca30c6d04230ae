"""Levels above a category over HTTP: columns of their own that no file has."""

from __future__ import annotations

from typing import Any

import httpx

from app.client import ReleaseDesk
from tests.contract.service import (
    ADMIN_KEY,
    Service,
    ask,
    assert_problem,
    send_upload,
    settled,
    spec,
    spent,
    upload,
)

TOWNS: dict[str, Any] = {
    "type": "category",
    "values": ["a", "b", "c", "d"],
    "missing": "keep",
    "within": {"column": "county", "of": {"a": "x", "b": "x", "c": "y", "d": "z"}},
}
COUNTIES: dict[str, Any] = {
    "type": "category",
    "values": ["x", "y", "z"],
    "labels": {"x": "Xshire"},
    "within": {"column": "nation", "of": {"x": "east", "y": "west", "z": "west"}},
}
COLUMNS = {"town": TOWNS, "county": COUNTIES, "age": {"type": "integer", "lower": 0, "upper": 99}}
# the file has a column of a level's name, which is not read
ROWS = "town,age,county\n" + "a,10,z\nb,20,x\nc,30,x\nc,40,x\n,50,x\n" * 40
SURE = {"budget": {"epsilon": "100000"}}


def value_of(client: httpx.Client, dataset: str, statistic: dict[str, Any]) -> dict[str, Any]:
    answer = ask(client, dataset, statistic, epsilon="1000")
    assert answer.status_code == 201, answer.text
    return dict(answer.json()["value"])


def test_levels_are_asked_about_like_other_columns(curator: httpx.Client) -> None:
    made = upload(curator, ROWS, columns=COLUMNS, **SURE)
    assert list(made["columns"]) == ["town", "county", "nation", "age"]
    assert made["columns"]["nation"]["values"] == ["east", "west"]
    dataset = str(made["id"])
    nations = value_of(curator, dataset, {"kind": "histogram", "columns": ["nation"]})
    assert [each["count"] for each in nations["cells"]] == [80, 80]
    counties = value_of(
        curator, dataset, {"kind": "histogram", "columns": ["county"], "missing": "cell"}
    )
    assert [each["count"] for each in counties["cells"]] == [80, 80, 0, 40]
    west = {"column": "nation", "op": "==", "value": "west"}
    assert value_of(curator, dataset, {"kind": "count", "where": [west]})["count"] == 80
    by = value_of(curator, dataset, {"kind": "mean", "columns": ["age"], "by": ["nation"]})
    assert [round(each["value"]["age"]) for each in by["groups"]] == [15, 35]
    old: dict[str, Any] = {"kind": "count", "derive": {"old": 'nation == "west" and age > 30'}}
    old["where"] = [{"column": "old", "op": "==", "value": True}]
    assert value_of(curator, dataset, old)["count"] == 40
    tables = value_of(curator, dataset, {"kind": "tables", "columns": ["nation", "county"]})
    assert [each["count"] for each in tables["tables"][0]["cells"]] == [80, 0, 0, 0, 80, 0]
    page = curator.get(f"/v1/datasets/{dataset}").json()
    assert page["columns"] == made["columns"]
    edited = curator.patch(
        f"/v1/datasets/{dataset}", json={"labels": {"nation": "Part of it"}, "reason": "a name"}
    )
    assert edited.status_code == 200, edited.text
    assert edited.json()["columns"]["nation"]["label"] == "Part of it"


def test_people_with_several_rows_have_levels_too(curator: httpx.Client) -> None:
    rows = "who,town,age\n" + "".join(f"{at // 2},{'abcd'[at % 4]},{at % 9}\n" for at in range(200))
    made = upload(
        curator, rows, columns=COLUMNS, adjacency="add_remove", max_rows=500,
        unit={"column": "who", "reduce": {"town": "last"}}, **SURE,
    )  # fmt: skip
    found = value_of(curator, made["id"], {"kind": "histogram", "columns": ["nation"]})
    # the last of a and b, or of c and d
    assert [each["count"] for each in found["cells"]] == [50, 50]


def test_what_does_not_fit_is_refused_at_its_place(curator: httpx.Client) -> None:
    wrong = {**TOWNS, "within": {"column": "county", "of": {"a": "x"}}}
    answer = send_upload(curator, ROWS, spec(columns={**COLUMNS, "town": wrong}))
    problem = assert_problem(answer, 422, "invalid-request")
    assert [each["field"] for each in problem["errors"]] == ["spec.columns[0].within.of"]
    answer = send_upload(curator, ROWS, spec(columns=COLUMNS, derive={"east": 'nation == "east"'}))
    assert_problem(answer, 422, "invalid-request")


TABLES = {
    "kind": "tables", "columns": ["town", "age"], "edges": {"age": [0, 35, 99]},
    "hierarchy": "town",
}  # fmt: skip


def test_tables_of_levels_agree_and_are_read_line_by_line(curator: httpx.Client) -> None:
    rows = ROWS.replace(",10,", ",15,")
    made = upload(
        curator, rows, columns=COLUMNS, adjacency="add_remove", max_rows=500,
        budget={"epsilon": "50"},
    )  # fmt: skip
    asked = {**TABLES, "known": {"nation": {"east": 80}}, "margins": [["town", "age"], ["town"]]}
    answer = ask(curator, made["id"], asked, epsilon="0.5")
    assert answer.status_code == 201, answer.text
    found = answer.json()
    tables = {" ".join(each["columns"]): each["cells"] for each in found["value"]["tables"]}
    assert list(tables) == [
        "nation age", "county age", "town age", "nation", "county", "town",
    ]  # fmt: skip
    east, west = (each["count"] for each in tables["nation"])
    assert east == 80
    assert tables["county"][0]["count"] == 80
    assert east + west == found["value"]["rows"]
    assert sum(each["count"] for each in tables["town"][:2]) == 80
    assert found["noise"]["std"]["tables"][3]["cells"][0]["count"] == 0
    assert found["details"]["public_totals"] == {"nation": {"east": 80}}
    lines = curator.get(
        f"/v1/releases/{found['id']}/cells", params={"format": "csv", "table": 0}
    ).text.splitlines()
    assert lines[0] == "table,nation,age,count,noise_std,noise_low,noise_high"
    assert len(lines) == 5
    synthetic = curator.post(
        f"/v1/releases/{found['id']}/synthetic", json={"rows": 50, "seed": 1, "format": "csv"}
    )
    assert synthetic.text.splitlines()[0] == "nation,county,town,age"
    derived = curator.post(
        f"/v1/releases/{found['id']}/derive",
        json={"statistic": {"kind": "histogram", "columns": ["county"]}},
    )
    assert derived.status_code in (200, 404), derived.text


def test_totals_that_cannot_be_are_refused_before_a_charge(curator: httpx.Client) -> None:
    rows = ROWS.replace(",10,", ",16,")
    made = upload(curator, rows, columns=COLUMNS, **SURE)
    for wrong, place in (
        ({"known": {"county": {"x": 1, "w": 1}}}, "statistic.known[0][1]"),
        ({"known": {"county": {"x": -1}}}, "statistic.known[0][0]"),
        ({"known": {"nation": {}, "county": {"x": 1, " x": 1}}}, "statistic.known[1][1]"),
        ({"known": {"nation": {}, "street": {"x": 1}}}, "statistic.known[1]"),
        ({"known": {"county": {"x": 5}, "nation": {"east": 4}}}, "statistic.known"),
        ({"known": {"county": {"x": True}}}, "statistic.known[0][0]"),
        ({"hierarchy": "age"}, "statistic.hierarchy"),
    ):
        answer = ask(curator, made["id"], {**TABLES, **wrong})
        problem = assert_problem(answer, 422, "invalid-request")
        assert problem["errors"][0]["field"] == place, problem
    assert spent(curator, made["id"]) == "0"


def test_numbers_of_very_many_groups_are_read_line_by_line(
    service: Service, curator: httpx.Client
) -> None:
    towns = [f"t{place:04}" for place in range(1_500)]
    of = {town: f"county {place % 40}" for place, town in enumerate(towns)}
    columns = {
        "town": {"type": "category", "values": towns, "within": {"column": "county", "of": of}},
        "age": COLUMNS["age"],
    }
    rows = "town,age\n" + "".join(f"{towns[row % 1_500]},{row % 90}\n" for row in range(4_000))
    made = upload(curator, rows, columns=columns, **SURE)
    answer = settled(curator, ask(curator, made["id"], {"kind": "count", "by": ["town"]}))
    found = answer.json()
    groups = found["value"]["groups"]
    assert len(groups) == 1_500
    with ReleaseDesk(service.url, ADMIN_KEY) as desk:
        lines = list(desk.cells(found["id"]))
    assert [each["cell"] for each in lines] == [each["by"] for each in groups]
    assert [each["value"] for each in lines] == [each["value"]["count"] for each in groups]
    ends = found["noise"]["interval_95"]["groups"]
    assert [[each["noise_low"], each["noise_high"]] for each in lines] == [
        each["value"]["count"] for each in ends
    ]
    path = f"/v1/releases/{found['id']}/cells"
    page = curator.get(path, params={"format": "csv", "limit": 1_000})
    header, *first = page.text.splitlines()
    assert header == "town,statistic,term,value,noise_std,noise_low,noise_high,note"
    assert len(first) == 1_000
    _, *rest = curator.get(page.links["next"]["url"]).text.splitlines()
    assert len(rest) == 500
    assert rest[-1].startswith("t1499,count,")
    assert_problem(curator.get(path, params={"table": 0}), 422, "invalid-request")
    county = ask(curator, made["id"], {"kind": "mean", "columns": ["age"], "by": ["county"]})
    assert len(settled(curator, county).json()["value"]["groups"]) == 40
    before = spent(curator, made["id"])
    refused = ask(
        curator, made["id"], {"kind": "geometric_median", "columns": ["age"], "by": ["town"]}
    )
    assert "at most 256" in str(assert_problem(refused, 422, "invalid-request"))
    assert spent(curator, made["id"]) == before
