r"""Balls of the count joined with moments: plus or minus (1, x_j, 2 x_j**2 - 1, x_j x_k).

Scaled units, |x_j| <= 1, add-remove: one record comes or goes. The hull of the
contributions C and of -C is ``{lambda c - mu c'}``, lambda + mu = 1, c and c' in the
hull of C; so ``u_0 = lambda - mu`` and ``lambda = (1 + u_0)/2``, ``mu = (1 - u_0)/2``.

*A column* (u_0, u_j, u_jj): the parabola's segment P holds (x, w) with
``2 x**2 - 1 <= w <= 1``; the Minkowski sum of lambda P and -mu P is

    -1 + 2 (|u_j| - mu)+**2 / lambda <= u_jj <= 1 - 2 (|u_j| - lambda)+**2 / mu,   |u_j| <= 1.

*A pair* (u_0, u_j, u_k, u_jk): the hull of plus or minus the four corners
(1, x, y, xy), orthogonal vectors, is a rotated l1 ball: all |u| <= 1, and
``|u_0 + u_j + u_k - u_jk| <= 2``, ``|u_0 + u_j - u_k + u_jk| <= 2``,
``|u_0 - u_j + u_k + u_jk| <= 2``, ``|-u_0 + u_j + u_k + u_jk| <= 2``.

Without products, given u_0, columns vary independently, so these conditions
describe the hull itself. With products the intersection of the cylinders holds
the hull, as K_T does under replace-one. Both lie inside the cube, hence inside
the other balls.

*A uniform point without products*: the area above u_0 of each column is
``(10 - 2 u_0**2) / 3``, so u_0 is proposed uniformly and accepted with
``(1 - u_0**2 / 5)**p``, and then each column by itself: no rejection multiplies up.

*With products*: let a, b, c be the sizes of u_0, u_j, u_k. The interval of u_jk
has the share ``h = 1 - (a + b + c - 1)+ / 2 - (a + b + c - 2 min(a, b, c) - 1)+ / 2`` of
[-1, 1]. By convexity in a, h is at most ``1 - (b + c - 1)+``, the share under
replace-one with t = 2b; so the same envelope holds and the same sampler runs, u_0
proposed uniformly. Kept: 78% at one column, 18% at 5, 3.7% at 12, 1.3% at 20,
0.05% at 64.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import log

import numpy as np
from flint import arb

from mechanisms.exact.floats import Floats, working_precision
from mechanisms.geometry.laws import (
    PROPOSALS,
    MarginalSums,
    by_rows,
    kronecker,
    propose,
    resampled,
    signs,
    some_products,
)
from mechanisms.geometry.second_moments import check_pairs, kinds
from mechanisms.geometry.smooth import Kind, Marginal, SmoothBall, Uniforms
from mechanisms.randomness import LazyUniform, Randomness
from mechanisms.samplers.main_effects import (
    GUARD_BITS,
    SCALE_BITS,
    Flags,
    Proposal,
    coin_shows,
    column_tilts,
    tail_weights,
)

_GOLDEN = 0.618034  # turns one column's points into another's that look independent
_COUNT: Kind = ("count", 0)


@dataclass(frozen=True)
class JointMomentBall(SmoothBall):
    """The ball of (count, main effects, then squares and products of ``pairs``).

    Parameters
    ----------
    effects : int
        p, the number of columns.
    pairs : tuple of (int, int)
        (j, j) is 2 x_j**2 - 1, (j, k) with j < k is x_j x_k: every product, or none.

    Raises
    ------
    ValueError
        Some products occur and some do not, or a pair is named twice.
    """

    effects: int
    pairs: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if self.crossed or self.effects == 1:
            check_pairs(self.effects, self.pairs)
        elif sorted(self.pairs) != [(j, j) for j in range(self.effects)]:
            raise ValueError("without products every square occurs once")

    @property
    def crossed(self) -> bool:
        """Return whether products occur."""
        return any(j != k for j, k in self.pairs)

    @property
    def name(self) -> str:
        """Return a short description of the ball."""
        return "hull of records' moments" if self.is_hull else "ball around records' moments"

    @property
    def dimension(self) -> int:
        """Return m."""
        return 1 + self.effects + len(self.pairs)

    @property
    def is_hull(self) -> bool:
        """Return whether there are no products: then it is the hull."""
        return not self.crossed

    @property
    def squares(self) -> tuple[int, ...]:
        """Return the columns whose squares occur."""
        return tuple(sorted(j for j, k in self.pairs if j == k))

    @property
    def expected_tries(self) -> float:
        """Return how many proposals a draw takes."""
        return 1 / (_tabulate(self).kept if self.stored is None else self.stored.kept)

    @property
    def shape(self) -> str:
        """Return what the laws follow from."""
        crossed = "crossed" if self.crossed else "apart"
        return f"joint moments {self.effects} {len(self.squares)} {crossed}"

    @property
    def coordinate_kinds(self) -> Sequence[Kind]:
        """Return the kind of each coordinate."""
        return [_COUNT, *kinds(self.effects, self.pairs)]

    @property
    def least_steps(self) -> Fraction:
        """Return half the largest norm of a corner: (1, 1, 1, -1) reaches 2."""
        return Fraction(1)

    @property
    def log_volume(self) -> float:
        """Return log vol K."""
        return _tabulate(self).log_volume if self.stored is None else self.stored.log_volume

    def contains(self, point: Sequence[int], size: int) -> bool:
        """Return, in integers, whether the lattice point lies in ``size K``."""
        if max(map(abs, point)) > size:
            return False
        count, mains = point[0], point[1 : 1 + self.effects]
        for (j, k), entry in zip(self.pairs, point[1 + self.effects :], strict=True):
            one, two = mains[j], mains[k]
            # The parabola's two arcs, cleared of their quotients: integers on both sides.
            if j == k:
                over, under = 2 * abs(one) - size - count, 2 * abs(one) - size + count
                if over > 0 and (size - entry) * (size - count) < over * over:
                    return False
                if under > 0 and (size + entry) * (size + count) < under * under:
                    return False
                continue
            sums = (
                count + one + two - entry,
                count + one - two + entry,
                count - one + two + entry,
                one + two + entry - count,
            )
            if max(map(abs, sums)) > 2 * size:
                return False
        return True

    def point(self, randomness: Randomness) -> _Point:
        """Return a point uniform on K, exact, drawn lazily."""
        if self.crossed:
            while True:
                proposal = Proposal(self, randomness)
                if proposal.kept():
                    return _Point(self, proposal, randomness)
        # Without products columns are drawn one by one: a try that fails costs that column alone.
        return _Point(self, _Columns(self.effects, randomness), randomness)

    def share(self, sizes: Sequence[arb], count: arb) -> arb:
        """Return the share of the box above these main effects, ``t_j = 2 |u_j|``."""
        halves = [size / 2 for size in sizes]
        odds = arb(1)
        for j, one in enumerate(halves):
            for two in halves[j + 1 :]:
                low, high = _product_interval(count, one, two)
                odds *= (high - low) / 2
        for j in self.squares:
            low, high = _square_interval(count, halves[j])
            odds *= (high - low) / 2
        return odds

    def tilted_shares(self, sizes: Floats, counts: Floats, large: Flags) -> Floats:
        """Return ``share exp(theta_k sum b_j)`` of each row, in floats."""
        halves, count = sizes / 2, counts[:, None]
        low, high = float_squares(count, halves[:, list(self.squares)])
        odds: Floats = np.prod((high - low) / 2, axis=1)
        for j in range(self.effects - 1):
            low, high = float_products(count, halves[:, j, None], halves[:, j + 1 :])
            odds = odds * np.prod((high - low) / 2, axis=1) * column_tilts(sizes, large, j)
        return odds

    def correlation(self, one: int, other: int) -> float:
        """Return the correlation of two coordinates: the count's with a square's, else zero.

        Flipping a column's sign maps the ball to itself, which leaves only the
        pairs among the count and the squares; no answer reads two squares.
        """
        first, second = sorted((one, other))
        place = second - 1 - self.effects
        if first > 0 or place < 0:
            return 0.0
        j, k = self.pairs[place]
        return _tabulate(self).correlation if j == k else 0.0

    def simulated_points(self, count: int, uniforms: Uniforms) -> Floats:
        """Return simulated uniform points of K: quasi-random magnitudes, resampled."""
        counts, weights = _weighed(self)
        rows = resampled(weights, count, uniforms)
        counts = counts[rows]
        if self.crossed:
            halves = propose(self.effects)[0][rows] / 2
        else:
            halves = np.column_stack(
                [_simulated_column(counts, j, uniforms) for j in range(self.effects)]
            )
        turns = signs("signs", halves.shape, uniforms)
        places = uniforms("pairs", count * len(self.pairs)).reshape(count, len(self.pairs))
        columns = [counts[:, None], halves * turns]
        for (j, k), place in zip(self.pairs, places.T, strict=True):
            if j == k:
                low, high = float_squares(counts, halves[:, j])
                sign = np.ones(count)
            else:
                low, high = float_products(counts, halves[:, j], halves[:, k])
                sign = turns[:, j] * turns[:, k]
            columns.append((sign * (low + (high - low) * place))[:, None])
        return signs("flip", (count, 1), uniforms) * np.hstack(columns)

    def marginals(self) -> tuple[Sequence[Marginal], Sequence[int]]:
        """Return the marginals: the count, main effects, squares and products."""
        keys = self.coordinate_kinds
        distinct = list(dict.fromkeys(keys))
        table = _tabulate(self).marginals
        return [table[key] for key in distinct], [distinct.index(key) for key in keys]


class _Columns:
    """The count, and main effects drawn column by column given it."""

    __slots__ = ("_count", "_uniforms")

    def __init__(self, effects: int, randomness: Randomness) -> None:
        while True:
            self._count = randomness.uniform()
            # (1 - u_0**2 / 5)**p: what all columns together have room for above u_0,
            # against u_0 = 0.
            coin = randomness.uniform()
            if coin_shows(coin, lambda bits: (1 - self.count(bits) ** 2 / 5) ** effects):
                break
        self._uniforms = [self._column(randomness) for _ in range(effects)]

    def count(self, bits: int) -> arb:
        """Return a ball around |u_0|."""
        return self._count.enclose(bits)

    def sizes(self, bits: int) -> list[arb]:
        """Return balls around ``t_j = 2 |u_j|``."""
        return [2 * uniform.enclose(bits) for uniform in self._uniforms]

    def _column(self, randomness: Randomness) -> LazyUniform:
        while True:
            main, coin = randomness.uniform(), randomness.uniform()

            def odds(bits: int, main: LazyUniform = main) -> arb:
                low, high = _square_interval(self.count(bits), main.enclose(bits))
                return (high - low) / 2

            if coin_shows(coin, odds):
                return main


class _Point:
    """A uniform point: signs, and a lazy uniform for every square and product."""

    __slots__ = ("_ball", "_effects", "_flip", "_signs", "_uniforms")

    def __init__(
        self, ball: JointMomentBall, effects: Proposal | _Columns, randomness: Randomness
    ) -> None:
        self._ball = ball
        self._effects = effects
        # The ball is symmetric as a whole only: one sign turns all coordinates.
        self._flip = 1 - 2 * randomness.bits(1)
        self._signs = [1 - 2 * randomness.bits(1) for _ in range(ball.effects)]
        self._uniforms = [randomness.uniform() for _ in ball.pairs]

    def enclose(self, bits: int) -> list[arb]:
        """Return balls around the coordinates.

        Intervals are those of non-negative u_0, u_j, u_k; a column's sign turns its
        products, and the point as a whole is flipped at random, so that u_0 is too.
        """
        with working_precision(bits + GUARD_BITS):
            count = self._effects.count(bits)
            halves = [size / 2 for size in self._effects.sizes(bits)]
            balls = [count, *(s * half for s, half in zip(self._signs, halves, strict=True))]
            for (j, k), uniform in zip(self._ball.pairs, self._uniforms, strict=True):
                if j == k:
                    low, high = _square_interval(count, halves[j])
                    sign = 1
                else:
                    low, high = _product_interval(count, halves[j], halves[k])
                    sign = self._signs[j] * self._signs[k]
                balls.append(sign * (low + (high - low) * uniform.enclose(bits)))
            return [self._flip * ball for ball in balls]


def _square_interval(count: arb, half: arb) -> tuple[arb, arb]:
    """Return the ends of u_jj above non-negative (u_0, u_j)."""
    zero, more, less = arb(0), (1 + count) / 2, (1 - count) / 2
    return (
        -1 + 2 * zero.max(half - less) ** 2 / more,
        1 - 2 * zero.max(half - more) ** 2 / less,
    )


def _product_interval(count: arb, one: arb, two: arb) -> tuple[arb, arb]:
    """Return the ends of u_jk above non-negative (u_0, u_j, u_k)."""
    total = count + one + two
    least = count.min(one).min(two)
    return arb(-1).max(total - 2), arb(1).min(2 - total + 2 * least)


def float_squares(count: Floats, half: Floats) -> tuple[Floats, Floats]:
    """Return the ends of u_jj in floats; with u_0 = 1 nothing lies beyond lambda."""
    more, less = (1 + count) / 2, (1 - count) / 2
    under, over = np.maximum(0, half - less), np.maximum(0, half - more)
    return -1 + 2 * under**2 / more, 1 - 2 * over * np.minimum(1, over / np.maximum(less, 1e-300))


def float_products(count: Floats, one: Floats, two: Floats) -> tuple[Floats, Floats]:
    """Return the ends of u_jk in floats."""
    total = count + one + two
    least = np.minimum(count, np.minimum(one, two))
    return np.maximum(-1.0, total - 2), np.minimum(1.0, 2 - total + 2 * least)


def _simulated_column(counts: Floats, column: int, uniforms: Uniforms) -> Floats:
    """Return |u_j| given the count, by rejection until every one is accepted."""
    halves, tries = np.full(len(counts), np.nan), 0
    while np.isnan(halves).any():
        open_rows = np.isnan(halves)
        parts = uniforms(f"column {column} {tries}", 2 * len(counts)).reshape(2, -1)
        low, high = float_squares(counts, parts[0])
        kept = open_rows & (parts[1] < (high - low) / 2)
        halves[kept] = parts[0][kept]
        tries += 1
    return halves


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """What quadrature found; the marginals by kind of coordinate."""

    kept: float
    log_volume: float
    marginals: dict[Kind, Marginal]
    correlation: float


def _counts(ball: JointMomentBall) -> tuple[Floats, Floats]:
    """Return quasi-random |u_0|, more of them near zero, and the weights that make up for it."""
    p, crossed = ball.effects, ball.crossed
    power = 1 + p / 3 if crossed else 1 + p**0.5 / 2
    rest = (1 - kronecker(PROPOSALS, 2 * p + 1 if crossed else 1)) ** (1 / power)
    return 1 - rest, 1 / (power * rest ** (power - 1))


@lru_cache(maxsize=8)
def _weighed(ball: JointMomentBall) -> tuple[Floats, Floats]:
    """Return quasi-random |u_0|, and the weight of each proposal above it.

    Proposals are weighed, not rejected: simulation may, a draw may not.
    """
    counts, weights = _counts(ball)
    if not ball.crossed:
        return counts, weights * (1 - counts**2 / 5) ** ball.effects
    sizes, large = propose(ball.effects)
    return counts, weights * by_rows(ball.tilted_shares, sizes, counts, large)


@lru_cache(maxsize=64)
def _tabulate(ball: JointMomentBall) -> _Table:
    """Average over quasi-random proposals; the count is sampled near zero, and weighted."""
    p, crossed = ball.effects, ball.crossed
    counts, weights = _weighed(ball) if crossed else _counts(ball)
    if crossed:
        sizes, _ = propose(p)
        kept = float(weights.mean())
        share = kept * sum(tail_weights(p)) / 2.0 ** (SCALE_BITS + p)
        log_volume = log(share) + ball.dimension * log(2)
    else:
        sizes = 2 * kronecker(PROPOSALS, 0)[:, None]
        columns = (1 - counts**2 / 5) ** (p - 1)
        found = float((weights * columns * (1 - counts**2 / 5)).mean())
        kept = 1 / (1 / found + p / 0.8)
        log_volume = log(2 * found) + p * log(10 / 3)
        low, high = float_squares(counts, sizes[:, 0] / 2)
        # One column stands for all, as they are alike: the others' areas become its weight.
        weights = weights * columns * (high - low) / 2
    squared = ball.squares if crossed else (0,)
    sums, moment = _sums(counts, sizes / 2, weights, frozenset(squared))
    marginals = {kind: entry.marginal() for kind, entry in sums.items()}
    if not squared:
        return _Table(kept, log_volume, marginals, 0.0)
    spread = (marginals[_COUNT].mean_square * marginals["square", 1].mean_square) ** 0.5
    return _Table(kept, log_volume, marginals, moment / spread)


def _sums(
    counts: Floats, halves: Floats, weights: Floats, squared: frozenset[int]
) -> tuple[dict[Kind, MarginalSums], float]:
    """Return the marginals' sums by kind, and the mean of u_0 u_jj over the squares."""
    sums: defaultdict[Kind, MarginalSums] = defaultdict(lambda: MarginalSums(1.0))
    columns, moment = halves.shape[1], 0.0
    sums[_COUNT].add(counts, counts, counts, weights)
    shares = [kronecker(PROPOSALS, 1 + columns + j) for j in range(columns)]
    for j in range(columns):
        sums["main", int(j in squared)].add(halves[:, j], halves[:, j], halves[:, j], weights)
        if j in squared:
            low, high = float_squares(counts, halves[:, j])
            sums["square", 1].add(low + shares[j] * (high - low), low, high, weights)
            moment += float(weights @ (counts * (low + high) / 2))
    for j, k in some_products(columns, squared):
        low, high = float_products(counts, halves[:, j], halves[:, k])
        turned = (shares[j] + k * _GOLDEN) % 1
        key = ("product", (j in squared) + (k in squared))
        sums[key].add(low + turned * (high - low), low, high, weights)
    return sums, moment / (max(len(squared), 1) * float(weights.sum()))
