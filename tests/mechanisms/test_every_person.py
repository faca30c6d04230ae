"""Every offer for people of several rows: the catalog's cases, at epsilon / k for up to k rows.

What :mod:`mechanisms.people` reduces to is tried for each statistic x mechanism x norm of
:mod:`tests.mechanisms.offers` under add-remove, by generation: a draw is, bit for bit, that of the
plan at epsilon / k; and the worst pair of each entry, with all k rows of the person, loses at most
epsilon, where a plan that forgets k is caught.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement

import pytest

from mechanisms.catalog import STATISTICS, calibrate
from mechanisms.contract import Plan, require_valid
from mechanisms.domain import NumberColumn, Schema
from mechanisms.knorm import integer_noise, offered_norms
from mechanisms.privacy import (
    ONE_ROW,
    Epsilon,
    EpsilonShare,
    PrivacyLoss,
    Protected,
    bounded_range_rho,
    pure_rho,
)
from mechanisms.sketches import ArrayData
from mechanisms.statistics.additive import AdditiveForm, AdditiveStatistic
from mechanisms.statistics.count import Count
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance
from mechanisms.testing import audit_epsilon, seeded_randomness
from tests.mechanisms.forms import form_of
from tests.mechanisms.offers import ADD, REPLACE
from tests.mechanisms.test_every_offer import CASES, Case, events, without_intervals
from tests.mechanisms.test_every_selection import HERE, KINDS, TINY, asked, groups_of
from tests.mechanisms.test_knorm_privacy import loss

ROWS = 3
PEOPLE = Protected(ROWS, "one person, up to 3 rows")
EPSILON = Epsilon.parse("0.5")
ADDED = [
    case
    for case in CASES
    if case.adjacency is ADD and STATISTICS[case.proof.statistic.kind].most_rows_per_person > 1
]
every_case = pytest.mark.parametrize("case", ADDED, ids=str)
AUDITED = {(case.proof.statistic.kind, case.proof.mechanism): case for case in reversed(ADDED)}
"""One norm and design of each statistic by each mechanism: the others share its reduction."""


def plan_of(case: Case, epsilon: PrivacyLoss, protects: Protected, **fields: object) -> Plan:
    """The offer's plan for these people, asked with these fields."""
    statistic = asked(case.proof.statistic, **fields) if fields else case.proof.statistic
    schema = replace(case.proof.schema(ADD, 0), protects=protects)
    return calibrate(statistic, schema, epsilon, mechanism=case.proof.mechanism, norm=case.norm)


@every_case
def test_people_of_several_rows_are_planned_for_at_a_share_of_epsilon(case: Case) -> None:
    """The same bits give the same answer as the plan of one row at epsilon / k; so in groups."""
    share = EpsilonShare(EPSILON, Fraction(1, ROWS))
    data = case.proof.pair(ADD)[0]
    parts = {"where": (HERE,)}, {"by": groups_of(case.proof.statistic)}
    for fields in ({}, *parts) if case in AUDITED.values() else ({},):
        several = plan_of(case, EPSILON, PEOPLE, **fields)
        one = plan_of(case, share, ONE_ROW, **fields)
        drawn = [plan.draw(data, seeded_randomness(1)) for plan in (several, one)]
        values = [without_intervals(outcome.value) for outcome in drawn]
        if "by" in fields:  # a test that compares groups takes rows to be drawn independently
            for name in case.proof.compared:
                assert name not in values[0]
                del values[1][name]
        assert values[0] == values[1]
        assert drawn[0].noise == drawn[1].noise
        assert drawn[0].inference is None
        assert several.grid == one.grid
        said, own = several.guarantee, one.guarantee
        assert (said.epsilon, said.adjacency, said.exact) == (EPSILON, ADD, True)
        assert (said.sensitivity, said.definition) == (own.sensitivity, own.definition)
        assert (said.protects, own.protects) == (PEOPLE.words, "one row is one person")
        assert said.zcdp == ROWS**2 * own.zcdp
        assert said.zcdp <= pure_rho(EPSILON)
        assert several.details["epsilon_per_row"] == "1/6"
        assert several.details["rows_per_person"] == ROWS
        assert "up to 3 rows" in str(said.reduction)


