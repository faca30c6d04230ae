"""The public linear map from a record's codes to the columns of a regression.

Norms of a sum of gradients ``a x`` with |x_j| <= 1, exact and in floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import starmap
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.floats import Floats, Integers
from mechanisms.samplers.bodies import Joined
from mechanisms.samplers.boxes import Space, Start
from mechanisms.samplers.polytopes import Cut, Part, Polytope

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


# The public linear map from a record's codes to the columns of a regression


# Distinct rows of integers, stored once with their count


def distinct_rows(rows: Integers, counts: Integers | None = None) -> tuple[Integers, Integers]:
    """Return the distinct rows (n x d) and how often each occurs, ``counts`` times where given."""
    given = np.ones(len(rows), dtype=np.int64) if counts is None else counts
    if len(rows) < 2:
        return rows, given
    order, starts = _arranged(rows)
    return rows[order[starts]], np.add.reduceat(given[order], starts)


def _arranged(rows: Integers) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return an order in which equal rows are adjacent, and where each run begins."""
    order = np.lexsort(rows.T)
    arranged = rows[order]
    new = np.append(True, (arranged[1:] != arranged[:-1]).any(axis=1))
    return order, np.flatnonzero(new)


# The boxes that a draw begins with, as polytopes

Knowledge = TypeVar("Knowledge")


def on_polytopes(
    space: Space, starts: Sequence[Start[Any]], inside: Knowledge, outside: Knowledge
) -> list[Part[Knowledge]]:
    """Return polytopes that cover Theta as boxes do: one at the minimiser, others around it.

    What lies outside of the first box has one bound, that of the others. ``inside`` and ``outside``
    are what is known there.
    """
    left: Polytope | None = Polytope.cross(space.dimension, space.radius)
    inner, *outer = starts
    parts: list[Part[Knowledge]] = []
    # the slabs outside of the inner box come off one by one, as Box.less cuts them
    for cut in starmap(Cut, space.faces(inner.box)) if outer else ():
        left, slab = left.halves(cut) if left else (None, None)
        if slab is not None:
            parts.append(Part(slab, outer[0].exponent, outside))
    if left is not None:
        parts.append(Part(left, inner.exponent, inside))
    return parts


# The public linear map from a record's codes to the columns of a regression


@dataclass(frozen=True, slots=True)
class Design:
    """The public map from codes to scaled columns: x = W (1, a_1/F, ..., a_k/F).

    Without an intercept x_j = offset_j + slope_j a_j / F. With one, x starts
    with the constant 1.
    """

    offsets: tuple[Fraction, ...]
    slopes: tuple[Fraction, ...]
    intercept: bool

    @property
    def dimension(self) -> int:
        """Return d, the intercept included."""
        return len(self.slopes) + self.intercept

    def pull(self, theta: Sequence[Fraction]) -> list[Fraction]:
        """Return w = W' theta, exactly."""
        slopes = theta[1:] if self.intercept else theta
        constant = sum((o * t for o, t in zip(self.offsets, slopes, strict=True)), Fraction(0))
        first = constant + (theta[0] if self.intercept else 0)
        return [first, *(s * t for s, t in zip(self.slopes, slopes, strict=True))]

    def constant(self, value: Fraction) -> list[Fraction]:
        """Return what, times a record's codes, is this number."""
        return [value] + [Fraction(0)] * len(self.slopes)

    def matrix(self) -> list[list[Fraction]]:
        """Return W, d rows of k + 1."""
        size = len(self.slopes)
        rows = [[Fraction(1)] + [Fraction(0)] * size] if self.intercept else []
        for j, (offset, slope) in enumerate(zip(self.offsets, self.slopes, strict=True)):
            rows.append([offset] + [slope if j == k else Fraction(0) for k in range(size)])
        return rows


@dataclass(frozen=True, slots=True)
class CellDesign:
    """The public map from what a record is in its cell to the columns: x = F z.

    z has a block for each cell, (1, u_1, .., u_e) in the record's own and zeros in others, and then
    what all cells share.
    """

    joined: Joined

    @property
    def dimension(self) -> int:
        """Return d."""
        return len(self.joined.matrix)

    def constant(self, value: Fraction) -> list[Fraction]:
        """Return what, times a record's z, is this number."""
        nothing = [Fraction(0)] * self.joined.shared
        cells = (
            entry for size in self.joined.blocks for entry in (value, *[Fraction(0)] * (size - 1))
        )
        return [*cells, *nothing]

    def matrix(self) -> Sequence[Sequence[Fraction]]:
        """Return F, d rows."""
        return self.joined.matrix
