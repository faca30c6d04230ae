"""Convex polytopes given by their exact vertices, and the two halves a cut makes of one.

*Conventions.* A vertex is a rational point: integers ``place`` over a positive integer ``scale``.
A cut is an integer functional w and a level b: the grid points above it have ``w'theta >= b``,
those below ``w'theta <= b - 1``. Both are closed half-spaces, they do not overlap, and every
integer point is in one of them.

*Vertices of a half.* They are the vertices on its side, and the points where edges cross the
cut. Two vertices span an edge where no third one has all the walls they share. A vertex on just d
walls has an edge along each d - 1 of them, so that its neighbours share d - 1 walls with it. A
point inside an edge has exactly the walls of the edge, so the lists of walls stay complete,
in degenerate cases too. All of it is in integers, so a polytope contains exactly the stated points.

*Boxes in coordinates of their own, from which points of a polytope are proposed.*

*Coordinates.* The directions in which a polytope is long come first. With p the order of theta's
entries and a strictly lower triangular M of multiples of 2**-40, a frame holds the theta with

    a_j <= theta_p(j) - sum_{k<j} M_jk theta_p(k) < a_j + n_j    for every j.

Given the entries before it, theta_p(j) is in a half-open interval of length n_j. So a frame holds
exactly ``n_1 ... n_d`` grid points, whatever p and M, and one of them is drawn uniformly entry by
entry. Where M is what a regression on the polytope's vertices gives, the frame is about as thin
as the polytope in every direction. p and M are choices of cost only; a and n come from the exact
vertices, so that every grid point of the polytope is inside.

Adaptive rejection on polytopes, exact.

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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from operator import mul
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from flint import arb

from mechanisms.exact.floats import SPACING, Floats, Integers
from mechanisms.exact.fractions import once
from mechanisms.randomness import Randomness
from mechanisms.samplers.envelopes import MOST_BYTES, Envelope, Piece

# Boxes in coordinates of their own, from which points of a polytope are proposed

_BITS = 40  # a slope's error then moves no point of Theta by more than a few grid steps
_STEEPEST = 2.0**20  # a steeper slope is rounding, of a polytope that is flat


@dataclass(frozen=True, slots=True)
class Frame:
    """A box in its own coordinates: order p, rows of ``2**40 (I - M)``, lower ends and sides.

    Entries of the rows are in theta's order.
    """

    order: Sequence[int]
    rows: Sequence[Sequence[int]]
    lower: Sequence[int]
    sides: Sequence[int]

    @classmethod
    def around(cls, stack: Stack) -> list[Frame]:
        """Return, for each polytope, a frame that holds all its grid points."""
        orders, rows = _shapes(stack)
        functionals = rows.swapaxes(1, 2) * 2.0**-_BITS
        places = stack.places @ functionals
        # d products, as many sums, the vertices and the functionals are rounded
        sizes = np.abs(stack.places).max(axis=1, keepdims=True) @ np.abs(functionals)
        margin = (rows.shape[1] + 4) * SPACING * sizes[:, 0]
        low = np.floor(places.min(axis=1) - margin).astype(np.int64)
        sides = np.floor(places.max(axis=1) + margin).astype(np.int64) - low + 1
        whole = rows.astype(np.int64)
        return list(map(cls, *(each.tolist() for each in (orders, whole, low, sides))))

    @property
    def points(self) -> int:
        """Return the number of grid points inside."""
        return math.prod(self.sides)

    def draw_point(self, randomness: Randomness) -> tuple[int, ...]:
        """Return one of the grid points, each with the same probability."""
        return self.point([randomness.below(side) for side in self.sides])

    def point(self, place: Sequence[int]) -> tuple[int, ...]:
        """Return the grid point at a place, 0 <= place_j < sides_j."""
        theta = [0] * len(self.order)
        for entry, row, low, offset in zip(self.order, self.rows, self.lower, place, strict=True):
            # The least integer that is not below the frame's lower end.
            theta[entry] = low - (sum(map(mul, row, theta)) >> _BITS) + offset
        return tuple(theta)

    def halving(self, turn: int) -> Cut | None:
        """Return a cut through the middle of a side, whose turn it is, or None for one point."""
        sides = [j for j, side in enumerate(self.sides) if side > 1]
        if not sides:
            return None
        j = sides[turn % len(sides)]
        middle = self.lower[j] + self.sides[j] // 2
        return Cut(tuple(self.rows[j]), middle << _BITS)


def _shapes(stack: Stack) -> tuple[Integers, Floats]:
    """Return p and ``2**40 (I - M)``: each entry regressed on those before it, longest first."""
    count, most, dimension = stack.places.shape
    own, eye, each = stack.shares[..., None] > 0, np.eye(dimension), np.arange(count)
    spread = np.where(own, stack.places - stack.means(stack.places)[:, None], 0)
    # above what is left of the vertices, below the residual of entry j as column j, in theta
    both = np.concatenate([spread, np.broadcast_to(eye, (count, *eye.shape))], axis=1)
    left, residual = both[:, :most], both[:, most:]
    orders = np.zeros((count, dimension), dtype=np.int64)
    free = np.ones((count, dimension), dtype=np.bool_)
    for j in range(dimension):
        lengths = np.where(free, np.square(left).sum(axis=1), -1)
        pivot = orders[:, j] = lengths.argmax(axis=1)
        free[each, pivot] = False
        column, length = both[each, :, pivot], lengths[each, pivot][:, None]
        moved = free & (length > 0)
        share = (column[:, None, :most] @ left)[:, 0] / np.where(moved, length, 1)
        both -= column[..., None] * np.where(moved, share, 0)[:, None]
    rows = residual[each[:, None], :, orders]
    gentle = (np.abs(rows) < _STEEPEST).all(axis=2, keepdims=True)
    return orders, np.rint(np.where(gentle, rows, eye[orders]) * 2.0**_BITS)


# Convex polytopes given by their exact vertices, and the two halves a cut makes of one

_NORMAL_BITS = 20


class Cut(NamedTuple):
    """The functional w (d integers) and the level b of ``w'theta >= b``."""

    functional: tuple[int, ...]
    level: int

    @classmethod
    def middle(cls, direction: Floats, places: Floats, share: float = 0.5) -> Cut | None:
        """Return a cut between what a direction is at places (k x d), or None if flat.

        It lies halfway, or at another share of the way from the least to the most.

        The direction is rounded to integers: where a cut lies is a choice of cost only.
        """
        largest = float(np.abs(direction).max())
        if not largest:
            return None
        whole = np.rint(direction * (2.0**_NORMAL_BITS / largest))
        along = places @ whole
        low, high = float(along.min()), float(along.max())
        return (
            cls(tuple(map(int, whole.tolist())), int(low * (1 - share) + high * share))
            if high > low
            else None
        )

    def side(self, vertex: Vertex) -> int:
        """Return how far above the cut a vertex is, times the vertex's scale."""
        return self._along(vertex.place) - self.level * vertex.scale

    def _along(self, place: Sequence[int]) -> int:
        return sum(map(mul, self.functional, place))

    def opposite(self) -> Cut:
        """Return the cut whose upper side is the lower side of this one."""
        # integers below b are at most b - 1, so no grid point is on both sides or on neither
        return Cut(tuple(-entry for entry in self.functional), 1 - self.level)

    def holds(self, point: Sequence[int]) -> bool:
        """Return whether a grid point is on the upper side."""
        return self._along(point) >= self.level


