"""Poisson regression: against a plain fit, its certificates, and Theorem 5.1's bounds for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CODE_MAX, CategoryColumn, NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.objectives.exponential import Products, clipped_exp, poisson_loss
from mechanisms.objectives.losses import Loss
from mechanisms.perturbation.calibration import ridge
from mechanisms.perturbation.likelihoods import poisson_objective
from mechanisms.privacy import Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.designs.cox_regression import CoxRegression
from mechanisms.statistics.designs.poisson_regression import PoissonRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.testing import seeded_randomness
from tests.mechanisms.proof import ADD, REPLACE
from tests.tiers import in_one

COLUMNS = {
    "age": NumberColumn(Fraction(0), Fraction(10)),
    "dose": NumberColumn(Fraction(-1), Fraction(1)),
    "exposure": NumberColumn(Fraction(0), Fraction(2)),
    "visits": NumberColumn(Fraction(0), Fraction(60), kind="integer"),
    "change": NumberColumn(Fraction(-5), Fraction(5)),
    "weight": NumberColumn(Fraction(0), Fraction(2)),
    "arm": CategoryColumn(("a", "b")),
}
ASKED = PoissonRegression(target="visits", features=("age", "dose"))
EXACTLY = Epsilon.parse("10000")


def visits(rows: int, seed: int) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    age, dose = generator.uniform(0, 10, rows), generator.uniform(-1, 1, rows)
    exposure = generator.uniform(0, 2, rows)
    mean = np.exp(0.2 + 0.15 * age - 0.5 * dose + exposure)
    return {
        "age": age, "dose": dose, "exposure": exposure,
        "visits": np.minimum(generator.poisson(mean), 60).astype(int),
        "change": np.zeros(rows), "weight": generator.integers(1, 3, rows).astype(float),
        "arm": ["a"] * rows,
    }  # fmt: skip


def data_of(values: dict[str, Any]) -> tuple[Schema, ArrayData]:
    schema = Schema(COLUMNS, REPLACE, len(values["age"]))
    return schema, ArrayData.from_values(schema, values)


def fitted(values: dict[str, Any], *, offset: bool, weighted: bool, intercept: bool) -> Floats:
    """Return what maximises the likelihood, by a general solver."""
    x = np.column_stack([values["age"], values["dose"]])
    x = np.column_stack([np.ones(len(x)), x]) if intercept else x
    own = values["exposure"] if offset else np.zeros(len(x))
    share = values["weight"] if weighted else np.ones(len(x))

    def loss(beta: Floats) -> tuple[float, Floats]:
        t = x @ beta + own
        mean = np.exp(t)
        return float(share @ (mean - values["visits"] * t)), (share * (mean - values["visits"])) @ x

    found = minimize(loss, np.zeros(x.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-6})
    return np.asarray(found.x)


@pytest.mark.parametrize(
    ("offset", "weighted", "intercept"),
    [(False, False, True), (True, False, True), (True, True, True), (True, True, False)],
)
def test_without_noise_it_is_the_likelihood_s_maximum(
    offset: bool, weighted: bool, intercept: bool
) -> None:
    values = visits(800, seed=1)
    schema, data = data_of(values)
    asked = replace(
        ASKED,
        offset="exposure" if offset else None,
        weights="weight" if weighted else None,
        intercept=intercept,
    )
    outcome = calibrate(asked, schema, EXACTLY).draw(data, seeded_randomness(1))
    found = [*outcome.value["coefficients"].values()]  # type: ignore[attr-defined]
    expected = fitted(values, offset=offset, weighted=weighted, intercept=intercept)
    assert found == pytest.approx(expected, abs=2e-3)


def test_a_formula_has_an_offset() -> None:
    """A column, or an expression that is derived; no other regression takes one."""
    plain = PoissonRegression(formula="visits ~ age + offset(exposure) + dose - 1")
    assert plain == PoissonRegression(
        target="visits", features=("age", "dose"), offset="exposure", intercept=False
    )
    made = PoissonRegression(formula="visits ~ offset(log(days + 1)) + age")
    assert (made.offset, made.derive) == ("log(days + 1)", {"log(days + 1)": "log(days + 1)"})
    cox = CoxRegression(formula="Surv(days, died) ~ age + offset(risk)")
    assert (cox.offset, cox.names) == ("risk", ("age",))
    wrong = {
        "visits ~ age - offset(exposure)": "adds it",
        "visits ~ offset(a) + offset(b)": "one offset",
        "visits ~ age:offset(exposure)": "a term of its own",
    }
    for text, why in wrong.items():
        with pytest.raises(InvalidStatisticError, match=why) as refused:
            PoissonRegression(formula=text)
        assert refused.value.field_name == "formula"
    with pytest.raises(InvalidStatisticError, match="takes no offset"):
        LogisticRegression(formula="ill ~ age + offset(exposure)")
    with pytest.raises(InvalidStatisticError, match="leave it out"):
        PoissonRegression(formula="visits ~ age + offset(exposure)", offset="exposure")


def test_means_are_clipped_at_the_bound() -> None:
    values = visits(500, seed=2)
    columns = {**COLUMNS, "visits": NumberColumn(Fraction(0), Fraction(5), kind="integer")}
    schema = Schema(columns, REPLACE, 500)
    data = ArrayData.from_values(schema, {**values, "visits": np.minimum(values["visits"], 5)})
    plan = calibrate(ASKED, schema, EXACTLY)
    assert plan.details["clipped_mean"] == 5
    coefficients: Any = plan.draw(data, seeded_randomness(1)).value["coefficients"]
    mean = np.minimum(
        np.exp(
            coefficients["(intercept)"]
            + coefficients["age"] * values["age"]
            + coefficients["dose"] * values["dose"]
        ),
        5,
    )
    # the estimating equation: clipped means add up to the counts
    assert mean.sum() == pytest.approx(np.minimum(values["visits"], 5).sum(), rel=1e-3)


# Certificates


@pytest.mark.parametrize("weighted", [False, True])
def test_certified_gradients_hold_the_exact_one(weighted: bool) -> None:
    values = visits(300, seed=3)
    schema, data = data_of(values)
    asked = replace(ASKED, offset="exposure", weights="weight" if weighted else None)
    objective = poisson_objective(asked, schema, data)
    generator = np.random.default_rng(4)
    for scale in (0.0, 0.1, 1.0, 30.0, 2000.0):
        theta = [Fraction(float(each)) for each in scale * generator.normal(size=3)]
        certified, exact = objective.certify(theta), objective.gradient(theta, 90)
        model, hessian = objective.model(np.array([float(each) for each in theta]))
        assert objective.stretch(np.zeros(3)) == 0
        assert certified.reach is not None
        for ball, sharp, hint in zip(certified.gradient, exact, model.tolist(), strict=True):
            assert ball.contains(sharp)
            assert float(sharp) == pytest.approx(hint, rel=1e-6, abs=1e-6 * (1 + scale))
        assert 0 <= float(certified.curvature) <= np.linalg.eigvalsh(hessian)[0] + 1e-9
        if scale <= 0.1:
            assert float(certified.curvature) > 0.9 * np.linalg.eigvalsh(hessian)[0]


def test_the_curvature_holds_within_reach_of_the_ceiling() -> None:
    """Rows at the ceiling add no curvature that a short step may take away."""
    values = visits(200, seed=5)
    schema, data = data_of(values)
    objective = poisson_objective(ASKED, schema, data)
    generator = np.random.default_rng(6)
    for _ in range(20):
        theta = np.array([2.0, 0.0, 0.0]) + generator.normal(size=3) * 0.05
        certified = objective.certify([Fraction(float(each)) for each in theta])
        assert certified.reach is not None
        step = generator.normal(size=3)
        step *= float(certified.reach) / np.linalg.norm(step)
        for part in (0.25, 0.5, 0.99):
            _, hessian = objective.model(theta + part * step)
            assert float(certified.curvature) <= np.linalg.eigvalsh(hessian)[0] + 1e-9


def test_products_are_exact() -> None:
    generator = np.random.default_rng(7)
    codes = generator.integers(-CODE_MAX, CODE_MAX + 1, (5000, 3))
    parts = generator.integers(0, CODE_MAX + 1, 5000)
    plain, times = Products()([(codes / CODE_MAX, parts / CODE_MAX)])
    rows = [(*map(int, row), int(part)) for row, part in zip(codes, parts, strict=True)]
    assert plain == [sum(row[3] * row[at] for row in rows) for at in range(3)]
    assert times == [sum(row[3] * row[2] * row[at] for row in rows) for at in range(3)]
    assert Products()([]) == ([], [])


def test_the_clipped_exponential_is_exact_to_a_few_bits() -> None:
    t = np.array([-1e4, -699.0, -20.0, -1.0, -1e-9, 0.0, 1e-9, 3.0, 1e4])
    assert clipped_exp(t) == pytest.approx(np.minimum(np.exp(np.minimum(t, 0)), 1), rel=1e-14)


# Theorem 5.1's bounds: searched, and as ratios of densities; with negative controls


def gradients(x: Floats, y: Floats, theta: Floats) -> Floats:
    """Return each record's gradient, y a share of its bound."""
    return (np.minimum(np.exp(np.minimum(x @ theta, 0)), 1) - y)[:, None] * x


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_sensitivities_bound_what_a_search_finds_and_are_reached(d: int) -> None:
    generator = np.random.default_rng(d)
    change, eigenvalue = 0.0, 0.0
    for turn in range(400):
        x = np.sign(generator.normal(size=(60, d)))
        x = x if turn % 2 else generator.uniform(-1, 1, (60, d))
        y = generator.integers(0, 2, 60) if turn % 3 else generator.uniform(size=60)
        theta = generator.normal(size=d) * 10 ** generator.uniform(-4, 2)
        each = gradients(x, y, theta)
        change = max(change, float((each.max(axis=0) - each.min(axis=0)).max()))
        t = x @ theta
        curves = np.where(t < 0, np.exp(t), 0.0) * (x**2).sum(axis=1)
        eigenvalue = max(eigenvalue, float(curves.max()))
        assert np.abs(each).max() <= poisson_loss(d, ADD).largest_difference
    loss = poisson_loss(d, REPLACE)
    assert 1.95 < change <= loss.largest_difference
    assert 0.95 * d < eigenvalue <= loss.eigenvalue


