"""Additive statistics: right values, right sensitivities, closed to bad questions."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CODE_MAX, CategoryColumn, NumberColumn, Schema
from mechanisms.geometry.histograms import HistogramBall
from mechanisms.geometry.smooth import NoiseLaw
from mechanisms.knorm import IntegerNoise, draw_coordinates
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics.additive import (
    AdditiveStatistic,
    describe_noise,
    noise_describer,
)
from mechanisms.statistics.cells.axes import MAX_CELLS
from mechanisms.statistics.conditions import Condition, comparisons
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.count import Count
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.questions import check_asked
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance
from mechanisms.testing import record_replay, seeded_randomness
from tests.mechanisms.forms import form_of
from tests.scale.yardstick import slowness
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
COLUMNS = {
    "income": NumberColumn(Fraction(0), Fraction(5000)),
    "age": NumberColumn(Fraction("18.5"), Fraction(99)),
    "change": NumberColumn(Fraction("-0.3"), Fraction("0.9")),
    "owner": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "region": CategoryColumn(("north", "south", "west")),
}
RICH = Condition(column="income", op=">=", value=1000)
NORTH = Condition(column="region", op="in", value=("north", "west"))
OWNER = Condition(column="owner", op="==", value=True)
EDGES = (0.0, 1000.0, 2500.5, 5000.0)

EVERY: dict[str, AdditiveStatistic] = {
    "count": Count(),
    "count where": Count(where=(RICH, NORTH)),
    "histogram category": Histogram(columns=("region",)),
    "histogram number": Histogram(columns=("income",), edges={"income": EDGES}),
    "histogram boolean": Histogram(columns=("owner",)),
    "histogram two": Histogram(columns=("region", "income"), edges={"income": EDGES}),
    "histogram where": Histogram(columns=("region", "owner"), where=(RICH,)),
    "sum": Sum(columns=("income", "age", "owner")),
    "sum where": Sum(columns=("income", "age"), where=(OWNER,)),
    "sum where mixed": Sum(columns=("age", "change"), where=(OWNER,)),
    "sum where crossing": Sum(columns=("change",), where=(OWNER,)),
    "mean": Mean(columns=("income", "age")),
    "variance": Variance(columns=("income",)),
    "variances": Variance(columns=("income", "age")),
    "moments one": Moments(columns=("income",)),
    "moments": Moments(columns=("income", "age", "owner")),
    "covariance": Covariance(columns=("income", "age", "owner")),
    "correlation": Correlation(columns=("income", "age", "owner")),
    "mean where": Mean(columns=("income", "age"), where=(NORTH,)),
    "variance where": Variance(columns=("income",), where=(NORTH,)),
    "variances where": Variance(columns=("income", "age"), where=(NORTH,)),
    "moments one where": Moments(columns=("income",), where=(NORTH,)),
    "moments where": Moments(columns=("income", "age", "owner"), where=(NORTH,)),
    "covariance where": Covariance(columns=("income", "age", "owner"), where=(NORTH,)),
    "correlation where": Correlation(columns=("income", "age", "owner"), where=(NORTH,)),
}
CASES = [
    pytest.param(name, adjacency, id=f"{name}-{adjacency}")
    for name, adjacency in itertools.product(EVERY, (REPLACE, ADD))
    if not (name == "count" and adjacency is REPLACE)
]
ONE_ADJACENCY = [
    pytest.param(*case.values, id=case.id, marks=pytest.mark.wide if second else ())
    for case in CASES
    for second in [case.values[1] is ADD and case.values[0] != "count"]
]
"""The same; a name's second adjacency in wide tests."""
FILTERED = [name for name in EVERY if name.startswith(("count w", "histogram w", "sum w"))]
NORMS = ("l1", "l2", "linf", "optimal")


def schema(adjacency: Adjacency, rows: int = 4) -> Schema:
    return Schema(COLUMNS, adjacency, rows if adjacency is REPLACE else None, max_rows=1000)


def sample(rows: int, seed: int = 1) -> dict[str, list[object]]:
    generator = np.random.default_rng(seed)
    return {
        "income": list(generator.uniform(-100, 5500, rows)),
        "age": list(generator.integers(15, 100, rows).astype(float)),
        "change": list(generator.normal(0.2, 0.3, rows)),
        "owner": list(generator.integers(0, 2, rows).astype(float)),
        "region": [("north", "south", "west")[i] for i in generator.integers(0, 3, rows)],
    }


