"""From a declaration to what the mechanisms understand."""

from __future__ import annotations

from fractions import Fraction

from app.domain.datasets import CategorySpec, ColumnSpec, ColumnsSpec, NumberSpec
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.privacy import Adjacency


def column_of(spec: ColumnSpec) -> Column:
    """Return the mechanisms' view of one declared column; a boolean is a number in [0, 1]."""
    match spec:
        case NumberSpec():
            return NumberColumn(spec.lower, spec.upper)
        case CategorySpec():
            return CategoryColumn(spec.values)
    return NumberColumn(Fraction(0), Fraction(1), boolean=True)


def schema_of(spec: ColumnsSpec, *, rows: int | None) -> Schema:
    """Return the public schema; ``rows`` is left out under add-remove, where it is private."""
    return Schema(
        columns={name: column_of(column) for name, column in spec.columns.items()},
        adjacency=spec.adjacency,
        rows=rows if spec.adjacency is Adjacency.REPLACE_ONE else None,
        max_rows=spec.max_rows,
    )
