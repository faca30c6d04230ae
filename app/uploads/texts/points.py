"""Points that may be thousands separators: numbers that all look like ``12.345``.

Such a column is read as decimals, and may be meant as thousands. The cells do not show which,
so the report warns the sender. A look at a few cells of each block settles it for nearly every
column; the texts of a block are read again only where all of those few look so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import polars as pl

_LOOKED_AT = 256
_GROUP = 1_000
_NUMBER = r"[0-9]"
_LIKE = r"^\s*[+-]?(?:0|[1-9][0-9]{0,2}(?:\.[0-9]{3})?)\s*$"

Texts = Callable[[Sequence[str]], pl.DataFrame | None]


class Points:
    """Counts cells such as ``12.345`` in columns where every cell with a point is such a one."""

    def __init__(self, columns: Iterable[str]) -> None:
        self._counts = dict.fromkeys(columns, 0)

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many cells look so, in columns where all that have a point do."""
        return {name: count for name, count in self._counts.items() if count}

    def look(self, frame: pl.DataFrame, texts: Texts) -> None:
        """Look at a block of rows, whose cells ``texts`` gives as they are written."""
        suspects = [name for name in tuple(self._counts) if self._suspect(name, frame[name])]
        if not suspects:
            return
        as_written = frame[suspects[0]].dtype == pl.String
        written = frame if as_written else texts(suspects)
        if written is None:
            return
        for name in suspects:
            cells = written[name].drop_nulls()
            cells = cells.filter(cells.str.contains(_NUMBER))
            if cells.str.contains(_LIKE).all():
                self._counts[name] += int(cells.str.contains(".", literal=True).sum())
            else:
                del self._counts[name]

    def _suspect(self, name: str, cells: pl.Series) -> bool:
        """Say whether the texts are to be looked at; forget a column that cannot look so."""
        few = cells.head(_LOOKED_AT).cast(pl.Float64, strict=False).drop_nulls().drop_nans()
        values = np.abs(few.to_numpy())
        scaled = values * _GROUP
        if ((values >= _GROUP) | ((values > 0) & (values < 1))).any() or not np.allclose(
            scaled, np.rint(scaled), rtol=1e-12, atol=1e-9
        ):
            del self._counts[name]
            return False
        return bool((np.rint(values) != values).any())
