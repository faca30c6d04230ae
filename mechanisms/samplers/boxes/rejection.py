"""Adaptive rejection on boxes, exact.

The boxes held always cover Theta without overlap, and are the pieces of an envelope
(:mod:`mechanisms.samplers.envelopes`, where it is shown why draws are exact): each carries a
certified lower bound of the exponent. A try that fails splits its box, which raises bounds.

*Time.* It depends on the data. A caller that must hide it answers at a public time
(for example at the ticks of a clock, with a deadline no draw is expected to reach).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic

import numpy as np

from mechanisms.exact.floats import Floats, working_precision
from mechanisms.randomness import Randomness
from mechanisms.samplers.boxes.space import Box, BoxLaw, Knowledge, Space
from mechanisms.samplers.envelopes import MOST_BYTES, Envelope, Piece, first_kept

LEAST_MS = 100.0
"""No draw on boxes is reckoned to be shorter than this, in milliseconds.

What is reckoned is for rows spread evenly. Others may take several times as long.
"""

_PARTS = 4  # a box is cut into at most four


_CELL_BYTES = 2000  # a box with its place in the envelope


@dataclass(slots=True, eq=False, kw_only=True)
class _Cell(Piece, Generic[Knowledge]):
    box: Box
    known: Knowledge


class Cover(Generic[Knowledge]):
    """The boxes held.

    It may serve several draws: each has the law whatever the cover it starts from.
    """

    def __init__(
        self, law: BoxLaw[Knowledge], space: Space, *, most_bytes: int = MOST_BYTES
    ) -> None:
        self.law = law
        self.space = space
        parts = [self._cell(part.box, part.exponent, part.known) for part in law.start(space)]
        self.envelope = Envelope(law.floor, parts, most_bytes=most_bytes)

    def draw(self, randomness: Randomness) -> tuple[int, ...]:
        """Return the first accepted point."""
        return first_kept([self], randomness)

    def attempt(self, randomness: Randomness) -> tuple[int, ...] | None:
        """Return the point of one try, or split the box that failed."""
        slot, cell = self.envelope.choose(randomness)
        point = self.space.draw_point(cell.box, randomness)
        exponent = partial(self.law.exponent, cell.known, point)
        if self.space.holds(point) and self.envelope.keeps(cell, exponent, randomness):
            return point
        # Boxes with much weight fail most often, so bounds get better where it matters.
        self.envelope.replace({slot: list(self._parts(cell))})
        return None

    def _parts(self, cell: _Cell[Knowledge]) -> Iterator[_Cell[Knowledge]]:
        """Yield the parts of a box, less those outside Theta; a point with its exact bound."""
        if cell.points == 1:
            yield from self._settled(cell)
            return
        boxes = cell.box.parts(_counts(cell.box, self.law.widths(cell.known)))
        lower = np.array([box.lower for box in boxes], dtype=np.float64)
        sides = np.array([box.sides for box in boxes], dtype=np.float64)
        # parts differ by one step at most: the widest holds for all
        centres, half = lower + sides / 2, sides.max(axis=0) / 2
        kept = ~self.space.outside(centres, half)
        if not kept.any():
            return
        children = self.law.split(cell.known, centres[kept], half)
        self.envelope.effort += int(children.effort)
        inside = [box for box, keep in zip(boxes, kept, strict=True) if keep]
        for box, exponent, known in zip(
            inside, children.exponents.tolist(), children.knowledge, strict=True
        ):
            # the whole box's bound holds for its parts too
            yield self._cell(box, max(exponent, cell.exponent), known)

    def _settled(self, cell: _Cell[Knowledge]) -> Iterator[_Cell[Knowledge]]:
        """Yield a single point with (nearly) its own exponent, or nothing outside Theta."""
        point = self.space.point(cell.box, [0] * self.space.dimension)
        if self.space.holds(point):
            # one float lower, since float() may round up
            with working_precision(128):
                low = math.nextafter(
                    float(self.law.exponent(cell.known, point, 128).lower()), -math.inf
                )
            yield self._cell(cell.box, max(low, cell.exponent), cell.known)

    def _cell(self, box: Box, exponent: float, known: Knowledge) -> _Cell[Knowledge]:
        size = _CELL_BYTES + self.law.size(known)
        return _Cell(exponent=exponent, points=box.points, size=size, box=box, known=known)


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


def _counts(box: Box, widths: Floats | None) -> list[int]:
    """Return into how many parts to cut each side: those that matter most, four parts in all."""
    sides = np.array([float(side) for side in box.sides])
    # Where no side that can be cut matters, the longest is cut: the box has to get smaller.
    score = sides * widths if widths is not None and (sides * widths)[sides > 1].any() else sides
    counts = [1] * len(sides)
    left = _PARTS
    while left > 1:
        ratio = [
            score[j] / counts[j] if counts[j] * 2 <= box.sides[j] else -1.0  # a part holds a point
            for j in range(len(sides))
        ]
        best = int(np.argmax(ratio))
        if ratio[best] < 0:
            break
        counts[best] *= 2
        left //= 2
    return counts
