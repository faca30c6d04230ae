"""Weights: exact sums, every neighbour of tiny data, and twins that must be caught."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Json
from mechanisms.derivations import Released, derive
from mechanisms.domain import CODE_MAX, CategoryColumn, Column, NumberColumn, Schema
from mechanisms.functional.moments import RegressionMoments, regression_moments, weighted_moments
from mechanisms.knorm import integer_noise, offered_norms
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.additive import AdditiveForm
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.total import Sum
from mechanisms.statistics.weights import Weights, private_rows, weighted_data
from mechanisms.testing import seeded_randomness
from tests.mechanisms.offers import ADD, REPLACE
from tests.mechanisms.test_knorm_privacy import loss

COLUMNS: dict[str, Column] = {
    "x": NumberColumn(Fraction(-1), Fraction(1)),
    "far": NumberColumn(Fraction(5), Fraction(10)),
    "w": NumberColumn(Fraction(1), Fraction(3)),
    "group": CategoryColumn(("a", "b")),
}
KINDS = [
    {"x": x, "far": far, "w": w, "group": "ab"[far == 5]}
    for (x, far), w in product(((-1, 5), (1, 10), (0.3, 10)), (1, 1.7, 3))
]
WEIGHTS = Weights("w", NumberColumn(Fraction(1), Fraction(3)))
LARGE = Epsilon.parse("10000")
SUMMED = [
    Sum(columns=("far",), weights="w"),
    Sum(columns=("x", "far"), weights="w"),
    Mean(columns=("x",), weights="w"),
    Mean(columns=("x", "far"), weights="w"),
]
FITS = [
    LinearRegression(target="far", features=("x",), weights="w", intercept=intercept)
    for intercept in (True, False)
]


def data_of(rows: Sequence[Any]) -> ArrayData:
    schema = Schema(COLUMNS, REPLACE, len(rows))
    return ArrayData.from_values(schema, {name: [r[name] for r in rows] for name in COLUMNS})


def schema_of(adjacency: Adjacency, rows: int = 2) -> Schema:
    return Schema(COLUMNS, adjacency, rows if adjacency is REPLACE else None, rows)


def moved(total: Any, adjacency: Adjacency) -> Iterator[list[int]]:
    """What changes in a total between any two neighbours of two records, or of one and two."""
    pairs: list[tuple[Any, Any]] = [(each, None) for each in KINDS]
    if adjacency is REPLACE:
        pairs = list(combinations_with_replacement(KINDS, 2))
    for common in KINDS[:2]:
        for one, other in pairs:
            there = [common] if other is None else [common, other]
            both = zip(total(data_of([common, one])), total(data_of(there)), strict=True)
            yield [a - b for a, b in both]


def losses(form: AdditiveForm | RegressionMoments, adjacency: Adjacency) -> Iterator[Fraction]:
    """The largest loss of every norm at epsilon 1."""
    moves = list(moved(form.total, adjacency))
    for norm in offered_norms(form.space):
        noise = integer_noise(form.space, norm, Fraction(1))
        yield max(loss(noise, move) for move in moves)


def fitted(statistic: LinearRegression, schema: Schema, facts: Schema) -> RegressionMoments:
    """What a weighted regression sums, planned with these facts."""
    moments = regression_moments(statistic.scaling(schema), facts)
    return weighted_moments(moments, WEIGHTS, rows=schema.known_rows)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("statistic", SUMMED, ids=lambda each: f"{each.kind}{len(each.columns)}")
def test_every_neighbour_of_weighted_sums_loses_at_most_epsilon(
    statistic: Sum | Mean, adjacency: Adjacency
) -> None:
    """In exact integers, for every norm; and most of it is used."""
    found = list(losses(statistic.additive(schema_of(adjacency)), adjacency))
    assert max(found) <= 1
    assert max(found) > Fraction(2, 3)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("statistic", FITS, ids=["intercept", "without"])
def test_every_neighbour_of_weighted_moments_loses_at_most_epsilon(
    statistic: LinearRegression, adjacency: Adjacency
) -> None:
    schema = schema_of(adjacency)
    assert max(losses(fitted(statistic, schema, private_rows(schema)), adjacency)) <= 1


def test_weights_planned_as_if_each_record_counted_once_are_caught() -> None:
    """With the row count public: a number that moves with a weight would be told without noise."""
    schema = schema_of(REPLACE)
    apart, together = (fitted(FITS[0], schema, facts) for facts in (schema, private_rows(schema)))
    assert together.space.dimension == apart.space.dimension + 1
    assert Mean(columns=("x",)).additive(schema).space.dimension == 1
    weighted = Mean(columns=("x",), weights="w")
    assert weighted.additive(schema).space.dimension == 2
    assert any(move[0] for move in moved(together.total, REPLACE)), "the weights' own sum"


def test_weights_that_are_not_divided_by_the_largest_are_caught() -> None:
    schema = schema_of(ADD)
    form = Sum(columns=("far",)).additive(private_rows(schema))

    def total(data: Any) -> list[int]:
        return [3 * each for each in form.total(weighted_data(data, WEIGHTS))]

    wrong = replace(form, space=replace(form.space, unit=CODE_MAX * form.space.unit), total=total)
    assert max(losses(wrong, ADD)) > 1


def many(rows: int = 4000) -> list[dict[str, Any]]:
    generator = random.Random(2)
    return [
        {
            "x": (x := generator.uniform(-1, 1)),
            "far": 7.5 + 2 * x + generator.uniform(-0.4, 0.4),
            "w": generator.choice([1, 1.25, 3]),
            "group": generator.choice("ab"),
        }
        for _ in range(rows)
    ]


def fit(rows: Sequence[Any]) -> tuple[float, float]:
    x, y, w = (np.array([row[name] for row in rows]) for name in ("x", "far", "w"))
    design = np.stack([np.ones_like(x), x], axis=1) * np.sqrt(w)[:, None]
    solved = np.linalg.lstsq(design, y * np.sqrt(w), rcond=None)[0]
    return float(solved[0]), float(solved[1])


def drawn(statistic: Any, rows: Sequence[Any], adjacency: Adjacency) -> Json:
    plan = calibrate(statistic, schema_of(adjacency, len(rows)), LARGE)
    return plan.draw(data_of(rows), seeded_randomness(3)).value


@pytest.mark.wide
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_at_a_large_epsilon_weighted_answers_are_numpy_s(adjacency: Adjacency) -> None:
    rows = many()
    x, far, w = (np.array([row[name] for row in rows]) for name in ("x", "far", "w"))
    mean = drawn(Mean(columns=("far", "x"), weights="w"), rows, adjacency)
    assert mean == pytest.approx(
        {"far": (w * far).sum() / w.sum(), "x": (w * x).sum() / w.sum()}, abs=1e-3
    )
    total = drawn(Sum(columns=("far",), weights="w"), rows, adjacency)
    assert total["far"] == pytest.approx((w * far).sum(), abs=0.5)
    line = drawn(LinearRegression(target="far", features=("x",), weights="w"), rows, adjacency)
    assert line["coefficients"] == pytest.approx(
        dict(zip(("(intercept)", "x"), fit(rows), strict=True)), abs=0.01
    )


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_weights_go_with_filters_and_groups(adjacency: Adjacency) -> None:
    rows = many()
    where = (Condition(column="x", op=">", value=0),)
    asked = Sum(columns=("x",), weights="w", where=where, by=("group",))
    table: Any = drawn(asked, rows, adjacency)["groups"]
    for row in table:
        own = [r for r in rows if r["group"] == row["by"]["group"] and r["x"] > 0]
        exact = sum(r["w"] * r["x"] for r in own)
        assert row["value"]["x"] == pytest.approx(exact, abs=0.1)


def test_a_weight_of_nothing_counts_for_nothing_and_the_largest_whole() -> None:
    column = NumberColumn(Fraction(0), Fraction(8))
    codes = column.encode(np.array([-1, 0, 2, 8, 9], dtype=np.float64))
    shares = Weights("w", column).shares(codes)
    assert shares.tolist() == [0, 0, CODE_MAX // 4, CODE_MAX, CODE_MAX]


def test_columns_that_are_no_weights_are_refused() -> None:
    asked = LinearRegression(target="far", features=("x",), weights="w")
    for name in ("x", "group", "nobody"):
        for statistic in (replace(asked, weights=name), Mean(columns=("x",), weights=name)):
            with pytest.raises(InvalidStatisticError) as refused:
                calibrate(statistic, schema_of(ADD), LARGE)
            assert refused.value.field_name == "weights"


def test_standard_errors_are_not_offered_with_weights() -> None:
    """Nobody has said whether a weight is a precision, a frequency or a sampling probability."""
    asked = LinearRegression(target="far", features=("x",), weights="w")
    with pytest.raises(InvalidStatisticError, match="with weights") as refused:
        calibrate(asked, schema_of(REPLACE), LARGE, inference=Fraction(1, 3))
    assert refused.value.field_name == "inference"


def test_what_is_derived_counts_by_the_same_weights() -> None:
    rows, schema = many(500), schema_of(REPLACE, 500)

    def released(statistic: Any) -> Released:
        plan = calibrate(statistic, schema, LARGE)
        outcome = plan.draw(data_of(rows), seeded_randomness(4))
        return Released(
            statistic=statistic,
            norm=plan.norm,
            epsilon=LARGE,
            value=outcome.value,
            noise=outcome.noise,
            details=plan.details,
        )

    both = released(Mean(columns=("x", "far"), weights="w"))
    one = derive(Mean(columns=("x",), weights="w"), both, schema)
    assert one.value == {"x": both.value["x"]}
    for wanted, source in (
        (Mean(columns=("x",)), both),
        (Sum(columns=("x",), weights="w"), both),
        (Mean(columns=("x",), weights="w"), released(Moments(columns=("x", "far")))),
        (
            LinearRegression(target="far", features=("x",), weights="w"),
            released(Moments(columns=("x", "far"))),
        ),
    ):
        with pytest.raises(InvalidStatisticError):
            derive(wanted, source, schema)
