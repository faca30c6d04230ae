"""Moments by the cells of a design: its structure, its equations, its sensitivity and its noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.catalog import calibrate
from mechanisms.contract import Plan
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema, exact
from mechanisms.expressions.factors import factors_in
from mechanisms.functional.linear import FunctionalDraw, coordinate_noise
from mechanisms.functional.moments import regression_moments
from mechanisms.functional.sanitized import shrunk, solve
from mechanisms.geometry.counted import Cube
from mechanisms.geometry.joint_moments import JointMomentBall
from mechanisms.geometry.laws import simulate
from mechanisms.geometry.smooth import BALLS, NormBall, SmoothBall
from mechanisms.geometry.spaces import JoinedBall
from mechanisms.knorm import ball_of
from mechanisms.objectives.huber import huber_loss_by_cells
from mechanisms.perturbation.calibration import OWN_RIDGE
from mechanisms.perturbation.linear import design_by_cells, huber_objective
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.samplers.bodies import Joined
from mechanisms.sketches import ArrayData
from mechanisms.statistics.cells.spelling import Derived
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.designs.cells import MOST_CELLS, Cells, Placing, Split
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.questions import viewed
from mechanisms.testing import Law, check_draws, draws_needed, seeded_randomness
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
COLUMNS: Mapping[str, Column] = {
    "x": NumberColumn(Fraction(2), Fraction(10)),
    "z": NumberColumn(Fraction(-1), Fraction(1)),
    "race": CategoryColumn(tuple("abcdef")),
    "area": CategoryColumn(("north", "south")),
    "female": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "w": NumberColumn(Fraction(0), Fraction(4)),
    "y": NumberColumn(Fraction(0), Fraction(100)),
}
FORMULAS = (
    "y ~ x",
    "y ~ x + female",
    "y ~ race",
    "y ~ x + race",
    "y ~ x*race",
    "y ~ x*race*female",
    "y ~ x*female + z:area",
    "y ~ race*area",
    "y ~ race + area + z",
    "y ~ race - 1",
    "y ~ x:race - 1",
    "y ~ log(x)*area",
    "y ~ log(x):race",
    "y ~ x*I(z > 0)",
    "y ~ I((race == 'b') * x) + female",
    "female ~ x + area",
)
SHARES = (0.4, 0.2, 0.15, 0.1, 0.1, 0.05)
TOP = Epsilon.parse("10000")
ONE = Epsilon.parse("1")


def schema_of(adjacency: Adjacency, rows: int) -> Schema:
    return Schema(COLUMNS, adjacency, rows if adjacency is REPLACE else None, max_rows=100_000)


def sample(rows: int, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x, z, race = rng.uniform(2, 10, rows), rng.uniform(-1, 1, rows), rng.integers(0, 6, rows)
    female, area = rng.integers(0, 2, rows), rng.integers(0, 2, rows)
    y = np.clip(20 + 3 * race + (2 + race / 3) * x + 5 * female + rng.normal(0, 5, rows), 0, 100)
    return {
        "x": x,
        "z": z,
        "race": ["abcdef"[each] for each in race],
        "area": [("north", "south")[each] for each in area],
        "female": female.astype(float),
        "w": rng.integers(0, 5, rows).astype(float),
        "y": y,
    }


def asked(formula: str, schema: Schema, **more: Any) -> tuple[LinearRegression, Schema, Any]:
    found = viewed(LinearRegression(formula=formula, **more), schema)
    return found.statistic, found.view.schema, found.view


# The structure


def test_columns_are_products_of_indicators() -> None:
    def found(formula: str, **more: Any) -> list[tuple[dict[str, int], str]]:
        statistic, wider, _ = asked(formula, schema_of(ADD, 9), **more)
        factors = [factors_in(wider, name) for name in statistic.names]
        return [(dict(each.levels), each.rest) for each in factors]

    assert found("y ~ x*area") == [({}, "x"), ({"area": 1}, ""), ({"area": 1}, "x")]
    assert found("y ~ z:x:female") == [({"female": 1}, "x * z")]
    truth = "I(x > 5)"
    assert found("y ~ z*I(x > 5)") == [({}, "z"), ({truth: 1}, ""), ({truth: 1}, "z")]
    south = {"derive": {"south": "area == 'south'", "both": "south * female"}}
    assert found("y ~ south + x:both", **south) == [({"area": 1}, ""), ({}, "both * x")]
    # by its bounds a derived number may be cut, so that it is no product
    narrow = {"derive": {"cut": Derived(expr="x * female", upper=5)}}
    assert found("y ~ z:cut", **narrow) == [({}, "cut * z")]
    twice = "I(x * (area == 'south') * (area == 'north'))"
    assert found(f"y ~ {twice}") == [({}, 'x * (area == "south") * (area == "north")')]


@in_one(
    ("formula", "cells", "longest"),
    [
        ("y ~ x", 1, 6 - 1),
        ("y ~ x + female", 1, 8),
        ("y ~ race", 6, 2),
        ("y ~ x*race", 6, 5),
        ("y ~ x + race", 6, 5),
        ("y ~ x*female", 2, 5),
        ("y ~ x*race*female", 12, 5),
        ("y ~ I((race == 'b') * x) + female", 1, 8),
        ("y ~ x*race + area", 12, 5),
    ],
)
def test_the_cells_of_a_design(formula: str, cells: int, longest: int) -> None:
    """Of ``y ~ x*race`` 5 moments in each of 6 cells, where a design of 11 columns has 90."""
    statistic, wider, _ = asked(formula, schema_of(ADD, 9))
    found = Cells.chosen(statistic.names, wider)
    assert len(found.each) == cells
    assert max(cell.dimension for cell in found.each) == longest


def test_cells_are_few() -> None:
    """Of 100 cells none are made, and so not all that would save noise."""
    many = {
        "five": CategoryColumn(tuple("abcde")),
        "more": CategoryColumn(tuple("abcdefghijklmnopqrst")),
    }
    wide = replace(schema_of(ADD, 9), columns={**COLUMNS, **many})
    statistic, wider, _ = asked("y ~ x*five + x*more", wide)
    found = Cells.chosen(statistic.names, wider)
    assert len(found.each) == 20 <= MOST_CELLS
    assert found.spread < Cells.of(statistic.names, wider).spread


def test_a_row_without_a_value_is_in_no_cell() -> None:
    placing = Placing((Split("race", (1, 4), 6), Split("female", (1,), 2)))
    assert placing.cells == 6
    block = {exact("race"): np.array([0, 1, 4, 6, 5]), exact("female"): np.array([1.0, 0, 1, 1, 0])}
    assert placing.place(block).tolist() == [4, 1, 2, 6, 5]
    assert list(placing.values())[4] == {"race": None, "female": 1}


# The equations


def design_of(formula: str, data: ArrayData, view: Any, names: Sequence[str]) -> NDArray[Any]:
    blocks = view.over(data).blocks([exact(name) for name in names])
    rows = [np.column_stack([block[exact(name)] for name in names]) for block in blocks]
    return np.vstack(rows).astype(float)


@in_one("formula", FORMULAS)
@in_one("adjacency", [REPLACE, ADD])
def test_without_noise_the_equations_are_those_of_the_design(
    adjacency: Adjacency, formula: str
) -> None:
    """X'X and X'y of the columns themselves, up to the rounding of codes."""
    made, values = schema_of(adjacency, 300), sample(300)
    statistic, wider, view = asked(formula, made)
    data = ArrayData.from_values(made, values)
    scaling = statistic.scaling(wider)
    moments = regression_moments(scaling, wider)
    total = moments.total(view.over(data))
    assert len(total) == moments.space.dimension
    found = moments.equations([Fraction(each) for each in total])
    columns = design_of(formula, data, view, [*statistic.names, str(statistic.target)])
    scaled = [
        (column - float(each.centre)) / float(each.width)
        for column, each in zip(columns.T, (*scaling.features, scaling.target), strict=True)  # type: ignore[union-attr]
    ]
    x = np.column_stack([*([np.ones(300)] if scaling.intercept else []), *scaled[:-1]])
    for (i, j), jet in found.xx.items():
        assert float(jet.value) == pytest.approx(x[:, i] @ x[:, j], abs=1e-5)
    for i, jet in enumerate(found.xy):
        assert float(jet.value) == pytest.approx(x[:, i] @ scaled[-1], abs=1e-5)


def least_squares(values: Mapping[str, Any], *, by_race: bool) -> NDArray[np.float64]:
    race = np.array(values["race"])
    flags = [(race == each).astype(float) for each in "bcdef"]
    products = [flag * values["x"] for flag in flags] if by_race else []
    x = np.column_stack([np.ones(len(race)), values["x"], *flags, *products])
    found: NDArray[np.float64] = np.linalg.lstsq(x, values["y"], rcond=None)[0]
    return found


@in_one("norm", ["auto", "l1", "linf"])
@in_one("ridge", [None, 0.0])
@in_one(
    ("formula", "weights", "adjacency"),
    [
        ("y ~ x*race", None, REPLACE),
        ("y ~ x*race", None, ADD),
        ("y ~ x + race", None, ADD),
        ("y ~ x + race", "w", REPLACE),
    ],
)
def test_at_large_epsilon_it_is_least_squares(
    formula: str, weights: str | None, adjacency: Adjacency, ridge: float | None, norm: str
) -> None:
    made, values = schema_of(adjacency, 600), sample(600)
    statistic = LinearRegression(formula=formula, ridge=ridge, weights=weights, bound=100)
    plan = calibrate(statistic, made, TOP, mechanism="functional", norm=norm)
    outcome = plan.draw(ArrayData.from_values(made, values), seeded_randomness(2))
    wanted = values
    if weights:
        repeated = np.repeat(np.arange(600), values["w"].astype(int))
        wanted = {name: np.array(column)[repeated] for name, column in values.items()}
    expected = least_squares(wanted, by_race="*" in formula)
    got = np.array(list(outcome.value["coefficients"].values()))  # type: ignore[attr-defined]
    assert got == pytest.approx(expected, abs=0.3)


# Sensitivity


def rows_of() -> list[dict[str, Any]]:
    """Every record at ends and middles."""
    grid = itertools.product((2.0, 6.0, 10.0), "abf", (0.0, 1.0), (0.0, 50.0, 100.0))
    plain = {"z": 0.0, "area": "north", "w": 1.0}
    return [{**plain, "x": x, "race": r, "female": f, "y": y} for x, r, f, y in grid]


@in_one(
    ("formula", "squared"),
    [
        ("y ~ x*race", False),
        ("y ~ x*race", True),
        ("y ~ x + race", False),
        ("y ~ race", False),
        ("y ~ race", True),
        ("y ~ x*female", False),
    ],
)
@in_one("adjacency", [REPLACE, ADD])
def test_no_neighbours_leave_the_ball_and_some_reach_its_surface(
    adjacency: Adjacency, formula: str, squared: bool
) -> None:
    """All pairs of 54 records; half of the ball's size, the control, is left by some."""
    made = schema_of(adjacency, 1)
    statistic, wider, view = asked(formula, made)
    moments = regression_moments(statistic.scaling(wider), wider, squared=squared)
    ball, unit = ball_of(moments.space, "optimal"), moments.space.unit
    assert isinstance(ball, JoinedBall)
    wrong = replace(ball, size=1)
    totals = [
        moments.total(view.over(ArrayData.from_values(made, {k: [v] for k, v in row.items()})))
        for row in rows_of()
    ]
    reached = left = False
    zero = [0] * moments.space.dimension
    pairs = (
        itertools.combinations(totals, 2) if adjacency is REPLACE else ((t, zero) for t in totals)
    )
    for one, other in pairs:
        u = [a - b for a, b in zip(one, other, strict=True)]
        assert ball.contains(u, unit)
        reached |= not ball.contains(u, unit * 99 // 100)
        left |= not wrong.contains(u, unit)
        for norm in BALLS:
            size = {"l1": sum(map(abs, u)) ** 2, "linf": max(map(abs, u)) ** 2}
            square = size.get(norm, sum(x * x for x in u))
            assert square <= moments.space.squared(norm) * unit**2
    assert reached
    assert left == (adjacency is REPLACE)


# The noise


HALF = Cube(2, half=1)
ONE_COLUMN = JointMomentBall(effects=2, pairs=((0, 0), (0, 1)))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("parts", "size"), [((HALF, Cube(1, half=1)), 1), ((Cube(1, half=1),) * 3, 2)]
)
def test_draws_have_the_stated_small_law(parts: tuple[SmoothBall, ...], size: int) -> None:
    """``exp(-(rate / size) sum_g ceil(||v_g||))`` at each lattice point; other rates fail."""
    ball, rate, reach = JoinedBall(parts, size), Fraction(size), 14
    ends = np.cumsum([0, *(part.dimension for part in parts)])

    def rings(v: Sequence[int]) -> int:
        return sum(max(map(abs, v[a:b])) for a, b in itertools.pairwise(ends))

    points = list(itertools.product(range(-reach, reach + 1), repeat=ball.dimension))
    order = {v: place for place, v in enumerate(sorted(points, key=lambda v: (rings(v), v)))}
    weights = {v: math.exp(-rings(v)) for v in points}
    law = Law.discrete(list(order.values()), [weights[v] for v in order])
    twins = [
        Law.discrete(list(order.values()), [weights[v] ** factor for v in order])
        for factor in (0.7, 1.3)
    ]
    needed = draws_needed(min(law.gap(twin, list(order.values())) for twin in twins))
    randomness = seeded_randomness(8)
    draws = [tuple(ball.draw(randomness, steps=1, rate=rate)) for _ in range(needed)]
    assert sum(v not in order for v in draws) <= needed * 1e-3
    check_draws([order[v] for v in draws if v in order], law, twins=twins)


