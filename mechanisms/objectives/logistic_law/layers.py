"""The K-norm gradient law of logistic regression on polytopes, for many rows.

    E(theta) = rate ||g(theta)|| / r(||theta||_1),   as in mechanisms.objectives.logistic_law.boxes

Where the rows pull theta out of Theta, or where some columns nearly follow from others, the law is
a thin layer, at a face of Theta or across it, that boxes would have to follow with its thinness.
A polytope has that face as a wall, and is cut along the layer.

*Bounds.* For any direction w with dual norm h(w), ``||g|| >= |w'g| / h(w)``, and w'g is bounded by
a model of g (:mod:`mechanisms.objectives.logistic_law.models`): by the expansion that a polytope
has from the one it was cut from; where that says too little by one of its own; on a polytope too
large for expansions by lines. Besides the axes w is the direction that tells g best from 0, the
point of its hull nearest to 0, and the signs of its mean.

*Cuts.* Along w'g for the w that bounds it best; along the entry that rises most above the bound, in
linf, or else through the zero of an entry; across the polytope where its curvature is most, where a
model's error costs more; and along ``||theta||_1`` where r does, or through its kinks. A cut lies
halfway, or where g has risen so far above its value at a vertex that hardly any weight is beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats
from mechanisms.objectives.logistic_law.boxes import GradientBoxes, Local
from mechanisms.objectives.logistic_law.expansion import MARGIN, Expansion
from mechanisms.objectives.logistic_law.hulls import nearest_to_zero, telling
from mechanisms.objectives.logistic_law.models import Lined, Model, expanded
from mechanisms.objectives.starts import on_polytopes
from mechanisms.samplers.polytopes import FLAT_NATS, Cut, Part, Stack, View

COARSE = 1.0
"""On polytopes wider than this in theta an expansion says nothing."""

_LITTLE_NATS = 0.2  # a model is good enough where its error costs no more
_SHARE = 1.0  # or costs at most as much as the norm itself varies
_STRIP_NATS = 20.0  # above some vertex: what is cut off then hardly weighs
_LEAST_STRIP = 2.0**-6  # of a rise: else both halves might not be smaller
_TINY = 1e-200  # keeps quotients by nothing finite


def begun(law: GradientBoxes) -> list[Part[Expansion | None]]:
    """Return the boxes' start as polytopes: what is far from a minimiser is bounded."""
    space = law.frame.space
    starts = law.start(space)
    return on_polytopes(space, starts, starts[0].known.expansion, None)


class _Rise(NamedTuple):
    """How many nats a cut may gain, the functional it is along, and where from low to high."""

    gain: float
    functional: Floats
    share: float


