"""Quantiles by permute-and-flip: its law, its privacy, its exact sampler, and its twins."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, arb_poly, fmpq
from hypothesis import given
from hypothesis import strategies as st

from mechanisms import exponential
from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CODE_MAX
from mechanisms.exact.floats import working_precision
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.samplers.intervals import GridCodes, permute_and_flip_point
from mechanisms.statistics.count import Count
from mechanisms.statistics.quantile import Quantile, gradient_sensitivity
from mechanisms.testing import Law, audit_epsilon, check_draws, draws_to_refuse, seeded_randomness
from tests.mechanisms.test_quantile import (
    ADD,
    COLUMN,
    NEIGHBOURS,
    REPLACE,
    _adjacent,
    _tail_events,
    by_score,
    data_of,
    grid_of,
    schema_for,
    score,
)
from tests.tiers import in_one

CODES = [1, 1, 2, 5, 6, 6, 9]
HIGH = 10


def flip_law(heads: Sequence[Fraction]) -> list[Fraction]:
    """Return P(t) = p_t integral_0^1 prod_{r != t} (1 - p_r u) du, exactly."""
    law = []
    for place, own in enumerate(heads):
        product = [Fraction(1)]
        for other in [*heads[:place], *heads[place + 1 :]]:
            shifted = [Fraction(0), *product]
            product = [a - other * b for a, b in zip([*product, Fraction(0)], shifted, strict=True)]
        law.append(own * sum(c / (k + 1) for k, c in enumerate(product)))
    return law


def ball_law(codes: Sequence[int], level: Fraction, rate: Fraction, high: int) -> list[arb]:
    """Return the law of permute-and-flip on [0, high] in ball arithmetic."""
    exponents = [rate * score(codes, level, t) for t in range(high + 1)]
    heads = [(-arb(fmpq(e.numerator, e.denominator))).exp() for e in exponents]
    law = []
    for place, own in enumerate(heads):
        product = arb_poly([1])
        for other in [*heads[:place], *heads[place + 1 :]]:
            product *= arb_poly([1, -other])
        law.append(own * product.integral()(arb(1)))
    return law


LIKELY = by_score(CODES, Fraction(1, 2), HIGH)


def float_law(rate: Fraction) -> Law:
    """Return the law of a point's place in their order by score."""
    with working_precision(256):
        weights = [float(p) for p in ball_law(CODES, Fraction(1, 2), rate, HIGH)]
    return Law.discrete(range(HIGH + 1), [weights[point] for point in LIKELY])


# 1. Closed form -----------------------------------------------------------------------------


def test_the_law_is_that_of_the_algorithm_as_published() -> None:
    """All orders and all coins of four candidates, in rationals."""
    heads = [Fraction(1), Fraction(2, 3), Fraction(1, 5), Fraction(2, 3)]
    law = [Fraction(0)] * 4
    for order in itertools.permutations(range(4)):
        open_weight = Fraction(1, 24)
        for candidate in order:
            law[candidate] += open_weight * heads[candidate]
            open_weight *= 1 - heads[candidate]
        assert open_weight == 0
    assert law == flip_law(heads)


@pytest.mark.wide
@given(st.lists(st.fractions(0, 1, max_denominator=20), min_size=1, max_size=6))
def test_it_is_never_worse_than_the_exponential_mechanism(others: list[Fraction]) -> None:
    """A loss -log p is compared through any monotone scale; here 1 - p, and the best's odds."""
    heads = [Fraction(1), *others]
    law, total = flip_law(heads), sum(heads)
    assert sum(law) == 1
    soft = [p / total for p in heads]
    assert law[0] >= soft[0]
    worse = [sum(q * (1 - p) for q, p in zip(x, heads, strict=True)) for x in (law, soft)]
    assert worse[0] <= worse[1]


