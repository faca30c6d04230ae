"""Linear regression by the exponential mechanism: its sensitivity, its law, its exact sampler."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CODE_MAX, SUM_MAX, NumberColumn, Schema
from mechanisms.exponential.linear import LinearDraw, loss_rate, loss_sensitivity, public_ridge
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.samplers import gaussian_ball
from mechanisms.samplers.affine.cube import decide, random_words, surviving
from mechanisms.samplers.gaussian_ball import GaussianBall, best_envelope
from mechanisms.sketches import ArrayData
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.testing import Law, check_draws, record_replay, seeded_randomness
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOUND = Fraction(3, 2)
CORNERS = list(itertools.product((-1, 0, 1), repeat=2))


def schema_for(adjacency: Adjacency, rows: int, features: int = 2) -> Schema:
    names = ["y", *(f"x{j}" for j in range(features))]
    columns = {name: NumberColumn(Fraction(-1), Fraction(1)) for name in names}
    return Schema(columns, adjacency, rows if adjacency is REPLACE else None, 10**6)


def data_of(schema: Schema, y: Sequence[float], x: NDArray[np.float64]) -> ArrayData:
    values = {"y": list(y)} | {f"x{j}": x[:, j].tolist() for j in range(x.shape[1])}
    return ArrayData.from_values(schema, values)


def question(features: int, *, bound: float = 1.5, intercept: bool = False) -> LinearRegression:
    names = tuple(f"x{j}" for j in range(features))
    return LinearRegression(target="y", features=names, bound=bound, intercept=intercept)


# 1. Sensitivity and closed form -------------------------------------------------------------


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_the_loss_moves_by_at_most_delta_and_one_way_under_add_remove(
    adjacency: Adjacency,
) -> None:
    schema = schema_for(adjacency, 4)
    thetas = [(BOUND, 0), (0, -BOUND), (BOUND / 2, BOUND / 2), (0, 0), (-BOUND, 0)]

    def losses(data: ArrayData) -> list[Fraction]:
        scaling = question(2).scaling(schema)
        columns = [
            [column.scale(int(code) * (SUM_MAX // CODE_MAX)) for code in data.codes[column.name]]
            for column in (scaling.target, *scaling.features)
        ]
        return [
            sum(((y - a * s - b * t) ** 2 for y, a, b in zip(*columns, strict=True)), Fraction(0))
            for s, t in thetas
        ]

    replay = record_replay(
        losses, schema=schema, norm=lambda change: max(abs(c) for c in change), rows=4
    )
    assert replay.largest <= loss_sensitivity(BOUND)
    assert replay.largest > 0.9 * loss_sensitivity(BOUND)
    if adjacency is ADD:
        one_way = record_replay(
            losses, schema=schema, norm=lambda c: Fraction(min(c) < 0 < max(c)), rows=4
        )
        assert one_way.largest == 0


def log_density(xs: Sequence[int], ys: Sequence[int], rate: float, ridge: float) -> NDArray:
    """Return the log density of one coefficient on a fine grid of [-1, 1]."""
    theta = np.linspace(-1, 1, 4001)
    loss = sum(((y - x * theta) ** 2 for x, y in zip(xs, ys, strict=True)), ridge / 2 * theta**2)
    weight = np.exp(-rate * (loss - loss.min()))
    return -rate * (loss - loss.min()) - math.log(weight.sum())


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_no_pair_of_neighbours_exceeds_epsilon(adjacency: Adjacency) -> None:
    epsilon = 2.0
    rate = float(loss_rate(Fraction(2), Fraction(1), adjacency))
    ridge = float(public_ridge(loss_rate(Fraction(2), Fraction(1), adjacency), Fraction(1), 1))

    def worst(factor: float) -> float:
        found = 0.0
        for common in itertools.combinations_with_replacement([(1, 1), (1, -1), (0, 1)], 2):
            changed = itertools.combinations(CORNERS, 2)
            pairs = (
                [([*common, a], [*common, b]) for a, b in changed]
                if adjacency is REPLACE
                else [([*common, a], list(common)) for a in CORNERS]
            )
            for first, second in pairs:
                sides = [
                    log_density(*zip(*side, strict=True), factor * rate, ridge)
                    for side in (first, second)
                ]
                found = max(found, float(np.abs(sides[0] - sides[1]).max()))
        return found

    assert 0.3 * epsilon < worst(1) <= epsilon
    assert worst(4) > epsilon


# 2. The sampler -----------------------------------------------------------------------------

Matrix = Sequence[Sequence[float]]

LAWS: dict[str, tuple[Matrix, Sequence[float]]] = {
    "inside": ([[40, 10], [10, 30]], [4, 2]),
    "face": ([[4, 1], [1, 3]], [9, 2]),
    "steep": ([[400, 398], [398, 400]], [500, 300]),
    "vertex": ([[4, 3.9], [3.9, 4]], [10, -30]),
    "wide and narrow": ([[4, 0], [0, 60]], [20, 3]),
    "wide": ([[4, 0], [0, 4]], [3, 0]),
}


def law_of(name: str) -> GaussianBall:
    matrix, vector = LAWS[name]
    return GaussianBall(
        matrix=tuple(tuple(Fraction(str(x)) for x in row) for row in matrix),
        vector=tuple(Fraction(str(x)) for x in vector),
        bound=Fraction(1),
    )


def projected(name: str, direction: Sequence[float], scale: float) -> Law:
    """Return the law of direction'theta from a fine grid, the exponent times ``scale``."""
    matrix, vector = (np.array(part, dtype=float) for part in LAWS[name])
    axis = np.linspace(-1, 1, 801)
    theta = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    theta = theta[np.abs(theta).sum(axis=1) <= 1 + 1e-12]
    energy = 0.5 * np.einsum("ij,jk,ik->i", theta, matrix, theta) - theta @ vector
    weights = np.exp(-scale * (energy - energy.min()))
    values = np.round(theta @ np.array(direction), 9)
    points, place = np.unique(values, return_inverse=True)
    mass = np.concatenate([[0.0], np.cumsum(np.bincount(place, weights)) / weights.sum()])
    edges = np.concatenate([points, [points[-1] + 1 / 400]]) - 1 / 800
    return Law.continuous(lambda x: np.interp(x, edges, mass))


