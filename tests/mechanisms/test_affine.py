"""The affine sampler: every route against the exact law, its screen and its envelope."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.exact.floats import working_precision
from mechanisms.randomness import LazyUniform, Randomness
from mechanisms.samplers.affine import AffinePosterior, cheapest_route, draw, routes
from mechanisms.samplers.affine.cube import (
    CrossPolytopeRoute,
    Route,
    decide,
    random_words,
    surviving,
)
from mechanisms.samplers.affine.path import Vertex, find_vertices
from mechanisms.samplers.affine.search import improved
from mechanisms.samplers.affine.vertex import VertexRoute, vertex_route
from mechanisms.testing import Law, check_draws, distance_threshold, seeded_randomness
from tests.tiers import in_one

Floats = NDArray[np.float64]
STEP = -44


def law_of(
    matrix: list[list[float]],
    vector: list[float],
    *,
    rate: float,
    bound: float,
    power: int = 0,
    replaced: bool = False,
) -> AffinePosterior:
    return AffinePosterior(
        matrix=tuple(tuple(Fraction(entry) for entry in row) for row in matrix),
        vector=tuple(Fraction(entry) for entry in vector),
        rate=Fraction(rate),
        bound=Fraction(bound),
        power=power,
        replaced=replaced,
    )


INSIDE_1 = law_of([[12.0]], [6.0], rate=0.5, bound=2.0)
OUTSIDE_1 = law_of([[4.0]], [7.0], rate=0.5, bound=1.0)
INSIDE_2 = law_of([[9.0, 3.0], [3.0, 7.0]], [3.0, -2.0], rate=2.0, bound=1.5)
OUTSIDE_2 = law_of([[9.0, 3.0], [3.0, 7.0]], [14.0, -9.0], rate=1.0, bound=1.0)
SINGULAR_2 = law_of([[20.25, 20.0], [20.0, 20.25]], [18.0, 18.0], rate=0.5, bound=1.0)
WEIGHTED_1 = law_of([[12.0]], [6.0], rate=0.5, bound=2.0, power=3)
WEIGHTED_2 = law_of([[9.0, 3.0], [3.0, 7.0]], [14.0, -9.0], rate=0.5, bound=1.5, power=2)
REPLACED_1 = law_of([[12.0]], [9.0], rate=1.0, bound=2.0, power=2, replaced=True)
REPLACED_OUTSIDE = law_of([[30.0]], [900.0], rate=3.0, bound=2.0, power=2, replaced=True)
LAWS = {
    "inside, d=1": INSIDE_1,
    "outside, d=1": OUTSIDE_1,
    "inside, d=2": INSIDE_2,
    "outside, d=2": OUTSIDE_2,
    "nearly singular, d=2": SINGULAR_2,
    "weighted, d=1": WEIGHTED_1,
    "weighted, outside, d=2": WEIGHTED_2,
}


def many(law: AffinePosterior, route: Route, count: int, randomness: Randomness) -> Floats:
    """Return ``count`` draws by one route, theta in scaled units."""
    kept: list[tuple[int, ...]] = []
    while len(kept) < count:
        words = random_words(randomness, 1024, 1 + route.choices + route.uniforms)
        for row in surviving(route, words):
            point = decide(route, words[row].tolist(), randomness, STEP)
            if point is not None:
                kept.append(point)
    return np.array(kept[:count], dtype=np.float64) * 2.0**STEP


def height_of(law: AffinePosterior, theta: Floats) -> Floats:
    """Return ||A theta - b||_inf per row."""
    return np.abs(theta @ law.shadow.matrix - law.shadow.vector).max(axis=1)


def exact_laws(law: AffinePosterior, scale: float = 1.0) -> tuple[Law, Law]:
    """Return the laws of h and of theta_1 by quadrature of f with its exponent times ``scale``."""
    size = law.dimension
    places = 400_001 if size == 1 else 1_501
    bound = float(law.bound)
    edges = np.linspace(-bound, bound, places)
    middles = (edges[1:] + edges[:-1]) / 2
    theta = np.array(np.meshgrid(*[middles] * size, indexing="ij")).reshape(size, -1).T
    theta = theta[np.abs(theta).sum(axis=1) <= bound]
    norm = np.abs(theta).sum(axis=1)
    exponent = -scale * float(law.rate) * height_of(law, theta) / divisor(law, theta)
    weights = np.exp(exponent - exponent.max()) * (1 + norm) ** -float(law.power)
    return _smooth(height_of(law, theta), weights), _smooth(theta[:, 0], weights)


def divisor(law: AffinePosterior, theta: Floats) -> Floats:
    """Return D(theta) per row, written out by cases."""
    length = np.abs(theta).sum(axis=1)
    if not law.replaced:
        return np.asarray(1 + length)
    return np.where(length <= 0.5, 1.0, (1 + length) / 2 + 1 / (8 * np.maximum(length, 0.5)))


@cache
def quadrature(case: str, scale: float = 1.0) -> tuple[Law, Law]:
    """Return :func:`exact_laws` of a named law, once."""
    return exact_laws(LAWS[case], scale)


def _smooth(values: Floats, weights: Floats) -> Law:
    order = np.argsort(values)
    points, total = values[order], np.cumsum(weights[order])
    return Law.continuous(lambda x: np.interp(x, points, total / total[-1], left=0.0, right=1.0))


def names(law: AffinePosterior) -> list[str]:
    return [route.name for route in routes(law)]


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("case", "place"),
    [
        pytest.param(case, place, marks=[pytest.mark.slow] if "outside" in case and place else [])
        for case, place in itertools.product(LAWS, range(4))
    ],
)
def test_every_route_draws_the_law(case: str, place: int) -> None:
    """Each route, forced, against quadrature; twins at 0.7 and 1.3 times the rate must fail."""
    law = LAWS[case]
    found = routes(law)
    assert len(found) == 4 + (law.power > law.dimension)
    # A base measure heavy enough to propose from is one more envelope, and takes the second place.
    found = [route for route in found if route.name != "cube"] if len(found) == 5 else found
    theta = many(law, found[place], 5_600, seeded_randomness(place))
    assert np.abs(theta).sum(axis=1).max() <= float(law.bound) + 2.0**STEP * law.dimension
    heights, first = quadrature(case)
    twins = [quadrature(case, scale)[0] for scale in (0.7, 1.3)]
    check_draws(height_of(law, theta), heights, twins=twins if "singular" not in case else ())
    check_draws(theta[:, 0], first)


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("law", [REPLACED_1, REPLACED_OUTSIDE], ids=["inside", "outside"])
def test_one_coefficient_where_records_are_replaced(law: AffinePosterior) -> None:
    """Against quadrature; twins at 0.6 and 1.6 times the rate and with 1 + rho must fail."""
    [route] = routes(law)
    theta = many(law, route, 7_000, seeded_randomness(1))
    twins = [exact_laws(law, scale)[1] for scale in (0.6, 1.6)]
    check_draws(theta[:, 0], exact_laws(law)[1], twins=twins)
    check_draws(
        theta[:, 0], exact_laws(law)[1], twins=[exact_laws(replace(law, replaced=False))[1]]
    )


@in_one("epsilon", [1e-9, 1.0, 1e4])
@in_one("centre", [0.0, 0.3, 2.0, 1e5])
def test_one_coefficient_takes_few_tries(centre: float, epsilon: float) -> None:
    """Whatever the data: the envelope's mass stays near that of the law."""
    for rows, bound in ((1.0, 10.0), (1e6, 1e-3), (1e8, 1e6)):
        matrix = rows / 8 + 2 / (epsilon * bound / (1 + bound))
        vector = min(matrix * centre, 2 * rows)  # as rows within [-1, 1] can have it
        law = law_of([[matrix]], [vector], rate=epsilon / 8, bound=bound, power=2, replaced=True)
        [route] = routes(law)
        words = random_words(seeded_randomness(3), 40, 1 + route.choices + route.uniforms)
        kept = [decide(route, row, seeded_randomness(4), STEP) for row in words.tolist()]
        assert sum(point is not None for point in kept) > 10


