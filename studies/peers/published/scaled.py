"""Regressions from noisy moments of rows that are moved into the unit ball.

Columns go from their bounds to [0, 1], and rows with a one are divided by the root of their length.
Wishart noise (Sheffet 2019) promises an epsilon below 1 with a delta. Wang, Kifer and Lee (2019)
add spherical Laplace noise, which keeps epsilon, or normal noise by concentrated privacy, and raise
small eigenvalues.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import wishart

from studies.peers.cells import Values
from studies.peers.published.fits import (
    LAST_RIDGE,
    SIMULATED,
    Asked,
    Fit,
    Units,
    definite,
    floored,
    from_moments,
)
from studies.peers.published.promises import concentrated

_FLOOR = 0.002


def scaled(asked: Asked) -> Values:
    """Return rows of length 1 at most."""
    low, high = np.array([(0.0, 1.0), *asked.bounds]).T
    return np.asarray((asked.rows - low) / (high - low) / math.sqrt(len(low)), dtype=np.float64)


def units(asked: Asked) -> Units:
    """Return how coefficients of scaled rows become those of the columns.

    >>> rows = np.array([[1.0, 2.0, 5.0]])
    >>> back = units(Asked(rows=rows, bounds=[(1.0, 3.0), (4.0, 8.0)], epsilon=1.0))
    >>> back.of(np.array([0.25, 0.5])).tolist()
    [4.0, 1.0]
    """
    low, high = np.array(asked.bounds).T
    slopes = (high[-1] - low[-1]) / (high[:-1] - low[:-1])
    matrix = np.diag([high[-1] - low[-1], *slopes])
    matrix[0, 1:] = -slopes * low[:-1]
    offset = np.zeros(len(low))
    offset[0] = low[-1]
    return Units(matrix, offset)


def furthest(size: int) -> float:
    """Return the largest Frobenius norm of a replaced row's change: from a one alone to all.

    >>> furthest(2)
    0.8660254037844386
    """
    return math.sqrt(1 - 1 / size**2)


def degrees(epsilon: float, delta: float, size: int) -> int:
    """Return the published degrees of freedom of Wishart noise."""
    return math.floor(size + 28 * math.log(4 / delta) / epsilon**2)


def by_wishart(asked: Asked, rng: np.random.Generator) -> dict[str, Fit]:
    """Return a regression by Wishart noise less its mean."""
    rows = scaled(asked)
    size = rows.shape[1]
    held = degrees(asked.epsilon, asked.delta, size)
    drawn = wishart.rvs(df=held, scale=np.eye(size), size=SIMULATED + 1, random_state=rng)
    noise = drawn - held * np.eye(size)
    spread = math.sqrt(size) + math.sqrt(2 * math.log(4 / asked.delta))
    found = _ridged(rows.T @ rows + noise[0], held - (math.sqrt(held) - spread) ** 2)
    return from_moments(found, noise[1:], size * float(found[0, 0]), rng, units=units(asked))


def _ridged(noisy: Values, ridge: float) -> Values:
    """Return a positive definite matrix: with the ridge if needed, or from the eigenvalues."""
    smallest = float(np.linalg.eigvalsh(noisy)[0])
    for added in (0.0, ridge, LAST_RIDGE * abs(smallest)):
        found = np.asarray(noisy + added * np.eye(len(noisy)), dtype=np.float64)
        if definite(found):
            break
    return found


def spherical(size: int, epsilon: float, draws: int, rng: np.random.Generator) -> Values:
    """Return symmetric noise whose entries have a density of exp(-epsilon norm / reach)."""
    directions = rng.standard_normal((draws, size * size))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lengths = rng.gamma(size * size, furthest(size) / epsilon, size=(draws, 1))
    return _mirrored(directions * lengths, size)


def normal_scale(asked: Asked) -> float:
    """Return the standard deviation of an entry by concentrated privacy."""
    size = len(asked.bounds) + 1
    return furthest(size) / math.sqrt(2 * concentrated(asked.epsilon, asked.delta))


def normal(size: int, scale: float, draws: int, rng: np.random.Generator) -> Values:
    """Return symmetric noise whose entries are normal before both halves are averaged."""
    return _mirrored(rng.normal(scale=scale, size=(draws, size * size)), size)


def _mirrored(entries: Values, size: int) -> Values:
    found = entries.reshape(-1, size, size)
    return np.asarray((found + found.transpose(0, 2, 1)) / 2, dtype=np.float64)


def by_sphere(asked: Asked, rng: np.random.Generator) -> dict[str, Fit]:
    """Return a regression by Wang, Kifer and Lee's noise of epsilon alone."""
    size = len(asked.bounds) + 1
    return _floored_regression(asked, spherical(size, asked.epsilon, SIMULATED + 1, rng), rng)


def by_normal(asked: Asked, rng: np.random.Generator) -> dict[str, Fit]:
    """Return a regression by Wang, Kifer and Lee's normal noise."""
    size = len(asked.bounds) + 1
    return _floored_regression(asked, normal(size, normal_scale(asked), SIMULATED + 1, rng), rng)


def _floored_regression(asked: Asked, noise: Values, rng: np.random.Generator) -> dict[str, Fit]:
    rows = scaled(asked)
    found = floored(rows.T @ rows + noise[0], _FLOOR)
    count = rows.shape[1] * float(found[0, 0])
    return from_moments(found, noise[1:], count, rng, units=units(asked), floor=_FLOOR)