@pytest.mark.statistical
@pytest.mark.usefixtures("draws_share")
@pytest.mark.parametrize("name", list(LAWS))
def test_draws_follow_the_truncated_gaussian(name: str) -> None:
    law, randomness = law_of(name), seeded_randomness(4)
    draws = (
        np.array([gaussian_ball.draw(law, randomness, step_exponent=-40) for _ in range(250)])
        * 2.0**-40
    )
    assert np.abs(draws).sum(axis=1).max() <= 1 + 2.0**-38
    for direction in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)):
        check_draws(draws @ np.array(direction), projected(name, direction, 1.0))


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.usefixtures("draws_share")
def test_draws_refuse_the_law_at_other_scales() -> None:
    law, randomness = law_of("vertex"), seeded_randomness(4)
    draws = [gaussian_ball.draw(law, randomness, step_exponent=-40) for _ in range(1800)]
    direction = (0.0, 1.0)
    twins = [projected("vertex", direction, scale) for scale in (0.6, 1.7)]
    values = np.array(draws)[:, 1] * 2.0**-40
    check_draws(values, projected("vertex", direction, 1.0), twins=twins)


@in_one("name", list(LAWS))
def test_the_screen_never_rejects_what_balls_would_keep(name: str) -> None:
    envelope, randomness = best_envelope(law_of(name)), seeded_randomness(9)
    words = random_words(randomness, 150, 1 + envelope.choices + envelope.uniforms)
    through = set(surviving(envelope, words).tolist())
    kept = {
        row
        for row in range(len(words))
        if decide(envelope, words[row].tolist(), randomness, -40) is not None
    }
    assert kept
    assert kept <= through


