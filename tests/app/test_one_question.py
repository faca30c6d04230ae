"""One question is one question: every spelling has one text, one key and one plan."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest

from app.domain.columns import CategorySpec, Fill, InvalidSpecError
from app.domain.datasets import parse_columns
from app.domain.problems import Problem
from app.engine.schema import schema_of
from app.services.plans.answers import plan_json
from app.services.plans.plans import make_plan
from app.services.plans.questions import Question, question_key, read_question, spelled
from app.web.requests.exact_json import read_model
from app.web.requests.questions import ReleaseRequest
from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Plan, Statistic
from mechanisms.domain import CategoryColumn, Schema
from mechanisms.estimates.assumptions import Assumptions, factors_of
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.statistics.cells.spelling import canonical
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.designs.features import Category
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.mean import Mean
from tests.tiers import in_one, wide

SPEC = parse_columns(
    {
        "age": {"type": "integer", "lower": 0, "upper": 120},
        "tract": {"type": "integer", "lower": 0, "upper": 2**53},
        "income": {"type": "number", "lower": 1, "upper": 1_000_000},
        "born": {"type": "date", "lower": "1900-01-01", "upper": "2024-12-31"},
        "seen": {
            "type": "datetime", "lower": "2000-01-01T00:00:00Z", "upper": "2030-01-01T00:00:00Z",
        },
        "sex": {"type": "category", "values": ["m", "f", "x"]},
        "owner": {"type": "boolean"},
        "pay": {"type": "number", "lower": 0, "upper": 100, "missing": "keep"},
    },
    adjacency=Adjacency.ADD_REMOVE,
    max_rows=1000,
)  # fmt: skip
SCHEMA = schema_of(SPEC, rows=None)

Body = dict[str, Any]

CONDITIONS: list[Body] = [
    {"column": "age", "op": ">=", "value": 40},
    {"column": "age", "op": "in", "value": [18, 40, 65]},
    {"column": "tract", "op": "==", "value": 2**53 - 1},
    {"column": "income", "op": "<", "value": 1234.5},
    {"column": "born", "op": ">", "value": "1960-12-31"},
    {"column": "seen", "op": "<=", "value": "2020-01-01T12:30:00Z"},
    {"column": "seen", "op": ">", "value": "2020-01-01T12:30:00.5Z"},
    {"column": "sex", "op": "in", "value": ["x", "m"]},
    {"column": "sex", "op": "==", "value": "f"},
    {"column": "owner", "op": "==", "value": True},
    {"column": "owner", "op": "!=", "value": False},
    {"column": "rich", "op": "==", "value": True},
    {"column": "pay", "op": "present"},
]
STATISTICS: list[Body] = [
    {"kind": "count"},
    {"kind": "mean", "columns": ["income", "age"]},
    {"kind": "mean", "columns": ["pay"], "missing": "complete"},
    {"kind": "sum", "columns": ["age"]},
    {"kind": "quantile", "column": "income", "levels": [0.25, 0.5]},
    {"kind": "histogram", "columns": ["sex", "age"], "edges": {"age": [0, 18, 65, 120]}},
    {
        "kind": "histogram", "columns": ["born"],
        "edges": {"born": ["1950-01-01", "1980-01-01", "2000-01-01"]},
    },
    {
        "kind": "linear_regression", "target": "income", "bound": 10,
        "features": ["age", "sex", {"expr": "log(income + 1)"}, {"product": ["age", "sex"]}],
    },
    {
        "kind": "linear_regression", "target": "income", "intercept": False,
        "features": ["age", {"column": "sex", "reference": "f"}],
    },
    {
        "kind": "logistic_regression", "features": ["age", "sex"],
        "target": {"column": "income", "op": ">=", "value": 700},
    },
    {"kind": "logistic_regression", "features": ["age"], "target": "owner"},
]  # fmt: skip
FORMULAS = {
    7: "income ~ age + sex + I(log(income+1)) + age:sex",
    8: "income~age+C(sex, ref = 'f')-1",
    9: "(income>=700)~age + sex",
    10: "owner ~age",
}
GROUPS: list[list[Any]] = [
    [],
    ["sex"],
    ["sex", "owner"],
    [{"column": "age", "edges": [0, 18, 65]}, "sex"],
    [{"column": "born", "edges": ["1950-01-01", "1980-01-01", "2000-01-01"]}],
]
MEN = 'sex in ("m", "x") or born > "1960-12-31"'
RICH = "income > 1000 and age >= 18"


def made(chance: random.Random) -> tuple[Body, int | None]:
    """Return a random question, and which statistic it is if it is one that has a formula."""
    if chance.random() < 0.2:
        parts = [one(chance)[0] for _ in range(chance.randint(1, 3))]
        shares = [chance.choice([1, 2, 3, 0.5]) for _ in parts]
        both = zip(parts, shares, strict=True)
        statistic: Body = {
            "kind": "stack", "parts": [{"statistic": part, "share": share} for part, share in both],
        }  # fmt: skip
        number = None
    else:
        statistic, number = one(chance)
    body = {"statistic": statistic, "epsilon": chance.choice(["0.3", "1", "2.5"])}
    if number in (7, 8) and chance.random() < 0.3:
        body["inference"] = {"share": "1/3"}
    return body, number


def one(chance: random.Random) -> tuple[Body, int]:
    number = chance.randrange(len(STATISTICS))
    statistic = deepcopy(STATISTICS[number])
    chosen = chance.sample(CONDITIONS, chance.randint(1, 4))
    if statistic["kind"] != "mean" and statistic.get("target") is None:
        statistic["by"] = deepcopy(chance.choice(GROUPS))
    statistic["where"] = deepcopy(chosen)
    statistic["derive"] = {"twice": "2 * age", "rich": RICH, "men": MEN}
    return statistic, number


# Rewritings: what is asked stays the same.


def rewritten(body: Body, number: int | None, chance: random.Random) -> Body:
    """Return a question that means the same."""
    body = deepcopy(body)
    if "share" in body.get("inference", {}):
        body["inference"]["share"] = chance.choice(["1/3", "2/6", "5/15"])
    if chance.random() < 0.5:
        body["norm"] = "auto"
    body |= _said(body["statistic"], chance)
    if chance.random() < 0.3:
        body |= {"inference": body.get("inference"), "purpose": None}
    if body["statistic"]["kind"] == "stack":
        times = chance.choice([1, 2, 0.5, 1000])
        for part in body["statistic"]["parts"]:
            part["share"] *= times
            part["statistic"] = _rewritten(part["statistic"], None, chance)
            part.update(_said(part["statistic"], chance))
        return body
    body["statistic"] = _rewritten(body["statistic"], number, chance)
    if chance.random() < 0.3:  # of the whole request
        body["derive"] = body["statistic"].pop("derive")
    return body


FIRST = {
    "stack": "composition", "count": "k_norm", "mean": "k_norm", "sum": "k_norm",
    "histogram": "k_norm", "quantile": "kng", "logistic_regression": "objective_perturbation",
}  # fmt: skip


def _said(statistic: Body, chance: random.Random) -> Body:
    """Return no mechanism, auto, or the one that auto stands for where a table says so."""
    kind = statistic["kind"]
    names = ["auto", *([FIRST[kind]] if kind in FIRST else [])]
    return {"mechanism": chance.choice(names)} if chance.random() < 0.6 else {}


def _rewritten(statistic: Body, number: int | None, chance: random.Random) -> Body:
    said = statistic.pop("where")
    said += [each for each in said if chance.random() < 0.2]
    where = [_condition(each, chance) for each in said]
    chance.shuffle(where)
    if statistic["kind"] == "mean" and statistic["columns"] == ["pay"]:
        statistic["missing"] = chance.choice(["complete", "available"])
        pay = {"column": "pay", "op": "present"}
        where = [each for each in where if each != pay] + [pay] * chance.randint(0, 2)
    if where or chance.random() < 0.5:
        statistic["where"] = where
    if not statistic.get("by") and chance.random() < 0.5:
        statistic["by"] = []
    derive = list(statistic.pop("derive").items())
    chance.shuffle(derive)
    statistic["derive"] = {name: _respaced(text, chance) for name, text in derive}
    for each in statistic.get("by", ()):
        if isinstance(each, dict):
            each["edges"] = [_moment(edge, chance) for edge in each["edges"]]
    for name, edges in statistic.get("edges", {}).items():
        statistic["edges"][name] = [_moment(edge, chance) for edge in edges]
    if statistic["kind"] in ("mean", "sum") and chance.random() < 0.5:
        statistic["weights"] = None
    if "features" in statistic:
        if number in FORMULAS and chance.random() < 0.5:
            for name in ("target", "features", "intercept"):
                statistic.pop(name, None)
            statistic["formula"] = _respaced(FORMULAS[number], chance)
            if "log" in statistic["formula"]:
                statistic["formula"] = FORMULAS[number].replace("I(log(income+1))", "log(income+1)")
        else:
            statistic["features"] = [_feature(each, chance) for each in statistic["features"]]
            if isinstance(statistic["target"], dict):
                statistic["target"] = _condition(statistic["target"], chance)
            elif statistic["target"] == "owner" and chance.random() < 0.5:
                statistic["target"] = {"column": "owner", "op": "==", "value": 1}
    return statistic


def _condition(condition: Body, chance: random.Random) -> Body:
    if "value" not in condition:
        return dict(condition)
    value = condition["value"]
    if isinstance(value, list):
        value = [_value(each, chance) for each in value] + [chance.choice(value)]
        chance.shuffle(value)
    elif condition["op"] == "==" and chance.random() < 0.5:
        return {**condition, "op": "in", "value": [_value(value, chance)] * chance.randint(1, 2)}
    else:
        value = _value(value, chance)
    return {**condition, "value": value}


def _value(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool):
        return chance.choice([value, int(value)])
    return _moment(value, chance)


_MOMENTS = {
    "2020-01-01T12:30:00Z": ["2020-01-01T12:30Z", "2020-01-01 12:30", "2020-01-01T14:30:00+02:00"],
    "2020-01-01T12:30:00.5Z": ["2020-01-01T12:30:00.500Z", "2020-01-01T13:30:00.50+01:00"],
}


def _moment(value: Any, chance: random.Random) -> Any:
    if not isinstance(value, str) or not value[:4].isdigit():
        return value
    there = [f"{value}T00:00Z", f"{value} 00:00:00", f"{value}T02:00+02:00"]
    return chance.choice([value, *_MOMENTS.get(value, there)])


def _feature(feature: Any, chance: random.Random) -> Any:
    if feature == "sex":
        return chance.choice([feature, {"column": "sex"}, {"column": "sex", "reference": "m"}])
    if isinstance(feature, dict) and "expr" in feature:
        return {"expr": _respaced(feature["expr"], chance)}
    return feature


def _respaced(text: str, chance: random.Random) -> str:
    text = text.replace("1960-12-31", str(_moment("1960-12-31", chance)))
    text = text.replace('"m"', chance.choice(['"m"', "' m'", '"m\u00a0"']))
    return text.replace(" + ", chance.choice(["+", "  + ", " + "])).replace(" >= ", " >=  ")


def written(value: Any, chance: random.Random) -> str:
    """Return JSON in a random spelling: the order of members, white space, and numbers."""
    space = chance.choice(["", " ", "\n"])
    if isinstance(value, dict):
        members = list(value.items())
        chance.shuffle(members)
        reported = [f"{json.dumps(name)}:{space}{written(each, chance)}" for name, each in members]
        return "{" + f",{space}".join(reported) + "}"
    if isinstance(value, list):
        return "[" + f",{space}".join(written(each, chance) for each in value) + "]"
    if isinstance(value, int) and not isinstance(value, bool):
        return chance.choice([str(value), f"{value}.0", f"{value}.00", f"{value}e0"])
    if isinstance(value, float):
        return chance.choice([repr(value), f"{value}0", f"{value}e0"])
    return json.dumps(value)


def priced(text: str, epsilon: str, chance: random.Random) -> str:
    """Return a body with its epsilon in another spelling."""
    number = chance.choice([f'"{epsilon}"', epsilon, f'"{float(epsilon):.4f}"', f"{epsilon}e0"])
    return text.replace(f'"{epsilon}"', number)


def read(text: str) -> Question:
    return spelled(read_model(ReleaseRequest, text.encode()).question, SCHEMA)


class Facts:
    """Public facts, as far as plans read them."""

    schema, columns = SCHEMA, SPEC
    columns = SPEC


def plan_of(question: Question) -> str | None:
    """Return a plan; None of a question that contradicts itself, which is refused."""
    facts: Any = Facts()
    try:
        return json.dumps(plan_json(make_plan(facts, question), question.epsilon))
    except Problem:
        return None


def bodies(count: int, seed: int) -> Iterator[tuple[Body, int | None, random.Random]]:
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        yield *made(chance), chance


@pytest.mark.parametrize(
    ("count", "plans"), [(150, 12), pytest.param(500, 24, marks=pytest.mark.wide)]
)
def test_rewritings_have_one_text_one_key_and_one_plan(count: int, plans: int) -> None:
    planned = 0
    for each, (body, number, chance) in enumerate(bodies(count, seed=37)):
        first = read(json.dumps(body))
        text = written(rewritten(body, number, chance), chance)
        again = read(priced(text, body["epsilon"], chance))
        assert again.canonical == first.canonical, text
        assert again == first
        assert question_key("ds_1", again) == question_key("ds_1", first)
        if each % 5 == 0:  # the spelling of a spelling is itself, read again or not
            assert spelled(first, SCHEMA).canonical == first.canonical
            assert spelled(read_question(first.canonical), SCHEMA).canonical == first.canonical
        if first.kinds[0] in ("count", "mean", "sum", "histogram") and planned < plans:
            plan = plan_of(first)
            assert plan_of(again) == plan
            planned += plan is not None
    assert planned == plans


# Changes: what is asked becomes something else.


def _changed(statistic: Body) -> Iterator[Body]:
    """Yield questions that differ from this one in one thing that they mean."""

    def of(at: int, **condition: Any) -> Body:
        where = [*statistic["where"]]
        where[at] = {**where[at], **condition}
        return {**statistic, "where": where}

    for at, condition in enumerate(statistic["where"]):
        value, other = condition.get("value"), {">=": ">", ">": ">=", "<": "<=", "<=": "<"}
        if condition["op"] in other:
            yield of(at, op=other[condition["op"]])
        if isinstance(value, list):
            yield of(at, value=value[1:])
        elif isinstance(value, bool):
            yield of(at, value=not value)
        elif isinstance(value, int | float):
            yield of(at, value=value + 1)
        elif isinstance(value, str) and value[:4].isdigit():
            yield of(at, value=value.replace("1960-12-31", "1961-01-01").replace("12:30", "12:31"))
    for ordered in ("by", "columns", "levels", "features"):
        if len(statistic.get(ordered, ())) > 1:
            yield {**statistic, ordered: statistic[ordered][::-1]}
    if "age" in statistic.get("edges", {}):
        yield {**statistic, "edges": {"age": [0, 19, 65, 120]}}
    if "features" in statistic:
        yield {**statistic, "bound": 3}
    yield {**statistic, "derive": {**statistic["derive"], "rich": "income > 1001 and age >= 18"}}


@pytest.mark.parametrize("count", [150, *wide(500)])
def test_changes_of_meaning_have_another_text_and_key(count: int) -> None:
    for body, _number, chance in bodies(count, seed=73):
        first = read(json.dumps(body))
        other = deepcopy(body)
        kind = chance.random()
        if kind < 0.1:
            other["epsilon"] = "0.300000001"
        elif kind < 0.2 and body["statistic"]["kind"] != "stack":
            other["norm"] = "l1"
        elif body["statistic"]["kind"] == "stack":
            parts = other["statistic"]["parts"]
            if len(parts) > 1 and kind < 0.5:
                parts[0]["share"] += 1
            else:
                part = chance.choice(parts)
                part["statistic"] = chance.choice([*_changed(part["statistic"])])
        else:
            other["statistic"] = chance.choice([*_changed(other["statistic"])])
        again = read(json.dumps(other))
        assert again.canonical != first.canonical, (body, other)
        assert question_key("ds_1", again) != question_key("ds_1", first)


def test_no_bound_may_be_said_or_left_out() -> None:
    """Of a part of a stack too."""
    asked = {"kind": "logistic_regression", "features": ["age"], "target": "owner"}

    def key(mechanism: str, *, stacked: bool, **bound: float | None) -> str:
        body: Body = {"statistic": {**asked, **bound}, "mechanism": mechanism}
        if stacked:
            body = {"statistic": {"kind": "stack", "parts": [body]}}
        return question_key("ds_1", read(json.dumps({**body, "epsilon": "1"})))

    for stacked in (False, True):
        found = {
            key(mechanism, stacked=stacked, **bound)
            for mechanism in ("auto", "objective_perturbation")
            for bound in ({}, {"bound": None})
        }
        assert len(found) == 1
        assert key("auto", stacked=stacked, bound=50) not in found


def test_a_key_is_of_one_data_set_and_of_no_purpose() -> None:
    question = read(json.dumps({"statistic": {"kind": "count", "where": []}, "epsilon": 1}))
    assert question_key("ds_1", question) != question_key("ds_2", question)
    assert len(question_key("ds_1", question)) <= 200


@pytest.mark.parametrize(
    "where",
    [
        [{"column": "age", "op": "==", "value": "40"}, {"column": "sex", "op": "==", "value": "m"}],
        [{"column": "sex", "op": "==", "value": "?"}, {"column": "age", "op": "==", "value": 1.0}],
        [{"column": "born", "op": ">", "value": "1960-12-31T12:00Z"}],
        [{"column": "nothing", "op": ">", "value": 1.0}],
    ],
)
def test_what_does_not_fit_keeps_its_places_to_be_refused_by(where: list[Body]) -> None:
    body: Mapping[str, Any] = {"statistic": {"kind": "count", "where": where}, "epsilon": 1}
    asked = read_model(ReleaseRequest, json.dumps(body).encode()).question
    assert spelled(asked, SCHEMA).statistic == asked.statistic


VALUES = ["north", "caf\u00e9", "1"]
SPELLINGS = {"north": (" north", "north\u00a0"), "caf\u00e9": ("cafe\u0301 ",), "1": ("1.0", " 1")}
"""Each declared value, and what a file may hold in its place."""


def category(*, trim: bool, **more: object) -> Schema:
    """A data set of a category; further fields are the column's."""
    columns: dict[str, Any] = {
        "c": {"type": "category", "values": VALUES, "trim": trim, **more},
        "y": {"type": "number", "lower": 0, "upper": 9},
    }
    spec = parse_columns(columns, adjacency=Adjacency.REPLACE_ONE, max_rows=None)
    return schema_of(spec, rows=9)


