"""Exact continuous K-norm vectors for any symmetric convex body K, as lazily refined balls.

``f(V) ∝ exp(-rate ||V||_K)`` on R^d: V = r U with r ~ Gamma(d + 1) / rate and U uniform
on K (Awan & Slavkovic, Algorithm 8 with r U where T + U is printed). U is drawn by
rejection from a box that holds K: a uniform point of the box, of which as many
bits are drawn as it takes to decide whether it lies in K. A point undecided at
every precision lies on the boundary, which has probability 0.

The number of tries, vol(box) / vol(K) on average, depends on K alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Protocol

import numpy as np
from flint import arb
from numpy.typing import NDArray
from scipy.optimize import linprog

from mechanisms.exact.balls import dot, rational
from mechanisms.exact.continuous import (
    BallNorm,
    LazyVector,
    gamma,
    inverse_root,
    knorm_vector,
    settled,
)
from mechanisms.exact.floats import working_precision
from mechanisms.exact.fractions import fmpq_matrix, solve
from mechanisms.randomness import LazyUniform, Randomness

_GUARD_BITS = 32  # more than a membership test can lose
_FIRST_BITS = 24  # most points are far from the edge


class Body(Protocol):
    """A bounded symmetric convex set with interior points.

    ``halfwidths`` are exact and bound the coordinates: K lies in the product of
    [-w_j, w_j].
    """

    @property
    def halfwidths(self) -> tuple[Fraction, ...]: ...

    def contains(self, point: Sequence[arb]) -> bool | None:
        """Return whether the point lies in K, None if its balls leave that open."""


class BodyVector:
    """V = r U, lazily; implements :class:`~mechanisms.exact.continuous.LazyVector`.

    Parameters
    ----------
    body : Body
        K.
    rate_squared : Fraction
        The rate's square, exactly.
    randomness : Randomness
        Where the bits come from.

    Notes
    -----
    **Privacy.** With rate = epsilon / Delta_K, ``T + V`` is epsilon-DP for a statistic of
    K-norm sensitivity Delta_K (Awan & Slavkovic, Prop. 2.10).
    """

    __slots__ = ("_halfwidths", "_point", "_radius", "_rate_squared")

    def __init__(self, body: Body, rate_squared: Fraction, randomness: Randomness) -> None:
        size = len(body.halfwidths)
        self._halfwidths = body.halfwidths
        self._rate_squared = rate_squared
        self._radius = [randomness.uniform() for _ in range(size + 1)]
        self._point = [randomness.uniform() for _ in range(size)]
        # Only the point is drawn again: whether it is in K is independent of the radius.
        while not self._inside(body):
            self._point = [randomness.uniform() for _ in range(size)]

    def enclose(self, bits: int) -> list[arb]:
        """Return balls around the coordinates; their radii vanish as ``bits`` grows."""
        with working_precision(bits + _GUARD_BITS):
            radius = inverse_root(self._rate_squared) * gamma(self._radius, bits)
            return [radius * u for u in self._placed(bits)]

    def _inside(self, body: Body) -> bool:
        return settled(
            lambda bits: body.contains(self._placed(bits)),
            first_bits=_FIRST_BITS,
            guard_bits=_GUARD_BITS,
        )

    def _placed(self, bits: int) -> list[arb]:
        return [_place(u, w, bits) for u, w in zip(self._point, self._halfwidths, strict=True)]


def _place(uniform: LazyUniform, halfwidth: Fraction, bits: int) -> arb:
    return rational(halfwidth) * (2 * uniform.enclose(bits) - 1)


@dataclass(frozen=True, slots=True)
class Halfspaces:
    """K = {u : |a'u| <= 1 for each row a}, the norm max |a'u|.

    >>> Halfspaces.build([[1, 1], [1, -1]]).halfwidths
    (Fraction(1, 1), Fraction(1, 1))
    """

    rows: tuple[tuple[Fraction, ...], ...]
    halfwidths: tuple[Fraction, ...]

    @classmethod
    def build(cls, rows: Sequence[Sequence[Fraction | int]]) -> Halfspaces:
        """Return the body with exact half-widths.

        The largest u_j on K is the least sum |y_i| over combinations
        ``sum y_i a_i = e_j``. A float solver names the rows of a good one, the
        combination itself is solved in rationals, and any exact combination is
        a bound.

        Raises
        ------
        ValueError
            The rows do not bound a body.
        """
        exact = tuple(tuple(Fraction(entry) for entry in row) for row in rows)
        size = len(exact[0]) if exact else 0
        return cls(exact, tuple(_halfwidth(exact, j) for j in range(size)))

    def contains(self, point: Sequence[arb]) -> bool | None:
        """Return whether every |a'u| <= 1."""
        return decided(abs(dot([rational(a) for a in row], point)) for row in self.rows)

    @property
    def cube_norm(self) -> Fraction:
        """Return the largest norm of a point of [-1, 1]^d, exactly: max ||a||_1."""
        return max(sum(map(abs, row), Fraction(0)) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Joined:
    """The tilts F V of gradients F z, z in one of several blocks: V has a draw for each block.

    A record's gradient is a F z. z has entries in one of the ``blocks``, and in a last one, of
    length ``shared``, that all records have. So two records' gradients differ by F u with

        sum_g ||u_g|| <= Delta,

    the sum over all blocks, the last one too, of a named norm: :mod:`mechanisms.objectives.huber`
    has Delta. V has the density ``exp(-rate sum_g ||V_g||)`` up to a constant, which with
    rate = epsilon / Delta changes by at most exp(epsilon) when V moves by u. The density of F V at
    t is the integral of V's over {v : F v = t}, and {v : F v = t + F u} is that set moved by u: it
    too changes by at most exp(epsilon).

    ``matrix`` is F, a row for each entry of theta, exact.
    """

    matrix: tuple[tuple[Fraction, ...], ...]
    blocks: tuple[int, ...]
    shared: int = 0
    norm: BallNorm = "linf"

    @property
    def every(self) -> tuple[int, ...]:
        """Return the lengths of all blocks, that of all records last if there is one."""
        return (*self.blocks, *((self.shared,) if self.shared else ()))

    def vector(self, rate_squared: Fraction, randomness: Randomness) -> LazyVector:
        """Return F V, lazily, at this squared rate."""
        parts = [
            knorm_vector(
                norm=self.norm, dimension=size, rate_squared=rate_squared, randomness=randomness
            )
            for size in self.every
        ]
        return _JoinedVector(self.matrix, parts)


@dataclass(frozen=True, slots=True)
class _JoinedVector:
    matrix: tuple[tuple[Fraction, ...], ...]
    parts: Sequence[LazyVector]

    def enclose(self, bits: int) -> list[arb]:
        """Return balls around the coordinates; their radii vanish as ``bits`` grows."""
        with working_precision(bits + _GUARD_BITS):
            entries = [entry for part in self.parts for entry in part.enclose(bits)]
            return [dot([rational(f) for f in row], entries) for row in self.matrix]


def decided(lengths: Iterable[arb]) -> bool | None:
    """Return whether all numbers are at most 1: False if one is above, None if one is open."""
    found: bool | None = True
    for length in lengths:
        if length > 1:
            return False
        if not length <= 1:
            found = None
    return found


def _halfwidth(rows: tuple[tuple[Fraction, ...], ...], index: int) -> Fraction:
    size = len(rows[0])
    matrix = np.array([[float(entry) for entry in row] for row in rows]).T
    wanted = np.zeros(size)
    wanted[index] = 1.0
    solved = linprog(
        np.ones(2 * len(rows)), A_eq=np.hstack([matrix, -matrix]), b_eq=wanted, method="highs-ds"
    )
    if solved.status != 0:
        raise ValueError("the rows do not bound a body")
    sizes = np.abs(solved.x[: len(rows)] - solved.x[len(rows) :])
    # Largest first: those are the rows that the solver's combination is made of.
    chosen = _independent(rows, np.argsort(-sizes, kind="stable").tolist())
    system = [[rows[i][j] for i in chosen] for j in range(size)]
    weights = solve(system, [Fraction(int(j == index)) for j in range(size)])
    return sum(map(abs, weights), Fraction(0))


def _independent(rows: tuple[tuple[Fraction, ...], ...], order: Sequence[int]) -> list[int]:
    """Return the first d rows in this order that are linearly independent."""
    size = len(rows[0])
    chosen: list[int] = []
    for i in order:
        trial = fmpq_matrix(rows[k] for k in (*chosen, i))
        if trial.rank() > len(chosen):
            chosen.append(i)
        if len(chosen) == size:
            return chosen
    raise ValueError("the rows do not bound a body")


@dataclass(frozen=True, slots=True)
class InterceptHull:
    """The hull of a (1, x) - a' (1, x'), a and a' in [-tau, 1 - tau], x and x' in the cube.

    With M = max(tau, 1 - tau): |u_1| <= 1 and |u_j| <= 2 M - (2 M - 1) |u_1|. It holds every
    difference: u_1 = a - a' and |u_j| <= |a| + |a'|, and ``|a| + |a'| + (2 M - 1) |a - a'|``
    is convex in (a, a'), so largest at ends: 2 M at a = a', 1 + 2 M - 1 at opposite
    ends. Its vertices, (0, +-2 M, ...) and (+-1, +-1, ...), are such differences.
    """

    weight: Fraction
    dimension: int

    @property
    def halfwidths(self) -> tuple[Fraction, ...]:
        """Return (1, 2 M, ..., 2 M)."""
        return (Fraction(1), *((2 * self.weight,) * (self.dimension - 1)))

    def contains(self, point: Sequence[arb]) -> bool | None:
        """Return whether the point lies in the hull."""
        first, *others = point
        reach = rational(2 * self.weight) - rational(2 * self.weight - 1) * abs(first)
        return decided([abs(first), *(abs(u) / reach for u in others)])

    @property
    def spread(self) -> float:
        """Return the mean over coordinates of E u_j^2, u uniform on the hull.

        |u_1| = t has density ∝ s(t)^(d - 1), s(t) = 1 - c t, c = (2 M - 1) / (2 M), and
        given t the others are uniform on [-2 M s(t), 2 M s(t)].
        """
        nodes, weights = _nodes()
        t, d, wide = (nodes + 1) / 2, self.dimension, 2 * float(self.weight)
        shrunk = 1 - (wide - 1) / wide * t
        mass = weights * shrunk ** (d - 1)
        second = t**2 + (d - 1) * (wide * shrunk) ** 2 / 3
        return float((mass * second).sum() / mass.sum()) / d


@cache  # a plan asks two hundred times, and they take milliseconds
def _nodes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the nodes and the weights of Gauss and Legendre's rule."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    return nodes, weights
