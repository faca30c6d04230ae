"""What charts share: scales, ticks, and the picture around them.

A picture is as wide as its page lets it be, and its words are as large there as anywhere. So
positions from left to right are in percent of its width, and those from top to bottom in pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.tidy.numerals import number, spaced


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to positions, straight or by the logarithm."""

    low: float
    high: float
    start: float
    end: float
    by_logarithm: bool = False

    def at(self, value: float) -> float:
        """Return the position of a value; one outside is at the edge."""
        low, high, value = map(self._measure, (self.low, self.high, value))
        share = 0.5 if high <= low else min(max((value - low) / (high - low), 0.0), 1.0)
        return round(self.start + share * (self.end - self.start), 2)

    def _measure(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.by_logarithm else value

    def ticks(self, about: int = 5) -> list[tuple[float, str]]:
        """Return round values within the scale, roughly ``about`` of them, as they are written."""
        if self.high <= self.low:
            return [(self.low, number(self.low))]
        if self.by_logarithm:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            every = [10.0**power * step for power in decades for step in (1, 2, 5)]
            return [(value, number(value)) for value in every if self.low <= value <= self.high]
        rough = (self.high - self.low) / about
        power = math.floor(math.log10(rough))
        step = next(each for part in (1, 2, 5, 10) if (each := 10.0**power * part) >= rough)
        first = math.ceil(self.low / step)
        count = math.floor(self.high / step) - first
        values = [round((first + index) * step, -power) for index in range(count + 1)]
        return [(value, spaced(value, step)) for value in values]


def picture(height: int, name: str, parts: Iterable[Markup]) -> Markup:
    """Return an SVG picture with an accessible name and a height in pixels."""
    return Markup(
        '<svg class="chart" xmlns="http://www.w3.org/2000/svg" width="100%" height="{}"'
        ' role="img" aria-label="{}">{}</svg>'
    ).format(height, name, Markup("").join(parts))


def line(start: tuple[float, float], end: tuple[float, float], kind: str) -> Markup:
    """Return a line from one place to another; ``kind`` is its class."""
    return Markup('<line class="{}" x1="{}%" y1="{}" x2="{}%" y2="{}"/>').format(kind, *start, *end)


def path(points: Sequence[tuple[float, float]], kind: str, height: int) -> Markup:
    """Return a line through points of a picture of that height."""
    # Only a picture that is stretched takes percents in a list of points.
    return Markup(
        '<svg class="path" width="100%" height="{0}" viewBox="0 0 100 {0}"'
        ' preserveAspectRatio="none"><polyline class="{1}" points="{2}"/></svg>'
    ).format(height, kind, " ".join(f"{x},{y}" for x, y in points))


def dot(x: float, y: float, radius: int) -> Markup:
    """Return the mark of a value."""
    return Markup('<circle class="mark" cx="{}%" cy="{}" r="{}"/>').format(x, y, radius)


def text(x: float, y: float, words: str, anchor: str = "start", aside: int = 0) -> Markup:
    """Return words at a position, ``aside`` pixels to the right of it."""
    return Markup('<text x="{}%" y="{}" dx="{}" text-anchor="{}">{}</text>').format(
        x, y, aside, anchor, words
    )


def below(scale: Scale, y: float, top: float, about: int = 5) -> list[Markup]:
    """Return a horizontal axis at ``y`` with its numbers, and lines up to ``top``."""
    parts = [line((scale.start, y), (scale.end, y), "axis")]
    for value, label in scale.ticks(about):
        x = scale.at(value)
        parts.append(line((x, y), (x, top), "tick"))
        parts.append(text(x, y + 16, label, "middle"))
    return parts


def left_axis(scale: Scale, x: float, end: float, about: int = 5) -> list[Markup]:
    """Return a vertical axis at ``x`` with its numbers, and lines over to ``end``."""
    parts = [line((x, scale.start), (x, scale.end), "axis")]
    for value, label in scale.ticks(about):
        y = scale.at(value)
        parts.append(line((x, y), (end, y), "tick"))
        parts.append(text(x, y + 4, label, "end", -6))
    return parts
