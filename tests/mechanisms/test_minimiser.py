"""Rounding, the continuous noise, the l1-ball walk and the certified minimiser."""

from __future__ import annotations

import threading
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from mechanisms.domain import CODE_MAX
from mechanisms.exact.continuous import BallNorm, knorm_vector
from mechanisms.exact.floats import grid_index, grid_point, working_precision
from mechanisms.objectives.quadratic import LeastSquaresObjective
from mechanisms.samplers.minimiser import Problem, certified_minimiser, refined_minimiser
from mechanisms.samplers.quadratics import Quadratic, solve_exactly
from mechanisms.samplers.regions import L1Ball, dyadic_step, l1_region
from mechanisms.testing import Law, check_draws, seeded_randomness
from tests.mechanisms.logistic_data import objective, plain_design
from tests.tiers import in_one

NORMS: tuple[BallNorm, ...] = ("l1", "l2", "linf")


def test_rounding_decides_only_what_the_ball_decides() -> None:
    with working_precision(128):
        assert grid_index(arb(5) / 8, -3) == 5
        assert grid_index(arb(3) / 16, -3) == 2  # a tie goes up
        assert grid_index(-arb(3) / 16, -3) == -1
        assert grid_index(arb("0.3"), -60) == round(Fraction(3, 10) * 2**60)
        assert grid_index(arb(0.5, 1e-9), 0) is None
        assert grid_index(arb("nan"), 0) is None
        assert grid_index(arb(0, 1e-9), -20) == 0
        assert grid_point([arb(1), arb(0.5, 1e-9)], 0) is None
        assert grid_point([arb(1), arb(-2)], -1) == (2, -4)


def test_precision_is_restored_and_held_by_one_thread() -> None:
    before = ctx.prec
    seen: list[int] = []

    def other() -> None:
        with working_precision(77):
            seen.append(ctx.prec)

    with working_precision(200):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.05)
        assert not seen
        with working_precision(300):
            assert ctx.prec == 300
        assert ctx.prec == 200
    thread.join()
    assert seen == [77]
    assert ctx.prec == before


@in_one("norm", NORMS)
@in_one("dimension", [1, 2, 5])
def test_more_bits_refine_the_same_vector(norm: BallNorm, dimension: int) -> None:
    vector = knorm_vector(
        norm=norm,
        dimension=dimension,
        rate_squared=Fraction(1, 3),
        randomness=seeded_randomness(dimension),
    )
    coarse, fine = vector.enclose(40), vector.enclose(200)
    assert len(coarse) == dimension
    for wide, narrow in zip(coarse, fine, strict=True):
        assert wide.overlaps(narrow)
        assert narrow.rad() < 1e-50
        assert wide.contains(narrow.mid())
    with working_precision(200):
        again = vector.enclose(200)
    assert all(a.overlaps(b) for a, b in zip(again, fine, strict=True))


@pytest.mark.statistical
@pytest.mark.parametrize("norm", NORMS)
def test_the_radius_is_gamma_and_a_coordinate_has_its_law(norm: BallNorm) -> None:
    """||V||_K ~ Gamma(d, rate); twins at rate x0.7 and x1.3 are refused."""
    dimension, rate, draws = 3, 0.5, 6000
    randomness = seeded_randomness(11)
    vectors = np.array(
        [
            [
                float(ball)
                for ball in knorm_vector(
                    norm=norm,
                    dimension=dimension,
                    rate_squared=Fraction(1, 4),
                    randomness=randomness,
                ).enclose(64)
            ]
            for _ in range(draws)
        ]
    )
    order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    radii = np.linalg.norm(vectors, ord=order, axis=1)

    def gamma(scale: float) -> Law:
        return Law.continuous(lambda x: stats.gamma.cdf(x, dimension, scale=scale / rate))

    check_draws(radii, gamma(1.0), twins=[gamma(0.7), gamma(1.3)])
    # on the sphere: uniform cone measure, whose first coordinate has a known law
    share = vectors[:, 0] / radii
    laws = {
        # |share| of an l1 simplex is Beta(1, 2); of a 2-sphere, share is uniform
        "l1": lambda x: 0.5 + np.sign(x) * (1 - (1 - np.abs(x).clip(0, 1)) ** 2) / 2,
        "l2": lambda x: (1 + x.clip(-1, 1)) / 2,
        # a cube's face: 1/3 of the mass at +-1, the rest uniform
        "linf": lambda x: np.where(x >= 1, 1.0, 1 / 6 + (1 + x.clip(-1, 1)) / 3),
    }
    inside = share[np.abs(share) < 1 - 1e-9] if norm == "linf" else share
    law = laws["l2"] if norm == "linf" else laws[norm]
    check_draws(inside, Law.continuous(law))


