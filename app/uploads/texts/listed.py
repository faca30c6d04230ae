"""Texts of a closed list: which cells are which of them.

Nearly all cells are spelt as the list has them, and those are looked up as they are. What is left
is compared as :mod:`app.domain.declaring` says, each different text once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of texts; ``compared`` makes of a text what it is compared by."""

    kind: pl.Enum
    compared: Callable[[str], str]
    texts: Mapping[str, str]

    @classmethod
    def of(cls, texts: Iterable[str], compared: Callable[[str], str]) -> Listed:
        """Return a list, none of whose texts are compared by the same."""
        listed = list(texts)
        return cls(pl.Enum(listed), compared, {compared(text): text for text in listed})

    def among(self, cells: pl.Series) -> pl.Series:
        """Return the cells as texts of the list, null where one is none."""
        known = cells.cast(self.kind, strict=False)
        if known.null_count() == cells.null_count():
            return known
        left = cells.filter(known.is_null()).drop_nulls().unique()
        meant = {
            text: found
            for text in left.to_list()
            if (found := self.texts.get(self.compared(text))) is not None
        }
        if not meant:
            return known
        return cells.replace(meant).cast(self.kind, strict=False)
