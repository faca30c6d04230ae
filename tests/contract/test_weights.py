"""Weights over HTTP: sums, means and regressions of records that count by a column."""

from __future__ import annotations

import math
from typing import Any

import httpx
import pytest

from tests.contract.service import ask, assert_problem, settled, upload
from tests.tiers import wide

COLUMNS = {
    "income": {"type": "number", "lower": 0, "upper": 100},
    "food": {"type": "number", "lower": 0, "upper": 50},
    "hours": {"type": "number", "lower": 0, "upper": 40},
    "debt": {"type": "number", "lower": -10, "upper": 10},
}
TABLE = [(row % 97, row % 97 / 4 + 5, 10 if row % 97 < 40 else 40) for row in range(1, 1200)]
FILE = "\n".join(
    ["income,food,hours,debt", *(f"{x},{y},{w},{x / 100 + y / 7}" for x, y, w in TABLE), ""]
)
KINDS: dict[str, dict[str, Any]] = {
    "replace_one": {},
    "add_remove": {"adjacency": "add_remove", "max_rows": 5000},
}


@pytest.fixture(scope="module", params=KINDS)
def dataset(request: pytest.FixtureRequest, admin: httpx.Client) -> str:
    overlap = {"reason": "the same rows, for both adjacencies"}
    more = {"columns": COLUMNS, "budget": {"epsilon": "1000000"}, "overlap": overlap}
    return str(upload(admin, FILE, **more, **KINDS[request.param])["id"])


def test_answers_count_records_by_weight(curator: httpx.Client, dataset: str) -> None:
    total = sum(w for _, _, w in TABLE)
    weighted = sum(w * x for x, _, w in TABLE)
    mean = {"kind": "mean", "columns": ["income"], "weights": "hours"}
    body = ask(curator, dataset, mean, epsilon="10000").json()
    assert body["statistic"]["weights"] == "hours"
    assert body["details"]["weights"]["column"] == "hours"
    assert body["value"]["income"] == pytest.approx(weighted / total, rel=1e-3)
    asked = {"kind": "sum", "columns": ["income"], "weights": "hours"}
    assert ask(curator, dataset, asked, epsilon="10000").json()["value"]["income"] == (
        pytest.approx(weighted, rel=1e-3)
    )
    plain = ask(curator, dataset, {"kind": "mean", "columns": ["income"]}, epsilon="10000").json()
    assert "weights" not in plain["statistic"]
    assert abs(plain["value"]["income"] - body["value"]["income"]) > 5


def test_counts_are_sums_of_weights(curator: httpx.Client, dataset: str) -> None:
    """In counts, histograms and tables: previewed, tried and released; their margins are free."""
    low, high = (sum(w for x, _, w in TABLE if (x < 40) == small) for small in (True, False))
    edges = {"income": [0, 40, 100]}
    count = {"kind": "count", "weights": "hours"}
    histogram = {"kind": "histogram", "columns": ["income"], "edges": edges, "weights": "hours"}
    tables = {
        "kind": "tables", "columns": ["income", "food"], "weights": "hours",
        "edges": {**edges, "food": [0, 15, 50]},
    }  # fmt: skip
    for statistic in (count, histogram, tables):
        body = {"statistic": statistic, "epsilon": "10000"}
        for free in ("previews", "dry-runs"):
            seen = curator.post(f"/v1/datasets/{dataset}/{free}", json=body)
            assert seen.status_code == 200, seen.text
            assert seen.json()["details"]["weights"]["largest"] == 40
    total = ask(curator, dataset, count, epsilon="10000").json()
    assert total["value"]["count"] == pytest.approx(low + high, rel=1e-3)
    cells = ask(curator, dataset, histogram, epsilon="10000").json()["value"]["cells"]
    assert [cell["count"] for cell in cells] == pytest.approx([low, high], rel=1e-3)
    released = settled(curator, ask(curator, dataset, tables, epsilon="10000")).json()
    path = f"/v1/releases/{released['id']}"
    free = curator.post(f"{path}/derivations", json={"statistic": histogram}).json()
    own = [cell["count"] for cell in free["value"]["cells"]]
    assert own == pytest.approx([low, high], rel=5e-3)
    rows = curator.post(f"{path}/synthetic", json={"rows": 2000, "seed": 1}).text.splitlines()[1:]
    share = sum(float(row.split(",")[0]) < 40 for row in rows) / len(rows)
    assert share == pytest.approx(low / (low + high), abs=0.02)
    bare = {**histogram, "weights": None}
    refused = curator.post(f"{path}/derivations", json={"statistic": bare})
    assert_problem(refused, 422, "invalid-request")


