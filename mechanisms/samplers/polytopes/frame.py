"""Boxes in coordinates of their own, from which points of a polytope are proposed.

*Coordinates.* The directions in which a polytope is long come first. With p the order of theta's
entries and a strictly lower triangular M of multiples of 2**-40, a frame holds the theta with

    a_j <= theta_p(j) - sum_{k<j} M_jk theta_p(k) < a_j + n_j    for every j.

Given the entries before it, theta_p(j) is in a half-open interval of length n_j. So a frame holds
exactly ``n_1 ... n_d`` grid points, whatever p and M, and one of them is drawn uniformly entry by
entry. Where M is what a regression on the polytope's vertices gives, the frame is about as thin
as the polytope in every direction. p and M are choices of cost only; a and n come from the exact
vertices, so that every grid point of the polytope is inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mechanisms.exact.arrays import Floats
from mechanisms.exact.floats import SPACING
from mechanisms.randomness import Randomness
from mechanisms.samplers.polytopes.polytope import Cut, Polytope

_BITS = 40  # a slope's error then moves no point of Theta by more than a few grid steps
_STEEPEST = 2.0**20  # a steeper slope is rounding, of a polytope that is flat


@dataclass(frozen=True, slots=True)
class Frame:
    """A box in its own coordinates: order p, rows of ``2**40 M``, lower ends and sides."""

    order: tuple[int, ...]
    slopes: tuple[tuple[int, ...], ...]
    lower: tuple[int, ...]
    sides: tuple[int, ...]

    @classmethod
    def around(cls, polytope: Polytope) -> Frame:
        """Return a frame that holds every grid point of a polytope."""
        vertices = polytope.floats
        order, slopes = _shape(vertices)
        functionals = (
            np.array([_functional(order, row, j) for j, row in enumerate(slopes)], dtype=np.float64)
            * 2.0**-_BITS
        )
        places = vertices @ functionals.T
        # d products, as many sums, the vertices and the functionals are rounded
        sizes = np.abs(vertices).max(axis=0) @ np.abs(functionals).T
        margin = (len(order) + 4) * SPACING * sizes
        low = np.floor(places.min(axis=0) - margin).astype(np.int64).tolist()
        high = np.floor(places.max(axis=0) + margin).astype(np.int64).tolist()
        return cls(
            order=order,
            slopes=slopes,
            lower=tuple(low),
            sides=tuple(b - a + 1 for a, b in zip(low, high, strict=True)),
        )

    @property
    def points(self) -> int:
        """Return the number of grid points inside."""
        return math.prod(self.sides)

    def draw_point(self, randomness: Randomness) -> tuple[int, ...]:
        """Return one of the grid points, each with the same probability."""
        return self.point([randomness.below(side) for side in self.sides])

    def point(self, place: Sequence[int]) -> tuple[int, ...]:
        """Return the grid point at a place, 0 <= place_j < sides_j."""
        found: list[int] = []
        for row, low, offset in zip(self.slopes, self.lower, place, strict=True):
            shift = sum(m * t for m, t in zip(row, found, strict=True))
            # The least integer that is not below the frame's lower end.
            found.append(low - (-shift >> _BITS) + offset)
        theta = [0] * len(found)
        for entry, t in zip(self.order, found, strict=True):
            theta[entry] = t
        return tuple(theta)

    def halving(self, turn: int) -> Cut | None:
        """Return a cut through the middle of a side, whose turn it is, or None for one point."""
        sides = [j for j, side in enumerate(self.sides) if side > 1]
        if not sides:
            return None
        j = sides[turn % len(sides)]
        middle = self.lower[j] + self.sides[j] // 2
        return Cut(_functional(self.order, self.slopes[j], j), middle << _BITS)


def _functional(order: Sequence[int], row: Sequence[int], j: int) -> tuple[int, ...]:
    """Return ``2**40`` times coordinate j, as a functional of theta."""
    functional = [0] * len(order)
    functional[order[j]] = 1 << _BITS
    for entry, slope in zip(order, row, strict=False):
        functional[entry] = -slope
    return tuple(functional)


def _shape(vertices: Floats) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return p and the rows of 2**40 M: each entry regressed on those before it, longest first."""
    dimension = vertices.shape[1]
    # above what is left of the vertices, below the residual of entry j as column j, in theta
    both = np.vstack([vertices - vertices.mean(axis=0), np.eye(dimension)])
    left, residual = both[:-dimension], both[-dimension:]
    order: list[int] = []
    rows = []
    for _ in range(dimension):
        lengths = (left**2).sum(axis=0)
        lengths[order] = -1
        pivot = int(lengths.argmax())
        row = [-entry for entry in residual[order, pivot].tolist()]
        steep = not all(abs(m) < _STEEPEST for m in row)
        rows.append(tuple(0 if steep else round(m * 2.0**_BITS) for m in row))
        order.append(pivot)
        if lengths[pivot] > 0:
            share = left[:, pivot] @ left / lengths[pivot]
            share[order] = 0
            both -= both[:, pivot, None] * share
    return tuple(order), tuple(rows)
