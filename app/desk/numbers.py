"""The numbers of an answer, arranged for a page: a table, and a chart where they are few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from app.desk.charts.intervals import Measured, intervals
from app.tidy.names import Labels
from app.tidy.rows import Row, notes_of, rows_of

MOST_ROWS = 1_000
"""At most this many numbers are shown on a page; a file has them all."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Rows of a table, how many more there are, and their chart."""

    rows: Sequence[Row]
    more: int
    chart: Markup | None
    bars: bool
    """Whether any of them has an interval."""
    confident: bool
    """Whether the chart's bars are confidence intervals, and not those of the noise."""
    notes: Sequence[str]
    """Why numbers are missing, each reason once."""
    labels: Labels
    """What values of categories are called."""


def numbers_of(answer: Mapping[str, Any], name: str, labels: Labels) -> Numbers:
    """Return the numbers of an answer; ``name`` is what their chart is of."""
    rows = rows_of(answer)
    confident = any(row.confidence is not None for row in rows)
    drawn = [
        _measured(row, labels, confident=confident)
        for row in rows
        if isinstance(row.estimate, int | float) or row.note is not None
    ]
    chart = intervals(drawn, name)
    bars = any(row.low is not None for row in drawn)
    return Numbers(
        rows[:MOST_ROWS],
        max(0, len(rows) - MOST_ROWS),
        chart,
        bars,
        confident,
        notes_of(rows),
        labels,
    )


def _measured(row: Row, labels: Labels, *, confident: bool) -> Measured:
    low, high = (row.confidence if confident else row.noise) or (None, None)
    return Measured(row.named(labels), row.estimate, low, high)
