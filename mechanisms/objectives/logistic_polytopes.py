"""The K-norm gradient law of logistic regression on polytopes, for few distinct rows.

    E(theta) = rate ||g(theta)|| / r(||theta||_1),   g(theta) = sum_i c_i sigma(t_i) zeta_i

with t_i = zeta_i'theta, as in :mod:`mechanisms.objectives.logistic_boxes`.

*Bound.* On a polytope each t_i lies between its values at the vertices, and sigma over that
interval between two lines. Below 0 sigma is convex, above 0 concave. A tangent at some d <= 0 is
below sigma up to 0. Lowered until it is at most sigma at the interval's upper end, it is below
sigma there as well: sigma less a line is concave above 0, and not negative at 0 and at the end.
Where the tangent at the lower end would be above sigma at the upper end, as it is on all of the
right, the chord takes its place: up to 0 it is below that tangent, above 0 sigma less the chord is
concave again. ``sigma(t) = 1 - sigma(-t)`` gives the upper line. Any d serves. It is near the lower
end, as a steep line is far below 0 there, and no further up than about where nothing is lowered.
What floats err by here is of the size of rounding, and ``error`` covers it.

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
from itertools import starmap
from operator import itemgetter

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats
from mechanisms.exact.balls import rational
from mechanisms.exact.floats import UNIT_ROUNDOFF, sigmoid
from mechanisms.objectives.logistic_boxes import GradientBoxes, LogisticLaw
from mechanisms.objectives.logistic_expansion import MARGIN, exact_gradient
from mechanisms.objectives.logistic_search import one_sided
from mechanisms.samplers.base_measure import BaseMeasure, MeasuredBoxes, MeasuredPolytopes
from mechanisms.samplers.boxes import Cover
from mechanisms.samplers.envelopes import Trial
from mechanisms.samplers.polytopes import FLAT_NATS, Cut, Part, Polytope, PolytopeCover, View

_MOST_ROWS = 32  # beyond so many distinct signed rows boxes alone are quicker
_FEW_ROWS = 8  # up to so many leave thin sets of good points, which polytopes follow best
_INWARD = 0.7  # where a tangent touches at most, from the lower end: about 0 there, or above
_REACH = 0.55  # -asinh of this times the upper end: about where a tangent meets sigma there
_STRIP_NATS = 20.0  # above the bound: what is cut off then hardly weighs
_STRIP_SHARE = 0.2  # of a row's interval: a narrower strip is not worth a cut
_LARGEST_STRIP = 0.95  # something has to be left, or nothing would be cut
_STEPS = 8  # towards the point of a hull that is nearest to 0
_TINY = 1e-200  # keeps a matrix of nothing solvable


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Lines around sigma at each row's t: values at the middle of its interval, and slopes.

    ``least`` and ``most`` are sigma's ends there.
    """

    below: Floats
    rise: Floats
    above: Floats
    climb: Floats
    least: Floats
    most: Floats

    @classmethod
    def around(cls, middle: Floats, move: Floats) -> Lines:
        """Return lines that sigma is between where ``|t - middle| <= move``, and move > 0."""
        centre = np.stack([middle, -middle])  # sigma(t) = 1 - sigma(-t): both are lines below
        low, high = centre - move, centre + move
        reached = -np.arcsinh(_REACH * np.maximum(high, 0))
        touched = np.maximum(low, np.minimum(reached, low + np.minimum(move, _INWARD)))
        value, rest = sigmoid(np.stack([low, high, touched]))
        least, most, touch = value
        slope, chord = touch * rest[2], (most - least) / 2 / move
        over = np.maximum(touch + slope * (high - touched) - most, 0)
        tangent = touch + slope * (centre - touched) - over
        bent = least * rest[0] >= chord
        under = np.where(bent, (least + most) / 2, tangent)
        slope = np.where(bent, chord, slope)
        return cls(under[0], slope[0], 1 - under[1], slope[1], least[0], most[0])