def test_a_joined_ball_is_a_norm_ball_of_its_parts_together() -> None:
    ball = JoinedBall((ONE_COLUMN, HALF), 1)
    assert (ball.dimension, ball.is_hull, ball.smooth) == (7, False, True)
    assert JoinedBall((HALF, HALF), 1).is_hull
    assert not JoinedBall((HALF, HALF), 2).is_hull
    corner, none = [64, 64, 64, 64, 64], [0, 0]
    assert ball.contains([*corner, *none], 64)
    assert not ball.contains([*corner, *none], 63)
    assert ball.contains([*corner, 64, -64], 128)
    assert not ball.contains([*corner, 64, -64], 127)
    assert replace(ball, size=2).contains([*corner, 64, -64], 64)
    assert ball.contains([0] * 7, 0)
    assert ball.correlation(0, 5) == 0.0
    assert ball.correlation(0, 3) == ONE_COLUMN.correlation(0, 3) != 0.0
    # the cross-polytope of two unit intervals, and twice it
    interval = Cube(1, half=1)
    assert math.exp(JoinedBall((interval, interval), 1).log_volume) == pytest.approx(2)
    assert math.exp(JoinedBall((interval, interval), 2).log_volume) == pytest.approx(8)
    assert "2 times" in replace(ball, size=2).name


