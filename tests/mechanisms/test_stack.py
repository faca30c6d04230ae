"""Stacks: one epsilon, split exactly; parts drawn as they would be alone; places in refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms import composition
from mechanisms.analysis.hypothesis import HypothesisTest
from mechanisms.analysis.summary import Summary
from mechanisms.catalog import MECHANISMS, calibrate
from mechanisms.composition import THEOREM
from mechanisms.contract import InvalidStatisticError, Statistic
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.knorm import IntegerNoise
from mechanisms.privacy import (
    Adjacency,
    Epsilon,
    EpsilonShare,
    PrivacyLoss,
    Protected,
    split,
)
from mechanisms.single import calibrate_by
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.stack import MAX_PARTS, Part, Stack
from mechanisms.statistics.total import Sum
from mechanisms.testing import neighbours, seeded_randomness
from tests.mechanisms.forms import form_of

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
COLUMNS = {
    "x": NumberColumn(Fraction(0), Fraction(10)),
    "group": CategoryColumn(("a", "b", "c")),
}
MEAN = Mean(columns=("x",))
HISTOGRAM = Histogram(columns=("group",))
QUANTILE = Quantile(column="x", levels=(0.5,))
FINE = Histogram(columns=("x",), edges={"x": tuple(index / 500 for index in range(5001))})
SHARES = st.lists(
    st.integers(1_000, 10**15).map(lambda nanos: nanos / 10**9), min_size=1, max_size=MAX_PARTS
)


def schema(adjacency: Adjacency = REPLACE, rows: int = 6) -> Schema:
    return Schema(COLUMNS, adjacency, rows if adjacency is REPLACE else None, max_rows=100)


def stack(*parts: tuple[Statistic, float]) -> Stack:
    return Stack(parts=tuple(Part(statistic=statistic, share=share) for statistic, share in parts))


def data() -> ArrayData:
    values = {"x": [0.0, 2.5, 5.0, 5.0, 7.5, 10.0], "group": list("aabbbc")}
    return ArrayData.from_values(schema(), values)


@given(SHARES, st.integers(1, 10_000 * 10**9))
def test_what_the_parts_spend_is_epsilon_exactly(shares: list[float], nanos: int) -> None:
    question = stack(*((Count(where=(WITHIN,)), share) for share in shares))
    epsilon = Epsilon(nanos)
    parts = split(epsilon, question.exact_shares())
    if min(part.fraction for part in parts) < Fraction(1, 10**12):
        with pytest.raises(InvalidStatisticError, match="1e-12"):
            calibrate(question, schema(), epsilon)
        return
    plan = calibrate(question, schema(), epsilon)
    spent = [Fraction(part["epsilon"]) for part in plan.details["parts"]]  # type: ignore[attr-defined]
    assert sum(spent) == epsilon.fraction
    decimals = [Fraction(repr(share)) for share in shares]
    assert spent == [epsilon.fraction * share / sum(decimals) for share in decimals]
    assert plan.guarantee.epsilon is epsilon


WITHIN = Condition(column="x", op=">", value=5)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_the_joint_loss_never_exceeds_epsilon(adjacency: Adjacency) -> None:
    """The log ratio of the joint masses, in exact rationals, over random and extreme neighbours.

    It is the sum over the parts of rate_i ||u_i||, reached at zero noise.
    """
    parts = (Count(where=(WITHIN,)), Sum(columns=("x",)), HISTOGRAM)
    question = stack(*zip(parts, (0.1, 0.2, 0.4), strict=True))
    epsilon, made = Epsilon.parse("0.7"), schema(adjacency, 3)
    shares = split(epsilon, question.exact_shares())
    assert [share.fraction for share in shares] == [Fraction(k, 10) for k in (1, 2, 4)]
    forms = [form_of(part, made) for part in parts]
    noises = [
        IntegerNoise.calibrated(form.space, "l1", share.fraction)
        for form, share in zip(forms, shares, strict=True)
    ]
    largest = Fraction(0)
    for here, there in neighbours(made, rows=3, trials=300, seed=3):
        joint = Fraction(0)
        for form, noise in zip(forms, noises, strict=True):
            change = np.subtract(form.total(here), form.total(there), dtype=object)
            joint += noise.rate * sum(abs(step) for step in change)
        largest = max(largest, joint)
    assert largest == epsilon.fraction


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_a_part_is_drawn_as_it_would_be_alone(adjacency: Adjacency) -> None:
    question = stack((MEAN, 1), (HISTOGRAM, 0.5), (MEAN, 1), (QUANTILE, 3), (MEAN, 2))
    made, epsilon = schema(adjacency), Epsilon.parse("1")
    together = calibrate(question, made, epsilon)
    drawn = together.draw(data(), seeded_randomness(5))
    bits = seeded_randomness(5)
    for index, (part, share) in enumerate(
        zip(question.parts, split(epsilon, question.exact_shares()), strict=True)
    ):
        assert isinstance(share, EpsilonShare)
        alone = calibrate(part.statistic, made, share)
        outcome = alone.draw(data(), bits)
        assert drawn.value["parts"][index] == outcome.value  # type: ignore[index]
        assert drawn.noise is not None
        laws: Any = (drawn.noise.std["parts"], drawn.noise.interval_95["parts"])
        mine = outcome.noise
        expected = (None, None) if mine is None else (mine.std, mine.interval_95)
        assert (laws[0][index], laws[1][index]) == expected
        facts: Any = together.details["parts"]
        assert facts[index]["epsilon"] == str(share)
        assert facts[index]["theorem"] == MECHANISMS[alone.mechanism].THEOREM
        assert facts[index]["details"] == alone.details
        assert together.grid["parts"][index] == alone.grid  # type: ignore[index]


def test_equal_parts_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[Statistic, PrivacyLoss]] = []

    def counted(known: Any, statistic: Statistic, public: Schema, epsilon: Any, **how: str) -> Any:
        made.append((statistic, epsilon))
        return calibrate_by(known, statistic, public, epsilon, **how)

    monkeypatch.setattr(composition, "calibrate_by", counted)
    parts = [(MEAN, 1), (HISTOGRAM, 1), (MEAN, 1), (MEAN, 2), (HISTOGRAM, 1)]
    calibrate(stack(*parts), schema(), Epsilon.parse("1"))
    assert [statistic for statistic, _ in made] == [MEAN, HISTOGRAM, MEAN]
    assert made[0][1] != made[2][1]


def test_the_plan_of_a_stack() -> None:
    plan = calibrate(stack((MEAN, 1), (QUANTILE, 1)), schema(), Epsilon.parse("1"))
    assert (plan.mechanism, plan.norm) == ("composition", None)
    assert plan.guarantee.theorem == THEOREM
    assert plan.guarantee.exact
    assert plan.guarantee.sensitivity == "2; 1"
    assert json.dumps([plan.details, plan.grid], allow_nan=False)
    assert {row.comparison[:9] for row in plan.alternatives if row.mechanism == "k_norm"} == {
        "parts[0]:"
    }
    noise = plan.preview(None)
    assert noise is not None
    assert noise.std["parts"][1] is None  # type: ignore[index]


def test_no_law_is_stated_where_no_part_has_one() -> None:
    plan = calibrate(stack((QUANTILE, 1), (QUANTILE, 2)), schema(), Epsilon.parse("1"))
    assert plan.preview(10) is None
    assert plan.draw(data(), seeded_randomness(1)).noise is None
    assert plan.details["noise"]


def test_a_part_names_its_own_mechanism_and_norm() -> None:
    parts = (
        Part(statistic=MEAN, norm="l1"),
        Part(statistic=QUANTILE, mechanism="exponential"),
    )
    plan = calibrate(Stack(parts=parts), schema(), Epsilon.parse("1"))
    facts: Any = plan.details["parts"]
    assert [(part["mechanism"], part["norm"]) for part in facts] == [
        ("k_norm", "l1"),
        ("exponential", None),
    ]


def test_standard_errors_are_drawn_in_the_parts_that_have_them() -> None:
    """At a share of the part's own epsilon, as in a release of the part alone."""
    both = stack((Sum(columns=("x",)), 1), (QUANTILE, 3))
    plan = calibrate(both, schema(rows=400), Epsilon.parse("4"), inference=Fraction(1, 4))
    first, second = plan.details["parts"]  # type: ignore[misc]
    assert "of the records" in first["no_inference"]
    assert second["details"]["inference"]["cost"] == "0.75"
    rows = ArrayData.from_values(
        schema(rows=400), {"x": [at / 40 for at in range(400)], "group": ["a"] * 400}
    )
    found = plan.draw(rows, seeded_randomness(3)).inference
    assert found is not None
    assert found.cost == "3/4"
    assert [term.place for term in found.terms] == [("parts", 1, "quantiles", 0, "value")]
    assert plan.guarantee.epsilon == Epsilon.parse("4")


