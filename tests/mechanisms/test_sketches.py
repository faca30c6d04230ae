"""Sketches are exact, mergeable in any order, and bounded in size."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.domain import (
    CODE_MAX,
    EXACT_ROWS,
    SUM_MAX,
    CategoryColumn,
    Column,
    NumberColumn,
    NumberKind,
    Schema,
    exact,
)
from mechanisms.exact.fractions import as_written
from mechanisms.grids import MOST_CELLS
from mechanisms.privacy import Adjacency
from mechanisms.sketches import (
    ArrayData,
    Sketch,
    exact_gram,
)
from tests.tiers import in_one

COLUMNS: dict[str, Column] = {
    "x": NumberColumn(Fraction(0), Fraction(1)),
    "group": CategoryColumn(("a", "b", "c")),
    "y": NumberColumn(Fraction(-5), Fraction(5)),
}
Rows = list[tuple[float, int, float]]
X = st.sampled_from([0.0, 5e-7, 0.25, 1.0]) | st.floats(0, 1)
Y = st.sampled_from([-5.0, 0.0, 0.1, 5.0]) | st.floats(-5, 5)
ROWS = st.lists(st.tuples(X, st.integers(0, 2), Y), max_size=12)


def block_of(rows: Rows) -> dict[str, np.ndarray]:
    return {
        exact(name): np.array([row[place] for row in rows], dtype=column.dtype)
        for place, (name, column) in enumerate(COLUMNS.items())
    }


def sketch_of(rows: Rows) -> Sketch:
    return Sketch.from_block(block_of(rows), COLUMNS)


def random_block(rows: int, seed: int = 1) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        exact("x"): generator.uniform(0, 1, rows),
        exact("y"): generator.uniform(-5, 5, rows),
        exact("group"): generator.integers(0, 3, rows).astype(np.int32),
    }


def same(first: Sketch, second: Sketch) -> bool:
    """Whether two sketches hold the same integers in the same types."""
    arrays = [
        [sketch.gram, *chain(*sketch.ordered.values()), *sketch.categories.values()]
        for sketch in (first, second)
    ]
    return first.rows == second.rows and all(
        one.dtype == two.dtype and np.array_equal(one, two)
        for one, two in zip(*arrays, strict=True)
    )


@given(ROWS, ROWS, ROWS)
def test_merging_is_the_sketch_of_all_rows(a: Rows, b: Rows, c: Rows) -> None:
    first, second, third = map(sketch_of, (a, b, c))
    whole = sketch_of(a + b + c)
    assert same(Sketch.merge(Sketch.merge(first, second), third), whole)
    assert same(Sketch.merge(first, Sketch.merge(second, third)), whole)
    assert same(Sketch.merge(first, second), Sketch.merge(second, first))
    assert same(Sketch.merge(first, Sketch.empty(COLUMNS)), first)


@given(ROWS)
def test_a_sketch_counts_exactly(rows: Rows) -> None:
    sketch = sketch_of(rows)
    x_column, y_column = COLUMNS["x"], COLUMNS["y"]
    assert isinstance(x_column, NumberColumn)
    assert isinstance(y_column, NumberColumn)
    table = [(1, _sum_code(x_column, x), _sum_code(y_column, y)) for x, _, y in rows]
    expected = [[sum(row[i] * row[j] for row in table) for j in range(3)] for i in range(3)]
    assert sketch.sub_gram(["x", "y"]) == expected
    assert sketch.sub_gram(["y"]) == [[expected[i][j] for j in (0, 2)] for i in (0, 2)]
    assert sketch.categories["group"].tolist() == [
        sum(group == k for _, group, _ in rows) for k in range(3)
    ]
    cells, counts = sketch.ordered["x"]
    step = x_column.grid.step
    wanted = sorted(math.floor(as_written(x) / step) for x, _, _ in rows)
    assert np.repeat(cells, counts).tolist() == wanted
    assert cells.tolist() == sorted(set(wanted))


def _sum_code(column: NumberColumn, value: float) -> int:
    return int(column.sum_codes(np.array([value]))[0])


# At 2**17 - 1 and - 2**16 both limbs are at their largest at once.
@in_one("largest", [SUM_MAX, SUM_MAX - (1 << 16), SUM_MAX - (1 << 17) - 1])
@in_one("rows", [1, 4095, 4096, 3 * 4096 + 5])
def test_the_gram_matrix_is_exact_at_its_largest(rows: int, largest: int) -> None:
    codes = np.full(rows, largest, dtype=np.int64)
    gram = exact_gram([codes, -codes], rows)
    square = rows * largest**2
    assert gram.tolist() == [
        [rows, rows * largest, -rows * largest],
        [rows * largest, square, -square],
        [-rows * largest, -square, square],
    ]
    assert all(type(entry) is int for entry in gram.ravel())


def test_the_gram_matrix_outgrows_int64() -> None:
    first = Sketch.from_block({exact("x"): np.ones(1000)}, {"x": COLUMNS["x"]})
    for _ in range(40):
        first = Sketch.merge(first, first)
    assert first.sub_gram(["x"])[1][1] == 1000 * 2**40 * SUM_MAX**2 > 2**63


@pytest.mark.parametrize("split", [1, 1000, EXACT_ROWS, 100_000])
def test_any_split_of_the_rows_gives_identical_sketches(split: int) -> None:
    rows = 30_000 if split > 1 else 300
    block = random_block(rows)
    parts = [
        Sketch.from_block({k: v[start : start + split] for k, v in block.items()}, COLUMNS)
        for start in range(0, rows, split)
    ]
    assert same(reduce(Sketch.merge, parts), Sketch.from_block(block, COLUMNS))


@pytest.mark.wide
def test_size_is_bounded_by_the_number_of_cells() -> None:
    columns = {"x": NumberColumn(Fraction(0), Fraction(1))}
    grid = columns["x"].grid
    every = grid.starts(np.arange(grid.size))
    more = np.random.default_rng(3).uniform(0, 1, grid.size)
    sketch = Sketch.from_block({exact("x"): np.concatenate([every, more])}, columns)
    merged = reduce(Sketch.merge, [sketch] * 4)
    assert len(merged.ordered["x"][0]) == grid.size <= MOST_CELLS
    assert merged.ordered["x"][1].sum() == 8 * grid.size


def test_no_rows_and_no_columns() -> None:
    empty = Sketch.empty(COLUMNS)
    assert empty.rows == 0
    assert empty.sub_gram(["x"]) == [[0, 0], [0, 0]]


def test_sketches_of_other_columns_do_not_merge() -> None:
    other = Sketch.empty({"x": COLUMNS["x"]})
    with pytest.raises(ValueError, match="different columns"):
        Sketch.merge(other, Sketch.empty(COLUMNS))


def test_array_data_encodes_plain_values() -> None:
    schema = Schema(COLUMNS, Adjacency.REPLACE_ONE, 3)
    data = ArrayData.from_values(
        schema, {"x": [0, 0.5, 7], "group": ["c", "a", "a"], "y": [-5.0, 0.0, 5.0]}
    )
    assert data.codes["x"].tolist() == [-CODE_MAX, 0, CODE_MAX]
    assert data.codes["group"].tolist() == [2, 0, 0]
    assert data.category_counts("group").tolist() == [2, 0, 1]


def test_array_data_refuses_ragged_or_missing_columns() -> None:
    with pytest.raises(ValueError, match="per column"):
        ArrayData(columns=COLUMNS, codes={"x": np.zeros(1, dtype=np.int32)})
    ragged = {name: np.zeros(k, dtype=np.int32) for k, name in enumerate(COLUMNS)}
    with pytest.raises(ValueError, match="length"):
        ArrayData(columns=COLUMNS, codes=ragged)


@in_one("kind", ["number", "integer"])
@in_one("ends", [(0, 1), (-3, 7), (-(10**6), 10**9), (10**15, 10**15 + 4)])
def test_a_value_lies_in_its_cell(kind: NumberKind, ends: tuple[int, int]) -> None:
    column = NumberColumn(Fraction(ends[0]), Fraction(ends[1]), kind=kind)
    rng = np.random.default_rng(5)
    some = rng.uniform(*ends, 2000)
    given_values = np.concatenate([some, some.round(1), some.round(4), ends])
    values = column.clamped(np.rint(given_values) if kind == "integer" else given_values)
    cells = column.grid.cells(values)
    assert cells.min() == 0
    assert cells.max() == column.grid.size - 1 < MOST_CELLS
    assert (column.grid.starts(cells) <= values).all()
    assert (values < column.grid.starts(cells + 1)).all()
    for edge in values[:200].tolist():
        one = np.array([edge], dtype=column.dtype)
        if column.grid.starts_at(one):
            (first,) = column.grid.cells(one)
            assert np.array_equal(cells >= first, values >= edge)


def test_large_array_data_comes_in_blocks() -> None:
    codes = np.zeros((1 << 18) + 10, dtype=np.int32)
    data = ArrayData(columns={"x": COLUMNS["x"]}, codes={"x": codes})
    assert [len(block["x"]) for block in data.blocks(["x"])] == [1 << 18, 10]
