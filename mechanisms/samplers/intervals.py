"""Exact draws from a piecewise-constant law on a grid: the one-dimensional quantile.

On the integers t of [low, high], with n codes among them, the law is

    P(t) ∝ exp(-rate * s(t)),    s(t) = distance from level * n to [C(t-), C(t)],

with ``C(t-) = #{codes < t}`` and ``C(t) = #{codes <= t}``: s is the smallest
norm of a subgradient of the check loss. Away from the codes it is
``|C(t) - level * n|``; at a code the loss has a kink, and on a grid, where
that point has mass, the smallest subgradient is what lets tied or constant
data keep their quantile. Let q be the smallest code with ``C(q) >= level * n``.
Then s(q) = 0, left of q ``s(t) = level * n - C(t)``, right of it
``s(t) = C(t-) - level * n``, and the law is constant on *steps*: from each
code up to the next one's left neighbour below q, q itself, and from each
code's right neighbour up to the next code above q. A draw is a step, then one
of its points, uniformly.

*Base measure.* A grid point t may have several *places*, ``m(t)`` of them, a public whole number:
then ``P(t)`` is in proportion to ``m(t) exp(-rate * s(t))``, the law above is that of places, and a
place is read as its point. A step's length is the number of its places.

*Certified inversion.* A step of length L and score s weighs ``L exp(-rate s)``.
A lazily refined uniform u picks the step with ``w_0 + .. + w_{i-1} < u * total < w_0 + .. + w_i``.
Sums are first made in floats, with a proven relative error, and only over the
steps near q: a step left out has an exponent above ``nats``, so all of them
together weigh less than ``(high - low + 1) * exp(-nats)``, while q weighs 1.
When those margins leave the comparison open (odds below 2**-20 with two
million steps, far less otherwise), it is repeated in ball arithmetic with more
bits of u, of the sums, and of the window. No float decides.

*Float error.* An exponent x <= 64 is two products and a sum of non-negative
numbers away from exact rationals: relative error 3 * 2**-53, so exp(-x) is off
by a factor within 1 +- 2**-45; the library's own error is allowed 2**-46, a
hundred units in the last place. Running sums of m terms add ``m * eps`` of
the accumulator's type.

Exact permute-and-flip on a grid with a piecewise-constant score.

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

*Base measure.* Where grid points have several places each, the places are the candidates, each with
a coin of its own, and one is read as its point. So a point of m places counts m times.

*Exactness.* The score's minimum is 0, at the quantile. Candidates come from
:mod:`mechanisms.samplers.intervals`, exactly. Step 3 compares two sums of lazy
exponentials, ``E_0 W > (1 - p_t) (E_1 + .. + E_k)``, in ball arithmetic, with more bits
of them, of p_t and of W until the balls part. No float decides.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechanisms.exact.balls import rational
from mechanisms.exact.continuous import exceeds, settled
from mechanisms.exact.floats import working_precision
from mechanisms.randomness import LazyUniform, Randomness

_FLOAT_BITS = 64  # of the uniform: what floats look at
_FLOAT_NATS = 64  # steps that weigh less are covered by one bound
_TERM_ERROR = 2.0**-44  # relative, of one weight: exp and the product with its length
_WIDE = np.longdouble  # running sums of many terms lose digits in plain floats


@dataclass(frozen=True, slots=True, eq=False)
class GridCodes:
    """Distinct codes, ascending, on the grid [low, high].

    ``reached[j]`` (int64, one longer than ``codes``) counts the records at the
    first j codes, so the last entry is n. ``starts`` (int64, one longer than the grid) says where
    the places of each grid point begin, from 0 on; None where a point has one place, itself.
    """

    codes: NDArray[np.int64]
    reached: NDArray[np.int64]
    low: int
    high: int
    starts: NDArray[np.int64] | None = None

    @classmethod
    def count(
        cls,
        codes: NDArray[np.integer[Any]],
        counts: NDArray[np.int64],
        *,
        low: int,
        high: int,
        starts: NDArray[np.int64] | None = None,
    ) -> GridCodes:
        """Return the grid codes of distinct codes and how often each occurs."""
        reached = np.zeros(len(codes) + 1, dtype=np.int64)
        np.cumsum(counts, out=reached[1:])
        return cls(codes.astype(np.int64), reached, low, high, starts)

    @property
    def first(self) -> int:
        """Return the first place."""
        return self.low if self.starts is None else 0

    @property
    def span(self) -> int:
        """Return the number of places."""
        return self.high - self.low + 1 if self.starts is None else int(self.starts[-1])

    def places(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the places of grid points begin; those of one beyond the last are the end.

        A point and the next one enclose its own places.
        """
        return points if self.starts is None else self.starts[points - self.low]

    def point(self, place: int) -> int:
        """Return the grid point that a place belongs to."""
        if self.starts is None:
            return place
        return self.low + int(np.searchsorted(self.starts, place, side="right")) - 1


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """The steps near the quantile, left ones first, then the quantile itself, then right ones.

    The score of a step is ``distances[i]`` plus the exact fraction of its side,
    both non-negative: no cancellation anywhere.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    distances: NDArray[np.int64]
    middle: int
    left_fraction: Fraction
    right_fraction: Fraction
    cut_left: bool

    def exponent(self, index: int, rate: Fraction) -> Fraction:
        if index == self.middle:
            return Fraction(0)
        fraction = self.left_fraction if index < self.middle else self.right_fraction
        return rate * (int(self.distances[index]) + fraction)

    def exponents(self, rate: Fraction) -> NDArray[np.float64]:
        values = self.distances.astype(np.float64)
        values *= float(rate)
        values[: self.middle] += float(rate * self.left_fraction)
        values[self.middle + 1 :] += float(rate * self.right_fraction)
        return values


def draw_point(grid: GridCodes, *, level: Fraction, rate: Fraction, randomness: Randomness) -> int:
    """Return t with probability proportional to ``exp(-rate * s(t))``, times its places.

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
    With Delta the sensitivity of ``C(t) - level * n`` (and so of s) this is
    epsilon-DP: KNG Theorem 3.1 with the counting measure on the grid's places.
    """
    return grid.point(draw_scored_place(grid, level=level, rate=rate, randomness=randomness)[0])


def draw_scored_place(
    grid: GridCodes, *, level: Fraction, rate: Fraction, randomness: Randomness
) -> tuple[int, Fraction]:
    """Return a place of the point :func:`draw_point` draws, and its exact exponent ``rate * s``."""
    if not len(grid.codes):
        return grid.first + randomness.below(grid.span), Fraction(0)
    uniform = randomness.uniform()
    steps = _steps_near(grid, level, rate, _FLOAT_NATS)
    index = _locate_by_floats(grid, steps, rate, uniform)
    bits = _FLOAT_BITS
    while index is None:
        bits *= 2
        steps = _steps_near(grid, level, rate, bits)
        with working_precision(bits + 64):
            index = _locate_by_balls(grid, steps, rate, uniform, bits)
    place = int(steps.starts[index]) + randomness.below(int(steps.lengths[index]))
    return place, steps.exponent(index, rate)


def likely_points(
    grid: GridCodes, *, level: Fraction, rate: Fraction, shares: NDArray[np.float64]
) -> list[int]:
    """Return the points at these shares of the law, in floats: for simulations alone."""
    if not len(grid.codes):
        return [grid.point(grid.first + int(share * grid.span)) for share in shares.tolist()]
    steps = _steps_near(grid, level, rate, _FLOAT_NATS)
    sums = np.concatenate([[0.0], _float_sums(steps, rate).astype(np.float64)])
    # places of a step are equally likely
    places = np.interp(
        shares * sums[-1], sums, [*steps.starts, steps.starts[-1] + steps.lengths[-1]]
    )
    return [grid.point(int(place)) for place in places.tolist()]


def total_weight(grid: GridCodes, *, level: Fraction, rate: Fraction, bits: int) -> arb:
    """Return a ball around the sum of ``exp(-rate * s(t))`` over the grid's places.

    From floats with their proven error up to 64 bits, in ball arithmetic beyond.
    """
    if not len(grid.codes):
        return arb(grid.span)
    steps = _steps_near(grid, level, rate, max(bits, _FLOAT_NATS))
    missing = _missing(grid, max(bits, _FLOAT_NATS))
    if bits <= _FLOAT_BITS:
        sums = _float_sums(steps, rate)
        return arb(float(sums[-1])) * _slack(sums) + missing
    with working_precision(bits + 64):
        return sum(_ball_weights(steps, rate), arb(0)) + missing


def _steps_near(grid: GridCodes, level: Fraction, rate: Fraction, nats: int) -> _Steps:
    """Return all steps with exponents up to ``nats``, and perhaps a few more."""
    codes, reached = grid.codes, grid.reached
    wanted = level * int(reached[-1])
    under, over = math.floor(wanted), math.ceil(wanted)
    farthest = min(math.floor(nats / rate), int(reached[-1])) + 1
    quantile = int(np.searchsorted(reached, over))  # reached[quantile - 1] < wanted <= it
    first = min(int(np.searchsorted(reached, under - farthest)), quantile)
    last = max(int(np.searchsorted(reached, over + farthest, side="right")), quantile)
    # Between two codes the score is constant; to the left a step begins at a code, to the right
    # after it.
    points = np.concatenate([codes[max(first - 1, 0) : quantile], codes[quantile - 1 : last] + 1])
    # The first and the last step reach to the ends of the grid.
    if first == 0:
        points = np.concatenate([[grid.low], points])
    if last == len(reached):
        points = np.concatenate([points, [grid.high + 1]])
    starts = grid.places(points)
    return _Steps(
        starts=starts[:-1],
        lengths=np.diff(starts),
        distances=np.concatenate(
            [under - reached[first:quantile], [0], reached[quantile:last] - over]
        ),
        middle=quantile - first,
        left_fraction=wanted - under,
        right_fraction=over - wanted,
        cut_left=first > 0,
    )


def _locate_by_floats(
    grid: GridCodes, steps: _Steps, rate: Fraction, uniform: LazyUniform
) -> int | None:
    sums = _float_sums(steps, rate)
    slack = _slack(sums)
    guess = uniform.prefix(_FLOAT_BITS) / 2.0**_FLOAT_BITS * float(sums[-1])
    # Rounding may put the guess beyond the last sum.
    place = min(int(np.searchsorted(sums, guess, side="right")), len(sums) - 1)
    return _certified(
        place,
        uniform.enclose(_FLOAT_BITS),
        before=arb(float(sums[place - 1])) * slack if place else arb(0),
        through=arb(float(sums[place])) * slack,
        total=arb(float(sums[-1])) * slack,
        missing=_missing(grid, _FLOAT_NATS),
        cut_left=steps.cut_left,
    )


def _float_sums(steps: _Steps, rate: Fraction) -> NDArray[np.longdouble]:
    """Return the running sums of the steps' weights."""
    return np.cumsum(steps.lengths * np.exp(-steps.exponents(rate)), dtype=_WIDE)


