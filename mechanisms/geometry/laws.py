"""The law of one coordinate of K-norm noise: standard deviation and 95% interval.

All balls offered are symmetric in their coordinates, so every coordinate has
the same law. With ``rate = epsilon / Delta`` in lattice units:

- l1: discrete Laplace, variance ``2 q / (1 - q)**2`` with q = exp(-rate);
- linf: ``(m + 1)(m + 2) / (3 rate**2)`` (Proposition 4.13), up to the fine lattice's 1/12;
- l2: ``(m + 1) / rate**2``, up to the same;
- the mean size of one: ``1 / sinh(rate)`` under l1, ``(m + 1) / (2 rate)`` under linf, and
  under l2 m / rate times the mean size of one coordinate of a uniform direction;
- the histogram's hull: c independent discrete Laplace variables given a zero
  sum; the law of one is found from the others' characteristic function;
- discrete Gaussian (no ball): a variance of at most ``sigma**2``, and from sigma = 2 on equal to it
  within a relative 1e-30 (Canonne, Kamath & Steinke 2020, Section 2).

These numbers describe noise. They are floats, and no draw looks at them.

*Averages over quasi-random points, to describe noise; nothing is drawn here.* The points are
Kronecker's: the fractional parts of multiples of square roots of primes. They are the same in
every run, and free of data.

*Simulated noise: what a law of noise does to an answer that no closed form describes.* The numbers
here describe a release; they are never part of one. They are made of a hash of public facts, so an
interval is a function of sanitized numbers alone: anyone who has the release can reproduce it, and
a repeated query reveals nothing more.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from math import ceil, exp, log, log2, pi, sinh, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, gammaincc, gammaincinv, gammaln, ndtri

from mechanisms.exact.floats import Floats
from mechanisms.geometry.smooth import TAIL, Ball, Marginal, NoiseLaw, NormBall, Uniforms
from mechanisms.samplers.main_effects import Flags, sizes_of, tail_weights

# Averages over quasi-random points, to describe noise; nothing is drawn here

PROPOSALS = 1 << 14  # quasi-random points of each average
_ROWS_AT_ONCE = 256
_BINS = 512  # of a marginal's distribution, for its 95% interval
_MOST_PAIRS = 64  # products of one kind share a law, so a sample of them will do


@lru_cache(maxsize=1)
def _primes() -> tuple[int, ...]:
    sieve = np.ones(4096, dtype=bool)
    sieve[:2] = False
    for number in range(2, 64):
        sieve[number * number :: number] = False
    return tuple(int(prime) for prime in np.flatnonzero(sieve))


def kronecker(count: int, index: int) -> Floats:
    """Return coordinate ``index`` of the first ``count`` quasi-random points of the unit cube."""
    shares: Floats = np.mod((np.arange(count) + 0.5) * sqrt(_primes()[index]), 1.0)
    return shares


class MarginalSums:
    """Weighted sums that become the marginal of one |U_j| in [0, reach]."""

    __slots__ = ("_counts", "_reach", "_squares", "_total")

    def __init__(self, reach: float) -> None:
        self._reach = reach
        self._counts = np.zeros(_BINS)
        self._squares = 0.0
        self._total = 0.0

    def add(self, values: Floats, low: Floats, high: Floats, weights: Floats) -> None:
        """Add values U_j, each standing for one uniform on [low, high]."""
        squares = (low**2 + low * high + high**2) / 3
        sizes = np.abs(values)
        self._counts += np.histogram(sizes, _BINS, (0.0, self._reach), weights=weights)[0]
        self._squares += float(weights @ squares)
        self._total += float(weights.sum())

    def marginal(self) -> Marginal:
        """Return the marginal."""
        points = (np.arange(_BINS) + 0.5) * self._reach / _BINS
        return Marginal(points, self._counts, self._squares / self._total)


@lru_cache(maxsize=2)
def propose(effects: int) -> tuple[Floats, Flags]:
    """Return the magnitudes of quasi-random proposals of main effects, and which are large.

    They are remembered, because each interval of a release looks at them again; read-only.

    As :class:`mechanisms.samplers.main_effects.Proposal` makes them: the number of
    large effects in the proportions of its weights, which effects by turns.
    """
    weights = np.array(tail_weights(effects), dtype=np.float64)
    ends = np.rint(np.cumsum(weights / weights.sum()) * PROPOSALS).astype(int)
    counts = np.searchsorted(ends, np.arange(PROPOSALS), side="right")
    turns = (np.arange(effects)[None] + np.arange(PROPOSALS)[:, None]) % effects
    large = turns < counts[:, None]
    uniforms = np.column_stack([kronecker(PROPOSALS, j) for j in range(effects)])
    sizes = np.empty_like(uniforms)
    for k in np.unique(counts):
        rows = counts == k
        sizes[rows] = sizes_of(uniforms[rows], large[rows], int(k))
    # Shared by all callers: a caller that wrote into it would change all later intervals.
    sizes.flags.writeable = large.flags.writeable = False
    return sizes, large


def by_rows(function: Callable[..., Floats], *tables: Floats | Flags) -> Floats:
    """Return a function's results for rows, in pieces that fit the CPU cache."""
    pieces = range(0, len(tables[0]), _ROWS_AT_ONCE)
    return np.concatenate(
        [function(*(each[start : start + _ROWS_AT_ONCE] for each in tables)) for start in pieces]
    )


