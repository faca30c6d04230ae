"""Counts of the cells of one or several columns.

A record lies in exactly one cell, so T(X) - T(X') is

- replace-one: ``e_i - e_j`` or 0. The row count is public, the cells sum to it,
  and the hull ``{sum u = 0, ||u||_1 <= 2}`` is drawn from inside that hyperplane;
- replace-one with conditions: a record may also leave or enter, so also ``±e_i``,
  with the hull ``max(sum u+, sum u-) <= 1`` (see :mod:`mechanisms.geometry.histograms`);
- add-remove: ``±e_i``, whose hull is the l1 ball.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import (
    Block,
    Data,
    ErrorLaw,
    InvalidStatisticError,
    Json,
    NearZero,
    meaning,
    require_column,
)
from mechanisms.domain import CategoryColumn, Schema
from mechanisms.geometry.histograms import HistogramBall
from mechanisms.geometry.spaces import AdjacentOutputSpace
from mechanisms.privacy import Adjacency
from mechanisms.probes import ENDS, Probe
from mechanisms.statistics.additive import AdditiveForm, Coordinates, Leaf, Tree, constant_slopes
from mechanisms.statistics.cells.axes import (
    MAX_CELLS,
    Axis,
    Edges,
    Outside,
    about_cells,
    axis_of,
)
from mechanisms.statistics.cells.parting import Merged, Where, conditions_between
from mechanisms.statistics.cells.spelling import spelled_edges, spelled_outside
from mechanisms.statistics.facts.defaults import most_of
from mechanisms.statistics.questions import Question, widened
from mechanisms.words import meant


@runtime_checkable
class CellStatistic(Protocol):
    """A statistic that counts the records of cells."""

    def axes(self, schema: Schema) -> list[Axis]:
        """Return each column's cells; of no column there is one cell."""

    def over_groups(self, groups: Merged) -> Histogram:
        """Return the histogram over all groups, and its own cells in each."""

    def of_cells(self, cells: Sequence[Mapping[str, Any]], groups: Collection[str]) -> Json:
        """Return its answer from the cells of one group, without the groups' labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram(Question):
    """Counts per cell, the product of the columns' cells in declared order."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    has_cells: ClassVar[bool] = True
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "k_norm": ("optimal", "l1", "l2", "linf")
    }
    limits: ClassVar[Mapping[str, int]] = {"cells": MAX_CELLS}
    example: ClassVar[Json] = {"kind": "histogram", "columns": ["ocean_proximity"]}
    probes: ClassVar[tuple[Probe, ...]] = (
        Probe({"kind": "histogram", "columns": ["group"]}, ENDS),
    )
    error_law: ClassVar[ErrorLaw] = "linear"
    near_zero: ClassVar[NearZero] = "nothing"
    counts_records: ClassVar[bool] = True
    stated_fields: ClassVar[frozenset[str]] = frozenset({"where"})

    kind: Literal["histogram"] = "histogram"
    columns: tuple[str, ...] = field(
        metadata=meaning(
            "Category, boolean or number columns, each named once. There is one cell for each "
            "combination of theirs, between 2 and 10,000."
        )
    )
    edges: Mapping[str, Edges] = field(
        default_factory=dict,
        metadata=meaning(
            "For each number column its increasing edges, within the column's bounds (dates as ISO "
            'texts), `{"step": 5}` for edges at equal distances, or `"values"` for a cell for each '
            "whole number. Cells are `[a, b)`; the last one is closed where it ends at the bound.",
            example={"median_income": [0, 3, 6, 15]},
        ),
    )
    outside: Outside | Mapping[str, Outside] = field(
        default="cells",
        metadata=meaning(
            "What becomes of values outside the edges: `cells`, counted in cells of their own, "
            "`< a` and `>= b`; or `drop`, left out. For all columns, or by column.",
            example="drop",
        ),
    )

    def spelled(self, schema: Schema, /) -> Mapping[str, object]:
        """Return the common fields and the edges, in their canonical spelling."""
        wider = widened(self, schema)
        edges = {name: spelled_edges(each, name, wider) for name, each in self.edges.items()}
        outside = spelled_outside(self.outside, [*self.edges])
        return {**Question.spelled(self, schema), "edges": edges, "outside": outside}

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        if not self.columns:
            raise InvalidStatisticError("name at least one column", field_name="columns")
        if len(set(self.columns)) != len(self.columns):
            raise InvalidStatisticError("a column is named twice", field_name="columns")
        for name in self.edges:
            if name not in self.columns:
                close = meant(self.columns, name)
                raise _invalid(f"edges are given for a column that is not counted{close}")
        if not 2 <= self.size(schema) <= MAX_CELLS:
            raise InvalidStatisticError(
                f"a histogram has between 2 and {MAX_CELLS} cells", field_name="columns"
            )

    def possible_ranges(self, schema: Schema, rows: float, /) -> Json:
        """Return none to five times an equal share of the rows, in each cell."""
        cells = self.size(schema)
        return {"cells": [{"count": [0.0, most_of(rows / cells, rows)]}] * cells}

    def answer_numbers(self, schema: Schema, /) -> int:
        """Return the number of cells."""
        return self.size(schema)

    def over_groups(self, groups: Merged) -> Histogram:
        """Return the histogram over all groups, and its own cells in each.

        Raises
        ------
        InvalidStatisticError
            A column is counted and makes groups.
        """
        if set(groups.names) & set(self.columns):
            raise InvalidStatisticError("a column is counted and makes groups", field_name="by")
        own = self.outside
        outside = dict.fromkeys(self.columns, own) if isinstance(own, str) else own
        # Groups first: the last column changes fastest, so each group's cells are contiguous.
        return Histogram(
            columns=(*groups.names, *self.columns),
            edges={**groups.edges, **self.edges},
            outside={**groups.outside, **outside},
        )

    def of_cells(self, cells: Sequence[Mapping[str, Any]], groups: Collection[str]) -> Json:
        """Return a group's part of that histogram's answer: its own cells."""
        return {
            "cells": [
                {
                    "cell": {name: at for name, at in each["cell"].items() if name not in groups},
                    "count": each["count"],
                }
                for each in cells
            ]
        }

    def planning_ms(self, schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 1 + 0.03 * self._about_size(schema)

    def _about_size(self, schema: Schema) -> int:
        """Return the number of cells, whether or not the question fits the schema."""
        if len(self.columns) > len(schema.columns):
            return 0  # refused, and not worth a walk through all of them
        sizes = []
        for name in self.columns:
            column, edges = schema.columns.get(name), self.edges.get(name, ())
            if isinstance(column, CategoryColumn):
                sizes.append(len(column.values))
            else:
                sizes.append(about_cells(edges, column))
        return prod(sizes)

    def size(self, schema: Schema) -> int:
        """Return the number of cells."""
        return prod(len(axis.labels) for axis in self.axes(schema))

    def additive(self, schema: Schema) -> AdditiveForm:
        """Return the histogram's form: one coordinate per cell, step 1."""
        axes, cells = self.axes(schema), self.size(schema)
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
            space=_space(cells, schema.adjacency, filtered=schema.selected),
            total=lambda data: self._total(data, schema, axes),
            answer=answer,
            reference=constant_slopes(cells),
            grid=lambda step: {"step": {"count": float(step)}},
            details={},
            noise_size=cells,
            # selecting a part of the rows reads its columns, and that cost is counted there
            columns_read=0 if schema.selected or _is_sketched(axes) else len(self.columns),
            linear=True,
        )

    def axes(self, schema: Schema) -> list[Axis]:
        """Return each column's cells."""
        return [
            axis_of(
                name,
                require_column(schema, name, "columns"),
                self.edges.get(name),
                self._outside(name),
            )
            for name in self.columns
        ]

    def dropping(self, schema: Schema, /) -> Where:
        """Return the conditions under which a record lies between all edges."""
        own = [
            condition
            for name in self.columns
            if self._outside(name) == "drop" and name in schema.columns
            for condition in conditions_between(name, schema.columns[name], self.edges.get(name))
        ]
        return (*Question.dropping(self, schema), *own)

    def _outside(self, name: str) -> Outside:
        if isinstance(self.outside, str):
            return self.outside
        return self.outside.get(name, "cells")

    def _total(self, data: Data, schema: Schema, axes: Sequence[Axis]) -> list[int]:
        if len(axes) == 1 and not schema.selected:
            return axes[0].count(data, schema.columns[axes[0].column])
        shape = [len(axis.labels) for axis in axes]
        counts = np.zeros(prod(shape), dtype=np.int64)
        for some in data.map(partial(_counts_of, tuple(axes)), [axis.reads for axis in axes]):
            counts += some
        return [int(count) for count in counts]


