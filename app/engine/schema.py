"""From a declaration to what the mechanisms understand."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from app.domain.columns import CategorySpec, ColumnSpec, InvalidSpecError, NumberSpec, refuse
from app.domain.datasets import ColumnsSpec, DerivedSpec
from app.domain.units import protected_by
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema, presence_of
from mechanisms.expressions.definitions import Definition, NamedError, derived_columns
from mechanisms.expressions.derived import DefinitionError, DerivedColumn
from mechanisms.privacy import Adjacency

_MOST_FAULTS = 20
"""The most faults of derived columns that are reported: each takes another look at all of them."""


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
            zone = spec.reading.timezone
            return NumberColumn(spec.lower, spec.upper, kind=spec.kind, zone=zone)
        case CategorySpec():
            return CategoryColumn(spec.values, trim=spec.trim)
    return NumberColumn(Fraction(0), Fraction(1), boolean=True)


def schema_of(spec: ColumnsSpec, *, rows: int | None) -> Schema:
    """Return the public schema; ``rows`` is left out under add-remove, where it is private."""
    return Schema(
        columns={name: column_of(column) for name, column in spec.stored.items()},
        adjacency=spec.adjacency,
        # no plan may follow from a number that is private
        rows=rows if spec.adjacency is Adjacency.REPLACE_ONE else None,
        max_rows=spec.max_rows,
        protects=protected_by(spec.unit),
        optional=spec.optional,
    )


def presences_of(spec: ColumnsSpec) -> list[str]:
    """Return the names of the stored booleans that say which cells are there."""
    return [presence_of(name) for name in spec.stored if name in spec.optional]


def with_derived(
    spec: ColumnsSpec, wanted: Mapping[str, WantedColumn], *, wrong: Collection[str] = ()
) -> ColumnsSpec:
    """Return a declaration with columns that are derived from its others.

    What is made of columns that are ``wrong`` is left out.

    Raises
    ------
    InvalidSpecError
        Expressions that cannot be read or do not fit the columns; the place of one is
        ``derive.<name>`` and what of it is wrong.
    """
    definitions, faults = read_definitions(wanted)
    columns = _all_made(spec, definitions, {*wanted, *wrong} - {*definitions}, faults)
    made = {
        name: DerivedSpec(
            expression=str(column.tree),
            lower=column.column.lower,
            upper=column.column.upper,
            boolean=column.column.boolean,
            optional=bool(column.misses),
        )
        for name, column in columns.items()
    }
    return replace(spec, derived=made)


def read_definitions(
    wanted: Mapping[str, WantedColumn],
) -> tuple[dict[str, Definition], list[InvalidSpecError]]:
    """Return the definitions that can be read, and what is wrong with the others."""
    definitions, faults = {}, []
    for name, column in wanted.items():
        try:
            definitions[name] = Definition.read(
                column.expression, lower=column.lower, upper=column.upper
            )
        except DefinitionError as error:
            faults.append(InvalidSpecError(f"derive.{name}.{error.part}", error.detail))
    return definitions, faults


def _all_made(
    spec: ColumnsSpec,
    definitions: Mapping[str, Definition],
    wrong: set[str],
    faults: list[InvalidSpecError],
) -> Mapping[str, DerivedColumn]:
    """Return the derived columns, or raise all faults; those made of wrong ones are left out."""
    left, made = dict(definitions), dict[str, DerivedColumn]()
    while len(faults) < _MOST_FAULTS:
        # What is made of a wrong column is not faulted too: it may be right once that one is.
        while of_wrong := {name for name, each in left.items() if wrong & {*each.tree.columns}}:
            wrong |= of_wrong
            left = {name: each for name, each in left.items() if name not in wrong}
        try:
            made = dict(_made(spec, left))
            break
        except NamedError as error:
            faults.append(_told(error))
            wrong.add(error.name)
            del left[error.name]
    refuse(faults)
    return made


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
    try:
        return _made(spec, definitions)
    except NamedError as error:
        raise _told(error) from None


def _made(spec: ColumnsSpec, definitions: Mapping[str, Definition]) -> Mapping[str, DerivedColumn]:
    columns = {name: column_of(column) for name, column in spec.columns.items()}
    kept = spec.optional & columns.keys()
    return derived_columns(definitions, columns, may_miss=True, optional=kept)


def _told(error: NamedError) -> InvalidSpecError:
    place = ".".join(part for part in ("derive", error.name, error.part) if part)
    return InvalidSpecError(place, error.detail)
