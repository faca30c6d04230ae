"""Huber's loss: certificate, sensitivity, privacy without a continuous Hessian, reference."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import arb, arb_mat
from numpy.typing import NDArray
from scipy.optimize import minimize

from mechanisms.auditing import audit_counts
from mechanisms.exact.continuous import knorm_vector
from mechanisms.exact.floats import working_precision
from mechanisms.objectives.huber import HuberObjective, huber_loss
from mechanisms.objectives.losses import Norm
from mechanisms.perturbation.calibration import Perturbation, ridge
from mechanisms.privacy import Adjacency
from mechanisms.samplers.minimiser import Problem, certified_minimiser, refined_minimiser
from mechanisms.samplers.regions import Box, L1Ball, Region, WholeSpace
from mechanisms.statistics.designs.rows import HELD_ROWS, CodeRows, passes
from mechanisms.statistics.designs.scaling import design
from mechanisms.testing import Law, check_draws, seeded_randomness
from tests.mechanisms.quantile_data import question, table
from tests.tiers import in_one

Floats = NDArray[np.float64]
REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


def _objective(
    x: Floats, y: Floats, threshold: Fraction, *, rows: int | None = None
) -> HuberObjective:
    schema, data = table(x, y)
    scaling = question(schema).scaling(schema)
    assert scaling.target is not None
    return HuberObjective(
        passes(data, CodeRows(scaling.columns), replace(schema, rows=rows or schema.rows)),
        design(scaling),
        target=(Fraction(scaling.target.offset, scaling.target.divisor), scaling.target.slope),
        threshold=threshold,
    )


def _value(x: Floats, y: Floats, cut: float, theta: Floats) -> float:
    t = np.abs(x @ theta - y)
    return float(np.where(t <= cut, t * t / 2, cut * t - cut * cut / 2).sum())


@in_one("cut", [Fraction(1), Fraction(1, 5), Fraction(1, 1000)])
@in_one("rows", [0, 1, 60, 9000])
def test_certified_sums_hold_the_exact_ones(rows: int, cut: Fraction) -> None:
    rng = np.random.default_rng(rows)
    x, y = rng.uniform(-1, 1, size=(rows, 3)), rng.uniform(-1, 1, size=rows)
    loss = _objective(x, y, cut)
    theta = [Fraction(t) for t in rng.normal(size=3) / 3]
    at = np.array([float(t) for t in theta])
    facts, exact = loss.certify(theta), loss.gradient(theta, 128)
    for ball, truth in zip(facts.gradient, exact, strict=True):
        assert ball.contains(truth)
        assert ball.rad() <= 1e-12 * max(rows, 1)
    hint, hessian = loss.model(at)
    assert np.allclose(hint, [float(g) for g in exact], atol=1e-9 * max(rows, 1))
    assert 0 <= float(facts.curvature) <= np.linalg.eigvalsh(hessian)[0] + 1e-9
    assert facts.reach is not None
    for _ in range(10):
        move = rng.normal(size=3)
        move *= float(facts.reach) / np.linalg.norm(move)
        there = loss.model(at + move)[1]
        assert np.linalg.eigvalsh(there)[0] >= float(facts.curvature) - 1e-9
    for unit in np.eye(3) * 1e-6:
        high, low = (_value(x, y, float(cut), at + s * unit) for s in (1, -1))
        assert hint @ (unit / 1e-6) == pytest.approx((high - low) / 2e-6, abs=2e-5 * max(rows, 1))


def test_rows_that_are_read_in_passes_are_summed_like_those_that_are_held() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.uniform(-1, 1, size=(9000, 2)), rng.uniform(-1, 1, size=9000)
    held = _objective(x, y, Fraction(1, 4))
    passing = _objective(x, y, Fraction(1, 4), rows=HELD_ROWS + 1)
    theta = [Fraction(1, 3), Fraction(-1, 8)]
    one, other = held.certify(theta), passing.certify(theta)
    truth = passing.gradient(theta, 128)
    for ball, same, exact in zip(one.gradient, other.gradient, truth, strict=True):
        assert ball.contains(exact)
        assert same.contains(exact)
    assert float(one.curvature) == pytest.approx(float(other.curvature), rel=1e-9)
    at = np.array([float(t) for t in theta])
    for left, right in zip(held.model(at), passing.model(at), strict=True):
        assert left == pytest.approx(right, rel=1e-12)
    step = np.array([0.1, 0.2])
    along = [each.slope_along(at, step)(0.5) for each in (held, passing)]
    assert along[0] == pytest.approx(along[1], rel=1e-12)


def test_a_threshold_outside_its_range_is_refused() -> None:
    for cut in (Fraction(0), Fraction(2)):
        with pytest.raises(ValueError, match="threshold"):
            _objective(np.zeros((1, 1)), np.zeros(1), cut)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_gradients_reach_the_sensitivity_and_never_pass_it(adjacency: Adjacency) -> None:
    cut = Fraction(1, 4)
    constants = huber_loss(2, cut, adjacency)
    theta = [Fraction(1, 3), Fraction(-1, 2)]
    corners = [
        np.array([float(g) for g in _objective(row[None, :2], row[2:], cut).gradient(theta, 64)])
        for row in np.array(list(product((-1.0, 0.3, 1.0), repeat=3)))
    ]
    others = corners if adjacency is REPLACE else [np.zeros(2)]
    norms: tuple[tuple[float, Norm], ...] = ((np.inf, "linf"), (2, "l2"), (1, "l1"))
    for order, norm in norms:
        bound = float(constants.sensitivity_squared(norm)) ** 0.5
        worst = max(float(np.linalg.norm(a - b, ord=order)) for a in corners for b in others)
        assert 0.99 * bound < worst <= bound + 1e-12
    assert huber_loss(2, cut, adjacency, bound=Fraction(5)).largest_difference == (
        constants.largest_difference
    )
    assert constants.eigenvalue == 2


def _density(
    x: Floats, y: Floats, cut: Fraction, theta: list[Fraction], gamma: Fraction
) -> tuple[arb, arb]:
    """Return ||V(theta)||_inf and log |det dV/dtheta|, exactly."""
    size = len(theta)
    tilt = [gamma * t for t in theta]
    slope = [[gamma if i == j else Fraction(0) for j in range(size)] for i in range(size)]
    for row, target in zip(x.tolist(), y.tolist(), strict=True):
        entries = [Fraction(a) for a in row]
        t = sum((a * b for a, b in zip(entries, theta, strict=True)), -Fraction(target))
        psi = min(max(t, -cut), cut)
        tilt = [v + psi * a for v, a in zip(tilt, entries, strict=True)]
        if abs(t) < cut:
            for i, j in product(range(size), repeat=2):
                slope[i][j] += entries[i] * entries[j]
    length = max(abs(v) for v in tilt)
    matrix = arb_mat([[arb(e.numerator) / e.denominator for e in row] for row in slope])
    return arb(length.numerator) / length.denominator, matrix.det().log()


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("d", [1, 2])
def test_density_ratios_never_exceed_epsilon(d: int, adjacency: Adjacency) -> None:
    """The density exists off the kinks; over neighbours, theta, epsilon, q and thresholds."""
    rng = np.random.default_rng(d)
    largest = 0.0
    with working_precision(120):
        for trial in range(400):
            epsilon = Fraction(["0.1", "1", "4"][trial % 3])
            q = Fraction(["0.3", "0.5", "0.85"][trial // 3 % 3])
            cut = [Fraction(1), Fraction(1, 8)][trial % 5 % 2]
            constants = huber_loss(d, cut, adjacency)
            gamma = ridge(epsilon, q, constants.eigenvalue)
            rate = epsilon * q / constants.largest_difference
            common = int(rng.integers(0, 4))
            x = rng.uniform(-1, 1, size=(common + 2, d))
            y = rng.uniform(-1, 1, size=common + 2)
            if trial % 2:
                x, y = np.sign(x), np.sign(y) * rng.choice([0.1, 1.0])
            theta = [Fraction(t) for t in rng.normal(size=d) * 10 ** rng.uniform(-2, 0.5)]
            kept = list(range(common))
            logs = []
            for rows in ([*kept, common], kept if adjacency is ADD else [*kept, common + 1]):
                length, slope = _density(x[rows], y[rows], cut, theta, gamma)
                logs.append(slope - length * rate.numerator / rate.denominator)
            ratio = abs(logs[0] - logs[1])
            assert ratio <= arb(epsilon.numerator) / epsilon.denominator
            largest = max(largest, float(ratio) / float(epsilon))
    assert largest > 0.5  # seen: 0.63 to 0.9 of epsilon


@pytest.mark.parametrize(
    "region",
    [WholeSpace(), L1Ball(Fraction(1, 4)), Box.cube(Fraction(1, 4), 2)],
    ids=["space", "l1", "linf"],
)
def test_the_minimiser_is_scipy_s_and_both_routes_agree(region: Region) -> None:
    rng = np.random.default_rng(8)
    x = rng.uniform(-1, 1, size=(200, 2))
    y = np.clip(x @ [0.6, -0.4] + 0.1 * rng.standard_t(2, size=200), -1, 1)
    for cut in (Fraction(1, 20), Fraction(1)):
        loss = _objective(x, y, cut)
        for ridge_weight in (Fraction(2), Fraction(1, 2**20)):
            tilt = knorm_vector(
                norm="linf", dimension=2, rate_squared=Fraction(1), randomness=seeded_randomness(3)
            )
            problem = Problem(loss, ridge_weight, tilt, region, -24)
            found = certified_minimiser(problem)
            assert found == refined_minimiser(problem, None)
            if isinstance(region, WholeSpace):
                v = np.array([float(b) for b in tilt.enclose(64)])
                weight = float(ridge_weight)
                reference = minimize(
                    lambda t, c=float(cut), g=weight, v=v: (
                        _value(x, y, c, t) + g / 2 * t @ t + v @ t
                    ),
                    np.zeros(2),
                    method="BFGS",
                    options={"gtol": 1e-9},
                ).x
                assert np.array(found) / 2.0**24 == pytest.approx(reference, abs=1e-5)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_hard_data_is_drawn_from(adjacency: Adjacency) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.uniform(-1, 1, size=(30, 2)), rng.uniform(-1, 1, size=30)
    for rows, targets in (
        (x, x[:, 0]),
        (np.ones((30, 2)), y),
        (np.zeros((30, 2)), y),
        (x[:, [0, 0]], np.sign(y)),
        (x[:1], y[:1]),
        (x[:0], y[:0]),
    ):
        loss = _objective(rows, targets, Fraction(1, 10))
        for epsilon in ("0.000000001", "1", "10000"):
            draw = Perturbation.calibrate(
                huber_loss(2, Fraction(1, 10), adjacency),
                epsilon=Fraction(epsilon),
                row_bound=100,
                region=WholeSpace(),
            )
            assert all(abs(t) < 10**13 for t in draw.draw(loss, seeded_randomness(1)))


def test_a_hint_that_never_moves_holds_no_draw_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Floats may see no slope where the exact one is small, as some processors do."""
    rng = np.random.default_rng(5)
    x, y = rng.uniform(-1, 1, size=(30, 2)), rng.uniform(-1, 1, size=30)
    loss = _objective(x[:, [0, 0]], np.sign(y), Fraction(1, 10))
    draw = Perturbation.calibrate(
        huber_loss(2, Fraction(1, 10), REPLACE),
        epsilon=Fraction(10_000),
        row_bound=100,
        region=WholeSpace(),
    )
    found = draw.draw(loss, seeded_randomness(1))
    monkeypatch.setattr(
        HuberObjective, "slope_along", lambda *_: lambda share: 1.0 if share > 0 else -1.0
    )
    assert draw.draw(loss, seeded_randomness(1)) == found


