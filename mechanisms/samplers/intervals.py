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
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechanisms.exact.balls import rational
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
    first j codes, so the last entry is n.
    """

    codes: NDArray[np.int64]
    reached: NDArray[np.int64]
    low: int
    high: int

    @classmethod
    def count(
        cls, codes: NDArray[np.integer[Any]], counts: NDArray[np.int64], *, low: int, high: int
    ) -> GridCodes:
        """Return the grid codes of distinct codes and how often each occurs."""
        reached = np.zeros(len(codes) + 1, dtype=np.int64)
        np.cumsum(counts, out=reached[1:])
        return cls(codes=codes.astype(np.int64), reached=reached, low=low, high=high)

    @property
    def span(self) -> int:
        """Return the number of grid points."""
        return self.high - self.low + 1


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
    """Return t with probability proportional to ``exp(-rate * s(t))``.

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
    epsilon-DP: KNG Theorem 3.1 with the counting measure on the grid.
    """
    return draw_scored_point(grid, level=level, rate=rate, randomness=randomness)[0]


def draw_scored_point(
    grid: GridCodes, *, level: Fraction, rate: Fraction, randomness: Randomness
) -> tuple[int, Fraction]:
    """Return a point as :func:`draw_point` does, and its exact exponent ``rate * s(t)``."""
    if not len(grid.codes):
        return grid.low + randomness.below(grid.span), Fraction(0)
    uniform = randomness.uniform()
    steps = _steps_near(grid, level, rate, _FLOAT_NATS)
    index = _locate_by_floats(grid, steps, rate, uniform)
    bits = _FLOAT_BITS
    while index is None:
        bits *= 2
        steps = _steps_near(grid, level, rate, bits)
        with working_precision(bits + 64):
            index = _locate_by_balls(grid, steps, rate, uniform, bits)
    point = int(steps.starts[index]) + randomness.below(int(steps.lengths[index]))
    return point, steps.exponent(index, rate)


def total_weight(grid: GridCodes, *, level: Fraction, rate: Fraction, bits: int) -> arb:
    """Return a ball around the sum of ``exp(-rate * s(t))`` over the grid.

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
    starts = np.concatenate([codes[max(first - 1, 0) : quantile], codes[quantile - 1 : last] + 1])
    # The first and the last step reach to the ends of the grid.
    if first == 0:
        starts = np.concatenate([[grid.low], starts])
    if last == len(reached):
        starts = np.concatenate([starts, [grid.high + 1]])
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
