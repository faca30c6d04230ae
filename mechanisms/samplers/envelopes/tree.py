"""Weighted choice among a changing set, with exact integer weights.

A binary tree of partial sums: adding, removing and choosing touch one path.
"""

from __future__ import annotations

from collections.abc import Iterable

from mechanisms.randomness import Randomness


class SumTree:
    """Non-negative integer weights of slots 0, 1, 2, ..., any of which may change."""

    __slots__ = ("_capacity", "_sums")

    def __init__(self, weights: Iterable[int] = ()) -> None:
        leaves = list(weights)
        self._capacity = max(1 << (len(leaves) - 1).bit_length(), 64) if leaves else 64
        self._fill(leaves)

    @property
    def total(self) -> int:
        """Return the sum of all weights."""
        return self._sums[1]

    def set(self, slot: int, weight: int) -> None:
        """Give a slot its weight; slots are added as they are named."""
        while slot >= self._capacity:
            leaves = self._sums[self._capacity :]
            self._capacity *= 2
            self._fill(leaves)
        place = self._capacity + slot
        change = weight - self._sums[place]
        while place:
            self._sums[place] += change
            place >>= 1

    def choose(self, randomness: Randomness) -> int:
        """Return a slot with probability exactly its weight over the total (above zero)."""
        target = randomness.below(self._sums[1])
        place = 1
        while place < self._capacity:
            place *= 2
            if target >= self._sums[place]:
                target -= self._sums[place]
                place += 1
        return place - self._capacity

    def _fill(self, leaves: list[int]) -> None:
        self._sums = [0] * self._capacity + leaves + [0] * (self._capacity - len(leaves))
        for place in reversed(range(1, self._capacity)):
            self._sums[place] = self._sums[2 * place] + self._sums[2 * place + 1]
