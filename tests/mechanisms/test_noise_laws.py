"""Combinations of noise coordinates: the stated 95% against simulated laws, free of data."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import sqrt

import numpy as np
import pytest

from mechanisms.geometry.cuts import combination_factor
from mechanisms.geometry.laws import noise_law, simulate
from mechanisms.geometry.smooth import BALLS, Ball
from mechanisms.statistics.additive import Leaf, describe_noise, root_std
from tests.tiers import in_one

COUNT = 60_000
RATE = 1e-6  # of a lattice as fine as a continuum
SLOPES = [(1.0,), (1.0, 1.0), (1.0, 0.5, 0.5), (1.0, 0.1, 0.1, 0.1), (9.0, -3.0, 1.0), (1.0,) * 5]


@pytest.mark.statistical
@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("dimension", [2, 5, 20, 100])
def test_intervals_hold_between_94_and_97_percent(ball: Ball, dimension: int) -> None:
    laws = [noise_law(ball, dimension, RATE)] * dimension
    count = COUNT if dimension < 50 else COUNT // 4
    noise = simulate(ball, dimension, count, seed=b"coverage") / RATE
    for slopes in SLOPES:
        if len(slopes) > dimension:
            continue
        exact = {index: Fraction(slope) for index, slope in enumerate(slopes)}
        stated = describe_noise(
            {"x": Leaf(value=Fraction(0), slopes=exact)}, laws, Fraction(1), centred=True
        )
        drawn = noise[:, : len(slopes)] @ np.array(slopes)
        low, high = stated.interval_95["x"]  # type: ignore[misc]
        assert 0.942 < np.mean((low <= drawn) & (drawn <= high)) < 0.97
        assert stated.std["x"] == pytest.approx(drawn.std(), rel=0.04)


@in_one("dimension", [2, 10, 400])
@in_one("own", [1.66, 2.0, 2.1184])
def test_the_factor_is_known_at_both_ends(dimension: int, own: float) -> None:
    assert combination_factor(dimension, own, 1.0) == pytest.approx(own)
    many = combination_factor(dimension, own, 0.0)
    assert many >= own
    if dimension == 400 and own < 2:
        assert many == pytest.approx(1.96, abs=0.01)
    factors = [combination_factor(dimension, own, share / 10) for share in range(11)]
    assert all(after <= before + 1e-3 for before, after in pairwise(factors))


def test_a_noise_too_small_for_floats_has_no_width() -> None:
    laws = [noise_law("l1", 2, 1e6)] * 2
    leaf = Leaf(value=Fraction(1), slopes={0: Fraction(1), 1: Fraction(1)})
    stated = describe_noise({"x": leaf}, laws, Fraction(1), centred=True)
    assert stated.std["x"] == 0
    assert stated.interval_95["x"] == [1.0, 1.0]


def test_limits_bound_what_is_stated() -> None:
    laws = [noise_law("linf", 2, RATE)] * 2
    leaf = Leaf(
        value=Fraction(1),
        slopes={0: Fraction(1), 1: Fraction(1)},
        limits=(Fraction(0), Fraction(3)),
    )
    stated = describe_noise({"x": leaf}, laws, Fraction(1), centred=True)
    assert stated.interval_95["x"] == [0.0, 3.0]
    assert stated.std["x"] == 1.5
    assert sqrt(2) * laws[0].std > 1.5


ROOTS = [("0", 2.0), ("1/1000000", 2.0), ("0.5", 0.3), ("1", 1.0), ("2", 5.0)]


@in_one("centred", [True, False])
@in_one(("value", "std"), ROOTS)
def test_the_root_of_a_number_has_the_roots_of_its_interval(
    value: str, std: float, centred: bool
) -> None:
    law = noise_law("l1", 1, sqrt(2) / std * 1e-6)
    limits = Fraction(0), Fraction(9)
    plain = Leaf(value=Fraction(value), slopes={0: Fraction(1, 10**6)}, limits=limits)
    rooted = replace(plain, root=True)
    assert rooted.number() == sqrt(plain.number())
    told = [
        describe_noise({"x": leaf}, [law], Fraction(1), centred=centred) for leaf in (plain, rooted)
    ]
    (low, high), (least, most) = (each.interval_95["x"] for each in told)  # type: ignore[misc]
    if centred:
        assert (least, most) == (sqrt(low), sqrt(high))
    else:
        assert (least, most) == (-sqrt(high), sqrt(high))
    assert told[1].std["x"] == root_std(float(plain.value), told[0].std["x"], most=3.0)  # type: ignore[arg-type]


@in_one("value", [0.0, 0.01, 0.3, 1.0, 8.0])
@in_one("std", [0.01, 0.3, 3.0])
def test_the_deviation_of_a_root_is_no_less_than_what_is_drawn(value: float, std: float) -> None:
    """Of noise around the true value, as a root of what is clamped at 0."""
    drawn = np.random.default_rng(1).laplace(0, std / sqrt(2), 20_000)
    roots = np.sqrt(np.maximum(value + drawn, 0))
    error = sqrt(np.mean((roots - sqrt(value)) ** 2))
    assert error <= sqrt(std)
    stated = root_std(value, std, most=None)
    assert stated <= sqrt(std)
    if std < value / 3:
        assert error == pytest.approx(stated, rel=0.1)


def test_a_root_within_bounds_deviates_by_half_of_them_at_most() -> None:
    assert root_std(0.0, 100.0, most=3.0) == 1.5
    assert root_std(0.0, 100.0, most=None) == 10.0
    assert root_std(4.0, 0.4, most=3.0) == pytest.approx(0.1)
