"""Where a law is a needle: far longer in one direction than across.

Let S be the sum of 1 / r over the points. The curvature of the sum of distances, the sum of
``(I - u u') / r``, has trace (d - 1) S, and no eigenvalue above S. So where its least eigenvalue is
small, all others are about S: points are seen along one line, and the law is long in that
direction and in no other. It is so between two heavy points, and between neighbours on a line.
Boxes have one side in that direction then. All of this is a choice of cost only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mechanisms.exact.arrays import Floats
from mechanisms.objectives.points.field import Field
from mechanisms.objectives.points.search import Hint
from mechanisms.samplers.boxes import Space

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
