"""Continuous noise of any norm: polytopes by halfspaces, the quantile regression's hull."""

from __future__ import annotations

import doctest
from fractions import Fraction
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from flint import arb
from numpy.typing import NDArray
from scipy import stats

from mechanisms.catalog import calibrate
from mechanisms.exact.floats import working_precision
from mechanisms.objectives.losses import logistic_loss, smoothed_check_loss
from mechanisms.perturbation import calibration as objective_calibration
from mechanisms.perturbation.calibration import Perturbation
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.samplers import bodies
from mechanisms.samplers.bodies import Body, BodyVector, Halfspaces, InterceptHull
from mechanisms.samplers.regions import WholeSpace
from mechanisms.testing import Law, check_draws, seeded_randomness
from tests.mechanisms.logistic_data import objective, plain_design
from tests.mechanisms.quantile_data import question, table

Floats = NDArray[np.float64]
HULL = InterceptHull(Fraction(9, 10), 3)
HEXAGON = Halfspaces.build([[1, 0], [0, 1], [1, -1]])


def _vectors(body: Body, rate: Fraction, count: int) -> Floats:
    randomness = seeded_randomness(11)
    return np.array(
        [
            [float(v) for v in BodyVector(body, rate**2, randomness).enclose(64)]
            for _ in range(count)
        ]
    )


def _norm(body: Body, points: Floats) -> Floats:
    if isinstance(body, Halfspaces):
        rows = np.array([[float(entry) for entry in row] for row in body.rows])
        return np.abs(points @ rows.T).max(axis=1)
    wide = 2 * float(HULL.weight)
    others = (np.abs(points[:, 1:]) + (wide - 1) * np.abs(points[:, :1])) / wide
    return np.maximum(np.abs(points[:, 0]), others.max(axis=1))


