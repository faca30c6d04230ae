"""The smoothed check loss: the convolution it is, its certificate, limits and hard data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate
from statsmodels.regression.quantile_regression import QuantReg

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Plan
from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.continuous import BallNorm, knorm_vector
from mechanisms.objectives.losses import smoothed_check_loss
from mechanisms.perturbation.calibration import smoothing_width
from mechanisms.perturbation.likelihoods import smoothed_check_objective
from mechanisms.perturbation.release import PerturbedFit
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.samplers.minimiser import Problem, certified_minimiser, refined_minimiser
from mechanisms.samplers.regions import l1_region
from mechanisms.sketches import ArrayData
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.testing import record_replay, seeded_randomness
from tests.mechanisms.quantile_data import objective, question, table

Floats = NDArray[np.float64]
REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
NORMS: tuple[BallNorm, ...] = ("linf", "l2", "l1")


def coefficients(plan: Plan, data: ArrayData, seed: int = 1) -> Floats:
    value = plan.draw(data, seeded_randomness(seed)).value["coefficients"]
    return np.array(list(value.values()))  # type: ignore[attr-defined]


@pytest.mark.parametrize("tau", [0.5, 0.9])
def test_the_gradient_is_that_of_the_convolution(tau: float) -> None:
    """d/du E rho(u + h Z) by quadrature of the kernel against the closed form."""
    h = 0.25
    for u in (-0.7, -0.1, 0.0, 0.3):

        def slope(z: float, at: float = u) -> float:
            kernel = 1 / (4 * np.cosh(z / 2) ** 2)
            return float(kernel * (tau - (at + h * z < 0)))

        cut = -u / h
        wanted = sum(integrate.quad(slope, *part)[0] for part in ((-60, cut), (cut, 60)))
        loss = objective(np.array([[1.0]]), np.array([u]), tau=tau, width=Fraction(1, 4))
        [got], _ = loss.model(np.zeros(1))
        assert got == pytest.approx(-wanted, abs=2e-6)  # u's code is rounded to 2**-20


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("width", [Fraction(1, 4), Fraction(1, 1024)])
@pytest.mark.parametrize("rows", [0, 1, 50, 9000])
def test_certified_sums_hold_the_exact_ones(rows: int, width: Fraction, intercept: bool) -> None:
    rng = np.random.default_rng(rows)
    x, y = rng.uniform(-1, 1, size=(rows, 3)), rng.uniform(-1, 1, size=rows)
    loss = objective(x, y, tau=0.3, width=width, intercept=intercept)
    theta = [Fraction(t) for t in rng.normal(size=loss.dimension) / 2]
    facts, exact = loss.certify(theta), loss.gradient(theta, 1100)
    for ball, truth in zip(facts.gradient, exact, strict=True):
        assert ball.contains(truth)
        assert truth.rad() <= 2.0**-1000
        # narrow kernels make tilts long, which costs no digits
        assert ball.rad() <= 1e-14 * max(rows, 1)
    at = np.array([float(t) for t in theta])
    hint, hessian = loss.model(at)
    assert np.allclose(hint, [float(g) for g in exact], atol=1e-8 * max(rows, 1))
    assert 0 <= float(facts.curvature) <= np.linalg.eigvalsh(hessian)[0] / 2 + 1e-9
    for unit in np.eye(loss.dimension) * 1e-6:
        change = (loss.model(at + unit)[0] - loss.model(at - unit)[0]) / 2e-6
        assert hessian @ (unit / 1e-6) == pytest.approx(change, abs=1e-2 * max(rows, 1))
    assert facts.reach is not None
    for _ in range(10):
        move = rng.normal(size=loss.dimension)
        move *= float(facts.reach) / np.linalg.norm(move)
        floor = np.exp(-1.0) * hessian
        assert np.linalg.eigvalsh(loss.model(at + move)[1] - floor)[0] >= -1e-9


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("tau", [0.5, 0.9, 0.2])
def test_gradients_reach_the_sensitivity_and_never_pass_it(
    tau: float, intercept: bool, adjacency: Adjacency
) -> None:
    """Record-replay in exact sums, all three norms; within 1% of each as h is small."""
    width, size = Fraction(1, 256), 2
    schema, _ = table(np.zeros((2, size)), np.zeros(2), adjacency)
    asked = question(schema, tau=tau, intercept=intercept)
    d = size + intercept
    loss = smoothed_check_loss(d, asked.exact_tau, width, intercept=intercept, adjacency=adjacency)
    theta = [Fraction(0)] * d

    def gradient(data: ArrayData) -> list[Fraction]:
        balls = smoothed_check_objective(asked, width, schema, data).gradient(theta, 128)
        return [Fraction(float(ball.mid())) for ball in balls]

    corners = [
        np.array([float(g) for g in gradient(table(np.array([row[:-1]]), row[-1:])[1])])
        for row in np.array(list(product((-1.0, 1.0), repeat=size + 1)))
    ]
    others = corners if adjacency is REPLACE else [np.zeros(d)]
    bounds: dict[float, float] = {}
    for order, norm in ((np.inf, "linf"), (2, "l2"), (1, "l1")):
        bound = float(loss.sensitivity_squared(norm)) ** 0.5  # type: ignore[arg-type]
        worst = max(float(np.linalg.norm(a - b, ord=order)) for a in corners for b in others)
        assert 0.99 * bound < worst <= bound + 1e-12
        bounds[order] = bound + 1e-12

    def share_of_bounds(change: Sequence[Fraction]) -> Fraction:
        floats = [float(c) for c in change]
        return Fraction(max(np.linalg.norm(floats, ord=p) / bounds[p] for p in bounds))

    replay = record_replay(gradient, schema=schema, norm=share_of_bounds, rows=1, trials=200)
    assert replay.largest <= 1
    printed = 2 * (1 - asked.exact_tau)
    if tau == 0.9 and adjacency is REPLACE:
        assert loss.largest_difference == Fraction(9, 5) > 8 * printed


def test_an_intercept_alone_moves_by_one() -> None:
    alone = smoothed_check_loss(
        1, Fraction(9, 10), Fraction(1, 8), intercept=True, adjacency=REPLACE
    )
    assert [alone.sensitivity_squared(norm) for norm in NORMS] == [1, 1, 1]
    assert alone.eigenvalue == 2
    removed = smoothed_check_loss(1, Fraction(9, 10), Fraction(1, 8), intercept=True, adjacency=ADD)
    assert [removed.sensitivity_text(norm) for norm in NORMS] == ["9/10", "9/10*sqrt(1)", "9/10"]


def test_the_width_is_public_and_states_itself() -> None:
    for epsilon in (Fraction(1, 10**9), Fraction(1), Fraction(10**4)):
        for rows in (None, 0, 1, 10**4, 10**9):
            for d in (1, 3, 100):
                assert Fraction(1, 1024) <= smoothing_width(epsilon, d, rows) <= Fraction(1, 4)
    plans = []
    for rows in (3, 400):
        schema, _ = table(np.zeros((rows, 2)), np.zeros(rows), ADD)
        plans.append(calibrate(question(schema), schema, Epsilon.parse("0.5")))
    assert plans[0].details == plans[1].details
    assert plans[0].grid == plans[1].grid
    assert "smoothing_width" in plans[0].details


def test_much_budget_gives_statsmodels_quantile_regression() -> None:
    """Column units, intercept, h at its least: QuantReg's coefficients to the smoothing."""
    rng = np.random.default_rng(4)
    age, income = rng.uniform(18, 90, 4000), rng.uniform(0, 5000, 4000)
    spent = 300 + 4 * age + 0.2 * income + rng.normal(size=4000) * 150
    columns = {
        "age": NumberColumn(Fraction(18), Fraction(90)),
        "income": NumberColumn(Fraction(0), Fraction(5000)),
        "spent": NumberColumn(Fraction(-500), Fraction(2500)),
    }
    schema = Schema(columns=columns, adjacency=REPLACE, rows=4000)
    data = ArrayData.from_values(schema, {"age": age, "income": income, "spent": spent})
    for tau in (0.25, 0.5, 0.9):
        asked = QuantileRegression(target="spent", features=("age", "income"), tau=tau)
        fitted = QuantReg(spent, np.column_stack([np.ones(4000), age, income])).fit(
            q=tau, p_tol=1e-4
        )
        for norm in NORMS:
            plan = calibrate(asked, schema, Epsilon.parse("10000"), norm=norm)
            got = coefficients(plan, data)
            off = np.abs(got - fitted.params) * np.array([1, 54, 2500])
            assert off.max() < 12  # of 3000: the smoothing, half a standard error


