"""Hulls and the balls around them: norms, exact draws, laws, and what they save."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.contract import InvalidStatisticError
from mechanisms.exact.floats import working_precision
from mechanisms.geometry.advisor import MOST_TRIES, advise
from mechanisms.geometry.counted import PRODUCTS, SQUARES, SUMS, CountedBall, Cube
from mechanisms.geometry.cuts import Cut, CutBall, add_remove_ball, replace_one_ball
from mechanisms.geometry.histograms import HistogramBall, contribution_hull
from mechanisms.geometry.joint_moments import JointMomentBall
from mechanisms.geometry.laws import propose, simulate
from mechanisms.geometry.polytopes import Polytope
from mechanisms.geometry.second_moments import SecondMomentBall
from mechanisms.geometry.smooth import NormBall, SmoothBall
from mechanisms.geometry.spaces import StackedBall
from mechanisms.knorm import ball_of, offered_norms
from mechanisms.samplers.knorm import draw_from_points
from mechanisms.samplers.main_effects import Proposal
from mechanisms.statistics.second_order import Layout
from mechanisms.testing import Law, check_draws, draws_needed, seeded_randomness
from tests.tiers import in_one


def moments(effects: int) -> SecondMomentBall:
    pairs = tuple((j, k) for j in range(effects) for k in range(j, effects))
    return SecondMomentBall(effects=effects, pairs=pairs)


def joint(effects: int, *, cross: bool) -> JointMomentBall:
    size = range(effects)
    pairs = tuple((j, k) for j in size for k in size if j == k or (cross and j < k))
    return JointMomentBall(effects=effects, pairs=pairs)


K2 = moments(1)
K3 = SecondMomentBall(effects=2, pairs=((0, 1),))
REGRESSION = SecondMomentBall(effects=3, pairs=((0, 0), (0, 1), (0, 2), (1, 1), (1, 2)))
BALLS: dict[str, NormBall] = {
    "K_2": K2,
    "K_3": K3,
    "K_T, 2 columns": moments(2),
    "K_T, 3 columns": moments(3),
    "K_T of a regression": REGRESSION,
    "joint, 1 column": joint(1, cross=False),
    "joint, 3 columns": joint(3, cross=False),
    "joint products, 3 columns": joint(3, cross=True),
    "joint products, a regression": JointMomentBall(effects=3, pairs=REGRESSION.pairs),
    "cut, 3 columns": replace_one_ball(moments(3)),
    "cut, a regression": replace_one_ball(REGRESSION),
    "cut joint, 3 columns": add_remove_ball(joint(3, cross=True)),
    "cut joint, a regression": add_remove_ball(JointMomentBall(effects=3, pairs=REGRESSION.pairs)),
    "counted sums": CountedBall(Cube(2), SUMS, hull=True),
    "counted, 1 column": CountedBall(K2, SQUARES, hull=False),
    "counted, a regression": CountedBall(replace_one_ball(REGRESSION), PRODUCTS, hull=False),
    "stacked": StackedBall(parts=(K2, K3, K2), order=(0, 3, 1, 2, 4, 5, 6), hull=False),
    "histogram": HistogramBall(4, filtered=False),
    "filtered histogram": HistogramBall(3, filtered=True),
}
SMOOTH = {name: ball for name, ball in BALLS.items() if isinstance(ball, SmoothBall)}


def rings(ball: NormBall, point: Sequence[int], steps: int = 1) -> int:
    """``ceil(||point||)`` in rings of ``steps``."""
    most = next(r for r in (2**k for k in itertools.count()) if ball.contains(point, steps * r))
    low = -1
    while most - low > 1:
        middle = (most + low) // 2
        low, most = (low, middle) if ball.contains(point, steps * middle) else (middle, most)
    return most


def vector(ball: NormBall) -> st.SearchStrategy[list[int]]:
    free = st.lists(st.integers(-60, 60), min_size=ball.dimension, max_size=ball.dimension)
    if isinstance(ball, HistogramBall) and not ball.filtered:
        return free.map(lambda v: [*v[:-1], -sum(v[:-1])])
    return free


# A norm is a norm


@pytest.mark.parametrize("name", BALLS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_ball_is_a_norm_ball(name: str, data: st.DataObject) -> None:
    """Symmetry, the triangle inequality and homogeneity, in exact integers."""
    ball = BALLS[name]
    v, w = data.draw(vector(ball)), data.draw(vector(ball))
    one, other = rings(ball, v), rings(ball, w)
    assert rings(ball, [-x for x in v]) == one
    assert ball.contains([a + b for a, b in zip(v, w, strict=True)], one + other)
    for factor in (2, 7):
        scaled = rings(ball, [factor * x for x in v])
        assert factor * (one - 1) < scaled <= factor * one
    assert (one == 0) == (not any(v))


@pytest.mark.parametrize("name", SMOOTH)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_hull_is_contained(name: str, data: st.DataObject) -> None:
    """Differences of two records, and convex combinations of them, never leave the ball."""
    ball, size = SMOOTH[name], 64**2
    counted = isinstance(ball, CountedBall)
    whole = ball.part if isinstance(ball, CountedBall) else ball
    whole = getattr(whole, "whole", whole)
    columns = whole.size if isinstance(whole, Cube) else getattr(whole, "effects", 4)
    codes = st.lists(st.integers(-64, 64), min_size=columns, max_size=columns)

    def contribution(x: Sequence[int]) -> list[int]:
        if name == "stacked":
            a, b, c, d = x
            parts = [64 * a, 2 * a * a, 64 * b, 64 * c, b * c, 64 * d, 2 * d * d]
            placed = [0] * 7
            for entry, place in zip(parts, (0, 3, 1, 2, 4, 5, 6), strict=True):
                placed[place] = entry
            return placed
        assert isinstance(whole, SecondMomentBall | JointMomentBall | Cube)
        centre = 64**2 if counted or isinstance(whole, JointMomentBall) else 0
        pairs = () if isinstance(whole, Cube) else whole.pairs
        products = [2 * x[j] ** 2 - centre if j == k else x[j] * x[k] for j, k in pairs]
        return [*([centre] if centre else []), *(64 * code for code in x), *products]

    chosen = data.draw(st.lists(st.tuples(codes, codes), min_size=1, max_size=4))
    if isinstance(whole, JointMomentBall):
        moves = [contribution(x) for x, _ in chosen]
    else:
        moves = [
            [a - b for a, b in zip(contribution(x), contribution(y), strict=True)]
            for x, y in chosen
        ]
    if counted:  # a record may also come or go
        moves += [contribution(x) for x, _ in chosen]
    assert all(ball.contains(move, size) for move in moves)
    shares = [data.draw(st.integers(-9, 9)) for _ in moves]
    mixed = [
        sum(share * move[place] for share, move in zip(shares, moves, strict=True))
        for place in range(ball.dimension)
    ]
    assert ball.contains(mixed, size * sum(map(abs, shares)))


def test_the_hull_of_one_column_is_reached_everywhere() -> None:
    """K_2 is the hull: its curved edge is made of differences (1, 2x^2) -> (1 - x, 2 - 2x^2)."""
    size = 4096**2
    for code in range(-4096, 1, 37):
        edge = [4096 * (4096 - code), 2 * 4096**2 - 2 * code * code]
        assert K2.contains(edge, size)
        assert not K2.contains([edge[0] + 8192, edge[1] + 1], size - 1)


def test_k_t_is_not_the_hull() -> None:
    """(x, y, 2x^2, xy) = (1, 0, 2, 2) is in K_T; 0.75 of it is all the hull holds."""
    ball = SecondMomentBall(effects=2, pairs=((0, 0), (0, 1)))
    assert ball.contains([1, 0, 2, 2], 1)
    grid = np.linspace(-1, 1, 401)
    x, y = np.meshgrid(grid, np.array([-1.0, 0.0, 1.0]))
    t = np.stack([x, y, 2 * x * x, x * y]).reshape(4, -1)
    best = math.inf
    generator = np.random.default_rng(1)
    point = np.array([1, 0, 2, 2.0])
    for direction in generator.normal(size=(4000, 4)) * 0.3 + point:
        values = direction @ t
        best = min(best, (values.max() - values.min()) / (direction @ point))
    assert 0.75 - 1e-9 <= best < 0.78


def test_a_missing_product_is_refused() -> None:
    for pairs in (((0, 0),), ((0, 1), (0, 1)), ((0, 1), (2, 2))):
        with pytest.raises(ValueError, match="once"):
            SecondMomentBall(effects=2, pairs=pairs)
    with pytest.raises(ValueError, match="permutation"):
        StackedBall(parts=(K2,), order=(0, 0), hull=True)


# Contributions that come or go


RANGES = [
    [(0, 1), (0, 1)],
    [(Fraction(1, 2), 1), (Fraction(1, 2), 1)],
    [(Fraction(-1, 2), 1), (0, 1), (-1, Fraction(1, 3))],
]


@in_one("ranges", RANGES)
@in_one("replace_one", [True, False])
def test_hulls_of_contributions_are_those_of_their_corners(
    ranges: list[tuple[Fraction, Fraction]], replace_one: bool
) -> None:
    """Every corner lies in the hull, every facet is reached, and the volume is the corners'."""
    exact = [(Fraction(low), Fraction(high)) for low, high in ranges]
    hull = contribution_hull(exact, replace=replace_one)
    assert hull is not None
    corners = list(itertools.product(*exact))
    moves = [*corners]
    if replace_one:
        moves += [
            tuple(a - b for a, b in zip(one, two, strict=True))
            for one in corners
            for two in corners
        ]
    assert max(hull.norm(move) for move in moves) == 1
    given = Polytope.from_vertices(moves)
    assert hull.log_volume == pytest.approx(given.log_volume, abs=0.03)
    for facet in given.normals:
        assert facet in hull.normals or tuple(-a for a in facet) in hull.normals