@pytest.mark.wide
def test_hard_problems_take_few_tries() -> None:
    """Twelve coefficients; identical or tiny columns; the centre far outside the ball."""
    generator, randomness = np.random.default_rng(3), seeded_randomness(2)
    single = generator.uniform(-1, 1, (50, 1))
    for x in (
        np.repeat(single, 12, axis=1),
        0.99 * single + 0.01 * generator.uniform(-1, 1, (50, 12)),
        generator.uniform(-1, 1, (50, 12)) * 10.0 ** -np.arange(12),
        generator.uniform(-1, 1, (7, 12)),
    ):
        for strength, pull in itertools.product((10.0, 1e4, 1e8), (0.5, 20.0)):
            matrix = strength * x.T @ x / len(x) + 144 * np.eye(12)
            vector = pull * strength * x.T @ np.sign(single[: len(x), 0]) / len(x)
            law = GaussianBall(
                matrix=tuple(tuple(Fraction(float(entry)) for entry in row) for row in matrix),
                vector=tuple(Fraction(float(entry)) for entry in vector),
                bound=Fraction(1),
            )
            envelope = best_envelope(law)
            words = random_words(randomness, 20_000, 1 + envelope.choices + envelope.uniforms)
            assert len(surviving(envelope, words)) > 10


# 3. Plans, references and edge cases --------------------------------------------------------


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_large_epsilon_and_many_rows_give_least_squares(adjacency: Adjacency) -> None:
    generator = np.random.default_rng(1)
    x = generator.uniform(-1, 1, (200_000, 2))
    y = np.clip(0.2 + x @ [0.4, -0.3] + generator.normal(0, 0.05, len(x)), -1, 1)
    schema = schema_for(adjacency, len(x))
    plan = calibrate(
        question(2, intercept=True), schema, Epsilon.parse("10000"), mechanism="exponential"
    )
    answer = plan.draw(data_of(schema, y.tolist(), x), seeded_randomness(1)).value["coefficients"]
    expected = np.linalg.lstsq(np.column_stack([np.ones(len(x)), x]), y, rcond=None)[0]
    assert list(answer.values()) == pytest.approx(expected.tolist(), abs=0.002)


@in_one("epsilon", ["1e-9", "1", "10000"])
@in_one("bound", [1e-6, 1.0, 1e6])
@in_one("rows", [0, 1, 40])
def test_degenerate_data_extreme_epsilons_and_bounds_work(
    epsilon: str, bound: float, rows: int
) -> None:
    schema = schema_for(ADD, rows, features=3)
    plan = calibrate(
        question(3, bound=bound, intercept=True),
        schema,
        Epsilon.parse(epsilon),
        mechanism="exponential",
    )
    data = data_of(schema, [1.0] * rows, np.ones((rows, 3)))
    answer = plan.draw(data, seeded_randomness(3)).value["coefficients"]
    assert sum(abs(value) for value in answer.values()) <= bound * (1 + 1e-9)


def test_the_plan_states_its_public_constants() -> None:
    for adjacency, factor in ((REPLACE, 2), (ADD, 1)):
        plan = calibrate(
            question(2, bound=10.0),
            schema_for(adjacency, 5),
            Epsilon.parse("1"),
            mechanism="exponential",
        )
        assert (plan.norm, plan.guarantee.sensitivity) == (None, "121")
        assert isinstance(plan.draw, LinearDraw)
        assert plan.draw.rate == Fraction(1, 121 * factor)
        assert plan.details["ridge"] == pytest.approx(4 * 121 * factor / 100)


def test_what_cannot_be_drawn_is_refused_by_public_rules() -> None:
    one = Epsilon.parse("1")
    with pytest.raises(InvalidStatisticError, match="at most 12"):
        calibrate(question(13), schema_for(ADD, 5, 13), one, mechanism="exponential")
    little = LinearRegression(target="y", features=("x0",), bound=1.0, ridge=0.5)
    with pytest.raises(InvalidStatisticError, match="ridge must be at least"):
        calibrate(little, schema_for(ADD, 5), one, mechanism="exponential")
    enough = LinearRegression(target="y", features=("x0",), bound=1.0, ridge=1e100)
    plan = calibrate(enough, schema_for(ADD, 5), one, mechanism="exponential")
    data = data_of(schema_for(ADD, 5), [1.0] * 3, np.ones((3, 2)))
    values = plan.draw(data, seeded_randomness(1)).value["coefficients"].values()
    assert max(abs(value) for value in values) < 1e-6
