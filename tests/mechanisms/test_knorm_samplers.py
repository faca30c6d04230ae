"""The integer noise follows its stated law, exactly, and fails against any other scale."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, fmpq
from scipy.special import gammainc
from scipy.stats import beta

from mechanisms.exact.floats import working_precision
from mechanisms.randomness import Randomness, system_randomness
from mechanisms.samplers import geometric as geometric_module
from mechanisms.samplers.geometric import Geometric, geometric
from mechanisms.samplers.knorm import draw_hull, draw_in_ball, draw_l1, draw_l2, draw_linf
from mechanisms.testing import Law, SeededBits, check_draws, draws_to_refuse, seeded_randomness

TWINS = (0.7, 1.3)


class ScriptedBits:
    """A bit source that answers from a list first, then from a seeded stream."""

    def __init__(self, script: Sequence[int]) -> None:
        self.script = list(script)
        self.asked: list[int] = []
        self.after = SeededBits(5)

    def bits(self, count: int) -> int:
        self.asked.append(count)
        return self.script.pop(0) if self.script else self.after.bits(count)


def lattice_law(
    norm: Callable[[tuple[int, ...]], int | None], dimension: int, reach: int, rate: float
) -> tuple[dict[tuple[int, ...], int], Callable[[float], Law]]:
    """Enumerate all points up to ``reach``; a point's index makes the joint law a real one."""
    points = [
        point
        for point in itertools.product(range(-reach, reach + 1), repeat=dimension)
        if norm(point) is not None
    ]
    points.sort(key=lambda point: (norm(point), point))
    radii = np.array([norm(point) for point in points])
    index = {point: place for place, point in enumerate(points)}

    def law(scale: float) -> Law:
        return Law.discrete(np.arange(len(points)), np.exp(-rate / scale * radii))

    return index, law


def check_joint(
    draw: Callable[[Randomness], list[int]],
    norm: Callable[[tuple[int, ...]], int | None],
    *,
    dimension: int,
    reach: int,
    rate: float,
) -> None:
    """Check the joint law of draws on Z^m, and that it refuses the scales 0.7 and 1.3."""
    index, law = lattice_law(norm, dimension, reach, rate)
    randomness, twins = seeded_randomness(7), [law(scale) for scale in TWINS]
    count = draws_to_refuse(twins, law(1.0), range(len(index)))
    draws = [index[tuple(draw(randomness))] for _ in range(count)]
    check_draws(draws, law(1.0), twins=twins)


def sup(point: tuple[int, ...]) -> int:
    return max(map(abs, point))


def hull(point: tuple[int, ...]) -> int | None:
    return sum(map(abs, point)) // 2 if sum(point) == 0 else None


def in_hexagon(point: Sequence[int], radius: int) -> bool:
    """Test |u| <= r, |v| <= r, |u - v| <= r."""
    return max(abs(point[0]), abs(point[1]), abs(point[0] - point[1])) <= radius


def in_parabola_hull(point: Sequence[int], radius: int) -> bool:
    """SS Example 3.1's hull K_2, with |u_1|, |u_2| <= 2 scaled to radius."""
    first, second = abs(point[0]), abs(point[1])
    if max(first, second) > radius:
        return False
    return 2 * first <= radius or second * radius <= radius**2 - (2 * first - radius) ** 2


def in_product_hull(point: Sequence[int], radius: int) -> bool:
    """K_3, the hull for (x, y, xy): |u_i| <= 2, sum |u_i| <= 4, scaled so that 2 is radius."""
    sizes = [abs(u) for u in point]
    return max(sizes) <= radius and sum(sizes) <= 2 * radius


def ceil_norm(contains: Callable[[Sequence[int], int], bool]) -> Callable[[tuple[int, ...]], int]:
    return lambda point: next(r for r in itertools.count() if contains(point, r))


# The geometric coins


@pytest.mark.parametrize("rate", [Fraction(1, 10**9), Fraction(1, 3), Fraction(2), Fraction(10**4)])
def test_digit_coins_make_a_geometric_law(rate: Fraction) -> None:
    """Product of digit odds equals (1 - q) q^k in ball arithmetic, overflow included."""
    law = Geometric(rate)
    with working_precision(200):
        x = arb(fmpq(rate.numerator, rate.denominator))
        for k in (0, 1, 5, 12345):
            digits = law._digits
            odds = arb(1)
            for j in range(digits):
                one = 1 / (1 + (x * 2**j).exp())
                odds *= one if k >> j & 1 else 1 - one
            if k >> digits:
                continue
            odds *= 1 - (-(x * 2**digits)).exp()
            assert odds.overlaps((1 - (-x).exp()) * (-(x * k)).exp())