@pytest.mark.parametrize("module", [bodies, objective_calibration])
def test_the_examples_run(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed


def test_halfwidths_are_the_exact_supports() -> None:
    assert HEXAGON.halfwidths == (1, 1)
    assert HEXAGON.cube_norm == 2
    cross = Halfspaces.build(list(product((1, -1), repeat=3)))
    assert cross.halfwidths == (1, 1, 1)
    assert cross.cube_norm == 3
    thin = Halfspaces.build([[Fraction(1, 3), 7], [2, Fraction(1, 5)], [1, 1]])
    vertices = [
        np.linalg.solve([[float(e) for e in thin.rows[i]], [float(e) for e in thin.rows[j]]], s)
        for i, j in ((0, 1), (0, 2), (1, 2))
        for s in product((1.0, -1.0), repeat=2)
    ]
    inside = [v for v in vertices if _norm(thin, v[None])[0] <= 1 + 1e-9]
    for j, width in enumerate(thin.halfwidths):
        assert float(width) == pytest.approx(max(abs(v[j]) for v in inside))
    with pytest.raises(ValueError, match="bound a body"):
        Halfspaces.build([[1, 1], [2, 2]])
    with pytest.raises(ValueError, match="bound a body"):
        Halfspaces.build([[1, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize("body", [HEXAGON, HULL], ids=["hexagon", "hull"])
def test_membership_is_decided_or_left_open(body: Body) -> None:
    rng = np.random.default_rng(2)
    with working_precision(64):
        for point in rng.uniform(-2, 2, size=(200, len(body.halfwidths))):
            inside = bool(_norm(body, point[None])[0] <= 1)
            assert body.contains([arb(u) for u in point]) is inside
            assert body.contains([arb(u, 9) for u in point]) is None


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("body", [HEXAGON, HULL], ids=["hexagon", "hull"])
def test_the_radius_is_gamma_and_the_direction_uniform(body: Body) -> None:
    """||V||_K ~ Gamma(d, rate), twins refused; V/||V||_K in K's cone measure."""
    vectors, size = _vectors(body, Fraction(1, 2), 6000), len(body.halfwidths)
    radii = _norm(body, vectors)

    def gamma(scale: float) -> Law:
        return Law.continuous(lambda x: stats.gamma.cdf(x, size, scale=scale / 0.5))

    check_draws(radii, gamma(1.0), twins=[gamma(0.7), gamma(1.3)])
    rng = np.random.default_rng(3)
    box = rng.uniform(-1, 1, size=(400_000, size)) * [float(w) for w in body.halfwidths]
    uniform = box[_norm(body, box) <= 1]
    surface = uniform / _norm(body, uniform)[:, None]
    for j in range(size):
        law = Law.discrete(*np.unique(surface[:, j], return_counts=True))
        assert law.distance(vectors[:, j] / radii) < 0.045
    if body is HULL:
        spread = float((uniform**2).mean())
        assert HULL.spread == pytest.approx(spread, rel=0.02)


def test_the_hull_holds_every_difference_and_its_vertices_are_differences() -> None:
    rng = np.random.default_rng(4)
    a = rng.uniform(-0.9, 0.1, size=(2, 4000, 1))
    a[:, ::3] = rng.choice([-0.9, 0.1], size=a[:, ::3].shape)
    x = rng.uniform(-1, 1, size=(2, 4000, 3))
    x[:, ::2] = np.sign(x[:, ::2])
    x[:, :, 0] = 1
    lengths = _norm(HULL, a[0] * x[0] - a[1] * x[1])
    assert 0.999 < lengths.max() <= 1 + 1e-12
    vertices = [(0, s * 1.8, t * 1.8) for s, t in product((1, -1), repeat=2)]
    vertices += list(product((1, -1), repeat=3))
    assert _norm(HULL, np.array(vertices, dtype=float)) == pytest.approx(1)
    loss = smoothed_check_loss(
        3, Fraction(9, 10), Fraction(1, 8), intercept=True, adjacency=Adjacency.REPLACE_ONE
    )
    assert loss.hull == HULL
    assert loss.sensitivity_squared("optimal") == 1
    assert loss.tilt_std("optimal", 1.0) < loss.tilt_std("linf", 1.0)


def test_the_hull_is_offered_where_it_is_smaller_and_auto_takes_it() -> None:
    for tau, intercept, adjacency, hull in (
        (0.9, True, Adjacency.REPLACE_ONE, True),
        (0.5, True, Adjacency.REPLACE_ONE, False),
        (0.9, False, Adjacency.REPLACE_ONE, False),
        (0.9, True, Adjacency.ADD_REMOVE, False),
    ):
        schema, data = table(np.zeros((3, 2)), np.zeros(3), adjacency)
        asked = question(schema, tau=tau, intercept=intercept)
        plan = calibrate(asked, schema, Epsilon.parse("1"))
        assert plan.norm == "optimal"
        assert ("hull" in plan.reason) is hull
        by_cube = calibrate(asked, schema, Epsilon.parse("1"), norm="linf")
        assert (plan.details["tilt_std"] < by_cube.details["tilt_std"]) is hull  # type: ignore[operator]
        if not hull:
            same = [each.draw(data, seeded_randomness(3)).value for each in (plan, by_cube)]
            assert same[0] == same[1]


@pytest.mark.wide
@pytest.mark.statistical
def test_a_logistic_fit_by_a_polytope_s_norm_follows_the_exact_law() -> None:
    """K = [-1/2, 1/2], Delta_K = 2 Delta_inf: in one dimension the cube's Laplace law."""
    codes, labels = np.array([[2**20], [-(2**18)]]), np.array([True, True])
    loss = objective(codes, labels, plain_design(1))
    body = Halfspaces.build([[2]])
    constants = logistic_loss(1, Adjacency.REPLACE_ONE)
    draw = Perturbation.calibrate(
        constants,
        epsilon=Fraction(2),
        row_bound=2,
        region=WholeSpace(),
        body=(body, constants.largest_difference * body.cube_norm),
        q=Fraction(1, 2),
    )
    plain = Perturbation.calibrate(
        constants, epsilon=Fraction(2), row_bound=2, region=WholeSpace(), q=Fraction(1, 2)
    )
    assert draw.sensitivity_squared == (2 * constants.largest_difference) ** 2
    randomness = seeded_randomness(6)
    ours = [float(draw.draw(loss, randomness)[0]) for _ in range(1000)]
    cube = [float(plain.draw(loss, randomness)[0]) for _ in range(1000)]
    assert stats.ks_2samp(ours, cube).pvalue > 1e-6


def test_a_plan_works_the_nodes_of_a_rule_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for the hull's spread at two hundred shares, and each would take milliseconds."""
    asked, worked_out = list[int](), np.polynomial.legendre.leggauss

    def counted(degree: int) -> Any:
        asked.append(degree)
        return worked_out(degree)

    monkeypatch.setattr(np.polynomial.legendre, "leggauss", counted)
    loss = smoothed_check_loss(
        3, Fraction(1, 10), Fraction(1, 10), intercept=True, adjacency=Adjacency.REPLACE_ONE
    )
    objective_calibration.automatic_q(Fraction(1), loss, "optimal", 100)
    assert len(asked) <= 1
