"""The law of the geometric median on a line, where it is the median, as a law of the box engine.

    E(theta) = rate |S(theta)|,   S(theta) = #{x < theta} - #{x > theta}

S never falls, so that the least |S| on an interval is at an end of it, or where S passes 0: exact,
from counts of the distinct values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats, Integers
from mechanisms.exact.balls import rational
from mechanisms.samplers.boxes import Children, Space, Start


class LineLaw:
    """``E(theta) = rate |S(theta)|`` on a line.

    Parameters
    ----------
    values, counts
        The distinct values of the records in grid steps, ascending, and how often each occurs.
    rate
        ``epsilon / (2 Delta)``.
    """

    floor = 0.0

    def __init__(self, values: Integers, counts: Integers, *, rate: Fraction) -> None:
        self.values = values
        self.below = np.append(0, np.cumsum(counts))
        self.rate = rate
        self.passing = self._passing()

    def start(self, space: Space) -> list[Start[None]]:
        """Return one box: all of Theta."""
        return [Start(space.root(), self.floor, None)]

    def widths(self, known: None) -> Floats | None:  # noqa: ARG002
        """Return None: there is one side."""
        return None

    def size(self, known: None) -> int:  # noqa: ARG002
        """Return 0: nothing is known of one piece."""
        return 0

    def split(self, known: None, centres: Floats, half: Floats) -> Children[None]:  # noqa: ARG002
        """Bound |S| by its least on each interval."""
        ends = [
            (math.ceil(centre - half[0]), math.floor(centre + half[0]))
            for centre in centres[:, 0].tolist()
        ]
        least = np.array([float(self._least(low, high) * self.rate) for low, high in ends])
        return Children(least * (1 - 2.0**-50), [None] * len(centres))

    def exponent(self, known: None, point: Sequence[int], bits: int) -> arb:  # noqa: ARG002
        """Return rate |S(theta)|."""
        return rational(self.rate * abs(self._signed(point[0])))

    def _signed(self, place: int) -> int:
        """Return S at a place."""
        first = np.searchsorted(self.values, place, side="left")
        last = np.searchsorted(self.values, place, side="right")
        return int(self.below[first] + self.below[last] - self.below[-1])

    def _least(self, low: int, high: int) -> int:
        """Return the least |S| on an interval, ends included."""
        if high < self.passing:
            return -self._signed(high)
        if low >= self.passing:
            return self._signed(low)
        return min(self._signed(self.passing), -self._signed(self.passing - 1))

    def _passing(self) -> int:
        """Return the first place where S is not below 0."""
        if not len(self.values):
            return 0
        half = self.below[-1]
        after = 2 * self.below[1:] >= half  # just above each value
        value = int(self.values[np.argmax(after)])
        return value if self._signed(value) >= 0 else value + 1
