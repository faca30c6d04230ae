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
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma, log, pi, sqrt
from statistics import fmean

from mechanisms.geometry.balls import BALLS, Ball, NormBall
from mechanisms.geometry.spaces import AdjacentOutputSpace

# 2/p, so that m**(their difference) is the squared stretch between two balls.
_RECIPROCAL: dict[Ball, int] = {"l1": 2, "l2": 1, "linf": 0}
_NAMES = {"l1": "l1", "l2": "l2", "linf": "l_inf"}
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
        return Advice(best_ball, _hull_reason(f"the {_NAMES[best_ball]} ball"), table)
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
    return (
        f"The {ball.name} holds all differences one person can make and lies inside the "
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
