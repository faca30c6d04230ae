"""What is known of a sum of unit vectors on a ball: a polynomial, and the points near it.

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

*Near points* are kept, each with its count. Where there are too many, a cell of them stands
within a step of its mean, all its points within ``blur`` of there. From r away, q = blur / r,
its sum of unit vectors is off by at most ``count (1 / r + q^2 / (sqrt(3) (1 - q)^2))``, by the
bound of order 2 along the way to each point; and never by more than twice its count.

*Bound on a box* |theta - centre| <= half, of radius rho. For any unit vector w, ``|g| >= w'g``.
With w the direction of g at the centre and J the derivatives of P there, P falls along w by at most
``|J'w|'half`` and the second order. A near point at q = (rho + blur) / r is followed along in the
same way while q is small, with the rest at most ``q^2 / (sqrt(3) (1 - q)^2)``; else its unit vector
turns by at most ``q sqrt(2 / (1 + sqrt(1 - q^2)))``, since it is seen within the angle arcsin q.

*Floats.* A sum over m near points errs by less than ``(m + 64) 2**-52`` of the sum of counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.arrays import Floats
from mechanisms.exact.floats import SPACING
from mechanisms.objectives.points.cells import Cells
from mechanisms.objectives.points.passes import FAR, TERM_ERROR, Ball, Moments, Points

MARGIN = 2.0**-40
"""Relative room for the float operations of a bound."""

_NEAR = 1 - 2.0**-20  # inside the box, or too close to tell in floats
_FOLLOWED = 0.5  # nearer points are bounded by how far they may turn
_SECOND = 0.578  # above 1 / sqrt(3)
_SUMS = 16.0  # an expansion's three terms have so many products, each with a term's error
_FLOAT_ROUNDINGS = 64  # of one term: differences, squares, a root and a quotient
_LEAST = 0.25  # distances are 0 or at least half a step
_TINY = 1e-300  # where sums are nothing, their direction is nothing too, and not NaN
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
        """Return cells, kept in codes, as places in grid steps."""
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
        """Return about so many cells of them, made of those next to each other in their order."""
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
        """Return what a sum of unit vectors over all of them may err by in floats."""
        counts = self.counts if self.chosen is None else self.counts[self.chosen]
        return (len(counts) + _FLOAT_ROUNDINGS) * SPACING * float(counts.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """On k boxes: lower bounds of |g|, what was lost for them, and g at the centres (k x d).

    ``width`` is what a box's own sides cost, ``excess`` what could be known better, ``carried``
    what of that is due to points summed up; g is within the excess of ``sums``.
    """

    least: Floats
    carried: Floats
    excess: Floats
    width: Floats
    sums: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """G (d), A (d x d), B (d x d x d, symmetric in the last two), and the points near the ball.

    ``bent`` bounds ``|B(eta, eta)| / |eta|^2``.
    """

    centre: Floats
    radius: float
    level: Floats
    slope: Floats
    bend: Floats
    bent: float
    error: float
    cubic: float
    near: Near

    @classmethod
    def of(cls, moments: Moments, ball: Ball, points: Points) -> Field:
        """Return what the moments around a ball say."""
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
        error = moments.count * TERM_ERROR
        square, cube = rest[-2] + error, rest[-1] + error
        return cls(
            centre=np.array(ball.centre),
            radius=ball.radius,
            level=first,
            slope=t * np.eye(d) - second,
            bend=_second_order(single, triple),
            bent=_SECOND * square * (1 + MARGIN),
            error=_SUMS * error + MARGIN * (abs(first).sum() * 2.0**-10 + cube),
            cubic=2 * cube / (1 - 1 / FAR[d]) * (1 + MARGIN),
            near=Near.of(moments.near, points.shift),
        )

    @classmethod
    def whole(cls, cells: Cells, dimension: int, radius: int, shift: int) -> Field:
        """Return what all points, in cells, say on the cube of this half side."""
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
            near=Near.of(cells, shift),
        )

    @property
    def size(self) -> int:
        """Return about how many bytes it takes, beside a table of points that it shares."""
        return self.near.size + 3000

    def narrowed(self, centre: Floats, radius: float, far: float) -> Field:
        """Return what is known on a ball inside: points beyond ``far`` radii are summed up.

        The ball's centre is a point of this one's; ``far`` is at least 2.
        """
        eta, share = (centre - self.centre) / self.radius, radius / self.radius
        reach = float(np.sqrt(eta @ eta)) + share
        near = self.near.rows()
        away = centre - near.places
        distance = np.maximum(_lengths(away), _LEAST)
        # A blurred cell nearby would lose more in a sum than it saves.
        apart = (distance >= far * radius) & (distance >= 8 * near.blurs + radius)
        unit, t = away[apart] / distance[apart, None], radius / distance[apart]
        counts, once = near.counts[apart], near.counts[apart] * t
        twice = once * t
        blurred = float(counts @ _blurred(near.blurs[apart], distance[apart] - radius))
        thrice = float(twice @ (t / (1 - t)))
        turned = 2 * np.einsum("ijk,j->ik", self.bend, eta)
        bend = _moments(unit, twice)
        return Field(
            centre=centre,
            radius=radius,
            level=self._polynomial(eta[None, :])[0] + counts @ unit,
            slope=(self.slope + turned) * share
            + once.sum() * np.eye(len(eta))
            - (unit * once[:, None]).T @ unit,
            bend=self.bend * share**2 + _second_order(twice @ unit, bend),
            bent=(self.bent * share**2 + _SECOND * float(twice.sum())) * (1 + MARGIN),
            error=(self._rest(reach) + blurred) * (1 + MARGIN) + 4 * near.error,
            cubic=2 * thrice * (1 + MARGIN),
            near=self.near.less(apart),
        )

    def value(self, place: Floats) -> tuple[Floats, float]:
        """Return g at a point of the ball, and how far it may be off."""
        eta = (place - self.centre) / self.radius
        total, error = self._polynomial(eta[None, :])[0], self._rest(float(np.sqrt(eta @ eta)))
        for part in self._parts(1):
            near = self.near.rows(part)
            away = place - near.places
            distance = np.maximum(_lengths(away), _LEAST)
            total = total + (near.counts / distance) @ away
            error += float(near.counts @ _blurred(near.blurs, distance))
        return total, (error + 2 * self.near.error) * (1 + MARGIN)

    def bounds(self, centres: Floats, halves: Floats, ways: Floats | None = None) -> Bounds:
        """Return bounds of |g| on boxes ``|theta - centre| <= half`` (k x d each).

        With ``ways`` y (k x d, none of them 0) it is y'g that is bounded, over |y|.
        """
        found = _Looked(self, centres, halves)
        for part in self._parts(len(centres)):
            found.gather(part)
        sums = found.sums
        length = np.sqrt((sums**2).sum(axis=1))
        w = sums / np.maximum(length, _TINY)[:, None]
        if ways is not None:
            w = ways / np.sqrt((ways**2).sum(axis=1))[:, None]
            length = (w * sums).sum(axis=1)
        for part in self._parts(len(centres)):
            found.follow(part, w)
        width = found.width(w) * (1 + MARGIN)
        excess = (
            (found.carried + found.blurred) * (1 + MARGIN)
            + 4 * self.near.error
            + MARGIN * np.abs(length)
        )
        least = length - width - excess
        if ways is None:
            least = np.maximum(least, length - found.moves * (1 + MARGIN) - excess)
        return Bounds(least, found.carried, excess, width, sums)

    def _polynomial(self, eta: Floats) -> Floats:
        """Return P at k places."""
        bent = np.einsum("ijk,nj,nk->ni", self.bend, eta, eta)
        return np.asarray(self.level + eta @ self.slope.T + bent)

    def _rest(self, length: float) -> float:
        """Return how far P may be off at |eta| of this length, its own rounding included."""
        sizes = float(np.abs(self.level).sum()) + float(np.abs(self.slope).sum()) + self.bent
        return self.error + self.cubic * length**3 * (1 + MARGIN) + 2.0**-48 * sizes

    def _parts(self, boxes: int) -> list[slice]:
        step = max(1, _MATRIX_ENTRIES // boxes)
        return [slice(first, first + step) for first in range(0, len(self.near), step)]


class _Looked:
    """Sums over the points of a field for k boxes, part by part."""

    def __init__(self, field: Field, centres: Floats, halves: Floats) -> None:
        self.field, self.centres, self.halves = field, centres, halves
        self.eta = (centres - field.centre) / field.radius
        self.radii = np.sqrt((halves**2).sum(axis=1)) * (1 + MARGIN)
        share = self.radii / field.radius
        lengths = np.sqrt((self.eta**2).sum(axis=1)) + share
        self.sums = field._polynomial(self.eta)
        self.slopes = np.zeros(centres.shape)
        self.carried = np.array([field._rest(float(length)) for length in lengths])
        self.blurred = np.zeros(len(centres))
        self.second = field.bent * share**2
        jacobians = field.slope + 2 * np.einsum("ijk,nj->nik", field.bend, self.eta)
        self.jacobians = jacobians / field.radius
        self.moves = np.sqrt((jacobians**2).sum(axis=(1, 2))) * share + self.second
        self.rest = np.zeros(len(centres))

    def gather(self, part: slice) -> None:
        """Add unit vectors at the centres, how far they may turn, and blurs."""
        near, away, distance = self._away(part)
        counts, blurs = near.counts, near.blurs
        self.sums = self.sums + np.einsum("knd,kn->kd", away, counts / distance)
        self.moves = self.moves + _turned((self.radii[:, None] + blurs) / distance) @ counts
        if blurs.any():
            self.blurred = self.blurred + _blurred(blurs, distance) @ counts

    def follow(self, part: slice, w: Floats) -> None:
        """Add how w'g changes along the box, and what is beyond the first order."""
        near, away, distance = self._away(part)
        q = (self.radii[:, None] + near.blurs) / distance
        followed = q < _FOLLOWED
        rest = _beyond(q) @ near.counts
        # What a box's own sides cost is what would be left without blurs.
        own = _beyond(self.radii[:, None] / distance) @ near.counts if near.blurs.any() else rest
        share = np.where(followed, near.counts / distance, 0.0)
        lean = np.einsum("knd,kd->kn", away, w) / distance
        self.slopes += share.sum(axis=1)[:, None] * w
        self.slopes -= np.einsum("kn,knd->kd", lean * share / distance, away)
        self.rest += own
        self.blurred = self.blurred + (rest - own)

    def width(self, w: Floats) -> Floats:
        """Return how far w'g may fall over the boxes, from what is known exactly."""
        slopes = np.einsum("nij,ni->nj", self.jacobians, w) + self.slopes
        return np.asarray((np.abs(slopes) * self.halves).sum(axis=1) + self.second + self.rest)

    def _away(self, part: slice) -> tuple[Near, Floats, Floats]:
        near = self.field.near.rows(part)
        away = self.centres[:, None, :] - near.places[None]
        distance = np.maximum(np.sqrt(np.einsum("knd,knd->kn", away, away)), _LEAST)
        return near, away, distance


def _lengths(vectors: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("nj,nj->n", vectors, vectors)))


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


def _turned(q: Floats) -> Floats:
    """Return how far a unit vector may move that is seen from q of its distance around."""
    low = np.minimum(q, _NEAR)
    return np.where(q >= _NEAR, 2.0, low * np.sqrt(2 / (1 + np.sqrt(1 - low**2))))


def _beyond(q: Floats) -> Floats:
    """Return how far a unit vector may be from where its slope leads, or from where it was."""
    low = np.minimum(q, _FOLLOWED)
    return np.where(q < _FOLLOWED, low**2 * _SECOND / (1 - low) ** 2, _turned(q))


def _blurred(blurs: Floats, distance: Floats) -> Floats:
    """Return how far a point of a cell's sum may be off, from this far away."""
    q = np.minimum(blurs / distance, _FOLLOWED)
    small = 1 / np.maximum(distance, 1.0) + _SECOND * q**2 / (1 - q) ** 2
    found = np.where(blurs < _FOLLOWED * distance, np.minimum(small, 2.0), 2.0)
    return np.where(blurs > 0, found, 0.0)