def test_knorm_vectors_need_a_dimension_and_a_rate() -> None:
    for dimension, rate in ((0, Fraction(1)), (2, Fraction(0))):
        with pytest.raises(ValueError, match="positive"):
            knorm_vector(
                norm="l1", dimension=dimension, rate_squared=rate, randomness=seeded_randomness(1)
            )


def _exactly(values: np.ndarray) -> np.ndarray:
    return np.vectorize(Fraction, otypes=[object])(values)


def test_the_walk_ends_at_the_minimiser_exactly() -> None:
    """Optimality in exact rationals; floats agree; some walks cross the ball's inside."""
    rng = np.random.default_rng(1)
    on_faces = 0
    for trial in range(150):
        size = int(rng.integers(1, 6))
        basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
        hessian = basis @ np.diag(10 ** rng.uniform(-3, 0, size=size)) @ basis.T
        hessian = (hessian + hessian.T) / 2
        linear = -hessian @ (rng.normal(size=size) * 10 ** rng.uniform(-1, 3, size=size))
        bound = Fraction(10 ** rng.uniform(-1, 1))
        exact = Quadratic(_exactly(hessian), _exactly(linear), bound, exact=True).minimise()
        slope = _exactly(hessian) @ exact.theta + _exactly(linear)
        if exact.signs is None:
            assert not slope.any(), trial
            assert np.abs(exact.theta).sum() <= bound
            continue
        on_faces += 1
        assert np.abs(exact.theta).sum() == bound
        tau = np.abs(slope).max()
        assert all(-s * g == tau for s, g in zip(exact.signs, slope, strict=True) if s)
        floats = Quadratic(hessian, linear, float(bound), exact=False).minimise()
        assert np.allclose(floats.theta, exact.theta.astype(float), atol=1e-6 * float(bound))
    assert on_faces > 50


def test_a_walk_may_cross_the_inside_of_the_ball() -> None:
    """The vertex (0, 115) leads to the facet x - y = 115 from behind: tau < 0 there."""
    hessian = 1000 * np.outer([1, 2], [1, 2]) + np.eye(2, dtype=int)
    linear = -hessian @ np.array([38, 94])
    point = Quadratic(_exactly(hessian), _exactly(linear), Fraction(115), exact=True).minimise()
    assert point.theta.sum() == 115
    assert (point.theta > 0).all()
    slope = _exactly(hessian) @ point.theta + _exactly(linear)
    assert slope[0] == slope[1] < 0


def test_exact_systems_are_solved_exactly() -> None:
    matrix = _exactly(np.array([[2.0, 1.0], [1.0, 3.0]]))
    answer = solve_exactly(matrix, np.array([Fraction(1, 3), Fraction(-2)], dtype=object))
    assert answer.tolist() == [Fraction(3, 5), Fraction(-13, 15)]


class Fixed:
    """A tilt that is known exactly."""

    def __init__(self, *values: float) -> None:
        self._values = values

    def enclose(self, bits: int) -> list[arb]:
        return [arb(value) for value in self._values]


