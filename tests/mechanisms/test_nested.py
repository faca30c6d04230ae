"""Levels above a category: columns like any other, made of it when they are read."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CategoryColumn, Nested, NumberColumn, Schema, exact, presence_of
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.cells.parting import Bands
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.questions import Question, stored_columns_read, viewed
from mechanisms.statistics.tables import Tables
from mechanisms.statistics.total import Sum
from mechanisms.testing import seeded_randomness
from mechanisms.views import RowView
from tests.tiers import in_one

TOWNS = ("a", "b", "c", "d", "e")
COUNTY = dict(zip(TOWNS, "xyxyz", strict=True))
NATION = {"x": "east", "y": "west", "z": "west"}
PLAIN = Schema(
    columns={
        "town": CategoryColumn(TOWNS),
        "county": CategoryColumn(("z", "x", "y")),
        "nation": CategoryColumn(("east", "west")),
        "age": NumberColumn(Fraction(0), Fraction(99), kind="integer"),
    },
    adjacency=Adjacency.ADD_REMOVE,
    rows=None,
    max_rows=400,
    # the higher level first: the order of a spec is the curator's
    nested={
        "nation": Nested("county", (1, 0, 1, 2)),
        "county": Nested("town", (1, 2, 1, 2, 0, 3)),
    },
)
LACKING = replace(PLAIN, optional=frozenset({"town", "county", "nation"}))
ROWS = 300


def rows_of(schema: Schema) -> tuple[ArrayData, dict[str, list[Any]]]:
    """Return data, and every column's values as a file that had all levels would have them."""
    generator = np.random.default_rng(7)
    cells: list[Any] = [*TOWNS, *([None] if schema.optional else [])]
    towns = [cells[place] for place in generator.integers(0, len(cells), ROWS)]
    ages = generator.integers(0, 100, ROWS).tolist()
    counties = [None if town is None else COUNTY[town] for town in towns]
    plain = {
        "town": towns,
        "county": counties,
        "nation": [None if each is None else NATION[each] for each in counties],
        "age": ages,
    }
    stored = {name: plain[name] for name in schema.as_stored}
    return ArrayData.from_values(schema, stored), plain


def in_file(schema: Schema) -> Schema:
    """Return the schema of the same data with levels stored like other columns."""
    return replace(schema, nested={})


@pytest.mark.parametrize("schema", [PLAIN, LACKING])
def test_a_level_reads_like_a_stored_column(schema: Schema) -> None:
    data, plain = rows_of(schema)
    seen = RowView.of(schema).over(data)
    stored = ArrayData.from_values(in_file(schema), plain)
    names = ["nation", exact("nation"), exact("county"), "county", exact("town"), exact("age")]
    if schema.optional:
        names += [presence_of("nation"), presence_of("county")]
    found = {name: np.concatenate([each[name] for each in seen.blocks(names)]) for name in names}
    wanted = {name: np.concatenate([each[name] for each in stored.blocks(names)]) for name in names}
    there = np.array([each is not None for each in plain["town"]])
    for name in names:
        # where a record has no value, no statistic reads what stands there but the missing cell
        assert np.array_equal(found[name][there], wanted[name][there]), name
    for name, each in wanted.items():
        if name == presence_of("nation"):
            assert np.array_equal(found[name], each)
    mapped = list(seen.map(lambda block: len(block["nation"]), ["nation"]))
    assert sum(mapped) == ROWS


QUESTIONS: tuple[Question, ...] = (
    Histogram(columns=("nation",)),
    Histogram(columns=("county", "age"), edges={"age": (0, 30, 99)}),
    Histogram(
        columns=("town", "nation"),
        where=(Condition(column="county", op="in", value=("x", "z")),),
    ),
    Count(by=("nation",)),
    Count(
        derive={"west": 'nation == "west" and age > 40'},
        where=(Condition(column="west", op="==", value=True),),
    ),
    Mean(columns=("age",), by=("county",)),
    Tables(columns=("nation", "county", "age"), edges={"age": (0, 30, 99)}),
)


