"""Objective perturbation: calibration, reference agreement, sensitivities, hard data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import arb
from sklearn.linear_model import LogisticRegression as Reference

from mechanisms.contract import Block, Data, InvalidStatisticError, Plan, T
from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.continuous import BallNorm
from mechanisms.exact.floats import working_precision
from mechanisms.objectives.losses import logistic_loss, squared_loss
from mechanisms.perturbation import calibrate
from mechanisms.perturbation.calibration import SMALLEST_RIDGE, automatic_q, ridge
from mechanisms.perturbation.likelihoods import logistic_objective
from mechanisms.perturbation.release import PerturbedFit
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.count import Count
from mechanisms.statistics.designs import rows as design_rows
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.testing import record_replay, seeded_randomness
from tests.mechanisms.logistic_data import FLAG, UNIT, features, labelled, simulate
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
NORMS: tuple[BallNorm, ...] = ("linf", "l2", "l1")


def coefficients(plan: Plan, data: Data, seed: int = 1) -> np.ndarray:
    value = plan.draw(data, seeded_randomness(seed)).value["coefficients"]
    return np.array(list(value.values()))  # type: ignore[attr-defined]


@in_one("q", ["0.001", "0.5", "0.85", "0.999"])
@in_one("epsilon", ["0.000000001", "0.1", "1", "20", "10000"])
def test_gamma_is_rounded_up_and_has_a_floor(epsilon: str, q: str) -> None:
    eigenvalue = Fraction(7, 4)
    gamma = ridge(Fraction(epsilon), Fraction(q), eigenvalue)
    with working_precision(2000):
        budget = Fraction(epsilon) * (1 - Fraction(q))
        exponent = arb(budget.numerator) / budget.denominator
        needed = arb(7) / 4 / exponent.expm1()
        given = arb(gamma.numerator) / gamma.denominator
        assert given >= needed
        if gamma > SMALLEST_RIDGE:
            assert given <= needed * (1 + arb(2) ** -100)
        else:
            assert needed < arb(2) ** -20


def test_sensitivities_follow_the_adjacency() -> None:
    logistic = logistic_loss(9, REPLACE)
    assert [logistic.sensitivity_squared(norm) for norm in NORMS] == [4, 36, 324]
    assert logistic.eigenvalue == Fraction(9, 4)
    assert [logistic_loss(9, ADD).sensitivity_squared(norm) for norm in NORMS] == [1, 9, 81]
    within = logistic_loss(9, REPLACE, Fraction(2)).largest_difference
    assert 0 <= within - 2 / (1 + np.exp(-2)) <= 0.002, "2 sigmoid(B), rounded up"
    assert logistic_loss(9, REPLACE, Fraction(1000)).largest_difference == 2
    squared = squared_loss(2, Fraction(1, 2), REPLACE)
    assert [squared.sensitivity_squared(norm) for norm in NORMS] == [36, 72, 144]
    assert squared_loss(2, Fraction(1, 2), ADD).largest_difference == 3
    assert squared.eigenvalue == 4


@pytest.mark.parametrize("norm", NORMS)
def test_the_stated_tilt_deviation_is_the_tilts(norm: BallNorm) -> None:
    """Closed forms (Prop. 4.13 for l1 and linf) against the moments of the radius."""
    loss = logistic_loss(5, REPLACE)
    rate = 0.7 / float(loss.sensitivity_squared(norm)) ** 0.5
    d = 5
    # E r^2 of Gamma(d) over the cone measure's second moment, coordinate by coordinate
    share = {"linf": (d + 2) / (3 * d), "l2": 1 / d, "l1": 2 / (d * (d + 1))}[norm]
    assert loss.tilt_std(norm, 0.7) ** 2 == pytest.approx(d * (d + 1) * share / rate**2)


def test_the_automatic_q_is_public_and_sensible() -> None:
    loss = logistic_loss(7, REPLACE)
    for epsilon in (Fraction(1, 10**9), Fraction(1, 4), Fraction(2), Fraction(10**4)):
        for rows in (None, 0, 1, 10**4, 10**9):
            for norm in NORMS:
                assert 0 < automatic_q(epsilon, loss, norm, rows) < 1
    assert Fraction(3, 4) < automatic_q(Fraction(1), loss, "linf", 10**4) < Fraction(9, 10)
    # with much budget the ridge is cheap, so nearly all of it goes to the tilt
    assert automatic_q(Fraction(10**3), loss, "linf", 10**4) > Fraction(19, 20)


def test_under_add_remove_no_constant_depends_on_the_rows() -> None:
    plans = []
    for rows in (3, 400):
        schema, _ = simulate(rows, seed=rows, adjacency=ADD)
        question = LogisticRegression(target="y", features=features(schema))
        plans.append(calibrate(question, schema, Epsilon.parse("0.5"), "auto"))
    assert plans[0].details == plans[1].details
    assert plans[0].grid == plans[1].grid
    assert plans[0].guarantee == plans[1].guarantee


def test_the_plan_says_what_is_released() -> None:
    schema, data = simulate(50, seed=3, slopes=(1, -1))
    question = LogisticRegression(target="y", features=("x0", "x1"), bound=3.0, q=0.5)
    plan = calibrate(question, schema, Epsilon.parse("1"), "auto")
    assert (plan.mechanism, plan.norm) == ("objective_perturbation", "linf")
    assert plan.guarantee.sensitivity == "953/500"  # 2 sigmoid(3), rounded up
    assert plan.details["q"] == 0.5
    assert plan.details["bound"] == 3.0
    assert plan.details["gamma"] == pytest.approx(0.75 / np.expm1(0.5))
    assert plan.preview(None) is None
    assert {other.norm for other in plan.alternatives} == {"l1", "l2"}
    assert all(other.std and other.std > plan.details["tilt_std"] for other in plan.alternatives)
    outcome = plan.draw(data, seeded_randomness(1))
    assert list(outcome.value["coefficients"]) == ["(intercept)", "x0", "x1"]  # type: ignore[call-overload]
    assert outcome.noise is None
    step = plan.grid["scaled"]
    assert all(float(x / step).is_integer() for x in coefficients(plan, data))
    json.dumps([plan.details, plan.grid, outcome.value], allow_nan=False)
    for norm, text in (("l2", "953/500*sqrt(3)"), ("l1", "2859/500")):
        other = calibrate(question, schema, Epsilon.parse("1"), norm)
        assert other.guarantee.sensitivity == text


def test_what_is_not_offered_is_refused() -> None:
    schema, _ = simulate(5, seed=1, slopes=(1,))
    question = LogisticRegression(target="y", features=("x0",))
    with pytest.raises(InvalidStatisticError, match="linf, l2, l1"):
        calibrate(question, schema, Epsilon.parse("1"), "optimal")
    with pytest.raises(InvalidStatisticError, match="logistic_regression"):
        calibrate(
            Count(),
            Schema(columns={"x": UNIT}, adjacency=ADD, rows=None, max_rows=9),
            Epsilon.parse("1"),
            "auto",
        )
    with pytest.raises(InvalidStatisticError, match="ridge"):
        calibrate(
            LinearRegression(target="x0", features=("y",), ridge=1.0),
            schema,
            Epsilon.parse("1"),
            "auto",
        )


def test_much_budget_gives_the_ridge_estimate() -> None:
    """Column units, intercept: scikit-learn's optimum at the same ridge, to noise and grid."""
    rng = np.random.default_rng(4)
    age, income = rng.uniform(18, 90, 4000), rng.uniform(0, 5000, 4000)
    odds = 1 / (1 + np.exp(-(0.04 * (age - 54) - 0.0006 * (income - 2500))))
    schema = Schema(
        columns={
            "age": NumberColumn(Fraction(18), Fraction(90)),
            "income": NumberColumn(Fraction(0), Fraction(5000)),
            "y": FLAG,
        },
        adjacency=REPLACE,
        rows=4000,
    )
    y = (rng.uniform(size=4000) < odds).astype(float)
    data = ArrayData.from_values(schema, {"age": age, "income": income, "y": y})
    scaled = np.column_stack(
        [np.ones(4000), data.codes["age"] / 2.0**20, data.codes["income"] / 2.0**20]
    )
    for epsilon, q in (("10000", 0.5), ("8000", 0.9)):
        plan = calibrate(
            LogisticRegression(target="y", features=("age", "income"), q=q),
            schema,
            Epsilon.parse(epsilon),
            "auto",
        )
        gamma = plan.details["gamma"]
        theta = (
            Reference(C=1 / gamma, fit_intercept=False, tol=1e-12, solver="newton-cholesky")
            .fit(scaled, y)
            .coef_[0]
        )
        slopes = theta[1:] / np.array([36, 2500])
        wanted = [theta[0] - slopes @ np.array([54, 2500]), *slopes]
        got = coefficients(plan, data)
        # tilt of about 1e-3 over a curvature of more than 100: 1e-5 in scaled units
        assert np.abs(got - wanted) @ np.array([1, 36, 2500]) < 2e-3
        assert np.abs((got - wanted)[1:] * np.array([36, 2500])).max() < 5e-5


