"""Certified lower bounds on epsilon, from counts of events under two neighbouring data sets.

    epsilon >= |log(P(E | D) / P(E | D'))|   for every event E

If a mechanism is epsilon-DP, the right side is at most epsilon. So a bound certified by counts of
draws bounds epsilon from below, for every mechanism and every implementation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from scipy.special import betaincinv


@dataclass(frozen=True, slots=True)
class Audit:
    """A lower confidence bound on epsilon, and the event that gave it."""

    epsilon: float
    event: str
    counts: tuple[int, int]


def audit_counts(
    counts: Mapping[str, tuple[int, int]], *, trials: tuple[int, int], confidence: float = 0.999
) -> Audit:
    """Bound epsilon from below by event counts.

    For each event E, ``epsilon >= |log(P(E | first) / P(E | second))|``. Each
    probability is replaced by its one-sided Clopper-Pearson bound; the level is
    shared among all events, both directions and both bounds (Bonferroni), so
    all of them hold at once with probability ``confidence``. Choose the events
    before looking at the draws that are counted.

    >>> found = audit_counts({"above 0": (95, 5)}, trials=(100, 100))
    >>> round(found.epsilon, 2), found.event
    (1.57, 'above 0')
    """
    level = (1 - confidence) / (4 * len(counts))
    best = Audit(epsilon=0.0, event="", counts=(0, 0))
    for name, pair in counts.items():
        low = [_lowest(c, n, level) for c, n in zip(pair, trials, strict=True)]
        high = [_highest(c, n, level) for c, n in zip(pair, trials, strict=True)]
        ratio = max(low[0] / high[1], low[1] / high[0])
        if ratio > 1 and math.log(ratio) > best.epsilon:
            best = Audit(epsilon=math.log(ratio), event=name, counts=pair)
    return best


def _lowest(count: int, trials: int, level: float) -> float:
    """Return the one-sided Clopper-Pearson lower bound of a probability."""
    return float(betaincinv(count, trials - count + 1, level)) if count else 0.0


def _highest(count: int, trials: int, level: float) -> float:
    """Return the one-sided Clopper-Pearson upper bound of a probability."""
    return 1 - _lowest(trials - count, trials, level)
