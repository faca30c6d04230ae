"""A pass over rows is the same wherever its function is called: it travels, and nothing else."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mechanisms.contract import Block, Data, T
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.expressions.definitions import Definition
from mechanisms.parted import parts_of
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData
from mechanisms.statistics.cells.parting import Parting
from mechanisms.statistics.conditions import Condition
from mechanisms.views import RowView

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


@pytest.mark.parametrize(("source", "columns"), SOURCES.values(), ids=SOURCES)
def test_a_pass_is_the_function_of_each_block(
    source: Callable[[Any], Data], columns: list[str]
) -> None:
    here, there = source(rows()), source(Elsewhere(rows()))
    wanted = [summed(block) for block in here.blocks(columns)]
    assert all(list(each) == columns for each in wanted)
    assert list(here.map(summed, columns)) == wanted == list(there.map(summed, columns))
