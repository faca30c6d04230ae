"""The functional mechanism: exact moments, known noise, least squares made of them."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Noise, Plan
from mechanisms.domain import CODE_MAX, SUM_MAX, CategoryColumn, NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.functional.linear import FunctionalDraw, coordinate_noise
from mechanisms.functional.moments import regression_moments
from mechanisms.functional.sanitized import CoordinateNoise, Rule, james_stein, shrunk, solve
from mechanisms.geometry.laws import hashed_uniforms, simulate
from mechanisms.geometry.smooth import BALLS, Ball
from mechanisms.knorm import IntegerNoise, ball_of
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.second_order import Jet
from mechanisms.testing import (
    Law,
    audit_epsilon,
    check_draws,
    neighbours,
    record_replay,
    seeded_randomness,
)
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
COLUMNS = {
    "x": NumberColumn(Fraction(0), Fraction(10)),
    "z": NumberColumn(Fraction(-2), Fraction(5)),
    "owner": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "y": NumberColumn(Fraction(-10), Fraction(40)),
    "region": CategoryColumn(("north", "south")),
}
FLOATS = NDArray[np.float64]


def schema(adjacency: Adjacency, rows: int) -> Schema:
    return Schema(COLUMNS, adjacency, rows if adjacency is REPLACE else None, max_rows=100_000)


def sample(rows: int, seed: int = 1) -> dict[str, FLOATS]:
    generator = np.random.default_rng(seed)
    x, z = generator.uniform(0, 10, rows), generator.uniform(-2, 5, rows)
    owner = generator.integers(0, 2, rows).astype(float)
    y = 2 + 1.5 * x - 2 * z + 3 * owner + generator.normal(0, 1, rows)
    return {"x": x, "z": z, "owner": owner, "y": y, "region": np.zeros(rows)}


def data_of(made: Schema, values: dict[str, FLOATS]) -> ArrayData:
    rows = len(values["x"])
    return ArrayData.from_values(
        made, {**{name: list(values[name]) for name in COLUMNS}, "region": ["north"] * rows}
    )


def question(**changes: object) -> LinearRegression:
    fields = {"target": "y", "features": ("x", "z", "owner"), **changes}
    return LinearRegression(**fields)  # type: ignore[arg-type]


def plan_of(statistic: LinearRegression, made: Schema, epsilon: str, norm: str = "auto") -> Plan:
    return calibrate(statistic, made, Epsilon.parse(epsilon), mechanism="functional", norm=norm)


def drawn_of(plan: Plan) -> FunctionalDraw:
    assert isinstance(plan.draw, FunctionalDraw)
    return plan.draw


CASES = list(itertools.product((REPLACE, ADD), (True, False)))


# Sensitivity and the law


def size(difference: Sequence[Fraction], ball: Ball) -> Fraction:
    """The norm, squared for l2."""
    sizes = [abs(x) for x in difference]
    if ball == "l2":
        return sum((x * x for x in sizes), Fraction(0))
    return max(sizes) if ball == "linf" else sum(sizes, Fraction(0))


@pytest.mark.parametrize(("adjacency", "intercept"), CASES)
@pytest.mark.parametrize("features", [(), ("x",), ("x", "z", "owner")])
def test_the_sensitivity_is_never_exceeded_and_reached_where_exact(
    adjacency: Adjacency, intercept: bool, features: tuple[str, ...]
) -> None:
    if not features and not intercept:
        return
    made = schema(adjacency, 3)
    statistic = question(features=features, intercept=intercept)
    moments = regression_moments(statistic.scaling(made), made)
    for ball in BALLS:
        stated = moments.space.squared(ball) * moments.space.unit**2
        square = 1 if ball == "l2" else 2
        replay = record_replay(
            moments.total,
            schema=made,
            norm=lambda d, ball=ball, square=square: size(d, ball) ** square,  # type: ignore[misc]
            rows=3,
            trials=500,
        )
        assert replay.largest <= stated
        if ball not in moments.space.bounds_only:
            assert replay.largest >= Fraction(98, 100) * stated


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("features", [(), ("x",), ("x", "z", "owner")])
def test_differences_lie_in_the_optimal_ball_and_reach_its_surface(
    adjacency: Adjacency, features: tuple[str, ...]
) -> None:
    """Exact integers, random and extreme neighbours: Delta_K = 1, and no less."""
    made = schema(adjacency, 3)
    moments = regression_moments(question(features=features).scaling(made), made)
    ball = ball_of(moments.space, "optimal")
    reached = False

    def inside(difference: Sequence[int], size: int) -> bool:
        if isinstance(ball, str):  # the count and one sum: their hull is the cube
            assert (ball, moments.space.hull) == ("linf", "cube")
            return max(map(abs, difference)) <= size
        assert ball.dimension == moments.space.dimension
        return ball.contains(difference, size)

    for here, there in neighbours(made, rows=3, trials=400, seed=6):
        totals = zip(moments.total(here), moments.total(there), strict=True)
        difference = [a - b for a, b in totals]
        assert inside(difference, moments.space.unit)
        reached |= not inside(difference, moments.space.unit * 99 // 100)
    assert reached


def test_the_vector_is_the_paper_s() -> None:
    """m = floor((p+1)(p+2)/2 - 1) + p + 1 under replace-one, and no square of the target."""
    made = replace(schema(REPLACE, 3), columns={**COLUMNS, "more": COLUMNS["x"]})
    for p in range(4):
        names = ("x", "z", "more")[:p]
        statistic = question(features=names)
        space = regression_moments(statistic.scaling(made), made).space
        assert space.dimension == (p + 1) * (p + 2) // 2 - 1 + p + 1
        assert space.linf == 2
    assert (space.text("l1"), space.text("l2")) == (
        "at most 22",
        "at most sqrt(3*(71+8*sqrt(2))/16+28)",
    )


def test_nonnegative_columns_without_an_intercept_reach_their_cube_s_corner() -> None:
    made = schema(REPLACE, 3)
    exact = question(features=("x",), target="owner", intercept=False)
    assert not regression_moments(exact.scaling(made), made).space.bounds_only
    mixed = question(features=("x",), intercept=False)
    assert regression_moments(mixed.scaling(made), made).space.bounds_only == {"l1", "l2"}


@pytest.mark.parametrize(("adjacency", "intercept"), CASES)
@pytest.mark.parametrize("epsilon", ["0.000000001", "0.3", "10000"])
def test_the_loss_never_exceeds_epsilon(
    adjacency: Adjacency, intercept: bool, epsilon: str
) -> None:
    """The log ratio of the noise's mass at v + u and v is at most rate ||u||: exact rationals."""
    made, eps = schema(adjacency, 3), Epsilon.parse(epsilon).fraction
    for norm in BALLS:
        drawn = drawn_of(plan_of(question(intercept=intercept), made, epsilon, norm))
        noise, total, largest = drawn.noise, drawn.moments.total, Fraction(0)
        for here, there in neighbours(made, rows=3, trials=200, seed=5):
            u = [Fraction(a - b) for a, b in zip(total(here), total(there), strict=True)]
            scaled = noise.refinement ** (2 if norm == "l2" else 1)
            rate = noise.rate_squared if norm == "l2" else noise.rate
            largest = max(largest, rate * size(u, norm) * scaled)
        assert largest <= (eps**2 if norm == "l2" else eps)
        assert largest >= (eps**2 if norm == "l2" else eps) / 4


