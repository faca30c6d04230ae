"""Derived columns over HTTP: declared in a spec, and asked about like any other column."""

from __future__ import annotations

import math
from typing import Any

import httpx
import pytest

from tests.contract.service import ROWS, ask, assert_problem, send_upload, settled, spec, upload
from tests.tiers import wide

DERIVE: dict[str, Any] = {
    "log_food": {"expr": "log(max(food, 1))", "upper": 3.5},
    "rich": "income > 50 and region == 'north'",
}


@pytest.mark.wide
def test_a_spec_derives_columns_that_are_columns_like_any_other(curator: httpx.Client) -> None:
    found = upload(curator, derive=DERIVE, budget={"epsilon": "1000000"})
    assert list(found["columns"]) == ["income", "food", "region", "owner", "log_food", "rich"]
    assert found["columns"]["log_food"] == {
        "type": "number", "lower": 0, "upper": 3.5, "expr": "log(max(food, 1))",
    }  # fmt: skip
    assert found["columns"]["rich"] == {
        "type": "boolean", "expr": 'income > 50 and region == "north"',
    }  # fmt: skip
    del found["report"]
    assert curator.get(f"/v1/datasets/{found['id']}").json() == found
    means = ask(
        curator, found["id"], {"kind": "mean", "columns": ["log_food", "rich"]}, epsilon="10000"
    )
    assert means.json()["value"] == pytest.approx(
        {"log_food": (math.log(20) + math.log(30)) / 2, "rich": 0.5}, abs=0.01
    )
    fit = {"kind": "linear_regression", "target": "log_food", "features": ["rich"], "bound": 2}
    slope = settled(curator, ask(curator, found["id"], fit, epsilon="10000")).json()
    assert slope["value"]["coefficients"]["rich"] == pytest.approx(math.log(1.5), abs=0.02)
    for other in (
        {"kind": "quantile", "column": "log_food", "levels": [0.5]},
        {"kind": "count", "where": [{"column": "rich", "op": "==", "value": True}]},
        {"kind": "logistic_regression", "target": "rich", "features": ["log_food"]},
    ):
        assert ask(curator, found["id"], other).status_code == 201


def test_a_list_is_told_that_names_are_keys(curator: httpx.Client) -> None:
    listed = spec(derive=[{"name": "b", "expr": "food"}])
    problem = assert_problem(send_upload(curator, ROWS, listed), 422, "invalid-request")
    assert problem["detail"] == (
        'spec.derive: must be an object with names for keys, as in {"income": ...}.'
    )


@pytest.mark.parametrize(
    ("derive", "field", "said"),
    [
        ({"a": "food + 1", "b": "log(income)"}, "spec.derive[1]", "log(max(income, 1))"),
        ({"b": {"expr": "log(income)"}}, "spec.derive[0].expr", "log1p(income)"),
        ({"b": {"expr": "food", "lower": 80}}, "spec.derive[0].lower", "leave nothing"),
        ({"b": "scale(food)"}, "spec.derive[0]", "reads the data"),
        ({"b": "fod"}, "spec.derive[0]", "the columns are food"),
        ({"food": "income"}, "spec.derive[0]", "has this name already"),
        ({"b": {"expression": "food"}}, "spec.derive[0]", "unknown field"),
        ({"b": 3}, "spec.derive[0]", "must be"),
        ({"b": "x" * 3000}, "spec.derive[0]", "at most 2000 characters"),
    ],
)
def test_what_cannot_be_derived_is_refused_with_its_place(
    curator: httpx.Client, derive: Any, field: str, said: str
) -> None:
    answer = send_upload(curator, ROWS, spec(derive=derive))
    problem = assert_problem(answer, 422, "invalid-request")
    reported = {error["field"]: error["message"] for error in problem["errors"]}
    assert said in reported[field], reported
    assert problem["errors"][0]["message"].endswith(('(column "b")', '(column "food")'))


def regress(client: httpx.Client, dataset: str, mechanism: str = "auto", **fields: Any) -> Any:
    statistic = {"kind": "linear_regression", "bound": 100, **fields}
    answer = ask(client, dataset, statistic, epsilon="10000", mechanism=mechanism)
    assert answer.status_code in (201, 202), answer.text
    return settled(client, answer).json()


@pytest.mark.wide
def test_a_formula_is_answered_as_the_request_it_stands_for(curator: httpx.Client) -> None:
    found = upload(curator, budget={"epsilon": "1000000"})
    answer = regress(
        curator, found["id"], "functional",
        formula="log(food + 1) ~ C(region, ref=south) + income:owner", ridge=0,
    )  # fmt: skip
    assert list(answer["value"]["coefficients"]) == ["(intercept)", "regionnorth", "income:owner"]
    assert answer["statistic"] == {
        "kind": "linear_regression",
        "target": "log(food + 1)",
        "features": [
            {"column": "region", "reference": "south"},
            {"product": ["income", "owner"]},
        ],
        "intercept": True,
        "bound": 100,
        "ridge": 0,
        "derive": {"log(food + 1)": "log(food + 1)"},
    }
    design = answer["details"]["design"]
    assert design["references"] == {"region": "south"}
    assert [term["bounds"] for term in design["terms"]] == [[0, 1], [0, 100]]
    assert answer["details"]["derived"]["log(food + 1)"]["bounds"] == pytest.approx(
        [0, math.log(51)]
    )


