"""The boundary of a box inside another, cut into patches on which a bound can be evaluated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from mechanisms.exact.arrays import Floats
from mechanisms.samplers.boxes.space import Box

PATCHES = 4
"""Patches per side: more give better bounds, and cost ``PATCHES ** (d - 1)`` evaluations."""


@dataclass(frozen=True, slots=True, eq=False)
class Patches:
    """Pieces of faces: their centres and half widths (m x d; one side of each is 0)."""

    centres: Floats
    halves: Floats

    def __len__(self) -> int:
        return len(self.centres)


def inner_faces(inner: Box, outer: Box) -> list[tuple[int, float]]:
    """Return the faces (axis, side) of a box that lie inside the outer box."""
    found = []
    for axis, (a, n, b, m) in enumerate(
        zip(inner.lower, inner.sides, outer.lower, outer.sides, strict=True)
    ):
        if a > b:
            found.append((axis, -1.0))
        if a + n < b + m:
            found.append((axis, 1.0))
    return found


def patches(box: Box, faces: Sequence[tuple[int, float]], per_side: int = PATCHES) -> Patches:
    """Cut faces of a box into patches."""
    half = np.array(box.sides) / 2
    centre, d = np.array(box.lower) + half, len(half)
    places = (np.arange(per_side) * 2 + 1) / per_side - 1
    offsets = np.array(
        [
            [*others[:face], side, *others[face:]]
            for face, side in faces
            for others in product(places, repeat=d - 1)
        ]
    )
    # a patch has no width along the side its face stands on
    thin = np.repeat(np.eye(d)[[face for face, _ in faces]], len(places) ** (d - 1), axis=0)
    return Patches(centre + offsets * half, (1 - thin) * half / per_side)


def box_around(point: Floats, reach: Floats, outer: Box) -> Box | None:
    """Return the box ``|u - point| <= reach`` inside the outer one, or None if not much smaller."""
    box = box_within(point, reach, outer)
    if min(box.sides) < 1 or 2 * box.points > outer.points:
        return None
    return box


def box_within(point: Floats, reach: Floats, outer: Box) -> Box:
    """Return the part of the box ``|u - point| <= reach`` inside the outer one."""
    low = [max(a, math.floor(p - r)) for a, p, r in zip(outer.lower, point, reach, strict=True)]
    high = [
        min(a + n, math.ceil(p + r))
        for a, n, p, r in zip(outer.lower, outer.sides, point, reach, strict=True)
    ]
    return Box(tuple(low), tuple(b - a for a, b in zip(low, high, strict=True)))
