"""Filters and groups over HTTP: every statistic of the rows that meet conditions, and in groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from app.api.answers.releases import ReleaseAnswer
from tests.contract.service import ask, assert_problem, settled, spent, upload
from tests.contract.test_releases import JOBS, STATISTICS
from tests.tiers import wide

SINGLE = [each for each in STATISTICS if each["kind"] not in ("stack", "test")]
JOBS_IN_GROUPS = (*JOBS, "pca", "summary")
OWNERS = [{"column": "owner", "op": "==", "value": True}]
RICH = [{"column": "income", "op": ">=", "value": 20}]
BY_REGION: list[Any] = ["region"]
BY_FOOD: list[Any] = [{"column": "food", "edges": [0, 20, 50]}]
GROUPS: dict[str, tuple[list[Any], list[str]]] = {
    "region": (BY_REGION, ["north", "south"]),
    "food": (BY_FOOD, ["[0,20)", "[20,50]"]),
    "owner": (["owner"], ["false", "true"]),
}
ROOM: dict[str, Any] = {"budget": {"epsilon": "1000000"}}
KINDS: dict[str, dict[str, Any]] = {
    "replace_one": {},
    "add_remove": {"adjacency": "add_remove", "max_rows": 1000},
}


@pytest.fixture(scope="module")
def datasets(curator: httpx.Client) -> dict[str, str]:
    """Return a data set of each adjacency."""
    return {name: str(upload(curator, **ROOM, **more)["id"]) for name, more in KINDS.items()}


def labels_of(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the label of each group, in order: of a summary, whose rows they are in, once."""
    if "groups" in table:
        return [row["by"] for row in table["groups"]]
    rows = [row["by"] for row in table["rows"]]
    return [label for place, label in enumerate(rows) if label not in rows[:place]]


@pytest.mark.parametrize("statistic", SINGLE, ids=lambda body: f"{body['kind']}")
@pytest.mark.parametrize("adjacency", ["replace_one", *wide("add_remove")])
def test_every_statistic_answers_in_groups_of_filtered_rows(
    curator: httpx.Client, datasets: Mapping[str, str], statistic: Any, adjacency: str
) -> None:
    about = (*statistic.get("columns", ()), statistic.get("target"))
    column = next(name for name in GROUPS if name not in about)
    by, names = GROUPS[column]
    # Among owners nothing is to be found out about who owns a home.
    where = RICH if "owner" in str(statistic) or column == "owner" else OWNERS
    asked = {**statistic, "where": [*statistic.get("where", []), *where], "by": by}
    first = ask(curator, datasets[adjacency], asked, epsilon="0.5")
    assert first.status_code == (202 if statistic["kind"] in JOBS_IN_GROUPS else 201), first.text
    answer = settled(curator, first)
    body = answer.json()
    ReleaseAnswer.model_validate_json(answer.content, strict=True, extra="forbid")
    assert body["statistic"].items() >= asked.items()
    labels = [{column: name} for name in names]
    assert labels_of(body["value"]) == labels
    if body["noise"] is not None:
        assert labels_of(body["noise"]["std"]) == labels
        assert labels_of(body["noise"]["interval_95"]) == labels
    assert body["guarantee"]["adjacency"] == adjacency
    assert body["guarantee"]["epsilon"] == "0.5"
    if body["mechanism"] == "composition":  # each part says what it is about
        parts = [part["details"] for part in body["details"]["parts"]]
    else:
        parts = [body["details"]]
        assert "group" in body["guarantee"]["reduction"]
    assert {part["groups"] for part in parts} == {len(labels)}


@pytest.mark.parametrize("adjacency", KINDS)
def test_numbers_are_those_of_the_rows_asked_about(
    curator: httpx.Client, datasets: Mapping[str, str], adjacency: str
) -> None:
    dataset = datasets[adjacency]
    mean = {"kind": "mean", "columns": ["income"]}
    by_owner = ask(curator, dataset, {**mean, "by": ["owner"]}, epsilon="10000").json()
    apart = [
        ask(
            curator,
            dataset,
            {**mean, "where": [{"column": "owner", "op": "==", "value": value}]},
            epsilon="10000",
        ).json()["value"]["income"]
        for value in (False, True)
    ]
    together = [row["value"]["income"] for row in by_owner["value"]["groups"]]
    assert together == pytest.approx(apart, abs=0.1)
    assert abs(together[0] - together[1]) > 1
    nobody = [{"column": "income", "op": ">", "value": 99}, *OWNERS]
    found = ask(curator, dataset, {"kind": "count", "where": nobody}, epsilon="10000").json()
    assert found["value"]["count"] == 0