def coordinate_law(ball: Ball, dimension: int, scale: float) -> Law:
    """The law of the size of one coordinate of continuous K-norm noise at rate 1 / scale."""

    def at(x: FLOATS) -> FLOATS:
        t, m = x / scale, dimension
        # l_inf: V = r U, so P(|V| > t) = E (1 - t / r)+ with r ~ Gamma(m + 1)
        cube = gammaincc(m + 1, t) - t / m * gammaincc(m, t)
        beyond = np.exp(-t) if ball == "l1" else cube
        return 1 - beyond

    return Law.continuous(at)


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("norm", ["l1", "linf"])
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_the_moments_have_the_stated_noise(norm: Ball, adjacency: Adjacency) -> None:
    made = schema(adjacency, 50)
    drawn = drawn_of(plan_of(question(features=("x",)), made, "0.7", norm))
    data, randomness = data_of(made, sample(50)), seeded_randomness(3)
    exact = drawn.moments.total(data)
    fixed = replace(drawn, moments=replace(drawn.moments, total=lambda _: exact))
    draws = [
        [float(a - b) for a, b in zip(fixed.coordinates(data, randomness), exact, strict=True)]
        for _ in range(6_000)
    ]
    scale = 1 / float(drawn.noise.rate * drawn.noise.refinement)
    law, *twins = (coordinate_law(norm, len(exact), scale * factor) for factor in (1, 0.7, 1.3))
    for place in (0, len(exact) - 1):
        check_draws([abs(draw[place]) for draw in draws], law, twins=twins)


