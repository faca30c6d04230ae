"""Several quantiles in one draw: the score's sensitivity, the exact law, and its twins."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms import kng
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CODE_MAX
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import Randomness, system_randomness
from mechanisms.samplers import joint_quantiles
from mechanisms.samplers.geometric import FineGrid
from mechanisms.samplers.intervals import GridCodes
from mechanisms.samplers.joint_quantiles import JointLaw, Tables, joint_points
from mechanisms.sketches import distinct
from mechanisms.statistics.quantile import Quantile, joint_sensitivity
from mechanisms.statistics.ranks.draw import bridge_errors, joint_rank_errors, split_rank_errors
from mechanisms.testing import Law, audit_epsilon, check_draws, record_replay, seeded_randomness
from tests.mechanisms.test_quantile import (
    ADD,
    REPLACE,
    _adjacent,
    data_of,
    grid_of,
    schema_for,
)
from tests.tiers import in_one

LEVELS = (Fraction(1, 4), Fraction(1, 2), Fraction(9, 10))
CODES = [1, 2, 4, 5]
HIGH = 6


def score(codes: Sequence[int], levels: Sequence[Fraction], points: Sequence[int]) -> Fraction:
    """Return s(t) from its definition, one record at a time."""
    edges = [0, *(sum(code <= t for code in codes) for t in points), len(codes)]
    shares = [Fraction(0), *levels, Fraction(1)]
    return sum(
        (
            abs(edges[j + 1] - edges[j] - len(codes) * (shares[j + 1] - shares[j]))
            for j in range(len(levels) + 1)
        ),
        Fraction(0),
    )


def law_of(
    codes: Sequence[int], levels: Sequence[Fraction], rate: Fraction, high: int
) -> dict[tuple[int, ...], float]:
    """Return the joint law of sorted points on [0, high], records not spread."""
    weights: Counter[tuple[int, ...]] = Counter()
    for points in itertools.product(range(high + 1), repeat=len(levels)):
        ordered = tuple(sorted(points))
        weights[ordered] += math.exp(-float(rate * score(codes, levels, ordered)))
    total = math.fsum(weights.values())
    return {points: weight / total for points, weight in weights.items()}


def sets_of_codes(high: int, most: int) -> Iterator[tuple[int, ...]]:
    for rows in range(most + 1):
        yield from itertools.combinations_with_replacement(range(high + 1), rows)


# 1. Sensitivity and closed form -------------------------------------------------------------


@pytest.mark.parametrize(
    "levels", [LEVELS, (Fraction(1, 2),), (Fraction(1, 10), Fraction(1, 5)), (Fraction(19, 20),)]
)
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_the_score_moves_by_exactly_delta(
    levels: tuple[Fraction, ...], adjacency: Adjacency
) -> None:
    """All neighbours and all points of a small grid."""
    wanted = joint_sensitivity(levels, adjacency)
    smallest = min(b - a for a, b in itertools.pairwise((0, *levels, 1)))
    assert wanted == (2 if adjacency is REPLACE else 2 * (1 - smallest))
    codes = [0, CODE_MAX // 4, CODE_MAX]
    grid = [-CODE_MAX, -1, 0, CODE_MAX // 3, CODE_MAX - 1, CODE_MAX]
    tuples = list(itertools.combinations_with_replacement(grid, len(levels)))
    replay = record_replay(
        lambda data: [score([*codes, *data.codes["x"].tolist()], levels, t) for t in tuples],
        schema=schema_for(adjacency, 12),
        norm=lambda change: max(abs(c) for c in change),
        rows=12,
        trials=200,
    )
    assert replay.largest <= wanted
    assert replay.largest == wanted or float(replay.largest) > 0.75 * float(wanted)
    best = max(
        abs(score(first, levels, t) - score(second, levels, t))
        for first, second in _worst_pairs(adjacency)
        for t in itertools.combinations_with_replacement((-1, 0, 4, 5, 8, 9), len(levels))
    )
    assert best == wanted


def _worst_pairs(adjacency: Adjacency) -> list[tuple[list[int], list[int]]]:
    """Return neighbours whose counts lie on the right side of n g for the bound to be reached."""
    spots = (0, 3, 5, 7, 9)
    bulk = [[5] * 40, [0] * 20 + [9] * 20, [0] * 40, [9] * 40]
    if adjacency is ADD:
        return [(codes, [*codes, x]) for codes in bulk for x in spots]
    return [([*codes, x], [*codes, y]) for codes in bulk for x in spots for y in spots]


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_no_pair_of_neighbours_exceeds_epsilon(adjacency: Adjacency) -> None:
    levels, epsilon = (Fraction(1, 4), Fraction(9, 10)), 2.0
    rate = Fraction(2) / (2 * joint_sensitivity(levels, adjacency))
    worst = {}
    for factor in (1, 3):
        laws = {codes: law_of(codes, levels, factor * rate, 4) for codes in sets_of_codes(4, 4)}
        worst[factor] = max(
            abs(math.log(laws[first][t] / laws[second][t]))
            for first, second in itertools.combinations(laws, 2)
            if _adjacent(first, second, adjacency)
            for t in laws[first]
        )
    assert 0.5 * epsilon < worst[1] <= epsilon + 1e-9
    assert worst[3] > epsilon  # the twin at three times the rate is caught


# 2. The sampler -----------------------------------------------------------------------------


def tables_for(codes: Sequence[int], levels: Sequence[Fraction], rate: Fraction) -> Tables:
    fine = FineGrid(grid_of(codes, 0, HIGH), seeded_randomness(1), bits=0)
    return Tables.build(fine, JointLaw(levels=tuple(levels), rate=rate))


@settings(max_examples=25)
@given(
    codes=st.sets(st.integers(0, HIGH), min_size=1, max_size=5),
    levels=st.sets(st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50), min_size=1),
    rate=st.fractions(Fraction(1, 1000), 3000),
)
def test_every_path_is_proposed_at_its_odds_and_kept_with_a_probability(
    codes: set[int], levels: set[Fraction], rate: Fraction
) -> None:
    """The exact odds sum to 1; w / (Z Q') never exceeds 1 and is 1 but for rounding inside."""
    ordered = sorted(levels)[:3]
    tables = tables_for(sorted(codes), ordered, rate)
    law, ranks = tables.law, range(len(codes) + 1)
    total = Fraction(0)
    for tuple_ in itertools.combinations_with_replacement(ranks, len(ordered)):
        path = tables.path(tuple_)
        if path is not None:
            total += tables.odds(path)
        if path is None and 0 in tuple_ and 0 in codes:
            continue  # rank 0 has no points when a record lies at the lower end
        odds = tables.relative_odds(path)
        kept = -float(rate * law.score(tuple_, len(codes))) - tables.log_total
        kept -= math.log(odds.numerator) - math.log(odds.denominator)
        assert kept <= 0
        if path is not None and float(rate * law.score(tuple_, len(codes))) < 10:
            assert kept > -1e-2
    assert total == 1


def draws_of(
    codes: Sequence[int], rate: Fraction, count: int, *, seed: int, bits: int = 0
) -> list[tuple[int, ...]]:
    randomness, grid = seeded_randomness(seed), grid_of(codes, 0, HIGH)
    return [
        tuple(joint_points(grid, levels=LEVELS, rate=rate, randomness=randomness, bits=bits))
        for _ in range(count)
    ]


def ranked(law: dict[tuple[int, ...], float], order: Sequence[tuple[int, ...]]) -> Law:
    return Law.discrete(list(range(len(order))), [law[points] for points in order])


@pytest.mark.wide
@pytest.mark.statistical
def test_draws_follow_the_joint_law_and_no_other() -> None:
    """Tuples are numbered by likelihood under the law, so that scale twins lie far away."""
    rate = Fraction(1)
    laws = {k: law_of(CODES, LEVELS, rate * k / 10, HIGH) for k in (7, 10, 13)}
    order = sorted(laws[10], key=lambda points: -laws[10][points])
    place = {points: index for index, points in enumerate(order)}
    draws = [place[points] for points in draws_of(CODES, rate, 3000, seed=2)]
    check_draws(draws, ranked(laws[10], order), twins=[ranked(laws[k], order) for k in (7, 13)])


def spread_law(codes: Sequence[int], rate: Fraction, high: int) -> dict[tuple[int, ...], float]:
    """Return the law of codes when each has two fine points and its records take distinct ones."""
    ways = [
        itertools.combinations((2 * code, 2 * code + 1), count)
        for code, count in Counter(codes).items()
    ]
    mixture: Counter[tuple[int, ...]] = Counter()
    placements = list(itertools.product(*ways))
    for placement in placements:
        points = sorted(itertools.chain.from_iterable(placement))
        for drawn, probability in law_of(points, LEVELS, rate, 2 * high + 1).items():
            mixture[tuple(point // 2 for point in drawn)] += probability / len(placements)
    return dict(mixture)


@pytest.mark.wide
@pytest.mark.statistical
def test_ties_are_spread_over_distinct_fine_points() -> None:
    codes, rate = [1, 1, 3], Fraction(2)
    law = spread_law(codes, rate, 3)
    order = sorted(law, key=lambda points: -law[points])
    place = {points: index for index, points in enumerate(order)}
    randomness, grid = seeded_randomness(4), grid_of(codes, 0, 3)
    draws = [
        tuple(joint_points(grid, levels=LEVELS, rate=rate, randomness=randomness, bits=1))
        for _ in range(2500)
    ]
    unspread = law_of(codes, LEVELS, rate, 3)
    check_draws(
        [place[points] for points in draws], ranked(law, order), twins=[ranked(unspread, order)]
    )


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_spreading_ties_costs_no_epsilon(adjacency: Adjacency) -> None:
    rate = Fraction(2) / (2 * joint_sensitivity(LEVELS, adjacency))
    laws = {
        codes: spread_law(codes, rate, 2)
        for codes in sets_of_codes(2, 3)
        if max(Counter(codes).values(), default=0) <= 2
    }
    for first, second in itertools.combinations(laws, 2):
        if _adjacent(first, second, adjacency):
            assert all(
                abs(math.log(laws[first][t] / laws[second][t])) <= 2 + 1e-9 for t in laws[first]
            )


@pytest.mark.wide
@pytest.mark.statistical
def test_narrow_windows_and_uniform_tries_leave_the_law_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of the tries are uniform here, and windows hold a few of forty ranks only."""
    monkeypatch.setattr(joint_quantiles, "_UNIFORM_SHARE_BITS", 1)
    codes, levels, rate = list(range(0, 80, 2)), (Fraction(1, 4), Fraction(3, 5)), Fraction(2)
    grid, randomness = grid_of(codes, 0, 80), seeded_randomness(6)
    fine = FineGrid(grid, randomness, bits=0)
    windows = Tables.build(fine, JointLaw(levels=levels, rate=rate)).windows
    assert all(last - first < 14 for first, last in windows)
    laws = {k: law_of(codes, levels, rate * k / 10, 80) for k in (4, 10)}
    order = sorted(laws[10], key=lambda points: -laws[10][points])
    place = {points: index for index, points in enumerate(order)}
    draws = [
        place[tuple(joint_points(grid, levels=levels, rate=rate, randomness=randomness, bits=0))]
        for _ in range(1500)
    ]
    check_draws(draws, ranked(laws[10], order), twins=[ranked(laws[4], order)])


def test_spread_records_are_distinct_and_stay_where_they_are() -> None:
    grid = GridCodes.count(np.array([-3, 5], dtype=np.int32), np.array([7, 8]), low=-4, high=6)
    fine = FineGrid(grid, seeded_randomness(3), bits=3)
    partial = fine.steps([(1, 3)])
    full = fine.all_steps()
    assert full.ranks.tolist() == list(range(16))
    assert set(partial.starts.tolist()) <= set(full.starts.tolist())
    assert full.lengths.sum() == fine.span
    assert [fine.code(start) for start in full.starts[1:].tolist()] == [-3] * 7 + [5] * 8
    assert full.rank_of(fine.high) == 15
    assert full.rank_of(fine.low) == 0


# 3. Black box -------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_the_audit_passes_ours_and_flags_a_rate_six_times_too_large(
    adjacency: Adjacency,
) -> None:
    levels = LEVELS[:2]
    pair = ([0, 3, 6, 1], [0, 3, 6, 12]) if adjacency is REPLACE else ([5, 8, 9], [2, 5, 8, 9])
    events = {
        f"{low}, {high}": lambda t, low=low, high=high: t[0] > low and t[1] <= high
        for low, high in ((-1, 2), (2, 12), (5, 12))
    }

    def audited(factor: int) -> float:
        randomness = seeded_randomness(9)
        rate = factor / (2 * joint_sensitivity(levels, adjacency))
        draws = [
            [
                joint_points(grid, levels=levels, rate=rate, randomness=randomness)
                for _ in range(600)
            ]
            for grid in (grid_of(codes, 0, 12 if adjacency is REPLACE else 10) for codes in pair)
        ]
        return audit_epsilon(draws[0], draws[1], events).epsilon

    assert audited(1) <= 1.0
    assert audited(6) > 1.2


# 4. Plans, references and edge cases --------------------------------------------------------


def release(
    values: Sequence[float],
    levels: tuple[float, ...],
    epsilon: str,
    adjacency: Adjacency = REPLACE,
    randomness: Randomness | None = None,
) -> list[float]:
    schema = replace(schema_for(adjacency, len(values)), max_rows=1000)
    question = Quantile(column="x", levels=levels)
    plan = kng.calibrate(question, schema, Epsilon.parse(epsilon), "l1")
    outcome = plan.draw(data_of(schema, values), randomness or system_randomness())
    return [entry["value"] for entry in outcome.value["quantiles"]]


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_large_epsilon_gives_the_quantiles_between_their_records(adjacency: Adjacency) -> None:
    values = np.random.default_rng(5).uniform(-1, 12, 301)
    ordered = np.sort(np.clip(values, 0, 10))
    levels = (0.9, 0.123, 0.5)
    released = release(values.tolist(), levels, "10000", adjacency)
    for level, value in zip(levels, released, strict=True):
        rank = math.floor(level * 301)
        assert ordered[rank - 2] - 1e-4 <= value <= ordered[rank + 2] + 1e-4


@in_one("epsilon", ["1e-9", "0.5", "10000"])
@in_one("values", [[], [3.0], [3.0] * 500, [-4.0] * 9, [40.0] * 9, [0.0, 10.0] * 50])
def test_degenerate_data_and_extreme_epsilons_work(values: list[float], epsilon: str) -> None:
    levels = (0.000000001, 0.25, 0.5, 0.999999999)
    released = release(values, levels, epsilon, ADD)
    assert released == sorted(released)
    assert all(0 <= x <= 10 for x in released)
    if len(values) >= 9 and epsilon == "10000":
        assert released[1] == pytest.approx(np.clip(min(values), 0, 10), abs=1e-5)


def test_constant_data_keep_all_their_quantiles() -> None:
    released = release([3.0] * 500, (0.1, 0.25, 0.5, 0.75, 0.9), "10")
    assert released == pytest.approx([3.0] * 5, abs=1e-5)


@pytest.mark.wide
def test_expected_rank_errors_are_those_of_the_ideal_law() -> None:
    """Against sums over integer deviations at a rate so small that they look continuous."""
    for count in (1, 2, 3):
        rate, reach = 0.2, range(-60, 61) if count < 3 else range(-40, 41)
        total, sums = 0.0, [0.0] * count
        for deviations in itertools.product(reach, repeat=count):
            path = (0, *deviations, 0)
            weight = math.exp(-rate * sum(abs(b - a) for a, b in itertools.pairwise(path)))
            total += weight
            for j, deviation in enumerate(deviations):
                sums[j] += weight * abs(deviation)
        ideal = bridge_errors(count)
        assert [rate * s / total for s in sums] == pytest.approx(ideal, rel=0.03)


@pytest.mark.wide
def test_a_hundred_levels_and_a_boolean_column_are_drawn() -> None:
    values = np.random.default_rng(1).uniform(0, 10, 2000)
    levels = tuple(round(k / 101, 9) for k in range(1, 101))
    released = release(values.tolist(), levels, "1")
    assert released == sorted(released)
    assert np.abs(np.array(released) - 10 * np.array(levels)).max() < 1
    schema = schema_for(ADD, 9)
    plan = kng.calibrate(
        Quantile(column="yes", levels=(0.05, 0.5)), schema, Epsilon.parse("200"), "auto"
    )
    assert plan.norm == "l1"
    answer = plan.draw(data_of(schema, [1.0] * 9, [1] * 8 + [0]), system_randomness()).value
    assert answer["quantiles"][1]["value"] == 1.0


def test_auto_is_joint_unless_the_public_rule_says_otherwise() -> None:
    several = Quantile(column="x", levels=(0.9, 0.1, 0.5))
    plan = kng.calibrate(several, schema_for(ADD, 3), Epsilon.parse("1"), "auto")
    assert (plan.norm, plan.guarantee.sensitivity) == ("l1", "1.8")
    assert plan.details["levels_drawn"] == "jointly"
    assert plan.draw.sampler.rate == Fraction(1) / (2 * Fraction(9, 5))
    assert "jointly" not in plan.alternatives[0].comparison
    plan = kng.calibrate(several, schema_for(REPLACE, 3), Epsilon.parse("1"), "linf")
    assert (plan.norm, plan.alternatives[0].norm) == ("linf", "l1")
    tiny = kng.calibrate(several, schema_for(ADD, 3), Epsilon.parse("1e-9"), "auto")
    assert (tiny.norm, tiny.alternatives) == ("linf", ())
    with pytest.raises(InvalidStatisticError, match="linf") as refusal:
        kng.calibrate(several, schema_for(ADD, 3), Epsilon.parse("1e-9"), "l1")
    assert refusal.value.field_name == "norm"
    close = Quantile(column="x", levels=(0.5, 0.51))  # there one by one is better
    assert kng.calibrate(close, schema_for(ADD, 3), Epsilon.parse("1"), "auto").norm == "linf"
    assert kng.calibrate(close, schema_for(REPLACE, 3), Epsilon.parse("1"), "auto").norm == "l1"
    alone = kng.calibrate(
        Quantile(column="x", levels=(0.5,)), schema_for(REPLACE, 3), Epsilon.parse("1"), "auto"
    )
    assert alone.norm == "linf"


@pytest.mark.wide
def test_joint_levels_are_more_accurate_as_stated() -> None:
    """Mean error in rank over 40 releases of nine deciles of 10,000 records."""
    generator, randomness = np.random.default_rng(2), seeded_randomness(5)
    codes = generator.integers(-CODE_MAX, CODE_MAX, 10_000).astype(np.int32)
    grid = GridCodes.count(*distinct(codes), low=-CODE_MAX, high=CODE_MAX)
    schema, ordered = schema_for(REPLACE, 10_000), np.sort(codes)
    question = Quantile(column="x", levels=tuple(k / 10 for k in range(1, 10)))
    error = {}
    for norm in ("linf", "l1"):
        plan = kng.calibrate(question, schema, Epsilon.parse("0.5"), norm)
        ranks = [
            np.searchsorted(ordered, sorted(plan.draw.sampler(grid, randomness)), side="right")
            for _ in range(40)
        ]
        error[norm] = np.abs(np.array(ranks) - 1000 * np.arange(1, 10)).mean()
    expected = {
        "linf": np.mean(split_rank_errors(question.exact_levels(), Fraction(1, 2), REPLACE)),
        "l1": np.mean(joint_rank_errors(question.exact_levels(), Fraction(1, 2), REPLACE)),
    }
    for norm, mean in error.items():
        assert 0.7 * expected[norm] < mean < 1.4 * expected[norm]
    assert expected["linf"] == pytest.approx(36)
    assert 3 < error["linf"] / error["l1"] < 6
