"""Slopes and ratios of error lines, which most findings are about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from studies.figures.cells import Result


def of_method(
    rows: Sequence[Result], method: str, norm: str = "", *, panel: str | None = None
) -> list[Result]:
    """Return one line of a panel, by rising n."""
    found = [
        row
        for row in rows
        if (row.method, row.norm) == (method, norm) and panel in (None, row.panel)
    ]
    return sorted(found, key=lambda row: (row.n, float(row.epsilon or 0)))


def fitted_slope(line: Sequence[Result], *, from_n: int = 0) -> float:
    """Return the slope of log error against log n by least squares, from some n on.

    Raises
    ------
    ValueError
        There are fewer than two points.
    """
    points = [(row.n, row.error_mean) for row in line if row.n >= from_n]
    if len(points) < 2:
        raise ValueError("a slope takes two points")
    n, errors = np.log10(np.array(points)).T
    return float(np.polyfit(n, errors, 1)[0])


def ratios(line: Sequence[Result], other: Sequence[Result]) -> dict[int, float]:
    """Return at each n how many times the other line's mean error this one's is."""
    there = {row.n: row.error_mean for row in other}
    return {row.n: row.error_mean / there[row.n] for row in line if row.n in there}