@pytest.mark.statistical
@pytest.mark.parametrize("ball", BALLS)
def test_the_simulated_noise_is_the_drawn_one(ball: Ball) -> None:
    """What the bootstrap simulates has the law that is drawn, radius and coordinates."""
    m, count = 5, 8_000
    vectors = simulate(ball, m, count, seed=b"a release")
    if ball != "l2":
        law, *twins = (coordinate_law(ball, m, factor) for factor in (1, 0.7, 1.3))
        check_draws(np.abs(vectors[:, 1]), law, twins=twins)
    order = {"l1": 1, "l2": 2, "linf": np.inf}[ball]
    norms = np.linalg.norm(vectors, order, axis=1)
    shape = {"l1": m, "l2": m, "linf": m}[ball]
    check_draws(
        norms,
        Law.continuous(lambda x: gammainc(shape, x)),
        twins=[Law.continuous(lambda x, f=f: gammainc(shape, x / f)) for f in (0.7, 1.3)],  # type: ignore[misc]
    )
    assert np.array_equal(vectors, simulate(ball, m, count, seed=b"a release"))
    assert not np.array_equal(vectors, simulate(ball, m, count, seed=b"another"))
    assert np.unique(hashed_uniforms(b"x", 1000)).size == 1000


# The black box


def pair(adjacency: Adjacency) -> Iterator[ArrayData]:
    """Six records of x = y = 0 in scaled terms, and one at the corner that may move or go."""
    codes = {name: np.zeros(6, dtype=np.int32) for name in COLUMNS}
    top = {name: np.full(1, CODE_MAX, dtype=np.int32) for name in ("x", "z", "owner", "y")}
    low = {name: -column for name, column in top.items()}
    for last in (top, low if adjacency is REPLACE else None):
        if last is None:
            yield ArrayData(columns=COLUMNS, codes=codes)
            continue
        joined = {
            name: np.concatenate([codes[name], last.get(name, np.zeros(1, dtype=np.int32))])
            for name in COLUMNS
        }
        yield ArrayData(columns=COLUMNS, codes=joined)


def audited(drawn: FunctionalDraw, adjacency: Adjacency, count: int) -> float:
    """A lower bound on epsilon from the sanitized moments, in units of their sensitivity."""
    randomness = seeded_randomness(17)
    unit = drawn.moments.space.unit * float(drawn.moments.space.linf)
    totals = [drawn.moments.total(data) for data in pair(adjacency)]
    samples = [
        [
            [
                (t - o + v / drawn.noise.refinement) / unit
                for t, o, v in zip(total, totals[1], drawn.noise.draw(randomness), strict=True)
            ]
            for _ in range(count)
        ]
        for total in totals
    ]
    events = {}
    for cut in (0.0, 0.5, 1.0, 2.0):
        events[f"all above {cut}"] = lambda v, cut=cut: min(v) > cut
        events[f"one above {cut}"] = lambda v, cut=cut: max(v) > cut
        events[f"sum above {cut}"] = lambda v, cut=cut: sum(v) > cut * len(v)
    return audit_epsilon(*samples, events).epsilon


@pytest.mark.statistical
@pytest.mark.parametrize(("adjacency", "intercept"), CASES)
def test_the_auditor_finds_no_more_than_epsilon(adjacency: Adjacency, intercept: bool) -> None:
    """By l_inf and K_T; and flags the same draw with a quarter of the sensitivity."""
    made = schema(adjacency, 7)
    statistic = question(features=("x",), target="owner", intercept=intercept)
    assert audited(drawn_of(plan_of(statistic, made, "1", "auto")), adjacency, 600) <= 1
    drawn = drawn_of(plan_of(statistic, made, "1", "linf"))
    assert audited(drawn, adjacency, 2_500) <= 1
    halved = replace(drawn.moments.space, linf=drawn.moments.space.linf / 4)
    wrong = replace(drawn, noise=IntegerNoise.calibrated(halved, "linf", Fraction(1)))
    assert audited(wrong, adjacency, 2_500) > 1


