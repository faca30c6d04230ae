"""Adaptive rejection on polytopes, exact.

The polytopes held cover Theta without overlap: a cut's two halves hold each grid point once.
Points of one are proposed from its frame (:mod:`mechanisms.samplers.polytopes.polytope`), which
holds it. So this is the rejection of :mod:`mechanisms.samplers.envelopes`, exact for the same
reasons. A point rejected by its exponent has its polytope cut where the law asks for it. A polytope
that proposals miss too often is halved, so that frames fit.

Polytopes that failed are cut in small groups: an operation on arrays takes about as long for eight
halves as for two. Until then they stay in use, and a second failure of one cuts the whole group.
When and where a polytope is cut affects the cost only.

Cuts may lie in any direction, so that a long and thin set of good points costs few polytopes, where
boxes of fixed directions would have to follow its thinness along all of its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import Generic

from mechanisms.randomness import Randomness
from mechanisms.samplers.envelopes import MOST_BYTES, Envelope, Piece
from mechanisms.samplers.polytopes.polytope import (
    Cut,
    Frame,
    Knowledge,
    Part,
    Polytope,
    PolytopeLaw,
    Stack,
)

_TOGETHER = 4  # polytopes that failed are cut in groups of this size
_MISSES = 16  # a cut takes about as long as this many points that miss their polytope
_CELL_BYTES = 4000  # a polytope with its frame, its walls and its place in the envelope
_VERTEX_BYTES = 500  # of exact coordinates as Python keeps them


@dataclass(slots=True, eq=False, kw_only=True)
class _Cell(Piece, Generic[Knowledge]):
    polytope: Polytope
    frame: Frame
    known: Knowledge
    cut: Cut | None
    effort: float
    misses: int = 0


def _is_to_be_cut(cell: _Cell[Knowledge], *, inside: bool) -> bool:
    """Return whether a polytope is worth cutting after a point in it was tried."""
    if inside:  # of a single point without a cut the exponent is known
        return cell.cut is not None or cell.points > 1
    # all points of a small frame can be checked: the polytope may hold none
    return cell.points <= _MISSES or cell.misses >= _MISSES


def _is_empty(polytope: Polytope, frame: Frame) -> bool:
    """Return whether a polytope in a small frame holds no grid point."""
    if frame.points > _MISSES:
        return False
    return not any(map(polytope.holds, map(frame.point, product(*map(range, frame.sides)))))


def _parted(cell: _Cell[Knowledge]) -> Sequence[Polytope | None]:
    """Return the halves by the first cut that parts a polytope; else the polytope itself.

    A cut may miss the polytope: the law's by rounding, and one of its slightly wider frame.
    """
    turn = len(cell.polytope.walls)
    halvings = (cell.frame.halving(turn + k) for k in range(len(cell.frame.sides)))
    for cut in filter(None, (cell.cut, *halvings)):
        halves = cell.polytope.halves(cut)
        if None not in halves:
            return halves
    return [cell.polytope]


class PolytopeCover(Generic[Knowledge]):
    """The polytopes held.

    It may serve several draws: each has the law whatever the cover it starts from.
    """

    def __init__(self, law: PolytopeLaw[Knowledge], *, most_bytes: int = MOST_BYTES) -> None:
        self.law = law
        self.envelope = Envelope(law.floor, self._cells(law.start()), most_bytes=most_bytes)
        self._waiting: dict[int, _Cell[Knowledge]] = {}

    def attempt(self, randomness: Randomness) -> tuple[int, ...] | None:
        """Return the point of one try, or have the polytope that failed cut."""
        slot, cell = self.envelope.choose(randomness)
        point = cell.frame.draw_point(randomness)
        inside = cell.polytope.holds(point)
        exponent = partial(self.law.exponent, cell.known, point)
        if inside and self.envelope.keeps(cell, exponent, randomness):
            return point
        cell.misses += not inside
        if _is_to_be_cut(cell, inside=inside):
            again = slot in self._waiting
            self._waiting[slot] = cell
            if again or len(self._waiting) >= _TOGETHER:
                self._split()
        return None

    def _split(self) -> None:
        """Replace the polytopes that wait by their halves."""
        halves = {slot: self._halves(cell) for slot, cell in self._waiting.items()}
        cells = self._cells([part for parts in halves.values() for part in parts])
        self.envelope.effort += int(sum(cell.effort for cell in cells))
        found = iter(cells)
        self.envelope.replace(
            {slot: list(islice(found, len(parts))) for slot, parts in halves.items()}
        )
        self._waiting.clear()

    def _halves(self, cell: _Cell[Knowledge]) -> list[Part[Knowledge]]:
        """Return the halves of a polytope, less what holds nothing."""
        if cell.misses and _is_empty(cell.polytope, cell.frame):
            return []
        halves = [half for half in _parted(cell) if half is not None]
        return [Part(half, cell.exponent, cell.known) for half in halves]

    def _cells(self, parts: Sequence[Part[Knowledge]]) -> list[_Cell[Knowledge]]:
        """Return parts with the law's bounds on them, computed together."""
        if not parts:
            return []
        stack = Stack([part.polytope for part in parts])
        views = self.law.views([part.known for part in parts], stack)
        return [
            _Cell(
                exponent=max(view.exponent, part.exponent),
                points=frame.points,
                size=_CELL_BYTES
                + len(part.polytope.vertices) * _VERTEX_BYTES
                + self.law.size(view.known),
                polytope=part.polytope,
                frame=frame,
                known=view.known,
                cut=view.cut,
                effort=view.effort,
            )
            for part, view, frame in zip(parts, views, Frame.around(stack), strict=True)
        ]
