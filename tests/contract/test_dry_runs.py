"""Dry runs: the form of a release, on rows that no one gave."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import httpx
import pytest

from app.api.answers.study_plans import DryRunAnswer
from mechanisms.catalog import STATISTICS as REGISTRY
from tests.contract.service import (
    COLUMNS,
    ROWS,
    ask,
    assert_problem,
    send_raw,
    send_upload,
    settled,
    spec,
    spent,
    upload,
)
from tests.contract.test_estimates import ADJACENCIES, HEAD, KINDS, MEAN, SENTINELS, skeleton


def dry_run(client: httpx.Client, dataset: str, statistic: Any, **more: Any) -> httpx.Response:
    body = {"statistic": statistic, "epsilon": "0.5", **more}
    return client.post(f"/v1/datasets/{dataset}/dry-runs", json=body)


@pytest.fixture(scope="module")
def twins(curator: httpx.Client) -> dict[str, list[str]]:
    """Return pairs of data sets with the same public facts and other rows."""
    pairs: dict[str, list[str]] = {}
    for name, more in ADJACENCIES.items():
        other = HEAD + (SENTINELS if name == "replace_one" else SENTINELS * 9)
        made = [upload(curator, rows, budget={"epsilon": "1000"}, **more) for rows in (ROWS, other)]
        pairs[name] = [str(each["id"]) for each in made]
    return pairs


def adjacency_of(kind: str) -> str:
    """Return one of both by the name of the kind alone: a further kind changes no case."""
    return list(ADJACENCIES)[sum(map(ord, kind)) % len(ADJACENCIES)]


@pytest.mark.parametrize(
    ("kind", "adjacency"), [(kind, adjacency_of(kind)) for kind in sorted(KINDS)]
)
def test_a_dry_run_looks_like_a_release_and_no_row_changes_a_byte_of_it(
    curator: httpx.Client, twins: dict[str, list[str]], kind: str, adjacency: str
) -> None:
    one, other = twins[adjacency]
    before = spent(curator, one)
    answers = [dry_run(curator, each, KINDS[kind]) for each in (one, other)]
    assert [each.status_code for each in answers] == [200, 200], answers[0].text
    DryRunAnswer.model_validate_json(answers[0].content, strict=True, extra="forbid")
    texts = [json.dumps({**each.json(), "dataset": None, "id": None}) for each in answers]
    assert texts[0] == texts[1]
    assert spent(curator, one) == before
    run = answers[0].json()
    assert (run["synthetic"], run["status"], run["receipt"], run["cost"]) == (
        True, "dry_run", None, "0",
    )  # fmt: skip
    assert run["rows"] == {"replace_one": 40, "add_remove": 500}[adjacency]
    released = settled(curator, ask(curator, one, KINDS[kind], epsilon="0.5")).json()
    assert skeleton(run["value"]) == skeleton(released["value"])
    # Which numbers are at an edge follows from the numbers, which differ.
    assert run.keys() >= released.keys() - {"review", "purpose", "at_edge"}
    for member in ("statistic", "mechanism", "norm", "epsilon", "guarantee", "grid"):
        assert run[member] == released[member]


TYPICAL = {"income": {"mean": 20, "std": 2}, "region": {"north": 3, "south": 1}, "owner": 0.9}


@pytest.fixture(scope="module")
def known(curator: httpx.Client) -> tuple[str, str]:
    """Return two data sets of the same rows: of one its curator states what is typical."""
    columns = {name: {**COLUMNS[name], "typical": each} for name, each in TYPICAL.items()}
    money = {"budget": {"epsilon": "1000"}}
    plain = upload(curator, **money)
    stated = upload(curator, **money, columns={**COLUMNS, **columns}, account=plain["account"])
    assert {name: stated["columns"][name]["typical"] for name in TYPICAL} == TYPICAL
    return str(plain["id"]), str(stated["id"])


def test_synthetic_rows_are_as_a_curator_states_to_be_typical(
    curator: httpx.Client, known: tuple[str, str]
) -> None:
    answer = curator.get(f"/v1/datasets/{known[1]}/dry-runs/rows")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    incomes = [float(row["income"]) for row in rows]
    assert sum(incomes) / len(incomes) == pytest.approx(20, abs=0.2)
    assert 14 < min(incomes) < max(incomes) < 26
    assert [row["region"] for row in rows].count("north") == 30
    assert [row["owner"] for row in rows].count("true") == 36
    run = dry_run(curator, known[1], MEAN, epsilon="100").json()
    assert run["value"]["income"] == pytest.approx(20, abs=1)
    assert run["assume"]["population"] == {
        "income": {"mean": 20, "std": 2},
        "owner": {"mean": 0.9, "std": pytest.approx(0.3)},
        "region": {"shares": {"north": 0.75, "south": 0.25}},
    }


def test_what_is_asked_for_comes_before_what_is_typical(
    curator: httpx.Client, known: tuple[str, str]
) -> None:
    plain, stated = known
    for population, mean in (("uniform", 50), ({"income": {"mean": 70, "std": 2}}, 70)):
        assume = {"population": population}
        run = dry_run(curator, stated, MEAN, epsilon="100", assume=assume).json()
        assert run["value"]["income"] == pytest.approx(mean, abs=1)
    evenly = dry_run(curator, stated, MEAN, assume={"population": "uniform"}).json()
    assert evenly["assume"]["population"] == "uniform"
    assert evenly["value"] == dry_run(curator, plain, MEAN).json()["value"]


@pytest.mark.wide
def test_no_law_depends_on_what_is_typical(curator: httpx.Client, known: tuple[str, str]) -> None:
    for kind in sorted(KINDS):
        if REGISTRY[kind].chosen_by_error:  # among public facts, what is typical is one
            continue
        body = {"statistic": KINDS[kind], "epsilon": "0.5"}
        plans = [
            {
                name: member
                for name, member in curator.post(f"/v1/datasets/{each}/previews", json=body)
                .json()
                .items()
                if name in ("mechanism", "norm", "noise", "guarantee", "grid", "review", "job")
            }
            for each in known
        ]
        assert plans[0] == plans[1], kind


def test_a_dry_run_is_made_of_what_is_assumed(
    curator: httpx.Client, twins: dict[str, list[str]]
) -> None:
    assume = {"population": {"income": {"mean": 20, "std": 2}}, "rows": 500}
    for dataset in (twins["add_remove"][0], twins["replace_one"][0]):
        run = dry_run(curator, dataset, MEAN, epsilon="100", assume=assume).json()
        assert run["value"]["income"] == pytest.approx(20, abs=1)
        assert run["assume"]["population"] == assume["population"]
    assert dry_run(curator, twins["add_remove"][0], MEAN, assume=assume).json()["rows"] == 500
    again = [dry_run(curator, twins["add_remove"][0], MEAN).content for _ in range(2)]
    assert again[0] == again[1]
    assert dry_run(curator, twins["add_remove"][0], MEAN, epsilon="0.4").content != again[0]


def test_what_a_release_is_refused_for_a_dry_run_is_too(
    curator: httpx.Client, analyst: httpx.Client
) -> None:
    dataset = upload(curator, policy={"allowed": ["count"], "max_epsilon_per_release": "1"})["id"]
    assert_problem(dry_run(analyst, dataset, MEAN), 422, "policy-refused")
    assert_problem(dry_run(analyst, "ds_none", MEAN), 404, "not-found")
    dataset = upload(curator)["id"]
    unknown = {"kind": "mean", "columns": ["nothing"]}
    assert_problem(dry_run(analyst, dataset, unknown), 422, "invalid-request")
    body = json.dumps({"statistic": MEAN, "epsilon": "1", "assume": {"rows": -1}})
    refused = send_raw(analyst, f"/v1/datasets/{dataset}/dry-runs", body.encode())
    assert_problem(refused, 422, "invalid-request")
    curator.post(f"/v1/datasets/{dataset}/archive")
    assert_problem(dry_run(analyst, dataset, MEAN), 409, "dataset-archived")
    assert_problem(analyst.get(f"/v1/datasets/{dataset}/dry-runs/rows"), 409, "dataset-archived")


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_synthetic_file_has_the_form_of_the_data_set_s(
    curator: httpx.Client, analyst: httpx.Client, adjacency: str
) -> None:
    more = ADJACENCIES[adjacency]
    columns = {
        **spec()["columns"],
        "born": {"type": "date", "lower": "1950-01-01", "upper": "2000-12-31"},
        "children": {"type": "integer", "lower": 0, "upper": 9},
    }
    head, *lines = ROWS.splitlines()
    rows = "\n".join([f"{head},born,children", *(f"{line},1970-05-17,3" for line in lines)])
    declared = {"columns": columns, "derive": {"double": "2 * income"}, **more}
    dataset = upload(curator, rows + "\n", **declared)["id"]
    answer = analyst.get(f"/v1/datasets/{dataset}/dry-runs/rows")
    assert answer.headers["content-type"].startswith("text/csv")
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert list(table[0]) == list(columns)
    assert len(table) == {"replace_one": 40, "add_remove": 500}[adjacency]
    assert {row["owner"] for row in table} == {"true", "false"}
    assert all(float(row["children"]).is_integer() for row in table)
    assert answer.content == analyst.get(f"/v1/datasets/{dataset}/dry-runs/rows").content
    if adjacency == "replace_one":  # a program that reads it can read the data set's own
        body = spec(name="a synthetic one", **declared)
        assert send_upload(curator, answer.text, body).status_code == 201
