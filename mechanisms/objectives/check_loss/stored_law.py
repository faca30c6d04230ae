"""The check loss over more rows than memory holds, as a law of the box engine.

A box is *held* where its open records are in memory; of all other rows exact sums are known, and
the law there is an ordinary one of few records. Every other box is *unread*. Where a try falls on
one, a pass over the rows holds it if few enough are open on it. Else a pass gives the point's
exponent, an exact sum over all rows; and another one bounds the box's parts, by sums as well.

A draw starts at a held box around the minimiser. The rest of Theta is bounded from the records of
that box and has almost no weight. So a draw rarely reads rows again, and is exact if it does. No
data are refused: a poor start costs passes, and so does a small epsilon, which leaves most rows
open.

More rows than memory holds: the box around the minimiser whose open records are held.

A fit of a sample is off by some standard errors. In a box of that size few of all rows are open.
If they are still too many to hold, a sample of them with the exact sums of the others gives a fit
that is better by the square root of the sample's size, and so on. The box is wide enough when the
rest of Theta certainly has little weight; otherwise a wider one is tried. At a small epsilon too
many records stay open; then the box is narrower, and a draw may fall outside it.

Everything except the sums and the bounds on boxes is a hint. Where hints fail, Theta stays unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from flint import arb

from mechanisms.exact.balls import rational
from mechanisms.exact.floats import Floats
from mechanisms.objectives.check_loss.law import CheckLossLaw, Undecided
from mechanisms.objectives.check_loss.narrowing import is_enough, least_outside, near_minimiser
from mechanisms.objectives.check_loss.passes import Sifted
from mechanisms.objectives.check_loss.search import Hint, search
from mechanisms.objectives.check_loss.stored import StoredRows
from mechanisms.samplers.boxes import Box, Children, Space, Start
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


# The check loss over more rows than memory holds, as a law of the box engine


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
