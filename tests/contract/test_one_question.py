"""One question is charged once, with any client and in any spelling."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from app.cli import main
from app.client import Dataset, ReleaseDesk
from app.settings import PREFIX
from tests.contract.service import MEAN, Service, ask, assert_problem, make_key, spent

AUTO = "auto"
FITTED: dict[str, Any] = {
    "kind": "linear_regression",
    "formula": "food ~ income + region",
    "where": [
        {"column": "income", "op": "in", "value": [40, 60]},
        {"column": "owner", "op": "==", "value": True},
    ],
}
SPELLED: dict[str, Any] = {
    "features": ["income", {"column": "region", "reference": "north"}],
    "target": "food",
    "kind": "linear_regression",
    "bound": 10.0,
    "weights": None,
    "by": [],
    "where": [
        {"column": "owner", "op": "in", "value": [1]},
        {"column": "income", "op": "in", "value": [60.0, 40, 4e1]},
        {"column": "owner", "op": "==", "value": True},
    ],
}


@pytest.fixture(scope="module")
def key(admin: httpx.Client) -> str:
    return str(make_key(admin, "analyst")["secret"])


@pytest.fixture(scope="module")
def asker(service: Service, key: str) -> Iterator[httpx.Client]:
    with service.client(key) as client:
        yield client


@pytest.fixture
def wages(service: Service, key: str, dataset: str) -> Iterator[Dataset]:
    with ReleaseDesk(service.url, key) as desk:
        yield desk.dataset(dataset)


def test_every_program_is_charged_once_for_one_question(
    service: Service, key: str, asker: httpx.Client, curator: httpx.Client, wages: Dataset
) -> None:
    first = ask(asker, wages.id, FITTED, key=AUTO, epsilon=0.3)
    assert first.status_code == 201, first.text
    found = [ask(asker, wages.id, SPELLED, key=AUTO, epsilon="0.30", purpose="Table 2").content]
    found.append(wages.linear_regression(**{**FITTED, "kind": None}, epsilon=0.1 + 0.2).body)
    found.append(wages.release(SPELLED, epsilon="0.3", purpose="Table 3").body)
    found.append(wages.desk.release(wages, SPELLED, epsilon=0.3, mechanism="auto").body)
    environment = {f"{PREFIX}URL": service.url, f"{PREFIX}KEY": key}
    for asked in (FITTED, SPELLED):
        line = ["releases", "ask", wages.name, json.dumps(asked), "--epsilon", ".3"]
        done = CliRunner().invoke(main, line, env=environment)
        assert done.exit_code == 0, done.output
        found.append(done.stdout.strip().encode())
    assert {each.strip() for each in found} == {first.content.strip()}
    assert spent(curator, wages.id) == "0.3"
    assert wages.release(FITTED, epsilon="0.3", fresh=True).id != first.json()["id"]
    assert spent(curator, wages.id) == "0.6"


def test_another_question_or_person_has_another_release(
    asker: httpx.Client, analyst: httpx.Client, dataset: str
) -> None:
    above = [{"column": "income", "op": ">=", "value": 40}]
    both: dict[str, Any] = {"kind": "mean", "columns": ["income", "food"], "where": above}
    by = ["region", "owner"]
    asked: list[tuple[httpx.Client, dict[str, Any], str]] = [
        (asker, both, "0.1"),
        (analyst, both, "0.1"),
        (asker, both, "0.2"),
        (asker, {**both, "columns": ["food", "income"]}, "0.1"),
        (asker, {**both, "where": [{**above[0], "op": ">"}]}, "0.1"),
        (asker, {**both, "where": [{**above[0], "value": 40.5}]}, "0.1"),
        (asker, {**both, "by": by}, "0.1"),
        (asker, {**both, "by": by[::-1]}, "0.1"),
    ]
    found = [ask(who, dataset, what, key=AUTO, epsilon=price) for who, what, price in asked]
    assert {each.status_code for each in found} == {201}
    assert len({each.json()["id"] for each in found}) == len(asked)


def test_a_name_of_ones_own_is_for_one_question_in_any_spelling(
    asker: httpx.Client, curator: httpx.Client, dataset: str
) -> None:
    first = ask(asker, dataset, FITTED, key="own", epsilon="0.5")
    assert first.json()["statistic"]["where"] == FITTED["where"], "it says what was asked"
    assert ask(asker, dataset, SPELLED, key="own", epsilon=0.5).content == first.content
    other = {**SPELLED, "where": SPELLED["where"][1:2]}
    assert_problem(ask(asker, dataset, other, key="own", epsilon="0.5"), 422)
    purpose = ask(asker, dataset, FITTED, key="own", epsilon="0.5", purpose="Table 2")
    assert_problem(purpose, 422, "idempotency-key-reused")
    assert spent(curator, dataset) == "0.5"


def test_a_key_that_is_written_like_that_of_a_question_is_a_key(
    asker: httpx.Client, curator: httpx.Client, dataset: str
) -> None:
    """No caller gets the answer to a question that was not asked."""
    named = ask(asker, dataset, MEAN, key=AUTO).json()["id"]
    entries = curator.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    key = next(each["idem"] for each in entries if each["release"] == named)
    assert key.startswith("question-")
    assert ask(asker, dataset, MEAN, key=key).json()["id"] == named
    assert_problem(ask(asker, dataset, {**MEAN, "columns": ["food"]}, key=key), 422)


def test_previews_and_dry_runs_are_of_the_question_too(asker: httpx.Client, dataset: str) -> None:
    for path in ("previews", "dry-runs"):
        first, again = (
            asker.post(
                f"/v1/datasets/{dataset}/{path}", json={"statistic": asked, "epsilon": "0.5"}
            ).json()
            for asked in (FITTED, SPELLED)
        )
        assert first["statistic"] != again["statistic"], "each says what was asked"
        assert {**again, "statistic": first["statistic"]} == first
