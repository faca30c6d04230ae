"""The common base of the check loss's laws: which records are decided on a box.

*Knowledge of a box*: the indices of the records not certainly reached and not certainly
missed everywhere on it, and exact integer sums over the reached ones. A record is decided
in floats with a certified margin; sums of codes in float64 are exact (below 2**53).

*Rows that are no records.* A law may be asked about one box only, and hold the records that are
open there. Of the other rows it has exact sums, as integers of any size. All of them enter by

    pull = tau sum of all (x_i, y_i) - sum of the (x_i, y_i) of rows that are reached and not held,

so that the gradient is the reached records' sum less the pull.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechanisms.exact.balls import rational
from mechanisms.exact.floats import SPACING, Floats
from mechanisms.objectives.check_loss.records import Index, Kept, Records, kept
from mechanisms.samplers.boxes import Children, Space, Start

_CHUNK_ROWS = 1 << 16  # keeps the table of boxes and records small
_LOOKS = 350  # deciding this many records on one box takes as long as a try


@dataclass(frozen=True, slots=True, eq=False)
class Undecided:
    """The knowledge of a box: open records, and the sums of (x, y) over the reached ones."""

    kept: Kept
    count: int
    reached: Floats
    width: Floats

    @classmethod
    def of(cls, index: Index, reached: Floats, width: Floats, *, records: int) -> Undecided:
        """Return the knowledge of a box; ``index`` holds its open records, sorted."""
        return cls(kept(index, records), len(index), reached, width)

    @property
    def index(self) -> Index:
        """The indices of the open records, sorted; they are unpacked each time."""
        return self.kept.index

    @property
    def size(self) -> int:
        """The bytes it takes, the arrays' own heads included."""
        return self.kept.nbytes + self.reached.nbytes + self.width.nbytes + 500


@dataclass(frozen=True, slots=True)
class Rest:
    """Exact sums of (x, y) over rows that are not held: over all of them, and the reached ones.

    Each of them is decided alike everywhere on the boxes that a law is asked about.
    """

    total: tuple[int, ...]
    reached: tuple[int, ...]