def _is_sketched(axes: Sequence[Axis]) -> bool:
    """Return whether the sketches of all rows hold the counts."""
    return len(axes) == 1 and axes[0].from_grid


def _counts_of(axes: Sequence[Axis], block: Block) -> NDArray[np.int64]:
    shape = [len(axis.labels) for axis in axes]
    cell = np.zeros(len(block[axes[0].reads]), dtype=np.int64)
    for axis, size in zip(axes, shape, strict=True):
        # The last column changes fastest, as in the names of the cells.
        cell = cell * size + axis.place(block[axis.reads])
    return np.bincount(cell, minlength=prod(shape))


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
    if filtered:
        return filtered_space(cells, unit=1, unit_name="records")
    return AdjacentOutputSpace(
        dimension=cells,
        l1=two,
        linf=one,
        l2_squared=two,
        hull="other",
        norm_ball=HistogramBall(cells, filtered=False),
        description="differences e_i - e_j of two cells: sum zero, l1 norm at most 2",
        negligible_structure=False,
        unit=1,
        unit_name="records",
    )


def filtered_space(cells: int, *, unit: int, unit_name: str) -> AdjacentOutputSpace:
    """Return the space of cells of which one may lose, and one gain, up to one scaled unit."""
    return AdjacentOutputSpace(
        dimension=cells,
        l1=Fraction(2),
        linf=Fraction(1),
        l2_squared=Fraction(2),
        hull="other",
        norm_ball=HistogramBall(cells, filtered=True),
        description=(
            "differences e_i - e_j of two cells: sum zero, l1 norm at most 2, and single cells, as "
            "a record may stop meeting the conditions"
        ),
        negligible_structure=False,
        unit=unit,
        unit_name=unit_name,
    )


def _invalid(detail: str) -> InvalidStatisticError:
    return InvalidStatisticError(detail, field_name="edges")