def log_density(x: Floats, y: Floats, theta: Floats, gamma: float, rate: float) -> float:
    """Return log f(V(theta)) + log |det dV/dtheta|, V of the l-infinity norm, up to a constant."""
    tilt = gradients(x, y, theta).sum(axis=0) + gamma * theta
    t = x @ theta
    curves = np.where(t < 0, np.exp(np.minimum(t, 0)), 0.0)
    hessian = (x.T * curves) @ x + gamma * np.eye(len(theta))
    return float(-rate * np.abs(tilt).max() + np.linalg.slogdet(hessian)[1])


def neighbours(d: int, *, replaced: bool, trials: int) -> Iterator[tuple[Any, ...]]:
    generator = np.random.default_rng(100 + d)
    for trial in range(trials):
        common = int(generator.integers(0, 3))
        x = generator.uniform(-1, 1, (common + 2, d))
        if trial % 3:
            x = np.sign(x)
        y = generator.integers(0, 2, common + 2).astype(float)
        theta = generator.normal(size=d) * 10 ** generator.uniform(-3, 1)
        if trial % 5 == 0:  # next to the ceiling, where the curvature is largest
            theta = -1e-6 * np.sign(x[common])
        other = [*range(common), common + 1] if replaced else [*range(common)]
        yield x[: common + 1], y[: common + 1], x[other], y[other], theta


