"""Norms of a sum of gradients ``a x`` with |x_j| <= 1, exact and in floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
from flint import arb

from mechanisms.exact.balls import dot, norm_largest, norm_one
from mechanisms.exact.many import Floats

NormName = Literal["linf", "l2", "l1"]


class GradientNorm(Protocol):
    """A norm that grows with the absolute value of each coordinate."""

    def of(self, vector: Sequence[Fraction]) -> Fraction:
        """Return the exact norm."""

    def floats(self, sizes: Floats) -> Floats:
        """Return the norms of rows of absolute values (k x d), to a few units in the last place."""

    def dual(self, sizes: Floats) -> Floats:
        """Return the dual norms of rows of absolute values, to a few units in the last place."""


@dataclass(frozen=True, slots=True)
class Linf:
    """The largest absolute coordinate."""

    def of(self, vector: Sequence[Fraction]) -> Fraction:
        """Return the exact norm."""
        return max(map(abs, vector))

    def floats(self, sizes: Floats) -> Floats:
        """Return the norms of rows of absolute values."""
        return np.asarray(sizes.max(axis=1))

    def dual(self, sizes: Floats) -> Floats:
        """Return the l1 norms of rows of absolute values."""
        return np.asarray(sizes.sum(axis=1))


@dataclass(frozen=True, slots=True)
class InterceptHullNorm:
    """The norm of the hull of all changes ``a x - a' x'`` when x starts with the constant 1.

    The hull itself, as a body to draw from, is :class:`mechanisms.samplers.bodies.InterceptHull`.
    With M = ``weight`` it is ``|u_1| <= 1, |u_j| <= 2M - (2M - 1) |u_1|``, so

        ||u|| = max(|u_1|, max_j (|u_j| + (2M - 1) |u_1|) / (2M)).
    """

    weight: Fraction

    def of(self, vector: Sequence[Fraction]) -> Fraction:
        """Return the exact norm."""
        double, first = 2 * self.weight, abs(vector[0])
        return max([first, *((abs(u) + (double - 1) * first) / double for u in vector[1:])])

    def floats(self, sizes: Floats) -> Floats:
        """Return the norms of rows of absolute values."""
        double = 2 * float(self.weight)
        rest = (sizes[:, 1:].max(axis=1, initial=0) + (double - 1) * sizes[:, 0]) / double
        return np.asarray(np.maximum(sizes[:, 0], rest))

    def dual(self, sizes: Floats) -> Floats:
        """Return the dual norms: the hull's corners have |u_1| = 0 or |u_1| = 1."""
        rest = sizes[:, 1:].sum(axis=1)
        return np.asarray(np.maximum(2 * float(self.weight) * rest, sizes[:, 0] + rest))


class CubeNorm:
    """linf, or l2 over sqrt(d), or l1 over d: at most 1 on the cube."""

    __slots__ = ("dimension", "name")

    def __init__(self, name: NormName, dimension: int) -> None:
        self.name = name
        self.dimension = dimension

    def floats(self, sizes: Floats) -> Floats:
        """Return the norms of rows of absolute values, to a few units in the last place."""
        if self.name == "linf":
            return np.asarray(sizes.max(axis=1))
        if self.name == "l2":
            return np.asarray(np.sqrt((sizes**2).sum(axis=1) / self.dimension))
        return np.asarray(sizes.sum(axis=1) / self.dimension)

    def dual(self, sizes: Floats) -> Floats:
        """Return the dual norms of rows of absolute values, to a few units in the last place."""
        if self.name == "linf":
            return np.asarray(sizes.sum(axis=1))
        if self.name == "l2":
            return np.asarray(np.sqrt((sizes**2).sum(axis=1) * self.dimension))
        return np.asarray(sizes.max(axis=1) * self.dimension)

    def ball(self, vector: Sequence[arb]) -> arb:
        """Return a ball around the norm."""
        if self.name == "linf":
            return norm_largest(vector)
        if self.name == "l2":
            square = dot(vector, vector) / self.dimension
            return square.nonnegative_part().sqrt()
        return norm_one(vector) / self.dimension
