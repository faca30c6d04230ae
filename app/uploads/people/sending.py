"""Blocks of rows as the reading process sends them where rows are people's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.domain.columns import Fill
from app.domain.datasets import ColumnsSpec
from app.uploads.people.canonical import IdRule, canonical_ids, canonical_markers
from app.uploads.people.ids import id_words
from app.uploads.people.wire import PERSON, is_number, missing, tells_missing
from app.uploads.prf import Prf
from app.uploads.trouble import Trouble
from mechanisms.domain import Values

Mask = NDArray[np.bool_]
Cells = Mapping[str, tuple[Values, Mask | None]]


class PeopleWords:
    """Adds to the cells of rows whose they are.

    Parameters
    ----------
    spec
        The declared columns, with their unit.
    prf
        What digests ids.
    """

    def __init__(self, spec: ColumnsSpec, prf: Prf) -> None:
        assert spec.unit is not None
        self._spec = spec
        self._column = spec.unit.column
        self._rule = IdRule.of(spec.unit)
        self._markers = canonical_markers(spec.unit.na, self._rule)
        self._reduced = spec.unit.reduce is not None
        self._prf = prf

    def ids(self, frame: pl.DataFrame, first_row: int) -> tuple[pl.Series, Sequence[Trouble]]:
        """Return the canonical ids of some rows, and what refuses the upload in them."""
        texts, refused = canonical_ids(frame[self._column], self._rule, self._markers)
        troubles = [
            Trouble.of(reason, self._column, np.flatnonzero(rows), first_row)
            for reason, rows in refused.items()
        ]
        return texts, troubles

    def rows(
        self,
        ids: pl.Series,
        block: Mapping[str, Values],
        cells: Cells,
        masks: Mapping[str, Mask],
    ) -> dict[str, Values]:
        """Return the arrays of some rows.

        Parameters
        ----------
        ids
            The rows' canonical ids.
        block
            Their values, with what is missing filled in.
        cells
            Their cells before any bounds, and which are missing.
        masks
            Which are missing, for columns that lack any.
        """
        found = self._unreduced(block, cells, masks) if self._reduced else dict(block)
        words = id_words(self._prf, ids)
        return {**found, **dict(zip(PERSON, words, strict=True))}

    def _unreduced(
        self, block: Mapping[str, Values], cells: Cells, masks: Mapping[str, Mask]
    ) -> dict[str, Values]:
        found: dict[str, Values] = {}
        for name, column in self._spec.in_file.items():
            fill = column.missing.value if isinstance(column.missing, Fill) else 0
            mask = masks.get(name)
            found[name] = block[name]
            if is_number(column):
                numbers = cells[name][0].astype(np.float64)
                found[name] = numbers if mask is None else np.where(mask, float(fill), numbers)
            if tells_missing(column):
                absent = np.zeros(len(block[name]), dtype=np.int32)
                found[missing(name)] = absent if mask is None else mask.astype(np.int32)
        return found