# Least squares


def least_squares(values: dict[str, FLOATS], statistic: LinearRegression) -> FLOATS:
    columns = [np.clip(values[name], *ends(name)) for name in statistic.features]
    if statistic.intercept:
        columns = [np.ones(len(values["x"])), *columns]
    target = np.clip(values[statistic.target], *ends(statistic.target))
    return np.linalg.lstsq(np.column_stack(columns), target, rcond=None)[0]


def ends(name: str) -> tuple[float, float]:
    column = COLUMNS[name]
    assert isinstance(column, NumberColumn)
    return float(column.lower), float(column.upper)


@pytest.mark.parametrize("norm", ["auto", "l1", "l2", "linf", "optimal"])
@pytest.mark.parametrize("ridge", [None, 0.0])
@pytest.mark.parametrize(("adjacency", "intercept"), CASES)
def test_at_large_epsilon_it_is_numpy_s_least_squares(
    adjacency: Adjacency, intercept: bool, ridge: float | None, norm: str
) -> None:
    if norm == "optimal" and not intercept:
        return  # refused, below
    made, values = schema(adjacency, 400), sample(400)
    statistic = question(intercept=intercept, ridge=ridge)
    plan = plan_of(statistic, made, "10000", norm)
    outcome = plan.draw(data_of(made, values), seeded_randomness(2))
    found = outcome.value["coefficients"]
    assert list(found) == (["(intercept)"] if intercept else []) + ["x", "z", "owner"]  # type: ignore[call-overload]
    got = np.array(list(found.values()))  # type: ignore[attr-defined]
    assert got == pytest.approx(least_squares(values, statistic), abs=0.02)


def test_the_ridge_is_half_the_penalty_in_scaled_units() -> None:
    """Against the normal equations written out; 0 is the pseudoinverse."""
    made, values = schema(REPLACE, 200), sample(200)
    for intercept, ridge in itertools.product((True, False), (0.0, 300.0)):
        statistic = question(intercept=intercept, ridge=ridge)
        drawn = drawn_of(plan_of(statistic, made, "3"))
        coordinates = drawn.coordinates(data_of(made, values), seeded_randomness(8))
        sanitized = drawn.moments.equations(coordinates)
        xx = np.zeros((sanitized.dimension,) * 2)
        for (i, j), jet in sanitized.xx.items():
            xx[i, j] = xx[j, i] = float(jet.value)
        xy = np.array([float(jet.value) for jet in sanitized.xy])
        theta = np.linalg.pinv(xx + ridge / 2 * np.eye(len(xy))) @ xy
        outcome = drawn(data_of(made, values), seeded_randomness(8))
        expected = drawn.scaling.unscale([Fraction(float(t)) for t in theta])
        for name, value in expected.items():
            assert outcome.value["coefficients"][name] == pytest.approx(float(value), rel=1e-8)  # type: ignore[index]


def test_the_rules_on_known_matrices() -> None:
    xx = np.array([np.diag([10.0, 0.0]), np.diag([10.0, -5.0]), np.zeros((2, 2))])
    xy = np.array([[5.0, 1.0]] * 3)
    wide = Fraction(10**6)
    pinv = solve(xx, xy, Rule(ridge=Fraction(0), bound=wide), 2.0)
    assert pinv == pytest.approx(np.array([[0.5, 0], [0.5, -0.2], [0, 0]]))
    floor = solve(xx, xy, Rule(ridge=None, bound=wide), 2.0)
    assert floor == pytest.approx(np.array([[0.5, 0.5], [0.5, 0.5], [2.5, 0.5]]))
    ridge = solve(xx, xy, Rule(ridge=Fraction(4), bound=wide), 2.0)
    assert ridge == pytest.approx(np.array([[5 / 12, 0.5], [5 / 12, -1 / 3], [2.5, 0.5]]))
    bounded = solve(xx, xy, Rule(ridge=None, bound=Fraction(1, 2)), 2.0)
    assert bounded == pytest.approx(np.array([[0.25, 0.25], [0.25, 0.25], [5 / 12, 1 / 12]]))


