"""What charts share: scales, ticks, and the picture around them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.desk.words import number


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
        return round(self.start + share * (self.end - self.start), 1)

    def _measure(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.by_logarithm else value

    def ticks(self, about: int = 5) -> list[float]:
        """Return round values within the scale, about so many."""
        if self.high <= self.low:
            return [self.low]
        if self.by_logarithm:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            every = [10.0**power * step for power in decades for step in (1, 2, 5)]
            return [value for value in every if self.low <= value <= self.high]
        rough = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough)
        first = math.ceil(self.low / step)
        count = math.floor(self.high / step) - first
        return [round((first + index) * step, 12) for index in range(count + 1)]


def picture(width: int, height: int, name: str, parts: Iterable[Markup]) -> Markup:
    """Return an SVG picture with an accessible name."""
    return Markup(
        '<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}"'
        ' height="{1}" role="img" aria-label="{2}">{3}</svg>'
    ).format(width, height, name, Markup("").join(parts))


def line(points: Sequence[tuple[float, float]], kind: str) -> Markup:
    """Return a line through points; ``kind`` is its class."""
    path = " ".join(f"{x},{y}" for x, y in points)
    return Markup('<polyline class="{}" points="{}"/>').format(kind, path)


def text(x: float, y: float, words: str, anchor: str = "start") -> Markup:
    """Return words at a position."""
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(x, y, anchor, words)


def below(scale: Scale, y: float, top: float, about: int = 5) -> list[Markup]:
    """Return a horizontal axis at ``y`` with its numbers, and lines up to ``top``."""
    parts = [line([(scale.start, y), (scale.end, y)], "axis")]
    for value in scale.ticks(about):
        x = scale.at(value)
        parts.append(line([(x, y), (x, top)], "tick"))
        parts.append(text(x, y + 16, number(value), "middle"))
    return parts


def beside(scale: Scale, x: float, end: float, about: int = 5) -> list[Markup]:
    """Return a vertical axis at ``x`` with its numbers, and lines over to ``end``."""
    parts = [line([(x, scale.start), (x, scale.end)], "axis")]
    for value in scale.ticks(about):
        y = scale.at(value)
        parts.append(line([(x, y), (end, y)], "tick"))
        parts.append(text(x - 6, y + 4, number(value), "end"))
    return parts
