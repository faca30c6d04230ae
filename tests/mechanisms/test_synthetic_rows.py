"""Synthetic rows of tables: the model, its records, their values, and the same bytes everywhere."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from itertools import combinations, product
from math import log2
from typing import Any

import numpy as np
import pytest

from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CategoryColumn, Column, Nested, NumberColumn, Schema
from mechanisms.margins.synthetic import described, most_rows, synthesize
from mechanisms.privacy import Adjacency
from mechanisms.statistics.cells.axes import Step
from mechanisms.statistics.cells.parting import Bands
from mechanisms.statistics.tables import Tables
from mechanisms.tables import records
from mechanisms.tables.model import MOST_ROWS, GraphicalModel, cells_of, stream
from mechanisms.tables.records import moved_to
from mechanisms.tables.workload import Workload, count_margins
from tests.tiers import in_one

COLUMNS = {
    "sex": CategoryColumn(("f", "m")),
    "age": NumberColumn(Fraction(0), Fraction(100), kind="integer"),
    "weight": NumberColumn(Fraction(0), Fraction(10)),
    "owner": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "day": NumberColumn(Fraction(0), Fraction(365), kind="date"),
}
SCHEMA = Schema(COLUMNS, Adjacency.REPLACE_ONE, 400, None)
ASKED = Tables(
    columns=tuple(COLUMNS),
    edges={"age": (0, 18, 65, 100), "weight": (1, 2.5, 4), "day": Step(step=100)},
)


def chain(count: int = 4000, seed: int = 1) -> Any:
    """Return codes of four binary columns, each the one before it in nine of ten records."""
    generator = np.random.default_rng(seed)
    codes = np.zeros((count, 4), dtype=np.int64)
    codes[:, 0] = generator.integers(0, 2, count)
    for column in range(1, 4):
        same = generator.random(count) < 0.9
        codes[:, column] = np.where(same, codes[:, column - 1], 1 - codes[:, column - 1])
    return codes


def fitted(codes: Any, sizes: tuple[int, ...], margins: Any) -> GraphicalModel:
    workload = (
        Workload.of_order(sizes, margins) if isinstance(margins, int) else Workload(sizes, margins)
    )
    counts = count_margins(codes, workload)
    return GraphicalModel.fitted(workload, counts)


def distance(codes: Any, made: Any, columns: tuple[int, ...], workload: Workload) -> float:
    one, other = (cells_of(workload, each, columns) for each in (codes, made))
    return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)


def answer(asked: Tables, seed: int = 1) -> dict[str, Any]:
    """Return made-up tables that agree."""
    workload = asked.workload(SCHEMA)
    columns = [
        stream(seed, f"data {place}", 400).astype(np.int64) % size
        for place, size in enumerate(workload.sizes)
    ]
    codes = np.stack(columns, axis=1)
    codes[::2, 1:] = codes[::2, :1]
    made = {each: cells_of(workload, codes, each) for each in workload.margins}
    numbers = {each: found.ravel().tolist() for each, found in made.items()}
    return dict(asked.answer(SCHEMA, numbers, 400))


def test_the_same_seed_makes_the_same_rows_on_every_machine() -> None:
    found = synthesize(ASKED, answer(ASKED), SCHEMA, rows=1000, seed=7)
    assert sha256(repr(found.columns).encode()).hexdigest() == GOLDEN
    other = synthesize(ASKED, answer(ASKED), SCHEMA, rows=1000, seed=8)
    assert other.columns != found.columns


GOLDEN = "cc2a9fea8fda9b252ce369a3710700e5fbeab53ba977ed9c9102f87a8d2e7a3c"


@pytest.mark.parametrize("order", [1, 2, 3])
def test_cliques_have_the_released_tables(order: int) -> None:
    codes = chain()
    model = fitted(codes, (2, 2, 2, 2), order)
    known = [each for each in model.workload.margins if model.knows(each)]
    assert len(known) >= (4, 3, 2)[order - 1]
    for rows in (4000, 1000):
        made = model.draw(rows, 7)
        for each in known:
            # less than one record a cell and group, in all links
            assert distance(codes, made, each, model.workload) <= (16 / rows if rows < 4000 else 0)


def test_a_dependence_reaches_columns_that_no_table_joins() -> None:
    """The first and the last column of a chain depend on each other through those between."""
    codes, sizes = chain(), (2, 2, 2, 2)
    pairs = ((0, 1), (1, 2), (2, 3))
    model = fitted(codes, sizes, pairs)
    made = model.draw(20_000, 3)
    assert distance(codes, made, (0, 3), model.workload) < 0.02
    # negative control: without the pair in the middle they are independent
    broken = fitted(codes, sizes, ((0, 1), (2, 3)))
    assert distance(codes, broken.draw(20_000, 3), (0, 3), model.workload) > 0.2
    assert not broken.knows((1, 2))
    assert model.knows((1, 2))


def test_rows_are_near_all_tables_not_those_of_a_tree_alone(monkeypatch: Any) -> None:
    """Every column says something of every other one: a tree has three of six pairs."""
    generator = np.random.default_rng(3)
    common = generator.integers(0, 2, 6000)
    codes = np.stack(
        [np.where(generator.random(6000) < 0.6, common, 1 - common) for _ in range(4)], axis=1
    )
    codes[:, 3] = np.where(codes[:, 0] == codes[:, 1], codes[:, 0], codes[:, 3])
    model = fitted(codes, (2, 2, 2, 2), 2)
    workload = model.workload

    def farthest(made: Any) -> float:
        return max(distance(codes, made, each, workload) for each in workload.maximal())

    for rows in (6000, 1000):
        drawn = model.draw(rows, 7)
        made = moved_to(workload, model.counts, drawn)
        assert farthest(drawn) > 0.02, "negative control: what the tree lacks is there to be seen"
        assert farthest(made) < 0.005
        assert np.array_equal(made, moved_to(workload, model.counts, drawn))
        # as few rows move as can
        assert (made != drawn).any(axis=1).mean() < 0.25
    monkeypatch.setattr(records, "MOST_LOOKS", 1)
    drawn = model.draw(6000, 7)
    once = moved_to(workload, model.counts, drawn)
    assert 0 < (once != drawn).any(axis=1).sum() <= 512 * 2, "it stops after so many looks"


def test_the_tree_has_the_most_information_of_all_trees() -> None:
    generator = np.random.default_rng(5)
    sizes = (2, 3, 2, 4, 3)
    for _ in range(5):
        codes = np.stack([generator.integers(0, size, 300) for size in sizes], axis=1)
        codes[:, 2] = np.where(generator.random(300) < 0.4, codes[:, 0], codes[:, 2])
        codes[:, 4] = np.where(generator.random(300) < 0.5, codes[:, 1], codes[:, 4])
        model = fitted(codes, sizes, 2)

        def information(i: int, j: int, codes: Any = codes) -> float:
            table = np.zeros((sizes[i], sizes[j]))
            np.add.at(table, (codes[:, i], codes[:, j]), 1 / len(codes))
            rows, columns = table.sum(1), table.sum(0)
            return sum(
                table[a, b] * log2(table[a, b] / (rows[a] * columns[b]))
                for a, b in product(range(sizes[i]), range(sizes[j]))
                if table[a, b]
            )

        own = sum(information(link.given[0], link.column) for link in model.links if link.given)
        every = [
            sum(information(i, j) for i, j in edges)
            for edges in combinations(combinations(range(5), 2), 4)
            if connected(edges)
        ]
        assert own == pytest.approx(max(every), abs=1e-5)
        assert own > sorted(every)[-2] - 1e-5


def connected(edges: Any) -> bool:
    reached = {0}
    for _ in range(4):
        reached |= {each for edge in edges if set(edge) & reached for each in edge}
    return len(reached) == 5


def test_each_record_has_the_law_of_the_model() -> None:
    """Over seeds, one record's cells have the shares of the tables: chi-squared below its 1e-6."""
    codes = chain(200)
    model = fitted(codes, (2, 2, 2, 2), 2)
    seeds = 2000
    first = np.stack([model.draw(3, seed)[1] for seed in range(seeds)])
    expected = cells_of(model.workload, codes, (0, 1)) / 200 * seeds
    found = cells_of(model.workload, first, (0, 1))
    assert float(((found - expected) ** 2 / expected).sum()) < 31
    wrong = expected[::-1]
    assert float(((found - wrong) ** 2 / wrong).sum()) > 31


