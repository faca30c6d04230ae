"""Epsilon against the error that is to be expected."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from app.desk.charts.frame import Scale, below, dot, left_axis, path, picture, text

_HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 260, 14, 96, 14, 206


def error_curve(points: Sequence[tuple[float, float]], now: float, name: str) -> Markup | None:
    """Return the curve through pairs of epsilon and error, marked where epsilon is ``now``."""
    positive = [(epsilon, error) for epsilon, error in points if error > 0]
    if len(positive) < 2:
        return None
    epsilons, errors = [each[0] for each in positive], [each[1] for each in positive]
    across = Scale(min(epsilons), max(epsilons), _LEFT, _RIGHT, by_logarithm=True)
    up = Scale(min(errors) / 1.2, max(errors) * 1.2, _BOTTOM, _TOP, by_logarithm=True)
    curve = [(across.at(epsilon), up.at(error)) for epsilon, error in positive]
    parts = [*below(across, _BOTTOM, _TOP), *left_axis(up, _LEFT, _RIGHT)]
    parts.append(path(curve, "line", _HEIGHT))
    parts += [
        dot(across.at(epsilon), up.at(error), 5) for epsilon, error in positive if epsilon == now
    ]
    parts.append(text((_LEFT + _RIGHT) / 2, _HEIGHT - 12, "epsilon", "middle"))
    return picture(_HEIGHT, name, parts)