def test_coin_prefixes_are_certified() -> None:
    with working_precision(300):
        for rate, overflow in ((Fraction(1, 7), False), (Fraction(23), True)):
            power = arb(fmpq(rate.numerator, rate.denominator)).exp()
            probability = 1 / power if overflow else 1 / (1 + power)
            for bits in (32, 96, 160):
                prefix = geometric_module.coin_prefix(rate, overflow, bits)
                assert arb(prefix) <= probability * 2**bits < arb(prefix + 1)


def test_a_tie_is_settled_with_more_bits() -> None:
    law = Geometric(Fraction(30))  # no digits, only the overflow coin, of prefix zero
    below = geometric_module.coin_prefix(Fraction(30), True, 96) - 1
    assert law.draw(Randomness(ScriptedBits([0, below])), 1)[0] >= 1
    above = geometric_module.coin_prefix(Fraction(30), True, 96) + 1
    assert law.draw(Randomness(ScriptedBits([0, above])), 1)[0] == 0
    tie = geometric_module.coin_prefix(Fraction(30), True, 96)
    source = ScriptedBits([0, tie, 2**64 - 1])
    assert law.draw_sum(Randomness(source), 1) == 0
    assert source.asked == [32, 64, 64]


@pytest.mark.statistical
@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 1000), Fraction(5, 4)])
def test_geometric_law(rate: Fraction) -> None:
    draws = geometric(rate).draw(seeded_randomness(3), 20_000)

    def law(scale: float) -> Law:
        support = np.arange(int(60 / float(rate)))
        return Law.discrete(support, np.exp(-float(rate) / scale * support))

    check_draws(draws, law(1.0), twins=[law(scale) for scale in TWINS])


@pytest.mark.statistical
def test_large_geometrics_are_python_integers() -> None:
    rate = Fraction(1, 2**80)
    draws = geometric(rate).draw(seeded_randomness(4), 12_000)
    assert draws.dtype == object

    def law(scale: float) -> Law:
        return Law.continuous(lambda x: 1 - np.exp(-x / scale))

    check_draws([float(k * rate) for k in draws], law(1.0), twins=[law(s) for s in TWINS])


# Small joint laws


@pytest.mark.statistical
def test_l1_joint_law() -> None:
    check_joint(
        lambda r: draw_l1(r, 2, Fraction(3, 4)),
        lambda v: sum(map(abs, v)),
        dimension=2,
        reach=60,
        rate=0.75,
    )


@pytest.mark.statistical
@pytest.mark.parametrize(("dimension", "reach"), [(1, 120), (2, 60), (3, 30)])
def test_linf_joint_law(dimension: int, reach: int) -> None:
    check_joint(
        lambda r: draw_linf(r, dimension, Fraction(3, 4)),
        sup,
        dimension=dimension,
        reach=reach,
        rate=0.75,
    )


@pytest.mark.statistical
@pytest.mark.parametrize(("cells", "reach"), [(2, 60), (3, 40), (4, 16)])
def test_hull_joint_law(cells: int, reach: int) -> None:
    rate = Fraction(1) if cells < 4 else Fraction(2)
    check_joint(
        lambda r: draw_hull(r, cells, rate),
        hull,
        dimension=cells,
        reach=reach,
        rate=float(rate),
    )


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("contains", "dimension", "reach", "rate"),
    [
        (in_hexagon, 2, 60, Fraction(3, 4)),
        (in_parabola_hull, 2, 60, Fraction(3, 4)),
        (in_product_hull, 3, 18, Fraction(3, 2)),
    ],
)
def test_general_ball_joint_law(
    contains: Callable[[Sequence[int], int], bool], dimension: int, reach: int, rate: Fraction
) -> None:
    """Box rejection gives exp(-rate ceil(norm)), the parabola's norm not being an integer."""
    widths = [Fraction(1)] * dimension
    check_joint(
        lambda r: draw_in_ball(r, widths, contains, rate),
        ceil_norm(contains),
        dimension=dimension,
        reach=reach,
        rate=float(rate),
    )


@pytest.mark.wide
@pytest.mark.statistical
def test_box_need_not_be_a_cube() -> None:
    """A thin ellipse in a box of half-widths 5/2 and 2/3."""

    def exact(point: Sequence[int], radius: int) -> bool:
        # (2u/5)^2 + (3v/2)^2 <= r^2, times 100
        return 16 * point[0] ** 2 + 225 * point[1] ** 2 <= 100 * radius**2

    check_joint(
        lambda r: draw_in_ball(r, [Fraction(5, 2), Fraction(2, 3)], exact, Fraction(1)),
        ceil_norm(exact),
        dimension=2,
        reach=75,
        rate=1.0,
    )