@pytest.mark.parametrize("case", list(AUDITED.values()), ids=str)
@pytest.mark.statistical
@pytest.mark.usefixtures("draws_share")
def test_a_person_s_rows_together_lose_at_most_epsilon(case: Case) -> None:
    """Black box: the worst pair with k times the record that comes or goes.

    The twin is planned as if a row were a person, at the multiple of epsilon by which the entry's
    own twin is caught, or less where a sum moves k times as far.
    """
    proof = case.proof
    epsilon = Epsilon.parse(proof.epsilon)
    pair = proof.data([*proof.common, *[proof.changed[0]] * ROWS]), proof.data(proof.common)
    additive = isinstance(proof.statistic, AdditiveStatistic) and proof.caught_at <= 2 * ROWS
    forgotten = Epsilon(epsilon.nanos * (proof.caught_at // ROWS if additive else proof.caught_at))
    bounds, draws = [], proof.draws_under(ADD, case.norm)
    for spent, protects in ((epsilon, PEOPLE), (forgotten, ONE_ROW)):
        plan, drawn = plan_of(case, spent, protects), []
        for seed, data in enumerate(pair, start=1):
            randomness = seeded_randomness(seed)
            outcomes = [plan.draw(data, randomness).value for _ in range(draws)]
            drawn.append([proof.reading(value) for value in outcomes])
        bounds.append(audit_epsilon(*drawn, events(proof.cuts), pure=proof.is_pure).epsilon)
    assert bounds[0] <= epsilon.fraction
    assert bounds[1] > epsilon.fraction, "the pair shows nothing of k"


# Exact losses over every person of tiny data sets

SUMMED: list[AdditiveStatistic] = [
    Count(),
    Histogram(columns=("group",)),
    Sum(columns=("far",)),
    Sum(columns=("x", "far"), where=(HERE,)),
    Mean(columns=("x", "far")),
    Variance(columns=("x",)),
    Moments(columns=("x", "far")),
]


def people_come(form: AdditiveForm, rows: int) -> Iterator[list[int]]:
    """What changes where a person of at most so many rows comes to any data set."""
    nothing = form.total(_data([]))
    for size in range(1, rows + 1):
        for own in combinations_with_replacement(range(len(KINDS)), size):
            pair = zip(form.total(_data(own)), nothing, strict=True)
            yield [more - less for more, less in pair]


def _data(rows: tuple[int, ...] | list[int]) -> ArrayData:
    values = {name: [KINDS[row][name] for row in rows] for name in TINY}
    return ArrayData.from_values(Schema(TINY, REPLACE, len(rows)), values)


@pytest.mark.parametrize("statistic", SUMMED, ids=lambda each: f"{each.kind}")
def test_every_person_of_at_most_k_rows_loses_at_most_epsilon(
    statistic: AdditiveStatistic,
) -> None:
    """In exact integers, for every norm; at the whole epsilon a person loses k times as much."""
    form = form_of(statistic, Schema(TINY, ADD, None, 10))
    moves = list(people_come(form, ROWS))
    for norm in offered_norms(form.space):
        shared = integer_noise(form.space, norm, Fraction(1, ROWS))
        assert max(loss(shared, move) for move in moves) <= 1
        if norm not in form.space.bounds_only:
            assert max(loss(shared, move) for move in moves) > Fraction(9, 10)
            forgotten = integer_noise(form.space, norm, Fraction(1))
            assert max(loss(forgotten, move) for move in moves) > Fraction(9 * ROWS, 10)


def test_zcdp_of_people_is_that_of_pure_and_of_bounded_range() -> None:
    """k steps of epsilon / k are one of epsilon, and of range epsilon / k one of that range."""
    share = EpsilonShare(EPSILON, Fraction(1, ROWS))
    assert ROWS**2 * pure_rho(share) == pure_rho(EPSILON)
    assert ROWS**2 * bounded_range_rho(share) == bounded_range_rho(EPSILON)
    schema = Schema(TINY, ADD, None, 10, protects=PEOPLE)
    ranged = calibrate(Quantile(column="x", levels=(0.5,)), schema, EPSILON)
    assert ranged.guarantee.zcdp == bounded_range_rho(EPSILON)
    summed = calibrate(Sum(columns=("x",)), schema, EPSILON)
    assert summed.guarantee.zcdp == pure_rho(EPSILON)


def test_a_regression_is_chosen_for_people_as_for_rows_at_their_share_of_epsilon() -> None:
    """By itself and in a stack."""
    fit = LinearRegression(target="far", features=("x",), bound=2)
    schema = Schema(TINY, ADD, None, 500, protects=PEOPLE)
    rows = replace(schema, protects=ONE_ROW)
    own = calibrate(fit, rows, EpsilonShare(EPSILON, Fraction(1, ROWS)))
    alone = calibrate(fit, schema, EPSILON)
    assert alone.mechanism == own.mechanism == "objective_perturbation"
    assert alone.details["threshold"] == own.details["threshold"]
    stack = Stack(parts=(Part(statistic=fit), Part(statistic=fit)))
    half = calibrate(fit, rows, EpsilonShare(EPSILON, Fraction(1, 2 * ROWS)))
    parts = calibrate(stack, schema, EPSILON).details["parts"]
    assert [part["mechanism"] for part in parts] == [half.mechanism] * 2  # type: ignore[attr-defined]


def test_what_is_planned_for_rows_is_never_taken_for_people() -> None:
    """A mechanism by itself knows people of one row; a public row count knows no others."""
    several = Schema({"x": NumberColumn(Fraction(0), Fraction(1))}, ADD, None, 5, protects=PEOPLE)
    with pytest.raises(ValueError, match="people of one row"):
        require_valid(Sum(columns=("x",)), several, "k_norm", "l1")
    public = replace(several, adjacency=REPLACE, rows=5)
    with pytest.raises(ValueError, match="add-remove only"):
        calibrate(Sum(columns=("x",)), public, EPSILON)
    with pytest.raises(ValueError, match="at least one row"):
        Protected(0, "nobody")