def test_needles_and_many_columns_are_left_to_the_cube() -> None:
    assert contribution_hull([(Fraction(99, 100), Fraction(1))] * 3, replace=False) is None
    assert contribution_hull([(Fraction(0), Fraction(1))] * 7, replace=False) is None
    assert contribution_hull([(Fraction(0), Fraction(1))], replace=False) is None


# Triangle inequalities


def reach_of(ball: CutBall, cut: Cut) -> float:
    """The largest value of a cut's form on differences of records, by a fine search."""
    joint_count = isinstance(ball.whole, JointMomentBall)
    grid = np.array(list(itertools.product(np.linspace(-1, 1, 41), repeat=3)))
    parts = [np.ones(len(grid))] if joint_count else []
    parts += list(grid.T)
    for j, k in ball.whole.pairs:
        square = 2 * grid[:, j] ** 2 - joint_count
        parts.append(square if j == k else grid[:, j] * grid[:, k])
    values = sum(factor * parts[i] for i, factor in cut.terms)
    assert isinstance(values, np.ndarray)
    return float(np.abs(values).max() if joint_count else values.max() - values.min())


@pytest.mark.parametrize(
    "name", [name for name, ball in BALLS.items() if isinstance(ball, CutBall)]
)
def test_every_cut_is_reached_and_never_passed(name: str) -> None:
    """A bound any smaller would cut the hull, and with it the privacy of the mechanism."""
    ball = BALLS[name]
    assert isinstance(ball, CutBall)
    assert len(ball.cuts) >= 12
    for cut in ball.cuts:
        assert reach_of(ball, cut) == pytest.approx(cut.bound)


