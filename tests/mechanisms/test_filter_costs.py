"""What filters cost is reckoned beforehand, and their codes are made at once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Statistic
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema, exact
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.statistics.cells.parting import Parting
from mechanisms.statistics.conditions import Condition, selecting_ms, within
from mechanisms.statistics.count import Count
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.questions import planning_ms
from mechanisms.statistics.total import Sum

X = NumberColumn(lower=Fraction(1, 10), upper=Fraction(7, 10))
COLUMNS: dict[str, Column] = {"x": X, "c": CategoryColumn(values=("a", "b"))}


def schema(rows: int) -> Schema:
    return Schema(columns=COLUMNS, adjacency=Adjacency.REPLACE_ONE, rows=rows)


def among(values: int) -> tuple[Condition, ...]:
    chosen = tuple(float(value) for value in np.linspace(0.1, 0.7, values))
    return (Condition(column="x", op="in", value=chosen),)


def filtered(where: tuple[Condition, ...]) -> list[Statistic]:
    return [
        Count(where=where),
        Sum(columns=("x",), where=where),
        Histogram(columns=("c",), where=where),
    ]


@pytest.mark.parametrize("kind", range(3))
def test_filters_are_reckoned_with(kind: int) -> None:
    """In planning by their values, and in draws by values and rows; the twin has one value."""

    def costs(where: tuple[Condition, ...], rows: int) -> tuple[float, float]:
        statistic, facts = filtered(where)[kind], schema(rows)
        plan = calibrate(statistic, facts, Epsilon.parse("1"), mechanism="auto", norm="auto")
        return planning_ms(statistic, facts, "auto"), plan.expected_ms

    few, many = among(2), among(1_000) * 20
    planning, drawing = costs(few, 100)
    planning_many, drawing_many = costs(many, 100)
    assert planning_many > planning + 50
    assert drawing_many > drawing + 50
    assert selecting_ms((), 10**9) == 0
    _, on_rows = costs(many, 100_000)
    assert on_rows > drawing_many + 100
    assert on_rows - drawing_many > 5 * (costs(few, 100_000)[1] - drawing)


@given(
    values=st.lists(
        st.one_of(st.floats(0.0, 0.8), st.sampled_from([0.1, 0.7, 0.30000000000000004])),
        min_size=1,
        max_size=30,
    )
)
def test_values_read_at_once_are_those_read_one_by_one(values: list[float]) -> None:
    """And the same values are refused: those outside the bounds as they were written."""
    condition = Condition(column="x", op="in", value=tuple(values))
    if all(within(X, value) for value in values):
        assert condition.numbers(schema(9)) == tuple(values)
    else:
        with pytest.raises(InvalidStatisticError):
            condition.numbers(schema(9))


def test_a_selection_meets_what_its_conditions_meet() -> None:
    facts, rng = schema(9), np.random.default_rng(3)
    block = {
        exact("x"): X.clamped(rng.uniform(0.1, 0.7, 500)),
        exact("c"): rng.integers(0, 2, 500).astype(np.int32),
    }
    where = (
        Condition(column="x", op=">", value=0.2),
        Condition(column="x", op="!=", value=0.5),
        Condition(column="c", op="in", value=("b",)),
    )
    chosen = Parting.of(where, (), facts).place(block) == 0
    expected = np.logical_and.reduce([each.mask(block, facts) for each in where])
    assert chosen.tolist() == expected.tolist()
    assert 0 < chosen.sum() < 500
