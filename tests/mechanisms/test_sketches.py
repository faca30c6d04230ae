"""Sketches are exact, mergeable in any order, and bounded in size."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.domain import CODE_MAX, EXACT_ROWS, CategoryColumn, Column, NumberColumn, Schema
from mechanisms.privacy import Adjacency
from mechanisms.sketches import (
    ArrayData,
    Sketch,
    exact_gram,
)

COLUMNS: dict[str, Column] = {
    "x": NumberColumn(Fraction(0), Fraction(1)),
    "group": CategoryColumn(("a", "b", "c")),
    "y": NumberColumn(Fraction(-5), Fraction(5)),
}
Rows = list[tuple[int, int, int]]
CODE = st.sampled_from([-CODE_MAX, -7, 0, 7, CODE_MAX]) | st.integers(-CODE_MAX, CODE_MAX)
ROWS = st.lists(st.tuples(CODE, st.integers(0, 2), CODE), max_size=12)


def block_of(rows: Rows) -> dict[str, np.ndarray]:
    table = np.array(rows, dtype=np.int32).reshape(-1, 3)
    return {name: table[:, place] for place, name in enumerate(COLUMNS)}


def sketch_of(rows: Rows) -> Sketch:
    return Sketch.from_block(block_of(rows), COLUMNS)


def random_block(rows: int, seed: int = 1) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    block = {
        name: generator.integers(-CODE_MAX, CODE_MAX + 1, rows).astype(np.int32)
        for name in ("x", "y")
    }
    block["group"] = generator.integers(0, 3, rows).astype(np.int32)
    return block


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
    table = [(1, x, y) for x, _, y in rows]
    expected = [[sum(row[i] * row[j] for row in table) for j in range(3)] for i in range(3)]
    assert sketch.sub_gram(["x", "y"]) == expected
    assert sketch.sub_gram(["y"]) == [[expected[i][j] for j in (0, 2)] for i in (0, 2)]
    assert sketch.categories["group"].tolist() == [
        sum(group == k for _, group, _ in rows) for k in range(3)
    ]
    codes, counts = sketch.ordered["x"]
    values = sorted(x for x, _, _ in rows)
    assert np.repeat(codes, counts).tolist() == values
    assert codes.tolist() == sorted(set(values))


@pytest.mark.parametrize("rows", [1, EXACT_ROWS - 1, EXACT_ROWS, 3 * EXACT_ROWS + 5])
def test_the_gram_matrix_is_exact_at_its_largest(rows: int) -> None:
    codes = np.full(rows, CODE_MAX, dtype=np.int32)
    gram = exact_gram([codes, -codes], rows)
    square = rows * CODE_MAX**2
    assert gram.tolist() == [
        [rows, rows * CODE_MAX, -rows * CODE_MAX],
        [rows * CODE_MAX, square, -square],
        [-rows * CODE_MAX, -square, square],
    ]
    assert all(type(entry) is int for entry in gram.ravel())


def test_the_gram_matrix_outgrows_int64() -> None:
    first = Sketch.from_block({"x": np.full(1000, CODE_MAX, dtype=np.int32)}, {"x": COLUMNS["x"]})
    for _ in range(40):
        first = Sketch.merge(first, first)
    assert first.sub_gram(["x"])[1][1] == 1000 * 2**40 * CODE_MAX**2 > 2**63


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
def test_size_is_bounded_by_the_number_of_codes() -> None:
    every = np.arange(-CODE_MAX, CODE_MAX + 1, dtype=np.int32)
    columns = {"x": COLUMNS["x"]}
    sketch = Sketch.from_block({"x": every}, columns)
    merged = reduce(Sketch.merge, [sketch] * 4)
    assert len(merged.ordered["x"][0]) == 2 * CODE_MAX + 1
    assert (merged.ordered["x"][1] == 4).all()


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


def test_large_array_data_comes_in_blocks() -> None:
    codes = np.zeros((1 << 18) + 10, dtype=np.int32)
    data = ArrayData(columns={"x": COLUMNS["x"]}, codes={"x": codes})
    assert [len(block["x"]) for block in data.blocks(["x"])] == [1 << 18, 10]