def _slack(sums: NDArray[np.longdouble]) -> arb:
    """Return a ball around 1 that covers the relative error of every running sum."""
    return arb(1, _TERM_ERROR + len(sums) * float(np.finfo(_WIDE).eps))


def _locate_by_balls(
    grid: GridCodes, steps: _Steps, rate: Fraction, uniform: LazyUniform, bits: int
) -> int | None:
    sums = list(accumulate(_ball_weights(steps, rate)))
    guess = uniform.enclose(bits).mid() * sums[-1].mid()
    place = min(bisect_right(sums, guess, key=_middle), len(sums) - 1)
    return _certified(
        place,
        uniform.enclose(bits),
        before=sums[place - 1] if place else arb(0),
        through=sums[place],
        total=sums[-1],
        missing=_missing(grid, bits),
        cut_left=steps.cut_left,
    )


def _ball_weights(steps: _Steps, rate: Fraction) -> Iterator[arb]:
    for index, length in enumerate(steps.lengths.tolist()):
        exponent = steps.exponent(index, rate)
        yield length * (-rational(exponent)).exp()


def _certified(
    place: int,
    uniform: arb,
    *,
    before: arb,
    through: arb,
    total: arb,
    missing: arb,
    cut_left: bool,
) -> int | None:
    """Return ``place`` when ``before < uniform * total < through`` for all values in the balls."""
    # What is missing may lie on either side, unless no step was cut off on the left.
    target = uniform * (total + missing)
    below = before + missing if cut_left or place else before
    return place if target > below and target < through + missing else None


