"""The norm of the check loss's gradient on polytopes, for many distinct rows.

A law that presses against a face of Theta, or lies along a thin layer, is followed by polytopes at
less cost than by boxes; and where epsilon is large it is on a few cells of the rows' arrangement.

*Bound.* With s the decided rows' part of the gradient g, and x_i the open rows, g is in the
zonotope ``s + sum_i [0, 1] x_i``. For any direction w with dual norm h(w)

    ||g|| >= (w's + sum_i min(0, w'x_i)) / h(w).

Besides the axes w goes towards the zonotope's point nearest to 0, by steps to its corners.

That an open row's side follows from theta is not used. Even a linear program that ties each to it,
by ``p/high <= side <= 1 - p/low`` for its position p between low and high, adds 1 to 5 nats on some
300 open rows, of the 10 to 15 that are missing there. Only smaller polytopes have those.

*Cuts.* Along the hyperplane of an open row: one that goes through the middle, and is about parallel
to most of the others in the polytope's own shape, so that both halves decide many of them.

The check loss's laws on polytopes, for records of few distinct rows.

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

from mechanisms.domain import CODE_MAX
from mechanisms.exact.floats import SPACING, Floats
from mechanisms.objectives.check_loss.gradient import GradientLaw, LossLaw
from mechanisms.objectives.check_loss.law import Undecided
from mechanisms.objectives.check_loss.narrowing import Arrangement
from mechanisms.objectives.check_loss.records import Index
from mechanisms.objectives.design import distinct_rows
from mechanisms.samplers.base_measure import BaseMeasure, MeasuredBoxes, MeasuredPolytopes
from mechanisms.samplers.boxes import Cover
from mechanisms.samplers.envelopes import Trial
from mechanisms.samplers.polytopes import (
    FLAT_NATS,
    Cut,
    Part,
    Polytope,
    PolytopeCover,
    PolytopeLaw,
    Stack,
    View,
)

_STEPS = 6  # towards the point of a zonotope that is nearest to 0
_FEW = 16  # up to this many open rows, the heaviest are decided first
_LOOKED_AT = 2048  # open rows, of many, among which a cut is chosen
_TINY = 1e-200  # keeps quotients by nothing finite


class GradientLayers:
    """:class:`GradientLaw` on polytopes, its rows decided a few at a time."""

    def __init__(self, law: GradientLaw) -> None:
        self.law = law
        self.floor = law.floor
        self.arrangement = Arrangement(law)
        self.rate = float(law.rate) / CODE_MAX

    def start(self) -> list[Part[Undecided]]:
        """Return the boxes' start as polytopes."""
        return self.arrangement.begun()

    def views(self, known: Sequence[Undecided], stack: Stack) -> list[View[Undecided]]:
        """Bound E by the open records, and cut along one of them."""
        return list(map(self._view, known, stack.polytopes))

    def _view(self, known: Undecided, polytope: Polytope) -> View[Undecided]:
        if known is self.arrangement.unread:
            return View(self.floor, self.arrangement.root, None, 0.0)
        effort = self.arrangement.effort(known)
        found = self.arrangement.decide(known, polytope)
        index = found.index
        open_here = np.ones((1, len(index)), dtype=np.bool_)
        gathered = self.law.gather(index, open_here, np.zeros((1, len(index))))
        low = float(self.law.least([index], found.reached[None, :], gathered)[0])
        if not len(index):
            return View(low, found, None, 0.0, effort)
        settled, rows = (found.reached - self.law.pull)[:-1], self.law.xy[index, :-1]
        low = max(low, self.nearest(settled, rows))
        sizes = np.abs(rows).sum(axis=0)
        gain = float(self.law.norm.floats(sizes[None, :])[0]) / 2 * self.rate
        if gain < FLAT_NATS:
            return View(low, found, None, gain, effort)
        return View(low, found, self._cut(index, polytope), gain, effort)

    def nearest(self, settled: Floats, rows: Floats) -> float:
        """Return a certified lower bound of E on a zonotope: the best of a few directions."""
        point, ways, ends = settled + rows.sum(axis=0) / 2, [], []
        for _ in range(_STEPS):
            corner = settled + (rows @ point < 0) @ rows
            ways.append(point)
            ends.append(float(point @ corner))
            away = point - corner
            share = float(point @ away) / (float(away @ away) + _TINY)
            point = point - min(max(share, 0.0), 1.0) * away
        directions = np.abs(np.array(ways))
        # The pull's float, products, sums, and corners taken for a sign that rounding decides: each
        # row's part errs by some units of its size, however much of it cancels in w'x.
        sizes = np.abs(settled) + np.abs(self.law.pull[:-1]) + np.abs(rows).sum(axis=0)
        rounding = (2 * len(settled) + 8) * SPACING * (directions @ sizes)
        bounds = (np.array(ends) - rounding) / (self.law.norm.dual(directions) + _TINY)
        return max(0.0, float(bounds.max()) * self.rate * (1 - 16 * SPACING))

    def _cut(self, index: Index, polytope: Polytope) -> Cut:
        """Return the hyperplane of an open row through the middle, and along most of the others."""
        index = index[:: max(1, len(index) // _LOOKED_AT)]
        places, codes = polytope.floats, self.arrangement.codes[index]
        distance = places @ codes.T - self.law.records.target[index]
        low, high = distance.min(axis=0), distance.max(axis=0)
        central = np.minimum(high, -low) / (high - low + _TINY)
        v = places - places.mean(axis=0)
        v = v / (np.abs(v).max() + _TINY)
        # in coordinates in which the polytope is as long as wide
        shape = v.T @ v
        shape += 1e-14 * np.trace(shape) * np.eye(len(shape))
        rows = codes @ np.linalg.cholesky(shape)
        rows /= np.sqrt((rows * rows).sum(axis=1))[:, None] + _TINY
        weight = self.arrangement.weight[index]
        _, ways = np.linalg.eigh((rows * weight[:, None]).T @ rows)
        score = central * (rows @ ways[:, -1]) ** 4
        if len(index) <= _FEW:
            score = score * weight
        return self.arrangement.hyperplane(int(index[np.argmax(score)]))

    def size(self, known: Undecided) -> int:
        """Return the bytes of the knowledge of one polytope."""
        return known.size

    def exponent(self, known: Undecided, point: Sequence[int], bits: int) -> arb:
        """Return E at a point, from integers."""
        return self.law.exponent(known, point, bits)


# The check loss's laws on polytopes, for records of few distinct rows


_MOST_ROWS = 32  # beyond, an arrangement has too many cells to decide one row at a time
_TOO_MANY = 200_000  # beyond, positions of all records at all vertices take too much memory
_FEW_DIRECTIONS = 64  # up to this many distinct x leave thin cells, which polytopes follow best
_TIED = 64  # equal rows on average: a loss bends at a few heavy hyperplanes
_SHARP = 2  # nats that a record of the longest x adds at least


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
        """Return the bytes of the knowledge of one polytope."""
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
        self.many = len(law.records.y) > _MOST_ROWS

    def start(self) -> list[Part[Undecided]]:
        """Return Theta, every record open; of many, the boxes' start as polytopes."""
        return self.arrangement.begun() if self.many else [self.arrangement.whole()]

    def views(self, known: Sequence[Undecided], stack: Stack) -> list[View[Undecided]]:
        """Bound E by a plane below it, and cut where that loses most."""
        return list(map(self._view, known, stack.polytopes))

    def _view(self, known: Undecided, polytope: Polytope) -> View[Undecided]:
        if known is self.arrangement.unread:
            return View(self.floor, self.arrangement.root, None, 0.0)
        found = self.arrangement.decide(known, polytope)
        places, index = polytope.floats, found.index
        distance = places @ self.arrangement.codes[index].T - self.law.records.target[index]
        ahead = index[distance.mean(axis=0) > 0]
        reached = found.reached + self.law.xy[ahead].sum(axis=0)
        low = self.law.planes(reached, places).min()
        cut = self._cut(index, distance, places, reached)
        effort = self.arrangement.effort(known) if self.many else 0.0
        return View(max(self.floor, float(low)), found, cut, effort=effort)

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
        """Return the bytes of the knowledge of one polytope."""
        return known.size

    def exponent(self, known: Undecided, point: Sequence[int], bits: int) -> arb:
        """Return E at a point, from integers."""
        return self.law.exponent(known, point, bits)


def trials(law: GradientLaw | LossLaw, *, power: int = 0) -> list[Trial]:
    """Return the envelopes to draw by in turns, the one that should be quicker first.

    ``power`` is that of the base measure; 0 is the counting measure. In one dimension tied records
    share a weight, so that E is not constant on closed cells.
    """
    records, d = law.records, law.records.x.shape[1]
    measure = BaseMeasure(power, records.grid_bits)
    boxes = Cover(MeasuredBoxes(law, measure, records.space), records.space)
    if d == 1 or len(records.y) > _TOO_MANY:
        return [boxes]
    polytopes = PolytopeCover(MeasuredPolytopes(_on_polytopes(law), measure))
    return [polytopes, boxes] if _is_for_polytopes(law) else [boxes, polytopes]


def _on_polytopes(law: GradientLaw | LossLaw) -> PolytopeLaw[Undecided]:
    """Return the law on polytopes: cell by cell for few records."""
    if isinstance(law, LossLaw):
        return LossCells(law)
    return GradientLayers(law) if len(law.records.y) > _MOST_ROWS else GradientCells(law)


def _is_for_polytopes(law: GradientLaw | LossLaw) -> bool:
    """Return whether polytopes should be quicker than boxes."""
    few, gradient = len(law.records.y) <= _MOST_ROWS, isinstance(law, GradientLaw)
    if len(distinct_rows(law.records.x)[1]) <= _FEW_DIRECTIONS and (
        few or gradient or law.records.counts.mean() >= _TIED
    ):
        return True
    # Where one record has much influence, cells of the arrangement give sharp bounds.
    return not few and (law.begun[1] or (gradient and law.rate > _SHARP))
