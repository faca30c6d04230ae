"""A budget: what is spent, reserved and left, now and as it went."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup

from app.desk.charts.frame import Scale, left_axis, path, picture, text
from app.services.datasets.accounting import Epsilons
from app.services.journal import Moment
from mechanisms.privacy import Epsilon

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
    name = (
        f"Budget: {now.spent} spent, {now.reserved} reserved and {now.remaining} left"
        f" of epsilon {now.total}"
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
    return picture(_HEIGHT, "The budget over time, in epsilon", parts)


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
