"""Logistic regression by KNG: true bounds, exact law, sensitivity, draws, and its limits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import statsmodels.api as sm
from flint import arb
from numpy.typing import NDArray

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Plan
from mechanisms.domain import CODE_MAX, NumberColumn, Schema
from mechanisms.exact.rounding import working_precision
from mechanisms.kng.logistic import LogisticDraw
from mechanisms.objectives.gradient_norms import CubeNorm, NormName
from mechanisms.objectives.logistic_law.cells import cell_chords
from mechanisms.objectives.logistic_law.expansion import (
    SignedRecords,
    chords,
    exact_gradient,
    expand,
)
from mechanisms.objectives.logistic_law.held import LogisticLaw
from mechanisms.objectives.logistic_law.outside import growth_by_rows, risen_beyond
from mechanisms.objectives.logistic_law.sensitivity import Reach
from mechanisms.objectives.losses import records_changed
from mechanisms.objectives.rows import distinct_rows
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.samplers.boxes import Box, Cover
from mechanisms.samplers.boxes.faces import Patches, box_within, inner_faces, patches
from mechanisms.sketches import ArrayData
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.testing import (
    Law,
    audit_epsilon,
    check_draws,
    draws_needed,
    record_replay,
    seeded_randomness,
)
from tests.mechanisms.logistic_data import FLAG, UNIT, features, labelled, simulate

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
NORMS: tuple[NormName, ...] = ("linf", "l2", "l1")
GRID_BITS, RADIUS = 1, 5
Floats = NDArray[np.float64]
Signed = tuple[int, ...]  # a signed row (1 - 2 y) x in quarters


def build(
    rows: Sequence[Signed], *, grid_bits: int = GRID_BITS, radius: int = RADIUS
) -> SignedRecords:
    codes = np.array(rows, dtype=np.int64).reshape(len(rows), -1) * (CODE_MAX // 4)
    return SignedRecords.build(*distinct_rows(codes), grid_bits=grid_bits, radius=radius)


def ball(dimension: int, radius: int = RADIUS) -> list[tuple[int, ...]]:
    every = itertools.product(range(-radius, radius + 1), repeat=dimension)
    return [point for point in every if sum(map(abs, point)) <= radius]


def sigma(t: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-t)))


def gradient_at(zeta: Floats, theta: Floats) -> Floats:
    """Return g at rows of theta (m x d), from its definition."""
    return np.asarray(sigma(theta @ zeta.T) @ zeta)


def norm_of(name: NormName, vectors: Floats) -> Floats:
    """Return the plain norms of rows."""
    return np.asarray(np.linalg.norm(vectors, ord={"linf": np.inf, "l2": 2, "l1": 1}[name], axis=1))


def exponent_at(zeta: Floats, theta: Floats, name: NormName, rate: float) -> Floats:
    """Return rate N(g) / sigma(||theta||_1) at rows of theta, N at most 1 on the cube."""
    cube = norm_of(name, np.ones((1, zeta.shape[1])))[0]
    norms = norm_of(name, gradient_at(zeta, theta)) / cube
    return np.asarray(rate * norms / sigma(np.abs(theta).sum(axis=1)))


LINE = [(4, -4), (4, -1), (-4, -2), (4, 4), (4, 4), (-4, 0), (-4, -3)]
FLAT = [(4,), (-1,), (-1,), (3,), (-4,)]
SPACE = [(4, -2, 1), (-4, 1, 4), (4, 2, 2), (-4, 4, -1), (4, 3, 3)]
CASES = {"line": LINE, "flat": FLAT, "space": SPACE}


# 1. Bounds ----------------------------------------------------------------------------------


def scattered(dimension: int, rows: int, seed: int, spread: float = 1.0) -> SignedRecords:
    """Return correlated rows with labels, on a fine grid of a ball of radius 4."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-spread, spread, (rows, dimension))
    x[:, 0] = 1
    x[:, -1] = (x[:, -1] + x.mean(axis=1)) / 2
    codes = np.rint(np.clip(x, -1, 1) * CODE_MAX).astype(np.int64)
    codes *= np.where(rng.uniform(size=rows) < sigma(2 * x[:, -1]), -1, 1)[:, None]
    return SignedRecords.build(*distinct_rows(codes), grid_bits=20, radius=4 << 20)


