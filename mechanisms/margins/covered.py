r"""Margins that released tables cover: any sub-margin, merged cells, and several releases at once.

A release of counts says what the residuals of its tables are (:mod:`mechanisms.tables.residuals`):

    r_A of a table C that holds A,   with covariance s_A P_A,
    s_A = alpha N_C / N_A for a table by itself with errors of covariance ``alpha I + beta J``,
    s_0 = alpha N_C + beta N_C**2 for the number of records.

Releases draw their noise independently, and residuals of different A are uncorrelated. So the
generalized least squares estimate of each r_A is the mean over the releases with weights in
proportion to 1 / s_A, and a margin is the sum of its residuals. That takes time in proportion to
the number of cells, where solving for all cells of all columns takes its cube.

*Merged cells.* A cell that merges m_i of the n_i cells of each column i has the error variance

    sum over A within B of  s_A  prod over i in A of (m_i - m_i**2 / n_i)
                                 prod over i in B \ A of m_i**2 / n_i**2,

u' P_A u being that product for the indicator u of the cells that are merged.

*What is released.* One release of whole counts gives whole counts: sums of its own. Their standard
deviations and intervals are those of unbiased estimates, around the counts. Unbiased estimates, and
several releases, give unbiased estimates; where tables are asked for, those are made whole like
those of a release (:mod:`mechanisms.tables.records`). Whole counts among several releases count as
estimates of the same variance, which they are more exact than on average.

**Privacy.** All of this is a function of released numbers and public facts: post-processing (Awan &
Slavkovic 2021, Proposition 2.11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import ceil, floor, prod
from typing import Any, cast

import numpy as np

from mechanisms.contract import InvalidStatisticError, Json, Noise, Outcome, Statistic
from mechanisms.domain import Column, NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.margins.release import MEAN_SIZE, half_width, measurement_of
from mechanisms.privacy import PrivacyLoss
from mechanisms.statistics.cells.axes import Axis
from mechanisms.statistics.conditions import Comparison
from mechanisms.statistics.facts.defaults import largest_weight
from mechanisms.statistics.histogram import CellStatistic
from mechanisms.statistics.tables import Alike, MarginStatistic
from mechanisms.statistics.weights import private_rows
from mechanisms.tables.records import MOST_RECORDS, fit_records
from mechanisms.tables.residuals import Residual, centred, exact, reconstruct, summed
from mechanisms.tables.workload import (
    ColumnSet,
    Counts,
    Workload,
    WorkloadError,
    report,
    stage,
)

STEPS = 1 << 20
"""Of a count: floats are read to this part of one."""
_WEIGHTS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Released tables of counts.

    Attributes
    ----------
    axes
        The cells of each column, by name.
    tables
        Counts by their columns' names, arrays with an axis for each.
    spread
        Returns s_A of a set of columns that a table has.
    whole
        Whether counts are whole and agree with one another.
    holders
        A table that has some columns, once it is found.
    """

    axes: Mapping[str, Axis]
    tables: Mapping[tuple[str, ...], Counts]
    spread: Callable[[tuple[str, ...]], float]
    whole: bool
    holders: dict[frozenset[str], tuple[str, ...] | None] = field(default_factory=dict)

    def holder(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """Return a table that has these columns."""
        wanted = frozenset(names)
        if wanted not in self.holders:
            fitting = (each for each in self.tables if wanted <= set(each))
            self.holders[wanted] = next(fitting, None)
        return self.holders[wanted]

    def residual(self, names: tuple[str, ...]) -> Counts:
        """Return ``N_A P_A T_A`` in steps."""
        held = self.holder(names)
        assert held is not None
        places = tuple(range(len(held)))
        kept = tuple(place for place in places if held[place] in names)
        table = np.asarray(summed(self.tables[held], places, kept))
        order = [[held[place] for place in kept].index(name) for name in names]
        return centred(exact(table.transpose(order)))


def of_tables(
    statistic: MarginStatistic,
    value: Mapping[str, Any],
    epsilon: PrivacyLoss,
    mechanism: str,
    schema: Schema,
) -> Source:
    """Return a release of tables as a source."""
    statistic = statistic.answered(value)
    names, axes = statistic.names(schema), statistic.axes(schema)
    workload = statistic.workload(schema)
    spreads = measurement_of(statistic, schema, epsilon, mechanism).spreads()
    tables: dict[tuple[str, ...], Counts] = {}
    for margin, table in zip(workload.margins, value["tables"], strict=True):
        counts = [cell["count"] for cell in table["cells"]]
        tables[tuple(names[i] for i in margin)] = _steps(counts, workload.shape(margin))
    tables[()] = _steps([value["rows"]], ())

    def spread(columns: tuple[str, ...]) -> float:
        sizes = dict(zip(names, workload.sizes, strict=True))
        varying = sorted(names.index(name) for name in columns if sizes[name] > 1)
        return spreads[tuple(varying)]

    by_name = dict(zip(names, axes, strict=True))
    return Source(axes=by_name, tables=tables, spread=spread, whole=not statistic.raw)


def of_cells(
    statistic: CellStatistic, value: Mapping[str, Any], alpha: float, beta: float, schema: Schema
) -> Source:
    """Return a count or a histogram as a source, its errors of covariance ``alpha I + beta J``."""
    axes = statistic.axes(schema)
    shape = tuple(len(axis.labels) for axis in axes)
    cells = value["cells"] if axes else [value]
    size = prod(shape)

    def spread(columns: tuple[str, ...]) -> float:
        if not columns:
            return alpha * size + beta * size**2
        own = prod(len(axis.labels) for axis in axes if axis.column in columns)
        return alpha * size / own

    return Source(
        axes={axis.column: axis for axis in axes},
        tables={
            tuple(axis.column for axis in axes): _steps([each["count"] for each in cells], shape)
        },
        spread=spread,
        whole=False,
    )


def _steps(counts: Sequence[float], shape: tuple[int, ...]) -> Counts:
    # whole counts are most there are
    whole = [
        each * STEPS if isinstance(each, int) else round(Fraction(each) * STEPS) for each in counts
    ]
    return exact(np.array(whole, dtype=object).reshape(shape))


def covered(
    statistic: Statistic,
    sources: Sequence[Source],
    schema: Schema,
    conditions: Sequence[Comparison] = (),
) -> Outcome:
    """Return counts that released tables cover.

    Parameters
    ----------
    statistic
        A count, a histogram or tables, without conditions.
    sources
        One release, or several, whose columns have the same cells.
    schema
        The public facts.
    conditions
        What records must meet, of columns with cells in the tables.

    Raises
    ------
    InvalidStatisticError
        No table has the columns, or the cells are not unions of those of the tables.
    """
    weights = cast(str | None, getattr(statistic, "weights", None))
    if weights is not None:
        schema = private_rows(schema)
    made = _Solution.of(sources, schema, largest_weight(schema, weights))
    if isinstance(statistic, MarginStatistic):
        return _tables(statistic, made, schema, conditions)
    asked = cast(CellStatistic, statistic)
    axes = asked.axes(schema)
    counts, stds = made.cells(axes, conditions)
    labels = list(product(*(axis.labels for axis in axes)))

    def answer(numbers: Sequence[Any]) -> Json:
        cells = [
            {"cell": dict(zip((axis.column for axis in axes), each, strict=True)), "count": number}
            for each, number in zip(labels, numbers, strict=True)
        ]
        return asked.of_cells(cells, ())

    return Outcome(
        value=answer(counts),
        noise=Noise(
            std=answer(stds),
            interval_95=answer(made.intervals(counts, stds)),
            expected_error=answer([MEAN_SIZE * std for std in stds]),
        ),
    )


def _tables(
    statistic: MarginStatistic,
    made: _Solution,
    schema: Schema,
    conditions: Sequence[Comparison],
) -> Outcome:
    if statistic.selecting:
        raise InvalidStatisticError(
            "tables are selected where they are drawn; name them in margins", field_name="select"
        )
    if statistic.raw and made.whole:
        raise InvalidStatisticError(
            "whole counts do not determine unbiased estimates", field_name="raw"
        )
    axes, workload = statistic.axes(schema), statistic.workload(schema)
    found = {}
    with stage(0.0, 0.4):
        for place, margin in enumerate(workload.margins):
            report(place / len(workload.margins))
            found[margin] = made.cells([axes[i] for i in margin], conditions)
    total = made.cells([], conditions)
    complete = made.whole and not statistic.known
    if statistic.hierarchy is not None and not (statistic.raw or complete):
        raise InvalidStatisticError(
            "whole counts that agree at all levels follow from one release of whole counts, and "
            "totals are stated where it is drawn",
            field_name="hierarchy",
        )
    if not (statistic.raw or made.whole):
        with stage(0.4, 0.9):
            found, total = made.made_whole(axes, workload, conditions, found, total)

    def alike(stds: Sequence[float], factor: float = 1.0) -> Any:
        return Alike(factor * stds[0]) if len({*stds}) == 1 else [factor * std for std in stds]

    def answer(of: Callable[[Sequence[Any], Sequence[float]], Any]) -> Json:
        numbers = {margin: of(*each) for margin, each in found.items()}
        rows = of(*total)
        return statistic.answer(schema, numbers, rows.count if isinstance(rows, Alike) else rows[0])

    return Outcome(
        value=answer(lambda counts, _: counts),
        noise=Noise(
            std=answer(lambda _, stds: alike(stds)),
            interval_95=answer(made.intervals),
            expected_error=answer(lambda _, stds: alike(stds, MEAN_SIZE)),
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Solution:
    """The least squares estimates of all residuals, made when they are first needed."""

    sources: Sequence[Source]
    axes: Mapping[str, Axis]
    columns: Mapping[str, Column]
    rows: int | None
    most: int
    known: dict[tuple[str, ...], tuple[Residual, float]]

    @classmethod
    def of(cls, sources: Sequence[Source], schema: Schema, weight: float) -> _Solution:
        axes: dict[str, Axis] = {}
        for source in sources:
            for name, axis in source.axes.items():
                if axes.setdefault(name, axis).labels != axis.labels:
                    raise InvalidStatisticError(
                        f"the releases have different cells of {name}: tables are combined with "
                        "the same edges"
                    )
        most = min(ceil(schema.row_bound * weight), MOST_RECORDS)
        return cls(sources, axes, schema.columns, schema.known_rows, most, {})

    @property
    def whole(self) -> bool:
        """Return whether counts are those of one release of whole ones."""
        return len(self.sources) == 1 and self.sources[0].whole

    def cells(
        self, axes: Sequence[Axis], conditions: Sequence[Comparison]
    ) -> tuple[list[Any], list[float]]:
        """Return the counts of a table's cells, and their standard deviations."""
        wanted = {axis.column: axis for axis in axes}
        names = tuple(dict.fromkeys([*wanted, *(each.column for each in conditions)]))
        missing = [name for name in names if name not in self.axes]
        if missing:
            raise _not_covered(missing)
        merged = [self._merging(name, wanted.get(name), conditions) for name in names]
        workload = self._workload(names)
        residuals, spreads = self._residuals(names, workload)
        table = reconstruct(workload, residuals, workload.margins[-1] if names else ())
        values = table.values
        for place, matrix in enumerate(merged):
            values = np.moveaxis(np.tensordot(values, exact(matrix), axes=(place, 0)), -1, place)
        values = exact(values).ravel()
        if self.whole:
            counts: list[Any] = [int(each) // table.denominator for each in values]
        else:
            counts = [float(Fraction(int(each), table.denominator)) for each in values]
        return counts, np.sqrt(_variances(workload, spreads, merged)).ravel().tolist()

    def intervals(self, counts: Sequence[float], stds: Sequence[float]) -> list[list[float]]:
        """Return 95% intervals around counts; of whole counts they end where no count can be."""
        found = []
        for count, std in zip(counts, stds, strict=True):
            low, high = count - half_width(std), count + half_width(std)
            if isinstance(count, int):
                low, high = max(low, 0.0), min(high, float(max(self.most, count)))
            found.append([low, high])
        return found

    def made_whole(
        self,
        axes: Sequence[Axis],
        workload: Workload,
        conditions: Sequence[Comparison],
        found: Mapping[ColumnSet, tuple[list[Any], list[float]]],
        total: tuple[list[Any], list[float]],
    ) -> tuple[dict[ColumnSet, tuple[list[Any], list[float]]], tuple[list[Any], list[float]]]:
        """Return whole counts that agree, with the standard deviations of the estimates."""
        own = all(axis.labels == self.axes[axis.column].labels for axis in axes)
        if conditions or not own:
            raise InvalidStatisticError(
                "tables of several releases have the cells and the records of the releases: ask "
                'with "raw": true, or for a histogram'
            )
        names = [axis.column for axis in axes]
        residuals, spreads = {}, {}
        for A in workload.closure():
            residuals[A], spreads[A] = self._residual(tuple(names[i] for i in A))
        nominal = {A: Fraction(round(each * STEPS), STEPS) for A, each in spreads.items()}
        records = fit_records(workload, residuals, nominal, self.rows, self.most)
        whole = {
            margin: (records.margin(margin).ravel().tolist(), stds)
            for margin, (_, stds) in found.items()
        }
        return whole, ([records.people], total[1])

    def _workload(self, names: Sequence[str]) -> Workload:
        sizes = tuple(len(self.axes[name].labels) for name in names) or (1,)
        try:
            return Workload(sizes, (tuple(range(len(sizes))),))
        except WorkloadError as refused:
            raise InvalidStatisticError(str(refused)) from None

    def _residuals(
        self, names: tuple[str, ...], workload: Workload
    ) -> tuple[dict[ColumnSet, Residual], dict[ColumnSet, float]]:
        residuals, spreads = {}, {}
        for A in workload.parts(tuple(range(len(names)))):
            residuals[A], spreads[A] = self._residual(tuple(names[i] for i in A))
        return residuals, spreads

    def _residual(self, names: tuple[str, ...]) -> tuple[Residual, float]:
        """Return the estimate of r_A, and its s_A."""
        key = tuple(sorted(names))
        if key not in self.known:
            self.known[key] = self._estimated(key)
        residual, spread = self.known[key]
        order = [key.index(name) for name in names]
        return Residual(exact(residual.values.transpose(order)), residual.scale), spread

    def _estimated(self, names: tuple[str, ...]) -> tuple[Residual, float]:
        if not names and self.rows is not None:
            return Residual(exact(self.rows), 1), 0.0
        found = [
            (source.residual(names), max(source.spread(names), 0.0))
            for source in self.sources
            if source.holder(names) is not None
        ]
        if not found:
            raise _not_covered(names)
        least = min(spread for _, spread in found)
        if least == 0 or len(found) == 1:
            values, spread = next(each for each in found if each[1] == least)
            return Residual(values, STEPS), spread
        weights = [max(round(_WEIGHTS * least / spread), 1) for _, spread in found]
        total = sum(weights)
        mean = sum(weight * values for weight, (values, _) in zip(weights, found, strict=True))
        spread = sum(
            (weight / total) ** 2 * each for weight, (_, each) in zip(weights, found, strict=True)
        )
        return Residual(exact(mean), STEPS * total), spread

    def _merging(self, name: str, wanted: Axis | None, conditions: Sequence[Comparison]) -> Counts:
        """Return which cells of a column each wanted cell merges: zeros and ones, (n, m)."""
        axis = self.axes[name]
        size = len(axis.labels)
        parents = [0] * size if wanted is None else _parents(axis, wanted)
        kept = [True] * size
        for each in conditions:
            if each.column == name:
                kept = [
                    one and _meets(axis, self.columns[name], cell, each)
                    for cell, one in enumerate(kept)
                ]
        matrix = np.zeros((size, 1 if wanted is None else len(wanted.labels)), dtype=np.int64)
        for cell, parent in enumerate(parents):
            matrix[cell, parent] = kept[cell]
        return matrix


def _variances(
    workload: Workload, spreads: Mapping[ColumnSet, float], merged: Sequence[Counts]
) -> Floats:
    """Return the error variance of each merged cell."""
    many = [matrix.sum(axis=0).astype(np.float64) for matrix in merged]
    total = np.zeros([len(each) for each in many])
    for A, spread in spreads.items():
        part = np.asarray(spread)
        for i, m in enumerate(many):
            n = workload.sizes[i]
            part = np.multiply.outer(part, m - m**2 / n if i in A else m**2 / n**2)
        total = total + part
    return np.maximum(total, 0.0)


def _parents(axis: Axis, wanted: Axis) -> list[int]:
    """Return in which wanted cell each cell of a column is."""
    if axis.starts is None or wanted.starts is None:
        return list(range(len(axis.labels)))
    if not set(wanted.starts.tolist()) <= set(axis.starts.tolist()):
        raise InvalidStatisticError(
            f"the released tables do not distinguish the edges of {axis.column} that are asked for"
        )
    if not len(axis.starts):
        return [0]
    # a cell is where its first value is; the lowest one has those below all starts
    return [0, *(int(cell) for cell in wanted.place(axis.starts))]


def _meets(axis: Axis, column: Column, cell: int, condition: Comparison) -> bool:
    """Return whether the values of a cell meet a condition.

    Raises
    ------
    InvalidStatisticError
        Some do, and others do not.
    """
    if axis.starts is None or not isinstance(column, NumberColumn):
        return (cell in condition.numbers) == (condition.op == "in")
    whole = axis.starts.dtype.kind == "i"
    beyond = int(column.upper) + 1 if whole else np.nextafter(float(column.upper), np.inf)
    ends = [int(column.lower) if whole else float(column.lower), *axis.starts.tolist(), beyond]
    first, after = ends[cell], ends[cell + 1]
    if condition.op in ("in", "!="):
        inside = sum(first <= number < after for number in condition.numbers)
        if not inside or (whole and inside == after - first):
            return bool(inside) == (condition.op == "in")
    else:
        number = condition.numbers[0]
        above = condition.op in (">", ">=")
        # the first value on the upper side
        bound = number
        if condition.op in ("<=", ">"):
            bound = floor(number) + 1 if whole else float(np.nextafter(number, np.inf))
        if bound <= first or after <= bound:
            return above == bool(bound <= first)
    raise InvalidStatisticError(
        f"the released tables do not distinguish the condition on {axis.column}"
    )


def _not_covered(columns: Iterable[str]) -> InvalidStatisticError:
    names = ", ".join(columns)
    return InvalidStatisticError(f"no released table has these columns together: {names}")
