"""The grid points of an l1 ball (or a cube), and boxes in sheared coordinates that hold them.

*Conventions.* theta is an integer vector of length d, in grid steps; Theta holds those
with ``||theta||_1 <= radius``. Boxes are cut in coordinates u with ``theta = V u``, V upper
triangular with ones on its diagonal and multiples of 2**-24 above it: with V from the
data's correlations the level sets of an objective are about as long as wide, and few
boxes cover them. V is a choice of cost only. Of a cube V may be lower triangular as well, or
so after its rows and columns are put in another order.

A box is ``a_j <= u_j < a_j + n_j`` with integers a and n >= 1. It holds exactly
``n_1 n_2 ... n_d`` integer vectors theta, whatever V: given theta_k for all k > j (and
so u_k), ``theta_j = u_j + offset`` with a fixed offset, and a half-open interval of
length n_j holds n_j integers. This is also how one of them is drawn, uniformly.

*A law on the grid*, ``P(theta) ∝ exp(-E(theta))``: lower bounds of E on boxes, exact values at
points. A law keeps a *knowledge* of its own for every box (for example the records not decided
there), hands it down to the parts of the box, and never loses correctness by knowing little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Generic, Protocol, TypeVar

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechanisms.exact.floats import Floats
from mechanisms.randomness import Randomness

# The boundary of a box inside another, cut into patches on which a bound can be evaluated

PATCHES = 4
"""Patches per side: more give better bounds, and cost ``PATCHES ** (d - 1)`` evaluations."""


@dataclass(frozen=True, slots=True, eq=False)
class Patches:
    """Pieces of faces: their centres and half widths (m x d; one side of each is 0)."""

    centres: Floats
    halves: Floats

    def __len__(self) -> int:
        return len(self.centres)


def inner_faces(inner: Box, outer: Box) -> list[tuple[int, float]]:
    """Return the faces (axis, side) of a box that lie inside the outer box."""
    found = []
    for axis, (a, n, b, m) in enumerate(
        zip(inner.lower, inner.sides, outer.lower, outer.sides, strict=True)
    ):
        if a > b:
            found.append((axis, -1.0))
        if a + n < b + m:
            found.append((axis, 1.0))
    return found


def patches(box: Box, faces: Sequence[tuple[int, float]], per_side: int = PATCHES) -> Patches:
    """Cut faces of a box into patches."""
    half = np.array(box.sides) / 2
    centre, d = np.array(box.lower) + half, len(half)
    places = (np.arange(per_side) * 2 + 1) / per_side - 1
    offsets = np.array(
        [
            [*others[:face], side, *others[face:]]
            for face, side in faces
            for others in product(places, repeat=d - 1)
        ]
    )
    # a patch has no width along the side its face stands on
    thin = np.repeat(np.eye(d)[[face for face, _ in faces]], len(places) ** (d - 1), axis=0)
    return Patches(centre + offsets * half, (1 - thin) * half / per_side)


def box_around(point: Floats, reach: Floats, outer: Box) -> Box | None:
    """Return the box ``|u - point| <= reach`` inside the outer one, or None if not much smaller."""
    box = box_within(point, reach, outer)
    if min(box.sides) < 1 or 2 * box.points > outer.points:
        return None
    return box


def box_within(point: Floats, reach: Floats, outer: Box) -> Box:
    """Return the part of the box ``|u - point| <= reach`` inside the outer one."""
    low = [max(a, math.floor(p - r)) for a, p, r in zip(outer.lower, point, reach, strict=True)]
    high = [
        min(a + n, math.ceil(p + r))
        for a, n, p, r in zip(outer.lower, outer.sides, point, reach, strict=True)
    ]
    return Box(tuple(low), tuple(b - a for a, b in zip(low, high, strict=True)))


# The grid points of an l1 ball (or a cube), and boxes in sheared coordinates that hold them

SHEAR_BITS = 24  # the shear is an exact dyadic, so that boxes hold whole grid points
_LARGEST_SHEAR = 16  # steeper ones would only make the boxes long
_SLACK = 2.0**-44  # relative room for the float operations of a bound


@dataclass(frozen=True, slots=True)
class Box:
    """The u with lower_j <= u_j < lower_j + sides_j, in grid steps."""

    lower: tuple[int, ...]
    sides: tuple[int, ...]

    @property
    def points(self) -> int:
        """Return the number of grid points inside."""
        return math.prod(self.sides)

    def parts(self, counts: Sequence[int]) -> list[Box]:
        """Cut side j into ``counts[j]`` nearly equal pieces."""
        cuts = [
            # integers: the pieces meet without gap or overlap
            [a + n * i // p for i in range(p + 1)]
            for a, n, p in zip(self.lower, self.sides, counts, strict=True)
        ]
        return [
            Box(
                tuple(cuts[j][i] for j, i in enumerate(chosen)),
                tuple(cuts[j][i + 1] - cuts[j][i] for j, i in enumerate(chosen)),
            )
            for chosen in product(*(range(p) for p in counts))
        ]

    def less(self, inner: Box) -> list[Box]:
        """Return boxes that cover, without overlap, what is outside a box inside this one."""
        lower, sides, found = list(self.lower), list(self.sides), []
        for j, (a, n) in enumerate(zip(inner.lower, inner.sides, strict=True)):
            for first, last in ((lower[j], a), (a + n, lower[j] + sides[j])):
                if last > first:
                    piece = (*lower[:j], first, *lower[j + 1 :])
                    found.append(Box(piece, (*sides[:j], last - first, *sides[j + 1 :])))
            lower[j], sides[j] = a, n  # later pieces leave out what earlier ones hold
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Theta and its boxes.

    Attributes
    ----------
    radius
        The l1 ball's radius, in grid steps.
    shear
        V (d x d), exact floats.
    cube
        Theta is ``||theta||_inf <= radius`` instead.
    order
        The entries of theta, each after those that its row of V has entries for; the last one
        first where nothing is given.
    """

    radius: int
    shear: Floats
    cube: bool = False
    order: tuple[int, ...] = ()

    @classmethod
    def plain(cls, dimension: int, radius: int) -> Space:
        """Return the space with u = theta."""
        return cls(radius=radius, shear=np.eye(dimension))

    @classmethod
    def cubic(cls, dimension: int, radius: int) -> Space:
        """Return the cube ``||theta||_inf <= radius``, with u = theta."""
        return cls(radius=radius, shear=np.eye(dimension), cube=True)

    @classmethod
    def along(cls, way: Floats, radius: int) -> Space:
        """Return the cube with boxes whose one side is along a way; the others are axes."""
        d, axis = len(way), int(np.argmax(np.abs(way)))
        shear = np.eye(d)
        shear[:, axis] = np.rint(way / way[axis] * 2.0**SHEAR_BITS) / 2.0**SHEAR_BITS
        order = (axis, *(j for j in range(d) if j != axis))
        return cls(radius=radius, shear=shear, cube=True, order=order)

    @classmethod
    def uncorrelated(cls, gram: Floats, radius: int) -> Space:
        """Return the space whose shear makes ``V' gram V`` about diagonal; gram is a hint."""
        d = len(gram)
        scale = float(np.trace(gram)) or 1.0  # nothing but zeros has no scale
        # columns that depend on each other have a factor too
        matrix = gram / scale + 1e-12 * np.eye(d)
        lower = np.linalg.cholesky(matrix)
        shear = np.linalg.inv(lower / np.diag(lower)).T
        rounded = np.rint(np.clip(shear, -_LARGEST_SHEAR, _LARGEST_SHEAR) * 2.0**SHEAR_BITS)
        return cls(radius=radius, shear=np.triu(rounded, 1) / 2.0**SHEAR_BITS + np.eye(d))

    @property
    def dimension(self) -> int:
        """Return d."""
        return len(self.shear)

    def root(self) -> Box:
        """Return a box that holds Theta."""
        if self._upright:
            d = self.dimension
            return Box((-self.radius,) * d, (2 * self.radius + 1,) * d)
        inverse = np.abs(np.linalg.inv(self.shear))
        reach = (inverse.sum(axis=1) if self.cube else inverse.max(axis=1)) * (1 + _SLACK)
        ends = [math.ceil(float(r) * self.radius) + 1 for r in reach]
        return Box(tuple(-end for end in ends), tuple(2 * end + 1 for end in ends))

    def holds(self, point: Sequence[int]) -> bool:
        """Return whether theta is in Theta."""
        sizes = map(abs, point)
        return (max(sizes) if self.cube else sum(sizes)) <= self.radius

    def outside(self, centres: Floats, half: Floats) -> NDArray[np.bool_]:
        """Return which boxes ``|u - centre| <= half`` certainly miss Theta (shape k)."""
        if self._upright:  # the root is the cube, and boxes stay inside
            return np.zeros(len(centres), dtype=np.bool_)
        if not self.cube:
            return np.asarray(self.least_length(centres, half) > self.radius)
        sizes = np.abs(self.shear)
        rounding = _SLACK * (np.abs(centres) + half) @ sizes.T
        least = np.abs(centres @ self.shear.T) - sizes @ half - rounding
        return np.asarray((least > self.radius).any(axis=1))

    @property
    def _upright(self) -> bool:
        """Return whether Theta is a box itself."""
        return self.cube and bool((self.shear == np.eye(self.dimension)).all())

    @property
    def _turns(self) -> tuple[int, ...]:
        return self.order or tuple(reversed(range(self.dimension)))

    def least_length(self, centres: Floats, half: Floats) -> Floats:
        """Return lower bounds of ``||theta||_1`` on boxes ``|u - centre| <= half`` (shape k).

        For any signs s, ``||theta||_1 >= s'V u >= s'V c - |s'V| half``.
        """
        theta = centres @ self.shear.T
        facing = np.sign(theta) @ self.shear
        size = np.abs(theta).sum(axis=1)
        reach = np.abs(facing) @ half
        rounding = _SLACK * (np.abs(centres) + half) @ np.abs(self.shear).sum(axis=0)
        return np.asarray(size - reach - rounding)

    def faces(self, box: Box) -> list[tuple[tuple[int, ...], int]]:
        """Return integers w and b such that a box holds the theta with ``w'theta >= b`` for all.

        Coordinate j of u is row j of the inverse of V times theta, a multiple of
        ``2**-(SHEAR_BITS (d - 1))``.
        """
        scale = SHEAR_BITS * (self.dimension - 1)
        found = []
        for row, low, side in zip(self._inverse(), box.lower, box.sides, strict=True):
            found.append((tuple(row), low << scale))
            # The upper end is not in the box: for integers, less than it is at most one less.
            found.append((tuple(-entry for entry in row), 1 - ((low + side) << scale)))
        return found

    def _inverse(self) -> list[list[int]]:
        """Return the inverse of V times ``2**(SHEAR_BITS (d - 1))``, exactly."""
        d = self.dimension
        shear = (self.shear * 2.0**SHEAR_BITS).astype(np.int64).tolist()
        scale = SHEAR_BITS * (d - 1)
        rows = [[(j == k) << scale for k in range(d)] for j in range(d)]
        for turn, j in enumerate(self._turns):
            for i in self._turns[:turn]:
                rows[j] = [
                    # exact: b is a multiple of 2**(SHEAR_BITS (d - turn))
                    a - (shear[j][i] * b >> SHEAR_BITS)
                    for a, b in zip(rows[j], rows[i], strict=True)
                ]
        return rows

    def draw_point(self, box: Box, randomness: Randomness) -> tuple[int, ...]:
        """Return one of the box's grid points, each with the same probability."""
        return self.point(box, [randomness.below(side) for side in box.sides])

    def point(self, box: Box, place: Sequence[int]) -> tuple[int, ...]:
        """Return the grid point at a place, 0 <= place_j < sides_j, of a box."""
        d = self.dimension
        scale = SHEAR_BITS * (d - 1)
        shear = (self.shear * 2.0**SHEAR_BITS).astype(np.int64).tolist()
        theta = [0] * d
        u = [0] * d  # times 2**scale, exact: u_j is a multiple of 2**-(SHEAR_BITS turn)
        for turn, j in enumerate(self._turns):
            offset = sum(shear[j][k] * u[k] for k in self._turns[:turn]) >> SHEAR_BITS
            # rounded up: below it u_j is not in the box
            first = -((-(box.lower[j] << scale) - offset) >> scale)
            theta[j] = first + place[j]
            u[j] = (theta[j] << scale) - offset
        return tuple(theta)


