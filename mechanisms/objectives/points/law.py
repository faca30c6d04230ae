"""The law of the geometric median of many points, as a law of the box engine.

    E(theta) = rate N(theta)

*Start.* A box C around the minimiser is as small as leaves next to nothing outside
(:mod:`mechanisms.objectives.points.bounds`). On C a field
(:mod:`mechanisms.objectives.points.field`) says all that a draw needs: rows are read again only for
what lies outside, or for a comparison that the field leaves open.

*Needles.* Where the law is far longer than wide (:mod:`mechanisms.objectives.points.law`), boxes
have one side along it, and are cut where their bounds lose most.

*Bounds* come from the field known on the box. Where it has too many near points for so small a box,
or has lost too much, a sharper one is made from it; where that is not enough, from a pass, for all
parts of a box at once. *Values* are tried from the fields first, then by a pass in floats with a
proved error, then by a pass in integers with as many bits as asked for.

*Bounds near a heavy point: on boxes that contain it, or are close to it.* Its unit vector may have
any direction there, which the bound along one direction takes for lost. Let m be its count and R
the sum over all others. Then ``|m u + R| >= | |R| - m |`` whatever u is, and at the point itself
the sum is R. Between two heavy points, where all others balance them, this is what the sum is.

Where a law is a needle: far longer in one direction than across.

Let S be the sum of 1 / r over the points. The curvature of the sum of distances, the sum of
``(I - u u') / r``, has trace (d - 1) S, and no eigenvalue above S. So where its least eigenvalue is
small, all others are about S: points are seen along one line, and the law is long in that
direction and in no other. It is so between two heavy points, and between neighbours on a line.
Boxes have one side in that direction then. All of this is a choice of cost only.

*The law of the geometric median on a line, where it is the median, as a law of the box engine.*

    E(theta) = rate |S(theta)|,   S(theta) = #{x < theta} - #{x > theta}

S never falls, so that the least |S| on an interval is at an end of it, or where S passes 0: exact,
from counts of the distinct values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from flint import arb

from mechanisms.exact.balls import norm_two, rational
from mechanisms.exact.floats import Floats, Integers
from mechanisms.objectives.points.bounds import SLACK, Bounds, bounded, outside
from mechanisms.objectives.points.field import MARGIN, Field
from mechanisms.objectives.points.passes import Ball
from mechanisms.objectives.points.search import Hint, least, less_nearest, sharpened
from mechanisms.objectives.points.source import EXACT_ERROR, Known, Source
from mechanisms.samplers.boxes import Box, Children, Space, Start
from mechanisms.samplers.boxes.space import box_around

# The law of the geometric median on a line, where it is the median, as a law of the box engine


class LineLaw:
    """``E(theta) = rate |S(theta)|`` on a line.

    Parameters
    ----------
    values, counts
        The distinct values of the records in grid steps, ascending, and how often each occurs.
    rate
        ``epsilon / (2 Delta)``.
    """

    floor = 0.0

    def __init__(self, values: Integers, counts: Integers, *, rate: Fraction) -> None:
        self.values = values
        self.below = np.append(0, np.cumsum(counts))
        self.rate = rate
        self.passing = self._passing()

    def start(self, space: Space) -> list[Start[None]]:
        """Return one box: all of Theta."""
        return [Start(space.root(), self.floor, None)]

    def widths(self, known: None) -> Floats | None:  # noqa: ARG002
        """Return None: there is one side."""
        return None

    def size(self, known: None) -> int:  # noqa: ARG002
        """Return 0: nothing is known of one piece."""
        return 0

    def split(self, known: None, centres: Floats, half: Floats) -> Children[None]:  # noqa: ARG002
        """Bound |S| by its least on each interval."""
        ends = [
            (math.ceil(centre - half[0]), math.floor(centre + half[0]))
            for centre in centres[:, 0].tolist()
        ]
        least = np.array([float(self._least(low, high) * self.rate) for low, high in ends])
        return Children(least * (1 - 2.0**-50), [None] * len(centres))

    def exponent(self, known: None, point: Sequence[int], bits: int) -> arb:  # noqa: ARG002
        """Return rate |S(theta)|."""
        return rational(self.rate * abs(self._signed(point[0])))

    def _signed(self, place: int) -> int:
        """Return S at a place."""
        first = np.searchsorted(self.values, place, side="left")
        last = np.searchsorted(self.values, place, side="right")
        return int(self.below[first] + self.below[last] - self.below[-1])

    def _least(self, low: int, high: int) -> int:
        """Return the least |S| on an interval, ends included."""
        if high < self.passing:
            return -self._signed(high)
        if low >= self.passing:
            return self._signed(low)
        return min(self._signed(self.passing), -self._signed(self.passing - 1))

    def _passing(self) -> int:
        """Return the first place where S is not below 0."""
        if not len(self.values):
            return 0
        half = self.below[-1]
        after = 2 * self.below[1:] >= half  # just above each value
        value = int(self.values[np.argmax(after)])
        return value if self._signed(value) >= 0 else value + 1


# Where a law is a needle: far longer in one direction than across

_CURVED = 16.0  # times as much across as along: else boxes of any direction do as well
_ASIDE = 1 / 3  # of how far a needle goes to one side and not to the other
_LONG = 24.0  # times as long as wide: the same


@dataclass(frozen=True, slots=True, eq=False)
class Needle:
    """A point where N is about least, the axes of boxes around, and N and its slope across there.

    Column ``axis`` of the axes is along the needle, which is ``long`` times as long as wide.
    """

    point: Floats
    axes: Floats
    axis: int
    lowest: float
    slope: float
    long: float

    @classmethod
    def find(
        cls, field: Field, hint: Hint, speed: float, space: Space
    ) -> tuple[Needle, Space] | None:
        """Return the needle that a law ``exp(-speed N)`` is, and the space along it, if any."""
        if not (np.isfinite(hint.point).all() and is_long(hint)):
            return None
        slope, (_, ways) = hint.across, np.linalg.eigh(hint.curve)
        slanted = Space.along(ways[:, 0], space.radius)
        axis = int(np.argmax(np.abs(ways[:, 0])))
        found = cls(np.rint(hint.point), slanted.shear, axis, 0.0, slope, 0.0)
        heights = found._heights(field)
        lowest = float(heights.min())
        ahead, behind = 2.0 ** np.count_nonzero((heights - lowest) * speed <= 1, axis=1)
        long = max(ahead, behind) * slope * speed
        if long < _LONG:
            return None
        # Not at a heavy point, which would be a corner of boxes of every size.
        point = found.point + np.rint((ahead - behind) * _ASIDE) * found.axes[:, axis]
        return cls(np.rint(point), found.axes, axis, lowest, slope, long), slanted

    def reach(self, field: Field, rise: float) -> float:
        """Return how far along the needle N rises by this much, in both directions."""
        high = self._heights(field).min(axis=0) >= self.lowest + rise
        return float(2.0 ** int(np.argmax(high))) if high.any() else math.inf

    def _heights(self, field: Field) -> Floats:
        return _heights(field, self.point, self.axes[:, self.axis])


def is_long(hint: Hint) -> bool:
    """Return whether the sum of distances is far less curved in one direction than in others."""
    if not np.isfinite(hint.curve).all():
        return False
    values = np.linalg.eigvalsh(hint.curve)
    return len(values) > 1 and bool(values[1] > _CURVED * max(float(values[0]), 0.0))


def reach(field: Field, hint: Hint, rise: float) -> float:
    """Return how far from a hint N rises by this much, in the direction of least curvature."""
    _, ways = np.linalg.eigh(hint.curve)
    heights = _heights(field, hint.point, ways[:, 0]).min(axis=0)
    high = heights >= heights.min() + rise
    return float(2.0 ** int(np.argmax(high))) if high.any() else math.inf


def _heights(field: Field, point: Floats, way: Floats) -> Floats:
    """Return N at 1, 2, 4, ... steps from a point, in either direction."""
    steps = 2.0 ** np.arange(math.ceil(math.log2(max(field.radius, 2.0))) + 1)
    found = [
        [float(np.linalg.norm(field.value(point + side * step * way)[0])) for step in steps]
        for side in (1.0, -1.0)
    ]
    return np.array(found)


# The law of the geometric median of many points, as a law of the box engine


# Bounds near a heavy point: on boxes that contain it, or are close to it

_CLOSE = 16.0  # radii of a box: the direction to points beyond is known well enough
_MOST_NEAR = 1 << 12  # more are not looked through for a heavy one
_HEAVY = 0.5  # of what all points so close weigh


def near_heavy(
    field: Field, centres: Floats, halves: Floats, found: Bounds, axes: Floats | None = None
) -> Bounds:
    """Return bounds of |g| on boxes (k x d) that know the one heavy point close to each."""
    near = field.near
    if not 0 < len(near) <= _MOST_NEAR:
        return found
    points = near.rows()
    sides = halves if axes is None else halves @ np.abs(axes).T
    radii = np.sqrt((sides**2).sum(axis=1))[:, None] * (1 + MARGIN)
    distance = np.sqrt(((centres[:, None] - points.places) ** 2).sum(axis=2)) * (1 - MARGIN)
    close = np.where(distance < _CLOSE * radii, points.counts, 0.0)
    heaviest = close.argmax(axis=1)
    each = np.arange(len(centres))
    heavy = close[each, heaviest] > _HEAVY * close.sum(axis=1)
    heavy &= points.blurs[heaviest] == 0
    least = found.least.copy()
    for k in np.unique(heaviest[heavy]).tolist():
        own = heavy & (heaviest == k)
        others = replace(field, near=near.less(np.arange(len(near)) == k))
        rest = bounded(others, centres[own], halves[own], axes=axes)
        count, inside = float(points.counts[k]), distance[own, k] <= radii[own, 0]
        below = count - rest.most
        below = np.where(inside, np.minimum(below, rest.least), below)
        least[own] = np.maximum(least[own], np.maximum(rest.least - count, below))
    return replace(found, least=least)


# The law of the geometric median of many points, as a law of the box engine

_TAIL_NATS = 30.0  # what lies outside then weighs exp(-30) of the whole
_ENOUGH = 0.75  # of the nats wanted: then no wider box is tried
_WIDER = 4  # balls around a needle, each twice as wide
_LITTLE_NATS = 20.0  # regions with a smaller bound are better treated with the rest
_ROUNDS = 8  # balls tried for a start, at most
_BETTER = 0.25  # from ball to ball a hint gets better by as much at least
_FAR_MORE = 2.0**10  # then a box by the others' curvature could be as many times too wide
_DOUBTS = 0.5  # of how far a hint can be off: it is far less off than it can be
_SURE_NATS = 0.05  # a value that may be off by more is looked up in the field for values
_FEW_NEAR = 128  # up to this many near points cost no more than the box itself
_SMALLER = 1.9  # a box smaller than its field's ball by this factor has far fewer near points
_FAR_ENOUGH = 4.0  # radii of a box: points beyond are as good summed up
_LOOSE_NATS, _LOOSE_SHARE = 0.1, 0.3  # then a field is made again from the one for values
_PASS_NATS, _PASS_SHARE = 1.0, 1.0  # then from the points
_FLOAT_BITS = 128  # up to here the field known on the box decides
_SUM_BITS = 192  # up to here a sum over all points in floats; beyond, integers


class PointsLaw:
    """``E(theta) = rate * N(theta)`` on a cube, of points that a source keeps.

    Parameters
    ----------
    source
        The private points.
    rate
        ``epsilon / (2 Delta)``.
    hint
        About where N is least, as far as is known on all of Theta, if that was found.
    needle
        What the law is long along, if anything; boxes are those of its axes then.
    """

    floor = 0.0

    def __init__(
        self,
        source: Source,
        *,
        rate: Fraction,
        hint: Hint | None = None,
        needle: Needle | None = None,
    ) -> None:
        self.source = source
        self.rate = rate
        self.speed = float(rate)
        self.hint = hint
        self.needle = needle

    @classmethod
    def fitting(cls, source: Source, rate: Fraction, space: Space) -> tuple[PointsLaw, Space]:
        """Return the law of points on a cube, and the same cube with boxes that fit the law."""
        if not source.count:
            return cls(source, rate=rate), space
        hint = least(source.root.field, float(rate))
        if is_long(hint):
            source = source.kept()
            hint = least(source.root.field, float(rate))
            hint = sharpened(source.root.field, hint, float(rate))
        nearby = less_nearest(source.root.field, hint)
        found = Needle.find(source.root.field, nearby, float(rate), space)
        if found is None:
            return cls(source, rate=rate, hint=hint), space
        needle, slanted = found
        return cls(source, rate=rate, needle=needle), slanted

    def start(self, space: Space) -> list[Start[Known]]:
        """Return boxes that cover Theta: one around the minimiser, and what is outside of it."""
        if self.needle:
            return self._along(self.needle, space)
        root = Start(space.root(), self.floor, self.source.root)
        known, wider, best, taken = self.source.root, 1.0, None, None
        for number in range(1, _ROUNDS + 1):
            looked = self._hint(known, space)
            if looked is None:
                break
            if taken is None or not taken[1] or looked[1]:
                taken = looked  # else a cell was resolved, and a wider field resolves it less
            hint, side, doubt = taken
            doubt = min(doubt, space.radius * _BETTER**number)
            half = max(side * wider, doubt)
            if math.isinf(half):
                break
            box = box_around(hint.point, np.full(space.dimension, half), root.box)
            if box is None:
                break
            known = self.source.around([_ball(box)])[0]
            if doubt > side * wider:
                continue
            wanted = self._inside(known, hint) + _ENOUGH * self._nats(hint, space)
            # On a line of points patches have to be as small as the way between them.
            least_outside = outside(
                known.field,
                box,
                root.box,
                hint.point,
                wanted=wanted / self.speed if hint.flat else -math.inf,
            )
            low = max(self.floor, least_outside * self.speed * (1 - MARGIN))
            if best is None or low > best[0]:
                best = low, box, known
            if low >= wanted:
                break
            wider *= 2
        return self._parted(root, best)

    def _along(self, needle: Needle, space: Space) -> list[Start[Known]]:
        """Return the same where the law is a needle: it is reached for along its length."""
        root = Start(space.root(), self.floor, self.source.root)
        wide = 2.0 * space.radius * self.speed * needle.slope
        nats = _TAIL_NATS + space.dimension * math.log(max(wide, 1.0))
        wanted = needle.lowest + _ENOUGH * nats / self.speed
        length = needle.reach(root.known.field, nats / self.speed)
        if math.isinf(length):
            return [root]
        point, best = np.asarray(np.linalg.solve(needle.axes, needle.point), dtype=np.float64), None
        for number in range(_WIDER):
            box = box_around(point, np.full(space.dimension, length * 2**number), root.box)
            if box is None:
                break
            half = np.array(box.sides) / 2
            centre = needle.axes @ (np.array(box.lower) + half)
            [known] = self.source.around([_ball_at(centre, np.abs(needle.axes) @ half)])
            found = outside(known.field, box, root.box, point, axes=needle.axes, wanted=wanted)
            low = found * self.speed * (1 - MARGIN)
            if low > (best[0] if best else _LITTLE_NATS):
                best = low, box, known
            if found >= wanted:
                break
        return self._parted(root, best)

    def _parted(
        self, root: Start[Known], best: tuple[float, Box, Known] | None
    ) -> list[Start[Known]]:
        """Return a box and what is outside of it, where a box was found."""
        if best is None:
            return [root]
        low, box, known = best
        slabs = [Start(slab, low, root.known) for slab in root.box.less(box)]
        return [Start(box, self.floor, known), *slabs]

    def _hint(self, known: Known, space: Space) -> tuple[Hint, float, float] | None:
        """Return about where N is least, the side of a box around, and how sure the place is."""
        is_root = known is self.source.root
        hint = self.hint if self.hint and is_root else least(known.field, self.speed)
        if not (self.source.count and np.isfinite(hint.point).all()):
            return None
        if (cell := _cell_that_says_more(known.field, hint)) is not None:
            # How curved it is there is known once the cell is: it is looked into first.
            return replace(hint, point=np.rint(hint.point)), 0.0, cell
        _, error = known.base.value(hint.point)
        rise = self._nats(hint, space) / (_ENOUGH * self.speed)
        if hint.flat:
            side, doubt = reach(known.field, hint, rise), reach(known.field, hint, error)
        elif hint.curvature > 0:
            side, doubt = rise / hint.curvature, error / hint.curvature
        else:
            return None
        return replace(hint, point=np.rint(hint.point)), side + 2, _DOUBTS * doubt

    def _nats(self, hint: Hint, space: Space) -> float:
        """Return how much E should rise: the tail wanted, and the volume outside."""
        curvature = hint.across if hint.flat else hint.curvature
        wide = 2.0 * space.radius * self.speed * curvature
        return _TAIL_NATS + space.dimension * math.log(max(wide, 1.0))

    def _inside(self, known: Known, hint: Hint) -> float:
        """Return about how large E is where it is least: near a heavy point, not at it."""
        here, _ = known.base.value(hint.point)
        size = float(np.sqrt(here @ here))
        if not size:
            return 0.0
        curvature = hint.across if hint.flat else hint.curvature
        aside = hint.point - here * (1 / (self.speed * curvature * size))
        there, _ = known.base.value(aside)
        return min(size, float(np.sqrt(there @ there))) * self.speed

    def widths(self, known: Known) -> Floats | None:
        """Return what each side cost when the box was bounded, or None: all matter equally."""
        return known.matter

    def size(self, known: Known) -> int:
        """Return about how many bytes the knowledge of one box takes alone."""
        return known.size

    def split(self, known: Known, centres: Floats, half: Floats) -> Children[Known]:
        """Bound E on boxes by the field known, or by sharper ones where that is worth it."""
        axes, reach = None, half
        if self.needle:
            axes = self.needle.axes
            centres, reach = centres @ axes.T, np.abs(axes) @ half
        boxes = _Boxes(
            centres, np.tile(half if axes is None else half + SLACK, (len(centres), 1)), axes
        )
        balls = [_ball_at(centre, reach) for centre in centres]
        local = [known.among(len(centres))] * len(centres)
        found = boxes.bounded(known.field)
        heavy = self._heavy(known.field, balls[0])
        if heavy or self._is_loose(found.carried, found.width, _LOOSE_NATS, _LOOSE_SHARE):
            wider = known.field if heavy else known.base
            local = [_narrowed(wider, ball, known.base) for ball in balls]
            found = _joined(found, boxes.each(local))
        if self._is_loose(found.excess, found.width, _PASS_NATS, _PASS_SHARE):
            local = self.source.around(balls)
            found = _joined(found, boxes.each(local))
        if self.needle:
            each = zip(local, found.matter, strict=True)
            local = [replace(own, matter=costs / half) for own, costs in each]
        low = np.maximum(0, found.least) * self.speed * (1 - MARGIN)
        return Children(low, local)

    def _heavy(self, field: Field, ball: Ball) -> bool:
        """Return whether most near points of a field must be far from this much smaller ball."""
        return len(field.near) > _FEW_NEAR and ball.radius * _SMALLER < field.radius

    def _is_loose(self, lost: Floats, width: Floats, nats: float, share: float) -> bool:
        """Return whether more was lost than the boxes' own sides explain."""
        return bool((lost * self.speed > nats + share * width * self.speed).any())

    def exponent(self, known: Known, point: Sequence[int], bits: int) -> arb:
        """Return a ball around rate * N(theta)."""
        rate, place = rational(self.rate), tuple(point)
        if bits > _SUM_BITS:
            error = arb(0, EXACT_ERROR * self.source.count)
            unit = arb((1, -bits))
            total = self.source.exact(place, bits)
            return rate * norm_two([(arb(k) + error) * unit for k in total])
        sums, off = self._looked_up(known, place, bits)
        norm = math.sqrt(float((sums**2).sum()))
        return rate * arb(norm, off * (1 + MARGIN) + MARGIN * 2.0**-8 * norm)

    def _looked_up(self, known: Known, place: tuple[int, ...], bits: int) -> tuple[Floats, float]:
        """Return the sum of unit vectors and its error, from all points only where it must be."""
        at = np.array(place, dtype=np.float64)
        if bits <= _FLOAT_BITS:
            sums, off = known.field.value(at)
            # However far off the other field is: most points that are dropped are far from kept,
            # and where it leaves that open, more bits are asked for.
            return (sums, off) if off * self.speed <= _SURE_NATS else known.base.value(at)
        return self.source.gradient(place)


