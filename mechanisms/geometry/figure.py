"""SS Figure 1 for any statistic of two coordinates: what a person can change, and the balls.

Shaded is the adjacent output space S_T where it is known point by point, else
its hull; outlined are the l1, l2 and l_inf balls of their sensitivities, and
the ball that "optimal" draws from. All of it is public: no data is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, inf, pi, sin, sqrt

from mechanisms.geometry.balls import Ball, NormBall
from mechanisms.geometry.spaces import AdjacentOutputSpace

_SIZE = 320  # pixels
_MARGIN = 24  # pixels
_ANGLES = 180  # points of an outline
_GRID = 1 << 14  # the lattice on which a ball's edge is searched: far finer than a pixel
_COLOURS = {"l1": "#b5530f", "l2": "#2f6f3e", "linf": "#1f4e9c", "optimal": "#7a1f6b"}
_LABELS = {"l1": "l1", "l2": "l2", "linf": "l\N{INFINITY}", "optimal": "optimal"}

Outline = Sequence[tuple[float, float]]


def adjacent_output_space_svg(space: AdjacentOutputSpace) -> str | None:
    """Return the figure as SVG text, or None where the statistic has not two coordinates."""
    if space.dimension != 2:
        return None
    outlines: dict[str, Outline] = {ball: _lp_outline(space, ball) for ball in _LP}
    hull = space.optimal_ball
    if hull is not None and not isinstance(hull, str):
        outlines["optimal"] = _ball_outline(hull)
    shaded = space.outline or outlines.get(hull if isinstance(hull, str) else "optimal", ())
    reach = max(abs(x) for outline in outlines.values() for point in outline for x in point)
    parts = [_frame(), _axes(reach)]
    parts += [_path(shaded, reach, 'fill="#9db8dd" fill-opacity="0.6"')] if shaded else []
    for name, outline in outlines.items():
        parts.append(_path(outline, reach, f'fill="none" stroke="{_COLOURS[name]}"'))
    for row, name in enumerate(outlines):
        parts.append(
            f'<text x="6" y="{14 + 14 * row}" font-size="11" fill="{_COLOURS[name]}">'
            f"{_LABELS[name]}</text>"
        )
    return "".join([*parts, "</svg>"])


_LP: tuple[Ball, ...] = ("l1", "l2", "linf")


def _lp_outline(space: AdjacentOutputSpace, ball: Ball) -> Outline:
    size = sqrt(float(space.squared(ball)))
    power = {"l1": 1.0, "l2": 2.0, "linf": inf}[ball]
    outline = []
    for x, y in _directions():
        if power == inf:
            length = max(abs(x), abs(y))
        else:
            length = (abs(x) ** power + abs(y) ** power) ** (1 / power)
        outline.append((size * x / length, size * y / length))
    return outline


def _ball_outline(ball: NormBall) -> Outline:
    """Return boundary points of a ball, by bisection on integer membership.

    A norm's ball is symmetric, so half of the points determine the others.
    """
    outline = []
    for x, y in _directions()[: _ANGLES // 2]:
        # No ball offered reaches so far in scaled units.
        low, high = 0, 16 * _GRID
        while high - low > 1:
            middle = (low + high) // 2
            point = [round(middle * x), round(middle * y)]
            low, high = (middle, high) if ball.contains(point, _GRID) else (low, middle)
        outline.append((low * x / _GRID, low * y / _GRID))
    return outline + [(-x, -y) for x, y in outline]


def _directions() -> Outline:
    turns = [2 * pi * step / _ANGLES for step in range(_ANGLES)]
    return [(cos(turn), sin(turn)) for turn in turns]


def _path(outline: Outline, reach: float, style: str) -> str:
    scale = (_SIZE / 2 - _MARGIN) / reach
    points = " ".join(
        f"{_SIZE / 2 + scale * x:.1f},{_SIZE / 2 - scale * y:.1f}" for x, y in outline
    )
    return f'<polygon points="{points}" stroke-width="1.2" {style}/>'


def _frame() -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" role="img">'
        "<title>Adjacent output space and norm balls</title>"
    )


def _axes(reach: float) -> str:
    middle, end = _SIZE / 2, _SIZE - _MARGIN
    return (
        f'<path d="M{_MARGIN} {middle}H{end}M{middle} {_MARGIN}V{end}" stroke="#999" '
        f'stroke-width="0.7" fill="none"/><text x="{end - 28}" y="{middle + 14}" '
        f'font-size="10" fill="#555">{reach:.3g}</text>'
    )
