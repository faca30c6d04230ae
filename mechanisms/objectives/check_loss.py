"""The check loss over private records, as laws of the box engine.

    l(theta) = sum_i rho_tau(y_i - x_i'theta),   rho_tau(r) = r (tau - 1{r <= 0})

*Conventions.* Records are integers: codes x_ij and y_i in [-F, F] stand for x_ij / F and
y_i / F. theta is an integer vector in steps of 2**-g. A record is *reached* at theta when
``y_i 2**g <= x_i'theta``; its gradient is ``a x_i / F`` with a = 1 - tau when reached and
-tau when not. Equal records are kept once, with their count.

*Knowledge of a box*: the indices of the records not certainly reached and not certainly
missed everywhere on it, and exact integer sums over the reached ones. A record is decided
in floats with a certified margin; sums of codes in float64 are exact (below 2**53).
With few open records every subset of them is tried as the reached ones, otherwise each
coordinate of the gradient is bounded by itself.

*Spread targets.* Rounded data put many hyperplanes y_i = x_i'theta through the same points,
where no box can be decided before it is a single point. So, where asked for, a record's target
is lowered by less than half a code, 2**-21, by an amount that is a fixed public function of the
record's own codes (a hash). That is one more rounding of each record by itself, made before
anything is computed: it costs no epsilon and moves a fit by less than a code's own rounding.

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

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from mechanisms.domain import CODE_MAX
from mechanisms.objectives.gradient_norms import GradientNorm
from mechanisms.objectives.narrowing import near_minimiser
from mechanisms.objectives.rows import distinct_rows
from mechanisms.samplers.boxes import Children, Space, Start

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_CHUNK_ROWS = 1 << 16
_UNIT = 2.0**-52
_SUM_ERROR = 2.0**-28  # of sums over fewer than 2**22 records, relative to their sizes
_LOW_BITS = 30
_SPREAD_BITS = 20
_FEW_RECORDS = 6
_LEANING = 0.125
_SUBSETS = [
    np.array(list(product((0.0, 1.0), repeat=size))).reshape(2**size, size)
    for size in range(_FEW_RECORDS + 1)
]


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Distinct integer records on a grid of theta: codes (n x d), targets (n), counts (n).

    ``grid_bits`` is g; ``space`` gives the boxes' coordinates; ``z`` = x V are the codes
    there. ``threshold`` is y 2**g, less the record's spread; ``target`` the same, exact floats.
    """

    x: Integers
    y: Integers
    counts: Integers
    grid_bits: int
    space: Space
    z: Floats
    threshold: Integers
    target: Floats

    @classmethod
    def build(
        cls, x: Integers, y: Integers, *, grid_bits: int, radius: int, spread: bool = False
    ) -> Records:
        """Prepare records; the coordinates follow their correlations (a matter of cost)."""
        rows, counts = distinct_rows(np.column_stack([x, y]))
        x, y = np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, -1])
        threshold = y << grid_bits
        if spread:
            threshold -= _spread(rows, grid_bits)
        floats = x.astype(np.float64)
        space = Space.uncorrelated((floats * counts[:, None]).T @ floats, radius)
        return cls(
            x=x,
            y=y,
            counts=counts,
            grid_bits=grid_bits,
            space=space,
            z=floats @ space.shear,
            threshold=threshold,
            target=threshold.astype(np.float64),
        )

    def position(self, index: NDArray[np.int32], point: Sequence[int]) -> Integers:
        """Return ``x_i'theta`` less the threshold, exactly (int64: both stay below 2**60)."""
        theta = np.array(point, dtype=np.int64)
        return np.asarray(self.x[index] @ theta - self.threshold[index])


def _spread(rows: Integers, grid_bits: int) -> Integers:
    """Return a hash of each row in [0, 2**(g - 1)), a multiple of 2**(g - 1 - 20) if that is whole.

    So thresholds have at most 42 significant bits, exact in floats.
    """
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    wide = max(grid_bits - 1, 0)
    bits = min(_SPREAD_BITS, wide)
    return (mixed >> np.uint64(44)).astype(np.int64) >> (_SPREAD_BITS - bits) << (wide - bits)


@dataclass(frozen=True, slots=True, eq=False)
class Undecided:
    """What is known on a box: open records, and the sums of (x, y) over the reached ones."""

    index: NDArray[np.int32]
    reached: Floats
    width: Floats


