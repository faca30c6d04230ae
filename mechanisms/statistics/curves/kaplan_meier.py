"""A survival curve, and the comparison of groups by it.

A record has a time, and whether the event happened then or it was last seen then. The curve is read
off one histogram of cells of time by event, and by group, as
:mod:`mechanisms.statistics.curves.survival` says. A record is in one cell, so sensitivities, hulls
and theorem are those of :mod:`mechanisms.statistics.histogram`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from mechanisms.contract import (
    FieldHint,
    Inference,
    Json,
    Outcome,
    Term,
    meaning,
    require_numbers,
)
from mechanisms.domain import Schema
from mechanisms.exact.floats import Floats
from mechanisms.probes import ENDS, Probe
from mechanisms.statistics.cells.axes import Edges
from mechanisms.statistics.curves.counts import (
    METHOD,
    NoisyCounts,
    OfTwoColumns,
    ReadGroups,
    place_text,
)
from mechanisms.statistics.curves.hypotheses import log_rank, log_rank_error
from mechanisms.statistics.curves.survival import Band, Clock, Survival, bands
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.questions import widened
from mechanisms.statistics.weights import WEIGHTS, Weighing

_NOT_REACHED = "The curve does not fall to one half within the times that are asked about."
_METHOD = (
    f"{METHOD}. The intervals of survival are a band that holds at all times together with 95%; "
    "where hardly any record is at risk the band goes down to 0"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KaplanMeier(OfTwoColumns):
    """Survival curves of a time and an event, with a band, the median, and the log-rank test."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    counted: ClassVar[tuple[str, str]] = ("time", "event")
    example: ClassVar[Json] = {
        "kind": "kaplan_meier",
        "time": "median_house_value",
        "event": "below_cap",
        "edges": {"median_house_value": [0, 100000, 200000, 300000, 400000, 500000]},
        "derive": {"below_cap": "median_house_value < 500001"},
    }
    name: ClassVar[str] = "Kaplan-Meier curve"
    probes: ClassVar[tuple[Probe, ...]] = (
        Probe(
            {"kind": "kaplan_meier", "time": "x", "event": "yes", "edges": {"x": [-1, 0, 1]}}, ENDS
        ),
    )
    hints: ClassVar[Mapping[str, FieldHint]] = {
        "time": FieldHint(
            "Time", "How long a record was followed: a number column.", columns="amounts"
        ),
        "event": FieldHint(
            "Event",
            "A yes-or-no column: whether the event happened then; derive one if need be.",
            columns="flags",
        ),
    }

    kind: Literal["kaplan_meier"] = "kaplan_meier"
    time: str = field(
        metadata=meaning(
            "A number column: until when a record was followed, until its event or until it was "
            "last seen. Not a date; derive a duration from dates.",
            example="days",
        )
    )
    event: str = field(
        metadata=meaning(
            "A boolean column: whether the event happened at that time. Derive one from a "
            'category, as in `{"died": "status == \'dead\'"}`.',
            example="died",
        )
    )
    edges: Mapping[str, Edges] = field(
        default_factory=dict,
        metadata=meaning(
            "The cells of the time, as a histogram takes them: increasing edges within the "
            'column\'s bounds, `{"step": 30}`, or `"values"` for a cell for each whole number. The '
            "curve ends at the last edge. Without edges there are 50 cells of one width between "
            "the column's public bounds.",
            example={"days": {"step": 30}},
        ),
    )

    weights: Weighing = field(default=None, metadata=WEIGHTS)

    def answer_numbers(self, schema: Schema, /) -> int:
        """Return three numbers for each time."""
        return 3 * len(self._clock(schema).ends)

    def possible_ranges(self, schema: Schema, rows: float, /) -> Json:
        """Return none to all: of survival, and of the records."""
        ends = {"at_risk": [0.0, rows], "events": [0.0, rows], "survival": [0.0, 1.0]}
        return {"curve": [ends for _ in self._clock(schema).ends]}

    def _clock(self, schema: Schema) -> Clock:
        [column] = require_numbers(schema, [self.time], "time")
        return Clock.of(self.histogram(schema).axes(schema)[0], column)

    def compared_by(self, schema: Schema, /) -> Histogram | None:
        """Return the histogram of all groups, for the log-rank test of several.

        Of weighted rows, and of several rows of a person, there is no test.
        """
        if not self.by or self.weights is not None or schema.protects.rows > 1:
            return None
        counted = self.histogram(widened(self, schema))
        common = {name: getattr(self, name) for name in ("where", "by", "derive", "missing")}
        return replace(counted, **common)

    def error_of_comparison(self, rows: int, std: float, schema: Schema, /) -> float:
        """Return the log-rank test's standard error in that without noise, of even rows."""
        wider = widened(self, schema)
        groups, cells = self.parting(wider).cells, self.histogram(wider).size(wider) // 2
        even = np.full((groups, cells, 2), rows / (2 * groups * cells))
        return log_rank_error(even, std, self._clock(wider))

    def curves(self, counts: Floats, schema: Schema, /) -> Json:
        """Return the answer to counts of shape (..., cells, 2): times are last in each number."""
        clock = self._clock(schema)
        return _answer(Survival.of(counts, clock), clock)

    def read(self, noisy: NoisyCounts, schema: Schema, /) -> ReadGroups:
        """Return each group's curve and band, and the log-rank test of several groups."""
        clock = self._clock(schema)
        found = [
            Outcome(_answer(curve, clock), None, _inference(band, curve, clock))
            for curve, band in bands(noisy, clock)
        ]
        if len(found) == 1:
            return ReadGroups(found, {})
        test = log_rank(noisy, clock)
        compared = {"statistic": test.statistic, "p_value": test.p_value}
        return ReadGroups(found, {"log_rank": compared})


def _answer(curves: Survival, clock: Clock) -> Json:
    """Return the value: numbers, or arrays of them where the curves are several."""

    def at(numbers: Floats, place: int) -> object:
        own = numbers[..., place]
        return own if own.ndim else float(own)

    return {
        "curve": [
            {
                "time": place_text(end),
                "at_risk": at(curves.at_risk, place),
                "events": at(curves.events, place),
                "survival": at(curves.survival, place),
            }
            for place, end in enumerate(clock.ends)
        ]
    }


def _inference(band: Band, curves: Survival, clock: Clock) -> Inference:
    terms = tuple(
        Term(
            term=f"survival at {place_text(end)}",
            estimate=float(curves.survival[at]),
            std_error=float(band.errors[at]),
            confidence_95=(float(band.low[at]), float(band.high[at])),
            place=("curve", at, "survival"),
            open=bool(band.low[at] <= 0 and band.high[at] >= 1),
        )
        for at, end in enumerate(clock.ends)
    )
    median = Term(
        term="median survival",
        estimate=band.median,
        reason=_NOT_REACHED if band.median is None else None,
        std_error=band.median_error,
        confidence_95=band.median_95,
    )
    return Inference(terms=terms, method=_METHOD, fit=(median,))
