"""A convex objective's box engine starts near the minimiser: few records are open there.

*Bound.* Let C be a box around a point p, and b where the ray from p to theta leaves C. For a
convex l with subgradient g, ``g(theta)'(theta - p) >= l(theta) - l(p) >= s (l(b) - l(p))`` with
theta - p = s (b - p), s >= 1, so that for every theta outside C

    ||g(theta)||_K >= (l(b) - l(p)) / h(b - p),    h the dual norm of ||.||_K,

and the least right side over the boundary of C bounds the norm everywhere outside. Likewise
``l(theta) >= l(p) + (l(b) - l(p))`` there, which bounds the loss itself. On a patch of the boundary
l is above its tangent plane at the patch's centre, and h is at most its value at the largest
coordinates. All of it in floats with a certified margin: only the records open on C are summed
one by one, the others are linear there.

p and C are hints from a smoothed Newton search. They decide how long a draw takes, not its law;
where they are poor the bound is poor, and the engine splits boxes as it would without them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from mechanisms.domain import CODE_MAX
from mechanisms.exact.arrays import Floats
from mechanisms.exact.floats import SPACING
from mechanisms.objectives.check_loss.law import CheckLossLaw, Undecided
from mechanisms.samplers.boxes import Box, Space, Start
from mechanisms.samplers.boxes.faces import Patches, box_around, inner_faces, patches

_FEW_ROWS = 2000  # with fewer the engine itself is as quick
_SAMPLE_ROWS = 20_000  # a start from so many rows is close enough
_TAIL_NATS = 30.0  # what lies outside then weighs exp(-30) of the whole
_WIDENINGS = 3  # a doubling of the reach each
_ENOUGH = 0.75  # of the nats wanted: then no wider box is tried
_MATRIX_ENTRIES = 4_000_000  # keeps the table of patches and records small
_MARGIN = 2.0**-30  # relative room for the float operations of a bound


def near_minimiser(law: CheckLossLaw, space: Space) -> list[Start[Undecided]]:
    """Return boxes that cover Theta: one around the minimiser, and what lies outside of it."""
    root = Start(space.root(), law.floor, law.root())
    hint = _search(law) if len(law.records.y) > _FEW_ROWS else None
    if hint is None:
        return [root]
    parts = [root]
    for widening in range(_WIDENINGS):
        box = box_around(hint.point, hint.reach * 2.0**widening + 2, root.box)
        if box is None:
            break
        parts = _parts(law, root, box, hint.point)
        if parts[-1].exponent - parts[0].exponent >= hint.nats * _ENOUGH:
            break
    return parts


def _parts(
    law: CheckLossLaw, root: Start[Undecided], box: Box, point: Floats
) -> list[Start[Undecided]]:
    """Return the box with what is known there, and what is outside with its bound."""
    half = np.array(box.sides) / 2
    centre = np.array(box.lower) + half
    child = law.split(root.known, centre[None, :], half)
    known = child.knowledge[0]
    slabs = root.box.less(box)
    inside = (np.abs(point - centre) < half).all()
    faces = inner_faces(box, root.box)
    outside = law.floor
    if inside and faces:
        outside = _least_outside(_Losses(law, known, point), patches(box, faces))
    return [
        Start(box, max(law.floor, float(child.exponents[0])), known),
        *(Start(slab, outside, root.known) for slab in slabs),
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Hint:
    """A point (in u, grid steps), reaches that should be enough, and the nats wanted outside."""

    point: Floats
    reach: Floats
    nats: float


@dataclass(frozen=True, slots=True, eq=False)
class _Smoothed:
    """The loss smoothed by a logistic kernel, in floats: some records, and the others' gradient."""

    z: Floats
    y: Floats
    counts: Floats
    tau: float
    settled: Floats

    def descend(self, u: Floats, width: float) -> tuple[Floats, Floats]:
        """Return u and the Hessian after a few damped Newton steps at one kernel width."""
        for _ in range(3):
            p = expit((self.z @ u - self.y) / width)
            gradient = ((p - self.tau) * self.counts) @ self.z + self.settled
            weights = p * (1 - p) * self.counts / width
            hessian = (self.z * weights[:, None]).T @ self.z
            ridge = 1e-6 * (np.trace(hessian) + 1e-9) * np.eye(len(u))
            step = np.linalg.solve(hessian + ridge, gradient)
            u = u - step / max(1.0, float(np.abs(step).max()))
        return u, hessian

    def every(self, stride: int) -> _Smoothed:
        """Return a sample."""
        part = slice(None, None, stride)
        return replace(self, z=self.z[part], y=self.y[part], counts=self.counts[part])

    def near(self, u: Floats, distance: float) -> _Smoothed:
        """Return the records near the fit, the others' gradient settled."""
        residual = self.z @ u - self.y
        near = np.abs(residual) < distance
        far = ((residual > 0) - self.tau)[~near] * self.counts[~near]
        return replace(
            self,
            z=self.z[near],
            y=self.y[near],
            counts=self.counts[near],
            settled=far @ self.z[~near],
        )


def _search(law: CheckLossLaw) -> _Hint | None:
    """Minimise the loss smoothed by kernels of shrinking width, in floats."""
    records, d = law.records, law.records.x.shape[1]
    every = _Smoothed(
        z=records.z / CODE_MAX,
        y=records.y / CODE_MAX,
        counts=records.counts.astype(np.float64),
        tau=float(law.tau),
        settled=np.zeros(d),
    )
    u = np.zeros(d)
    sample = every.every(max(1, len(records.y) // _SAMPLE_ROWS))
    for width in (0.5, 0.2, 0.1, 0.05, 0.02):
        u, hessian = sample.descend(u, width)
    near = every.near(u, 0.2)
    width = 0.02
    # Narrower kernels fit the kink better, while enough records still lie under them.
    while width > 1e-7 and (np.abs(near.z @ u - near.y) < width).sum() > 40 * d:
        width /= 2
        u, hessian = near.descend(u, width)
    curvature = np.diag(hessian)
    if not np.isfinite(u).all() or not (curvature > 0).all():
        return None
    scale = 2.0**records.grid_bits
    widest = 2 * records.space.radius / scale
    reach, nats = law.wanted(curvature, widest, _TAIL_NATS)
    return _Hint(point=u * scale, reach=reach * scale, nats=nats)


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
        records, d = law.records, len(point)
        self.law, self.known = law, known
        self.point, self.tau, self.shear = point, float(law.tau), records.space.shear
        open_sums = law.xy[known.index].sum(axis=0)[:d]
        # the decided records' gradient, and a few units in the last place of its parts
        self.settled = known.reached[:d] - self.tau * (law.total[:d] - open_sums)
        sizes = np.abs(law.total[:d]) + np.abs(known.reached[:d]) + np.abs(open_sums)
        self.settled_error = 32 * SPACING * sizes
        self.z, self.target = records.z[known.index], records.target[known.index]
        self.counts = records.counts[known.index].astype(np.float64)
        self.start, self.start_error, _ = self._open(point[None, :])

    def least_rise(self, centres: Floats, halves: Floats, largest: Floats) -> Floats:
        """Return lower bounds of l - l(p) on patches, by the tangent planes at their centres.

        ``largest`` bounds |theta - theta(p)| on each patch.
        """
        value, error, slope = self._open(centres)
        tilt = np.abs(slope + self.settled @ self.shear) * (1 + _MARGIN)
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
