"""Rows of a logistic loss in cells of near rows, for boxes too large to need each row.

All rows of a cell lie within ``radius`` of its ``middle``. Over a box a row's t = zeta'theta is
within M of the cell's ``t_c = middle'theta_c``, theta_c the box's centre,

    M = radius'|theta|_max + |middle'V| half,

so the chord of sigma on [t_c - M, t_c + M] serves all of them: sigma(t) = a + b (t - t_c) +- gap,

    g(theta) in sum_cells (a - b t_c) Z + b P theta +- gap |Z|,

with Z, P and |Z| the cell's exact sums of zeta, zeta zeta' and |zeta|. What a cell loses is of
second order in its radius.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mechanisms.exact.arrays import Floats, Integers
from mechanisms.objectives.logistic_law.expansion import (
    MARGIN,
    Chords,
    Frame,
    SignedRecords,
    chord,
    rounding_slack,
    symmetric,
)

# Cells per unit of each coordinate, by d: at most 2**16 in all.
_PER_UNIT = {1: 256, 2: 64, 3: 20, 4: 8}
_ROWS_PER_CELL = 4  # fewer rows a cell save nothing
_LEVELS = 4  # of cells, each twice as wide as the one before
_FEW_CELLS = 500  # so many are looked at together for each of some hundred patches
_TINY = 1e-300  # a box of one point has no width
_SUM_ERROR = 2.0**-28  # of sums over fewer than 2**24 rows, relative to their sizes


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Middles, radii and sums over rows (m x d each); ``products`` as in the records.

    ``sum_error`` is that of their sums, relative to the sizes added.
    """

    middle: Floats
    radius: Floats
    sums: Floats
    sizes: Floats
    products: Floats
    shares: Floats
    sum_error: float

    @classmethod
    def of(cls, records: SignedRecords) -> Cells:
        """Return a cell for each row: of itself, exactly."""
        counts = records.counts[:, None]
        weighted = records.zeta * counts
        return cls(
            middle=records.zeta,
            radius=np.zeros_like(records.zeta),
            sums=weighted,
            sizes=np.abs(weighted),
            products=records.products * counts,
            shares=records.counts / max(1.0, records.total),
            sum_error=_SUM_ERROR,
        )

    def joined(self, level: int = 0) -> Cells | None:
        """Return larger cells, or None where they are not far fewer.

        Those of level 0 are the finest; each level's are twice as wide as those of the one before.
        """
        key = cell_keys(self.middle, level)
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))  # keys are never below 0
        if len(starts) * _ROWS_PER_CELL >= len(key):
            return None
        # middles and radii are multiples of half a code's step: all of it is exact
        least = np.minimum.reduceat((self.middle - self.radius)[order], starts)
        most = np.maximum.reduceat((self.middle + self.radius)[order], starts)
        added = (self.sums, self.sizes, self.products, self.shares)
        sums, sizes, products, shares = (np.add.reduceat(each[order], starts) for each in added)
        return Cells(
            middle=(least + most) / 2,
            radius=(most - least) / 2,
            sums=sums,
            sizes=sizes,
            products=products,
            shares=shares,
            sum_error=self.sum_error + _SUM_ERROR,
        )

    def fewest(self) -> Cells:
        """Return larger cells until they are few, where those are far fewer than these."""
        found, level = self, 0
        while level < _LEVELS and len(found.shares) > _FEW_CELLS:
            found, level = found.joined(level) or found, level + 1
        return found

    def blur(self, records: Frame, centres: Floats, half: Floats) -> float:
        """Return how much cells blur boxes, in units of what the boxes' own sides do."""
        shear = records.space.shear
        largest = np.abs(centres @ shear.T).max(axis=0) + np.abs(shear) @ half
        blur = self.shares @ (self.radius @ largest)
        return float(blur / (self.shares @ (np.abs(self.middle @ shear) @ half) + _TINY))


def cell_keys(zeta: Floats, level: int = 0) -> Integers:
    """Return the cells that rows lie in, each by its number."""
    per_unit = max(1, _PER_UNIT[zeta.shape[1]] >> level)
    places = np.floor(zeta * per_unit).astype(np.int64) + per_unit
    # A place is one of 2 per_unit + 1, a digit: no two cells have the same number.
    return np.asarray(places @ (2 * per_unit + 1) ** np.arange(zeta.shape[1]))


def cell_chords(records: Frame, cells: Cells, centres: Floats, half: Floats) -> list[Chords]:
    """Return what chords say of boxes (k x d, grid steps), cell by cell."""
    d, shear, step = records.dimension, records.space.shear, records.step
    points, side = centres @ shear.T * step, half * step
    slack, reach = rounding_slack(records, centres, half)
    largest = np.abs(points) + np.abs(shear) @ side
    t = points @ cells.middle.T
    move = largest @ cells.radius.T + np.abs(cells.middle @ shear) @ side
    mean, slope, gap = chord(t, move * (1 + MARGIN) + 2 * slack)
    middle = (mean - slope * t) @ cells.sums
    curves, rest = slope @ cells.products, gap @ cells.sizes
    total = records.total
    error = 4 * (records.relative_error(reach) + cells.sum_error) * total * (1 + reach)
    found = []
    for k in range(len(centres)):
        hessian = symmetric(curves[k], d)
        found.append(
            Chords(
                middle[k] + hessian @ points[k],
                hessian @ shear,
                rest[k] * (1 + MARGIN) + error,
            )
        )
    return found
