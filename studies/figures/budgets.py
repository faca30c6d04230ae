"""Ratios of budgets: the share of another method's epsilon at which a method has equal error.

Of two lines over epsilon, each point of the first is looked up on the second, which is linear in
log epsilon between its points. A point counts where the second passes its height just once, and on
a stretch that is not flat: there a small error of the height would be a large one of epsilon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

Line = Sequence[tuple[float, float]]
"""Pairs of epsilon and height, by rising epsilon."""


def budget_ratios(line: Line, other: Line, *, least_change: float) -> dict[float, float]:
    """Return by epsilon of the first line the ratio of it to the other's epsilon there.

    ``least_change`` is by how much the ends of a stretch of the other line must differ.
    """
    found = {}
    for epsilon, height in line:
        crossed = [
            (left, right)
            for left, right in pairwise(other)
            if min(left[1], right[1]) <= height < max(left[1], right[1])
        ]
        if len(crossed) == 1 and abs(crossed[0][0][1] - crossed[0][1][1]) >= least_change:
            found[epsilon] = epsilon / _crossing(*crossed[0], height)
    return found


def _crossing(left: tuple[float, float], right: tuple[float, float], height: float) -> float:
    """Return the epsilon at which the stretch between two points has this height."""
    share = (height - left[1]) / (right[1] - left[1])
    return float(np.exp((1 - share) * np.log(left[0]) + share * np.log(right[0])))


def typical(ratios: Mapping[float, float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(list(ratios.values())))))


def described(ratios: Mapping[float, float]) -> str:
    """Return ratios in words: their mean, their range, and how many there are."""
    if not ratios:
        return "no common height"
    values = ratios.values()
    return f"{typical(ratios):.2f} ({min(values):.2f} to {max(values):.2f} at {len(ratios)} points)"