def test_blocks_of_like_noise_are_shrunk_each_by_its_factor() -> None:
    def factors(squares: list[float], stds: list[float]) -> list[float]:
        return james_stein(np.array(squares), np.array(stds)).tolist()  # type: ignore[no-any-return]

    # a = 4 * 4 - 2 * 4 = 8, of which twice is taken from 40
    assert factors([10.0] * 4, [2.0] * 4) == pytest.approx([0.6] * 4)
    assert factors([1.0, 40.0], [2.0, 2.0]) == [1, 1]
    assert factors([1.0] * 3, [3.0, 1.1, 1.1]) == [1, 1, 1]
    # noise 10 times as large is another block, and takes nothing along
    apart = factors([50.0] * 4 + [100.0] * 4, [10.0] * 4 + [1.0] * 4)
    assert apart == pytest.approx([0.0] * 4 + [0.99] * 4)
    assert factors([0.0] * 4, [1.0] * 4) == [0.0] * 4


def test_shrinkage_adds_no_squared_error_wherever_the_truth_is() -> None:
    """Along the noisiest direction, the worst; the control forgets to subtract its variance."""
    rng, stds = np.random.default_rng(11), np.array([3.0, 2.5, 2.0, 1.5, 1.2, 1.0])
    own, control = [], []
    for size in (0.0, 2.0, 4.0, 7.0, 12.0):
        truth = np.array([size, 0, 0, 0, 0, 0])
        z = truth + stds * rng.standard_normal((20_000, 6))
        unshrunk = ((z - truth) ** 2).sum(axis=1)
        factors = np.array([james_stein(row**2, stds) for row in z])
        wrong = np.maximum(0, 1 - 2 * np.sum(stds**2) / (z**2).sum(axis=1))[:, None]
        for found, factor in ((own, factors), (control, wrong)):
            more = ((factor * z - truth) ** 2).sum(axis=1) - unshrunk
            found.append(more.mean() / (more.std() / math.sqrt(len(more))))
    assert max(own) < 3  # standard errors
    assert own[0] < -50
    assert max(control) > 20


@pytest.mark.statistical
@pytest.mark.parametrize(("adjacency", "intercept"), CASES)
def test_the_noise_that_shrinkage_assumes_is_the_drawn_one(
    adjacency: Adjacency, intercept: bool
) -> None:
    """Covariances of X'y: those of features off centre too, which read the target's sum."""
    made = schema(adjacency, 50)
    drawn = drawn_of(plan_of(question(intercept=intercept), made, "1"))
    sanitized = drawn.moments.equations([Fraction(0)] * drawn.moments.space.dimension)
    noise = coordinate_noise(drawn.noise)
    root = sanitized.spread(noise)
    seen = np.cov(noise.simulate(sanitized.xy, seed=b"xy", replicates=20_000).T)
    sizes = np.sqrt(np.outer(np.diag(seen), np.diag(seen)))
    assert np.abs((root @ root.T - seen) / sizes).max() < 0.05


@pytest.mark.statistical
def test_coefficients_that_say_nothing_err_as_zeros_do() -> None:
    """Where unshrunk ones err more than twice as much; a ridge that is named is all there is."""
    columns = {f"c{place}": NumberColumn(Fraction(-1), Fraction(1)) for place in range(11)}
    made, rng = Schema(columns, REPLACE, 1000), np.random.default_rng(7)
    names = tuple(columns)[1:]
    plan = plan_of(LinearRegression(target="c0", features=names, loss="squared"), made, "1")
    drawn, bits = drawn_of(plan), seeded_randomness(5)
    errors = []
    for _ in range(20):
        features, slopes = rng.uniform(-1, 1, (1000, 10)), rng.standard_normal(10)
        slopes *= 0.5 / np.abs(slopes).sum()
        target = np.clip(features @ slopes + rng.normal(0, 0.1, 1000), -1, 1)
        rows = {"c0": target, **dict(zip(names, features.T, strict=True))}
        data = ArrayData.from_values(made, {name: list(each) for name, each in rows.items()})
        sanitized = drawn.moments.equations(drawn.coordinates(data, bits))
        noise = coordinate_noise(drawn.noise)
        xx, xy = sanitized.matrices(np.array([[float(jet.value) for jet in sanitized.jets()]]))
        facts: dict[str, Any] = {"edge": sanitized.noise_edge(noise)}
        theta = solve(xx, xy, drawn.rule, facts["edge"])[0]
        facts["spread"] = sanitized.spread(noise)
        kept = shrunk(theta, xx[0], drawn.rule, **facts)
        named = replace(drawn.rule, ridge=Fraction(4))
        assert (shrunk(theta, xx[0], named, **facts) == theta).all()
        truth = np.array([0, *slopes])
        errors.append([np.linalg.norm(each - truth) for each in (kept, theta, 0 * truth)])
    shrunken, unshrunk, zeros = np.median(errors, axis=0)
    assert shrunken <= 1.05 * zeros
    assert unshrunk > 2 * zeros


