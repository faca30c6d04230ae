"""A request and the form that is filled in as it says: nothing is lost there and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from pydantic import ValidationError

from app.desk.filled import form_of, request_of
from app.desk.forms import Form
from app.desk.questions import Field, fields_of, labels_of, opened
from app.web.requests.questions import ReleaseRequest
from mechanisms.catalog import offers
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.privacy import Adjacency

SCHEMA = Schema(
    columns={
        "age": NumberColumn(Fraction(0), Fraction(120), kind="integer"),
        "income": NumberColumn(Fraction(0), Fraction(5000)),
        "owner": NumberColumn(Fraction(0), Fraction(1), boolean=True),
        "born": NumberColumn(Fraction(0), Fraction(30000), kind="date"),
        "region": CategoryColumn(("north", "south", "12", "[0, 10)")),
    },
    adjacency=Adjacency.REPLACE_ONE,
    rows=1000,
)
RARE: Mapping[str, Mapping[str, Any]] = {
    "derived columns": {
        "kind": "mean", "columns": ["age", "twice", "log_income"],
        "derive": {
            "twice": "2 * age", "rich": "income > 100",
            "log_income": {"expr": "log(income + 1)", "lower": 1.0, "upper": 7.5},
        },
        "where": [
            {"column": "rich", "op": "==", "value": True},
            {"column": "twice", "op": "<", "value": 80.5},
        ],
    },
    "more conditions than an empty form has": {
        "kind": "count",
        "where": [
            {"column": "age", "op": ">=", "value": 18},
            {"column": "owner", "op": "!=", "value": False},
            {"column": "born", "op": "<", "value": "1990-01-01"},
            {"column": "region", "op": "in", "value": ["north", "12"]},
            {"column": "age", "op": "in", "value": [20, 30]},
        ],
    },
    "values with commas": {
        "kind": "count",
        "where": [
            {"column": "region", "op": "in", "value": ["[0, 10)", "north"]},
            {"column": "region", "op": "!=", "value": "[0, 10)"},
        ],
    },
    "groups and weights": {
        "kind": "sum", "columns": ["age"], "by": ["region", "owner"], "weights": "income",
    },
    "edges": {
        "kind": "histogram", "columns": ["age", "born", "region", "half"],
        "derive": {"half": "age / 2"},
        "edges": {"age": [0, 18, 65.5], "born": ["1950-01-01", "1990-01-01"], "half": [0, 30, 60]},
    },
    "edges that are no list": {
        "kind": "histogram", "columns": ["age", "born"], "outside": "drop",
        "edges": {"age": {"step": 5}, "born": "values"},
    },
    "features that are more than columns": {
        "kind": "linear_regression", "target": "income", "intercept": False,
        "features": [
            "age", {"expr": "log(income + 1)"}, {"column": "region", "reference": "south"},
            {"product": ["age", "owner"]},
        ],
        "bound": 2.5,
    },
    "a formula": {"kind": "linear_regression", "formula": "income ~ age * region"},
    "a base measure": {
        "kind": "quantile_regression", "target": "income", "features": ["age"], "tau": 0.25,
        "base_measure": "flat",
    },
    "a comparison as target": {
        "kind": "logistic_regression", "target": {"column": "region", "op": "in",
        "value": ["north", "south"]}, "features": ["age"], "q": 0.5,
    },
    "parts": {
        "kind": "stack",
        "parts": [
            {"statistic": {"kind": "mean", "columns": ["age"]}, "share": 2},
            {"statistic": {"kind": "quantile", "column": "income", "levels": [0.5]}},
        ],
    },
}  # fmt: skip


def _canonical(request: Mapping[str, Any]) -> str:
    return ReleaseRequest.model_validate_json(json.dumps(request)).question.canonical


def _there_and_back(request: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    kept = json.loads(_canonical(request))
    again = request_of(form_of(kept), SCHEMA)
    return kept, json.loads(_canonical(again))


@pytest.mark.parametrize("offer", offers(), ids=lambda each: f"{each.statistic} {each.mechanism}")
def test_every_example_of_the_catalog_comes_back(offer: Any) -> None:
    kept, again = _there_and_back({"statistic": offer.example, "epsilon": "0.5"})
    assert again == kept


@pytest.mark.parametrize("rare", RARE)
def test_what_few_questions_have_comes_back(rare: str) -> None:
    asked = {
        "statistic": RARE[rare], "epsilon": "0.25", "norm": "l1", "mechanism": "k_norm",
        "purpose": "Table 2,\nby May", "inference": {"share": "1/3"},
    }  # fmt: skip
    kept, again = _there_and_back(asked)
    assert again == kept


def _fields(form: Form) -> Mapping[str, Field]:
    fields = fields_of(form.text("statistic"), SCHEMA, form)
    return {field.name: field for field in fields}


@pytest.mark.parametrize("rare", RARE)
def test_every_field_of_a_filled_form_is_on_the_page(rare: str) -> None:
    """A page sends what it shows: a value that no field has would be lost."""
    kept = json.loads(_canonical({"statistic": RARE[rare], "epsilon": "1"}))
    form = form_of(kept)
    fields, labels = _fields(form), labels_of([*_fields(form).values()], form)
    always = {"statistic", "wanted", "epsilon", "mechanism", "norm"}
    for name, value in form.pairs:
        if name in always:
            continue
        if name.startswith("where "):
            assert name in labels
            assert not name.endswith("column") or value in dict(fields["where"].options)
            continue
        assert name in fields, name
        assert fields[name].shape in ("text", "area", "check") or value in dict(
            fields[name].options
        )
    rarer = {name.partition(" ")[0] for name, _ in form.pairs if name not in always}
    assert opened(form, [*fields.values()], ()) == any(
        fields[name].more for name in rarer & {*fields}
    )


def test_what_a_column_is_made_of_is_what_it_is_called() -> None:
    kept = json.loads(
        _canonical({"statistic": RARE["features that are more than columns"], "epsilon": "1"})
    )
    (features,) = (field for name, field in _fields(form_of(kept)).items() if name == "features")
    called = [called for _, called in features.options]
    assert called[-3:] == ["log(income + 1)", "region, reference south", "age × owner"]


def test_derived_columns_are_choices_once_they_are_written() -> None:
    plain = (("statistic", "mean"),)
    form = Form((*plain, ("derive", "half = age / 2\n no equals \n = 3")))
    before, after = (_fields(each)["columns"].options for each in (Form(plain), form))
    assert [*after] == [*before, ("half", "half")]


@pytest.mark.parametrize("choice", ['{"product": 3}', '{"x": [1]}'])
def test_a_choice_that_is_no_feature_is_shown_and_refused(choice: str) -> None:
    form = Form((("statistic", "linear_regression"), ("target", "income"), ("features", choice)))
    assert _fields(form)["features"].options[-1][0] == choice
    with pytest.raises(ValidationError, match="features"):
        _canonical({**request_of(form, SCHEMA), "epsilon": "1"})


@pytest.mark.parametrize("choice", ["{", '{"a":' * 100_000, '["a"]', "nobody"])
def test_a_choice_that_cannot_be_read_is_a_name(choice: str) -> None:
    form = Form((("statistic", "linear_regression"), ("target", "income"), ("features", choice)))
    assert _fields(form)["features"].options[-1] == (choice, choice)
    assert request_of(form, SCHEMA)["statistic"]["features"] == [choice]