def some_products(effects: int, squared: Collection[int]) -> Sequence[tuple[int, int]]:
    """Return pairs of columns that represent all products: all of each kind, or about 50 of them.

    Products with the same number of released squares have one law. Hundreds of pairs
    estimate it as well as thousands.
    """
    kinds: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for j in range(effects):
        for k in range(j + 1, effects):
            kinds[(j in squared) + (k in squared)].append((j, k))
    # Every so-and-so-many-th pair, rounded up, so that no more than wanted are left.
    return [pair for pairs in kinds.values() for pair in pairs[:: -(-len(pairs) // _MOST_PAIRS)]]


def resampled(weights: Floats, count: int, uniforms: Uniforms) -> NDArray[np.int64]:
    """Return rows chosen in proportion to their weights, in random order."""
    ends = np.cumsum(weights) / weights.sum()
    rows = np.searchsorted(ends, (np.arange(count) + 0.5) / count)
    order = np.argsort(uniforms("order", count))
    return np.asarray(rows[order], dtype=np.int64)


def signs(name: str, shape: tuple[int, int], uniforms: Uniforms) -> Floats:
    """Return a table of random signs."""
    return np.where(uniforms(name, shape[0] * shape[1]) < 0.5, -1.0, 1.0).reshape(shape)


# The law of one coordinate of K-norm noise: standard deviation and 95% interval

_COARSE_RATE = 0.02  # a fine lattice is tabulated in steps of a fiftieth of the noise's scale
_GRID_POINTS = 4000  # quantiles of the radius to average over
_SMOOTH_SIGMA = 1000


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


@lru_cache(maxsize=512)
def discrete_gaussian_law(variance: float) -> NoiseLaw:
    """Return the law of one v in Z with ``P(v) ∝ exp(-v**2 / (2 variance))``.

    Where sigma is above 1,000 its distribution function is the normal one within 1e-6.
    """
    sigma = sqrt(variance)
    if sigma > _SMOOTH_SIGMA:
        half = ceil(-ndtri(TAIL / 2) * sigma - 0.5)
        return NoiseLaw(sigma, half, sigma * sqrt(2 / pi))
    points = np.arange(ceil(13 * sigma) + 2)
    weights = np.exp(-(points**2) / (2 * variance))
    weights[1:] *= 2  # v and -v together
    weights /= weights.sum()
    half = int(np.argmax(1 - np.cumsum(weights) <= TAIL))
    return NoiseLaw(sqrt(float(weights @ points**2)), half, float(weights @ points))


# Simulated noise: what a law of noise does to an answer that no closed form describes

_WORD_BYTES = 8
_FRACTION_BITS = 53  # as many as a float holds


def hashed_uniforms(seed: bytes, count: int) -> Floats:
    """Return numbers in (0, 1) made of SHAKE-256 of the seed: for simulations, never for noise."""
    words = np.frombuffer(hashlib.shake_256(seed).digest(_WORD_BYTES * count), dtype="<u8")
    # The middle of each float's cell: never 0 or 1, whose logarithms are infinite.
    kept = (words >> np.uint64(64 - _FRACTION_BITS)).astype(np.float64)
    return np.asarray((kept + 0.5) * 2.0**-_FRACTION_BITS, dtype=np.float64)


def simulate(ball: Ball | NormBall, dimension: int, count: int, *, seed: bytes) -> Floats:
    """Return ``count`` simulated vectors of K-norm noise at rate 1, shape (count, m).

    As on a fine lattice: ``V = r U`` with U uniform in the ball and r ~ Gamma(m + 1)
    (Awan & Slavkovic, Proposition 4.1), each ball by its shortest way.
    """
    if not isinstance(ball, str):
        return ball.simulate(count, lambda part, size: hashed_uniforms(seed + part.encode(), size))
    return _BALLS["l1" if dimension == 1 else ball](dimension, count, seed)


def _laplace(dimension: int, count: int, seed: bytes) -> Floats:
    u = hashed_uniforms(seed, count * dimension).reshape(count, dimension)
    return np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))


def _cube(dimension: int, count: int, seed: bytes) -> Floats:
    u = hashed_uniforms(seed, count * (dimension + 1)).reshape(count, dimension + 1)
    radius: Floats = gammaincinv(dimension + 1, u[:, :1])
    return radius * (2 * u[:, 1:] - 1)


def _sphere(dimension: int, count: int, seed: bytes) -> Floats:
    u = hashed_uniforms(seed, count * (dimension + 1)).reshape(count, dimension + 1)
    direction: Floats = ndtri(u[:, 1:])
    radius: Floats = gammaincinv(dimension, u[:, :1])
    length: Floats = np.sqrt(np.sum(direction**2, axis=1, keepdims=True))
    return radius * direction / length


_BALLS: dict[str, Callable[[int, int, bytes], Floats]] = {
    "l1": _laplace,
    "linf": _cube,
    "l2": _sphere,
}
