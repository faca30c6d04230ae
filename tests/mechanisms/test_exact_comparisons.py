"""Comparisons are exact: counts of random conditions, edges and expressions, next to plain Python.

The reference compares Python's own integers and floats, one value at a time.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
import pytest

from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import (
    CategoryColumn,
    Column,
    NumberColumn,
    NumberKind,
    Schema,
    exact,
    text_of,
)
from mechanisms.exact.fractions import as_written
from mechanisms.expressions.derived import DefinitionError, derived_column
from mechanisms.expressions.parsing import parse
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData
from mechanisms.statistics.cells.axes import axis_of
from mechanisms.statistics.cells.parting import Parting
from mechanisms.statistics.conditions import Condition

CASES = 10_000
_ROWS = 40
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def random_column(rng: random.Random) -> NumberColumn:
    kind: NumberKind = rng.choice(["number", "integer", "date", "datetime"])
    if kind == "number":
        low = rng.choice([0.0, -1.0, -1e6, 0.1, 1e-12, -3.7e9, 1e15])
        width = rng.choice([1.0, 0.6, 120.0, 5e3, 1e7, 1e9, 1e12, 1e-9])
        if low + width > low:
            return NumberColumn(as_written(low), as_written(low + width))
        return NumberColumn(Fraction(0), Fraction(1))
    if kind == "integer":
        low_end = rng.choice([0, -5, -(10**6), 10**10, -(2**62)])
        width_of = rng.choice([3, 120, 2**21, 3 * 10**7, 10**11, 2**53, 2**61])
        return NumberColumn(Fraction(low_end), Fraction(low_end + width_of), kind=kind)
    unit = 1 if kind == "date" else 86_400
    first = rng.randint(-20_000, 10_000) * unit
    return NumberColumn(Fraction(first), Fraction(first + rng.randint(2, 40_000) * unit), kind=kind)


def random_values(column: NumberColumn, rng: random.Random) -> list[Any]:
    """Return values of which many are equal, or next to each other or to a bound."""
    low, high = column.lower, column.upper
    if column.dtype.kind == "i":
        ends = int(low), int(high)
        near = [*range(ends[0], min(ends[0] + 4, ends[1]) + 1), ends[1], ends[1] - 1]
        far = [rng.randint(*ends) for _ in range(5)]
    else:
        ends = float(low), float(high)
        near = [ends[0], ends[1], np.nextafter(ends[0], ends[1]), round(sum(ends) / 2, 3)]
        far = [rng.uniform(*ends) for _ in range(5)]
        far += [round(each, rng.randint(0, 4)) for each in far]
    kept = [each for each in (*near, *far) if ends[0] <= each <= ends[1]]
    return [rng.choice(kept) for _ in range(_ROWS)]


def asked_value(column: NumberColumn, values: list[Any], rng: random.Random) -> tuple[Any, Any]:
    """Return a value as a request has it, and the number that it stands for."""
    number = rng.choice(values)
    if column.dtype.kind == "f":
        number = rng.choice([number, round(float(number), 2)])
    elif column.kind == "integer" and abs(number) < 2**40 and rng.random() < 0.3:
        number += rng.choice([0.5, 0.25, 0.0])
    if not column.lower <= as_written(number) <= column.upper:
        number = rng.choice(values)
    if column.timed is not None:
        return text_of(column.timed, Fraction(number)), number
    return float(number) if column.dtype.kind == "f" else number, number


def schema_with(column: Column) -> Schema:
    return Schema({"x": column}, Adjacency.ADD_REMOVE, None, max_rows=_ROWS)


@pytest.mark.parametrize("seed", range(4))
def test_conditions_count_what_plain_python_counts(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(CASES // 4 // 2):
        column = random_column(rng)
        values = random_values(column, rng)
        data = ArrayData.from_values(schema_with(column), {"x": values})
        (block,) = data.blocks([exact("x")])
        for _ in range(2):
            op = rng.choice([*_OPERATORS, "in"])
            asked = [asked_value(column, values, rng) for _ in range(3 if op == "in" else 1)]
            written, numbers = zip(*asked, strict=True)
            condition = Condition(
                column="x", op=op, value=tuple(written) if op == "in" else written[0]
            )
            wanted = [
                value in numbers if op == "in" else _OPERATORS[op](value, numbers[0])
                for value in values
            ]
            found = condition.mask(block, data_schema := schema_with(column))
            assert found.tolist() == wanted, (column, condition)
            if op in _OPERATORS:
                number = numbers[0]
                text = f'"{written[0]}"' if column.timed else _literal(number)
                tree = parse(f"x {op} {text}")
                try:
                    derived = derived_column(tree, data_schema.columns)
                except DefinitionError:  # public bounds decide it: the same in every row
                    assert len({*wanted}) == 1
                    continue
                assert derived.values({"x": block[exact("x")]}).tolist() == wanted, (column, op)


def _literal(number: Any) -> str:
    return repr(number) if isinstance(number, int) else format(Decimal(repr(float(number))), "f")


@pytest.mark.parametrize("seed", range(2))
def test_edges_count_what_plain_python_counts(seed: int) -> None:
    """With the sketch where it separates the cells, else with the rows; both compare values."""
    rng = random.Random(100 + seed)
    from_grid = 0
    for _ in range(CASES // 10):
        column = random_column(rng)
        values = random_values(column, rng)
        some = sorted({asked_value(column, values, rng)[1] for _ in range(4)})
        if len(some) < 2:
            continue
        edges = tuple(
            text_of(column.timed, Fraction(each)) if column.timed else each for each in some
        )
        first_of_each = [ceil(each) if column.dtype.kind == "i" else each for each in some]
        closed = some[-1] == column.upper
        if any(a == b for a, b in pairwise(first_of_each[: -1 if closed else None])):
            with pytest.raises(InvalidStatisticError, match="without a whole number"):
                axis_of("x", column, edges)
            continue
        axis = axis_of("x", column, edges)
        from_grid += axis.from_grid
        top = max(column.clamped(np.array([np.inf])).tolist())
        wanted = [0] * len(axis.labels)
        below = axis.labels[0].startswith("<")
        for value in values:
            place = sum(value >= edge for edge in some) - (not below)
            if some[-1] >= top and value >= some[-1]:
                place -= 1  # nothing lies beyond the last cell, which is closed
            wanted[place] += 1
        data = ArrayData.from_values(schema_with(column), {"x": values})
        assert axis.count(data, column) == wanted, (column, edges)
        (block,) = data.blocks([axis.reads])
        placed = np.bincount(axis.place(block[axis.reads]), minlength=len(axis.labels))
        assert placed.tolist() == wanted
    assert from_grid > 100


def test_wide_columns_tell_their_values_apart() -> None:
    """The cases that were reported: 0 from 1 in 30 million, and a code of eleven digits."""
    column = NumberColumn(Fraction(0), Fraction(30_000_000), kind="integer")
    values = [0] * 100 + [1] * 50 + [2] * 50 + [3] * 50 + [41_000] * 150
    facts = schema_with(column)
    data = ArrayData.from_values(facts, {"x": values})

    def count(op: Any, value: Any) -> int:
        (block,) = data.blocks([exact("x")])
        return int(Condition(column="x", op=op, value=value).mask(block, facts).sum())

    assert [count("==", 0), count(">", 0), count("in", (1, 3))] == [100, 300, 100]
    assert [count(">", 0.5), count("==", 0.5), count("!=", 0.5)] == [300, 0, 400]
    asked = Parting.of((Condition(column="x", op="<", value=3),), (), facts)
    assert int((asked.place(next(data.blocks(asked.columns))) == 0).sum()) == 200


def test_a_category_is_compared_by_its_value() -> None:
    facts = schema_with(CategoryColumn(("a", "b", "c")))
    data = ArrayData.from_values(facts, {"x": ["a", "c", "c"]})
    (block,) = data.blocks([exact("x")])
    assert Condition(column="x", op="!=", value="a").mask(block, facts).sum() == 2
