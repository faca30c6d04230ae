"""The check loss itself, as a law of the box engine: bounded by planes below it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechanisms.domain import CODE_MAX
from mechanisms.exact.arrays import Floats
from mechanisms.exact.balls import rational
from mechanisms.exact.floats import SPACING
from mechanisms.objectives.check_loss.law import CheckLossLaw, Undecided
from mechanisms.objectives.check_loss.narrowing import near_minimiser
from mechanisms.objectives.check_loss.records import Records
from mechanisms.samplers.boxes import Children, Space, Start

_LOW_BITS = 30  # positions are summed in two halves, which keeps both within 64 bits


class LossLaw(CheckLossLaw):
    """``E(theta) = rate * l(theta)``: the exponential mechanism's law on the check loss.

    ``rate`` is epsilon / (2 Delta); with M = max(tau, 1 - tau) a record's loss lies in
    [0, M (1 + B)] on Theta, so Delta = M (1 + B) for either adjacency.
    """

    def __init__(self, records: Records, *, tau: Fraction, rate: Fraction) -> None:
        super().__init__(records, tau, rate)
        self.gathers = records.x.shape[1] + 1

    def start(self, space: Space) -> list[Start[Undecided]]:
        """Return boxes that cover Theta, most records decided on the one at the minimiser."""
        return near_minimiser(self, space)

    def wanted(self, curvature: Floats, widest: float, tail: float) -> tuple[Floats, float]:
        """Return reaches at which a quadratic has risen by twice the nats."""
        sharpness = float(self.rate) * curvature
        nats = tail + float(np.maximum(0, np.log(widest * np.sqrt(sharpness))).sum())
        return np.sqrt(4 * nats / sharpness), nats

    def beyond(self, rise: Floats, largest: Floats) -> Floats:  # noqa: ARG002
        """Return ``rate (l(b) - l(p))``."""
        return np.asarray(rise * self.unit)

    def least_at(self, known: Undecided, point: Floats) -> float:
        """Return a lower bound of E there."""
        distance = self.records.z[known.index] @ point - self.records.target[known.index]
        reached = known.reached + self.xy[known.index[distance > 0]].sum(axis=0)
        return self._plane(reached, point, np.zeros(len(point)))

    def split(self, known: Undecided, centres: Floats, half: Floats) -> Children[Undecided]:
        """Bound the loss on boxes by its tangent planes at their centres.

        For any a_i in [-tau, 1 - tau] a record's loss is at least ``a_i (x_i'theta - y_i)``, and
        equal at the centre where a_i is the gradient's weight there.
        """
        indices, reached, ahead = self.decide(known, centres, half)
        low = [
            self._plane(sums, centre, half)
            for sums, centre in zip(reached + ahead, centres, strict=True)
        ]
        return Children(np.array(low), self.knowledge(indices, reached))

    def gather(
        self, index: NDArray[np.int32], possible: NDArray[np.bool_], distance: Floats
    ) -> Floats:
        """Return the sums of (x, y) over those reached at the centre."""
        return np.asarray((possible & (distance > 0)) @ self.xy[index])

    def _plane(self, reached: Floats, centre: Floats, half: Floats) -> float:
        """Return a certified lower bound of E on a box, by a plane below it.

        ``reached`` are the sums over the records whose weight is 1 - tau, the rest having -tau.
        """
        shear, tau = self.records.space.shear, float(self.tau)
        weighted = reached - tau * self.total
        slope = weighted[:-1] @ shear
        target = np.ldexp(weighted[-1], self.records.grid_bits)
        value = slope @ centre - target - np.abs(slope) @ half
        # every product and sum is within a few units in the last place of these sizes
        sizes = np.abs(reached) + np.abs(self.total)
        size = np.abs(sizes[:-1] @ np.abs(shear)) @ (np.abs(centre) + half)
        size += np.ldexp(sizes[-1], self.records.grid_bits)
        low = (value - 32 * SPACING * size) * self.unit
        return max(self.floor, float(low) - 8 * SPACING * abs(float(low)))

    def planes(self, reached: Floats, places: Floats) -> Floats:
        """Return certified lower bounds at places (k x d, theta) of the plane with these weights.

        ``reached`` are the sums over the records whose weight is 1 - tau, the rest having -tau.
        """
        weighted = reached - float(self.tau) * self.total
        value = places @ weighted[:-1] - np.ldexp(weighted[-1], self.records.grid_bits)
        sizes = np.abs(reached) + np.abs(self.total)
        size = np.abs(places) @ sizes[:-1] + np.ldexp(sizes[-1], self.records.grid_bits)
        low = (value - 32 * SPACING * size) * self.unit
        return np.asarray(low - 8 * SPACING * np.abs(low))

    @property
    def unit(self) -> float:
        """What a code times a grid step of the loss adds to E."""
        return float(self.rate) / CODE_MAX * 2.0**-self.records.grid_bits

    def exponent(self, known: Undecided, point: Sequence[int], bits: int) -> arb:  # noqa: ARG002
        """Return rate * l(theta), from integers."""
        exact = self.rate * self.loss(known, point)
        return rational(exact)

    def loss(self, known: Undecided, point: Sequence[int]) -> Fraction:
        """Return l(theta), exactly: positions of the reached records less tau times all of them."""
        position = self.records.position(known.index, point)
        counts = self.records.counts[known.index]
        ahead = position > 0
        high, low = position >> _LOW_BITS, position & ((1 << _LOW_BITS) - 1)
        open_reached = (int(counts[ahead] @ high[ahead]) << _LOW_BITS) + int(
            counts[ahead] @ low[ahead]
        )
        reached = self._position_of(known.reached, point) + open_reached
        total = self._position_of(self.total, point)
        return (reached - self.tau * total) / (CODE_MAX << self.records.grid_bits)

    def _position_of(self, sums: Floats, point: Sequence[int]) -> int:
        x = sum(int(total) * theta for total, theta in zip(sums[:-1], point, strict=True))
        return x - (int(sums[-1]) << self.records.grid_bits)
