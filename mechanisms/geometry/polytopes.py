"""Polytopes of the user's as norm balls: by halfspaces or vertices, exact in rationals.

A symmetric polytope is ``K = {u : |a_i . u| <= 1 for every i}``, its norm
``max_i |a_i . u|``. Floats (Qhull, a linear program) are hints: facets found from
vertices are solved again in rationals and must hold every vertex, and a
half-width of the bounding box is the exact certificate ``sum |lambda_i|`` of some
lambda with ``sum lambda_i a_i = e_j`` (duality), whatever the program said. A facet
that was missed, or a box too wide, would cost noise or tries, never privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, log, prod

import numpy as np
from flint import arb
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from mechanisms.exact.balls import dot, rational
from mechanisms.exact.continuous import settled
from mechanisms.exact.floats import Floats, working_precision
from mechanisms.exact.fractions import fmpq_matrix, once, solve
from mechanisms.geometry.laws import hashed_uniforms
from mechanisms.geometry.smooth import Marginal, SmoothBall, Uniforms
from mechanisms.geometry.spaces import AdjacentOutputSpace
from mechanisms.randomness import LazyUniform, Randomness

Vector = tuple[Fraction, ...]
_GUARD_BITS = 32  # more than the arithmetic of a try can lose
_POINTS = 1 << 15  # simulated points for what is said of the noise


@dataclass(frozen=True)
class Polytope(SmoothBall):
    """The symmetric polytope of all u with ``|a_i . u| <= 1``.

    Parameters
    ----------
    normals : tuple of vectors
        The a_i, rational, spanning the whole space; one of each pair of signs suffices.

    Raises
    ------
    ValueError
        The normals do not bound a polytope.
    """

    normals: tuple[Vector, ...]

    def __post_init__(self) -> None:
        if not self.normals or len({len(normal) for normal in self.normals}) != 1:
            raise ValueError("give normals of one length")
        if fmpq_matrix(self.normals).rank() < self.dimension:
            raise ValueError("the halfspaces do not bound a polytope")

    @classmethod
    def from_vertices(cls, vertices: Sequence[Vector]) -> Polytope:
        """Return the hull of these points and their negatives."""
        points = [*vertices, *(tuple(-entry for entry in vertex) for vertex in vertices)]
        hull = ConvexHull(np.array([[float(entry) for entry in point] for point in points]))
        normals: dict[Vector, None] = {}
        for simplex in hull.simplices:
            corners = [points[index] for index in simplex]
            solved = _solve(corners, [Fraction(1)] * len(corners))
            # In rationals: a facet that cut a vertex off would be no bound of the sensitivity.
            if solved is None or any(_dot(solved, point) > 1 for point in points):
                raise ValueError("the vertices are too close to a plane to determine their facets")
            if tuple(-entry for entry in solved) not in normals:
                normals[solved] = None
        return cls(tuple(normals))

    @property
    def name(self) -> str:
        """Return a short description of the ball."""
        return "polytope given"

    @property
    def dimension(self) -> int:
        """Return m."""
        return len(self.normals[0])

    @property
    def is_hull(self) -> bool:
        """Return False: nothing says that it is the hull."""
        return False

    @property
    def least_steps(self) -> Fraction:
        """Return half the largest norm of a corner of the cube."""
        return max(sum((abs(a) for a in normal), Fraction(0)) for normal in self.normals) / 2

    def norm(self, point: Sequence[Fraction | int]) -> Fraction:
        """Return ``||point||_K``, exactly."""
        return max(abs(_dot(normal, point)) for normal in self.normals)

    def contains(self, point: Sequence[int], size: int) -> bool:
        """Return, exactly, whether the lattice point lies in ``size K``."""
        return self.norm(point) <= size

    def scaled(self, factor: Fraction) -> Polytope:
        """Return ``factor K``."""
        return Polytope(tuple(tuple(a / factor for a in normal) for normal in self.normals))

    def holding(self, space: AdjacentOutputSpace) -> Polytope:
        """Return the multiple of K in which the statistic's sensitivity is at most 1.

        Each facet's reach over S_T is bounded by Hoelder's inequality in l1 and linf.
        """
        reach = max(
            min(space.linf * sum(map(abs, normal)), space.l1 * max(map(abs, normal)))
            for normal in self.normals
        )
        return self.scaled(reach)

    @once
    def half_widths(self) -> Vector:
        """Return half-widths of a box that holds K, certified."""
        return tuple(self._half_width(axis) for axis in range(self.dimension))

    def _half_width(self, axis: int) -> Fraction:
        table = np.array([[float(a) for a in normal] for normal in self.normals])
        count = len(self.normals)
        goal = np.eye(self.dimension)[axis]
        found = linprog(np.ones(2 * count), A_eq=np.hstack([table.T, -table.T]), b_eq=goal)
        # Whatever the program said, the exact combination below is a bound.
        sizes = np.abs(found.x[:count] - found.x[count:]) if found.success else np.ones(count)
        chosen: list[Vector] = []
        for index in np.argsort(-sizes):
            wider = [*chosen, self.normals[index]]
            if fmpq_matrix(wider).rank() == len(wider):
                chosen = wider
        transposed = [tuple(column) for column in zip(*chosen, strict=True)]
        shares = _solve(transposed, [Fraction(int(entry)) for entry in goal])
        if shares is None:
            raise ValueError("the halfspaces do not bound a polytope")
        return sum((abs(share) for share in shares), Fraction(0))

    def point(self, randomness: Randomness) -> _Point:
        """Return a point uniform on K: uniform on its box, by rejection."""
        while True:
            point = _Point(self, [randomness.uniform() for _ in range(self.dimension)])
            if point.inside():
                return point

    @property
    def expected_tries(self) -> float:
        """Return how many points of the box are tried."""
        return _POINTS / len(self._simulated) if len(self._simulated) else inf

    @property
    def log_volume(self) -> float:
        """Return log vol K, by simulation."""
        return log(float(prod(2 * width for width in self.half_widths)) / self.expected_tries)

    def marginals(self) -> tuple[Sequence[Marginal], Sequence[int]]:
        """Return each coordinate's marginal."""
        ones = np.ones(len(self._simulated))
        found = [
            Marginal(np.abs(column), ones, float(np.mean(column**2)))
            for column in self._simulated.T
        ]
        return found, range(self.dimension)

    def correlation(self, one: int, other: int) -> float:
        """Return the correlation of two coordinates."""
        return float(np.corrcoef(self._simulated[:, one], self._simulated[:, other])[0, 1])

    def simulated_points(self, count: int, uniforms: Uniforms) -> Floats:
        """Return simulated uniform points of K."""
        rows = np.floor(uniforms("rows", count) * len(self._simulated)).astype(int)
        return np.asarray(self._simulated[rows], dtype=np.float64)

    @once
    def _simulated(self) -> Floats:
        shares = hashed_uniforms(b"polytope", _POINTS * self.dimension)
        widths = np.array([float(width) for width in self.half_widths])
        points = (2 * shares.reshape(_POINTS, self.dimension) - 1) * widths
        table = np.array([[float(a) for a in normal] for normal in self.normals])
        inside = np.abs(points @ table.T).max(axis=1) <= 1
        return np.asarray(points[inside], dtype=np.float64)


