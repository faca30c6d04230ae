"""Numbers with their intervals, one below the other.

Numbers of one size share a scale. Where one spans far more than another, each has a scale of its
own, with its ends written below it: a small number would be a dot at 0 next to a large one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from app.desk.charts.frame import Scale, below, dot, line, picture, text
from app.tidy.numerals import within

_LEFT, _RIGHT = 6, 94
_ROW, _OWN_ROW, _NAME, _BAR, _ENDS = 40, 56, 14, 28, 46
"""Heights: of a row, also with ends of its own; within it of the name, the bar and its ends."""
_ALIKE = 20.0
"""How many times wider the widest number may be than the narrowest, on one scale."""
_LONGEST = 44
MOST = 40
"""More numbers than this make an unreadable picture."""


class Measured(NamedTuple):
    """A number and where it is, low and high; None for one that cannot be said."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> Sequence[float]:
        """Return every number that its row has to have room for."""
        return [end for end in (self.value, self.low, self.high) if end is not None]


def intervals(rows: Sequence[Measured], name: str) -> Markup | None:
    """Return the chart of some numbers, or None where there are none or too many."""
    if not 1 <= len(rows) <= MOST:
        return None
    if _alike(rows):
        scale = _scale([end for row in rows for end in row.ends])
        bottom = _ROW * len(rows) + 6
        parts = below(scale, bottom, 0, 4)
        for at, row in enumerate(rows):
            parts += _drawn(row, scale, _ROW * at)
        return picture(bottom + 24, name, parts)
    parts = []
    for at, row in enumerate(rows):
        ends = min(row.ends), max(row.ends)
        parts += _drawn(row, Scale(*ends, _LEFT, _RIGHT), _OWN_ROW * at)
        for end, x, anchor in zip(ends, (_LEFT, _RIGHT), ("start", "end"), strict=True):
            parts.append(text(x, _OWN_ROW * at + _ENDS, within(end, ends), anchor))
    return picture(_OWN_ROW * len(rows), name, parts)


def _alike(rows: Sequence[Measured]) -> bool:
    """Return whether one scale shows all: without intervals it does, since sizes are compared."""
    spans = [max(row.ends) - min(row.ends) for row in rows]
    return min(spans) == 0 or max(spans) <= _ALIKE * min(spans)


def _scale(ends: Sequence[float]) -> Scale:
    low, high = min(ends), max(ends)
    room = (high - low or abs(high) or 1.0) * 0.05
    return Scale(low - room, high + room, _LEFT, _RIGHT)


def _drawn(row: Measured, scale: Scale, top: int) -> list[Markup]:
    """Return a number's name above its interval and its dot."""
    y, parts = top + _BAR, [text(0, top + _NAME, _short(row.name))]
    if row.low is not None and row.high is not None:
        left, right = scale.at(row.low), scale.at(row.high)
        parts.append(line((left, y), (right, y), "error"))
        parts += [line((x, y - 4), (x, y + 4), "error") for x in (left, right)]
    return parts if row.value is None else [*parts, dot(scale.at(row.value), y, 4)]


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
