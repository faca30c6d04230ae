"""Synthetic rows over HTTP: free, reproducible, described, for those who may see the release."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from itertools import pairwise
from typing import Any

import httpx
import polars as pl
import pytest

from app.api.answers.releases import SyntheticAnswer
from app.client import ReleaseDesk
from tests.contract.service import (
    ADMIN_KEY,
    Service,
    ask,
    assert_problem,
    make_key,
    send_raw,
    settled,
    spent,
    upload,
)

COLUMNS = {
    "sex": {"type": "category", "values": ["f", "m", "=x"]},
    "owner": {"type": "boolean"},
    "age": {"type": "integer", "lower": 0, "upper": 99},
    "weight": {"type": "number", "lower": 0, "upper": 10},
    "day": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
    "when": {"type": "datetime", "lower": "2020-01-01T00:00Z", "upper": "2020-01-02T00:00Z"},
}
EDGES = {
    "age": [0, 18, 65, 99],
    "weight": [0, 2.5, 10],
    "day": ["2020-01-01", "2020-07-01", "2020-12-31"],
    "when": ["2020-01-01T00:00Z", "2020-01-01T12:00Z", "2020-01-02T00:00Z"],
}
TABLES = {"kind": "tables", "columns": list(COLUMNS), "edges": EDGES}
ASKED = {"rows": 500, "seed": 7}


def line(row: int) -> str:
    """Return a row in which owners are men, and men are old."""
    man = row % 2
    return (
        f"{'fm'[man]},{'true' if man else 'false'},{70 if man else 20},{1 + 5 * man},"
        f"2020-{3 + 6 * man:02}-01,2020-01-01T{4 + 12 * man:02}:00Z"
    )


@pytest.fixture(scope="module")
def parent(curator: httpx.Client) -> dict[str, Any]:
    """Return a release of tables that are near the exact ones."""
    text = ",".join(COLUMNS) + "\n" + "".join(f"{line(row)}\n" for row in range(200))
    found = upload(curator, text, columns=COLUMNS, budget={"epsilon": "10000"})
    answer = ask(curator, str(found["id"]), TABLES, epsilon="1000")
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def make(client: httpx.Client, release: str, **asked: object) -> httpx.Response:
    return client.post(f"/v1/releases/{release}/synthetic", json={**ASKED, **asked})


def describe(client: httpx.Client, release: str, **asked: Any) -> httpx.Response:
    return client.get(f"/v1/releases/{release}/synthetic", params={**ASKED, **asked})


def test_rows_are_a_file_that_is_described(curator: httpx.Client, parent: dict[str, Any]) -> None:
    before = spent(curator, parent["dataset"])
    file = make(curator, parent["id"])
    assert file.status_code == 200, file.text
    assert file.headers["content-type"] == "text/csv; charset=utf-8"
    link = file.headers["link"]
    assert link.endswith('>; rel="describedby"')
    described = curator.get(link[1:].split(">")[0])
    SyntheticAnswer.model_validate_json(described.content, strict=True, extra="forbid")
    body = described.json()
    assert body["sha256"] == hashlib.sha256(file.content).hexdigest()
    assert (body["release"], body["rows"], body["seed"]) == (parent["id"], 500, 7)
    assert body["guarantee"] == parent["guarantee"]
    assert (body["cost"], body["synthetic"]) == ("0", True)
    assert [each["name"] for each in body["columns"]] == list(COLUMNS)
    assert [each["type"] for each in body["columns"]] == [each["type"] for each in COLUMNS.values()]
    assert body["columns"][0]["values"] == ["f", "m", "=x"]
    assert len(body["tables"]) == 15
    assert body["unmeasured"] == body["left_out"] == []
    assert sum(table["in_model"] for table in body["tables"]) == 5
    assert all(table["total_variation"] < 0.01 for table in body["tables"])
    assert make(curator, parent["id"]).content == file.content
    assert make(curator, parent["id"], seed=8).content != file.content
    assert spent(curator, parent["dataset"]) == before


def test_the_dependence_of_columns_is_in_the_rows(
    curator: httpx.Client, parent: dict[str, Any]
) -> None:
    """All columns follow from the sex: and where they do not, the test notices."""
    rows = list(csv.DictReader(io.StringIO(make(curator, parent["id"]).text)))
    assert len(rows) == 500

    def agree(rows: list[dict[str, str]]) -> float:
        same = [
            (row["sex"] == "m")
            == (row["owner"] == "true")
            == (int(row["age"]) >= 65)
            == (float(row["weight"]) >= 2.5)
            == (row["day"] >= "2020-07-01")
            == (row["when"] >= "2020-01-01T12:00:00Z")
            for row in rows
        ]
        return sum(same) / len(same)

    assert agree(rows) > 0.97
    apart = [{**row, "owner": other["owner"]} for row, other in pairwise(rows)]
    assert agree(apart) < 0.7
    assert len({row["age"] for row in rows}) > 40
    assert len({row["weight"] for row in rows}) > 200


def test_parquet_has_the_same_rows_with_types(
    curator: httpx.Client, parent: dict[str, Any]
) -> None:
    file = make(curator, parent["id"], format="parquet")
    assert file.headers["content-type"] == "application/vnd.apache.parquet"
    assert describe(curator, parent["id"], format="parquet").json()["sha256"] == (
        hashlib.sha256(file.content).hexdigest()
    )
    frame = pl.read_parquet(io.BytesIO(file.content))
    assert frame.dtypes == [
        pl.String, pl.Boolean, pl.Int64, pl.Float64, pl.Date, pl.Datetime("us", "UTC")
    ]  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(make(curator, parent["id"]).text)))
    for got, row in zip(frame.iter_rows(named=True), rows, strict=True):
        assert (got["sex"], str(got["age"]), got["weight"]) == (
            row["sex"], row["age"], float(row["weight"])
        )  # fmt: skip
        assert got["day"].isoformat() == row["day"]
        assert f"{got['when']:%Y-%m-%dT%H:%M:%SZ}" == row["when"]


def test_a_large_file_is_made_in_another_process(
    curator: httpx.Client, parent: dict[str, Any]
) -> None:
    file = make(curator, parent["id"], rows=50_000, format="parquet")
    assert file.status_code == 200, file.text
    frame = pl.read_parquet(io.BytesIO(file.content))
    assert frame.height == 50_000
    text = make(curator, parent["id"], rows=50_000).content
    assert text.count(b"\r\n") == 50_001


def test_margins_of_released_tables_are_free(curator: httpx.Client, parent: dict[str, Any]) -> None:
    """Fewer columns, merged cells and conditions, of one release and of two together."""
    path, before = f"/v1/releases/{parent['id']}/derivations", spent(curator, parent["dataset"])
    wide = {"kind": "histogram", "columns": ["age"], "edges": {"age": [0, 65, 99]}}
    men = {"kind": "count", "where": [{"column": "sex", "op": "==", "value": "m"}]}
    found = [curator.post(path, json={"statistic": each}).json() for each in (wide, men)]
    counts = [cell["count"] for cell in found[0]["value"]["cells"]]
    assert sum(counts) == 200
    assert abs(counts[1] - 100) < 5
    assert abs(found[1]["value"]["count"] - 100) < 5
    assert found[1]["cost"] == "0"
    assert spent(curator, parent["dataset"]) == before
    other = ask(curator, parent["dataset"], TABLES, epsilon="1000").json()["id"]
    both = curator.post(path, json={"statistic": TABLES, "together_with": [other]})
    assert both.status_code == 200, both.text
    assert both.json()["value"]["rows"] == 200
    assert both.json()["guarantee"]["epsilon"] == "2000"
    foreign = {
        "kind": "histogram",
        "columns": ["sex", "age", "owner"],
        "edges": {"age": [0, 18, 65, 99]},
    }
    refused = curator.post(path, json={"statistic": foreign})
    assert (
        "no released table has these columns together"
        in (assert_problem(refused, 422, "invalid-request")["detail"])
    )


def test_cells_are_lines_page_by_page(curator: httpx.Client, parent: dict[str, Any]) -> None:
    path = f"/v1/releases/{parent['id']}/cells"
    lines, address = [], f"{path}?limit=20"
    while address:
        page = curator.get(address)
        assert page.status_code == 200, page.text
        assert page.headers["content-type"] == "application/jsonl"
        own = [json.loads(line) for line in page.text.splitlines()]
        assert len(own) <= 20
        lines += own
        address = page.headers.get("link", "").removesuffix('>; rel="next"')[1:]
    cells = [
        {
            "table": place, **cell, "noise_std": std["count"],
            "noise_low": ends["count"][0], "noise_high": ends["count"][1],
        }
        for place, table in enumerate(parent["value"]["tables"])
        for cell, std, ends in zip(
            table["cells"],
            parent["noise"]["std"]["tables"][place]["cells"],
            parent["noise"]["interval_95"]["tables"][place]["cells"],
            strict=True,
        )
    ]  # fmt: skip
    assert lines == cells
    table = curator.get(path, params={"format": "csv", "table": 1})
    assert "link" not in table.headers
    rows = list(csv.DictReader(io.StringIO(table.text)))
    first = parent["value"]["tables"][1]
    assert list(rows[0]) == [
        "table", *first["columns"], "count", "noise_std", "noise_low", "noise_high"
    ]  # fmt: skip
    assert [int(row["count"]) for row in rows] == [cell["count"] for cell in first["cells"]]
    assert_problem(curator.get(path, params={"table": 15}), 422, "invalid-request")
    assert_problem(curator.get(path, params={"limit": 10**6}), 422, "invalid-request")
    mean = ask(curator, parent["dataset"], {"kind": "mean", "columns": ["age"]}, epsilon="1").json()
    refused = curator.get(f"/v1/releases/{mean['id']}/cells")
    assert "tables" in assert_problem(refused, 422, "invalid-request")["detail"]


def test_the_client_returns_frames(service: Service, parent: dict[str, Any]) -> None:
    with ReleaseDesk(service.url, ADMIN_KEY) as desk:
        made = desk.synthetic(parent["id"], rows=50, seed=3)
        raw = desk.synthetic(parent["id"], rows=50, seed=3, format="parquet")
    assert made.guarantee["epsilon"] == "1000"
    records = made.records()
    frame = made.to_polars()
    assert frame.to_dicts() == records
    assert {name: type(value).__name__ for name, value in records[0].items()} == {
        "sex": "str", "owner": "bool", "age": "int", "weight": "float", "day": "date",
        "when": "datetime",
    }  # fmt: skip
    assert pl.read_parquet(io.BytesIO(raw.body)).to_dicts() == records
    with pytest.raises(Exception, match="only CSV"):
        raw.records()


def test_rows_of_tables_by_group_carry_the_groups(
    curator: httpx.Client, parent: dict[str, Any]
) -> None:
    groups = ["sex", {"column": "age", "edges": [10, 50, 90], "outside": "drop"}]
    asked = {
        "kind": "tables", "columns": ["owner", "weight"], "edges": {"weight": EDGES["weight"]},
        "by": groups,
    }  # fmt: skip
    answer = settled(curator, ask(curator, parent["dataset"], asked, epsilon="1000")).json()
    file = make(curator, answer["id"])
    assert file.status_code == 200, file.text
    rows = list(csv.DictReader(io.StringIO(file.text)))
    assert list(rows[0]) == ["sex", "age", "owner", "weight"]
    # owners are men, and men are old
    men = [row for row in rows if row["sex"] == "m"]
    assert len(men) / len(rows) == pytest.approx(0.5, abs=0.03)
    agree = [(row["owner"] == "true") == (float(row["age"]) >= 50) for row in rows]
    assert sum(agree) / len(rows) > 0.95
    assert all(10 <= float(row["age"]) <= 90 for row in rows)
    body = describe(curator, answer["id"]).json()
    assert body["sha256"] == hashlib.sha256(file.content).hexdigest()
    assert [each["columns"] for each in body["tables"]] == [["sex", "age", "owner", "weight"]]
    assert body["model"][:2] == [
        {"column": "sex", "given": []},
        {"column": "age", "given": ["sex"]},
    ]
    both = {**asked, "by": groups[1:], "columns": ["owner", "age"], "edges": {"age": EDGES["age"]}}
    made = settled(curator, ask(curator, parent["dataset"], both, epsilon="10")).json()
    refused = assert_problem(make(curator, made["id"]), 422, "invalid-request")
    assert "age makes groups" in str(refused)


def test_what_cannot_be_made_is_refused(curator: httpx.Client, parent: dict[str, Any]) -> None:
    for asked in ({"rows": 0}, {"rows": 2**21}, {"seed": -1}, {"format": "xml"}, {"more": 1}):
        assert_problem(make(curator, parent["id"], **asked), 422, "invalid-request")
    many = assert_problem(make(curator, parent["id"], rows=400_000), 422, "invalid-request")
    assert many["errors"][0]["field"] == "rows"
    assert "333,333 rows of 6 columns" in many["errors"][0]["message"]
    mean = ask(curator, parent["dataset"], {"kind": "mean", "columns": ["age"]}, epsilon="1").json()
    for answer in (make(curator, mean["id"]), describe(curator, mean["id"])):
        assert "release of tables" in assert_problem(answer, 422, "invalid-request")["detail"]


def test_only_the_owner_and_curators_may(
    service: Service, admin: httpx.Client, parent: dict[str, Any]
) -> None:
    other = make_key(admin, "analyst")["secret"]
    with service.client(other) as client:
        assert_problem(make(client, parent["id"]), 404, "not-found")
        assert_problem(describe(client, parent["id"]), 404, "not-found")


def test_a_body_that_is_no_json_is_refused(curator: httpx.Client, parent: dict[str, Any]) -> None:
    answer = send_raw(curator, f"/v1/releases/{parent['id']}/synthetic", b"rows")
    assert answer.status_code == 422


def test_tables_that_are_selected_are_tables_like_others(
    curator: httpx.Client, parent: dict[str, Any]
) -> None:
    """The choice is in the answer, and whatever reads tables reads the chosen ones."""
    dataset = parent["dataset"]
    asked = {**TABLES, "select": "auto", "select_share": 0.25}
    paid = spent(curator, dataset)
    body = {"statistic": asked, "epsilon": "40", "accuracy": 5}
    preview = curator.post(f"/v1/datasets/{dataset}/previews", json=body)
    assert preview.status_code == 200, preview.text
    seen = preview.json()
    assert seen["noise"] is None
    assert seen["expected_error"] is None
    assert seen["accuracy"]["epsilon"] is None
    assert seen["usefulness"]["verdict"] == "depends"
    assert seen["details"]["select"] == {"private": True, "share": "1/4", "candidates": 15}
    answer = settled(curator, ask(curator, dataset, asked, epsilon="40"))
    assert answer.is_success, answer.text
    found = answer.json()
    assert float(spent(curator, dataset)) == float(paid) + 40
    chosen = [table["columns"] for table in found["value"]["tables"]]
    assert len(chosen) == 5
    assert found["details"]["select"]["chosen"] == chosen
    assert found["usefulness"]["verdict"] in ("good", "weak", "noise"), "the noise is known now"
    address = f"/v1/releases/{found['id']}"
    rows = curator.post(f"{address}/synthetic", json={**ASKED, "format": "csv"})
    assert len(rows.text.splitlines()) == 501
    described = curator.get(f"{address}/synthetic", params=ASKED).json()
    assert [each["columns"] for each in described["tables"]] == chosen
    assert len(described["unmeasured"]) == 10
    cells = curator.get(f"{address}/cells", params={"format": "csv", "table": 0})
    assert cells.text.startswith(f"table,{','.join(chosen[0])},count")
    one = {"kind": "tables", "columns": chosen[0], "edges": EDGES}
    one["edges"] = {name: EDGES[name] for name in chosen[0] if name in EDGES}
    derived = curator.post(f"{address}/derivations", json={"statistic": one})
    assert derived.status_code in (200, 201), derived.text
    again = derived.json()["value"]["tables"][0]["cells"]
    assert again == found["value"]["tables"][0]["cells"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"select_share": 2}, "select_share"), ({"select_share": 0.5, "by": ["sex"]}, "select")],
)
def test_a_selection_that_does_not_fit_is_refused_at_its_field(
    curator: httpx.Client, parent: dict[str, Any], changes: dict[str, Any], field: str
) -> None:
    asked = {**TABLES, "select": "auto", **changes}
    problem = assert_problem(ask(curator, parent["dataset"], asked), 422, "invalid-request")
    assert [each["field"] for each in problem["errors"]] == [f"statistic.{field}"]
