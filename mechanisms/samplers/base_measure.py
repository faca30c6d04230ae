"""A base measure that gives long theta less weight, under any law of the box and polytope engines.

    P(theta) ∝ exp(-E(theta)) (1 + ||theta||_1)^-p        on the grid points of Theta

It is public: it may be any function of theta alone (Reimherr & Awan 2019, Theorem 3.1), and the
weights of neighbours have the ratio they had. Without it a bounded gradient leaves an answer out
at the bound where data say little. In the engines' terms the exponent has a second summand,

    E(theta) + p log(1 + ||theta||_1).

*Bounds.* For any signs s, ||theta||_1 >= s'theta. On a box |u - c| <= h that is at least
``s'V c - |s'V| h``; on a polytope at least its least value on the vertices. The signs taken are
those at the middle. All of it in floats, less a certified margin; the value at a point in balls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats
from mechanisms.samplers.boxes import BoxLaw, Children, Space, Start
from mechanisms.samplers.boxes.law import Knowledge
from mechanisms.samplers.polytopes import FLAT_NATS, Cut, Part, Polytope, PolytopeLaw, View

LARGEST_POWER = 12
"""A larger p costs tries, and wins nothing more."""

_MARGIN = 2.0**-40  # relative room for a few float operations on sums of few numbers


def base_power(dimension: int) -> int:
    """Return p of the base measure, by the number of coefficients alone."""
    return min(2 * dimension, max(LARGEST_POWER, dimension))


@dataclass(frozen=True, slots=True)
class BaseMeasure:
    """``(1 + ||theta||_1)^-p`` for theta in grid steps of ``2**-grid_bits``."""

    power: int
    grid_bits: int

    def least(self, length: Floats) -> Floats:
        """Return lower bounds of the second summand where theta is at least so long, in steps."""
        scaled = np.maximum(length * (1 - _MARGIN), 0) * 2.0**-self.grid_bits
        return np.asarray(self.power * np.log1p(scaled) * (1 - _MARGIN))

    def at(self, point: Sequence[int]) -> arb:
        """Return a ball around it at a grid point."""
        return self.power * (1 + arb(sum(map(abs, point))) * arb((1, -self.grid_bits))).log()


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredBoxes(Generic[Knowledge]):
    """A law of the box engine under a base measure."""

    law: BoxLaw[Knowledge]
    measure: BaseMeasure
    space: Space

    @property
    def floor(self) -> float:
        """Return the law's: the second summand is 0 at theta = 0."""
        return self.law.floor

    def start(self, space: Space) -> list[Start[Knowledge]]:
        """Return the law's boxes."""
        return [self._start(part) for part in self.law.start(space)]

    def _start(self, part: Start[Knowledge]) -> Start[Knowledge]:
        half = np.array(part.box.sides, dtype=np.float64) / 2
        centre = np.array(part.box.lower, dtype=np.float64) + half
        more = float(self._least(centre[None, :], half)[0])
        return replace(part, exponent=part.exponent + more)

    def widths(self, known: Knowledge) -> Floats | None:
        """Return what the law says."""
        return self.law.widths(known)

    def size(self, known: Knowledge) -> int:
        """Return what the law says."""
        return self.law.size(known)

    def split(self, known: Knowledge, centres: Floats, half: Floats) -> Children[Knowledge]:
        """Bound both summands."""
        children = self.law.split(known, centres, half)
        return replace(children, exponents=children.exponents + self._least(centres, half))

    def _least(self, centres: Floats, half: Floats) -> Floats:
        return self.measure.least(self.space.least_length(centres, half))

    def exponent(self, known: Knowledge, point: Sequence[int], bits: int) -> arb:
        """Return a ball around the sum at a grid point."""
        return self.law.exponent(known, point, bits) + self.measure.at(point)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredPolytopes(Generic[Knowledge]):
    """A law of the polytope engine under a base measure."""

    law: PolytopeLaw[Knowledge]
    measure: BaseMeasure

    @property
    def floor(self) -> float:
        """Return the law's: the second summand is 0 at theta = 0."""
        return self.law.floor

    def start(self) -> Sequence[Part[Knowledge]]:
        """Return the law's polytopes; the second summand is bounded when they are viewed."""
        return self.law.start()

    def view(self, known: Knowledge, polytope: Polytope) -> View[Knowledge]:
        """Bound both summands, and cut where the law says, or else across theta's length."""
        view = self.law.view(known, polytope)
        places = polytope.floats
        signs = np.sign(places.mean(axis=0))
        along = places @ signs
        low, high = self.measure.least(np.array([along.min(), np.abs(places).sum(axis=1).max()]))
        longer = float(high - low)
        cut = view.cut
        if longer > (FLAT_NATS if cut is None else _LONG_NATS):
            cut = Cut.middle(signs, places) or cut
        return View(view.exponent + float(low), view.known, cut)

    def size(self, known: Knowledge) -> int:
        """Return what the law says."""
        return self.law.size(known)

    def exponent(self, known: Knowledge, point: Sequence[int], bits: int) -> arb:
        """Return a ball around the sum at a grid point."""
        return self.law.exponent(known, point, bits) + self.measure.at(point)


_LONG_NATS = 2.0  # where lengths differ by more, they are cut before what the law would cut
