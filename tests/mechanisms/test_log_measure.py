"""Quantiles under the base measure ``log``: candidates, masses, the public choice, laws, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Plan
from mechanisms.domain import CategoryColumn, NumberColumn, Schema, Typical
from mechanisms.grids import LogGrid, first_step, log_grid
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import Randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.interquartile_range import InterquartileRange
from mechanisms.statistics.quantile import Quantile, scale_of
from mechanisms.statistics.ranks.draw import Candidates
from mechanisms.testing import Law, check_draws, draws_to_refuse, seeded_randomness
from tests.tiers import in_one

F = Fraction
REPLACE = Adjacency.REPLACE_ONE
LATE, EARLY, BOTH = [F(9, 10)], [F(1, 10)], [F(1, 10), F(9, 10)]


def whole(lower: int, upper: int) -> NumberColumn:
    return NumberColumn(F(lower), F(upper), kind="integer")


def number(lower: int, upper: int, *typical: int) -> NumberColumn:
    stated = Typical(F(typical[0]), F(typical[1])) if typical else None
    return NumberColumn(F(lower), F(upper), typical=stated)


COLUMNS = [
    whole(0, 10**7),
    whole(-(10**6), 10**9),
    whole(0, 2**63 - 1),
    whole(3, 20),
    number(0, 10**9),
    number(-(10**9), 10**9),
    number(0, 10**9, 30, 20),
    number(10**6, 12 * 10**5),
    number(-10, -1),
    number(-(10**100), 10**100, 0, 1),
    NumberColumn(F(1, 10), F(7, 10)),
]


def grid_of(column: NumberColumn) -> tuple[LogGrid, Fraction]:
    scale = scale_of(column, "log", LATE)
    assert scale is not None
    return log_grid(column.lower, column.upper, column.whole, scale), scale


# Candidates and masses


@in_one("column", COLUMNS)
def test_candidates_are_fine_in_relative_terms(column: NumberColumn) -> None:
    grid, scale = grid_of(column)
    values = grid.values.tolist()
    assert values[0] == (int if column.whole else float)(column.lower)
    assert values[-1] == (int if column.whole else float)(column.upper)
    gaps = np.array([float(after - before) for before, after in pairwise(values)])
    assert (gaps > 0).all()
    sizes = np.maximum(np.abs(grid.values.astype(float)), float(scale))
    near = np.maximum(sizes[:-1], sizes[1:])
    allowed = np.maximum(near / 8000, 1.0 if column.whole else 0.0)
    assert (gaps <= allowed * (1 + 1e-9)).all()
    assert len(values) < 1 << 21


@in_one("column", COLUMNS)
def test_masses_are_differences_of_asinh(column: NumberColumn) -> None:
    grid, scale = grid_of(column)
    masses = np.diff(grid.places)
    assert (masses >= 1).all()
    curve = np.arcsinh(grid.values.astype(float) / float(scale))
    for first, last in ((0.0, 0.3), (0.3, 0.8), (0.8, 1.0)):
        low, high = (int(share * (len(masses) - 1)) for share in (first, last))
        stated = (curve[high] - curve[low]) / (curve[-1] - curve[0])
        if column.upper - column.lower > 100:  # the last whole number has a mass of its own
            assert masses[low:high].sum() / masses.sum() == pytest.approx(stated, rel=0.05)


def test_round_numbers_are_candidates() -> None:
    values = set(grid_of(whole(0, 10**9))[0].values.tolist())
    assert {k * 10**e for k in range(1000, 10_000) for e in range(5)} <= values
    assert set(range(20_000)) <= values


def test_a_record_lies_at_the_largest_candidate_that_is_not_above_it() -> None:
    grid, _ = grid_of(whole(-(10**6), 10**9))
    rows = np.array([-(10**6), -999_999, -1, 0, 1, 60_000, 123_456_789, 10**9], dtype=np.int32)
    found = grid.values[grid.at(rows)]
    assert found.tolist() == [-(10**6), -(10**6), -1, 0, 1, 60_000, 123_450_000, 10**9]


def test_the_first_step_is_the_least() -> None:
    for column in (whole(0, 10**7), number(0, 10**9), number(0, 10**9, 30, 20)):
        grid, scale = grid_of(column)
        assert np.diff(grid.values).min() == pytest.approx(
            float(first_step(scale, whole=column.whole))
        )


# The public choice


@in_one(
    ("column", "levels", "scale"),
    [
        (whole(0, 100), LATE, None),
        (whole(0, 10**7), LATE, F(1)),
        (whole(0, 10**7), [F(1, 2)], F(1)),
        (whole(0, 10**7), BOTH, F(1)),
        (whole(0, 10**7), EARLY, None),  # the lower bound is where values are
        (number(-(10**7), 10**7), EARLY, F(10)),
        (number(0, 10**5), LATE, None),
        (number(0, 10**9), LATE, F(500)),
        (number(10**6, 12 * 10**5), LATE, None),
        (number(0, 500_000, 207_000, 115_000), LATE, None),
        (number(0, 10**7, 40_000, 30_000), LATE, F(30_000)),
        (number(0, 1000, 3, 2), LATE, F(2)),
        (number(0, 10**7, 5 * 10**6, 10**4), LATE, None),  # far from 0 log has no more mass there
        (NumberColumn(F(0), F(10**9), kind="datetime"), LATE, None),
        (NumberColumn(F(0), F(1), boolean=True), LATE, None),
    ],
)
def test_auto_takes_log_where_bounds_are_far_wider_than_values(
    column: NumberColumn, levels: Sequence[Fraction], scale: Fraction | None
) -> None:
    assert scale_of(column, "auto", levels) == scale
    assert scale_of(column, "uniform", levels) is None


@pytest.mark.parametrize("kind", ["quantile", "interquartile_range"])
@pytest.mark.parametrize(
    "column",
    [NumberColumn(F(0), F(1), boolean=True), NumberColumn(F(0), F(9), kind="date")],
    ids=str,
)
def test_log_is_refused_where_there_is_no_size(kind: str, column: NumberColumn) -> None:
    asked: Any = (
        Quantile(column="x", levels=(0.5,), base_measure="log")
        if kind == "quantile"
        else InterquartileRange(column="x", base_measure="log")
    )
    with pytest.raises(InvalidStatisticError, match="ask for auto or uniform"):
        asked.check(Schema({"x": column}, REPLACE, 5))


# Laws


def planned(column: NumberColumn, rows: int, epsilon: str, **asked: Any) -> Plan:
    schema = Schema({"x": column, "g": CategoryColumn(("a", "b"))}, REPLACE, rows)
    norm, mechanism = asked.pop("norm", "auto"), asked.pop("mechanism", "auto")
    question = Quantile(**{"column": "x", "levels": (0.5,), **asked})
    return calibrate(question, schema, Epsilon.parse(epsilon), mechanism=mechanism, norm=norm)


def drawn(plan: Plan, data: ArrayData, randomness: Randomness) -> list[float]:
    value: Any = plan.draw(data, randomness).value
    return [each["value"] for each in value["quantiles"]]


def halves(rows: int) -> list[str]:
    return ["ab"[row % 2] for row in range(rows)]


def data_of(plan: Plan, values: Sequence[float] | np.ndarray[Any, Any]) -> ArrayData:
    return ArrayData.from_values(
        plan.schema, {"x": np.asarray(values, float), "g": halves(len(values))}
    )


@pytest.mark.statistical
def test_draws_follow_the_stated_law() -> None:
    """Whole numbers weigh as asinh says; the law with equal weights is refused."""
    column, values, points = whole(0, 9), [2, 2, 8], np.arange(10)
    plan = planned(column, 3, "1", base_measure="log")
    scores = [
        max(sum(v < t for v in values) - 1.5, 1.5 - sum(v <= t for v in values), 0) for t in points
    ]
    decay = np.exp(-0.5 * np.array(scores))
    weights = np.diff(np.arcsinh(np.arange(11))) * decay
    order = np.argsort(-weights)
    law = Law.discrete(points, weights[order])
    twin = Law.discrete(points, decay[order])
    place = {int(point): where for where, point in enumerate(order)}
    randomness, data = seeded_randomness(5), data_of(plan, values)
    count = draws_to_refuse([twin], law, points)
    draws = [place[int(drawn(plan, data, randomness)[0])] for _ in range(count)]
    check_draws(draws, law, twins=[twin])


@pytest.mark.parametrize("mechanism", ["kng", "exponential"])
@pytest.mark.parametrize("levels", [(0.5,), (0.1, 0.5, 0.9)])
def test_without_records_draws_are_uniform_in_asinh(
    mechanism: str, levels: tuple[float, ...]
) -> None:
    plan = planned(number(0, 10**9), 0, "1", base_measure="log", mechanism=mechanism, levels=levels)
    data, randomness = data_of(plan, []), seeded_randomness(2)
    found = np.sort([x for _ in range(40) for x in drawn(plan, data, randomness)])
    curve = np.arcsinh(found / 500) / np.arcsinh(10**9 / 500)
    assert np.abs(curve - (np.arange(len(found)) + 0.5) / len(found)).max() < 0.25


# Errors


def mean_error(plan: Plan, values: np.ndarray[Any, Any], level: float, draws: int = 20) -> float:
    """Return the mean error relative to the quantile itself."""
    data, randomness = data_of(plan, values), seeded_randomness(9)
    true = np.quantile(values, level, method="inverted_cdf")
    found = np.array([drawn(plan, data, randomness)[-1] for _ in range(draws)])
    return float(np.abs(found - true).mean() / true)


PARETO = 10 / (1 - (np.arange(20_000) + 0.5) / 20_000) ** (1 / 1.5)


@pytest.mark.parametrize(
    ("mechanism", "norm", "levels"),
    [
        ("kng", "linf", (0.99,)),
        ("kng", "l1", (0.9, 0.99)),
        ("kng", "linf", (0.9, 0.99)),
        ("exponential", "auto", (0.99,)),
    ],
)
def test_a_tail_under_wide_bounds_errs_a_thousandth(
    mechanism: str, norm: str, levels: tuple[float, ...]
) -> None:
    wide = whole(0, 10**9)
    epsilon = "0.1" if len(levels) == 1 else "0.2"
    asked: Mapping[str, Any] = {"mechanism": mechanism, "norm": norm, "levels": levels}
    uniform, auto = (
        mean_error(planned(wide, 20_000, epsilon, base_measure=each, **asked), PARETO, 0.99)
        for each in ("uniform", "auto")
    )
    assert auto < 0.5
    assert uniform > 1000 * auto


def test_auto_is_uniform_on_narrow_columns() -> None:
    ages = np.arange(1000) % 73 + 18.0
    plans = [planned(whole(0, 100), 1000, "0.1", base_measure=each) for each in ("auto", "uniform")]
    one, other = (drawn(plan, data_of(plan, ages), seeded_randomness(3)) for plan in plans)
    assert one == other
    assert plans[0].details["base_measure"] == "uniform"


# Kinds of questions


def test_groups_conditions_and_quartiles_have_the_same_measure() -> None:
    column = whole(0, 10**9)
    schema = Schema({"x": column, "g": CategoryColumn(("a", "b"))}, REPLACE, 20_000)
    data = ArrayData.from_values(schema, {"x": np.rint(PARETO), "g": halves(20_000)})
    tail = Quantile(column="x", levels=(0.99,))
    narrow = Condition(column="x", op=">", value=20)
    for asked in (replace(tail, by=("g",)), replace(tail, where=(narrow,))):
        plan = calibrate(asked, schema, Epsilon.parse("0.5"))
        value: Any = plan.draw(data, seeded_randomness(4)).value
        parts = [each["value"] for each in value["groups"]] if asked.by else [value]
        assert all(part["quantiles"][0]["value"] < 2000 for part in parts)
    spread = InterquartileRange(column="x", base_measure="log")
    found: Any = calibrate(spread, schema, Epsilon.parse("1")).draw(data, seeded_randomness(4))
    assert found.value["x"] == pytest.approx(13, abs=2)
    assert Candidates.of(spread.drawn_by(), schema).scale == 1
