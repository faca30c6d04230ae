"""How large the logistic gradient is beyond the boundary of a box, by the rows' own growth.

*Rows.* With w = theta - p each row has its say, where they are few: :func:`growth_by_rows`.

*The loss.* It is convex: where the ray from p to theta leaves the box at b, and w = b - p,

    ||g(theta)|| h(w) >= g(theta)'w >= g(b)'w >= l(b) - l(p),    h the dual norm.

By Jensen's inequality ``l(b) >= sum_c n_c softplus(z_c'b)`` over cells c of n_c rows with mean
z_c: few cells are enough. That sum is convex, so on a patch of the boundary it is above its tangent
plane A at the centre. Over a convex h a plane is least at a corner of the patch: where
``A - s h >= 0`` at all corners, it is so between them, as A - s h is concave. The bound is about
half of g(b)'w near p. It follows it where w is long, and the quadratic model says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from mechanisms.exact.arrays import Floats
from mechanisms.exact.floats import SPACING, sigmoid, softplus
from mechanisms.objectives.logistic_law.cells import Cells
from mechanisms.objectives.logistic_law.expansion import MARGIN, Frame, SignedRecords
from mechanisms.samplers.boxes.faces import Patches

_ROUNDING = 2.0**-48  # relative room for the float operations of a bound


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """A point p (grid steps), an upper bound of the loss there, and cells of all rows."""

    point: Floats
    most: float
    cells: Cells


def risen_beyond(
    frame: Frame, losses: Losses, boundary: Patches, dual: Callable[[Floats], Floats]
) -> Floats:
    """Return lower bounds of ||g|| beyond patches, by how far the loss has risen on them."""
    step, shear = frame.step, frame.space.shear
    counts = losses.cells.shares * frame.total
    means = losses.cells.sums / counts[:, None]
    centres, point = boundary.centres @ shear.T * step, losses.point * step
    sides = boundary.halves * step
    sizes = np.abs(boundary.centres) @ np.abs(shear).T * step + np.abs(point)
    reach = (sizes + sides @ np.abs(shear).T).sum(axis=1)
    tilts = centres @ means.T
    value = softplus(tilts) @ counts - losses.most
    slope = (sigmoid(tilts)[0] * counts) @ means @ shear
    # tilts, means, functions and sums over cells, relative to the sizes added
    error = (1 + reach) * frame.total * (4 * len(counts) * SPACING + MARGIN)
    error += (1 + reach) * frame.total * losses.cells.sum_error
    found = np.full(len(centres), np.inf)
    for corner in product((-1.0, 1.0), repeat=len(shear)):
        v = np.array(corner) * sides
        risen = np.maximum(0, value + (slope * v).sum(axis=1) - error)
        w = np.abs(centres - point + v @ shear.T) + MARGIN * sizes
        found = np.minimum(found, risen / dual(w))
    return np.asarray(found * (1 - MARGIN))


def growth_by_rows(records: SignedRecords, point: Floats, boundary: Patches) -> Floats:
    """Return lower bounds of ``(g(p + w) - g(p))'w`` on patches of p + w, row by row.

    The point p is in grid steps of theta, any floats.
    """
    step, shear, zeta = records.step, records.space.shear, records.zeta
    tilts, moved = zeta @ point * step, (boundary.centres @ shear.T - point) * step @ zeta.T
    sizes = (np.abs(boundary.centres) @ np.abs(shear).T + np.abs(point)).sum(axis=1) * step
    sides = boundary.halves * step @ np.abs(zeta @ shear).T * (1 + MARGIN)
    sides += _ROUNDING * sizes[:, None]
    nearest = np.sign(moved) * np.maximum(np.abs(moved) - sides, 0)
    rise = sigmoid(tilts + nearest)[0] - sigmoid(tilts)[0]
    size = float(sizes.max()) + 1
    error = 4 * (records.relative_error(size) + MARGIN) * records.total * size
    return np.asarray((rise * nearest) @ records.counts - error)
