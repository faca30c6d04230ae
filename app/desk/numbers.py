"""The numbers of an answer, arranged for a page: a table, and a chart where they are few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from app.desk.charts.intervals import Measured, intervals
from app.services.releases.tidy import TidyRow, tidy_rows

MOST_ROWS = 1_000
"""So many numbers are shown on a page; a file has them all."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Rows of a table, how many more there are, and their chart."""

    rows: Sequence[TidyRow]
    more: int
    chart: Markup | None
    bars: bool
    """Whether any of them has an interval."""
    confident: bool
    """Whether the chart's bars are confidence intervals, and not those of the noise."""


def numbers_of(answer: Mapping[str, Any], name: str) -> Numbers:
    """Return the numbers of an answer; ``name`` is what their chart is of."""
    rows = tidy_rows(answer)
    confident = any(row.confidence is not None for row in rows)
    drawn = [
        _measured(row, confident=confident) for row in rows if isinstance(row.estimate, int | float)
    ]
    chart = intervals(drawn, name)
    bars = any(row.low is not None for row in drawn)
    return Numbers(rows[:MOST_ROWS], max(0, len(rows) - MOST_ROWS), chart, bars, confident)


def _measured(row: TidyRow, *, confident: bool) -> Measured:
    low, high = (row.confidence if confident else row.noise) or (None, None)
    return Measured(row.name, row.estimate, low, high)
