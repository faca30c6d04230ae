"""The check loss over more rows than memory holds, as a law of the box engine.

A box is *held* where its open records are in memory; of all other rows exact sums are known, and
the law there is an ordinary one of few records. Every other box is *unread*. Where a try falls on
one, a pass over the rows holds it if few enough are open on it. Else a pass gives the point's
exponent, an exact sum over all rows; and another one bounds the box's parts, by sums as well.

A draw starts at a held box around the minimiser. The rest of Theta is bounded from the records of
that box and has almost no weight. So a draw rarely reads rows again, and is exact if it does. No
data are refused: a poor start costs passes, and so does a small epsilon, which leaves most rows
open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from mechanisms.exact.balls import rational
from mechanisms.exact.many import Floats
from mechanisms.objectives.check_loss.approach import approach
from mechanisms.objectives.check_loss.law import CheckLossLaw, Undecided
from mechanisms.objectives.check_loss.passes import Sifted
from mechanisms.objectives.check_loss.stored import StoredRows
from mechanisms.samplers.boxes import Box, Children, Space, Start

_BOXES = 4  # boxes held besides the first one, each with a part of its capacity
_UNREAD_BYTES = 100  # of a box whose rows have not been read yet
_RECORD_BYTES = 240  # of a record that is held, with four coefficients


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A box whose open records are in memory, and its share of the bytes they take.

    Those of a draw's first box are there whatever becomes of its parts, and are no part's.
    """

    law: CheckLossLaw
    known: Undecided
    share: int


@dataclass(frozen=True, slots=True, eq=False)
class Unread:
    """A box ``|u - centre| <= half`` whose open records are not in memory."""

    centre: Floats
    half: Floats

    @classmethod
    def of(cls, box: Box) -> Unread:
        """Return a box that is not read."""
        half = np.array(box.sides) / 2
        return cls(np.array(box.lower) + half, half)


class StoredLaw:
    """One of the two laws, ``E(theta) = rate * value(theta)``, on boxes that are held or not."""

    floor = 0.0

    def __init__(self, rows: StoredRows, rate: Fraction) -> None:
        self.rows = rows
        self.rate = rate
        self._most = rows.limits.held // _BOXES
        self._read: tuple[Unread, Held | None] | None = None
        self._last: tuple[tuple[int, ...], Fraction] | None = None
        shear = rows.grid.space.shear
        squares = shear.T @ rows.surveyed.gram[:-1, :-1].astype(np.float64) @ shear
        self._widths = np.sqrt(np.maximum(np.diag(squares), 0))

    def start(self, space: Space) -> list[Start[Held | Unread]]:
        """Return boxes that cover Theta, the one at the minimiser held."""
        root, near = space.root(), approach(self.rows)
        if near is None:
            return [Start(root, self.floor, Unread.of(root))]
        parts: list[Start[Held | Unread]] = [
            Start(slab, bound, Unread.of(slab)) for slab, bound in near.shells(root)
        ]
        for part in near.parts:
            parts.append(Start(part.box, part.exponent, Held(near.law, part.known, share=0)))
        return parts

    def widths(self, known: Held | Unread) -> Floats | None:
        """Return how far a unit of each coordinate moves the open records, or all."""
        return known.law.widths(known.known) if isinstance(known, Held) else self._widths

    def size(self, known: Held | Unread) -> int:
        """Return about how many bytes the knowledge of one box takes."""
        return (
            known.share + known.law.size(known.known) if isinstance(known, Held) else _UNREAD_BYTES
        )

    def split(self, known: Held | Unread, centres: Floats, half: Floats) -> Children[Held | Unread]:
        """Bound E on boxes; by a pass over the rows where the box known is not held."""
        held = self._held(known)
        if held is not None:
            children = held.law.split(held.known, centres, half)
            share = held.share // len(centres)
            return Children(
                children.exponents,
                [Held(held.law, part, share) for part in children.knowledge],
                children.effort,
            )
        found, _, _ = self.rows.sift(centres, half, self._most)
        low, parts = [], []
        for each, centre in zip(found, centres, strict=True):
            bound, part = self._part(each, Unread(centre, half))
            low.append(bound)
            parts.append(part)
        return Children(np.array(low), parts)

    def _part(self, found: Sifted, box: Unread) -> tuple[float, Held | Unread]:
        """Return a bound of E on a box, and its records where they can be held."""
        if found.table is None:
            return self.rows.bound(found, box.centre, box.half), box
        law = self.rows.held(found, found.table)
        children = law.split(law.root(), box.centre[None, :], box.half)
        share = _RECORD_BYTES * len(law.records.y)
        return float(children.exponents[0]), Held(law, children.knowledge[0], share)

    def _held(self, known: Held | Unread) -> Held | None:
        """Return a box with its open records, read once if they may fit; else None."""
        if isinstance(known, Held):
            return known
        # The last box is cached: a box with a try is read several times.
        if self._read is None or self._read[0] is not known:
            part: Held | Unread = known
            if self.rows.may_hold(known.centre, known.half, self._most):
                [found], _, _ = self.rows.sift(known.centre[None, :], known.half, self._most)
                _, part = self._part(found, known)
            self._read = known, part if isinstance(part, Held) else None
        return self._read[1]

    def exponent(self, known: Held | Unread, point: Sequence[int], bits: int) -> arb:
        """Return a ball around E, from integers; by a pass where the box is not held."""
        held = self._held(known)
        if held is not None:
            return held.law.exponent(held.known, point, bits)
        return rational(self.rate * self._value(tuple(point)))

    def _value(self, point: tuple[int, ...]) -> Fraction:
        if self._last is None or self._last[0] != point:  # asked again with more bits
            self._last = point, self.rows.value(point)
        return self._last[1]
