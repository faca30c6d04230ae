"""The check loss's laws on polytopes, for records of few distinct rows.

A record is reached on one side of its hyperplane ``x'theta = y`` and missed on the other. Where
distinct rows are few, so are the cells of their arrangement, and a polytope is cut along the
hyperplanes themselves: what is left of a tie is a cell of its own, however thin.

Which records are open on a polytope is read off its vertices: in floats with a certified margin,
and in integers where that leaves it open.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechanisms.exact.arrays import Floats
from mechanisms.exact.floats import SPACING
from mechanisms.objectives.check_loss.gradient import GradientLaw
from mechanisms.objectives.check_loss.law import CheckLossLaw, Undecided
from mechanisms.objectives.check_loss.loss import LossLaw
from mechanisms.objectives.rows import distinct_rows
from mechanisms.samplers.base_measure import BaseMeasure, MeasuredBoxes, MeasuredPolytopes
from mechanisms.samplers.boxes import Cover
from mechanisms.samplers.envelopes import Trial
from mechanisms.samplers.polytopes import FLAT_NATS, Cut, Part, Polytope, PolytopeCover, Stack, View

_MOST_ROWS = 200  # beyond, an arrangement has too many cells, and boxes decide rows at once
_FEW_DIRECTIONS = 16  # so few distinct x leave thin cells, which polytopes follow best


class Arrangement:
    """The hyperplanes of distinct records, and which of them cross a polytope."""

    def __init__(self, law: CheckLossLaw) -> None:
        self.law = law
        self.records = law.records
        self.xy = law.xy
        x = self.records.x
        self.codes = x.astype(np.float64)
        # hyperplanes of many records, on long rows, decide most
        self.weight = self.records.counts * np.abs(x).max(axis=1, initial=0)

    def decide(self, known: Undecided, polytope: Polytope) -> Undecided:
        """Return what is known on a polytope inside the one known."""
        index = known.index
        if not len(index):
            return known
        low, high = self._signs(index, polytope)
        reached = known.reached + self.xy[index[low >= 0]].sum(axis=0)
        still_open = index[(low < 0) & (high >= 0)]
        return Undecided.of(still_open, reached, known.width, records=len(self.xy))

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
        # Where floats cannot tell the sign, the vertex is put in the equation in integers.
        for vertex, which in np.argwhere(np.abs(distance) <= margin):
            side = self.hyperplane(int(index[which])).side(polytope.vertices[vertex])
            signs[vertex, which] = (side > 0) - (side < 0)
        return signs.min(axis=0), signs.max(axis=0)


class GradientCells:
    """:class:`GradientLaw` on polytopes: constant on the cells of the arrangement."""

    def __init__(self, law: GradientLaw) -> None:
        self.law = law
        self.floor = law.floor
        self.arrangement = Arrangement(law)

    def start(self) -> list[Part[Undecided]]:
        """Return Theta, every record open."""
        return [self.arrangement.whole()]

    def views(self, known: Sequence[Undecided], stack: Stack) -> list[View[Undecided]]:
        """Bound E by the open records, and cut along the heaviest of them."""
        return list(map(self._view, known, stack.polytopes))

    def _view(self, known: Undecided, polytope: Polytope) -> View[Undecided]:
        found = self.arrangement.decide(known, polytope)
        index = found.index
        open_here = np.ones((1, len(index)), dtype=np.bool_)
        gathered = self.law.gather(index, open_here, np.zeros((1, len(index))))
        low = self.law.least([index], found.reached[None, :], gathered)
        return View(float(low[0]), found, self.arrangement.heaviest(index))

    def size(self, known: Undecided) -> int:
        """Return the bytes of what is known of one polytope."""
        return known.size

    def exponent(self, known: Undecided, point: Sequence[int], bits: int) -> arb:
        """Return E at a point, from integers."""
        return self.law.exponent(known, point, bits)


class LossCells:
    """:class:`LossLaw` on polytopes: affine on the cells of the arrangement.

    The loss is bounded by its tangent plane at the middle of the vertices, and that by its values
    at the vertices. A cut follows the hyperplane of an open record, or the plane's own slope,
    whichever costs more nats.
    """

    def __init__(self, law: LossLaw) -> None:
        self.law = law
        self.floor = law.floor
        self.arrangement = Arrangement(law)

    def start(self) -> list[Part[Undecided]]:
        """Return Theta, every record open."""
        return [self.arrangement.whole()]

    def views(self, known: Sequence[Undecided], stack: Stack) -> list[View[Undecided]]:
        """Bound E by a plane below it, and cut where that loses most."""
        return list(map(self._view, known, stack.polytopes))

    def _view(self, known: Undecided, polytope: Polytope) -> View[Undecided]:
        found = self.arrangement.decide(known, polytope)
        places, index = polytope.floats, found.index
        distance = places @ self.arrangement.codes[index].T - self.law.records.target[index]
        ahead = index[distance.mean(axis=0) > 0]
        reached = found.reached + self.law.xy[ahead].sum(axis=0)
        low = self.law.planes(reached, places).min()
        return View(max(self.floor, float(low)), found, self._cut(index, distance, places, reached))

    def _cut(
        self, index: NDArray[np.int32], distance: Floats, places: Floats, reached: Floats
    ) -> Cut | None:
        slope = (reached - self.law.pull)[:-1]
        along = places @ slope
        spread = float(along.max() - along.min()) / 2
        bent = np.minimum(distance.max(axis=0), -distance.min(axis=0))
        bent = bent * self.law.records.counts[index]
        most = float(bent.max(initial=0))
        if max(spread, most) * self.law.unit < FLAT_NATS:
            return None
        if most >= spread:
            return self.arrangement.hyperplane(int(index[np.argmax(bent)]))
        return Cut.middle(slope, places)

    def size(self, known: Undecided) -> int:
        """Return the bytes of what is known of one polytope."""
        return known.size

    def exponent(self, known: Undecided, point: Sequence[int], bits: int) -> arb:
        """Return E at a point, from integers."""
        return self.law.exponent(known, point, bits)


def trials(law: GradientLaw | LossLaw, *, power: int = 0) -> list[Trial]:
    """Return the envelopes to draw by in turns, the one that should be quicker first.

    ``power`` is that of the base measure; 0 is the counting measure. In one dimension tied records
    share a weight, so that E is not constant on closed cells.
    """
    records = law.records
    measure = BaseMeasure(power, records.grid_bits)
    boxes = Cover(MeasuredBoxes(law, measure, records.space), records.space)
    if records.x.shape[1] == 1 or len(records.y) > _MOST_ROWS:
        return [boxes]
    cells = GradientCells(law) if isinstance(law, GradientLaw) else LossCells(law)
    polytopes = PolytopeCover(MeasuredPolytopes(cells, measure))
    few = len(distinct_rows(records.x)[1]) <= _FEW_DIRECTIONS
    return [polytopes, boxes] if few else [boxes, polytopes]