class CheckLossLaw(ABC):
    """What the two laws share: which records are decided where, and a start near the minimiser."""

    floor = 0.0
    gathers: int

    def __init__(self, records: Records, tau: Fraction, rate: Fraction) -> None:
        self.records = records
        self.tau = tau
        self.rate = rate
        rows = np.column_stack([records.x, records.y]) * records.counts[:, None]
        self.xy = rows.astype(np.float64)  # sums over records stay integers below 2**53: exact
        self.total = self.xy.sum(axis=0)

    def start(self, space: Space) -> list[Start[Undecided]]:
        """Return boxes that cover Theta, most records decided on the one at the minimiser."""
        return near_minimiser(self, space)

    @abstractmethod
    def split(self, known: Undecided, centres: Floats, half: Floats) -> Children[Undecided]:
        """Bound E on boxes, as :class:`~mechanisms.samplers.boxes.law.BoxLaw` says."""

    @abstractmethod
    def gather(
        self, index: NDArray[np.int32], possible: NDArray[np.bool_], distance: Floats
    ) -> Floats:
        """Return sums over some open records (k x ``gathers``).

        ``possible`` (k x n) says on which boxes each is open, ``distance`` how far beyond its
        target it is at the centre.
        """

    @abstractmethod
    def wanted(self, curvature: Floats, widest: float, tail: float) -> tuple[Floats, float]:
        """Return reaches and nats that should leave little outside a box at the minimiser.

        Hints in scaled units: ``curvature`` is the Hessian's diagonal in u, ``widest`` Theta's
        width, ``tail`` the nats wanted beyond what the volume outside asks for.
        """

    @abstractmethod
    def beyond(self, rise: Floats, largest: Floats) -> Floats:
        """Return E's lower bounds, less ``least_at``, where rays have passed a point.

        There l has risen by ``rise`` (code times grid steps) and theta moved by ``largest``.
        """

    @abstractmethod
    def least_at(self, known: Undecided, point: Floats) -> float:
        """Return a lower bound of E at the point u that rays start from, if it bounds E on them."""

    def root(self) -> Undecided:
        """Return nothing decided."""
        rows, d = self.records.x.shape
        index = np.arange(rows, dtype=np.int32)
        return Undecided(index, np.zeros(d + 1), np.abs(self.records.z).sum(axis=0))

    def widths(self, known: Undecided) -> Floats | None:
        """Return how far a unit of each coordinate moves the open records."""
        return known.width if len(known.index) else None

    def decide(
        self, known: Undecided, centres: Floats, half: Floats
    ) -> tuple[list[NDArray[np.int32]], Floats, Floats]:
        """Decide the open records on each box.

        Returns the open indices of each box, the sums of (x, y) over its reached records
        (k x d+1), and what :meth:`gather` says of its open ones.
        """
        boxes, d = centres.shape
        reached = np.tile(known.reached, (boxes, 1))
        gathered = np.zeros((boxes, self.gathers))
        pieces: list[list[NDArray[np.int32]]] = [[] for _ in range(boxes)]
        reach_of_centre = np.abs(centres).max(axis=0) + half
        for start in range(0, len(known.index), _CHUNK_ROWS):
            index = known.index[start : start + _CHUNK_ROWS]
            z, xy = self.records.z[index], self.xy[index]
            size = np.abs(z)
            target = self.records.target[index]
            # d products and d + 1 sums err by at most (d + 2) u of the sum of sizes
            margin = (d + 3) * _UNIT * (size @ reach_of_centre + np.abs(target))
            threshold = size @ half + margin
            distance = centres @ z.T - target
            certain = distance > threshold
            possible = distance >= -threshold
            reached += certain @ xy
            possible &= ~certain
            gathered += self.gather(index, possible, distance)
            for box in range(boxes):
                pieces[box].append(index[possible[box]])
        empty = known.index[:0]
        return [np.concatenate(p) if p else empty for p in pieces], reached, gathered

    def knowledge(self, indices: Sequence[NDArray[np.int32]], reached: Floats) -> list[Undecided]:
        """Return what is known on each box."""
        return [
            Undecided(index, sums, np.abs(self.records.z[index]).sum(axis=0))
            for index, sums in zip(indices, reached, strict=True)
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
    """

    def __init__(
        self, records: Records, *, tau: Fraction, rate: Fraction, norm: GradientNorm
    ) -> None:
        super().__init__(records, tau, rate)
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

    def wanted(self, curvature: Floats, widest: float, tail: float) -> tuple[Floats, float]:
        """Return reaches with an equal rise of the loss, twice what the nats ask of the worst."""
        dual = self.norm.dual(np.abs(self.records.space.shear.T)) / float(self.rate)
        nats = tail + float(np.maximum(0, np.log(widest * curvature / dual)).sum())
        root = np.sqrt(curvature)
        return 4 * nats * (dual / root).max() / root, nats

    def beyond(self, rise: Floats, largest: Floats) -> Floats:
        """Return ``rate (l(b) - l(p)) / h(b - p)``."""
        return np.asarray(rise / self.norm.dual(largest) * (float(self.rate) / CODE_MAX))

    def least_at(self, known: Undecided, point: Floats) -> float:  # noqa: ARG002
        """Return 0: the norm at the minimiser is no bound elsewhere."""
        return 0.0

    def split(self, known: Undecided, centres: Floats, half: Floats) -> Children[Undecided]:
        """Bound the norm on boxes from bounds of the gradient g along some directions.

        For any w with dual norm h(w), ``||g|| >= |w'g| / h(w)``. Besides theta's coordinates w is
        each of u's, in which open records far from the others weigh little.
        """
        indices, reached, gathered = self.decide(known, centres, half)
        above, below = np.hsplit(gathered, 2)
        d = centres.shape[1]
        settled = reached[:, :d] - float(self.tau) * self.total[:d]
        # the float of tau, products and sums: within some u of the sizes added
        sizes = (np.abs(self.total[:d]) + np.abs(reached[:, :d])) @ np.abs(self.directions)
        rounding = (d + 4) * _UNIT * sizes + _SUM_ERROR * (above - below)
        along = settled @ self.directions
        least = np.maximum(0, np.maximum(along + below, -along - above) - rounding)
        norms = np.maximum(self.norm.floats(least[:, :d]), (least / self.lengths).max(axis=1))
        for box, index in enumerate(indices):
            if d > 1 and 0 < len(index) <= _FEW_RECORDS:
                sums = settled[box] + _SUBSETS[len(index)] @ self.xy[index, :d]
                exact = self.norm.floats(np.maximum(0, np.abs(sums) - rounding[box, :d])).min()
                norms[box] = max(norms[box], exact)
        low = norms / CODE_MAX * float(self.rate) * (1 - 16 * _UNIT)
        return Children(low, self.knowledge(indices, reached))

    def exponent(self, known: Undecided, point: Sequence[int], bits: int) -> arb:  # noqa: ARG002
        """Return rate * N(theta), from integers."""
        exact = self.rate * self.gradient_norm(known, point)
        return arb(fmpq(exact.numerator, exact.denominator))

    def gradient_norm(self, known: Undecided, point: Sequence[int]) -> Fraction:
        """Return N(theta), exactly."""
        position = self.records.position(known.index, point)
        d = len(point)
        tied = self._sum(known.index[position == 0])
        reached = known.reached[:d] + self._sum(known.index[position > 0])
        start = [
            (int(sums) - self.tau * int(total)) / CODE_MAX
            for sums, total in zip(reached, self.total[:d], strict=True)
        ]
        whole = [s + Fraction(int(t), CODE_MAX) for s, t in zip(start, tied, strict=True)]
        if d == 1:
            smallest = max(min(start[0], whole[0]), -max(start[0], whole[0]), Fraction(0))
            return self.norm.of([smallest])
        return self.norm.of(whole)

    def _sum(self, index: NDArray[np.int32]) -> Floats:
        return np.asarray(self.xy[index, :-1].sum(axis=0))


class LossLaw(CheckLossLaw):
    """``E(theta) = rate * l(theta)``: the exponential mechanism's law on the check loss.

    ``rate`` is epsilon / (2 Delta); with M = max(tau, 1 - tau) a record's loss lies in
    [0, M (1 + B)] on Theta, so Delta = M (1 + B) for either adjacency.
    """

    def __init__(self, records: Records, *, tau: Fraction, rate: Fraction) -> None:
        super().__init__(records, tau, rate)
        self.gathers = records.x.shape[1] + 1

    def wanted(self, curvature: Floats, widest: float, tail: float) -> tuple[Floats, float]:
        """Return reaches at which a quadratic has risen by twice the nats."""
        sharpness = float(self.rate) * curvature
        nats = tail + float(np.maximum(0, np.log(widest * np.sqrt(sharpness))).sum())
        return np.sqrt(4 * nats / sharpness), nats

    def beyond(self, rise: Floats, largest: Floats) -> Floats:  # noqa: ARG002
        """Return ``rate (l(b) - l(p))``."""
        return np.asarray(rise * self._unit())

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
        low = (value - 32 * _UNIT * size) * self._unit()
        return max(self.floor, float(low) - 8 * _UNIT * abs(float(low)))

    def _unit(self) -> float:
        return float(self.rate) / CODE_MAX * 2.0**-self.records.grid_bits

    def exponent(self, known: Undecided, point: Sequence[int], bits: int) -> arb:  # noqa: ARG002
        """Return rate * l(theta), from integers."""
        exact = self.rate * self.loss(known, point)
        return arb(fmpq(exact.numerator, exact.denominator))

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
