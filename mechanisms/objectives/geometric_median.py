"""Distances to private records, as a law of the box engine.

    N(theta; D) = || sum_i (theta - x_i) / ||theta - x_i||_2 ||_2,   terms with theta = x_i being 0

*Conventions.* theta and x_i are integer vectors in grid steps of 2**-(20 + s), below 2**39: their
differences are exact in float64.

*Bound.* From a box of radius R, a record at distance r > R from its centre is seen within the
angle alpha, sin alpha = R / r, of the direction from the centre, so its unit vector moves by at
most ``2 sin(alpha / 2) = q sqrt(2 / (1 + sqrt(1 - q^2)))``, q = R / r; nearer ones (and q above
1 - 2**-20, where floats lose the root) by at most 2.

*Slope.* Records farther than ``R / _FAR`` are followed along: with v the way from the centre,
``u(v) = u + (v - (u'v) u) / r`` up to ``q**2 / (sqrt(3) (1 - q)**2)``, since the second derivative
of x / |x| along v = a u + b n is ``-(b^2 u + 2 a b n) / |x|^2``, at most ``2 / sqrt(3)`` in all. So
for a unit vector w, ``||g|| >= w'g >= w'g(centre) - |H w|'half - rest``, H the sum of
``(I - u u') / r``. Where vectors nearly cancel this is what bounds.

*Floats.* Each unit vector's entries are within (d + 6) u of their exact values, times a count
within one more, and a sum for n records, in any order, within n (n + 24) u; the bound and the ball
around N say so. A comparison which that ball leaves open is repeated point by point in ball
arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechanisms.exact.balls import norm_two, rational
from mechanisms.exact.floats import SPACING, Floats
from mechanisms.objectives.design import distinct_rows
from mechanisms.samplers.boxes import Children, Space, Start

_MARGIN = 2.0**-40  # relative room for the float operations of a bound
_NEAR = 1 - 2.0**-20  # inside the box, or too close to decide in floats
_FAR = 0.5  # nearer records are bounded by how far they may turn
_WIDE = 0.25  # of the records' extent: on wider boxes slopes give no bound
_TINY = 1e-300  # no direction where the sum is 0
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
        distinct, counts = distinct_rows(points)
        self.points = distinct.astype(np.float64)
        self.counts = counts.astype(np.float64)
        self.rate = rate
        rows = len(points)
        self.spread = float(np.ptp(self.points, axis=0).max()) if rows else 0.0
        self.error = rows * (rows + 24) * SPACING

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
        if radius < _WIDE * self.spread:
            norms = np.maximum(norms, self._along(centres, half, radius, sums))
        low = np.maximum(0, norms) * float(self.rate) * (1 - _MARGIN)
        return Children(low, [None] * len(centres))

    def _along(self, centres: Floats, half: Floats, radius: float, sums: Floats) -> Floats:
        """Return lower bounds of w'g, w the direction of g at the centre."""
        d = centres.shape[1]
        length = np.sqrt((sums**2).sum(axis=1))
        w = sums / np.maximum(length, _TINY)[:, None]
        slopes, rest = np.zeros(centres.shape), np.zeros(len(centres))
        sizes = np.zeros(len(centres))
        for start in range(0, len(self.points), _CHUNK_ROWS):
            away = centres[:, None, :] - self.points[None, start : start + _CHUNK_ROWS]
            distance = np.maximum(np.sqrt((away**2).sum(axis=2)), 0.25)
            q = radius / distance
            far = q < _FAR
            unit = away / distance[:, :, None]
            counts = self.counts[start : start + _CHUNK_ROWS]
            share = np.where(far, counts / distance, 0.0)
            lean = np.einsum("knd,kd->kn", unit, w)
            slopes += share.sum(axis=1)[:, None] * w
            slopes -= np.einsum("kn,knd->kd", lean * share, unit)
            sizes += share.sum(axis=1)
            near = np.minimum(q, _NEAR)
            turn = near * np.sqrt(2 / (1 + np.sqrt(1 - near**2)))
            bent = near**2 / (math.sqrt(3) * (1 - near) ** 2)
            rest += np.where(far, bent, np.where(q >= _NEAR, 2.0, turn)) @ counts
        cost = np.abs(slopes) @ half + self.error * (d + 2) * sizes * radius
        # w is a unit vector, and w'g(centre) the length, up to a few roundings
        found = length * (1 - _MARGIN) - (cost + rest) * (1 + _MARGIN) - 4 * self.error
        return np.asarray(found)

    def _sums(self, places: Floats, radius: float) -> tuple[Floats, Floats]:
        """Return the sums of unit vectors at places (k x d), and how far they may move (k)."""
        sums, moves = np.zeros(places.shape), np.zeros(len(places))
        for start in range(0, len(self.points), _CHUNK_ROWS):
            away = places[:, None, :] - self.points[None, start : start + _CHUNK_ROWS]
            distance = np.sqrt((away**2).sum(axis=2))
            nearest = np.maximum(distance, 0.25)  # distances are 0 or at least half a step
            counts = self.counts[start : start + _CHUNK_ROWS]
            sums += np.einsum("knd,n->kd", away / nearest[:, :, None], counts)
            q = radius / nearest
            inside = q >= _NEAR
            far = np.minimum(q, _NEAR)
            # On a line a unit vector turns round or stays as it is.
            if places.shape[1] == 1:
                moves += 2.0 * (inside @ counts)
            else:
                turn = far * np.sqrt(2 / (1 + np.sqrt(1 - far**2)))
                moves += np.where(inside, 2.0, turn) @ counts
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
        for row, count in zip(self.points.tolist(), self.counts.tolist(), strict=True):
            away = [arb(k) - arb(x) for k, x in zip(point, row, strict=True)]
            if any(k != x for k, x in zip(point, row, strict=True)):
                distance = norm_two(away)
                total = [t + count * a / distance for t, a in zip(total, away, strict=True)]
        return rate * norm_two(total)
