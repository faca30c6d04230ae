"""Objective perturbation's privacy: closed-form ratios, exact law, black-box audit with a twin."""

from __future__ import annotations

import math
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
from mechanisms.domain import Schema
from mechanisms.exact.continuous import BallNorm
from mechanisms.exact.floats import working_precision
from mechanisms.objectives.losses import Loss, logistic_loss
from mechanisms.objectives.quadratic import LeastSquaresObjective
from mechanisms.perturbation import calibrate
from mechanisms.perturbation.calibration import ridge
from mechanisms.perturbation.release import PerturbedFit
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.testing import Law, check_draws, draws_to_refuse, seeded_randomness
from tests.mechanisms.logistic_data import UNIT, features, labelled

Floats = NDArray[np.float64]
REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


def _log_density(
    x: Floats, y: Floats, theta: Floats, *, gamma: Fraction, norm: BallNorm, rate: arb
) -> arb:
    """Return log f(V(theta)) + log |det dV/dtheta| in balls, up to a constant."""
    size = len(theta)
    at = [arb(t) for t in theta]
    ridge_ball = arb(gamma.numerator) / gamma.denominator
    tilt = [ridge_ball * t for t in at]
    slope = [[ridge_ball if i == j else arb(0) for j in range(size)] for i in range(size)]
    for row, label in zip(x.tolist(), y.tolist(), strict=True):
        p = 1 / (1 + (-sum((arb(a) * t for a, t in zip(row, at, strict=True)), arb(0))).exp())
        for i, j in product(range(size), repeat=2):
            slope[i][j] += p * (1 - p) * row[i] * row[j]
        tilt = [v + (p - label) * a for v, a in zip(tilt, row, strict=True)]
    if norm == "linf":
        length = arb(0)
        for v in tilt:
            length = length.max(abs(v))
    elif norm == "l2":
        length = sum((v * v for v in tilt), arb(0)).sqrt()
    else:
        length = sum((abs(v) for v in tilt), arb(0))
    return -rate * length + arb_mat(slope).det().log()


