"""The check loss over rows that are too many to hold, as a law of the box engine.

A box is *held* where its open records are in memory; of all other rows exact sums are known, and
the law there is an ordinary one of few records. Every other box is *unread*: what is asked about
it takes a pass over the rows. A point's exponent is an exact sum over all rows, and the parts of
a box are bounded by sums as well. Parts with few open records are held from then on.

A draw starts at a box around the minimiser that is held. What lies outside is bounded from its
records and weighs next to nothing. So a draw hardly ever reads rows again, and where it does it is
as exact as anywhere. Nothing is refused: a start that is poor, or an epsilon so small that most
rows stay open, costs passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats
from mechanisms.exact.balls import rational
from mechanisms.objectives.check_loss.approach import approach
from mechanisms.objectives.check_loss.law import CheckLossLaw, Undecided
from mechanisms.objectives.check_loss.passes import Sifted
from mechanisms.objectives.check_loss.stored import StoredRows
from mechanisms.samplers.boxes import Children, Space, Start

_UNREAD_BYTES = 100
_RECORD_BYTES = 240  # of a record that is held, with four coefficients


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A box whose open records are in memory, and its share of the bytes they take.

    Those of a draw's first box are there whatever becomes of its parts, and are no part's.
    """

    law: CheckLossLaw
    known: Undecided
    share: int


class StoredLaw:
    """One of the two laws, ``E(theta) = rate * value(theta)``, on boxes that are held or not.

    What is known of a box that is not held is None.
    """

    floor = 0.0

    def __init__(self, rows: StoredRows, rate: Fraction) -> None:
        self.rows = rows
        self.rate = rate
        self._last: tuple[tuple[int, ...], Fraction] | None = None
        shear = rows.grid.space.shear
        squares = shear.T @ rows.surveyed.gram[:-1, :-1].astype(np.float64) @ shear
        self._widths = np.sqrt(np.maximum(np.diag(squares), 0))

    def start(self, space: Space) -> list[Start[Held | None]]:
        """Return boxes that cover Theta, the one at the minimiser held."""
        root, near = space.root(), approach(self.rows)
        if near is None:
            return [Start(root, self.floor, None)]
        parts: list[Start[Held | None]] = [
            Start(slab, near.outside, None) for slab in root.less(near.box)
        ]
        for part in near.parts:
            parts.append(Start(part.box, part.exponent, Held(near.law, part.known, share=0)))
        return parts

    def widths(self, known: Held | None) -> Floats | None:
        """Return how far a unit of each coordinate moves the open records, or all."""
        return self._widths if known is None else known.law.widths(known.known)

    def size(self, known: Held | None) -> int:
        """Return about how many bytes the knowledge of one box takes."""
        return _UNREAD_BYTES if known is None else known.share + known.law.size(known.known)

    def split(self, known: Held | None, centres: Floats, half: Floats) -> Children[Held | None]:
        """Bound E on boxes; by a pass over the rows where the box known is not held."""
        if known is not None:
            children = known.law.split(known.known, centres, half)
            share = known.share // len(centres)
            return Children(
                children.exponents, [Held(known.law, part, share) for part in children.knowledge]
            )
        found, _, _ = self.rows.sift(centres, half)
        parts = [
            self._part(each, centre, half) for each, centre in zip(found, centres, strict=True)
        ]
        return Children(np.array([low for low, _ in parts]), [part for _, part in parts])

    def _part(self, found: Sifted, centre: Floats, half: Floats) -> tuple[float, Held | None]:
        """Return a bound of E on a box, and its records where they can be held."""
        if found.table is None:
            return self.rows.bound(found, centre, half), None
        law = self.rows.held(found, found.table)
        children = law.split(law.root(), centre[None, :], half)
        share = _RECORD_BYTES * len(law.records.y)
        return float(children.exponents[0]), Held(law, children.knowledge[0], share)

    def exponent(self, known: Held | None, point: Sequence[int], bits: int) -> arb:
        """Return a ball around E, from integers; by a pass where the box is not held."""
        if known is not None:
            return known.law.exponent(known.known, point, bits)
        return rational(self.rate * self._value(tuple(point)))

    def _value(self, point: tuple[int, ...]) -> Fraction:
        if self._last is None or self._last[0] != point:  # asked again with more bits
            self._last = point, self.rows.value(point)
        return self._last[1]
