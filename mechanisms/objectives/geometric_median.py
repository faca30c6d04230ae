"""Distances to private records, as a law of the box engine.

    N(theta; D) = || sum_i (theta - x_i) / ||theta - x_i||_2 ||_2,   terms with theta = x_i being 0

*Conventions.* theta and x_i are integer vectors in grid steps of 2**-(20 + s), below 2**39: their
differences are exact in float64.

*Bound.* From a box of radius R, a record at distance r > R from its centre is seen within the
angle alpha, sin alpha = R / r, of the direction from the centre, so its unit vector moves by at
most ``2 sin(alpha / 2) = q sqrt(2 / (1 + sqrt(1 - q^2)))``, q = R / r; nearer ones (and q above
1 - 2**-20, where floats lose the root) by at most 2.

*Floats.* Each unit vector's entries are within (d + 6) u of their exact values and a sum of n of
them, in any order, within n (n + 20) u; the bound and the ball around N say so. A comparison
which that ball leaves open is repeated record by record in ball arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechanisms.exact.arrays import Floats
from mechanisms.exact.balls import norm_two, rational
from mechanisms.exact.floats import SPACING
from mechanisms.samplers.boxes import Children, Space, Start

_MARGIN = 2.0**-40  # relative room for the float operations of a bound
_NEAR = 1 - 2.0**-20  # inside the box, or too close to tell in floats
_CHUNK_ROWS = 1 << 15  # keeps the table of distances small
_FLOAT_BITS = 128  # up to here floats with their proved error decide


class MedianLaw:
    """``E(theta) = rate * N(theta)`` on a cube.

    Parameters
    ----------
    points
        The records (n x d), in grid steps.
    rate
        ``epsilon / (2 Delta)``.
    """

    floor = 0.0

    def __init__(self, points: NDArray[np.int64], *, rate: Fraction) -> None:
        self.points = points.astype(np.float64)
        self.rate = rate
        rows = len(points)
        self.error = rows * (rows + 20) * SPACING

    def start(self, space: Space) -> list[Start[None]]:
        """Return one box: all of Theta."""
        return [Start(space.root(), self.floor, None)]

    def widths(self, known: None) -> Floats | None:  # noqa: ARG002
        """Return None: every side matters alike."""
        return None

    def split(self, known: None, centres: Floats, half: Floats) -> Children[None]:  # noqa: ARG002
        """Bound N on boxes by its value at the centre, less what every unit vector may move."""
        radius = float(np.sqrt(half @ half)) * (1 + _MARGIN)
        sums, moves = self._sums(centres, radius)
        norms = np.sqrt((sums**2).sum(axis=1)) - moves * (1 + _MARGIN) - 2 * self.error
        low = np.maximum(0, norms) * float(self.rate) * (1 - _MARGIN)
        return Children(low, [None] * len(centres))

    def _sums(self, places: Floats, radius: float) -> tuple[Floats, Floats]:
        """Return the sums of unit vectors at places (k x d), and how far they may move (k)."""
        sums, moves = np.zeros(places.shape), np.zeros(len(places))
        for start in range(0, len(self.points), _CHUNK_ROWS):
            away = places[:, None, :] - self.points[None, start : start + _CHUNK_ROWS]
            distance = np.sqrt((away**2).sum(axis=2))
            nearest = np.maximum(distance, 0.25)  # distances are 0 or at least half a step
            sums += (away / nearest[:, :, None]).sum(axis=1)
            q = radius / nearest
            inside = q >= _NEAR
            far = np.minimum(q, _NEAR)
            if places.shape[1] == 1:
                moves += 2.0 * inside.sum(axis=1)
            else:
                turn = far * np.sqrt(2 / (1 + np.sqrt(1 - far**2)))
                moves += np.where(inside, 2.0, turn).sum(axis=1)
        return sums, moves + 2 * self.error * (len(self.points) > 0)

    def size(self, known: None) -> int:  # noqa: ARG002
        """Return 0: nothing is known of one piece."""
        return 0

    def exponent(self, known: None, point: Sequence[int], bits: int) -> arb:  # noqa: ARG002
        """Return a ball around rate * N(theta)."""
        rate = rational(self.rate)
        if bits <= _FLOAT_BITS:
            sums, _ = self._sums(np.array([point], dtype=np.float64), 0.0)
            norm = math.sqrt(float((sums[0] ** 2).sum()))
            return rate * arb(norm, 2 * self.error + 16 * SPACING * norm)
        total = [arb(0)] * len(point)
        for row in self.points.tolist():
            away = [arb(k) - arb(x) for k, x in zip(point, row, strict=True)]
            if any(k != x for k, x in zip(point, row, strict=True)):
                distance = norm_two(away)
                total = [t + a / distance for t, a in zip(total, away, strict=True)]
        return rate * norm_two(total)
