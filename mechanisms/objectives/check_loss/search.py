"""The approximate minimiser of a check loss, in floats: hints for the engines, never facts.

Newton steps minimise the loss, smoothed by kernels of shrinking width. They end where few records
are under a kernel, a few records from the minimum. At a large epsilon that distance matters, so
the records near the fit make a linear program, whose solution is a minimiser. It is the minimiser
for all records if no other record changes its side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linprog
from scipy.special import expit

from mechanisms.domain import CODE_MAX
from mechanisms.exact.floats import Floats
from mechanisms.objectives.check_loss.law import CheckLossLaw, Undecided
from mechanisms.samplers.boxes import Start

ENOUGH = 0.75
"""Of the nats wanted: then no wider box is tried."""

_SAMPLE_ROWS = 20_000  # a start from this many records is close enough
_TAIL_NATS = 30.0  # what lies outside then weighs exp(-30) of the whole
_SHRINKING = (0.5, 0.2, 0.1, 0.05, 0.02)  # widths of kernels, of the residuals' own scale
_NARROWEST = 1e-11  # residuals in floats are right to some units of 1e-16
_UNDER_KERNEL = 40  # records for each coefficient at least
_ERRORS = 6.0  # standard errors of a sample's fit that a box reaches out
_NEAREST = 400  # records in the first linear program; four times as many in the next
_PROGRAMS = 4
_WIDENINGS = 12  # boxes tried, each twice as wide as the last
_CONE = 2.0  # times: along a cone E rises by less over
_FAR = 6  # doublings and more


@dataclass(frozen=True, slots=True, eq=False)
class Hint:
    """A point (in u, grid steps), reaches that should be enough, and the nats wanted outside.

    ``error`` is the part of the reaches that allows for a sample's error. ``cone`` says that E is
    about the same however far one goes: most records meet at the point.
    """

    point: Floats
    reach: Floats
    nats: float
    error: Floats
    cone: bool = False


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
        """Return a law's records, each with weight ``each``, and the rest's gradient."""
        records = law.records
        away = zip(law.rest.reached, law.rest.total, strict=True)
        settled = [float((reached - law.tau * total) / CODE_MAX) for reached, total in away]
        return cls(
            z=records.z / CODE_MAX,
            y=records.target / (CODE_MAX * 2.0**records.grid_bits),
            counts=np.asarray(records.counts * float(each)),
            tau=float(law.tau),
            settled=np.array(settled[:-1]) @ records.space.shear,
        )

    def descend(self, u: Floats, width: float, limit: float) -> Floats:
        """Return u after a few damped Newton steps at one kernel width."""
        for _ in range(3):
            p = expit((self.z @ u - self.y) / width)
            gradient = ((p - self.tau) * self.counts) @ self.z + self.settled
            weights = p * (1 - p) * self.counts / width
            hessian = (self.z * weights[:, None]).T @ self.z
            # A narrow kernel may have no record under it along some direction.
            ridge = 1e-6 * (np.trace(hessian) + 1e-9) * np.eye(len(u))
            step = np.linalg.solve(hessian + ridge, gradient)
            u = u - step / max(1.0, float(np.abs(step).max()) / limit)
        return u

    def squares(self) -> Floats:
        """Return the least squares fit, which is near where targets nearly follow from x."""
        weighted = self.z * self.counts[:, None]
        gram = weighted.T @ self.z
        return np.linalg.solve(gram + 1e-12 * np.trace(gram) * np.eye(len(gram)), self.y @ weighted)

    def gradient(self, u: Floats) -> Floats:
        """Return the loss's gradient, in u."""
        return ((self.z @ u > self.y) - self.tau) * self.counts @ self.z + self.settled

    def curvature(self, u: Floats) -> Floats:
        """Return the Hessian's diagonal under a kernel that the nearest records lie in."""
        residual = self.z @ u - self.y
        some = min(_UNDER_KERNEL * len(u), len(residual) - 1)
        width = max(float(np.partition(np.abs(residual), some)[some]), _NARROWEST)
        p = expit(residual / width)
        return np.asarray((p * (1 - p) * self.counts / width) @ self.z**2)

    def fit(self, u: Floats, scale: float) -> Floats:
        """Return the minimiser from u; residuals are of about this scale."""
        sample = self.every(max(1, len(self.y) // _SAMPLE_ROWS))
        # Wide kernels are nearly quadratic: they lead to where narrow ones begin to converge.
        for share in _SHRINKING:
            u = sample.descend(u, share * scale, scale)
        # Farther records lie beyond any kernel to come: their gradient is settled once.
        near = self.near(u, 10 * _SHRINKING[-1] * scale)
        width = _SHRINKING[-1] * scale
        # Narrower kernels fit the kink better, while enough records still lie under them.
        while width > _NARROWEST and (
            np.abs(near.z @ u - near.y) < width
        ).sum() > _UNDER_KERNEL * len(u):
            width /= 2
            u = near.descend(u, width, scale)
        return u

    def rises(self, law: CheckLossLaw, u: Floats, reach: Floats) -> Floats:
        """Return about how far E rises to the faces of boxes, each twice as wide as the last."""
        some = self.every(max(1, len(self.y) // _SAMPLE_ROWS))
        unit = CODE_MAX * 2.0**law.records.grid_bits
        found = []
        for side in reach * 2.0 ** np.arange(_WIDENINGS)[:, None]:
            away = np.vstack([np.diag(side), np.diag(-side)])
            residual = (u + away) @ some.z.T - some.y
            losses = (((residual > 0) - some.tau) * some.counts * residual).sum(axis=1)
            risen = (losses + away @ some.settled - (some.loss(u) - some.settled @ u)) * unit
            moved = np.abs(away @ law.records.space.shear.T) * 2.0**law.records.grid_bits
            found.append(law.beyond(risen, moved).min())
        return np.array(found)

    def loss(self, u: Floats) -> float:
        """Return the loss, less a constant."""
        residual = self.z @ u - self.y
        return float(((residual > 0) - self.tau) * self.counts @ residual + self.settled @ u)

    def polished(self, u: Floats) -> Floats:
        """Return the minimiser near u, where the records near it determine it."""
        for program in range(_PROGRAMS):
            size = _NEAREST * 4**program
            away = np.abs(self.z @ u - self.y)
            whole = size >= len(away)
            distance = float(np.inf if whole else np.partition(away, size)[size])
            near = self.near(u, distance)
            moved = near.solved(u)
            if moved is None or self.loss(moved) > self.loss(u):
                continue
            far = away >= distance
            same = ((self.z[far] @ moved > self.y[far]) == (self.z[far] @ u > self.y[far])).all()
            u = moved
            if same:
                break
        return u

    def solved(self, u: Floats) -> Floats | None:
        """Return the minimiser by a linear program, or None where these records have none.

        With a_i how much of a record is reached, it is the multiplier of ``Z'a = tau Z'w - s`` in
        least y'a, 0 <= a <= w. Targets are measured from u and to their own scale: the program is
        solved to a fixed precision.
        """
        target = self.y - self.z @ u
        scale = float(np.abs(target).max(initial=0))
        if not scale:
            return u
        found = linprog(
            target / scale,
            A_eq=self.z.T,
            b_eq=self.tau * (self.counts @ self.z) - self.settled,
            bounds=np.column_stack([np.zeros(len(target)), self.counts]),
            method="highs-ds",
        )
        return u + found.eqlin.marginals * scale if found.success else None

    def every(self, stride: int) -> Smoothed:
        """Return every ``stride``-th record, with ``stride`` times its count."""
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
    """Return about where the loss is least, if the search finds it.

    ``each`` is the number of rows that a record represents, where records are a sample.
    """
    try:
        return _search(law, within, each)
    except (ArithmeticError, ValueError):
        # Without a hint a draw takes longer. Failing the draw would reveal facts about the rows.
        return None


def _search(law: CheckLossLaw, within: Start[Undecided], each: int) -> Hint | None:
    """Minimise the loss smoothed by kernels of shrinking width, in floats."""
    records = law.records
    scale = 2.0**records.grid_bits
    smoothed = Smoothed.of(law, each)
    half = np.array(within.box.sides) / 2 / scale
    centre = np.array(within.box.lower) / scale + half
    reach = np.abs(smoothed.z) @ half
    if not reach.any():  # no record says anything of a coefficient
        return None
    # Where nearly all records are 0, the others alone have a scale.
    usual = float(np.quantile(reach, 0.9)) or float(reach.max())
    fits = [smoothed.fit(centre, min(1.0, usual)), smoothed.squares()]
    u = min((fit for fit in fits if np.isfinite(fit).all()), key=smoothed.loss, default=centre)
    if each == 1:
        u = smoothed.polished(u)
    curvature = smoothed.curvature(u)
    if not (curvature > 0).all():
        return None
    widest = 2 * records.space.radius / scale
    reach, nats = law.wanted(curvature, widest, _TAIL_NATS + law.nats_at(smoothed.gradient(u)))
    rises = smoothed.rises(law, u, reach)[: 1 + _doublings(reach, half)]
    enough = np.flatnonzero(rises >= nats * ENOUGH)
    cone = len(rises) > _FAR and rises[-1] < _CONE * rises[0]
    if len(enough):
        reach = reach * 2.0 ** int(enough[0])
    error = np.zeros(len(u))
    if each > 1:  # a fit of m records is off by about the root of their squares over the curvature
        error = _ERRORS * each * np.sqrt(records.counts @ (smoothed.z / 2) ** 2) / curvature
    return Hint(
        point=u * scale,
        reach=(reach + error) * scale,
        nats=nats,
        error=error * scale,
        cone=bool(cone),
    )


def _doublings(reach: Floats, half: Floats) -> int:
    """Return how often reaches can be doubled within what is known."""
    return max(0, int(np.log2((half / reach).min())))