def largest_loss(loss: Loss, d: int, *, replaced: bool, epsilon: str, q: str) -> float:
    """Return the largest log ratio that a search finds, as a share of epsilon."""
    spent, share = Fraction(epsilon), Fraction(q)
    gamma = float(ridge(spent, share, loss.eigenvalue))
    rate = float(spent * share / loss.largest_difference)
    return max(
        abs(log_density(x, y, theta, gamma, rate) - log_density(x2, y2, theta, gamma, rate))
        for x, y, x2, y2, theta in neighbours(d, replaced=replaced, trials=400)
    ) / float(spent)


@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize("d", [1, 2])
def test_no_neighbours_exceed_epsilon_and_mutants_do(d: int, replaced: bool) -> None:
    loss = poisson_loss(d, REPLACE if replaced else ADD)
    for epsilon, q in (("0.1", "0.5"), ("1", "0.3"), ("1", "0.85"), ("4", "0.5")):
        assert largest_loss(loss, d, replaced=replaced, epsilon=epsilon, q=q) <= 1 + 1e-9
    # the smallest ridge share of logistic regression, and half of the sensitivity
    flat = replace(loss, eigenvalue=loss.eigenvalue / 4)
    assert largest_loss(flat, d, replaced=replaced, epsilon="1", q="0.3") > 1
    short = replace(loss, largest_difference=loss.largest_difference / 2)
    assert largest_loss(short, d, replaced=replaced, epsilon="1", q="0.85") > 1


# Refusals


@in_one(
    ("fields", "place", "says"),
    [
        ({"target": "change"}, "target", "no count"),
        ({"target": "arm"}, "target", "categories"),
        ({"target": "age"}, "features", "also a feature"),
        ({"offset": "age"}, "offset", "the target or a feature"),
        ({"offset": "arm"}, "offset", "categories"),
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