@in_one("question", QUESTIONS)
@in_one("schema", [PLAIN, LACKING])
@in_one("adjacency", list(Adjacency))
def test_draws_are_bit_for_bit_those_of_stored_levels(
    question: Question, schema: Schema, adjacency: Adjacency
) -> None:
    rows = ROWS if adjacency is Adjacency.REPLACE_ONE else None
    nested = replace(schema, adjacency=adjacency, rows=rows)
    data, plain = rows_of(nested)
    stored = ArrayData.from_values(in_file(nested), plain)
    drawn = [
        calibrate(question, facts, Epsilon.parse("1")).draw(each, seeded_randomness(3))
        for facts, each in ((nested, data), (in_file(nested), stored))
    ]
    assert drawn[0].value == drawn[1].value
    assert drawn[0].noise == drawn[1].noise


@pytest.mark.parametrize("kind", ["nation", "county"])
def test_records_without_a_value_have_a_cell_of_the_level(kind: str) -> None:
    data, plain = rows_of(LACKING)
    sure = Epsilon.parse("1000")
    asked = Histogram(columns=(kind,), missing="cell")
    cells = calibrate(asked, LACKING, sure).draw(data, seeded_randomness(1)).value["cells"]
    found = {each["cell"][kind]: each["count"] for each in cells}
    assert found["missing"] == plain["town"].count(None)
    assert sum(found.values()) == ROWS


def test_of_a_level_the_stored_column_is_read() -> None:
    asked = Histogram(columns=("nation", "age"), edges={"age": (0, 99)})
    assert set(stored_columns_read(asked, PLAIN)) == {"town", "age"}
    facts = viewed(Count(by=("nation",)), LACKING).facts
    assert facts["excludes_missing"] == ["town"]


# Very many groups


MANY = 3_000
WIDE = Schema(
    columns={
        "place": CategoryColumn(tuple(map(str, range(MANY)))),
        "half": CategoryColumn(("even", "odd")),
        "age": NumberColumn(Fraction(0), Fraction(99), kind="integer"),
        "pay": NumberColumn(Fraction(0), Fraction(9)),
    },
    adjacency=Adjacency.ADD_REMOVE,
    rows=None,
    max_rows=20_000,
    nested={"half": Nested("place", (*(place % 2 for place in range(MANY)), 2))},
)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_thousands_of_groups_are_those_of_each(adjacency: Adjacency) -> None:
    rows = 9_000
    public = rows if adjacency is Adjacency.REPLACE_ONE else None
    schema = replace(WIDE, adjacency=adjacency, rows=public)
    places = [str(row * row % MANY) for row in range(rows)]
    cells = {"place": places, "age": [row % 90 for row in range(rows)], "pay": [1.0] * rows}
    data = ArrayData.from_values(schema, cells)
    sure = Epsilon.parse("4000")
    for asked in (Count(by=("place",)), Sum(columns=("pay",), by=("place",))):
        value = calibrate(asked, schema, sure).draw(data, seeded_randomness(1)).value
        groups: Any = value["groups"]
        assert len(groups) == MANY
        for each in groups:
            (found,) = each["value"].values()
            assert found == pytest.approx(places.count(each["by"]["place"]), abs=0.5)
    plan = calibrate(Mean(columns=("age",), by=("place",)), schema, Epsilon.parse("1"))
    assert plan.details["groups"] == MANY
    assert plan.expected_ms > 0.1 * MANY


@pytest.mark.parametrize(
    "asked",
    [
        LinearRegression(target="pay", features=("age",), by=("place",)),
        Sum(columns=("age",), weights="pay", by=("place",)),
        Tables(columns=("half",), margins="all_one_way", by=("place",)),
        Histogram(columns=("half", "pay"), edges={"pay": (0, 9)}, by=("place",)),
    ],
    ids=lambda each: each.kind,
)
def test_what_reads_the_rows_of_each_group_has_fewer(asked: Question) -> None:
    with pytest.raises(InvalidStatisticError, match="at most 256") as refused:
        calibrate(asked, WIDE, Epsilon.parse("1"))
    assert refused.value.field_name == "by"


def test_there_are_ten_thousand_groups_at_most() -> None:
    bands = Bands(column="age", edges="values")
    with pytest.raises(InvalidStatisticError, match=r"between 2 and 10,000"):
        calibrate(Count(by=("place", bands)), WIDE, Epsilon.parse("1"))
    with pytest.raises(InvalidStatisticError, match="at most 10000 numbers"):
        calibrate(
            Quantile(column="age", levels=(0.1, 0.5, 0.8, 0.9), by=("place",)),
            WIDE,
            Epsilon.parse("1"),
        )
