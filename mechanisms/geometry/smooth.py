"""Norm balls with a curved or many-faced surface: integer draws and noise laws for all of them.

A ball says how to draw a point uniform on it, as a lazily refined real vector,
and how to test a lattice point in integers. :meth:`SmoothBall.draw` makes the
integer K-norm law of it, :meth:`SmoothBall.laws` its description: V = r U with
``r ~ Gamma(m + 1)`` and U uniform on K (Proposition 4.1), so

    Var V_j = (m + 1)(m + 2) E[U_j**2] / rate**2,
    P(|V_j| > t) = E[Q(m + 1, rate t / |U_j|)],   Q the upper incomplete gamma ratio.

E[.] runs over :class:`Marginal` tables, closed forms or quasi-random averages
free of data. They are floats, and no draw looks at them.

Those averages take .1 to 1 s, and follow from a ball's shape alone. ``laws.json`` has the results
for the shapes that are asked for most; a test computes some of them again.

The interface of norm balls, and the description of their noise.

``l1``, ``l2`` and ``linf`` are names. Every other ball, a hull above all, is
an object with the members of :class:`NormBall`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from math import sqrt
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincc, gammaincinv

from mechanisms.exact.continuous import LazyVector
from mechanisms.exact.floats import Floats
from mechanisms.randomness import Randomness
from mechanisms.samplers.knorm import draw_from_points

Ball = Literal["l1", "l2", "linf"]
BALLS: tuple[Ball, ...] = ("l1", "l2", "linf")

Uniforms = Callable[[str, int], Floats]
"""Numbers in (0, 1) for a named part of a simulation, as many as asked for."""


TAIL = 0.05
"""What a 95% interval leaves out, both sides together."""


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """Standard deviation, t with ``P(|v| > t) <= TAIL``, and E|v|, in lattice units."""

    std: float
    half_width_95: float
    mean_size: float


class NormBall(Protocol):
    """A norm ball K that holds every difference one person can make: Delta_K <= 1.

    *Conventions.* K is in scaled units (see :mod:`mechanisms.geometry.spaces`).
    The ball of *size* R is ``R K``, R a whole number of lattice steps. Radii are
    counted in *rings* of ``steps`` lattice steps each.
    """

    @property
    def name(self) -> str:
        """Return a short description of the ball."""

    @property
    def dimension(self) -> int:
        """Return m."""

    @property
    def is_hull(self) -> bool:
        """Return whether K is the hull K_T itself, not a ball around it."""

    @property
    def smooth(self) -> bool:
        """Return whether only a fine lattice distinguishes the norms of its points."""

    @property
    def least_steps(self) -> Fraction:
        """Return the fewest lattice steps a ring may have."""

    @property
    def expected_tries(self) -> float:
        """Return how many tries a draw takes on average; public, the same for every data set."""

    @property
    def log_volume(self) -> float:
        """Return log vol K; minus infinity where K lies in a hyperplane."""

    def correlation(self, one: int, other: int) -> float:
        """Return the correlation of two coordinates that one number of an answer reads."""

    def contains(self, point: Sequence[int], size: int) -> bool:
        """Return, in integers, whether the lattice point lies in ``size K``."""

    def draw(self, randomness: Randomness, *, steps: int, rate: Fraction) -> list[int]:
        """Return v with ``P(v) ∝ exp(-rate ceil(||v||))``, ``steps K`` being the unit ball."""

    def simulate(self, count: int, uniforms: Uniforms) -> Floats:
        """Return simulated noise at rate 1, shape (count, m); a description, never a release."""

    def laws(self, rate: float) -> Sequence[NoiseLaw]:
        """Return each coordinate's law under density ``∝ exp(-rate ||v||_K)``."""


# Norm balls with a curved or many-faced surface: integer draws and noise laws for all of them


_MOST_BINS = 1 << 12
_FEW = 1 << 10  # points that show about where a law's tail begins

_Function = Callable[[float], float]
Kind = tuple[str, int]
"""What a coordinate is, and how many of its columns also have a square: such have one law."""


@dataclass(frozen=True, slots=True)
class StoredLaws:
    """What is stored of a shape: the share of proposals kept, and laws at rate 1 by kind."""

    kept: float
    log_volume: float
    laws: Mapping[Kind, NoiseLaw]


@cache
def _stored() -> Mapping[str, StoredLaws]:
    text = Path(__file__).with_name("laws.json").read_text("utf-8")
    return {
        shape: StoredLaws(
            each["kept"],
            each["log_volume"],
            {(kind, int(squares)): NoiseLaw(*law) for kind, squares, *law in each["laws"]},
        )
        for shape, each in json.loads(text).items()
    }


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
    def shape(self) -> str:
        """Return what the laws follow from, by which they may be stored."""
        return ""

    @property
    def stored(self) -> StoredLaws | None:
        """Return what is stored of a ball of this shape."""
        return _stored().get(self.shape)

    @property
    def coordinate_kinds(self) -> Sequence[Kind]:
        """Return the kind of each coordinate, where laws are stored by kind."""
        return ()

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
    if (stored := ball.stored) is not None:
        kinds = list(dict.fromkeys(ball.coordinate_kinds))
        laws = tuple(stored.laws[kind] for kind in kinds)
        return laws, tuple(map(kinds.index, ball.coordinate_kinds))
    return computed_laws(ball)


def computed_laws(ball: SmoothBall) -> tuple[tuple[NoiseLaw, ...], tuple[int, ...]]:
    """Return the distinct laws at rate 1, and which of them each coordinate has."""
    distinct, places = ball.marginals()
    return tuple(_law(marginal, ball.dimension) for marginal in distinct), tuple(places)


def _law(marginal: Marginal, dimension: int) -> NoiseLaw:
    std = sqrt((dimension + 1) * (dimension + 2) * marginal.mean_square)
    total = float(marginal.weights.sum())
    points, weights = _binned(marginal)

    def excess(t: float, every: int = 1) -> float:
        own = weights[::every]
        # numpy adds in an order of its own; a BLAS product would add in another on more threads
        beyond = (own * gammaincc(dimension + 1, t / points[::every])).sum()
        return float(beyond / own.sum()) - TAIL

    few = max(len(points) // _FEW, 1)
    size = (dimension + 1) * float((marginal.weights * marginal.points).sum()) / total
    return NoiseLaw(std, _root(excess, 30 * std, roughly=lambda t: excess(t, few)), size)


def _binned(marginal: Marginal) -> tuple[Floats, Floats]:
    """Return a marginal's points and weights, of many points the means and sums in fine bins."""
    points, weights = marginal.points, marginal.weights
    if len(points) > _MOST_BINS:
        ends = (0.0, float(points.max()) or 1.0)
        sums, _ = np.histogram(points, _MOST_BINS, ends, weights=weights * points)
        weights, _ = np.histogram(points, _MOST_BINS, ends, weights=weights)
        points, weights = sums[weights > 0] / weights[weights > 0], weights[weights > 0]
    # A coordinate of 0 is never beyond t, and must not divide by zero.
    return np.maximum(points, np.finfo(np.float64).tiny), weights


def _root(falling: _Function, most: float, *, roughly: _Function) -> float:
    """Return the root of a falling function in [0, most], near that of one that costs less."""
    guess = brentq(roughly, 0.0, most, rtol=1e-3)
    low, high = 0.95 * guess, min(1.05 * guess, most)
    # The few points misled: the whole range holds the root.
    if falling(low) < 0 or falling(high) > 0:
        low, high = 0.0, most
    return float(brentq(falling, low, high))
