"""Designs of regressions: categories, expressions and products as columns of a view."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError
from mechanisms.derivations import Released, derive
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema, coded
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.cells.spelling import Derived
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.designs.features import Product
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.questions import viewed
from mechanisms.statistics.stack import Part, Stack
from mechanisms.testing import seeded_randomness
from tests.tiers import in_one

COLUMNS: Mapping[str, Column] = {
    "age": NumberColumn(Fraction(0), Fraction(100)),
    "educ": NumberColumn(Fraction(0), Fraction(20)),
    "income": NumberColumn(Fraction(1), Fraction(1000)),
    "smoker": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "sex": CategoryColumn(("female", "male", "x")),
    "region": CategoryColumn(("north", "south")),
    "one": CategoryColumn(("only",)),
    "house value": NumberColumn(Fraction(0), Fraction(9)),
}
ROWS = 3_000
TOP = Epsilon.parse("10000")


def people() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    age, educ = rng.integers(0, 101, ROWS), rng.integers(0, 21, ROWS)
    sex, region = rng.integers(0, 3, ROWS), rng.integers(0, 2, ROWS)
    income = np.clip(np.exp(1 + age / 40 + educ / 20 + (sex == 1) / 3), 1, 1000)
    return {
        "age": age,
        "educ": educ,
        "income": income.round(1),
        "smoker": rng.integers(0, 2, ROWS),
        "sex": [("female", "male", "x")[each] for each in sex],
        "region": [("north", "south")[each] for each in region],
        "one": ["only"] * ROWS,
        "house value": rng.integers(0, 10, ROWS),
    }


PEOPLE = people()
SCHEMA = Schema(COLUMNS, Adjacency.REPLACE_ONE, ROWS)
DATA = ArrayData.from_values(SCHEMA, PEOPLE)


def asked(**fields: Any) -> LinearRegression:
    return LinearRegression(**{"target": "income", **fields})


def names_of(statistic: Any, schema: Schema = SCHEMA) -> tuple[str, ...]:
    found = viewed(statistic, schema)
    return found.statistic.scaling(found.view.schema).names


# What lm() calls its coefficients, on data frames with these factors.
NAMES_OF_R = {
    "age": "(intercept) age",
    "sex": "(intercept) sexmale sexx",
    "C(sex, ref=x)": "(intercept) sexfemale sexmale",
    "age + C(sex, ref='male') + age:educ - 1": "age sexfemale sexmale sexx age:educ",
    "sex - 1": "sexfemale sexmale sexx",
    "age:sex + C(sex, ref=x) + age": "(intercept) sexfemale sexmale age age:sexfemale age:sexmale",
    "sex + region - 1": "sexfemale sexmale sexx regionsouth",
    "0 + region + sex": "regionnorth regionsouth sexmale sexx",
    "age * sex": "(intercept) age sexmale sexx age:sexmale age:sexx",
    "age:sex": "(intercept) age:sexfemale age:sexmale age:sexx",
    "age + age:sex": "(intercept) age age:sexmale age:sexx",
    "sex:age + sex": "(intercept) sexmale sexx sexfemale:age sexmale:age sexx:age",
    "sex * region": "(intercept) sexmale sexx regionsouth sexmale:regionsouth sexx:regionsouth",
    "sex + sex:region": "(intercept) sexmale sexx sexfemale:regionsouth sexmale:regionsouth "
    "sexx:regionsouth",
    "log(income) + I(age^2)": "(intercept) log(income) I(age^2)",
    "I((age-40)/10)": "(intercept) I((age_-_40)/10)",
    "(age + educ + smoker)^2 - age:educ": "(intercept) age educ smoker age:smoker educ:smoker",
    "age/educ": "(intercept) age age:educ",
    "educ:age + age": "(intercept) age educ:age",
    "`house value` + sqrt(age):educ": "(intercept) house value sqrt(age):educ",
    "1": "(intercept)",
    "age + age": "(intercept) age",
    "age - 1 + 1": "(intercept) age",
}


@in_one("right", NAMES_OF_R)
def test_coefficients_have_the_names_that_r_gives_them(right: str) -> None:
    names = NAMES_OF_R[right].replace("house value", "house_value").split()
    found = [name.replace(" ", "_") for name in names_of(asked_by(right))]
    assert sorted(found) == sorted(names)
    assert found == names or "sex:age" in right, "in R's order, by the number of factors"


def asked_by(right: str) -> LinearRegression:
    return LinearRegression(formula=f"income ~ {right}")


@pytest.mark.parametrize(
    ("formula", "fields"),
    [
        (
            "income ~ age + C(sex, ref=male) + age:educ - 1",
            {
                "features": (
                    "age",
                    {"column": "sex", "reference": "male"},
                    {"product": ["age", "educ"]},
                ),
                "intercept": False,
            },
        ),
        (
            "income ~ log(age + 1) + I(age**2)",
            {"features": ({"expr": "log(age+1)"}, {"expr": "age^2"})},
        ),
        ("income ~ log(income)", {"features": ({"log": "income"},)}),
        ("income ~ I(age)", {"features": ({"expr": " age "},)}),
        ("income ~ `age`:sex", {"features": ({"product": ["age", "sex"]},)}),
    ],
)
def test_a_formula_is_the_same_request_as_its_features(formula: str, fields: Any) -> None:
    read = _adapter().validate_python
    fields = {**fields, "features": list(fields["features"])}
    wanted = read({"kind": "linear_regression", "target": "income", **fields})
    assert read({"kind": "linear_regression", "formula": formula}) == wanted
    assert wanted.formula is None, "what is kept is what it stands for"


def _adapter() -> Any:
    from pydantic import TypeAdapter

    from app.services.plans.questions import AnyStatistic

    return TypeAdapter(AnyStatistic)


def test_a_target_of_a_formula_may_be_an_expression() -> None:
    found = LinearRegression(formula="log( income ) ~ age")
    assert (found.target, dict(found.derive)) == ("log(income)", {"log(income)": "log(income)"})
    assert LogisticRegression(formula="income > 50 ~ age").derive == {
        "I(income > 50)": "income > 50"
    }


DESIGNS: Mapping[str, Any] = {
    "age + sex + educ:age": lambda p, d: [p["age"], d("male"), d("x"), p["age"] * p["educ"]],
    "sex - 1": lambda p, d: [d("female"), d("male"), d("x")],
    "age*C(sex, ref=x)": lambda p, d: [
        p["age"], d("female"), d("male"), p["age"] * d("female"), p["age"] * d("male"),
    ],
    "log(age + 1) + smoker:I(educ - 10)": lambda p, d: [
        np.log(p["age"] + 1), p["smoker"] * (p["educ"] - 10),
    ],
}  # fmt: skip


@pytest.mark.parametrize("right", DESIGNS)
@pytest.mark.parametrize("adjacency", Adjacency)
def test_least_squares_is_that_of_the_design(right: str, adjacency: Adjacency) -> None:
    """Without noise to speak of, the answer is numpy's on the columns written out by hand."""
    schema = Schema(COLUMNS, adjacency, ROWS if adjacency is Adjacency.REPLACE_ONE else None, 10**4)
    statistic = LinearRegression(formula=f"log(income) ~ {right}", ridge=0, bound=100)
    plan = calibrate(statistic, schema, TOP, mechanism="functional")
    found = plan.draw(DATA, seeded_randomness(3)).value["coefficients"]
    plain = {name: np.asarray(PEOPLE[name], dtype=float) for name in ("age", "educ", "smoker")}
    sex = np.asarray(PEOPLE["sex"])
    columns = DESIGNS[right](plain, lambda level: (sex == level).astype(float))
    if statistic.intercept:
        columns.insert(0, np.ones(ROWS))
    wanted = np.linalg.lstsq(np.column_stack(columns), np.log(PEOPLE["income"]), rcond=None)[0]
    assert list(found.values()) == pytest.approx(list(wanted), rel=0.02, abs=2e-3)


