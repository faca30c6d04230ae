"""Equal rows of integers, kept once with their count."""

from __future__ import annotations

import numpy as np

from mechanisms.exact.arrays import Integers


def distinct_rows(rows: Integers) -> tuple[Integers, Integers]:
    """Return the distinct rows (n x d) and how often each occurs."""
    if len(rows) < 2:
        return rows, np.ones(len(rows), dtype=np.int64)
    order = np.lexsort(rows.T)
    arranged = rows[order]
    new = np.append(True, (arranged[1:] != arranged[:-1]).any(axis=1))
    starts = np.flatnonzero(new)
    return arranged[starts], np.diff(np.append(starts, len(rows)))
