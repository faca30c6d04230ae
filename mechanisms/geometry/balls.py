"""The interface of norm balls, and the description of their noise.

``l1``, ``l2`` and ``linf`` are names. Every other ball, a hull above all, is
an object with the members of :class:`NormBall`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

from mechanisms.exact.many import Floats
from mechanisms.randomness import Randomness

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