def shares_of(text: str) -> Assumptions:
    return Assumptions(shares=(("c", ((text, 0.5),)),))


NAMING: Mapping[str, Callable[[str], Statistic]] = {
    "a condition": lambda text: Count(where=(Condition(column="c", op="==", value=text),)),
    "a list": lambda text: Count(where=(Condition(column="c", op="in", value=(text, "north")),)),
    "a derived column": lambda text: Count(
        derive={"it": f'c == "{text}"'}, where=(Condition(column="it", op="==", value=True),)
    ),
    "a list of one": lambda text: Mean(
        columns=("it",), derive={"it": f'y + (c in ("{text}", "north"))'}
    ),
    "a reference level": lambda text: LinearRegression(
        target="y", features=(Category(column="c", reference=text),), bound=5
    ),
    "a formula": lambda text: LinearRegression(formula=f'y ~ C(c, ref="{text}")', bound=5),
    "an expression": lambda text: LinearRegression(formula=f'y ~ I(c == "{text}")', bound=5),
    "a target": lambda text: LogisticRegression(formula=f'(c == "{text}") ~ y'),
}


def planned(statistic: Statistic, schema: Schema) -> Plan:
    known = isinstance(statistic, LinearRegression)
    by = "functional" if known else "auto"  # no simulation chooses
    return calibrate(statistic, schema, Epsilon.parse("1"), mechanism=by)