@pytest.mark.parametrize("epsilon", ["0.000000001", "1", "10000"])
@pytest.mark.parametrize("norm", ["auto", "l1", "l2", "linf"])
@pytest.mark.parametrize(("adjacency", "intercept"), CASES)
def test_every_data_set_has_an_answer(
    adjacency: Adjacency, intercept: bool, norm: str, epsilon: str
) -> None:
    """No rows, one, constant and repeated columns, n < d: finite JSON of one shape."""
    for rows, ridge in itertools.product((0, 1, 3) if adjacency is ADD else (1, 3), (None, 0.0)):
        made = schema(adjacency, rows)
        values = {name: np.full(rows, 0.0) for name in COLUMNS}
        statistic = question(intercept=intercept, ridge=ridge)
        plan = plan_of(statistic, made, epsilon, norm)
        outcome = plan.draw(data_of(made, values), system_randomness())
        assert outcome.noise is not None
        shown = [outcome.value, outcome.noise.std, outcome.noise.interval_95, plan.grid]
        json.dumps([*shown, plan.details, plan.reason], allow_nan=False)
        for name, value in outcome.value["coefficients"].items():  # type: ignore[attr-defined]
            low, high = outcome.noise.interval_95["coefficients"][name]  # type: ignore[index]
            assert low <= value <= high
        preview = plan.preview(10)
        assert preview is not None
        json.dumps([preview.std, preview.interval_95], allow_nan=False)
        assert (plan.preview(None) is None) == (adjacency is ADD)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_extreme_bounds_overflow_nothing(adjacency: Adjacency) -> None:
    tiny = Fraction(1, 10**100)
    columns = {
        "huge": NumberColumn(Fraction(-(10**100)), Fraction(10**100)),
        "narrow": NumberColumn(Fraction(10**100) - tiny, Fraction(10**100)),
        "small": NumberColumn(Fraction(0), tiny),
    }
    made = Schema(columns, adjacency, 2 if adjacency is REPLACE else None, max_rows=10)
    codes = {name: np.array([CODE_MAX, 5], dtype=np.int32) for name in columns}
    data = ArrayData(columns=columns, codes=codes)
    for target, intercept in itertools.product(columns, (True, False)):
        features = tuple(name for name in columns if name != target)
        statistic = LinearRegression(
            target=target, features=features, intercept=intercept, bound=1e6
        )
        for epsilon in ("0.000000001", "10000"):
            plan = plan_of(statistic, made, epsilon)
            outcome = plan.draw(data, system_randomness())
            assert outcome.noise is not None
            shown = [outcome.value, outcome.noise.std, outcome.noise.interval_95, plan.grid]
            json.dumps([*shown, plan.details], allow_nan=False)


@pytest.mark.wide
def test_the_largest_regression_is_drawn_in_bounded_time() -> None:
    columns = {f"c{i}": NumberColumn(Fraction(i % 5), Fraction(7 + i)) for i in range(66)}
    made = Schema(columns, REPLACE, 3)
    names = tuple(columns)
    codes = {name: np.zeros(3, dtype=np.int32) for name in names}
    for intercept, features in ((True, names[1:24]), (False, names[1:64])):
        statistic = LinearRegression(target="c0", features=features, intercept=intercept)
        outcome = plan_of(statistic, made, "1", "linf").draw(
            ArrayData(columns=columns, codes=codes), system_randomness()
        )
        assert outcome.settled().noise is not None
        assert len(outcome.value["coefficients"]) == len(features) + intercept  # type: ignore[arg-type]
    with pytest.raises(InvalidStatisticError, match="64 columns"):
        plan_of(LinearRegression(target="c0", features=names[1:65]), made, "1")


