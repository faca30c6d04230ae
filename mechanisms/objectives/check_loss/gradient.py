"""The norm of the check loss's gradient, as a law of the box engine.

With few open records every subset of them is tried as the reached ones, otherwise each
coordinate of the gradient is bounded by itself.

*At kinks* (ties, y_i 2**g = x_i'theta) any a in [-tau, 1 - tau] is a subgradient. For
d >= 2 the choice above holds there too. It is a function of the record and theta alone
with values in [-tau, 1 - tau], so it has the sensitivity of the gradient. In one dimension
the tied records share one weight, and the best one counts:

    N(theta; D) = min over lambda in [0, 1] of |sum_i a_i(theta, lambda) x_i|,

a_i = lambda - tau for tied records. For each fixed lambda that is again a function of the
record and theta, so the sum moves by at most Delta between neighbours, and the least of
functions that move by at most Delta moves by at most Delta. For x = 1 this N is the
distance of tau n from [#{y < theta}, #{y <= theta}]: the private quantile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from mechanisms.domain import CODE_MAX
from mechanisms.exact.floats import SPACING, Floats
from mechanisms.exact.fractions import once
from mechanisms.objectives.check_loss.law import CheckLossLaw, Rest, Undecided
from mechanisms.objectives.check_loss.narrowing import first_boxes
from mechanisms.objectives.check_loss.records import Records
from mechanisms.objectives.design import GradientNorm
from mechanisms.samplers.boxes import Start

# The check loss itself, as a law of the box engine: bounded by planes below it


class LossLaw(CheckLossLaw):
    """``E(theta) = rate * l(theta)``: the exponential mechanism's law on the check loss.

    ``rate`` is epsilon / (2 Delta); with M = max(tau, 1 - tau) a record's loss lies in
    [0, M (1 + B)] on Theta, so Delta = M (1 + B) for either adjacency.
    """

    def __init__(
        self, records: Records, *, tau: Fraction, rate: Fraction, rest: Rest | None = None
    ) -> None:
        super().__init__(records, tau, rate, rest)
        self.gathers = records.x.shape[1] + 1

    @once
    def begun(self) -> tuple[list[Start[Undecided]], bool]:
        """Boxes that cover Theta to begin with, and whether polytopes should be quicker."""
        return first_boxes(self)

    def nats_at(self, gradient: Floats) -> float:  # noqa: ARG002
        """Return 0: what a loss is at its least leaves the law as it is."""
        return 0.0

    def wanted(self, curvature: Floats, widest: float, tail: float) -> tuple[Floats, float]:
        """Return reaches at which a quadratic has risen by twice the nats."""
        sharpness = float(self.rate) * curvature
        nats = tail + float(np.maximum(0, np.log(widest * np.sqrt(sharpness))).sum())
        return np.sqrt(4 * nats / sharpness), nats

    def beyond(self, rise: Floats, largest: Floats) -> Floats:  # noqa: ARG002
        """Return ``rate (l(b) - l(p))`` where l has risen; where it falls, it may fall farther."""
        return np.where(rise >= 0, rise * self.unit, -np.inf)

    def farther(self, rise: float, times: float) -> float:
        """Return the least rise of a convex function, if it has risen at all."""
        return rise * times if rise >= 0 else -math.inf

    def least_at(self, known: Undecided, point: Floats) -> float:
        """Return a lower bound of E there."""
        index = known.index
        distance = self.records.z[index] @ point - self.records.target[index]
        reached = known.reached + self.xy[index[distance > 0]].sum(axis=0)
        return self._plane(reached, point, np.zeros(len(point)))

    def bounds(
        self,
        indices: Sequence[NDArray[np.int32]],  # noqa: ARG002
        reached: Floats,
        gathered: Floats,
        centres: Floats,
        half: Floats,
    ) -> Floats:
        """Bound the loss on boxes by its tangent planes at their centres.

        For any a_i in [-tau, 1 - tau] a record's loss is at least ``a_i (x_i'theta - y_i)``, and
        equal at the centre where a_i is the gradient's weight there.
        """
        low = [
            self._plane(sums, centre, half)
            for sums, centre in zip(reached + gathered, centres, strict=True)
        ]
        return np.array(low)

    def gather(
        self, index: NDArray[np.int32], possible: NDArray[np.bool_], distance: Floats
    ) -> Floats:
        """Return the sums of (x, y) over those reached at the centre."""
        return np.asarray((possible & (distance > 0)) @ self.xy[index])

    def _plane(self, reached: Floats, centre: Floats, half: Floats) -> float:
        """Return a certified lower bound of E on a box, by a plane below it.

        ``reached`` are the sums over the records whose weight is 1 - tau, the rest having -tau.
        """
        shear = self.records.space.shear
        weighted = reached - self.pull
        slope = weighted[:-1] @ shear
        target = np.ldexp(weighted[-1], self.records.grid_bits)
        value = slope @ centre - target - np.abs(slope) @ half
        # every product and sum is within a few units in the last place of these sizes
        sizes = np.abs(reached) + np.abs(self.pull)
        size = np.abs(sizes[:-1] @ np.abs(shear)) @ (np.abs(centre) + half)
        size += np.ldexp(sizes[-1], self.records.grid_bits)
        low = (value - 32 * SPACING * size) * self.unit
        return max(self.floor, float(low) - 8 * SPACING * abs(float(low)))

    def planes(self, reached: Floats, places: Floats) -> Floats:
        """Return certified lower bounds at places (k x d, theta) of the plane with these weights.

        ``reached`` are the sums over the records whose weight is 1 - tau, the rest having -tau.
        """
        weighted = reached - self.pull
        value = places @ weighted[:-1] - np.ldexp(weighted[-1], self.records.grid_bits)
        sizes = np.abs(reached) + np.abs(self.pull)
        size = np.abs(places) @ sizes[:-1] + np.ldexp(sizes[-1], self.records.grid_bits)
        low = (value - 32 * SPACING * size) * self.unit
        return np.asarray(low - 8 * SPACING * np.abs(low))

    @property
    def unit(self) -> float:
        """What a code times a grid step of the loss adds to E."""
        return float(self.rate) / CODE_MAX * 2.0**-self.records.grid_bits

    def of_sums(
        self,
        point: Sequence[int],
        reached: Sequence[int],
        tied: Sequence[int],  # noqa: ARG002
    ) -> Fraction:
        """Return l(theta), exactly: positions of the reached records less tau times all of them."""
        *x, y = (each - pull for each, pull in zip(reached, self.exact_pull, strict=True))
        scale = 1 << self.records.grid_bits
        position = sum((a * theta for a, theta in zip(x, point, strict=True)), -y * scale)
        return position / (CODE_MAX * scale)


# The norm of the check loss's gradient, as a law of the box engine

_SUM_ERROR = 2.0**-28  # of sums over fewer than 2**22 records, relative to their sizes
_FEW_RECORDS = 6  # all 2**6 subsets of them are tried at once
_LEANING = 0.125  # directions sheared by less give no better bound than theta's own
_SUBSETS = [
    np.array(list(product((0.0, 1.0), repeat=size))).reshape(2**size, size)
    for size in range(_FEW_RECORDS + 1)
]


class GradientLaw(CheckLossLaw):
    """``E(theta) = rate * N(theta)``: the K-norm gradient law of quantile regression.

    Parameters
    ----------
    records
        The private records.
    tau
        The quantile's level.
    rate
        ``epsilon / (2 Delta)``.
    norm
        The norm of the gradient, in scaled units.
    rest
        Sums over the rows that are no records.
    """

    def __init__(
        self,
        records: Records,
        *,
        tau: Fraction,
        rate: Fraction,
        norm: GradientNorm,
        rest: Rest | None = None,
    ) -> None:
        super().__init__(records, tau, rate, rest)
        self.norm = norm
        d, shear = records.x.shape[1], records.space.shear
        leaning = np.abs(shear - np.eye(d)).max(axis=0) > _LEANING
        self.directions = np.hstack([np.eye(d), shear[:, leaning]])
        self.probes = self.xy[:, :d] @ self.directions
        self.lengths = norm.dual(np.abs(self.directions.T))
        self.gathers = 2 * self.probes.shape[1]

    def gather(
        self,
        index: NDArray[np.int32],
        possible: NDArray[np.bool_],
        distance: Floats,  # noqa: ARG002
    ) -> Floats:
        """Return the sums of the positive probes, then of the negative ones."""
        probes = self.probes[index]
        positive = np.maximum(probes, 0)
        return np.asarray(possible @ np.hstack([positive, probes - positive]))

    @once
    def begun(self) -> tuple[list[Start[Undecided]], bool]:
        """Boxes that cover Theta to begin with, and whether polytopes should be quicker."""
        return first_boxes(self)

    def nats_at(self, gradient: Floats) -> float:
        """Return about what E is where the gradient is this, in u: E is not 0 at the minimiser."""
        theta = np.linalg.solve(self.records.space.shear.T, gradient)
        return float(self.norm.floats(np.abs(theta)[None, :])[0]) * float(self.rate)

    def wanted(self, curvature: Floats, widest: float, tail: float) -> tuple[Floats, float]:
        """Return reaches with an equal rise of the loss, twice what the nats ask of the worst."""
        dual = self.norm.dual(np.abs(self.records.space.shear.T)) / float(self.rate)
        nats = tail + float(np.maximum(0, np.log(widest * curvature / dual)).sum())
        root = np.sqrt(curvature)
        return 4 * nats * (dual / root).max() / root, nats

    def beyond(self, rise: Floats, largest: Floats) -> Floats:
        """Return ``rate (l(b) - l(p)) / h(b - p)``."""
        return np.asarray(rise / self.norm.dual(largest) * (float(self.rate) / CODE_MAX))

    def farther(self, rise: float, times: float) -> float:  # noqa: ARG002
        """Return the same: the bound of the norm does not grow along a ray."""
        return rise

    def least_at(self, known: Undecided, point: Floats) -> float:  # noqa: ARG002
        """Return 0: the norm at the minimiser is no bound elsewhere."""
        return 0.0

    def bounds(
        self,
        indices: Sequence[NDArray[np.int32]],
        reached: Floats,
        gathered: Floats,
        centres: Floats,  # noqa: ARG002
        half: Floats,  # noqa: ARG002
    ) -> Floats:
        """Bound the norm on boxes from bounds of the gradient g along some directions.

        For any w with dual norm h(w), ``||g|| >= |w'g| / h(w)``. Besides theta's coordinates w is
        each of u's, in which open records far from the others weigh little.
        """
        return self.least(indices, reached, gathered)

    def least(
        self, indices: Sequence[NDArray[np.int32]], reached: Floats, gathered: Floats
    ) -> Floats:
        """Return lower bounds of E where :meth:`decide` has found open and reached records."""
        above, below = np.hsplit(gathered, 2)
        d = len(self.directions)
        settled = reached[:, :d] - self.pull[:d]
        # the float of the pull, products and sums: within some u of the sizes added
        sizes = (np.abs(self.pull[:d]) + np.abs(reached[:, :d])) @ np.abs(self.directions)
        rounding = (d + 4) * SPACING * sizes + _SUM_ERROR * (above - below)
        along = settled @ self.directions
        # Open records may count or not: the interval of g along w, and its distance from 0.
        least = np.maximum(0, np.maximum(along + below, -along - above) - rounding)
        norms = np.maximum(self.norm.floats(least[:, :d]), (least / self.lengths).max(axis=1))
        for box, index in enumerate(indices):
            # Few open records leave few gradients: the least norm of them all is a sharper bound.
            if d > 1 and 0 < len(index) <= _FEW_RECORDS:
                sums = settled[box] + _SUBSETS[len(index)] @ self.xy[index, :d]
                exact = self.norm.floats(np.maximum(0, np.abs(sums) - rounding[box, :d])).min()
                norms[box] = max(norms[box], exact)
        return np.asarray(norms / CODE_MAX * float(self.rate) * (1 - 16 * SPACING))

    def of_sums(
        self, point: Sequence[int], reached: Sequence[int], tied: Sequence[int]
    ) -> Fraction:
        """Return N(theta), exactly."""
        d = len(point)
        start = [
            (each - pull) / CODE_MAX
            for each, pull in zip(reached[:d], self.exact_pull[:d], strict=True)
        ]
        whole = [s + Fraction(t, CODE_MAX) for s, t in zip(start, tied[:d], strict=True)]
        if d == 1:
            # The distance of 0 from the interval between the two.
            smallest = max(min(start[0], whole[0]), -max(start[0], whole[0]), Fraction(0))
            return self.norm.of([smallest])
        return self.norm.of(whole)
