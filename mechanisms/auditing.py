"""Certified lower bounds on epsilon, from counts of events under two neighbouring data sets.

    epsilon >= |log(P(E | D) / P(E | D'))|   for every event E

If a mechanism is epsilon-DP, the right side is at most epsilon. So a bound certified by counts of
draws bounds epsilon from below, for every mechanism and every implementation.

*In zCDP.* If it is rho-zCDP, then ``D_alpha(P || Q) <= alpha rho`` for the laws P and Q of whether
E happens, and every alpha > 1: post-processing (Bun & Steinke 2016, Lemma 1.4). With a = P(E | D)
above b = P(E | D') that divergence grows with a and falls with b, so bounds of both certify

    rho >= max over alpha of  log(a**alpha b**(1 - alpha) + (1 - a)**alpha (1 - b)**(1 - alpha))
                              / (alpha (alpha - 1)).

It is stated as the epsilon of the same charge, ``sqrt(2 rho)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from scipy.special import betaincinv

_ORDERS = [1 + 10 ** (place / 8) for place in range(-24, 25)]
"""Of divergence: any of them certifies."""


@dataclass(frozen=True, slots=True)
class Audit:
    """A lower confidence bound on epsilon, and the event that gave it."""

    epsilon: float
    event: str
    counts: tuple[int, int]


def audit_counts(
    counts: Mapping[str, tuple[int, int]],
    *,
    trials: tuple[int, int],
    confidence: float = 0.999,
    pure: bool = True,
) -> Audit:
    """Bound epsilon from below by event counts.

    For each event E, ``epsilon >= |log(P(E | first) / P(E | second))|``. Each
    probability is replaced by its one-sided Clopper-Pearson bound; the level is
    shared among all events, both directions and both bounds (Bonferroni), so
    all of them hold at once with probability ``confidence``. Choose the events
    before looking at the draws that are counted. Unless the mechanism is ``pure``, the
    bound is that of ``sqrt(2 rho)``.

    >>> found = audit_counts({"above 0": (95, 5)}, trials=(100, 100))
    >>> round(found.epsilon, 2), found.event
    (1.57, 'above 0')
    """
    level = (1 - confidence) / (4 * len(counts))
    best = Audit(epsilon=0.0, event="", counts=(0, 0))
    for name, pair in counts.items():
        low = [_lowest(c, n, level) for c, n in zip(pair, trials, strict=True)]
        high = [_highest(c, n, level) for c, n in zip(pair, trials, strict=True)]
        found = max(
            certified_epsilon(low[0], high[1], pure=pure),
            certified_epsilon(low[1], high[0], pure=pure),
        )
        if found > best.epsilon:
            best = Audit(epsilon=found, event=name, counts=pair)
    return best


def certified_epsilon(likely: float, unlikely: float, *, pure: bool) -> float:
    """Return what two probabilities of an event certify: epsilon, or sqrt(2 rho) if not pure.

    Parameters
    ----------
    likely, unlikely
        A lower bound of the probability under one data set, an upper one under the other.

    >>> round(certified_epsilon(0.9, 0.1, pure=True), 3), certified_epsilon(0.1, 0.9, pure=True)
    (2.197, 0.0)
    """
    if likely <= unlikely:
        return 0.0
    if pure:
        return math.log(likely / unlikely)
    return math.sqrt(2 * max(_divergence(likely, unlikely, order) / order for order in _ORDERS))


def _divergence(likely: float, unlikely: float, order: float) -> float:
    """Return the Rényi divergence of two laws of one event."""
    powers = [order * math.log(likely) + (1 - order) * math.log(unlikely)]
    if likely < 1:
        powers.append(order * math.log1p(-likely) + (1 - order) * math.log1p(-unlikely))
    largest = max(powers)
    return (largest + math.log(sum(math.exp(each - largest) for each in powers))) / (order - 1)


def _lowest(count: int, trials: int, level: float) -> float:
    """Return the one-sided Clopper-Pearson lower bound of a probability."""
    return float(betaincinv(count, trials - count + 1, level)) if count else 0.0


def _highest(count: int, trials: int, level: float) -> float:
    """Return the one-sided Clopper-Pearson upper bound of a probability."""
    return 1 - _lowest(trials - count, trials, level)