@pytest.mark.parametrize(
    ("columns", "kept", "mean_std", "main", "products"),
    [(2, 0.80, 0.95, 1.03, 0.80), (3, 0.50, 0.91, 1.05, 0.79), (5, 0.09, 0.86, 1.08, 0.78)],
)
def test_what_the_cuts_save_is_as_documented(
    columns: int, kept: float, mean_std: float, main: float, products: float
) -> None:
    whole = moments(columns)
    ball = replace_one_ball(whole)
    assert isinstance(ball, CutBall)
    assert ball.kept == pytest.approx(kept, abs=0.01)
    assert ball.log_volume == pytest.approx(whole.log_volume + math.log(ball.kept))
    cut, before = (np.array([law.std for law in b.laws(1.0)]) for b in (ball, whole))
    ratio = cut / before
    cross = [columns + at for at, (j, k) in enumerate(whole.pairs) if j != k]
    assert math.sqrt((cut**2).mean() / (before**2).mean()) == pytest.approx(mean_std, abs=0.01)
    assert ratio[:columns].mean() == pytest.approx(main, abs=0.015)
    assert ratio[cross].mean() == pytest.approx(products, abs=0.015)


@pytest.mark.wide
def test_a_smaller_ball_may_spread_one_coordinate_more() -> None:
    """Theorem 4.5 speaks of the noise given its direction, not of a coordinate by itself."""
    whole = moments(5)
    ball = replace_one_ball(whole)
    randomness = seeded_randomness(8)
    for _ in range(20):
        point = [int(1e6 * float(u)) for u in ball.point(randomness).enclose(64)]
        assert whole.contains(point, 10**6 + 2)
    assert ball.laws(1.0)[0].std > 1.04 * whole.laws(1.0)[0].std


