"""The smallest epsilon for a wanted accuracy: found in few tries, enough, and tight."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from app.services.plans.questions import read_question
from mechanisms.catalog import calibrate
from mechanisms.domain import NumberColumn, Schema
from mechanisms.estimates import accuracy
from mechanisms.estimates.accuracy import (
    LEAST_TRIED,
    MOST_TRIED,
    is_searched,
    searched,
    smallest_epsilon,
)
from mechanisms.estimates.asked import Asked, parts_asked
from mechanisms.estimates.assumptions import Assumptions, Spread
from mechanisms.estimates.errors import simulated_reach
from mechanisms.estimates.trees import at, numbers
from mechanisms.privacy import MAX_EPSILON_NANOS, Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.testing import seeded_randomness
from tests.tiers import in_one

ONE = 10**9
ROWS = 500

FALLING: Mapping[str, Callable[[float], float]] = {
    "as 1 / epsilon": lambda epsilon: 3 / epsilon,
    "as its square": lambda epsilon: 7 / epsilon**2,
    "as its root": lambda epsilon: 0.2 / epsilon**0.5,
    "level at first": lambda epsilon: min(5.0, 40 / epsilon),
    "a step": lambda epsilon: 2.0 if epsilon < 0.037 else 0.5,
    "from nearly nothing": lambda epsilon: 1e-4 / epsilon,
    "exponentially": lambda epsilon: 9 * 2.0**-epsilon,
}


@in_one("first", [1, ONE // 10, ONE, MAX_EPSILON_NANOS])
@in_one("name", FALLING)
def test_the_least_is_found_to_a_tenth_wherever_the_search_begins(name: str, first: int) -> None:
    size, tried = FALLING[name], []

    def within(nanos: int) -> float:
        tried.append(nanos)
        return size(nanos / ONE)

    found = searched(within, first)
    assert found is not None
    assert size(found / ONE) <= 1 < size(found / ONE / 1.101)
    assert len(tried) <= MOST_TRIED
    assert len(set(tried)) == len(tried), "none is tried twice"


@in_one("first", [ONE // 10, ONE])
@in_one("name", FALLING)
def test_few_tries_find_what_is_enough_and_nearly_the_least(name: str, first: int) -> None:
    """Of what is dear no more are made."""
    size, tried = FALLING[name], []

    def within(nanos: int) -> float:
        tried.append(nanos)
        return size(nanos / ONE)

    found = searched(within, first, most=LEAST_TRIED)
    assert found is not None
    assert size(found / ONE) <= 1 < size(found / ONE / 1.4)
    assert len(tried) <= LEAST_TRIED


@pytest.mark.parametrize(("each_ms", "most"), [(2000, LEAST_TRIED), (1, MOST_TRIED)])
def test_what_takes_long_to_simulate_is_simulated_less_often(
    monkeypatch: pytest.MonkeyPatch, each_ms: float, most: int
) -> None:
    columns = {name: NumberColumn(Fraction(0), Fraction(100)) for name in ("age", "pay")}
    asked = asking(LINE, "kng", Schema(columns, Adjacency.REPLACE_ONE, ROWS, ROWS))
    tried = []

    def reach(asked: Asked, assumptions: Assumptions) -> float:
        del assumptions
        tried.append(asked)
        return 2.0 if asked.epsilon.fraction < Fraction(1, 9) else 1.0 if len(tried) < most else 2.0

    monkeypatch.setattr(accuracy, "simulated_reach", reach)
    monkeypatch.setattr(accuracy, "simulating_ms", lambda *_: each_ms)
    monkeypatch.setattr(accuracy, "_NEAR", 0.0)  # never near enough
    smallest_epsilon(Epsilon.parse("1"), asked, Assumptions(rows=ROWS), wanted=1.0)
    assert len(tried) == most


def test_what_takes_long_is_not_searched_and_that_is_known_before_anything_is_simulated() -> None:
    columns = {name: NumberColumn(Fraction(0), Fraction(100)) for name in ("age", "pay", "rent")}
    schema = Schema(columns, Adjacency.REPLACE_ONE, ROWS, ROWS)
    dear = {"kind": "quantile_regression", "target": "pay", "features": ["age", "rent"], "bound": 1}
    assumed = Assumptions(rows=ROWS)
    searched_for = [
        is_searched(Epsilon.parse("1"), asking(fields, mechanism, schema), assumed)
        for fields, mechanism in ((LINE, "kng"), (dear, "kng"), (dear, "exponential"))
    ]
    assert searched_for == [True, False, False]


def test_what_no_epsilon_reaches_has_none_and_what_any_reaches_takes_the_least() -> None:
    assert searched(lambda _: 2.0, ONE) is None
    assert searched(lambda nanos: 1e9 if nanos < MAX_EPSILON_NANOS else 1.5, 1) is None
    assert searched(lambda _: 0.0, ONE) == 1
    assert searched(lambda nanos: 1.0 if nanos == MAX_EPSILON_NANOS else 9.0, 3) is not None


LINE = {"kind": "linear_regression", "target": "pay", "features": ["age"]}
ACCURACIES: list[tuple[dict[str, Any], str, float]] = [
    ({"kind": "quantile", "column": "age", "levels": [0.5]}, "kng", 4.0),
    ({"kind": "quantile", "column": "age", "levels": [0.5]}, "exponential", 4.0),
    (LINE, "objective_perturbation", 20.0),
    (LINE, "kng", 20.0),
    ({"kind": "std", "columns": ["age"]}, "k_norm", 2.0),
]


def asking(
    fields: dict[str, Any], mechanism: str, schema: Schema
) -> Callable[[Epsilon], list[Asked]]:
    whole = {"statistic": fields, "mechanism": mechanism, "norm": "auto", "epsilon": "1"}
    statistic = read_question(json.dumps(whole)).statistic
    return lambda epsilon: parts_asked(
        Asked(statistic=statistic, schema=schema, epsilon=epsilon, mechanism=mechanism, norm="auto")
    )


def test_of_a_stack_the_part_with_the_widest_error_counts() -> None:
    """A count's law and a simulated median, each at its own share of epsilon."""
    columns = {name: NumberColumn(Fraction(0), Fraction(100)) for name in ("age", "pay")}
    schema = Schema(columns, Adjacency.ADD_REMOVE, None, ROWS)
    count, median = {"kind": "count"}, {"kind": "quantile", "column": "age", "levels": [0.5]}
    parts = [{"statistic": count, "share": 1}, {"statistic": median, "share": 3}]
    assumed = Assumptions(rows=ROWS)

    def least(asked: dict[str, Any], wanted: float) -> Fraction:
        first, stack = Epsilon.parse("1"), asking(asked, "auto", schema)
        assert is_searched(first, stack, assumed)
        found = smallest_epsilon(first, stack, assumed, wanted=wanted)
        assert found is not None
        return found.fraction

    together = least({"kind": "stack", "parts": parts}, 4.0)
    alone = 4 * least(count, 4.0), least(median, 4.0) * 4 / 3
    assert float(together) == pytest.approx(float(max(alone)), rel=0.25)