@pytest.mark.parametrize("tau", [0.5, 0.9])
def test_floats_and_ball_arithmetic_agree(tau: float) -> None:
    rng = np.random.default_rng(8)
    x, y = rng.uniform(-1, 1, size=(40, 2)), rng.uniform(-1, 1, size=40)
    for width in (Fraction(1, 4), Fraction(1, 1024)):
        loss = objective(x, y, tau=tau, width=width, intercept=True)
        for bound in (None, Fraction(1, 4)):
            for ridge in (Fraction(1), Fraction(1, 2**20)):
                tilt = knorm_vector(
                    norm="linf",
                    dimension=3,
                    rate_squared=Fraction(1),
                    randomness=seeded_randomness(3),
                )
                problem = Problem(loss, ridge, tilt, l1_region(bound), -24)
                assert certified_minimiser(problem) == refined_minimiser(problem, None)


def _hard_data() -> Iterator[tuple[str, Floats, Floats]]:
    rng = np.random.default_rng(5)
    x, y = rng.uniform(-1, 1, size=(40, 3)), rng.uniform(-1, 1, size=40)
    yield "an exact line", x, x[:, 0]
    yield "one target", x, np.ones(40)
    yield "constant columns", np.ones((40, 3)), y
    yield "zero columns", np.zeros((40, 3)), y
    yield "duplicated columns", x[:, [0, 0, 0]], y
    yield "two targets", x, np.sign(y)
    yield "one row", x[:1], y[:1]


