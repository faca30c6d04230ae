r"""Balls of a count joined with sums, where a record may be replaced, added or removed.

A record adds (1, phi), phi in a set Phi. So neighbours differ by

    (0, phi - phi')      one replaced,
    +-(1, phi)           one added or removed.

Let K hold every phi - phi' and be a symmetric convex body, and let 0 <= c < 1 be such that
(1 - c) K holds Phi. Then both kinds of difference lie in

    B = {(s, w) : |s| <= 1, w in (1 - c |s|) K},

at s = 0 and at s = 1 or -1. B is convex, for ``1 - c |s|`` is concave in s, and symmetric. So
Delta_B <= 1 and the K-norm mechanism with B is private (Awan & Slavkovic, Proposition 2.10), for
all three changes at once. ``||(s, w)||_B = max(|s|, ||w||_K + c |s|)``.

*How large c may be*, in the coordinates of :mod:`mechanisms.statistics.second_order`:

- Sums alone: Phi = [-1, 1]**p, K = [-2, 2]**p: c = 1/2. B is then the hull: a convex combination
  with weight |s| on (1, phi) leaves w the width ``|s| + 2 (1 - |s|) = 2 - |s|``.
- Squares, Phi = (x, 2 x**2 - 1), K the lens |u_jj| <= g(|u_j|) on |u_j| <= 2: c = 1/3. With
  r = 2/3, ``|2 x**2 - 1| <= 1 <= 2 r`` while |x| <= r; beyond, ``r g(|x| / r) = 2 r - 2 r
  (|x| / r - 1)**2`` falls from 4/3 to 1, and is at least 1 >= |2 x**2 - 1|.
- Products too: c = 1/4. With r = 3/4, ``|xy| <= 4 r - |x| - |y|``, as
  |xy| + |x| + |y| <= 3; the cuts of :mod:`mechanisms.geometry.cuts` hold, for
  ``|xy| + |xz| + |yz| <= 3 = 4 r`` and ``|2 x**2 - 1| + |2 y**2 - 1| + 4 |xy| <= 6 = 8 r``;
  and the lens holds what it held, r being larger.

*A uniform point*: s has the density ``(1 - c |s|)**d`` up to a constant, d the dimension of K, so
``t = 1 - c |s|`` is ``(a + (1 - a) u)**(1 / (d + 1))``, a = (1 - c)**(d + 1), u uniform; and
w is t times a point uniform on K. There is no rejection but K's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log

import numpy as np
from flint import arb

from mechanisms.exact.balls import rational
from mechanisms.exact.continuous import LazyVector
from mechanisms.exact.floats import Floats, working_precision
from mechanisms.geometry.smooth import Marginal, SmoothBall, Uniforms
from mechanisms.randomness import LazyUniform, Randomness

_GUARD_BITS = 32  # more than the arithmetic of a point can lose
_POINTS = 1 << 12  # of the laws that have a closed form
_GOLDEN = 0.618034  # spreads the sizes t over a table's points

SUMS, SQUARES, PRODUCTS = Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)
"""What c may be, by what is summed: see above."""


@dataclass(frozen=True)
class CountedBall(SmoothBall):
    """The ball B of (count, coordinates of ``part``).

    Parameters
    ----------
    part : SmoothBall
        K, which holds what replacing a record can do.
    taper : Fraction
        c.
    hull : bool
        Whether B is the hull.
    """

    part: SmoothBall
    taper: Fraction
    hull: bool

    @property
    def name(self) -> str:
        """Return a short description of the ball."""
        ball_name = self.part.name
        joined = f"count joined with the {ball_name}"
        return f"{joined}: the hull" if self.hull else joined

    @property
    def dimension(self) -> int:
        """Return m."""
        return 1 + self.part.dimension

    @property
    def is_hull(self) -> bool:
        """Return whether B is the hull."""
        return self.hull

    @property
    def least_steps(self) -> Fraction:
        """Return half the largest norm of a corner of the cube [-1, 1]**m."""
        return max(Fraction(1, 2), self.part.least_steps + self.taper / 2)

    @property
    def expected_tries(self) -> float:
        """Return how many tries a draw takes: those of K."""
        return self.part.expected_tries

    @property
    def log_volume(self) -> float:
        """Return log vol B."""
        # The integral of (1 - c |s|)**d over [-1, 1], with m = d + 1.
        across = (1 - self._least) / float(self.taper * self.dimension)
        return self.part.log_volume + log(2 * across)

    def correlation(self, one: int, other: int) -> float:
        """Return the correlation within K; flipping the count alone leaves B as it is."""
        if 0 in (one, other):
            return float(one == other)
        return self.part.correlation(one - 1, other - 1)

    def contains(self, point: Sequence[int], size: int) -> bool:
        """Return, in integers, whether the lattice point lies in ``size B``."""
        count, rest = abs(point[0]), point[1:]
        if count > size:
            return False
        unit, share = self.taper.denominator, self.taper.numerator
        # ||w|| <= size - c |s|, times c's denominator: integers on both sides.
        return self.part.contains([unit * entry for entry in rest], unit * size - share * count)

    def point(self, randomness: Randomness) -> LazyVector:
        """Return a point uniform on B."""
        sign = 1 - 2 * randomness.bits(1)
        return _Point(self, sign, randomness.uniform(), self.part.point(randomness))

    def size(self, uniform: arb) -> arb:
        """Return t of u."""
        # A ball around u may reach below 0, where there is no root.
        least = rational((1 - self.taper) ** self.dimension)
        return (least + (1 - least) * arb(0).max(uniform)).root(self.dimension)

    def marginals(self) -> tuple[Sequence[Marginal], Sequence[int]]:
        """Return the count's marginal, and those of K, each point at a size of its own."""
        counts = (1 - self._sizes((np.arange(_POINTS) + 0.5) / _POINTS)) / float(self.taper)
        found = [Marginal(counts, np.ones(_POINTS), float(np.mean(counts**2)))]
        own, places = self.part.marginals()
        r, d = 1 - float(self.taper), self.part.dimension
        square = (1 - r ** (d + 3)) / (d + 3) * (d + 1) / (1 - self._least)
        for marginal in own:
            # Sizes of their own, which look independent of the points: no hidden
            # correlation in the product.
            turns = np.mod((np.arange(len(marginal.points)) + 0.5) * _GOLDEN, 1.0)
            points = marginal.points * self._sizes(turns)
            found.append(Marginal(points, marginal.weights, marginal.mean_square * square))
        return found, [0, *(1 + place for place in places)]

    def simulated_points(self, count: int, uniforms: Uniforms) -> Floats:
        """Return simulated uniform points of B."""
        sizes = self._sizes(uniforms("size", count))
        signs = np.where(uniforms("sign", count) < 0.5, -1.0, 1.0)
        counts = signs * (1 - sizes) / float(self.taper)
        return np.column_stack(
            [counts, sizes[:, None] * self.part.simulated_points(count, uniforms)]
        )

    @property
    def _least(self) -> float:
        return float((1 - self.taper) ** self.dimension)

    def _sizes(self, u: Floats) -> Floats:
        return np.asarray((self._least + (1 - self._least) * u) ** (1 / self.dimension))


