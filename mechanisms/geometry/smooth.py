"""Norm balls with a curved or many-faced surface: integer draws and noise laws for all of them.

A ball says how to draw a point uniform on it, as a lazily refined real vector,
and how to test a lattice point in integers. :meth:`SmoothBall.draw` makes the
integer K-norm law of it, :meth:`SmoothBall.laws` its description: V = r U with
``r ~ Gamma(m + 1)`` and U uniform on K (Proposition 4.1), so

    Var V_j = (m + 1)(m + 2) E[U_j**2] / rate**2,
    P(|V_j| > t) = E[Q(m + 1, rate t / |U_j|)],   Q the upper incomplete gamma ratio.

E[.] runs over :class:`Marginal` tables, closed forms or quasi-random averages
free of data. They are floats, and no draw looks at them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincc, gammaincinv

from mechanisms.exact.continuous import LazyVector
from mechanisms.exact.many import Floats
from mechanisms.geometry.balls import TAIL, NoiseLaw, Uniforms
from mechanisms.randomness import Randomness
from mechanisms.samplers.knorm import draw_from_points

_FEW = 1 << 10  # points that show about where a law's tail begins

_Function = Callable[[float], float]


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """The law of one |U_j|, U uniform on the ball: weighted points and the mean square."""

    points: Floats
    weights: Floats
    mean_square: float


class SmoothBall(ABC):
    """A norm ball drawn from by uniform points; subclasses are frozen dataclasses."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """Return a short description of the ball."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Return m."""

    @property
    @abstractmethod
    def is_hull(self) -> bool:
        """Return whether K is the hull itself."""

    @property
    @abstractmethod
    def expected_tries(self) -> float:
        """Return how many tries a draw takes on average."""

    @property
    @abstractmethod
    def log_volume(self) -> float:
        """Return log vol K."""

    @property
    def smooth(self) -> bool:
        """Return True: norms of lattice points are rarely integers."""
        return True

    @property
    def least_steps(self) -> Fraction:
        """Return half the largest norm of a corner of the cube [-1, 1]**m: a cell's reach."""
        return Fraction(1, 2)

    def correlation(self, one: int, other: int) -> float:  # noqa: ARG002
        """Return zero: the ball is mapped to itself by flipping any one coordinate."""
        return 0.0

    @abstractmethod
    def point(self, randomness: Randomness) -> LazyVector:
        """Return a point uniform on K, exact, drawn lazily."""

    @abstractmethod
    def contains(self, point: Sequence[int], size: int) -> bool:
        """Return, in integers, whether the lattice point lies in ``size K``."""

    @abstractmethod
    def marginals(self) -> tuple[Sequence[Marginal], Sequence[int]]:
        """Return the distinct marginals, and which of them each coordinate has."""

    @abstractmethod
    def simulated_points(self, count: int, uniforms: Uniforms) -> Floats:
        """Return simulated uniform points of K, in floats, shape (count, m)."""

    def simulate(self, count: int, uniforms: Uniforms) -> Floats:
        """Return simulated noise at rate 1, shape (count, m); a description, never a release."""
        radii: Floats = gammaincinv(self.dimension + 1, uniforms("radius", count))
        return radii[:, None] * self.simulated_points(count, uniforms)

    def draw(self, randomness: Randomness, *, steps: int, rate: Fraction) -> list[int]:
        """Return v with ``P(v) ∝ exp(-rate ceil(||v||))``, ``steps K`` being the unit ball."""
        return draw_from_points(
            randomness,
            self.dimension,
            point=self.point,
            contains=self.contains,
            steps=steps,
            rate=rate,
        )

    def laws(self, rate: float) -> Sequence[NoiseLaw]:
        """Return each coordinate's law under density ``∝ exp(-rate ||v||_K)``."""
        distinct, places = _laws_at_rate_one(self)
        scaled = [
            NoiseLaw(law.std / rate, law.half_width_95 / rate, law.mean_size / rate)
            for law in distinct
        ]
        return [scaled[place] for place in places]


@lru_cache(maxsize=128)
def _laws_at_rate_one(ball: SmoothBall) -> tuple[tuple[NoiseLaw, ...], tuple[int, ...]]:
    distinct, places = ball.marginals()
    return tuple(_law(marginal, ball.dimension) for marginal in distinct), tuple(places)


def _law(marginal: Marginal, dimension: int) -> NoiseLaw:
    std = sqrt((dimension + 1) * (dimension + 2) * marginal.mean_square)
    # A coordinate of 0 is never beyond t, and must not divide by zero.
    points = np.maximum(marginal.points, np.finfo(np.float64).tiny)
    total = float(marginal.weights.sum())

    def excess(t: float, every: int = 1) -> float:
        weights = marginal.weights[::every]
        # numpy adds in an order of its own; a BLAS product would add in another on more threads
        beyond = (weights * gammaincc(dimension + 1, t / points[::every])).sum()
        return float(beyond / weights.sum()) - TAIL

    few = max(len(points) // _FEW, 1)
    size = (dimension + 1) * float((marginal.weights * marginal.points).sum()) / total
    return NoiseLaw(std, _root(excess, 30 * std, roughly=lambda t: excess(t, few)), size)


def _root(falling: _Function, most: float, *, roughly: _Function) -> float:
    """Return the root of a falling function in [0, most], near that of one that costs less."""
    guess = brentq(roughly, 0.0, most, rtol=1e-3)
    low, high = 0.95 * guess, min(1.05 * guess, most)
    # The few points misled: the whole range holds the root.
    if falling(low) < 0 or falling(high) > 0:
        low, high = 0.0, most
    return float(brentq(falling, low, high))
