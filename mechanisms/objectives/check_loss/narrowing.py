"""A convex objective's box engine starts near the minimiser: few records are open there.

*Bound.* Let C be a box around a point p, and b where the ray from p to theta leaves C. For a
convex l with subgradient g, ``g(theta)'(theta - p) >= l(theta) - l(p) >= s (l(b) - l(p))`` with
theta - p = s (b - p), s >= 1, so that for every theta outside C

    ||g(theta)||_K >= (l(b) - l(p)) / h(b - p),    h the dual norm of ||.||_K,

and the least right side over the boundary of C bounds the norm everywhere outside. Likewise
``l(theta) >= l(p) + s (l(b) - l(p))`` there. Where l has risen on all of the boundary, that bounds
the loss itself by its least there; where it falls somewhere, it may fall farther outside, and
nothing is known. On a patch of the boundary l is above its tangent plane at the patch's centre, and
h is at most its value at the largest coordinates. All of it in floats with a certified margin: only
the records open on C are summed one by one, the others are linear there.

p and C are hints (:mod:`mechanisms.objectives.check_loss.search`). They decide how long a draw
takes, not its law; where they are poor the bound is poor, and the engine splits boxes as it would
without them.

*The hyperplanes of records, and on which side of them a polytope is.* A record is reached on one
side of its hyperplane ``x'theta = y`` and missed on the other. Which records are open on a
polytope is read off its vertices: in floats with a certified margin, and in integers where that
leaves it open.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.floats import SPACING, Floats
from mechanisms.objectives.check_loss.law import CheckLossLaw, Undecided
from mechanisms.objectives.check_loss.search import ENOUGH, Hint, search
from mechanisms.objectives.design import on_polytopes
from mechanisms.samplers.boxes import Box, Start
from mechanisms.samplers.boxes.space import Patches, box_around, inner_faces, patches
from mechanisms.samplers.polytopes import Cut, Part, Polytope

# The hyperplanes of records, and on which side of them a polytope is

_CHUNK_ROWS = 1 << 14  # keeps the table of vertices and records small
_LOOK = 24.0  # cost in tries of bounding a polytope, without its records
_RECORDS = 60  # this many records of a polytope cost one more try


class Arrangement:
    """The hyperplanes of distinct records, and which of them cross a polytope."""

    def __init__(self, law: CheckLossLaw) -> None:
        self.law = law
        self.records = law.records
        self.xy = law.xy
        x = self.records.x
        self.codes = x.astype(np.float64)
        self.root = law.root()
        self.unread = replace(self.root)
        # hyperplanes of many records, on long rows, decide most
        self.weight = self.records.counts * np.abs(x).max(axis=1, initial=0)

    def decide(self, known: Undecided, polytope: Polytope) -> Undecided:
        """Return the knowledge of a polytope inside a known one."""
        if not known.count:
            return known
        every, reached, pieces = known.index, known.reached, []
        for start in range(0, len(every), _CHUNK_ROWS):
            index = every[start : start + _CHUNK_ROWS]
            low, high = self._signs(index, polytope)
            reached = reached + self.xy[index[low >= 0]].sum(axis=0)
            pieces.append(index[(low < 0) & (high >= 0)])
        return Undecided.of(np.concatenate(pieces), reached, known.width, records=len(self.xy))

    def effort(self, known: Undecided) -> float:
        """Return the cost of bounding a polytope inside a known one, in tries."""
        return _LOOK + known.count / _RECORDS

    def begun(self) -> list[Part[Undecided]]:
        """Return the boxes' start as polytopes: what is far from a minimiser is bounded.

        Nothing is decided outside of the inner box, where hardly any weight is: what is known there
        is :attr:`unread`, and :attr:`root` on the parts.
        """
        starts = self.law.start(self.records.space)
        return on_polytopes(self.records.space, starts, starts[0].known, self.unread)

    def whole(self) -> Part[Undecided]:
        """Return Theta, every record open."""
        theta = Polytope.cross(self.records.x.shape[1], self.records.space.radius)
        return Part(theta, self.law.floor, self.law.root())

    def heaviest(self, index: NDArray[np.int32]) -> Cut | None:
        """Return the hyperplane that decides most of some records, or None for no record."""
        return self.hyperplane(int(index[np.argmax(self.weight[index])])) if len(index) else None

    def hyperplane(self, record: int) -> Cut:
        """Return a record's hyperplane, the record reached on its upper side."""
        row = tuple(self.records.x[record].tolist())
        return Cut(row, int(self.records.threshold[record]))

    def _signs(
        self, index: NDArray[np.int32], polytope: Polytope
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the least and the largest sign of each record's position on the vertices."""
        places, x = polytope.floats, self.codes[index]
        target = self.records.target[index]
        distance = places @ x.T - target
        margin = np.abs(places) @ np.abs(x).T + np.abs(target)
        margin *= (places.shape[1] + 4) * SPACING
        signs = np.sign(distance).astype(np.int64)
        # Where floats do not determine the sign, the equation is evaluated in integers.
        for vertex, which in np.argwhere(np.abs(distance) <= margin):
            side = self.hyperplane(int(index[which])).side(polytope.vertices[vertex])
            signs[vertex, which] = (side > 0) - (side < 0)
        return signs.min(axis=0), signs.max(axis=0)


# A convex objective's box engine starts near the minimiser: few records are open there

_FEW_ROWS = 60  # with fewer the engine itself is as quick
_SOME_ROWS = 2000  # with fewer the engine itself is often as quick
_WIDENINGS = 4  # a doubling of the reach each
_LITTLE_NATS = 30.0  # so far above the least a box hardly weighs, but for its size
_MATRIX_ENTRIES = 4_000_000  # keeps the table of patches and records small
_MARGIN = 2.0**-30  # relative room for the float operations of a bound


def first_boxes(law: CheckLossLaw) -> tuple[list[Start[Undecided]], bool]:
    """Return boxes that cover Theta, and whether polytopes should follow the law better.

    They should where the loss is least outside of Theta, or where most records meet: the law is a
    layer at a face of Theta then, or a cone.
    """
    space, root = law.records.space, Start(law.records.space.root(), law.floor, law.root())
    hint = _hint(law, root)
    parts, _ = _around(law, root, root.box, hint)
    rows, still_open = root.known.count, parts[0].known.count
    # A box that leaves most of few records open, and what is outside as well, is only one more.
    if rows <= min(_SOME_ROWS, 2 * still_open) and parts[-1].exponent < _LITTLE_NATS:
        parts = [root]
    if hint is None:
        return parts, False
    pulled = np.abs(space.shear @ hint.point).sum() > space.radius
    return parts, hint.cone or bool(pulled)


def near_minimiser(
    law: CheckLossLaw, root: Start[Undecided], theta: Box
) -> tuple[list[Start[Undecided]], Floats | None]:
    """Return boxes that cover one known: that around the minimiser, and what lies outside of it.

    The last one's bound holds outside of the one known as well, in ``theta``. The point is where
    its rays start from; None where the box known is left whole.
    """
    return _around(law, root, theta, _hint(law, root))


def _hint(law: CheckLossLaw, root: Start[Undecided]) -> Hint | None:
    return search(law, root) if len(law.records.y) > _FEW_ROWS else None


def _around(
    law: CheckLossLaw, root: Start[Undecided], theta: Box, hint: Hint | None
) -> tuple[list[Start[Undecided]], Floats | None]:
    if hint is None:
        return [root], None
    parts, most = [root], -math.inf
    for widening in range(_WIDENINGS):
        box = box_around(hint.point, hint.reach * 2.0**widening + 2, root.box)
        if box is None:
            break
        wider = _parts(law, root, box, theta, hint.point)
        known, outside = wider[0].known, wider[-1].exponent
        rise = outside - law.least_at(known, hint.point)
        # Where it leaves most records open, a wider box has to bound what lies outside well.
        some = 2 * known.count < root.known.count or not widening
        if rise > most and (some or rise > _LITTLE_NATS):
            parts, most = wider, rise
        if is_enough(law, hint, known, outside):
            break
    return parts, None if parts[0] is root else hint.point


def is_enough(law: CheckLossLaw, hint: Hint, known: Undecided, outside: float) -> bool:
    """Return whether a box is so wide that little is left to win by a wider one."""
    return outside - law.least_at(known, hint.point) >= hint.nats * ENOUGH


def _parts(
    law: CheckLossLaw, root: Start[Undecided], box: Box, theta: Box, point: Floats
) -> list[Start[Undecided]]:
    """Return the box with its knowledge, and the rest with its bound."""
    half = np.array(box.sides) / 2
    centre = np.array(box.lower) + half
    child = law.split(root.known, centre[None, :], half)
    known = child.knowledge[0]
    outside = least_outside(law, Start(box, law.floor, known), theta, point)
    return [
        Start(box, max(law.floor, root.exponent, float(child.exponents[0])), known),
        *(Start(slab, max(outside, root.exponent), root.known) for slab in root.box.less(box)),
    ]


def least_outside(law: CheckLossLaw, inner: Start[Undecided], outer: Box, point: Floats) -> float:
    """Return a certified lower bound of E on what of a box lies outside of an inner one."""
    half = np.array(inner.box.sides) / 2
    inside = (np.abs(point - np.array(inner.box.lower) - half) < half).all()
    faces = inner_faces(inner.box, outer)
    if not (inside and faces):
        return law.floor
    return _least_outside(_Losses(law, inner.known, point), patches(inner.box, faces))


def _least_outside(losses: _Losses, boundary: Patches) -> float:
    """Return a certified lower bound of E beyond the patches of a box's boundary."""
    law, shear = losses.law, losses.shear
    chunk = max(1, _MATRIX_ENTRIES // (len(losses.counts) + 1))
    least = math.inf
    for first in range(0, len(boundary), chunk):
        part = slice(first, first + chunk)
        c, w = boundary.centres[part], boundary.halves[part]
        largest = np.abs((c - losses.point) @ shear.T) + w @ np.abs(shear).T
        rise = losses.least_rise(c, w, largest)
        least = min(least, float(law.beyond(rise, largest * (1 + _MARGIN)).min()))
    start = law.least_at(losses.known, losses.point)
    return max(law.floor, start + least - _MARGIN * (abs(least) + abs(start)))


class _Losses:
    """``l(u) - l(p)`` on the box known, where only the open records are not linear."""

    def __init__(self, law: CheckLossLaw, known: Undecided, point: Floats) -> None:
        records, d, index = law.records, len(point), known.index
        self.law, self.known = law, known
        self.point, self.tau, self.shear = point, float(law.tau), records.space.shear
        open_sums = law.xy[index].sum(axis=0)[:d]
        # the decided records' gradient, and a few units in the last place of its parts
        self.settled = known.reached[:d] - law.pull[:d] + self.tau * open_sums
        sizes = np.abs(law.pull[:d]) + np.abs(known.reached[:d]) + np.abs(open_sums)
        self.settled_error = 32 * SPACING * sizes
        self.z, self.target = records.z[index], records.target[index]
        self.counts = records.counts[index].astype(np.float64)
        # of a sum that may cancel
        self.slope_error = (len(index) + 8) * SPACING * (self.counts @ np.abs(self.z))
        self.start, self.start_error, _ = self._open(point[None, :])

    def least_rise(self, centres: Floats, halves: Floats, largest: Floats) -> Floats:
        """Return lower bounds of l - l(p) on patches, by the tangent planes at their centres.

        ``largest`` bounds |theta - theta(p)| on each patch.
        """
        value, error, slope = self._open(centres)
        tilt = np.abs(slope + self.settled @ self.shear) * (1 + _MARGIN) + self.slope_error
        rise = (centres - self.point) @ self.shear.T @ self.settled + value - self.start
        rise -= (tilt * halves).sum(axis=1) + error + self.start_error
        return np.asarray(rise - largest @ self.settled_error)

    def _open(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the open records' losses (k), their errors (k), and slopes (k x d)."""
        distance = points @ self.z.T - self.target
        weight = ((distance > 0) - self.tau) * self.counts
        losses = weight * distance
        sizes = (np.abs(points) @ np.abs(self.z).T + np.abs(self.target)) @ self.counts
        error = 8 * SPACING * sizes + (len(self.counts) + 8) * SPACING * np.abs(losses).sum(axis=1)
        return losses.sum(axis=1), error, weight @ self.z