@dataclass(frozen=True, slots=True)
class _Point:
    """A sign, the uniform number that makes the size, and a point of K."""

    ball: CountedBall
    sign: int
    uniform: LazyUniform
    rest: LazyVector

    def enclose(self, bits: int) -> list[arb]:
        """Return balls around the coordinates."""
        with working_precision(bits + _GUARD_BITS):
            size = self.ball.size(self.uniform.enclose(bits))
            count = self.sign * (1 - size) / rational(self.ball.taper)
            return [count, *(size * entry for entry in self.rest.enclose(bits))]


@dataclass(frozen=True)
class Cube(SmoothBall):
    """The cube [-half, half]**m: what replacing a record (2), or one more (1), does to sums."""

    size: int
    half: int = 2

    @property
    def name(self) -> str:
        """Return a short description of the ball."""
        return "cube of sums"

    @property
    def dimension(self) -> int:
        """Return m."""
        return self.size

    @property
    def is_hull(self) -> bool:
        """Return True."""
        return True

    @property
    def least_steps(self) -> Fraction:
        """Return half the norm of a corner of the cube [-1, 1]**m."""
        return Fraction(1, 2 * self.half)

    @property
    def expected_tries(self) -> float:
        """Return 1."""
        return 1.0

    @property
    def log_volume(self) -> float:
        """Return log vol K."""
        return self.size * log(2 * self.half)

    def contains(self, point: Sequence[int], size: int) -> bool:
        """Return, in integers, whether the lattice point lies in ``size K``."""
        return max(map(abs, point)) <= self.half * size

    def point(self, randomness: Randomness) -> LazyVector:
        """Return a point uniform on K."""
        return _CubePoint(self.half, [randomness.uniform() for _ in range(self.size)])

    def marginals(self) -> tuple[Sequence[Marginal], Sequence[int]]:
        """Return the one marginal: even on [0, half]."""
        points = self.half * (np.arange(_POINTS) + 0.5) / _POINTS
        return [Marginal(points, np.ones(_POINTS), self.half**2 / 3)], [0] * self.size

    def simulated_points(self, count: int, uniforms: Uniforms) -> Floats:
        """Return simulated uniform points of K."""
        places = uniforms("cube", count * self.size).reshape(count, self.size)
        return self.half * (2 * places - 1)


@dataclass(frozen=True, slots=True)
class _CubePoint:
    half: int
    uniforms: Sequence[LazyUniform]

    def enclose(self, bits: int) -> list[arb]:
        """Return balls around the coordinates."""
        with working_precision(bits + _GUARD_BITS):
            return [self.half * (2 * uniform.enclose(bits) - 1) for uniform in self.uniforms]