def test_linear_regression_agrees_with_least_squares() -> None:
    rng = np.random.default_rng(6)
    x = rng.uniform(-1, 1, size=(3000, 3))
    y = np.clip(x @ [0.3, -0.2, 0.1] + 0.05 + rng.normal(size=3000) * 0.1, -1, 1)
    names = ["x0", "x1", "x2"]
    schema = Schema(columns={**dict.fromkeys(names, UNIT), "t": UNIT}, adjacency=REPLACE, rows=3000)
    values = {name: x[:, j] for j, name in enumerate(names)}
    data = ArrayData.from_values(schema, {**values, "t": y})
    question = LinearRegression(target="t", features=tuple(names), bound=2.0)
    design = np.column_stack([np.ones(3000), x])
    wanted = np.linalg.lstsq(design, y, rcond=None)[0]
    for norm in NORMS:
        got = coefficients(calibrate(question, schema, Epsilon.parse("10000"), norm), data)
        assert np.abs(got - wanted).max() < 1e-4
    tight = LinearRegression(target="t", features=tuple(names), bound=0.25)
    got = coefficients(calibrate(tight, schema, Epsilon.parse("10000"), "auto"), data)
    assert np.abs(got).sum() == pytest.approx(0.25, abs=1e-6)


def _exact_gradient(
    question: LogisticRegression, schema: Schema, theta: Sequence[Fraction], data: Data
) -> list[Fraction]:
    balls = logistic_objective(question, schema, data).gradient(theta, 128)
    return [Fraction(float(ball.mid())) for ball in balls]


