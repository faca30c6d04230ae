"""The geometric median of up to four bounded columns.

``minimise sum_i ||x_i - theta||_2`` over the box of the public bounds, each column mapped onto
[-1, 1], so that distances are in units of half a column's width.

*Sensitivity.* A record's gradient at theta is the unit vector from x_i to theta, and 0 at x_i:
replacing a record moves the sum by at most Delta_2 = 2, adding or removing one by 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from mechanisms.contract import Json, meaning, require_numbers
from mechanisms.domain import Schema
from mechanisms.privacy import Adjacency
from mechanisms.probes import MIDDLE, NEAR, Probe
from mechanisms.statistics.facts.defaults import bounds_of
from mechanisms.statistics.questions import Question
from mechanisms.words import worded

MAX_COLUMNS = 4  # boxes in more dimensions take too long


_CENTRE: Json = {"kind": "geometric_median", "columns": ["x"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometricMedian(Question):
    """The point with the least mean distance to the records, in scaled columns."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {"kng": ("l2",)}
    limits: ClassVar[Mapping[str, int]] = {"columns": MAX_COLUMNS}
    no_inference: ClassVar[str] = worded(
        "the curvature of a sum of distances, of which standard errors are made, has no bound: one "
        "record near the median makes it as large as one likes"
    )
    example: ClassVar[Json] = {"kind": "geometric_median", "columns": ["longitude", "latitude"]}
    probes: ClassVar[tuple[Probe, ...]] = (
        Probe(_CENTRE, MIDDLE),
        Probe(_CENTRE, NEAR, adjacency=Adjacency.ADD_REMOVE.value),
    )

    kind: Literal["geometric_median"] = "geometric_median"
    columns: tuple[str, ...] = field(
        metadata=meaning("Between 1 and 4 number or boolean columns, each named once.")
    )

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        require_numbers(schema, self.columns, "columns", most=MAX_COLUMNS)

    def answer_numbers(self, _schema: Schema, /) -> int:
        """Return about how many numbers an answer has: one for each column."""
        return len(self.columns) + 1

    def possible_ranges(self, schema: Schema, _rows: float, /) -> Json:
        """Return the bounds of each column."""
        return {name: bounds_of(schema, name) for name in self.columns}

    def planning_ms(self, _schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core a plan takes."""
        return 1 + 0.15 * len(self.columns)


def gradient_sensitivity(adjacency: Adjacency) -> int:
    """Return Delta_2 of the sum of unit vectors: 2 under replace-one, 1 under add-remove."""
    return 2 if adjacency is Adjacency.REPLACE_ONE else 1
