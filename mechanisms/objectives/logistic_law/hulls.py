"""Directions in which a hull of values of a gradient is far from 0: hints for bounds.

Values have shape b x k x d: those at the k vertices of each of b polytopes of a stack. Any
direction gives a certified bound; these give good ones.
"""

from __future__ import annotations

import numpy as np

from mechanisms.exact.arrays import Floats
from mechanisms.samplers.polytopes import Stack

_STEPS = 8  # towards the point of a hull that is nearest to 0
_TINY = 1e-200  # keeps a matrix of nothing solvable


def telling(values: Floats, stack: Stack) -> Floats:
    """Return the directions (b x d) in which values are farthest from 0, for their spread."""
    mean = stack.means(values)
    spread = values - mean[:, None]
    matrix = (spread * stack.shares[..., None]).swapaxes(1, 2) @ spread
    ridge = 1e-9 * matrix.trace(axis1=1, axis2=2) + _TINY
    ridges = ridge[:, None, None] * np.eye(mean.shape[1])
    found = np.linalg.solve(matrix + ridges, mean[..., None])[..., 0]
    length = np.abs(found).max(axis=1, keepdims=True)
    told = (length > 0) & (length < np.inf)
    return np.where(told, found, 1) / np.where(told, length, 1)


def nearest_to_zero(values: Floats, stack: Stack) -> Floats:
    """Return about the points nearest to 0 of hulls of values (b x d), by steps to ends."""
    point, each = stack.means(values), np.arange(len(values))
    for _ in range(_STEPS):
        away = point - values[each, (values @ point[..., None])[..., 0].argmin(axis=1)]
        share = (point * away).sum(axis=1) / ((away * away).sum(axis=1) + _TINY)
        point = point - np.minimum(np.maximum(share, 0), 1)[:, None] * away
    length = np.abs(point).max(axis=1, keepdims=True)
    told = length > _TINY
    return np.where(told, point, 1) / np.where(told, length, 1)
