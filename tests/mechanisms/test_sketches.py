"""Sketches are exact, mergeable in any order, compact, and checked when read back."""

from __future__ import annotations

import io
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.domain import CODE_MAX, CategoryColumn, Column, NumberColumn, Schema
from mechanisms.privacy import Adjacency
from mechanisms.sketches import (
    EXACT_ROWS,
    ArrayData,
    InvalidSketchError,
    Sketch,
    SketchData,
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
    return first.to_bytes() == second.to_bytes()


@given(ROWS, ROWS, ROWS)
def test_merging_is_the_sketch_of_all_rows(a: Rows, b: Rows, c: Rows) -> None:
    first, second, third = map(sketch_of, (a, b, c))
    whole = sketch_of(a + b + c)
    assert same(Sketch.merge(Sketch.merge(first, second), third), whole)
    assert same(Sketch.merge(first, Sketch.merge(second, third)), whole)
    assert same(Sketch.merge(first, second), Sketch.merge(second, first))
    assert same(Sketch.merge(first, Sketch.empty(COLUMNS)), first)
    assert same(Sketch.merge_all([first, second, third], COLUMNS), whole)


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


@given(ROWS)
def test_bytes_come_back_whole(rows: Rows) -> None:
    sketch = sketch_of(rows)
    assert same(Sketch.from_bytes(sketch.to_bytes(), COLUMNS), sketch)


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
def test_any_split_of_the_rows_gives_identical_bytes(split: int) -> None:
    rows = 30_000 if split > 1 else 300
    block = random_block(rows)
    parts = [
        Sketch.from_block({k: v[start : start + split] for k, v in block.items()}, COLUMNS)
        for start in range(0, rows, split)
    ]
    assert same(Sketch.merge_all(parts, COLUMNS), Sketch.from_block(block, COLUMNS))


def test_size_is_bounded_by_the_number_of_codes() -> None:
    every = np.arange(-CODE_MAX, CODE_MAX + 1, dtype=np.int32)
    columns = {"x": COLUMNS["x"]}
    sketch = Sketch.from_block({"x": every}, columns)
    merged = Sketch.merge_all([sketch] * 4, columns)
    assert len(merged.ordered["x"][0]) == 2 * CODE_MAX + 1
    assert (merged.ordered["x"][1] == 4).all()
    assert len(merged.to_bytes()) < 12_000_000


def test_no_rows_and_no_columns() -> None:
    empty = Sketch.empty(COLUMNS)
    assert empty.rows == 0
    assert empty.sub_gram(["x"]) == [[0, 0], [0, 0]]
    assert same(Sketch.merge_all([], COLUMNS), empty)
    assert same(Sketch.from_bytes(empty.to_bytes(), COLUMNS), empty)


def test_sketches_of_other_columns_do_not_merge() -> None:
    other = Sketch.empty({"x": COLUMNS["x"]})
    with pytest.raises(ValueError, match="different columns"):
        Sketch.merge(other, Sketch.empty(COLUMNS))


def tampered(**changes: np.ndarray) -> bytes:
    with np.load(io.BytesIO(sketch_of([(1, 0, 2), (3, 1, 4)]).to_bytes())) as archive:
        arrays = {key: archive[key] for key in archive} | changes
    buffer = io.BytesIO()
    np.savez(buffer, **{key: value for key, value in arrays.items() if value is not None})
    return buffer.getvalue()


def test_untampered_bytes_are_accepted() -> None:
    assert Sketch.from_bytes(tampered(), COLUMNS).rows == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an archive",
        tampered(rows=np.array(3)),
        tampered(rows=None),
        tampered(codes_0=np.array([3, 1], dtype=np.int32)),
        tampered(codes_0=np.array([1, 1], dtype=np.int32)),
        tampered(codes_0=np.array([1, CODE_MAX + 1], dtype=np.int32)),
        tampered(codes_0=np.array([1.5, 3.0])),
        tampered(counts_0=np.array([1, 2], dtype=np.uint8)),
        tampered(counts_0=np.array([2, 0], dtype=np.uint8)),
        tampered(counts_0=np.array([2], dtype=np.uint8)),
        tampered(counts_1=None),
        tampered(category_0=np.array([2, 0])),
        tampered(category_0=np.array([3, -1, 0])),
        tampered(gram_high=np.zeros((2, 2), dtype=np.int64)),
        tampered(gram_low=np.arange(9, dtype=np.uint32).reshape(3, 3)),
        tampered(names=np.frombuffer(b"{}", dtype=np.uint8)),
        tampered(names=np.frombuffer(b'{"numbers": ["y", "x"], "categories": ["group"]}', "u1")),
    ],
)
def test_bytes_that_contradict_themselves_are_refused(content: bytes) -> None:
    with pytest.raises(InvalidSketchError):
        Sketch.from_bytes(content, COLUMNS)


def test_pickles_are_never_loaded() -> None:
    buffer = io.BytesIO()
    np.savez(buffer, names=np.array([object()], dtype=object))
    with pytest.raises(InvalidSketchError):
        Sketch.from_bytes(buffer.getvalue(), COLUMNS)


def test_sketch_data_and_array_data_agree() -> None:
    block = random_block(5000)
    array = ArrayData(columns=COLUMNS, codes=block)

    def source(columns: Sequence[str]):
        yield {name: block[name] for name in columns}

    data = SketchData(sketch=array.sketch, source=source)
    assert data.rows == array.rows == 5000
    assert data.gram(["y", "x"]) == array.gram(["y", "x"])
    assert (data.category_counts("group") == array.category_counts("group")).all()
    for a, b in zip(data.ordered("x"), array.ordered("x"), strict=True):
        assert (a == b).all()
    first, second = (list(d.blocks(["x", "group"])) for d in (data, array))
    assert [list(b) for b in first] == [["x", "group"]]
    assert (first[0]["x"] == second[0]["x"]).all()


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