def test_tables_without_people_make_rows_all_the_same() -> None:
    workload = Workload.of_order((2, 3), 2)
    model = GraphicalModel.fitted(workload, {(0, 1): np.zeros((2, 3), dtype=np.int64)})
    assert {tuple(row) for row in model.draw(600, 1).tolist()} == set(product(range(2), range(3)))
    with pytest.raises(ValueError, match="too many"):
        model.draw(MOST_ROWS + 1, 1)


def test_large_counts_are_computed_exactly() -> None:
    counts = np.array([[1 << 31, 0], [0, (1 << 31) - 1]])
    model = GraphicalModel.fitted(Workload.of_order((2, 2), 2), {(0, 1): counts})
    made = cells_of(model.workload, model.draw(1 << 16, 1), (0, 1))
    assert made.tolist()[0][1] == made.tolist()[1][0] == 0
    assert abs(int(made[0, 0]) - (1 << 15)) <= 1


@in_one(
    ("column", "edges"),
    [
        (COLUMNS["age"], (0, 18, 65, 100)),
        (COLUMNS["age"], "values"),
        (COLUMNS["age"], (2.5, 3.5, 99)),
        (COLUMNS["weight"], (0, 0.001, 7, 10)),
        (COLUMNS["weight"], Step(step=0.3)),
        (NumberColumn(Fraction(-(10**30)), Fraction(10**30)), (-1e29, 5, 1e29)),
        (NumberColumn(Fraction(1, 3), Fraction(2, 3)), (0.4, 0.5)),
        (NumberColumn(Fraction(0), Fraction(1, 10**20)), (1e-21, 5e-21)),
        (NumberColumn(Fraction(-(2**62)), Fraction(2**62), kind="integer"), (-5, 0, 5)),
        (COLUMNS["day"], Step(step=100)),
    ],
)
def test_numbers_are_within_their_cells(column: NumberColumn, edges: Any) -> None:
    schema = replace(SCHEMA, columns={"x": column})
    asked = Tables(columns=("x",), edges={"x": edges}, margins="all_one_way")
    (axis,) = asked.axes(schema)
    size = len(axis.labels)
    value = asked.answer(schema, {(0,): [10] * size}, 10 * size)
    made = synthesize(asked, value, schema, rows=40 * size, seed=1)
    numbers = [column.number_of(each) for each in made.columns["x"]]
    assert None not in numbers
    placed = axis.place(np.array(numbers, dtype=column.dtype))
    assert np.bincount(placed, minlength=size).tolist() == [40] * size
    assert all(column.lower <= each <= column.upper for each in numbers)  # type: ignore[operator]
    assert edges == "values" or len(set(numbers)) > 35