def test_too_coarse_a_lattice_is_refused() -> None:
    with pytest.raises(ValueError, match="too coarse"):
        draw_in_ball(seeded_randomness(1), [Fraction(1, 3)], lambda *_: True, Fraction(1))
    with pytest.raises(ValueError, match="positive"):
        Geometric(Fraction(0))


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_radius_is_kept_with_the_exact_rational(
    dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proposal times keeping odds is (2r+1)^m q^r up to one constant, as fractions."""
    constants = set()
    for radius in range(40):
        asked: list[int] = []

        class Recorder(Randomness):
            def below(self, bound: int, asked: list[int] = asked) -> int:
                asked.append(bound)
                return 0

        class Fixed:
            def draw_sum(self, *_: object, radius: int = radius) -> int:
                return radius

        monkeypatch.setattr("mechanisms.samplers.knorm.geometric", lambda _rate: Fixed())
        draw_linf(Recorder(ScriptedBits([])), dimension, Fraction(1))
        envelope = asked[0]
        kept = Fraction((2 * radius + 1) ** dimension, envelope)
        assert 0 < kept <= 1
        proposal = math.comb(radius + dimension, dimension)
        constants.add(proposal * kept / (2 * radius + 1) ** dimension)
    assert len(constants) == 1


# l2 and large dimensions


@pytest.mark.statistical
@pytest.mark.parametrize("dimension", [2, 3, 12])
def test_l2_radius_and_direction(dimension: int) -> None:
    scale = 2**30
    randomness = seeded_randomness(11)

    def law(factor: float) -> Law:
        return Law.continuous(lambda x: gammainc(dimension, x / factor))

    twins = [law(factor) for factor in TWINS]
    draws = np.array(
        [
            [x / scale for x in draw_l2(randomness, dimension, Fraction(1, scale**2))]
            for _ in range(max(draws_to_refuse(twins, law(1.0), np.linspace(0, 40, 4001)), 2_000))
        ]
    )
    radius = np.linalg.norm(draws, axis=1)
    check_draws(radius, law(1.0), twins=twins)
    cosine = draws[:, 0] / radius
    check_draws(
        (cosine + 1) / 2, Law.continuous(beta((dimension - 1) / 2, (dimension - 1) / 2).cdf)
    )


@pytest.mark.statistical
def test_l2_rounds_a_laplace_variable() -> None:
    """In one dimension Round(V) has the mass of [k - 1/2, k + 1/2] under Laplace.

    Whole numbers are taken by their size, then by their sign, so that other scales are far away.
    """
    randomness = seeded_randomness(12)
    k = np.array(sorted(range(-100, 101), key=lambda k: (abs(k), k)))

    def law(scale: float) -> Law:
        edge = np.maximum(np.abs(k) - 0.5, 0) / (2 * scale)
        mass = np.exp(-edge) - np.exp(-(np.abs(k) + 0.5) / (2 * scale))
        return Law.discrete(range(len(k)), np.where(k == 0, 2 * mass, mass))

    twins = [law(scale) for scale in TWINS]
    count = draws_to_refuse(twins, law(1.0), range(len(k)))
    draws = [draw_l2(randomness, 1, Fraction(1, 4))[0] for _ in range(count)]
    place = {int(point): at for at, point in enumerate(k)}
    check_draws([place[point] for point in draws], law(1.0), twins=twins)


@pytest.mark.statistical
@pytest.mark.parametrize("dimension", [12, 200])
def test_linf_radius_in_many_dimensions(dimension: int) -> None:
    """ceil norm + U, U uniform, is near Gamma(m) on a fine lattice; twins are refused."""
    lattice = 2**40
    randomness = seeded_randomness(13)
    radius = [
        max(map(abs, draw_linf(randomness, dimension, Fraction(1, lattice)))) / lattice
        for _ in range(1_000)
    ]

    def law(factor: float) -> Law:
        return Law.continuous(lambda x: gammainc(dimension, x / factor))

    check_draws(radius, law(1.0), twins=[law(factor) for factor in TWINS])


def test_extreme_rates_draw() -> None:
    randomness = system_randomness()
    for rate in (Fraction(1, 10**9 * 2**100), Fraction(10**4), Fraction(1, 48)):
        assert len(draw_l1(randomness, 5, rate)) == 5
        assert sum(draw_hull(randomness, 5, min(rate, Fraction(1)))) == 0
        fine = min(rate, Fraction(1, 48))
        assert len(draw_linf(randomness, 12, fine)) == 12
        assert len(draw_l2(randomness, 12, fine**2)) == 12
    assert draw_l1(randomness, 3, Fraction(10**4)) == [0, 0, 0]


def test_speed() -> None:
    """Far inside the aims (0.3 ms at m = 12, 30 ms at m = 1000), so a busy machine passes."""
    randomness = system_randomness()
    for dimension, limit_s in ((12, 0.0003), (1000, 0.03)):
        rate = Fraction(1, 2**21)
        draw_linf(randomness, dimension, rate)
        best = math.inf
        for _ in range(20):
            start = time.perf_counter()
            draw_linf(randomness, dimension, rate)
            best = min(best, time.perf_counter() - start)
        assert best < limit_s