@pytest.mark.wide
def test_a_formula_and_its_features_are_one_request(curator: httpx.Client) -> None:
    dataset = upload(curator)["id"]
    by_formula = {"kind": "linear_regression", "formula": "food ~ income + log( income+1 )"}
    by_features = {
        "kind": "linear_regression", "target": "food",
        "features": ["income", {"expr": "log(income + 1)"}],
    }  # fmt: skip
    first = ask(curator, dataset, by_formula, key="one")
    again = ask(curator, dataset, by_features, key="one")
    assert (first.status_code, again.status_code) == (201, 201), again.text
    assert first.content == again.content


@pytest.mark.parametrize(
    "kind", ["linear_regression", "logistic_regression", "quantile_regression"]
)
@pytest.mark.parametrize("adjacency", ["add_remove", *wide("replace_one")])
def test_every_regression_takes_every_kind_of_feature(
    curator: httpx.Client, kind: str, adjacency: str
) -> None:
    bound = {"max_rows": 1000} if adjacency == "add_remove" else {}
    dataset = upload(curator, adjacency=adjacency, **bound)["id"]
    target = "owner" if kind == "logistic_regression" else "food"
    features = [
        "income",
        {"column": "region", "reference": "south"},
        {"product": ["income", "region"]},
        {"log": "shifted"},
        {"expr": "shifted > 20 and region == 'north'"},
    ]
    statistic = {
        "kind": kind, "target": target, "features": features, "derive": {"shifted": "income + 1"},
    }  # fmt: skip
    answer = settled(curator, ask(curator, dataset, statistic)).json()
    assert list(answer["value"]["coefficients"]) == [
        "(intercept)", "income", "regionnorth", "income:regionnorth", "log(shifted)",
        'I(shifted > 20 and region == "north")',
    ]  # fmt: skip
    preview = curator.post(
        f"/v1/datasets/{dataset}/previews", json={"statistic": statistic, "epsilon": "1"}
    )
    assert preview.status_code == 200, preview.text
    assert preview.json()["details"]["design"] == answer["details"]["design"]


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"formula": "food ~ poly(income, 2)"}, "statistic.formula", "reads the data"),
        ({"formula": "food ~ incom"}, "statistic.features", "incom is no column"),
        ({"formula": "log(food) ~ income"}, "statistic.formula", "log1p"),
        ({"formula": "food ~ C(region, ref=west)"}, "statistic.features[0].reference", "north"),
        ({"target": "food"}, "statistic.features", "is required"),
        ({"target": "food", "features": [3]}, "statistic.features[0]", "a column's name, or"),
        ({"target": "food", "features": [{}]}, "statistic.features[0]", '"product"'),
        ({"target": "food", "features": [{"column": 3}]}, "statistic.features[0].column", "text"),
        ({"target": "food", "features": [{"log": "a", "x": 1}]}, "statistic.features[0]", "log"),
        ({"target": "food", "features": [{"expr": "log(income)"}]}, "statistic.features", "log1p"),
        (
            {"target": "food", "features": [{"expr": "income +"}]},
            "statistic.features[0].expr", "not an expression",
        ),
        (
            {"target": "food", "features": [{"product": ["income", {"product": ["food"]}]}]},
            "statistic.features[0].product[1]", "a column's name, or",
        ),
        (
            {"target": "food", "features": [], "derive": {"a": "mean(food)"}},
            "statistic.derive[0]", "reads the data",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_regressed_on_is_refused_with_its_place(
    curator: httpx.Client, untouched: str, fields: Any, field: str, said: str
) -> None:
    answer = ask(curator, untouched, {"kind": "linear_regression", **fields})
    problem = assert_problem(answer, 422, "invalid-request")
    reported = {error["field"]: error["message"] for error in problem["errors"]}
    assert list(reported) == [field]
    assert said in reported[field], reported


def test_a_derivation_may_use_columns_that_its_release_derived(curator: httpx.Client) -> None:
    dataset = upload(curator, budget={"epsilon": "1000000"})["id"]
    moments = {"kind": "moments", "columns": ["income", "square"], "derive": {"square": "income^2"}}
    release = ask(curator, dataset, moments, epsilon="10000").json()
    fit = {"kind": "linear_regression", "target": "square", "features": ["income"]}
    answer = curator.post(f"/v1/releases/{release['id']}/derivations", json={"statistic": fit})
    assert answer.status_code == 200, answer.text
    assert set(answer.json()["value"]["coefficients"]) == {"(intercept)", "income"}


def test_derive_may_stand_beside_the_statistic(curator: httpx.Client) -> None:
    dataset = upload(curator, budget={"epsilon": "1000000"})["id"]
    mean = {"kind": "mean", "columns": ["double"]}
    derive = {"double": "income*2"}
    beside = ask(curator, dataset, mean, epsilon="1000", key="beside", derive=derive)
    assert beside.status_code == 201, beside.text
    assert beside.json()["value"]["double"] == pytest.approx(100, abs=1)
    within = ask(curator, dataset, {**mean, "derive": derive}, epsilon="1000", key="beside")
    assert within.content == beside.content, "one question"
    parts = [{"statistic": mean}, {"statistic": {**mean, "derive": {"double": "income * 2"}}}]
    stack = ask(curator, dataset, {"kind": "stack", "parts": parts}, epsilon="1000", derive=derive)
    assert [part["double"] for part in stack.json()["value"]["parts"]] == pytest.approx(
        [100, 100], abs=1
    )
    for wrong, field in (
        ({"double": "mean(income)"}, "derive[0]"),
        ({"double": "income"}, "derive"),
    ):
        answer = ask(curator, dataset, {**mean, "derive": derive}, derive=wrong)
        problem = assert_problem(answer, 422, "invalid-request")
        assert [error["field"] for error in problem["errors"]] == [field]