@pytest.mark.parametrize("dimension", [1, 2, 3, 4])
def test_expansions_and_chords_hold_the_gradient(dimension: int) -> None:
    """At points near and far, against ball arithmetic row by row."""
    records = scattered(dimension, 40, dimension)
    rng, shear = np.random.default_rng(1), records.space.shear
    tight = 0
    for size in (1e-5, 1e-3, 0.1, 1.0, 4.0):
        centre = rng.uniform(-1, 1, dimension) * 2**20
        half = rng.uniform(0.2, 1, dimension) * size * 2**20
        found = expand(records, (centre @ shear.T)[None, :])[0]
        chord = chords(records, centre[None, :], half)[0]
        for _ in range(20):
            v = rng.uniform(-1, 1, dimension) * half
            theta = [round(t) for t in ((centre + v) @ shear.T).tolist()]
            with working_precision(128):
                exact = np.array([float(e) for e in exact_gradient(records, theta)])
            step = records.step
            middle, error = found.near((np.array(theta) - found.point) * step)
            assert (np.abs(middle - exact) <= error + 1e-12).all()
            nearby = np.linalg.solve(shear, np.array(theta, dtype=float)) - centre
            straight = chord.middle + chord.slopes @ nearby * step
            assert (np.abs(straight - exact) <= chord.rest + 1e-6).all()
            tight += bool((error < 1e-3 * (1 + np.abs(exact))).all())
        assert (chord.rest <= records.counts.sum() / 2 + 1e-6).all()
    assert tight >= 40


@pytest.mark.parametrize("dimension", [2, 3, 4])
def test_cells_of_rows_hold_the_gradient(dimension: int) -> None:
    """On boxes, and at points: few cells, every row of them accounted for."""
    records = scattered(dimension, 4000, dimension, spread=0.3)
    law = LogisticLaw(records, rate=Fraction(1, 2), norm="linf")
    cells = law.cells
    assert cells is not None
    assert 4 * len(cells.middle) < len(records.zeta)
    assert cells.sums.sum(axis=0) == pytest.approx(records.counts @ records.zeta)
    rng, shear, total = np.random.default_rng(1), records.space.shear, records.counts.sum()
    known = law._coarse(np.zeros((0, 0)))
    for size in (0.01, 0.3, 2.0):
        centre = rng.uniform(-1, 1, dimension) * 2**20
        half = rng.uniform(0.2, 1, dimension) * size * 2**20
        found = cell_chords(records, cells, centre[None, :], half)[0]
        for _ in range(20):
            v = rng.uniform(-1, 1, dimension) * half
            theta = [round(t) for t in ((centre + v) @ shear.T).tolist()]
            place = np.array([theta], dtype=float)
            exact = records.counts * sigma(records.zeta @ place[0] * records.step) @ records.zeta
            v = np.linalg.solve(shear, place[0]) - centre
            straight = found.middle + found.slopes @ v * records.step
            assert (np.abs(straight - exact) <= found.rest + 1e-5).all()
            if np.abs(theta).sum() <= records.space.radius:
                with working_precision(128):
                    value = law.exponent(known, theta, 128)
                    sharp = law.exponent(known, theta, 192)
                assert value.overlaps(sharp)
                assert float(sharp.rad()) < 1e-6 < float(value.rad())
        assert (found.rest < total / 2).all()


