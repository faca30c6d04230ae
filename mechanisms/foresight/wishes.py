"""The smallest epsilon for a requested accuracy, by simulation, where no law states the error.

Let w(epsilon) be the largest, over an answer's numbers, of the 95% quantile of the absolute error
in the simulation of :mod:`mechanisms.foresight.errors`. It falls as epsilon grows, mostly as a
power of it, and every epsilon is tried on the same samples with the same bits. From a first
epsilon the next one tried is epsilon w(epsilon) / x, and then ever larger steps are made until x
is between two that were tried. Between these the next is where a line through both, on
logarithmic scales, reaches x, and every third time their geometric mean. The search ends where
the least epsilon known to reach x is at most 1.1 times the largest known not to. It tries at most
24 values, and fewer where one takes long, but at least 8. In that case the returned epsilon reaches
x, and is usually too large by at most 25%.

**Privacy.** Nothing here receives data: the answer is a function of public facts.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import NamedTuple

from mechanisms.contract import InvalidStatisticError
from mechanisms.foresight.asked import Asked
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.errors import simulated_reach, simulating_ms
from mechanisms.privacy import MAX_EPSILON_NANOS, Epsilon

MOST_TRIED, LEAST_TRIED = 24, 8  # each is a simulation, and the caller waits
USUALLY_TRIED = 6
_LONGEST_MS = 1600.0
"""Time for tries beyond ``LEAST_TRIED``; if those take longer, there is no search."""
_NEAR = 1.1  # a simulation determines an epsilon to about 20%: closer values are equivalent
_ASIDE = 1.05
"""The smallest factor between an epsilon and the next one tried: below ``_NEAR`` squared."""
_FARTHEST = 1000.0
"""The largest factor between an epsilon and the next one tried."""
_STEP = 4.0
"""The factor of the second step, unless the error asks for a larger one; later ones are powers."""


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
        # As far as possible from the target, so that the search continues upwards.
        except InvalidStatisticError:
            return _FARTHEST

    found = searched(within, first.nanos, most=_most_tried(first, asked_at, assumptions))
    return None if found is None else Epsilon(found)


def is_searched(
    first: Epsilon, asked_at: Callable[[Epsilon], Asked], assumptions: Assumptions
) -> bool:
    """Return whether a search takes a second or two at most: by public facts alone."""
    return LEAST_TRIED * _each_ms(first, asked_at, assumptions) <= _LONGEST_MS


def _most_tried(
    first: Epsilon, asked_at: Callable[[Epsilon], Asked], assumptions: Assumptions
) -> int:
    """Return how many epsilons may be tried: by public facts, before anything is simulated."""
    each_ms = _each_ms(first, asked_at, assumptions)
    return min(max(int(_LONGEST_MS / each_ms), LEAST_TRIED), MOST_TRIED)


def _each_ms(
    first: Epsilon, asked_at: Callable[[Epsilon], Asked], assumptions: Assumptions
) -> float:
    try:
        return simulating_ms(asked_at(first), assumptions)
    except InvalidStatisticError:  # too little to be split: larger epsilons are tried
        return 1.0


class _Tried(NamedTuple):
    """An epsilon in billionths, and the function there."""

    nanos: int
    size: float


def searched(within: Callable[[int], float], first: int, *, most: int = MOST_TRIED) -> int | None:
    """Return about the least integer, up to the largest epsilon, at which a function is at most 1.

    The function falls. None where it is larger everywhere, or where no such was met in ``most``
    tries.
    """
    nanos = first
    low: _Tried | None = None
    high: _Tried | None = None
    for turn in range(most):
        tried = _Tried(nanos, within(nanos))
        if tried.size > 1:
            low = tried
        else:
            high = tried
        if high is None:
            if nanos >= MAX_EPSILON_NANOS:  # not even the largest epsilon will do
                return None
            nanos = _beyond(tried, turn)
        else:
            least = 0 if low is None else low.nanos
            if high.nanos <= least * _NEAR or high.nanos - least <= 1:
                break
            nanos = _beyond(tried, turn) if low is None else _between(low, high, turn)
    return None if high is None else high.nanos


def _beyond(tried: _Tried, turn: int) -> int:
    """Return the next epsilon to try where all tries are too small, or all too large."""
    upwards = tried.size > 1
    factor = max(tried.size if upwards else 1 / max(tried.size, 1 / _FARTHEST), _ASIDE)
    if turn:  # it falls more slowly than as 1 / epsilon, so each step is bolder
        factor = max(factor, _STEP) ** (1 + turn // 2)
    factor = min(factor, _FARTHEST)
    if upwards:
        return min(max(int(tried.nanos * factor), tried.nanos + 1), MAX_EPSILON_NANOS)
    return max(min(int(tried.nanos / factor), tried.nanos - 1), 1)


def _between(low: _Tried, high: _Tried, turn: int) -> int:
    """Return the next epsilon to try between one that is too small and one that is enough."""
    part = 0.5
    if turn % 3 != 2:
        above, below = log(low.size), -log(max(high.size, 1 / _FARTHEST**2))
        part = above / (above + below)
    guess = low.nanos * (high.nanos / low.nanos) ** part
    # Keep away from both ends: a value close to a known one adds almost no information.
    guess = min(max(guess, low.nanos * _ASIDE), high.nanos / _ASIDE)
    return min(max(int(guess), low.nanos + 1), high.nanos - 1)
