"""The records of a question: those that meet its conditions, and groups of them.

    D_c = {x in D : x meets every condition of ``where`` and lies in the group c of ``by``},

c a public cell: a declared category value, true or false, or a range between edges; of several
columns every combination of theirs, the first column's changing last. Which D_c a record is
in, if any, is a public function of that record alone. What follows for privacy:
:mod:`mechanisms.filtered` and :mod:`mechanisms.grouped`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
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
from mechanisms.domain import CategoryColumn, Column, Schema
from mechanisms.statistics.cells.axes import (
    Axis,
    Edges,
    Outside,
    about_cells,
    axis_of,
    between,
)
from mechanisms.statistics.cells.possible import require_groups, require_possible
from mechanisms.statistics.conditions import (
    Comparison,
    Condition,
    comparisons,
)

MAX_GROUPS = 10_000  # a row's group then fits 16 bits, with one more for none


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """A number column cut into groups at public edges."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    column: str = field(metadata=meaning("A number column's name.", example="age"))
    edges: Edges = field(
        metadata=meaning(
            "Increasing edges within the column's bounds, dates as ISO texts: groups `[a, b)`, the "
            'last one closed where it ends at the bound. Or `{"step": 5}`, or `"values"` for a '
            "group for each whole number.",
            example=[18, 40, 65],
        )
    )
    outside: Outside = field(
        default="cells",
        metadata=meaning(
            "What becomes of values outside the edges: `cells`, groups of their own, `< a` and "
            "`>= b`; or `drop`, left out.",
            example="drop",
        ),
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
    "and booleans by name, number columns with their edges. Between 2 and 10,000 groups.",
    example=["ocean_proximity", {"column": "median_income", "edges": [0, 3, 6, 15]}],
)
"""Of the field ``by``, the last of every statistic."""


def about_groups(by: By, schema: Schema) -> int:
    """Return the number of groups, whether or not they fit the schema, up to the limit."""
    groups = 1 if by else 0
    for each in by[:MAX_GROUPS]:
        column = schema.columns.get(each) if isinstance(each, str) else None
        values = column.values if isinstance(column, CategoryColumn) else ()
        facts = None if isinstance(each, str) else schema.columns.get(each.column)
        groups *= max(len(values) if isinstance(each, str) else about_cells(each.edges, facts), 2)
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
        require_possible(where, schema)
        found = set(comparisons(where, schema))
        # One order for all spellings: results are cached by the parting.
        ordered = sorted(found, key=lambda each: (each.column, each.op, each.numbers))
        axes = _axes(by, schema)
        require_groups(where, axes, schema)
        return cls(tuple(ordered), axes)

    @property
    def key(self) -> Hashable:
        """Return a key that is equal exactly for selections that make the same parts."""
        cells = tuple(
            (axis.column, None if axis.starts is None else tuple(axis.starts.tolist()))
            for axis in self.axes
        )
        return self.conditions, cells

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the values that a block needs to place records, each once."""
        named = [each.reads for each in self.conditions] + [axis.reads for axis in self.axes]
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
            place = place * len(axis.labels) + axis.place(block[axis.reads])
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
        sizes = " x ".join(f"{axis.column}: {len(axis.labels):,}" for axis in axes)
        raise InvalidStatisticError(
            f"this makes 1 group ({sizes}), and there are between 2 and {MAX_GROUPS:,}"
            if _size(axes) == 1
            else f"this makes {_size(axes):,} groups ({sizes}), and there are between 2 and "
            f"{MAX_GROUPS:,}",
            field_name="by",
        )
    return axes


def _axis(place: int, asked: str | Bands, schema: Schema) -> Axis:
    bands = asked if isinstance(asked, Bands) else None
    name = asked if isinstance(asked, str) else asked.column
    column = require_column(schema, name, f"by[{place}]")
    try:
        if bands is None:
            return axis_of(name, column, None)
        return axis_of(name, column, bands.edges, bands.outside)
    except InvalidStatisticError as error:
        raise InvalidStatisticError(error.detail, field_name=f"by[{place}]") from None


def columns_of(by: By) -> tuple[str, ...]:
    """Return the groups' columns."""
    return tuple(each if isinstance(each, str) else each.column for each in by)


def columns_named(statistic: object) -> tuple[str, ...]:
    """Return the columns that a question about plain columns is of, conditions and groups apart."""
    several = [getattr(statistic, name, None) or () for name in ("columns", "features")]
    single = [getattr(statistic, name, None) for name in ("column", "target", "offset", "weights")]
    named = [str(name) for names in several for name in names]
    named += [each.column if isinstance(each, Condition) else str(each) for each in single if each]
    return tuple(dict.fromkeys(named))


def is_of_each_column(statistic: object) -> bool:
    """Return whether each column's number is about the records that have a value of that column.

    A statistic that is not made column by column is refused for asking so, not split.
    """
    columns = getattr(statistic, "columns", ())
    asked = getattr(statistic, "missing", None) == "available" and len(columns) > 1
    return asked and bool(getattr(statistic, "column_by_column", False))


@dataclass(frozen=True, slots=True)
class Merged:
    """The groups' columns, edges and what becomes of the rest, as a histogram takes them."""

    names: tuple[str, ...]
    edges: Mapping[str, Edges]
    outside: Mapping[str, Outside]

    @classmethod
    def of(cls, by: By) -> Merged:
        """Return them of groups."""
        bands = [each for each in by if not isinstance(each, str)]
        return cls(
            columns_of(by),
            {each.column: each.edges for each in bands},
            {each.column: each.outside for each in bands},
        )


def conditions_between(name: str, column: Column, edges: Edges | None) -> list[Condition]:
    """Return the conditions under which a record lies between edges."""
    return [
        Condition(column=name, op=op, value=value) for op, value in between(name, column, edges)
    ]


def dropping(by: By, schema: Schema) -> Where:
    """Return the conditions under which a record is in a group, where others are left out."""
    return tuple(
        condition
        for each in by
        if isinstance(each, Bands) and each.outside == "drop" and each.column in schema.columns
        for condition in conditions_between(each.column, schema.columns[each.column], each.edges)
    )
