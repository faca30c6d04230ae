"""Minimising over balls and boxes: hints, feasible points, certificates, and the exact law."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, minimize
from scipy.special import expit

from mechanisms.exact.continuous import knorm_vector
from mechanisms.exact.floats import working_precision
from mechanisms.objectives.losses import logistic_loss
from mechanisms.perturbation.calibration import Perturbation
from mechanisms.privacy import Adjacency
from mechanisms.samplers.minimiser import Problem, certified_minimiser, refined_minimiser
from mechanisms.samplers.regions import Box, L1Ball, Region, WholeSpace
from mechanisms.testing import Law, check_draws, seeded_randomness
from tests.mechanisms.logistic_data import objective, plain_design

Floats = NDArray[np.float64]
THIRD = Fraction(1, 3)
REGIONS: dict[str, Region] = {
    "space": WholeSpace(),
    "l1": L1Ball(THIRD),
    "linf": Box.cube(THIRD, 3),
    "box": Box((Fraction(-1), Fraction(1, 10), Fraction(-1, 5)), (Fraction(1), THIRD, Fraction(3))),
}
every_region = pytest.mark.parametrize("region", REGIONS.values(), ids=REGIONS)


def _quadratic(rng: np.random.Generator) -> tuple[Floats, Floats]:
    factor = rng.normal(size=(3, 3))
    return factor @ factor.T + 0.05 * np.eye(3), rng.normal(size=3) * 10 ** rng.uniform(-1, 1)


def _fractions(values: Floats) -> NDArray[np.object_]:
    answer = np.empty(values.shape, dtype=object)
    for place in np.ndindex(values.shape):
        answer[place] = Fraction(float(values[place]))
    return answer


def _reference(region: Region, hessian: Floats, linear: Floats) -> Floats:
    """Return scipy's minimiser on the region."""
    constraints: list[object] = []
    bounds = None
    if isinstance(region, L1Ball):
        signs = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
        constraints = [LinearConstraint(signs, ub=float(region.bound))]
    elif isinstance(region, Box):
        bounds = [(float(a), float(b)) for a, b in zip(region.lower, region.upper, strict=True)]
    found = minimize(
        lambda t: t @ hessian @ t / 2 + linear @ t,
        [float(t) for t in region.start(3)],
        jac=lambda t: hessian @ t + linear,
        constraints=constraints,
        bounds=bounds,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return np.asarray(found.x)


@every_region
def test_quadratics_are_minimised_on_the_region(region: Region) -> None:
    """Against scipy; floats and exact walks agree; feasible points are feasible; KKT closes."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        hessian, linear = _quadratic(rng)
        point = region.minimise(hessian, linear)
        wanted = _reference(region, hessian, linear)

        def value(t: Floats, h: Floats = hessian, c: Floats = linear) -> float:
            return float(t @ h @ t / 2 + c @ t)

        assert value(point.theta) <= value(wanted) + 1e-9 * (1 + abs(value(wanted)))
        exact = region.minimise(_fractions(hessian), _fractions(linear), 160)
        assert np.abs(exact.theta.astype(float) - point.theta).max() < 1e-9
        for bits, close in ((None, 1e-9), (160, 1e-40)):
            theta = region.feasible(point if bits is None else exact, bits)
            assert theta is not None
            assert _inside(region, theta)
            total = [
                sum((Fraction(float(h)) * t for h, t in zip(row, theta, strict=True)), Fraction(0))
                + Fraction(float(c))
                for row, c in zip(hessian, linear, strict=True)
            ]
            with working_precision(400):
                balls = [arb(g.numerator) / g.denominator for g in total]
                gaps = [float(abs(gap).upper()) for gap in region.gaps(theta, balls)]
            assert max(gaps) < close * (1 + np.abs(linear).max())
            half = [t / 2 + s / 2 for t, s in zip(theta, region.start(3), strict=True)]
            assert _inside(region, region.inward(half, 20))


def _inside(region: Region, theta: list[Fraction]) -> bool:
    if isinstance(region, L1Ball):
        return sum(map(abs, theta)) <= region.bound
    if isinstance(region, Box):
        return all(
            low <= t <= high for t, low, high in zip(theta, region.lower, region.upper, strict=True)
        )
    return True


@every_region
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_floats_and_ball_arithmetic_release_the_same_point(region: Region, scale: float) -> None:
    """A logistic loss; the exact route starts from nothing."""
    rng = np.random.default_rng(5)
    codes = rng.integers(-(2**20), 2**20 + 1, size=(25, 3))
    loss = objective(codes, rng.uniform(size=25) < 0.3, plain_design(3))
    for norm in ("linf", "l1"):
        tilt = knorm_vector(
            norm=norm,  # type: ignore[arg-type]
            dimension=3,
            rate_squared=Fraction(1) / Fraction(scale) ** 2,
            randomness=seeded_randomness(10),
        )
        problem = Problem(loss, Fraction(1, 2), tilt, region, -24)
        found = certified_minimiser(problem)
        assert found == refined_minimiser(problem, None)
        fine = certified_minimiser(Problem(loss, Fraction(1, 2), tilt, region, -150))
        assert np.abs(np.array(found) / 2.0**24 - np.array(fine) / 2.0**150).max() < 2**-24


def test_a_grid_step_avoids_every_bound() -> None:
    box = Box((Fraction(-3, 16), Fraction(0)), (Fraction(5, 32), Fraction(1, 3)))
    assert box.exponent(-2) == -2
    assert box.exponent(-3) == -5  # -3/16 is a tie at 2**-3, 5/32 at 2**-4
    assert WholeSpace().exponent(-7) == -7
    with pytest.raises(ValueError, match="below"):
        Box((Fraction(1),), (Fraction(1),))


@pytest.mark.wide
@pytest.mark.statistical
def test_draws_in_a_lopsided_box_follow_the_exact_law() -> None:
    """d = 1, Theta = [-1/5, 1/2]: atoms at both ends; twins at x0.7, x1.3."""
    codes = np.array([[2**20], [2**20], [-(2**19)]])
    labels = np.array([True, False, True])
    plain = objective(codes, labels, plain_design(1))
    box = Box((Fraction(-1, 5),), (Fraction(1, 2),))
    loss = logistic_loss(1, Adjacency.REPLACE_ONE)
    draw = Perturbation.calibrate(
        loss,
        epsilon=Fraction(4),
        row_bound=3,
        region=box,
        q=Fraction(1, 2),
    )
    randomness = seeded_randomness(5)
    released = [float(draw.draw(plain, randomness)[0]) for _ in range(8200)]
    x, step = codes[:, 0] / 2.0**20, 2.0**draw.step_exponent

    def law(scale: float) -> Law:
        def at(a: Floats) -> Floats:
            edge = a + step / 2
            slope = (expit(np.outer(edge, x)) - labels) @ x
            rate = scale * 2 / float(loss.largest_difference)
            v = rate * (slope + float(draw.ridge) * edge)
            smooth = np.where(v < 0, np.exp(np.minimum(v, 0)) / 2, 1 - np.exp(-np.abs(v)) / 2)
            return np.where(edge < -0.2, 0.0, np.where(edge >= 0.5, 1.0, smooth))

        return Law(at=at, below=lambda a: at(a - step))

    check_draws(released, law(1.0), twins=[law(0.7), law(1.3)], flake=1e-3)  # seeded
    assert {min(released), max(released)} <= {round(-0.2 / step) * step, 0.5}
