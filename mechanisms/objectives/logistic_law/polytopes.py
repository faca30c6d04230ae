"""The K-norm gradient law of logistic regression on polytopes, for few distinct rows.

    E(theta) = rate ||g(theta)|| / r(||theta||_1),   g(theta) = sum_i c_i sigma(t_i) zeta_i

with t_i = zeta_i'theta, as in :mod:`mechanisms.objectives.logistic_law.boxes`.

*Bound.* On a polytope each t_i lies between its values at the vertices, and sigma over that
interval between two lines (:mod:`mechanisms.objectives.logistic_law.lines`). What floats err by
there is of the size of rounding, and ``error`` covers it.

For any direction w with dual norm h(w), ``||g|| >= |w'g| / h(w)``. In
``w'g = sum_i c_i sigma(t_i) w'zeta_i`` each row has its lower line where w'zeta_i > 0, else its
upper one. That sum is affine, so that it is least at a vertex. w'g is also at least the sum with
every t_i at the end of its interval where its summand is least.

*Directions.* Let L be g with each row on the line midway between its two. Besides the axes w is the
direction which tells the values of L best from 0, given how they are spread, and the point of their
hull nearest to 0. Where rows leave a direction open, there are w along which no row pulls back, all
``w'zeta_i >= 0``: then w'g is a sum of positive terms, and one large t_i is enough to bound it. For
each row w is the one that it pulls most.

*Cuts.* Along the t_i of the row whose part in g varies most; along an entry of L where that rises
most above the bound; and along ``||theta||_1`` where r does. In linf an entry smaller than the
bound costs nothing, and the cut goes halfway from there to its end. What none of them moves is
never cut for E; the base measure has it cut
(:class:`mechanisms.samplers.base_measure.MeasuredPolytopes`).

*Strips.* Halves of a long interval have parts that weigh nothing, and have to be halved again to
show it. Along w a row with ``w'zeta_i > 0`` adds to w'g, with all others at their least, and from
some t_i on that alone puts E well above the bound. Below some t_i a row with ``w'zeta_i < 0`` does.
Where such a strip is a good part of the interval, it is cut off instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats
from mechanisms.exact.balls import rational
from mechanisms.objectives.logistic_law.boxes import GradientBoxes
from mechanisms.objectives.logistic_law.expansion import MARGIN, exact_gradient, tilt_slack
from mechanisms.objectives.logistic_law.held import LogisticLaw
from mechanisms.objectives.logistic_law.hulls import nearest_to_zero, telling
from mechanisms.objectives.logistic_law.layers import LogisticLayers, begun
from mechanisms.objectives.logistic_law.lines import Lines
from mechanisms.objectives.logistic_law.search import one_sided
from mechanisms.samplers.base_measure import BaseMeasure, MeasuredBoxes, MeasuredPolytopes
from mechanisms.samplers.boxes import Cover
from mechanisms.samplers.envelopes import Trial
from mechanisms.samplers.polytopes import FLAT_NATS, Cut, Part, PolytopeCover, Stack, View

_MOST_ROWS = 32  # beyond so many distinct signed rows there are layers, which read cells
_FEW_ROWS = 8  # up to so many leave thin sets of good points, which polytopes follow best
_STRIP_NATS = 20.0  # above the bound: what is cut off then hardly weighs
_STRIP_SHARE = 0.2  # of a row's interval: a narrower strip is not worth a cut
_LARGEST_STRIP = 0.95  # something has to be left, or nothing would be cut
_TINY = 1e-200  # keeps quotients by nothing finite


@dataclass(frozen=True, slots=True, eq=False)
class _Affine:
    """L at the vertices of b polytopes (b x k x d), the slope of each row, and the floats' error.

    ``c sigma(t)`` is between ``below`` and ``above`` at the vertices (b x k x m), and between
    ``least`` and ``most`` everywhere, where t is between ``low`` and ``high`` (b x m each).
    """

    low: Floats
    high: Floats
    values: Floats
    slope: Floats
    below: Floats
    above: Floats
    least: Floats
    most: Floats
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class _Bound:
    """Certified lower bounds of ||g|| (b), and the directions w behind them, with opposites.

    ``pull`` (b x m x n) is w'zeta_i, ``ends`` (b x n) the least w'g with every t_i at an end, and
    ``dual`` (b x n) is h(w).
    """

    least: Floats
    pull: Floats
    ends: Floats
    dual: Floats


class LogisticPolytopes:
    """:class:`LogisticLaw` on polytopes."""

    def __init__(self, law: LogisticLaw) -> None:
        self.law = law
        self.floor = law.floor
        self.rate = float(law.rate)
        self.sizes = np.abs(law.records.zeta).max(axis=1)
        axes, records = np.eye(law.records.dimension), law.records
        # a minimum inside of Theta leaves no direction open
        self.directions = (
            axes if records.hint.inside else np.vstack([axes, one_sided(records.zeta)])
        )

    def start(self) -> list[Part[None]]:
        """Return the boxes' start as polytopes: what is far from a minimiser is bounded."""
        return [Part(part.polytope, part.exponent, None) for part in begun(self.law)]

    def views(self, known: Sequence[None], stack: Stack) -> list[View[None]]:  # noqa: ARG002
        """Bound E on polytopes, and cut each where that costs most nats."""
        records = self.law.records
        if not len(records.zeta):  # E is 0
            return [View(self.floor, None, None, 0.0) for _ in stack.polytopes]
        theta = stack.places * records.step
        longest, centres = np.abs(theta).sum(axis=2).max(axis=1), stack.means(theta)
        lengths = np.stack([longest * (1 + MARGIN), np.abs(centres).sum(axis=1)])
        weight, inner = self.law.reach.floats(lengths)
        affine = self._affine(theta, float(longest.max()))
        bound = self._bound(affine, stack)
        exponents = bound.least * self.rate / weight * (1 - MARGIN)
        varied = (affine.most - affine.least) * self.sizes
        rows = varied.argmax(axis=1).tolist()
        gains = [exponents * (weight / inner - 1), varied.max(axis=1) * self.rate]
        strips = self._strips(affine, bound, bound.least + _STRIP_NATS * weight / self.rate)
        rises = self._rises(affine, bound.least)
        found = []
        for k, (exponent, shorter, narrower) in enumerate(
            np.stack([exponents, *gains], axis=1).tolist()
        ):
            gain, direction, share = max(
                (shorter, np.sign(centres[k]), 0.5),
                rises[k],
                (narrower, records.zeta[rows[k]], 0.5),
                key=itemgetter(0),
            )
            cut = None
            if gain >= FLAT_NATS:
                direction, share = strips[k] or (direction, share)
                cut = Cut.middle(direction, stack.places[k], share)
            found.append(View(exponent, None, cut, gain))
        return found

    def _rises(self, affine: _Affine, least: Floats) -> list[tuple[float, Floats, float]]:
        """Return how far an entry of L rises above the bound, in nats, and a cut half as far."""
        zeta = self.law.records.zeta
        low, high = affine.values.min(axis=1), affine.values.max(axis=1)
        far, near = np.maximum(high, -low), np.maximum(low, -high)
        near = np.maximum(near, least[:, None] if self.law.norm.name == "linf" else 0)
        found = []
        for k, j in enumerate((far - near).argmax(axis=1).tolist()):
            start, end, inner, outer = (float(each[k, j]) for each in (low, high, near, far))
            level = (inner + outer) / 2
            place = level if outer == end else -level
            share = (place - start) / (end - start + _TINY)
            slope = (zeta[:, j] * affine.slope[k]) @ zeta
            found.append(((outer - inner) * self.rate / 2, slope, share))
        return found

    def _strips(
        self, affine: _Affine, bound: _Bound, level: Floats
    ) -> list[tuple[Floats, float] | None]:
        """Return the widest strips of rows' intervals where ||g|| is above a level, as cuts."""
        records = self.law.records
        missing = (level[:, None] * bound.dual - bound.ends)[:, None] / (np.abs(bound.pull) + _TINY)
        ahead = bound.pull > 0
        low, high, least, most = (
            each[..., None] for each in (affine.low, affine.high, affine.least, affine.most)
        )
        reached = np.where(ahead, least + missing, most - missing) / records.counts[:, None]
        between = (reached > 0) & (reached < 1)
        reached = np.where(between, reached, 0.5)
        share = (np.log(reached / (1 - reached)) - low) / (high - low + _TINY)
        widths = np.where(between, np.where(ahead, 1 - share, share), 0)
        found = []
        for k, place in enumerate(widths.reshape(len(widths), -1).argmax(axis=1).tolist()):
            row, side = divmod(place, widths.shape[2])
            width = min(float(widths[k, row, side]), _LARGEST_STRIP)
            cut = records.zeta[row], 1 - width if ahead[k, row, side] else width
            found.append(cut if width >= _STRIP_SHARE else None)
        return found

    def _affine(self, theta: Floats, reach: float) -> _Affine:
        records = self.law.records
        zeta, counts = records.zeta, records.counts
        slack = tilt_slack(records, reach)
        t = theta @ zeta.T
        low, high = t.min(axis=1), t.max(axis=1)
        middle = (low + high) / 2
        move = (high - low) / 2 * (1 + MARGIN) + 2 * slack + _TINY
        lines = Lines.around(middle, move)
        t -= middle[:, None]
        below = (lines.below[:, None] + lines.rise[:, None] * t) * counts
        above = (lines.above[:, None] + lines.climb[:, None] * t) * counts
        return _Affine(
            low=low,
            high=high,
            values=(below + above) @ zeta / 2,
            slope=(lines.rise + lines.climb) / 2 * counts,
            below=below,
            above=above,
            least=lines.least * counts,
            most=lines.most * counts,
            error=4 * (records.relative_error(reach) + MARGIN) * records.total * (1 + reach),
        )

    def _bound(self, affine: _Affine, stack: Stack) -> _Bound:
        """Return certified lower bounds of ||g||."""
        zeta, norm = self.law.records.zeta, self.law.norm
        count, fixed = len(affine.values), len(self.directions)
        directions = np.empty((count, fixed + 2, zeta.shape[1]))
        directions[:, :fixed] = self.directions
        directions[:, fixed] = telling(affine.values, stack)
        directions[:, fixed + 1] = nearest_to_zero(affine.values, stack)
        pull, sizes = zeta @ directions.swapaxes(1, 2), np.abs(directions)
        pull = np.concatenate([pull, -pull], axis=2)
        dual = norm.dual(sizes.reshape(-1, sizes.shape[2])).reshape(count, -1)
        up, down = np.maximum(pull, 0), np.maximum(-pull, 0)
        ends = (affine.least[:, None] @ up - affine.most[:, None] @ down)[:, 0]
        signed = np.maximum((affine.below @ up - affine.above @ down).min(axis=1), ends)
        error = affine.error * sizes.sum(axis=2)
        least = signed.reshape(count, 2, -1).max(axis=1) - error * (1 + MARGIN)
        single = norm.floats(np.maximum(0, least[:, : zeta.shape[1]]))
        joint = (least / dual).max(axis=1)
        both = np.maximum(0, np.maximum(single, joint))
        return _Bound(both, pull, ends, np.concatenate([dual, dual], axis=1))

    def size(self, known: None) -> int:  # noqa: ARG002
        """Return 0: nothing is known of one piece."""
        return 0

    def exponent(self, known: None, point: Sequence[int], bits: int) -> arb:  # noqa: ARG002
        """Return a ball around E at a grid point, row by row."""
        records = self.law.records
        size = arb(sum(map(abs, point))) * arb((1, -records.grid_bits))
        balls = exact_gradient(records, point)
        return rational(self.law.rate) / self.law.reach.ball(size) * self.law.norm.ball(balls)


def trials(law: GradientBoxes, *, power: int) -> list[Trial]:
    """Return boxes and polytopes to draw by in turns, those that should be quicker first.

    ``power`` is that of the base measure.
    """
    space = law.frame.space
    measure = BaseMeasure(power, law.frame.grid_bits)
    boxes = Cover(MeasuredBoxes(law, measure, space), space)
    if not isinstance(law, LogisticLaw) or len(law.records.zeta) > _MOST_ROWS:
        layers = PolytopeCover(MeasuredPolytopes(LogisticLayers(law), measure))
        # A minimiser inside makes a law about as long as wide, which boxes follow best.
        return [layers, boxes] if law.pulled_out else [boxes, layers]
    polytopes = PolytopeCover(MeasuredPolytopes(LogisticPolytopes(law), measure))
    return [polytopes, boxes] if len(law.records.zeta) <= _FEW_ROWS else [boxes, polytopes]
