"""Column declarations: what is sound is kept exactly, what contradicts itself is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from app.domain.columns import (
    BooleanSpec,
    CategorySpec,
    Fill,
    InvalidSpecError,
    NumberSpec,
    exact,
)
from app.domain.datasets import ColumnsSpec, columns_json, parse_columns
from app.engine.schema import schema_of
from mechanisms.domain import CategoryColumn, NumberColumn, Typical
from mechanisms.privacy import Adjacency
from tests.tiers import in_one

NUMBER: dict[str, object] = {"type": "number", "lower": 0, "upper": 1}


def _parse(column: dict[str, Any], **spec: Any) -> ColumnsSpec:
    return parse_columns(
        {"x": column}, **{"adjacency": Adjacency.REPLACE_ONE, "max_rows": None, **spec}
    )


def test_declared_decimals_are_exact() -> None:
    spec = _parse({"type": "number", "lower": -0.1, "upper": 1e-3, "missing": 0.7})
    assert spec.columns["x"] == NumberSpec(
        lower=Fraction(-1, 10), upper=Fraction(1, 1000), missing=Fill(Fraction(7, 10))
    )
    assert exact(10**30) == 10**30


def test_json_round_trip_keeps_columns_in_order() -> None:
    columns: dict[str, dict[str, object]] = {
        "z": {"type": "number", "lower": -0.5, "upper": 3, "missing": 1},
        "a": {"type": "category", "values": ["v", "u"], "missing": "u"},
        "m": {"type": "boolean", "missing": False},
        "k": {"type": "boolean", "missing": "drop"},
    }
    spec = parse_columns(columns, adjacency=Adjacency.ADD_REMOVE, max_rows=5)
    assert columns_json(spec) == columns
    assert list(columns_json(spec)) == list(columns)


CATEGORY: dict[str, object] = {"type": "category", "values": ["u", "v"]}


@pytest.mark.parametrize(
    "column",
    [
        {**NUMBER, "missing": "reject", "typical": {"mean": 0.25, "std": 0.5}},
        {**CATEGORY, "missing": "reject", "typical": {"v": 3}},
        {"type": "boolean", "missing": "reject", "typical": 0.125},
    ],
)
def test_what_is_typical_is_kept_and_in_the_schema_only_the_scale_of_numbers(
    column: dict[str, Any],
) -> None:
    spec = _parse(column)
    assert columns_json(spec) == {"x": column}
    plain = {name: value for name, value in column.items() if name != "typical"}
    known, other = (schema_of(each, rows=7).columns["x"] for each in (spec, _parse(plain)))
    if column["type"] == "number":
        assert isinstance(known, NumberColumn)
        assert known.typical == Typical(Fraction(1, 4), Fraction(1, 2))
        known = replace(known, typical=None)
    assert known == other


@in_one(
    ("column", "place"),
    [
        ({**NUMBER, "typical": {"mean": 2, "std": 1}}, "typical.mean"),
        ({**NUMBER, "typical": {"mean": 0.5, "std": 0}}, "typical.std"),
        ({**NUMBER, "typical": {"mean": 0.5, "std": 2}}, "typical.std"),
        ({**NUMBER, "typical": {"mean": "0.5", "std": 1}}, "typical.mean"),
        ({**NUMBER, "typical": {"mean": 0.5}}, "typical"),
        ({**NUMBER, "typical": 0.5}, "typical"),
        ({**CATEGORY, "typical": {"w": 1}}, "typical"),
        ({**CATEGORY, "typical": {"u": -1, "v": 2}}, "typical"),
        ({**CATEGORY, "typical": {"u": 0}}, "typical"),
        ({**CATEGORY, "typical": {}}, "typical"),
        ({**CATEGORY, "typical": [1, 2]}, "typical"),
        ({"type": "boolean", "typical": 1.5}, "typical"),
        ({"type": "date", "lower": "2020-01-01", "upper": "2021-01-01",
          "typical": {"mean": 1, "std": 1}}, "typical"),
    ],
)  # fmt: skip
def test_what_cannot_be_typical_is_refused(column: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        _parse(column)
    assert refused.value.field_name == f"columns.x.{place}"


def test_the_mechanisms_schema() -> None:
    columns = {"n": NUMBER, "c": {"type": "category", "values": ["u"]}, "b": {"type": "boolean"}}
    spec = parse_columns(columns, adjacency=Adjacency.REPLACE_ONE, max_rows=None)
    schema = schema_of(spec, rows=7)
    assert dict(schema.columns) == {
        "n": NumberColumn(Fraction(0), Fraction(1)),
        "c": CategoryColumn(("u",)),
        "b": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    }
    assert schema.rows == 7


def test_under_add_remove_the_schema_never_holds_the_row_count() -> None:
    spec = _parse(NUMBER, adjacency=Adjacency.ADD_REMOVE, max_rows=9)
    schema = schema_of(spec, rows=7)
    assert (schema.rows, schema.max_rows, schema.row_bound) == (None, 9, 9)


@in_one(
    ("column", "place"),
    [
        ({**NUMBER, "lower": 2}, "columns.x.lower"),
        ({**NUMBER, "lower": 1}, "columns.x.lower"),
        ({**NUMBER, "upper": float("inf")}, "columns.x.upper"),
        ({**NUMBER, "lower": float("nan")}, "columns.x.lower"),
        ({**NUMBER, "upper": 10**400}, "columns.x.lower"),
        ({**NUMBER, "upper": 1e-200}, "columns.x.lower"),
        ({**NUMBER, "upper": True}, "columns.x.upper"),
        ({**NUMBER, "upper": "1"}, "columns.x.upper"),
        ({**NUMBER, "missing": "kept"}, "columns.x.missing"),
        ({**NUMBER, "missing": float("inf")}, "columns.x.missing"),
        ({**NUMBER, "missing": "drop"}, "columns.x.missing"),
        ({**NUMBER, "values": []}, "columns.x"),
        ({"type": "number", "lower": 0}, "columns.x"),
        ({"type": "date"}, "columns.x"),
        ({}, "columns.x"),
        ({"type": "category", "values": []}, "columns.x.values"),
        ({"type": "category", "values": ["u", "u"]}, "columns.x.values"),
        ({"type": "category", "values": ["u", ""]}, "columns.x.values"),
        ({"type": "category", "values": ["u\nv"]}, "columns.x.values"),
        ({"type": "category", "values": ["u", 1]}, "columns.x.values"),
        ({"type": "category", "values": ["u"], "missing": "v"}, "columns.x.missing"),
        ({"type": "boolean", "missing": "yes"}, "columns.x.missing"),
        ({"type": "boolean", "missing": 2}, "columns.x.missing"),
    ],
)
def test_a_contradiction_is_refused_at_its_place(column: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        _parse(column)
    assert caught.value.field_name == place


@in_one(
    "spec",
    [
        {"columns": {}},
        {"columns": {"": BooleanSpec()}},
        {"columns": {"x" * 101: BooleanSpec()}},
        {"columns": {"x\x00": BooleanSpec()}},
        {"columns": {"x": BooleanSpec()}, "adjacency": Adjacency.ADD_REMOVE},
        {"columns": {"x": BooleanSpec()}, "max_rows": 0},
        {"columns": {"x": CategorySpec(values=("u",), missing="drop")}},
    ],
)
def test_the_columns_together(spec: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpecError):
        ColumnsSpec(**{"adjacency": Adjacency.REPLACE_ONE, **spec})


# Levels: what the values of a category belong to

TOWNS: dict[str, Any] = {
    "type": "category",
    "values": ["a", "b", "c"],
    "within": {"column": "county", "of": {"a": "x", "b": "x", "c": "y"}},
}
COUNTIES: dict[str, Any] = {
    "type": "category",
    "values": ["y", "x"],
    "missing": "reject",
    "labels": {"x": "Xshire"},
    "within": {"column": "nation", "of": {"y": "w", "x": "w"}},
}


def _levels(**columns: Any) -> ColumnsSpec:
    return parse_columns({"town": TOWNS, **columns}, adjacency=Adjacency.REPLACE_ONE, max_rows=None)


def test_levels_are_columns_that_are_not_stored() -> None:
    spec = _levels(county=COUNTIES, income=NUMBER)
    assert list(spec.columns) == ["town", "county", "nation", "income"]
    assert list(spec.stored) == list(spec.in_file) == list(spec.own) == ["town", "income"]
    assert spec.levels == {"county": "town", "nation": "county"}
    again = parse_columns(columns_json(spec), adjacency=Adjacency.REPLACE_ONE, max_rows=None)
    assert again == spec
    schema = schema_of(spec, rows=3)
    assert list(schema.as_stored) == ["town", "income"]
    # of each value below, and of no value
    assert {name: (each.source, each.codes) for name, each in schema.nested.items()} == {
        "county": ("town", (1, 1, 0, 2)),
        "nation": ("county", (0, 0, 1)),
    }


def test_a_level_that_is_not_declared_has_the_values_that_are_named() -> None:
    county = _levels().columns["county"]
    assert isinstance(county, CategorySpec)
    assert county.values == ("x", "y")


def test_levels_above_a_column_that_keeps_missing_cells_have_them_too() -> None:
    spec = _levels(town={**TOWNS, "missing": "keep"}, county=COUNTIES, income=NUMBER)
    assert spec.optional == {"town", "county", "nation"}
    schema = schema_of(spec, rows=3)
    assert schema.optional == spec.optional
    town = schema.as_stored["town"]
    assert isinstance(town, CategoryColumn)
    assert town.values == ("a", "b", "c", "missing")


OF_TOWNS = TOWNS["within"]["of"]


@in_one(
    ("columns", "place"),
    [
        ({"town": {**TOWNS, "within": {"column": "county"}}}, "columns.town.within"),
        ({"town": {**TOWNS, "within": "county"}}, "columns.town.within"),
        (
            {"town": {**TOWNS, "within": {"column": "county", "of": ["x"]}}},
            "columns.town.within.of",
        ),
        (
            {"town": {**TOWNS, "within": {"column": 7, "of": OF_TOWNS}}},
            "columns.town.within.column",
        ),
        (  # not all values
            {"town": {**TOWNS, "within": {"column": "county", "of": {"a": "x", "b": "y"}}}},
            "columns.town.within.of",
        ),
        (  # what is no value
            {"town": {**TOWNS, "within": {"column": "county", "of": {**OF_TOWNS, "d": "x"}}}},
            "columns.town.within.of",
        ),
        (  # one value twice, as cells are read
            {"town": {**TOWNS, "within": {"column": "county", "of": {**OF_TOWNS, " a": "x"}}}},
            "columns.town.within.of",
        ),
        (
            {"town": {**TOWNS, "within": {"column": "county", "of": {**OF_TOWNS, "c": ""}}}},
            "columns.town.within.of",
        ),
        ({"town": {**TOWNS, "other": "rest"}}, "columns.town.within.of"),
        ({"county": NUMBER}, "columns.town.within.column"),
        ({"county": {**COUNTIES, "values": ["y", "x", "z"]}}, "columns.county.within.of"),
        (  # a value of the level that no town belongs to
            {"county": {"type": "category", "values": ["x", "y", "z"]}},
            "columns.town.within.of",
        ),
        ({"county": {**COUNTIES, "missing": "keep"}}, "columns.county.missing"),
        ({"county": {**COUNTIES, "typical": {"x": 1}}}, "columns.county.typical"),
        (
            {"county": {**COUNTIES, "within": {"column": "town", "of": {"x": "a", "y": "b"}}}},
            "columns.town.within.column",
        ),
        (
            {"town": {**TOWNS, "within": {"column": "town", "of": {"a": "a", "b": "a", "c": "b"}}}},
            "columns.town.within.column",
        ),
        (  # a level of two columns
            {"office": {**CATEGORY, "within": {"column": "county", "of": {"u": "x", "v": "y"}}}},
            "columns.town.within.column",
        ),
    ],
)
def test_levels_that_do_not_fit_are_refused(columns: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        _levels(**columns)
    assert place in {each.field_name for each in refused.value.faults}


def test_a_level_is_no_person_and_nothing_derived() -> None:
    with pytest.raises(InvalidSpecError, match="unit's column"):
        parse_columns(
            {"town": TOWNS},
            adjacency=Adjacency.ADD_REMOVE,
            max_rows=9,
            unit={"column": "county", "max_rows": 2},
        )
    with pytest.raises(InvalidSpecError, match="has this name already"):
        parse_columns(
            {"town": TOWNS},
            adjacency=Adjacency.ADD_REMOVE,
            max_rows=9,
            derived={"county": {"type": "boolean", "expr": 'town == "a"'}},
        )
