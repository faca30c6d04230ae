"""The K-norm gradient law of logistic regression on polytopes, for few distinct rows.

    E(theta) = rate ||g(theta)|| / r(||theta||_1),   g(theta) = sum_i c_i sigma(t_i) zeta_i

with t_i = zeta_i'theta, as in :mod:`mechanisms.objectives.logistic_boxes`.

*Bound.* On a polytope each t_i lies between its values at the vertices. The chord of sigma over
that interval gives ``sigma(t_i) = a_i + b_i t_i +- r_i``, and so

    g(theta) in L(theta) +- sum_i c_i r_i |zeta_i|,   L(theta) = sum_i c_i (a_i + b_i t_i) zeta_i.

L is affine: its values lie in the hull of those at the vertices. For any direction w with dual norm
h(w), ``||g|| >= |w'g| / h(w)``, and w'g is at least the least w'L over the vertices less
``sum_i c_i r_i |w'zeta_i|``. It is also at least ``sum_i c_i sigma(t_i) w'zeta_i`` with every t_i
at the end of its interval where its summand is least.

*Directions.* Besides the axes w is the direction which tells the values of L best from 0, given how
they are spread. Where rows leave a direction open, there are w along which no row pulls back, all
``w'zeta_i >= 0``: then w'g is a sum of positive terms, and one large t_i is enough to bound it. For
each row w is the one that it pulls most.

*Cuts.* Along a row's t_i where its r_i costs most; along an entry of L where that varies most; and
along ``||theta||_1`` where r does. What neither of them moves is never cut for E; the base measure
has it cut (:class:`mechanisms.samplers.base_measure.MeasuredPolytopes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from operator import itemgetter

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats
from mechanisms.exact.balls import rational
from mechanisms.exact.floats import UNIT_ROUNDOFF, sigmoid
from mechanisms.objectives.logistic_boxes import GradientBoxes, LogisticLaw
from mechanisms.objectives.logistic_expansion import MARGIN, chord, exact_gradient
from mechanisms.objectives.logistic_search import one_sided
from mechanisms.samplers.base_measure import BaseMeasure, MeasuredBoxes, MeasuredPolytopes
from mechanisms.samplers.boxes import Cover
from mechanisms.samplers.envelopes import Trial
from mechanisms.samplers.polytopes import FLAT_NATS, Cut, Part, Polytope, PolytopeCover, View

_MOST_ROWS = 32  # beyond so many distinct signed rows boxes alone are quicker
_FEW_ROWS = 8  # up to so many leave thin sets of good points, which polytopes follow best
_TINY = 1e-200  # keeps a matrix of nothing solvable


@dataclass(frozen=True, slots=True, eq=False)
class _Affine:
    """L at the vertices (k x d), its slopes (d x d), each row's r, and the floats' error.

    Each row's ``c sigma(t)`` is between ``least`` and ``most``.
    """

    values: Floats
    slopes: Floats
    rest: Floats
    least: Floats
    most: Floats
    error: float


class LogisticPolytopes:
    """:class:`LogisticLaw` on polytopes."""

    def __init__(self, law: LogisticLaw) -> None:
        self.law = law
        self.floor = law.floor
        self.rate = float(law.rate)
        axes, records = np.eye(law.records.dimension), law.records
        # a minimum inside of Theta leaves no direction open
        self.directions = (
            axes if records.hint.inside else np.vstack([axes, one_sided(records.zeta)])
        )

    def start(self) -> list[Part[None]]:
        """Return the boxes' start as polytopes: what is far from a minimiser is bounded."""
        records = self.law.records
        left: Polytope | None = Polytope.cross(records.dimension, records.space.radius)
        inner, *outer = self.law.start(records.space)
        parts: list[Part[None]] = []
        # the slabs outside of the inner box come off one by one, as Box.less cuts them
        for cut in starmap(Cut, records.space.faces(inner.box)) if outer else ():
            slab = left and left.above(cut.opposite())
            left = left and left.above(cut)
            if slab is not None:
                parts.append(Part(slab, outer[0].exponent, None))
        if left is not None:
            parts.append(Part(left, inner.exponent, None))
        return parts

    def view(self, known: None, polytope: Polytope) -> View[None]:  # noqa: ARG002
        """Bound E on a polytope, and cut it where that costs most nats."""
        theta = polytope.floats * self.law.records.step
        longest, centre = float(np.abs(theta).sum(axis=1).max()), theta.mean(axis=0)
        lengths = np.array([longest * (1 + MARGIN), float(np.abs(centre).sum())])
        weight, inner = self.law.reach.floats(lengths).tolist()
        affine = self._affine(theta, longest)
        exponent = self._least_norm(affine) * self.rate / weight * (1 - MARGIN)
        bent = affine.rest * np.abs(self.law.records.zeta).max(axis=1) * self.rate
        spread = (affine.values.max(axis=0) - affine.values.min(axis=0)) * self.rate / 2
        choices = [
            (exponent * (weight / inner - 1), np.sign(centre)),
            (float(spread.max()), affine.slopes[int(spread.argmax())]),
        ]
        if len(bent):
            choices.append((float(bent.max()), self.law.records.zeta[int(bent.argmax())]))
        gain, direction = max(choices, key=itemgetter(0))
        cut = None if gain < FLAT_NATS else Cut.middle(direction, polytope.floats)
        return View(exponent, None, cut, gain)

    def _affine(self, theta: Floats, reach: float) -> _Affine:
        records = self.law.records
        zeta, counts = records.zeta, records.counts
        slack = 4 * (records.dimension + 4) * UNIT_ROUNDOFF * reach
        t = theta @ zeta.T
        low, high = t.min(axis=0), t.max(axis=0)
        middle = (low + high) / 2
        move = (high - low) / 2 * (1 + MARGIN) + 2 * slack
        mean, slope, gap = chord(middle, move)
        weighted = zeta * counts[:, None]
        total = float(counts.sum())
        return _Affine(
            values=(mean + slope * (t - middle)) @ weighted,
            slopes=(weighted * slope[:, None]).T @ zeta,
            rest=gap * counts,
            least=sigmoid(middle - move)[0] * counts,
            most=sigmoid(middle + move)[0] * counts,
            error=4 * (records.relative_error(reach) + MARGIN) * total * (1 + reach),
        )

    def _least_norm(self, affine: _Affine) -> float:
        """Return a certified lower bound of ||g||."""
        zeta, norm = self.law.records.zeta, self.law.norm
        directions = np.vstack([self.directions, _telling(affine.values)])
        along, pull = affine.values @ directions.T, zeta @ directions.T
        sizes, up, down = np.abs(directions), np.maximum(pull, 0), np.maximum(-pull, 0)
        error = affine.error * sizes.sum(axis=1)
        rest = affine.rest @ np.abs(pull) + error
        joined = np.maximum(along.min(axis=0), -along.max(axis=0)) - rest * (1 + MARGIN)
        ahead = affine.least @ up - affine.most @ down
        back = affine.least @ down - affine.most @ up
        least = np.maximum(joined, np.maximum(ahead, back) - error * (1 + MARGIN))
        single = np.maximum(0, least[: zeta.shape[1]])
        joint = float((least / norm.dual(sizes)).max())
        return max(0.0, float(norm.floats(single[None, :])[0]), joint)

    def size(self, known: None) -> int:  # noqa: ARG002
        """Return 0: nothing is known of one piece."""
        return 0

    def exponent(self, known: None, point: Sequence[int], bits: int) -> arb:  # noqa: ARG002
        """Return a ball around E at a grid point, row by row."""
        records = self.law.records
        size = arb(sum(map(abs, point))) * arb((1, -records.grid_bits))
        balls = exact_gradient(records, point)
        return rational(self.law.rate) / self.law.reach.ball(size) * self.law.norm.ball(balls)


def _telling(values: Floats) -> Floats:
    """Return the direction in which values (k x d) are farthest from 0, for how they spread."""
    mean = values.mean(axis=0)
    spread = values - mean
    matrix = spread.T @ spread
    ridge = 1e-9 * float(np.trace(matrix)) + _TINY
    found = np.linalg.solve(matrix + ridge * np.eye(len(mean)), mean)
    length = float(np.abs(found).max())
    return np.asarray(found / length if 0 < length < np.inf else np.ones(len(mean)))


def trials(law: GradientBoxes, *, power: int) -> list[Trial]:
    """Return the envelopes to draw by in turns, the one that should be quicker first.

    Where many rows differ there are boxes alone, and where few do, polytopes beside them.
    ``power`` is that of the base measure.
    """
    space = law.frame.space
    measure = BaseMeasure(power, law.frame.grid_bits)
    boxes = Cover(MeasuredBoxes(law, measure, space), space)
    if not isinstance(law, LogisticLaw) or len(law.records.zeta) > _MOST_ROWS:
        return [boxes]
    polytopes = PolytopeCover(MeasuredPolytopes(LogisticPolytopes(law), measure))
    return [polytopes, boxes] if len(law.records.zeta) <= _FEW_ROWS else [boxes, polytopes]