@pytest.mark.wide
@pytest.mark.statistical
def test_default_choice_draws_the_law() -> None:
    law = OUTSIDE_2
    theta = np.array(
        [draw(law, seeded_randomness(seed), step_exponent=STEP) for seed in range(1_500)],
        dtype=np.float64,
    )
    theta *= 2.0**STEP
    check_draws(height_of(law, theta), exact_laws(law)[0])


def synthetic(
    size: int, rows: int, *, bound: float, norm: float, power: int = 0, seed: int = 1
) -> AffinePosterior:
    """Return a posterior as regression makes it, eps = 1 under replace-one."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(-1, 1, (rows, size))
    x[:, 0] = 1.0
    slopes = generator.normal(size=size)
    y = x @ (slopes * norm / np.abs(slopes).sum()) + 0.2 * generator.normal(size=rows)
    rate = 1 / 8
    ridge = size**2 * (1 + bound) / (4 * rate * bound)
    matrix = 2 * x.T @ x + ridge * np.eye(size)
    vector = 2 * x.T @ np.clip(y, -1, 1)
    return law_of(matrix.tolist(), vector.tolist(), rate=rate, bound=bound, power=power)


@pytest.mark.wide
@pytest.mark.statistical
def test_routes_agree_in_four_dimensions() -> None:
    """No quadrature here: the routes against each other, on a law where all are usable."""
    law = synthetic(4, 60, bound=0.8, norm=0.7)
    count = 3_000
    samples = [many(law, route, count, seeded_randomness(7)) for route in routes(law)]
    assert len(samples) == 4
    limit = 2 * distance_threshold(count)
    for one, two in itertools.combinations(samples, 2):
        for measure in (lambda t: np.abs(t).sum(axis=1), lambda t: t[:, 1]):
            other = Law.discrete(measure(two), np.ones(count))
            assert other.distance(measure(one)) < limit


@pytest.mark.wide
@pytest.mark.statistical
def test_the_far_component_carries_its_share() -> None:
    """A vertex with a small coordinate: its sign is often wrong, and must be as often as f says."""
    law = law_of([[60.0, 0.0], [0.0, 40.0]], [64.0, 5.0], rate=0.5, bound=0.8)
    route = next(route for route in routes(law) if isinstance(route, VertexRoute))
    assert route.far_odds > 0
    theta = many(law, route, 8_000, seeded_randomness(3))
    heights, first = exact_laws(law)
    check_draws(theta[:, 0], first)
    check_draws(height_of(law, theta), heights)


@pytest.mark.wide
@pytest.mark.statistical
def test_the_far_component_alone() -> None:
    """Forced upon a wide posterior, where most of the points it covers are kept."""
    law = law_of([[6.0]], [4.2], rate=0.5, bound=0.5)
    route = next(route for route in routes(law) if isinstance(route, VertexRoute))
    plain = many(law, route, 6_000, seeded_randomness(5))
    check_draws(plain[:, 0], exact_laws(law)[1], twins=[exact_laws(law, 1.8)[1]])


CASES = [
    INSIDE_1,
    OUTSIDE_2,
    SINGULAR_2,
    WEIGHTED_2,
    REPLACED_1,
    REPLACED_OUTSIDE,
    synthetic(4, 1000, bound=10.0, norm=0.8),
    synthetic(4, 1000, bound=0.5, norm=1.5, power=4),
    synthetic(12, 10_000, bound=10.0, norm=0.8, power=12),
    synthetic(12, 3_000, bound=1.0, norm=2.5),
    synthetic(20, 3_000, bound=1.0, norm=0.9, power=20),
]


@pytest.mark.parametrize("law", CASES, ids=range(len(CASES)))
def test_envelopes_and_screens_hold(law: AffinePosterior) -> None:
    """log ratio <= 0 (the envelope is above f), and no more than the screen's ceiling."""
    randomness = seeded_randomness(11)
    for route in routes(law):
        words = random_words(randomness, 150, 1 + route.choices + route.uniforms)
        middle = (words.astype(np.float64) + 0.5) * 2.0**-64
        first = 1 + route.choices
        with np.errstate(all="ignore"):
            ceilings = route.screen(words[:, 1:first], middle[:, first:])
        for row, ceiling in zip(words.tolist(), ceilings, strict=True):
            with working_precision(160 + 2 * route.guard_bits):
                uniforms = [LazyUniform.begun(randomness, word, 64) for word in row[first:]]
                balls = [uniform.enclose(160) for uniform in uniforms]
                verdict = route.verdict(row[1:first], balls, 128)
            if verdict is None or any(condition < 0 for condition in verdict.conditions):
                continue
            ratio = float(verdict.log_ratio.mid())
            assert ratio <= 1e-12
            assert ratio <= ceiling
            assert ceiling - ratio < 1e-6 or ceiling == 0.0


