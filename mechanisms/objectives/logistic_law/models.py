"""About what a logistic gradient is on the hull of some places, and what bounds it there.

*By an expansion.* With v = theta - c, c the mean of the vertices, the gradient is the expansion at
c and its slope there, plus or minus ``|v' Q_j v| / 2`` and the remainder
(:mod:`mechanisms.objectives.logistic_law.expansion`). As v is a mean of the vertices' v_k,
``|v' Q_j v|`` is at most the largest ``|v_k' Q_j v_l|``. The remainder's factors are convex in
theta, and largest at a vertex.

*By lines.* A polytope too large for an expansion has two lines around sigma for each cell of rows
(:mod:`mechanisms.objectives.logistic_law.lines`), on an interval that holds the t of all its rows.
In ``w'g = sum_i sigma(t_i) w'zeta_i`` the rows of a cell for which ``sum_i w'zeta_i > 0`` have the
lower line, the others the upper one. A line is affine in t, so that its sum over the cell needs the
exact sums of zeta and zeta zeta' alone: what a cell loses is of second order in its radius. A row
of the other sign has the wrong line, and loses the lines' distance at most. The whole is affine in
theta, and least at a vertex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mechanisms.exact.arrays import Floats
from mechanisms.exact.floats import SPACING
from mechanisms.objectives.logistic_law.cells import Cells
from mechanisms.objectives.logistic_law.expansion import (
    MARGIN,
    Expansion,
    Frame,
    symmetric,
    tilt_slack,
)
from mechanisms.objectives.logistic_law.lines import Lines

_TINY = 1e-200  # an interval of one point has no width


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """About what g is on a polytope, and what bounds it there.

    ``values`` (k x d) are those at the vertices, ``slopes`` (d x d) how g changes, and ``errors``
    (d) how far its entries may be off.
    """

    values: Floats
    slopes: Floats
    errors: Floats

    def least(self, directions: Floats) -> Floats:
        """Return lower bounds of w'g for the rows w of ``directions``."""
        error = self.errors + MARGIN * np.abs(self.values).max(axis=0)
        sizes = np.abs(directions) @ error * (1 + MARGIN)
        return np.asarray((self.values @ directions.T).min(axis=0) - sizes)

    def across(self, theta: Floats) -> Floats:
        """Return the functional whose range over theta costs most."""
        return self._longest(theta, self.slopes)

    @staticmethod
    def _longest(theta: Floats, squares: Floats) -> Floats:
        """Return the gradient of a square form at the vertex where it is most, from the middle."""
        v = theta - theta.mean(axis=0)
        bent = v @ squares
        return np.asarray(bent[int((bent * v).sum(axis=1).argmax())])


def expanded(known: Expansion, theta: Floats, step: float) -> Model:
    """Return what an expansion says on the hull of theta (k x d, scaled)."""
    centre = theta.mean(axis=0)
    offset, v = centre - known.point * step, theta - centre
    middle, error, slopes = known.curved(offset[None, :])
    square = np.abs(np.einsum("ka,jab,lb->jkl", v, known.bends, v)).max(axis=(1, 2)) / 2
    size, far = float(np.abs(v).sum(axis=1).max()), float(np.abs(offset).sum())
    # what a place may be off, with what products of the floats lose
    moved = 4 * SPACING * float(np.abs(theta).sum(axis=1).max()) + MARGIN * size
    drift = (np.abs(slopes).max() + known.error) * moved
    drift += known.error * size * (1 + far + size)
    drift += np.abs(known.bends).max() * moved * (size + moved)
    rest = known.rest_between(offset + v) + float(drift)
    return Model(middle[0] + v @ slopes[0].T, slopes[0], (error[0] + square) * (1 + MARGIN) + rest)


@dataclass(frozen=True, slots=True, eq=False)
class Lined(Model):
    """The same by two lines around sigma for each cell of rows."""

    theta: Floats
    cells: Cells
    lines: Lines
    middle: Floats
    gap: Floats
    error: float

    @classmethod
    def of(cls, frame: Frame, cells: Cells, theta: Floats) -> Lined:
        """Return it on the hull of theta."""
        reach = float(np.abs(theta).sum(axis=1).max())
        t = theta @ cells.middle.T
        low, high = t.min(axis=0), t.max(axis=0)
        middle, blur = (low + high) / 2, np.abs(theta).max(axis=0) @ cells.radius.T
        move = ((high - low) / 2 + blur) * (1 + MARGIN) + 2 * tilt_slack(frame, reach) + _TINY
        lines = Lines.around(middle, move)
        gap = lines.above - lines.below + np.abs(lines.climb - lines.rise) * move
        lean = (lines.rise + lines.climb) / 2
        slopes = symmetric(lean @ cells.products, frame.dimension)
        values = ((lines.above + lines.below) / 2 - lean * middle) @ cells.sums + theta @ slopes
        relative = frame.relative_error(reach) + cells.sum_error + MARGIN
        return cls(
            values=values,
            slopes=slopes,
            errors=gap @ cells.sizes / 2,
            theta=theta,
            cells=cells,
            lines=lines,
            middle=middle,
            gap=gap * (1 + MARGIN),
            error=4 * relative * frame.total * (1 + reach),
        )

    def across(self, theta: Floats) -> Floats:
        """Return the same by how far the lines are apart: those around all of sigma are level."""
        squares = symmetric(self.gap @ self.cells.products, theta.shape[1])
        return self._longest(theta, squares)

    def least(self, directions: Floats) -> Floats:
        """Return lower bounds of w'g: cell by cell the line that serves most of its rows."""
        cells, lines, sizes = self.cells, self.lines, np.abs(directions)
        pull, along = cells.sums @ directions.T, cells.middle @ directions.T
        alike = np.abs(along) > cells.radius @ sizes.T * (1 + MARGIN)
        # Of a cell whose rows pull to both sides, some are on the wrong line.
        wrong = np.where(alike, 0, (cells.sizes @ sizes.T - np.abs(pull)) / 2)
        ahead = pull >= 0
        line, slope = (
            np.where(ahead, below[:, None], above[:, None])
            for below, above in ((lines.below, lines.above), (lines.rise, lines.climb))
        )
        fixed = (line - slope * self.middle[:, None]) * pull - wrong * self.gap[:, None]
        curves = [symmetric(each, directions.shape[1]) for each in slope.T @ cells.products]
        moved = self.theta @ np.stack([c @ w for c, w in zip(curves, directions, strict=True)]).T
        return np.asarray((fixed.sum(axis=0) + moved).min(axis=0) - self.error * sizes.sum(axis=1))
