"""Releases over HTTP: answers, replays, refusals, paging, polling, races."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import httpx
import pytest

from app.api.answers.releases import ReleaseAnswer
from app.services.plans.questions import KINDS
from tests.contract.examples import with_examples
from tests.contract.service import (
    MEAN,
    ROWS,
    Service,
    ask,
    assert_problem,
    make_key,
    send_raw,
    settled,
    spent,
    upload,
)
from tests.mechanisms.offers import PROOFS
from tests.tiers import wide

ASKED: list[dict[str, Any]] = [
    {"kind": "mean", "columns": ["income", "food"]},
    {"kind": "sum", "columns": ["income"]},
    {"kind": "histogram", "columns": ["region"]},
    {"kind": "histogram", "columns": ["income"], "edges": {"income": [0, 50, 100]}},
    {"kind": "count", "where": [{"column": "owner", "op": "==", "value": True}]},
    {"kind": "quantile", "column": "income", "levels": [0.1, 0.5, 0.9]},
    {"kind": "variance", "columns": ["income", "food"]},
    {"kind": "moments", "columns": ["income", "food", "owner"]},
    {"kind": "covariance", "columns": ["income", "food", "owner"]},
    {"kind": "correlation", "columns": ["income", "owner"]},
    {"kind": "linear_regression", "target": "food", "features": ["income"]},
    {"kind": "logistic_regression", "target": "owner", "features": ["income", "food"]},
    {
        "kind": "logistic_regression",
        "target": {"column": "income", "op": ">=", "value": 50},
        "features": ["food"],
        "bound": 2,
    },
    {"kind": "quantile_regression", "target": "food", "features": ["income", "owner"], "bound": 1},
    {"kind": "geometric_median", "columns": ["income", "food"]},
    {
        "kind": "stack",
        "parts": [
            {"statistic": {"kind": "mean", "columns": ["income"]}, "share": 2},
            {"statistic": {"kind": "histogram", "columns": ["region"]}},
            {"statistic": {"kind": "quantile", "column": "income", "levels": [0.5]}, "share": 0.1},
        ],
    },
    {"kind": "poisson_regression", "target": "food", "features": ["income"], "bound": 2},
    {
        "kind": "kaplan_meier",
        "time": "income",
        "event": "owner",
        "edges": {"income": {"step": 25}},
    },
    {"kind": "roc", "score": "food", "label": "owner", "edges": {"food": [0, 10, 25, 50]}},
]
STATISTICS = with_examples(ASKED)
JOBS = ("geometric_median",)
EPSILONS = ["0.5", *wide("0.000000001", "10000")]


def test_every_kind_is_asked_for() -> None:
    assert {each["kind"] for each in STATISTICS} == set(KINDS)


@pytest.fixture(scope="module")
def shared_datasets(curator: httpx.Client) -> dict[str, str]:
    """Return a data set of each adjacency that many tests may spend from."""
    budget, bound = {"epsilon": "1000000"}, {"adjacency": "add_remove", "max_rows": 1000}
    kinds: dict[str, dict[str, Any]] = {"replace_one": {}, "add_remove": bound}
    return {name: str(upload(curator, budget=budget, **more)["id"]) for name, more in kinds.items()}


@pytest.fixture(scope="module")
def same_rows(curator: httpx.Client) -> dict[int, str]:
    """Return data sets of no row, one, and five equal ones, that many tests may spend from."""
    head, budget = ROWS.splitlines()[0] + "\n", {"epsilon": "1000"}
    bound: dict[str, Any] = {"adjacency": "add_remove", "max_rows": 100, "budget": budget}
    texts = {rows: head + "40,20,south,false\n" * rows for rows in (0, 1, 5)}
    return {rows: str(upload(curator, text, **bound)["id"]) for rows, text in texts.items()}


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda body: f"{body['kind']}")
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_an_answer_has_the_contract_s_form(
    curator: httpx.Client,
    shared_datasets: Mapping[str, str],
    statistic: Any,
    adjacency: str,
    epsilon: str,
) -> None:
    dataset = shared_datasets[adjacency]
    before = Decimal(spent(curator, dataset))
    first = ask(curator, dataset, statistic, epsilon=epsilon)
    assert first.status_code == (202 if statistic["kind"] in JOBS else 201), first.text
    answer = settled(curator, first)
    body = answer.json()
    ReleaseAnswer.model_validate_json(answer.content, strict=True, extra="forbid")
    assert first.headers["location"] == f"/v1/releases/{body['id']}"
    assert (body["status"], body["epsilon"]) == ("released", epsilon)
    if statistic["kind"] == "stack":
        for asked, answered in zip(statistic["parts"], body["statistic"]["parts"], strict=True):
            assert answered["statistic"].items() >= asked["statistic"].items()
    else:
        assert body["statistic"].items() >= statistic.items()
    assert body["guarantee"]["definition"] == "pure epsilon-DP"
    assert body["guarantee"]["adjacency"] == adjacency
    assert body["value"]
    assert Decimal(spent(curator, dataset)) - before == Decimal(epsilon)


def test_the_times_do_not_tell_how_long_the_draw_took(curator: httpx.Client, dataset: str) -> None:
    body = ask(curator, dataset).json()
    assert body["created_at"].endswith("Z")
    assert "." not in body["created_at"] + body["released_at"]


def test_the_same_body_replays_the_same_bytes(analyst: httpx.Client, dataset: str) -> None:
    first = ask(analyst, dataset, key="replay", epsilon="0.1")
    assert ask(analyst, dataset, key="replay", epsilon="0.1").content == first.content
    # another spelling of the same request
    spelt = {"epsilon": 0.1, "norm": "auto", "mechanism": "auto", "statistic": MEAN}
    again = analyst.post(
        f"/v1/datasets/{dataset}/releases", json=spelt, headers={"Idempotency-Key": "replay"}
    )
    assert (again.status_code, again.content) == (201, first.content)
    assert analyst.get(f"/v1/releases/{first.json()['id']}").content == first.content
    assert spent(analyst, dataset) == "0.1"


def test_another_body_under_the_same_key_is_refused(curator: httpx.Client, dataset: str) -> None:
    ask(curator, dataset, key="other")
    for answer in (
        ask(curator, dataset, key="other", epsilon="0.2"),
        ask(curator, dataset, key="other", norm="l1"),
        ask(curator, dataset, {"kind": "mean", "columns": ["food"]}, key="other"),
        ask(curator, str(upload(curator)["id"]), key="other"),
    ):
        assert_problem(answer, 422, "idempotency-key-reused")
    assert spent(curator, dataset) == "0.1"


def test_a_key_belongs_to_the_person(service: Service, admin: httpx.Client, dataset: str) -> None:
    one, two = (make_key(admin, "analyst")["secret"] for _ in range(2))
    with service.client(one) as ada, service.client(two) as bob:
        mine, theirs = ask(ada, dataset, key="shared"), ask(bob, dataset, key="shared")
    assert mine.json()["id"] != theirs.json()["id"]


def test_a_refusal_stores_nothing(curator: httpx.Client) -> None:
    dataset = str(upload(curator, budget={"epsilon": "1"})["id"])
    refused = assert_problem(ask(curator, dataset, epsilon="1.5", key="again"), 409)
    assert (refused["code"], refused["requested"], refused["remaining"]) == (
        "budget-exceeded", "1.5", "1",
    )  # fmt: skip
    granted = curator.post(
        f"/v1/datasets/{dataset}/grants", json={"epsilon": 0.5, "reason": "a new wave"}
    )
    assert (granted.status_code, granted.json()["total_after"]) == (201, "1.5")
    assert ask(curator, dataset, epsilon="1.5", key="again").status_code == 201
    left = curator.get(f"/v1/datasets/{dataset}/budget").json()
    assert left["epsilon"] == {"total": "1.5", "spent": "1.5", "reserved": "0", "remaining": "0"}
    assert left["yours"] == {"spent": "1.5"}


def test_a_policy_is_kept(curator: httpx.Client) -> None:
    policy = {"max_epsilon_per_release": "0.5", "allowed": ["mean", "quantile"]}
    found = upload(curator, policy=policy)
    assert found["policy"] == {"review": "never", "reviewers": 1, **policy}
    refused = assert_problem(ask(curator, found["id"], epsilon="0.6"), 422, "policy-refused")
    assert refused["rule"] == "max_epsilon_per_release"
    total = {"kind": "sum", "columns": ["income"]}
    assert assert_problem(ask(curator, found["id"], total), 422)["rule"] == "allowed"
    assert ask(curator, found["id"], epsilon="0.5").status_code == 201
    assert spent(curator, found["id"]) == "0.5"


@pytest.mark.parametrize("call", ["releases", "previews"])
def test_no_rows_under_replace_one_is_refused(curator: httpx.Client, call: str) -> None:
    dataset = str(upload(curator, ROWS.splitlines()[0] + "\n")["id"])
    answer = curator.post(
        f"/v1/datasets/{dataset}/{call}",
        json={"statistic": MEAN, "epsilon": "1"},
        headers={"Idempotency-Key": "empty"},
    )
    assert_problem(answer, 422, "empty-dataset")
    assert spent(curator, dataset) == "0"


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda body: f"{body['kind']}")
@pytest.mark.parametrize("rows", [0, *wide(1, 5)])
def test_degenerate_data_give_answers_of_the_same_shape(
    curator: httpx.Client,
    shared_datasets: Mapping[str, str],
    same_rows: Mapping[int, str],
    statistic: Any,
    rows: int,
) -> None:
    datasets = (same_rows[rows], shared_datasets["add_remove"])
    odd, even = (ask(curator, each, statistic) for each in datasets)
    assert odd.status_code == even.status_code == (202 if statistic["kind"] in JOBS else 201)
    shown = [settled(curator, each).json() for each in (odd, even)]
    assert [each["status"] for each in shown] == ["released", "released"]
    assert _shape(shown[0]["value"]) == _shape(shown[1]["value"])


def _shape(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _shape(inner) for key, inner in part.items()}
    if isinstance(part, list):
        return [_shape(inner) for inner in part]
    return "number" if isinstance(part, int | float) else part


def test_polling_by_etag(analyst: httpx.Client, dataset: str) -> None:
    made = ask(analyst, dataset)
    path, tag = made.headers["location"], made.headers["etag"]
    found = analyst.get(path)
    assert found.headers["etag"] == tag == f'"{hashlib.sha256(found.content).hexdigest()[:32]}"'
    for condition in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        unchanged = analyst.get(path, headers={"If-None-Match": condition})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert analyst.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_lists_are_paged(service: Service, admin: httpx.Client, dataset: str) -> None:
    with service.client(make_key(admin, "analyst")["secret"]) as client:
        made = [ask(client, dataset, epsilon="0.01").json() for _ in range(7)]
        for limit in (1, 3, 7, 200):
            seen: list[Any] = []
            cursor: str | None = None
            pages = 0
            while pages == 0 or cursor:
                query = {"limit": limit} | ({"cursor": cursor} if cursor else {})
                page = client.get("/v1/releases", params=query).json()
                assert len(page["items"]) <= limit
                seen, cursor, pages = seen + page["items"], page["next"], pages + 1
            assert seen == made[::-1]
            assert pages == -(-7 // limit)
        only = client.get("/v1/releases", params={"dataset": "ds_other"}).json()
        assert only == {"items": [], "next": None}
    entries: list[Any] = []
    cursor = None
    while not entries or cursor:
        query = {"limit": 3} | ({"cursor": cursor} if cursor else {})
        page = admin.get(f"/v1/datasets/{dataset}/ledger", params=query).json()
        entries, cursor = entries + page["items"], page["next"]
    assert [entry["seq"] for entry in entries] == list(range(1, 9))
    assert all(after["prev"] == before["hash"] for before, after in pairwise(entries))
    for path in ("/v1/datasets", "/v1/keys"):
        first = admin.get(path, params={"limit": 2}).json()
        second = admin.get(path, params={"limit": 2, "cursor": first["next"]}).json()
        ids = [item["id"] for item in first["items"] + second["items"]]
        assert len(set(ids)) == len(ids) >= 3


@pytest.mark.parametrize("clients", [16, *wide(64)])
def test_clients_race_for_3_releases(service: Service, curator: httpx.Client, clients: int) -> None:
    dataset = str(upload(curator, budget={"epsilon": "3"})["id"])
    gate = threading.Barrier(clients)

    def request(number: int) -> httpx.Response:
        with service.client(curator.headers["authorization"].removeprefix("Bearer ")) as client:
            gate.wait()
            return ask(client, dataset, epsilon="1", key=f"race {dataset} {number}")

    with ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(request, range(clients)))
    refused = [409] * (clients - 3)
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + refused
    for answer in answers:
        if answer.status_code == 409:
            assert_problem(answer, 409, "budget-exceeded")
    assert spent(curator, dataset) == "3"
    assert curator.get("/v1/ledger/verification").json()["ok"] is True


@pytest.mark.wide
def test_32_clients_send_the_same_request(service: Service, curator: httpx.Client) -> None:
    dataset = str(upload(curator)["id"])
    gate = threading.Barrier(32)

    def request(_: int) -> httpx.Response:
        with service.client(curator.headers["authorization"].removeprefix("Bearer ")) as client:
            gate.wait()
            return ask(client, dataset, epsilon="1", key=f"same {dataset}")

    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(request, range(32)))
    assert {(answer.status_code, answer.content) for answer in answers} == {
        (201, answers[0].content)
    }
    assert spent(curator, dataset) == "1"


WITH_NOISE = {
    proof.statistic.kind
    for proof in PROOFS
    if proof.noise and proof.mechanism == next(iter(proof.statistic.mechanisms))
}
QUANTILE = {"kind": "quantile", "column": "income", "levels": [0.5]}
REGRESSION = {"kind": "linear_regression", "target": "food", "features": ["income"]}
PREVIEWS = [each for each in STATISTICS if each["kind"] in WITH_NOISE - {"stack"}]


@pytest.fixture(scope="module")
def unlike(curator: httpx.Client) -> Mapping[str, Sequence[str]]:
    """Return two data sets of each adjacency, alike in nothing but their public facts."""
    high = ROWS.splitlines()[0] + "\n" + "100,50,north,true\n" * 40
    bounds: Mapping[str, Any] = {"replace_one": {}, "add_remove": {"max_rows": 1000}}
    return {
        adjacency: [
            upload(curator, rows, adjacency=adjacency, **bound)["id"] for rows in (ROWS, high)
        ]
        for adjacency, bound in bounds.items()
    }


@pytest.mark.parametrize("statistic", PREVIEWS, ids=lambda body: f"{body['kind']}")
@pytest.mark.parametrize("adjacency", ["add_remove", *wide("replace_one")])
def test_a_preview_weighs_without_reading(
    curator: httpx.Client, unlike: Mapping[str, Sequence[str]], statistic: Any, adjacency: str
) -> None:
    body = {"statistic": statistic, "epsilon": "0.5", "assume_rows": 40}
    previews = []
    for each in unlike[adjacency]:
        answer = curator.post(f"/v1/datasets/{each}/previews", json=body)
        assert answer.status_code == 200, answer.text
        previews.append({**answer.json(), "dataset": None})
    assert previews[0] == previews[1]
    assert previews[0]["cost"] == "0.5"
    assert previews[0]["noise"]["std"]
    assert "new charge" in previews[0]["notice"]
    assert spent(curator, unlike[adjacency][0]) == "0"


KNOWN_LAW = {"count", "histogram", "tables", "sum", "mean", "moments"}


@pytest.mark.parametrize(
    "statistic",
    [each for each in PREVIEWS if each["kind"] in KNOWN_LAW],
    ids=lambda body: f"{body['kind']}",
)
def test_the_epsilon_for_a_wanted_accuracy_is_enough_and_tight(
    curator: httpx.Client, untouched: str, statistic: Any
) -> None:
    path = f"/v1/datasets/{untouched}/previews"

    def widest(epsilon: str) -> float:
        answer = curator.post(path, json={"statistic": statistic, "epsilon": epsilon})
        return max(_half_widths(answer.json()["noise"]["interval_95"]))

    wanted = widest("1") / 3
    body = {"statistic": statistic, "epsilon": "1", "accuracy": wanted}
    needed = curator.post(path, json=body).json()["accuracy"]
    assert needed["wanted"] == wanted
    assert widest(needed["epsilon"]) <= wanted
    # noise on a lattice falls in steps: a tenth less epsilon is certainly too little
    assert widest(f"{float(needed['epsilon']) * 0.9:.9f}") > wanted * 0.999


@pytest.mark.parametrize(
    "statistic",
    [each for each in PREVIEWS if each["kind"] not in KNOWN_LAW],
    ids=lambda body: f"{body['kind']}",
)
def test_of_ratios_and_products_it_is_what_a_simulation_tells(
    curator: httpx.Client, untouched: str, statistic: Any
) -> None:
    """95% of errors are within about three times the mean error, by any law of noise here."""
    path = f"/v1/datasets/{untouched}/previews"
    usual = curator.post(path, json={"statistic": statistic, "epsilon": "2"}).json()
    errors = usual["expected_error"]
    wanted = 3 * max(map(float, _leaves(errors)))
    body = {"statistic": statistic, "epsilon": "2", "accuracy": wanted}
    needed = float(curator.post(path, json=body).json()["accuracy"]["epsilon"])
    assert 0.8 < needed < 5, (errors, usual["noise"]["interval_95"])


@pytest.mark.parametrize(
    ("statistic", "mechanism"),
    [(QUANTILE, "kng"), (REGRESSION, "objective_perturbation"), (REGRESSION, "auto")],
    ids=("quantile", "perturbed regression", "regression"),
)
def test_laws_that_depend_on_data_have_an_epsilon_for_an_accuracy_too(
    curator: httpx.Client, untouched: str, statistic: Any, mechanism: str
) -> None:
    def needed(accuracy: float) -> Fraction:
        body = {"statistic": statistic, "mechanism": mechanism, "epsilon": "1"}
        path = f"/v1/datasets/{untouched}/previews"
        answer = curator.post(path, json={**body, "accuracy": accuracy})
        assert answer.status_code == 200, answer.text
        assert answer.json()["cost"] == "1", "the preview stays about the epsilon that was asked"
        return Fraction(answer.json()["accuracy"]["epsilon"])

    coarse, fine = needed(15), needed(5)
    assert 1.5 * coarse < fine < 30 * coarse, "a third of the error costs more"
    assert needed(15) == coarse, "public facts alone decide"


def test_an_accuracy_alone_is_weighed_at_the_epsilon_it_takes(
    curator: httpx.Client, untouched: str
) -> None:
    path, wish = f"/v1/datasets/{untouched}/previews", {"statistic": MEAN, "accuracy": 3}
    found = curator.post(path, json=wish).json()
    needed = found["accuracy"]["epsilon"]
    assert found["epsilon"] == found["cost"] == needed != "1"
    assert max(_half_widths(found["noise"]["interval_95"])) <= 3
    assert found == curator.post(path, json={**wish, "epsilon": needed}).json()
    assert found["usefulness"]["verdict"] == "good"
    assert "± 3 is wanted" in found["usefulness"]["sentence"]
    priced = curator.post(path, json={"statistic": MEAN, "epsilon": needed}).json()
    assert {**found, "accuracy": None, "usefulness": priced["usefulness"]} == priced
    by_name = curator.post(f"/v1/datasets/{untouched}/scripts", json=wish)
    assert f"'epsilon': '{needed}'" in by_name.text
    beyond = curator.post(path, json={**wish, "accuracy": 1e-12}).json()
    assert (beyond["accuracy"]["epsilon"], beyond["epsilon"]) == (None, "1")


@pytest.mark.parametrize("wish", [{}, {"accuracy": None}, {"epsilon": None, "accuracy": 3}])
def test_a_price_or_an_accuracy_is_needed(analyst: httpx.Client, untouched: str, wish: Any) -> None:
    answer = analyst.post(f"/v1/datasets/{untouched}/previews", json={"statistic": MEAN, **wish})
    assert_problem(answer, 422, "invalid-request")
    assert [fault["field"] for fault in answer.json()["errors"]] == ["epsilon"]


def _leaves(part: Any) -> list[float]:
    if isinstance(part, int | float):
        return [part]
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return [x for each in inner for x in _leaves(each)]


def _half_widths(part: Any) -> list[float]:
    if isinstance(part, dict):
        return [width for inner in part.values() for width in _half_widths(inner)]
    if isinstance(part, list) and len(part) == 2 and isinstance(part[0], int | float):
        return [(part[1] - part[0]) / 2]
    return (
        [width for inner in part for width in _half_widths(inner)] if isinstance(part, list) else []
    )


@pytest.mark.parametrize(
    "more",
    [
        {"accuracy": 0}, {"accuracy": -1}, {"accuracy": "1"}, {"accuracy": 1e301},
        {"assume_rows": 0}, {"assume_rows": 1.5}, {"assume_rows": True}, {"wish": 1},
    ],
)  # fmt: skip
def test_bad_wishes_are_refused(analyst: httpx.Client, untouched: str, more: Any) -> None:
    body = json.dumps({"statistic": MEAN, "epsilon": "1", **more})
    answer = send_raw(analyst, f"/v1/datasets/{untouched}/previews", body.encode())
    assert_problem(answer, 422, "invalid-request")


def test_an_accuracy_out_of_reach_has_no_epsilon(analyst: httpx.Client, dataset: str) -> None:
    body = {"statistic": MEAN, "epsilon": "1", "accuracy": 1e-12}
    answer = analyst.post(f"/v1/datasets/{dataset}/previews", json=body)
    assert answer.json()["accuracy"] == {
        "wanted": 1e-12,
        "epsilon": None,
        "estimate": "closed form",
    }
