"""Quantiles by their ranks or with noise, one by one with an even share of epsilon; then sorted.

The exponential mechanism on ranks (Smith 2011) keeps epsilon. Laplace noise by the smooth
sensitivity (Nissim, Raskhodnikova and Smith 2007) keeps an epsilon and a delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from studies.peers.cells import Interval, Values


def gaps(values: Sequence[float], bounds: Interval) -> Values:
    """Return the ends of the gaps between sorted values, with the bounds at both sides."""
    low, high = bounds
    return np.concatenate([[low], np.sort(np.clip(values, low, high)), [high]])


def gap_law(ends: Values, level: float, epsilon: float) -> Values:
    """Return the chance of each gap: exp(-epsilon / 2 |rank - level n|) times its length.

    One replaced row moves a rank by one at most, so that this costs ``epsilon``.

    >>> gap_law(gaps([0.5], (0.0, 1.0)), 0.5, 1.0)
    array([0.5, 0.5])
    """
    rows = len(ends) - 2
    score = -epsilon / 2 * np.abs(np.arange(rows + 1) - level * rows)
    mass = np.diff(ends) * np.exp(score - score.max())
    return np.asarray(mass / mass.sum(), dtype=np.float64)


def independent_exponential(
    ends: Values, levels: Sequence[float], epsilon: float, rng: np.random.Generator
) -> list[float]:
    """Return a quantile for each level, sorted; each has an even share of epsilon."""
    found = []
    for level in levels:
        gap = rng.choice(len(ends) - 1, p=gap_law(ends, level, epsilon / len(levels)))
        found.append(float(rng.uniform(ends[gap], ends[gap + 1])))
    return sorted(found)


def place(level: float, rows: int) -> int:
    """Return where a quantile is among the ends of gaps.

    >>> place(0.5, 4), place(0.9, 10), place(0.1, 3)
    (2, 9, 1)
    """
    return max(math.ceil(level * rows - 1e-9), 1)


def smooth_sensitivity(ends: Values, middle: int, beta: float) -> float:
    """Return the most that k replaced rows let one more move a quantile, times exp(-beta k).

    Between two ends that have the quantile between them, k + 1 steps apart, it can be moved so.

    >>> smooth_sensitivity(np.array([0.0, 0.5, 0.5, 1.0]), 1, 100.0)
    0.5
    """
    best, reach = 0.0, float(ends[-1] - ends[0])
    for low in range(middle, -1, -1):
        if math.exp(-beta * max(middle - low - 1, 0)) * reach <= best:
            break
        steps = np.maximum(np.arange(middle, len(ends)) - low - 1, 0)
        best = max(best, float((np.exp(-beta * steps) * (ends[middle:] - ends[low])).max()))
    return best


def smooth_laws(
    ends: Values, levels: Sequence[float], epsilon: float, delta: float
) -> list[tuple[float, float]]:
    """Return the centre and the scale of Laplace noise for each level."""
    share, least = epsilon / len(levels), delta / len(levels)
    beta = share / (2 * math.log(2 / least))
    middles = [place(level, len(ends) - 2) for level in levels]
    return [
        (float(ends[middle]), 2 * smooth_sensitivity(ends, middle, beta) / share)
        for middle in middles
    ]


def smooth(
    laws: Sequence[tuple[float, float]], bounds: Interval, rng: np.random.Generator
) -> list[float]:
    """Return a noisy quantile for each centre and scale, within the bounds and sorted."""
    centres, scales = np.array(laws).T
    return sorted(np.clip(rng.laplace(centres, scales), *bounds).tolist())
