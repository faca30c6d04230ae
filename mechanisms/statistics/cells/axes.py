"""Public cells of one column: the cells of histograms, and the groups of ``by``.

A category has a cell for each declared value, a boolean two, a number those between its edges:
``[a, b)``. Every record lies in exactly one: where edges leave a part of the bounds out, values
there have cells of their own, ``< a`` and ``>= b``. The last cell is closed where nothing lies
beyond it. Edges are compared with values exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import ceil
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block, Data, InvalidStatisticError, meaning
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Values, exact
from mechanisms.exact.fractions import as_written
from mechanisms.statistics.conditions import Operator, within
from mechanisms.words import worded

MAX_CELLS = 10_000  # keeps an answer, with its noise, within some megabytes

Outside = Literal["cells", "drop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Edges at equal distances."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    step: float = field(
        metadata=meaning(
            "Distance of the edges, from the lower bound on: in the column's units, in days for "
            "dates, in seconds for moments. The last cell ends at the upper bound.",
            example=5,
        )
    )


Edges = tuple[int | float | str, ...] | Step | Literal["values"]
"""Edges that are listed or evenly spaced, or a cell for each whole number."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One column's cells: labels, and the values at which a new cell begins.

    ``starts`` is None for a category, whose values are its cells. ``from_grid`` says that the
    column's sketch distinguishes the cells.
    """

    column: str
    labels: tuple[str, ...]
    starts: Values | None
    from_grid: bool = True

    @property
    def reads(self) -> str:
        """Return under which name a block holds what is placed."""
        return exact(self.column)

    def place(self, values: Values) -> NDArray[np.int64]:
        """Return the cell of each value."""
        if self.starts is None:
            return values.astype(np.int64)
        return np.searchsorted(self.starts, values, side="right").astype(np.int64)

    def count(self, data: Data, column: Column) -> list[int]:
        """Return this axis' counts; from a sketch with the cells, whatever the rows."""
        if not isinstance(column, NumberColumn):
            return [int(count) for count in data.category_counts(self.column)]
        if self.from_grid:
            cells, counts = data.ordered(self.column)
            found = np.zeros(len(self.labels), dtype=np.int64)
            # No start but the column's own lies within a cell of the grid.
            np.add.at(found, self.place(column.clamped(column.grid.starts(cells))), counts)
            return [int(count) for count in found]
        assert self.starts is not None
        key = ("axis", self.column, tuple(self.starts.tolist()))
        return data.remembered(key, partial(self._counted, data), lambda made: 32 * len(made))

    def _counted(self, data: Data) -> list[int]:
        total = np.zeros(len(self.labels), dtype=np.int64)
        for some in data.map(self._counts_of, [self.reads]):
            total += some
        return [int(count) for count in total]

    def _counts_of(self, block: Block) -> NDArray[np.int64]:
        return np.bincount(self.place(block[self.reads]), minlength=len(self.labels))


def axis_of(name: str, column: Column, edges: Edges | None, outside: Outside = "cells") -> Axis:
    """Return a column's cells; edges are given for a number column, and for no other.

    With ``outside`` "drop" there are no cells beyond the edges: what is asked is asked of the
    records between them (:func:`between`).

    Raises
    ------
    InvalidStatisticError
        They are missing, not wanted, or do not fit the column.
    """
    if isinstance(column, NumberColumn) and not column.boolean:
        if edges is None:
            raise _invalid(_example(name, column))
        if edges == "values":
            return _value_axis(name, column)
        return _number_axis(name, column, _listed(name, column, edges), outside)
    if edges is not None:
        raise _invalid("edges are for number columns")
    if isinstance(column, CategoryColumn):
        return Axis(name, column.values, None)
    return Axis(name, ("false", "true"), np.array([1], dtype=column.dtype))


def between(name: str, column: Column, edges: Edges | None) -> list[tuple[Operator, float | str]]:
    """Return the conditions, as operator and value, under which a record lies between the edges."""
    if not isinstance(edges, tuple) or not isinstance(column, NumberColumn) or column.boolean:
        return []
    first, last = _listed(name, column, edges)[:: len(edges) - 1]
    found: list[tuple[Operator, float | str]] = []
    if first > column.lower:
        found.append((">=", edges[0]))
    if last < column.upper:
        found.append(("<=", edges[-1]))
    return found


def about_cells(edges: Edges, column: Column | None) -> int:
    """Return about how many cells edges make, whether or not they fit the column."""
    if isinstance(edges, tuple):
        return len(edges) + 1 if edges else 0
    if not isinstance(column, NumberColumn):
        return 0
    width = column.upper - column.lower
    step = Fraction(1) if edges == "values" else _exact_step(edges)
    return min(ceil(width / step) + 1, MAX_CELLS + 1) if step > 0 else 0


