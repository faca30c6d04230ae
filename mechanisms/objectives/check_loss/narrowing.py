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
from mechanisms.samplers.boxes import Box, Start
from mechanisms.samplers.boxes.faces import Patches, box_around, inner_faces, patches

_FEW_ROWS = 2000  # with fewer the engine itself is as quick
_SAMPLE_ROWS = 20_000  # a start from so many records is close enough
_TAIL_NATS = 30.0  # what lies outside then weighs exp(-30) of the whole
_WIDENINGS = 3  # a doubling of the reach each
_ENOUGH = 0.75  # of the nats wanted: then no wider box is tried
_SHRINKING = (0.5, 0.2, 0.1, 0.05, 0.02)  # widths of kernels, of the residuals' own scale
_NARROWEST = 1e-11  # residuals in floats are right to some units of 1e-16
_ERRORS = 6.0  # standard errors of a sample's fit that a box reaches out
_MATRIX_ENTRIES = 4_000_000  # keeps the table of patches and records small
_MARGIN = 2.0**-30  # relative room for the float operations of a bound


def near_minimiser(
    law: CheckLossLaw, root: Start[Undecided], theta: Box | None = None
) -> tuple[list[Start[Undecided]], Floats | None]:
    """Return boxes that cover one known: that around the minimiser, and what lies outside of it.

    The last one's bound holds outside of the one known as well, in ``theta`` if that is given. The
    point is where its rays start from; None where the box known is left whole.
    """
    hint = search(law, root) if len(law.records.y) > _FEW_ROWS else None
    if hint is None:
        return [root], None
    parts, point = [root], None
    for widening in range(_WIDENINGS):
        box = box_around(hint.point, hint.reach * 2.0**widening + 2, root.box)
        if box is None:
            break
        parts, point = _parts(law, root, box, theta or root.box, hint.point), hint.point
        if is_enough(law, hint, parts[0].known, parts[-1].exponent):
            break
    return parts, point


def is_enough(law: CheckLossLaw, hint: Hint, known: Undecided, outside: float) -> bool:
    """Say whether a box is so wide that little is left to win by a wider one."""
    return outside - law.least_at(known, hint.point) >= hint.nats * _ENOUGH


def _parts(
    law: CheckLossLaw, root: Start[Undecided], box: Box, theta: Box, point: Floats
) -> list[Start[Undecided]]:
    """Return the box with what is known there, and what is outside with its bound."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Hint:
    """A point (in u, grid steps), reaches that should be enough, and the nats wanted outside.

    ``error`` is the part of the reaches that allows for a sample's error.
    """

    point: Floats
    reach: Floats
    nats: float
    error: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Smoothed:
    """The loss smoothed by a logistic kernel, in floats: some records, and the others' gradient."""

    z: Floats
    y: Floats
    counts: Floats
    tau: float
    settled: Floats

    @classmethod
    def of(cls, law: CheckLossLaw, each: int = 1) -> Smoothed:
        """Return a law's records, each for so many, and the rest's gradient."""
        records = law.records
        away = zip(law.rest.reached, law.rest.total, strict=True)
        settled = [float((reached - law.tau * total) / CODE_MAX) for reached, total in away]
        return cls(
            z=records.z / CODE_MAX,
            y=records.y / CODE_MAX,
            counts=np.asarray(records.counts * float(each)),
            tau=float(law.tau),
            settled=np.array(settled[:-1]) @ records.space.shear,
        )

    def descend(self, u: Floats, width: float, limit: float) -> tuple[Floats, Floats]:
        """Return u and the Hessian after a few damped Newton steps at one kernel width."""
        for _ in range(3):
            p = expit((self.z @ u - self.y) / width)
            gradient = ((p - self.tau) * self.counts) @ self.z + self.settled
            weights = p * (1 - p) * self.counts / width
            hessian = (self.z * weights[:, None]).T @ self.z
            # A narrow kernel may have no record under it along some direction.
            ridge = 1e-6 * (np.trace(hessian) + 1e-9) * np.eye(len(u))
            step = np.linalg.solve(hessian + ridge, gradient)
            u = u - step / max(1.0, float(np.abs(step).max()) / limit)
        return u, hessian

    def fit(self, u: Floats, scale: float) -> tuple[Floats, Floats]:
        """Return the minimiser and the Hessian there, from u; residuals are of about this scale."""
        sample = self.every(max(1, len(self.y) // _SAMPLE_ROWS))
        # Wide kernels are nearly quadratic: they lead to where narrow ones begin to converge.
        for share in _SHRINKING:
            u, hessian = sample.descend(u, share * scale, scale)
        # Farther records lie beyond any kernel to come: their gradient is settled once.
        near = self.near(u, 10 * _SHRINKING[-1] * scale)
        width = _SHRINKING[-1] * scale
        # Narrower kernels fit the kink better, while enough records still lie under them.
        while width > _NARROWEST and (np.abs(near.z @ u - near.y) < width).sum() > 40 * len(u):
            width /= 2
            u, hessian = near.descend(u, width, scale)
        return u, hessian

    def every(self, stride: int) -> Smoothed:
        """Return a sample, each of its records for so many."""
        part = slice(None, None, stride)
        counts = self.counts[part] * stride
        return replace(self, z=self.z[part], y=self.y[part], counts=counts)

    def near(self, u: Floats, distance: float) -> Smoothed:
        """Return the records near the fit, the others' gradient settled."""
        residual = self.z @ u - self.y
        near = np.abs(residual) < distance
        far = ((residual > 0) - self.tau)[~near] * self.counts[~near]
        return replace(
            self,
            z=self.z[near],
            y=self.y[near],
            counts=self.counts[near],
            settled=self.settled + far @ self.z[~near],
        )


def search(law: CheckLossLaw, within: Start[Undecided], each: int = 1) -> Hint | None:
    """Minimise the loss smoothed by kernels of shrinking width, in floats.

    ``each`` says for how many rows a record stands, where records are a sample.
    """
    records = law.records
    scale = 2.0**records.grid_bits
    smoothed = Smoothed.of(law, each)
    half = np.array(within.box.sides) / 2 / scale
    centre = np.array(within.box.lower) / scale + half
    if not len(smoothed.y):
        return None
    reach = np.abs(smoothed.z) @ half
    u, hessian = smoothed.fit(centre, min(1.0, float(np.quantile(reach, 0.9))))
    curvature = np.diag(hessian)
    if not np.isfinite(u).all() or not (curvature > 0).all():
        return None
    widest = 2 * records.space.radius / scale
    reach, nats = law.wanted(curvature, widest, _TAIL_NATS)
    error = np.zeros(len(u))
    if each > 1:  # a fit of m records is off by about the root of their squares over the curvature
        error = _ERRORS * each * np.sqrt(records.counts @ (smoothed.z / 2) ** 2) / curvature
    return Hint(point=u * scale, reach=(reach + error) * scale, nats=nats, error=error * scale)


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