def test_errors_of_floats_are_counted() -> None:
    """At the point itself nothing but rounding is left, and it is far below a nat."""
    records = scattered(3, 20_000, 5)
    theta = (123_456, -1_000_003, 77)
    found = expand(records, np.array([theta], dtype=float))[0]
    middle, error = found.near(np.zeros(3))
    with working_precision(160):
        for m, e, exact in zip(middle, error, exact_gradient(records, theta), strict=True):
            assert abs(m - exact) <= e
    assert error.max() < 1e-6


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("dimension", [1, 2, 3, 4])
def test_bounds_on_boxes_are_below_every_point(dimension: int, name: NormName) -> None:
    """Boxes split as the engine splits them, with what is known handed down."""
    records = scattered(dimension, 300, 10 + dimension)
    law = LogisticLaw(records, rate=Fraction(1, 2), norm=name)
    zeta = np.repeat(records.zeta, records.counts.astype(int), axis=0)
    rng, randomness = np.random.default_rng(2), seeded_randomness(2)
    informative = 0
    for start in law.start(records.space)[:5]:
        box, known, exponent = start.box, start.known, start.exponent
        for _ in range(40):
            points = [records.space.draw_point(box, randomness) for _ in range(6)]
            points = [point for point in points if records.space.holds(point)]
            if points:
                theta = np.array(points) * records.step
                assert exponent <= exponent_at(zeta, theta, name, 0.5).min() + 1e-9
                with working_precision(128):
                    value = law.exponent(known, points[0], 128)
                exact = exponent_at(zeta, theta[:1], name, 0.5)[0]
                assert abs(float(value.mid()) - exact) <= float(value.rad()) + 1e-9
            informative += exponent > 0
            parts = box.parts([2 if side > 1 else 1 for side in box.sides])
            half = np.array([part.sides for part in parts]).max(axis=0) / 2
            centres = np.array([part.lower for part in parts]) + half
            children = law.split(known, centres, half)
            pick = int(rng.integers(len(parts)))
            box, known = parts[pick], children.knowledge[pick]
            exponent = max(exponent, float(children.exponents[pick]))
            if box.points == 1:
                break
    assert informative > 15


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_start_near_the_minimiser_is_a_cover_with_true_bounds(
    dimension: int, name: NormName
) -> None:
    records = scattered(dimension, 20_000, 20 + dimension)
    law = LogisticLaw(records, rate=Fraction(1, 4), norm=name)
    root, parts = records.space.root(), law.start(records.space)
    assert len(parts) > dimension
    assert sum(part.box.points for part in parts) == root.points
    zeta = np.repeat(records.zeta, records.counts.astype(int), axis=0)
    randomness, inner = seeded_randomness(4), parts[0].box
    tightest = np.inf
    for part in parts[1:]:
        assert part.exponent > 10
        lower = [max(a, b - 2) for a, b in zip(part.box.lower, inner.lower, strict=True)]
        sides = [
            max(1, min(a + n, b + m + 2) - first)
            for a, n, b, m, first in zip(
                part.box.lower, part.box.sides, inner.lower, inner.sides, lower, strict=True
            )
        ]
        near = Box(tuple(lower), tuple(sides))
        points = [records.space.draw_point(b, randomness) for b in [part.box] * 20 + [near] * 40]
        theta = np.array([point for point in points if records.space.holds(point)]) * records.step
        exact = exponent_at(zeta, theta, name, 0.25)
        assert part.exponent <= exact.min()
        tightest = min(tightest, exact.min() / part.exponent)
    assert 1 <= tightest < 8


CLOSED = {  # the signed rows of six kinds of people who leave no direction open, and how many each
    (-4, -4, -4, -4): 1387,
    (4, -4, -4, -4): 1209,
    (-4, 4, -4, -4): 1229,
    (4, 4, 4, -4): 532,
    (4, 4, -4, 4): 922,
    (-4, -4, 4, 4): 896,
}


