"""Derivations over HTTP: free, for those who see the release, and without the data."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import numpy as np
import pytest

from app.api.answers.releases import CalculatingAnswer, DerivationAnswer
from app.client import ReleaseDesk
from app.services.releases import derivations
from tests.contract.examples import of_moments, with_examples
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
from tests.speed import PATIENCE_S
from tests.tiers import wide

MOMENTS = {"kind": "moments", "columns": ["income", "food", "owner"]}
COLUMNS = ["food", "income"]
ASKED: list[dict[str, Any]] = [
    {"kind": "mean", "columns": COLUMNS},
    {"kind": "sum", "columns": COLUMNS},
    {"kind": "variance", "columns": COLUMNS},
    {"kind": "covariance", "columns": COLUMNS},
    {"kind": "correlation", "columns": COLUMNS},
    {"kind": "moments", "columns": COLUMNS},
    {"kind": "linear_regression", "target": "food", "features": ["income", "owner"]},
    {"kind": "linear_regression", "target": "food", "features": ["income"], "ridge": 3},
]
WANTED = with_examples(ASKED, of_moments())


def derive(client: httpx.Client, release: str, statistic: Any) -> httpx.Response:
    return client.post(f"/v1/releases/{release}/derivations", json={"statistic": statistic})


def released(client: httpx.Client, dataset: str, statistic: Any = None) -> dict[str, Any]:
    answer = ask(client, dataset, statistic or MOMENTS, epsilon="1")
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


@pytest.fixture(scope="module")
def parents(curator: httpx.Client) -> dict[str, dict[str, Any]]:
    """Return a release of moments under each adjacency, of a data set with room for others."""
    bounds: dict[str, dict[str, Any]] = {"replace_one": {}, "add_remove": {"max_rows": 1000}}
    budget = {"epsilon": "1000"}
    return {
        name: released(curator, upload(curator, adjacency=name, budget=budget, **bound)["id"])
        for name, bound in bounds.items()
    }


@pytest.mark.parametrize("adjacency", ["add_remove", *wide("replace_one")])
@pytest.mark.parametrize("statistic", WANTED, ids=lambda body: str(body["kind"]))
def test_a_derivation_has_the_contract_s_form(
    curator: httpx.Client, parents: dict[str, dict[str, Any]], statistic: Any, adjacency: str
) -> None:
    parent = parents[adjacency]
    dataset = parent["dataset"]
    answer = derive(curator, parent["id"], statistic)
    assert answer.status_code == 200, answer.text
    DerivationAnswer.model_validate_json(answer.content, strict=True, extra="forbid")
    body = answer.json()
    assert (body["derived_from"], body["dataset"]) == (parent["id"], dataset)
    assert body["statistic"].items() >= statistic.items()
    assert body["guarantee"] == parent["guarantee"]
    assert body["cost"] == "0"
    assert body["reason"].startswith("Post-processing")
    direct = ask(curator, dataset, statistic | {"kind": statistic["kind"]}, epsilon="1").json()
    assert body["value"].keys() == direct["value"].keys()
    assert body["noise"] is not None
    assert derive(curator, parent["id"], statistic).json() == body
    numbers = {"linear_regression": "coefficients", "mean": None, "variance": None, "std": None}
    inference = body["inference"]
    inferred = {*numbers, "covariance", "correlation"}
    assert (inference is not None) == (statistic["kind"] in inferred)
    if statistic["kind"] in numbers:
        place = numbers[statistic["kind"]]
        value = body["value"] if place is None else body["value"][place]
        unsaid = {tuple(edge["place"]) for edge in body.get("at_edge", ())}
        for term in inference["terms"]:
            expected = None if tuple(term["place"]) in unsaid else value[term["term"]]
            assert term["estimate"] == expected
        assert inference["cost"] == "0"


def test_a_regression_is_told_as_a_table(service: Service, curator: httpx.Client) -> None:
    """The client prints what the answer says, number by number."""
    parent = released(curator, str(upload(curator)["id"]))
    with ReleaseDesk(service.url, ADMIN_KEY) as desk:
        asked = {"kind": "linear_regression", "target": "food", "features": ["income"]}
        derived = desk.derive(parent["id"], asked)
        moments = desk.derive(parent["id"], {"kind": "moments", "columns": ["food"]})
    assert derived.inference is not None
    head, *lines = derived.summary().splitlines()
    assert head.split() == [
        "estimate",
        "std.",
        "error",
        "t",
        "value",
        "95%",
        "confidence",
        "95%",
        "noise",
    ]
    shown = {line.split()[0]: line.replace("cannot be said", "-").split() for line in lines[:4]}
    for term in [*derived.inference["terms"], *derived.inference["fit"]]:
        estimate = "-" if term["estimate"] is None else f"{term['estimate']:.4g}"
        assert shown[term["term"]][1:3] == [estimate, f"{term['std_error']:.4g}"]
    assert [line.count("[") for line in lines[:4]] == [2, 2, 1, 1]
    assert ("Cannot be said" in derived.summary()) == any(
        "reason" in each for each in derived.inference["fit"]
    )
    before = {name: " ".join(cells).split("[")[0].count(" ") for name, cells in shown.items()}
    assert before == {"(intercept)": 4, "income": 4, "r_squared": 3, "residual_variance": 3}
    assert "Method: simulated from the noisy moments" in derived.summary()
    assert moments.inference is None
    printed = moments.summary().splitlines()
    shown_too = moments.to_text().splitlines()
    assert printed[: len(shown_too)] == shown_too
    assert printed[len(shown_too) + 1].startswith("There are no standard errors.")


@pytest.mark.wide
def test_groups_have_terms_with_their_labels(curator: httpx.Client, dataset: str) -> None:
    by = {"by": ["owner"]}
    parent = released(curator, dataset, {"kind": "moments", "columns": ["income", "food"], **by})
    body = derive(curator, parent["id"], {"kind": "mean", "columns": ["food"], **by}).json()
    DerivationAnswer.model_validate(body, extra="forbid")
    assert [(term["by"], term["term"]) for term in body["inference"]["terms"]] == [
        (group["by"], "food") for group in body["value"]["groups"]
    ]


def test_the_numbers_are_numpy_s_and_nothing_is_charged(
    service: Service, admin: httpx.Client, curator: httpx.Client
) -> None:
    dataset = str(upload(curator)["id"])
    parent = released(curator, dataset)
    ledger = curator.get(f"/v1/datasets/{dataset}/ledger").content
    means = np.array([parent["value"]["means"][name] for name in MOMENTS["columns"]])
    covariance = np.array(parent["value"]["second"]) - np.outer(means, means)
    found = derive(curator, parent["id"], {"kind": "covariance", "columns": MOMENTS["columns"]})
    limits = np.outer([50, 25, 0.5], [50, 25, 0.5])
    lower = np.where(np.eye(3) == 1, 0, -limits)
    expected = np.clip(covariance, lower, limits)
    assert np.array(found.json()["value"]["matrix"]) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    with ReleaseDesk(service.url, ADMIN_KEY) as desk:
        mean = desk.derive(desk.released(parent["id"]), {"kind": "mean", "columns": ["food"]})
    assert mean.derived_from == parent["id"]
    assert mean.value["food"] == pytest.approx(means[1])
    assert spent(curator, dataset) == "1"
    assert curator.get(f"/v1/datasets/{dataset}/ledger").content == ledger


def test_erased_data_are_not_missed(service: Service, curator: httpx.Client) -> None:
    """No data access happens: the same bytes before and after the rows are gone."""
    dataset = str(upload(curator)["id"])
    parent = released(curator, dataset)
    before = [derive(curator, parent["id"], statistic).content for statistic in WANTED]
    assert curator.post(f"/v1/datasets/{dataset}/archive").json()["status"] == "archived"
    assert not list(service.data_dir.rglob(f"{dataset}*/*"))
    assert [derive(curator, parent["id"], statistic).content for statistic in WANTED] == before
    assert_problem(ask(curator, dataset, MOMENTS), 409, "dataset-archived")


def test_only_those_who_see_the_release(
    service: Service,
    admin: httpx.Client,
    analyst: httpx.Client,
    curator: httpx.Client,
    dataset: str,
) -> None:
    mine = released(analyst, dataset)["id"]
    with service.client(make_key(admin, "analyst")["secret"]) as stranger:
        foreign = assert_problem(derive(stranger, mine, WANTED[0]), 404, "not-found")
        unknown = assert_problem(derive(stranger, "rel_" + "0" * 32, WANTED[0]), 404)
    assert {**foreign, "request_id": ""} == {**unknown, "request_id": ""}
    assert derive(analyst, mine, WANTED[0]).content == derive(curator, mine, WANTED[0]).content


def test_a_policy_limits_what_leaves_the_data_not_what_has_left(curator: httpx.Client) -> None:
    dataset = str(upload(curator, policy={"allowed": ["moments"]})["id"])
    parent = released(curator, dataset)
    assert derive(curator, parent["id"], WANTED[0]).status_code == 200


def test_what_is_not_covered_is_refused_with_what_is(curator: httpx.Client, dataset: str) -> None:
    parent = released(curator, dataset, {"kind": "moments", "columns": ["income", "food"]})
    wanted = {"kind": "mean", "columns": ["owner"]}
    problem = assert_problem(derive(curator, parent["id"], wanted), 422, "invalid-request")
    assert problem["errors"][0]["field"] == "statistic"
    assert "linear_regression of income, food" in problem["detail"]
    quantile = released(curator, dataset, {"kind": "quantile", "column": "income", "levels": [0.5]})
    problem = assert_problem(derive(curator, quantile["id"], wanted), 422, "invalid-request")
    assert "nothing" in problem["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b'{"statistic":{"kind":"mean","columns":["income"]},"epsilon":1}',
        b'{"statistic":{"kind":"mean","columns":["income"],"more":1}}',
        b'{"statistic":{"kind":"sentinel"}}',
        b'{"statistic":{"kind":"mean","columns":["sentinel"]}}',
        b'{"statistic":{"kind":"linear_regression","target":"food","features":["income"],"bound":0}}',
    ],
)
def test_bad_requests_are_refused_without_echo(
    curator: httpx.Client, parents: dict[str, dict[str, Any]], body: bytes
) -> None:
    parent = parents["replace_one"]
    answer = send_raw(curator, f"/v1/releases/{parent['id']}/derivations", body)
    problem = assert_problem(answer, 422, "invalid-request")
    assert "sentinel" not in json.dumps(problem)


# Several releases as one

REGION = {"kind": "histogram", "columns": ["region"]}
TABLE = {"kind": "histogram", "columns": ["region", "owner"]}


def combine(client: httpx.Client, releases: list[dict[str, Any]], statistic: Any) -> httpx.Response:
    first, *others = (each["id"] for each in releases)
    body = {"statistic": statistic, "together_with": others}
    return client.post(f"/v1/releases/{first}/derivations", json=body)


def counts(part: Any) -> list[float]:
    return [cell["count"] for cell in part["cells"]]


def test_several_releases_are_combined(
    service: Service, curator: httpx.Client, dataset: str
) -> None:
    parents = [released(curator, dataset, asked) for asked in (REGION, TABLE, REGION)]
    before = spent(curator, dataset)
    answer = combine(curator, parents, REGION)
    assert answer.status_code == 200, answer.text
    DerivationAnswer.model_validate_json(answer.content, strict=True, extra="forbid")
    body = answer.json()
    assert body["derived_from"] == parents[0]["id"]
    assert body["together_with"] == [each["id"] for each in parents[1:]]
    assert body["guarantee"]["epsilon"] == "3"
    assert "composition" in body["guarantee"]["theorem"]
    assert (body["cost"], spent(curator, dataset)) == ("0", before)
    assert body["reason"].startswith("Post-processing: least squares")
    table = combine(curator, [parents[2], parents[1], parents[0]], TABLE).json()
    cells = counts(table["value"])
    assert counts(body["value"]) == [cells[0] + cells[1], cells[2] + cells[3]]
    alone = counts(parents[0]["noise"]["std"])
    assert all(a < b for a, b in zip(counts(body["noise"]["std"]), alone, strict=True))
    with ReleaseDesk(service.url, ADMIN_KEY) as desk:
        first, *others = (desk.released(each["id"]) for each in parents)
        derived = desk.derive(first, REGION, together_with=others)
    assert derived.value == body["value"]
    assert derived.together_with == body["together_with"]


def test_what_takes_long_goes_on_and_is_asked_for_again(
    service: Service, curator: httpx.Client, dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each caller gets the progress, and then the answer of a short calculation."""
    parents = [released(curator, dataset, asked) for asked in (REGION, TABLE, REGION)]
    at_once = combine(curator, parents, REGION)
    monkeypatch.setattr(derivations, "AT_ONCE_MS", 0.0)
    monkeypatch.setattr(derivations, "AGAIN_S", 0.0)
    answer = combine(curator, parents, REGION)
    CalculatingAnswer.model_validate_json(answer.content, strict=True, extra="forbid")
    assert (answer.status_code, answer.headers["Retry-After"]) == (202, "2")
    with ReleaseDesk(service.url, ADMIN_KEY) as desk:
        first, *others = (desk.released(each["id"]) for each in parents)
        derived = desk.derive(first, REGION, together_with=others)
    assert derived.value == at_once.json()["value"]
    kept = combine(curator, parents, REGION)
    assert (kept.status_code, kept.content) == (200, at_once.content)
    wanted = combine(curator, parents[:2], TABLE)
    while wanted.status_code == 202:
        time.sleep(0.05)
        wanted = combine(curator, parents[:2], TABLE)
    assert wanted.json()["statistic"]["columns"] == TABLE["columns"]
    regions = [parents[0], parents[2]]
    refused = combine(curator, regions, TABLE)
    while refused.status_code == 202:
        time.sleep(0.05)
        refused = combine(curator, regions, TABLE)
    assert "do not determine" in assert_problem(refused, 422, "invalid-request")["detail"]