def test_spreads_and_quantiles_count_records_by_weight(curator: httpx.Client, dataset: str) -> None:
    """Previewed, tried and released; without standard errors, and the reason is stated."""
    total = sum(w for _, _, w in TABLE)
    mean = sum(w * x for x, _, w in TABLE) / total
    variance = sum(w * (x - mean) ** 2 for x, _, w in TABLE) / total
    spread = {"columns": ["income"], "weights": "hours"}
    quantile = {"kind": "quantile", "column": "income", "levels": [0.5], "weights": "hours"}
    asked = [{"kind": "variance", **spread}, {"kind": "std", **spread}, quantile]
    found = []
    for statistic in asked:
        body = {"statistic": statistic, "epsilon": "10000"}
        for free in ("previews", "dry-runs"):
            seen = curator.post(f"/v1/datasets/{dataset}/{free}", json=body)
            assert seen.status_code == 200, seen.text
            assert seen.json()["details"]["weights"]["largest"] == 40
        released = settled(curator, ask(curator, dataset, statistic, epsilon="10000")).json()
        found.append(released["value"])
        refused = ask(curator, dataset, statistic, inference={"share": "1/4"})
        assert "with weights" in str(assert_problem(refused, 422, "invalid-request"))
    assert found[0]["income"] == pytest.approx(variance, rel=1e-3)
    assert found[1]["income"] == pytest.approx(variance**0.5, rel=1e-3)
    middle = found[2]["quantiles"][0]["value"]
    below = sum(w for x, _, w in TABLE if x <= middle)
    assert below == pytest.approx(total / 2, rel=0.03)


@pytest.mark.parametrize("mechanism", [None, "functional", *wide("kng", "objective_perturbation")])
@pytest.mark.parametrize("kind", ["linear_regression", "quantile_regression"])
def test_regressions_weigh_by_every_mechanism(
    curator: httpx.Client, dataset: str, kind: str, mechanism: str | None
) -> None:
    asked = {"kind": kind, "formula": "food ~ income", "weights": "hours", "bound": 3}
    by = {} if mechanism is None else {"mechanism": mechanism}
    answer = ask(curator, dataset, asked, epsilon="10000", **by)
    if kind == "quantile_regression" and mechanism == "functional":
        assert_problem(answer, 422, "invalid-request")
        return
    body = settled(curator, answer).json()
    assert body["value"]["coefficients"]["income"] == pytest.approx(0.25, abs=0.01)
    assert body["details"]["weights"]["column"] == "hours"


@pytest.mark.wide
def test_odds_are_weighed(curator: httpx.Client, dataset: str) -> None:
    target = {"column": "income", "op": ">=", "value": 40}
    asked = {"kind": "logistic_regression", "target": target, "features": []}

    def odds(**more: str) -> float:
        body = settled(curator, ask(curator, dataset, {**asked, **more}, epsilon="10000")).json()
        return math.exp(body["value"]["coefficients"]["(intercept)"])

    many, few = (sum(x >= 40 for x, _, _ in TABLE), sum(x < 40 for x, _, _ in TABLE))
    assert odds() == pytest.approx(many / few, rel=0.05)
    assert odds(weights="hours") == pytest.approx(40 * many / (10 * few), rel=0.05)


@pytest.mark.wide
def test_previews_know_weights(curator: httpx.Client, dataset: str) -> None:
    for statistic in (
        {"kind": "mean", "columns": ["income"], "weights": "hours", "by": [
            {"column": "food", "edges": [0, 15, 50]}]},
        {"kind": "sum", "columns": ["income"], "weights": "hours", "where": [
            {"column": "food", "op": ">", "value": 10}]},
        {"kind": "linear_regression", "target": "food", "features": ["income"],
         "weights": "hours"},
        {"kind": "quantile_regression", "target": "food", "features": ["income"],
         "weights": "hours"},
    ):  # fmt: skip
        body = {"statistic": statistic, "epsilon": "1"}
        seen = curator.post(f"/v1/datasets/{dataset}/previews", json=body)
        assert seen.status_code == 200, seen.text
        assert seen.json()["usefulness"]["verdict"]


@pytest.mark.parametrize("kind", ["summary", "moments", "pca", "test", "geometric_median"])
def test_who_takes_no_weights_is_named_on_their_page(
    curator: httpx.Client, dataset: str, kind: str
) -> None:
    more = {"test": "t"} if kind == "test" else {}
    asked = {"kind": kind, "columns": ["income"], "weights": "hours", **more}
    refused = curator.post(
        f"/v1/datasets/{dataset}/previews", json={"statistic": asked, "epsilon": "1"}
    )
    [error] = assert_problem(refused, 422, "invalid-request")["errors"]
    assert error["field"] in ("statistic", "statistic.weights")
    assert "page Weights says why" in error["message"]
    page = curator.get("/docs/weights").text
    assert f"<code>{kind}</code>" in page.partition("These take no weights")[2]


def test_curves_and_covariances_are_weighed(curator: httpx.Client, dataset: str) -> None:
    asked: dict[str, Any] = {
        "kind": "roc", "score": "income", "label": "rich", "derive": {"rich": "income > 50"},
        "edges": {"income": [0, 40, 100]}, "weights": "hours",
    }  # fmt: skip
    body = settled(curator, ask(curator, dataset, asked, epsilon="10000")).json()
    poor = [(x, w) for x, _, w in TABLE if x <= 50]
    share = sum(w for x, w in poor if x >= 40) / sum(w for _, w in poor)
    assert body["value"]["curve"][0]["false_positive"] == pytest.approx(share, abs=1e-3)
    assert body["value"]["curve"][0]["true_positive"] == pytest.approx(1, abs=1e-3)
    assert body.get("inference") is None
    assert "weights" in body["details"]["no_inference"]


@pytest.mark.parametrize("column", ["debt", "nobody", 3])
def test_weights_that_may_be_negative_are_refused(
    curator: httpx.Client, dataset: str, column: Any
) -> None:
    asked = {"kind": "mean", "columns": ["income"], "weights": column}
    found = assert_problem(ask(curator, dataset, asked), 422, "invalid-request")
    assert "weights" in str(found)