def test_two_gradients_of_one_coefficient_differ_by_little_more_than_1() -> None:
    """A fine grid of theta and of both records, and beyond it the docstring's bound."""
    x = np.linspace(-1, 1, 4001)
    largest = 0.0
    for theta in np.geomspace(0.01, 100, 400):
        slopes = 1 / (1 + np.exp(-theta * x))
        gradients = np.concatenate([slopes * x, (slopes - 1) * x])
        largest = max(largest, float(np.ptp(gradients)))
    stated = float(logistic_loss(1, REPLACE).largest_difference)
    assert stated - 1e-3 < largest <= stated
    assert logistic_loss(1, ADD).largest_difference == 1


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("bound", [Fraction(1, 2), Fraction(2)])
def test_logistic_gradients_reach_what_a_bound_allows(
    bound: Fraction, adjacency: Adjacency
) -> None:
    """At a corner of the ball both residuals are sigmoid(B); the other feature changes sign."""
    x = np.array([[1.0, 1.0], [1.0, -1.0]])
    question = LogisticRegression(target="y", features=("x0", "x1"), intercept=False, bound=2.0)
    gradients = []
    for rows in (x[:1], x[1:]) if adjacency is REPLACE else (x[:1], x[:0]):
        schema, data = labelled(rows, np.zeros(len(rows), dtype=bool), adjacency=adjacency)
        gradients.append(_exact_gradient(question, schema, [bound, Fraction(0)], data))
    change = max(abs(a - b) for a, b in zip(*gradients, strict=True))
    delta = logistic_loss(2, adjacency, bound).largest_difference
    assert delta * Fraction(99, 100) < change <= delta
    smaller = logistic_loss(2, adjacency, bound / 2).largest_difference
    assert change > smaller, "the negative control: half the bound allows less"


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("intercept", [True, False])
def test_logistic_gradients_stay_within_the_sensitivity(
    adjacency: Adjacency, intercept: bool
) -> None:
    """Record-replay at several theta: never above Delta in any norm."""
    schema, _ = simulate(3, seed=1, slopes=(1, 1), adjacency=adjacency)
    question = LogisticRegression(target="y", features=("x0", "x1"), intercept=intercept)
    d = 2 + intercept
    loss = logistic_loss(d, adjacency)
    for theta in product((Fraction(-12), Fraction(0), Fraction(1, 2)), repeat=d):
        bounds = {
            np.inf: float(loss.largest_difference),
            2: float(loss.largest_difference) * d**0.5,
            1: float(loss.largest_difference) * d,
        }

        def share_of_bounds(
            change: Sequence[Fraction], bounds: Mapping[float, float] = bounds
        ) -> Fraction:
            floats = [float(c) for c in change]
            return Fraction(max(np.linalg.norm(floats, ord=p) / bounds[p] for p in bounds))

        replay = record_replay(
            lambda data, at=theta: _exact_gradient(question, schema, at, data),
            schema=schema,
            norm=share_of_bounds,
            rows=2,
            trials=30,
        )
        assert replay.largest <= 1 + 1e-12


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_the_linf_sensitivity_is_attained(adjacency: Adjacency) -> None:
    """Long theta along x0 drives both residuals to 1; x1 may then change sign."""
    x = np.array([[1.0, 1.0], [1.0, -1.0]])
    question = LogisticRegression(target="y", features=("x0", "x1"), intercept=False)
    theta = [Fraction(12), Fraction(0)]
    gradients = []
    for rows in (x[:1], x[1:]) if adjacency is REPLACE else (x[:1], x[:0]):
        schema, data = labelled(rows, np.zeros(len(rows), dtype=bool), adjacency=adjacency)
        gradients.append(_exact_gradient(question, schema, theta, data))
    change = max(abs(a - b) for a, b in zip(*gradients, strict=True))
    delta = logistic_loss(2, adjacency).largest_difference
    assert delta * Fraction(99, 100) < change <= delta


