"""Public cells of one column: what a histogram counts in, and what groups are made of.

A category has a cell for each declared value, a boolean two, a number those between its edges:
``[a, b)``, the last one closed. Every record lies in exactly one, as values outside the edges
fall into the end cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Data, InvalidStatisticError
from mechanisms.domain import CODE_MAX, CategoryColumn, Column, NumberColumn
from mechanisms.statistics.conditions import within

MAX_CELLS = 10_000  # keeps an answer, with its noise, within some megabytes


@dataclass(frozen=True, slots=True)
class Axis:
    """One column's cells: labels, and the codes at which a new cell begins.

    ``starts`` is None for a category, whose codes are its cells.
    """

    column: str
    labels: tuple[str, ...]
    starts: NDArray[np.int32] | None

    def place(self, codes: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the cell of each code."""
        if self.starts is None:
            return codes.astype(np.int64)
        return np.searchsorted(self.starts, codes, side="right").astype(np.int64)

    def count(self, data: Data) -> list[int]:
        """Return this axis' counts from the sketches, at a cost free of the row count."""
        if self.starts is None:
            return [int(count) for count in data.category_counts(self.column)]
        codes, counts = data.ordered(self.column)
        cells = np.zeros(len(self.labels), dtype=np.int64)
        np.add.at(cells, self.place(codes), counts)
        return [int(count) for count in cells]


def axis_of(name: str, column: Column, edges: Sequence[float | str] | None) -> Axis:
    """Return a column's cells; edges are given for a number column, and for no other.

    Raises
    ------
    InvalidStatisticError
        They are missing, not wanted, or do not fit the column.
    """
    if isinstance(column, NumberColumn) and not column.boolean:
        if edges is None:
            raise _invalid("a number column needs edges")
        return _number_axis(name, column, edges)
    if edges is not None:
        raise _invalid("edges are for number columns")
    if isinstance(column, CategoryColumn):
        return Axis(name, column.values, None)
    return Axis(name, ("false", "true"), np.array([CODE_MAX], dtype=np.int32))


def _number_axis(name: str, column: NumberColumn, edges: Sequence[float | str]) -> Axis:
    if not 2 <= len(edges) <= MAX_CELLS + 1:
        raise _invalid(f"give between 2 and {MAX_CELLS + 1} edges")
    places = [number for edge in edges if (number := column.number_of(edge)) is not None]
    if len(places) < len(edges):
        wanted = "numbers" if column.timed is None else 'ISO 8601 texts, such as "1960-12-31"'
        raise _invalid(f"the edges of {name} are {wanted}")
    if not all(within(column, place) for place in places):
        raise _invalid("edges must be finite and lie within the column's bounds")
    codes = column.encode(np.array(places, dtype=np.float64)).tolist()
    if any(after <= before for before, after in pairwise(codes)):
        raise _invalid("edges must increase, by more than the column's resolution")
    texts = [_edge_text(column, place) for place in places]
    pairs = list(pairwise(texts))
    labels = [f"[{low},{high})" for low, high in pairs[:-1]] + [f"[{pairs[-1][0]},{pairs[-1][1]}]"]
    return Axis(name, tuple(labels), np.array(codes[1:-1], dtype=np.int32))


def _edge_text(column: NumberColumn, value: float) -> str:
    return repr(float(value)).removesuffix(".0") if column.timed is None else column.shown(value)


def _invalid(detail: str) -> InvalidStatisticError:
    return InvalidStatisticError(detail, field_name="edges")
