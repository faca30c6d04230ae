"""One row of each person, made of that person's rows alone.

    row(p)_c = clamp(r_c(cells of p in column c, in the order of the file)),

r_c a sum, mean, least, largest, first or last cell, or a count of the rows. Cells are reduced as
the file has them, before bounds; what comes of them is clamped to the column's public bounds. Of a
column that keeps its missing cells those with a value are reduced, and where there is none the
person has none.

**Privacy.** Each row is a function of one person's own rows, in their own order, so a person more
or less is one row more or less. Sums are taken one cell after the other within a person, by floats
whose rounding no other person's rows can change: whatever it is, it is the same in both neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.domain.datasets import ColumnsSpec
from app.domain.units import Reducer
from app.engine.schema import column_of, derived_of
from app.uploads.people.counting import Places
from app.uploads.people.wire import is_number, missing
from mechanisms.domain import NumberColumn, Values, presence_of, presence_values
from mechanisms.expressions.derived import DerivedColumn, with_derived

Mask = NDArray[np.bool_]
Cells = NDArray[Any]
_LARGEST = 1e200
"""Cells beyond count as this one, so that no sum of them is infinite."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """Whose rows are whose: each person's are side by side in ``order``, as the file has them."""

    order: Places
    starts: Places
    counts: NDArray[np.int64]

    def reduced(self, cells: Cells, how: Reducer) -> Cells:
        """Return one cell of each person, or a number made of them."""
        ordered: Cells = cells[self.order]
        match how:
            case "first":
                return np.asarray(ordered[self.starts])
            case "last":
                return np.asarray(ordered[self.starts + self.counts - 1])
            case "min":
                return np.asarray(np.minimum.reduceat(ordered, self.starts))
            case "max":
                return np.asarray(np.maximum.reduceat(ordered, self.starts))
        whose = np.repeat(np.arange(len(self.starts)), self.counts)
        totals = np.bincount(whose, weights=ordered, minlength=len(self.starts))  # one by one
        return np.asarray(totals / self.counts if how == "mean" else totals)

    def having(self, there: Mask) -> tuple[Grouping, Mask]:
        """Return the grouping of rows that have a value, and which people have no such row.

        Those are of one row there, which has none.
        """
        people = len(self.starts)
        whose = np.repeat(np.arange(people), self.counts)
        ordered = there[self.order]
        having = np.bincount(whose[ordered], minlength=people) > 0
        kept = ordered.copy()
        kept[self.starts[~having]] = True
        counts = np.bincount(whose[kept], minlength=people)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(self.starts.dtype)
        return Grouping(self.order[kept], starts, counts), ~having

    def all_of(self, mask: Mask, how: Reducer) -> Mask:
        """Say for which people nothing was there to be reduced."""
        if how in ("first", "last"):
            return self.reduced(mask, how).astype(np.bool_)
        return np.asarray(np.logical_and.reduceat(mask[self.order], self.starts))


class Reduction:
    """Reduces people's rows as a spec says."""

    def __init__(self, spec: ColumnsSpec) -> None:
        assert spec.unit is not None
        self._spec = spec
        self._unit = spec.unit
        self._derived: Mapping[str, DerivedColumn] = derived_of(spec)
        self.clamped: dict[str, tuple[int, int]] = {}
        """By column, how many people's numbers were moved to the lower bound and to the upper."""
        self.missing: dict[str, int] = {}
        """By column that keeps missing cells, how many people have no value."""

    def rows(self, given: Mapping[str, Values], grouping: Grouping) -> dict[str, Values]:
        """Return the stored columns of each person, from arrays as blocks carry them."""
        block: dict[str, Values] = {}
        masks: dict[str, Mask] = {}
        for name, column in self._spec.columns.items():
            how, kind = self._unit.reducer(name), column_of(column)
            mask = given.get(missing(name))
            own = grouping
            if column.missing == "keep" and mask is not None:
                own, lacking = grouping.having(mask == 0)
                masks[name] = lacking
                block[presence_of(name)] = presence_values(lacking, len(lacking))
                self.missing[name] = self.missing.get(name, 0) + int(lacking.sum())
            elif mask is not None:
                masks[name] = grouping.all_of(mask.astype(np.bool_), how)
            if how == "count":
                cells: Cells = grouping.counts.astype(np.float64)
            elif is_number(column):
                numbers = np.clip(given[name], -_LARGEST, _LARGEST)
                cells = own.reduced(numbers, how)
            else:
                cells = own.reduced(given[name], how)
            if isinstance(kind, NumberColumn) and cells.dtype == np.float64:
                cells = np.rint(cells) if kind.whole else cells  # a mean of whole numbers
                self._count(name, cells if name not in masks else cells[~masks[name]], kind)
                cells = kind.clamped(cells)
            block[name] = cells.astype(kind.dtype, copy=False)
        return with_derived(self._derived, block, masks)

    def _count(self, name: str, cells: NDArray[np.float64], column: NumberColumn) -> None:
        low, high = self.clamped.get(name, (0, 0))
        low += int(np.count_nonzero(cells < float(column.lower)))
        high += int(np.count_nonzero(cells > float(column.upper)))
        self.clamped[name] = low, high
