"""From a declaration to what the mechanisms understand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from app.domain.columns import CategorySpec, ColumnSpec, InvalidSpecError, NumberSpec
from app.domain.datasets import ColumnsSpec, DerivedSpec
from app.domain.units import protected_by
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.expressions.definitions import Definition, NamedError, derived_columns
from mechanisms.expressions.derived import DefinitionError, DerivedColumn
from mechanisms.privacy import Adjacency


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedColumn:
    """A column to derive, as a curator writes it."""

    expression: str
    lower: Fraction | None = None
    upper: Fraction | None = None


def column_of(spec: ColumnSpec | DerivedSpec) -> Column:
    """Return the mechanisms' view of one column; a boolean is a number in [0, 1]."""
    match spec:
        case DerivedSpec():
            return NumberColumn(spec.lower, spec.upper, boolean=spec.boolean)
        case NumberSpec():
            return NumberColumn(spec.lower, spec.upper, kind=spec.kind)
        case CategorySpec():
            return CategoryColumn(spec.values)
    return NumberColumn(Fraction(0), Fraction(1), boolean=True)


def schema_of(spec: ColumnsSpec, *, rows: int | None) -> Schema:
    """Return the public schema; ``rows`` is left out under add-remove, where it is private."""
    return Schema(
        columns={name: column_of(column) for name, column in spec.stored.items()},
        adjacency=spec.adjacency,
        rows=rows if spec.adjacency is Adjacency.REPLACE_ONE else None,
        max_rows=spec.max_rows,
        protects=protected_by(spec.unit),
    )


def with_derived(spec: ColumnsSpec, wanted: Mapping[str, WantedColumn]) -> ColumnsSpec:
    """Return a declaration with columns that are derived from its others.

    Raises
    ------
    InvalidSpecError
        An expression that cannot be read or does not fit the columns; its place is
        ``derive.<name>`` and what of it is wrong.
    """
    definitions = {}
    for name, column in wanted.items():
        try:
            definitions[name] = Definition.read(
                column.expression, lower=column.lower, upper=column.upper
            )
        except DefinitionError as error:
            raise InvalidSpecError(f"derive.{name}.{error.part}", error.detail) from None
    made = {
        name: DerivedSpec(
            expression=str(column.tree),
            lower=column.column.lower,
            upper=column.column.upper,
            boolean=column.column.boolean,
        )
        for name, column in _derived(spec, definitions).items()
    }
    return replace(spec, derived=made)


def derived_of(spec: ColumnsSpec) -> Mapping[str, DerivedColumn]:
    """Return how each derived column is computed, in an order in which that can be done."""
    definitions = {
        name: Definition.read(column.expression)
        if column.boolean
        else Definition.read(column.expression, lower=column.lower, upper=column.upper)
        for name, column in spec.derived.items()
    }
    return _derived(spec, definitions)


def _derived(
    spec: ColumnsSpec, definitions: Mapping[str, Definition]
) -> Mapping[str, DerivedColumn]:
    columns = {name: column_of(column) for name, column in spec.columns.items()}
    try:
        return derived_columns(definitions, columns, may_miss=True)
    except NamedError as error:
        place = ".".join(part for part in ("derive", error.name, error.part) if part)
        raise InvalidSpecError(place, error.detail) from None
