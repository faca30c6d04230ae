"""The law of one coordinate of K-norm noise: standard deviation and 95% interval.

All balls offered are symmetric in their coordinates, so every coordinate has
the same law. With ``rate = epsilon / Delta`` in lattice units:

- l1: discrete Laplace, variance ``2 q / (1 - q)**2`` with q = exp(-rate);
- linf: ``(m + 1)(m + 2) / (3 rate**2)`` (Proposition 4.13), up to the fine lattice's 1/12;
- l2: ``(m + 1) / rate**2``, up to the same;
- the mean size of one: ``1 / sinh(rate)`` under l1, ``(m + 1) / (2 rate)`` under linf, and
  under l2 m / rate times the mean size of one coordinate of a uniform direction;
- the histogram's hull: c independent discrete Laplace variables given a zero
  sum; the law of one is found from the others' characteristic function.

These numbers describe noise. They are floats, and no draw looks at them.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, exp, log, log2, pi, sinh, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, gammaincc, gammaincinv, gammaln

from mechanisms.geometry.balls import TAIL, Ball, NoiseLaw

_COARSE_RATE = 0.02  # a fine lattice is tabulated in steps of a fiftieth of the noise's scale
_GRID_POINTS = 4000  # quantiles of the radius to average over


@lru_cache(maxsize=512)
def noise_law(ball: Ball, dimension: int, rate: float) -> NoiseLaw:
    """Return the law of one coordinate.

    Parameters
    ----------
    ball : {"l1", "l2", "linf"}
        The norm ball.
    dimension : int
        m.
    rate : float
        epsilon / Delta, per lattice unit.
    """
    if ball == "l1" or dimension == 1:
        return _laplace_law(rate)
    return _linf_law(dimension, rate) if ball == "linf" else _l2_law(dimension, rate)


def _laplace_law(rate: float) -> NoiseLaw:
    # sinh overflows beyond about 710, where the noise is 0 in floats.
    spread = 1 / (sqrt(2) * sinh(rate / 2)) if rate < 700 else 0.0
    # P(|v| > t) = 2 q**(t+1) / (1 + q)
    beyond = (log(2 / (1 + exp(-rate))) - log(TAIL)) / rate
    size = 1 / sinh(rate) if rate < 700 else 0.0
    return NoiseLaw(spread, max(0, ceil(beyond) - 1), size)


def _linf_law(dimension: int, rate: float) -> NoiseLaw:
    std = sqrt((dimension + 1) * (dimension + 2) / 3) / rate
    return NoiseLaw(std, _linf_quantile(dimension) / rate, (dimension + 1) / (2 * rate))


@lru_cache(maxsize=256)
def _linf_quantile(dimension: int) -> float:
    """Return t with P(|V| > t) = 0.05 at rate 1."""

    def tail(t: float) -> float:
        # V = r U: P(|V| > t) = E[(1 - t / r)+], r ~ Gamma(m + 1)
        upper: float = gammaincc(dimension + 1, t) - t / dimension * gammaincc(dimension, t)
        return upper - TAIL

    return float(brentq(tail, 0.0, 4.0 * (dimension + 4)))


def _l2_law(dimension: int, rate: float) -> NoiseLaw:
    # E|u_1| of a uniform direction is Gamma(m / 2) / (sqrt(pi) Gamma((m + 1) / 2))
    turned = exp(gammaln(dimension / 2) - gammaln((dimension + 1) / 2)) / sqrt(pi)
    return NoiseLaw(
        sqrt(dimension + 1) / rate, _l2_quantile(dimension) / rate, dimension * turned / rate
    )


@lru_cache(maxsize=256)
def _l2_quantile(dimension: int) -> float:
    """Return t with P(|V| > t) = 0.05 at rate 1, the radius taken at 4000 quantiles."""
    radii = gammaincinv(dimension, (np.arange(_GRID_POINTS) + 0.5) / _GRID_POINTS)

    def tail(t: float) -> float:
        # one squared coordinate of a uniform direction is Beta(1/2, (m - 1)/2)
        share = np.minimum((t / radii) ** 2, 1.0)
        return float(np.mean(1 - betainc(0.5, (dimension - 1) / 2, share))) - TAIL

    return float(brentq(tail, 0.0, float(radii[-1])))


@lru_cache(maxsize=512)
def histogram_law(cells: int, rate: float) -> NoiseLaw:
    """Return the law of one cell under ``exp(-rate ||v||_1 / 2)`` inside sum v = 0.

    A fine lattice is coarsened, the noise being that smooth.
    """
    step = max(1.0, _COARSE_RATE / (rate / 2))
    decay = exp(-step * rate / 2)
    single = sqrt(2 * decay) / (1 - decay)
    reach = ceil(40 / min(step * rate / 2, 40.0))
    # Wide enough that the transform's copies of the sum's law do not meet.
    size = 1 << ceil(log2(2 * (reach + 12 * single * sqrt(cells) + 64)))
    angle = 2 * np.pi * np.arange(size // 2 + 1) / size
    one = (1 - decay) ** 2 / (1 - 2 * decay * np.cos(angle) + decay**2)
    others = np.fft.irfft(one ** (cells - 1), size)[: reach + 1]
    points = np.arange(reach + 1)
    # Smaller ones are the transform's rounding.
    weights = np.where(others > 1e-15, others, 0.0) * decay**points
    # v and -v together.
    weights[1:] *= 2
    weights /= weights.sum()
    beyond = 1 - np.cumsum(weights)
    half = int(np.argmax(beyond <= TAIL))
    std = step * sqrt(float(weights @ points**2))
    return NoiseLaw(std, step * half, step * float(weights @ points))
