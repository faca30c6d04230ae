"""What public facts answer is refused before a plan is made, and what has no effect is said."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Plan
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.expressions.conjunctions import Conjunction, Fact
from mechanisms.expressions.derived import DefinitionError, derived_column
from mechanisms.expressions.parsing import parse
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.statistics.cells.parting import Bands
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.designs.formula import read_formula
from mechanisms.statistics.registry import SINGLE_STATISTICS
from tests.tiers import in_one

COLUMNS: dict[str, Column] = {
    "age": NumberColumn(Fraction(0), Fraction(100)),
    "kids": NumberColumn(Fraction(0), Fraction(9), kind="integer"),
    "sex": CategoryColumn(("f", "m")),
    "region": CategoryColumn(("n", "s", "e")),
    "smoker": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "day": NumberColumn(Fraction(0), Fraction(20000), kind="date"),
}
Given = Sequence[tuple[str, str, Any]]


def plan_of(kind: str, where: Given = (), **fields: Any) -> Plan:
    conditions = tuple(Condition(column=c, op=op, value=v) for c, op, v in where)  # type: ignore[arg-type]
    statistic = SINGLE_STATISTICS[kind](where=conditions, **fields)  # type: ignore[call-arg]
    schema = Schema(COLUMNS, Adjacency.ADD_REMOVE, None, max_rows=1000)
    return calibrate(statistic, schema, Epsilon.parse("1"))


KIDS: dict[str, Any] = {"columns": ("kids",)}
ON_AGE: dict[str, Any] = {"features": ("age",)}


@in_one(
    ("kind", "where", "fields", "place", "said"),
    [
        ("mean", [("age", ">", 50), ("age", "<", 20)], KIDS, "where",
         "age > 50 and age < 20 cannot both hold"),
        ("count", [("age", ">", 200)], {}, "where[0]", "by the bounds 0 to 100 of age"),
        ("count", [("age", ">", 100)], {}, "where[0]", "age > 100 holds of no record"),
        ("count", [("age", "<", 200)], {}, "where[0]", "age < 200 holds of every record"),
        ("count", [("age", ">", 20), ("age", "==", 20)], {}, "where", "cannot both hold"),
        ("count", [("age", "!=", 7), ("age", "in", (7,))], {}, "where", "cannot both hold"),
        ("count", [("sex", "==", "f"), ("sex", "==", "m")], {}, "where", 'sex == "m"'),
        ("count", [("sex", "!=", "f"), ("sex", "!=", "m")], {}, "where", "cannot both hold"),
        ("count", [("region", "!=", "n"), ("region", "!=", "s"), ("region", "!=", "e")], {},
         "where", "cannot all hold"),
        ("count", [("smoker", "==", True), ("smoker", "!=", True)], {}, "where", "smoker"),
        ("count", [("kids", ">", 3), ("kids", "<", 4)], {}, "where", "cannot both hold"),
        ("count", [("kids", "==", 3.5)], {}, "where[0]", "kids holds whole numbers"),
        ("count", [("kids", "in", (3, 3.5))], {}, "where[0]", "leave it out of the list"),
        ("count", [("age", "in", ())], {}, "where[0]", "an empty list selects no record"),
        ("count", [("day", "<", "1990-01-01"), ("day", ">", "2000-01-01")], {}, "where",
         "day < 1990-01-01"),
        ("mean", [("sex", "==", "f")], {**KIDS, "by": ("sex",)}, "by[0]", "only one group of sex"),
        ("mean", [("kids", "==", 3)], KIDS, "columns", "kids is 3 in every record"),
        ("mean", [("kids", ">", 2), ("kids", "<", 4)], KIDS, "columns", "kids is 3"),
        ("variance", [], {"columns": ("smoker",), "by": ("smoker",)}, "columns", "makes the group"),
        ("quantile", [("kids", "==", 3)], {"column": "kids", "levels": (0.5,)}, "column", "count"),
        ("linear_regression", [("kids", "==", 3)], {"target": "kids", **ON_AGE}, "target", "kids"),
        ("logistic_regression", [("smoker", "==", True)], {"target": "smoker", **ON_AGE}, "target",
         "smoker is true"),
        ("logistic_regression", [("kids", "<", 4)],
         {"target": Condition(column="kids", op=">", value=5), **ON_AGE}, "target", "no record"),
        ("logistic_regression", [],
         {"target": Condition(column="kids", op=">=", value=0), **ON_AGE}, "target", "every"),
        ("correlation", [], KIDS, "columns", "two columns or more"),
        ("covariance", [], KIDS, "columns", '"variance"'),
        ("correlation", [("kids", "==", 3)], {"columns": ("kids", "age")}, "columns", "kids is 3"),
        ("count", [("never", "==", True)], {"derive": {"never": "age > 50 and age < 20"}},
         "derive[0]", "false in every row"),
    ],
)  # fmt: skip
def test_what_could_never_be_right_is_refused(
    kind: str, where: Given, fields: dict[str, Any], place: str, said: str
) -> None:
    with pytest.raises(InvalidStatisticError) as refusal:
        plan_of(kind, where, **fields)
    assert refusal.value.field_name == place
    assert said in refusal.value.detail


@in_one(
    ("kind", "where", "fields", "said"),
    [
        ("count", [("age", ">=", 0)], {}, "age >= 0 holds of every record"),
        ("count", [("sex", "in", ("m", "f"))], {}, "no effect"),
        ("count", [("kids", "!=", 3.5)], {}, "no effect"),
        ("mean", [("region", "in", ("n", "s"))], {**KIDS, "by": ("region",)}, "the group e of"),
        ("moments", [("kids", "==", 3)], {"columns": ("age", "kids")}, "kids is 3 in every record"),
        ("quantile_regression", [("kids", "==", 3)],
         {"target": "age", "tau": 0.5, "features": ("kids",)}, "kids is 3"),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_said_before_the_charge(
    kind: str, where: Given, fields: dict[str, Any], said: str
) -> None:
    warnings = plan_of(kind, where, **fields).details["warnings"]
    assert isinstance(warnings, list)
    assert len(warnings) == 1
    assert said in warnings[0]


@pytest.mark.parametrize(
    "where",
    [
        [("age", ">", 20), ("age", "<", 50)],
        [("age", ">=", 20), ("age", "<=", 20)],
        [("kids", ">", 3), ("kids", "<", 5)],
        [("age", "in", (1, 2)), ("age", "!=", 1)],
        [("day", ">=", "2000-01-01"), ("sex", "==", "f"), ("smoker", "!=", True)],
    ],
)
def test_what_some_record_can_meet_is_planned(where: Given) -> None:
    assert "warnings" not in plan_of("count", where).details


def test_reasoning_agrees_with_every_cell_of_small_columns() -> None:
    """1,500 random conjunctions, decided by looking at each value there can be."""
    chance = random.Random(37)
    columns: dict[str, Column] = {
        "whole": NumberColumn(Fraction(-2), Fraction(5), kind="integer"),
        "flag": NumberColumn(Fraction(0), Fraction(1), boolean=True),
        "kind": CategoryColumn(("a", "b", "c")),
    }
    domains: dict[str, Sequence[Any]] = {
        "whole": range(-2, 6), "flag": (0, 1), "kind": ("a", "b", "c")
    }  # fmt: skip
    compare: dict[str, Callable[[Any, Any], bool]] = {
        "==": lambda one, v: one == v[0], "!=": lambda one, v: one != v[0],
        "<": lambda one, v: one < v[0], "<=": lambda one, v: one <= v[0],
        ">": lambda one, v: one > v[0], ">=": lambda one, v: one >= v[0],
        "in": lambda one, v: one in v, "not in": lambda one, v: one not in v,
    }  # fmt: skip
    empty = constant = whole = 0
    for _ in range(1500):
        name = chance.choice(list(columns))
        ops = list(compare) if name == "whole" else ["==", "!=", "in", "not in"]
        near = [-3.5, -3, *domains["whole"], 6, 2.5] if name == "whole" else domains[name]
        facts = []
        for _ in range(chance.randint(1, 4)):
            op = chance.choice(ops)
            many = chance.sample(list(near), chance.randint(1, min(4, len(near))))
            facts.append(Fact(name, op, tuple(many if op.endswith("in") else many[:1])))
        met = [one for one in domains[name] if all(compare[f.op](one, f.values) for f in facts)]
        known = Conjunction(tuple(facts), columns)
        left = known.left(name)
        assert left.is_empty == (not met) == bool(known.culprits), facts
        assert left.constant == (met[0] if len(met) == 1 else None), facts
        if len(facts) == 1:
            assert left.whole == (len(met) == len(domains[name])), facts
        empty, constant = empty + (not met), constant + (len(met) == 1)
        whole += left.whole
    assert min(empty, constant, whole) > 20


@in_one(
    ("text", "decided"),
    [
        ("age > 200", False), ("age > 50 and age < 20", False), ("age >= 50 or age < 50", True),
        ("not (age > 200)", True), ("age + kids > 109", False), ("log1p(age) >= 0", True),
        ('sex in ("f", "m")', True), ('sex == "f" and not sex != "m"', False),
        ("kids == 3.5", False), ("smoker and not smoker", False), ('day > "2030-01-01"', False),
        ("age > 50", None), ("18 <= age < 65", None), ("age > 200 or smoker", None),
        ("smoker == 1 and age > 3", None), ('day > "2000-01-01"', None),
        ("age < 101 and smoker", None),
    ],
)  # fmt: skip
def test_expressions_that_bounds_decide_are_no_columns(text: str, decided: bool | None) -> None:
    if decided is None:
        assert derived_column(parse(text), COLUMNS).column.boolean
        return
    with pytest.raises(DefinitionError, match=f"is {str(decided).lower()} in every row"):
        derived_column(parse(text), COLUMNS)


def test_deeply_nested_comparisons_are_decided_once_each() -> None:
    text = "age > 1"
    for _ in range(18):
        text = f"(({text}) + kids) > 3"
    assert derived_column(parse(text), COLUMNS).column.boolean


MANY = Bands(column="age", edges=tuple(place / 10 for place in range(1_001)))
TENS = Bands(column="age", edges=tuple(range(0, 101, 2)))
BANDS = Bands(column="age", edges=(40, 60, 100))


@in_one(
    ("kind", "where", "fields", "said"),
    [
        ("mean", [], {"columns": ("agee",)}, "agee is no column (did you mean age?"),
        ("count", [("regionn", "==", "n")], {}, "regionn is no column (did you mean region?"),
        ("mean", [], {**KIDS, "by": ("sexx",)}, "sexx is no column (did you mean sex?"),
        ("sum", [], {**KIDS, "weights": "agee"}, "agee is no column"),
        ("mean", [], {"columns": ("x",), "derive": {"x": "agee + 1"}}, "agee is no column"),
        ("mean", [], {"columns": ("x",), "derive": {"x": "logg(age + 1)"}}, "did you mean log?"),
        ("mean", [], {"columns": ("x",), "derive": {"x": "age > 3,5"}}, "with a point"),
        ("count", [("age", ">", "3,5")], {}, "with a point, as in 3.5"),
        ("linear_regression", [], {"formula": "kids ~ agee"}, "agee is no column (did you mean"),
        ("linear_regression", [], {"formula": "kids ~ 3,5 * age"}, "with a point"),
        ("linear_regression", [], {"formula": "pay [EUR] ~ age"}, "backticks, as in `pay [EUR]`"),
        ("linear_regression", [], {"formula": "kids ~ pay [EUR]"}, "backticks, as in `pay [EUR]`"),
        ("mean", [], {**KIDS, "by": ("sex", "region", "smoker", MANY)},
         "12,000 groups (sex: 2 x region: 3 x smoker: 2 x age: 1,000)"),
        ("linear_regression", [],
         {"formula": "kids ~ age", "by": ("sex", "region", "smoker", TENS)},
         "at most 256 groups; here are 600"),
        ("mean", [("age", "<", 40)], {**KIDS, "by": (BANDS,)}, "only one group of age"),
    ],
)  # fmt: skip
def test_messages_name_the_culprit_and_the_way_out(
    kind: str, where: Given, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidStatisticError) as refusal:
        plan_of(kind, where, **fields)
    assert said in refusal.value.detail


@in_one(
    ("text", "said"),
    [
        ("bmi ~ age + age**2", "for its square write I(age^2)"),
        ("bmi ~ age^2", "as in R"),
        ("bmi ~ age:age", "age crossed with itself is age again"),
        ("bmi ~ age*age", "derive"),
        ("bmi ~ log(age)^2", "I(log(age)^2)"),
        ("bmi ~ `house value`^2", "I(`house value`^2)"),
        ("bmi ~ C(sex)^2", "write it once"),
        ("bmi ~ age^2.5", "I(age^2)"),
        ("bmi ~ age - agee", "agee is taken away and is no term before; the terms there are age"),
    ],
)
def test_a_square_is_not_dropped_from_a_formula(text: str, said: str) -> None:
    with pytest.raises(InvalidStatisticError) as refusal:
        read_formula(text)
    assert said in refusal.value.detail


def test_the_spelling_that_is_shown_for_a_square_is_one() -> None:
    assert [str(each) for each in read_formula("bmi ~ (age + kids)^2").features][:2] == [
        "age",
        "kids",
    ]
    features = read_formula("bmi ~ age + I(age^2)").features
    assert features[0] == "age"
    assert getattr(features[1], "expr", None) == "age^2"
