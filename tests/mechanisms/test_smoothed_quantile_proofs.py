"""The smoothed check loss' privacy: closed-form ratios, exact law, audit with the printed Delta."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import arb, arb_mat
from numpy.typing import NDArray
from scipy.special import expit

from mechanisms.auditing import audit_counts
from mechanisms.catalog import calibrate
from mechanisms.exact.continuous import BallNorm
from mechanisms.exact.floats import working_precision
from mechanisms.objectives.losses import smoothed_check_loss
from mechanisms.perturbation.calibration import ridge, smoothing_width
from mechanisms.perturbation.release import PerturbedFit
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.testing import Law, check_draws, seeded_randomness
from tests.mechanisms.quantile_data import question, table

Floats = NDArray[np.float64]
REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
NORMS: tuple[BallNorm, ...] = ("linf", "l2", "l1")


def _log_density(
    x: Floats, y: Floats, theta: Floats, *, tau: float, width: float, gamma: Fraction
) -> tuple[list[arb], arb]:
    """Return V(theta) and log |det dV/dtheta| in balls."""
    size = len(theta)
    at = [arb(t) for t in theta]
    ball = arb(gamma.numerator) / gamma.denominator
    tilt = [ball * t for t in at]
    slope = [[ball if i == j else arb(0) for j in range(size)] for i in range(size)]
    for row, target in zip(x.tolist(), y.tolist(), strict=True):
        u = arb(target) - sum((arb(a) * t for a, t in zip(row, at, strict=True)), arb(0))
        p = 1 / (1 + (u / width).exp())
        for i, j in product(range(size), repeat=2):
            slope[i][j] += p * (1 - p) * row[i] * row[j] / width
        tilt = [v + (p - tau) * a for v, a in zip(tilt, row, strict=True)]
    return tilt, arb_mat(slope).det().log()


def _length(tilt: list[arb], norm: BallNorm) -> arb:
    if norm == "l1":
        return sum((abs(v) for v in tilt), arb(0))
    if norm == "l2":
        return sum((v * v for v in tilt), arb(0)).sqrt()
    length = arb(0)
    for v in tilt:
        length = length.max(abs(v))
    return length


def _neighbours(
    d: int, intercept: bool, adjacency: Adjacency, rng: np.random.Generator, trials: int
) -> Iterator[tuple[Floats, Floats, Floats, Floats]]:
    """Yield (x, y, x', y'): few records in common, the changed one extreme or random."""
    for trial in range(trials):
        common = int(rng.integers(0, 4))
        x = rng.uniform(-1, 1, size=(common + 2, d))
        y = rng.uniform(-1, 1, size=common + 2)
        if trial % 2:
            x, y = np.sign(x), np.sign(y)
        if intercept:
            x[:, 0] = 1.0
        other = list(range(common)) if adjacency is ADD else [*range(common), common + 1]
        yield x[: common + 1], y[: common + 1], x[other], y[other]


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize(("d", "intercept"), [(1, False), (1, True), (2, False), (2, True)])
def test_density_ratios_never_exceed_epsilon(d: int, intercept: bool, adjacency: Adjacency) -> None:
    """Change of variables in ball arithmetic, over neighbours, theta, epsilon, q, tau and norms."""
    rng = np.random.default_rng(d)
    largest = 0.0
    pairs = _neighbours(d, intercept, adjacency, rng, 400)
    with working_precision(120):
        for index, (x, y, other_x, other_y) in enumerate(pairs):
            epsilon = Fraction(["0.1", "1", "4"][index % 3])
            q = Fraction(["0.3", "0.5", "0.85"][index // 3 % 3])
            tau = [0.5, 0.9, 0.2][index % 7 % 3]
            width = [0.25, 0.03125][index % 5 % 2]
            norm = NORMS[index % 11 % 3]
            loss = smoothed_check_loss(
                d,
                Fraction(repr(tau)),
                Fraction(width),
                intercept=intercept,
                adjacency=adjacency,
            )
            gamma = ridge(epsilon, q, loss.eigenvalue)
            squared = (epsilon * q) ** 2 / loss.sensitivity_squared(norm)
            rate = (arb(squared.numerator) / squared.denominator).sqrt()
            theta = rng.normal(size=d) * 10 ** rng.uniform(-1, 1)
            logs = []
            for rows, targets in ((x, y), (other_x, other_y)):
                tilt, slope = _log_density(rows, targets, theta, tau=tau, width=width, gamma=gamma)
                logs.append(slope - rate * _length(tilt, norm))
            ratio = abs(logs[0] - logs[1])
            assert ratio <= arb(epsilon.numerator) / epsilon.denominator
            largest = max(largest, float(ratio) / float(epsilon))
    assert largest > 0.5  # seen: 0.74 to 0.92 of epsilon


def _plan(
    x: list[float], y: list[float], *, epsilon: str, bound: float, tau: float
) -> tuple[PerturbedFit, ArrayData]:
    schema, data = table(np.array(x)[:, None], np.array(y))
    plan = calibrate(question(schema, tau=tau, bound=bound), schema, Epsilon.parse(epsilon))
    assert isinstance(plan.draw, PerturbedFit)
    return plan.draw, data


def _draws(draw: PerturbedFit, data: ArrayData, count: int, seed: int) -> Floats:
    objective, randomness = draw.objective(data), seeded_randomness(seed)
    step = 2.0**draw.drawn.step_exponent
    return np.array([draw.drawn.indices(objective, randomness)[0] * step for _ in range(count)])


@pytest.mark.wide
@pytest.mark.statistical
def test_draws_follow_the_exact_law_and_refuse_twins() -> None:
    """d = 1 with atoms at +-B; twins with the tilt's rate at x0.7 and x1.3."""
    bound = 0.75
    draw, data = _plan(
        [1.0, 1.0, -0.5, 0.25], [0.5, 0.25, 0.0, 1.0], epsilon="4", bound=bound, tau=0.75
    )
    draws = _draws(draw, data, 6700, seed=5)
    x, y = data.codes["x0"] / 2.0**20, data.codes["y"] / 2.0**20
    step, width = 2.0**draw.drawn.step_exponent, float(smoothing_width(Fraction(4), 1, len(x)))
    full = 4 * float(draw.drawn.q) / float(draw.loss.largest_difference)
    assert draw.loss.largest_difference == Fraction(3, 2)

    def law(scale: float) -> Law:
        def at(a: Floats) -> Floats:
            edge = a + step / 2  # every real up to here rounds to a grid point at or below a
            slope = expit((np.outer(edge, x) - y) / width) - 0.75
            v = scale * full * (slope @ x + float(draw.drawn.ridge) * edge)
            smooth = np.where(v < 0, np.exp(np.minimum(v, 0)) / 2, 1 - np.exp(-np.abs(v)) / 2)
            return np.where(edge < -bound, 0.0, np.where(edge >= bound, 1.0, smooth))

        return Law(at=at, below=lambda a: at(a - step))

    check_draws(draws, law(1.0), twins=[law(0.7), law(1.3)], flake=1e-3)  # seeded
    assert np.isin([-bound, bound], draws).all()