@pytest.mark.wide
def test_the_plan_echoes_the_design() -> None:
    statistic = LinearRegression(formula="log(income) ~ age:C(sex, ref=x) + age")
    design: Any = calibrate(statistic, SCHEMA, TOP).details["design"]
    assert [term["coefficient"] for term in design["terms"]] == [
        "age",
        "age:sexfemale",
        "age:sexmale",
    ]
    assert design["terms"][2] == {
        "coefficient": "age:sexmale",
        "expr": 'age * (sex == "male")',
        "levels": {"sex": "male"},
        "bounds": [0.0, 100.0],
        "centre": 50.0,
        "width": 50.0,
    }
    assert design["references"] == {"sex": "x"}
    assert design["target"]["bounds"] == [0.0, pytest.approx(np.log(1000))]
    assert design["intercept"] is True


QUESTIONS: list[Any] = [
    asked(features=("age",), derive={"old": "age >= 65", "log_income": "log(income)"}),
    Mean(columns=("older", "age"), derive={"older": "age + 1"}),
    Quantile(column="gap", levels=(0.5,), derive={"gap": "age - educ"}),
    Moments(columns=("age", "square"), derive={"square": Derived(expr="age^2", upper=5000.0)}),
    Count(where=(Condition(column="old", op="==", value=True),), derive={"old": "age >= 65"}),
    Histogram(
        columns=("decade", "sex"), edges={"decade": (0, 5, 10)}, derive={"decade": "age / 10"}
    ),
    LogisticRegression(formula="age >= 65 and sex == 'x' ~ educ*region"),
    QuantileRegression(formula="log(income) ~ sex", bound=2),
    GeometricMedian(columns=("age", "youth"), derive={"youth": "100 - age"}),
    Stack(parts=(Part(statistic=Mean(columns=("d",), derive={"d": "2*age"})),)),
]