@pytest.mark.parametrize("bound", [None, Fraction(3, 10), Fraction(2)])
@pytest.mark.parametrize("ridge", [Fraction(1, 2**20), Fraction(1, 3)])
def test_floats_and_balls_find_the_same_grid_point(bound: Fraction | None, ridge: Fraction) -> None:
    rng = np.random.default_rng(8)
    for trial in range(6):
        rows = int(rng.integers(1, 60))
        codes = rng.integers(-CODE_MAX, CODE_MAX + 1, size=(rows, 3))
        loss = objective(codes, rng.uniform(size=rows) < 0.5, plain_design(3, intercept=True))
        tilt = knorm_vector(
            norm=NORMS[trial % 3],
            dimension=4,
            rate_squared=Fraction(1, 2),
            randomness=seeded_randomness(trial),
        )
        problem = Problem(loss, ridge, tilt, l1_region(bound), -20)
        assert certified_minimiser(problem) == refined_minimiser(problem, None)


@pytest.mark.parametrize("bound", [None, Fraction(1, 5)])
def test_a_grid_beyond_floats_is_still_decided(bound: Fraction | None) -> None:
    """At step 2**-200 floats cannot certify; the coarse answer is the fine one rounded."""
    rng = np.random.default_rng(9)
    codes = rng.integers(-CODE_MAX, CODE_MAX + 1, size=(40, 2))
    loss = objective(codes, rng.uniform(size=40) < 0.7, plain_design(2))
    tilt = knorm_vector(
        norm="linf", dimension=2, rate_squared=Fraction(1), randomness=seeded_randomness(3)
    )
    fine = certified_minimiser(Problem(loss, Fraction(1), tilt, l1_region(bound), -200))
    coarse = certified_minimiser(Problem(loss, Fraction(1), tilt, l1_region(bound), -20))
    assert [(index + (1 << 179)) >> 180 for index in fine] == list(coarse)
    if bound is not None:
        assert abs(sum(map(abs, fine)) - Fraction(1 << 200, 5)) <= 2


def test_the_bound_is_an_atom_and_never_a_tie() -> None:
    bound = Fraction(5, 2**11)
    assert dyadic_step(-10, bound) == -11
    assert dyadic_step(-10, Fraction(3, 10)) == -10
    assert dyadic_step(-10, None) == -10
    loss = LeastSquaresObjective([[Fraction(1)]], [Fraction(0)])
    for tilt, sign in ((-9.0, 1), (9.0, -1)):
        problem = Problem(loss, Fraction(1), Fixed(tilt), l1_region(bound), -11)
        assert certified_minimiser(problem) == (5 * sign,)
        assert refined_minimiser(problem, None) == (5 * sign,)


def test_a_minimiser_at_a_vertex_has_zeros_elsewhere() -> None:
    identity = [[Fraction(int(i == j)) for j in range(3)] for i in range(3)]
    loss = LeastSquaresObjective(identity, [Fraction(0)] * 3)
    problem = Problem(loss, Fraction(1), Fixed(0.5, -50.0, 0.1), L1Ball(Fraction(1)), -12)
    assert certified_minimiser(problem) == (0, 4096, 0)


def test_a_long_exact_walk_multiplies_few_fractions_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of many coefficients, a gradient at each step by Python's fractions takes seconds."""
    rng, size = np.random.default_rng(5), 30
    factor = rng.integers(-9, 10, (size, size))
    hessian = factor @ factor.T + np.eye(size, dtype=np.int64)
    problem = Quadratic(
        _exactly(hessian.astype(float)),
        _exactly(rng.integers(-99, 100, size).astype(float)),
        Fraction(1),
        exact=True,
    )
    count, multiplied = 0, Fraction.__mul__

    def counted(one: Fraction, two: Fraction) -> Fraction:
        nonlocal count
        count += 1
        return multiplied(one, two)

    monkeypatch.setattr(Fraction, "__mul__", counted)
    assert problem.minimise().signs is not None
    assert count < size**2
