"""Shipped checks of the privacy claims, and the seeded stand-in for randomness.

Nothing here is imported by the service.
"""

from __future__ import annotations

import random

from mechanisms.randomness import Randomness


class SeededBits:
    """A reproducible bit source for tests; never for a release."""

    __slots__ = ("_generator",)

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)  # noqa: S311

    def bits(self, count: int) -> int:
        """Return an integer uniform on [0, 2**count)."""
        return self._generator.getrandbits(count) if count else 0


def seeded_randomness(seed: int) -> Randomness:
    """Return a reproducible stream for tests."""
    return Randomness(SeededBits(seed))
