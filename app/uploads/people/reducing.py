"""One row of each person, made of that person's rows alone.

    row(p)_c = encode_c(clamp(r_c(cells of p in column c, in the order of the file))),

r_c a sum, mean, least, largest, first or last cell, or a count of the rows. Cells are reduced as
the file has them, before bounds; what comes of them is clamped to the column's public bounds.

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
from app.uploads.people.keeping import Places
from app.uploads.people.wire import Codes, halves, is_number, missing
from app.uploads.trouble import UNREADABLE, Trouble, Troubles
from mechanisms.domain import NumberColumn
from mechanisms.expressions.derived import DerivedColumn

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

    def rows(self, words: Mapping[str, Codes], grouping: Grouping) -> dict[str, Codes]:
        """Return the stored columns of each person, from words as blocks carry them.

        Raises
        ------
        Problem
            ``invalid-upload``: they are nothing a reader could have sent.
        """
        block: dict[str, Codes] = {}
        masks: dict[str, Mask] = {}
        for name, column in self._spec.columns.items():
            how, kind = self._unit.reducer(name), column_of(column)
            if how == "count":
                cells: Cells = grouping.counts.astype(np.float64)
            elif is_number(column):
                cells = grouping.reduced(_numbers(words, name), how)
            else:
                cells = grouping.reduced(words[name], how)
            if isinstance(kind, NumberColumn) and cells.dtype == np.float64:
                cells = np.rint(cells) if kind.whole else cells  # a mean of whole numbers
                self._count(name, cells, kind)
                cells = kind.encode(cells)
            block[name] = cells.astype(np.int32, copy=False)
            if (mask := words.get(missing(name))) is not None:
                masks[name] = grouping.all_of(mask.astype(np.bool_), how)
        for name, derived in self._derived.items():
            block[name] = derived.codes(block, masks)
        return block

    def _count(self, name: str, cells: NDArray[np.float64], column: NumberColumn) -> None:
        low, high = self.clamped.get(name, (0, 0))
        low += int(np.count_nonzero(cells < float(column.lower)))
        high += int(np.count_nonzero(cells > float(column.upper)))
        self.clamped[name] = low, high


def _numbers(words: Mapping[str, Codes], name: str) -> NDArray[np.float64]:
    low, high = (words[half] for half in halves(name))
    values = np.ascontiguousarray(np.column_stack([low, high])).view(np.float64).ravel()
    if not np.isfinite(values).all():
        raise Troubles([Trouble(None, None, UNREADABLE)]).refusal()
    return np.clip(values, -_LARGEST, _LARGEST)
