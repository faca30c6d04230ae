"""A pass over rows is the same wherever its function is called: it travels, and nothing else."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mechanisms import views
from mechanisms.contract import Block, Data, T
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.expressions.derived import Definition, DerivedColumn
from mechanisms.parted import parts_of
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData
from mechanisms.statistics.cells.parting import Parting
from mechanisms.statistics.conditions import Condition
from mechanisms.views import RowView
from tests.tiers import in_one

ROWS = 500
COLUMNS = {
    "x": NumberColumn(Fraction(0), Fraction(10)),
    "kind": CategoryColumn(("a", "b", "c")),
}
MANY = 10**9  # derived columns are computed in every pass, not held
DEFINITIONS = {
    "root": Definition.read("sqrt(x)"),
    "large": Definition.read("x > 5"),
    "both": Definition.read("root + large"),
}


def rows() -> ArrayData:
    random = np.random.default_rng(4)
    values = {"x": random.uniform(0, 10, ROWS), "kind": random.choice(["a", "b", "c"], ROWS)}
    return ArrayData.from_values(schema(ROWS), {name: list(v) for name, v in values.items()})


def schema(count: int) -> Schema:
    return Schema(columns=COLUMNS, rows=count, adjacency=Adjacency.REPLACE_ONE)


@dataclass(frozen=True)
class Elsewhere:
    """Data whose passes are made after a journey: what does not travel fails."""

    data: ArrayData

    def __getattr__(self, name: str) -> Any:
        return getattr(self.data, name)

    def map(self, function: Callable[[Block], T], columns: Sequence[str], /) -> Iterator[T]:
        for block in self.data.blocks(columns):
            arrived = pickle.loads(pickle.dumps(function))
            yield pickle.loads(pickle.dumps(arrived(block)))


def summed(block: Block) -> dict[str, int]:
    return {name: int(codes.astype(np.int64).sum()) for name, codes in block.items()}


def shown(data: Any, count: int) -> Data:
    return (
        RowView(schema(count)).adding(DEFINITIONS, dict.fromkeys(DEFINITIONS, "derive")).over(data)
    )


def part(data: Any) -> Data:
    where = (Condition(column="x", op=">=", value=3.0),)
    return parts_of(data, Parting.of(where, ("kind",), schema(ROWS)))[1]


SOURCES: dict[str, tuple[Callable[[Any], Data], list[str]]] = {
    "rows": (lambda data: data, ["x", "kind"]),
    "view held": (lambda data: shown(data, ROWS), ["both", "x"]),
    "view not held": (lambda data: shown(data, MANY), ["both", "large", "x"]),
    "view alone": (lambda data: shown(data, MANY), ["root"]),
    "part": (part, ["x"]),
    "part of a view": (lambda data: part(shown(data, MANY)), ["both", "x"]),
}


@in_one(("source", "columns"), SOURCES.values())
def test_a_pass_is_the_function_of_each_block(
    source: Callable[[Any], Data], columns: list[str]
) -> None:
    here, there = source(rows()), source(Elsewhere(rows()))
    wanted = [summed(block) for block in here.blocks(columns)]
    assert all(list(each) == columns for each in wanted)
    assert list(here.map(summed, columns)) == wanted == list(there.map(summed, columns))


def made_of_all_before(count: int) -> dict[str, Definition]:
    """Return columns of which each is a mean of others that come before it."""
    made = {"c0": Definition.read("x / 2")}
    for place in range(1, count):
        before = [f"c{each}" for each in range(max(0, place - 4), place)]
        made[f"c{place}"] = Definition.read(f"({' + '.join(before)}) / {len(before)}")
    return made


def test_columns_that_are_made_of_one_another_are_computed_once_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a draw is expected to take counts each once, and each has the others below it."""
    definitions, data = made_of_all_before(20), rows()
    view = RowView(schema(ROWS)).adding(definitions, dict.fromkeys(definitions, ""))
    asked, computed = list(definitions)[4:], list[str]()
    values = DerivedColumn.values

    def counted(made: DerivedColumn, block: Block) -> Any:
        computed.append(str(made.tree))
        return values(made, block)

    alone = [view.over(data).gram([name])[0][1] for name in asked]
    monkeypatch.setattr(DerivedColumn, "values", counted)
    assert view.over(rows()).gram(asked)[0][1:] == alone
    blocks = len(list(data.blocks(["x"])))
    assert len(computed) == blocks * len(definitions)


def test_a_column_is_told_from_others_without_reading_those_below_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    definitions, told = made_of_all_before(20), list[str]()
    view = RowView(schema(ROWS)).adding(definitions, dict.fromkeys(definitions, ""))
    key: Any = DerivedColumn.key

    def counted(made: DerivedColumn) -> Any:
        told.append(str(made.tree))
        return key.fget(made)

    monkeypatch.setattr(DerivedColumn, "key", property(counted))
    assert len({view.key(name) for name in definitions}) == len(definitions)
    assert len(told) == len(definitions)


def test_the_plans_of_one_question_find_its_columns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation makes a hundred plans, for other numbers of rows."""
    definitions, facts = made_of_all_before(20), replace(schema(ROWS), columns={**COLUMNS})
    made, found = list[object](), views.derived_columns

    def counted(*given: Any, **more: Any) -> Any:
        made.append(given)
        return found(*given, **more)

    monkeypatch.setattr(views, "derived_columns", counted)
    first, *others = [
        RowView(replace(facts, rows=count)).adding(definitions, dict.fromkeys(definitions, ""))
        for count in (ROWS, 10, 20)
    ]
    assert len(made) == 1
    assert all(other.added == first.added for other in others)
    assert [other.schema.rows for other in others] == [10, 20]
    narrow = {**COLUMNS, "x": NumberColumn(Fraction(0), Fraction(1))}
    another = RowView(replace(facts, columns=narrow)).adding({**definitions}, {})
    assert another.added["c0"].column.upper == Fraction(1, 2), "of other columns they are others"