@in_one("place", NAMING)
@in_one("trim", [True, False])
def test_a_category_s_value_is_read_in_a_question_as_in_the_file(place: str, trim: bool) -> None:
    """Two spellings are one question, which is one plan; what is no value is refused."""
    schema, naming = category(trim=trim), NAMING[place]
    for value, texts in SPELLINGS.items():
        declared = canonical(naming(value), schema)
        for text in texts:
            asked = naming(text)
            if trim or text == "1.0":
                assert canonical(asked, schema) == declared
                plan, other = planned(asked, schema), planned(declared, schema)
                assert (plan.guarantee, plan.grid) == (other.guarantee, other.grid)
            else:
                with pytest.raises(InvalidStatisticError, match="north"):
                    planned(canonical(asked, schema), schema)


@pytest.mark.parametrize("trim", [True, False])
def test_a_category_s_value_is_read_in_assumptions_as_in_the_file(trim: bool) -> None:
    schema = category(trim=trim)
    column = schema.columns["c"]
    assert isinstance(column, CategoryColumn)
    for at, (value, texts) in enumerate(SPELLINGS.items()):
        for text in texts:
            if trim or text == "1.0":
                shares_of(text).check(schema)
                shares = shares_of(text).shares_of("c", column)
                assert shares == tuple(0.5 if place == at else 0.25 for place in range(3))
                assert factors_of(f"c{text}", schema) == factors_of(f"c{value}", schema)
                twice = Assumptions(shares=(("c", ((text, 0.2), (value, 0.2))),))
                with pytest.raises(InvalidStatisticError, match="two shares"):
                    twice.check(schema)
            else:
                with pytest.raises(InvalidStatisticError):
                    shares_of(text).check(schema)


@pytest.mark.parametrize("trim", [True, False])
def test_a_category_s_value_is_read_in_a_spec_as_in_the_file(trim: bool) -> None:
    """Usual shares, labels, what takes the place of missing cells or of all others."""
    for value, texts in SPELLINGS.items():
        for text in texts:
            fields: Mapping[str, object] = {
                "typical": {text: 1}, "labels": {text: "L"}, "missing": text, "other": text,
            }  # fmt: skip
            if trim or text == "1.0":
                columns: Body = {
                    "c": {"type": "category", "values": VALUES, "trim": trim, **fields}
                }
                spec = parse_columns(columns, adjacency=Adjacency.ADD_REMOVE, max_rows=9).columns[
                    "c"
                ]
                assert isinstance(spec, CategorySpec)
                assert spec.values == tuple(VALUES)
                assert (spec.other, spec.labels) == (value, ((value, "L"),))
                assert spec.missing == Fill(value)
                assert spec.typical is not None
                assert spec.typical.shares == ((value, 1),)
                continue
            for name in ("typical", "labels", "missing"):
                with pytest.raises(InvalidSpecError):
                    category(trim=trim, **{name: fields[name]})
