"""The geometric median: exact law, true bounds, exact draws, sensitivity, reference."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.floats import working_precision
from mechanisms.objectives.geometric_median import MedianLaw
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.samplers.boxes import Box, Cover, Space
from mechanisms.sketches import ArrayData
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.testing import Law, check_draws, seeded_randomness
from tests.speed import slowness

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
RADIUS = 4
POINTS = [(-4, -2), (0, 0), (1, 3), (3, 3), (2, -1)]
GRID = list(itertools.product(range(-RADIUS, RADIUS + 1), repeat=2))
NUMBER = NumberColumn(Fraction(-1), Fraction(1))


def norm_at(points: Sequence[Sequence[int]], place: Sequence[int]) -> float:
    total = np.zeros(len(place))
    for point in points:
        away = np.array(place, dtype=float) - np.array(point, dtype=float)
        if away.any():
            total += away / np.linalg.norm(away)
    return float(np.linalg.norm(total))


def law_of(points: Sequence[Sequence[int]], rate: Fraction) -> MedianLaw:
    return MedianLaw(np.array(points, dtype=np.int64).reshape(-1, 2), rate=rate)


def test_values_in_floats_and_in_balls_are_the_definition() -> None:
    law = law_of(POINTS, Fraction(3, 2))
    for place in GRID:
        for bits in (128, 192):
            with working_precision(bits):
                ball = law.exponent(None, place, bits)
            assert float(ball) == pytest.approx(1.5 * norm_at(POINTS, place), abs=1e-12)
            assert float(ball.rad()) < 1e-12


@pytest.mark.parametrize("dimension", [1, 2, 3, 4])
def test_bounds_on_boxes_are_below_every_point(dimension: int) -> None:
    generator = np.random.default_rng(dimension)
    points = generator.integers(-500, 501, (30, dimension))
    law, randomness = MedianLaw(points, rate=Fraction(1)), seeded_randomness(1)
    space = Space.cubic(dimension, 500)
    informative = 0
    for _ in range(150):
        sides = tuple(int(k) for k in generator.integers(1, 60, dimension))
        box = Box(tuple(int(k) for k in generator.integers(-500, 440, dimension)), sides)
        half = np.array(sides) / 2
        bound = law.split(None, (np.array(box.lower) + half)[None, :], half).exponents[0]
        informative += bound > 0
        for _ in range(5):
            assert bound <= norm_at(points.tolist(), space.draw_point(box, randomness)) + 1e-12
    assert informative > 10


@pytest.mark.parametrize(("adjacency", "delta"), [(REPLACE, 2.0), (ADD, 1.0)])
def test_no_pair_of_neighbours_exceeds_epsilon_or_delta(adjacency: Adjacency, delta: float) -> None:
    epsilon, common = 2.0, [(0, 0), (1, 3)]
    others = [[point] for point in ((-4, -4), (4, 4), (0, 1), (0, 0))]
    largest, worst = 0.0, 0.0
    for one, two in itertools.product(others, [[]] if adjacency is ADD else others):
        norms = np.array([[norm_at([*common, *each], p) for p in GRID] for each in (one, two)])
        weights = -epsilon / (2 * delta) * norms
        log = weights - np.log(np.exp(weights).sum(axis=1, keepdims=True))
        largest = max(largest, float(np.abs(norms[0] - norms[1]).max()))
        worst = max(worst, float(np.abs(log[0] - log[1]).max()))
    assert 0.7 * delta < largest <= delta + 1e-12
    assert 0.3 * epsilon < worst <= epsilon


@pytest.mark.wide
@pytest.mark.statistical
def test_draws_follow_the_law_and_no_other() -> None:
    rate = Fraction(2)
    law = law_of(POINTS, rate)
    norms = {place: norm_at(POINTS, place) for place in GRID}
    order = {place: i for i, place in enumerate(sorted(norms, key=norms.__getitem__))}
    exact, *twins = (
        Law.discrete(list(order.values()), [np.exp(-scale * norms[p]) for p in order])
        for scale in (2.0, 1.4, 2.6)
    )
    randomness = seeded_randomness(2)
    covers = [Cover(law, Space.cubic(2, RADIUS)) for _ in range(40)]
    draws = [order[cover.draw(randomness)] for cover in covers for _ in range(120)]
    check_draws(draws, exact, twins=twins)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_large_epsilon_gives_weiszfeld_s_median(adjacency: Adjacency) -> None:
    generator = np.random.default_rng(4)
    values = {"x": generator.uniform(-1, 1, 60), "y": generator.uniform(-1, 0.2, 60)}
    points = np.column_stack(list(values.values()))
    median = points.mean(axis=0)
    for _ in range(2000):
        weights = 1 / np.linalg.norm(points - median, axis=1)
        median = weights @ points / weights.sum()
    schema = Schema(dict.fromkeys(values, NUMBER), adjacency, 60, 60)
    plan = calibrate(GeometricMedian(columns=("x", "y")), schema, Epsilon.parse("10000"))
    data = ArrayData.from_values(schema, {name: list(v) for name, v in values.items()})
    found = plan.draw(data, seeded_randomness(1)).value
    assert isinstance(found, dict)
    assert [found["x"], found["y"]] == pytest.approx(median, abs=1e-3)


def test_one_column_is_the_private_median_off_the_records() -> None:
    """KNG's rate on signs, eps / (2 Delta_2), is half the quantile's on counts, whose N is half."""
    records = [-3, 0, 2, 2, 4]
    law = MedianLaw(np.array(records, dtype=np.int64)[:, None], rate=Fraction(1, 4))
    for place in set(range(-RADIUS, RADIUS + 1)) - set(records):
        score = abs(Fraction(sum(r <= place for r in records)) - Fraction(len(records), 2))
        assert float(law.exponent(None, (place,), 128)) == pytest.approx(float(score / 2))


def test_refusals() -> None:
    columns = dict.fromkeys("abcde", NUMBER)
    schema = Schema(columns, REPLACE, 5)
    for asked in (("a",) * 2, tuple("abcde"), ("z",)):
        with pytest.raises(InvalidStatisticError):
            calibrate(GeometricMedian(columns=asked), schema, Epsilon.parse("1"))


@pytest.mark.wide
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "counts",
    [
        {(1, 0, 0, 0): 366, (0, 0, 1, 1): 448},
        {(1, 1, 0, 1): 59, (1, 1, 1, 1): 253, (0, 0, 0, 0): 124, (0, 0, 1, 1): 68},
    ],
)
def test_a_few_distinct_points_do_not_hold_a_draw_up(
    counts: dict[tuple[int, ...], int],
) -> None:
    """Between two heavy points unit vectors all but cancel, along all of the way."""
    rows = np.repeat(np.array(list(counts), dtype=float), list(counts.values()), axis=0)
    names = tuple(f"x{j}" for j in range(rows.shape[1]))
    schema = Schema(dict.fromkeys(names, NUMBER), REPLACE, len(rows))
    data = ArrayData.from_values(schema, {name: rows[:, j] for j, name in enumerate(names)})
    plan = calibrate(GeometricMedian(columns=names), schema, Epsilon.parse("5"), mechanism="kng")

    def taken_s(seed: int) -> float:
        start = time.process_time()
        plan.draw(data, seeded_randomness(seed))
        return time.process_time() - start

    assert any(taken_s(seed) < 5 * slowness() for seed in (1, 2))