@pytest.mark.wide
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_linear_gradients_stay_within_the_sensitivity(adjacency: Adjacency) -> None:
    schema = Schema(
        columns={"x0": UNIT, "x1": UNIT, "t": UNIT},
        adjacency=adjacency,
        rows=3 if adjacency is REPLACE else None,
        max_rows=9,
    )
    question = LinearRegression(target="t", features=("x0", "x1"), intercept=False, bound=1.5)
    bound = question.exact_bound
    loss = squared_loss(2, bound, adjacency)
    scaling = question.scaling(schema)
    largest = Fraction(0)
    for theta in ([bound, 0], [0, -bound], [bound / 2, -bound / 2], [0, 0]):

        def gradient(data: ArrayData, at: Sequence[Fraction] = theta) -> list[Fraction]:
            normal = scaling.normal_equations(data.gram(scaling.columns))
            return [
                2 * sum((a * t for a, t in zip(row, at, strict=True)), Fraction(0)) - 2 * b
                for row, b in zip(normal.xx, normal.xy, strict=True)
            ]

        replay = record_replay(
            gradient, schema=schema, norm=lambda change: max(map(abs, change)), trials=300
        )
        assert replay.largest <= loss.largest_difference
        largest = max(largest, replay.largest)
    assert largest > loss.largest_difference * Fraction(99, 100)


def _hard_data() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, size=(40, 3))
    coin = rng.uniform(size=40) < 0.5
    yield "separable", x, x[:, 0] > 0
    yield "one class", x, np.ones(40, dtype=bool)
    yield "constant columns", np.ones((40, 3)), coin
    yield "zero columns", np.zeros((40, 3)), coin
    yield "duplicated columns", x[:, [0, 0, 0]], coin
    yield "one row", x[:1], coin[:1]


EPSILONS = ("0.000000001", "0.5", "90", "10000")


@pytest.mark.parametrize(
    ("name", "x", "y"), list(_hard_data()), ids=[name for name, *_ in _hard_data()]
)
@pytest.mark.parametrize("bound", [None, 0.7])
def test_hard_data_is_drawn_from(
    name: str,
    x: np.ndarray,
    y: np.ndarray,
    bound: float | None,
) -> None:
    for adjacency in (REPLACE, ADD):
        schema, data = labelled(x, y, adjacency=adjacency)
        question = LogisticRegression(target="y", features=features(schema), bound=bound)
        for epsilon in EPSILONS:
            for norm in NORMS:
                plan = calibrate(question, schema, Epsilon.parse(epsilon), norm)
                got = coefficients(plan, data)
                assert np.isfinite(got).all()
                if bound is not None:
                    step = plan.grid["scaled"]
                    assert np.abs(got).sum() <= bound + 4 * step  # type: ignore[operator]


