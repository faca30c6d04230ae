"""Regressions from noisy moments: a draw for each distinct entry of A'A.

A holds a one, the features and the target of each row. Laplace noise keeps epsilon, which is shared
evenly between the entries. Gaussian noise keeps an epsilon and a delta (Balle and Wang 2018).
A matrix that noise makes indefinite is met by a ridge, whose size follows from simulated noise,
which is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from studies.peers.cells import Interval, Values
from studies.peers.published.fits import (
    LAST_RIDGE,
    SIMULATED,
    Asked,
    Fit,
    definite,
    from_moments,
    symmetric,
)
from studies.peers.published.promises import gaussian_shift

_TAIL = 0.01


def widths(columns: Sequence[Interval]) -> Values:
    """Return how far one replaced row moves each entry of A'A, shape (c + 1, c + 1).

    The count is no exception: it gets 1, as if a row could come or go.

    >>> widths([(-1.0, 2.0)])
    array([[1., 3.],
           [3., 4.]])
    """
    ends = np.array([(1.0, 1.0), *columns])
    corners = [np.outer(one, other) for one in ends.T for other in ends.T]
    found = np.ptp(corners, axis=0)
    squares = ends**2
    low = np.where((ends[:, 0] <= 0) & (ends[:, 1] >= 0), 0.0, squares.min(axis=1))
    np.fill_diagonal(found, squares.max(axis=1) - low)
    found[0, 0] = 1.0
    return np.asarray(found, dtype=np.float64)


def distinct(size: int) -> int:
    """Return how many distinct entries a symmetric matrix has.

    >>> distinct(3)
    6
    """
    return size * (size + 1) // 2


def reach(size: int) -> float:
    """Return how far a replaced row moves all entries together, each in units of its width.

    The count stays. All the others are moved in full by the row that goes from every lower bound to
    every upper one.

    >>> reach(2)
    1.4142135623730951
    """
    return math.sqrt(distinct(size) - 1)


def stated_epsilon(true: float, *, columns: int) -> float:
    """Return the epsilon to state for Laplace noise, for a true epsilon when rows are replaced.

    The share of the count is unused then, because the number of rows is public.

    >>> stated_epsilon(1.0, columns=2)
    1.2
    """
    count = distinct(columns + 1)
    return true * count / (count - 1)


def laplace(moved: Values, epsilon: float, draws: int, rng: np.random.Generator) -> Values:
    """Return symmetric matrices of noise, shape (draws, c, c), by the stated epsilon."""
    scales = moved[np.triu_indices(len(moved))] * distinct(len(moved)) / epsilon
    return symmetric(rng.laplace(scale=scales, size=(draws, len(scales))), len(moved))


def gaussian(moved: Values, scale: float, draws: int, rng: np.random.Generator) -> Values:
    """Return symmetric matrices of normal noise, shape (draws, c, c).

    ``scale`` is the standard deviation in units of an entry's width.
    """
    scales = moved[np.triu_indices(len(moved))] * scale
    return symmetric(rng.normal(scale=scales, size=(draws, len(scales))), len(moved))


def gaussian_scale(asked: Asked) -> float:
    """Return the least scale that keeps the epsilon and delta asked for."""
    return reach(len(asked.bounds) + 1) / gaussian_shift(asked.epsilon, asked.delta)


def by_laplace(asked: Asked, rng: np.random.Generator) -> dict[str, Fit]:
    """Return a regression by Laplace noise."""
    moved = widths(asked.bounds)
    stated = stated_epsilon(asked.epsilon, columns=len(asked.bounds))
    return _regression(asked, moved, laplace(moved, stated, SIMULATED + 1, rng), rng)


def by_gaussian(asked: Asked, rng: np.random.Generator) -> dict[str, Fit]:
    """Return a regression by normal noise."""
    moved = widths(asked.bounds)
    noise = gaussian(moved, gaussian_scale(asked), SIMULATED + 1, rng)
    return _regression(asked, moved, noise, rng)


def _regression(
    asked: Asked, moved: Values, noise: Values, rng: np.random.Generator
) -> dict[str, Fit]:
    """Return a regression whose moments have the first draw of noise; the others are public."""
    found = ridged(asked.rows.T @ asked.rows + noise[0], moved, noise[1:])
    return from_moments(found, noise[1:], float(found[0, 0]), rng)


def ridged(noisy: Values, moved: Values, simulated: Values) -> Values:
    """Return noisy moments with a ridge, if they need one to be positive definite.

    The first ridge is shared in proportion to what a row moves of each square, and its sum is the
    0.01 quantile of the smallest eigenvalue of noise alone. Where that is too little, each square
    gets three times the smallest eigenvalue of what was released.
    """
    if definite(noisy):
        return noisy
    least = abs(float(np.quantile(np.linalg.eigvalsh(simulated)[:, 0], _TAIL)))
    shares = np.diag(moved) / np.trace(moved)
    found = noisy + np.diag(least * shares)
    if definite(found):
        return found
    smallest = abs(float(np.linalg.eigvalsh(noisy)[0]))
    return np.asarray(noisy + LAST_RIDGE * smallest * np.eye(len(noisy)), dtype=np.float64)
