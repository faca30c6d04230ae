"""Guarantees of noise: the least delta of an epsilon, in closed form, and its inverses."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import binom, chi2, norm

from studies.peers.cells import Values

_MOST = 50.0
_WEIGHTS = 40


def gaussian_delta(epsilon: float, shift: float) -> float:
    """Return the delta of normal noise whose mean moves by ``shift`` standard deviations.

    >>> round(gaussian_delta(0.0, 2.0), 4)
    0.6827
    """
    return float(_gaussian_deltas(epsilon, np.array([shift]))[0])


def _gaussian_deltas(epsilon: float, shifts: Values) -> Values:
    there = norm.logcdf(shifts / 2 - epsilon / shifts)
    back = norm.logcdf(-shifts / 2 - epsilon / shifts)
    return np.asarray(np.exp(there) - np.exp(epsilon + back), dtype=np.float64)


def gaussian_shift(epsilon: float, delta: float) -> float:
    """Return the largest shift that keeps epsilon and delta.

    >>> round(gaussian_delta(1.0, gaussian_shift(1.0, 1e-6)) / 1e-6, 6)
    1.0
    """
    return _root(lambda shift: gaussian_delta(epsilon, shift) - delta, 1e-6, _MOST)


def epsilon_of(delta_at: Callable[[float], float], delta: float) -> float:
    """Return the least epsilon that keeps delta, where ``delta_at`` falls."""
    return _root(lambda epsilon: delta_at(epsilon) - delta, 1e-9, _MOST)


def concentrated(epsilon: float, delta: float) -> float:
    """Return rho of zero-concentrated privacy by epsilon = rho + 2 sqrt(rho log(sqrt(pi rho) / d)).

    Bun and Steinke (2016).

    >>> rho = concentrated(1.0, 1e-6)
    >>> round(rho + 2 * math.sqrt(rho * math.log(math.sqrt(math.pi * rho) / 1e-6)), 6)
    1.0
    """

    def excess(rho: float) -> float:
        return rho + 2 * math.sqrt(rho * math.log(math.sqrt(math.pi * rho) / delta)) - epsilon

    return _root(excess, 1.01 * delta**2 / math.pi, epsilon)


def wishart_delta(epsilon: float, degrees: int, size: int, length: float = 1.0) -> float:
    """Return the delta of Wishart noise where a row of squared ``length`` comes or goes.

    With W the noise and v the row, 1 / v'W^-1 v times the length is chi-square distributed with
    m = degrees - size + 1 degrees of freedom, and the other table's has the length added. The log
    ratio of the densities is monotone in it.
    """
    half, m = (degrees - size - 1) / 2, degrees - size + 1
    edge = length / -math.expm1(-(epsilon + length / 2) / half)
    there = chi2.cdf(edge, m) - math.exp(epsilon) * chi2.cdf(edge - length, m)
    if epsilon >= length / 2:
        return float(there)
    edge = length / -math.expm1(-(length / 2 - epsilon) / half)
    back = chi2.sf(edge - length, m) - math.exp(epsilon) * chi2.sf(edge, m)
    return float(max(there, back))


def wishart_epsilon(delta: float, degrees: int, size: int) -> float:
    """Return an epsilon that Wishart noise keeps where a row is replaced: one goes, one comes."""

    def both(epsilon: float) -> float:
        return (1 + math.exp(epsilon)) * wishart_delta(epsilon, degrees, size)

    return 2 * epsilon_of(both, delta)


def resampled_delta(epsilon: float, shift: float, rows: int, samples: int) -> float:
    """Return a delta of normal noise on sums of rows drawn with replacement, all samples together.

    Who also saw how often the row was drawn, which no data decide, would see its mean move by that
    number of shifts. The squares of the samples add up.
    """
    weights = _weights(rows)
    squares = np.zeros((len(weights) - 1) ** 2 + 1)
    squares[np.arange(len(weights)) ** 2] = weights
    together = np.ones(1)
    for _ in range(samples):
        together = np.convolve(together, squares)
    shifts = shift * np.sqrt(np.arange(1, len(together)))
    return float(together[1:] @ _gaussian_deltas(epsilon, shifts))


def sample_delta(epsilon: float, shift: float, rows: int) -> float:
    """Return the delta of one sample for a row among equal others: the least that may be promised.

    The other rows contain no information, however often they are drawn.
    """
    weights = _weights(rows)
    places = shift * np.arange(len(weights))

    def loss(noise: float) -> float:
        return float(logsumexp(places * noise - places**2 / 2, b=weights))

    edge = _root(lambda noise: loss(noise) - epsilon, 0.0, _MOST / shift)
    kept = float(weights @ norm.sf(edge - places))
    return kept - math.exp(epsilon) * float(norm.sf(edge))


def _weights(rows: int) -> Values:
    """Return the chance that a row is drawn 0, 1, 2, ... times in ``rows`` draws."""
    return np.asarray(binom.pmf(np.arange(min(rows, _WEIGHTS) + 1), rows, 1 / rows), np.float64)


def _root(value: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(value, low, high, xtol=1e-14, rtol=1e-12))