def _audited(twin: Fraction | None) -> float:
    """Return the audited epsilon at epsilon = 1, tau = 0.9: one record moves from x = 1 to -1."""
    counts = []
    for index, first in enumerate((1.0, -1.0)):
        draw, data = _plan([first, 0.0], [1.0, 0.0], epsilon="1", bound=10.0, tau=0.9)
        if twin is not None:
            draw = replace(draw, drawn=replace(draw.drawn, sensitivity_squared=twin**2))
        draws = _draws(draw, data, 800, seed=20 + index)
        counts.append([int((draws > 0).sum()), int((draws > 0.25).sum())])
    events = dict(zip(("theta > 0", "theta > 1/4"), zip(*counts, strict=True), strict=True))
    return audit_counts(events, trials=(800, 800)).epsilon


@pytest.mark.wide
@pytest.mark.statistical
def test_the_audit_flags_the_printed_sensitivity_and_passes_ours() -> None:
    """Printed: Delta = 2 (1 - tau) = 1/5 at tau = 0.9; right: 9/5."""
    draw, _ = _plan([1.0, 0.0], [1.0, 0.0], epsilon="1", bound=10.0, tau=0.9)
    assert draw.loss.largest_difference == Fraction(9, 5)
    assert _audited(None) <= 1
    assert _audited(Fraction(1, 5)) > 1