class CheckLossLaw(ABC):
    """The base of both laws: which records are decided where, and a start near the minimiser."""

    floor = 0.0
    gathers: int

    def __init__(
        self, records: Records, tau: Fraction, rate: Fraction, rest: Rest | None = None
    ) -> None:
        self.records = records
        self.tau = tau
        self.rate = rate
        rows = np.column_stack([records.x, records.y]) * records.counts[:, None]
        self.xy = rows.astype(np.float64)  # sums over records stay integers below 2**53: exact
        none = (0,) * self.xy.shape[1]
        self.rest = rest or Rest(none, none)
        held = map(int, self.xy.sum(axis=0))
        self.exact_pull = [
            tau * (own + others) - reached
            for own, others, reached in zip(held, self.rest.total, self.rest.reached, strict=True)
        ]
        self.pull = np.array([float(each) for each in self.exact_pull])

    def split(self, known: Undecided, centres: Floats, half: Floats) -> Children[Undecided]:
        """Bound E on boxes, as :class:`~mechanisms.samplers.boxes.space.BoxLaw` says."""
        indices, reached, gathered = self.decide(known, centres, half)
        low = self.bounds(indices, reached, gathered, centres, half)
        looked_at = known.count * len(centres)
        return Children(low, self.knowledge(indices, reached), looked_at / _LOOKS)

    @property
    @abstractmethod
    def begun(self) -> tuple[list[Start[Undecided]], bool]:
        """Boxes that cover Theta to begin with, and whether polytopes should be quicker."""

    def start(self, space: Space) -> list[Start[Undecided]]:  # noqa: ARG002
        """Return boxes that cover Theta, most records decided on the one at the minimiser."""
        return self.begun[0]

    @abstractmethod
    def bounds(
        self,
        indices: Sequence[Index],
        reached: Floats,
        gathered: Floats,
        centres: Floats,
        half: Floats,
    ) -> Floats:
        """Return lower bounds of E on boxes, from what :meth:`decide` has found there."""

    @abstractmethod
    def gather(self, index: Index, possible: NDArray[np.bool_], distance: Floats) -> Floats:
        """Return sums over some open records (k x ``gathers``).

        ``possible`` (k x n) says on which boxes each is open, ``distance`` how far beyond its
        target it is at the centre.
        """

    @abstractmethod
    def nats_at(self, gradient: Floats) -> float:
        """Return about how far E at a minimiser is above its known bound, for a gradient in u.

        A hint in scaled units.
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

        There l has risen by ``rise`` (code times grid steps) and theta moved by ``largest``. A rise
        below 0 is a fall.
        """

    @abstractmethod
    def of_sums(
        self, point: Sequence[int], reached: Sequence[int], tied: Sequence[int]
    ) -> Fraction:
        """Return E over ``rate`` at a point theta, exactly.

        ``reached`` and ``tied`` are the sums of (x, y) over the records beyond their targets there
        and on them; of the rows that are not held the pull speaks.
        """

    @abstractmethod
    def farther(self, rise: float, times: float) -> float:
        """Return E's lower bound, less ``least_at``, at ``times`` the length of rays.

        ``rise`` is the bound where the rays cross the boundary of a box.
        """

    @abstractmethod
    def least_at(self, known: Undecided, point: Floats) -> float:
        """Return a lower bound of E at the point u that rays start from, if it bounds E on them."""

    def root(self) -> Undecided:
        """Return nothing decided."""
        rows, d = self.records.x.shape
        index = np.arange(rows, dtype=np.int32)
        width = np.abs(self.records.z).sum(axis=0)
        return Undecided.of(index, np.zeros(d + 1), width, records=rows)

    def value(self, known: Undecided, point: Sequence[int]) -> Fraction:
        """Return E over ``rate`` at a grid point theta of the box known, exactly."""
        index = known.index
        position = self.records.position(index, point)
        beyond = known.reached + self.xy[index[position > 0]].sum(axis=0)
        tied = self.xy[index[position == 0]].sum(axis=0)
        return self.of_sums(point, [int(each) for each in beyond], [int(each) for each in tied])

    def exponent(self, known: Undecided, point: Sequence[int], bits: int) -> arb:  # noqa: ARG002
        """Return a ball around E, from integers."""
        return rational(self.rate * self.value(known, point))

    def widths(self, known: Undecided) -> Floats | None:
        """Return how far a unit of each coordinate moves the open records."""
        return known.width if known.count else None

    def size(self, known: Undecided) -> int:
        """Return the bytes of the knowledge of one box."""
        return known.size

    def decide(
        self, known: Undecided, centres: Floats, half: Floats
    ) -> tuple[list[Index], Floats, Floats]:
        """Decide the open records on each box.

        Returns the open indices of each box, the sums of (x, y) over its reached records
        (k x d+1), and what :meth:`gather` says of its open ones.
        """
        boxes, d = centres.shape
        reached = np.tile(known.reached, (boxes, 1))
        gathered = np.zeros((boxes, self.gathers))
        pieces: list[list[Index]] = [[] for _ in range(boxes)]
        reach_of_centre = np.abs(centres).max(axis=0) + half
        still_open = known.index
        for start in range(0, len(still_open), _CHUNK_ROWS):
            index = still_open[start : start + _CHUNK_ROWS]
            z, xy = self.records.z[index], self.xy[index]
            size = np.abs(z)
            target = self.records.target[index]
            # d products and d + 1 sums err by at most (d + 2) u of the sum of sizes
            margin = (d + 3) * SPACING * (size @ reach_of_centre + np.abs(target))
            threshold = size @ half + margin
            distance = centres @ z.T - target
            # Beyond the box's reach and the rounding: reached everywhere on it.
            certain = distance > threshold
            possible = distance >= -threshold
            reached += certain @ xy
            possible &= ~certain
            gathered += self.gather(index, possible, distance)
            for box in range(boxes):
                pieces[box].append(index[possible[box]])
        empty = still_open[:0]
        return [np.concatenate(p) if p else empty for p in pieces], reached, gathered

    def knowledge(self, indices: Sequence[Index], reached: Floats) -> list[Undecided]:
        """Return the knowledge of each box."""
        return [
            Undecided.of(
                index, sums, np.abs(self.records.z[index]).sum(axis=0), records=len(self.records.z)
            )
            for index, sums in zip(indices, reached, strict=True)
        ]
