"""Adjacent output spaces, noise laws and the advisor, against independent computations."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.exact.fractions import decimal_text
from mechanisms.geometry.advisor import advise, compare, included
from mechanisms.geometry.laws import histogram_law, noise_law
from mechanisms.geometry.smooth import BALLS, Ball, NoiseLaw
from mechanisms.geometry.spaces import (
    AdjacentOutputSpace,
    cube_space,
    root_text,
    upper_root,
)
from mechanisms.samplers.knorm import draw_hull, draw_l1, draw_l2, draw_linf
from mechanisms.statistics.second_order import Layout
from mechanisms.testing import seeded_randomness
from tests.tiers import in_one


def space(l1: float, l2_squared: float, linf: float, *, dimension: int) -> AdjacentOutputSpace:
    return AdjacentOutputSpace(
        dimension=dimension,
        l1=Fraction(l1),
        linf=Fraction(linf),
        l2_squared=Fraction(l2_squared),
        hull="other",
        description="",
        negligible_structure=False,
        unit=1,
        unit_name="",
    )


def scaled_vector(x: NDArray[np.float64], *, cross: bool) -> NDArray[np.float64]:
    """(x_j, 2 x_j^2, x_j x_k) of many records, x of shape (records, p)."""
    p = x.shape[1]
    pairs = [(j, k) for j in range(p) for k in range(j, p) if j == k or cross]
    return np.column_stack([x, *((2 if j == k else 1) * x[:, j] * x[:, k] for j, k in pairs)])


# Sensitivities of second moments (the printed ones are checked, not copied)


def test_one_column_sensitivities_by_search() -> None:
    """SS Example 3.1: 3.125, sqrt(71 + 8 sqrt 2)/4, 2, by search over both records."""
    x = np.linspace(-1, 1, 2001)
    t = scaled_vector(x[:, None], cross=False)
    best = np.zeros(3)
    for row in t:
        gap = np.abs(t - row)
        best = np.maximum(best, [gap.sum(1).max(), (gap**2).sum(1).max(), gap.max()])
    stated = Layout(("x",), cross=False, rows=10).space()
    assert float(stated.l1) == 3.125
    assert best[0] == pytest.approx(3.125, rel=1e-6)
    assert best[1] == pytest.approx(float(stated.l2_squared), rel=1e-6)
    assert best[1] <= float(stated.l2_squared)
    assert float(stated.l2_squared) == pytest.approx((71 + 8 * math.sqrt(2)) / 16, rel=1e-15)
    assert stated.l2_squared > Fraction((71 + 8 * math.sqrt(2)) / 16) - Fraction(1, 10**14)
    assert best[2] == pytest.approx(2)


@pytest.mark.parametrize("p", [2, 3, 5])
@pytest.mark.parametrize("cross", [True, False])
def test_several_columns_stay_within_their_bounds(p: int, cross: bool) -> None:
    generator = np.random.default_rng(p)
    corners = np.array(list(itertools.product([-1.0, -0.25, -0.146, 0.0, 1.0], repeat=p)))[:4000]
    x = np.vstack([corners, generator.uniform(-1, 1, (2000, p))])
    t = scaled_vector(x, cross=cross)
    stated = Layout(tuple("abcde"[:p]), cross=cross, rows=9).space()
    assert stated.dimension == t.shape[1]
    best = np.zeros(3)
    for row in t[:: max(1, len(t) // 500)]:
        gap = np.abs(t - row)
        best = np.maximum(best, [gap.sum(1).max(), (gap**2).sum(1).max(), gap.max()])
    assert best[0] <= float(stated.l1) * (1 + 1e-12)
    assert best[1] <= float(stated.l2_squared) * (1 + 1e-12)
    assert best[2] <= 2
    if not cross:  # columns move independently: the bounds are attained
        assert not stated.bounds_only
        assert best[0] == pytest.approx(float(stated.l1), rel=0.01)
    else:
        assert stated.bounds_only == {"l1", "l2"}
        assert stated.text("l1").startswith("at most ")


@pytest.mark.wide
def test_the_concave_bound_is_largest_at_one() -> None:
    """Delta_1 <= max of sum u + g(u) + sum min(2, 4 - u_j - u_k), searched on a grid."""
    grid = np.linspace(0, 2, 41)
    g = np.where(grid <= 1, 2.0, 2 - 2 * (grid - 1) ** 2)
    for p in (2, 3):
        best = 0.0
        for choice in itertools.product(range(41), repeat=p):
            u = grid[list(choice)]
            pairs = sum(min(2, 4 - a - b) for a, b in itertools.combinations(u, 2))
            best = max(best, float(u.sum() + g[list(choice)].sum() + pairs))
        assert best == pytest.approx(p * p + 2 * p)


def test_add_remove_moments_reach_a_corner() -> None:
    one = np.ones((1, 3))
    t = np.abs(
        np.column_stack([[1.0], scaled_vector(one, cross=True) - [0, 0, 0, 1, 0, 0, 1, 0, 1]])
    )
    stated = Layout(("a", "b", "c"), cross=True, rows=None).space()
    assert np.all(t == 1)
    assert (float(stated.l1), float(stated.l2_squared), float(stated.linf)) == (10.0, 10.0, 1.0)


# Noise laws


def law_of(ball: Ball | None, dimension: int, rate: float) -> NoiseLaw:
    return histogram_law(dimension, rate) if ball is None else noise_law(ball, dimension, rate)


@pytest.mark.parametrize("m", [1, 2, 7])
def test_variances_are_the_paper_s(m: int) -> None:
    """Proposition 4.13 with Delta = 2 on a fine lattice."""
    unit = 2.0**20
    rate = 1 / (2 * unit)
    assert noise_law("l1", m, rate / m).std / unit == pytest.approx(math.sqrt(2) * m * 2)
    expected = math.sqrt((m + 1) * (m + 2) / 3) * 2
    assert noise_law("linf", m, rate).std / unit == pytest.approx(expected)
    if m > 1:
        assert noise_law("l2", m, rate).std / unit == pytest.approx(2 * math.sqrt(m + 1))


@pytest.mark.statistical
@pytest.mark.parametrize("ball", ["l1", "l2", "linf", None])
@pytest.mark.parametrize("dimension", [2, 6])
def test_laws_describe_the_draws(ball: Ball | None, dimension: int) -> None:
    """Standard deviations within 4%, and 95% intervals that cover 95%, from seeded draws."""
    randomness = seeded_randomness(21)
    rate = Fraction(1, 2) if ball is None else Fraction(1, 64)
    draws = {
        "l1": lambda: draw_l1(randomness, dimension, rate),
        "l2": lambda: draw_l2(randomness, dimension, rate**2),
        "linf": lambda: draw_linf(randomness, dimension, rate),
        None: lambda: draw_hull(randomness, dimension, rate),
    }[ball]
    values = np.array([draws() for _ in range(6000)])
    law = law_of(ball, dimension, float(rate))
    assert law.std == pytest.approx(values.std(), rel=0.04)
    for column in values.T:
        outside = np.mean(np.abs(column) > law.half_width_95)
        assert outside <= 0.05 + 0.02
        if law.half_width_95 > 20:
            assert outside >= 0.05 - 0.02


def test_hull_law_is_the_enumerated_one() -> None:
    """Three cells, epsilon 1, 0.5 and 3: the pmf summed over all points of the plane."""
    for epsilon in (0.5, 1.0, 3.0):
        reach = int(60 / epsilon)
        points = np.arange(-reach, reach + 1)
        a, b = np.meshgrid(points, points)
        weight = np.exp(-epsilon * (np.abs(a) + np.abs(b) + np.abs(a + b)) / 2)
        pmf = weight.sum(axis=0) / weight.sum()
        law = histogram_law(3, epsilon)
        assert law.std == pytest.approx(math.sqrt(pmf @ points**2), rel=1e-9)
        assert pmf[np.abs(points) > law.half_width_95].sum() <= 0.05
        assert pmf[np.abs(points) > law.half_width_95 - 1].sum() > 0.05


@in_one("rate", [1e-9, 1e-3, 1.0, 1e4])
@in_one("ball", ["l1", "l2", "linf", None])
def test_laws_exist_over_the_whole_range(ball: Ball | None, rate: float) -> None:
    for dimension in (2, 10, 1000):
        scale = 1.0 if ball in ("l1", None) else 1 / (4 * dimension * max(1.0, rate))
        law = law_of(ball, dimension, rate * scale)
        assert math.isfinite(law.std)
        assert 0 <= law.half_width_95 < math.inf
        assert law.half_width_95 <= 3 * law.std + 1


def test_the_coarse_hull_law_scales() -> None:
    fine, finer = histogram_law(5, 1e-3), histogram_law(5, 1e-6)
    assert finer.std == pytest.approx(1000 * fine.std, rel=1e-3)
    assert finer.half_width_95 == pytest.approx(1000 * fine.half_width_95, rel=0.02)


# The advisor


def test_hulls_are_advised() -> None:
    cube = cube_space(3, half_width=Fraction(2), unit=1, unit_name="", description="")
    assert advise(cube).norm == "linf"
    assert "Theorem 4.5" in advise(cube).reason
    assert (cube.l1, cube.l2_squared, cube.linf) == (6, 12, 2)


def test_inclusion_decides_before_variance() -> None:
    """Corollary 4.12: with Delta_p = m^(1/p) Delta, larger p lies inside smaller p."""
    for m in (2, 3, 10):
        corner = space(m, m, 1, dimension=m)
        advice = advise(corner)
        assert advice.norm == "linf"
        assert "lies inside the other two" in advice.reason
        assert included(corner, "linf", "l2")
        assert included(corner, "l2", "l1")
        assert not included(corner, "l1", "linf")
    counts = space(1, 1, 1, dimension=5)
    assert advise(counts).norm == "l1"


def test_without_inclusion_the_least_variance_is_advised() -> None:
    """SS Example 4.6: exact sensitivities of Example 3.1 give no inclusion."""
    example = Layout(("x",), cross=False, rows=3).space()
    assert not any(included(example, a, b) for a, b in itertools.permutations(BALLS, 2))
    advice = advise(replace(example, norm_ball=None))
    assert advice.norm == min(advice.comparisons, key=lambda row: row.std).norm
    assert "No scaled ball" in advice.reason


def test_inclusion_agrees_with_sampled_points() -> None:
    generator = np.random.default_rng(2)
    orders = {"l1": 1, "l2": 2, "linf": np.inf}
    for _ in range(40):
        m = int(generator.integers(2, 6))
        deltas = generator.uniform(0.5, 4, 3).round(3)
        made = space(deltas[0], deltas[1] ** 2, deltas[2], dimension=m)
        extremes = np.vstack([np.eye(m), np.ones((1, m)), generator.normal(size=(200, m))])
        for inner, outer in itertools.permutations(BALLS, 2):
            size = math.sqrt(made.squared(inner))
            points = extremes / np.linalg.norm(extremes, orders[inner], axis=1)[:, None] * size
            inside = bool(
                (
                    np.linalg.norm(points, orders[outer], axis=1) ** 2
                    <= float(made.squared(outer)) * (1 + 1e-9)
                ).all()
            )
            assert inside == included(made, inner, outer)


def test_volume_index() -> None:
    square = space(2, 2, 1, dimension=2)
    assert compare(square, "linf").volume_index == pytest.approx(2)
    assert compare(square, "l1").volume_index == pytest.approx(math.sqrt(8))
    assert compare(square, "l2").volume_index == pytest.approx(math.sqrt(2 * math.pi))


# Exact text


def test_roots_are_rounded_up() -> None:
    assert upper_root(Fraction(9, 4)) == Fraction(3, 2)
    for square in (Fraction(2), Fraction(1, 3), Fraction(10**40 + 1), Fraction(1, 10**60)):
        root = upper_root(square)
        assert root**2 >= square
        assert (root - Fraction(1, 2**79)) ** 2 < square or root < Fraction(1, 2**79)


@in_one(
    ("value", "text"),
    [
        (Fraction(2), "2"),
        (Fraction(25, 8), "3.125"),
        (Fraction(-1, 20), "-0.05"),
        (Fraction(1, 3), "1/3"),
        (Fraction(0), "0"),
        (Fraction(7, 10**1999), f"0.{'0' * 1998}7"),
    ],
)
def test_decimal_text(value: Fraction, text: str) -> None:
    assert decimal_text(value) == text


def test_a_decimal_exists_where_only_twos_and_fives_divide() -> None:
    for twos, fives, other in itertools.product(range(20), range(20), (1, 3, 7)):
        value = Fraction(1, 2**twos * 5**fives * other)
        text = decimal_text(value)
        assert Fraction(text) == value
        assert ("/" in text) == (other > 1)
        assert other > 1 or len(text.partition(".")[2]) == max(twos, fives)


def test_a_decimal_with_too_many_digits_is_written_as_a_quotient() -> None:
    assert decimal_text(Fraction(1, 2**31), most_digits=30) == "1/2147483648"
    assert Fraction(decimal_text(Fraction(3, 2**31))) == Fraction(3, 2**31)


def test_root_text() -> None:
    assert root_text(Fraction(4)) == "2"
    assert root_text(Fraction(8)) == "sqrt(8)"