class _Point:
    """A point uniform on the box around a polytope."""

    __slots__ = ("_ball", "_uniforms")

    def __init__(self, ball: Polytope, uniforms: Sequence[LazyUniform]) -> None:
        self._ball = ball
        self._uniforms = uniforms

    def inside(self) -> bool:
        """Decide membership, with more bits until it is certain."""

        def look(bits: int) -> bool | None:
            point = self.enclose(bits)
            sizes = [
                abs(dot([rational(a) for a in normal], point)) for normal in self._ball.normals
            ]
            if any(size > 1 for size in sizes):
                return False
            return True if all(size < 1 for size in sizes) else None

        return settled(look, guard_bits=_GUARD_BITS)

    def enclose(self, bits: int) -> list[arb]:
        """Return balls around the coordinates."""
        with working_precision(bits + _GUARD_BITS):
            return [
                rational(width) * (2 * uniform.enclose(bits) - 1)
                for width, uniform in zip(self._ball.half_widths, self._uniforms, strict=True)
            ]


def _dot(one: Sequence[Fraction], other: Sequence[Fraction | int]) -> Fraction:
    return sum((a * b for a, b in zip(one, other, strict=True)), Fraction(0))


def _solve(rows: Sequence[Sequence[Fraction]], right: Sequence[Fraction]) -> Vector | None:
    """Return the exact solution of a square system, or None where it is singular."""
    try:
        return tuple(solve(rows, right))
    except ZeroDivisionError:
        return None