@pytest.mark.statistical
@pytest.mark.parametrize("size", [1, 2])
def test_laws_and_simulations_describe_the_draws(size: int) -> None:
    ball: NormBall = JoinedBall((ONE_COLUMN, HALF), size)
    steps, rate, randomness = 1 << 12, Fraction(1, 64), seeded_randomness(4)
    draws = np.array([ball.draw(randomness, steps=steps, rate=rate) for _ in range(1500)])
    simulated = simulate(ball, ball.dimension, 12_000, seed=b"x")
    for law, drawn, made in zip(ball.laws(1.0), draws.T / (64 * steps), simulated.T, strict=True):
        assert np.sqrt(np.mean(drawn**2)) == pytest.approx(law.std, rel=0.12)
        assert np.sqrt(np.mean(made**2)) == pytest.approx(law.std, rel=0.05)
        assert np.mean(np.abs(drawn) > law.half_width_95) == pytest.approx(0.05, abs=0.03)


# What it saves


def plan_of(formula: str, adjacency: Adjacency, rows: int, **more: Any) -> Plan:
    statistic = LinearRegression(formula=formula, **more)
    return calibrate(statistic, schema_of(adjacency, rows), ONE, mechanism="functional")


def test_interactions_with_a_factor_err_a_tenth_of_what_all_moments_do() -> None:
    """Against the same records with columns of which nothing is known."""
    made, values = schema_of(ADD, 3_000), sample(3_000)
    race, x = np.array(values["race"]), values["x"]
    plain: dict[str, Any] = {"x": x, "y": values["y"]}
    for each in "bcdef":
        plain[each] = np.where(race == each, 1.0, 0.0)
        plain[f"x{each}"] = plain[each] * x
    bounds = {"x": COLUMNS["x"], "y": COLUMNS["y"]}
    columns = {
        name: bounds.get(name, NumberColumn(Fraction(0), Fraction(1 if len(name) == 1 else 10)))
        for name in plain
    }
    unknown = Schema(columns, ADD, None, max_rows=100_000)
    features = tuple(name for name in plain if name != "y")
    pooled = calibrate(
        LinearRegression(target="y", features=features), unknown, ONE, mechanism="functional"
    )
    structured = plan_of("y ~ x*race", ADD, 3_000)
    assert pooled.details["sanitized_moments"] == 90
    assert structured.details["sanitized_moments"] == 30
    truth = least_squares(values, by_race=True)

    def error(plan: Plan, data: ArrayData) -> float:
        draws = [plan.draw(data, seeded_randomness(seed)).value for seed in range(5)]
        found = [draw["coefficients"]["x"] for draw in draws]  # type: ignore[call-overload, index]
        return float(np.median(np.abs(np.array(found) - truth[1])))

    by_cells = error(structured, ArrayData.from_values(made, values))
    assert by_cells < error(pooled, ArrayData.from_values(unknown, plain)) / 3


