"""Error bars for a notebook: a small drawing next to each number, made of numbers alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from numbers import Real
from typing import Any

_WIDTH, _MIDDLE, _CAP, _MARGIN = 160.0, 7.0, 4.0, 6.0
_ENDS = (("confidence_low", "confidence_high"), ("noise_low", "noise_high"))
_MEANING = ("95% confidence", "95% noise")


@dataclass(frozen=True, slots=True)
class _Bar:
    """A number between two others, or the two alone where it cannot be said."""

    low: float
    value: float | None
    high: float


def bars_of(rows: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """Return what the bars mean, and a drawing for each row: SVG, or nothing where none is known.

    Numbers of one name share a scale, if there are several of it; else all numbers do. Where
    some have confidence intervals, the bars are those.
    """
    inferred = any(row.get(_ENDS[0][0]) is not None for row in rows)
    bars = [_bar(row, *_ENDS[0 if inferred else 1]) for row in rows]
    names = [row.get("term") for row in rows]
    scales = names if len(set(names)) < len(names) else [None] * len(names)
    drawn = []
    for bar, scale in zip(bars, scales, strict=True):
        alike = [each for each, other in zip(bars, scales, strict=True) if each and other == scale]
        drawn.append(_drawn(bar, alike) if bar else "")
    return _MEANING[0 if inferred else 1], drawn


def _bar(row: Mapping[str, Any], low: str, high: str) -> _Bar | None:
    """Return a row's bar; a preview's is around zero."""
    value = row.get("value", 0.0)
    ends = (row.get(low), *(() if row.get("note") else (value,)), row.get(high))
    known = [float(end) for end in ends if isinstance(end, Real) and isfinite(end)]
    if len(known) < len(ends) or any(one > other for one, other in pairwise(known)):
        return None
    return _Bar(known[0], None if row.get("note") else known[1], known[-1])


def _drawn(bar: _Bar, alike: Sequence[_Bar]) -> str:
    least, most = min(each.low for each in alike), max(each.high for each in alike)
    room = (_WIDTH - 2 * _MARGIN) / ((most - least) or 1.0)
    low, high = (_MARGIN + room * (end - least) for end in (bar.low, bar.high))
    top, bottom = _MIDDLE - _CAP, _MIDDLE + _CAP
    line = f"M{low:.1f} {_MIDDLE}H{high:.1f}M{low:.1f} {top}V{bottom}M{high:.1f} {top}V{bottom}"
    said, dot = f"between {bar.low:.6g} and {bar.high:.6g}", ""
    if bar.value is not None:
        said, value = f"{bar.value:.6g}, {said}", _MARGIN + room * (bar.value - least)
        dot = f'<circle cx="{value:.1f}" cy="{_MIDDLE}" r="2.5" fill="currentColor"></circle>'
    return (
        f'<svg role="img" aria-label="{said}" width="{_WIDTH:.0f}" height="{2 * _MIDDLE:.0f}">'
        f'<path d="{line}" stroke="currentColor" fill="none"></path>{dot}</svg>'
    )