def closed() -> SignedRecords:
    codes = np.array(list(CLOSED), dtype=np.int64) * (CODE_MAX // 4)
    counts = np.array(list(CLOSED.values()), dtype=np.int64)
    return SignedRecords.build(codes, counts, grid_bits=30, radius=50 << 30)


@pytest.mark.parametrize("far", [0.3, 3.0, 30.0])
def test_the_growth_by_rows_is_below_that_of_every_point_of_a_patch(far: float) -> None:
    """And is not, where a patch is taken for its centre."""
    records, rng = closed(), np.random.default_rng(6)
    space, point = records.space, rng.normal(size=4) * 0.2 / records.step
    reach = np.full(4, far / records.step)
    box = box_within(np.linalg.solve(space.shear, point), reach, space.root())
    boundary = patches(box, inner_faces(box, space.root()), 8)
    places = boundary.centres + rng.uniform(-1, 1, (40, 1, 4)) * boundary.halves
    theta, start = places @ space.shear.T * records.step, point * records.step
    slopes = (records.counts * sigma(theta @ records.zeta.T)) @ records.zeta
    slopes -= (records.counts * sigma(records.zeta @ start)) @ records.zeta
    exact = (slopes * (theta - start)).sum(axis=2)
    bound = growth_by_rows(records, point, boundary)
    assert (bound <= exact).all()
    assert np.median(bound / exact.min(axis=0)) > 0.6
    twin = growth_by_rows(records, point, Patches(boundary.centres, boundary.halves * 0))
    assert not (twin <= exact).all()


@pytest.mark.parametrize("far", [0.3, 3.0, 30.0])
def test_the_rise_of_the_loss_bounds_the_gradient_beyond_every_patch(far: float) -> None:
    """And does not, where the loss at the start is taken to be less than it is."""
    records, rng = scattered(3, 4000, 6, spread=0.5), np.random.default_rng(6)
    law, space = LogisticLaw(records, rate=Fraction(1), norm="linf"), records.space
    known = law.nearest()
    assert known is not None
    reach = np.full(3, far / records.step)
    root = Box((-(2**40),) * 3, (2**41,) * 3)
    box = box_within(np.linalg.solve(space.shear, known.point), reach, root)
    boundary = patches(box, inner_faces(box, root), 4)
    places = boundary.centres + rng.uniform(-1, 1, (40, 1, 3)) * boundary.halves
    theta, start = places @ space.shear.T * records.step, known.point * records.step
    slopes = (records.counts * sigma(theta @ records.zeta.T)) @ records.zeta
    exact = (slopes * (theta - start)).sum(axis=2) / np.abs(theta - start).sum(axis=2)
    losses = law.losses(known.point)
    assert len(losses.cells.shares) < len(records.counts)
    bound = risen_beyond(records, losses, boundary, law.norm.dual)
    assert (bound <= exact).all()
    assert np.median(bound / exact.min(axis=0)) > 0.2
    twin = replace(losses, most=losses.most - records.total)
    assert not (risen_beyond(records, twin, boundary, law.norm.dual) <= exact).all()


@pytest.mark.parametrize("name", NORMS)
def test_few_distinct_rows_bound_well_what_lies_outside_of_the_start(name: NormName) -> None:
    """By the expansion at the minimiser alone it is below 23 nats, however large the box."""
    records, randomness = closed(), seeded_randomness(4)
    law = LogisticLaw(records, rate=Fraction(1, 4), norm=name)
    inner, *outer = law.start(records.space)
    half = np.array(inner.box.sides) / 2
    centre = np.array(inner.box.lower) + half
    near = box_within(centre, half * 1.2, records.space.root())
    boxes = [part.box for part in outer for _ in range(20)] + [near] * 400
    points = np.array([records.space.draw_point(box, randomness) for box in boxes], dtype=float)
    places = np.linalg.solve(records.space.shear, points.T).T
    outside = (np.abs(places - centre) > half).any(axis=1)
    theta = points[outside] * records.step
    theta = theta[np.abs(theta).sum(axis=1) <= 50]
    zeta = np.repeat(records.zeta, list(CLOSED.values()), axis=0)
    [bound] = {part.exponent for part in outer}
    assert 30 < bound <= exponent_at(zeta, theta, name, 0.25).min() < 4 * bound


# 2. The law and its privacy -----------------------------------------------------------------


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("case", CASES)
def test_the_law_at_every_point_is_its_definition(case: str, name: NormName) -> None:
    rows = CASES[case]
    records = build(rows)
    law = LogisticLaw(records, rate=Fraction(3, 2), norm=name)
    zeta = np.array(rows) / 4
    known = law.start(records.space)[0].known
    for point in ball(len(rows[0])):
        theta = np.array([point]) * 2.0**-GRID_BITS
        expected = exponent_at(zeta, theta, name, 1.5)[0]
        for bits in (128, 192, 320):
            with working_precision(bits):
                value = law.exponent(known, point, bits)
            assert abs(float(value.mid()) - expected) <= float(value.rad()) + 1e-12
            assert bits == 128 or value.rad() < 1e-9


def laws_of(
    rows: Sequence[Sequence[Signed]],
    name: NormName,
    rate: float,
    weight: Callable[[Floats], Floats],
) -> list[Floats]:
    """Return log probabilities on a grid, with a sensitivity that grows as ``weight``."""
    d = len(rows[0][0])
    theta = np.array(ball(d, 12)) * 0.25
    size = np.abs(theta).sum(axis=1)
    found = []
    for each in rows:
        zeta = np.array(each, dtype=float).reshape(len(each), -1) / 4
        exact = exponent_at(zeta, theta, name, rate) * sigma(size) / weight(size)
        found.append(-exact - np.log(np.exp(-exact).sum()))
    return found


def worst_ratio(name: NormName, adjacency: Adjacency, weight: Callable[[Floats], Floats]) -> float:
    """Return the largest |log ratio| over neighbours among worst records, at epsilon = 2."""
    common = [(4, -1), (-4, 3)]
    changed = list(itertools.product((-4, 0, 4), repeat=2))
    rows = [[*common, each] for each in changed]
    if adjacency is ADD:
        rows.insert(0, common)
    laws = laws_of(rows, name, 2 / (2 * records_changed(adjacency)), weight)
    pairs = (
        [(laws[0], law) for law in laws[1:]]
        if adjacency is ADD
        else itertools.combinations(laws, 2)
    )
    return max(float(np.abs(one - two).max()) for one, two in pairs)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_no_pair_of_neighbours_exceeds_epsilon(name: NormName, adjacency: Adjacency) -> None:
    worst = worst_ratio(name, adjacency, sigma)
    assert 0.25 * 2 < worst <= 2 + 1e-9


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_a_quarter_of_the_sensitivity_would_exceed_epsilon(adjacency: Adjacency) -> None:
    assert worst_ratio("linf", adjacency, lambda size: sigma(size) / 4) > 2


def single_reach(size: Floats) -> Floats:
    """Return half of what two records of one coefficient can differ by, as it is used."""
    return np.where(size <= 1.25, 0.5, 0.526)


def worst_single(reach: Callable[[Floats], Floats]) -> float:
    """Return the largest |log ratio| over neighbours with one coefficient, at epsilon = 2."""
    codes = np.linspace(-1, 1, 41)
    theta = np.linspace(-10, 10, 401)[:, None]
    largest = 0.0
    for common in (0.0, 1.0, -1.0, 0.3):
        for count in (0, 1, 20):
            rows = np.column_stack([np.full((41, count), common), codes])
            exact = np.array(
                [
                    exponent_at(each[:, None], theta, "linf", 0.5)
                    * sigma(np.abs(theta[:, 0]))
                    / reach(np.abs(theta[:, 0]))
                    for each in rows
                ]
            )
            logs = -exact - np.log(np.exp(-exact).sum(axis=1))[:, None]
            largest = max(largest, float((logs.max(axis=0) - logs.min(axis=0)).max()))
    return largest


def test_one_coefficient_has_the_sensitivity_stated() -> None:
    """By a search over pairs of rows: within a hundredth up to 5/4, never above beyond."""
    rows = np.linspace(-1, 1, 2001)[:, None]
    for length in (0.0, 0.5, 1.25, 1.2501, 2.0, 4.0, 7.0, 10.0, 50.0):
        gradients = sigma(rows * length) * rows
        differ = float(np.ptp(gradients)) / 2
        stated = float(single_reach(np.array([length]))[0])
        assert Reach(single=True).floats(np.array([length]))[0] == stated
        assert float(Reach(single=True).ball(arb(length))) == pytest.approx(stated, rel=1e-12)
        assert 0.95 * stated <= differ <= stated + 1e-12
        assert stated >= float(sigma(np.array([length]))[0]) / 2


def test_one_coefficient_uses_its_epsilon_and_no_more() -> None:
    """More of it than with 2 sigma(rho); a twin at seven tenths of the sensitivity is above it."""
    assert 1.2 * worst_single(sigma) < worst_single(single_reach) <= 2 + 1e-9
    assert worst_single(lambda size: 0.7 * single_reach(size)) > 2


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_the_gradient_moves_by_at_most_delta(name: NormName, adjacency: Adjacency) -> None:
    """Record-replay at theta of several lengths; linf (and every norm under add-remove) attains."""
    schema = Schema({"x": UNIT, "y": FLAG}, adjacency, 4 if adjacency is REPLACE else None, 9)
    statistic = LogisticRegression(target="y", features=("x",), bound=8.0)
    plan = calibrate(statistic, schema, Epsilon.parse("1"), mechanism="kng", norm=name)
    assert isinstance(plan.draw, LogisticDraw)
    drawn = plan.draw
    places = [(0, 0), (1, 0), (0, -3), (2, 2), (-1, 6)]
    cube = norm_of(name, np.ones((1, 2)))[0]

    def scaled(data: ArrayData) -> list[Fraction]:
        records = drawn.law(data).records
        zeta = np.repeat(records.zeta, records.counts.astype(int), axis=0)
        theta = np.array(places, dtype=float)
        delta = records_changed(adjacency) * cube * sigma(np.abs(theta).sum(axis=1))
        g = gradient_at(zeta.reshape(-1, 2), theta)
        return [Fraction(float(entry)) for entry in (g / delta[:, None]).ravel()]

    replay = record_replay(
        scaled,
        schema=schema,
        norm=lambda change: Fraction(
            float(norm_of(name, np.array(change, dtype=float).reshape(-1, 2)).max())
        ),
        trials=150,
    )
    assert replay.largest <= 1 + 1e-9
    if name == "linf" or adjacency is ADD:
        assert replay.largest >= 0.99
    else:
        assert replay.largest >= 0.6


@pytest.mark.parametrize("name", NORMS)
def test_duals_are_dual(name: NormName) -> None:
    rng, norm = np.random.default_rng(3), CubeNorm(name, 3)
    u, w = np.abs(rng.normal(size=(2, 4000, 3)))
    ratio = (u * w).sum(axis=1) / (norm.floats(u) * norm.dual(w))
    assert 0.97 < ratio.max() <= 1 + 1e-12
    assert norm.floats(np.ones((1, 3)))[0] == pytest.approx(1)


# 3. Distribution ----------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("case", CASES)
def test_draws_follow_the_law_and_no_other(case: str, name: NormName) -> None:
    rows, rate = CASES[case], Fraction(8)
    records = build(rows)
    law = LogisticLaw(records, rate=rate, norm=name)
    points = ball(len(rows[0]))
    theta = np.array(points) * 2.0**-GRID_BITS
    values = exponent_at(np.array(rows) / 4, theta, name, float(rate))
    order = {points[i]: place for place, i in enumerate(np.argsort(values))}
    exact, *twins = (
        Law.discrete(
            list(order.values()), [np.exp(-scale * values[points.index(p)]) for p in order]
        )
        for scale in (1.0, 0.5, 2.0)
    )
    gap = min(exact.gap(twin, list(order.values())) for twin in twins)
    count, randomness = draws_needed(gap) + 200, seeded_randomness(5)
    covers = [Cover(law, records.space) for _ in range(count // 100 + 1)]
    draws = [order[cover.draw(randomness)] for cover in covers for _ in range(100)]
    check_draws(draws, exact, twins=twins)


def marginal(zeta: Floats, bound: float, rate: float, *, single: bool = False) -> Law:
    """Return the law of the first coordinate on the ball, by numerical integration in d <= 2."""
    d, cells = zeta.shape[1], 601
    first = (np.arange(cells) + 0.5) / cells * 2 * bound - bound
    if d == 1:
        exponent = exponent_at(zeta, first[:, None], "linf", rate)
        if single:
            exponent *= sigma(np.abs(first)) / single_reach(np.abs(first))
        weights = np.exp(-exponent)
    else:
        grid = np.stack(np.meshgrid(first, first, indexing="ij"), axis=-1).reshape(-1, 2)
        inside = np.abs(grid).sum(axis=1) <= bound
        every = np.exp(-exponent_at(zeta, grid, "linf", rate)) * inside
        weights = every.reshape(cells, cells).sum(axis=1)
    ends = np.append(first - bound / cells, bound)
    total = np.append(0, np.cumsum(weights)) / weights.sum()
    return Law.continuous(lambda x: np.interp(x, ends, total))


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize(
    "slopes", [(1.0,), pytest.param((1.5, -0.5), marks=pytest.mark.slow)], ids=len
)
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_releases_follow_the_density_integrated_numerically(
    slopes: tuple[float, ...], adjacency: Adjacency
) -> None:
    """The whole path from a request, on the real grid; twins at other rates are refused."""
    schema, data = simulate(60, seed=3, slopes=slopes, adjacency=adjacency)
    statistic = LogisticRegression(
        target="y", features=features(schema), intercept=False, bound=2.0
    )
    plan = calibrate(statistic, schema, Epsilon.parse("2"), mechanism="kng")
    assert isinstance(plan.draw, LogisticDraw)
    law = plan.draw.law(data)
    zeta = np.repeat(law.records.zeta, law.records.counts.astype(int), axis=0)
    rate = 2 / (2 * records_changed(adjacency))
    single = len(slopes) == 1 and adjacency is REPLACE
    exact, *twins = (marginal(zeta, 2.0, rate * scale, single=single) for scale in (1.0, 0.4, 2.5))
    randomness, step = seeded_randomness(8), float(plan.draw.step)
    covers = [Cover(law, law.records.space) for _ in range(25)]
    draws = [cover.draw(randomness)[0] * step for cover in covers for _ in range(100)]
    check_draws(draws, exact, twins=twins)


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_the_audit_passes_ours_and_flags_a_rate_too_high(adjacency: Adjacency) -> None:
    """Three records at one end, one of them changed; the twin is calibrated at eight epsilon."""
    bulk = [(4,), (-4,)]
    pair = ([*bulk, (4,)], [*bulk, (-4,)] if adjacency is REPLACE else bulk)
    found = []
    for times in (1, 8):
        draws = []
        for seed, rows in enumerate(pair):
            records, randomness = build(rows, grid_bits=2, radius=4), seeded_randomness(seed)
            rate = Fraction(times, 2 * records_changed(adjacency))
            cover = Cover(LogisticLaw(records, rate=rate, norm="linf"), records.space)
            draws.append([cover.draw(randomness)[0] for _ in range(4000)])
        events = {f"t < {t}": lambda drawn, t=t: drawn < t for t in (-2, 0, 1, 3)}
        found.append(audit_epsilon(*draws, events).epsilon)
    assert found[0] <= 1 < found[1]


# 4. Reference and edge cases ----------------------------------------------------------------


def plan_for(schema: Schema, *, epsilon: str = "1", norm: str = "auto", **asked: object) -> Plan:
    arguments: dict[str, object] = {"target": "y", "features": features(schema), **asked}
    statistic = LogisticRegression(**arguments)  # type: ignore[arg-type]
    return calibrate(statistic, schema, Epsilon.parse(epsilon), mechanism="kng", norm=norm)


@pytest.mark.parametrize("norm", NORMS)
def test_large_epsilon_gives_the_maximum_likelihood_fit(norm: NormName) -> None:
    schema, data = simulate(3000, seed=1, slopes=(1.0, -0.5, 2.0))
    found = plan_for(schema, epsilon="10000", norm=norm).draw(data, seeded_randomness(1)).value
    records = np.column_stack([data.codes[name] / CODE_MAX for name in features(schema)])
    labels = data.codes["y"] > 0
    fitted = sm.Logit(labels, sm.add_constant(records)).fit(disp=False).params
    assert list(found["coefficients"].values()) == pytest.approx(list(fitted), abs=2e-3)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("epsilon", ["1e-9", "1", "10000"])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.zeros((0, 2)), []),
        (np.array([[0.5, 1.0]]), [True]),
        (np.tile([1.0, 1.0], (40, 1)), [False, True] * 20),
        (np.tile([[-1.0, 1.0], [1.0, -1.0]], (20, 1)), [False, True] * 20),
    ],
)
def test_degenerate_data_and_extreme_epsilons_work(
    x: Floats, y: list[bool], epsilon: str, adjacency: Adjacency
) -> None:
    wide, data = labelled(x, y, adjacency=adjacency)
    schema = Schema(wide.columns, adjacency, wide.rows, 1000)
    plan = plan_for(schema, epsilon=epsilon, bound=2.0)
    found = plan.draw(data, seeded_randomness(1)).value["coefficients"]
    assert set(found) == {"(intercept)", "x0", "x1"}
    assert sum(map(abs, found.values())) <= 2 + 1e-9


