"""Pictures of our own, as SVG without style, script or anything from elsewhere.

A badge that other pages can embed, and a chart of numbers with their intervals. Colours of
the chart are the page's: classes, and ``currentColor`` where there is no style sheet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from numbers import Real
from typing import Any

from app.tidy.names import NO_LABELS, Labels
from app.tidy.rows import Row, within

MOST_BARS = 40
"""Rows that a chart shows; the table next to it has more."""
_LETTER = 6.6
_LEFT, _WIDTH = 2, 96
"""In percent: a chart is as wide as its page lets it be, and its words as large as anywhere."""
_STEP, _NAME, _TOP = 54, 17, 30
_LONGEST_NAME = 44
_ALIKE = 20.0
"""How many times wider the widest number may be than the narrowest, on one scale."""


def badge(left: str, right: str) -> str:
    """Return a badge of two halves."""
    first, second = (round(_LETTER * len(text)) + 12 for text in (left, right))
    label = escape(f"{left}, {right}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{first + second}" height="20" role="img"'
        f' aria-label="{label}"><title>{label}</title>'
        f'<rect width="{first}" height="20" fill="#444"/>'
        f'<rect x="{first}" width="{second}" height="20" fill="#0b5cad"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11"'
        ' text-anchor="middle">'
        f'<text x="{first / 2}" y="14">{escape(left)}</text>'
        f'<text x="{first + second / 2}" y="14">{escape(right)}</text></g></svg>'
    )


def chart(rows: Sequence[Row], *, title: str, labels: Labels = NO_LABELS) -> str:
    """Return numbers as dots with error bars; nothing where none can be drawn.

    A thick bar is the noise interval, a thin line the confidence interval. Numbers of one size
    share a scale; where one spans far more than another, each has a scale of its own, and the
    ends of its line say which.
    """
    drawn = [row for row in rows if _ends(row)][:MOST_BARS]
    if not drawn:
        return ""
    scales = _scales([_ends(row) for row in drawn])
    height = _STEP * len(drawn) + 20
    label = escape(title)
    opened = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart intervals" role="img"'
        f' aria-label="{label}" width="100%" height="{height}">'
        f"<title>{label}</title>"
    )
    bars = [
        _bar(row, row.named(labels), _TOP + _STEP * n, scales[n]) for n, row in enumerate(drawn)
    ]
    if scales[0] is scales[-1]:
        bars += [_zero(scales[0], height - 22), _axis(scales[0], height - 6)]
    else:
        bars += [_axis(scale, _TOP + _STEP * n + 16) for n, scale in enumerate(scales)]
    return f"{opened}{''.join(bars)}</svg>"


@dataclass(frozen=True, slots=True)
class _Scale:
    """What numbers the width of a chart stands for."""

    low: float
    high: float

    def at(self, number: float) -> str:
        """Return where a number is, in percent of the picture's width."""
        return f"{_LEFT + (number - self.low) * _WIDTH / ((self.high - self.low) or 1.0):.2f}%"


def _scales(ends: Sequence[Sequence[float]]) -> Sequence[_Scale]:
    """Return the scale of each number: one for all, or one each."""
    spans = [max(each) - min(each) or abs(each[0]) for each in ends]
    if len(spans) == 1 or max(spans) <= _ALIKE * min(spans):
        every = [end for each in ends for end in each]
        return [_Scale(min(0.0, *every), max(0.0, *every))] * len(ends)
    return [_Scale(min(each), max(each)) for each in ends]


def _zero(scale: _Scale, height: int) -> str:
    return (
        f'<line class="zero" x1="{scale.at(0)}" x2="{scale.at(0)}" y1="0" y2="{height}"'
        ' stroke="currentColor" stroke-dasharray="2 3" stroke-opacity="0.6"/>'
    )


def _axis(scale: _Scale, y: int) -> str:
    """Return the numbers at both ends of a scale; where they are one number, it once."""
    ends = [(scale.low, "start"), (scale.high, "end")][: 1 + (scale.low != scale.high)]
    return "".join(
        f'<text x="{scale.at(end)}" y="{y}" text-anchor="{anchor}" font-size="11"'
        f' fill="currentColor">{within(end, (scale.low, scale.high))}</text>'
        for end, anchor in ends
    )


def _bar(row: Row, name: str, y: int, scale: _Scale) -> str:
    """Return a number's name, its intervals and its dot if it can be said, at a height."""
    lines = "".join(
        f'<line class="{kind}" x1="{scale.at(ends[0])}" x2="{scale.at(ends[1])}" y1="{y}"'
        f' y2="{y}" stroke="currentColor" stroke-opacity="{opacity}" stroke-width="{width}"/>'
        for kind, interval, width, opacity in (
            ("confidence", row.confidence, 2, "0.7"),
            ("noise", row.noise, 8, "0.4"),
        )
        if (ends := _numbers(interval))
    )
    dots = "".join(
        f'<circle cx="{scale.at(number)}" cy="{y}" r="4" fill="currentColor"/>'
        for number in _numbers((row.estimate,))
    )
    return (
        f'<text x="0" y="{y - _NAME}" font-size="13"'
        f' fill="currentColor">{escape(_short(name))}</text>{lines}{dots}'
    )


def _ends(row: Row) -> Sequence[float]:
    """Return every number of a row that a chart has to have room for; nothing of texts."""
    return [
        *_numbers((row.estimate,)), *_numbers(row.noise), *_numbers(row.confidence)
    ]  # fmt: skip


def _numbers(several: tuple[Any, ...] | None) -> Sequence[float]:
    return [float(each) for each in several or () if isinstance(each, Real)]


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
