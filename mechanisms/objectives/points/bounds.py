"""Lower bounds of a sum of unit vectors on boxes, from a field around them.

*A box* is ``theta = c + V h``, ``|h| <= half``: V is the identity, or turns one side along the way
in which a law is long. rho is its radius. For any unit vector w, ``|g| >= w'g``. With w the
direction of g at c and J the derivatives of P there, P falls along w by at most ``|J'w|'V half``
and the second order. A near point at q = (rho + blur) / r is followed along in the same way while q
is small, with the rest at most ``q^2 / (sqrt(3) (1 - q)^2)``; else its unit vector turns by at most
``q sqrt(2 / (1 + sqrt(1 - q^2)))``, since it is seen within the angle arcsin q. If all of the box
is ahead of the point along w, w'u is at least how far, over how long the way there can be.

*A long box* has its points ahead: little of it is across the way to them. Let b be the most of V h
that is across the way from a point to c. Along ``x = c + s V h`` its unit vector turns at the rate
``b r / |x|^2``, so that its second derivative is at most ``2 b rho r / |x|^3`` and the third
``6 b rho^2 r / |x|^4``. With ``|x| >= r (1 - s q)`` the rest is at most ``q b / (r (1 - q))``
beyond the first order, and ``q^2 b / (r (1 - q))`` beyond the second. For points summed up, b / r
becomes ``t sqrt(eta'(I - u u') eta)``, and by Cauchy and Schwarz the sum of those rests is at most
``|eta|^2`` times the roots of the sum of t^3 and of ``eta'T eta``, T the sum of
``t^3 (I - u u')``, but for 1 - t.

Bounds outside a box around the minimiser, by rays from a point inside.

Along a ray from p the derivative of the sum of distances does not fall. So with b where the ray
from p to theta leaves the box, ``N(theta) >= g(b)'(b - p) / |b - p|``: the least over patches of
the boundary bounds N everywhere outside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.floats import Floats
from mechanisms.objectives.points.field import LEAST, MARGIN, SECOND, Field, Near, blur_error
from mechanisms.samplers.boxes import Box
from mechanisms.samplers.boxes.space import inner_faces, patches

SLACK = 2.0**-8
"""Of a slanted box's half sides, in grid steps: its centre is rounded by less."""