@pytest.mark.statistical
def test_a_slope_that_is_well_determined_is_not_shrunk_with_others() -> None:
    """Of ``y ~ x*race``; one factor for all coefficients, the control, takes it along."""
    made = schema_of(REPLACE, 3_000)
    statistic, wider, view = asked("y ~ x*race", made)
    drawn: Any = calibrate(statistic, wider, ONE, mechanism="functional").draw
    noise, errors = coordinate_noise(drawn.noise), []
    for turn in range(30):
        rare = np.random.default_rng(turn).choice(list("abcdef"), 3_000, p=SHARES)
        rows = {**sample(3_000, seed=turn), "race": rare.tolist()}
        data = view.over(ArrayData.from_values(made, rows))
        sanitized = drawn.moments.equations(drawn.coordinates(data, seeded_randomness(turn)))
        exact = drawn.moments.equations([Fraction(each) for each in drawn.moments.total(data)])
        (xx, xy), true = (
            each.matrices(np.array([[float(jet.value) for jet in each.jets()]]))
            for each in (sanitized, exact)
        )
        edge, root, spread = sanitized.noise_edge(noise), sanitized.root, sanitized.spread(noise)
        theta, truth = solve(xx, xy, drawn.rule, edge, root)[0], solve(*true, drawn.rule, 0.0)[0]
        kept = shrunk(theta, xx[0], drawn.rule, edge=edge, spread=spread, root=root)
        square = np.sum((np.linalg.inv(xx[0]) @ spread) ** 2)
        alike = theta * max(0.0, 1 - 1.5 * square / np.sum(theta**2))
        errors.append([each[1] - truth[1] for each in (kept, theta, alike)])
    own, unshrunk, control = np.sqrt(np.mean(np.square(errors), axis=0))
    assert own <= 1.05 * unshrunk
    assert control > 1.2 * unshrunk


