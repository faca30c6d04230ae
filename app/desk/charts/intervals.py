"""Numbers with their intervals, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from app.desk.charts.frame import Scale, below, line, picture, text

_ROW, _WIDTH, _NAMES, _MARGIN = 26, 640, 190, 24
_LONGEST = 26
MOST = 40
"""More numbers than this make no picture that anybody can read."""


class Measured(NamedTuple):
    """A number and where it lies, low and high."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


def intervals(rows: Sequence[Measured], name: str) -> Markup | None:
    """Return the chart of some numbers, or None where there are none or too many."""
    if not 1 <= len(rows) <= MOST:
        return None
    ends = [end for row in rows for end in (row.value, row.low, row.high) if end is not None]
    low, high = min(ends), max(ends)
    room = (high - low or abs(high) or 1.0) * 0.05
    scale = Scale(low - room, high + room, _NAMES, _WIDTH - _MARGIN)
    bottom = _ROW * len(rows) + 10
    parts = below(scale, bottom, 0)
    for at, row in enumerate(rows):
        y = _ROW * at + 18
        parts.append(text(_NAMES - 12, y + 4, _short(row.name), "end"))
        if row.low is not None and row.high is not None:
            left, right = scale.at(row.low), scale.at(row.high)
            parts.append(line([(left, y), (right, y)], "error"))
            parts += [line([(x, y - 4), (x, y + 4)], "error") for x in (left, right)]
        parts.append(
            Markup('<circle class="mark" cx="{}" cy="{}" r="4"/>').format(scale.at(row.value), y)
        )
    return picture(_WIDTH, bottom + 26, name, parts)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
