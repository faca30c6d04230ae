"""Pairs of neighbours on which offers are audited, and the question that a statistic asks of one.

The pairs are the worst that are known: few rows, so that one of them weighs much, and the changed
row at opposite ends of its bounds. A statistic names its pairs (``probes`` of its class);
:mod:`app.audit` asks a running desk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mechanisms.privacy import Adjacency

COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "x": {"type": "number", "lower": -1, "upper": 1},
    "y": {"type": "number", "lower": -1, "upper": 1},
    "yes": {"type": "boolean"},
    "group": {
        "type": "category",
        "values": ["a", "b", "c"],
        "within": {"column": "half", "of": {"a": "first", "b": "second", "c": "second"}},
    },
}
"""The columns of every pair, as a data set's specification has them; ``half`` is in no file."""

Row = tuple[float, float, int, str]
"""The cells of a row, in the columns' order."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two data sets that differ in one person: the common rows, and the row before and after.

    Where records come or go, the second has the common rows alone.
    """

    name: str
    common: tuple[Row, ...]
    changed: tuple[Row, Row]

    def rows(self, adjacency: str, side: int) -> tuple[Row, ...]:
        """Return the rows of the first data set (``side`` 0) or of the second."""
        if side == 1 and adjacency == Adjacency.ADD_REMOVE.value:
            return self.common
        return (*self.common, self.changed[side])

    def csv(self, adjacency: str, side: int) -> str:
        """Return a data set as a file."""
        lines = [
            ",".join(COLUMNS),
            *(",".join(map(str, row)) for row in self.rows(adjacency, side)),
        ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Probe:
    """A question to both data sets of a pair.

    ``mechanism``, ``norm`` and ``adjacency`` narrow what it is asked of; None is any. The narrowest
    probe of an offer is taken. A ``variant`` is drawn in another way than the statistic usually is,
    and is an offer of its own: a field of the question's says so, and is its name.
    """

    question: Mapping[str, Any]
    pair: Pair
    mechanism: str | None = None
    adjacency: str | None = None
    norm: str | None = None
    variant: str = ""


def _pair(name: str, common: Row, times: int, before: Row, after: Row) -> Pair:
    return Pair(name, (common,) * times, (before, after))


ENDS = _pair("ends", (-1, -1, 0, "c"), 9, (1, 1, 1, "a"), (-1, -1, 0, "b"))
TURNED = Pair("turned", ((-1, -1, 0, "c"), (1, 1, 0, "c")), ((1, -1, 0, "a"), (-1, -1, 0, "b")))
MIDDLE = _pair("middle", (0.5, 0, 0, "c"), 1, (-1, 1, 0, "a"), (1, 1, 0, "b"))
NEAR = Pair("near", ((0.8, 0, 0, "c"), (0.9, 0, 0, "c")), ((-1, 1, 0, "a"), (1, 1, 0, "b")))
FACING = _pair("facing", (1, -1, 0, "c"), 1, (1, 1, 1, "a"), (1, -1, 0, "b"))
AMONG = _pair("among", (1, 0, 0, "c"), 1, (1, 1, 1, "a"), (1, -1, 0, "b"))
STEEP = _pair("steep", (1, -1, 0, "c"), 2, (1, 1, 1, "a"), (1, -1, 0, "b"))
"""The changed row counts for much in each: it is at one end of its bounds, then at the other."""