def test_a_filter_a_group_and_a_weight_keep_the_cells() -> None:
    south = (Condition(column="area", op="==", value="south"),)
    for more in ({"where": south}, {"by": ("area",)}, {"weights": "w"}):
        plan = plan_of("y ~ x*race", REPLACE, 400, **more)
        assert plan.details["sanitized_moments"] == 30
        data = ArrayData.from_values(schema_of(REPLACE, 400), sample(400))
        outcome = plan.draw(data, seeded_randomness(1))
        assert outcome.noise is not None


def test_many_rows_by_cells_are_chosen() -> None:
    chosen = calibrate(LinearRegression(formula="y ~ race"), schema_of(REPLACE, 30_000), ONE)
    assert chosen.mechanism == "functional"
    few = calibrate(LinearRegression(formula="y ~ x*race"), schema_of(REPLACE, 300), ONE)
    assert few.mechanism == "objective_perturbation"


def test_moments_are_drawn_with_the_noise_of_cells() -> None:
    statistic, wider, _ = asked("y ~ x*race", schema_of(ADD, 9))
    plan = calibrate(statistic, wider, ONE, mechanism="functional")
    assert isinstance(plan.draw, FunctionalDraw)
    assert isinstance(plan.draw.noise.ball, JoinedBall)
    assert plan.guarantee.sensitivity == "1"
    assert plan.details["cells_of"] == ["race"]


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_standard_errors_come_of_moments_by_cells(adjacency: Adjacency) -> None:
    """Of 36 moments, where all columns have 90 and more; at large epsilon those of a textbook."""
    made, values = schema_of(adjacency, 2_000), sample(2_000)
    plan = calibrate(
        LinearRegression(formula="y ~ x*race", bound=100),
        made,
        TOP,
        mechanism="functional",
        inference=Fraction(1, 4),
    )
    assert plan.details["sanitized_moments"] == 36
    outcome = plan.draw(ArrayData.from_values(made, values), seeded_randomness(4))
    assert outcome.inference is not None
    race, x = np.array(values["race"]), values["x"]
    flags = [(race == each).astype(float) for each in "bcdef"]
    design = np.column_stack([np.ones(2_000), x, *flags, *(flag * x for flag in flags)])
    theta, (rest,), *_ = np.linalg.lstsq(design, values["y"], rcond=None)
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * rest / (2_000 - 12))
    assert [term.std_error for term in outcome.inference.terms] == pytest.approx(errors, rel=0.1)
    assert [term.estimate for term in outcome.inference.terms] == pytest.approx(theta, abs=0.1)
    fit = {term.term: term.estimate for term in outcome.inference.fit}
    assert fit["residual_variance"] == pytest.approx(rest / (2_000 - 12), rel=0.05)