def test_unbiased_estimates_make_rows_too() -> None:
    asked = replace(ASKED, raw=True)
    value = answer(asked)
    for table in value["tables"]:
        for place, cell in enumerate(table["cells"]):
            cell["count"] += (-1.75, 1.75)[place % 2]
    value["rows"] += 0.25
    found = synthesize(asked, value, SCHEMA, rows=400, seed=1)
    assert all(fit.released.sum() == 400 for fit in found.fits)
    assert max(fit.total_variation for fit in found.fits if fit.in_model) < 0.05


def test_what_the_tables_do_not_have_is_named() -> None:
    asked = replace(ASKED, margins=(("sex", "owner"), ("owner", "day"), ("age",)))
    found = synthesize(asked, answer(asked), SCHEMA, rows=100, seed=1)
    assert list(found.columns) == ["sex", "age", "owner", "day"]
    assert found.left_out == ["weight"]
    assert found.unmeasured == [
        ("sex", "age"), ("sex", "day"), ("age", "owner"), ("age", "day")
    ]  # fmt: skip
    assert ("age", ()) in found.links
    assert [each["type"] for each in described(found, SCHEMA)] == [
        "category", "integer", "boolean", "date"
    ]  # fmt: skip


def test_too_many_rows_and_groups_are_refused() -> None:
    most = most_rows(ASKED)
    with pytest.raises(InvalidStatisticError, match="rows of 5 columns") as refused:
        synthesize(ASKED, answer(ASKED), SCHEMA, rows=most + 1, seed=1)
    assert refused.value.field_name == "rows"
    with pytest.raises(InvalidStatisticError, match="sex makes groups") as refused:
        synthesize(replace(ASKED, by=("sex",)), by_group(ASKED, 2), SCHEMA, rows=1, seed=1)
    assert refused.value.field_name == "release"


