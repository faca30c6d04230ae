"""Which neighbours each offer is tried with.

A :class:`Pair` is two data sets that differ in one person. A :class:`Probe` asks one question of
both. The pairs are the worst that are known: few rows, so that one of them weighs much, and the
changed row at opposite ends of its bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.audit.offers import Offer

ADD_REMOVE = "add_remove"
MAX_ROWS = 100  # any public bound above the pairs' own few rows

COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "x": {"type": "number", "lower": -1, "upper": 1},
    "y": {"type": "number", "lower": -1, "upper": 1},
    "yes": {"type": "boolean"},
    "group": {"type": "category", "values": ["a", "b", "c"]},
}
"""Of every throw-away data set."""

Row = tuple[float, float, int, str]
"""The cells of a row, in the columns' order."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbours: the rows of both, and the row in which they differ, before and after.

    Where records come or go, the second has the rows of both and no more.
    """

    name: str
    common: tuple[Row, ...]
    changed: tuple[Row, Row]

    def rows(self, adjacency: str, side: int) -> tuple[Row, ...]:
        """Return the rows of the first data set (``side`` 0) or of the second."""
        if side == 1 and adjacency == ADD_REMOVE:
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
    """A question to both data sets of a pair."""

    question: Mapping[str, Any]
    pair: Pair


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


def probe_of(offer: Offer) -> Probe | None:
    """Return what an offer is tried with; None of one that is not known here."""
    named = (offer.statistic, offer.mechanism, offer.adjacency)
    places = (named, named[:2], (offer.statistic, offer.adjacency), named[:1])
    return next((PROBES[place] for place in places if place in PROBES), None)


def _regression(kind: str, target: str, *, intercept: bool = False) -> dict[str, Any]:
    asked = {"kind": kind, "target": target, "features": ["x"]}
    return {**asked, "intercept": intercept, "bound": 1}


_ABOVE: Sequence[Mapping[str, Any]] = [{"column": "x", "op": ">", "value": 0}]
_COUNT = {"kind": "count", "where": _ABOVE}
_LINEAR = _regression("linear_regression", "y")
_LOGISTIC = _regression("logistic_regression", "yes")
_CHECK = _regression("quantile_regression", "y")
_MEDIAN = {"kind": "quantile", "column": "x", "levels": [0.5]}
_CENTRE = {"kind": "geometric_median", "columns": ["x"]}

PROBES: Mapping[tuple[str, ...], Probe] = {
    ("count",): Probe(_COUNT, ENDS),
    ("histogram",): Probe({"kind": "histogram", "columns": ["group"]}, ENDS),
    ("sum",): Probe({"kind": "sum", "columns": ["x", "y"]}, ENDS),
    ("mean",): Probe({"kind": "mean", "columns": ["x", "y"]}, ENDS),
    ("variance",): Probe({"kind": "variance", "columns": ["x"]}, ENDS),
    ("std",): Probe({"kind": "std", "columns": ["x"]}, ENDS),
    ("moments",): Probe({"kind": "moments", "columns": ["x", "y"]}, ENDS),
    ("covariance",): Probe({"kind": "covariance", "columns": ["x", "y"]}, ENDS),
    ("correlation",): Probe({"kind": "correlation", "columns": ["x", "y"]}, TURNED),
    ("quantile",): Probe(_MEDIAN, MIDDLE),
    ("quantile", ADD_REMOVE): Probe(_MEDIAN, NEAR),
    ("linear_regression",): Probe(_LINEAR, STEEP),
    ("linear_regression", "exponential"): Probe(_LINEAR, FACING),
    ("linear_regression", "functional"): Probe(
        _regression("linear_regression", "y", intercept=True), STEEP
    ),
    ("logistic_regression",): Probe(_LOGISTIC, STEEP),
    ("quantile_regression",): Probe(_CHECK, FACING),
    # facing rows leave its gradient's norm the same at all coefficients within the bound
    ("quantile_regression", "kng"): Probe(_CHECK, AMONG),
    ("geometric_median",): Probe(_CENTRE, MIDDLE),
    ("geometric_median", ADD_REMOVE): Probe(_CENTRE, NEAR),
    ("stack",): Probe({"kind": "stack", "parts": [{"statistic": _COUNT}] * 2}, ENDS),
}
"""By statistic, and by mechanism or adjacency where those need another one."""
