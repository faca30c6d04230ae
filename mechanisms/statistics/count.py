"""The number of records, or of those that meet public conditions.

T = the number of records; one person moves it by at most 1 under either adjacency. The number of
all records is private under add-remove only. By weights T is their sum, which is private always.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block, ErrorLaw, InvalidStatisticError, Json, NearZero, meaning
from mechanisms.domain import NumberColumn, Schema, exact
from mechanisms.geometry.spaces import AdjacentOutputSpace
from mechanisms.probes import ENDS, Probe
from mechanisms.statistics.additive import (
    ADVICE,
    AdditiveForm,
    Coordinates,
    Leaf,
    Tree,
    constant_slopes,
)
from mechanisms.statistics.cells.axes import Axis
from mechanisms.statistics.cells.parting import Merged, Where
from mechanisms.statistics.facts.defaults import largest_weight
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.questions import Question
from mechanisms.statistics.second_order import MomentReader
from mechanisms.statistics.weights import (
    WEIGHTS,
    Weighing,
    private_rows,
    require_weights,
    weighted_counts,
)
from mechanisms.words import worded


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Question):
    """How many records there are, or meet every condition of ``where``."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "k_norm": ("l1", "l2", "linf", "optimal"),
        "gaussian": (),
    }
    advice: ClassVar[Mapping[str, str]] = ADVICE
    example: ClassVar[Json] = {
        "kind": "count",
        "where": [{"column": "ocean_proximity", "op": "==", "value": "INLAND"}],
    }
    probes: ClassVar[tuple[Probe, ...]] = (
        Probe({"kind": "count", "where": [{"column": "x", "op": ">", "value": 0}]}, ENDS),
    )
    error_law: ClassVar[ErrorLaw] = "linear"
    near_zero: ClassVar[NearZero] = "nothing"
    counts_records: ClassVar[bool] = True
    no_inference: ClassVar[str] = worded(
        "a count is of the records of this data set, and estimates no number of a population: a "
        "share is the mean of a derived yes-or-no column, which has intervals"
    )
    by_design: ClassVar[Literal["mean", "total"] | None] = "total"
    stated_fields: ClassVar[frozenset[str]] = frozenset({"where"})
    usually_conditioned: ClassVar[bool] = True

    kind: Literal["count"] = "count"
    where: Where = field(
        default=(),
        metadata=meaning(
            "Conditions that a record must meet, all of them, to be counted; at most 20. Without "
            "any, every record counts: then under `add_remove`, or in groups, only, since under "
            "`replace_one` the row count is public."
        ),
    )

    weights: Weighing = field(default=None, metadata=WEIGHTS)

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        if self.weights is not None:
            require_weights(schema, self.weights)
        elif schema.known_rows is not None:
            raise InvalidStatisticError(
                "the row count is public under replace_one; add a condition to count by",
                field_name="where",
            )

    def possible_ranges(self, schema: Schema, rows: float, /) -> Json:
        """Return none to all of the rows, by the largest weight."""
        return {"count": [0.0, rows * largest_weight(schema, self.weights)]}

    def axes(self, _schema: Schema) -> list[Axis]:
        """Return no axis: a count is a histogram of one cell."""
        return []

    def over_groups(self, groups: Merged) -> Histogram:
        """Return the histogram whose cells are the groups."""
        return Histogram(
            columns=groups.names,
            edges=groups.edges,
            outside=groups.outside,
            weights=self.weights,
        )

    def of_cells(self, cells: Sequence[Mapping[str, Any]], _groups: Collection[str]) -> Json:
        """Return a group's part of that histogram's answer: its cell."""
        return {"count": cells[0]["count"]}

    def planning_ms(self, _schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 1.0

    def moment_columns(self, schema: Schema, /) -> tuple[str, ...] | None:
        """Return no column where moments hold the count: it is private."""
        return () if schema.known_rows is None and self.weights is None else None

    def from_moments(
        self, reader: MomentReader, _numbers: Sequence[NumberColumn], coordinates: Coordinates, /
    ) -> Tree:
        """Return the count that was released with the moments."""
        count = reader.sums(coordinates)[0, 0]
        return {"count": Leaf(value=count.value, slopes=count.slopes)}

    def additive(self, schema: Schema) -> AdditiveForm:
        """Return the count's form: one coordinate, Delta = 1; by weights Delta = their largest."""
        if self.weights is not None:
            form = replace(self, weights=None).additive(private_rows(schema))
            reads = (exact(self.weights),)
            place = partial(_in_one_cell, reads[0])
            return weighted_counts(form, schema, self.weights, reads=reads, place=place, cells=1)
        space = AdjacentOutputSpace(
            dimension=1,
            l1=Fraction(1),
            linf=Fraction(1),
            l2_squared=Fraction(1),
            hull="cross_polytope",
            description="the interval [-1, 1]",
            negligible_structure=True,
            unit=1,
            unit_name="records",
        )
        return AdditiveForm(
            space=space,
            total=lambda data: [data.rows],
            answer=_answer,
            reference=constant_slopes(1),
            grid=lambda step: {"step": {"count": float(step)}},
            details={},
            noise_size=1,
            linear=True,
        )


def _in_one_cell(name: str, block: Block) -> NDArray[np.int64]:
    return np.zeros(len(block[name]), dtype=np.int64)


def _answer(coordinates: Coordinates) -> Tree:
    return {"count": Leaf(value=coordinates[0], slopes={0: Fraction(1)}, whole=True)}
