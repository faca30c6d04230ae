"""A regression from noisy second moments, with intervals that include the noise or ignore it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from studies.peers.cells import Interval, Values

SIMULATED = 10_000
"""Draws of noise for a ridge and for a bootstrap."""
LAST_RIDGE = 3.0
"""Times the smallest eigenvalue, where nothing less makes a matrix positive definite."""
Z = float(norm.ppf(0.975))
_FAR = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a method is asked: rows of shape (n, c), a column of ones first and the target last.

    ``bounds`` are those of all columns but the ones. ``epsilon`` is for rows that are replaced.
    """

    rows: Values
    bounds: Sequence[Interval]
    epsilon: float
    delta: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A private regression: a number and a 95% interval for each coefficient, the intercept first.

    There are no intervals where the residual variance or its degrees of freedom are not positive.
    """

    estimates: list[float]
    intervals: list[Interval] | None


@dataclass(frozen=True, slots=True)
class Units:
    """How coefficients of scaled columns become those of the columns: offset + matrix theta."""

    matrix: Values
    offset: Values

    def of(self, theta: Values) -> Values:
        """Return coefficients in the columns' units; ``theta`` has them in its last axis."""
        return np.asarray(self.offset + theta @ self.matrix.T, dtype=np.float64)


def unscaled(size: int) -> Units:
    """Return units that leave coefficients alone."""
    return Units(np.eye(size), np.zeros(size))


def from_moments(
    released: Values,
    noise: Values,
    count: float,
    rng: np.random.Generator,
    *,
    units: Units | None = None,
    floor: float | None = None,
) -> dict[str, Fit]:
    """Return a regression of the last column on the others, by each kind of interval.

    ``released`` is positive definite, ``noise`` has fresh draws of what was added, ``count`` is the
    noisy number of rows. Intervals are asymptotic, as if there were no noise, or from a parametric
    bootstrap that adds fresh noise (Ferrando, Wang and Sheldon 2022). With a ``floor``, a bootstrap
    whose mean is far from the coefficients is made again of eigenvalues that are not below it.
    """
    gram, right = released[:-1, :-1], released[:-1, -1]
    units = units or unscaled(len(right))
    inverse = np.linalg.inv(gram)
    theta = inverse @ right
    found = units.of(theta)
    variance = (released[-1, -1] - right @ theta) / (count - len(released) - 1)
    if not variance > 0:
        alone = Fit(estimates=found.tolist(), intervals=None)
        return {"asymptotic": alone, "bootstrap": alone}
    half = Z * np.sqrt(variance * np.diag(units.matrix @ inverse @ units.matrix.T))
    score = rng.standard_normal((len(noise), len(theta))) @ np.linalg.cholesky(variance * gram).T
    right_again, moved = (score + noise[:, :-1, -1]) @ inverse, noise[:, :-1, :-1]
    again = units.of(theta - moved @ theta @ inverse + right_again)
    if floor is not None and (np.abs(again.mean(axis=0) / found - 1) > _FAR).any():
        share = floored((gram - moved) / count, floor)
        steady = np.linalg.inv(floored(gram / count, floor))
        again = units.of(share @ theta @ steady + right_again)
    low, high = np.quantile(again, (0.025, 0.975), axis=0)
    return {
        "asymptotic": fit(found, found - half, found + half),
        "bootstrap": fit(again.mean(axis=0), low, high),
    }


def fit(estimates: Values, low: Values, high: Values) -> Fit:
    """Return a fit of arrays."""
    return Fit(
        estimates=estimates.tolist(),
        intervals=list(zip(low.tolist(), high.tolist(), strict=True)),
    )


def floored(matrix: Values, floor: float) -> Values:
    """Return symmetric matrices whose eigenvalues below ``floor`` are raised to it.

    >>> floored(np.diag([3.0, -1.0]), 0.5)
    array([[3. , 0. ],
           [0. , 0.5]])
    """
    values, vectors = np.linalg.eigh(matrix)
    raised = np.maximum(values, floor)[..., None, :] * vectors
    return np.asarray(raised @ np.swapaxes(vectors, -1, -2), dtype=np.float64)


def definite(matrix: Values) -> bool:
    """Return whether a symmetric matrix is positive definite."""
    return bool(np.linalg.eigvalsh(matrix)[0] > 0)


def symmetric(entries: Values, size: int) -> Values:
    """Return matrices of which each distinct entry is one of the last axis.

    >>> symmetric(np.array([1.0, 2.0, 3.0]), 2)
    array([[1., 2.],
           [2., 3.]])
    """
    rows, columns = np.triu_indices(size)
    found = np.empty((*entries.shape[:-1], size, size))
    found[..., rows, columns] = entries
    found[..., columns, rows] = entries
    return found
