"""The source of fields: the points themselves where they are few, else passes over the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from mechanisms.exact.floats import Floats, Integers
from mechanisms.objectives.design import distinct_rows
from mechanisms.objectives.points.cells import Cells
from mechanisms.objectives.points.field import Field
from mechanisms.objectives.points.passes import (
    FAR,
    TERM_ERROR,
    Ball,
    Block,
    ExactGradient,
    Expand,
    Gradient,
    Points,
    Survey,
    all_moments,
    unit_sum,
)

EXACT_ERROR = 3
"""How far an entry of :meth:`Source.exact` may be off for each point, in its last bit."""

_KEPT = 1 << 19  # rows, some 60 MB: cells of more are blurred

T = TypeVar("T")


class StoredRows(Protocol):
    """Rows that passes are made over."""

    def map(self, function: Callable[[Block], T], columns: Sequence[str], /) -> Iterator[T]:
        """Yield the function's result for each block of rows, in their order."""


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """The knowledge of a box: a field for bounds, and one for values, of the same ball or wider.

    ``size`` is how many bytes of it no other box shares. ``matter`` is how much each side of a
    box matters, per unit of width, where that was found.
    """

    field: Field
    base: Field
    size: int = 0
    matter: Floats | None = None

    @classmethod
    def alone(cls, field: Field) -> Known:
        """Return a field that was made for one box."""
        return cls(field, field, field.size)

    def among(self, boxes: int) -> Known:
        """Return the same for each of the parts of a box."""
        return replace(self, size=self.size // boxes)


class Source(Protocol):
    """The points of a law, however many."""

    @property
    def count(self) -> int:
        """Return the number of points."""

    @property
    def root(self) -> Known:
        """Return the knowledge of all of Theta."""

    def kept(self) -> Source:
        """Return the same points in memory, if they are few."""

    def around(self, balls: Sequence[Ball]) -> list[Known]:
        """Return the sharpest available fields on balls."""

    def gradient(self, place: tuple[int, ...]) -> tuple[Floats, float]:
        """Return the sum of unit vectors at a place, and how far it may be off."""

    def exact(self, place: tuple[int, ...], bits: int) -> list[int]:
        """Return the same times ``2**bits``, within ``EXACT_ERROR`` for each point."""


def survey(data: StoredRows, points: Points, radius: int) -> Source:
    """Return the points of some data, after one pass over the rows."""
    look = Survey(points)
    cells = Cells.all(data.map(look, points.names), look.frame)
    field = Field.whole(cells, points.dimension, radius, points.shift)
    root = Known(field, field)
    count = int(cells.counts.sum())
    if cells.exact:
        return HeldPoints(cells, points, count, root)
    return Rows(data, points, count, root, radius)


def held(codes: Integers, points: Points, radius: int) -> HeldPoints:
    """Return points in memory."""
    distinct, counts = distinct_rows(codes)
    sums = distinct * counts[:, None]
    keys = np.arange(len(distinct), dtype=np.uint64)
    cells = Cells(0, keys, counts, sums, distinct, distinct)
    field = Field.whole(cells, points.dimension, radius, points.shift)
    return HeldPoints(cells, points, int(counts.sum()), Known(field, field))


@dataclass(frozen=True, slots=True, eq=False)
class HeldPoints:
    """Few distinct points, in memory: nothing needs a pass."""

    cells: Cells
    points: Points

    count: int
    root: Known

    def kept(self) -> Source:
        """Return the points, which are in memory."""
        return self

    def around(self, balls: Sequence[Ball]) -> list[Known]:
        """Return the fields on balls."""
        whole = self.root.field
        far = FAR[self.points.dimension]
        fields = [whole.narrowed(np.array(ball.centre), ball.radius, far) for ball in balls]
        return [Known.alone(field) for field in fields]

    def gradient(self, place: tuple[int, ...]) -> tuple[Floats, float]:
        """Return the sum of unit vectors at a place, and how far it may be off."""
        return self.root.field.value(np.array(place, dtype=np.float64))

    def exact(self, place: tuple[int, ...], bits: int) -> list[int]:
        """Return the same in integers."""
        # exact cells hold one distinct point each, which is least and most
        rows = (self.cells.least << self.points.shift).tolist()
        return unit_sum(rows, self.cells.counts.tolist(), place, bits)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Many distinct points, read again in every pass."""

    data: StoredRows
    points: Points

    count: int
    root: Known
    radius: int

    def kept(self) -> Source:
        """Return the same points in memory, if they are few: their cells have no blur then."""
        if self.count > _KEPT:
            return self
        codes = list(self.data.map(self.points.codes, self.points.names))
        return held(np.concatenate(codes), self.points, self.radius)

    def around(self, balls: Sequence[Ball]) -> list[Known]:
        """Return the fields on balls, from one pass."""
        look = Expand(self.points, tuple(balls))
        each = zip(*self.data.map(look, self.points.names), strict=True)
        moments = [
            all_moments(parts, ball, self.points) for parts, ball in zip(each, balls, strict=True)
        ]
        fields = [
            Field.of(found, ball, self.points) for found, ball in zip(moments, balls, strict=True)
        ]
        return [Known.alone(field) for field in fields]

    def gradient(self, place: tuple[int, ...]) -> tuple[Floats, float]:
        """Return the sum of unit vectors at a place, from one pass."""
        parts = self.data.map(Gradient(self.points, place), self.points.names)
        total = [sum(entries) for entries in zip(*parts, strict=True)]
        # Once for the terms, once for the float that their sum becomes.
        error = 2 * TERM_ERROR * self.count
        return np.array(total) * TERM_ERROR, error

    def exact(self, place: tuple[int, ...], bits: int) -> list[int]:
        """Return the same in integers, from one pass."""
        parts = self.data.map(ExactGradient(self.points, place, bits), self.points.names)
        return [sum(entries) for entries in zip(*parts, strict=True)]
