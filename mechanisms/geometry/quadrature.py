"""Averages over quasi-random points, to describe noise; nothing is drawn here.

The points are Kronecker's: the fractional parts of multiples of square roots
of primes. They are the same in every run, and free of data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.arrays import Floats
from mechanisms.geometry.balls import Uniforms
from mechanisms.geometry.smooth import Marginal
from mechanisms.samplers.main_effects import Flags, sizes_of, tail_weights

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
