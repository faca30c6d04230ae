"""The proof tools themselves: they pass what is right and catch what is wrong."""

from __future__ import annotations

import doctest
import importlib
import math
import pkgutil
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import mechanisms
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.privacy import Adjacency
from mechanisms.testing import (
    Law,
    audit_counts,
    audit_epsilon,
    check_draws,
    distance_threshold,
    draws_needed,
    draws_to_refuse,
    neighbours,
    record_replay,
    seeded_randomness,
)
from tests.tiers import in_one

NORMAL = Law.continuous(stats.norm.cdf)
SHIFTED = Law.continuous(lambda x: stats.norm.cdf(x - 0.3))
FARTHER = Law.continuous(lambda x: stats.norm.cdf(x - 1))
SCHEMA = Schema(
    {
        "x": NumberColumn(Fraction(0), Fraction(1)),
        "yes": NumberColumn(Fraction(0), Fraction(1), boolean=True),
        "group": CategoryColumn(("a", "b", "c")),
    },
    Adjacency.REPLACE_ONE,
    4,
)


def normals(count: int, *, seed: int = 1, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1, count)


def test_distance_agrees_with_scipy_on_a_continuous_law() -> None:
    draws = normals(500)
    assert NORMAL.distance(draws) == pytest.approx(stats.kstest(draws, "norm").statistic)


def test_distance_counts_atoms_once() -> None:
    coin = Law.discrete([0, 1], [1, 1])
    assert coin.distance([0, 1] * 50) == 0
    assert coin.distance([0] * 10) == pytest.approx(0.5)
    assert coin.distance([1] * 10) == pytest.approx(0.5)
    assert Law.discrete([2, 0, 1], [1, 2, 1]).at(np.array([0.5])) == pytest.approx(0.5)


def test_distance_sees_atoms_that_were_never_drawn() -> None:
    """Half of the mass sits at 1, between the drawn 0 and 2."""
    law = Law.discrete([0, 1, 2], [1, 2, 1])
    assert law.distance([0, 2] * 50) == pytest.approx(0.25)


@pytest.mark.statistical
def test_right_draws_pass_and_wrong_draws_fail() -> None:
    points = np.linspace(-4, 4, 801)
    needed = draws_to_refuse([SHIFTED, FARTHER], NORMAL, points)  # the nearest decides
    assert needed == draws_needed(NORMAL.gap(SHIFTED, points)) * 21 // 20 + 1
    check_draws(normals(needed), NORMAL, twins=[SHIFTED])
    with pytest.raises(AssertionError, match="from the stated law"):
        check_draws(normals(needed, shift=0.3), NORMAL)


def test_too_few_draws_to_tell_a_twin_are_an_error() -> None:
    with pytest.raises(ValueError, match="take"):
        check_draws(normals(200), NORMAL, twins=[SHIFTED])


def test_a_twin_equal_to_the_law_is_an_error() -> None:
    with pytest.raises(ValueError, match="inf"):
        check_draws(normals(200), NORMAL, twins=[NORMAL])


def test_thresholds_invert_each_other() -> None:
    threshold = distance_threshold(5000)
    assert 2 * math.exp(-2 * 5000 * threshold**2) == pytest.approx(1e-9)
    assert draws_needed(2 * threshold) == pytest.approx(5000, abs=1)


def laplace(center: int, epsilon: Fraction, seed: int, count: int = 20_000) -> list[int]:
    randomness = seeded_randomness(seed)
    return [center + randomness.discrete_laplace(epsilon) for _ in range(count)]


EVENTS = {"at most 0": lambda v: v <= 0, "at least 1": lambda v: v >= 1}


@pytest.mark.statistical
def test_the_audit_is_tight_and_honest() -> None:
    """Sensitivity 1 at epsilon 1: bounded by 1, and nearly reached."""
    audit = audit_epsilon(laplace(0, Fraction(1), 1), laplace(1, Fraction(1), 2), EVENTS)
    assert 0.9 < audit.epsilon <= 1
    assert audit.event in EVENTS


@pytest.mark.statistical
def test_the_audit_flags_half_the_noise() -> None:
    audit = audit_epsilon(laplace(0, Fraction(2), 1), laplace(1, Fraction(2), 2), EVENTS)
    assert audit.epsilon > 1.5


def test_equal_laws_audit_to_zero() -> None:
    audit = audit_counts({"a": (500, 500), "b": (0, 0), "c": (1000, 1000)}, trials=(1000, 1000))
    assert audit.epsilon == 0
    assert audit.event == ""


def test_audit_bounds_are_clopper_pearson_with_bonferroni() -> None:
    audit = audit_counts({"a": (900, 50), "b": (1, 1)}, trials=(1000, 2000), confidence=0.99)
    level = 0.01 / 8
    low = stats.beta.ppf(level, 900, 101)
    high = stats.beta.isf(level, 51, 1950)
    assert audit.epsilon == pytest.approx(math.log(low / high))
    assert audit.counts == (900, 50)


def test_the_replay_finds_the_exact_sensitivity() -> None:
    replay = record_replay(
        lambda data: [int(data.codes["yes"].sum()) // 2**21, data.rows],
        schema=SCHEMA,
        norm=lambda change: sum(map(abs, change), Fraction(0)),
    )
    assert replay.largest == 1
    first, second = replay.neighbours
    assert (first.codes["yes"] != second.codes["yes"]).sum() == 1


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_neighbours_differ_in_one_record(adjacency: Adjacency) -> None:
    schema = Schema(SCHEMA.columns, adjacency, None, 10)
    sizes = set()
    for first, second in neighbours(schema, rows=3, trials=40, seed=2):
        rows = [
            list(zip(*(data.codes[name].tolist() for name in schema.columns), strict=True))
            for data in (first, second)
        ]
        sizes.add(tuple(map(len, rows)))
        if adjacency is Adjacency.REPLACE_ONE:
            assert sum(a != b for a, b in zip(*rows, strict=True)) <= 1
        else:
            larger, smaller = sorted(rows, key=len, reverse=True)
            assert any(larger[:i] + larger[i + 1 :] == smaller for i in range(len(larger)))
    assert sizes == ({(3, 3)} if adjacency is Adjacency.REPLACE_ONE else {(3, 2), (2, 3)})


def test_a_replay_without_trials_is_an_error() -> None:
    with pytest.raises(ValueError, match="trial"):
        record_replay(lambda _: [0], schema=SCHEMA, norm=max, trials=0)


MODULES = sorted(
    info.name for info in pkgutil.walk_packages(mechanisms.__path__, prefix="mechanisms.")
)


@in_one("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