@pytest.mark.parametrize("std", [5, 12, 20])
def test_what_is_within_reach_holds_for_any_residuals_of_an_unstated_target(std: float) -> None:
    columns = {name: NumberColumn(Fraction(0), Fraction(100)) for name in ("age", "pay")}
    schema = Schema(columns, Adjacency.REPLACE_ONE, ROWS, ROWS)
    (asked,) = asking(LINE, "objective_perturbation", schema)(Epsilon.parse("0.1"))
    unstated = Assumptions(rows=ROWS)
    stated = Assumptions(rows=ROWS, population=(("pay", Spread(mean=50, std=std)),))
    assert simulated_reach(asked, unstated) >= simulated_reach(asked, stated)


@pytest.mark.wide
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(
    ("fields", "mechanism", "wanted"), ACCURACIES, ids=lambda part: str(part)[:40]
)
def test_most_draws_from_fresh_rows_are_within_the_accuracy_and_fewer_at_half_of_it(
    fields: dict[str, Any], mechanism: str, wanted: float, adjacency: Adjacency
) -> None:
    columns = {name: NumberColumn(Fraction(0), Fraction(100)) for name in ("age", "pay")}
    public = ROWS if adjacency is Adjacency.REPLACE_ONE else None
    schema = Schema(columns, adjacency, public, ROWS)
    asked = asking(fields, mechanism, schema)
    found = smallest_epsilon(
        Epsilon.parse("1"), asked, Assumptions(rows=ROWS, r_squared=0.5), wanted=wanted
    )
    assert found is not None
    half = Epsilon(found.nanos // 2)
    enough, too_little = (share_within(asked(each)[0], wanted) for each in (found, half))
    assert enough >= 0.88, "95%, to the error of a simulation"
    assert too_little <= min(0.92, enough - 0.03)


def share_within(asked: Asked, wanted: float) -> float:
    """Return how often every number is within this of its value without noise."""
    schema, generator = asked.schema, np.random.default_rng(11)
    plan = asked.plan()
    sure = calibrate(
        asked.statistic, schema, Epsilon.parse("10000"), mechanism=asked.mechanism, norm="auto"
    )
    inside = 0
    for turn in range(120):
        age = generator.uniform(0, 100, ROWS)
        pay = 50 + (age - 50) / 2 + generator.normal(0, 14, ROWS)
        data = ArrayData.from_values(schema, {"age": age, "pay": pay})
        one, true = (
            each.draw(data, seeded_randomness(2 * turn + place)).value
            for place, each in enumerate((plan, sure))
        )
        inside += all(abs(at(one, path) - number) <= wanted for path, number in numbers(true))
    return inside / 120