@pytest.mark.wide
@pytest.mark.parametrize(
    ("name", "x", "y"), list(_hard_data()), ids=[name for name, *_ in _hard_data()]
)
def test_hard_data_is_drawn_from(name: str, x: Floats, y: Floats) -> None:
    middle, top = 0.5, 0.999999999
    tried = {REPLACE: ((middle, 10.0), (top, 0.3)), ADD: ((middle, 0.3), (top, 10.0))}
    for adjacency, pairs in tried.items():
        schema, data = table(x, y, adjacency)
        for tau, bound in pairs:
            asked = question(schema, tau=tau, intercept=True, bound=bound)
            for epsilon in ("0.000000001", "0.5", "10000"):
                plan = calibrate(asked, schema, Epsilon.parse(epsilon))
                got = coefficients(plan, data)
                step = plan.grid["scaled"]
                assert np.abs(got).sum() <= bound + 4 * step  # type: ignore[operator]


def test_no_rows_under_add_remove_is_drawn_from() -> None:
    schema, data = table(np.zeros((0, 2)), np.zeros(0), ADD)
    for norm in NORMS:
        plan = calibrate(question(schema), schema, Epsilon.parse("1"), norm=norm)
        assert np.isfinite(coefficients(plan, data)).all()


def test_the_answer_does_not_depend_on_the_order_of_rows() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-1, 1, size=(300, 2)), rng.uniform(-1, 1, size=300)
    order = rng.permutation(300)
    schema, data = table(x, y)
    _, shuffled = table(x[order], y[order])
    plan = calibrate(question(schema, bound=0.5), schema, Epsilon.parse("3"))
    assert isinstance(plan.draw, PerturbedFit)
    assert (coefficients(plan, data) == coefficients(plan, shuffled)).all()


def test_what_does_not_fit_is_refused() -> None:
    schema, _ = table(np.zeros((3, 2)), np.zeros(3))
    for wrong, field in (
        ({"tau": 0.0}, "tau"),
        ({"tau": 1.0}, "tau"),
        ({"tau": float("nan")}, "tau"),
        ({"bound": 0.0}, "bound"),
        ({"features": ("x0", "y")}, "features"),
        ({"features": ("x0", "nobody")}, "features"),
    ):
        asked = QuantileRegression(**{"target": "y", "features": ("x0",), **wrong})  # type: ignore[arg-type]
        with pytest.raises(InvalidStatisticError) as caught:
            calibrate(asked, schema, Epsilon.parse("1"))
        assert caught.value.field_name == field


@pytest.mark.parametrize(("tau", "norm"), [(0.5, "linf"), (0.9, "optimal")])
def test_a_plan_says_that_kng_has_less_error_where_that_is_measured(tau: float, norm: str) -> None:
    """With up to 3 coefficients, and the norm that is best there."""
    unit = NumberColumn(Fraction(-1), Fraction(1))
    names = ("a", "b", "c")
    schema = Schema(dict.fromkeys((*names, "y"), unit), Adjacency.REPLACE_ONE, 1000)
    few, many = (
        calibrate(
            QuantileRegression(target="y", features=names[:count], tau=tau),
            schema,
            Epsilon.parse("1"),
        )
        for count in (2, 3)
    )
    assert few.mechanism == "objective_perturbation"
    assert "kng has about a third of the error" in few.reason
    assert few.alternatives[0].norm == norm
    other = calibrate(few.statistic, schema, Epsilon.parse("1"), mechanism="kng", norm=norm)
    assert (other.mechanism, other.norm) == ("kng", norm)
    assert "kng" not in {many.reason, *(each.mechanism for each in many.alternatives)}