@pytest.mark.timeout(60)
@pytest.mark.parametrize("epsilon", ["1", "100"])
@pytest.mark.parametrize("kind", ["separable", "repeated", "constant", "outside"])
def test_ill_conditioned_data_do_not_hold_a_draw_up(kind: str, epsilon: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (3000, 2))
    if kind == "repeated":
        x[:, 1] = x[:, 0]
    if kind == "constant":
        x[:, 1] = 0.3
    odds = sigma(2 * x[:, 0])
    labels = x[:, 0] > 0 if kind == "separable" else rng.uniform(size=3000) < odds
    schema, data = labelled(x, labels)
    plan = plan_for(schema, epsilon=epsilon, bound=0.5 if kind == "outside" else None)
    found = plan.draw(data, seeded_randomness(2)).value["coefficients"]
    slope = found["x0"] + (found["x1"] if kind == "repeated" else 0)
    assert slope > (0.3 if kind == "outside" else 1)


def test_without_an_intercept_columns_are_divided_by_their_extent() -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(1, 7, 4000)
    columns = {"x": NumberColumn(Fraction(1), Fraction("7.3")), "y": FLAG}
    schema = Schema(columns, REPLACE, len(x))
    labels = (rng.uniform(size=len(x)) < sigma(0.4 * x)).astype(float)
    data = ArrayData.from_values(schema, {"x": x.tolist(), "y": labels.tolist()})
    found = plan_for(schema, epsilon="50", intercept=False).draw(data, seeded_randomness(1)).value
    assert found["coefficients"]["x"] == pytest.approx(0.4, abs=0.05)


