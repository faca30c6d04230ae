"""The passes over rows: sums over each block, in exact integers.

Every term of a sum is made from its record alone, in floats with a proved error, rounded to a
multiple of ``2**-44``, and added up as an integer. So a sum is the same bits in whichever blocks
and order the rows come, and errs by at most its number of terms times what one term errs by.

*Terms.* With ``a = c - x`` exact, ``r = |a|``, ``u = a / r`` and ``t = R / r``: u errs by
(d + 6) 2**-53 and t by as much relatively, so products of up to three of u and two of t, all of
them at most 1, err by less than 2**-47; rounding adds 2**-45. Together below ``TERM_ERROR``.

*The last word* is in integers: for a record at ``sqrt(D)`` steps, D an integer, ``a_j / sqrt(D)``
times 2**b is ``(a_j 2**(2b)) // isqrt(D 2**(2b))`` within 3: the root, at least 2**b, is within 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.domain import CODE_MAX
from mechanisms.exact.floats import Floats, Integers
from mechanisms.objectives.points.cells import Cells, Frame

Block = Mapping[str, NDArray[np.int32]]
"""Some rows: codes by the column's name."""

TERM_ERROR = 2.0**-44
"""The largest error of a term of a sum."""

FAR = {2: 16.0, 3: 8.0, 4: 4.0}
"""Records farther from a ball's centre than this multiple of its radius are summed up, by
dimension: in more dimensions a surrounding of the same width holds more of them."""

_TERM_BITS = 44  # a chunk's sum is then below 2**60
_INNER = 2.0**-6  # of a ball: within this radius a finer resolution hardly changes draws
_CHUNK_ROWS = 1 << 16  # integers of a chunk stay below 2**63, and its arrays in the cache


@dataclass(frozen=True, slots=True)
class Points:
    """The columns that points are made of, and how many bits finer than codes their grid is."""

    names: tuple[str, ...]
    shift: int

    @property
    def dimension(self) -> int:
        """Return d."""
        return len(self.names)

    def codes(self, block: Block) -> Integers:
        """Return a block's points (n x d), in codes."""
        return np.column_stack([block[name] for name in self.names]).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Survey:
    """A pass: the cells of all points."""

    points: Points

    @property
    def frame(self) -> Frame:
        """Return the cube of all codes."""
        return Frame((-CODE_MAX,) * self.points.dimension, CODE_MAX.bit_length() + 1)

    def __call__(self, block: Block) -> Cells:
        """Return the cells of a block."""
        return Cells.of(self.points.codes(block), self.frame)


@dataclass(frozen=True, slots=True)
class Ball:
    """Where sums are expanded: the points within ``radius`` of ``centre``, in grid steps."""

    centre: tuple[float, ...]
    radius: float

    @property
    def reach(self) -> float:
        """Return how far from the centre points are near."""
        return self.radius * FAR[len(self.centre)]

    def frame(self, shift: int) -> Frame:
        """Return a cube, in codes, around all points that are not far from the ball."""
        bits = (math.ceil(self.reach / (1 << shift)) + 2).bit_length() + 1
        lower = tuple(math.floor(c / (1 << shift)) - (1 << bits - 1) for c in self.centre)
        inner = math.ceil(self.radius / (1 << shift) * _INNER)
        return Frame(lower, bits, inner)


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sums over the records far from a ball, times ``2**44``, and the cells of those near it.

    ``sums`` are those of :func:`far_terms`; ``count`` is the number of far records.
    """

    count: int
    sums: tuple[int, ...]
    near: Cells


@dataclass(frozen=True, slots=True)
class Expand:
    """A pass: the moments of the points around some balls."""

    points: Points
    balls: tuple[Ball, ...]

    def __call__(self, block: Block) -> list[Moments]:
        """Return a block's moments."""
        codes = self.points.codes(block)
        return [self._moments(codes, ball) for ball in self.balls]

    def _moments(self, codes: Integers, ball: Ball) -> Moments:
        count, sums = 0, [0] * terms(self.points.dimension)
        near = []
        for start in range(0, len(codes), _CHUNK_ROWS):
            part = codes[start : start + _CHUNK_ROWS]
            away, distance = seen(part, ball.centre, self.points.shift)
            far = distance >= ball.reach
            if not far.all():
                near.append(part[~far])
                away, distance = away[:, far], distance[far]
            count += away.shape[1]
            unit, t = away / distance, ball.radius / distance
            for place, term in enumerate(far_terms(unit, t)):
                sums[place] += _total(term)
        found = np.concatenate(near) if near else codes[:0]
        return Moments(count, tuple(sums), Cells.of(found, ball.frame(self.points.shift)))


