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
from operator import mul

import numpy as np

from mechanisms.exact.arrays import Floats, Integers
from mechanisms.exact.floats import SPACING
from mechanisms.randomness import Randomness
from mechanisms.samplers.polytopes.polytope import Cut, Stack

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