@pytest.mark.parametrize("law", CASES, ids=range(len(CASES)))
def test_masses_say_what_tries_cost(law: AffinePosterior) -> None:
    """Acceptance times mass is f's integral, whatever the route."""
    randomness = seeded_randomness(12)
    integrals = []
    for route in routes(law):
        words = random_words(randomness, 30_000, 1 + route.choices + route.uniforms)
        middle = (words.astype(np.float64) + 0.5) * 2.0**-64
        first = 1 + route.choices
        if isinstance(route, VertexRoute) and route.far_odds:
            continue  # the far component is not screened
        with np.errstate(all="ignore"):
            ceilings = route.screen(words[:, 1:first], middle[:, first:])
        kept = np.where(ceilings < 0.0, np.exp(np.minimum(ceilings, 0.0)), 0.0)  # 0: undecided
        if (kept > 0.01).sum() > 200:
            integrals.append(np.log(kept.mean()) + route.log_mass)
    assert max(integrals, default=0.0) - min(integrals, default=0.0) < 0.3


def test_least_height_is_a_lower_bound() -> None:
    route = next(r for r in routes(OUTSIDE_2) if isinstance(r, CrossPolytopeRoute))
    edges = np.linspace(-1, 1, 401)
    theta = np.array(np.meshgrid(edges, edges)).reshape(2, -1).T
    theta = theta[np.abs(theta).sum(axis=1) <= 1]
    least = height_of(OUTSIDE_2, theta).min()
    assert 0.95 * least < route.least_height <= least


