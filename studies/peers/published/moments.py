"""Two of the methods that the Urban Institute compared, written from their formulas.

**Noisy moments.** Let A hold a one, the features and the target of each row. Each distinct entry of
A'A gets one Laplace draw, and epsilon is shared evenly between them. Noise that makes the matrix
indefinite is met by a ridge whose size follows from simulated noise, which is public. Intervals are
asymptotic, as if there were no noise, or from a parametric bootstrap that adds fresh noise
(Ferrando, Wang and Sheldon 2022).

**Independent exponential.** Each quantile by the exponential mechanism on ranks (Smith 2011), with
an even share of epsilon; then all are sorted.

Their privacy is that of real numbers: nothing here is for use, only for comparing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from studies.peers.cells import Interval, Values

SIMULATED = 10_000
"""Draws of noise for the ridge and for the bootstrap."""
_TAIL = 0.01
_LAST_RIDGE = 3.0
_Z = float(norm.ppf(0.975))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A private regression: a number and a 95% interval for each coefficient, the intercept first.

    There are no intervals where the residual variance or its degrees of freedom are not positive.
    """

    estimates: list[float]
    intervals: list[Interval] | None


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


def stated_epsilon(true: float, *, columns: int) -> float:
    """Return the epsilon that noisy moments are told, for a true one when rows are replaced.

    The share of the count buys nothing then, as the number of rows is public. All the others are
    spent in full by the row that moves from every lower bound to every upper one.

    >>> stated_epsilon(1.0, columns=2)
    1.2
    """
    count = distinct(columns + 1)
    return true * count / (count - 1)


def laplace(moved: Values, epsilon: float, draws: int, rng: np.random.Generator) -> Values:
    """Return symmetric matrices of noise, shape (draws, c, c): one draw for each distinct entry."""
    size = len(moved)
    rows, columns = np.triu_indices(size)
    scales = moved[rows, columns] * distinct(size) / epsilon
    found = np.empty((draws, size, size))
    found[:, rows, columns] = rng.laplace(scale=scales, size=(draws, len(scales)))
    found[:, columns, rows] = found[:, rows, columns]
    return found


def ridged(noisy: Values, moved: Values, simulated: Values) -> Values:
    """Return noisy moments with a ridge, if they need one to be positive definite.

    The first ridge is shared in proportion to what a row moves of each square, and its sum is the
    0.01 quantile of the smallest eigenvalue of noise alone. Where that is too little, each square
    gets three times the smallest eigenvalue of what was released.
    """
    if _definite(noisy):
        return noisy
    reach = abs(float(np.quantile(np.linalg.eigvalsh(simulated)[:, 0], _TAIL)))
    shares = np.diag(moved) / np.trace(moved)
    found = noisy + np.diag(reach * shares)
    if _definite(found):
        return found
    smallest = abs(float(np.linalg.eigvalsh(noisy)[0]))
    return np.asarray(noisy + _LAST_RIDGE * smallest * np.eye(len(noisy)), dtype=np.float64)


def _definite(matrix: Values) -> bool:
    return bool(np.linalg.eigvalsh(matrix)[0] > 0)


def noisy_moments(
    rows: Values, moved: Values, epsilon: float, rng: np.random.Generator
) -> dict[str, Fit]:
    """Return a regression of the last column on the others, by each kind of interval.

    ``rows`` has shape (n, c), a column of ones first; ``moved`` is from :func:`widths`. ``epsilon``
    is the stated one.
    """
    moments = rows.T @ rows + laplace(moved, epsilon, 1, rng)[0]
    simulated = laplace(moved, epsilon, SIMULATED, rng)
    found = ridged(moments, moved, simulated)
    gram, right = found[:-1, :-1], found[:-1, -1]
    inverse = np.linalg.inv(gram)
    theta = inverse @ right
    variance = (found[-1, -1] - right @ theta) / (found[0, 0] - len(found) - 1)
    if not variance > 0:
        alone = Fit(estimates=theta.tolist(), intervals=None)
        return {"asymptotic": alone, "bootstrap": alone}
    half = _Z * np.sqrt(variance * np.diag(inverse))
    score = rng.standard_normal((SIMULATED, len(theta))) @ np.linalg.cholesky(variance * gram).T
    noise = simulated[:, :-1, -1] - simulated[:, :-1, :-1] @ theta
    again = theta + (score + noise) @ inverse
    low, high = np.quantile(again, (0.025, 0.975), axis=0)
    return {
        "asymptotic": _fit(theta, theta - half, theta + half),
        "bootstrap": _fit(again.mean(axis=0), low, high),
    }


def _fit(estimates: Values, low: Values, high: Values) -> Fit:
    return Fit(
        estimates=estimates.tolist(),
        intervals=list(zip(low.tolist(), high.tolist(), strict=True)),
    )


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
