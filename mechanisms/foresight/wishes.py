"""The smallest epsilon for a wanted accuracy, where no law states the error: by simulation.

Let w(epsilon) be the largest, over an answer's numbers, of the 95% quantile of the absolute error
in the simulation of :mod:`mechanisms.foresight.errors`. It falls as epsilon grows, about as
1 / epsilon, and every epsilon is tried on the same samples with the same bits. So from a first
epsilon the next one tried is epsilon w(epsilon) / x, kept inside what is known already, and every
third time the geometric middle of that, where an end that is unknown counts as far away. The
search ends where the least epsilon known to reach x is at most 1.1 times the largest known not to.
At most 24 are tried.

**Privacy.** Nothing here is given data: the answer is a function of public facts.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

from mechanisms.contract import InvalidStatisticError
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.errors import Asked, simulated_reach
from mechanisms.privacy import MAX_EPSILON_NANOS, Epsilon

MOST_TRIED = 24  # each is a simulation, and somebody waits
USUALLY_TRIED = 6
_NEAR = 1.1  # a simulation tells an epsilon to about a fifth, so that closer ones are alike
_ASIDE = 1.05
"""How far from an epsilon that was tried the next one is, at least: less than ``_NEAR`` squared."""
_FARTHEST = 1000
"""How many times larger or smaller than the last one tried the next may be."""


def smallest_epsilon(
    first: Epsilon,
    asked_at: Callable[[Epsilon], Asked],
    assumptions: Assumptions,
    *,
    wanted: float,
) -> Epsilon | None:
    """Return the smallest epsilon whose error is within what is wanted, to about a tenth.

    ``asked_at`` says what is asked at an epsilon; ``first`` is tried first. None where none is
    found. At what cannot be asked, as too little to be split, nothing is within.
    """

    def within(nanos: int) -> float:
        try:
            return simulated_reach(asked_at(Epsilon(nanos)), assumptions) / wanted
        # As far as can be from what is wanted, so that the search goes on upwards.
        except InvalidStatisticError:
            return float(_FARTHEST)

    found = searched(within, first.nanos)
    return None if found is None else Epsilon(found)


def searched(within: Callable[[int], float], first: int) -> int | None:
    """Return about the least integer, up to the largest epsilon, at which a function is at most 1.

    The function falls. None where it is larger everywhere, or where no such was met in time.
    """
    tried, low, high = first, 0, None
    for turn in range(MOST_TRIED):
        size = within(tried)
        if size > 1:
            low = tried
        else:
            high = tried
        # Not even the largest epsilon will do.
        if tried >= MAX_EPSILON_NANOS and high is None:
            return None
        if high is not None and (high <= low * _NEAR or high - low <= 1):
            return high
        tried = _next(tried, size, low, high, halve=turn % 3 == 2)
    return high


def _next(tried: int, size: float, low: int, high: int | None, *, halve: bool) -> int:
    """Return what to try next: where a size that falls as 1 / epsilon would be 1."""
    most = MAX_EPSILON_NANOS if high is None else high - 1
    if halve:
        # The middle on a logarithmic scale: epsilons differ by factors.
        ends = (low or tried // _FARTHEST, tried * _FARTHEST**2 if high is None else high)
        return min(max(isqrt(ends[0] * ends[1]), low + 1), most)
    least = max(low * _ASIDE, tried / _FARTHEST)
    # Kept off both ends: a guess beside what is known would teach next to nothing.
    largest = tried * _FARTHEST if high is None else high / _ASIDE
    guess = min(max(tried * size, least), largest)
    return min(max(int(guess), low + 1), most)
