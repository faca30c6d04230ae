"""Bounds near a heavy point: on boxes that contain it, or are close to it.

Its unit vector may have any direction there, which the bound along one direction takes for lost.
Let m be its count and R the sum over all others. Then ``|m u + R| >= | |R| - m |`` whatever u is,
and at the point itself the sum is R. Between two heavy points, where all others balance them, this
is what the sum is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mechanisms.exact.arrays import Floats
from mechanisms.objectives.points.bounds import Bounds, bounded
from mechanisms.objectives.points.field import MARGIN, Field

_CLOSE = 16.0  # radii of a box: the direction to points beyond is known well enough
_MOST_NEAR = 1 << 12  # more are not looked through for a heavy one
_HEAVY = 0.5  # of what all points so close weigh


def beside_heavy(
    field: Field, centres: Floats, halves: Floats, found: Bounds, axes: Floats | None = None
) -> Bounds:
    """Return bounds of |g| on boxes (k x d) that know the one heavy point close to each."""
    near = field.near
    if not 0 < len(near) <= _MOST_NEAR:
        return found
    points = near.rows()
    sides = halves if axes is None else halves @ np.abs(axes).T
    radii = np.sqrt((sides**2).sum(axis=1))[:, None] * (1 + MARGIN)
    distance = np.sqrt(((centres[:, None] - points.places) ** 2).sum(axis=2)) * (1 - MARGIN)
    close = np.where(distance < _CLOSE * radii, points.counts, 0.0)
    heaviest = close.argmax(axis=1)
    each = np.arange(len(centres))
    heavy = close[each, heaviest] > _HEAVY * close.sum(axis=1)
    heavy &= points.blurs[heaviest] == 0
    least = found.least.copy()
    for k in np.unique(heaviest[heavy]).tolist():
        own = heavy & (heaviest == k)
        others = replace(field, near=near.less(np.arange(len(near)) == k))
        rest = bounded(others, centres[own], halves[own], axes=axes)
        count, inside = float(points.counts[k]), distance[own, k] <= radii[own, 0]
        below = count - rest.most
        below = np.where(inside, np.minimum(below, rest.least), below)
        least[own] = np.maximum(least[own], np.maximum(rest.least - count, below))
    return replace(found, least=least)
