"""What every statistic may be asked of: the records that meet conditions, and groups of them.

    D_c = {x in D : x meets every condition of ``where`` and lies in the group c of ``by``},

c a public cell: a declared category value, true or false, or a range between edges; of several
columns every combination of theirs, the first column's changing last. Which D_c a record is
in, if any, is a public function of that record alone. What follows for privacy:
:mod:`mechanisms.filtered` and :mod:`mechanisms.grouped`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import (
    Block,
    InvalidStatisticError,
    meaning,
    require_column,
)
from mechanisms.domain import CategoryColumn, Schema
from mechanisms.statistics.cells.axes import Axis, axis_of
from mechanisms.statistics.conditions import (
    Comparison,
    Condition,
    comparisons,
)

MAX_GROUPS = 256  # a row's group then fits 16 bits, with one more for none


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """A number column cut into groups at public edges."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    column: str = field(metadata=meaning("A number column's name.", example="age"))
    edges: tuple[float | str, ...] = field(
        metadata=meaning(
            "Increasing edges within the column's bounds, dates as ISO texts: groups `[a, b)`, the "
            "last one closed. Values outside fall into the end groups.",
            example=[18, 40, 65],
        )
    )


Where = tuple[Condition, ...]
By = tuple[str | Bands, ...]

WHERE = meaning(
    "Conditions that a record must meet, all of them, for the answer to be about it; at most 20.",
    example=[{"column": "ocean_proximity", "op": "==", "value": "INLAND"}],
)
"""Of the field ``where``, the last but one of every statistic."""

BY = meaning(
    "Columns whose public cells make groups, each with an answer of its own: categories "
    "and booleans by name, number columns with their edges. Between 2 and 256 groups.",
    example=["ocean_proximity", {"column": "median_income", "edges": [0, 3, 6, 15]}],
)
"""Of the field ``by``, the last of every statistic."""


def about_groups(by: By, schema: Schema) -> int:
    """Return the number of groups, whether or not they fit the schema, up to the limit."""
    groups = 1 if by else 0
    for each in by[:MAX_GROUPS]:
        column = schema.columns.get(each) if isinstance(each, str) else None
        values = column.values if isinstance(column, CategoryColumn) else ()
        groups *= max(len(values) if isinstance(each, str) else len(each.edges), 2)
        if groups > MAX_GROUPS:
            return MAX_GROUPS
    return groups


@dataclass(frozen=True, slots=True, eq=False)
class Parting:
    """The public parts D_c of the records; without ``axes`` there is one."""

    conditions: tuple[Comparison, ...]
    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, where: Where, by: By, schema: Schema) -> Parting:
        """Return the parts that these conditions and groups make.

        Raises
        ------
        InvalidStatisticError
            Conditions or groups do not fit the schema, or there are too many.
        """
        found = set(comparisons(where, schema))
        # One order for all spellings: what is computed for a parting is remembered by it.
        ordered = sorted(found, key=lambda each: (each.column, each.op, each.codes))
        return cls(tuple(ordered), _axes(by, schema))

    @property
    def key(self) -> Hashable:
        """Return what is equal for two selections that make the same parts, and for no others."""
        cells = tuple(
            (axis.column, None if axis.starts is None else tuple(axis.starts.tolist()))
            for axis in self.axes
        )
        return self.conditions, cells

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that place a record, each once."""
        named = [each.column for each in self.conditions] + [axis.column for axis in self.axes]
        return tuple(dict.fromkeys(named))

    @property
    def cells(self) -> int:
        """Return the number of parts."""
        return _size(self.axes)

    @property
    def labels(self) -> list[Mapping[str, str]]:
        """Return each part's labels, in the order of the parts."""
        names = [axis.column for axis in self.axes]
        combined = product(*(axis.labels for axis in self.axes))
        return [dict(zip(names, labels, strict=True)) for labels in combined]

    def place(self, block: Block) -> NDArray[np.uint16]:
        """Return the part of each row; ``cells`` for a row in none."""
        rows = len(block[self.columns[0]])
        place = np.zeros(rows, dtype=np.int64)
        for axis in self.axes:
            place = place * len(axis.labels) + axis.place(block[axis.column])
        for condition in self.conditions:
            # A part beyond the last is that of no group, and is left out of every answer.
            place[~condition.mask(block)] = self.cells
        return place.astype(np.uint16)


def _size(axes: Iterable[Axis]) -> int:
    return prod(len(axis.labels) for axis in axes)


def _axes(by: By, schema: Schema) -> tuple[Axis, ...]:
    names = [each if isinstance(each, str) else each.column for each in by]
    if len(set(names)) != len(names):
        raise InvalidStatisticError("a column is named twice", field_name="by")
    axes = tuple(_axis(place, each, schema) for place, each in enumerate(by))
    if by and not 2 <= _size(axes) <= MAX_GROUPS:
        raise InvalidStatisticError(
            f"there are between 2 and {MAX_GROUPS} groups; count them by the columns' declared "
            "values and edges, of several columns multiplied",
            field_name="by",
        )
    return axes


def _axis(place: int, asked: str | Bands, schema: Schema) -> Axis:
    name, edges = (asked, None) if isinstance(asked, str) else (asked.column, asked.edges)
    column = require_column(schema, name, f"by[{place}]")
    try:
        return axis_of(name, column, edges)
    except InvalidStatisticError as error:
        raise InvalidStatisticError(error.detail, field_name=f"by[{place}]") from None


def merged(by: By) -> tuple[Sequence[str], Mapping[str, tuple[float | str, ...]]]:
    """Return the groups' columns and edges as a histogram takes them."""
    names = tuple(each if isinstance(each, str) else each.column for each in by)
    return names, {each.column: each.edges for each in by if not isinstance(each, str)}
