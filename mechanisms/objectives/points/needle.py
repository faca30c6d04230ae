"""Where a law is a needle: far longer in one direction than across.

Let S be the sum of 1 / r over the points. The curvature of the sum of distances, the sum of
``(I - u u') / r``, has trace (d - 1) S, and no eigenvalue above S. So where its least eigenvalue is
small, all others are about S: points are seen along one line, and the law is long in that
direction and in no other. It is so between two heavy points, and between neighbours on a line.
Boxes have one side in that direction then. All of this is a choice of cost only.

*The law of the geometric median on a line, where it is the median, as a law of the box engine.*

    E(theta) = rate |S(theta)|,   S(theta) = #{x < theta} - #{x > theta}

S never falls, so that the least |S| on an interval is at an end of it, or where S passes 0: exact,
from counts of the distinct values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from mechanisms.exact.balls import rational
from mechanisms.exact.many import Floats, Integers
from mechanisms.objectives.points.field import Field
from mechanisms.objectives.points.search import Hint
from mechanisms.samplers.boxes import Children, Space, Start

# The law of the geometric median on a line, where it is the median, as a law of the box engine


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


# Where a law is a needle: far longer in one direction than across

_CURVED = 16.0  # times as much across as along: else boxes of any direction do as well
_ASIDE = 1 / 3  # of how far a needle goes to one side and not to the other
_LONG = 24.0  # times as long as wide: the same


@dataclass(frozen=True, slots=True, eq=False)
class Needle:
    """A point where N is about least, the axes of boxes around, and N and its slope across there.

    Column ``axis`` of the axes is along the needle, which is ``long`` times as long as wide.
    """

    point: Floats
    axes: Floats
    axis: int
    lowest: float
    slope: float
    long: float

    @classmethod
    def find(
        cls, field: Field, hint: Hint, speed: float, space: Space
    ) -> tuple[Needle, Space] | None:
        """Return the needle that a law ``exp(-speed N)`` is, and the space along it, if any."""
        if not (np.isfinite(hint.point).all() and is_long(hint)):
            return None
        slope, (_, ways) = hint.across, np.linalg.eigh(hint.curve)
        slanted = Space.along(ways[:, 0], space.radius)
        axis = int(np.argmax(np.abs(ways[:, 0])))
        found = cls(np.rint(hint.point), slanted.shear, axis, 0.0, slope, 0.0)
        heights = found._heights(field)
        lowest = float(heights.min())
        ahead, behind = 2.0 ** np.count_nonzero((heights - lowest) * speed <= 1, axis=1)
        long = max(ahead, behind) * slope * speed
        if long < _LONG:
            return None
        # Not at a heavy point, which would be a corner of boxes of every size.
        point = found.point + np.rint((ahead - behind) * _ASIDE) * found.axes[:, axis]
        return cls(np.rint(point), found.axes, axis, lowest, slope, long), slanted

    def reach(self, field: Field, rise: float) -> float:
        """Return how far along the needle N rises by this much, in both directions."""
        high = self._heights(field).min(axis=0) >= self.lowest + rise
        return float(2.0 ** int(np.argmax(high))) if high.any() else math.inf

    def _heights(self, field: Field) -> Floats:
        return _heights(field, self.point, self.axes[:, self.axis])


def is_long(hint: Hint) -> bool:
    """Return whether the sum of distances is far less curved in one direction than in others."""
    if not np.isfinite(hint.curve).all():
        return False
    values = np.linalg.eigvalsh(hint.curve)
    return len(values) > 1 and bool(values[1] > _CURVED * max(float(values[0]), 0.0))


def reach(field: Field, hint: Hint, rise: float) -> float:
    """Return how far from a hint N rises by this much, in the direction of least curvature."""
    _, ways = np.linalg.eigh(hint.curve)
    heights = _heights(field, hint.point, ways[:, 0]).min(axis=0)
    high = heights >= heights.min() + rise
    return float(2.0 ** int(np.argmax(high))) if high.any() else math.inf


def _heights(field: Field, point: Floats, way: Floats) -> Floats:
    """Return N at 1, 2, 4, ... steps from a point, in either direction."""
    steps = 2.0 ** np.arange(math.ceil(math.log2(max(field.radius, 2.0))) + 1)
    found = [
        [float(np.linalg.norm(field.value(point + side * step * way)[0])) for step in steps]
        for side in (1.0, -1.0)
    ]
    return np.array(found)
