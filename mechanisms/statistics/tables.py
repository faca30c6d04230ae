r"""Many margins of one table in one draw: whole, not negative, and in agreement with one another.

A record is in one cell of every margin. How far one record moves all margins at once, under every
change that neighbours may differ by, is proved in :mod:`mechanisms.tables.sensitivities`; the noise
that hides it in :mod:`mechanisms.tables.laplace` and :mod:`mechanisms.tables.characters`.

*Hierarchy.* With ``hierarchy: "town"`` every table with the town is also wanted of each level above
it, such as county and nation: columns that are functions of the town. A record is in one cell of
every such table too, so the theorems hold as they stand, with the levels as columns of their own.
Whole counts agree at all levels: :mod:`mechanisms.tables.levels`.

*Select.* With ``select: "auto"`` the tables of pairs are drawn too, for a share of epsilon
(:mod:`mechanisms.tables.planning`). Before the draw the margins are all pairs, the candidates;
afterwards those of the answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from itertools import product, repeat
from math import comb
from typing import Any, ClassVar, Literal, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import (
    Block,
    Data,
    ErrorLaw,
    FieldHint,
    InvalidStatisticError,
    Json,
    NearZero,
    meaning,
)
from mechanisms.contract import require_column as required
from mechanisms.domain import CategoryColumn, Column, Schema
from mechanisms.exact.fractions import as_written
from mechanisms.probes import ENDS, Probe
from mechanisms.statistics.cells.axes import Axis, Edges, axis_of
from mechanisms.statistics.cells.parting import Parting
from mechanisms.statistics.cells.spelling import spelled_edges
from mechanisms.statistics.facts.defaults import largest_weight, most_of
from mechanisms.statistics.questions import Question, widened
from mechanisms.statistics.weights import (
    HELD_PARTS,
    WEIGHTS,
    Weighing,
    Weights,
    require_weights,
    weights_of,
)
from mechanisms.tables.levels import Hierarchy, others_of
from mechanisms.tables.records import MOST_RECORDS
from mechanisms.tables.workload import (
    MOST_CELLS,
    MOST_COLUMNS,
    ColumnSet,
    Workload,
    WorkloadError,
    count_margins,
)
from mechanisms.words import meant, no_value, worded

Margins = Literal["all_one_way", "all_two_way", "all_three_way"] | tuple[tuple[str, ...], ...]

_ORDERS = {"all_one_way": 1, "all_two_way": 2, "all_three_way": 3}
_MS_PER_TABLE = 0.25  # measured; of a plan


MOST_LISTED = 10_000
"""Of as many cells an answer lists each number with its cell, though all of a table's are alike."""


@dataclass(frozen=True, slots=True)
class Alike:
    """What is the same for all cells of a table: a number, or the ends of an interval."""

    count: Any


