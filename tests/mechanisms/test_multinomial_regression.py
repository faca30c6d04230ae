"""Multinomial regression: against a plain fit, its certificates, and Theorem 5.1's bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammainc

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.objectives.exponential import softmax_loss
from mechanisms.objectives.losses import Loss, Norm, logistic_loss
from mechanisms.perturbation.calibration import ridge, ridge_of
from mechanisms.perturbation.likelihoods import multinomial_objective
from mechanisms.perturbation.release import PerturbedFit
from mechanisms.privacy import Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.designs.multinomial_regression import MultinomialRegression
from mechanisms.testing import Law, check_draws, draws_to_refuse, seeded_randomness
from tests.mechanisms.proof import ADD, REPLACE
from tests.mechanisms.tilted import Model, Pair, Spent, largest_loss
from tests.tiers import in_one

WAYS = ("car", "bus", "bike", "foot")
COLUMNS: dict[str, Column] = {
    "age": NumberColumn(Fraction(0), Fraction(10)),
    "dose": NumberColumn(Fraction(-1), Fraction(1)),
    "change": NumberColumn(Fraction(-5), Fraction(5)),
    "weight": NumberColumn(Fraction(0), Fraction(2)),
    "way": CategoryColumn(WAYS),
    "one": CategoryColumn(("only",)),
}
ASKED = MultinomialRegression(target="way", features=("age", "dose"))
EXACTLY = Epsilon.parse("10000")
TRUTH = np.array([[0.0, 0, 0], [-1, 0.2, 1], [0.5, -0.1, -1], [0, 0.05, 2]])


def trips(rows: int, seed: int) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    age, dose = generator.uniform(0, 10, rows), generator.uniform(-1, 1, rows)
    odds = np.exp(np.column_stack([np.ones(rows), age, dose]) @ TRUTH.T)
    shares = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)
    at = (generator.uniform(size=(rows, 1)) > shares).sum(axis=1)
    return {
        "age": age, "dose": dose, "change": np.zeros(rows), "one": ["only"] * rows,
        "weight": generator.integers(1, 3, rows).astype(float),
        "way": [WAYS[each] for each in at],
    }  # fmt: skip


def data_of(values: dict[str, Any]) -> tuple[Schema, ArrayData]:
    schema = Schema(COLUMNS, REPLACE, len(values["age"]))
    return schema, ArrayData.from_values(schema, values)


def fitted(values: dict[str, Any], order: list[str], *, weighted: bool, intercept: bool) -> Floats:
    """Return what maximises the likelihood, by a general solver; ``order`` begins with its zero."""
    x = np.column_stack([values["age"], values["dose"]])
    x = np.column_stack([np.ones(len(x)), x]) if intercept else x
    y = np.array([order.index(each) for each in values["way"]])
    share = values["weight"] if weighted else np.ones(len(x))

    def loss(beta: Floats) -> tuple[float, Floats]:
        t = x @ np.vstack([np.zeros(x.shape[1]), beta.reshape(3, -1)]).T
        p = np.exp(t - np.log(np.exp(t).sum(axis=1, keepdims=True)))
        slope = (share[:, None] * (p - np.eye(4)[y])).T @ x
        return float(-share @ np.log(p[np.arange(len(y)), y])), slope[1:].ravel()

    found = minimize(loss, np.zeros(3 * x.shape[1]), jac=True, method="BFGS")
    return np.asarray(found.x)


@pytest.mark.parametrize(
    ("reference", "weighted", "intercept"),
    [(None, False, True), ("bike", False, True), ("bike", True, False)],
)
def test_without_noise_it_is_the_likelihood_s_maximum(
    reference: str | None, weighted: bool, intercept: bool
) -> None:
    values = trips(800, seed=1)
    schema, data = data_of(values)
    asked = replace(
        ASKED,
        reference=reference,
        weights="weight" if weighted else None,
        intercept=intercept,
    )
    plan = calibrate(asked, schema, EXACTLY)
    coefficients: Any = plan.draw(data, seeded_randomness(1)).value["coefficients"]
    first = reference or "car"
    order = [first, *(each for each in WAYS if each != first)]
    terms = ["(intercept)", "age", "dose"] if intercept else ["age", "dose"]
    assert list(coefficients) == [f"{level}:{term}" for level in order[1:] for term in terms]
    expected = fitted(values, order, weighted=weighted, intercept=intercept)
    assert [*coefficients.values()] == pytest.approx(expected, abs=5e-3)
    assert plan.details["reference"] == first


# Certificates


@pytest.mark.parametrize("weighted", [False, True])
def test_certified_gradients_hold_the_exact_one(weighted: bool) -> None:
    values = trips(300, seed=3)
    schema, data = data_of(values)
    asked = replace(ASKED, weights="weight" if weighted else None)
    objective = multinomial_objective(asked, schema, data)
    generator = np.random.default_rng(4)
    for scale in (0.0, 0.1, 1.0, 30.0, 2000.0):
        theta = [Fraction(float(each)) for each in scale * generator.normal(size=9)]
        certified, exact = objective.certify(theta), objective.gradient(theta, 90)
        model, hessian = objective.model(np.array([float(each) for each in theta]))
        for ball, sharp, hint in zip(certified.gradient, exact, model.tolist(), strict=True):
            assert ball.contains(sharp)
            assert float(sharp) == pytest.approx(hint, rel=1e-6, abs=1e-6 * (1 + scale))
        assert 0 <= float(certified.curvature) <= np.linalg.eigvalsh(hessian)[0] + 1e-9
        if scale <= 0.1:
            assert float(certified.curvature) > 0.9 * np.linalg.eigvalsh(hessian)[0]


def test_the_curvature_holds_within_reach() -> None:
    schema, data = data_of(trips(200, seed=5))
    objective = multinomial_objective(ASKED, schema, data)
    generator = np.random.default_rng(6)
    for _ in range(10):
        theta = generator.normal(size=9)
        certified = objective.certify([Fraction(float(each)) for each in theta])
        assert certified.reach is not None
        step = generator.normal(size=9)
        step *= float(certified.reach) / np.linalg.norm(step)
        for part in (0.5, 0.99):
            _, hessian = objective.model(theta + part * step)
            assert float(certified.curvature) <= np.linalg.eigvalsh(hessian)[0] + 1e-9
        slope = objective.slope_along(theta, step)
        near, _ = objective.model(theta + 0.3 * step)
        assert slope(0.3) == pytest.approx(float(near @ step), rel=1e-9, abs=1e-9)
    assert objective.stretch(np.zeros(9)) == 0
    assert 0 < objective.stretch(np.full(9, 0.1)) <= 0.31


# Theorem 5.1's bounds: searched, and as ratios of densities; with negative controls


def _shares(x: Floats, theta: Floats) -> Floats:
    t = theta.reshape(-1, len(x)) @ x
    powers = np.exp(t - max(t.max(), 0.0))
    return np.asarray(powers / (np.exp(-max(t.max(), 0.0)) + powers.sum()))


def _gradient(row: Floats, theta: Floats) -> Floats:
    x, level = row[:-1], int(row[-1])
    p = _shares(x, theta)
    return np.asarray(np.kron(p - (np.arange(1, len(p) + 1) == level), x), dtype=np.float64)


def _hessian(row: Floats, theta: Floats) -> Floats:
    x = row[:-1]
    p = _shares(x, theta)
    return np.asarray(np.kron(np.diag(p) - np.outer(p, p), np.outer(x, x)), dtype=np.float64)


MODEL = Model(gradient=_gradient, hessian=_hessian)


@pytest.mark.parametrize(("features", "levels"), [(1, 1), (1, 2), (2, 3), (3, 5)])
def test_the_constants_bound_what_a_search_finds_and_are_reached(
    features: int, levels: int
) -> None:
    generator = np.random.default_rng(10 * features + levels)
    loss = softmax_loss(features, levels, REPLACE)
    found = {"linf": 0.0, "l2": 0.0, "l1": 0.0}
    determinant, gamma = 0.0, 0.7
    bound = sum(times * np.log1p(float(each) / gamma) for each, times in loss.spectrum)
    for turn in range(1500):
        x = np.sign(generator.normal(size=(2, features)))
        if turn % 2:
            x[1] = -x[0]
        y = generator.integers(0, levels + 1, 2)
        if turn % 3 == 0:
            y[1] = y[0]
        theta = generator.normal(size=features * levels) * 10 ** generator.uniform(-1, 2)
        if turn % 4 == 0:  # levels of equal shares, the reference's of any
            theta = np.tile(generator.normal(size=features) * 3, levels)
        rows = [np.append(each, level) for each, level in zip(x, y, strict=True)]
        one, two = (_gradient(row, theta) for row in rows)
        for name, order in (("linf", np.inf), ("l2", 2), ("l1", 1)):
            found[name] = max(found[name], float(np.linalg.norm(one - two, order)))
            most = np.sqrt(float(softmax_loss(features, levels, ADD).sensitivity_squared(name)))  # type: ignore[arg-type]
            assert np.linalg.norm(one, order) <= most + 1e-9
        hessian = _hessian(rows[0], theta)
        assert np.linalg.eigvalsh(hessian)[-1] <= float(loss.eigenvalue) + 1e-9
        grown = np.linalg.slogdet(np.eye(len(theta)) + hessian / gamma)[1]
        determinant = max(determinant, float(grown))
    for name, length in found.items():
        most = float(np.sqrt(float(loss.sensitivity_squared(name))))  # type: ignore[arg-type]
        # Delta_inf is approached but for one coefficient, the others are bounds
        least = 0.95 if name == "linf" and features * levels > 1 else 0.49
        assert least * most < length <= most + 1e-9
    assert 0.75 * bound < determinant <= bound + 1e-9


def neighbours(features: int, levels: int, *, replaced: bool, trials: int) -> Iterator[Pair]:
    generator = np.random.default_rng(100 + features)
    for trial in range(trials):
        common = int(generator.integers(0, 3))
        x = generator.uniform(-1, 1, (common + 2, features))
        if trial % 3:
            x = np.sign(x)
        y = generator.integers(0, levels + 1, common + 2)
        rows = [np.append(each, level) for each, level in zip(x, y, strict=True)]
        theta = generator.normal(size=features * levels) * 10 ** generator.uniform(-3, 1)
        if trial % 4 == 0:
            theta = np.tile(x[common] * 10 ** generator.uniform(-1, 0.7), levels)
        rest = [rows[common + 1]] if replaced else []
        yield rows[: common + 1], [*rows[:common], *rest], theta


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("replaced", [True, False])
def test_no_neighbours_exceed_epsilon(norm: Norm, replaced: bool) -> None:
    loss = softmax_loss(2, 3, REPLACE if replaced else ADD)
    for epsilon, q in (("0.1", "0.5"), ("1", "0.3"), ("4", "0.85")):
        spent = Spent.of(loss, norm, epsilon, q)
        pairs = neighbours(2, 3, replaced=replaced, trials=60)
        assert 0.2 < largest_loss(MODEL, spent, pairs, polished=2) <= 1 + 1e-9


def of_rank_one(loss: Loss) -> Loss:
    """A mutant: the paper's ridge, as if the Hessian's largest eigenvalue were its only one."""
    return replace(loss, spectrum=())


def of_two_levels(loss: Loss) -> Loss:
    """A mutant: the ridge of logistic regression."""
    return replace(loss, spectrum=(), eigenvalue=logistic_loss(1, REPLACE).eigenvalue)


def of_half_the_change(loss: Loss) -> Loss:
    """A mutant: half of the sensitivity."""
    return replace(loss, largest_difference=loss.largest_difference / 2)


@pytest.mark.parametrize(
    ("mutant", "levels", "q"),
    [(of_rank_one, 8, "0.1"), (of_two_levels, 4, "0.1"), (of_half_the_change, 2, "0.85")],
)
def test_mutants_are_caught(mutant: Any, levels: int, q: str) -> None:
    loss = softmax_loss(1, levels, ADD)
    sound = Spent.of(loss, "linf", "2", q)
    pairs = [*neighbours(1, levels, replaced=False, trials=120)]
    assert largest_loss(MODEL, sound, pairs, polished=10) <= 1 + 1e-9
    assert largest_loss(MODEL, Spent.of(mutant(loss), "linf", "2", q), pairs, polished=10) > 1


def test_with_one_level_it_is_logistic_regression_s_ridge() -> None:
    for epsilon, q in (("0.1", "0.5"), ("1", "0.3"), ("20", "0.9")):
        found = ridge_of(softmax_loss(3, 1, REPLACE), Fraction(epsilon), Fraction(q))
        own = ridge(Fraction(epsilon), Fraction(q), logistic_loss(3, REPLACE).eigenvalue)
        assert 1 <= found / own < 1 + Fraction(1, 10**9)


# The law of draws: the tilt that they stand for


@pytest.mark.slow
@pytest.mark.statistical
def test_the_tilt_of_draws_has_its_law_and_mutants_are_refused() -> None:
    """A tilt of norm l1 in d dimensions has a length of Gamma(d), whatever the data."""
    values = trips(12, seed=8)
    schema, data = data_of(values)
    asked = MultinomialRegression(target="way", features=("dose",), intercept=False, q=0.5)
    plan = calibrate(asked, schema, Epsilon.parse("8"), norm="l1")
    draw = plan.draw
    assert isinstance(draw, PerturbedFit)
    rate = 8 * 0.5 / float(draw.loss.absolute_sum)
    x = data.codes["dose"] / 2.0**20
    rows = [np.array([a, level]) for a, level in zip(x, data.codes["way"], strict=True)]

    def law(scale: float) -> Law:
        return Law(
            at=lambda r: gammainc(3, np.maximum(r, 0) * rate * scale),
            below=lambda r: gammainc(3, np.maximum(r, 0) * rate * scale),
        )

    twins = [law(0.6), law(1.6)]
    count = draws_to_refuse(twins, law(1.0), np.linspace(0, 40 / rate, 4001))
    objective, randomness = draw.objective(data), seeded_randomness(9)
    lengths = []
    for _ in range(count):
        theta = np.array([float(each) for each in draw.drawn.draw(objective, randomness)])
        lengths.append(np.abs(MODEL.tilt(rows, theta, float(draw.drawn.ridge))).sum())
    check_draws(np.array(lengths), law(1.0), twins=twins)


# Refusals


@in_one(
    ("fields", "place", "says"),
    [
        ({"target": "dose", "features": ("age",)}, "target", "no category"),
        ({"target": "one"}, "target", "two values"),
        ({"target": "nothing"}, "target", "no such column"),
        ({"reference": "train"}, "reference", "not a declared value"),
        ({"weights": "change"}, "weights", "never negative"),
        ({"q": 2.0}, "q", "between"),
        ({"bound": 0.0}, "bound", "bound"),
    ],
)
def test_a_question_that_does_not_fit_is_refused(
    fields: dict[str, Any], place: str, says: str
) -> None:
    with pytest.raises(InvalidStatisticError, match=says) as refused:
        calibrate(replace(ASKED, **fields), Schema(COLUMNS, REPLACE, 10), Epsilon.parse("1"))
    assert refused.value.field_name == place