# The interval


def test_the_interval_is_a_function_of_sanitized_numbers() -> None:
    """The same sanitized moments, from other data: the same answer, to the last bit."""
    made = schema(ADD, 30)
    drawn = drawn_of(plan_of(question(), made, "1"))
    one = drawn.coordinates(data_of(made, sample(30)), seeded_randomness(1))
    fixed = replace(drawn.moments, total=lambda data: [int(c * 2**8) for c in one])
    still = replace(drawn, moments=fixed)
    answers = [still(data_of(made, sample(rows)), seeded_randomness(5)) for rows in (0, 10, 500)]
    assert answers[0] == answers[1] == answers[2]


def test_the_interval_is_worked_out_when_it_is_first_read(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = CoordinateNoise.simulate
    asked = []

    def counted(noise: CoordinateNoise, jets: Sequence[Jet], *, seed: bytes) -> Floats:
        asked.append(seed)
        return simulated(noise, jets, seed=seed)

    monkeypatch.setattr(CoordinateNoise, "simulate", counted)
    made = schema(REPLACE, 30)
    outcome = plan_of(question(), made, "1").draw(data_of(made, sample(30)), system_randomness())
    assert asked == []
    noise = outcome.noise
    assert noise is not None
    assert noise.std.keys() == noise.interval_95.keys()
    assert noise.expected_error is None
    assert len(asked) == 1
    travelled = pickle.loads(pickle.dumps(outcome))
    assert travelled == outcome.settled() == outcome.settled().settled()
    assert type(travelled.noise) is Noise
    assert noise.mapped(lambda part: part) == travelled.noise
    assert len(asked) == 1


def test_under_add_remove_the_noise_never_sees_the_row_count() -> None:
    made = schema(ADD, 0)
    for intercept in (True, False):
        drawn = drawn_of(plan_of(question(intercept=intercept), made, "0.7"))
        noises = []
        for rows in (0, 1, 400):
            data = data_of(made, sample(rows))
            noisy = drawn.coordinates(data, seeded_randomness(5))
            noises.append([a - b for a, b in zip(noisy, drawn.moments.total(data), strict=True)])
        assert noises[0] == noises[1] == noises[2]


@pytest.mark.statistical
@pytest.mark.parametrize("norm", ["l1", "auto"])
@pytest.mark.parametrize(("adjacency", "intercept"), CASES)
def test_the_interval_covers_the_answer_without_noise(
    adjacency: Adjacency, intercept: bool, norm: str
) -> None:
    """About 95%, where the data outweigh the noise; and no wider than it need be."""
    made, values = schema(adjacency, 3000), sample(3000)
    statistic, draws = question(intercept=intercept), 50
    plan = plan_of(statistic, made, "2", norm)
    exact, data = least_squares(values, statistic), data_of(made, values)
    randomness = seeded_randomness(23)
    covered, errors, stds = [], [], []
    for _ in range(draws):
        outcome = plan.draw(data, randomness)
        assert outcome.noise is not None
        got = np.array(list(outcome.value["coefficients"].values()))  # type: ignore[attr-defined]
        span = np.array(list(outcome.noise.interval_95["coefficients"].values()))  # type: ignore[attr-defined]
        covered.append((span[:, 0] <= exact) & (exact <= span[:, 1]))
        errors.append(got - exact)
        stds.append(list(outcome.noise.std["coefficients"].values()))  # type: ignore[attr-defined]
    assert np.mean(covered) > 0.85
    ratio = np.sqrt(np.mean(np.square(errors), axis=0)) / np.median(stds, axis=0)
    assert (ratio > 0.6).all()
    assert (ratio < 1.6).all()


@pytest.mark.statistical
@pytest.mark.parametrize(("adjacency", "intercept"), CASES)
@pytest.mark.parametrize("rows", [20, 400])
def test_the_interval_covers_where_noise_outweighs_the_data(
    rows: int, adjacency: Adjacency, intercept: bool
) -> None:
    """Against the same rule's answer without noise, which is what the interval aims at."""
    made, values = schema(adjacency, rows), sample(rows)
    draw = plan_of(question(intercept=intercept), made, "0.5").draw
    assert isinstance(draw, FunctionalDraw)
    data, randomness = data_of(made, values), seeded_randomness(29)
    true = draw.moments.equations([Fraction(entry) for entry in draw.moments.total(data)])
    entries = np.array([[float(jet.value) for jet in true.jets()]])
    edge = true.noise_edge(coordinate_noise(draw.noise))
    theta = solve(*true.matrices(entries), draw.rule, edge)[0]
    exact = draw.scaling.unscale([Fraction(float(entry)) for entry in theta])
    covered = []
    for _ in range(60):
        noise = draw(data, randomness).noise
        assert noise is not None
        spans: dict[str, list[float]] = noise.interval_95["coefficients"]  # type: ignore[assignment]
        covered.append([low <= exact[name] <= high for name, (low, high) in spans.items()])
    assert np.mean(covered, axis=0).min() > 0.8
    assert np.mean(covered) > 0.9


@pytest.mark.parametrize(("adjacency", "intercept"), CASES)
def test_a_preview_is_right_for_columns_spread_evenly(
    adjacency: Adjacency, intercept: bool
) -> None:
    made, generator = schema(adjacency, 20_000), np.random.default_rng(4)
    values = {
        name: generator.uniform(*ends(name), 20_000) if name != "region" else np.zeros(20_000)
        for name in COLUMNS
    }
    plan = plan_of(question(features=("x", "z"), intercept=intercept), made, "1")
    preview, outcome = plan.preview(20_000), plan.draw(data_of(made, values), seeded_randomness(1))
    assert preview is not None
    assert outcome.noise is not None
    for name, expected in outcome.noise.std["coefficients"].items():  # type: ignore[attr-defined]
        assert preview.std["coefficients"][name] == pytest.approx(expected, rel=0.25)  # type: ignore[index]
        low, high = preview.interval_95["coefficients"][name]  # type: ignore[index]
        assert low == -high


def test_refusals() -> None:
    made = schema(REPLACE, 5)
    with pytest.raises(InvalidStatisticError, match="offered here are l1, l2, linf"):
        plan_of(question(intercept=False), made, "1", "optimal")
    with pytest.raises(InvalidStatisticError, match="no rows"):
        plan_of(question(), schema(REPLACE, 0), "1")
    with pytest.raises(InvalidStatisticError, match="must be numbers"):
        plan_of(question(target="region"), made, "1")
    with pytest.raises(InvalidStatisticError, match="ridge must"):
        plan_of(question(ridge=-1.0), made, "1")


def test_what_a_plan_says() -> None:
    plan = plan_of(question(), schema(ADD, 0), "1")
    assert (plan.mechanism, plan.norm) == ("functional", "optimal")
    assert plan.guarantee.exact
    assert "section 6" in plan.guarantee.theorem
    assert {row.norm for row in plan.alternatives} == {"l1", "l2", "linf"}
    assert plan_of(question(intercept=False), schema(ADD, 0), "1").norm == "linf"
    assert plan.details["sanitized_moments"] == 4 + 1 + 3 + 6 - 1  # a boolean's square
    noise = coordinate_noise(drawn_of(plan).noise)
    spread = float(noise.stds[5] / SUM_MAX**2)
    assert plan.details["least_eigenvalue"] == pytest.approx(2 * spread * math.sqrt(4), rel=0.4)  # type: ignore[call-overload]
    assert "James-Stein" in str(plan.details["shrinkage"])
    ridge = plan_of(question(ridge=3.0), schema(ADD, 0), "1")
    assert ridge.details["least_eigenvalue"] is ridge.details["shrinkage"] is None


@in_one("norm", ["auto", "l1", "l2", "linf", "optimal"])
@in_one("adjacency", [REPLACE, ADD])
def test_an_intercept_alone_is_the_mean(adjacency: Adjacency, norm: str) -> None:
    made, values = schema(adjacency, 300), sample(300)
    statistic = question(features=(), intercept=True)
    plan = plan_of(statistic, made, "10000", norm)
    drawn = plan.draw(data_of(made, values), seeded_randomness(2)).value["coefficients"]
    assert drawn["(intercept)"] == pytest.approx(values["y"].mean(), abs=0.05)  # type: ignore[index]
    assert plan.preview(300) is not None