@pytest.mark.parametrize("level", [Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_no_pair_of_neighbours_exceeds_epsilon(level: Fraction, adjacency: Adjacency) -> None:
    assert 0.9 < worst_ratio(level, adjacency, 1) <= 2.0
    assert worst_ratio(level, adjacency, 3) > 2.0  # a twin at three times the rate is caught


def worst_ratio(level: Fraction, adjacency: Adjacency, factor: int) -> float:
    """Return the largest log ratio at epsilon = 2 when the rate is ``factor`` times ours."""
    rate = factor * Fraction(2) / (2 * gradient_sensitivity(level, adjacency))
    with working_precision(128):
        laws = {
            codes: ball_law(codes, level, rate, 4)
            for n in range(4)
            for codes in itertools.combinations_with_replacement(range(5), n)
        }
        return max(
            float((a / b).log().upper())
            for first, second in itertools.product(laws, laws)
            if _adjacent(first, second, adjacency)
            for a, b in zip(laws[first], laws[second], strict=True)
        )


# 2. Distribution ----------------------------------------------------------------------------


def flips(rate: Fraction, count: int, seed: int) -> list[int]:
    grid, randomness = grid_of(CODES, 0, HIGH), seeded_randomness(seed)
    return [
        permute_and_flip_point(grid, level=Fraction(1, 2), rate=rate, randomness=randomness)
        for _ in range(count)
    ]


@pytest.mark.wide
@pytest.mark.statistical
def test_draws_follow_the_law_and_no_other() -> None:
    rate = Fraction(3, 2)
    law, twins = float_law(rate), [float_law(rate * k / 10) for k in (7, 13)]
    draws = flips(rate, draws_to_refuse(twins, law, range(HIGH + 1)), seed=5)
    check_draws([LIKELY.index(point) for point in draws], law, twins=twins)


@pytest.mark.wide
@pytest.mark.statistical
def test_the_exponential_mechanism_itself_is_refused() -> None:
    """The clocks matter: without step 3 the sampler would draw this law instead."""
    rate = Fraction(3)
    soft = [np.exp(-float(rate * score(CODES, Fraction(1, 2), t))) for t in LIKELY]
    law, twin = float_law(rate), Law.discrete(range(HIGH + 1), soft)
    draws = flips(rate, draws_to_refuse([twin], law, range(HIGH + 1)), seed=6)
    check_draws([LIKELY.index(point) for point in draws], law, twins=[twin])


@pytest.mark.wide
def test_a_draw_costs_little_more_than_one_of_the_exponential_mechanism(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mechanisms.samplers import intervals

    calls, inner = [], intervals.draw_scored_place
    monkeypatch.setattr(
        intervals,
        "draw_scored_place",
        lambda *given, **named: calls.append(1) or inner(*given, **named),
    )
    for rate in (Fraction(1, 1000), Fraction(1), Fraction(3)):
        calls.clear()
        flips(rate, 1000, seed=8)
        assert len(calls) < 1450


# 3. Black box -------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_the_audit_passes_ours_and_flags_the_printed_sensitivity(adjacency: Adjacency) -> None:
    level = Fraction(9, 10)

    def audited(delta: Fraction) -> float:
        randomness = seeded_randomness(11)
        pair = [
            [
                permute_and_flip_point(
                    grid_of(codes, 0, 40), level=level, rate=1 / (2 * delta), randomness=randomness
                )
                for _ in range(4000)
            ]
            for codes in NEIGHBOURS[adjacency]
        ]
        return audit_epsilon(pair[0], pair[1], _tail_events()).epsilon

    assert audited(gradient_sensitivity(level, adjacency)) <= 1.0
    assert audited(2 * (1 - level)) > 1.2


# 4. Reference and edge cases ----------------------------------------------------------------


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_large_epsilon_gives_numpy_quantiles(adjacency: Adjacency) -> None:
    values = np.random.default_rng(5).uniform(-1, 12, 301)
    levels, schema = (0.9, 0.123, 0.5), schema_for(adjacency, 301)
    plan = calibrate(
        Quantile(column="x", levels=levels), schema, Epsilon.parse("10000"), mechanism="exponential"
    )
    answer = plan.draw(data_of(schema, values.tolist()), system_randomness()).value["quantiles"]
    expected = np.quantile(np.clip(values, 0, 10), levels, method="inverted_cdf")
    assert [entry["value"] for entry in answer] == pytest.approx(expected, abs=float(COLUMN.step))


@in_one("epsilon", ["1e-9", "0.5", "10000"])
@in_one("values", [[], [3.0], [3.0] * 500, [40.0] * 9, [0.0, 10.0] * 50])
def test_degenerate_data_and_extreme_epsilons_work(values: list[float], epsilon: str) -> None:
    schema = schema_for(ADD, len(values))
    plan = exponential.calibrate(
        Quantile(column="x", levels=(0.25, 0.5, 0.999)), schema, Epsilon.parse(epsilon), "auto"
    )
    answer = plan.draw(data_of(schema, values), system_randomness()).value["quantiles"]
    released = [entry["value"] for entry in answer]
    assert released == sorted(released)
    assert all(0 <= x <= 10 for x in released)
    if values and epsilon == "10000":
        assert released[0] == pytest.approx(np.clip(min(values), 0, 10), abs=1e-5)


def test_every_distinct_code_at_once_stays_cheap() -> None:
    codes = np.arange(-CODE_MAX, CODE_MAX + 1, dtype=np.int32)
    grid = GridCodes.count(codes, np.ones(len(codes), dtype=np.int64), low=-CODE_MAX, high=CODE_MAX)
    for epsilon in (Fraction(1, 10**9), Fraction(1), Fraction(10**4)):
        point = permute_and_flip_point(
            grid, level=Fraction(1, 2), rate=epsilon / 2, randomness=seeded_randomness(1)
        )
        assert -CODE_MAX <= point <= CODE_MAX


def test_the_plan_states_what_is_public() -> None:
    plan = exponential.calibrate(
        Quantile(column="yes", levels=(0.9, 0.5)), schema_for(ADD, 3), Epsilon.parse("1"), "auto"
    )
    assert (plan.mechanism, plan.norm, plan.grid) == ("exponential", None, {"yes": 1.0})
    assert plan.guarantee.sensitivity == "0.9"
    assert plan.details["epsilon_per_level"] == "1/2"
    assert plan.draw.sampler.rates == (Fraction(5, 18), Fraction(1, 2))
    assert plan.preview(10) is None


def test_norms_and_foreign_statistics_are_refused() -> None:
    schema, one = schema_for(REPLACE, 3), Epsilon.parse("1")
    with pytest.raises(InvalidStatisticError, match="no norm"):
        exponential.calibrate(Quantile(column="x", levels=(0.5,)), schema, one, "linf")
    with pytest.raises(InvalidStatisticError, match="no norm"):
        calibrate(
            Quantile(column="x", levels=(0.5,)), schema, one, mechanism="exponential", norm="l1"
        )
    with pytest.raises(InvalidStatisticError, match="exponential draws only"):
        exponential.calibrate(Count(), schema, one, "auto")
