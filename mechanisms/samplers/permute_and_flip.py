"""Exact permute-and-flip on a grid with a piecewise-constant score.

Permute-and-flip (McKenna & Sheldon 2020) visits the candidates in a random
order and stops at the first whose coin falls heads, which for candidate t has
probability ``p_t = exp(-rate * (s(t) - min s))``. The coins do not depend on the
order, so the answer is uniform on the random set of heads. Visiting two million
points one by one would be slow where few of them are likely; here a draw costs
at most 1.3 draws of the exponential mechanism on average, whatever the data.

*The sampler.* Give every candidate a Poisson clock of rate 1, independent of
the others, and let each ring be *kept* with probability p_t by a fresh coin. The
order of the first rings is a uniform permutation, and a candidate's first ring
is kept with probability p_t: the first ring that is both kept and its
candidate's first has the law of permute-and-flip. By thinning, the kept rings
are a Poisson process of rate ``W = sum p_t`` whose marks are independent draws
from ``p_t / W``, that is from the exponential mechanism, independent of the rings
not kept, which at candidate t have rate ``1 - p_t``. So:

1. wait Exp(W), to time T, for the next kept ring; draw its candidate t by weight p_t;
2. if t was drawn before, this is not its first ring: go on;
3. otherwise it is the first with probability ``exp(-(1 - p_t) T)``: stop, or go on.

*Cost.* With tau the time of stopping, ``P(tau > T) = prod (1 - p_t (1 - exp(-T)))``,
one factor of which is exp(-T); the mean number of kept rings is
``W E(tau) <= W (1 - exp(1 - W)) / (W - 1) <= 1.30``.

*Exactness.* The score's minimum is 0, at the quantile. Candidates come from
:mod:`mechanisms.samplers.intervals`, exactly. Step 3 compares two sums of lazy
exponentials, ``E_0 W > (1 - p_t) (E_1 + .. + E_k)``, in ball arithmetic, with more bits
of them, of p_t and of W until the balls part. No float decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

from flint import arb

from mechanisms.exact.balls import rational
from mechanisms.exact.certainty import exceeds, settled
from mechanisms.randomness import LazyUniform, Randomness
from mechanisms.samplers.intervals import GridCodes, draw_scored_point, total_weight


def permute_and_flip_point(
    grid: GridCodes, *, level: Fraction, rate: Fraction, randomness: Randomness
) -> int:
    """Return a grid point by permute-and-flip with the score of a quantile.

    Parameters
    ----------
    grid
        The codes on their grid.
    level
        The quantile's level, in (0, 1).
    rate
        ``epsilon / (2 Delta)``, per record; above zero.

    Privacy
    -------
    epsilon-DP where Delta is the sensitivity of the score (McKenna & Sheldon,
    Theorem 1; a short proof is in :mod:`mechanisms.exponential.quantile`).
    """
    waits: list[LazyUniform] = []
    drawn: set[int] = set()
    while True:
        waits.append(randomness.uniform())
        point, exponent = draw_scored_point(grid, level=level, rate=rate, randomness=randomness)
        # A candidate has one coin, which has been tossed.
        if point in drawn:
            continue
        drawn.add(point)
        weight = partial(total_weight, grid, level=level, rate=rate)
        # At the quantile p_t = 1: its first ring is always kept.
        if exponent == 0 or _is_first_ring(exponent, waits, weight, randomness):
            return point


def _is_first_ring(
    exponent: Fraction,
    waits: Sequence[LazyUniform],
    weight: Callable[..., arb],
    randomness: Randomness,
) -> bool:
    """Return True with probability ``exp(-(1 - exp(-exponent)) T)``, T the sum of the waits / W."""
    coin = randomness.uniform()

    def look(bits: int) -> bool | None:
        missed = -(-rational(exponent)).expm1()
        limit = missed * sum((_exponential(wait, bits) for wait in waits), arb(0))
        patience = weight(bits=bits) * _exponential(coin, bits)
        return exceeds(patience, limit)

    return settled(look, guard_bits=32)


def _exponential(uniform: LazyUniform, bits: int) -> arb:
    return -uniform.enclose(bits).log()
