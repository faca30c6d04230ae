"""Counts of the cells of one or several columns.

A record lies in exactly one cell, so T(X) - T(X') is

- replace-one: ``e_i - e_j`` or 0. The row count is public, the cells sum to it,
  and the hull ``{sum u = 0, ||u||_1 <= 2}`` is drawn from inside that hyperplane;
- replace-one with conditions: a record may also leave or enter, so also ``±e_i``,
  with the hull ``max(sum u+, sum u-) <= 1`` (see :mod:`mechanisms.geometry.histograms`);
- add-remove: ``±e_i``, whose hull is the l1 ball.

With ``ranges`` the cells of one number column are in order, and another question is drawn in its
place, :class:`RangeCounts`: :mod:`mechanisms.tables.ranges` proves how far a record moves that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
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
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.geometry.histograms import HistogramBall
from mechanisms.geometry.spaces import AdjacentOutputSpace
from mechanisms.privacy import Adjacency
from mechanisms.probes import ENDS, Probe
from mechanisms.statistics.additive import (
    ADVICE,
    AdditiveForm,
    Coordinates,
    Leaf,
    Tree,
    constant_slopes,
)
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
from mechanisms.statistics.facts.defaults import largest_weight, most_of
from mechanisms.statistics.questions import Question, Viewed, widened
from mechanisms.statistics.weights import (
    HELD_PARTS,
    WEIGHTS,
    Weighing,
    Weights,
    private_rows,
    require_weights,
    weighted_counts,
    weights_of,
)
from mechanisms.views import RowView
from mechanisms.words import meant, worded

_IN_ORDER: Json = {
    "kind": "histogram",
    "columns": ["x"],
    "edges": {"x": [-1, -0.5, 0, 0.5, 1]},
    "ranges": True,
}


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
        "k_norm": ("optimal", "l1", "l2", "linf"),
        "gaussian": (),
    }
    advice: ClassVar[Mapping[str, str]] = ADVICE
    limits: ClassVar[Mapping[str, int]] = {"cells": MAX_CELLS}
    example: ClassVar[Json] = {"kind": "histogram", "columns": ["ocean_proximity"]}
    probes: ClassVar[tuple[Probe, ...]] = (
        Probe({"kind": "histogram", "columns": ["group"]}, ENDS),
        Probe(_IN_ORDER, ENDS, mechanism="k_norm", norm="l1", variant="ranges"),
        Probe(_IN_ORDER, ENDS, mechanism="gaussian", variant="ranges"),
    )
    error_law: ClassVar[ErrorLaw] = "linear"
    near_zero: ClassVar[NearZero] = "nothing"
    counts_records: ClassVar[bool] = True
    no_inference: ClassVar[str] = worded(
        "counts are of the records of this data set, and estimate no number of a population: the "
        "shares of a summary have intervals"
    )
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

    weights: Weighing = field(default=None, metadata=WEIGHTS)
    ranges: bool = field(
        default=False,
        metadata=meaning(
            "Whether the cells of one number column are measured such that any range of them has "
            "little noise. The answer then has cumulative counts too, which never fall, and "
            "`quantile` is read off it for free.",
            example=True,
        ),
    )

    def designed(self, view: RowView, /) -> Viewed[Any]:
        """Return the same question; with ``ranges`` as what is drawn in its place."""
        return Viewed(self._in_order() if self.ranges else self, view)

    def ordered_axis(self, column: str, schema: Schema, /) -> Axis | None:
        """Return the cells of this column in order; None where no cumulative counts are asked."""
        return self._in_order().ordered_axis(column, schema) if self.ranges else None

    def _in_order(self) -> RangeCounts:
        names = (each.name for each in fields(RangeCounts))
        return RangeCounts(**{name: getattr(self, name) for name in names})

    def spelled(self, schema: Schema, /) -> Mapping[str, object]:
        """Return the common fields and the edges, in their canonical spelling."""
        wider = widened(self, schema)
        edges = {name: spelled_edges(each, name, wider) for name, each in self.edges.items()}
        outside = spelled_outside(self.outside, [*self.edges])
        return {**Question.spelled(self, schema), "edges": edges, "outside": outside}

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        if self.ranges:
            self._in_order().check(schema)
            return
        if not self.columns:
            raise InvalidStatisticError("name at least one column", field_name="columns")
        if len(set(self.columns)) != len(self.columns):
            raise InvalidStatisticError("a column is named twice", field_name="columns")
        for name in self.edges:
            if name not in self.columns:
                close = meant(self.columns, name)
                raise _invalid(f"edges are given for a column that is not counted{close}")
        if self.weights is not None:
            require_weights(schema, self.weights)
        if not 2 <= self.size(schema) <= MAX_CELLS:
            raise InvalidStatisticError(
                f"a histogram has between 2 and {MAX_CELLS} cells", field_name="columns"
            )

    def possible_ranges(self, schema: Schema, rows: float, /) -> Json:
        """Return none to five times an equal share of the rows, in each cell."""
        if self.ranges:
            return self._in_order().possible_ranges(schema, rows)
        cells, rows = self.size(schema), rows * largest_weight(schema, self.weights)
        return {"cells": [{"count": [0.0, most_of(rows / cells, rows)]}] * cells}

    def answer_numbers(self, schema: Schema, /) -> int:
        """Return the number of cells; with ``ranges`` each has two numbers."""
        return (1 + self.ranges) * self.size(schema)

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
            weights=self.weights,
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
        return 1 + (0.1 if self.ranges else 0.03) * self._about_size(schema)

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
        """Return the histogram's form: one coordinate per cell, step 1, or a part of a weight."""
        axes, cells = self.axes(schema), self.size(schema)
        if self.weights is not None:
            form = replace(self, weights=None).additive(private_rows(schema))
            reads, place = [axis.reads for axis in axes], partial(_placed, tuple(axes))
            return weighted_counts(
                form, schema, self.weights, reads=reads, place=place, cells=cells
            )
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
        for some in data.map(partial(_counts_of, tuple(axes), None), [axis.reads for axis in axes]):
            counts += some
        return [int(count) for count in counts]


