"""The hyperplanes of records, and on which side of them a polytope is.

A record is reached on one side of its hyperplane ``x'theta = y`` and missed on the other. Which
records are open on a polytope is read off its vertices: in floats with a certified margin, and in
integers where that leaves it open.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.floats import SPACING
from mechanisms.objectives.check_loss.law import CheckLossLaw, Undecided
from mechanisms.objectives.starts import on_polytopes
from mechanisms.samplers.polytopes import Cut, Part, Polytope

_CHUNK_ROWS = 1 << 14  # keeps the table of vertices and records small
_LOOK = 24.0  # cost in tries of bounding a polytope, without its records
_RECORDS = 60  # this many records of a polytope cost one more try


class Arrangement:
    """The hyperplanes of distinct records, and which of them cross a polytope."""

    def __init__(self, law: CheckLossLaw) -> None:
        self.law = law
        self.records = law.records
        self.xy = law.xy
        x = self.records.x
        self.codes = x.astype(np.float64)
        self.root = law.root()
        self.unread = replace(self.root)
        # hyperplanes of many records, on long rows, decide most
        self.weight = self.records.counts * np.abs(x).max(axis=1, initial=0)

    def decide(self, known: Undecided, polytope: Polytope) -> Undecided:
        """Return the knowledge of a polytope inside a known one."""
        if not known.count:
            return known
        every, reached, pieces = known.index, known.reached, []
        for start in range(0, len(every), _CHUNK_ROWS):
            index = every[start : start + _CHUNK_ROWS]
            low, high = self._signs(index, polytope)
            reached = reached + self.xy[index[low >= 0]].sum(axis=0)
            pieces.append(index[(low < 0) & (high >= 0)])
        return Undecided.of(np.concatenate(pieces), reached, known.width, records=len(self.xy))

    def effort(self, known: Undecided) -> float:
        """Return the cost of bounding a polytope inside a known one, in tries."""
        return _LOOK + known.count / _RECORDS

    def begun(self) -> list[Part[Undecided]]:
        """Return the boxes' start as polytopes: what is far from a minimiser is bounded.

        Nothing is decided outside of the inner box, where hardly any weight is: what is known there
        is :attr:`unread`, and :attr:`root` on the parts.
        """
        starts = self.law.start(self.records.space)
        return on_polytopes(self.records.space, starts, starts[0].known, self.unread)

    def whole(self) -> Part[Undecided]:
        """Return Theta, every record open."""
        theta = Polytope.cross(self.records.x.shape[1], self.records.space.radius)
        return Part(theta, self.law.floor, self.law.root())

    def heaviest(self, index: NDArray[np.int32]) -> Cut | None:
        """Return the hyperplane that decides most of some records, or None for no record."""
        return self.hyperplane(int(index[np.argmax(self.weight[index])])) if len(index) else None

    def hyperplane(self, record: int) -> Cut:
        """Return a record's hyperplane, the record reached on its upper side."""
        row = tuple(self.records.x[record].tolist())
        return Cut(row, int(self.records.threshold[record]))

    def _signs(
        self, index: NDArray[np.int32], polytope: Polytope
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the least and the largest sign of each record's position on the vertices."""
        places, x = polytope.floats, self.codes[index]
        target = self.records.target[index]
        distance = places @ x.T - target
        margin = np.abs(places) @ np.abs(x).T + np.abs(target)
        margin *= (places.shape[1] + 4) * SPACING
        signs = np.sign(distance).astype(np.int64)
        # Where floats do not determine the sign, the equation is evaluated in integers.
        for vertex, which in np.argwhere(np.abs(distance) <= margin):
            side = self.hyperplane(int(index[which])).side(polytope.vertices[vertex])
            signs[vertex, which] = (side > 0) - (side < 0)
        return signs.min(axis=0), signs.max(axis=0)