@runtime_checkable
class MarginStatistic(Protocol):
    """A statistic that is many margins of one table."""

    @property
    def raw(self) -> bool: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def hierarchy(self) -> str | None: ...

    @property
    def known(self) -> Mapping[str, Mapping[str, int]]: ...

    @property
    def weights(self) -> str | None: ...

    @property
    def selecting(self) -> Fraction:
        """Return the share of epsilon that chooses the margins; 0 where they are stated."""

    @property
    def table_count(self) -> int:
        """Return how many tables it asks for; to select from, where it selects."""

    def answered(self, value: Mapping[str, Any], /) -> MarginStatistic:
        """Return the question with the margins that an answer has."""

    def names(self, schema: Schema, /) -> tuple[str, ...]:
        """Return the columns of the workload: those of the question, levels before their own."""

    def axes(self, schema: Schema, /) -> list[Axis]:
        """Return each column's cells."""

    def workload(self, schema: Schema, /) -> Workload:
        """Return the margins, of columns in the order of the names."""

    def levels(self, schema: Schema, /) -> Hierarchy | None:
        """Return the levels of the hierarchy; None without one."""

    def counted(self, data: Data, schema: Schema, /) -> Mapping[ColumnSet, NDArray[Any]]:
        """Return the exact maximal margins: the private step."""

    def answer(self, schema: Schema, numbers: Mapping[ColumnSet, Any], rows: Any, /) -> Json:
        """Return an answer of numbers for the cells of each margin, and for the rows.

        Of a margin whose numbers are :class:`Alike` it has one, in place of the cells.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables(Question):
    """Many tables of counts that agree with one another, in one draw."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    has_cells: ClassVar[bool] = True
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {"margins": (), "gaussian": ()}
    advice: ClassVar[Mapping[str, str]] = {
        "margins": "A release is pure epsilon-DP. In accounts with a delta its noise is larger.",
        "gaussian": "In accounts with a delta: noise on residuals, smaller at the same charge.",
    }
    limits: ClassVar[Mapping[str, int]] = {"columns": MOST_COLUMNS, "cells": MOST_CELLS}
    example: ClassVar[Json] = {
        "kind": "tables",
        "columns": ["ocean_proximity", "median_income"],
        "edges": {"median_income": [0, 3, 6, 15]},
    }
    probes: ClassVar[tuple[Probe, ...]] = (
        Probe({"kind": "tables", "columns": ["group"], "margins": "all_one_way"}, ENDS),
        Probe(
            {
                "kind": "tables",
                "columns": ["group"],
                "margins": "all_one_way",
                "hierarchy": "group",
            },
            ENDS,
            adjacency="replace_one",
        ),
    )
    hints: ClassVar[Mapping[str, FieldHint]] = {
        "raw": FieldHint("Unbiased estimates", "Fractions and negative numbers too.", rare=True),
        "select": FieldHint(
            "Select tables",
            "Draws which pairs of columns to release, in place of the tables above.",
            rare=True,
            options={"None": "none", "auto": "pairs that depend most on each other"},
        ),
        "select_share": FieldHint(
            "Share for selecting", "Of epsilon, to select tables. Between 0 and 1.", rare=True
        ),
    }
    error_law: ClassVar[ErrorLaw] = "linear"
    near_zero: ClassVar[NearZero] = "nothing"
    counts_records: ClassVar[bool] = True
    no_inference: ClassVar[str] = worded(
        "counts are of the records of this data set, and estimate no number of a population: the "
        "shares of a summary have intervals"
    )
    stated_fields: ClassVar[frozenset[str]] = frozenset({"where"})

    kind: Literal["tables"] = "tables"
    columns: tuple[str, ...] = field(
        metadata=meaning("Category, boolean or number columns, each named once; at most 100.")
    )
    edges: Mapping[str, Edges] = field(
        default_factory=dict,
        metadata=meaning(
            "For each number column its increasing edges, within the column's bounds (dates as ISO "
            'texts), `{"step": 5}` for edges at equal distances, or `"values"` for a cell for each '
            "whole number. Values outside the edges have cells of their own.",
            example={"median_income": [0, 3, 6, 15]},
        ),
    )
    margins: Margins = field(
        default="all_two_way",
        metadata=meaning(
            "Which tables: those of every column, of every two or of every three columns; or a "
            "list of tables, each a list of columns. At most 1,000,000 cells together.",
            example=[["ocean_proximity", "median_income"], ["median_income"]],
        ),
    )
    raw: bool = field(
        default=False,
        metadata=meaning(
            "Whether to return the unbiased estimates, which may be fractions and negative, in "
            "place of whole counts.",
            example=True,
        ),
    )

    select: Literal["auto"] | None = field(
        default=None,
        metadata=meaning(
            "`auto` chooses tables of two columns in place of `margins`: a tree that joins all "
            "columns, of pairs that depend on each other. The choice is private, and costs a "
            "share of epsilon. Whole counts alone, without groups, weights and hierarchy.",
            example="auto",
        ),
    )
    select_share: float = field(
        default=0.3,
        metadata=meaning(
            "The share of epsilon that `select` spends, more than 0 and less than 1, or of rho in "
            "accounts with a delta: three quarters of it on noisy counts of each column, which the "
            "tables use too, and a quarter on the choice.",
            example=0.25,
        ),
    )

    weights: Weighing = field(default=None, metadata=WEIGHTS)
    hierarchy: str | None = field(
        default=None,
        metadata=meaning(
            "One of the columns, a category whose values are `within` others: each table with it "
            "is also made of every level above, and all levels agree. One table has all columns "
            "that it is crossed with.",
            example="municipality",
        ),
    )
    known: Mapping[str, Mapping[str, int]] = field(
        default_factory=dict,
        metadata=meaning(
            "Public totals of places, by level and value, which whole counts keep exactly. State "
            "what is published elsewhere, never a number from the data.",
            example={"region": {"north": 5120}},
        ),
    )

    def spelled(self, schema: Schema, /) -> Mapping[str, object]:
        """Return the common fields and the edges, in their canonical spelling."""
        wider = widened(self, schema)
        edges = {name: spelled_edges(each, name, wider) for name, each in self.edges.items()}
        known = {
            name: _spelled_places(totals, wider.columns.get(name))
            for name, totals in self.known.items()
        }
        return {**Question.spelled(self, schema), "edges": edges, "known": known}

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        if not self.columns:
            raise InvalidStatisticError("name at least one column", field_name="columns")
        if len(set(self.columns)) != len(self.columns):
            raise InvalidStatisticError("a column is named twice", field_name="columns")
        for name in self.edges:
            if name not in self.columns:
                close = meant(self.columns, name)
                raise InvalidStatisticError(
                    f"edges are given for a column that is not counted{close}", field_name="edges"
                )
        if self.weights is not None:
            require_weights(schema, self.weights)
        self._check_select()
        self._check_levels(schema)
        if self.workload(schema).cells < 2:
            raise InvalidStatisticError("tables have at least two cells", field_name="columns")

    def _check_select(self) -> None:
        """Raise when tables are selected, and the question has what that does not go with."""
        usual = {each.name: each.default for each in fields(self)}
        if self.select is None:
            if self.select_share != usual["select_share"]:
                raise InvalidStatisticError('goes with "select": "auto"', field_name="select_share")
            return
        if not 0 < self.select_share < 1:
            raise InvalidStatisticError(
                "is more than 0 and less than 1, such as 0.2", field_name="select_share"
            )
        for name in ("margins", "raw", "weights", "hierarchy"):
            if getattr(self, name) != usual[name]:
                value = json.dumps(usual[name])
                raise InvalidStatisticError(
                    f'"select": "auto" goes without {name}: write "{name}": {value}',
                    field_name="select",
                )
        if len(self.columns) < 3:
            raise InvalidStatisticError(
                "tables are selected among at least 3 columns; for fewer leave it out",
                field_name="select",
            )

    def _check_levels(self, schema: Schema) -> None:
        """Raise when the hierarchy does not fit, or what is stated of its places."""
        chain = self._chain(schema)
        if self.hierarchy is None:
            if self.known:
                raise InvalidStatisticError("totals need a hierarchy", field_name="known")
            return
        if self.hierarchy not in self.columns:
            close = meant(self.columns, self.hierarchy)
            raise InvalidStatisticError(f"is none of the columns{close}", field_name="hierarchy")
        if len(chain) < 2:
            raise InvalidStatisticError(
                f"{self.hierarchy} has no level above it: the data set's spec says nothing that "
                "its values are within",
                field_name="hierarchy",
            )
        if name := next((each for each in chain[:-1] if each in self.columns), None):
            raise InvalidStatisticError(
                f"{name} is a level of {self.hierarchy}, and is counted with it; leave it out",
                field_name="columns",
            )
        if self.known and (self.raw or self.weights):
            raise InvalidStatisticError(
                "public totals are kept by whole counts, without raw and weights",
                field_name="known",
            )
        try:
            hierarchy = cast(Hierarchy, self.levels(schema))
            others_of(self.workload(schema), hierarchy)
        except WorkloadError as why:
            raise InvalidStatisticError(
                f'{why}; list them: "margins": [["{self.hierarchy}", ...], ...]',
                field_name="margins",
            ) from None
        _require_possible(hierarchy, schema)

    def parting(self, schema: Schema) -> Parting:
        """Return the parts of the rows that the question is about.

        Raises
        ------
        InvalidStatisticError
            Conditions or groups do not fit the schema, or totals are stated of groups, or tables
            are selected for groups.
        """
        if self.by and self.select is not None:
            raise InvalidStatisticError(
                '"select": "auto" goes without by: add the groups to the columns',
                field_name="select",
            )
        if self.by and self.known:
            raise InvalidStatisticError(
                "public totals are of all records that are counted, not of groups of them",
                field_name="known",
            )
        return Question.parting(self, schema)

    @property
    def selecting(self) -> Fraction:
        """Return the share of epsilon that chooses the margins; 0 where they are stated."""
        return Fraction(0) if self.select is None else as_written(self.select_share)

    @property
    def table_count(self) -> int:
        """Return how many tables it asks for; to select from, where it selects."""
        if self.margins not in _ORDERS:
            return len(self.margins)
        return comb(len(self.columns[:MOST_COLUMNS]), _ORDERS[self.margins])

    def answered(self, value: Mapping[str, Any], /) -> Tables:
        """Return the question with the margins that an answer has.

        It still says which share of epsilon was spent on selecting them.
        """
        if self.select is None:
            return self
        return replace(self, margins=tuple(tuple(each["columns"]) for each in value["tables"]))

    def _chain(self, schema: Schema) -> tuple[str, ...]:
        """Return the levels of the hierarchy, the highest first, and itself."""
        above = {each.source: level for level, each in schema.nested.items()}
        chain = [] if self.hierarchy is None else [self.hierarchy]
        while chain and chain[0] in above:
            chain.insert(0, above[chain[0]])
        return tuple(chain)

    def names(self, schema: Schema, /) -> tuple[str, ...]:
        """Return the columns of the workload: those of the question, levels before their own."""
        chain = self._chain(schema)
        return tuple(
            each for name in self.columns for each in (chain if name == self.hierarchy else (name,))
        )

    def axes(self, schema: Schema) -> list[Axis]:
        """Return each column's cells."""
        return [
            axis_of(name, required(schema, name, "columns"), self.edges.get(name))
            for name in self.names(schema)
        ]

    def levels(self, schema: Schema, /) -> Hierarchy | None:
        """Return the levels of the hierarchy; None without one.

        Raises
        ------
        InvalidStatisticError
            A total is of no place.
        """
        if self.hierarchy is None:
            return None
        names, chain = self.names(schema), self._chain(schema)
        places = [cast(CategoryColumn, required(schema, name, "columns")) for name in chain]
        parents = [(0,) * len(places[0].values)]
        for name, column in zip(chain, places[1:], strict=False):
            parents.append(schema.nested[name].codes[: len(column.values)])
        if wrong := self.known.keys() - {*chain}:
            name, close = min(wrong), meant(chain, min(wrong))
            raise InvalidStatisticError(
                f"{name} is no level of {self.hierarchy}{close}",
                field_name=f"known[{[*self.known].index(name)}]",
            )
        return Hierarchy(
            columns=tuple(names.index(name) for name in chain),
            parents=tuple(parents),
            known=tuple(
                self._coded(name, column) for name, column in zip(chain, places, strict=True)
            ),
        )

    def _coded(self, level: str, column: CategoryColumn) -> dict[int, int]:
        """Return the totals of a level by the codes of its places."""
        totals, found = self.known.get(level, {}), dict[int, int]()
        for at, (text, code) in enumerate(zip(totals, column.places_of([*totals]), strict=True)):
            if code is None:
                wrong = no_value(level, column.values, text)
            elif code in found:
                wrong = worded("%(name)s has two totals", name=column.values[code])
            elif not 0 <= totals[text] <= MOST_RECORDS:
                wrong = worded(
                    "the total of %(name)s must be between 0 and %(most)s",
                    name=column.values[code], most=format(MOST_RECORDS, ","),
                )  # fmt: skip
            else:
                found[code] = totals[text]
                continue
            place = f"known[{[*self.known].index(level)}][{at}]"
            raise InvalidStatisticError(wrong, field_name=place)
        return found

    def workload(self, schema: Schema, /) -> Workload:
        """Return the margins, of columns in the order of the names.

        Raises
        ------
        InvalidStatisticError
            They are no margins of these columns, or too many.
        """
        axes = self.axes(schema)
        sizes = {axis.column: len(axis.labels) for axis in axes}
        own = tuple(sizes[name] for name in self.columns)
        try:
            if isinstance(self.margins, str):
                found = Workload.of_order(own, _ORDERS[self.margins])
            else:
                found = Workload(own, tuple(map(self._numbered, self.margins)))
            if self.hierarchy is None:
                return found
            names, chain = self.names(schema), self._chain(schema)
            margins = ([self.columns[i] for i in margin] for margin in found.margins)
            wanted = (
                tuple(sorted(names.index(level if name == self.hierarchy else name)
                             for name in margin))
                for margin in margins
                for level in (chain if self.hierarchy in margin else chain[:1])
            )  # fmt: skip
            return Workload(tuple(sizes.values()), tuple(wanted))
        except WorkloadError as refused:
            raise InvalidStatisticError(str(refused), field_name="margins") from None

    def _numbered(self, names: Sequence[str]) -> ColumnSet:
        for name in names:
            if name not in self.columns:
                close = meant(self.columns, name)
                raise InvalidStatisticError(
                    f"a table has a column that is not among the columns{close}",
                    field_name="margins",
                )
        return tuple(sorted(self.columns.index(name) for name in names))

    def counted(self, data: Data, schema: Schema, /) -> Mapping[ColumnSet, NDArray[Any]]:
        """Return the exact maximal margins, by weights in parts of the largest."""
        axes, workload = tuple(self.axes(schema)), self.workload(schema)
        weights = weights_of(self, schema)
        total = count_margins(np.zeros((0, len(axes)), dtype=np.int64), workload)
        read = [axis.reads for axis in axes] + ([] if weights is None else [weights.name])
        for some in data.map(partial(_counts_of, axes, workload, weights), read):
            for margin, counts in some.items():
                total[margin] += counts
        return total

    def answer(self, schema: Schema, numbers: Mapping[ColumnSet, Any], rows: Any, /) -> Json:
        """Return an answer of numbers for the cells of each margin, and for the rows.

        Of a margin whose numbers are :class:`Alike` it has one, in place of the cells, if there are
        more than :data:`MOST_LISTED` cells in all.
        """
        axes, all_names, workload = self.axes(schema), self.names(schema), self.workload(schema)
        tables: list[dict[str, Any]] = []
        is_long = workload.cells > MOST_LISTED
        for margin in workload.margins:
            names = [all_names[i] for i in margin]
            counts = numbers[margin]
            if isinstance(counts, Alike) and is_long:
                tables.append({"columns": names, "count": counts.count})
                continue
            if isinstance(counts, Alike):
                counts = repeat(counts.count, workload.size(margin))
            labels = product(*(axes[i].labels for i in margin))
            cells = [
                {"cell": dict(zip(names, each, strict=True)), "count": number}
                for each, number in zip(labels, counts, strict=True)
            ]
            tables.append({"columns": names, "cells": cells})
        return {"tables": tables, "rows": rows}

    def possible_ranges(self, schema: Schema, rows: float, /) -> Json | None:
        """Return none to five times an equal share of the rows, in each cell.

        None where the cells are not known before the draw.
        """
        if self.select is not None:
            return None
        workload, rows = self.workload(schema), rows * largest_weight(schema, self.weights)
        ranges = {
            margin: Alike([0.0, most_of(rows / workload.size(margin), rows)])
            for margin in workload.margins
        }
        return self.answer(schema, ranges, [0.0, rows])

    def answer_numbers(self, schema: Schema, /) -> int:
        """Return the number of cells, and one for the rows."""
        return self.workload(schema).cells + 1

    def planning_ms(self, _schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 2 + _MS_PER_TABLE * self.table_count


def _spelled_places(totals: Mapping[str, int], column: Column | None) -> Mapping[str, int]:
    if not isinstance(column, CategoryColumn):
        return totals
    spelled = {column.value_of(place) or place: total for place, total in totals.items()}
    return spelled if len(spelled) == len(totals) else totals  # two of one place are refused


def _require_possible(hierarchy: Hierarchy, schema: Schema) -> None:
    """Raise when no data set has the totals that are stated."""
    try:
        least, exact = hierarchy.stated()
    except WorkloadError as refused:
        raise InvalidStatisticError(str(refused), field_name="known") from None
    (total,), (sure,), rows = least[0], exact[0], schema.known_rows
    if total > (schema.row_bound if rows is None else rows):
        raise InvalidStatisticError("the totals are more than all rows", field_name="known")
    if sure and rows is not None and total != rows:
        raise InvalidStatisticError(
            f"the totals of all places add up to {total:,}, and there are {rows:,} rows",
            field_name="known",
        )


def _counts_of(
    axes: Sequence[Axis], workload: Workload, weights: Weights | None, block: Block
) -> Mapping[ColumnSet, NDArray[np.int64]]:
    codes = np.stack([axis.place(block[axis.reads]) for axis in axes], axis=1)
    # below 2**53 together, as 2**32 records have 2**12 parts each at most
    masses = None if weights is None else weights.shares(block[weights.name], HELD_PARTS)
    return count_margins(codes, workload, masses)
