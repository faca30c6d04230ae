"""The norm advisor: which norm ball adds the least noise (Awan & Slavkovic, section 4).

Theorem 4.5: if ``Delta_K K`` lies inside ``Delta_H H``, the K-norm mechanism
has no larger variance in any direction. The hull of the adjacent output space
lies inside every valid ball, so it wins wherever it can be drawn from. Where
no inclusion holds, the balls are compared by variance (Proposition 4.13) and
by ``(Delta**m vol K)**(1/m)``. Nothing here depends on data, so it is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma, log, pi, sqrt

from mechanisms.geometry.spaces import BALLS, AdjacentOutputSpace, Ball

# 2/p, so that m**(their difference) is the squared stretch between two balls.
_RECIPROCAL: dict[Ball, int] = {"l1": 2, "l2": 1, "linf": 0}
_NAMES = {"l1": "l1", "l2": "l2", "linf": "l_inf"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One ball: its standard deviation per coordinate times epsilon, and its volume index.

    Both in scaled units; the volume index is ``(Delta**m vol K)**(1/m)``.
    """

    ball: Ball
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
    if space.optimal_offered:
        norm = space.optimal_ball or "optimal"
        shape = f"the {_NAMES[norm]} ball" if norm in _NAMES else "a ball that can be drawn from"
        reason = (
            f"The hull of all differences one person can make is {shape}; it lies inside "
            "every other valid ball, so no norm has less variance in any direction "
            "(Awan & Slavkovic, Theorem 4.5)."
        )
        return Advice(norm, reason, table)
    for ball in reversed(BALLS):
        if all(included(space, ball, other) for other in BALLS if other != ball):
            reason = (
                f"The scaled {_NAMES[ball]} ball lies inside the other two, so it has no larger "
                "variance in any direction (Awan & Slavkovic, Theorem 4.5)."
            )
            return Advice(ball, reason, table)
    best = min(table, key=lambda row: row.std)
    rest = " and ".join(f"{row.std / best.std:.2f}" for row in table if row is not best)
    reason = (
        "No scaled ball lies inside all others, so the least variance decides: "
        f"{_NAMES[best.ball]}, where the other norms have {rest} times its standard deviation."
    )
    return Advice(best.ball, reason, table)


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