class Vertex(NamedTuple):
    """The point ``place / scale``, and the walls it lies on, one bit each."""

    place: tuple[int, ...]
    scale: int
    walls: int


@dataclass(frozen=True)
class Polytope:
    """Walls (their upper sides intersected) and the vertices of what they hold.

    ``walls`` has None in the places of walls that no vertex lies on any more.
    """

    walls: tuple[Cut | None, ...]
    vertices: tuple[Vertex, ...]

    @classmethod
    def cross(cls, dimension: int, radius: int) -> Polytope:
        """Return the l1 ball of this radius, in grid steps."""
        walls = tuple(Cut(signs, -radius) for signs in product((1, -1), repeat=dimension))
        corners = [
            tuple(side * radius * (k == j) for k in range(dimension))
            for j in range(dimension)
            for side in (1, -1)
        ]
        return cls(walls, tuple(_corner(walls, corner) for corner in corners))

    @classmethod
    def cube(cls, dimension: int, radius: int) -> Polytope:
        """Return the cube of this half width, in grid steps."""
        walls = tuple(
            Cut(tuple(side * (k == j) for k in range(dimension)), -radius)
            for j in range(dimension)
            for side in (1, -1)
        )
        corners = product((radius, -radius), repeat=dimension)
        return cls(walls, tuple(_corner(walls, corner) for corner in corners))

    @once
    def floats(self) -> Floats:
        """The vertices (k x d), each entry rounded to nearest."""
        return np.array([[entry / v.scale for entry in v.place] for v in self.vertices])

    def holds(self, point: Sequence[int]) -> bool:
        """Return whether a grid point is inside."""
        return all(wall.holds(point) for wall in self.walls if wall is not None)

    def halves(self, cut: Cut) -> tuple[Polytope | None, Polytope | None]:
        """Return the parts on the upper and the lower side of a cut, None where nothing is."""
        sides = [cut.side(vertex) for vertex in self.vertices]
        # the opposite cut is a grid step further down, so a vertex may be on neither side
        others = [-side - v.scale for v, side in zip(self.vertices, sides, strict=True)]
        edges = self._edges(
            [i for i, other in enumerate(others) if other < 0],
            [j for j, side in enumerate(sides) if side < 0],
        )
        turned = [(j, i) for i, j in edges]
        return self._above(cut, sides, edges), self._above(cut.opposite(), others, turned)

    def _above(
        self, cut: Cut, sides: Sequence[int], edges: Sequence[tuple[int, int]]
    ) -> Polytope | None:
        """Return the part on the upper side, given all edges from there to the lower side."""
        if min(sides) >= 0:
            return self
        bit = 1 << len(self.walls)
        kept = [
            Vertex(v.place, v.scale, v.walls | bit) if side == 0 else v
            for v, side in zip(self.vertices, sides, strict=True)
            if side >= 0
        ]
        if not kept:
            return None
        crossed = [self._edge(i, j, sides, bit) for i, j in edges if sides[i] > 0 > sides[j]]
        return _less_walls((*self.walls, cut), (*kept, *crossed))

    def _edges(self, upper: Sequence[int], lower: Sequence[int]) -> list[tuple[int, int]]:
        """Return the edges between vertices of two sets."""
        dimension = len(self.vertices[0].place)
        walls = [v.walls for v in self.vertices]
        simple = [each.bit_count() == dimension for each in walls]
        found = []
        for i in upper:
            own = walls[i]
            for j in lower:
                shared = own & walls[j]
                if shared.bit_count() < dimension - 1:  # an edge lies on as many walls
                    continue
                # an edge unless a third vertex lies on all the walls these two share
                if simple[i] or simple[j] or sum(shared & w == shared for w in walls) == 2:
                    found.append((i, j))
        return found

    def _edge(self, i: int, j: int, sides: Sequence[int], bit: int) -> Vertex:
        """Return where the edge from vertex i (above) to j (below) meets the cut."""
        one, two, up, down = self.vertices[i], self.vertices[j], sides[i], -sides[j]
        # Each side is times its vertex's own scale, so the two scales cancel.
        place = [up * b + down * a for a, b in zip(one.place, two.place, strict=True)]
        scale = up * two.scale + down * one.scale
        common = math.gcd(scale, *place)  # else the integers would grow with every cut
        return Vertex(
            tuple(entry // common for entry in place),
            scale // common,
            (one.walls & two.walls) | bit,
        )


@dataclass(frozen=True, eq=False)
class Stack:
    """Several polytopes, which one array operation processes together."""

    polytopes: Sequence[Polytope]

    @once
    def places(self) -> Floats:
        """The vertices (b x k x d); the first of a polytope again where another one has more."""
        rows = [polytope.floats for polytope in self.polytopes]
        places = np.empty((len(rows), max(map(len, rows)), rows[0].shape[1]))
        for place, own in zip(places, rows, strict=True):
            place[: len(own)] = own
            place[len(own) :] = own[0]
        return places

    @once
    def shares(self) -> Floats:
        """What part of its polytope's vertices each place is (b x k); 0 where it is one again."""
        counts = np.array([[len(polytope.vertices)] for polytope in self.polytopes])
        return np.where(np.arange(self.places.shape[1]) < counts, 1 / counts, 0)

    def means(self, values: Floats) -> Floats:
        """Return the means over the vertices (b x d) of values at all places (b x k x d)."""
        return np.asarray((self.shares[:, None] @ values)[:, 0])


def _corner(walls: Sequence[Cut], corner: tuple[int, ...]) -> Vertex:
    vertex = Vertex(corner, 1, 0)
    return vertex._replace(walls=sum((w.side(vertex) == 0) << k for k, w in enumerate(walls)))


def _less_walls(walls: tuple[Cut | None, ...], vertices: tuple[Vertex, ...]) -> Polytope:
    """Return the polytope without walls no vertex lies on: they hold everywhere inside."""
    used = 0
    for vertex in vertices:
        used |= vertex.walls
    # Places stay as they are: vertices name walls by them.
    kept = tuple(wall if used >> k & 1 else None for k, wall in enumerate(walls))
    return Polytope(kept, vertices)


# The polytope engine's interface of a law: bounds of its exponent, and where to cut next

Knowledge = TypeVar("Knowledge")

FLAT_NATS = 0.25
"""A polytope on which E varies by less is not worth a cut."""


@dataclass(frozen=True, slots=True, eq=False)
class View(Generic[Knowledge]):
    """A law's bound on a polytope: a certified lower bound of E, and its knowledge there.

    ``cut`` would sharpen the bound most, by about ``gain`` nats; None where E is as good as
    constant. Without a gain the cut comes before any other. ``effort`` is what it took beyond a
    usual look at a polytope, in tries.
    """

    exponent: float
    known: Knowledge
    cut: Cut | None
    gain: float = math.inf
    effort: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Part(Generic[Knowledge]):
    """A start polytope, a lower bound of E on it, and the knowledge of it."""

    polytope: Polytope
    exponent: float
    known: Knowledge


class PolytopeLaw(Protocol[Knowledge]):
    """A law on the grid points of a polytope, ``P(theta) ∝ exp(-E(theta))``."""

    @property
    def floor(self) -> float:
        """Return a lower bound of E on all of Theta."""

    def start(self) -> Sequence[Part[Knowledge]]:
        """Return polytopes that cover Theta without overlap; E is at least ``floor`` everywhere."""

    def views(self, known: Sequence[Knowledge], stack: Stack) -> Sequence[View[Knowledge]]:
        """Bound E on polytopes inside those known; ``floor`` or more, finite."""

    def size(self, known: Knowledge) -> int:
        """Return about how many bytes the knowledge of one polytope takes."""

    def exponent(self, known: Knowledge, point: Sequence[int], bits: int) -> arb:
        """Return a ball around E at a grid point of the polytope, at ``bits`` working bits."""


# Adaptive rejection on polytopes, exact


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
