"""The K-norm gradient law of logistic regression over rows that are too many to hold.

The law is that of :class:`mechanisms.objectives.logistic_law.boxes.GradientBoxes`; here is where
its bounds come from. A draw starts from an expansion about the minimiser, which a few Newton steps
find, a pass each. On the box around it that expansion says all that a draw of much information
needs. A box that it is too wide for is bounded by cells of near rows, which one pass makes and
which are enough where there is little information. Where neither is enough, a pass expands at
all parts of a box at once.

*Values* are tried from what is known, then by a pass in floats with a proved error, then by a pass
in integers with as many bits as asked for. Nothing is refused: a box far from the minimiser costs
passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
from flint import arb

from mechanisms.domain import CODE_MAX
from mechanisms.exact.arrays import Floats
from mechanisms.exact.once import once
from mechanisms.objectives.check_loss.passes import Reader, Surveyed, added
from mechanisms.objectives.check_loss.stored import Run
from mechanisms.objectives.gradient_norms import NormName
from mechanisms.objectives.logistic_law.boxes import GradientBoxes, Local, Look, Looked
from mechanisms.objectives.logistic_law.cells import Cells, cell_chords
from mechanisms.objectives.logistic_law.expansion import MARGIN, Expansion, bent_errors, term_error
from mechanisms.objectives.logistic_law.outside import Losses
from mechanisms.objectives.logistic_law.passes import (
    EXACT_ERROR,
    LARGEST_LOSS,
    LOSS_UNIT,
    TERM_ERROR,
    CellSums,
    ExactGradient,
    Expand,
    Loss,
    Sort,
    as_floats,
)
from mechanisms.objectives.logistic_law.search import Hint, search
from mechanisms.objectives.logistic_law.sensitivity import Reach
from mechanisms.samplers.boxes import Space

_ROUNDS = 8  # Newton steps over all rows
_NEAR_NATS = 0.25  # of E at a point that is as good as the minimiser
_LARGEST_STEP = 1.0  # a longer Newton step leaves where the quadratic model holds
_SHORT_STEP = 1e-3  # the last step of a search that has found the minimiser
_RIDGE = 1e-9  # keeps collinear columns solvable
_SURE_NATS = 0.05  # a value that may be off by more is looked up in cells as well


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredSigned:
    """Signed rows that are read in passes, on a grid of theta.

    ``run`` makes a pass and ``read`` gives a block's rows (d x n codes); ``surveyed`` is what the
    first pass has found, and ``hint`` says where their loss is about least.
    """

    run: Run
    read: Reader
    surveyed: Surveyed
    grid_bits: int
    space: Space
    hint: Hint

    @classmethod
    def of(
        cls, run: Run, read: Reader, surveyed: Surveyed, *, grid_bits: int, radius: int
    ) -> StoredSigned:
        """Prepare rows; the hint and the coordinates come from the sample, a cost only."""
        zeta = surveyed.sample / CODE_MAX
        hint = search(zeta, np.ones(len(zeta)), radius * 2.0**-grid_bits)
        return cls(
            run=run,
            read=read,
            surveyed=surveyed,
            grid_bits=grid_bits,
            space=Space.uncorrelated(hint.hessian, radius),
            hint=hint,
        )

    @property
    def dimension(self) -> int:
        """Return d."""
        return len(self.surveyed.total)

    @property
    def step(self) -> float:
        """Return 2**-g, by which lengths in grid steps become lengths in scaled units."""
        return 2.0**-self.grid_bits

    @property
    def total(self) -> float:
        """Return the number of rows."""
        return float(self.surveyed.rows)

    @property
    def bound(self) -> float:
        """Return Theta's radius in scaled units."""
        return self.space.radius * self.step

    def relative_error(self, size: float) -> float:
        """Return the error of a sum of terms for each row, at ``||theta||_1 <= size`` (scaled)."""
        return (term_error(self.dimension, size) + TERM_ERROR) * (1 + MARGIN)

    def expansions(self, points: Floats) -> list[Expansion]:
        """Return the expansions at points (k x d, grid steps), by one pass."""
        scaled = points * self.step
        each = zip(*self.run(Expand(self.read, scaled)), strict=True)
        found = []
        for point, size, parts in zip(points, np.abs(scaled).sum(axis=1), each, strict=True):
            error = self.relative_error(float(size)) * self.total
            sums = as_floats(added(parts), self.dimension, bent_errors(error, error))
            found.append(Expansion.of(self.space.shear, point, sums))
        return found

    def loss(self, point: Floats) -> float:
        """Return an upper bound of the loss at a point (grid steps), by one pass."""
        size = 1 + float(np.abs(point).sum()) * self.step
        if size > LARGEST_LOSS:
            return math.inf
        total = sum(self.run(Loss(self.read, point * self.step))) * LOSS_UNIT
        error = self.relative_error(size) + 2 * LOSS_UNIT
        return float(total * (1 + MARGIN) + error * self.total * size)

    @once
    def cells(self) -> Cells:
        """The cells of all rows, by one pass."""
        parts = (part for part in self.run(Sort(self.read)) if part is not None)
        return reduce(CellSums.added, parts).cells

    def exact(self, point: tuple[int, ...], bits: int) -> list[arb]:
        """Return balls around g at a grid point, by one pass in integers."""
        sums = added(self.run(ExactGradient(self.read, point, self.grid_bits, bits)))
        error = arb(0, EXACT_ERROR * self.surveyed.rows)
        return [(arb(total) / CODE_MAX + error) * arb((1, -bits)) for total in sums]