def _one_dimensional(
    x: list[float], y: list[float], delta: Fraction | None, count: int
) -> tuple[Perturbation, Floats]:
    constants = huber_loss(1, Fraction(1, 2), REPLACE)
    draw = Perturbation.calibrate(
        constants, epsilon=Fraction(2), row_bound=4, region=WholeSpace(), q=Fraction(1, 2)
    )
    if delta is not None:
        draw = Perturbation.calibrate(
            constants.of_a_cube(
                dimension=1,
                largest_difference=delta,
                eigenvalue=constants.eigenvalue,
                slope_norm=1.0,
                curvature=1.0,
            ),
            epsilon=Fraction(2),
            row_bound=4,
            region=WholeSpace(),
            q=Fraction(1, 2),
        )
    loss = _objective(np.array(x)[:, None], np.array(y), Fraction(1, 2))
    randomness = seeded_randomness(7)
    return draw, np.array([float(draw.draw(loss, randomness)[0]) for _ in range(count)])


@pytest.mark.wide
@pytest.mark.statistical
def test_draws_follow_the_exact_law_and_refuse_twins() -> None:
    x, y = [1.0, -0.5, 0.25], [0.75, 0.5, -0.25]
    draw, drawn = _one_dimensional(x, y, None, 6700)
    step, rate = 2.0**draw.step_exponent, 2 * 0.5 / 1

    def law(scale: float) -> Law:
        def at(a: Floats) -> Floats:
            edge = a + step / 2
            slope = np.clip(np.outer(edge, x) - y, -0.5, 0.5) @ np.array(x)
            v = scale * rate * (slope + float(draw.ridge) * edge)
            return np.where(v < 0, np.exp(np.minimum(v, 0)) / 2, 1 - np.exp(-np.abs(v)) / 2)

        return Law(at=at, below=lambda a: at(a - step))

    check_draws(drawn, law(1.0), twins=[law(0.7), law(1.3)], flake=1e-3)  # seeded


@pytest.mark.wide
@pytest.mark.statistical
def test_the_audit_passes_ours_and_flags_a_sixth_of_the_sensitivity() -> None:
    bounds = []
    for delta in (None, Fraction(1, 6)):
        counts = [
            int((_one_dimensional([first, 0.1], [1.0, 0.0], delta, 800)[1] > 0).sum())
            for first in (1.0, -1.0)
        ]
        events = {"theta > 0": (counts[0], counts[1])}
        bounds.append(audit_counts(events, trials=(800, 800)).epsilon)
    assert bounds[0] <= 2 < bounds[1]