class LogisticLayers:
    """:class:`GradientBoxes` on polytopes."""

    def __init__(self, law: GradientBoxes) -> None:
        self.law = law
        self.floor = law.floor
        self.rate = float(law.rate)

    def start(self) -> list[Part[Expansion | None]]:
        """Return the boxes' start as polytopes."""
        return begun(self.law)

    def views(
        self, known: Sequence[Expansion | None], stack: Stack
    ) -> list[View[Expansion | None]]:
        """Bound E on polytopes, and cut each where that costs most nats."""
        theta = stack.places * self.law.frame.step
        models, local = self._models(known, theta)
        longest, centres = np.abs(theta).sum(axis=2).max(axis=1), stack.means(theta)
        lengths = np.stack([longest * (1 + MARGIN), np.abs(centres).sum(axis=1)])
        weight, inner = self.law.reach.floats(lengths)
        least, ways = self._bounds(models, stack)
        exponents = least * self.rate / weight * (1 - MARGIN)
        found = []
        for k, (model, exponent) in enumerate(zip(models, exponents.tolist(), strict=True)):
            level = self._level(model, float(weight[k]))
            best = max(
                _Rise(exponent * float(weight[k] / inner[k] - 1), *_shorter(theta[k])),
                self._along(model, ways[k], level),
                self._entry(model, float(least[k]), level),
                _Rise(self._nats(model.errors), model.across(theta[k]), 0.5),
                key=itemgetter(0),
            )
            cut = None
            if best.gain >= FLAT_NATS:
                cut = Cut.middle(best.functional, stack.places[k], best.share)
            found.append(View(exponent, local[k], cut, best.gain))
        return found

    def _models(
        self, known: Sequence[Expansion | None], theta: Floats
    ) -> tuple[list[Model], list[Expansion | None]]:
        """Return models and what they expand: what is known, or where that says too little more."""
        step, local = self.law.frame.step, list(known)
        models: list[Model | None] = [
            None if each is None else expanded(each, own, step)
            for each, own in zip(known, theta, strict=True)
        ]
        poor = [k for k, model in enumerate(models) if model is None or self._is_loose(model)]
        small = [k for k in poor if _size(theta[k]) <= COARSE]
        centres = np.array([theta[k].mean(axis=0) / step for k in small])
        for k, expansion in zip(small, self.law.expansions(centres) if small else (), strict=True):
            local[k], models[k] = expansion, expanded(expansion, theta[k], step)
        for k in set(poor).difference(small):
            models[k] = Lined.of(self.law.frame, self.law.coarse, theta[k])
        return [model for model in models if model is not None], local

    def _is_loose(self, model: Model) -> bool:
        # NaN counts as loose
        sizes = self.law.norm.floats(np.abs(model.values))
        varied = float(sizes.max() - sizes.min()) / 2 * self.rate
        return not self._nats(model.errors) <= _LITTLE_NATS + _SHARE * varied

    def _nats(self, sizes: Floats) -> float:
        return float(self.law.norm.floats(sizes[None, :])[0]) * self.rate

    def _bounds(self, models: Sequence[Model], stack: Stack) -> tuple[Floats, Floats]:
        """Return certified lower bounds of ||g|| (b), and the directions that bound it best."""
        values, norm = np.stack([model.values for model in models]), self.law.norm
        signs = np.where(stack.means(values) < 0, -1.0, 1.0)
        own = np.stack([telling(values, stack), nearest_to_zero(values, stack), signs], axis=1)
        axes, found, best = np.eye(values.shape[2]), [], []
        for model, each in zip(models, own, strict=True):
            directions = np.vstack([axes, each, -axes, -each])
            ends = model.least(directions)
            # NaN says nothing
            ends = np.where(ends > 0, ends, 0.0)
            told = ends / norm.dual(np.abs(directions))
            single = ends.reshape(2, -1).max(axis=0)[None, : len(axes)]
            found.append(max(norm.floats(single)[0], told.max()))
            best.append(directions[int(told.argmax())])
        return np.array(found), np.array(best)

    def _level(self, model: Model, weight: float) -> float:
        """Return a norm beyond which hardly any of a polytope's weight is."""
        some = float(self.law.norm.floats(np.abs(model.values) + model.errors).min())
        return some + _STRIP_NATS * weight / self.rate

    def _along(self, model: Model, way: Floats, level: float) -> _Rise:
        """Return a cut along w'g."""
        along, dual = model.values @ way, float(self.law.norm.dual(np.abs(way)[None, :])[0])
        low, high = float(along.min()), float(along.max())
        share = share_of_way((low, low, high), level * dual + float(np.abs(way) @ model.errors))
        return _Rise((high - low) / dual * self.rate / 2, way @ model.slopes, share)

    def _entry(self, model: Model, least: float, level: float) -> _Rise:
        """Return a cut along the entry that costs most."""
        low, high = model.values.min(axis=0), model.values.max(axis=0)
        if self.law.norm.name != "linf":
            # One that changes its sign rises to both sides.
            crossed = np.maximum(np.minimum(high, -low), 0)
            j = int(crossed.argmax())
            gain = self._nats(crossed * (np.arange(len(crossed)) == j))
            return _Rise(gain, model.slopes[j], float(-low[j] / (high[j] - low[j] + _TINY)))
        # One smaller than the bound costs nothing.
        near = np.maximum(np.maximum(low, -high), least)
        far = np.maximum(high, -low)
        j = int((far - near).argmax())
        side = 1.0 if high[j] >= -low[j] else -1.0
        start, inner, outer = (
            float(min(side * low[j], side * high[j])),
            float(near[j]),
            float(far[j]),
        )
        share = share_of_way((start, inner, outer), level + float(model.errors[j]))
        return _Rise((outer - inner) * self.rate / 2, side * model.slopes[j], share)

    def size(self, known: Expansion | None) -> int:
        """Return about how many bytes an expansion takes, though polytopes may share theirs."""
        return 0 if known is None else self.law.size(Local(known, known.gradient))

    def exponent(self, known: Expansion | None, point: Sequence[int], bits: int) -> arb:
        """Return a ball around E at a grid point."""
        return self.law.exponent(Local(known, self.law.spans), point, bits)


def share_of_way(span: tuple[float, float, float], level: float) -> float:
    """Return how far from its low to its high a span is cut: at a level, or halfway from inner."""
    low, inner, high = span
    level = max(level, inner + (high - inner) * _LEAST_STRIP)
    return (min(level, (inner + high) / 2) - low) / max(high - low, _TINY)


def _size(theta: Floats) -> float:
    """Return how far a polytope reaches from its middle in all entries together."""
    return float((theta.max(axis=0) - theta.min(axis=0)).sum()) / 2


def _shorter(theta: Floats) -> tuple[Floats, float]:
    """Return a functional along which ||theta||_1 varies, and the share of the way to cut at."""
    signs, low, high = np.sign(theta.mean(axis=0)), theta.min(axis=0), theta.max(axis=0)
    along, both = theta @ signs, np.minimum(high, -low)
    j = int(both.argmax())
    if both[j] * 2 <= along.max() - along.min():
        return signs, 0.5
    # It has a kink where an entry is 0, and is no such functional on both sides.
    return np.eye(len(signs))[j], float(-low[j] / (high[j] - low[j] + _TINY))
