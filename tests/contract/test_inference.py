"""Standard errors of a regression, for a share of its epsilon, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from app.api.answers.releases import PreviewAnswer, ReleaseAnswer
from app.services.plans.missing import warned
from mechanisms.contract import Inference, Outcome, Term
from mechanisms.estimates.verdicts import Usefulness
from tests.contract.service import ask, assert_problem, settled, spent, upload

LINEAR = {"kind": "linear_regression", "target": "food", "features": ["income"]}
LOGISTIC = {"kind": "logistic_regression", "target": "owner", "features": ["income"]}
THIRD = {"inference": {"share": "1/3"}}
KINDS: dict[str, dict[str, Any]] = {
    "replace_one": {},
    "add_remove": {"adjacency": "add_remove", "max_rows": 1000},
}
OFFERED = [
    (LINEAR, "objective_perturbation"),
    (LINEAR, "kng"),
    (LINEAR, "functional"),
    (LOGISTIC, "objective_perturbation"),
]


@pytest.fixture(scope="module")
def datasets(curator: httpx.Client) -> dict[str, str]:
    """Return a data set of each adjacency."""
    room = {"budget": {"epsilon": "1000"}}
    return {name: str(upload(curator, **room, **more)["id"]) for name, more in KINDS.items()}


@pytest.mark.parametrize("adjacency", KINDS)
@pytest.mark.parametrize(("statistic", "mechanism"), OFFERED)
def test_a_regression_is_answered_with_standard_errors(
    curator: httpx.Client,
    datasets: Mapping[str, str],
    statistic: Any,
    mechanism: str,
    adjacency: str,
) -> None:
    dataset, more = datasets[adjacency], {**THIRD, "mechanism": mechanism}
    preview = curator.post(
        f"/v1/datasets/{dataset}/previews", json={"statistic": statistic, "epsilon": "6", **more}
    ).json()
    PreviewAnswer.model_validate(preview, extra="forbid")
    cost = "0" if mechanism == "functional" else "2"
    assert preview["details"]["inference"]["cost"] == cost
    before = float(spent(curator, dataset))
    answer = settled(curator, ask(curator, dataset, statistic, epsilon="6", **more))
    ReleaseAnswer.model_validate_json(answer.content, strict=True, extra="forbid")
    body = answer.json()
    assert float(spent(curator, dataset)) == before + 6
    assert body["guarantee"]["epsilon"] == "6"
    assert body["details"] == preview["details"]
    inference = body["inference"]
    assert inference["cost"] == cost
    reported = {term["term"]: term["estimate"] for term in inference["terms"]}
    value = body["value"]
    ratios = {f"odds ratio of {name}": each for name, each in value.get("odds_ratios", {}).items()}
    assert reported == {**value["coefficients"], **ratios}
    assert list(ratios) == ["odds ratio of income"] * (statistic is LOGISTIC)
    for term in inference["terms"]:
        low, high = term["confidence_95"]
        assert low <= term["estimate"] <= high
        assert len(term["noise_95"]) == 2
        assert term["std_error"] > 0


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_a_median_is_answered_with_an_interval(
    curator: httpx.Client, datasets: Mapping[str, str], adjacency: str
) -> None:
    median = {"kind": "quantile", "column": "income", "levels": [0.5]}
    body = ask(curator, datasets[adjacency], median, epsilon="8", **THIRD).json()
    ReleaseAnswer.model_validate(body, extra="forbid")
    [term] = body["inference"]["terms"]
    assert term["estimate"] == body["value"]["quantiles"][0]["value"]
    assert term["confidence_95"][0] <= term["estimate"] <= term["confidence_95"][1]
    assert term["noise_95"] is None
    assert "noisy count" in body["inference"]["method"] or adjacency == "replace_one"


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_an_interval_that_would_be_the_bounds_is_refused_before_it_is_paid(
    curator: httpx.Client, datasets: Mapping[str, str], adjacency: str
) -> None:
    dataset = datasets[adjacency]
    before = spent(curator, dataset)
    asked = {"statistic": {"kind": "quantile", "column": "income", "levels": [0.5]}, **THIRD}
    for part in ("previews", "releases"):
        path = f"/v1/datasets/{dataset}/{part}"
        headers = {"Idempotency-Key": f"open-{adjacency}"} if part == "releases" else {}
        refused = curator.post(path, json={**asked, "epsilon": "0.0001"}, headers=headers)
        problem = assert_problem(refused, 422, "invalid-request")
        [error] = problem["errors"]
        assert error["field"] == "inference"
        assert "would do" in error["message"]
    assert spent(curator, dataset) == before
    enough = error["message"].partition("about epsilon ")[2].partition(" ")[0]
    preview = curator.post(f"/v1/datasets/{dataset}/previews", json={**asked, "epsilon": enough})
    assert preview.status_code == 200, preview.text


def test_without_the_wish_nothing_is_changed(
    curator: httpx.Client, datasets: Mapping[str, str]
) -> None:
    dataset = datasets["replace_one"]
    plain = ask(curator, dataset, LOGISTIC, key="plain").json()
    assert "inference" not in plain
    assert "inference" not in plain["details"]
    null = ask(curator, dataset, LOGISTIC, key="plain", inference=None)
    assert null.json() == plain


def test_the_same_wish_is_the_same_question(
    curator: httpx.Client, datasets: Mapping[str, str]
) -> None:
    """Spellings of a share are one; another share under the same key is another question."""
    dataset, more = datasets["replace_one"], {"key": "shared", "epsilon": "6"}
    first = ask(curator, dataset, LOGISTIC, **more, inference={"share": "1/4"})
    for spelling in ("2/8", "0.25", ".250", 0.25):
        again = ask(curator, dataset, LOGISTIC, **more, inference={"share": spelling})
        assert again.content == first.content
    other = ask(curator, dataset, LOGISTIC, **more, **THIRD)
    assert_problem(other, 422, "idempotency-key-reused")


@pytest.mark.parametrize(
    "wish",
    [
        {},
        "1/3",
        {"share": None},
        {"share": 2},
        {"share": True},
        {"share": 0.995},
        {"share": 0.3333333333},
        {"share": "0"},
        {"share": "1"},
        {"share": "1/0"},
        {"share": "0.995"},
        {"share": "half"},
        {"share": "1/3", "more": 1},
    ],
)
def test_bad_wishes_are_refused(
    curator: httpx.Client, datasets: Mapping[str, str], wish: Any
) -> None:
    answer = ask(curator, datasets["replace_one"], LOGISTIC, inference=wish)
    problem = assert_problem(answer, 422, "invalid-request")
    assert problem["errors"][0]["field"].startswith("inference")


def test_what_has_no_standard_errors_is_refused_before_the_charge(
    curator: httpx.Client, datasets: Mapping[str, str]
) -> None:
    dataset = datasets["replace_one"]
    before = spent(curator, dataset)
    answer = ask(curator, dataset, {"kind": "sum", "columns": ["income"]}, **THIRD)
    problem = assert_problem(answer, 422, "invalid-request")
    assert problem["errors"][0]["field"] == "inference"
    assert "estimates no number of a population" in problem["detail"]
    assert spent(curator, dataset) == before


def test_intervals_that_would_say_nothing_are_refused_with_the_epsilon_that_would_do(
    curator: httpx.Client, datasets: Mapping[str, str]
) -> None:
    """A preview shows it first; nothing is charged, and at the named epsilon nothing is refused."""
    dataset = datasets["replace_one"]
    before, path = spent(curator, dataset), f"/v1/datasets/{dataset}/previews"
    few = {"statistic": LOGISTIC, "epsilon": "0.01", **THIRD}
    shown = assert_problem(curator.post(path, json=few), 422, "invalid-request")
    refused = assert_problem(
        ask(curator, dataset, LOGISTIC, epsilon="0.01", **THIRD), 422, "invalid-request"
    )
    assert refused["errors"] == shown["errors"]
    assert [each["field"] for each in shown["errors"]] == ["inference"]
    assert spent(curator, dataset) == before
    named = shown["detail"].split("about epsilon ")[1].split()[0]
    assert float(named) > 0.01
    assert curator.post(path, json=few | {"epsilon": named}).status_code == 200
    alone = {key: value for key, value in few.items() if key != "inference"}
    assert curator.post(path, json=alone).status_code == 200
    stack = {"kind": "stack", "parts": [{"statistic": LOGISTIC}] * 2}
    stacked = curator.post(path, json=few | {"statistic": stack})
    assert "of part 1" in assert_problem(stacked, 422, "invalid-request")["detail"]


def test_of_a_private_number_of_rows_no_verdict_is_good_where_intervals_may_say_nothing(
    curator: httpx.Client, datasets: Mapping[str, str]
) -> None:
    """Refused for half of max_rows, doubtful for a quarter, and neither from safe_epsilon on."""
    path = f"/v1/datasets/{datasets['add_remove']}/previews"
    asked = {"statistic": LOGISTIC, **THIRD}

    def previewed(epsilon: str) -> Any:
        return curator.post(path, json=asked | {"epsilon": epsilon}).json()

    refused = previewed("0.01")
    assert refused["code"] == "invalid-request"
    assert "for the number of records assumed" in refused["detail"]
    named = refused["detail"].split("about epsilon ")[1].split()[0]
    doubtful = previewed(named)
    safe = doubtful["details"]["inference"]["safe_epsilon"]
    assert float(safe) > 2 * float(named)
    said = f"Confidence intervals may be uninformative: .* About epsilon {safe} is enough"
    assert re.match(said, doubtful["usefulness"]["sentence"])
    assert doubtful["usefulness"]["verdict"] != "good"
    assured = previewed(safe)
    assert "safe_epsilon" not in assured["details"]["inference"]
    assert "Confidence intervals may" not in assured["usefulness"]["sentence"]


def test_a_release_with_uninformative_intervals_is_not_good() -> None:
    good, ends = Usefulness("good", "Good."), (-1.0, 1.0)
    terms = tuple(
        Term(term=name, estimate=0.0, std_error=1.0, confidence_95=ends, open=name == "b")
        for name in "abc"
    )
    of_terms = [terms, terms[::2]]
    some, none = (
        warned(good, {}, Outcome({}, None, Inference(terms=each, method=""))) for each in of_terms
    )
    assert some.verdict == "weak"
    assert some.sentence.startswith("1 of 3 confidence intervals are uninformative")
    assert none == good
    doubtful = {"inference": {"safe_epsilon": "3"}}
    assert warned(good, doubtful).verdict == "depends"
    of_part = warned(good, {"parts": [{}, {"details": doubtful}]})
    assert of_part.verdict == "depends"
    assert "About epsilon 3 for part 2 alone is enough" in of_part.sentence
    assert warned(good, doubtful, Outcome({}, None)) == good  # its own intervals are known
