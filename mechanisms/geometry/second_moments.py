r"""The ball K_T of second moments: (x_j, 2 x_j**2, x_j x_k) of one record against another.

Scaled units, |x_j| <= 1, replace-one. K_T is the intersection of the cylinders
over every column and every pair of columns (Awan & Slavkovic, section 6.1):

    |u_j| <= 2,   |u_jj| <= g(|u_j|),   |u_jk| <= min(2, 4 - |u_j| - |u_k|),
    g(u) = 2 up to u = 1, then 2 - 2 (u - 1)**2.

*One column* is K_2, the hull itself. *Several*: K_T holds the hull, so
Delta_{K_T} = 1 and it is private; it is not the hull, though the paper calls
it optimal: (x, y, 2x**2, xy) = (1, 0, 2, 2) lies in K_T, but only 0.75 of it in
the hull. It lies inside the l1, l2 and linf balls of their certified
sensitivities, so given its direction its noise is the smallest (Theorem 4.5). Up to 5
columns :mod:`mechanisms.geometry.cuts` takes off more of it.

*A uniform point.* Given the main effects u_j all other coordinates are
independent and uniform on their intervals, so the main effects have density

    f ∝ prod_{j<k} h(|u_j|, |u_k|) prod_j g(|u_j|) / 2,   h(a, b) = min(1, 2 - (a + b)/2),

on the cube, and rejection runs in the q main effects alone. Uniform proposals
keep vol K_T / vol box of them: 21% at 5 columns, 0.7% at 12, 1e-4 at 20, 4e-16
at 64. Better: call an effect *large* if |u_j| = 1 + b_j > 1, and let k of them
be large. Pairs of large effects are always cut,
``h = 1 - (b + b')/2 <= exp(-(b + b')/2)``, so ``f <= exp(-(k - 1)/2 sum b_j)``: an
envelope made of truncated exponentials, from which
:mod:`mechanisms.samplers.main_effects` draws. Kept: 83% at q = 1, 45% at 5, 19%
at 12, 9% at 20, 0.8% at 64.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

import numpy as np
from flint import arb

from mechanisms.exact.floats import Floats, working_precision
from mechanisms.exact.fractions import once
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
from mechanisms.geometry.smooth import Kind, Marginal, SmoothBall, Uniforms
from mechanisms.randomness import LazyUniform, Randomness
from mechanisms.samplers.main_effects import (
    GUARD_BITS,
    SCALE_BITS,
    Flags,
    Proposal,
    column_tilts,
    tail_weights,
)

_GOLDEN = 0.618034  # turns one column's points into another's that look independent


@dataclass(frozen=True)
class SecondMomentBall(SmoothBall):
    """K_T of ``effects`` columns: main effects, then the coordinates of ``pairs``.

    Parameters
    ----------
    effects : int
        q, the number of main effects, which are the first coordinates.
    pairs : tuple of (int, int)
        The coordinates that follow: (j, j) is 2 x_j**2, (j, k) with j < k is
        x_j x_k. Every j < k must occur; squares may be left out.

    Raises
    ------
    ValueError
        A product of two columns is missing, or a pair is named twice.
    """

    effects: int
    pairs: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        check_pairs(self.effects, self.pairs)

    @property
    def name(self) -> str:
        """Return a short description of the ball."""
        return "ball K_2, the hull" if self.is_hull else "ball K_T around the hull"

    @property
    def dimension(self) -> int:
        """Return m."""
        return self.effects + len(self.pairs)

    @property
    def is_hull(self) -> bool:
        """Return whether there is one column: K_2 is a hull, K_T only holds it."""
        return self.effects == 1

    @property
    def squares(self) -> tuple[int, ...]:
        """Return the columns whose squares occur."""
        return tuple(sorted(j for j, k in self.pairs if j == k))

    @property
    def expected_tries(self) -> float:
        """Return how many proposals of main effects a draw takes."""
        return 1 / self.kept

    @property
    def kept(self) -> float:
        """Return the share of proposals that are kept."""
        return self._table.kept if self.stored is None else self.stored.kept

    @property
    def shape(self) -> str:
        """Return what the laws follow from."""
        return f"second moments {self.effects} {len(self.squares)}"

    @property
    def coordinate_kinds(self) -> Sequence[Kind]:
        """Return the kind of each coordinate."""
        return kinds(self.effects, self.pairs)

    @property
    def log_volume(self) -> float:
        """Return log vol K."""
        # The envelope's mass over that of the box: a share kept of the one is a share of the other.
        total = sum(tail_weights(self.effects)) / 2.0**SCALE_BITS
        share = log(self.kept) + log(total) - self.effects * log(2)
        return share + self.dimension * log(4)

    def contains(self, point: Sequence[int], size: int) -> bool:
        """Return, in integers, whether the lattice point lies in ``size K``."""
        mains = [abs(u) for u in point[: self.effects]]
        if max(mains) > 2 * size:
            return False
        for (j, k), entry in zip(self.pairs, point[self.effects :], strict=True):
            if j != k:
                if abs(entry) > min(2 * size, 4 * size - mains[j] - mains[k]):
                    return False
                continue
            if abs(entry) > 2 * size:
                return False
            beyond = mains[j] - size
            # |u_jj| <= 2 - 2 (u - 1)**2 at this size, cleared of its quotient.
            if beyond > 0 and (2 * size - abs(entry)) * size < 2 * beyond * beyond:
                return False
        return True

    def point(self, randomness: Randomness) -> _Point:
        """Return a point uniform on K, exact, drawn lazily."""
        while True:
            proposal = Proposal(self, randomness)
            if proposal.kept():
                return _Point(self, proposal, randomness)

    def share(self, sizes: Sequence[arb], _count: arb) -> arb:
        """Return the share of the box above these main effects; there is no count."""
        odds = arb(1)
        for j, size in enumerate(sizes):
            for other in sizes[j + 1 :]:
                odds *= arb(1).min(2 - (size + other) / 2)
        for j in self.squares:
            odds *= 1 - arb(0).max(sizes[j] - 1) ** 2
        return odds

    def tilted_shares(self, sizes: Floats, _counts: Floats, large: Flags) -> Floats:
        """Return ``share exp(theta_k sum b_j)`` of each row, in floats."""
        beyond = np.maximum(0, sizes[:, list(self.squares)] - 1)
        odds: Floats = np.prod(1 - beyond**2, axis=1)
        for j in range(self.effects - 1):
            cut = np.minimum(1.0, 2 - (sizes[:, j, None] + sizes[:, j + 1 :]) / 2)
            odds = odds * np.prod(cut, axis=1) * column_tilts(sizes, large, j)
        return odds

    def marginals(self) -> tuple[Sequence[Marginal], Sequence[int]]:
        """Return the marginals: main effects, squares and products, by which squares occur."""
        keys = self.coordinate_kinds
        distinct = list(dict.fromkeys(keys))
        return [self._table.marginals[key] for key in distinct], [distinct.index(k) for k in keys]

    def simulated_points(self, count: int, uniforms: Uniforms) -> Floats:
        """Return simulated uniform points of K: quasi-random main effects, resampled."""
        sizes, _ = propose(self.effects)
        sizes = sizes[resampled(_proposed_odds(self), count, uniforms)]
        places = uniforms("pairs", count * len(self.pairs)).reshape(count, len(self.pairs))
        columns = [sizes * signs("signs", sizes.shape, uniforms)]
        for (j, k), place in zip(self.pairs, places.T, strict=True):
            if j == k:
                ends = 2 - 2 * np.maximum(0, sizes[:, j] - 1) ** 2
            else:
                ends = np.minimum(2, 4 - sizes[:, j] - sizes[:, k])
            columns.append((ends * (2 * place - 1))[:, None])
        return np.hstack(columns)

    @once
    def _table(self) -> _Table:
        return _tabulate(self)


def kinds(effects: int, pairs: Sequence[tuple[int, int]]) -> list[Kind]:
    """Return the kind of every coordinate after the count: coordinates of one kind have one law.

    A kind is the type of the coordinate, and how many of its columns also have a square.
    """
    squared = {j for j, k in pairs if j == k}
    mains: list[Kind] = [("main", int(j in squared)) for j in range(effects)]
    return mains + [
        ("square", 1) if j == k else ("product", (j in squared) + (k in squared)) for j, k in pairs
    ]


def check_pairs(effects: int, pairs: Sequence[tuple[int, int]]) -> None:
    """Raise ValueError unless every product occurs once and every square at most once."""
    products = {(j, k) for j in range(effects) for k in range(j + 1, effects)}
    squares = {(j, j) for j in range(effects)}
    named = set(pairs)
    if len(named) != len(pairs) or not products <= named <= products | squares:
        raise ValueError("every product of two columns occurs once, every square at most once")


class _Point:
    """A uniform point of K_T: signs, and a lazy uniform for every square and product."""

    __slots__ = ("_ball", "_proposal", "_signs", "_uniforms")

    def __init__(self, ball: SecondMomentBall, proposal: Proposal, randomness: Randomness) -> None:
        self._ball = ball
        self._proposal = proposal
        self._signs = [1 - 2 * randomness.bits(1) for _ in range(ball.effects)]
        self._uniforms: list[LazyUniform] = [randomness.uniform() for _ in ball.pairs]

    def enclose(self, bits: int) -> list[arb]:
        """Return balls around the coordinates."""
        with working_precision(bits + GUARD_BITS):
            sizes = self._proposal.sizes(bits)
            balls = [sign * size for sign, size in zip(self._signs, sizes, strict=True)]
            for (j, k), uniform in zip(self._ball.pairs, self._uniforms, strict=True):
                if j == k:
                    reach = 2 - 2 * arb(0).max(sizes[j] - 1) ** 2
                else:
                    reach = arb(2).min(4 - sizes[j] - sizes[k])
                balls.append(reach * (2 * uniform.enclose(bits) - 1))
            return balls


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """What quadrature over proposals found: the share kept, and every marginal."""

    kept: float
    marginals: dict[Kind, Marginal]


@lru_cache(maxsize=8)
def _proposed_odds(ball: SecondMomentBall) -> Floats:
    """Return the odds of each quasi-random proposal."""
    sizes, large = propose(ball.effects)
    return by_rows(ball.tilted_shares, sizes, np.zeros(PROPOSALS), large)


@lru_cache(maxsize=64)
def _tabulate(ball: SecondMomentBall) -> _Table:
    """Average over quasi-random proposals, each with its odds as weight."""
    sizes, _ = propose(ball.effects)
    odds = _proposed_odds(ball)
    squared = set(ball.squares)
    sums: defaultdict[Kind, MarginalSums] = defaultdict(lambda: MarginalSums(2.0))
    shares = [kronecker(PROPOSALS, ball.effects + j) for j in range(ball.effects)]
    for j in range(ball.effects):
        sums["main", int(j in squared)].add(sizes[:, j], sizes[:, j], sizes[:, j], odds)
        if j in squared:
            ends = 2 - 2 * np.maximum(0, sizes[:, j] - 1) ** 2
            sums["square", 1].add(shares[j] * ends, 0 * ends, ends, odds)
    for j, k in some_products(ball.effects, squared):
        ends = np.minimum(2, 4 - sizes[:, j] - sizes[:, k])
        turned = (shares[j] + k * _GOLDEN) % 1
        key = ("product", (j in squared) + (k in squared))
        sums[key].add(turned * ends, 0 * ends, ends, odds)
    return _Table(float(odds.mean()), {key: entry.marginal() for key, entry in sums.items()})
