"""The K-norm gradient law of logistic regression over rows that are held.

The law is that of :class:`mechanisms.objectives.logistic_law.boxes.GradientBoxes`; here is where
its bounds come from: cells of near rows where those are fine enough, then rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats
from mechanisms.exact.floats import softplus
from mechanisms.exact.once import once
from mechanisms.objectives.gradient_norms import NormName
from mechanisms.objectives.logistic_law.boxes import GradientBoxes, Local, Look, Looked
from mechanisms.objectives.logistic_law.cells import Cells, cell_chords
from mechanisms.objectives.logistic_law.expansion import (
    MARGIN,
    Expansion,
    SignedRecords,
    chords,
    exact_gradient,
    expand,
    gradient_near,
)
from mechanisms.objectives.logistic_law.outside import Losses, growth_by_rows
from mechanisms.objectives.logistic_law.sensitivity import Reach
from mechanisms.samplers.boxes.faces import Patches

_FEW_ROWS = 32  # so many distinct rows cost next to nothing on each patch
_FINE_PATCHES = 8  # per side, where rows are few
_BLUR = 2.0  # cells serve while their width blurs no more than twice what the box does
_SHARP = 0.3  # cells of so little blur say about what their rows say


class LogisticLaw(GradientBoxes):
    """The law of rows that are held; parameters as of :class:`GradientBoxes`."""

    def __init__(
        self,
        records: SignedRecords,
        *,
        rate: Fraction,
        norm: NormName,
        reach: Reach = Reach(),  # noqa: B008
    ) -> None:
        super().__init__(records, rate=rate, norm=norm, reach=reach)
        self.records = records
        self.cells = Cells.of(records).joined()
        if len(records.zeta) <= _FEW_ROWS:
            self.patches = _FINE_PATCHES
        self._spans = records.counts @ np.abs(records.zeta @ records.space.shear)

    @property
    def spans(self) -> Floats:
        """Return how far a unit of each coordinate moves all tilts together."""
        return self._spans

    @once
    def coarse(self) -> Cells:
        """Cells of all rows: of near ones, or each its own."""
        return self.cells or Cells.of(self.records)

    def losses(self, point: Floats) -> Losses:
        """Return the loss at a point, and cells that bound it elsewhere."""
        records = self.records
        tilts, size = records.zeta @ point * records.step, float(np.abs(point).sum()) * records.step
        error = (records.relative_error(size) + MARGIN) * records.total * (1 + size)
        most = float(softplus(tilts) @ records.counts) + error
        return Losses(point, most, self.coarse.fewest())

    def nearest(self) -> Expansion | None:
        """Return an expansion at the hint, if that is inside Theta."""
        if not self.records.hint.inside:
            return None
        scale = 2.0**self.records.grid_bits
        return self.expansions((self.records.hint.point * scale)[None, :])[0]

    def expansions(self, points: Floats) -> list[Expansion]:
        """Return the expansions at points, by one pass over the rows."""
        return expand(self.records, points)

    def floats(self, place: Floats) -> tuple[Floats, Floats]:
        """Return g at a grid point in floats, by one pass that sums up nothing else."""
        return gradient_near(self.records, place)

    def looks(self, centres: Floats, half: Floats) -> list[Look]:
        """Return: by cells of rows where those are fine enough, then row by row."""
        coarse, blur = self._is_coarse(half), math.inf
        if self.cells is not None:
            blur = self.cells.blur(self.records, centres, half)
        found: list[Look] = [self._by_cell_chords] if blur <= _BLUR else []
        if not coarse:
            return [*found, self._by_expansions]
        return found if blur <= _SHARP else [*found, self._by_row_chords]

    def _by_cell_chords(self, known: Local, centres: Floats, half: Floats) -> Looked:
        assert self.cells is not None
        found = cell_chords(self.records, self.cells, centres, half)
        return self._by_chords(known, found, half)

    def _by_row_chords(self, known: Local, centres: Floats, half: Floats) -> Looked:
        # of a box so large its parts are hardly bounded by an expansion far away
        return self._by_chords(Local(None, known.widths), chords(self.records, centres, half), half)

    def _growth(self, known: Expansion, boundary: Patches) -> Floats:
        if len(self.records.zeta) > _FEW_ROWS:
            return super()._growth(known, boundary)
        return growth_by_rows(self.records, known.point, boundary)

    def gradient(self, point: Sequence[int], bits: int) -> list[arb]:  # noqa: ARG002
        """Return balls around g, row by row."""
        return exact_gradient(self.records, point)

    def _known_values(self, known: Local, point: Sequence[int]) -> tuple[Floats, Floats] | None:
        """Return g and its errors by the expansion known, or by cells."""
        if known.expansion is None and self.cells is not None:
            return self._by_cells(self.cells, point)
        return super()._known_values(known, point)
