"""Main effects of second-moment noise: proposals by how many are large, decided exactly.

The main effects of a uniform point of K_T have magnitudes ``t_j`` in [0, 2]
whose density, the share that a ball leaves of all squares and products, is at
most ``exp(-theta_k sum b_j)``, ``theta_k = (k - 1) / 2``, where k of them are
*large*, ``t_j = 1 + b_j`` (see :mod:`mechanisms.geometry.second_moments`).

A proposal draws k with integer weight ``n_k >= 2**64 C(q, k) J_k**k``,
``J_k = (1 - exp(-theta_k)) / theta_k``, then which effects are large, their
excess b_j from the truncated exponential law and the small ones uniformly. It
is accepted with the density's ratio to the envelope times ``2**64 C(q, k) J_k**k / n_k``:
at most one, and the law is exact. A joint count (add-remove) is proposed uniformly.

All of it is a function of lazy uniforms. A proposal that floats put beyond a
margin far wider than their error is rejected; every other decision is made in
ball arithmetic, with more bits until it is certain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from math import comb
from typing import Protocol

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechanisms.exact.continuous import UnsoundEnvelopeError, exceeds, settled
from mechanisms.exact.floats import Floats, working_precision
from mechanisms.randomness import LazyUniform, Randomness

Flags = NDArray[np.bool_]

SCALE_BITS = 64  # the weights of k are integers over 2**64
GUARD_BITS = 32  # more than the products of a try can lose
_HINT_BITS = 53  # as many as a float holds
# Floats decide a rejection only this far from the boundary; their error is below 1e-11.
_MARGIN = 1e-9


class Cut(Protocol):
    """A ball around second moments: which share of its box lies above given main effects."""

    @property
    def effects(self) -> int:
        """Return q."""

    def share(self, sizes: Sequence[arb], count: arb, /) -> arb:
        """Return the share, at most 1, given all ``t_j`` and the magnitude of the count."""

    def tilted_shares(self, sizes: Floats, counts: Floats, large: Flags, /) -> Floats:
        """Return ``share exp(theta_k sum b_j)`` of each row, in floats to 1e-11."""


class Proposal:
    """Proposed magnitudes: of the count, and of every main effect."""

    __slots__ = ("_coin", "_count", "_cut", "_k", "_large", "_uniforms")

    def __init__(self, cut: Cut, randomness: Randomness) -> None:
        weights = list(accumulate(tail_weights(cut.effects)))
        self._cut = cut
        self._k = bisect_right(weights, randomness.below(weights[-1]))
        self._large = _subset(cut.effects, self._k, randomness)
        self._uniforms = [randomness.uniform() for _ in range(cut.effects)]
        self._count = randomness.uniform()
        self._coin = randomness.uniform()

    def kept(self) -> bool:
        """Decide the proposal: floats reject what is far off, balls decide the rest."""
        # Most proposals fail clearly; floats see that without a ball.
        if _middle(self._coin) > self._float_odds() + _MARGIN:
            return False
        return coin_shows(self._coin, self._odds, first_bits=_HINT_BITS + 11)

    def count(self, bits: int) -> arb:
        """Return a ball around the magnitude of the count, in [0, 1]."""
        return self._count.enclose(bits)

    def sizes(self, bits: int) -> list[arb]:
        """Return balls around ``t_j``, at the working precision."""
        theta = arb(self._k - 1) / 2
        cut = 1 - (-theta).exp()
        balls: list[arb] = []
        for effect, uniform in enumerate(self._uniforms):
            part = uniform.enclose(bits)
            if effect not in self._large:
                balls.append(part)
            # At rate theta_1 = 0 the excess is uniform.
            elif self._k < 2:
                balls.append(1 + part)
            else:
                balls.append(1 - (1 - part * cut).log() / theta)
        return balls

    def _odds(self, bits: int) -> arb:
        """Return the probability of keeping the proposal, as a ball."""
        sizes = self.sizes(bits)
        excess = sum((sizes[j] - 1 for j in self._large), arb(0))
        ratio = _mass(self._cut.effects, self._k) * arb((1, SCALE_BITS))
        ratio /= tail_weights(self._cut.effects)[self._k]
        tilt = (excess * max(self._k - 1, 0) / 2).exp()
        return ratio * tilt * self._cut.share(sizes, self.count(bits))

    def _float_odds(self) -> float:
        """Return a float within 1e-11 of the probability, or above it."""
        parts = np.array([_middle(uniform) for uniform in self._uniforms])
        large = np.zeros(len(parts), dtype=bool)
        large[list(self._large)] = True
        sizes = sizes_of(parts, large, self._k)
        counts = np.array([_middle(self._count)])
        return float(self._cut.tilted_shares(sizes[None], counts, large[None])[0])


def coin_shows(coin: LazyUniform, odds: Callable[[int], arb], *, first_bits: int = 64) -> bool:
    """Return True with this probability, known as a ball at any number of bits.

    Raises
    ------
    UnsoundEnvelopeError
        It is above 1.
    """

    def look(bits: int) -> bool | None:
        found = odds(bits)
        if found > 1:
            raise UnsoundEnvelopeError
        return exceeds(found, coin.enclose(bits))

    return settled(look, first_bits=first_bits, guard_bits=GUARD_BITS)


@lru_cache(maxsize=64)
def tail_weights(effects: int) -> tuple[int, ...]:
    """Return the integers ``n_k >= 2**64 C(q, k) J_k**k``, k = 0..q, certified."""
    with working_precision(256):
        # An upper end is one exact number, so each of them has a ceiling.
        ceilings = [
            (_mass(effects, k) * arb((1, SCALE_BITS))).upper().ceil().unique_fmpz()
            for k in range(effects + 1)
        ]
    return tuple(int(ceiling) for ceiling in ceilings if ceiling is not None)


def _mass(effects: int, k: int) -> arb:
    """Return ``C(q, k) J_k**k`` at the working precision."""
    if k < 2:
        return arb(comb(effects, k))
    theta = arb(k - 1) / 2
    return comb(effects, k) * ((1 - (-theta).exp()) / theta) ** k


def _subset(total: int, count: int, randomness: Randomness) -> frozenset[int]:
    """Return a uniformly random subset of this many of the indices."""
    order = list(range(total))
    for place in range(count):
        other = place + randomness.below(total - place)
        order[place], order[other] = order[other], order[place]
    return frozenset(order[:count])


def _middle(uniform: LazyUniform) -> float:
    return (uniform.prefix(_HINT_BITS) + 0.5) * 2.0**-_HINT_BITS


def sizes_of(parts: Floats, large: Flags, k: int) -> Floats:
    """Return ``t_j`` made of uniforms, in floats."""
    if k < 2:
        return parts + large
    theta = (k - 1) / 2
    beyond = -np.log1p(parts * np.expm1(-theta)) / theta
    return np.where(large, 1 + beyond, parts)


def column_tilts(sizes: Floats, large: Flags, j: int) -> Floats:
    """Return the part of the tilt of all pairs (j, k), k > j: ``exp((b_j + b_k)/2)`` if large.

    Multiplied into the pairs' own cuts it never exceeds 1, so errors do not grow.
    """
    others = large[:, j + 1 :]
    beyond = np.where(others, sizes[:, j + 1 :] - 1, 0.0).sum(axis=1)
    halves = (others.sum(axis=1) * (sizes[:, j] - 1) + beyond) / 2
    return np.exp(np.where(large[:, j], halves, 0.0))