_NEAR = 1 - 2.0**-20  # inside the box, or too close to decide in floats
_FOLLOWED = 0.5  # nearer points are bounded by how far they may turn
_SHARED = 0.5  # of what a point's slope costs alone, when others' are added
_ROUNDED = 2.0**-46  # of what is across a way: there squares cancel in floats
_TINY = 1e-300  # where sums are nothing, their direction is nothing too, and not NaN


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """On k boxes: lower bounds of |g|, what was lost for them, and g at the centres (k x d).

    ``width`` is what a box's own sides cost, ``excess`` what could be known better, ``carried``
    what of that is due to points summed up; g is within the excess of ``sums``. ``matter`` is
    about how much each side costs (k x d), and ``most`` an upper bound of |g|.
    """

    least: Floats
    most: Floats
    carried: Floats
    excess: Floats
    width: Floats
    sums: Floats
    matter: Floats

    @classmethod
    def all(cls, each: Sequence[Bounds]) -> Bounds:
        """Return those of some boxes together."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(one, name) for one in each]) for name in names))


def bounded(
    field: Field,
    centres: Floats,
    halves: Floats,
    *,
    axes: Floats | None = None,
    ways: Floats | None = None,
) -> Bounds:
    """Return bounds of |g| on boxes ``theta = centre + axes h, |h| <= half`` (k x d each).

    With ``ways`` y (k x d, none of them 0) it is y'g that is bounded, over |y|.
    """
    looked = _Looked if axes is None else _Slanted
    found = looked(field, centres, halves, np.eye(centres.shape[1]) if axes is None else axes)
    for part in field.parts(len(centres)):
        found.gather(part)
    sums = found.sums
    length = np.sqrt((sums**2).sum(axis=1))
    w = sums / np.maximum(length, _TINY)[:, None]
    if ways is not None:
        w = ways / np.sqrt((ways**2).sum(axis=1))[:, None]
        length = (w * sums).sum(axis=1)
    for part in field.parts(len(centres)):
        found.follow(part, w)
    first, second = found.orders(w)
    width = (first.sum(axis=1) + second + found.rest) * (1 + MARGIN)
    excess = (
        (found.carried + found.blurred) * (1 + MARGIN)
        + 4 * field.near.error
        + MARGIN * np.abs(length)
    )
    least = length - width - excess
    moved = found.moves * (1 + MARGIN) + excess
    most = np.sqrt((sums**2).sum(axis=1)) + moved
    if ways is None:
        # across w it grows from nothing
        rises = (first.sum(axis=1) + second + found.either) * (1 + MARGIN)
        most = np.minimum(most, np.hypot(length + rises + excess, moved)) * (1 + MARGIN)
        least = np.maximum(least, length - found.moves * (1 + MARGIN) - excess)
    matter = first + found.shares + found.squares * second[:, None]
    return Bounds(least, most, found.carried, excess, width, sums, matter)


class _Looked:
    """Sums over the points of a field for k boxes, part by part.

    What is beyond the first order is ``rest`` where w'g falls, and ``either`` in any direction.
    ``squares`` are the shares of a box's sides in its squared size, ``shares`` (k x d) what of the
    rest is due to each of them.
    """

    def __init__(self, field: Field, centres: Floats, halves: Floats, axes: Floats) -> None:
        self.field, self.centres, self.halves, self.axes = field, centres, halves, axes
        self.eta = (centres - field.centre) / field.radius
        spans = halves**2 * (axes**2).sum(axis=0)
        self.squares = spans / np.maximum(spans.sum(axis=1), _TINY)[:, None]
        self.radii = np.sqrt(((halves @ np.abs(axes).T) ** 2).sum(axis=1)) * (1 + MARGIN)
        share = self.radii / field.radius
        self.lengths = np.sqrt((self.eta**2).sum(axis=1)) + share
        self.sums = field.polynomial(self.eta)
        self.slopes = np.zeros(centres.shape)
        self.carried = np.array([field.rest(float(length)) for length in self.lengths])
        self.blurred = np.zeros(len(centres))
        self.second = field.bent * share**2
        jacobians = field.slope + 2 * np.einsum("ijk,nj->nik", field.bend, self.eta)
        self.jacobians = jacobians / field.radius
        turns = np.sqrt(((self.jacobians @ axes) ** 2).sum(axis=1))
        self.moves = (turns * halves).sum(axis=1) + self.second
        self.rest, self.either = np.zeros(len(centres)), np.zeros(len(centres))
        self.shares = np.zeros(centres.shape)

    def gather(self, part: slice) -> None:
        """Add unit vectors at the centres, how far they may turn, and blurs."""
        near, away, distance = self._away(part)
        counts, blurs = near.counts, near.blurs
        self.sums = self.sums + np.einsum("knd,kn->kd", away, counts / distance)
        self.moves = self.moves + self._turned(near, away, distance) @ counts
        if blurs.any():
            self.blurred = self.blurred + blur_error(blurs, distance) @ counts

    def _turned(self, near: Near, away: Floats, distance: Floats) -> Floats:  # noqa: ARG002
        """Return how far unit vectors may move."""
        return _turned((self.radii[:, None] + near.blurs) / distance)

    def follow(self, part: slice, w: Floats) -> None:
        """Add how w'g changes along the box, and what is beyond the first order."""
        near, away, distance = self._away(part)
        q = (self.radii[:, None] + near.blurs) / distance
        lean = np.einsum("knd,kd->kn", away, w) / distance
        rest, slopes_help = self._beyond(near, away, distance, q, lean)
        span = (np.abs(w @ self.axes) * self.halves).sum(axis=1)[:, None] + near.blurs
        falls = fallen(distance, lean, span, self.radii[:, None] + near.blurs)
        followed = slopes_help & (falls > rest + _SHARED * self._leaving(w, lean, away, distance))
        # A point that is not followed counts with its whole turn: a slope gives no bound for it.
        free = np.where(slopes_help, self._turned(near, away, distance), rest)
        self.either += np.where(followed, rest, free) @ near.counts
        rest = np.where(followed, rest, np.minimum(free, falls))
        # What a box's own sides cost is what would be left without blurs.
        own = rest
        if near.blurs.any():
            own = np.minimum(rest, _beyond(self.radii[:, None] / distance))
        share = np.where(followed, near.counts / distance, 0.0)
        self.slopes += share.sum(axis=1)[:, None] * w
        self.slopes -= np.einsum("kn,knd->kd", lean * share / distance, away)
        self.rest += own @ near.counts
        self.blurred = self.blurred + (rest - own) @ near.counts

    def _leaving(self, w: Floats, lean: Floats, away: Floats, distance: Floats) -> Floats:
        """Return how far w'u falls over the boxes by its slope: with others' it may be less."""
        along = (w @ self.axes)[:, None] - (lean / distance)[..., None] * (away @ self.axes)
        return np.asarray((np.abs(along) * self.halves[:, None]).sum(axis=2) / distance)

    def _beyond(
        self,
        near: Near,  # noqa: ARG002
        away: Floats,  # noqa: ARG002
        distance: Floats,  # noqa: ARG002
        q: Floats,
        lean: Floats,  # noqa: ARG002
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return how far w'u may be off, and which unit vectors u are followed along."""
        return _beyond(q), q < _FOLLOWED

    def orders(self, w: Floats) -> tuple[Floats, Floats]:
        """Return how far w'g may fall over the boxes by each side (k x d), and by the second order.

        The second is of the points summed up alone.
        """
        slopes = np.einsum("nij,ni->nj", self.jacobians, w) + self.slopes
        return np.abs(slopes @ self.axes) * self.halves, self.second

    def _away(self, part: slice) -> tuple[Near, Floats, Floats]:
        near = self.field.near.rows(part)
        away = self.centres[:, None, :] - near.places[None]
        distance = np.maximum(np.sqrt(np.einsum("knd,knd->kn", away, away)), LEAST)
        return near, away, distance


class _Slanted(_Looked):
    """The same for boxes that may be long, with what is across the way to each point."""

    def __init__(self, field: Field, centres: Floats, halves: Floats, axes: Floats) -> None:
        super().__init__(field, centres, halves, axes)
        self.sizes = (axes**2).sum(axis=0)
        turning = field.turning
        across = np.sqrt(np.maximum(np.einsum("ni,ij,nj->n", self.eta, turning, self.eta), 0))
        sides = np.sqrt(np.maximum(np.einsum("ij,ik,kj->j", axes, turning, axes), 0))
        across += halves @ sides / field.radius
        third = self.lengths**2 * np.sqrt(field.cubic / 2) * across * (1 + MARGIN)
        self.carried = np.minimum(self.carried, field.rest(0.0) + third)

    def _beyond(
        self, near: Near, away: Floats, distance: Floats, q: Floats, lean: Floats
    ) -> tuple[Floats, NDArray[np.bool_]]:
        rest, followed = super()._beyond(near, away, distance, q, lean)
        along, across = self._across(away, distance)
        most = across.sum(axis=2) * (1 + MARGIN)
        ahead = beyond_along(q, (most + near.blurs) / distance, lean)
        better = (q < _NEAR) & (ahead < rest)
        rest = np.where(better, ahead, rest)
        # A rest grows with what is across and with the length alike.
        weights = rest * near.counts
        self.shares += np.einsum("kn,knj->kj", weights / most, across)
        length = np.einsum("kn,knj->kj", weights / self.radii[:, None], along)
        self.shares += length * self.halves
        return rest, followed | better

    def _across(self, away: Floats, distance: Floats) -> tuple[Floats, Floats]:
        """Return how much of each side is along the way to points, and half of it across."""
        along = np.abs(away @ self.axes) / distance[..., None]
        across = np.sqrt(np.maximum(self.sizes - along**2, 0) + _ROUNDED * self.sizes)
        return along, across * self.halves[:, None, :]

    def _turned(self, near: Near, away: Floats, distance: Floats) -> Floats:
        _, across = self._across(away, distance)
        q = (self.radii[:, None] + near.blurs) / distance
        low = np.minimum(q, _NEAR)
        ahead = (across.sum(axis=2) * (1 + MARGIN) + near.blurs) / distance / (1 - low)
        found = super()._turned(near, away, distance)
        return np.where(q < _NEAR, np.minimum(found, ahead * (1 + MARGIN)), found)

    def orders(self, w: Floats) -> tuple[Floats, Floats]:
        first, second = super().orders(w)
        leaning = np.einsum("ijk,ni->njk", self.field.bend, w) / self.field.radius**2
        curved = np.abs(self.axes.T @ leaning @ self.axes)
        second_order = np.einsum("njk,nj,nk->n", curved, self.halves, self.halves)
        return first, np.minimum(second, second_order)


def beyond_ahead(q: Floats, across: Floats) -> Floats:
    """Return how far a unit vector may be from where its slope leads, of a point not in the box.

    The most of a box that is across the way to the point is so much of the distance.
    """
    low = np.minimum(q, _NEAR)
    return np.asarray(low * across / (1 - low) * (1 + MARGIN))


def beyond_along(q: Floats, across: Floats, lean: Floats) -> Floats:
    """Return the same along a unit vector w, where ``lean`` is w'u.

    What is beyond is ``cos(turn) - 1`` along u, since the slope is across u. The rest of it is
    across u as well.
    """
    turn = across / (1 - np.minimum(q, _NEAR)) * (1 + MARGIN)
    aside = np.sqrt(np.maximum(1 - lean**2, 0) + _ROUNDED)
    along = np.abs(lean) * np.minimum(turn**2 / 2, 2.0)
    return np.asarray((aside * beyond_ahead(q, across) + along) * (1 + MARGIN))


def fallen(distance: Floats, lean: Floats, span: Floats, size: Floats) -> Floats:
    """Return how far w'u may fall over boxes of a size that reach so far along w.

    With u the direction from a point at this distance, and ``lean`` what w'u is at the centre: w
    times the way from the point is at least ``lean * distance - span``, over its length at most.
    """
    least = lean * distance - span * (1 + MARGIN) - MARGIN * distance
    farthest = (distance + size) * (1 + MARGIN)
    # no way is shorter than what it has along w
    closest = np.maximum(distance * (1 - MARGIN) - size, np.maximum(-least, _TINY))
    low = least / np.where(least > 0, farthest, closest)
    return np.asarray((lean - low) * (1 + MARGIN) + MARGIN)


def _turned(q: Floats) -> Floats:
    """Return how far a unit vector may move that is seen from q of its distance around."""
    low = np.minimum(q, _NEAR)
    return np.where(q >= _NEAR, 2.0, low * np.sqrt(2 / (1 + np.sqrt(1 - low**2))))


def _beyond(q: Floats) -> Floats:
    """Return how far a unit vector may be from where its slope leads, or from where it was."""
    low = np.minimum(q, _FOLLOWED)
    return np.where(q < _FOLLOWED, low**2 * SECOND / (1 - low) ** 2, _turned(q))


# Bounds outside a box around the minimiser, by rays from a point inside


_BOUNDARY_CELLS = 1 << 17  # fewer blur a bound on a boundary where the noise is wide
_MOST_PATCHES = 1 << 11  # near points on a line only small patches give a bound


def outside(
    field: Field,
    box: Box,
    root: Box,
    point: Floats,
    *,
    axes: Floats | None = None,
    wanted: float = -math.inf,
) -> float:
    """Return a lower bound of N outside a box, by rays from a point inside.

    With axes, boxes and the point are those of u with ``theta = axes u``. Patches on which less
    is found than wanted are cut again.
    """
    half = np.array(box.sides) / 2
    centre = np.array(box.lower) + half
    faces = inner_faces(box, root)
    if not faces or not (np.abs(point - centre) < half).all():
        return 0.0
    boundary = patches(box, faces)
    centres, halves, lowest = boundary.centres, boundary.halves, math.inf
    field = replace(field, near=field.near.grouped(_BOUNDARY_CELLS))
    while True:
        low = _leaving(field, centres, halves, point, axes)
        short = low < wanted
        lowest = min(lowest, float(low[~short].min(initial=math.inf)))
        if not short.any():
            return lowest
        if np.count_nonzero(short) << len(half) - 1 > _MOST_PATCHES:
            return min(lowest, float(low.min()))
        centres, halves = _cut(centres[short], halves[short])


def _cut(centres: Floats, halves: Floats) -> tuple[Floats, Floats]:
    """Return the halves, in each of its directions, of every patch."""
    found = []
    for signs in product((-0.5, 0.5), repeat=centres.shape[1]):
        # a patch has no width along the side its face stands on
        own = ((halves > 0) | (np.array(signs) > 0)).all(axis=1)
        found.append((centres[own] + np.array(signs) * halves[own], halves[own] / 2))
    return (
        np.concatenate([centre for centre, _ in found]),
        np.concatenate([half for _, half in found]),
    )


def _leaving(
    field: Field, centres: Floats, halves: Floats, point: Floats, axes: Floats | None
) -> Floats:
    """Return lower bounds of ``g(b)'(b - p) / |b - p|`` on patches."""
    turn = np.eye(len(point)) if axes is None else axes
    if axes is not None:
        halves = halves + SLACK
    ways = (centres - point) @ turn.T
    found = bounded(field, centres @ turn.T, halves, axes=axes, ways=ways)
    sizes = np.abs(found.sums @ turn) + found.excess[:, None] * np.sqrt((turn**2).sum(axis=0))
    rise = found.least * np.sqrt((ways**2).sum(axis=1))
    rise -= (sizes * halves).sum(axis=1) * (1 + MARGIN)
    longest = np.sqrt(((np.abs(ways) + halves @ np.abs(turn).T) ** 2).sum(axis=1))
    return np.asarray(rise / longest)