@pytest.mark.parametrize("statistic", QUESTIONS, ids=lambda each: each.kind)
def test_every_statistic_may_derive_columns(statistic: Any) -> None:
    plan = calibrate(statistic, SCHEMA, TOP)
    value = plan.draw(DATA, seeded_randomness(1)).value
    if isinstance(statistic, Mean):
        assert value["older"] == pytest.approx(np.mean(PEOPLE["age"]) + 1, abs=0.01)
    if isinstance(statistic, Count):
        assert value["count"] == pytest.approx(np.sum(PEOPLE["age"] >= 65), abs=1)
    if isinstance(statistic, Mean):
        assert plan.details["derived"] == {"older": {"expr": "age + 1", "bounds": [1.0, 101.0]}}


def test_a_column_may_be_made_of_derived_ones() -> None:
    chained = Mean(columns=("c",), derive={"c": "b * 2", "b": "a + 1", "a": "age / 2"})
    value = calibrate(chained, SCHEMA, TOP).draw(DATA, seeded_randomness(1)).value
    assert value["c"] == pytest.approx(np.mean(PEOPLE["age"]) + 2, abs=0.01)
    products = asked(
        features=(Product(product=("log_age", "smoker")),), derive={"log_age": "log(age + 1)"}
    )
    assert names_of(products) == ("(intercept)", "log_age:smoker")