def clamped(values: Mapping[str, Sequence[object]], name: str) -> np.ndarray:
    column = COLUMNS[name]
    assert isinstance(column, NumberColumn)
    return np.clip(np.array(values[name], float), float(column.lower), float(column.upper))


def numbers(tree: object) -> Iterator[float]:
    if isinstance(tree, Mapping):
        for key, child in tree.items():
            if key != "cell":
                yield from numbers(child)
    elif isinstance(tree, list):
        for child in tree:
            yield from numbers(child)
    else:
        assert isinstance(tree, (int, float))
        yield tree


def size(difference: Sequence[int | Fraction], norm: str) -> Fraction:
    """The norm, squared for l2."""
    sizes = [abs(x) for x in difference]
    if norm == "l2":
        return Fraction(sum(x * x for x in sizes))
    return Fraction(max(sizes) if norm == "linf" else sum(sizes))


@cache
def adversarial(name: str, adjacency: Adjacency) -> list[list[int]]:
    """All differences between extreme single records, or one record and none."""
    form = form_of(EVERY[name], schema(adjacency))
    names = list(COLUMNS)
    codes: dict[str, list[int]] = {
        "income": [-CODE_MAX, -CODE_MAX // 4, -round(0.1464466 * CODE_MAX), CODE_MAX],
        "age": [-CODE_MAX, -CODE_MAX // 4, -round(0.1464466 * CODE_MAX), CODE_MAX],
        "change": [-CODE_MAX, 0, CODE_MAX],
        "owner": [-CODE_MAX, CODE_MAX],
        "region": [0, 1],
    }
    totals = []
    for record in itertools.product(*(codes[name] for name in names)):
        arrays = {n: np.array([c], dtype=np.int32) for n, c in zip(names, record, strict=True)}
        totals.append(form.total(ArrayData(columns=COLUMNS, codes=arrays)))
    empty = {name: np.zeros(0, dtype=np.int32) for name in names}
    nothing = form.total(ArrayData(columns=COLUMNS, codes=empty))
    distinct = [list(t) for t in dict.fromkeys(map(tuple, totals))]
    others = distinct if adjacency is REPLACE else [nothing]
    found = (
        tuple(a - b for a, b in zip(one, other, strict=True))
        for one, other in itertools.product(distinct, others)
    )
    return list(map(list, dict.fromkeys(found)))


# Sensitivity


@pytest.mark.parametrize(("name", "adjacency"), CASES)
def test_differences_stay_within_the_sensitivity_and_reach_it(
    name: str, adjacency: Adjacency
) -> None:
    """Exact integers; within 1% wherever the sensitivity is stated as exact.

    Random neighbours stay within the ball too, where there is one.
    """
    statistic = EVERY[name]
    form = form_of(statistic, schema(adjacency))
    differences = adversarial(name, adjacency)
    limits: dict[str, Fraction] = {}
    for norm in ("l1", "l2", "linf"):
        stated = form.space.squared(norm) * form.space.unit**2
        squares = [size(d, norm) ** (1 if norm == "l2" else 2) for d in differences]
        assert max(squares) <= stated
        if norm not in form.space.bounds_only:
            assert max(squares) >= Fraction(98, 100) * stated
        limits[norm] = stated

    ball, unit = form.space.norm_ball, form.space.unit

    def share_of_limits(d: Sequence[Fraction]) -> Fraction:
        if ball is not None and not ball.contains([int(x) for x in d], unit):
            return Fraction(2)
        return max(size(d, n) ** (1 if n == "l2" else 2) / limits[n] for n in limits)

    replay = record_replay(form.total, schema=schema(adjacency), norm=share_of_limits, trials=50)
    assert replay.largest <= 1


@pytest.mark.parametrize("name", ["histogram category", "histogram two", "histogram number"])
def test_histogram_differences_lie_in_their_hull(name: str) -> None:
    form = form_of(EVERY[name], schema(REPLACE))
    assert isinstance(form.space.norm_ball, HistogramBall)
    assert not form.space.norm_ball.filtered
    sizes = set()
    for difference in adversarial(name, REPLACE):
        assert sum(difference) == 0
        sizes.add(sum(map(abs, difference)))
    assert sizes == {0, 2}


HULLS = [
    case
    for case in CASES
    for name, adjacency in [case.values]
    if form_of(EVERY[name], schema(adjacency)).space.norm_ball is not None
]


@pytest.mark.parametrize(("name", "adjacency"), HULLS)
def test_differences_stay_within_the_ball_and_reach_it(name: str, adjacency: Adjacency) -> None:
    """Membership in exact integers of every difference found; 97% of the ball is too small."""
    form = form_of(EVERY[name], schema(adjacency))
    ball, unit = form.space.norm_ball, form.space.unit
    assert ball is not None
    differences = adversarial(name, adjacency)
    assert all(ball.contains(difference, unit) for difference in differences)
    assert not all(ball.contains(difference, unit * 97 // 100) for difference in differences)


CUBES = [
    ("sum", REPLACE),
    ("sum where crossing", REPLACE),
    ("sum where crossing", ADD),
    ("mean", REPLACE),
    ("mean", ADD),
    ("mean where", ADD),
]


def test_these_hulls_are_cubes() -> None:
    found = {
        tuple(case.values)
        for case in CASES
        if form_of(EVERY[case.values[0]], schema(case.values[1])).space.hull == "cube"
    }
    assert found == set(CUBES)


@in_one(("name", "adjacency"), CUBES)
def test_a_cube_hull_is_a_cube(name: str, adjacency: Adjacency) -> None:
    """Where the hull is called the cube, every corner is reached: negligible structure."""
    form = form_of(EVERY[name], schema(adjacency))
    side = int(form.space.linf * form.space.unit)
    reached = {tuple(d) for d in adversarial(name, adjacency)}
    reached |= {tuple(-x for x in d) for d in reached}
    for corner in itertools.product((-side, side), repeat=form.space.dimension):
        assert corner in reached


def test_weights_give_every_column_the_same_reach() -> None:
    """Many odd bounds: exact by the least common multiple, then capped, never below."""
    few = {f"c{i}": NumberColumn(Fraction(i + 1), Fraction(97 + 13 * i, 7)) for i in range(3)}
    many = {
        f"c{i}": NumberColumn(Fraction(i + 1, 7), Fraction(971 + 13 * i, 11)) for i in range(60)
    }
    for columns in (few, many):
        made = Schema(columns, ADD, None, max_rows=10)
        form = Sum(columns=tuple(columns)).additive(made)
        data = ArrayData(
            columns=columns, codes={n: np.array([CODE_MAX], dtype=np.int32) for n in columns}
        )
        total = form.total(data)
        assert form.space.unit.bit_length() <= 256
        assert all(t <= form.space.unit for t in total)
        assert all(t >= form.space.unit * (1 - Fraction(1, 2**100)) for t in total)
        answer = form.answer([Fraction(t) for t in total])
        assert isinstance(answer, dict)
        for name, column in columns.items():
            assert answer[name].value == column.upper


# Values


def reference(name: str, rows: int, values: Mapping[str, Sequence[object]]) -> list[float]:
    """The same numbers by numpy."""
    income, age = clamped(values, "income"), clamped(values, "age")
    change, owner = clamped(values, "change"), clamped(values, "owner")
    region = np.array(values["region"])
    cells = np.histogram(income, EDGES)[0]
    rich, west = income >= 1000, np.isin(region, ["north", "west"])
    regions = ("north", "south", "west")
    matrix = np.column_stack([income, age, owner])
    return {
        "count": [rows],
        "count where": [int((rich & west).sum())],
        "histogram category": [int((region == r).sum()) for r in regions],
        "histogram number": list(cells),
        "histogram boolean": [int((owner == v).sum()) for v in (0, 1)],
        "histogram two": [c for r in regions for c in np.histogram(income[region == r], EDGES)[0]],
        "histogram where": [
            int((rich & (region == r) & (owner == v)).sum()) for r in regions for v in (0, 1)
        ],
        "sum": [income.sum(), age.sum(), owner.sum()],
        "sum where": [income[owner == 1].sum(), age[owner == 1].sum()],
        "sum where mixed": [age[owner == 1].sum(), change[owner == 1].sum()],
        "sum where crossing": [change[owner == 1].sum()],
        "mean": [income.mean(), age.mean()],
        "variance": [income.var()],
        "variances": [income.var(), age.var()],
        "moments one": [income.mean(), (income**2).mean()],
        "moments": [*matrix.mean(axis=0), *(matrix.T @ matrix / rows).ravel()],
        "covariance": list(np.cov(matrix, rowvar=False, bias=True).ravel()),
        "correlation": list(np.corrcoef(matrix, rowvar=False).ravel()),
    }[name]


def met(values: Mapping[str, Sequence[object]], names: Sequence[str]) -> dict[str, list[object]]:
    """The records of these regions."""
    kept = [place for place, region in enumerate(values["region"]) if region in names]
    return {name: [column[place] for place in kept] for name, column in values.items()}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("name", "adjacency"), ONE_ADJACENCY)
def test_at_large_epsilon_numbers_are_numpy_s(name: str, adjacency: Adjacency, norm: str) -> None:
    rows = 300
    made, values = schema(adjacency, rows), sample(rows)
    data = ArrayData.from_values(made, values)
    try:
        plan = calibrate(EVERY[name], made, Epsilon.parse("10000"), norm=norm)
    except InvalidStatisticError:
        assert norm == "optimal"  # what is not on offer is tested below
        return
    outcome = plan.draw(data, seeded_randomness(3))
    assert outcome.noise is not None
    got, std = list(numbers(outcome.value)), list(numbers(outcome.noise.std))
    asked = name if name in FILTERED else name.removesuffix(" where")
    if asked != name:
        values = met(values, ("north", "west"))
        rows = len(values["region"])
    if asked.startswith("moments") and (adjacency is ADD or asked != name):
        assert got.pop(0) == pytest.approx(rows, abs=0.1)
        std.pop(0)
    expected = reference(asked, rows, values)
    assert len(got) == len(expected) == len(std)
    for value, exact, spread in zip(got, expected, std, strict=True):
        assert value == pytest.approx(exact, rel=3e-5, abs=12 * spread + 1e-6)


@pytest.mark.parametrize("norm", ["auto", *NORMS])
@pytest.mark.parametrize(("name", "adjacency"), ONE_ADJACENCY)
def test_every_release_has_its_usual_shape(name: str, adjacency: Adjacency, norm: str) -> None:
    """No rows (add-remove), one row, a constant column, ties: finite JSON of one shape."""
    statistic = EVERY[name]
    shapes = set()
    sizes = (0, 1, 4) if adjacency is ADD else (1, 4)
    for epsilon, rows in itertools.product(("0.000000001", "1", "10000"), sizes):
        made = schema(adjacency, rows)
        constant = {
            "income": [5000.0] * rows,
            "age": [18.5] * rows,
            "change": [0.3] * rows,
            "owner": [1.0] * rows,
            "region": ["west"] * rows,
        }
        try:
            plan = calibrate(statistic, made, Epsilon.parse(epsilon), norm=norm)
        except InvalidStatisticError:
            assert norm == "optimal"
            return
        outcome = plan.draw(ArrayData.from_values(made, constant), system_randomness())
        assert outcome.noise is not None
        text = json.dumps(
            [outcome.value, outcome.noise.std, outcome.noise.interval_95], allow_nan=False
        )
        shapes.add(len(list(numbers(json.loads(text)[0]))))
        spreads = list(numbers(outcome.noise.std))
        ends = list(numbers(outcome.noise.interval_95))
        assert len(ends) == 2 * len(spreads)
        assert all(low <= high for low, high in zip(ends[::2], ends[1::2], strict=True))
        json.dumps([plan.grid, plan.details, plan.reason], allow_nan=False)
        preview = plan.preview(rows)
        assert preview is not None
        assert len(list(numbers(preview.std))) == len(spreads)
    assert len(shapes) == 1


def test_post_processing_is_clamped() -> None:
    made = schema(ADD)
    data = ArrayData.from_values(made, sample(2))
    for seed in range(30):
        randomness = seeded_randomness(seed)
        means = calibrate(Mean(columns=("income", "age")), made, Epsilon.parse("0.01"))
        for name, value in means.draw(data, randomness).value.items():
            column = COLUMNS[name]
            assert isinstance(column, NumberColumn)
            assert float(column.lower) <= value <= float(column.upper)  # type: ignore[operator]
        spreads = calibrate(Variance(columns=("income",)), made, Epsilon.parse("0.01"))
        (variance,) = spreads.draw(data, randomness).value.values()
        assert 0 <= variance <= 2500**2  # type: ignore[operator]


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_second_moments_are_clamped_whatever_the_noise(adjacency: Adjacency) -> None:
    """Noise that swamps the data, columns that do not vary: entries stay where they can be."""
    names = ("income", "change", "owner")
    made = schema(adjacency, 3)
    values = {**sample(3), "owner": [1.0] * 3}
    data = ArrayData.from_values(made, values)
    widths = [COLUMNS[name].half_width for name in names]  # type: ignore[union-attr]
    for seed, epsilon in itertools.product(range(10), ("0.000000001", "0.1", "10")):
        for statistic in (Covariance(columns=names), Correlation(columns=names)):
            plan = calibrate(statistic, made, Epsilon.parse(epsilon))
            outcome = plan.draw(data, seeded_randomness(seed))
            assert outcome.noise is not None
            matrix = np.array(outcome.value["matrix"])
            assert np.array_equal(matrix, matrix.T)
            limit = np.ones((3, 3))
            if statistic.kind == "covariance":
                limit = np.outer(*[np.array(widths, float)] * 2)
                assert (np.diag(matrix) >= 0).all()
            else:
                assert (np.diag(matrix) == 1).all()
                assert (np.diag(np.array(outcome.noise.std["matrix"])) == 0).all()
            assert (np.abs(matrix) <= limit).all()
            assert (np.array(outcome.noise.std["matrix"]) <= limit).all()


def test_a_correlation_without_variance_is_zero_and_unknown() -> None:
    """Two constant columns: no noisy vector makes anything of them that is stated as known."""
    form = Correlation(columns=("income", "age")).additive(schema(REPLACE, 5))
    answer = form.answer([Fraction(0)] * form.space.dimension)
    assert render_numbers(answer)[0] == [[1.0, 0.0], [0.0, 1.0]]
    # squares below those of the means: both noisy variances are negative
    low = [Fraction(2**40)] * 2 + [-Fraction(2**42)] * 3
    matrix, widths = render_numbers(form.answer(low))
    assert matrix == [[1.0, 0.0], [0.0, 1.0]]
    assert widths[0][1] > 1e5


def render_numbers(tree: object) -> tuple[list[list[float]], list[list[float]]]:
    """The matrix of an answer, and the sum of each entry's slopes in units of UNIT."""
    assert isinstance(tree, dict)
    matrix = [[float(leaf.value) for leaf in row] for row in tree["matrix"]]
    slopes = [
        [sum(abs(float(s)) for s in leaf.slopes.values()) * 2**40 for leaf in row]
        for row in tree["matrix"]
    ]
    return matrix, slopes


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_the_noise_of_a_covariance_and_a_correlation_is_as_described(adjacency: Adjacency) -> None:
    """Where the noise is small beside the variances, first order is the whole of it."""
    rows, names = 4000, ("income", "age")
    made, values = schema(adjacency, rows), sample(rows)
    pairs = zip(values["income"], values["age"], strict=True)
    values["age"] = [income / 100 + age / 2 for income, age in pairs]  # type: ignore[operator]
    data = ArrayData.from_values(made, values)
    for statistic in (Covariance(columns=names), Correlation(columns=names)):
        plan = calibrate(statistic, made, Epsilon.parse("1"), norm="linf")
        randomness = seeded_randomness(11)
        draws = [plan.draw(data, randomness) for _ in range(600)]
        got = np.array([d.value["matrix"][0][1] for d in draws])  # type: ignore[index]
        std = np.array([d.noise.std["matrix"][0][1] for d in draws])  # type: ignore[index, union-attr]
        ends = np.array([d.noise.interval_95["matrix"][0][1] for d in draws])  # type: ignore[index, union-attr]
        exact = plan_value(statistic, made, data)
        assert got.std() == pytest.approx(std.mean(), rel=0.2)
        assert ((ends[:, 0] <= exact) & (exact <= ends[:, 1])).mean() > 0.9


def plan_value(statistic: AdditiveStatistic, made: Schema, data: ArrayData) -> float:
    form = form_of(statistic, made)
    tree = form.answer([Fraction(t) for t in form.total(data)])
    return render_numbers(tree)[0][0][1]


def test_histogram_labels_and_order() -> None:
    made = schema(ADD, 3)
    statistic = Histogram(columns=("region", "income", "owner"), edges={"income": (0, 0.5, 5000)})
    plan = calibrate(statistic, made, Epsilon.parse("1"))
    value = plan.draw(ArrayData.from_values(made, sample(3)), seeded_randomness(1)).value
    cells = [cell["cell"] for cell in value["cells"]]  # type: ignore[index, attr-defined]
    assert cells[0] == {"region": "north", "income": "[0,0.5)", "owner": "false"}
    assert cells[1] == {"region": "north", "income": "[0,0.5)", "owner": "true"}
    assert cells[-1] == {"region": "west", "income": "[0.5,5000]", "owner": "true"}
    assert len(cells) == 12


def test_cells_are_half_open_and_what_is_outside_has_cells_of_its_own() -> None:
    made = schema(REPLACE, 7)
    values = sample(7)
    values["income"] = [-50.0, 0.0, 999.9, 1000.0, 2500.5, 5000.0, 9000.0]
    inner = Histogram(columns=("income",), edges={"income": (1000, 2500.5, 4000)})
    form = inner.additive(made)
    assert form.total(ArrayData.from_values(made, values)) == [3, 1, 1, 2]
    assert [axis.labels for axis in inner.axes(made)] == [
        ("< 1000", "[1000,2500.5)", "[2500.5,4000)", ">= 4000")
    ]
    wide = Histogram(columns=("income",), edges={"income": EDGES}).additive(made)
    assert wide.total(ArrayData.from_values(made, values)) == [3, 1, 3]


def test_histogram_under_replace_one_keeps_the_public_total() -> None:
    made = schema(REPLACE, 50)
    plan = calibrate(EVERY["histogram two"], made, Epsilon.parse("0.1"))
    assert plan.norm == "optimal"
    outcome = plan.draw(ArrayData.from_values(made, sample(50)), system_randomness())
    assert sum(numbers(outcome.value)) == 50
    assert all(isinstance(count, int) for count in numbers(outcome.value))


# Privacy of the row count


@in_one("name", list(EVERY))
def test_add_remove_plans_and_noise_never_see_the_row_count(name: str) -> None:
    """The noise drawn from one seed is the same vector whatever the data."""
    statistic, made = EVERY[name], schema(ADD)
    form = form_of(statistic, made)
    plan = calibrate(statistic, made, Epsilon.parse("0.7"))
    noises = []
    ball = form.space.optimal_ball if plan.norm == "optimal" else plan.norm
    noise = IntegerNoise.calibrated(form.space, ball, Fraction(7, 10))  # type: ignore[arg-type]
    for rows in (0, 1, 400):
        data = ArrayData.from_values(made, sample(rows))
        coordinates = draw_coordinates(form, noise, data, seeded_randomness(5))
        noises.append([a - b for a, b in zip(coordinates, form.total(data), strict=True)])
    assert noises[0] == noises[1] == noises[2]


# Conditions


@in_one(
    ("op", "value", "expected"),
    [
        ("==", 1000, 1),
        ("!=", 1000, 4),
        ("<", 1000, 2),
        ("<=", 1000.0, 3),
        (">", 1000, 2),
        (">=", 1000, 3),
        ("in", (0, 5000), 2),
    ],
)
def test_number_conditions(op: str, value: object, expected: int) -> None:
    made = schema(ADD)
    values = sample(5)
    values["income"] = [0.0, 500.0, 1000.0, 1000.01, 8000.0]
    condition = Condition(column="income", op=op, value=value)  # type: ignore[arg-type]
    form = form_of(Count(where=(condition,)), made)
    assert form.total(ArrayData.from_values(made, values)) == [expected]


def test_category_and_boolean_conditions() -> None:
    made = schema(ADD)
    values = sample(4)
    values["region"] = ["north", "south", "south", "west"]
    values["owner"] = [1.0, 0.0, 1.0, 0.0]
    data = ArrayData.from_values(made, values)
    for where, expected in (
        ((Condition(column="region", op="==", value="south"),), 2),
        ((Condition(column="region", op="!=", value="south"),), 2),
        ((NORTH,), 2),
        ((OWNER,), 2),
        ((Condition(column="owner", op="!=", value=True), NORTH), 1),
        ((Condition(column="owner", op="in", value=(True, False)),), 4),
    ):
        assert form_of(Count(where=where), made).total(data) == [expected]


def test_conditions_take_bounds_written_as_decimals() -> None:
    """0.9 as a float lies above 9/10; it was written as 0.9, so it is in the bounds."""
    for value in (0.9, -0.3):
        asked = Count(where=(Condition(column="change", op="<=", value=value),))
        check_asked(asked, schema(ADD))
    Histogram(columns=("change",), edges={"change": (-0.3, 0.1, 0.9)}).check(schema(ADD))


@in_one(
    "statistic",
    [
        Count(where=(Condition(column="nobody", op="==", value=1),)),
        Count(where=(Condition(column="income", op="<", value=math.nan),)),
        Count(where=(Condition(column="income", op="<", value=math.inf),)),
        Count(where=(Condition(column="income", op="<", value=10**5000),)),
        Count(where=(Condition(column="income", op="<", value=-1),)),
        Count(where=(Condition(column="income", op="<", value="many"),)),
        Count(where=(Condition(column="income", op="<", value=True),)),
        Count(where=(Condition(column="income", op="<", value=(1, 2)),)),
        Count(where=(Condition(column="income", op="in", value=1),)),
        Count(where=(Condition(column="income", op="in", value=()),)),
        Count(where=(Condition(column="income", op="~", value=1),)),  # type: ignore[arg-type]
        Count(where=(Condition(column="region", op="<", value="south"),)),
        Count(where=(Condition(column="region", op="==", value="upland"),)),
        Count(where=(Condition(column="region", op="==", value=1),)),
        Count(where=(Condition(column="owner", op=">", value=False),)),
        Count(where=(Condition(column="owner", op="==", value="yes"),)),
        Count(where=(RICH,) * 21),
        Sum(columns=()),
        Sum(columns=("income", "income")),
        Sum(columns=("region",)),
        Sum(columns=("nobody",)),
        Mean(columns=()),
        Mean(columns=("region",)),
        Variance(columns=("income", "region")),
        Variance(columns=("nobody",)),
        Moments(columns=()),
        Covariance(columns=("income", "region")),
        Correlation(columns=()),
        Histogram(columns=()),
        Histogram(columns=("region", "region")),
        Histogram(columns=("income",)),
        Histogram(columns=("region",), edges={"region": (0, 1)}),
        Histogram(columns=("region",), edges={"income": (0, 1)}),
        Histogram(columns=("owner",), edges={"owner": (0, 1)}),
        Histogram(columns=("income",), edges={"income": (0,)}),
        Histogram(columns=("income",), edges={"income": (0, 5000)}),
        Histogram(columns=("income",), edges={"income": (0, 10, 10)}),
        Histogram(columns=("income",), edges={"income": (0, 10, 5)}),
        Histogram(columns=("income",), edges={"income": (0, math.nan, 5)}),
        Histogram(columns=("income",), edges={"income": (-1, 10, 20)}),
        Histogram(columns=("income",), edges={"income": (0, 10, math.inf)}),
        Histogram(
            columns=("income", "age"),
            edges={
                "income": tuple(float(x) for x in range(MAX_CELLS // 3)),
                "age": (20, 30, 40, 50, 60),
            },
        ),
    ],
)
def test_bad_questions_are_refused_without_echo(statistic: AdditiveStatistic) -> None:
    for adjacency in (REPLACE, ADD):
        with pytest.raises(InvalidStatisticError) as refusal:
            calibrate(statistic, schema(adjacency), Epsilon.parse("1"))
        for word in ("nobody", "many", "upland", "yes", "nan", "999"):
            assert word not in refusal.value.detail


def test_row_counts_that_are_public_or_zero_are_refused() -> None:
    with pytest.raises(InvalidStatisticError, match="public under replace_one"):
        calibrate(Count(), schema(REPLACE), Epsilon.parse("1"))
    for statistic in (EVERY["sum"], EVERY["mean"], EVERY["variance"], EVERY["moments"]):
        with pytest.raises(InvalidStatisticError, match="no rows"):
            calibrate(statistic, schema(REPLACE, 0), Epsilon.parse("1"))


def test_too_many_columns_are_refused() -> None:
    columns = {f"c{i}": NumberColumn(Fraction(0), Fraction(1)) for i in range(1001)}
    made = Schema(columns, ADD, None, max_rows=5)
    for statistic in (Moments(columns=tuple(columns)[:65]), Variance(columns=tuple(columns))):
        with pytest.raises(InvalidStatisticError, match="at most"):
            statistic.check(made)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("epsilon", ["0.000000001", "10000"])
def test_extreme_bounds_overflow_nothing(adjacency: Adjacency, epsilon: str) -> None:
    """Bounds up to 1e100 in magnitude, widths down to 1e-100: finite numbers everywhere."""
    tiny = Fraction(1, 10**100)
    columns = {
        "huge": NumberColumn(Fraction(-(10**100)), Fraction(10**100)),
        "narrow": NumberColumn(Fraction(10**100) - tiny, Fraction(10**100)),
        "small": NumberColumn(Fraction(0), tiny),
    }
    made = Schema(columns, adjacency, 2 if adjacency is REPLACE else None, max_rows=10)
    data = ArrayData(
        columns=columns, codes={name: np.array([CODE_MAX, 5], dtype=np.int32) for name in columns}
    )
    where = (Condition(column="small", op=">=", value=0),)
    for statistic in (
        Sum(columns=tuple(columns)),
        Sum(columns=tuple(columns), where=where),
        Sum(columns=("narrow",), where=where),
        Mean(columns=tuple(columns)),
        Variance(columns=tuple(columns)),
        Moments(columns=tuple(columns)),
        Covariance(columns=tuple(columns)),
        Correlation(columns=tuple(columns)),
    ):
        for norm in ("l1", "l2", "linf"):
            plan = calibrate(statistic, made, Epsilon.parse(epsilon), norm=norm)
            outcome = plan.draw(data, system_randomness())
            assert outcome.noise is not None
            shown = [outcome.value, outcome.noise.std, plan.grid, plan.details]
            json.dumps([*shown, outcome.noise.interval_95], allow_nan=False)
            json.dumps([[row.std, row.comparison] for row in plan.alternatives], allow_nan=False)


@pytest.mark.wide
def test_many_columns_at_once() -> None:
    """The largest moments question draws in bounded time, in every norm."""
    columns = {f"c{i}": NumberColumn(Fraction(0), Fraction(1)) for i in range(64)}
    made = Schema(columns, REPLACE, 3)
    data = ArrayData(columns=columns, codes={name: np.zeros(3, dtype=np.int32) for name in columns})
    for norm in ("l1", "l2", "linf"):
        plan = calibrate(Moments(columns=tuple(columns)), made, Epsilon.parse("1"), norm=norm)
        assert len(plan.draw(data, system_randomness()).value["second"]) == 64  # type: ignore[arg-type]


@in_one(("name", "adjacency"), [case.values for case in CASES])
def test_one_answer_tells_the_noise_of_every_linear_one(name: str, adjacency: Adjacency) -> None:
    form = form_of(EVERY[name], schema(adjacency))
    size = form.space.dimension
    laws, unit = [NoiseLaw(1.0 + at, 2.5 + at, 0.8 + at) for at in range(size)], Fraction(3, 4)

    def apart(_one: int, _other: int) -> float:
        return 0.0

    once = noise_describer(form.answer([Fraction(0)] * size), laws, unit, correlation=apart)
    generator = np.random.default_rng(5)
    same = True
    for _ in range(5):
        drawn = [Fraction(int(each) << 40, 8) for each in generator.integers(-(2**30), 2**30, size)]
        tree = form.answer(drawn)
        same = same and once(tree) == describe_noise(tree, laws, unit, centred=True)
    assert same == form.linear
    assert form.linear == (
        name.startswith(("count", "histogram", "sum"))
        or (adjacency is REPLACE and name in ("mean", "moments one", "moments"))
    )


def test_long_lists_of_a_long_category_are_looked_up_and_not_searched_for() -> None:
    column = CategoryColumn(values=tuple(f"value {number:05}" for number in range(10_000)))
    schema = Schema(columns={"c": column}, adjacency=Adjacency.REPLACE_ONE, rows=1)
    last = column.values[-1_000:]
    where = (Condition(column="c", op="in", value=last),) * 20
    started = time.process_time()
    comparisons(where, schema)
    assert time.process_time() - started < 0.5 * slowness()
    assert where[0].numbers(schema) == tuple(range(9_000, 10_000))
