"""What an offer is proved with: columns, records, and a worst pair of neighbours.

:mod:`tests.mechanisms.offers` has a :class:`Proof` for each offer, and says how to write one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from mechanisms.catalog import STATISTICS
from mechanisms.contract import Statistic
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
MAX_ROWS = 100

Record = Mapping[str, object]

COLUMNS: Mapping[str, Column] = {
    "x": NumberColumn(Fraction(-1), Fraction(1)),
    "y": NumberColumn(Fraction(-1), Fraction(1)),
    "yes": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "group": CategoryColumn(("a", "b", "c")),
    "here": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "kind": CategoryColumn(("low", "high")),
}


def record(x: float = 0.0, y: float = 0.0, yes: int = 0, group: str = "a") -> Record:
    """Return one record of :data:`COLUMNS`."""
    return {"x": x, "y": y, "yes": yes, "group": group, "here": 1, "kind": "low"}


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What an offer is tried with; the module's docstring says how to choose each field."""

    statistic: Statistic
    mechanism: str
    shape: Mapping[str, Any]
    common: Sequence[Record]
    changed: tuple[Record, Record]
    reading: Callable[[Any], float]
    cuts: Sequence[float]
    caught_at: int
    noise: bool
    draws: int = 300
    draws_replace_one: int | None = None
    fewer: Mapping[str, int] = field(default_factory=dict)
    epsilon: str = "1"
    plain: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    shape_add_remove: Mapping[str, Any] | None = None
    noise_is_bound: bool = False
    compared: Mapping[str, Any] = field(default_factory=dict)
    norms: tuple[str, ...] | None = None
    adjacencies: tuple[Adjacency, ...] = (REPLACE, ADD)
    refused: tuple[tuple[str, Adjacency], ...] = ()
    columns: Mapping[str, Column] = field(default_factory=lambda: COLUMNS)

    @property
    def offered_norms(self) -> tuple[str, ...]:
        """Return the norms this entry proves; "auto" alone for a mechanism without one."""
        return self.norms or STATISTICS[self.statistic.kind].mechanisms[self.mechanism] or ("auto",)

    def shape_under(self, adjacency: Adjacency) -> Mapping[str, Any]:
        """Return the value's shape."""
        if adjacency is ADD and self.shape_add_remove is not None:
            return self.shape_add_remove
        return self.shape

    def schema(self, adjacency: Adjacency, rows: int) -> Schema:
        """Return the public facts of a data set with this many rows."""
        public = rows if adjacency is REPLACE else None
        return Schema(self.columns, adjacency, public, MAX_ROWS, zcdp=not self.is_pure)

    @property
    def is_pure(self) -> bool:
        """Return whether epsilon-DP is promised: Gaussian noise is in zCDP."""
        return self.mechanism != "gaussian"

    def data(self, records: Sequence[Record]) -> ArrayData:
        """Return a data set of these records."""
        values = {name: [each[name] for each in records] for name in self.columns}
        return ArrayData.from_values(self.schema(REPLACE, len(records)), values)

    def draws_under(self, adjacency: Adjacency, norm: str) -> int:
        """Return how often each data set is drawn from."""
        draws = self.fewer.get(norm, self.draws)
        return min(draws, self.draws_replace_one or draws) if adjacency is REPLACE else draws

    def pair(self, adjacency: Adjacency) -> tuple[ArrayData, ArrayData]:
        """Return the worst pair of neighbours."""
        other = [self.changed[1]] if adjacency is REPLACE else []
        return self.data([*self.common, self.changed[0]]), self.data([*self.common, *other])

    def tiny(self, adjacency: Adjacency) -> Iterator[ArrayData]:
        """Yield degenerate data sets: none, one, constant and mixed records."""
        if adjacency is ADD:
            yield self.data([])
        for each in self.changed:
            yield self.data([each])
            yield self.data([each] * 5)
        yield self.data([*self.common, *self.changed])
