"""Standard errors that cost nothing, and why some answers have none: the catalog is walked."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mechanisms.analysis.hypothesis import HypothesisTest
from mechanisms.catalog import STATISTICS, calibrate, read_plan, written_plan
from mechanisms.contract import InvalidStatisticError
from mechanisms.derivations import Released, derive
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import estimate_error
from mechanisms.inference.bought import HOW_TO_ASK, NOT_FOR_SEVERAL, is_offered
from mechanisms.privacy import Adjacency, Epsilon, Protected
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.interquartile_range import InterquartileRange
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.std import Std
from mechanisms.statistics.variance import Variance
from mechanisms.testing import seeded_randomness
from studies import curves, intervals
from tests.mechanisms.offers import PROOFS
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
SHARE, EPSILON, ROWS = Fraction(1, 4), Epsilon.parse("2"), 400
COLUMNS: Any = {
    "x": NumberColumn(Fraction(0), Fraction(10)),
    "y": NumberColumn(Fraction(-20), Fraction(40)),
    "region": CategoryColumn(("north", "south")),
}
BOTH = ("x", "y")
ABOVE = Condition(column="x", op=">", value=2.0)
READ_OFF = [kind(columns=BOTH) for kind in (Mean, Variance, Std, Covariance, Correlation)]
read_off = pytest.mark.parametrize("asked", READ_OFF, ids=lambda asked: str(asked.kind))


def schema(adjacency: Adjacency, **facts: Any) -> Schema:
    return Schema(COLUMNS, adjacency, ROWS if adjacency is REPLACE else None, 2 * ROWS, **facts)


def data() -> ArrayData:
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 10, ROWS)
    values = {"x": list(x), "y": list(2 * x + rng.normal(0, 3, ROWS))}
    return ArrayData.from_values(schema(REPLACE), {**values, "region": ["north", "south"] * 200})


# The whole catalog

OF_EACH_KIND = {
    proof.statistic.kind: proof for proof in reversed(PROOFS) if proof.mechanism != "gaussian"
}


@in_one("kind", OF_EACH_KIND)
def test_every_kind_has_standard_errors_or_says_why_not(kind: str) -> None:
    proof = OF_EACH_KIND[kind]
    statistic, adjacency = proof.statistic, proof.adjacencies[0]
    facts, mechanism = proof.schema(adjacency, 40), proof.mechanism
    alone = calibrate(statistic, facts, EPSILON, mechanism=mechanism)
    why = alone.details.get("no_inference", "")
    if not is_offered(statistic, facts):
        assert why
        assert isinstance(statistic, Stack) or why == statistic.no_inference
        with pytest.raises(InvalidStatisticError) as refused:
            calibrate(statistic, facts, EPSILON, mechanism=mechanism, inference=SHARE)
        assert refused.value.field_name == "inference"
        assert str(why) in refused.value.detail
        return
    assert why == ("" if statistic.has_inference else HOW_TO_ASK)
    several = replace(proof.schema(ADD, 40), protects=Protected(rows=2))
    if isinstance(statistic, Quantile):  # whose intervals take the rows of a person to be alike
        assert calibrate(statistic, several, EPSILON, mechanism=mechanism, inference=SHARE)
        return
    with pytest.raises(InvalidStatisticError, match="independently"):
        calibrate(statistic, several, EPSILON, mechanism=mechanism, inference=SHARE)


def test_every_kind_of_the_catalog_is_walked() -> None:
    assert set(OF_EACH_KIND) == set(STATISTICS)


def test_of_several_rows_of_a_person_the_reason_is_that() -> None:
    facts = schema(ADD, protects=Protected(rows=3))
    assert calibrate(READ_OFF[0], facts, EPSILON).details["no_inference"] == NOT_FOR_SEVERAL


# Read off moments


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("rows", [{}, {"where": (ABOVE,)}, {"by": ("region",)}], ids=str)
@read_off
def test_the_answer_is_the_one_that_moments_give(
    asked: Any, rows: dict[str, Any], adjacency: Adjacency
) -> None:
    """As drawn by the plan of moments and derived from that, and with its guarantee."""
    facts, wanted = schema(adjacency), replace(asked, **rows)
    plan = calibrate(wanted, facts, EPSILON, inference=SHARE)
    source = Moments(columns=BOTH, **rows)
    other = calibrate(source, facts, EPSILON)
    assert plan.guarantee == other.guarantee
    assert plan.details["inference"]["cost"] == "0"  # type: ignore[index]
    assert "no_inference" not in plan.details
    found = plan.draw(data(), seeded_randomness(5)).settled()
    answer = other.draw(data(), seeded_randomness(5)).settled()
    released = Released(
        statistic=source, mechanism=other.mechanism, norm=other.norm, epsilon=EPSILON,
        value=answer.value, noise=answer.noise, details=other.details,
    )  # fmt: skip
    derived = derive(wanted, released, facts)
    assert numbers(found.value) == pytest.approx(numbers(derived.value), rel=1e-9)
    assert found.inference is not None
    assert derived.inference is not None
    # Made of another seed, since a stored release has rounded numbers: so about the same.
    for term, again in zip(found.inference.terms, derived.inference.terms, strict=True):
        assert (term.term, term.by, term.place) == (again.term, again.by, again.place)
        low, high = term.confidence_95
        assert low <= term.estimate <= high
        moved = np.subtract(term.confidence_95, again.confidence_95)
        assert np.abs(moved).max() <= 0.5 * (high - low)


@read_off
def test_its_plan_is_written_and_read(asked: Any) -> None:
    facts = schema(ADD)
    plan = calibrate(asked, facts, EPSILON, inference=SHARE)
    written = json.loads(json.dumps(written_plan(plan)))
    again = read_plan(written, asked, facts)
    assert again == plan
    one, other = (each.draw(data(), seeded_randomness(2)) for each in (plan, again))
    assert one.value == other.value


@read_off
def test_a_preview_states_the_noise_of_the_moments(asked: Any) -> None:
    """It is larger than that of the statistic alone, and the estimate says so, too."""
    facts = schema(REPLACE)
    plan = calibrate(asked, facts, EPSILON, inference=SHARE)
    alone = calibrate(asked, facts, EPSILON)
    shown, usual = (each.preview(None) for each in (plan, alone))
    assert shown is not None
    assert usual is not None
    for one, other in zip(numbers(shown.std), numbers(usual.std), strict=True):
        assert one >= other * (1 - 1e-9)
    expected = [
        numbers(
            estimate_error(
                asked, facts, EPSILON, mechanism="auto", norm="auto", assumptions=Assumptions(),
                inference=share,
            ).expected_error
        )
        for share in (SHARE, None)
    ]  # fmt: skip
    assert all(one >= 0.8 * other for one, other in zip(*expected, strict=True))
    if asked.kind == "mean":
        assert all(one > 1.2 * other for one, other in zip(*expected, strict=True))


def numbers(tree: Any) -> list[float]:
    if isinstance(tree, dict):
        return [each for part in tree.values() for each in numbers(part)]
    if isinstance(tree, list | tuple):
        return [each for part in tree for each in numbers(part)]
    return [float(tree)] if isinstance(tree, int | float) else []


def test_weights_have_none() -> None:
    with pytest.raises(InvalidStatisticError, match="with weights"):
        calibrate(Mean(columns=("x",), weights="y"), schema(REPLACE), EPSILON, inference=SHARE)


@given(
    st.lists(st.integers(-50, 50), min_size=2, max_size=8),
    st.lists(st.integers(-50, 50), min_size=2, max_size=8),
)
def test_the_bounds_of_sampling_errors_hold(one: list[int], other: list[int]) -> None:
    """The variance of squared deviations is at most v (A^2 - v); of products, see the module."""
    rows = min(len(one), len(other))
    scaled = [[Fraction(each, 50) for each in listed[:rows]] for listed in (one, other)]
    middles = [mean(each) for each in scaled]
    deviations = [
        [each - middle for each in listed] for listed, middle in zip(scaled, middles, strict=True)
    ]
    farthest = [(1 + abs(middle)) ** 2 for middle in middles]
    spreads = [mean([each * each for each in d]) for d in deviations]
    for d, spread, most in zip(deviations, spreads, farthest, strict=True):
        fourth = mean([each * each * each * each for each in d])
        assert fourth - spread * spread <= spread * (most - spread)
    products = mean([(a * b) * (a * b) for a, b in zip(*deviations, strict=True)])
    assert products <= min(farthest[0] * spreads[1], farthest[1] * spreads[0])


def mean(numbers: list[Fraction]) -> Fraction:
    return sum(numbers, Fraction(0)) / len(numbers)


# Read off quantiles, and answers that always have intervals


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_an_interquartile_range_has_the_intervals_of_its_quartiles(adjacency: Adjacency) -> None:
    asked = InterquartileRange(column="x")
    facts = schema(adjacency)
    plan = calibrate(asked, facts, EPSILON, inference=SHARE)
    quartiles = Quantile(column="x", levels=(0.25, 0.75))
    other = calibrate(quartiles, facts, EPSILON, inference=SHARE)
    assert plan.guarantee == other.guarantee
    found = plan.draw(data(), seeded_randomness(3))
    drawn = other.draw(data(), seeded_randomness(3))
    assert found.inference is not None
    assert drawn.inference is not None
    (term,) = found.inference.terms
    lower, upper = drawn.inference.terms
    assert term.estimate == found.value["x"] == pytest.approx(upper.estimate - lower.estimate)
    low, high = term.confidence_95
    assert 0 <= low <= term.estimate <= high
    assert upper.confidence_95[0] - lower.confidence_95[1] <= low
    assert high <= upper.confidence_95[1] - lower.confidence_95[0]
    assert found.inference.cost == drawn.inference.cost


def test_where_intervals_are_included_a_share_changes_nothing() -> None:
    asked = HypothesisTest(test="correlation", columns=BOTH)
    plans = [calibrate(asked, schema(ADD), EPSILON, inference=each) for each in (None, SHARE)]
    assert plans[0].parameters == plans[1].parameters


def test_parts_of_a_stack_have_theirs() -> None:
    both = Part(statistic=Mean(columns=("x",))), Part(statistic=Moments(columns=("y",)))
    asked = Stack(parts=both)
    plan = calibrate(asked, schema(ADD), EPSILON, inference=SHARE)
    facts: Any = plan.details["parts"]
    first, second = facts
    assert first["details"]["inference"]["cost"] == "0"
    assert "derived" in second["no_inference"]
    found = plan.draw(data(), seeded_randomness(1)).inference
    assert found is not None
    assert [term.place for term in found.terms] == [("parts", 0, "x")]


# Coverage, with a negative control


@pytest.mark.statistical
@pytest.mark.parametrize("setting", intervals.QUICK, ids=lambda each: each.statistic)
def test_intervals_hold_the_population(setting: intervals.Setting) -> None:
    """At least .93, to three standard errors of 60 data sets; far narrower ones do not."""
    found = intervals.measured(setting, replicates=60, seed=3)
    assert found.coverage >= 0.93 - 3 * np.sqrt(0.93 * 0.07 / 60)
    narrow = intervals.measured(setting, replicates=60, seed=3, narrowed=0.1)
    assert narrow.coverage < 0.75


@pytest.mark.statistical
def test_curves_hold_the_population() -> None:
    (setting,), (compared,) = curves.QUICK
    found = curves.measured(setting, replicates=40, seed=3)
    assert min(found.band, found.number) >= 0.93 - 3 * np.sqrt(0.93 * 0.07 / 40)
    assert curves.measured(setting, replicates=40, seed=3, narrowed=0.2).band < 0.5
    level = curves.rejected(compared, 1.0, replicates=40, seed=5).share
    assert level <= 0.055 + 3 * np.sqrt(0.055 * 0.945 / 40)
    found = curves.rejected(compared, 3.0, replicates=10, seed=5)
    assert found.share > 0.8
    assert found.plain > 8


def test_the_study_compares_with_the_usual_log_rank_test() -> None:
    values = curves.POPULATIONS["aging"](np.random.default_rng(3), 200, 1.4)
    days, events = np.asarray(values["amount"]), np.asarray(values["flag"]) == 1
    both = [
        stats.CensoredData.right_censored(days[own], ~events[own])
        for arm in "ab"
        for own in [np.asarray(values["arm"]) == arm]
    ]
    assert curves.without_noise(values) == pytest.approx(stats.logrank(*both).pvalue, rel=1e-6)
