"""What a curator declares about the columns of a data set, read as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction

from app.domain.column_json import parse_column
from app.domain.columns import InvalidSpecError, exact
from app.domain.datasets import ColumnsSpec, parse_columns
from app.engine.schema import WantedColumn, read_definitions, with_derived
from mechanisms.privacy import Adjacency


def declared_columns(
    columns: Mapping[str, Mapping[str, object]],
    derive: Mapping[str, Mapping[str, object]],
    *,
    adjacency: Adjacency,
    max_rows: int | None,
    unit: Mapping[str, object] | None = None,
) -> ColumnsSpec:
    """Return the columns of a spec, and those it derives from them, as they stand in JSON.

    Parameters
    ----------
    derive
        By name: ``expr``, and ``lower`` and ``upper`` where they are narrowed.
    unit
        Who a person is: ``column``, ``max_rows`` and perhaps ``reduce``.

    Raises
    ------
    InvalidSpecError
        All that is not sound in the declaration; each place names its column.
    """
    wanted = {
        name: WantedColumn(
            expression=str(column["expr"]),
            lower=_bound(name, column, "lower"),
            upper=_bound(name, column, "upper"),
        )
        for name, column in derive.items()
    }
    try:
        spec = parse_columns(columns, adjacency=adjacency, max_rows=max_rows, unit=unit)
    except InvalidSpecError as error:
        faults = [*error.more, *_derived_faults(columns, wanted)]
        raise InvalidSpecError(error.field_name, error.detail, faults) from None
    return with_derived(spec, wanted)


def _derived_faults(
    columns: Mapping[str, Mapping[str, object]], wanted: Mapping[str, WantedColumn]
) -> Sequence[InvalidSpecError]:
    """Return what is wrong with derived columns, but for those made of columns that are wrong."""
    sound = {}
    for name, column in columns.items():
        with suppress(InvalidSpecError):
            sound[name] = parse_column(column)
    try:
        # expressions mean the same under every privacy unit
        spec = ColumnsSpec(columns=sound, adjacency=Adjacency.ADD_REMOVE, max_rows=1)
    except InvalidSpecError:
        _, faults = read_definitions(wanted)
        return faults
    try:
        with_derived(spec, wanted, wrong=columns.keys() - sound.keys())
    except InvalidSpecError as error:
        return [InvalidSpecError(error.field_name, error.detail), *error.more]
    return []


def _bound(name: str, column: Mapping[str, object], end: str) -> Fraction | None:
    value = column.get(end)
    if value is None:
        return None
    try:
        return exact(value)  # type: ignore[arg-type]
    except InvalidSpecError as error:
        raise InvalidSpecError(f"derive.{name}.{end}", error.detail) from None