# A law on the grid: lower bounds on boxes, exact values at points

Knowledge = TypeVar("Knowledge")


@dataclass(frozen=True, slots=True, eq=False)
class Children(Generic[Knowledge]):
    """A law's bounds on k boxes: certified lower bounds of E, and its knowledge of each.

    ``exponents`` (length k, finite, at least the law's ``floor``) holds floats that are
    certainly at most E(theta) at every theta of the box. ``effort`` is what it took beyond a usual
    look at boxes, in tries.
    """

    exponents: Floats
    knowledge: Sequence[Knowledge]
    effort: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Start(Generic[Knowledge]):
    """A start box, a lower bound of E on it, and the knowledge of it."""

    box: Box
    exponent: float
    known: Knowledge


class BoxLaw(Protocol[Knowledge]):
    """A law on the grid. Coordinates u and theta are as in :class:`Space`, in grid steps."""

    @property
    def floor(self) -> float:
        """Return a lower bound of E on all of Theta."""

    def start(self, space: Space) -> Sequence[Start[Knowledge]]:
        """Return boxes that cover Theta without overlap; E is at least ``floor`` everywhere."""

    def widths(self, known: Knowledge) -> Floats | None:
        """Return how much each coordinate of a box matters, per unit of width; None: equally."""

    def size(self, known: Knowledge) -> int:
        """Return about how many bytes the knowledge of one box takes, without what boxes share."""

    def split(self, known: Knowledge, centres: Floats, half: Floats) -> Children[Knowledge]:
        """Bound E on the boxes ``|u - centre| <= half`` inside the box known.

        ``centres`` has shape (k, d), exact; ``half`` (d) holds for all of them.
        """

    def exponent(self, known: Knowledge, point: Sequence[int], bits: int) -> arb:
        """Return a ball around E at a grid point theta of the box, at ``bits`` working bits."""
