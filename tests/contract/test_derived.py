"""Derived columns over HTTP: declared in a spec, and asked about like any other column."""

from __future__ import annotations

import math
from typing import Any

import httpx
import pytest

from tests.contract.service import ROWS, ask, assert_problem, send_upload, settled, spec, upload

DERIVE: dict[str, Any] = {
    "log_food": {"expr": "log(max(food, 1))", "upper": 3.5},
    "rich": "income > 50 and region == 'north'",
}


def test_a_spec_derives_columns_that_are_columns_like_any_other(curator: httpx.Client) -> None:
    found = upload(curator, derive=DERIVE, budget={"epsilon": "1000000"})
    assert list(found["columns"]) == ["income", "food", "region", "owner", "log_food", "rich"]
    assert found["columns"]["log_food"] == {
        "type": "number", "lower": 0, "upper": 3.5, "expr": "log(max(food, 1))",
    }  # fmt: skip
    assert found["columns"]["rich"] == {
        "type": "boolean", "expr": 'income > 50 and region == "north"',
    }  # fmt: skip
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


@pytest.mark.parametrize(
    ("derive", "field", "said"),
    [
        ({"a": "food + 1", "b": "log(income)"}, "spec.derive[1]", "log(max(income, 1))"),
        ({"b": {"expr": "log(income)"}}, "spec.derive[0].expr", "log1p(income)"),
        ({"b": {"expr": "food", "lower": 80}}, "spec.derive[0].lower", "leave nothing"),
        ({"b": "scale(food)"}, "spec.derive[0]", "reads the data"),
        ({"b": "fod"}, "spec.derive[0]", "the columns are food"),
        ({"food": "income"}, "spec.derive[0]", "has this name already"),
        ({"b": {"expression": "food"}}, "spec.derive[0]", "not known here"),
        ({"b": 3}, "spec.derive[0]", "must be"),
        ({"b": "x" * 3000}, "spec.derive[0]", "more characters"),
    ],
)
def test_what_cannot_be_derived_is_refused_with_its_place(
    curator: httpx.Client, derive: Any, field: str, said: str
) -> None:
    answer = send_upload(curator, ROWS, spec(derive=derive))
    problem = assert_problem(answer, 422, "invalid-request")
    told = {error["field"]: error["message"] for error in problem["errors"]}
    assert said in told[field], told
    assert problem["errors"][0]["message"].endswith(('(column "b")', '(column "food")'))
