"""Blocks of rows as the reading process sends them where rows are people's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.domain.columns import Fill
from app.domain.datasets import ColumnsSpec
from app.uploads.people.ids import id_words
from app.uploads.people.wire import PERSON, Codes, halves, is_number, missing
from app.uploads.prf import Prf

Mask = NDArray[np.bool_]
Plain = Mapping[str, tuple[NDArray[np.float64] | Codes, Mask | None]]


class PeopleWords:
    """Puts beside the cells of rows whose they are, in the words that blocks carry.

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
        self._unit = spec.unit
        self._reduced = spec.unit.reduce is not None
        self._prf = prf

    def words(
        self,
        frame: pl.DataFrame,
        block: Mapping[str, Codes],
        plain: Plain,
        masks: Mapping[str, Mask],
    ) -> dict[str, Codes]:
        """Return the words of some rows.

        Parameters
        ----------
        frame
            The rows as they are in the file.
        block
            Their codes, with what is missing filled in.
        plain
            Their cells before any bounds, and which are missing.
        masks
            Which are missing, for columns that lack any.
        """
        told = self._unreduced(block, plain, masks) if self._reduced else dict(block)
        words = id_words(self._prf, frame[self._unit.column], self._unit.na)
        return {**told, **dict(zip(PERSON, words, strict=True))}

    def _unreduced(
        self, block: Mapping[str, Codes], plain: Plain, masks: Mapping[str, Mask]
    ) -> dict[str, Codes]:
        told: dict[str, Codes] = {}
        for name, column in self._spec.in_file.items():
            fill = column.missing.value if isinstance(column.missing, Fill) else 0
            mask = masks.get(name)
            if is_number(column):
                cells = plain[name][0].astype(np.float64)
                values = cells if mask is None else np.where(mask, float(fill), cells)
                words = np.ascontiguousarray(values).view(np.int32).reshape(-1, 2)
                for place, half in enumerate(halves(name)):
                    told[half] = np.ascontiguousarray(words[:, place])
            else:
                told[name] = block[name]
            if isinstance(column.missing, Fill):
                absent = np.zeros(len(block[name]), dtype=np.int32)
                told[missing(name)] = absent if mask is None else mask.astype(np.int32)
        return told