def test_who_may_not_see_a_release_does_not_get_what_was_kept_of_it(
    admin: httpx.Client, analyst: httpx.Client, dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = [released(admin, dataset, asked) for asked in (REGION, TABLE)]
    monkeypatch.setattr(derivations, "AT_ONCE_MS", 0.0)
    while combine(admin, parents, REGION).status_code == 202:
        pass
    assert_problem(combine(analyst, parents, REGION), 404, "not-found")


@pytest.mark.slow
def test_whole_counts_of_many_tables_are_a_calculation_that_goes_on(curator: httpx.Client) -> None:
    """Two releases of all pairs of 30 columns: 27,840 cells, and some seconds."""
    names = [f"c{place}" for place in range(30)]
    columns = {name: {"type": "category", "values": [*"abcdefgh"]} for name in names}
    lines = [",".join("abcdefgh"[(row * (at + 3) + row // 7) % 8] for at in range(30))
             for row in range(4000)]  # fmt: skip
    rows = "\n".join([",".join(names), *lines])
    held = str(upload(curator, rows, columns=columns, budget={"epsilon": "10"})["id"])
    tables = {"kind": "tables", "columns": names}
    asked = [ask(curator, held, tables, epsilon="1") for _ in range(2)]
    parents = [settled(curator, each).json() for each in asked]
    began, far = time.monotonic(), [0.0]
    while (answer := combine(curator, parents, tables)).status_code == 202:
        far.append(answer.json()["progress"])
        assert time.monotonic() - began < PATIENCE_S
        time.sleep(0.2)
    assert answer.status_code == 200, answer.text
    assert len(far) > 1, "it is not waited for"
    assert far == sorted(far)
    found = answer.json()
    assert found["cost"] == "0"
    cells = [cell["count"] for table in found["value"]["tables"] for cell in table["cells"]]
    assert len(cells) == 435 * 64
    assert min(cells) >= 0
    assert all(isinstance(each, int) for each in cells)


def test_one_alone_is_together_with_none(curator: httpx.Client, dataset: str) -> None:
    parent, mean = released(curator, dataset), {"kind": "mean", "columns": ["food"]}
    assert derive(curator, parent["id"], mean).json()["together_with"] == []


@pytest.mark.wide
def test_releases_that_do_not_belong_together_are_refused(
    service: Service, admin: httpx.Client, analyst: httpx.Client, curator: httpx.Client
) -> None:
    here, there = (str(upload(curator)["id"]) for _ in range(2))
    mine, other = released(analyst, here, REGION), released(analyst, there, REGION)
    theirs = released(curator, here, REGION)
    twice = assert_problem(combine(analyst, [mine, mine], REGION), 422, "invalid-request")
    apart = assert_problem(combine(analyst, [mine, other], REGION), 422, "invalid-request")
    assert [each["errors"][0]["field"] for each in (twice, apart)] == ["together_with"] * 2
    assert "one data set" in apart["detail"]
    assert_problem(combine(analyst, [mine, theirs], REGION), 404, "not-found")
    quantile = released(analyst, here, {"kind": "quantile", "column": "income", "levels": [0.5]})
    refused = assert_problem(combine(analyst, [mine, quantile], REGION), 422, "invalid-request")
    assert "quantile is no sum over records" in refused["detail"]


def test_a_release_without_a_result_is_combined_with_nothing(curator: httpx.Client) -> None:
    dataset = str(upload(curator, policy={"review": "above:1"})["id"])
    parent = released(curator, dataset, REGION)
    waiting = ask(curator, dataset, REGION, epsilon="1.5").json()
    refused = assert_problem(combine(curator, [parent, waiting], REGION), 422)
    assert refused["errors"][0]["field"] == "together_with"
    assert "no result" in refused["detail"]
