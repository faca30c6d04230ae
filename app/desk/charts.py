"""What charts share: scales, ticks, and the picture around them.

A picture is as wide as its page lets it be, and its words are as large there as anywhere. So
positions from left to right are in percent of its width, and those from top to bottom in pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from app.services.audit import Moment
from app.services.datasets.accounting import Epsilons
from app.tidy.names import marked
from app.tidy.rows import number, spaced
from mechanisms.privacy import Epsilon


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
            inside = [value for value in every if self.low <= value <= self.high]
            if len(inside) > 3 * about:
                inside = [value for value in inside if math.log10(value).is_integer()]
            if len(inside) > 2:  # else round steps are as good on so short an axis
                return [(value, number(value)) for value in inside]
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


# Epsilon against the error that is to be expected

_CURVE_HEIGHT, _CURVE_LEFT, _CURVE_RIGHT, _TOP, _CURVE_BOTTOM = 260, 14, 96, 14, 206


def error_curve(points: Sequence[tuple[float, float]], now: float, name: str) -> Markup | None:
    """Return the curve through pairs of epsilon and error, marked where epsilon is ``now``."""
    positive = [(epsilon, error) for epsilon, error in points if error > 0]
    if len(positive) < 2:
        return None
    epsilons, errors = [each[0] for each in positive], [each[1] for each in positive]
    across = Scale(min(epsilons), max(epsilons), _CURVE_LEFT, _CURVE_RIGHT, by_logarithm=True)
    up = Scale(min(errors) / 1.2, max(errors) * 1.2, _CURVE_BOTTOM, _TOP, by_logarithm=True)
    curve = [(across.at(epsilon), up.at(error)) for epsilon, error in positive]
    parts = [*below(across, _CURVE_BOTTOM, _TOP), *left_axis(up, _CURVE_LEFT, _CURVE_RIGHT)]
    parts.append(path(curve, "line", _CURVE_HEIGHT))
    parts += [
        dot(across.at(epsilon), up.at(error), 5) for epsilon, error in positive if epsilon == now
    ]
    parts.append(text((_CURVE_LEFT + _CURVE_RIGHT) / 2, _CURVE_HEIGHT - 12, "epsilon", "middle"))
    return picture(_CURVE_HEIGHT, name, parts)


# A budget: what is spent, reserved and left, now and as it went

_LEFT, _RIGHT = 12, 98
_BAR, _HEIGHT, _BOTTOM = 34, 220, 180


def bar(now: Epsilons) -> Markup:
    """Return one bar as long as the total, in three parts."""
    total = now.total.nanos
    start, parts = 0.0, []
    for amount, kind in ((now.spent, "spent"), (now.reserved, "reserved"), (now.remaining, "left")):
        width = round(100 * amount.nanos / total, 2) if total else 0.0
        parts.append(
            Markup('<rect class="{}" x="{}%" y="4" width="{}%" height="26"/>').format(
                kind, round(start, 2), width
            )
        )
        start += width
    name = marked(
        "Budget: %(spent)s spent, %(reserved)s reserved and %(left)s left of epsilon %(total)s",
        spent=now.spent,
        reserved=now.reserved,
        left=now.remaining,
        total=now.total,
    )
    return picture(_BAR, name, parts)


def course(moments: Sequence[Moment]) -> Markup | None:
    """Return the total, what is spent and what is taken in all, over time; None before that."""
    if len(moments) < 2:
        return None
    times = [datetime.fromisoformat(each.at).timestamp() for each in moments]
    most = max(_number(each.epsilons.total) for each in moments)
    if times[-1] <= times[0] or most <= 0:
        return None
    across = Scale(times[0], times[-1], _LEFT, _RIGHT)
    up = Scale(0.0, most, _BOTTOM, 12)
    parts = left_axis(up, _LEFT, _RIGHT, 4)
    lines = (
        ("total", [_number(each.epsilons.total) for each in moments]),
        ("taken", [_taken(each.epsilons) for each in moments]),
        ("line", [_number(each.epsilons.spent) for each in moments]),
    )
    for kind, values in lines:
        heights = [up.at(value) for value in values]
        parts.append(path(_steps([across.at(time) for time in times], heights), kind, _HEIGHT))
    first, last = _days(moments[0].at, moments[-1].at)
    parts.append(text(_LEFT, _BOTTOM + 18, first))
    parts.append(text(_RIGHT, _BOTTOM + 18, last, "end"))
    return picture(_HEIGHT, marked("The budget over time, in epsilon"), parts)


def _days(first: str, last: str) -> tuple[str, str]:
    """Return the days of two moments; where it is one day, their times (UTC) as well."""
    if first[:10] != last[:10]:
        return first[:10], last[:10]
    return f"{first[:10]} {first[11:19]}", last[11:19]


def _steps(across: Sequence[float], heights: Sequence[float]) -> list[tuple[float, float]]:
    """Return a line that stays where it is until the next moment."""
    points = [(across[0], heights[0])]
    for x, y in zip(across[1:], heights[1:], strict=True):
        points += [(x, points[-1][1]), (x, y)]
    return points


def _number(epsilon: Epsilon) -> float:
    return epsilon.nanos / 1e9


def _taken(epsilons: Epsilons) -> float:
    return (epsilons.spent.nanos + epsilons.reserved.nanos) / 1e9