# Huber's loss by cells


def huber(formula: str, adjacency: Adjacency, rows: int, **more: Any) -> Any:
    """Return a question by Huber's loss, its wider schema, its view, and its cells."""
    made = schema_of(adjacency, rows)
    statistic, wider, view = asked(formula, made, loss="huber", **more)
    found = design_by_cells(statistic, wider)
    assert found is not None
    return statistic, wider, view, found


@in_one(
    ("formula", "blocks", "shared"),
    [
        ("y ~ x + race", (1,) * 6, 1),
        ("y ~ x*race", (2,) * 6, 0),
        ("y ~ x*race + z", (2,) * 6, 1),
        ("y ~ x*race*female", (2,) * 12, 0),
        ("y ~ race", (1,) * 6, 0),
        ("y ~ x:race", (2,) * 6, 0),
    ],
)
def test_effects_that_are_in_all_cells_alike_are_shared(
    formula: str, blocks: tuple[int, ...], shared: int
) -> None:
    *_, found = huber(formula, ADD, 9)
    assert (found.joined.blocks, found.joined.shared) == (blocks, shared)


@in_one("weights", [None, "w"])
@in_one("formula", ["y ~ x*race", "y ~ x + race + z", "y ~ x*female - 1", "y ~ race"])
def test_the_loss_by_cells_is_that_of_the_columns(formula: str, weights: str | None) -> None:
    """Its gradient and Hessian, against the design written out, with the ridge of F'theta."""
    statistic, wider, view, found = huber(formula, REPLACE, 200, weights=weights)
    values = sample(200)
    data = view.over(ArrayData.from_values(schema_of(REPLACE, 200), values))
    rho, cut = Fraction(7, 3), 0.25
    loss = huber_objective(statistic, Fraction(1, 4), wider, rho, data)
    scaling = statistic.row_scaling(wider)
    columns = design_of(formula, data, view, [*statistic.names, "y"])
    parts = zip(columns.T, (*scaling.features, scaling.target), strict=True)
    scaled = [(column - float(each.centre)) / float(each.width) for column, each in parts]
    x = np.column_stack([*([np.ones(200)] if scaling.intercept else []), *scaled[:-1]])
    shares = values["w"] / 4 if weights else np.ones(200)
    theta = [Fraction(place % 3 - 1, 5) for place in range(x.shape[1])]
    at = np.array([float(t) for t in theta])
    matrix = np.array(found.joined.matrix, dtype=float)
    ridge = float(rho) * matrix @ matrix.T
    t = x @ at - scaled[-1]
    gradient = (shares * np.clip(t, -cut, cut)) @ x + ridge @ at
    hessian = (x * (shares * (np.abs(t) < cut))[:, None]).T @ x + ridge
    hint, curved = loss.model(at)
    assert hint == pytest.approx(gradient, abs=1e-3)
    assert curved == pytest.approx(hessian, abs=1e-3)
    facts, exact_gradient = loss.certify(theta), loss.gradient(theta, 96)
    for ball, truth, near in zip(facts.gradient, exact_gradient, gradient, strict=True):
        assert ball.contains(truth)
        assert float(truth) == pytest.approx(near, abs=1e-3)
    assert 0 <= float(facts.curvature) <= np.linalg.eigvalsh(curved)[0] + 1e-9
    step = np.linspace(-1, 1, len(at)) / 9
    along = loss.slope_along(at, step)
    for share in (0.0, 0.7):
        assert along(share) == pytest.approx(loss.model(at + share * step)[0] @ step, abs=1e-9)


