"""Adaptive rejection on polytopes, exact.

The polytopes held cover Theta without overlap: a cut's two halves hold each grid point once.
Points of one are proposed from its frame (:mod:`mechanisms.samplers.polytopes.frame`), which holds
it, so this is the rejection of :mod:`mechanisms.samplers.envelopes`, and exact for its reasons. A
point kept or not for its exponent has its polytope cut where the law asks for it; one that missed
its polytope too often has it halved, which makes frames fit.

Cuts may lie in any direction, so that a long and thin set of good points costs few polytopes, where
boxes of fixed directions would have to follow its thinness along all of its length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Generic

from mechanisms.randomness import Randomness
from mechanisms.samplers.envelopes import Envelope, first_kept
from mechanisms.samplers.polytopes.frame import Frame
from mechanisms.samplers.polytopes.law import Knowledge, PolytopeLaw
from mechanisms.samplers.polytopes.polytope import Cut, Polytope

_MISSES = 16  # a cut costs about as much time as so many points that miss their polytope


@dataclass(slots=True)
class _Cell(Generic[Knowledge]):
    polytope: Polytope
    frame: Frame
    exponent: float
    known: Knowledge
    cut: Cut | None
    misses: int = 0

    @property
    def points(self) -> int:
        return self.frame.points


class PolytopeCover(Generic[Knowledge]):
    """The polytopes held.

    It may serve several draws: each has the law whatever the cover it starts from.
    """

    def __init__(self, law: PolytopeLaw[Knowledge]) -> None:
        self.law = law
        self.envelope: Envelope[_Cell[Knowledge]] = Envelope(law.floor)
        for part in law.start():
            self._add(part.polytope, part.known, part.exponent)
        self.envelope.rebase()

    def draw(self, randomness: Randomness) -> tuple[int, ...]:
        """Return the first point kept."""
        return first_kept([self], randomness)

    def attempt(self, randomness: Randomness) -> tuple[int, ...] | None:
        """Return the point of one try, or cut the polytope that failed."""
        slot, cell = self.envelope.choose(randomness)
        point = cell.frame.draw_point(randomness)
        inside = cell.polytope.holds(point)
        exponent = partial(self.law.exponent, cell.known, point)
        if inside and self.envelope.keeps(cell, exponent, randomness):
            return point
        cell.misses += not inside
        if inside or cell.points == 1 or cell.misses >= _MISSES:
            self._split(slot, cell, empty=not inside and cell.points == 1)
        return None

    def _split(self, slot: int, cell: _Cell[Knowledge], *, empty: bool) -> None:
        """Replace a polytope by its halves, less what holds nothing."""
        cut = cell.cut or cell.frame.halving(len(cell.polytope.walls))
        if cut is None and not empty:  # one point, and its exponent is known
            return
        self.envelope.remove(slot)
        for half in (cut, cut.opposite()) if cut is not None and not empty else ():
            polytope = cell.polytope.above(half)
            if polytope is not None:
                self._add(polytope, cell.known, cell.exponent)
        self.envelope.rebase()

    def _add(self, polytope: Polytope, known: Knowledge, least: float) -> None:
        view = self.law.view(known, polytope)
        frame = Frame.around(polytope)
        self.envelope.add(_Cell(polytope, frame, max(view.exponent, least), view.known, view.cut))


def draw_on_polytopes(law: PolytopeLaw[Knowledge], randomness: Randomness) -> tuple[int, ...]:
    """Return theta with probability proportional to exp(-E(theta)) among Theta's grid points."""
    return PolytopeCover(law).draw(randomness)
