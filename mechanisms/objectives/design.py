"""The public linear map from a record's codes to the columns of a regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import starmap
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.many import Integers
from mechanisms.samplers.boxes import Space, Start
from mechanisms.samplers.polytopes import Cut, Part, Polytope

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

    def matrix(self) -> list[list[Fraction]]:
        """Return W, d rows of k + 1."""
        size = len(self.slopes)
        rows = [[Fraction(1)] + [Fraction(0)] * size] if self.intercept else []
        for j, (offset, slope) in enumerate(zip(self.offsets, self.slopes, strict=True)):
            rows.append([offset] + [slope if j == k else Fraction(0) for k in range(size)])
        return rows
