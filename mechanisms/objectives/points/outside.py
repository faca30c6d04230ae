"""Bounds outside a box around the minimiser, by rays from a point inside.

Along a ray from p the derivative of the sum of distances does not fall. So with b where the ray
from p to theta leaves the box, ``N(theta) >= g(b)'(b - p) / |b - p|``: the least over patches of
the boundary bounds N everywhere outside.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np

from mechanisms.exact.many import Floats
from mechanisms.objectives.points.bounds import SLACK, bounded
from mechanisms.objectives.points.field import MARGIN, Field
from mechanisms.samplers.boxes import Box
from mechanisms.samplers.boxes.space import inner_faces, patches

_BOUNDARY_CELLS = 1 << 17  # fewer blur a bound on a boundary where the noise is wide
_MOST_PATCHES = 1 << 11  # near points on a line only small patches give a bound


def outside(
    field: Field,
    box: Box,
    root: Box,
    point: Floats,
    *,
    axes: Floats | None = None,
    wanted: float = -math.inf,
) -> float:
    """Return a lower bound of N outside a box, by rays from a point inside.

    With axes, boxes and the point are those of u with ``theta = axes u``. Patches on which less
    is found than wanted are cut again.
    """
    half = np.array(box.sides) / 2
    centre = np.array(box.lower) + half
    faces = inner_faces(box, root)
    if not faces or not (np.abs(point - centre) < half).all():
        return 0.0
    boundary = patches(box, faces)
    centres, halves, lowest = boundary.centres, boundary.halves, math.inf
    field = replace(field, near=field.near.grouped(_BOUNDARY_CELLS))
    while True:
        low = _leaving(field, centres, halves, point, axes)
        short = low < wanted
        lowest = min(lowest, float(low[~short].min(initial=math.inf)))
        if not short.any():
            return lowest
        if np.count_nonzero(short) << len(half) - 1 > _MOST_PATCHES:
            return min(lowest, float(low.min()))
        centres, halves = _cut(centres[short], halves[short])


def _cut(centres: Floats, halves: Floats) -> tuple[Floats, Floats]:
    """Return the halves, in each of its directions, of every patch."""
    found = []
    for signs in product((-0.5, 0.5), repeat=centres.shape[1]):
        # a patch has no width along the side its face stands on
        own = ((halves > 0) | (np.array(signs) > 0)).all(axis=1)
        found.append((centres[own] + np.array(signs) * halves[own], halves[own] / 2))
    return (
        np.concatenate([centre for centre, _ in found]),
        np.concatenate([half for _, half in found]),
    )


def _leaving(
    field: Field, centres: Floats, halves: Floats, point: Floats, axes: Floats | None
) -> Floats:
    """Return lower bounds of ``g(b)'(b - p) / |b - p|`` on patches."""
    turn = np.eye(len(point)) if axes is None else axes
    if axes is not None:
        halves = halves + SLACK
    ways = (centres - point) @ turn.T
    found = bounded(field, centres @ turn.T, halves, axes=axes, ways=ways)
    sizes = np.abs(found.sums @ turn) + found.excess[:, None] * np.sqrt((turn**2).sum(axis=0))
    rise = found.least * np.sqrt((ways**2).sum(axis=1))
    rise -= (sizes * halves).sum(axis=1) * (1 + MARGIN)
    longest = np.sqrt(((np.abs(ways) + halves @ np.abs(turn).T) ** 2).sum(axis=1))
    return np.asarray(rise / longest)