def test_standard_errors_of_no_part_are_refused() -> None:
    facts = schema()
    alone = stack((Sum(columns=("x",)), 1))
    with pytest.raises(InvalidStatisticError, match="no part") as refused:
        calibrate(alone, facts, Epsilon.parse("1"), inference=Fraction(1, 2))
    assert refused.value.field_name == "inference"
    people = replace(schema(ADD), protects=Protected(rows=2))
    with pytest.raises(InvalidStatisticError, match="several"):
        calibrate(stack((QUANTILE, 1)), people, Epsilon.parse("1"), inference=Fraction(1, 2))
    many = Quantile(column="x", levels=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6))
    with pytest.raises(InvalidStatisticError, match=r"part 2: .* at most 5 levels") as refused:
        calibrate(stack((MEAN, 1), (many, 1)), facts, Epsilon.parse("1"), inference=Fraction(1, 2))
    assert refused.value.field_name == "inference"


NESTED = stack((stack((MEAN, 1)), 1))
BAD: list[tuple[Stack, str]] = [
    (Stack(parts=()), "parts"),
    (stack(*[(MEAN, 1)] * (MAX_PARTS + 1)), "parts"),
    (NESTED, "parts[0].statistic"),
    (stack((HypothesisTest(test="t", columns=("x",)), 1)), "parts[0].statistic"),
    (stack((Summary(columns=("x",)), 1)), "parts[0].statistic"),
    (stack((MEAN, 1), (MEAN, 0)), "parts[1].share"),
    (stack((MEAN, -1)), "parts[0].share"),
    (stack((MEAN, float("nan"))), "parts[0].share"),
    (stack((MEAN, float("inf"))), "parts[0].share"),
    (stack((MEAN, 1e-7)), "parts[0].share"),
    (stack((MEAN, 2e6)), "parts[0].share"),
    (stack((MEAN, 0.1234567891)), "parts[0].share"),
    (stack((MEAN, 1), (Mean(columns=("absent",)), 1)), "parts[1].statistic.columns"),
    (stack((Count(), 1)), "parts[0].statistic.where"),
    (stack(*[(FINE, 1)] * 3), "parts"),
    (Stack(parts=(Part(statistic=MEAN, norm="l7"),)), "parts[0].norm"),  # type: ignore[arg-type]
    (Stack(parts=(Part(statistic=MEAN, mechanism="kng"),)), "parts[0].mechanism"),
]


@pytest.mark.parametrize(("question", "place"), BAD, ids=[place for _, place in BAD])
def test_bad_stacks_are_refused_with_the_place(question: Stack, place: str) -> None:
    with pytest.raises(InvalidStatisticError) as refusal:
        calibrate(question, schema(), Epsilon.parse("1"))
    assert refusal.value.field_name == place


@pytest.mark.parametrize(("mechanism", "norm"), [("k_norm", "auto"), ("auto", "l1")])
def test_a_stack_has_no_mechanism_or_norm_of_its_own(mechanism: str, norm: str) -> None:
    with pytest.raises(InvalidStatisticError, match=r"part|composition"):
        calibrate(stack((MEAN, 1)), schema(), Epsilon.parse("1"), mechanism=mechanism, norm=norm)
