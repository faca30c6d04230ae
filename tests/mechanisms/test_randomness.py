"""The one source of bits: exact laws, nested refinement, no sharing, no fallback."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms import randomness as module
from mechanisms.randomness import Randomness, SystemBits, system_randomness
from mechanisms.testing import (
    Law,
    check_draws,
    distance_threshold,
    draws_needed,
    seeded_randomness,
)

DRAWS = 20_000


def draw_many(draw: Callable[[Randomness], int], count: int = DRAWS, seed: int = 1) -> list[int]:
    randomness = seeded_randomness(seed)
    return [draw(randomness) for _ in range(count)]


@pytest.mark.statistical
@pytest.mark.parametrize("bound", [2, 3, 10, 1000])
def test_below_is_uniform(bound: int) -> None:
    draws = draw_many(lambda r: r.below(bound))
    assert 0 <= min(draws) <= max(draws) < bound
    law = Law.discrete(range(bound), [1] * bound)
    skewed = Law.discrete(range(bound), [2 if 2 * k < bound else 1 for k in range(bound)])
    check_draws(draws, law, twins=[skewed])


def test_below_one_is_zero_and_needs_no_bits() -> None:
    assert Randomness(_NoBits()).below(1) == 0


class _NoBits:
    def bits(self, count: int) -> int:
        assert count == 0, "no bits should be drawn"
        return 0


@pytest.mark.statistical
@pytest.mark.parametrize(
    "probability", [Fraction(0), Fraction(1), Fraction(1, 3), Fraction(999, 1000)]
)
def test_bernoulli_has_its_rational_probability(probability: Fraction) -> None:
    share = sum(draw_many(lambda r: r.bernoulli(probability))) / DRAWS
    assert abs(share - probability) <= (distance_threshold(DRAWS) if 0 < probability < 1 else 0)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "exponent",
    [Fraction(0), Fraction(1, 7), Fraction(1), Fraction(5, 2), Fraction(10**9 + 1, 10**9)],
)
def test_bernoulli_exp_has_probability_exp_minus_x(exponent: Fraction) -> None:
    share = sum(draw_many(lambda r: r.bernoulli_exp(exponent))) / DRAWS
    assert abs(share - math.exp(-exponent)) <= distance_threshold(DRAWS)
    assert exponent or share == 1


@pytest.mark.statistical
@pytest.mark.parametrize("rate", [Fraction(1, 20), Fraction(2, 3), Fraction(3)])
def test_geometric_exp_follows_its_law(rate: Fraction) -> None:
    support = range(int(40 / rate) + 2)

    def law(scale: float) -> Law:
        return Law.discrete(support, [math.exp(-scale * float(rate) * k) for k in support])

    twins = [law(0.7), law(1.3)]
    gap = min(law(1).gap(twin, support) for twin in twins)
    draws = draw_many(lambda r: r.geometric_exp(rate), max(DRAWS, 2 * draws_needed(gap)))
    check_draws(draws, law(1), twins=twins)


@pytest.mark.statistical
@pytest.mark.parametrize("rate", [Fraction(1, 50), Fraction(1, 2), Fraction(7, 5)])
def test_discrete_laplace_follows_its_law_and_no_other_scale(rate: Fraction) -> None:
    reach = int(40 / rate) + 2
    support = range(-reach, reach + 1)

    def law(scale: float) -> Law:
        return Law.discrete(support, [math.exp(-scale * float(rate) * abs(v)) for v in support])

    twins = [law(0.7), law(1.3)]
    gap = min(law(1).gap(twin, support) for twin in twins)
    draws = draw_many(lambda r: r.discrete_laplace(rate), 2 * draws_needed(gap))
    check_draws(draws, law(1), twins=twins)


@pytest.mark.parametrize("rate", [Fraction(1, 10**12), Fraction(10**4), Fraction(10**13, 7)])
def test_extreme_rates_end_in_time(rate: Fraction) -> None:
    draws = draw_many(lambda r: r.discrete_laplace(rate), 50)
    assert all(abs(v) * rate < 60 for v in draws)


@given(
    seed=st.integers(0, 2**32),
    looks=st.lists(st.integers(1, 300), min_size=2, max_size=6),
)
def test_a_lazy_uniform_only_ever_shrinks(seed: int, looks: list[int]) -> None:
    uniform = seeded_randomness(seed).uniform()
    seen = [(bits, uniform.prefix(bits)) for bits in looks]
    finest = max(looks)
    value = uniform.prefix(finest)
    for bits, prefix in seen:
        assert prefix == value >> (finest - bits)
        assert uniform.enclose(bits).contains(uniform.enclose(finest))


def test_a_lazy_uniform_draws_only_the_bits_asked_for() -> None:
    asked: list[int] = []

    class Counting:
        def bits(self, count: int) -> int:
            asked.append(count)
            return 0

    uniform = Randomness(Counting()).uniform()
    for bits in (8, 8, 4, 64):
        uniform.prefix(bits)
    assert asked == [8, 56]


def test_system_bits_are_in_range_and_not_repeated() -> None:
    source = SystemBits()
    words = [source.bits(64) for _ in range(2000)]
    assert len(set(words)) == len(words)
    assert all(0 <= word < 2**64 for word in words)
    assert source.bits(0) == 0
    assert source.bits(20_000).bit_length() <= 20_000


@pytest.mark.statistical
def test_every_position_of_the_buffer_is_a_fair_bit() -> None:
    source, ones = SystemBits(), Counter()
    trials = 3000
    for _ in range(trials):
        word = source.bits(37)
        ones.update(place for place in range(37) if word >> place & 1)
    limit = math.sqrt(math.log(2 * 37 / 1e-9) / (2 * trials))  # Hoeffding, all places at once
    assert all(abs(ones[place] / trials - 0.5) <= limit for place in range(37))


_FORK = """
import os, sys
from mechanisms.randomness import SystemBits
source = SystemBits()
source.bits(8)  # fill the buffer before the fork
read, write = os.pipe()
children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        os.write(write, b"%d " % source.bits(128))
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
mine = source.bits(128)
theirs = [int(word) for word in os.read(read, 4096).split()]
sys.exit(0 if len({mine, *theirs}) == 3 else 1)
"""


def test_forked_children_do_not_repeat_their_parent() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FORK],
        timeout=60,
        check=False,
    )
    assert run.returncode == 0


def test_a_source_without_entropy_stops_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(count: int) -> bytes:
        raise OSError("no entropy")

    monkeypatch.setattr(os, "urandom", fail)
    for draw in (
        lambda r: r.below(10),
        lambda r: r.discrete_laplace(Fraction(1)),
        lambda r: r.uniform().enclose(8),
    ):
        with pytest.raises(OSError, match="no entropy"):
            draw(system_randomness())


def test_the_module_reads_nothing_but_the_operating_system() -> None:
    assert {name for name in ("random", "numpy", "time") if hasattr(module, name)} == set()
    assert np.unique([system_randomness().bits(64) for _ in range(50)]).size == 50