def test_where_no_cut_pays_the_ball_stays() -> None:
    for whole in (moments(1), moments(6)):
        assert replace_one_ball(whole) is whole
    for other in (joint(1, cross=False), joint(3, cross=False), joint(6, cross=True)):
        assert add_remove_ball(other) is other


# Draws


def small_law(
    ball: NormBall, steps: int, rate: Fraction, reach: int
) -> dict[tuple[int, ...], float]:
    """Masses ``exp(-rate ceil(||v||))`` on a cube of lattice points."""
    points = itertools.product(range(-reach, reach + 1), repeat=ball.dimension)
    return {v: math.exp(-float(rate) * rings(ball, v, steps)) for v in points}


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("ball", "steps", "rate", "reach"),
    [
        (K2, 1, Fraction(1), 30),
        pytest.param(K2, 3, Fraction(3, 2), 64, marks=pytest.mark.wide),
        (K3, 1, Fraction(3, 2), 16),
        (joint(1, cross=False), 2, Fraction(3, 2), 18),
        (HistogramBall(2, filtered=True), 1, Fraction(1, 2), 40),
        (CountedBall(Cube(1), SUMS, hull=True), 1, Fraction(1), 30),
    ],
)
def test_draws_have_the_exact_small_law(
    ball: NormBall, steps: int, rate: Fraction, reach: int
) -> None:
    """Every lattice point's mass, ordered by its norm and place; twins at other rates fail."""
    weights = small_law(ball, steps, rate, reach)
    order = {v: i for i, v in enumerate(sorted(weights, key=lambda v: (rings(ball, v, steps), v)))}
    law = Law.discrete(list(order.values()), [weights[v] for v in order])
    twins = [
        Law.discrete(list(order.values()), [weights[v] ** factor for v in order])
        for factor in (0.7, 1.3)
    ]
    needed = draws_needed(min(law.gap(twin, list(order.values())) for twin in twins))
    randomness = seeded_randomness(8)
    draws = [tuple(ball.draw(randomness, steps=steps, rate=rate)) for _ in range(needed)]
    assert sum(v not in order for v in draws) <= needed * 1e-3
    check_draws([order[v] for v in draws if v in order], law, twins=twins)


@pytest.mark.wide
@pytest.mark.statistical
def test_small_radii_are_exact_where_counting_would_not_be() -> None:
    """A radius r is as likely as the r-ball has lattice points, though its slices vary."""
    ball, rate = SecondMomentBall(effects=2, pairs=((0, 0), (0, 1))), Fraction(2)
    randomness = seeded_randomness(3)
    draws = [rings(ball, ball.draw(randomness, steps=1, rate=rate)) for _ in range(1200)]
    counts = [0] * 3
    for v in itertools.product(range(-4, 5), repeat=4):
        ring = rings(ball, v)
        if ring < 3:
            counts[ring] += 1
    for r in (0, 1):
        expected = math.exp(2) * counts[r] / counts[r + 1]
        seen = draws.count(r), draws.count(r + 1)
        share, drawn = expected / (1 + expected), sum(seen)
        assert drawn > 60
        assert abs(seen[0] / drawn - share) < 6 * math.sqrt(share * (1 - share) / drawn)


@pytest.mark.statistical
@pytest.mark.parametrize("name", SMOOTH)
def test_laws_describe_the_draws(name: str) -> None:
    ball, steps, rate = SMOOTH[name], 1 << 12, Fraction(1, 64)
    randomness = seeded_randomness(4)
    draws = np.array([ball.draw(randomness, steps=steps, rate=rate) for _ in range(1500)])
    draws = draws / (64 * steps)
    whole = getattr(ball, "whole", ball)
    if isinstance(whole, JointMomentBall):
        square = 1 + whole.effects
        found = np.corrcoef(draws[:, 0], draws[:, square])[0, 1]
        assert found == pytest.approx(ball.correlation(square, 0), abs=0.13)
        assert ball.correlation(0, 1) == 0.0
    for law, column in zip(ball.laws(1.0), draws.T, strict=True):
        assert np.sqrt(np.mean(column**2)) == pytest.approx(law.std, rel=0.12)
        assert np.mean(np.abs(column) > law.half_width_95) == pytest.approx(0.05, abs=0.03)
        assert abs(column.mean()) < 6 * law.std / math.sqrt(len(column))


