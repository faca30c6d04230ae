"""An approximation of a sum of unit vectors on a ball: a polynomial, and the points near it.

    g(theta) = sum_i u(theta - x_i),   u(v) = v / |v|

*Conventions.* Places are in grid steps, floats that hold integers below 2**40: their differences
are exact. On the ball of radius R around c, theta = c + R eta with |eta| <= 1.

*Far points.* With v = c - x, r = |v|, u = v / r, t = R / r and s = u'eta, the expansion of
1 / |v + h| by Legendre polynomials gives

    u(v + R eta) = u + t (eta - s u) + t^2 (u (3 s^2 - |eta|^2) / 2 - s eta) + rest,

where the term of order k is at most ``2 t^k |eta|^k``, since |P_k| <= 1. So ``|rest| <= 2 t^3
|eta|^3 / (1 - t)``. The term of order 2 is at most ``t^2 |eta|^2 / sqrt(3)``: with eta = a u + b n
it is ``-t^2 (b^2 u + 2 a b n) / 2``, and ``b^4 + 4 a^2 b^2 <= 4 / 3`` on the unit circle. The far
points are summed once, to

    P(eta) = G + A eta + B(eta, eta),   |far - P| <= error + cubic |eta|^3.

*Near points* are stored, each with its count. Where there are too many, a cell of them stands
within a step of its mean, all its points within ``blur`` of there. From r away, q = blur / r,
its sum of unit vectors is off by at most ``count (1 / r + q^2 / (sqrt(3) (1 - q)^2))``, by the
bound of order 2 along the way to each point; and never by more than twice its count.

*Floats.* A sum over m near points errs by less than ``(m + 64) 2**-52`` of the sum of counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.floats import SPACING, Floats
from mechanisms.objectives.points.cells import Cells
from mechanisms.objectives.points.passes import FAR, TERM_ERROR, Ball, Moments, Points

MARGIN = 2.0**-40
"""Relative room for the float operations of a bound."""

SECOND = 0.578
"""Of t^2, what a term of order 2 is at most: above 1 / sqrt(3)."""

LEAST = 0.25
"""Distances are 0 or at least half a step."""

_NEAREST = 0.5  # of a distance: a cell with a wider blur is as good as anywhere
_SUMS = 16.0  # number of products in an expansion's three terms, each with a term's error
_FLOAT_ROUNDINGS = 64  # of one term: differences, squares, a root and a quotient
_MATRIX_ENTRIES = 1 << 18  # keeps the table of boxes and points small


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """Points near a ball: places (m x d), counts (m), and how far a cell's points are off (m).

    Where ``chosen`` is given, those rows of the table are meant, and no others: fields on many
    parts of a ball share one table.
    """

    places: Floats
    counts: Floats
    blurs: Floats
    chosen: NDArray[np.int32] | None = None

    @classmethod
    def of(cls, cells: Cells, shift: int) -> Near:
        """Return cells, stored in codes, as places in grid steps."""
        scale = float(1 << shift)
        counts = cells.counts.astype(np.float64)
        spread = np.maximum(cells.counts, 1)[:, None]
        mean = np.rint(cells.sums / spread * scale)
        low, high = cells.least * scale, cells.largest * scale
        alone = (cells.least == cells.largest).all(axis=1)
        # A cell of one point is that point, and has no blur.
        mean[alone] = low[alone]
        reach = np.maximum(high - mean, mean - low)
        blurs = np.where(alone, 0.0, np.sqrt((reach**2).sum(axis=1)) * (1 + MARGIN))
        return cls(mean, counts, blurs)

    def __len__(self) -> int:
        return len(self.counts if self.chosen is None else self.chosen)

    @property
    def size(self) -> int:
        """Return how many bytes it takes alone."""
        if self.chosen is not None:
            return self.chosen.nbytes
        return self.places.nbytes + self.counts.nbytes + self.blurs.nbytes

    def rows(self, part: slice = slice(None)) -> Near:
        """Return some of them in a table of their own."""
        rows = part if self.chosen is None else self.chosen[part]
        return Near(self.places[rows], self.counts[rows], self.blurs[rows])

    def less(self, apart: NDArray[np.bool_]) -> Near:
        """Return those that are not marked."""
        chosen = np.arange(len(self), dtype=np.int32) if self.chosen is None else self.chosen
        return Near(self.places, self.counts, self.blurs, chosen[~apart])

    def grouped(self, most: int) -> Near:
        """Return about ``most`` cells, made by joining neighbours in their order."""
        each = self.rows()
        if len(each) <= most:
            return each
        size = -(-len(each) // most)
        starts = np.arange(0, len(each), size)
        counts = np.add.reduceat(each.counts, starts)
        sums = np.add.reduceat(each.places * each.counts[:, None], starts)
        places = sums / counts[:, None]
        off = each.places - np.repeat(places, size, axis=0)[: len(each)]
        reach = _lengths(off) + each.blurs
        blurs = np.maximum.reduceat(reach * (1 + MARGIN), starts)
        return Near(places, counts, blurs)

    @property
    def error(self) -> float:
        """Return the largest error of a sum of unit vectors over all of them, in floats."""
        counts = self.counts if self.chosen is None else self.counts[self.chosen]
        return (len(counts) + _FLOAT_ROUNDINGS) * SPACING * float(counts.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """G (d), A (d x d), B (d x d x d, symmetric in the last two), and the points near the ball.

    ``bent`` bounds ``|B(eta, eta)| / |eta|^2``. ``turning`` is T (d x d), at least the sum of
    ``t^3 (I - u u')`` times what makes ``cubic / 2`` of the sum of t^3.
    """

    centre: Floats
    radius: float
    level: Floats
    slope: Floats
    bend: Floats
    bent: float
    error: float
    cubic: float
    turning: Floats
    near: Near

    @classmethod
    def of(cls, moments: Moments, ball: Ball, points: Points) -> Field:
        """Return the field that the moments around a ball give."""
        d = points.dimension
        sums = [total * TERM_ERROR for total in moments.sums]
        first, rest = np.array(sums[:d]), sums[d:]
        t, second = rest[0], np.zeros((d, d))
        pairs = list(combinations_with_replacement(range(d), 2))
        for (j, k), total in zip(pairs, rest[1:], strict=False):
            second[j, k] = second[k, j] = total
        rest = rest[1 + len(pairs) :]
        single, triple = np.array(rest[:d]), np.zeros((d, d, d))
        for axes, total in zip(combinations_with_replacement(range(d), 3), rest[d:-2], strict=True):
            for order in permutations(axes):
                triple[order] = total
        error, slope = moments.count * TERM_ERROR, t * np.eye(d) - second
        square, cube = rest[-2] + error, rest[-1] + error
        return cls(
            centre=np.array(ball.centre),
            radius=ball.radius,
            level=first,
            slope=slope,
            bend=_second_order(single, triple),
            bent=SECOND * square * (1 + MARGIN),
            error=_SUMS * error + MARGIN * (abs(first).sum() * 2.0**-10 + cube),
            cubic=2 * cube / (1 - 1 / FAR[d]) * (1 + MARGIN),
            # t^3 is at most t / FAR^2
            turning=(slope + _SUMS * error * np.eye(d)) / (FAR[d] * (FAR[d] - 1)) * (1 + MARGIN),
            near=Near.of(moments.near, points.shift),
        )

    @classmethod
    def whole(cls, cells: Cells, dimension: int, radius: int, shift: int) -> Field:
        """Return the field of all points, in cells, on the cube of this half side."""
        zero = np.zeros(dimension)
        return cls(
            centre=zero,
            radius=radius * math.sqrt(dimension) * (1 + MARGIN),
            level=zero,
            slope=np.zeros((dimension,) * 2),
            bend=np.zeros((dimension,) * 3),
            bent=0.0,
            error=0.0,
            cubic=0.0,
            turning=np.zeros((dimension,) * 2),
            near=Near.of(cells, shift),
        )

    @property
    def size(self) -> int:
        """Return about how many bytes it takes, without the table of points that it shares."""
        return self.near.size + 3000

    def narrowed(self, centre: Floats, radius: float, far: float) -> Field:
        """Return the field on a ball inside: points beyond ``far`` radii are summed up.

        The ball's centre is a point of this one's; ``far`` is at least 2.
        """
        eta, share = (centre - self.centre) / self.radius, radius / self.radius
        reach = float(np.sqrt(eta @ eta)) + share
        near = self.near.rows()
        away = centre - near.places
        distance = np.maximum(_lengths(away), LEAST)
        # A blurred cell nearby would lose more in a sum than it saves.
        apart = (distance >= far * radius) & (distance >= 8 * near.blurs + radius)
        unit, t = away[apart] / distance[apart, None], radius / distance[apart]
        counts, once = near.counts[apart], near.counts[apart] * t
        twice = once * t
        thrice = twice * (t / (1 - t))
        blurred = float(counts @ blur_error(near.blurs[apart], distance[apart] - radius))
        turned = 2 * np.einsum("ijk,j->ik", self.bend, eta)
        bend = _moments(unit, twice)
        return Field(
            centre=centre,
            radius=radius,
            level=self.polynomial(eta[None, :])[0] + counts @ unit,
            slope=(self.slope + turned) * share + _across(unit, once),
            bend=self.bend * share**2 + _second_order(twice @ unit, bend),
            bent=(self.bent * share**2 + SECOND * float(twice.sum())) * (1 + MARGIN),
            error=(self.rest(reach) + blurred) * (1 + MARGIN) + 4 * near.error,
            cubic=2 * float(thrice.sum()) * (1 + MARGIN),
            turning=_across(unit, thrice) + MARGIN * float(thrice.sum()) * np.eye(len(eta)),
            near=self.near.less(apart),
        )

    def value(self, place: Floats) -> tuple[Floats, float]:
        """Return g at a point of the ball, and how far it may be off."""
        eta = (place - self.centre) / self.radius
        total, error = self.polynomial(eta[None, :])[0], self.rest(float(np.sqrt(eta @ eta)))
        for part in self.parts(1):
            near = self.near.rows(part)
            away = place - near.places
            distance = np.maximum(_lengths(away), LEAST)
            total = total + (near.counts / distance) @ away
            error += float(near.counts @ blur_error(near.blurs, distance))
        return total, (error + 2 * self.near.error) * (1 + MARGIN)

    def polynomial(self, eta: Floats) -> Floats:
        """Return P at k places."""
        bent = np.einsum("ijk,nj,nk->ni", self.bend, eta, eta)
        return np.asarray(self.level + eta @ self.slope.T + bent)

    def rest(self, length: float) -> float:
        """Return how far P may be off at |eta| of this length, its own rounding included."""
        sizes = float(np.abs(self.level).sum()) + float(np.abs(self.slope).sum()) + self.bent
        return self.error + self.cubic * length**3 * (1 + MARGIN) + 2.0**-48 * sizes

    def parts(self, boxes: int) -> list[slice]:
        """Return the near points in parts, small enough for ``boxes`` boxes at a time."""
        step = max(1, _MATRIX_ENTRIES // boxes)
        return [slice(first, first + step) for first in range(0, len(self.near), step)]


def _lengths(vectors: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("nj,nj->n", vectors, vectors)))


def _across(unit: Floats, weights: Floats) -> Floats:
    """Return the sum of w (I - u u')."""
    return np.asarray(weights.sum() * np.eye(unit.shape[1]) - (unit * weights[:, None]).T @ unit)


def _moments(unit: Floats, weights: Floats) -> Floats:
    """Return the sum of w u u u (d x d x d)."""
    d = unit.shape[1]
    u = np.ascontiguousarray(unit.T)  # long rows: several times as fast as short ones
    pairs = (u[:, None] * u[None]).reshape(d * d, -1)
    return np.asarray(((u * weights) @ pairs.T).reshape(d, d, d))


def _second_order(single: Floats, triple: Floats) -> Floats:
    """Return B from sums of t^2 u and t^2 u u u."""
    eye = np.eye(len(single))
    crossed = np.einsum("j,ik->ijk", single, eye) + np.einsum("k,ij->ijk", single, eye)
    return np.asarray((3 * triple - np.einsum("i,jk->ijk", single, eye) - crossed) / 2)


def blur_error(blurs: Floats, distance: Floats) -> Floats:
    """Return how far a point of a cell's sum may be off, from this far away."""
    q = np.minimum(blurs / distance, _NEAREST)
    small = 1 / np.maximum(distance, 1.0) + SECOND * q**2 / (1 - q) ** 2
    found = np.where(blurs < _NEAREST * distance, np.minimum(small, 2.0), 2.0)
    return np.where(blurs > 0, found, 0.0)
