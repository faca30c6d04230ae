"""Growth of figures: slopes on logarithmic axes, and a cost model to extrapolate.

The model is ``seconds = start + per_row * rows``, both at least 0, by least squares of relative
errors: a short run counts as much as a long one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

FROM_ROWS = 10_000
"""Times of fewer rows show the start of a process, not the time per row."""

Points = Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Model:
    """A cost model: seconds to begin with, and seconds for each row."""

    start: float
    per_row: float

    def at(self, rows: int) -> float:
        """Return the seconds that ``rows`` rows take."""
        return self.start + self.per_row * rows


def points_of(points: Points) -> Points:
    """Return the points that are fitted, by rising rows."""
    return sorted((rows, seconds) for rows, seconds in points if rows >= FROM_ROWS and seconds > 0)


def slope(points: Points) -> float | None:
    """Return the slope of log seconds by log rows; None of fewer than two points."""
    used = points_of(points)
    if len(used) < 2:
        return None
    rows, seconds = np.log10(np.array(used, dtype=np.float64)).T
    return float(np.polyfit(rows, seconds, 1)[0])


def model(points: Points) -> Model | None:
    """Return the cost model; None of fewer than two points."""
    used = points_of(points)
    if len(used) < 2:
        return None
    rows, seconds = np.array(used, dtype=np.float64).T
    scaled = np.column_stack([1 / seconds, rows / seconds])
    weights = np.linalg.norm(scaled, axis=0)
    found, _ = nnls(scaled / weights, np.ones(len(used)))
    start, per_row = found / weights
    return Model(float(start), float(per_row))
