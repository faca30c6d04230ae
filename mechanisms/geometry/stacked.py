"""Stacking norm balls: the product K_1 x ... x K_b, with norm the largest of the parts'.

Where the parts of a statistic move independently, the hull of its differences
is the product of their hulls (the hull of a product of sets is the product of
the hulls). A uniform point of the product is one uniform point of each part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats
from mechanisms.exact.continuous import LazyVector
from mechanisms.exact.once import once
from mechanisms.geometry.balls import Uniforms
from mechanisms.geometry.smooth import Marginal, SmoothBall
from mechanisms.randomness import Randomness


@dataclass(frozen=True)
class StackedBall(SmoothBall):
    """The product of smooth balls.

    Parameters
    ----------
    parts : tuple of SmoothBall
        The balls, equal ones being the same object where there are many.
    order : tuple of int
        Where each coordinate of the parts, one part after the other, stands in the
        whole vector: a permutation.
    hull : bool
        Whether the product is the hull: the parts are hulls and move independently.

    Raises
    ------
    ValueError
        ``order`` is no permutation of the coordinates.
    """

    parts: tuple[SmoothBall, ...]
    order: tuple[int, ...]
    hull: bool

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(sum(part.dimension for part in self.parts))):
            raise ValueError("the order must be a permutation of the coordinates")

    @property
    def name(self) -> str:
        """Return a short description of the ball."""
        names = list(dict.fromkeys(part.name for part in self.parts))
        product = f"product of {len(self.parts)} balls, each {' or '.join(names)}"
        return f"{product}: the hull" if self.hull and len(self.parts) > 1 else product

    @property
    def dimension(self) -> int:
        """Return m."""
        return len(self.order)

    @property
    def is_hull(self) -> bool:
        """Return whether the product is the hull."""
        return self.hull

    @property
    def least_steps(self) -> Fraction:
        """Return the fewest lattice steps a ring may have."""
        return max(part.least_steps for part in self.parts)

    @property
    def expected_tries(self) -> float:
        """Return how many tries a draw takes: one part at a time, so they add up."""
        return sum(part.expected_tries for part in self.parts)

    @property
    def log_volume(self) -> float:
        """Return log vol K."""
        return sum(part.log_volume for part in self.parts)

    def contains(self, point: Sequence[int], size: int) -> bool:
        """Return, in integers, whether the lattice point lies in ``size K``."""
        return all(
            part.contains([point[place] for place in places], size)
            for part, places in zip(self.parts, self._places, strict=True)
        )

    def correlation(self, one: int, other: int) -> float:
        """Return the correlation within a part; parts are uncorrelated."""
        for part, places in zip(self.parts, self._places, strict=True):
            if one in places and other in places:
                return part.correlation(places.index(one), places.index(other))
        return 0.0

    def point(self, randomness: Randomness) -> LazyVector:
        """Return a point uniform on K."""
        return _Point(self, [part.point(randomness) for part in self.parts])

    def marginals(self) -> tuple[Sequence[Marginal], Sequence[int]]:
        """Return the parts' marginals, those of equal parts once."""
        distinct: list[Marginal] = []
        first: dict[SmoothBall, tuple[int, Sequence[int]]] = {}
        standing = [0] * self.dimension
        for part, places in zip(self.parts, self._places, strict=True):
            # Equal balls have equal marginals, which take long to find.
            if part not in first:
                own, which = part.marginals()
                first[part] = (len(distinct), which)
                distinct += own
            start, which = first[part]
            for place, number in zip(places, which, strict=True):
                standing[place] = start + number
        return distinct, standing

    @once
    def _places(self) -> list[tuple[int, ...]]:
        places, start = [], 0
        for part in self.parts:
            places.append(self.order[start : start + part.dimension])
            start += part.dimension
        return places

    def simulated_points(self, count: int, uniforms: Uniforms) -> Floats:
        """Return simulated uniform points of K, part by part."""
        whole = np.zeros((count, self.dimension))
        for number, (part, places) in enumerate(zip(self.parts, self._places, strict=True)):
            # a default binds this part's number: the loop's own goes on
            def own(name: str, size: int, number: int = number) -> Floats:
                return uniforms(f"{number} {name}", size)

            whole[:, places] = part.simulated_points(count, own)
        return whole

    def place(self, parts: Sequence[Sequence[arb]]) -> list[arb]:
        """Return the whole vector made of the parts'."""
        whole = [arb(0)] * self.dimension
        for entries, places in zip(parts, self._places, strict=True):
            for entry, place in zip(entries, places, strict=True):
                whole[place] = entry
        return whole


@dataclass(frozen=True, slots=True)
class _Point:
    """One point of each part, in the order of the whole."""

    ball: StackedBall
    points: Sequence[LazyVector]

    def enclose(self, bits: int) -> list[arb]:
        """Return balls around the coordinates."""
        return self.ball.place([point.enclose(bits) for point in self.points])
