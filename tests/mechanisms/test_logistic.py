"""The logistic loss: float errors are within their proved bounds, and questions are checked."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_mat

from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CODE_MAX, EXACT_ROWS, CategoryColumn, NumberColumn, Schema
from mechanisms.exact.balls import norm_bound, smallest_eigenvalue_bound
from mechanisms.exact.floats import (
    SIGMOID_ERROR,
    SIGMOID_FLOOR,
    sigmoid,
    working_precision,
)
from mechanisms.objectives.design import Design
from mechanisms.objectives.quadratic import LeastSquaresObjective
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.designs.scaling import design
from mechanisms.statistics.logistic_regression import LogisticRegression, SignedCodes
from tests.mechanisms.logistic_data import objective, plain_design
from tests.tiers import in_one


def test_the_sigmoid_errs_by_less_than_proved() -> None:
    rng = np.random.default_rng(1)
    points = np.concatenate(
        [
            rng.uniform(-700, 700, 3000),
            rng.normal(size=3000) * 10.0 ** rng.uniform(-9, 2, 3000),
            [0.0, -0.0, 700.0, -700.0, 1e5, 5e-324],
        ]
    )
    values = sigmoid(points)
    with working_precision(160):
        for t, value, complement in zip(points, *values, strict=True):
            for argument, given in ((t, value), (-t, complement)):
                exact = 1 / (1 + (-arb(argument)).exp())
                error = abs(arb(given) - exact) - SIGMOID_FLOOR
                assert error.upper() <= (exact * SIGMOID_ERROR).lower()


DESIGNS = {
    "intercept": plain_design(4, intercept=True),
    "no intercept": Design(
        offsets=(Fraction(1, 3), Fraction(0), Fraction(-5, 7), Fraction(9, 10)),
        slopes=(Fraction(2, 3), Fraction(1), Fraction(2, 7), Fraction(1, 10)),
        intercept=False,
    ),
}


@in_one("name", DESIGNS)
@in_one("rows", [0, 1, 50, EXACT_ROWS + 3])
@in_one("scale", [0.0, 1.0, 30.0])
def test_certified_sums_hold_the_exact_ones(name: str, rows: int, scale: float) -> None:
    rng = np.random.default_rng(rows)
    codes = rng.integers(-CODE_MAX, CODE_MAX + 1, size=(rows, 4))
    loss = objective(codes, rng.uniform(size=rows) < 0.4, DESIGNS[name])
    theta = [Fraction(t) for t in rng.normal(size=loss.dimension) * scale]
    facts = loss.certify(theta)
    exact = loss.gradient(theta, 128)
    for ball, truth in zip(facts.gradient, exact, strict=True):
        assert ball.contains(truth)
        assert ball.rad() <= 1e-12 * max(rows, 1)
    hint, hessian = loss.model(np.array([float(t) for t in theta]))
    assert np.allclose(hint, [float(g) for g in exact], atol=1e-9 * max(rows, 1))
    smallest = float(np.linalg.eigvalsh(hessian)[0])
    assert 0 <= float(facts.curvature) <= smallest / 2 + 1e-12 * max(rows, 1)
    if rows > 10 and scale < 5:
        assert float(facts.curvature) > 0.999 * smallest / 2


def test_a_far_point_is_not_certified_rather_than_wrong() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(-CODE_MAX, CODE_MAX + 1, size=(20, 2))
    loss = objective(codes, rng.uniform(size=20) < 0.5, plain_design(2))
    facts = loss.certify([Fraction(10) ** 17, Fraction(-(10**17))])
    assert not any(ball.is_finite() for ball in facts.gradient)
    assert facts.curvature == 0


def test_the_gradient_is_the_difference_quotient_of_the_loss() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(-CODE_MAX, CODE_MAX + 1, size=(30, 3))
    labels = rng.uniform(size=30) < 0.5
    loss = objective(codes, labels, plain_design(3, intercept=True))
    x = np.column_stack([np.ones(30), codes / CODE_MAX])

    def value(theta: np.ndarray[Any, Any]) -> float:
        t = x @ theta
        return float((np.logaddexp(0, t) - labels * t).sum())

    theta = rng.normal(size=4)
    gradient, hessian = loss.model(theta)
    for j, unit in enumerate(np.eye(4)):
        quotient = (value(theta + 1e-5 * unit) - value(theta - 1e-5 * unit)) / 2e-5
        assert gradient[j] == pytest.approx(quotient, abs=1e-6)
        ahead, behind = loss.model(theta + 1e-5 * unit)[0], loss.model(theta - 1e-5 * unit)[0]
        assert hessian[j] == pytest.approx((ahead - behind) / 2e-5, abs=1e-6)


def test_the_hessian_never_shrinks_faster_than_its_reach_says() -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(-CODE_MAX, CODE_MAX + 1, size=(12, 3))
    loss = objective(codes, rng.uniform(size=12) < 0.5, plain_design(3))
    for _ in range(200):
        theta, move = rng.normal(size=3), rng.normal(size=3) * 10 ** rng.uniform(-2, 1)
        here, there = loss.model(theta)[1], loss.model(theta + move)[1]
        reach = loss.certify([Fraction(t) for t in theta]).reach
        assert reach is not None
        drift = 1 / float(reach)
        floor = np.exp(-drift * np.linalg.norm(move)) * here
        assert np.linalg.eigvalsh(there - floor)[0] >= -1e-12
        assert loss.stretch(move) <= drift * np.linalg.norm(move) + 1e-12


def test_the_eigenvalue_bound_is_below_and_close() -> None:
    rng = np.random.default_rng(5)
    for size in (1, 2, 6):
        factor = rng.normal(size=(size, size))
        matrix = factor @ factor.T + 0.1 * np.eye(size)
        bound = float(smallest_eigenvalue_bound(arb_mat(matrix.tolist())))
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        assert smallest * 0.999 < bound <= smallest * (1 + 1e-12)
        slack = float(smallest_eigenvalue_bound(arb_mat(matrix.tolist()), slack=smallest / 2))
        assert slack == pytest.approx(bound - smallest / 2)
    indefinite = arb_mat([[1.0, 2.0], [2.0, 1.0]])
    assert smallest_eigenvalue_bound(indefinite) == 0
    assert smallest_eigenvalue_bound(arb_mat([[arb("nan")]])) == 0
    assert norm_bound([arb(0, 3), arb(4)]).upper() >= 5


def test_least_squares_is_exact() -> None:
    xx = [[Fraction(2), Fraction(1, 3)], [Fraction(1, 3), Fraction(1)]]
    loss = LeastSquaresObjective(xx, [Fraction(1), Fraction(-1, 7)])
    theta = [Fraction(1, 2), Fraction(3)]
    with working_precision(128):
        first, second = loss.gradient(theta, 128)
        assert first.contains(arb(2))  # 2 (2/2 + 3/3 - 1)
        assert second.overlaps(arb(2) * (arb(1) / 6 + 3 + arb(1) / 7))
    assert loss.quadratic
    assert (
        0
        < float(loss.certify(theta).curvature)
        <= 2 * np.linalg.eigvalsh(np.array(xx, dtype=float))[0] + 1e-12
    )


SCHEMA = Schema(
    columns={
        "income": NumberColumn(Fraction(0), Fraction(5000)),
        "age": NumberColumn(Fraction(18), Fraction(90)),
        "owner": NumberColumn(Fraction(0), Fraction(1), boolean=True),
        "region": CategoryColumn(("north", "south")),
    },
    adjacency=Adjacency.REPLACE_ONE,
    rows=4,
)
DATA = ArrayData.from_values(
    SCHEMA,
    {
        "income": [0, 2500, 5000, 1250],
        "age": [18, 90, 54, 36],
        "owner": [1, 0, 0, 1],
        "region": ["north", "south", "south", "north"],
    },
)


@pytest.mark.parametrize(
    ("target", "labels"),
    [
        ("owner", [1, 0, 0, 1]),
        (Condition(column="income", op=">", value=1250), [0, 1, 1, 0]),
        (Condition(column="income", op=">=", value=1250), [0, 1, 1, 1]),
        (Condition(column="region", op="==", value="south"), [0, 1, 1, 0]),
        (Condition(column="owner", op="!=", value=True), [0, 1, 1, 0]),
    ],
)
def test_targets_become_signs_of_rows(target: str | Condition, labels: list[int]) -> None:
    question = LogisticRegression(target=target, features=("age",))
    question.check(SCHEMA)
    read = SignedCodes.of(question, SCHEMA)
    [rows] = read(next(DATA.blocks(read.columns)))
    signs = 1 - 2 * np.array(labels)
    assert rows[:, 0].tolist() == signs.tolist()
    assert rows[:, 1].tolist() == pytest.approx((signs * np.array([-1, 1, 0, -0.5])).tolist())


def test_the_design_scales_columns_exactly() -> None:
    question = LogisticRegression(target="owner", features=("age", "income"), intercept=False)
    matrix = design(question.scaling(SCHEMA)).matrix()
    codes = [Fraction(int(c), CODE_MAX) for c in DATA.codes["age"]]
    scaled = [matrix[0][0] + matrix[0][1] * code for code in codes]
    assert [float(x) for x in scaled] == pytest.approx([18 / 90, 1, 54 / 90, 36 / 90], abs=1e-5)
    assert max(abs(x) for x in scaled) == 1
    theta = [Fraction(3, 7), Fraction(-2)]
    pulled = design(question.scaling(SCHEMA)).pull(theta)
    assert pulled == [
        sum(t * row[k] for t, row in zip(theta, matrix, strict=True)) for k in range(3)
    ]


@in_one(
    ("changes", "field"),
    [
        ({"target": "income"}, "target"),
        ({"target": "region"}, "target"),
        ({"target": "nowhere"}, "target"),
        ({"target": Condition(column="income", op=">", value=1e9)}, "target"),
        ({"target": Condition(column="age", op=">", value=30.0)}, "features"),
        ({"target": "owner", "features": ("owner",)}, "features"),
        ({"features": ("age", "age")}, "features"),
        ({"features": ("region",)}, "features"),
        ({"features": (), "intercept": False}, "features"),
        ({"bound": 0.0}, "bound"),
        ({"bound": float("nan")}, "bound"),
        ({"bound": float("inf")}, "bound"),
        ({"q": 0.0}, "q"),
        ({"q": 1.0}, "q"),
        ({"q": float("nan")}, "q"),
        ({"q": "most"}, "q"),
    ],
)
def test_questions_that_do_not_fit_are_refused(changes: dict[str, Any], field: str) -> None:
    question = LogisticRegression(**{"target": "owner", "features": ("age",), **changes})
    with pytest.raises(InvalidStatisticError) as refusal:
        question.check(SCHEMA)
    assert refusal.value.field_name == field


def test_too_many_coefficients_are_refused() -> None:
    names = [f"x{j}" for j in range(100)]
    columns = {name: NumberColumn(Fraction(0), Fraction(1)) for name in names}
    flag = NumberColumn(Fraction(0), Fraction(1), boolean=True)
    schema = Schema(columns={**columns, "y": flag}, adjacency=Adjacency.REPLACE_ONE, rows=1)
    LogisticRegression(target="y", features=tuple(names), intercept=False).check(schema)
    with pytest.raises(InvalidStatisticError, match="at most 100"):
        LogisticRegression(target="y", features=tuple(names)).check(schema)