def blocks_of(found: Any, row: Mapping[str, Any], view: Any, psi: Fraction) -> list[Fraction]:
    """psi z of a record, from its codes."""
    read = found.reader("y", None)
    data = ArrayData.from_values(schema_of(ADD, 1), {name: [cell] for name, cell in row.items()})
    (block,) = view.over(data).blocks(read.columns)
    ((*z, _),) = next(iter(read(block))).tolist()
    return [psi * Fraction(entry) for entry in z]


@in_one("formula", ["y ~ x*race", "y ~ x + race", "y ~ x*female"])
@in_one("adjacency", [REPLACE, ADD])
def test_no_records_gradients_are_further_apart_than_stated(
    adjacency: Adjacency, formula: str
) -> None:
    """In ``sum_g ||u_g||`` by every norm, over all pairs of 54 records at both ends of psi."""
    statistic, _, view, found = huber(formula, adjacency, 1)
    k = Fraction(1, 4)
    loss = huber_loss_by_cells(found.joined, k, adjacency)
    each = [blocks_of(found, row, view, sign * k) for row in rows_of() for sign in (1, -1)]
    ends = list(itertools.pairwise(np.cumsum([0, *found.joined.every]).tolist()))
    size = {
        "linf": lambda u: max(map(abs, u)),
        "l1": lambda u: sum(map(abs, u)),
        "l2": lambda u: math.sqrt(sum(x * x for x in u)),
    }
    none = [Fraction(0)] * len(each[0])
    others = each[::7] if adjacency is REPLACE else [none]
    for norm in BALLS:
        stated = math.sqrt(loss.sensitivity_squared(norm))
        found_norms = [
            float(
                sum(
                    size[norm]([p - q for p, q in zip(one[a:b], two[a:b], strict=True)])
                    for a, b in ends
                )
            )
            for one in each
            for two in others
        ]
        assert 0.99 * stated <= max(found_norms) <= stated + 1e-12
    assert statistic.is_huber


