"""The norm advisor: which norm ball adds the least noise (Awan & Slavkovic, section 4).

Theorem 4.5: if ``Delta_K K`` lies inside ``Delta_H H``, then on every line through zero
the noise of K, given that it falls there, has no larger variance. The hull of the
adjacent output space lies inside every valid ball, so it wins wherever it can be
drawn from. Where no inclusion holds, the balls are compared by variance (Proposition
4.13) and by ``(Delta**m vol K)**(1/m)``. Nothing here depends on data, so it is free.

*Not in the theorem*: the variance of one coordinate by itself. A body that loses what is
poor in u_1 is left with more spread along it: the cube [-1, 1]**2 and its part with
``|u_1 - u_2| <= 1/2`` have E (u_1 + u_2)**2 of 2/3 and more. So the advice includes each
value's own standard deviation.

*SS Figure 1 for any statistic of two coordinates: what a person can change, and the balls.* Shaded
is the adjacent output space S_T where it is known point by point, else its hull; outlined are the
l1, l2 and l_inf balls of their sensitivities, and the ball that "optimal" draws from. All of it is
public: no data is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, exp, inf, lgamma, log, pi, sin, sqrt
from statistics import fmean

from mechanisms.geometry.smooth import BALLS, Ball, NormBall
from mechanisms.geometry.spaces import AdjacentOutputSpace
from mechanisms.words import worded

# SS Figure 1 for any statistic of two coordinates: what a person can change, and the balls

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


# The norm advisor: which norm ball adds the least noise (Awan & Slavkovic, section 4)

# 2/p, so that m**(their difference) is the squared stretch between two balls.
_RECIPROCAL: dict[Ball, int] = {"l1": 2, "l2": 1, "linf": 0}
_NAMES = {"l1": "l1", "l2": "l2", "linf": "l_inf"}
_SHAPES = {
    "l1": worded("the l1 ball"), "l2": worded("the l2 ball"), "linf": worded("the l_inf ball"),
}  # fmt: skip
# A hull that would need more tries than this on average is refused, and never advised.
MOST_TRIES = 1e6


@dataclass(frozen=True, slots=True)
class Comparison:
    """One norm: its standard deviation per coordinate times epsilon, and its volume index.

    Both in scaled units; the standard deviation is the root of the mean variance, the
    volume index is ``(Delta**m vol K)**(1/m)``.
    """

    norm: str
    std: float
    volume_index: float


@dataclass(frozen=True, slots=True)
class Advice:
    """The advised norm ("optimal" for a hull that is no l_p ball), why, and the others."""

    norm: str
    reason: str
    comparisons: tuple[Comparison, ...]


def advise(space: AdjacentOutputSpace) -> Advice:
    """Return the norm with the least noise for this adjacent output space."""
    table = tuple(compare(space, ball) for ball in BALLS)
    best_ball = space.optimal_ball
    if isinstance(best_ball, str):
        return Advice(best_ball, _hull_reason(_SHAPES[best_ball]), table)
    if best_ball is not None:
        table = (*table, compare_hull(best_ball))
        # Asked after the hull was compared: it stays in the table where it is too slow to draw.
        if best_ball.expected_tries <= MOST_TRIES:
            return Advice("optimal", _ball_reason(best_ball), table)
    # The cube first: in one dimension, where all balls are one, it is the one that is named.
    for ball in reversed(BALLS):
        if all(included(space, ball, other) for other in BALLS if other != ball):
            reason = (
                f"The scaled {_NAMES[ball]} ball lies inside the other two, so given its direction "
                "its noise is no larger (Awan & Slavkovic, Theorem 4.5)."
            )
            return Advice(ball, reason, table)
    lp = table[: len(BALLS)]
    best = min(lp, key=lambda row: row.std)
    rest = " and ".join(f"{row.std / best.std:.2f}" for row in lp if row is not best)
    reason = (
        "No scaled ball lies inside all others, so the least variance decides: "
        f"{_NAMES[best.norm]}, where the other norms have {rest} times its standard deviation."
    )
    return Advice(best.norm, reason, table)


def _hull_reason(shape: str) -> str:
    return (
        f"The hull of all differences one person can make is {shape}; it lies inside "
        "every other valid ball, so given its direction no norm's noise is smaller "
        "(Awan & Slavkovic, Theorem 4.5)."
    )


def _ball_reason(ball: NormBall) -> str:
    if ball.is_hull:
        return _hull_reason("a ball that can be drawn from")
    ball_name = ball.name
    return (
        f"The {ball_name} holds all differences one person can make and lies inside the "
        "scaled l1, l2 and l_inf balls, so given its direction its noise is no larger "
        "(Awan & Slavkovic, Theorem 4.5)."
    )


def included(space: AdjacentOutputSpace, inner: Ball, outer: Ball) -> bool:
    """Return, exactly, whether ``Delta_inner K_inner`` lies inside ``Delta_outer K_outer``.

    The largest ``||u||_p`` on the unit q-ball is 1 for q <= p, else ``m**(1/p - 1/q)``.
    """
    stretch: int = space.dimension ** max(0, _RECIPROCAL[outer] - _RECIPROCAL[inner])
    return space.squared(inner) * stretch <= space.squared(outer)


def compare(space: AdjacentOutputSpace, ball: Ball) -> Comparison:
    """Return one ball's standard deviation at epsilon = 1 and its volume index."""
    m, delta = space.dimension, sqrt(float(space.squared(ball)))
    variance_factor = {"l1": 2.0, "l2": m + 1.0, "linf": (m + 1) * (m + 2) / 3}[ball]
    log_volume = {
        "l1": m * log(2) - lgamma(m + 1),
        "l2": m / 2 * log(pi) - lgamma(m / 2 + 1),
        "linf": m * log(2),
    }[ball]
    return Comparison(ball, delta * sqrt(variance_factor), delta * exp(log_volume / m))


def compare_hull(ball: NormBall) -> Comparison:
    """Return a hull's standard deviation at epsilon = 1 and its volume index."""
    std = sqrt(fmean(law.std**2 for law in ball.laws(1.0)))
    return Comparison("optimal", std, exp(ball.log_volume / ball.dimension))