@runtime_checkable
class InOrder(Protocol):
    """A statistic whose answer may have the cumulative counts of a column's cells."""

    def ordered_axis(self, column: str, schema: Schema, /) -> Axis | None:
        """Return the cells of this column in order; None where no cumulative counts are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeCounts(Question):
    """The counts of a histogram with ``ranges``, as mechanisms know them.

    :mod:`mechanisms.margins.ranges` measures the cells on a tree, so that the noise of any range of
    cells is small.
    """

    has_cells: ClassVar[bool] = True
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {"k_norm": ("l1",), "gaussian": ()}
    limits: ClassVar[Mapping[str, int]] = {"cells": MAX_CELLS}
    error_law: ClassVar[ErrorLaw] = "linear"
    near_zero: ClassVar[NearZero] = "nothing"
    counts_records: ClassVar[bool] = True

    kind: Literal["histogram"] = "histogram"
    columns: tuple[str, ...] = field(metadata=meaning("One number column."))
    edges: Mapping[str, Edges] = field(metadata=meaning("Its edges."))
    outside: Outside | Mapping[str, Outside] = field(metadata=meaning("See the histogram."))
    weights: Weighing = field(default=None, metadata=WEIGHTS)

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        if len(self.columns) != 1:
            raise _no_ranges(
                "ranges are of one number column: name one, and make groups of others with "
                '"by": ["sex"]'
            )
        [name] = self.columns
        column = require_column(schema, name, "columns")
        if not isinstance(column, NumberColumn) or column.boolean:
            raise _no_ranges(
                f'ranges are of a number column with edges, and {name} is none; leave "ranges" out'
            )
        if self.weights is not None:
            require_weights(schema, self.weights)
        if not 2 <= len(self.axis(schema).labels) <= MAX_CELLS:
            raise InvalidStatisticError(
                f"a histogram has between 2 and {MAX_CELLS} cells", field_name="columns"
            )

    def axis(self, schema: Schema) -> Axis:
        """Return the cells of the column, in order."""
        (name,) = self.columns
        own = self.outside if isinstance(self.outside, str) else self.outside.get(name, "cells")
        return axis_of(name, require_column(schema, name, "columns"), self.edges.get(name), own)

    def ordered_axis(self, column: str, schema: Schema, /) -> Axis | None:
        """Return the cells, of this column alone."""
        return self.axis(schema) if self.columns == (column,) else None

    def counted(self, data: Data, schema: Schema) -> list[int]:
        """Return the exact counts of the cells, by weights in parts of the largest one.

        This is the private step.
        """
        axis, weights = self.axis(schema), weights_of(self, schema)
        if weights is None and not schema.selected:
            return axis.count(data, schema.columns[axis.column])
        read = [axis.reads, *([] if weights is None else [weights.name])]
        counts = np.zeros(len(axis.labels), dtype=np.int64)
        for some in data.map(partial(_counts_of, (axis,), weights), read):
            counts += some
        return [int(count) for count in counts]

    def columns_read(self, schema: Schema) -> int:
        """Return how many columns a draw reads row by row; a selection counts its own."""
        if self.weights is not None:
            return 2
        return 0 if schema.selected or self.axis(schema).from_grid else 1

    def answer(self, schema: Schema, counts: Sequence[Any], cumulative: Sequence[Any]) -> Json:
        """Return an answer of numbers for each cell, and for each with all cells below it."""
        axis = self.axis(schema)
        return {
            "cells": [
                {"cell": {axis.column: label}, "count": count, "cumulative": sum_}
                for label, count, sum_ in zip(axis.labels, counts, cumulative, strict=True)
            ]
        }

    def possible_ranges(self, schema: Schema, rows: float, /) -> Json:
        """Return none to five times an equal share in each cell, and to all rows below."""
        cells, rows = len(self.axis(schema).labels), rows * largest_weight(schema, self.weights)
        each, below = [0.0, most_of(rows / cells, rows)], [0.0, rows]
        return self.answer(schema, [each] * cells, [below] * cells)

    def answer_numbers(self, schema: Schema, /) -> int:
        """Return two numbers for each cell."""
        return 2 * len(self.axis(schema).labels)


def _no_ranges(detail: str) -> InvalidStatisticError:
    return InvalidStatisticError(detail, field_name="ranges")


def _is_sketched(axes: Sequence[Axis]) -> bool:
    """Return whether the sketches of all rows hold the counts."""
    return len(axes) == 1 and axes[0].from_grid


def _counts_of(axes: Sequence[Axis], weights: Weights | None, block: Block) -> NDArray[np.int64]:
    """Return how many records each cell has, or how many parts of the largest weight.

    Floats hold the sums exactly: a record has at most 2**12 parts, and a block 2**18 records.
    """
    size = prod(len(axis.labels) for axis in axes)
    parts = None if weights is None else weights.shares(block[weights.name], HELD_PARTS)
    return np.bincount(_placed(axes, block), weights=parts, minlength=size).astype(np.int64)


def _placed(axes: Sequence[Axis], block: Block) -> NDArray[np.int64]:
    """Return the cell of each record."""
    cell = np.zeros(len(block[axes[0].reads]), dtype=np.int64)
    for axis in axes:
        # The last column changes fastest, as in the names of the cells.
        cell = cell * len(axis.labels) + axis.place(block[axis.reads])
    return cell


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