def test_no_rows_under_add_remove_is_drawn_from() -> None:
    schema, data = labelled(np.zeros((0, 2)), np.zeros(0, dtype=bool), adjacency=ADD)
    for bound in (None, 2.0):
        logistic = LogisticRegression(target="y", features=features(schema), bound=bound)
        for epsilon in EPSILONS:
            plan = calibrate(logistic, schema, Epsilon.parse(epsilon), "auto")
            assert np.isfinite(coefficients(plan, data)).all()
    linear = LinearRegression(target="x0", features=("x1",))
    for epsilon in EPSILONS:
        plan = calibrate(linear, schema, Epsilon.parse(epsilon), "auto")
        assert np.abs(coefficients(plan, data)).sum() <= 10.001


class _Blocks:
    """Data that counts passes and hands out small blocks."""

    def __init__(self, data: ArrayData) -> None:
        self._data = data
        self.passes = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._data, name)

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        self.passes += 1
        for start in range(0, self._data.rows, 7):
            yield {name: self._data.array(name)[start : start + 7] for name in columns}

    def map(self, function: Callable[[Block], T], columns: Sequence[str], /) -> Iterator[T]:
        return map(function, self.blocks(columns))


def test_rows_are_kept_or_read_again_with_the_same_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema, data = simulate(60, seed=9)
    plan = calibrate(
        LogisticRegression(target="y", features=features(schema)),
        schema,
        Epsilon.parse("1"),
        "auto",
    )
    whole = coefficients(plan, data, seed=4)
    kept = _Blocks(data)
    assert (coefficients(plan, kept, seed=4) == whole).all()  # type: ignore[arg-type]
    assert kept.passes == 1
    monkeypatch.setattr(design_rows, "HELD_ROWS", 59)
    streamed = _Blocks(data)
    assert (coefficients(plan, streamed, seed=4) == whole).all()  # type: ignore[arg-type]
    assert streamed.passes > 3


@pytest.mark.parametrize("norm", NORMS)
def test_the_answer_does_not_depend_on_the_order_of_rows(norm: BallNorm) -> None:
    schema, data = simulate(300, seed=2)
    plan = calibrate(
        LogisticRegression(target="y", features=features(schema), bound=2.0),
        schema,
        Epsilon.parse("3"),
        norm,
    )
    assert isinstance(plan.draw, PerturbedFit)
    order = np.random.default_rng(1).permutation(300)
    shuffled = ArrayData(
        columns=data.columns, codes={name: codes[order] for name, codes in data.codes.items()}
    )
    assert (coefficients(plan, data) == coefficients(plan, shuffled)).all()


@pytest.mark.statistical
def test_the_papers_errors_are_reproduced() -> None:
    """Awan & Slavkovic, section 5.2, n = 1e4, eps = 1/4: linf beats l2, tuning q helps.

    Project figures over many replicates: linf q=.5 0.332, q=.85 0.247; l2 0.510.
    Here 12 replicates, bands of about five standard errors.
    """
    slopes = np.array([0, -1, -0.5, -0.25, 0, 0.75, 1.5])
    samples = [simulate(10_000, seed=seed) for seed in range(12)]

    def mean_error(norm: str, q: float | str) -> float:
        errors = []
        for seed, (schema, data) in enumerate(samples):
            question = LogisticRegression(
                target="y",
                features=features(schema),
                intercept=False,
                q=q,  # type: ignore[arg-type]
            )
            plan = calibrate(question, schema, Epsilon.parse("0.25"), norm)
            errors.append(np.linalg.norm(coefficients(plan, data, seed) - slopes))
        return float(np.mean(errors))

    plain, tuned = mean_error("linf", 0.5), mean_error("linf", 0.85)
    automatic, euclidean = mean_error("linf", "auto"), mean_error("l2", 0.5)
    assert 0.2 < tuned < plain < euclidean < 0.8
    assert automatic < 1.05 * tuned
