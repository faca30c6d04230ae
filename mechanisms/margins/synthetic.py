r"""Synthetic rows of a release of tables: typed values, and how near their tables are.

Cells are drawn from a graphical model of the released tables (:mod:`mechanisms.tables.model`). A
category is its text and a boolean its truth. A number is spread evenly within its cell: a whole
number, a day or a second is any of the cell, others are decimals of three or four digits more than
the cell's width has.

**Privacy.** A function of a release, of public facts and of a public seed: post-processing (Awan &
Slavkovic 2021, Proposition 2.11). It has the release's guarantee, and costs nothing. No data set is
read.

*The same everywhere.* Cells are drawn in integers. A number is a whole one, or the float nearest to
a whole number over a power of ten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema, Values
from mechanisms.exact.floats import Integers
from mechanisms.statistics.cells.axes import Axis
from mechanisms.statistics.questions import Question
from mechanisms.statistics.tables import MarginStatistic
from mechanisms.tables.levels import Hierarchy
from mechanisms.tables.model import MOST_COUNT, MOST_ROWS, GraphicalModel, cells_of, stream
from mechanisms.tables.records import SCALE, quotas
from mechanisms.tables.workload import ColumnSet, Workload

MOST_VALUES = 2_000_000
"""Rows times columns: less than two seconds of one core."""

_DIGITS = 3
_MOST_PLACES = 300  # ten to this power is a float
_WHOLE_FLOATS = 1 << 53
_INT64 = (1 << 63) - 1
_MS_PER_VALUE = 6e-4  # measured; with its place in a file


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFit:
    """A released table next to that of synthetic rows.

    Attributes
    ----------
    in_model
        Whether the model has this table as it was released.
    total_variation
        Half the sum of absolute differences of all cells' shares.
    """

    columns: tuple[str, ...]
    in_model: bool
    total_variation: float
    released: Integers
    synthetic: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticTable:
    """Synthetic rows, and what they were made of.

    Attributes
    ----------
    columns
        The values of each column: texts, booleans, whole numbers or floats; dates and moments as
        ISO 8601 texts.
    links
        Each column, and those that it depends on in the model.
    unmeasured
        Pairs that no released table has: independent given the model.
    left_out
        Columns of the question that no table has.
    """

    columns: Mapping[str, Sequence[Any]]
    links: Sequence[tuple[str, tuple[str, ...]]]
    fits: Sequence[TableFit]
    unmeasured: Sequence[tuple[str, str]]
    left_out: Sequence[str]


def synthesize(
    statistic: MarginStatistic, value: Mapping[str, Any], schema: Schema, *, rows: int, seed: int
) -> SyntheticTable:
    """Return synthetic rows of a released answer.

    Parameters
    ----------
    statistic, value
        What was asked, with all columns in the schema, and the answer.
    rows
        How many, at most :data:`~mechanisms.tables.model.MOST_ROWS`, and at most
        :data:`MOST_VALUES` values.
    seed
        A public whole number: the same one makes the same rows on every machine.

    Raises
    ------
    InvalidStatisticError
        The rows are too many, or the tables are of groups.
    """
    if isinstance(statistic, Question) and statistic.by:
        raise InvalidStatisticError("tables by group have no synthetic rows", field_name="release")
    most = most_rows(statistic)
    if rows > most:
        raise InvalidStatisticError(
            f"at most {most:,} rows of {len(statistic.columns)} columns are made at once",
            field_name="rows",
        )
    statistic = statistic.answered(value)
    workload, counts = read_tables(statistic, value, schema)
    names, levels = statistic.names(schema), statistic.levels(schema)
    above = frozenset(() if levels is None else levels.columns[:-1])
    margins = tuple(margin for margin in workload.margins if above.isdisjoint(margin))
    model = GraphicalModel.fitted(Workload(workload.sizes, margins), counts)
    codes = model.draw(rows, seed)
    if levels is not None:
        _fill(codes, levels)
    held = sorted({column for margin in workload.margins for column in margin})
    measured = {pair for margin in workload.margins for pair in combinations(margin, 2)}
    axes = statistic.axes(schema)
    return SyntheticTable(
        columns={
            names[i]: _values(schema.columns[names[i]], axes[i], codes[:, i], seed, i) for i in held
        },
        links=[(names[link.column], _named(names, link.given)) for link in model.links],
        fits=[_fit(model, names, counts[margin], margin, codes) for margin in workload.margins],
        unmeasured=[
            (names[i], names[j])
            for i, j in combinations([i for i in held if i not in above], 2)
            if (i, j) not in measured
        ],
        left_out=[name for i, name in enumerate(names) if i not in held],
    )


def _fill(codes: Integers, levels: Hierarchy) -> None:
    """Fill in the levels above a hierarchy, which follow from it."""
    below = levels.columns[-1]
    for level, parents in zip(levels.columns[-2::-1], levels.parents[:0:-1], strict=True):
        codes[:, level] = np.array(parents)[codes[:, below]]
        below = level


def most_rows(statistic: MarginStatistic) -> int:
    """Return how many rows are made at once."""
    return min(MOST_ROWS, MOST_VALUES // len(statistic.columns))


def synthesizing_ms(statistic: MarginStatistic, rows: int) -> float:
    """Return about how many milliseconds of one core it takes to make rows, and to write them."""
    return 5 + _MS_PER_VALUE * rows * len(statistic.columns)


def read_tables(
    statistic: MarginStatistic, value: Mapping[str, Any], schema: Schema
) -> tuple[Workload, dict[ColumnSet, Integers]]:
    """Return the margins of an answer: whole counts, none negative.

    Unbiased estimates are projected on whole counts of the same total, each table by itself.
    """
    workload = statistic.workload(schema)
    people = min(max(round(value["rows"]), 0), MOST_COUNT)
    counts = {}
    for margin, table in zip(workload.margins, value["tables"], strict=True):
        own = [cell["count"] for cell in table["cells"]]
        if statistic.raw:
            own = quotas([round(SCALE * each) for each in own], people)
        counts[margin] = np.array(own, dtype=np.int64).reshape(workload.shape(margin))
    return workload, counts


def _named(names: Sequence[str], columns: ColumnSet) -> tuple[str, ...]:
    return tuple(names[i] for i in columns)


def _fit(
    model: GraphicalModel,
    names: Sequence[str],
    released: Integers,
    margin: ColumnSet,
    codes: Integers,
) -> TableFit:
    made = cells_of(model.workload, codes, margin)
    shares = [each / max(int(each.sum()), 1) for each in (released, made)]
    return TableFit(
        columns=_named(names, margin),
        in_model=model.knows(margin),
        total_variation=float(np.abs(shares[0] - shares[1]).sum() / 2),
        released=released,
        synthetic=made,
    )


# Values


def _values(column: Column, axis: Axis, codes: Integers, seed: int, place: int) -> list[Any]:
    if isinstance(column, CategoryColumn):
        return [axis.labels[code] for code in codes.tolist()]
    if column.boolean:
        return [bool(code) for code in codes.tolist()]
    words = stream(seed, f"values of {place}", len(codes))
    numbers = _spread(column, axis, codes, words)
    if column.timed is None:
        return list(numbers.tolist())
    texts = {number: column.shown(number) for number in set(numbers.tolist())}
    return [texts[number] for number in numbers.tolist()]


def _spread(column: NumberColumn, axis: Axis, codes: Integers, words: NDArray[np.uint64]) -> Values:
    """Return numbers spread evenly within their cells: whole numbers of steps."""
    assert axis.starts is not None
    ends = [column.lower, *map(Fraction, axis.starts.tolist()), column.upper]
    places = 0 if column.whole else _places(column, ends)
    steps = [each * Fraction(10) ** places for each in ends]
    low = np.array([ceil(each) for each in steps[:-1]], dtype=np.int64)
    # the last cell holds its end
    high = [*map(ceil, steps[1:-1]), floor(steps[-1]) + 1]
    width = np.array(
        [min(max(b - a, 1), _INT64) for a, b in zip(low.tolist(), high, strict=True)],
        dtype=np.uint64,
    )
    found = low[codes] + (words % width[codes]).astype(np.int64)
    if column.whole:
        return column.clamped(found)
    size = float(10 ** abs(places))
    floats = found / size if places > 0 else found * size
    # what rounding moved out of its cell, or where a cell has no such decimal
    first = np.array([-np.inf, *axis.starts])
    last = np.nextafter([*axis.starts, np.inf], -np.inf)
    return column.clamped(np.clip(floats, first[codes], last[codes]))


def _places(column: NumberColumn, ends: Sequence[Fraction]) -> int:
    """Return how many decimal places numbers have; fewer than 0 for very wide cells."""
    narrowest = min(b - a for a, b in pairwise(ends))
    most = max(column.extent, Fraction(1, 1 << 53))
    places = 0
    while most * Fraction(10) ** places >= _WHOLE_FLOATS:
        places -= 1
    while (
        narrowest * Fraction(10) ** places < 10**_DIGITS
        and most * Fraction(10) ** (places + 1) < _WHOLE_FLOATS
        and places < _MOST_PLACES
    ):
        places += 1
    return places


def described(table: SyntheticTable, schema: Schema) -> Iterator[dict[str, Any]]:
    """Yield each column's name, its type as a data set's spec has it, and a category's values."""
    for name in table.columns:
        column = schema.columns[name]
        if isinstance(column, CategoryColumn):
            yield {"name": name, "type": "category", "values": list(column.values)}
        else:
            yield {"name": name, "type": "boolean" if column.boolean else column.kind}
