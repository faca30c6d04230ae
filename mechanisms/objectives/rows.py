"""Distinct rows of integers, stored once with their count."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.arrays import Integers


def distinct_rows(rows: Integers, counts: Integers | None = None) -> tuple[Integers, Integers]:
    """Return the distinct rows (n x d) and how often each occurs, ``counts`` times where given."""
    given = np.ones(len(rows), dtype=np.int64) if counts is None else counts
    if len(rows) < 2:
        return rows, given
    order, starts = _arranged(rows)
    return rows[order[starts]], np.add.reduceat(given[order], starts)


def _arranged(rows: Integers) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return an order in which equal rows are adjacent, and where each run begins."""
    order = np.lexsort(rows.T)
    arranged = rows[order]
    new = np.append(True, (arranged[1:] != arranged[:-1]).any(axis=1))
    return order, np.flatnonzero(new)
