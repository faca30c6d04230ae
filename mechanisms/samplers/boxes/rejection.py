"""Adaptive rejection on boxes, exact.

The boxes held always cover Theta without overlap. Box b carries a certified lower
bound e_b of the exponent E on it, and the integer weight

    W_b >= 2**_SCALE * exp(-(e_b - reference))

per grid point, ``points(b) W_b`` in all. One try chooses a box by weight, one of its
points theta uniformly, and keeps it with probability ``2**_SCALE exp(-(E(theta) -
reference)) / W_b``, at most 1. A try that fails splits its box, which lowers bounds.

*Why this is exact.* Given everything that happened before a try, the pair (box, point)
is a given theta with probability W_b / sum(points W); it is kept with the ratio above.
So theta is kept with probability exp(-E(theta)) times a factor that does not depend on
theta: given that this try succeeds, theta has the law, whatever the history. The
number of tries, the boxes and the reference depend on the data and on earlier tries;
they decide when the draw ends, not what it is, and are not released.

The choice is by exact integers. The ratio is irrational and is compared with a
uniform number in ball arithmetic, with more bits of both until it is decided.

*Time.* It depends on the data. A caller that must hide it answers at a public time
(for example at the ticks of a clock, with a deadline no draw is expected to reach).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats
from mechanisms.exact.certainty import exceeds, settled
from mechanisms.exact.rounding import working_precision
from mechanisms.randomness import Randomness
from mechanisms.samplers.boxes.law import BoxLaw, Knowledge
from mechanisms.samplers.boxes.space import Box, Space
from mechanisms.samplers.boxes.tree import SumTree

LEAST_MS = 100.0
"""No draw is reckoned to be shorter than this."""

_GUARD_BITS = 64  # more than the exponential of an exponent can lose
_SCALE = 512  # bits of a box's integer weight
_LEAST = -318.0  # lighter boxes are weighed as if this heavy; e**-318 > 2**(52 - _SCALE)
_REBASE_BITS = 120  # the weights are written anew before they outgrow the scale
_PARTS = 4  # a box is cut into at most four


def expected_ms(*, dimension: int, rows: int) -> float:
    """Return about how many milliseconds a draw takes where the rows are spread evenly.

    It grows tenfold with each dimension. Rows that all but determine a coefficient, or
    all but fail to, can make a draw hundreds of times longer, however few they are.
    """
    return max(LEAST_MS, 10.0 ** (dimension - 1) * (1 + 0.1 * math.sqrt(rows)))


@dataclass(slots=True)
class _Cell(Generic[Knowledge]):
    box: Box
    exponent: float
    known: Knowledge


class Cover(Generic[Knowledge]):
    """The boxes held, with their weights relative to a reference exponent.

    It may serve several draws: each has the law whatever the cover it starts from.
    """

    def __init__(self, law: BoxLaw[Knowledge], space: Space) -> None:
        self.law = law
        self.space = space
        self.cells: list[_Cell[Knowledge] | None] = []
        self.reference = law.floor
        self.tree = SumTree()
        self.free: list[int] = []
        for part in law.start(space):
            self.add(_Cell(part.box, part.exponent, part.known))
        self.rebase()

    def add(self, cell: _Cell[Knowledge]) -> None:
        if self.free:
            slot = self.free.pop()
            self.cells[slot] = cell
        else:
            slot = len(self.cells)
            self.cells.append(cell)
        self.tree.set(slot, cell.box.points * self.weight(cell))

    def remove(self, slot: int) -> None:
        self.cells[slot] = None
        self.tree.set(slot, 0)
        self.free.append(slot)

    def weight(self, cell: _Cell[Knowledge]) -> int:
        """Return W_b: rounded up, exp's own error (below 2**-50) and the product's included."""
        log2 = max(self.reference - cell.exponent, _LEAST) * math.log2(math.e)
        whole = math.floor(log2)
        mantissa = math.ceil(2.0 ** (log2 - whole) * (1 + 2.0**-36) * 2.0**52)
        return int(mantissa) << (_SCALE - 52 + whole)

    def rebase(self) -> None:
        """Measure from the least exponent held once all weights have become small."""
        if self.tree.total.bit_length() >= _SCALE - _REBASE_BITS:
            return
        held = [cell for cell in self.cells if cell is not None]
        # Boxes that were split have grown lighter: measured anew, weights keep their digits.
        self.reference = min(cell.exponent for cell in held)
        self.cells = list(held)
        self.free = []
        self.tree = SumTree(cell.box.points * self.weight(cell) for cell in held)

    def draw(self, randomness: Randomness) -> tuple[int, ...]:
        """Try until a point is kept, and return it; the boxes that failed have been split."""
        while True:
            slot = self.tree.choose(randomness)
            cell = self.cells[slot]
            assert cell is not None
            point = self.space.draw_point(cell.box, randomness)
            if self.space.holds(point) and _kept(self, cell, point, randomness):
                return point
            self.split(slot)
            self.rebase()

    def split(self, slot: int) -> None:
        """Replace a box by its parts, less those outside Theta; a point by its exact bound."""
        cell = self.cells[slot]
        assert cell is not None
        self.remove(slot)
        if cell.box.points == 1:
            self._settle(cell)
            return
        boxes = cell.box.parts(_counts(cell.box, self.law.widths(cell.known)))
        lower = np.array([box.lower for box in boxes], dtype=np.float64)
        sides = np.array([box.sides for box in boxes], dtype=np.float64)
        centres, half = lower + sides / 2, sides.max(axis=0) / 2
        kept = ~self.space.outside(centres, half)
        if not kept.any():
            return
        children = self.law.split(cell.known, centres[kept], half)
        inside = [box for box, keep in zip(boxes, kept, strict=True) if keep]
        for box, exponent, known in zip(
            inside, children.exponents.tolist(), children.knowledge, strict=True
        ):
            self.add(_Cell(box, max(exponent, cell.exponent), known))

    def _settle(self, cell: _Cell[Knowledge]) -> None:
        """Put back a single point with (nearly) its own exponent, or drop it outside Theta."""
        point = self.space.point(cell.box, [0] * self.space.dimension)
        if self.space.holds(point):
            with working_precision(128):
                low = math.nextafter(
                    float(self.law.exponent(cell.known, point, 128).lower()), -math.inf
                )
            self.add(_Cell(cell.box, max(low, cell.exponent), cell.known))


def draw(law: BoxLaw[Knowledge], space: Space, randomness: Randomness) -> tuple[int, ...]:
    """Return theta with probability proportional to exp(-E(theta)) among Theta's grid points.

    Parameters
    ----------
    law
        Lower bounds and values of E.
    space
        Theta, and the coordinates boxes are cut in.

    Returns
    -------
    tuple of int
        theta, in grid steps.
    """
    return Cover(law, space).draw(randomness)


def _kept(
    cover: Cover[Knowledge],
    cell: _Cell[Knowledge],
    point: Sequence[int],
    randomness: Randomness,
) -> bool:
    """Decide ``u W_b < 2**_SCALE exp(reference - E(theta))`` for a lazily drawn uniform u."""
    uniform, weight = randomness.uniform(), cover.weight(cell)

    def look(bits: int) -> bool | None:
        exponent = cover.law.exponent(cell.known, point, bits + _GUARD_BITS)
        density = (arb(cover.reference) - exponent).exp() * arb((1, _SCALE))
        return exceeds(density, uniform.enclose(bits) * weight)

    return settled(look, guard_bits=_GUARD_BITS)


def _counts(box: Box, widths: Floats | None) -> list[int]:
    """Return into how many parts to cut each side: those that matter most, four parts in all."""
    sides = np.array([float(side) for side in box.sides])
    score = sides * widths if widths is not None and (sides * widths)[sides > 1].any() else sides
    counts = [1] * len(sides)
    left = _PARTS
    while left > 1:
        ratio = [
            score[j] / counts[j] if counts[j] * 2 <= box.sides[j] else -1.0
            for j in range(len(sides))
        ]
        best = int(np.argmax(ratio))
        if ratio[best] < 0:
            break
        counts[best] *= 2
        left //= 2
    return counts
