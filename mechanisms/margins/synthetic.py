r"""Synthetic rows of a release of tables: typed values, and how near their tables are.

Cells are drawn from a graphical model of the released tables (:mod:`mechanisms.tables.model`). It
has some of them. Then rows are moved from cell to cell until they have all, as far as whole rows
can (:func:`mechanisms.tables.records.moved_to`). A category is its text and a boolean its truth. A
number is spread evenly within its cell: a whole number, a day or a second is any of the cell,
others are decimals of three or four digits more than the cell's width has.

*By group* each group's tables have a model of their own. A group has the share of the rows that it
has of the released totals, to the nearest row. Its rows carry the values of the groups' columns.

**Privacy.** A function of a release, of public facts and of a public seed: post-processing (Awan &
Slavkovic 2021, Proposition 2.11). It has the release's guarantee, and costs nothing. No data set is
read.

*The same everywhere.* Cells are drawn in integers. A number is a whole one, or the float nearest to
a whole number over a power of ten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from itertools import combinations, pairwise
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema, Values
from mechanisms.exact.floats import Integers
from mechanisms.exact.fractions import as_written
from mechanisms.statistics.cells.axes import Axis
from mechanisms.statistics.cells.parting import Where, about_groups, dropping
from mechanisms.statistics.questions import Question
from mechanisms.statistics.tables import MarginStatistic
from mechanisms.tables.levels import Hierarchy
from mechanisms.tables.model import MOST_COUNT, MOST_ROWS, GraphicalModel, cells_of, stream
from mechanisms.tables.records import SCALE, moved_to, quotas
from mechanisms.tables.workload import ColumnSet, Workload

MOST_VALUES = 2_000_000
"""Rows times columns: drawn in less than two seconds of one core, and moved in a few more."""

_DIGITS = 3
_MOST_PLACES = 300  # ten to this power is a float
_WHOLE_FLOATS = 1 << 53
_INT64 = (1 << 63) - 1
_MS_PER_MODEL = 5.0
_MS_PER_VALUE = 6e-4  # measured; with its place in a file
_MS_PER_MOVED = 3e-4  # of a row and a table
_MOST_MS_MOVED = 2000.0  # after as many looks as are made


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFit:
    """A released table next to that of synthetic rows.

    Attributes
    ----------
    in_model
        Whether the model that rows begin with has this table as it was released.
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
        Each column, and those that it depends on in the model that rows begin with; by group in
        that of any group, and the groups' columns.
    unmeasured
        Pairs that no released table has: related only as far as others imply it.
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
        The rows are too many, or groups are made of a column that the tables have, too.
    """
    most = most_rows(statistic)
    if rows > most:
        width = _columns(statistic)
        raise InvalidStatisticError(
            f"at most {most:,} rows of {width} columns are made at once", field_name="rows"
        )
    groups = _Groups.of(statistic, value, schema)
    statistic = statistic.answered(value)
    workload, names, levels = (
        statistic.workload(schema), statistic.names(schema), statistic.levels(schema)
    )  # fmt: skip
    above = frozenset(() if levels is None else levels.columns[:-1])
    margins = tuple(margin for margin in workload.margins if above.isdisjoint(margin))
    counts = [_counts_of(workload, each, raw=statistic.raw) for each in groups.values]
    modelled = Workload(workload.sizes, margins)
    models = [GraphicalModel.fitted(modelled, each) for each in counts]
    drawn = [
        moved_to(modelled, own, model.draw(share, begin))
        for model, own, share, begin in zip(
            models, counts, groups.shares(rows), groups.seeds(seed), strict=True
        )
    ]
    if levels is not None:
        for each in drawn:
            _fill(each, levels)
    order = groups.order(rows, seed)
    codes = np.concatenate(drawn)[order]
    held = sorted({column for margin in workload.margins for column in margin})
    measured = {pair for margin in workload.margins for pair in combinations(margin, 2)}
    axes = statistic.axes(schema)
    return SyntheticTable(
        columns={
            **groups.columns([len(each) for each in drawn], order, seed),
            **{
                names[i]: _values(schema.columns[names[i]], axes[i], codes[:, i], seed, f"{i}")
                for i in held
            },
        },
        links=[*groups.links(), *_links(models, names, groups.names)],
        fits=[
            _fit(models, (groups, names), [each[margin] for each in counts], margin, drawn)
            for margin in workload.margins
        ],
        unmeasured=[
            (names[i], names[j])
            for i, j in combinations([i for i in held if i not in above], 2)
            if (i, j) not in measured
        ],
        left_out=[name for i, name in enumerate(names) if i not in held],
    )


@dataclass(frozen=True, slots=True)
class _Groups:
    """The groups of an answer; a single one of no column where there are none.

    Attributes
    ----------
    axes, facts
        The groups' columns: the cells of each, and their public facts between the edges.
    values
        The answer of each group, in the order of the cells.
    """

    axes: tuple[Axis, ...]
    facts: tuple[Column, ...]
    values: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, statistic: MarginStatistic, value: Mapping[str, Any], schema: Schema) -> _Groups:
        """Return those of a released answer.

        Raises
        ------
        InvalidStatisticError
            A column of theirs, or what it is a level of, is in the tables too.
        """
        if not (isinstance(statistic, Question) and statistic.by):
            return cls((), (), (value,))
        axes = statistic.parting(schema).axes
        names, made_of = (
            statistic.names(schema),
            {level: each.source for level, each in schema.nested.items()},
        )
        for axis in axes:
            found = next((name for name in names if _same_column(axis.column, name, made_of)), None)
            if found is not None:
                raise InvalidStatisticError(
                    f"the tables have {found}, and {axis.column} makes groups: rows that agree "
                    "with both cannot be made, as noisy tables have records of other groups",
                    field_name="release",
                )
        outside = dropping(statistic.by, schema)
        facts = tuple(_between(schema.columns[axis.column], axis.column, outside) for axis in axes)
        return cls(axes, facts, tuple(each["value"] for each in value["groups"]))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the groups' columns."""
        return tuple(axis.column for axis in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return how many cells each of them has."""
        return tuple(len(axis.labels) for axis in self.axes)

    def shares(self, rows: int) -> list[int]:
        """Return how many rows each group has."""
        people = [max(round(each["rows"]), 0) for each in self.values]
        if not any(people):
            people = [1] * len(people)
        return quotas([rows * each * SCALE // sum(people) for each in people], rows)

    def seeds(self, seed: int) -> list[int]:
        """Return the seed of each group's rows."""
        if not self.axes:
            return [seed]
        texts = (f"{seed} group {place}" for place in range(len(self.values)))
        return [int.from_bytes(sha256(text.encode()).digest()[:8], "little") for text in texts]

    def order(self, rows: int, seed: int) -> Integers:
        """Return the order of the rows in a file: of groups a pseudo-random one."""
        if not self.axes:
            return np.arange(rows)
        return np.argsort(stream(seed, "order of rows", rows), kind="stable")

    def columns(self, many: Sequence[int], order: Integers, seed: int) -> dict[str, list[Any]]:
        """Return the values of the groups' columns."""
        cells = np.repeat(np.arange(len(many)), many)[order]
        codes = np.unravel_index(cells, self.sizes) if self.axes else ()
        return {
            axis.column: _values(column, axis, own.astype(np.int64), seed, f"group {place}")
            for place, (axis, column, own) in enumerate(
                zip(self.axes, self.facts, codes, strict=True)
            )
        }

    def links(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the groups' columns, each depending on those before it."""
        return [(name, self.names[:place]) for place, name in enumerate(self.names)]


def _same_column(one: str, other: str, made_of: Mapping[str, str]) -> bool:
    """Return whether one of two columns is the other, or a level above it."""
    chains = []
    for name in (one, other):
        chain = [name]
        while chain[-1] in made_of:
            chain.append(made_of[chain[-1]])
        chains.append(chain)
    return chains[0][-1] == chains[1][-1]


def _between(column: Column, name: str, outside: Where) -> Column:
    """Return a column's facts between the edges, where what is outside is in no group."""
    if not isinstance(column, NumberColumn):
        return column
    ends = {each.op: column.number_of(each.value) for each in outside if each.column == name}
    low, high = ends.get(">="), ends.get("<=")
    return replace(
        column,
        lower=column.lower if low is None else as_written(low),
        upper=column.upper if high is None else as_written(high),
    )


def _links(
    models: Sequence[GraphicalModel], names: Sequence[str], groups: tuple[str, ...]
) -> list[tuple[str, tuple[str, ...]]]:
    """Return each column, and what it depends on in any of the models, the groups first."""
    given: dict[int, set[int]] = {}
    for model in models:
        for link in model.links:
            given.setdefault(link.column, set()).update(link.given)
    return [
        (names[column], (*groups, *_named(names, tuple(sorted(found)))))
        for column, found in given.items()
    ]


def _fill(codes: Integers, levels: Hierarchy) -> None:
    """Fill in the levels above a hierarchy, which follow from it."""
    below = levels.columns[-1]
    for level, parents in zip(levels.columns[-2::-1], levels.parents[:0:-1], strict=True):
        codes[:, level] = np.array(parents)[codes[:, below]]
        below = level


def most_rows(statistic: MarginStatistic) -> int:
    """Return how many rows are made at once."""
    return min(MOST_ROWS, MOST_VALUES // _columns(statistic))


def _columns(statistic: MarginStatistic) -> int:
    """Return how many columns the rows of a question have at most."""
    return len(statistic.columns) + len(getattr(statistic, "by", ()))


def synthesizing_ms(statistic: MarginStatistic, schema: Schema, rows: int) -> float:
    """Return about how many milliseconds of one core it takes to make rows, and to write them."""
    models = max(about_groups(getattr(statistic, "by", ()), schema), 1)
    moved = min(_MS_PER_MOVED * rows * statistic.table_count, _MOST_MS_MOVED)
    return _MS_PER_MODEL * models + _MS_PER_VALUE * rows * _columns(statistic) + moved


def _counts_of(
    workload: Workload, value: Mapping[str, Any], *, raw: bool
) -> dict[ColumnSet, Integers]:
    """Return the margins of an answer: whole counts, none negative.

    Unbiased estimates are projected on whole counts of the same total, each table by itself.
    """
    people = min(max(round(value["rows"]), 0), MOST_COUNT)
    counts = {}
    for margin, table in zip(workload.margins, value["tables"], strict=True):
        own = [cell["count"] for cell in table["cells"]]
        if raw:
            own = quotas([round(SCALE * each) for each in own], people)
        counts[margin] = np.array(own, dtype=np.int64).reshape(workload.shape(margin))
    return counts


def _named(names: Sequence[str], columns: ColumnSet) -> tuple[str, ...]:
    return tuple(names[i] for i in columns)


def _fit(
    models: Sequence[GraphicalModel],
    named: tuple[_Groups, Sequence[str]],
    counts: Sequence[Integers],
    margin: ColumnSet,
    drawn: Sequence[Integers],
) -> TableFit:
    """Return a table, of all groups as one with the groups' columns first."""
    groups, names = named
    shape = (*groups.sizes, *counts[0].shape)
    parts = [
        cells_of(model.workload, codes, margin) for model, codes in zip(models, drawn, strict=True)
    ]
    released, made = np.stack(counts).reshape(shape), np.stack(parts).reshape(shape)
    shares = [each / max(int(each.sum()), 1) for each in (released, made)]
    return TableFit(
        columns=(*groups.names, *_named(names, margin)),
        in_model=all(model.knows(margin) for model in models),
        total_variation=float(np.abs(shares[0] - shares[1]).sum() / 2),
        released=released,
        synthetic=made,
    )


# Values


def _values(column: Column, axis: Axis, codes: Integers, seed: int, place: str) -> list[Any]:
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