def _neighbours(
    d: int, adjacency: Adjacency, rng: np.random.Generator, trials: int
) -> Iterator[tuple[Floats, Floats, Floats, Floats]]:
    """Yield (x, y, x', y'): few records in common, the changed one extreme or random."""
    for trial in range(trials):
        common = int(rng.integers(0, 4))
        x = rng.uniform(-1, 1, size=(common + 2, d))
        if trial % 2:
            x = np.sign(x)
        y = (rng.uniform(size=common + 2) < 0.5).astype(float)
        other = slice(None, common) if adjacency is ADD else [*range(common), common + 1]
        yield x[: common + 1], y[: common + 1], x[other], y[other]


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("bound", [None, Fraction(1, 2)])
def test_density_ratios_never_exceed_epsilon(
    bound: Fraction | None, d: int, adjacency: Adjacency
) -> None:
    """Change of variables in ball arithmetic, over neighbours, theta, epsilon, q and norms."""
    rng = np.random.default_rng(d)
    loss = logistic_loss(d, adjacency, bound)
    largest = 0.0
    norms: tuple[BallNorm, ...] = ("linf", "l2", "l1") if d > 1 else ("linf",)
    with working_precision(120):
        for index, pair in enumerate(_neighbours(d, adjacency, rng, 400)):
            epsilon = Fraction(["0.1", "1", "4"][index % 3])
            q = Fraction(["0.3", "0.5", "0.85"][index // 3 % 3])
            norm = norms[index % len(norms)]
            gamma = ridge(epsilon, q, loss.eigenvalue)
            rate = _rate(loss, norm, epsilon * q)
            theta = rng.normal(size=d) * 10 ** rng.uniform(-1, 1)
            if bound is not None:
                theta *= float(bound) / max(float(bound), np.abs(theta).sum() * (1 + 1e-12))
            x, y, other_x, other_y = pair
            ratio = abs(
                _log_density(x, y, theta, gamma=gamma, norm=norm, rate=rate)
                - _log_density(other_x, other_y, theta, gamma=gamma, norm=norm, rate=rate)
            )
            assert ratio <= arb(epsilon.numerator) / epsilon.denominator
            largest = max(largest, float(ratio) / float(epsilon))
    assert largest > 0.5  # seen with more trials: 0.62 to 0.85 of epsilon


def _rate(loss: Loss, norm: BallNorm, budget: Fraction) -> arb:
    squared = budget**2 / loss.sensitivity_squared(norm)
    return (arb(squared.numerator) / squared.denominator).sqrt()


def _plan(
    x: Floats, y: list[int], *, epsilon: str, bound: float | None, q: float = 0.5
) -> tuple[PerturbedFit, Schema, ArrayData]:
    schema, data = labelled(x, np.array(y, dtype=bool))
    question = LogisticRegression(
        target="y", features=features(schema), intercept=False, bound=bound, q=q
    )
    plan = calibrate(question, schema, Epsilon.parse(epsilon), "auto")
    assert isinstance(plan.draw, PerturbedFit)
    return plan.draw, schema, data


def _draws(draw: PerturbedFit, data: ArrayData, count: int, seed: int) -> Floats:
    objective = draw.objective(data)
    randomness = seeded_randomness(seed)
    step = 2.0**draw.drawn.step_exponent
    return np.array([draw.drawn.indices(objective, randomness)[0] * step for _ in range(count)])


def _law(
    x: Floats, y: Floats, *, gamma: float, rate: float, bound: float | None, step: float
) -> Law:
    """Return the exact law of theta rounded to the grid, d = 1.

    theta <= a if and only if V >= -(gradient(a) + gamma a), V Laplace of that rate;
    with a bound, +-B are atoms.
    """

    def smooth(a: Floats) -> Floats:
        t = np.outer(a, x[:, 0])
        v = (expit(t) - y) @ x[:, 0] + gamma * a
        return np.where(v < 0, np.exp(rate * v) / 2, 1 - np.exp(-rate * v) / 2)

    def at(a: Floats) -> Floats:
        edge = a + step / 2  # every real up to here rounds to a grid point at or below a
        if bound is None:
            return smooth(edge)
        return np.where(edge < -bound, 0.0, np.where(edge >= bound, 1.0, smooth(edge)))

    return Law(at=at, below=lambda a: at(a - step))


TWINS = (1.0, 0.7, 1.3)


def _folded(law: Law, centre: float) -> Law:
    """Return the law of |theta - centre|: scales of a symmetric law are far from each other there.

    Atoms lie within a hair of where their distance is rounded to.
    """
    hair = 2.0**-40
    return Law(
        at=lambda r: law.at(centre + r + hair) - law.below(centre - r - hair),
        below=lambda r: np.maximum(law.below(centre + r - hair) - law.at(centre - r + hair), 0),
    )


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("bound", [None, 1.0])
def test_draws_follow_the_exact_law_and_refuse_twins(bound: float | None) -> None:
    """d = 1: the mechanism's own draws; twins with the tilt's rate at x0.7 and x1.3."""
    x = np.array([[1.0], [1.0], [-0.5], [0.25]])
    y = [0, 1, 1, 1]
    draw, _, data = _plan(x, y, epsilon="4", bound=bound)

    def law(scale: float) -> Law:
        return _law(
            data.codes["x0"][:, None] / 2.0**20,
            np.array(y, dtype=float),
            gamma=float(draw.drawn.ridge),
            rate=scale * 4 * 0.5 / float(draw.loss.largest_difference),
            bound=bound,
            step=2.0**draw.drawn.step_exponent,
        )

    grid = np.linspace(-10, 10, 200_001)
    centre = float(grid[np.searchsorted(law(1.0).at(grid), 0.5)])
    exact, *twins = (_folded(law(scale), centre) for scale in TWINS)
    draws = _draws(draw, data, draws_to_refuse(twins, exact, np.abs(grid)), seed=5)
    check_draws(draws, law(1.0))
    check_draws(np.abs(draws - centre), exact, twins=twins)
    if bound is not None:
        assert np.isin([-bound, bound], draws).all()


@pytest.mark.wide
@pytest.mark.statistical
def test_linear_draws_follow_the_exact_law() -> None:
    """d = 1 linear: theta = -(V - 2 x'y) / (2 x'x + gamma), cut to [-B, B]."""
    schema = Schema(columns={"x": UNIT, "t": UNIT}, adjacency=REPLACE, rows=3)
    data = ArrayData.from_values(schema, {"x": [1, -1, 0.5], "t": [0.5, -0.25, 1]})
    question = LinearRegression(
        target="t", features=("x",), intercept=False, bound=1.0, loss="squared"
    )
    plan = calibrate(question, schema, Epsilon.parse("3"), "auto")
    draw = plan.draw
    assert isinstance(draw, PerturbedFit)
    normal = draw.scaling.normal_equations(data.gram(draw.scaling.columns))
    objective = LeastSquaresObjective(normal.xx, normal.xy)
    randomness = seeded_randomness(8)
    step = 2.0**draw.drawn.step_exponent
    curve = 2 * float(normal.xx[0][0]) + float(draw.drawn.ridge)
    centre = 2 * float(normal.xy[0])
    assert draw.loss.largest_difference == 8

    def law(scale: float) -> Law:
        rate = scale * 3 * float(draw.drawn.q) / 8

        def at(a: Floats) -> Floats:
            edge = a + step / 2
            v = curve * edge - centre
            smooth = np.where(v < 0, np.exp(rate * v) / 2, 1 - np.exp(-rate * v) / 2)
            return np.where(edge < -1, 0.0, np.where(edge >= 1, 1.0, smooth))

        return Law(at=at, below=lambda a: at(a - step))

    exact, *twins = (_folded(law(scale), centre / curve) for scale in TWINS)
    count = draws_to_refuse(twins, exact, np.linspace(0, 2, 20_001))
    draws = np.array([draw.drawn.indices(objective, randomness)[0] * step for _ in range(count)])
    check_draws(draws, law(1.0))
    check_draws(np.abs(draws - centre / curve), exact, twins=twins)


EPSILON, Q, TRIALS = 1.0, 0.5, 60_000
RECIPE = (
    (np.array([1.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0])),
    (np.array([1.0, 1.0, 0.0]), np.array([0.0, 1.0, 1.0])),
)


def _brute_force(x: Floats, y: Floats, gamma: float, tilts: Floats) -> Floats:
    """Return argmin over [-1, 1] of the tilted objective, by search: gamma may be negative."""
    grid = np.linspace(-1, 1, 401)
    t = np.outer(grid, x)
    objective = (np.logaddexp(0, t) - y * t).sum(axis=1) + gamma / 2 * grid**2
    found = [
        grid[np.argmin(objective[:, None] + grid[:, None] * part, axis=0)]
        for part in np.array_split(tilts, 30)
    ]
    return np.concatenate(found)


def _audit(gamma: float) -> float:
    """Return the audited lower bound of epsilon of 60,000 draws on the recipe's neighbours."""
    rng = np.random.default_rng(1)
    counts = []
    for x, y in RECIPE:
        tilts = rng.laplace(scale=2 / (EPSILON * Q), size=TRIALS)
        counts.append(int((np.abs(_brute_force(x, y, gamma, tilts)) < 0.8).sum()))
    audit = audit_counts({"|theta| < 0.8": (counts[0], counts[1])}, trials=(TRIALS, TRIALS))
    return audit.epsilon


@pytest.mark.wide
@pytest.mark.statistical
def test_the_audit_flags_the_printed_gamma_and_passes_ours() -> None:
    """mechanisms.md 10.3: n = 3, x = (1, 1, 1|0), y = (0, 1, 1), Theta = [-1, 1]."""
    printed = 0.25 / math.expm1(EPSILON * (Q - 1))
    ours = float(ridge(Fraction(1), Fraction(1, 2), Fraction(1, 4)))
    assert _audit(printed) > EPSILON
    assert 0 <= _audit(ours) <= EPSILON


@pytest.mark.wide
@pytest.mark.statistical
def test_the_mechanism_itself_passes_the_audit() -> None:
    """The same neighbours and event, drawn by the mechanism; fewer, as each draw is certified.

    They follow the law in closed form, which the brute-force stand-in of the twin test has too.
    """
    counts, trials = [], 2000
    for index, (x, y) in enumerate(RECIPE):
        draw, _, data = _plan(x[:, None], y.astype(int).tolist(), epsilon="1", bound=1.0)
        gamma, step = float(draw.drawn.ridge), 2.0**draw.drawn.step_exponent
        assert gamma == pytest.approx(0.25 / math.expm1(0.5))
        draws = _draws(draw, data, trials, seed=20 + index)
        rate = EPSILON * Q / float(draw.loss.largest_difference)
        law = _law(x[:, None], y, gamma=gamma, rate=rate, bound=1.0, step=step)
        check_draws(draws, law)
        counts.append([int((np.abs(draws) < 0.8).sum()), int((draws == 1.0).sum())])
        low, high = np.array([-0.8]), np.array([0.8])
        tilts = np.random.default_rng(3).laplace(scale=1 / rate, size=TRIALS)
        share = float((np.abs(_brute_force(x, y, gamma, tilts)) < 0.8).mean())
        assert share == pytest.approx(float((law.below(high) - law.at(low))[0]), abs=0.02)
    events = dict(zip(("|theta| < 0.8", "theta = 1"), zip(*counts, strict=True), strict=True))
    assert audit_counts(events, trials=(trials, trials)).epsilon <= EPSILON


def test_a_wrong_gamma_in_the_mechanism_changes_its_law() -> None:
    """The draw uses the calibrated ridge: a hundredfold one pulls every draw inward."""
    draw, _, data = _plan(np.array([[1.0]]), [1], epsilon="1", bound=None)
    heavy = replace(draw, drawn=replace(draw.drawn, ridge=100 * draw.drawn.ridge))
    ours, pulled = (_draws(each, data, 50, seed=4) for each in (draw, heavy))
    assert (np.abs(pulled) < np.abs(ours)).mean() > 0.9
