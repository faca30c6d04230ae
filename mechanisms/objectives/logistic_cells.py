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
from mechanisms.objectives.logistic_expansion import (
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
_BLUR = 2.0  # cells serve while their width blurs no more than twice what the box does
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
    def build(cls, records: SignedRecords) -> Cells | None:
        """Return the cells, or None where they are not far fewer than the rows."""
        zeta, counts = records.zeta, records.counts[:, None]
        key = cell_keys(zeta)
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))  # keys are never below 0
        if len(starts) * _ROWS_PER_CELL >= len(zeta):
            return None
        arranged = zeta[order]
        least = np.minimum.reduceat(arranged, starts)
        most = np.maximum.reduceat(arranged, starts)
        weighted = arranged * counts[order]
        return cls(
            middle=(least + most) / 2,
            radius=(most - least) / 2,
            sums=np.add.reduceat(weighted, starts),
            sizes=np.add.reduceat(np.abs(weighted), starts),
            products=np.add.reduceat(records.products[order] * counts[order], starts),
            shares=np.add.reduceat(counts[order][:, 0], starts) / records.counts.sum(),
            sum_error=_SUM_ERROR,
        )

    def serve(self, records: Frame, centres: Floats, half: Floats) -> bool:
        """Say whether cells blur boxes by less than the boxes' own sides do: a matter of cost."""
        shear = records.space.shear
        largest = np.abs(centres @ shear.T).max(axis=0) + np.abs(shear) @ half
        blur = self.shares @ (self.radius @ largest)
        return bool(blur <= _BLUR * self.shares @ (np.abs(self.middle @ shear) @ half))


def cell_keys(zeta: Floats) -> Integers:
    """Return the cells that rows lie in, each by its number."""
    per_unit = _PER_UNIT[zeta.shape[1]]
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
