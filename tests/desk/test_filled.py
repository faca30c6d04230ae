"""A request and the form that is filled in as it says: nothing is lost there and back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from pydantic import ValidationError

from app.desk.building import inside, questions_in
from app.desk.controls import Field, all_of
from app.desk.filled import form_of, request_of
from app.desk.forms import Form
from app.desk.questions import fields_of, labels_of, opened, parameters_of
from app.web.requests.questions import ReleaseRequest
from mechanisms.catalog import STATISTICS, offers
from mechanisms.domain import CategoryColumn, Nested, NumberColumn, Schema
from mechanisms.privacy import Adjacency
from tests.tiers import in_one

SCHEMA = Schema(
    columns={
        "age": NumberColumn(Fraction(0), Fraction(120), kind="integer"),
        "income": NumberColumn(Fraction(0), Fraction(5000)),
        "owner": NumberColumn(Fraction(0), Fraction(1), boolean=True),
        "born": NumberColumn(Fraction(0), Fraction(30000), kind="date"),
        "region": CategoryColumn(("north", "south", "12", "[0, 10)")),
        "coast": CategoryColumn(("wet", "dry")),
    },
    adjacency=Adjacency.REPLACE_ONE,
    rows=1000,
    nested={"coast": Nested("region", (0, 1, 1, 1, 2))},
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
    "groups of numbers and times": {
        "kind": "mean", "columns": ["income"],
        "derive": {"half": "age / 2"},
        "by": [
            {"column": "age", "edges": [18, 40, 65], "outside": "drop"},
            {"column": "half", "edges": {"step": 30}},
            "region",
        ],
    },
    "what is outside, by column": {
        "kind": "histogram", "columns": ["age", "income"],
        "edges": {"age": [18, 65], "income": [0, 1000]}, "outside": {"age": "drop"},
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
    "a list of tables": {
        "kind": "tables", "columns": ["age", "born", "region"], "raw": True,
        "edges": {"age": {"step": 5}, "born": ["1950-01-01", "1990-01-01"]},
        "margins": [["age", "region"], ["born"]],
    },
    "tables of levels": {
        "kind": "tables", "columns": ["region"], "hierarchy": "region",
        "known": {"coast": {"wet": 5}},
    },
    "all tables of an order": {
        "kind": "tables", "columns": ["region", "owner"], "margins": "all_one_way",
    },
    "tables that are selected": {
        "kind": "tables", "columns": ["region", "owner", "age"], "edges": {"age": [0, 18, 65]},
        "select": "auto", "select_share": 0.25,
    },
    "an offset": {
        "kind": "poisson_regression", "target": "income", "features": ["age"],
        "offset": "log_age", "derive": {"log_age": "log(age + 1)"}, "bound": 5.0,
    },
    "a derived event, in groups": {
        "kind": "kaplan_meier", "time": "age", "event": "poor", "by": ["region"],
        "derive": {"poor": "income < 10"}, "edges": {"age": "values"},
    },
    "a score with listed edges": {
        "kind": "roc", "score": "income", "label": "owner", "edges": {"income": [0, 10, 20]},
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
    "a logarithmic base measure": {
        "kind": "quantile", "column": "income", "levels": [0.9], "base_measure": "log",
    },
    "private bounds": {"kind": "mean", "columns": ["income"], "clip": "private"},
    "stated bounds": {
        "kind": "sum", "columns": ["income"], "clip": {"lower": 0, "upper": 2.5},
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
            {
                "statistic": {
                    "kind": "histogram", "columns": ["age"], "edges": {"age": {"step": 10}},
                    "where": [{"column": "owner", "op": "==", "value": True}], "by": ["region"],
                },
                "mechanism": "k_norm", "norm": "l1", "share": 0.5,
            },
        ],
    },
}  # fmt: skip


def _canonical(request: Mapping[str, Any]) -> str:
    return ReleaseRequest.model_validate_json(json.dumps(request)).question.canonical


def _there_and_back(request: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    kept = json.loads(_canonical(request))
    again = request_of(form_of(kept), SCHEMA)
    return kept, json.loads(_canonical(again))


@in_one("offer", offers())
def test_every_example_of_the_catalog_comes_back(offer: Any) -> None:
    kept, again = _there_and_back({"statistic": offer.example, "epsilon": "0.5"})
    assert again == kept


@in_one("rare", RARE)
def test_what_few_questions_have_comes_back(rare: str) -> None:
    asked = {
        "statistic": RARE[rare], "epsilon": "0.25", "norm": "l1", "mechanism": "k_norm",
        "purpose": "Table 2,\nby May", "inference": {"share": "1/3"},
    }  # fmt: skip
    kept, again = _there_and_back(asked)
    assert again == kept


def _fields(form: Form) -> Mapping[str, Field]:
    fields = fields_of(form.text("statistic"), SCHEMA, form)
    return {field.name: field for field in all_of(fields)}


@in_one("rare", RARE)
def test_every_field_of_a_filled_form_is_on_the_page(rare: str) -> None:
    """A page sends what it shows: a value that no field has would be lost."""
    kept = json.loads(_canonical({"statistic": RARE[rare], "epsilon": "1"}))
    form = form_of(kept)
    for each in (form, *questions_in(form)):
        _assert_shown(each)


def _assert_shown(form: Form) -> None:
    fields, labels = _fields(form), labels_of([*_fields(form).values()], form)
    always = {"statistic", "wanted", "epsilon", "mechanism", "norm", "share"}
    for name, value in form.pairs:
        if inside(name) is not None:
            continue
        if name in always:
            continue
        if name.startswith("where "):
            assert name in labels
            assert not name.endswith("column") or value in dict(fields["where"].options)
            continue
        assert name in fields, name
        assert fields[name].shape not in ("select", "checks") or value in dict(fields[name].options)
    named = {part for name, _ in form.pairs for part in (name, name.partition(" ")[0])}
    rarer = any(field.more for name, field in fields.items() if name in named - always)
    chosen = form.text("mechanism") not in ("", "auto")
    assert opened(form, [*fields.values()], ()) == (rarer or chosen)


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


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("years", ["1970-01-01", *(f"{year}-01-01" for year in range(1971, 2053)), "2052-02-20"]),
        ("step 30", {"step": 30}),
        ("1980-01-01, 1990-01-01", ["1980-01-01", "1990-01-01"]),
    ],
)
def test_dates_are_cut_by_the_calendar(text: str, edges: Any) -> None:
    asked = [("statistic", "histogram"), ("columns", "born"), ("edges born", text)]
    request = request_of(Form([*asked, ("epsilon", "1")]), SCHEMA)
    assert request["statistic"]["edges"] == {"born": edges}
    grouped = [("statistic", "count"), ("by", "born"), ("by edges born", text)]
    (found,) = request_of(Form(grouped), SCHEMA)["statistic"]["by"]
    assert found == {"column": "born", "edges": edges}


@pytest.mark.parametrize(
    ("part", "first", "second", "number"),
    [("quarters", "1970-01-01", "1970-04-01", 330), ("months", "1970-01-01", "1970-02-01", 987)],
)
def test_quarters_and_months_begin_on_their_first_day(
    part: str, first: str, second: str, number: int
) -> None:
    asked = [("statistic", "histogram"), ("columns", "born"), ("edges born", part)]
    edges = request_of(Form(asked), SCHEMA)["statistic"]["edges"]["born"]
    assert (edges[0], edges[1], edges[-1], len(edges)) == (first, second, "2052-02-20", number)
    assert edges == sorted(set(edges))


@in_one("rare", [*RARE, *STATISTICS])
def test_nothing_that_is_typed_is_json(rare: str) -> None:
    asked = RARE.get(rare) or STATISTICS[rare].example
    form = form_of(json.loads(_canonical({"statistic": asked, "epsilon": "1"})))
    fields = {
        field.name: field
        for each in (form, *questions_in(form))
        for field in _fields(each).values()
    }
    typed = {name for name, field in fields.items() if field.shape not in ("checks", "select")}
    found = [pair for each in (form, *questions_in(form)) for pair in each.pairs]
    assert not [name for name, value in found if name in typed and value.startswith(("{", "["))]


def test_every_field_of_the_catalog_has_a_control() -> None:
    kept = replace(SCHEMA, optional=frozenset({"income"}))
    for kind in STATISTICS:
        fields = all_of(fields_of(kind, kept))
        assert {field.name.partition(" ")[0] for field in fields} >= {*parameters_of(kind)}, kind
        assert not [field for field in fields if re.search(r"JSON|[{\[]", field.help)]