@pytest.mark.parametrize("name", BALLS)
def test_simulations_have_the_stated_laws(name: str) -> None:
    ball = BALLS[name]
    simulated = simulate(ball, ball.dimension, 12_000, seed=b"x")
    coarse = 1 if isinstance(ball, SmoothBall) else 0.01
    for law, column in zip(ball.laws(coarse), simulated.T, strict=True):
        assert np.sqrt(np.mean(column**2)) == pytest.approx(law.std * coarse, rel=0.05)
    assert not np.array_equal(simulated[:9], simulate(ball, ball.dimension, 9, seed=b"y"))


@pytest.mark.parametrize("ball", [moments(3), joint(3, cross=False), joint(3, cross=True)])
def test_a_simulation_is_the_same_once_its_proposals_are_remembered(ball: SmoothBall) -> None:
    first = simulate(ball, ball.dimension, 50, seed=b"x")
    propose.cache_clear()
    assert np.array_equal(first, simulate(ball, ball.dimension, 50, seed=b"x"))
    assert np.array_equal(first, simulate(ball, ball.dimension, 50, seed=b"x"))
    assert not any(kept.flags.writeable for kept in propose(3))


def test_points_lie_on_the_ball_and_refine() -> None:
    randomness = seeded_randomness(6)
    for ball in SMOOTH.values():
        point = ball.point(randomness)
        coarse, fine = point.enclose(40), point.enclose(400)
        with working_precision(500):
            assert all(a.contains(b) for a, b in zip(coarse, fine, strict=True))
            size = 1 << 60
            rounded = [int((entry * arb(size)).floor().unique_fmpz()) for entry in fine]
        assert ball.contains(rounded, size + 4)


