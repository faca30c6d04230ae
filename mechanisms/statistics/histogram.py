"""Counts of the cells of one or several columns.

A record lies in exactly one cell, so T(X) - T(X') is

- replace-one: ``e_i - e_j`` or 0. The row count is public, the cells sum to it,
  and the hull ``{sum u = 0, ||u||_1 <= 2}`` is drawn from inside that hyperplane;
- replace-one with conditions: a record may also leave or enter, so also ``±e_i``,
  with the hull ``max(sum u+, sum u-) <= 1`` (see :mod:`mechanisms.geometry.histograms`);
- add-remove: ``±e_i``, whose hull is the l1 ball.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise, product
from math import prod
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import (
    Data,
    InvalidStatisticError,
    Json,
    meaning,
    require_column,
)
from mechanisms.domain import CODE_MAX, CategoryColumn, Column, NumberColumn, Schema
from mechanisms.geometry.histograms import HistogramBall
from mechanisms.geometry.spaces import AdjacentOutputSpace
from mechanisms.privacy import Adjacency
from mechanisms.statistics.additive import AdditiveForm, Coordinates, Leaf, Tree, constant_slopes
from mechanisms.statistics.conditions import (
    Condition,
    Selection,
    check_conditions,
    condition_columns,
    values_ms,
    within,
)
from mechanisms.statistics.questions import Question

MAX_CELLS = 10_000  # keeps an answer, with its noise, within some megabytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram(Question):
    """Counts per cell, the product of the columns' cells in declared order."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "k_norm": ("optimal", "l1", "l2", "linf")
    }
    limits: ClassVar[Mapping[str, int]] = {"cells": MAX_CELLS}
    example: ClassVar[Json] = {"kind": "histogram", "columns": ["ocean_proximity"]}

    kind: Literal["histogram"] = "histogram"
    columns: tuple[str, ...] = field(
        metadata=meaning(
            "Category, boolean or number columns, each named once. There is one cell for each "
            "combination of theirs, between 2 and 10,000."
        )
    )
    edges: Mapping[str, tuple[float, ...]] = field(
        default_factory=dict,
        metadata=meaning(
            "For each number column its increasing edges, within the column's bounds: cells "
            "`[a, b)`, the last one closed. Values outside fall into the end cells.",
            example={"median_income": [0, 3, 6, 15]},
        ),
    )
    where: tuple[Condition, ...] = field(
        default=(),
        metadata=meaning(
            "Conditions that a record must meet, all of them, to be counted; at most 20.",
            example=[{"column": "median_income", "op": ">=", "value": 6}],
        ),
    )

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        check_conditions(self.where, schema)
        if not self.columns:
            raise InvalidStatisticError("name at least one column", field_name="columns")
        if len(set(self.columns)) != len(self.columns):
            raise InvalidStatisticError("a column is named twice", field_name="columns")
        if not set(self.edges) <= set(self.columns):
            raise _invalid("edges are given for a column that is not counted")
        if not 2 <= self.size(schema) <= MAX_CELLS:
            raise InvalidStatisticError(
                f"a histogram has between 2 and {MAX_CELLS} cells", field_name="columns"
            )

    def planning_ms(self, schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 1 + 0.03 * self._about_size(schema) + values_ms(self.where)

    def _about_size(self, schema: Schema) -> int:
        """Return the number of cells, whether or not the question fits the schema."""
        if len(self.columns) > len(schema.columns):
            return 0  # refused, and not worth a walk through all of them
        sizes = []
        for name in self.columns:
            column, edges = schema.columns.get(name), self.edges.get(name, ())
            sizes.append(len(column.values) if isinstance(column, CategoryColumn) else len(edges))
        return prod(sizes)

    def size(self, schema: Schema) -> int:
        """Return the number of cells."""
        return prod(len(axis.labels) for axis in self._axes(schema))

    def additive(self, schema: Schema) -> AdditiveForm:
        """Return the histogram's form: one coordinate per cell, step 1."""
        axes, cells = self._axes(schema), self.size(schema)
        names = [
            dict(zip(self.columns, labels, strict=True))
            for labels in product(*(axis.labels for axis in axes))
        ]

        slopes = [{index: Fraction(1)} for index in range(cells)]

        def answer(coordinates: Coordinates) -> Tree:
            return {
                "cells": [
                    {"cell": name, "count": Leaf(value=value, slopes=slope, whole=True)}
                    for name, value, slope in zip(names, coordinates, slopes, strict=True)
                ]
            }

        return AdditiveForm(
            space=_space(cells, schema.adjacency, filtered=bool(self.where)),
            total=lambda data: self._total(data, schema, axes),
            answer=answer,
            reference=constant_slopes(cells),
            grid=lambda step: {"step": {"count": float(step)}},
            details={},
            noise_size=cells,
            columns_read=0 if self._sketched else len(self._columns_read),
            where=self.where,
            linear=True,
        )

    @property
    def _sketched(self) -> bool:
        """Return whether the sketches hold the counts."""
        return len(self.columns) == 1 and not self.where

    @property
    def _columns_read(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.columns, *condition_columns(self.where))))

    def _axes(self, schema: Schema) -> list[_Axis]:
        return [
            _axis(name, require_column(schema, name, "columns"), self.edges.get(name))
            for name in self.columns
        ]

    def _total(self, data: Data, schema: Schema, axes: Sequence[_Axis]) -> list[int]:
        if self._sketched:
            return axes[0].count(data)
        shape = [len(axis.labels) for axis in axes]
        counts = np.zeros(prod(shape), dtype=np.int64)
        selection = Selection.of(self.where, schema)
        for block in data.blocks(self._columns_read):
            cell = np.zeros(len(block[self.columns[0]]), dtype=np.int64)
            for axis, size in zip(axes, shape, strict=True):
                cell = cell * size + axis.place(block[axis.column])
            chosen = selection.among(block, len(cell))
            counts += np.bincount(cell[chosen], minlength=len(counts))
        return [int(count) for count in counts]


