r"""Hulls of sums whose records contribute a value or nothing, values off centre.

A record's contributions fill a box C with centre m and half-widths h (it may be left out).

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
from typing import NamedTuple

from mechanisms.geometry.polytopes import Polytope, Vector

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
