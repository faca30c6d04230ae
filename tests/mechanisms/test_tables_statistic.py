"""The statistic `tables`: refused questions, answers that agree, intervals that hold."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mechanisms import margins
from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import estimate_error
from mechanisms.estimates.trees import at
from mechanisms.estimates.verdicts import judged, judged_release
from mechanisms.margins.release import MarginNoise
from mechanisms.privacy import Adjacency, Epsilon, Protected
from mechanisms.sketches import ArrayData
from mechanisms.statistics import tables
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.tables import Tables
from mechanisms.tables.records import MOST_RECORDS
from mechanisms.testing import seeded_randomness
from tests.speed import in_time
from tests.tiers import in_one

COLUMNS = {
    "age": NumberColumn(Fraction(0), Fraction(100), kind="integer"),
    "sex": CategoryColumn(("f", "m")),
    "region": CategoryColumn(("north", "south", "east")),
    "owner": NumberColumn(Fraction(0), Fraction(1), boolean=True),
}
ROWS = 400
AGES = {"age": (0, 18, 40, 65, 100)}
ASKED = Tables(columns=("region", "age", "sex"), edges=AGES)


def schema(adjacency: Adjacency = Adjacency.REPLACE_ONE, **facts: Any) -> Schema:
    rows = ROWS if adjacency is Adjacency.REPLACE_ONE else None
    return replace(Schema(COLUMNS, adjacency, rows, 1000), **facts)


def data() -> ArrayData:
    generator = np.random.default_rng(2)
    kinds = generator.integers(0, 3, ROWS)
    values = {
        "age": (generator.integers(0, 40, ROWS) + 30 * kinds).clip(0, 100).tolist(),
        "sex": ["fm"[each] for each in generator.integers(0, 2, ROWS)],
        "region": [("north", "south", "east")[each] for each in kinds],
        "owner": (generator.random(ROWS) < 0.2 + 0.3 * kinds).astype(int).tolist(),
    }
    return ArrayData.from_values(schema(), values)


DATA = data()


def release(asked: Tables, facts: Schema, *, epsilon: str = "1", seed: int = 1) -> Any:
    plan = calibrate(asked, facts, Epsilon.parse(epsilon))
    return plan.draw(DATA, seeded_randomness(seed)).settled()


def margin(table: Any, name: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for cell in table["cells"]:
        at = cell["cell"][name]
        found[at] = found.get(at, 0) + cell["count"]
    return found


@in_one(
    ("changes", "place", "words"),
    [
        ({"columns": ()}, "columns", "at least one column"),
        ({"columns": ("sex", "sex")}, "columns", "twice"),
        ({"columns": ("sex", "sec"), "edges": {}}, "columns", "sex"),
        ({"columns": ("age",), "edges": {}}, "edges", "needs edges"),
        ({"edges": {**AGES, "agee": (1, 2)}}, "edges", "not counted"),
        ({"margins": (("age", "sex"), ("sex", "age"))}, "margins", "twice"),
        ({"margins": (("age", "income"),)}, "margins", "not among the columns"),
        ({"margins": (("age", "age"),)}, "margins", "each once"),
        ({"margins": ((),)}, "margins", "at least one column"),
        ({"margins": ()}, "margins", "at least one margin"),
    ],
)
def test_a_question_that_does_not_fit_is_refused(
    changes: dict[str, Any], place: str, words: str
) -> None:
    with pytest.raises(InvalidStatisticError, match=words) as refused:
        calibrate(replace(ASKED, **changes), schema(), Epsilon.parse("1"))
    assert refused.value.field_name == place


def test_one_cell_is_no_table() -> None:
    facts = replace(schema(), columns={**COLUMNS, "one": CategoryColumn(("a",))})
    with pytest.raises(InvalidStatisticError, match="two cells"):
        calibrate(Tables(columns=("one",)), facts, Epsilon.parse("1"))


@in_one("adjacency", list(Adjacency))
@in_one("order", [1, 2, 3])
def test_tables_agree_and_add_up(adjacency: Adjacency, order: int) -> None:
    every: Any = ["all_one_way", "all_two_way", "all_three_way"][order - 1]
    found = release(replace(ASKED, margins=every), schema(adjacency), epsilon="0.3").value
    assert all(len(table["columns"]) == order for table in found["tables"])
    for table in found["tables"]:
        counts = [cell["count"] for cell in table["cells"]]
        assert all(isinstance(count, int) and count >= 0 for count in counts)
        assert sum(counts) == found["rows"]
    for name in ASKED.columns:
        own = [margin(table, name) for table in found["tables"] if name in table["columns"]]
        assert all(each == own[0] for each in own)
    assert adjacency is Adjacency.ADD_REMOVE or found["rows"] == ROWS


def test_the_order_of_tables_and_columns_is_the_question_s() -> None:
    asked = replace(ASKED, margins=(("sex", "region"), ("age",)))
    found = release(asked, schema()).value
    assert [table["columns"] for table in found["tables"]] == [["region", "sex"], ["age"]]
    assert found["tables"][1]["cells"][0]["cell"] == {"age": "[0,18)"}


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("where", [(), (Condition(column="age", op="<", value=50),)])
def test_at_a_large_epsilon_the_counts_are_exact(adjacency: Adjacency, where: Any) -> None:
    """Raw estimates are the counts; fitted ones are near them."""
    kept = [
        dict(zip(DATA.codes, row, strict=True))
        for row in zip(*(DATA.codes[name].tolist() for name in DATA.codes), strict=True)
    ]
    sexes = [
        COLUMNS["age"].decode(row["age"]) < 50 and row["sex"] == 0  # type: ignore[union-attr]
        for row in kept
    ]
    exact = sum(sexes) if where else sum(row["sex"] == 0 for row in kept)
    for raw in (True, False):
        asked = replace(ASKED, raw=raw, where=where)
        found = release(asked, schema(adjacency), epsilon="5000").value
        table = next(each for each in found["tables"] if "sex" in each["columns"])
        assert margin(table, "sex")["f"] == pytest.approx(exact, abs=0.01 if raw else 4)


@pytest.mark.statistical
@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("epsilon", ["0.2", "2"])
def test_intervals_hold_the_exact_counts(raw: bool, epsilon: str) -> None:
    """At least 95% of all cells over 60 releases, less five standard errors of that share."""
    asked = replace(ASKED, raw=raw, columns=("region", "sex", "owner"), edges={})
    exact = release(replace(asked, raw=True), schema(), epsilon="9000").value
    plan = calibrate(asked, schema(), Epsilon.parse(epsilon))
    held, widths, wide = [], [], []
    for seed in range(60):
        outcome = plan.draw(DATA, seeded_randomness(seed)).settled()
        assert outcome.noise is not None
        ends: Any = outcome.noise.interval_95
        own = [
            (low - 0.5 <= cell["count"] <= high + 0.5, high - low)
            for table, known in zip(ends["tables"], exact["tables"], strict=True)
            for (low, high), cell in (
                (each["count"], there)
                for each, there in zip(table["cells"], known["cells"], strict=True)
            )
        ]
        held.append(np.mean([inside for inside, _ in own]))
        widths += [width for _, width in own]
        std: Any = outcome.noise.std
        wide += [each["count"] for table in std["tables"] for each in table["cells"]]
    assert np.mean(held) > 0.95 - 5 * np.std(held) / np.sqrt(len(held))
    assert np.mean(held) < 0.999 or not raw  # they are no wider than they need to be
    assert np.mean(widths) < 4.3 * np.mean(wide) + 1


def test_a_person_of_several_rows_and_groups() -> None:
    facts = schema(Adjacency.ADD_REMOVE, protects=Protected(3, "a person"))
    plan = calibrate(ASKED, facts, Epsilon.parse("1"))
    assert plan.guarantee.rho == Fraction(1, 2)
    grouped = release(Tables(columns=("sex", "owner"), by=("region",)), schema(), epsilon="1").value
    assert len(grouped["groups"]) == 3
    assert all(each["value"]["rows"] >= 0 for each in grouped["groups"])


def test_a_noisy_number_of_rows_is_within_its_public_limit() -> None:
    for seed in range(3):
        facts = schema(Adjacency.ADD_REMOVE)
        assert 0 <= release(ASKED, facts, epsilon="0.000001", seed=seed).value["rows"] <= 1000
    assert MOST_RECORDS > 1000


def test_parameters_of_another_workload_are_refused() -> None:
    noise = MarginNoise(law="laplace", epsilon=Fraction(1), shares=(1,))
    with pytest.raises(ValueError, match="other margins"):
        noise.drawing(ASKED, schema())
    other: Any = Condition(column="age", op="<", value=1)
    with pytest.raises(InvalidStatisticError, match="releases tables"):
        margins.calibrate(other, schema(), Epsilon.parse("1"), "auto")


@pytest.mark.parametrize("coarse", [True, False])
def test_an_estimate_has_one_number_for_each_table(
    monkeypatch: pytest.MonkeyPatch, coarse: bool
) -> None:
    """A million cells of 4,950 tables: what is estimated never lists the cells."""
    names = tuple(f"c{place}" for place in range(100))
    levels = CategoryColumn(tuple(f"v{place}" for place in range(14)))
    facts = replace(schema(), columns=dict.fromkeys(names, levels))
    asked = Tables(columns=names)
    monkeypatch.setattr(tables, "product", None)  # what lists the cells
    began = time.process_time()
    plan = calibrate(asked, facts, Epsilon.parse("1"))
    noise = plan.preview(None)
    found = estimate_error(
        asked, facts, Epsilon.parse("1"), mechanism="auto", norm="auto",
        assumptions=Assumptions(), coarse=coarse,
    )  # fmt: skip
    assert in_time(time.process_time() - began, 6)
    assert noise is not None
    trees: list[Any] = [
        noise.std, noise.interval_95, found.expected_error, found.possible_range
    ]  # fmt: skip
    for tree in trees:
        assert [set(each) for each in tree["tables"]] == [{"columns", "count"}] * 4950
        assert at(tree, ["tables", 7, "cells", 195, "count"]) == tree["tables"][7]["count"]
        assert at(tree, ["tables", 7, "cells"]) is None
    assert asked.planning_ms(facts, "auto") < 2_000
    assert "c0 × c1" in found.usefulness.sentence


def test_a_release_is_judged_by_the_noise_of_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors that are one number for a table are those of each of its cells."""
    monkeypatch.setattr(tables, "MOST_LISTED", 0)
    outcome = release(ASKED, schema(), epsilon="4")
    thin: Any = outcome.noise.expected_error
    wide = {
        **thin,
        "tables": [
            {**own, "cells": [{**cell, "count": each["count"]} for cell in own["cells"]]}
            for own, each in zip(outcome.value["tables"], thin["tables"], strict=True)
        ],
    }
    before = judged(None, None)
    sentences = {judged_release(before, ["nothing"], outcome.value, each) for each in (thin, wide)}
    assert len(sentences) == 1
    fewer = [{**each, "count": 1e9} for each in thin["tables"]]
    hidden = judged_release(before, ["nothing"], outcome.value, {**thin, "tables": fewer})
    assert hidden not in sentences


def test_a_plan_says_how_long_it_takes() -> None:
    few, many = (
        calibrate(replace(ASKED, raw=raw), schema(), Epsilon.parse("1")).expected_ms
        for raw in (True, False)
    )
    assert 0 < few < many < 10_000
    assert ASKED.planning_ms(schema(), "auto") < 100
    ranges: Any = ASKED.possible_ranges(schema(), 400.0)
    assert ranges["rows"] == [0.0, 400.0]
    assert ranges["tables"][0]["cells"][3]["count"] == [0.0, pytest.approx(5 * 400 / 12)]
    assert ASKED.answer_numbers(schema()) == 12 + 6 + 8 + 1