def all_moments(parts: Sequence[Moments], ball: Ball, points: Points) -> Moments:
    """Return the moments of all the points that some were made of."""
    sums = [0] * terms(points.dimension)
    for part in parts:
        sums = [a + b for a, b in zip(sums, part.sums, strict=True)]
    near = Cells.all((part.near for part in parts), ball.frame(points.shift))
    return Moments(sum(part.count for part in parts), tuple(sums), near)


def seen(codes: Integers, place: Sequence[float], shift: int) -> tuple[Floats, Floats]:
    """Return the ways from points to a place (d x n), in grid steps, exact, and their lengths."""
    away = np.array([c - (codes[:, j] << shift) for j, c in enumerate(place)])
    # Column by column: no bit of a row's length may depend on its neighbouring rows.
    square = away[0] * away[0]
    for each in away[1:]:
        square = square + each * each
    return away, np.sqrt(square)


def terms(dimension: int) -> int:
    """Return the number of :func:`far_terms`."""
    pairs = dimension * (dimension + 1) // 2
    triples = pairs * (dimension + 2) // 3
    return 2 * dimension + pairs + triples + 3


def far_terms(unit: Floats, t: Floats) -> list[Floats]:
    """Return u; t, t u u'; t^2 u, t^2 u u u; t^2, t^3: what an expansion is made of (n each).

    Products of several u come once for each multiset of axes, in their order.
    """
    d, square = len(unit), t * t
    pairs = [unit[j] * unit[k] for j, k in combinations_with_replacement(range(d), 2)]
    triples = [
        unit[i] * unit[j] * unit[k] for i, j, k in combinations_with_replacement(range(d), 3)
    ]
    return [
        *unit,
        t,
        *(t * pair for pair in pairs),
        *(square * each for each in unit),
        *(square * triple for triple in triples),
        square,
        square * t,
    ]


@dataclass(frozen=True, slots=True)
class Gradient:
    """A pass: the sum of unit vectors at a place, times ``2**44``, each within ``TERM_ERROR``."""

    points: Points
    place: tuple[int, ...]

    def __call__(self, block: Block) -> list[int]:
        """Return a block's sum."""
        codes = self.points.codes(block)
        total = [0] * self.points.dimension
        place = [float(c) for c in self.place]
        for start in range(0, len(codes), _CHUNK_ROWS):
            away, distance = seen(codes[start : start + _CHUNK_ROWS], place, self.points.shift)
            unit = away / np.where(distance > 0, distance, 1.0)
            total = [t + _total(u) for t, u in zip(total, unit, strict=True)]
        return total


@dataclass(frozen=True, slots=True)
class ExactGradient:
    """A pass: the sum of unit vectors at a place, times ``2**bits``, each entry within 3."""

    points: Points
    place: tuple[int, ...]
    bits: int

    def __call__(self, block: Block) -> list[int]:
        """Return a block's sum."""
        codes = self.points.codes(block) << self.points.shift
        return unit_sum(codes.tolist(), None, self.place, self.bits)


def unit_sum(
    rows: list[list[int]], counts: list[int] | None, place: Sequence[int], bits: int
) -> list[int]:
    """Return the sum of unit vectors times ``2**bits``, in integers, each entry within 3."""
    total = [0] * len(place)
    for number, row in enumerate(rows):
        away = [k - x for k, x in zip(place, row, strict=True)]
        square = sum(a * a for a in away)
        if square:
            root = math.isqrt(square << 2 * bits)
            count = 1 if counts is None else counts[number]
            total = [
                t + count * ((a << 2 * bits) // root) for t, a in zip(total, away, strict=True)
            ]
    return total


def _total(term: Floats) -> int:
    """Return the sum of a term times ``2**44``, each rounded."""
    scaled: Any = np.rint(term * 2.0**_TERM_BITS)
    return int(scaled.astype(np.int64).sum())
