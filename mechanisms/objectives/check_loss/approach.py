"""More rows than memory holds: the box around the minimiser whose open records are held.

A fit of a sample is off by some standard errors. In a box of that size few of all rows are open.
If they are still too many to hold, a sample of them with the exact sums of the others gives a fit
that is better by the square root of the sample's size, and so on. The box is wide enough when the
rest of Theta certainly has little weight; otherwise a wider one is tried. At a small epsilon too
many records stay open; then the box is narrower, and a draw may fall outside it.

Everything except the sums and the bounds on boxes is a hint. Where hints fail, Theta stays unread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mechanisms.exact.many import Floats
from mechanisms.objectives.check_loss.law import CheckLossLaw, Undecided
from mechanisms.objectives.check_loss.narrowing import is_enough, least_outside, near_minimiser
from mechanisms.objectives.check_loss.passes import Sifted
from mechanisms.objectives.check_loss.search import Hint, search
from mechanisms.objectives.check_loss.stored import StoredRows
from mechanisms.samplers.boxes import Box, Start
from mechanisms.samplers.boxes.space import box_around, box_within

_STAGES = 10  # passes for a start at most; one or two are usual
_WIDER = 4.0  # times a box: the next one, where its fit lies outside
_FILLED = 0.5  # of what can be held: where that is too little, a narrower box is taken
_ROOMY = 1 / 16  # of what can be held: a box of fewer records would be no quicker
_LEAST = 1 / 64  # of the reach wanted: narrower, a box has too little of the mass
_ROUNDING = 2.0**-40  # relative room for the float operations of a bound
_INSIDE = 0.9  # of a box: a fit nearer to its edge may lie outside of it


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """The law of the records held, boxes that cover theirs, and a bound of E outside of it.

    ``point`` is where rays start from that the bound is for.
    """

    law: CheckLossLaw
    box: Box
    parts: list[Start[Undecided]]
    point: Floats
    outside: float

    @property
    def least(self) -> float:
        """Return a lower bound of E at the point."""
        return self.law.least_at(self.parts[0].known, self.point)

    def shells(self, theta: Box) -> Iterator[tuple[Box, float]]:
        """Yield boxes that cover the rest of Theta, each with a bound of E there.

        A shell is between the box scaled by ``times`` about the point and by twice that.
        """
        least, inner, times = self.least, self.box, 1.0
        while inner != theta:
            bound = least + self.law.farther(self.outside - least, times * (1 - _ROUNDING))
            outer = self._times(2 * times, theta)
            for slab in outer.less(inner):
                yield slab, max(self.law.floor, bound - _ROUNDING * abs(bound))
            inner, times = outer, 2 * times

    def _times(self, times: float, theta: Box) -> Box:
        """Return a box that contains this one scaled by ``times`` about the point."""
        low, sides = np.array(self.box.lower, dtype=np.float64), np.array(self.box.sides)
        reach = np.maximum(self.point - low, low + sides - self.point) * times
        if (reach >= np.array(theta.sides, dtype=np.float64)).all():
            return theta
        return box_within(self.point, reach + 1, theta)


def approach(rows: StoredRows) -> Near | None:
    """Return the box near the minimiser, or None where no box with few open rows is found."""
    root = rows.grid.space.root()
    hint, narrowed, wider = _first(rows, root), False, 2.0
    for _ in range(_STAGES):
        around = None if hint is None else box_around(hint.point, hint.reach + 2, root)
        box = around or root
        half = np.array(box.sides) / 2
        [found], sample, stride = rows.sift(
            (np.array(box.lower) + half)[None, :], half, rows.limits.held
        )
        if found.table is not None:
            near = _held(rows, found, box, hint)
            enough = hint and is_enough(near.law, hint, near.parts[0].known, near.outside)
            # A narrowed box was as much as could be held: a wider one would not be.
            if box == root or enough or narrowed:
                return near
            # Twice, four times, sixteen times: a start far off is left in few passes.
            wider *= wider
            hint = _again(search(near.law, Start(box, 0.0, near.law.root())) or hint, half * wider)
            continue
        law = rows.sampled(sample, rows.rest(found))
        fitted = search(law, Start(box, 0.0, law.root()), stride)
        if fitted is None:
            return None
        hint = _filled(_inside(fitted, box), law, rows.limits.held // stride)
        room = half * (_FILLED * rows.limits.held / max(1, len(sample) * stride))
        reach = np.minimum(hint.reach, np.maximum(hint.error, room))
        if (reach < _LEAST * hint.reach).any():
            return None
        narrowed = bool((reach < hint.reach).any())
        hint = replace(hint, reach=reach)
    return None


def _first(rows: StoredRows, root: Box) -> Hint | None:
    """Return the fit of the sample of all rows."""
    law, stride = rows.sampled(rows.surveyed.sample), rows.limits.stride
    hint = search(law, Start(root, 0.0, law.root()), stride)
    return hint and _filled(hint, law, rows.limits.held // stride)


def _held(rows: StoredRows, found: Sifted, box: Box, hint: Hint | None) -> Near:
    """Return the knowledge near the minimiser once open rows are held."""
    assert found.table is not None
    law, theta = rows.held(found, found.table), rows.grid.space.root()
    whole = Start(box, law.floor, law.root())
    parts, point = near_minimiser(law, whole, theta)
    if point is not None and hint and is_enough(law, hint, parts[0].known, parts[-1].exponent):
        return Near(law, box, parts, point, parts[-1].exponent)
    if point is None:
        point = np.array(box.lower) + np.array(box.sides) / 2 if hint is None else hint.point
    return Near(law, box, parts, point, least_outside(law, whole, theta, point))


def _filled(hint: Hint, law: CheckLossLaw, most: int) -> Hint:
    """Return a hint for a box on which some records are open, however large epsilon is.

    The fit is off by some records even where all of them are known. ``most`` of the sample stand
    for what can be held.
    """
    records, enough = law.records, int(_ROOMY * most)
    if not 0 < enough < len(records.y):
        return hint
    away = np.abs(records.z @ hint.point - records.target)
    ratio = away / np.maximum(1.0, np.abs(records.z) @ hint.reach)
    return replace(hint, reach=hint.reach * max(1.0, float(np.partition(ratio, enough)[enough])))


def _inside(hint: Hint, box: Box) -> Hint:
    """Return a fit; a wider one if it is not well inside the box it comes from."""
    half = np.array(box.sides) / 2
    away = np.abs(hint.point - np.array(box.lower) - half)
    if (away <= _INSIDE * half).all():
        return hint
    return replace(hint, reach=np.maximum(hint.reach, _WIDER * half))


def _again(hint: Hint | None, half: Floats) -> Hint | None:
    """Return a hint for a wider box."""
    return hint and replace(hint, reach=np.maximum(hint.reach, half))