class StoredLogisticLaw(GradientBoxes):
    """The law of rows that are read in passes; parameters as of :class:`GradientBoxes`."""

    def __init__(self, rows: StoredSigned, *, rate: Fraction, norm: NormName, reach: Reach) -> None:
        super().__init__(rows, rate=rate, norm=norm, reach=reach)
        self.rows = rows
        gram = rows.surveyed.gram.astype(np.float64) / CODE_MAX**2
        shear = rows.space.shear
        # sum |a| <= sqrt(n sum a**2): the first pass has the squares, and no pass is needed
        self._spans = np.sqrt(np.maximum(np.diag(shear.T @ gram @ shear), 0) * rows.total)

    @property
    def spans(self) -> Floats:
        """Return at least how far a unit of each coordinate moves all tilts together."""
        return self._spans

    @property
    def coarse(self) -> Cells:
        """Return the cells of all rows, made by a pass."""
        return self.rows.cells

    def losses(self, point: Floats) -> Losses:
        """Return the loss at a point, by one pass, and cells that bound it elsewhere."""
        return Losses(point, self.rows.loss(point), self.rows.cells.fewest())

    def nearest(self) -> Expansion | None:
        """Return an expansion about the minimiser, after Newton steps over all rows."""
        point, bound = self.rows.hint.point, self.rows.bound
        for _ in range(_ROUNDS):
            [known] = self.rows.expansions((point / self.rows.step)[None, :])
            ridge = (_RIDGE * float(np.trace(known.hessian)) + 1e-12) * np.eye(len(point))
            step = np.linalg.solve(known.hessian + ridge, known.gradient)
            length, size = float(np.abs(step).sum()), float(np.abs(point).sum())
            # on the edge it was pulled back
            inside = size < bound * (1 - 1e-9) and length < _SHORT_STEP
            if inside and self._nats(known.gradient) <= _NEAR_NATS:
                break
            point = point - step * min(1.0, _LARGEST_STEP / max(length, 1e-300))
            # back into Theta
            point = point * min(1.0, bound / max(float(np.abs(point).sum()), 1e-300))
        return known if inside else None

    def _nats(self, sizes: Floats) -> float:
        """Return what a gradient of such entries is worth, about."""
        return float(self.norm.floats(np.abs(sizes)[None, :])[0]) * float(self.rate)

    def expansions(self, points: Floats) -> list[Expansion]:
        """Return the expansions at points, by one pass over the rows."""
        return self.rows.expansions(points)

    def looks(self, centres: Floats, half: Floats) -> list[Look]:  # noqa: ARG002
        """Return: by cells of rows, then by passes where boxes are small enough."""
        passes: list[Look] = [] if self._is_coarse(half) else [self._by_expansions]
        return [self._by_cell_chords, *passes]

    def _by_cell_chords(self, known: Local, centres: Floats, half: Floats) -> Looked:
        return self._by_chords(known, cell_chords(self.rows, self.rows.cells, centres, half), half)

    def gradient(self, point: Sequence[int], bits: int) -> list[arb]:
        """Return balls around g, by a pass in integers."""
        return self.rows.exact(tuple(point), bits)

    def _known_values(self, known: Local, point: Sequence[int]) -> tuple[Floats, Floats]:
        """Return g and its errors by the expansion known, or by cells where that is too far."""
        near = super()._known_values(known, point)
        if near is not None and self._nats(near[1]) <= _SURE_NATS:
            return near
        wide = self._by_cells(self.rows.cells, point)
        if near is not None and self._nats(near[1]) <= self._nats(wide[1]):
            return near
        return wide