@dataclass(frozen=True, slots=True)
class _Axis:
    """One column's cells: labels, and the codes at which a new cell begins."""

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


def _axis(name: str, column: Column, edges: Sequence[float] | None) -> _Axis:
    if isinstance(column, NumberColumn) and not column.boolean:
        if edges is None:
            raise _invalid("a number column needs edges")
        return _number_axis(name, column, edges)
    if edges is not None:
        raise _invalid("edges are for number columns")
    if isinstance(column, CategoryColumn):
        return _Axis(name, column.values, None)
    return _Axis(name, ("false", "true"), np.array([CODE_MAX], dtype=np.int32))


def _number_axis(name: str, column: NumberColumn, edges: Sequence[float]) -> _Axis:
    if not 2 <= len(edges) <= MAX_CELLS + 1:
        raise _invalid(f"give between 2 and {MAX_CELLS + 1} edges")
    if not all(within(column, edge) for edge in edges):
        raise _invalid("edges must be finite and lie within the column's bounds")
    codes = column.encode(np.array(edges, dtype=np.float64)).tolist()
    if any(after <= before for before, after in pairwise(codes)):
        raise _invalid("edges must increase, by more than the column's resolution")
    texts = [_number_text(edge) for edge in edges]
    pairs = list(pairwise(texts))
    labels = [f"[{low},{high})" for low, high in pairs[:-1]] + [f"[{pairs[-1][0]},{pairs[-1][1]}]"]
    return _Axis(name, tuple(labels), np.array(codes[1:-1], dtype=np.int32))


def _number_text(value: float) -> str:
    text = repr(float(value))
    return text.removesuffix(".0")


def _space(cells: int, adjacency: Adjacency, *, filtered: bool) -> AdjacentOutputSpace:
    one, two = Fraction(1), Fraction(2)
    if adjacency is Adjacency.ADD_REMOVE:
        return AdjacentOutputSpace(
            dimension=cells,
            l1=one,
            linf=one,
            l2_squared=one,
            hull="cross_polytope",
            description="the l1 ball: plus or minus one record in one cell",
            negligible_structure=False,
            unit=1,
            unit_name="records",
        )
    description = "differences e_i - e_j of two cells: sum zero, l1 norm at most 2"
    if filtered:
        description += ", and single cells, as a record may stop meeting the conditions"
    return AdjacentOutputSpace(
        dimension=cells,
        l1=two,
        linf=one,
        l2_squared=two,
        hull="other",
        norm_ball=HistogramBall(cells, filtered),
        description=description,
        negligible_structure=False,
        unit=1,
        unit_name="records",
    )


def _invalid(detail: str) -> InvalidStatisticError:
    return InvalidStatisticError(detail, field_name="edges")
