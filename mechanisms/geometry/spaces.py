r"""Adjacent output spaces: what one person can do to an additive statistic.

The *adjacent output space* S_T holds every difference T(X) - T(X') of
neighbours (Awan & Slavkovic, section 3). Its hull K_T is the best norm ball
there is (Corollary 4.9); its extent in a norm K is the sensitivity Delta_K.

*Conventions.* Everything here is in *scaled units*, the statistic's own: a
code divided by F, a product of codes by F**2, a count as it is. ``unit`` is
how many lattice steps one scaled unit has, so Delta is ``unit`` times as large
on the lattice. All of it is public and free of data.

*Stacking norm balls: the product K_1 x ... x K_b, with norm the largest of the parts'.* Where the
parts of a statistic move independently, the hull of its differences is the product of their hulls
(the hull of a product of sets is the product of the hulls). A uniform point of the product is one
uniform point of each part.

Joined balls: what one record can do to sums by cell, as each record is in one cell.

A record of cell g adds phi to the block g of the sums and nothing to the others. Let K_g be a
symmetric convex body that holds every phi of the cell g. Write ``e_g phi`` for the vector with phi
in the block g, and

    ||u|| = sum_g ||u_g||_{K_g}.

*A record added or removed*: u = +-e_g phi, so ||u|| = ||phi||_{K_g} <= 1. The unit ball is the hull
of the blocks' balls, hence the hull of all differences wherever each K_g is that of its cell.

*A record replaced*: u = e_g phi - e_h phi', whatever g and h are, and

    ||u|| <= ||phi||_{K_g} + ||phi'||_{K_h} <= 2

by the triangle inequality, in one cell too: K is twice the unit ball. Filters and weights add parts
of a record (:mod:`mechanisms.statistics.weights`): s phi with 0 <= s <= 1 is no longer than phi.

*Noise.* On the lattice each block has noise of its own,

    P(v) ∝ exp(-r sum_g ceil(||v_g||)),   r = epsilon / (size Delta),

with ||.|| and Delta counted in rings (:mod:`mechanisms.geometry.smooth`). A record's part moves one
block by at most Delta rings, so one ceiling by at most Delta, and the other ceilings not at all.
``size`` records' parts move the sum by at most ``size Delta``: the loss is at most epsilon (Awan &
Slavkovic, Proposition 2.10, of the norm sum_g ||.||). So sums by k cells need no more noise than
sums of one cell: a block's noise does not grow with the other blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise
from math import isqrt, lgamma, log
from typing import Literal

import numpy as np
from flint import arb

from mechanisms.exact.continuous import LazyVector
from mechanisms.exact.floats import Floats
from mechanisms.exact.fractions import decimal_text, once
from mechanisms.geometry.smooth import Ball, Marginal, NoiseLaw, NormBall, SmoothBall, Uniforms
from mechanisms.randomness import Randomness

Hull = Literal["cube", "cross_polytope", "other"]
_ROOT_BITS = 80  # roots are rounded up at the 80th bit: 1e-24 more noise than need be
_MOST_DIGITS = 30  # longer decimals are harder to read than a quotient


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjacentOutputSpace:
    """S_T of one statistic: its hull, its sensitivities, and how exact they are.

    Attributes
    ----------
    dimension
        m, the length of the statistic.
    l1, linf, l2_squared
        Delta_1, Delta_inf and the square of Delta_2, in scaled units.
    l2_text
        Delta_2 as an exact expression; empty where the root of ``l2_squared`` says it.
    bounds_only
        The balls whose sensitivity is a certified upper bound, not the exact value.
    hull
        Which l_p ball K_T is, if it is one.
    norm_ball
        Where it is none: the hull, or a ball around it, that noise can be drawn from. It
        lies inside the l1, l2 and linf balls of the sensitivities above.
    description
        K_T in words.
    negligible_structure
        Whether S_T reaches every corner of its cube (Definition 3.2).
    unit
        Lattice steps per scaled unit.
    unit_name
        What a scaled unit is, in words.
    outline
        For a figure: S_T's boundary, where it has two coordinates and is not its hull.
    """

    dimension: int
    l1: Fraction
    linf: Fraction
    l2_squared: Fraction
    l2_text: str = ""
    bounds_only: frozenset[Ball] = field(default_factory=frozenset)
    hull: Hull
    norm_ball: NormBall | None = None
    description: str
    negligible_structure: bool
    unit: int
    unit_name: str
    outline: tuple[tuple[float, float], ...] = ()

    def squared(self, ball: Ball) -> Fraction:
        """Return Delta**2 in this ball, in scaled units."""
        return {"l1": self.l1**2, "linf": self.linf**2, "l2": self.l2_squared}[ball]

    def text(self, ball: Ball) -> str:
        """Return Delta as text: exact, or marked as an upper bound."""
        if ball == "l2":
            exact = self.l2_text or root_text(self.l2_squared)
        else:
            exact = _text(self.l1 if ball == "l1" else self.linf)
        return f"at most {exact}" if ball in self.bounds_only else exact

    @property
    def optimal_ball(self) -> Ball | NormBall | None:
        """Return the hull K_T, or the ball that stands for it, if noise can be drawn from it."""
        if self.hull == "cube":
            return "linf"
        return "l1" if self.hull == "cross_polytope" else self.norm_ball


def cube_space(
    dimension: int, *, half_width: Fraction, unit: int, unit_name: str, description: str
) -> AdjacentOutputSpace:
    """Return a space whose hull is the cube ``|u_j| <= half_width`` (no better norm than linf).

    Its sensitivities are ``m w``, ``sqrt(m) w`` and ``w`` (Proposition 3.3).
    """
    return AdjacentOutputSpace(
        dimension=dimension,
        l1=dimension * half_width,
        linf=half_width,
        l2_squared=dimension * half_width**2,
        hull="cube",
        description=description,
        negligible_structure=True,
        unit=unit,
        unit_name=unit_name,
    )


def upper_root(square: Fraction) -> Fraction:
    """Return ``sqrt(square)`` where rational, else a rational above it by at most ``2**-79``."""
    top = isqrt(square.numerator)
    bottom = isqrt(square.denominator)
    if top * top == square.numerator and bottom * bottom == square.denominator:
        return Fraction(top, bottom)
    scaled = (square.numerator << (2 * _ROOT_BITS)) // square.denominator
    # Up, never to the nearest: a sensitivity that is too small is not private.
    return Fraction(isqrt(scaled) + 1, 1 << _ROOT_BITS)


def _text(value: Fraction) -> str:
    return decimal_text(value, most_digits=_MOST_DIGITS)


def root_text(square: Fraction) -> str:
    """Return ``sqrt(square)`` as exact text: a number where it is rational."""
    root = upper_root(square)
    return _text(root) if root * root == square else f"sqrt({_text(square)})"


# Stacking norm balls: the product K_1 x ... x K_b, with norm the largest of the parts'


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


# Joined balls: what one record can do to sums by cell, as each record is in one cell


@dataclass(frozen=True)
class JoinedBall:
    """The ball ``sum_g ||u_g|| <= size`` of consecutive blocks.

    Parameters
    ----------
    parts : tuple of SmoothBall
        K_g of each cell; equal ones being the same object where there are many.
    size : int
        How many records' parts a difference has: 1 or 2.
    """

    parts: tuple[SmoothBall, ...]
    size: int

    @property
    def name(self) -> str:
        """Return a short description of the ball."""
        names = " or ".join(dict.fromkeys(part.name for part in self.parts))
        join = f"join of {len(self.parts)} balls, each {names}"
        return join if self.size == 1 else f"{self.size} times the {join}"

    @property
    def dimension(self) -> int:
        """Return m."""
        return sum(part.dimension for part in self.parts)

    @property
    def is_hull(self) -> bool:
        """Return whether it is the hull: the parts are hulls, and one record comes or goes."""
        return self.size == 1 and all(part.is_hull for part in self.parts)

    @property
    def smooth(self) -> bool:
        """Return True: norms of lattice points are rarely integers."""
        return True

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
        """Return log vol K: the norms of a uniform point's parts have a Dirichlet law."""
        m = self.dimension
        joined = sum(part.log_volume + lgamma(part.dimension + 1) for part in self.parts)
        return m * log(self.size) + joined - lgamma(m + 1)

    def correlation(self, one: int, other: int) -> float:
        """Return the correlation within a part; parts are independent."""
        for part, (start, end) in zip(self.parts, self._places(), strict=True):
            if start <= one < end and start <= other < end:
                return part.correlation(one - start, other - start)
        return 0.0

    def contains(self, point: Sequence[int], size: int) -> bool:
        """Return, in integers, whether the rings of the parts add up to ``size`` times their size.

        Each part's norm is rounded up, as in the noise.
        """
        most = self.size * size
        left = most
        for part, (start, end) in zip(self.parts, self._places(), strict=True):
            if any(point[start:end]):
                left -= _ceiling(part, point[start:end], most + 1)
        return left >= 0

    def draw(self, randomness: Randomness, *, steps: int, rate: Fraction) -> list[int]:
        """Return v with ``P(v) ∝ exp(-(rate / size) sum_g ceil(||v_g||))``, in rings of steps."""
        own = rate / self.size
        return [
            entry for part in self.parts for entry in part.draw(randomness, steps=steps, rate=own)
        ]

    def simulate(self, count: int, uniforms: Uniforms) -> Floats:
        """Return simulated noise at rate 1, shape (count, m); a description, never a release."""
        found = []
        for number, part in enumerate(self.parts):
            # a default binds this part's number: the loop's own goes on
            def own(name: str, size: int, number: int = number) -> Floats:
                return uniforms(f"{number} {name}", size)

            found.append(self.size * part.simulate(count, own))
        return np.hstack(found)

    def laws(self, rate: float) -> Sequence[NoiseLaw]:
        """Return each coordinate's law: that of its own part."""
        return [law for part in self.parts for law in part.laws(rate / self.size)]

    def _places(self) -> Sequence[tuple[int, int]]:
        ends = accumulate((part.dimension for part in self.parts), initial=0)
        return list(pairwise(ends))


def _ceiling(part: SmoothBall, point: Sequence[int], most: int) -> int:
    """Return the least size, up to ``most``, at which a ball holds a lattice point."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if part.contains(point, middle) else (middle, high)
    return high