@dataclass(frozen=True, slots=True, eq=False)
class _Boxes:
    """Boxes to bound N on: centres and half sides (k x d), and the axes of the sides."""

    centres: Floats
    halves: Floats
    axes: Floats | None

    def bounded(self, field: Field) -> Bounds:
        """Return bounds by one field for all."""
        return self._of(field, slice(None))

    def each(self, local: Sequence[Known]) -> Bounds:
        """Return bounds of each by a field of its own."""
        parts = [slice(k, k + 1) for k in range(len(local))]
        return Bounds.all(
            [self._of(known.field, part) for part, known in zip(parts, local, strict=True)]
        )

    def _of(self, field: Field, part: slice) -> Bounds:
        centres, halves = self.centres[part], self.halves[part]
        found = bounded(field, centres, halves, axes=self.axes)
        return near_heavy(field, centres, halves, found, self.axes)


def _ball(box: Box) -> Ball:
    half = np.array(box.sides) / 2
    return _ball_at(np.array(box.lower) + half, half)


def _ball_at(centre: Floats, half: Floats) -> Ball:
    """Return a ball around a box, and around boxes cut from it."""
    radius = float(np.sqrt(((half + 2) ** 2).sum()))
    return Ball(tuple(centre.tolist()), radius)


def _cell_that_says_more(field: Field, hint: Hint) -> float | None:
    """Return how far the cell at a hint reaches, if its points may curve N far more than others.

    Where bounds are wide for the rows, nearly all of them may lie in one cell.
    """
    near = field.near.rows()
    if not len(near):
        return None
    away = np.sqrt(((near.places - hint.point) ** 2).sum(axis=1))
    closest = int(np.argmin(away))
    blur = float(near.blurs[closest])
    says_more = float(near.counts[closest]) > _FAR_MORE * hint.curvature * blur
    return blur + float(away[closest]) if away[closest] <= blur and says_more else None


def _narrowed(wider: Field, ball: Ball, base: Field) -> Known:
    field = wider.narrowed(np.array(ball.centre), ball.radius, _FAR_ENOUGH)
    return Known(field, base, field.size)


def _joined(one: Bounds, two: Bounds) -> Bounds:
    """Return the later bounds, but the better of the two lower ones."""
    return replace(two, least=np.maximum(one.least, two.least))
