r"""The hull of a histogram's replace-one differences, drawn from in integers.

*Every record counted*: differences are e_i - e_j, the cells sum to the public
row count, and the hull ``{sum u = 0, ||u||_1 <= 2}`` lies in that hyperplane.

*Only selected records counted*: a record may also enter or leave, so the
differences are ``e_i - e_j`` and ``±e_i``. Their hull is the ball of

    ||u|| = max(sum u+, sum u-).

This is the first case with one more cell, for the records not selected: that
cell is ``-sum u``, and ``||(u, -sum u)||_1 / 2 = max(sum u+, sum u-)``. So the
noise is drawn for c + 1 cells and the last one dropped, which is exact: v
determines the dropped entry. The sensitivity is 1 where that of l1 is 2.

*Hulls of sums whose records contribute a value or nothing, values off centre.* A record's
contributions fill a box C with centre m and half-widths h (it may be left out).

- Add-remove: a record comes or goes, S_T = C and -C. Their hull is
  ``{s m + w : |s| <= 1, |w_j| <= h_j}``: a convex combination ``lambda c - mu c'``,
  lambda + mu = 1, has s = lambda - mu and leaves w free in the box.
- Replace-one with conditions: S_T = (C or 0) - (C or 0), combinations with lambda, mu <= 1 each:
  ``{s m + w : |s| <= 1, |w_j| <= (2 - |s|) h_j}``, since lambda + mu reaches 2 - |s|.

Both are linear images of polytopes in (s, w). Eliminating s (Fourier-Motzkin: an inequality
that bounds s from above with one that bounds it from below) leaves halfspaces in one or two
coordinates, in exact rationals. The facets are the hull's own, so Delta = 1 (Corollary 4.9 of
Awan & Slavkovic). Tries from the bounding box, volume against the cube's: two columns of one
sign starting at zero, 1.3 under add-remove (3/4 of the square), 1 with conditions; five, 5.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import inf, lgamma
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv, gammaln

from mechanisms.exact.floats import Floats
from mechanisms.geometry.laws import histogram_law
from mechanisms.geometry.polytopes import Polytope, Vector
from mechanisms.geometry.smooth import NoiseLaw, Uniforms
from mechanisms.randomness import Randomness
from mechanisms.samplers.knorm import draw_hull, hull_tries

# Hulls of sums whose records contribute a value or nothing, values off centre

MOST_COLUMNS = 6  # columns up to which a hull is worth its tries
MOST_TRIES = 100.0  # beyond, the cube is drawn instead

Range = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class ContributionHull(Polytope):
    """The hull of all differences one record's contributions can make."""

    @property
    def name(self) -> str:
        """Return a short description of the ball."""
        return "hull of one record's contributions"

    @property
    def is_hull(self) -> bool:
        """Return True."""
        return True


def contribution_hull(ranges: Sequence[Range], *, replace: bool) -> ContributionHull | None:
    """Return the hull of contributions within these ranges.

    Parameters
    ----------
    ranges : sequence of (low, high)
        Each column's contributions, low < high.
    replace : bool
        Whether neighbours replace a record, which may be left out before or after.

    Returns
    -------
    ContributionHull or None
        None where its draw would take more than 100 tries: many columns, or a needle.
    """
    if not 2 <= len(ranges) <= MOST_COLUMNS:
        return None
    hull = ContributionHull(tuple(_facets(ranges, replace=replace)))
    return hull if hull.expected_tries <= MOST_TRIES else None


class _Halfspace(NamedTuple):
    """The inequality ``normal . u + slope s <= bound``."""

    normal: Vector
    slope: Fraction
    bound: Fraction


def _facets(ranges: Sequence[Range], *, replace: bool) -> list[Vector]:
    """Return the normals a of ``|a . u| <= 1``, one of each pair of signs."""
    zero = (Fraction(0),) * len(ranges)
    below = [_Halfspace(zero, Fraction(sign), Fraction(1)) for sign in (1, -1)]
    for j, (low, high) in enumerate(ranges):
        centre, half = (low + high) / 2, (high - low) / 2
        for sign, tilt in product((1, -1), (1, -1) if replace else (0,)):
            axis = tuple(Fraction(sign * (i == j)) for i in range(len(ranges)))
            slope, bound = -sign * centre + tilt * half, (2 if replace else 1) * half
            below.append(_Halfspace(axis, slope, bound))
    # A dict for its order: facets come out alike in every run.
    normals: dict[Vector, None] = {}
    for row in below:
        if row.slope == 0:
            _add(normals, row.normal, row.bound)
    for upper, lower in product(below, below):
        if upper.slope > 0 > lower.slope:
            vector = tuple(
                a / upper.slope - b / lower.slope
                for a, b in zip(upper.normal, lower.normal, strict=True)
            )
            _add(normals, vector, upper.bound / upper.slope - lower.bound / lower.slope)
    return list(normals)


def _add(normals: dict[Vector, None], vector: Vector, bound: Fraction) -> None:
    """Add ``vector . u <= bound`` unless it is trivial or present."""
    if not any(vector):
        return
    normal = tuple(entry / bound for entry in vector)
    # |a . u| <= 1 stands for a and -a.
    if tuple(-entry for entry in normal) not in normals:
        normals[normal] = None


# The hull of a histogram's replace-one differences, drawn from in integers


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
        """Return simulated noise at rate 1, exactly of the continuous law, without rejections.

        Where p of the d cells rise, by r together, and the others fall by r, the density
        ``exp(-r)`` has ``r**(d - 2) / ((p - 1)! (d - p - 1)!)`` of volume for each choice of the p
        cells. So p has odds ``C(d, p) C(d - 2, p - 1)``, r is Gamma(d - 1) whatever p is, and r is
        shared out evenly on either side.
        """
        d = self._drawn
        p = np.arange(1, d)
        odds = -2 * (gammaln(p) + gammaln(d - p)) - np.log(p) - np.log(d - p)
        shares = np.cumsum(np.exp(odds - odds.max()))
        rising = 1 + np.searchsorted(shares / shares[-1], uniforms("rising", count))
        order = np.argsort(uniforms("order", count * d).reshape(count, d), axis=1)
        up = order < rising[:, None]
        sizes = -np.log(uniforms("sizes", count * d).reshape(count, d))
        together = gammaincinv(d - 1, uniforms("together", count))[:, None]
        risen = np.where(up, sizes, 0.0)
        fallen = np.where(up, 0.0, sizes)
        found = risen / risen.sum(axis=1, keepdims=True)
        found -= fallen / fallen.sum(axis=1, keepdims=True)
        return np.asarray((together * found)[:, : self.cells], dtype=np.float64)

    def laws(self, rate: float) -> Sequence[NoiseLaw]:
        """Return each cell's law."""
        return [histogram_law(self._drawn, rate)] * self.cells
