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
from mechanisms.samplers.envelopes import MOST_BYTES, Envelope, Piece
from mechanisms.samplers.polytopes.frame import Frame
from mechanisms.samplers.polytopes.law import Knowledge, PolytopeLaw
from mechanisms.samplers.polytopes.polytope import Cut, Polytope

_MISSES = 16  # a cut costs about as much time as so many points that miss their polytope


_CELL_BYTES = 4000  # a polytope with its frame, its walls and its place in the envelope
_VERTEX_BYTES = 500  # of exact coordinates as Python keeps them


@dataclass(slots=True, eq=False, kw_only=True)
class _Cell(Piece, Generic[Knowledge]):
    polytope: Polytope
    frame: Frame
    known: Knowledge
    cut: Cut | None
    misses: int = 0


class PolytopeCover(Generic[Knowledge]):
    """The polytopes held.

    It may serve several draws: each has the law whatever the cover it starts from.
    """

    def __init__(self, law: PolytopeLaw[Knowledge], *, most_bytes: int = MOST_BYTES) -> None:
        self.law = law
        parts = [self._cell(part.polytope, part.known, part.exponent) for part in law.start()]
        self.envelope = Envelope(law.floor, parts, most_bytes=most_bytes)

    def attempt(self, randomness: Randomness) -> tuple[int, ...] | None:
        """Return the point of one try, or cut the polytope that failed."""
        slot, cell = self.envelope.choose(randomness)
        point = cell.frame.draw_point(randomness)
        inside = cell.polytope.holds(point)
        exponent = partial(self.law.exponent, cell.known, point)
        if inside and self.envelope.keeps(cell, exponent, randomness):
            return point
        cell.misses += not inside
        if cell.points == 1 and not inside:  # its frame holds all of it: there is nothing
            self.envelope.replace(slot, [])
        elif inside or cell.misses >= _MISSES:
            self._split(slot, cell)
        return None

    def _split(self, slot: int, cell: _Cell[Knowledge]) -> None:
        """Replace a polytope by its halves, less what holds nothing."""
        cut = cell.cut or cell.frame.halving(len(cell.polytope.walls))
        if cut is None:  # one point, and its exponent is known
            return
        halves = [cell.polytope.above(half) for half in (cut, cut.opposite())]
        parts = [self._cell(h, cell.known, cell.exponent) for h in halves if h is not None]
        self.envelope.replace(slot, parts)

    def _cell(self, polytope: Polytope, known: Knowledge, least: float) -> _Cell[Knowledge]:
        view, frame = self.law.view(known, polytope), Frame.around(polytope)
        vertices = len(polytope.vertices) * _VERTEX_BYTES
        return _Cell(
            exponent=max(view.exponent, least),
            points=frame.points,
            size=_CELL_BYTES + vertices + self.law.size(view.known),
            polytope=polytope,
            frame=frame,
            known=view.known,
            cut=view.cut,
        )
