"""How fast this machine is just now: limits of processor time are those of a usual one."""

from __future__ import annotations

import time

_USUAL_S = 0.035
"""What the loop takes on a usual machine."""


def slowness() -> float:
    """Return how many times longer than usual this machine computes; at least once.

    A core whose neighbours are busy, or that shares its units with another, takes twice as long.
    """
    started, total = time.process_time(), 0
    for number in range(1_000_000):
        total += number
    return max(1.0, (time.process_time() - started) / _USUAL_S)