@in_one(
    ("fields", "place", "said"),
    [
        ({"features": ("sexx",)}, "features", "sexx is no column"),
        ({"features": ("one",)}, "features[0]", "nothing to compare"),
        ({"formula": "income ~ C(sex, ref=man)"}, "features[0].reference", "female, male and x"),
        ({"formula": "income ~ C(sex, ref=x) + age:C(sex, ref=male)"}, "features[1]", "two refer"),
        ({"formula": "C(sex) ~ age"}, "formula", "the target is the column"),
        ({"formula": "income ~ C(age)"}, "features[0].column", "is a number, not a category"),
        ({"formula": "income ~ C(smoker, ref=true)"}, "features[0].reference", "is a boolean"),
        ({"formula": "income ~ age:C(sex, ref=z)"}, "features[0].product[1].reference", "declared"),
        ({"formula": "income ~ log(educ)"}, "features", r"log1p\(educ\)"),
        ({"formula": "log(educ) ~ age"}, "formula", r"log1p\(educ\)"),
        ({"formula": "log(educ) ~ age", "derive": {"z": "nope"}}, "derive[0]", "no such column"),
        ({"formula": "income ~ income"}, "features", "target is also a feature"),
        ({"features": ("age", "age")}, "features[1]", "one name"),
        ({"formula": "income ~ poly(age, 2)"}, "formula", "reads the data"),
        ({"formula": "income ~ scale(age)"}, "formula", "reads the data"),
        ({"formula": "income ~ ns(age, 3)"}, "formula", "reads the data"),
        ({"formula": "income ~ log2(age)"}, "formula", "is no function .did you mean log"),
        ({"formula": "income ~ ."}, "formula", "name those you mean"),
        ({"formula": "income ~ age | sex"}, "formula", "only"),
        ({"formula": "income ~ age + 2"}, "formula", "intercept"),
        ({"formula": "income ~ (age"}, "formula", r"at character 14"),
        ({"formula": "income"}, "formula", "target ~ features"),
        ({"formula": "~ age"}, "formula", "target ~ features"),
        ({"formula": f"y ~ ({' + '.join('abcdefghij')})^9"}, "formula", "at most 100 terms"),
        ({"formula": "income ~ age", "features": ("age",)}, "formula", "leave those out"),
        ({"formula": "income ~ age", "intercept": False}, "formula", "leave those out"),
        ({"formula": "log(income) ~ age", "derive": {"log(income)": "age"}}, "derive", "the name"),
        ({"features": ("(intercept)",), "derive": {"(intercept)": "2*age"}}, "features[0]", "name"),
        ({"features": ("age",), "derive": {"age": "educ"}}, "derive[0]", "has this name"),
        ({"features": ("age",), "derive": {"z": "educ", "w": "log(z)"}}, "derive[1]", "log1p"),
        ({"features": ("age",), "derive": {"z": "mean(educ)"}}, "derive[0]", "reads the data"),
        ({"features": ("age",), "derive": {"": "educ"}}, "derive", "printable"),
        ({}, "features", "is required"),
        ({"formula": "income ~ " + "x" * 3000}, "formula", "characters"),
        ({"formula": "y ~ " + "(" * 30 + "age" + ")" * 30}, "formula", "cannot be read"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(
    fields: Any, place: str | None, said: str
) -> None:
    given = fields if "formula" in fields else {"target": "income", **fields}
    with pytest.raises(InvalidStatisticError, match=said) as refused:
        calibrate(LinearRegression(**given), SCHEMA, TOP)
    assert place is None or refused.value.field_name == place


def test_a_wide_category_is_refused_and_not_expanded() -> None:
    many = CategoryColumn(tuple(map(str, range(10_000))))
    schema = Schema({**COLUMNS, "many": many, "more": many}, Adjacency.REPLACE_ONE, ROWS)
    for right in ("many", "many:more", "age:many"):
        with pytest.raises(InvalidStatisticError, match="at most 100 coefficients"):
            calibrate(asked_by(right), schema, TOP)


def test_a_view_reads_as_the_same_rows_with_more_columns() -> None:
    """Every way to read a view gives what rows that were stored so would give."""
    statistic = Mean(columns=("s", "b"), derive={"s": "age^2", "b": "sex == 'x'", "c": "s * educ"})
    view = viewed(statistic, SCHEMA).view
    data = view.over(DATA)
    values = {name: DATA.values_of(name) for name in DATA.columns}
    for name, made in view.added.items():
        values[name] = made.values(values)
    wide = {name: coded(view.schema.columns[name], each) for name, each in values.items()}
    stored = ArrayData(view.schema.columns, wide, values)
    names = ["c", "age", "b", "s"]
    assert data.gram(names) == stored.gram(names)
    assert data.gram(["age", "educ"]) == stored.gram(["age", "educ"])
    for name in names:
        for one, other in zip(data.ordered(name), stored.ordered(name), strict=True):
            assert np.array_equal(one, other)
    (block,) = data.blocks(["c", "sex", "b"])
    assert list(block) == ["c", "sex", "b"]
    assert all(np.array_equal(codes, wide[name]) for name, codes in block.items())
    assert np.array_equal(data.category_counts("sex"), stored.category_counts("sex"))
    assert data.rows == ROWS
    nobody = view.over(ArrayData.from_values(SCHEMA, {name: [] for name in COLUMNS}))
    assert nobody.gram(["s", "b"]) == [[0] * 3] * 3
    assert [len(codes) for codes in nobody.ordered("s")] == [0, 0]


GRID: Mapping[str, Column] = {
    "a": NumberColumn(Fraction(-1), Fraction(1)),
    "k": CategoryColumn(("u", "v")),
}
MAPS = {"d": "a^2 - a", "e": "a * (k == 'v')", "f": "exp(d)", "g": "a > 0 or k == 'u'"}


def test_neighbours_stay_neighbours_on_every_tiny_data_set() -> None:
    """All data sets of two rows, and all their neighbours: the views differ in one row alike."""
    rows = list(product((-1.0, -0.3, 0.7, 1.0), ("u", "v")))
    schema = Schema(GRID, Adjacency.REPLACE_ONE, 2)
    view = viewed(Mean(columns=("d",), derive=MAPS), schema).view

    def seen(records: Any) -> list[tuple[int, ...]]:
        values = {"a": [a for a, _ in records], "k": [k for _, k in records]}
        data = view.over(ArrayData.from_values(schema, values))
        names = [*GRID, *MAPS]
        blocks = list(data.blocks(names))
        return [
            row for block in blocks for row in zip(*(block[n].tolist() for n in names), strict=True)
        ]

    alone = {row: seen([row])[0] for row in rows}
    for one, two in product(rows, rows):
        assert seen([one, two]) == [alone[one], alone[two]], "each row as it is by itself"
        for other in rows:
            assert seen([one, other])[0] == seen([one, two])[0], "one row replaced, one row changed"


def test_a_view_that_looks_at_other_rows_is_caught() -> None:
    """The twin: a column centred by its mean makes neighbours differ in every row."""
    before, after = np.array([0, 0, 9]), np.array([0, 0, 0])
    changed = (before - before.mean()) != (after - after.mean())
    assert changed.sum() > 1


def released(statistic: Any, mechanism: str = "auto") -> Released:
    plan = calibrate(statistic, SCHEMA, TOP, mechanism=mechanism)
    outcome = plan.draw(DATA, seeded_randomness(2))
    return Released(
        statistic=statistic,
        mechanism=plan.mechanism,
        norm=plan.norm,
        epsilon=TOP,
        value=outcome.value,
        noise=outcome.noise,
        details=plan.details,
    )


def test_derivations_know_the_columns_that_a_release_derived() -> None:
    source = released(
        Moments(columns=("age", "square", "rich"), derive={"square": "age^2", "rich": "income > 9"})
    )
    mean = derive(Mean(columns=("square",)), source, SCHEMA).value
    assert mean["square"] == pytest.approx(np.mean(np.square(PEOPLE["age"])), rel=0.01)
    fit = LinearRegression(target="rich", features=("age", "square"), ridge=0)
    found = derive(fit, source, SCHEMA).value["coefficients"]
    assert set(found) == {"(intercept)", "age", "square"}
    other = Mean(columns=("square",), derive={"square": "age^2 + 1"})
    with pytest.raises(InvalidStatisticError, match="does not determine"):
        derive(other, source, SCHEMA)
    with pytest.raises(InvalidStatisticError, match="no such column"):
        derive(Mean(columns=("cube",)), source, SCHEMA)
    with pytest.raises(InvalidStatisticError, match="does not determine"):
        derive(LinearRegression(formula="rich ~ age + sex"), source, SCHEMA)
