"""The check loss itself, as a law of the box engine: bounded by planes below it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.domain import CODE_MAX
from mechanisms.exact.arrays import Floats
from mechanisms.exact.floats import SPACING
from mechanisms.exact.once import once
from mechanisms.objectives.check_loss.law import CheckLossLaw, Rest, Undecided
from mechanisms.objectives.check_loss.narrowing import first_boxes
from mechanisms.objectives.check_loss.records import Records
from mechanisms.samplers.boxes import Start


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