@dataclass(frozen=True, slots=True, eq=False)
class _Affine:
    """L at the vertices (k x d), its slopes (d x d), and the floats' error.

    ``c sigma(t)`` is between ``below`` and ``above`` at the vertices (k x m), and between ``least``
    and ``most`` everywhere, where t is between ``low`` and ``high`` (m each).
    """

    low: Floats
    high: Floats
    values: Floats
    slopes: Floats
    below: Floats
    above: Floats
    least: Floats
    most: Floats
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class _Bound:
    """A certified lower bound of ||g||, and the directions w behind it, each with its opposite.

    ``pull`` (m x k) is w'zeta_i, ``ends`` (k) the least w'g with every t_i at an end.
    """

    least: float
    pull: Floats
    ends: Floats
    dual: Floats


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
        bound = self._bound(affine)
        exponent = bound.least * self.rate / weight * (1 - MARGIN)
        choices = [
            (exponent * (weight / inner - 1), np.sign(centre), 0.5),
            self._rise(affine, bound.least),
        ]
        varied = (affine.most - affine.least) * np.abs(self.law.records.zeta).max(axis=1)
        if len(varied):
            row = int(varied.argmax())
            choices.append((float(varied[row]) * self.rate, self.law.records.zeta[row], 0.5))
        gain, direction, share = max(choices, key=itemgetter(0))
        if gain < FLAT_NATS:
            return View(exponent, None, None, gain)
        strip = self._strip(affine, bound, bound.least + _STRIP_NATS * weight / self.rate)
        direction, share = strip or (direction, share)
        return View(exponent, None, Cut.middle(direction, polytope.floats, share), gain)

    def _rise(self, affine: _Affine, least: float) -> tuple[float, Floats, float]:
        """Return how far an entry of L rises above the bound, in nats, and a cut half as far."""
        low, high = affine.values.min(axis=0), affine.values.max(axis=0)
        far = np.maximum(high, -low)
        near = np.maximum(np.maximum(low, -high), least if self.law.norm.name == "linf" else 0)
        j = int((far - near).argmax())
        level = (near[j] + far[j]) / 2
        place = level if far[j] == high[j] else -level
        share = (place - low[j]) / (high[j] - low[j] + _TINY)
        return float(far[j] - near[j]) * self.rate / 2, affine.slopes[j], float(share)

    def _strip(self, affine: _Affine, bound: _Bound, level: float) -> tuple[Floats, float] | None:
        """Return the widest strip of a row's interval where ||g|| is above a level, as a cut."""
        records = self.law.records
        missing = (level * bound.dual - bound.ends) / (np.abs(bound.pull) + _TINY)
        ahead = bound.pull > 0
        low, high, least, most, counts = (
            each[:, None]
            for each in (affine.low, affine.high, affine.least, affine.most, records.counts)
        )
        reached = np.where(ahead, least + missing, most - missing) / counts
        between = (reached > 0) & (reached < 1)
        reached = np.where(between, reached, 0.5)
        share = (np.log(reached / (1 - reached)) - low) / (high - low + _TINY)
        widths = np.where(between, np.where(ahead, 1 - share, share), 0)
        row, side = np.unravel_index(int(widths.argmax()), widths.shape)
        width = min(float(widths[row, side]), _LARGEST_STRIP)
        if width < _STRIP_SHARE:
            return None
        return records.zeta[row], 1 - width if ahead[row, side] else width

    def _affine(self, theta: Floats, reach: float) -> _Affine:
        records = self.law.records
        zeta, counts = records.zeta, records.counts
        slack = 4 * (records.dimension + 4) * UNIT_ROUNDOFF * reach
        t = theta @ zeta.T
        low, high = t.min(axis=0), t.max(axis=0)
        middle = (low + high) / 2
        move = (high - low) / 2 * (1 + MARGIN) + 2 * slack + _TINY
        lines = Lines.around(middle, move)
        t -= middle
        below = (lines.below + lines.rise * t) * counts
        above = (lines.above + lines.climb * t) * counts
        slope = (lines.rise + lines.climb) / 2 * counts
        return _Affine(
            low=low,
            high=high,
            values=(below + above) @ zeta / 2,
            slopes=(zeta * slope[:, None]).T @ zeta,
            below=below,
            above=above,
            least=lines.least * counts,
            most=lines.most * counts,
            error=4 * (records.relative_error(reach) + MARGIN) * records.total * (1 + reach),
        )

    def _bound(self, affine: _Affine) -> _Bound:
        """Return a certified lower bound of ||g||."""
        zeta, norm = self.law.records.zeta, self.law.norm
        directions = np.vstack(
            [self.directions, _telling(affine.values), _nearest_to_zero(affine.values)]
        )
        pull, sizes = zeta @ directions.T, np.abs(directions)
        pull, dual = np.hstack([pull, -pull]), norm.dual(sizes)
        up, down = np.maximum(pull, 0), np.maximum(-pull, 0)
        ends = affine.least @ up - affine.most @ down
        signed = np.maximum((affine.below @ up - affine.above @ down).min(axis=0), ends)
        error = affine.error * sizes.sum(axis=1)
        least = signed.reshape(2, -1).max(axis=0) - error * (1 + MARGIN)
        single = np.maximum(0, least[: zeta.shape[1]])
        joint = float((least / dual).max())
        both = max(0.0, float(norm.floats(single[None, :])[0]), joint)
        return _Bound(both, pull, ends, np.concatenate([dual, dual]))

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


def _nearest_to_zero(values: Floats) -> Floats:
    """Return about the point nearest to 0 of the hull of values (k x d), by steps to its ends."""
    point = values.mean(axis=0)
    for _ in range(_STEPS):
        away = point - values[int((values @ point).argmin())]
        share = float(point @ away) / (float(away @ away) + _TINY)
        point = point - min(max(share, 0.0), 1.0) * away
    length = float(np.abs(point).max())
    return point / length if length > _TINY else np.ones(len(point))


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