@pytest.mark.parametrize("adjacency", KINDS)
def test_a_preview_says_what_a_release_will(
    curator: httpx.Client, datasets: Mapping[str, str], adjacency: str
) -> None:
    asked = {"kind": "sum", "columns": ["income"], "by": BY_REGION, "where": OWNERS}
    dataset = datasets[adjacency]
    before = spent(curator, dataset)
    preview = curator.post(
        f"/v1/datasets/{dataset}/previews", json={"statistic": asked, "epsilon": "0.5"}
    ).json()
    assert spent(curator, dataset) == before
    released = ask(curator, dataset, asked, epsilon="0.5").json()
    for member in ("guarantee", "grid", "details", "norm"):
        assert preview[member] == released[member]
    stds = preview["noise"]["std"]["groups"]
    assert [row["by"] for row in stds] == labels_of(released["value"])
    assert stds == released["noise"]["std"]["groups"]


def test_a_stack_s_parts_have_filters_and_groups_of_their_own(
    curator: httpx.Client, datasets: Mapping[str, str]
) -> None:
    """Each part has its share of epsilon, and all of a part's groups have that share together."""
    stack = {
        "kind": "stack",
        "parts": [
            {"statistic": {"kind": "mean", "columns": ["income"], "where": OWNERS}, "share": 3},
            {"statistic": {"kind": "mean", "columns": ["income"], "by": BY_REGION}},
        ],
    }
    body = ask(curator, datasets["replace_one"], stack, epsilon="0.4").json()
    filtered, grouped = body["value"]["parts"]
    assert set(filtered) == {"income"}
    assert len(grouped["groups"]) == 2
    facts = body["details"]["parts"]
    assert [part["epsilon"] for part in facts] == ["0.3", "0.1"]
    assert facts[1]["details"]["epsilon_per_group"] == "0.05"


def test_an_account_in_zcdp_is_charged_for_what_a_record_that_moves_costs(
    curator: httpx.Client,
) -> None:
    """At most what one draw at the whole epsilon costs, however many groups there are."""
    asked = {"kind": "sum", "columns": ["income"]}
    found = upload(curator, budget={"epsilon": "10", "delta": "1e-6"})["id"]

    def charge(statistic: Any) -> float:
        body = {"statistic": statistic, "epsilon": "0.5"}
        preview = curator.post(f"/v1/datasets/{found}/previews", json=body).json()
        assert preview["charge"]["unit"] == "rho"
        return float(preview["charge"]["amount"])

    assert charge({**asked, "by": BY_REGION}) == charge(asked) == 0.125


@pytest.mark.wide
def test_groups_are_derived_from_free_of_charge(
    curator: httpx.Client, datasets: Mapping[str, str]
) -> None:
    moments = {"kind": "moments", "columns": ["income", "food"], "by": BY_REGION, "where": OWNERS}
    released = ask(curator, datasets["replace_one"], moments, epsilon="10").json()
    path = f"/v1/releases/{released['id']}/derivations"
    wanted = {"kind": "std", "columns": ["income"], "by": BY_REGION, "where": OWNERS}
    derived = curator.post(path, json={"statistic": wanted})
    assert derived.status_code == 200, derived.text
    assert labels_of(derived.json()["value"]) == labels_of(released["value"])
    other = {**wanted, "by": BY_FOOD}
    refused = assert_problem(curator.post(path, json={"statistic": other}), 422)
    assert "in the same groups of income, food" in str(refused)


@pytest.mark.parametrize(
    ("asked", "place", "said"),
    [
        ({"where": [{"column": "nobody", "op": "==", "value": 1}]}, "where[0]", "no such column"),
        ({"where": [{"column": "income", "op": ">", "value": -5}]}, "where[0]", "bounds"),
        ({"by": ["income"]}, "by[0]", "needs edges"),
        ({"by": ["region", {"column": "region", "edges": [0, 1]}]}, "by", "named twice"),
        ({"by": [{"column": "income", "edges": [0, 1000]}]}, "by[0]", "bounds"),
        ({"by": [{"column": "income", "edges": [0, 100]}]}, "by", "between 2 and 10,000"),
        ({"by": [{"column": "income", "bounds": [0, 50, 100]}]}, "by[0]", "edges"),
        ({"by": "region"}, "by", "list"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(
    curator: httpx.Client, datasets: Mapping[str, str], asked: Any, place: str, said: str
) -> None:
    statistic = {"kind": "quantile", "column": "income", "levels": [0.5], **asked}
    for dataset in datasets.values():
        before = spent(curator, dataset)
        refused = assert_problem(ask(curator, dataset, statistic), 422, "invalid-request")
        places = [error["field"] for error in refused["errors"]]
        assert all(field.startswith(f"statistic.{place}") for field in places)
        assert said in str(refused["errors"])
        assert spent(curator, dataset) == before
