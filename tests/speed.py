"""How fast this machine is just now: limits of processor time are those of a usual one.

What only has to come at all is waited for patiently: on a full machine it comes late.
"""

from __future__ import annotations

import time

PATIENCE_S = 120
"""How long a test waits for an answer, or for what has to happen sooner or later."""

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


def in_time(taken: float, most: float) -> bool:
    """Return whether that is less than most on a usual machine; its speed is measured last."""
    return taken < most or taken < most * slowness()