def by_group(asked: Tables, groups: int) -> Any:
    """An answer whose groups have as many records of a table as 1, 2, ... answers."""
    values = [answer(asked) for _ in range(groups)]
    for place, value in enumerate(values, start=1):
        value["rows"] *= place
        for table in value["tables"]:
            for cell in table["cells"]:
                cell["count"] *= place
    return {"groups": [{"by": {}, "value": value} for value in values]}


def test_rows_of_groups_carry_the_groups_columns() -> None:
    bands = Bands(column="age", edges=(10, 20, 40), outside="drop")
    asked = Tables(columns=("owner", "weight"), edges={"weight": (1, 2.5, 4)}, by=("sex", bands))
    value = by_group(asked, 4)
    # the second table of a group is the other way round
    last = value["groups"][3]["value"]["tables"][0]["cells"]
    for cell, count in zip(last, [cell["count"] for cell in reversed(last)], strict=True):
        cell["count"] = count
    found = synthesize(asked, value, SCHEMA, rows=1000, seed=7)
    assert list(found.columns) == ["sex", "age", "owner", "weight"]
    assert {len(each) for each in found.columns.values()} == {1000}
    sex, age = np.array(found.columns["sex"]), np.array(found.columns["age"])
    assert age.min() >= 10
    assert age.max() <= 40
    shares = [
        int(((sex == one) & (age >= low) & (age < low + width)).sum())
        for one in "fm"
        for low, width in ((10, 10), (20, 21))
    ]
    assert shares == [100, 200, 300, 400]
    assert len(set(sex[:20])) == 2, "groups are mixed"
    (fit,) = found.fits
    assert fit.columns == ("sex", "age", "owner", "weight")
    assert fit.in_model
    assert fit.released.shape == fit.synthetic.shape == (2, 2, 2, 4)
    assert fit.synthetic.sum(axis=(2, 3)).ravel().tolist() == shares
    assert fit.total_variation < 0.02
    assert found.links[:2] == [("sex", ()), ("age", ("sex",))]
    assert all(given[:2] == ("sex", "age") for _, given in found.links[2:])
    again = synthesize(asked, value, SCHEMA, rows=1000, seed=7)
    assert again.columns == found.columns
    assert synthesize(asked, value, SCHEMA, rows=1000, seed=8).columns != found.columns


def test_groups_without_records_share_the_rows_evenly() -> None:
    asked = Tables(columns=("owner", "day"), edges={"day": Step(step=100)}, by=("sex",))
    value = by_group(asked, 2)
    for group in value["groups"]:
        group["value"]["rows"] = 0
        for cell in group["value"]["tables"][0]["cells"]:
            cell["count"] = 0
    found = synthesize(asked, value, SCHEMA, rows=11, seed=1)
    assert sorted(found.columns["sex"].count(each) for each in "fm") == [5, 6]


def test_a_level_above_a_table_s_column_makes_no_groups() -> None:
    columns: dict[str, Column] = {
        "place": CategoryColumn(("a", "b", "c")),
        "region": CategoryColumn(("north", "south")),
        "owner": COLUMNS["owner"],
    }
    nested = {"region": Nested("place", (0, 0, 1))}
    schema = Schema(columns, Adjacency.REPLACE_ONE, 400, None, nested=nested)
    asked = Tables(columns=("place", "owner"), by=("region",))
    with pytest.raises(InvalidStatisticError, match="region makes groups"):
        synthesize(asked, {"groups": []}, schema, rows=10, seed=1)


def test_streams_are_those_of_their_names() -> None:
    words = stream(7, "a", 1000)
    assert not np.intersect1d(words, stream(7, "b", 1000)).size
    assert not np.intersect1d(words, stream(8, "a", 1000)).size
    assert np.array_equal(words, stream(7, "a", 2000)[:1000])