def test_choice_follows_the_posterior() -> None:
    assert cheapest_route(synthetic(12, 10_000, bound=10.0, norm=0.8)).name == "radial"
    assert cheapest_route(synthetic(12, 3_000, bound=1.0, norm=2.5)).name == "vertex"
    assert cheapest_route(synthetic(4, 10, bound=0.01, norm=0.8)).name == "cross-polytope"
    assert set(names(OUTSIDE_2)) == {"radial", "cube", "cross-polytope", "vertex"}


def test_certification_refuses_a_bad_cone() -> None:
    """Rows too heavy, or rates of the wrong sign, are no envelope."""
    good = find_vertices(OUTSIDE_2)[0]
    assert vertex_route(OUTSIDE_2, good) is not None
    heavy = tuple(tuple((place, 1.5 * weight) for place, weight in row) for row in good.rows)
    assert vertex_route(OUTSIDE_2, Vertex(support=good.support, rows=heavy)) is None
    flipped = tuple((place, -sign) for place, sign in good.support)
    assert vertex_route(OUTSIDE_2, Vertex(support=flipped, rows=good.rows)) is None


def test_thorough_search_finds_narrower_cones() -> None:
    """Twelve identical columns and a target beyond the bound."""
    n, size, bound, rate = 3000.0, 12, 1.0, 1 / 8
    ridge = size**2 * (1 + bound) / (4 * rate * bound)
    matrix = [[n / 1.5 + (ridge if i == j else 0.0) for j in range(size)] for i in range(size)]
    law = law_of(matrix, [1.5 * n / 1.5] * size, rate=rate, bound=bound)
    vertices = find_vertices(law)
    plain = [vertex_route(law, vertex) for vertex in vertices]
    least = min(route.log_mass for route in plain if route is not None)
    better = vertex_route(law, improved(law.shadow, vertices)[0][1])
    assert better is not None
    assert better.log_mass <= least + 1e-6
    draw(law, seeded_randomness(1), step_exponent=STEP, route=better)


def test_words_decide_and_more_bits_only_refine() -> None:
    """The same words give the same verdict; a finer grid only refines the point."""
    route = routes(INSIDE_2)[0]
    words = random_words(seeded_randomness(2), 64, 1 + route.choices + route.uniforms)
    coarse = [decide(route, row, seeded_randomness(9), -20) for row in words.tolist()]
    fine = [decide(route, row, seeded_randomness(9), -60) for row in words.tolist()]
    assert [point is None for point in coarse] == [point is None for point in fine]
    for one, two in zip(coarse, fine, strict=True):
        if one is not None and two is not None:
            assert all(abs(a - b * 2.0**-40) <= 0.5 for a, b in zip(one, two, strict=True))


@in_one("size", [1, 2, 7, 12, 13, 20])
@in_one("kind", ["zero", "identical", "one direction"])
def test_degenerate_posteriors_are_drawn(size: int, kind: str) -> None:
    """A ridge alone, repeated columns, and a fit on the boundary."""
    bound, rate = 1.0, 1 / 8
    ridge = size**2 * (1 + bound) / (4 * rate * bound)
    weight = 0.0 if kind == "zero" else 2e6
    matrix = [[weight + (ridge if i == j else 0.0) for j in range(size)] for i in range(size)]
    vector = [0.0 if kind == "zero" else 3e6 if kind == "identical" else 2e6] * size
    law = law_of(matrix, vector, rate=rate, bound=bound)
    point = draw(law, seeded_randomness(size), step_exponent=STEP)
    assert sum(abs(index) for index in point) * 2.0**STEP <= bound + size * 2.0**STEP
