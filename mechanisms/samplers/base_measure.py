"""A base measure that gives long theta less weight, under any law of the box and polytope engines.

    P(theta) ∝ exp(-E(theta)) (1 + ||theta||_1)^-p        on the grid points of Theta

It is public: it may be any function of theta alone (Reimherr & Awan 2019, Theorem 3.1), and the
ratio of neighbours' weights stays the same. Without it a bounded gradient gives answers near the
bound where the data contain little information. In the engines' terms the exponent has a second
summand,

    E(theta) + p log(1 + ||theta||_1).

*Bounds.* For any s with entries in [-1, 1], ||theta||_1 >= s'theta. On a box |u - c| <= h that is
at least ``s'V c - |s'V| h``, with the signs s at the middle. On a polytope it is at least its least
value on the vertices, for the best s of entries -1, 0 and 1. All of it in floats, less a certified
margin; the value at a point in balls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Generic

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechanisms.exact.floats import Floats
from mechanisms.samplers.boxes import BoxLaw, Children, Space, Start
from mechanisms.samplers.boxes.space import Knowledge
from mechanisms.samplers.polytopes import FLAT_NATS, Cut, Part, PolytopeLaw, Stack, View

FLAT_ON_GRID = "counting measure on the grid"
FLAT = "Lebesgue"

LARGEST_POWER = 12
"""A larger p costs tries, and wins nothing more."""

_LONG_NATS = 1.0
_MARGIN = 2.0**-40  # relative room for a few float operations on sums of few numbers


def base_power(dimension: int, *, flat: bool) -> int:
    """Return p of the base measure, by the number of coefficients alone; 0 if it is flat."""
    return 0 if flat else min(2 * dimension, max(LARGEST_POWER, dimension))


def base_measure_text(power: int) -> str:
    """Return the base measure of a draw on a grid, as a plan states it."""
    return f"(1 + ||theta||_1)^-{power} on the grid" if power else FLAT_ON_GRID


@dataclass(frozen=True, slots=True)
class BaseMeasure:
    """``(1 + ||theta||_1)^-p`` for theta in grid steps of ``2**-grid_bits``."""

    power: int
    grid_bits: int

    def least(self, length: Floats) -> Floats:
        """Return lower bounds of the second summand where theta is at least so long, in steps."""
        # a lower bound may be below 0
        scaled = np.maximum(length * (1 - _MARGIN), 0) * 2.0**-self.grid_bits
        return np.asarray(self.power * np.log1p(scaled) * (1 - _MARGIN))

    def at(self, point: Sequence[int]) -> arb:
        """Return a ball around it at a grid point."""
        return self.power * (1 + arb(sum(map(abs, point))) * arb((1, -self.grid_bits))).log()


@dataclass(frozen=True, slots=True, eq=False)
class Measured(Generic[Knowledge]):
    """What a law knows of a box, and whether theta's length varies too much on it."""

    known: Knowledge
    long: bool


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredBoxes(Generic[Knowledge]):
    """A law of the box engine under a base measure.

    A box on which the second summand varies much is cut across theta's length first: a direction
    that the data leave open is one that the law would never cut.
    """

    law: BoxLaw[Knowledge]
    measure: BaseMeasure
    space: Space

    @property
    def floor(self) -> float:
        """Return the law's: the second summand is 0 at theta = 0."""
        return self.law.floor

    def start(self, space: Space) -> list[Start[Measured[Knowledge]]]:
        """Return the law's boxes."""
        return [self._start(part) for part in self.law.start(space)]

    def _start(self, part: Start[Knowledge]) -> Start[Measured[Knowledge]]:
        half = np.array(part.box.sides, dtype=np.float64) / 2
        centre = np.array(part.box.lower, dtype=np.float64) + half
        least, long = self._lengths(centre[None, :], half)
        return Start(part.box, part.exponent + float(least[0]), Measured(part.known, bool(long[0])))

    def widths(self, known: Measured[Knowledge]) -> Floats | None:
        """Return how much a unit of each coordinate lengthens theta, or what the law says."""
        if known.long:
            return np.asarray(np.abs(self.space.shear).sum(axis=0))
        return self.law.widths(known.known)

    def size(self, known: Measured[Knowledge]) -> int:
        """Return the bounds of the law."""
        return self.law.size(known.known)

    def split(
        self, known: Measured[Knowledge], centres: Floats, half: Floats
    ) -> Children[Measured[Knowledge]]:
        """Bound both summands."""
        children = self.law.split(known.known, centres, half)
        least, long = self._lengths(centres, half)
        return Children(
            exponents=children.exponents + least,
            knowledge=list(map(Measured, children.knowledge, long.tolist())),
            effort=children.effort,
        )

    def _lengths(self, centres: Floats, half: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return lower bounds of the second summand on boxes, and where it varies too much."""
        shear = self.space.shear
        least = self.measure.least(self.space.least_length(centres, half))
        longest = np.abs(centres @ shear.T).sum(axis=1) + np.abs(shear).sum(axis=0) @ half
        return least, self.measure.least(longest) - least > _LONG_NATS

    def exponent(self, known: Measured[Knowledge], point: Sequence[int], bits: int) -> arb:
        """Return a ball around the sum at a grid point."""
        return self.law.exponent(known.known, point, bits) + self.measure.at(point)


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

    def views(self, known: Sequence[Knowledge], stack: Stack) -> list[View[Knowledge]]:
        """Bound both summands, and cut where the law says, or where theta's length varies more.

        A direction that the data leave open is one that the law would never cut: pieces that are
        thin elsewhere would keep all of its length, and weigh as if theta were short there.
        """
        places = stack.places
        signs = np.sign(stack.means(places))
        # No s'theta is above the length, and each is least at a vertex.
        lengths = (places @ _every_sign(places.shape[2])).min(axis=1).max(axis=1)
        rounding = _MARGIN * np.abs(places).sum(axis=2).max(axis=1)
        along = (places @ signs[:, :, None])[:, :, 0]
        both = np.minimum(places.max(axis=1), -places.min(axis=1))  # how far on the other side
        low, high = along.min(axis=1), along.max(axis=1)
        ends = np.stack([lengths - rounding, low, high, low + 2 * both.max(axis=1)])
        nats = self.measure.least(ends).T.tolist()
        found = []
        for k, view in enumerate(self.law.views(known, stack)):
            least, shortest, longest, turned = nats[k]
            cut = None
            # where the measure varies by less than a cut gains, there is no better one
            if max(longest, turned) - shortest >= (view.gain if view.cut else FLAT_NATS):
                cut = _through(both[k]) if turned > longest else Cut.middle(signs[k], places[k])
            found.append(
                View(view.exponent + least, view.known, cut or view.cut, effort=view.effort)
            )
        return found

    def size(self, known: Knowledge) -> int:
        """Return the bounds of the law."""
        return self.law.size(known)

    def exponent(self, known: Knowledge, point: Sequence[int], bits: int) -> arb:
        """Return a ball around the sum at a grid point."""
        return self.law.exponent(known, point, bits) + self.measure.at(point)


def _through(sizes: Floats) -> Cut:
    """Return the cut where the entry of the largest size is 0."""
    across = int(sizes.argmax())
    return Cut(tuple(int(j == across) for j in range(len(sizes))), 0)


@cache
def _every_sign(dimension: int) -> Floats:
    """Return, as columns, all s whose entries are -1, 0 or 1."""
    return np.array(list(product((-1.0, 0.0, 1.0), repeat=dimension))).T