def test_unlikely_proposals_are_decided_in_balls(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no margin for floats to decide in, ball arithmetic alone gives the same decisions."""
    module = "mechanisms.samplers.main_effects._MARGIN"

    def decisions() -> list[bool]:
        proposals = (Proposal(moments(4), seeded_randomness(s)) for s in range(400))
        return [proposal.kept() for proposal in proposals]

    with_floats = decisions()
    monkeypatch.setattr(module, 2.0)
    assert decisions() == with_floats
    assert 100 < sum(with_floats) < 300


# What is said of them


@pytest.mark.parametrize(("effects", "kept"), [(1, 5 / 6), (2, 0.70), (5, 0.45), (12, 0.19)])
def test_kept_shares_are_as_documented(effects: int, kept: float) -> None:
    assert 1 / moments(effects).expected_tries == pytest.approx(kept, abs=0.01)


def test_the_ball_of_a_count_and_a_sum_is_their_hull() -> None:
    """Its corners are a record added at a bound, and one replaced from bound to bound."""
    hull = Polytope.from_vertices(
        [(Fraction(1), Fraction(s)) for s in (-1, 1)] + [(Fraction(0), Fraction(2))]
    )
    ball = CountedBall(Cube(1), SUMS, hull=True)
    assert math.exp(ball.log_volume) == pytest.approx(6)
    assert hull.log_volume == pytest.approx(ball.log_volume, abs=0.03)
    for point in itertools.product(range(-5, 6), repeat=2):
        assert ball.contains(point, 3) == hull.contains(point, 3)


@pytest.mark.parametrize("name", ["counted sums", "counted, 1 column", "counted, a regression"])
def test_no_wider_taper_would_hold_a_record_that_comes(name: str) -> None:
    """With c larger by a part in fifty the ball would lose a record on its bounds."""
    ball = BALLS[name]
    assert isinstance(ball, CountedBall)
    added = [64 * 64] * ball.dimension  # a record on its upper bounds, every product of it one
    assert ball.contains(added, 64 * 64)
    wider = CountedBall(ball.part, ball.taper * Fraction(51, 50), hull=False)
    assert not wider.contains(added, 64 * 64)


def test_volumes() -> None:
    """K_2: 40/3 of 16; K_3: 160/3 of 64; the difference body of a simplex: C(2c, c)/c!."""
    assert math.exp(K2.log_volume) == pytest.approx(40 / 3, rel=1e-3)
    assert math.exp(K3.log_volume) == pytest.approx(160 / 3, rel=2e-3)
    assert math.exp(HistogramBall(2, filtered=True).log_volume) == pytest.approx(3)
    assert HistogramBall(2, filtered=False).log_volume == -math.inf
    assert math.exp(joint(1, cross=False).log_volume) == pytest.approx(56 / 9, rel=1e-3)
    pair = JointMomentBall(effects=2, pairs=((0, 1),))
    assert math.exp(pair.log_volume) == pytest.approx(32 / 3, rel=1e-2)
    stacked = BALLS["stacked"]
    assert stacked.log_volume == pytest.approx(2 * K2.log_volume + K3.log_volume)


def test_moments_of_k_2_are_the_integrals() -> None:
    """E[u1^2] = 0.98 and E[u2^2] = 204/175 over K_2; sqrt(12 E) is the standard deviation."""
    main, square = K2.laws(1.0)
    assert main.std == pytest.approx(math.sqrt(12 * 0.98), rel=1e-3)
    assert square.std == pytest.approx(math.sqrt(12 * 204 / 175), rel=1e-3)


@pytest.mark.parametrize(("rows", "replaced"), [(9, True), (None, False), (None, True)])
@pytest.mark.parametrize("columns", [2, 5])
@pytest.mark.parametrize("cross", [True, False])
def test_the_ball_is_advised_and_lies_inside_the_others(
    columns: int, cross: bool, rows: int | None, replaced: bool
) -> None:
    """Theorem 4.5: inside l1, l2 and linf of their sensitivities, at sampled points of the ball."""
    names = tuple("abcde"[:columns])
    space = Layout(names, cross=cross, rows=rows, replaced=replaced).space()
    advice = advise(space)
    assert advice.norm == "optimal"
    assert "Theorem 4.5" in advice.reason
    ball = space.norm_ball
    assert isinstance(ball, SmoothBall)
    assert ball.expected_tries < MOST_TRIES
    own = next(row for row in advice.comparisons if row.norm == "optimal")
    assert all(own.volume_index <= row.volume_index for row in advice.comparisons)
    assert all(own.std <= row.std * 1.001 for row in advice.comparisons)
    randomness = seeded_randomness(2)
    for _ in range(50):
        u = [float(entry) for entry in ball.point(randomness).enclose(64)]
        assert sum(map(abs, u)) <= space.l1
        assert sum(x * x for x in u) <= space.l2_squared
        assert max(map(abs, u)) <= space.linf


def test_a_hull_that_would_take_too_long_is_refused_with_the_next_best_norm() -> None:
    class Slow(SecondMomentBall):
        @property
        def expected_tries(self) -> float:
            return 2 * MOST_TRIES

    space = Layout(("a", "b"), cross=True, rows=9).space()
    slow = replace(space, norm_ball=Slow(effects=2, pairs=((0, 0), (0, 1), (1, 1))))
    assert "optimal" in offered_norms(space)
    assert "optimal" not in offered_norms(slow)
    assert advise(slow).norm == "linf"
    with pytest.raises(
        InvalidStatisticError, match=r"about 2e.06 tries; the next best norm is linf"
    ):
        ball_of(slow, "optimal")


@pytest.mark.wide
def test_sixty_four_columns_are_drawn() -> None:
    ball = moments(64)
    assert ball.expected_tries < 300
    drawn = ball.draw(seeded_randomness(1), steps=1 << 26, rate=Fraction(1, 1 << 14))
    assert len(drawn) == 64 + 64 * 65 // 2


def test_the_sampler_needs_no_symmetric_rounding() -> None:
    """The one-dimensional ball [-1, 1]: the discrete Laplace law, by points."""

    class Line:
        def __init__(self, uniform: Callable[[int], arb]) -> None:
            self._uniform = uniform

        def enclose(self, bits: int) -> list[arb]:
            return [2 * self._uniform(bits) - 1]

    randomness = seeded_randomness(12)
    draws = [
        draw_from_points(
            randomness,
            1,
            point=lambda source: Line(source.uniform().enclose),
            contains=lambda v, size: abs(v[0]) <= size,
            steps=1,
            rate=Fraction(1, 2),
        )[0]
        for _ in range(4000)
    ]
    support = range(-60, 61)
    law = Law.discrete(list(support), [math.exp(-abs(v) / 2) for v in support])
    assert law.distance(draws) < math.sqrt(math.log(2e9) / 8000)
