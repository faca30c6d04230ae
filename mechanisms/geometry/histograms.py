"""The hull of a histogram's replace-one differences, drawn from in integers.

*Every record counted*: differences are e_i - e_j, the cells sum to the public
row count, and the hull ``{sum u = 0, ||u||_1 <= 2}`` lies in that hyperplane.

*Only selected records counted*: a record may also enter or leave, so the
differences are ``e_i - e_j`` and ``±e_i``. Their hull is the ball of

    ||u|| = max(sum u+, sum u-).

This is the first case with one more cell, for the records not selected: that
cell is ``-sum u``, and ``||(u, -sum u)||_1 / 2 = max(sum u+, sum u-)``. So the
noise is drawn for c + 1 cells and the last one dropped, which is exact: v
determines the dropped entry. The sensitivity is 1 where that of l1 is 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, lgamma

import numpy as np

from mechanisms.exact.arrays import Floats
from mechanisms.geometry.balls import NoiseLaw, Uniforms
from mechanisms.geometry.laws import histogram_law
from mechanisms.randomness import Randomness
from mechanisms.samplers.knorm import draw_hull, hull_tries


@dataclass(frozen=True, slots=True)
class HistogramBall:
    """The hull of a histogram over ``cells``; ``filtered`` when records may be left out."""

    cells: int
    filtered: bool

    @property
    def name(self) -> str:
        """Return a short description of the ball."""
        return "hull of the histogram's differences"

    @property
    def dimension(self) -> int:
        """Return m, the number of cells."""
        return self.cells

    @property
    def is_hull(self) -> bool:
        """Return True."""
        return True

    @property
    def smooth(self) -> bool:
        """Return False: lattice points have integer norms."""
        return False

    @property
    def least_steps(self) -> Fraction:
        """Return 1: records are whole."""
        return Fraction(1)

    @property
    def expected_tries(self) -> float:
        """Return how many tries a draw takes on average at small epsilon, the worst case."""
        return hull_tries(self._drawn)

    @property
    def log_volume(self) -> float:
        """Return log vol K: ``C(2c, c) / c!`` where records are filtered (a difference body)."""
        if not self.filtered:
            return -inf
        c = self.cells
        return lgamma(2 * c + 1) - 3 * lgamma(c + 1)

    @property
    def _drawn(self) -> int:
        return self.cells + self.filtered

    def correlation(self, one: int, other: int) -> float:
        """Return ``-1/(d - 1)``: the d cells drawn are exchangeable and sum to zero."""
        return 1.0 if one == other else -1 / (self._drawn - 1)

    def contains(self, point: Sequence[int], size: int) -> bool:
        """Return whether the lattice point lies in ``size K``."""
        risen = sum(entry for entry in point if entry > 0)
        # What rose less what fell is the sum.
        fallen = risen - sum(point)
        return max(risen, fallen) <= size and (self.filtered or risen == fallen)

    def draw(self, randomness: Randomness, *, steps: int, rate: Fraction) -> list[int]:
        """Return v with ``P(v) ∝ exp(-rate ||v||)``, a ring being one record."""
        if steps != 1:
            raise ValueError("a record is one step")
        return draw_hull(randomness, self._drawn, rate)[: self.cells]

    def simulate(self, count: int, uniforms: Uniforms) -> Floats:
        """Return simulated noise at rate 1: Laplace cells, kept by their sum."""
        d, kept, tries = self._drawn, np.zeros((0, self._drawn)), 0
        while len(kept) < count:
            # Twice as many as expected, so that one turn mostly does.
            size = int(2 * count * self.expected_tries) + 1
            # The first column is each row's coin, the others are its cells.
            u = uniforms(f"cells {tries}", size * d).reshape(size, d)
            free = 2 * np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))[:, 1:]
            last = -free.sum(axis=1, keepdims=True)
            odds = np.exp(-np.abs(last[:, 0]) / 2)
            kept = np.vstack([kept, np.hstack([free, last])[u[:, 0] < odds]])
            tries += 1
        return np.asarray(kept[:count, : self.cells], dtype=np.float64)

    def laws(self, rate: float) -> Sequence[NoiseLaw]:
        """Return each cell's law."""
        return [histogram_law(self._drawn, rate)] * self.cells