@pytest.mark.parametrize("formula", ["y ~ x*race", "y ~ x + race", "y ~ x*race*female"])
def test_the_ridge_bounds_what_a_record_does_to_the_determinant(formula: str) -> None:
    """x'M^-1 x <= 1 + e at every corner of a cell; of half the ridge, the control, it is more."""
    *_, found = huber(formula, REPLACE, 9)
    matrix = np.array(found.joined.matrix, dtype=float)
    inverse = np.linalg.inv(matrix @ matrix.T + float(OWN_RIDGE) * np.eye(len(matrix)))
    eigenvalue = float(huber_loss_by_cells(found.joined, Fraction(1), REPLACE).eigenvalue)
    shared = matrix[:, len(matrix[0]) - found.joined.shared :]
    worst, start = 0.0, 0
    for size in found.joined.blocks:
        cell = np.hstack([matrix[:, start : start + size], shared])
        for corner in itertools.product((-1.0, 1.0), repeat=cell.shape[1] - 1):
            x = cell @ np.array([1.0, *corner])
            worst = max(worst, float(x @ inverse @ x))
        start += size
    assert worst <= eigenvalue
    assert 2 * worst > eigenvalue  # of half the ridge


@pytest.mark.statistical
def test_a_joined_tilt_is_a_sum_of_blocks() -> None:
    """Two blocks of one entry, added: two Laplace variables; and not at other rates."""
    joined, rate = Joined(((Fraction(1), Fraction(1)),), (1, 1)), Fraction(3)

    def at(factor: float) -> Law:
        # P(|V + W| <= t) = 1 - (1 + t / 2) exp(-t)
        return Law.continuous(lambda t: 1 - (1 + t * factor / 2) * np.exp(-t * factor))

    law, twins = at(3.0), [at(3 / 0.7), at(3 / 1.3)]
    points = np.linspace(0.01, 3, 300)
    needed = draws_needed(min(law.gap(twin, points) for twin in twins)) * 21 // 20
    randomness = seeded_randomness(5)
    draws = [
        abs(float(joined.vector(rate**2, randomness).enclose(60)[0].mid())) for _ in range(needed)
    ]
    check_draws(draws, law, twins=twins)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_at_large_epsilon_hubers_line_by_cells_is_the_same_line(adjacency: Adjacency) -> None:
    """With a threshold beyond all residuals it is least squares."""
    made, values = schema_of(adjacency, 600), sample(600)
    statistic = LinearRegression(formula="y ~ x*race", loss="huber", threshold=50, bound=100)
    plan = calibrate(statistic, made, TOP)
    assert plan.details["cells_of"] == ["race"]
    outcome = plan.draw(ArrayData.from_values(made, values), seeded_randomness(2))
    got = np.array(list(outcome.value["coefficients"].values()))  # type: ignore[attr-defined]
    assert got == pytest.approx(least_squares(values, by_race=True), abs=0.05)