def _exact_step(edges: Step) -> Fraction:
    return as_written(edges.step) if np.isfinite(edges.step) else Fraction(0)


def _value_axis(name: str, column: NumberColumn) -> Axis:
    if not column.whole:
        raise _invalid(
            f"{name} is not a column of whole numbers, so it has no cell for each value; "
            'give edges, or a step such as {"step": 0.5}'
        )
    if column.upper - column.lower >= MAX_CELLS:
        count = column.upper - column.lower + 1
        raise _invalid(
            f"{name} has {count} values, and at most {MAX_CELLS} cells are counted; give edges, or "
            'a step such as {"step": 100}'
        )
    values = np.arange(int(column.lower), int(column.upper) + 1).astype(column.dtype)
    labels = tuple(_text(column, value) for value in values.tolist())
    return _axis(name, column, labels, values[1:])


def _listed(name: str, column: NumberColumn, edges: Edges) -> list[int | float]:
    """Return edges as numbers of the column."""
    if isinstance(edges, Step):
        return _spaced(name, column, edges)
    if not 2 <= len(edges) <= MAX_CELLS + 1:
        raise _invalid(f"give between 2 and {MAX_CELLS + 1} edges")
    places = [number for edge in edges if (number := column.number_of(edge)) is not None]
    if len(places) < len(edges):
        raise _invalid(
            f"the edges of {name} are numbers"
            if column.timed is None
            else f'the edges of {name} are ISO 8601 texts, such as "1960-12-31"'
        )
    if not all(within(column, place) for place in places):
        low, high = column.shown(float(column.lower)), column.shown(float(column.upper))
        raise _invalid(f"the edges of {name} must lie within its bounds, {low} to {high}")
    if any(after <= before for before, after in pairwise(places)):
        raise _invalid(f"the edges of {name} must increase")
    return places


def _spaced(name: str, column: NumberColumn, edges: Step) -> list[int | float]:
    step = _exact_step(edges)
    if step <= 0 or (column.whole and step.denominator != 1):
        raise _invalid(
            f"the step of {name} must be a whole number above 0"
            if column.whole
            else f"the step of {name} must be a number above 0"
        )
    count = ceil((column.upper - column.lower + (1 if column.whole else 0)) / step)
    if not 2 <= count <= MAX_CELLS:
        raise _invalid(
            f"this step makes {count} cells of {name}, and there are between 2 and {MAX_CELLS}"
        )
    # the last cell ends at the bound, as no value is beyond it
    places = [min(column.lower + place * step, column.upper) for place in range(count + 1)]
    return [int(each) if column.whole else float(each) for each in places]


def _number_axis(
    name: str, column: NumberColumn, places: Sequence[int | float], outside: Outside
) -> Axis:
    whole = column.dtype.kind == "i"
    # Of whole numbers those from 2.5 on are those from 3 on.
    starts = [ceil(place) if whole else float(place) for place in places]
    lower, upper = column.clamped(np.array([-np.inf, np.inf])).tolist()
    texts = [_text(column, place) for place in places]
    labels = [f"[{low},{high})" for low, high in pairwise(texts)]
    inner = starts[1:-1]
    if places[-1] == upper or (outside == "drop" and places[-1] < upper):
        labels[-1] = f"[{texts[-2]},{texts[-1]}]"
    elif places[-1] < upper:
        labels.append(f">= {texts[-1]}")
        inner.append(starts[-1])
    if places[0] > lower and outside == "cells":
        labels.insert(0, f"< {texts[0]}")
        inner.insert(0, starts[0])
    if any(after <= before for before, after in pairwise(inner)):
        raise _invalid(f"the edges of {name} leave a cell without a whole number")
    return _axis(name, column, tuple(labels), np.array(inner, dtype=column.dtype))


def _axis(name: str, column: NumberColumn, labels: tuple[str, ...], starts: Values) -> Axis:
    return Axis(name, labels, starts, column.grid.starts_at(starts))


def _text(column: NumberColumn, value: float) -> str:
    if column.timed is not None:
        return column.shown(value)
    return str(value) if isinstance(value, int) else repr(float(value)).removesuffix(".0")


def _example(name: str, column: NumberColumn) -> str:
    """Return the message for a column without edges, with some that it may have."""
    ends = [float(each) for each in (column.lower, column.midpoint, column.upper)]
    shown = [f'"{column.shown(end)}"' if column.timed else column.shown(end) for end in ends]
    edges = f"[{', '.join(shown)}]"
    if column.whole and not column.timed:
        return worded(
            '%(name)s needs edges, such as %(edges)s, or "values" for a cell of each whole number',
            name=name, edges=edges,
        )  # fmt: skip
    return worded("%(name)s needs edges, such as %(edges)s", name=name, edges=edges)


def _invalid(detail: str) -> InvalidStatisticError:
    return InvalidStatisticError(detail, field_name="edges")