def test_the_bound_has_a_public_default_and_q_belongs_to_another_mechanism() -> None:
    schema, _ = simulate(5, seed=1, slopes=(1.0,))
    assert plan_for(schema).details["bound"] == 50.0
    assert plan_for(schema, bound=3.0).details["bound"] == 3.0
    with pytest.raises(InvalidStatisticError) as caught:
        plan_for(schema, q=0.5)
    assert caught.value.field_name == "q"


def test_what_cannot_be_drawn_is_refused_by_public_facts() -> None:
    schema, _ = simulate(5, seed=1, slopes=(1.0,) * 4)
    with pytest.raises(InvalidStatisticError, match="objective_perturbation"):
        plan_for(schema)
    columns = {"x": UNIT, "y": FLAG}
    for large in (Schema(columns, REPLACE, 10**11), Schema(columns, ADD, None, 10**11)):
        assert plan_for(large, epsilon="10000").drawn_on_boxes
    with pytest.raises(InvalidStatisticError, match="norm"):
        plan_for(Schema(columns, REPLACE, 5), norm="optimal")


@pytest.mark.parametrize(
    ("norm", "adjacency", "expected"),
    [
        ("auto", REPLACE, "2 sigmoid(||theta||_1)"),
        ("linf", ADD, "1 sigmoid(||theta||_1)"),
        ("l2", REPLACE, "2 sqrt(2) sigmoid(||theta||_1)"),
        ("l1", ADD, "2 sigmoid(||theta||_1)"),
    ],
)
def test_plans_state_norm_and_sensitivity(norm: str, adjacency: Adjacency, expected: str) -> None:
    schema, _ = simulate(5, seed=1, slopes=(1.0,), adjacency=adjacency)
    plan = plan_for(schema, norm=norm)
    assert plan.guarantee.sensitivity == expected
    assert plan.preview(None) is None


def test_one_coefficient_states_its_own_sensitivity() -> None:
    schema, _ = simulate(5, seed=1, slopes=(1.0,), adjacency=REPLACE)
    plan = plan_for(schema, intercept=False)
    assert plan.guarantee.sensitivity == "1 where |theta| <= 1.25, 1.052 beyond"