def _missing(grid: GridCodes, nats: int) -> arb:
    """Return a ball around 0 that covers the weight of all steps with exponent above ``nats``."""
    return arb((0, 0), (grid.span, -(nats * 23) // 16))  # e > 2**(23/16)


def _middle(ball: arb) -> arb:
    return ball.mid()


# Exact permute-and-flip among few candidates, and on a grid with a piecewise-constant score


def draw_by_weight(exponents: Sequence[Fraction], randomness: Randomness) -> int:
    """Return a place with a probability in proportion to exp(-exponent), by rejection.

    The least exponent is 0, so that a try succeeds with probability 1 / n at least.
    """
    while True:
        place = randomness.below(len(exponents))
        if randomness.bernoulli_exp(exponents[place]):
            return place


def permute_and_flip(exponents: Sequence[Fraction], randomness: Randomness) -> int:
    """Return a place: the first in a random order whose coin of exp(-exponent) falls heads.

    The least exponent is 0, so one falls.
    """
    left = list(range(len(exponents)))
    while True:
        place = left.pop(randomness.below(len(left)))
        if randomness.bernoulli_exp(exponents[place]):
            return place


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
        place, exponent = draw_scored_place(grid, level=level, rate=rate, randomness=randomness)
        # A candidate has one coin, which has been tossed.
        if place in drawn:
            continue
        drawn.add(place)
        weight = partial(total_weight, grid, level=level, rate=rate)
        # At the quantile p_t = 1: its first ring is always kept.
        if exponent == 0 or _is_first_ring(exponent, waits, weight, randomness):
            return grid.point(place)


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
