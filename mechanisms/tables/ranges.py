r"""Noisy counts of ordered cells on a tree, so that every range of cells has little noise.

Cells 1, ..., n of one column are measured at h levels. At level l the counts of blocks of m_l
neighbouring cells are measured, each m_l a multiple of the next one and m_h = 1; the last block of
a level may be narrower. Every count has independent noise of variance v_l. A range of cells is then
a sum of few blocks, where single cells would add up n/3 noises on average.

*Estimate.* Least squares (Hay et al. 2010): from the cells up, a block's own count and the sum of
those inside it are averaged by their variances; from the top down, what a block has more than its
parts is shared among them by their variances. A public number of records is the count of the top.
The arithmetic is in whole steps, so that it has the same bits on every machine.

*Variance.* Let N >= n be the cells of a tree without narrow blocks, and P_l the projection onto
vectors that are constant on blocks of m_l cells. Counts of level l have the precision matrix
``(m_l / v_l) P_l``, and these commute. So the estimate of ``r' x`` has the variance

    sum_l  ||(P_l - P_{l-1}) r||**2 / lambda_l,     lambda_l = sum_{k >= l} m_k / v_k,

P_0 = 0, or the mean of all cells where the number of records is public. Over all ranges of the n
cells, ``E ||P_l r||**2`` is a sum of whole numbers: two cells x <= y of one block are both in a
range with probability ``2 x (n + 1 - y) / (n (n + 1))``. That is the score of a tree and a split,
in closed form. A tree that ends with narrow blocks knows more, and errs by no more.

*Split.* Gaussian noise costs ``sum a_l (lambda_l - lambda_{l+1})``, with ``a_l = D_l / (2 m_l)``
and D_l the squared change of a level: linear in lambda. So by the Cauchy-Schwarz inequality
``lambda_l`` is best in proportion to ``sqrt(c_l / (a_l - a_{l-1}))``, c_l the mean of the
numerators, pooled where that would rise with l. Laplace noise costs ``sum epsilon_l``, with
``v_l = 2 (D_l / epsilon_l)**2``. Where the score is stationary, ``epsilon_l`` is in proportion to
``D_l**2 / (m_l sum_{k <= l} c_k / lambda_k**2)``. Steps towards that are taken :data:`ROUNDS`
times, and the best split is kept. Every split is private, so floats may choose it.

*Branching.* For h levels every block has about the h-th root of n parts. The h with the least score
is taken; one level is the histogram itself. A level that gets less than a 50th is left out.

**Privacy.** A record is in one block of each level. Where it comes or goes, one count of each level
changes by 1. Where it is replaced, at most two counts of a level change by 1 each, and none of a
level that is a single block. So D_l, the change in the l1 norm, and that in the squared l2 norm,
are both 1 for records that come and go, and at most 2 where they may be replaced (1 for a single
block). *Laplace*: P(V_l = v) in proportion to ``exp(-rate_l ||v||_1)``, v whole, with
``rate_l = epsilon_l / D_l``, makes level l epsilon_l-DP by Proposition 2.10 of Awan & Slavkovic
(2021); levels are drawn independently, so all are (sum epsilon_l)-DP. *Gaussian*: discrete Gaussian
noise of variance parameter ``sigma_l**2`` costs ``D_l / (2 sigma_l**2)`` in zCDP
intervals are functions of the noisy counts and of public numbers: post-processing.

*Sources.* Hay, Rastogi, Miklau & Suciu (2010), Theorem 3; Qardaji, Yang & Li (2013) for branching.
The split and the closed form are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import accumulate, pairwise
from math import exp, fsum, log, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mechanisms.randomness import Randomness
from mechanisms.samplers.knorm import draw_discrete_gaussian, draw_l1
from mechanisms.tables.sensitivities import Changes

Law = Literal["laplace", "gaussian"]
Floats = NDArray[np.float64]

ROUNDS = 200
STEP = 1 << 20
"""Estimates are whole numbers of this part of a record, and weights of this part of 1."""

_SHARES = 1 << 20
_LEAST = 0.02
_STEPS = 1 << 10  # of a variance


@dataclass(frozen=True, slots=True)
class RangeTree:
    """Calibrated noise on the blocks of ordered cells.

    Attributes
    ----------
    cells
        n, at least 2.
    widths
        m_l, in cells: from the widest blocks to single cells.
    noise
        For each level the rate of Laplace noise per record, or the variance of Gaussian noise.
    """

    cells: int
    changes: Changes
    law: Law
    widths: tuple[int, ...]
    noise: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        nested = all(above % below == 0 for above, below in pairwise(self.widths))
        if not nested or self.widths[-1] != 1 or len(self.noise) != len(self.widths):
            raise ValueError("blocks of a level are unions of those of the next")
        if min(self.noise) <= 0:
            raise ValueError("noise is positive")

    @classmethod
    def calibrated(
        cls, cells: int, changes: Changes, epsilon: Fraction, law: Law = "laplace"
    ) -> RangeTree:
        """Return the tree of the least mean variance of all ranges.

        Laplace noise is epsilon-DP, and Gaussian noise ``epsilon**2 / 2``-zCDP, under these
        changes.

        Raises
        ------
        ValueError
            Epsilon is not positive.
        """
        if epsilon <= 0:
            raise ValueError("epsilon must be positive")
        found = [
            cls.split(cells, changes, epsilon, law, widths)
            for widths in candidates(cells, rooted=changes.added)
        ]
        scores = [each.mean_variance() for each in found]
        return found[scores.index(min(scores))]

    @classmethod
    def split(
        cls, cells: int, changes: Changes, epsilon: Fraction, law: Law, widths: tuple[int, ...]
    ) -> RangeTree:
        """Return the best split for these blocks, levels with next to nothing left out."""
        while True:
            parts = _worth(cells, widths, known=changes.records_known)
            moved = [change_of(cells, each, changes) for each in widths]
            split = _gaussian_split if law == "gaussian" else _laplace_split
            shares = split(parts, widths, moved)
            kept = [at for at, each in enumerate(shares) if each >= _LEAST or widths[at] == 1]
            if len(kept) == len(widths):
                break
            widths = tuple(widths[at] for at in kept)
        whole = [max(round(each * _SHARES), 1) for each in shares]
        own = [Fraction(each, sum(whole)) for each in whole]
        if law == "laplace":
            noise = [epsilon * share / change for share, change in zip(own, moved, strict=True)]
        else:
            rho = epsilon**2 / 2
            noise = [
                _rounded_up(change / (2 * rho * share))
                for share, change in zip(own, moved, strict=True)
            ]
        return cls(cells, changes, law, widths, tuple(noise))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return how many blocks each level has."""
        return tuple(-(-self.cells // width) for width in self.widths)

    @property
    def variances(self) -> tuple[float, ...]:
        """Return v_l, or more: the variance that noise of this rate has on a fine lattice."""
        if self.law == "gaussian":
            return tuple(float(each) for each in self.noise)
        return tuple(2 / float(each) ** 2 for each in self.noise)

    def mean_variance(self) -> float:
        """Return the mean variance of the counts of all ranges, or slightly more."""
        parts = _worth(self.cells, self.widths, known=self.changes.records_known)
        precisions = _precisions([m / v for m, v in zip(self.widths, self.variances, strict=True)])
        return fsum(part / each for part, each in zip(parts, precisions, strict=True))

    def draw(self, counts: Sequence[int], randomness: Randomness) -> tuple[list[int], ...]:
        """Return the noisy counts of each level's blocks: the private step, all of it."""
        found = []
        for width, size, noise in zip(self.widths, self.sizes, self.noise, strict=True):
            if self.law == "gaussian":
                added = draw_discrete_gaussian(randomness, size, noise)
            else:
                added = draw_l1(randomness, size, noise)
            blocks = (sum(counts[at : at + width]) for at in range(0, self.cells, width))
            found.append([count + each for count, each in zip(blocks, added, strict=True)])
        return tuple(found)

    def estimate(self, measured: Sequence[Sequence[int]], records: int | None) -> list[int]:
        """Return the unbiased cumulative counts, in steps; ``records`` where that is public."""
        up = self._upwards(measured)
        whole = sum(up[0][0]) if records is None else records * STEP
        found = _shared(whole, up[0][0], up[0][1])
        for at, (values, variances) in enumerate(up[1:]):
            parts = self.widths[at] // self.widths[at + 1]
            found = [
                each
                for block, own in enumerate(found)
                for each in _shared(
                    own,
                    values[block * parts : (block + 1) * parts],
                    variances[block * parts : (block + 1) * parts],
                )
            ]
        return list(accumulate(found))

    def _upwards(self, measured: Sequence[Sequence[int]]) -> list[tuple[list[int], list[float]]]:
        """Return each block's estimate from what is measured in it, in steps, and its variance."""
        values = [each * STEP for each in measured[-1]]
        variances = self._variances_upwards()
        found = [(values, variances[-1])]
        for at in range(len(self.widths) - 2, -1, -1):
            parts, own = self.widths[at] // self.widths[at + 1], self.variances[at]
            merged = []
            for block, count in enumerate(measured[at]):
                inside = slice(block * parts, (block + 1) * parts)
                spread = fsum(variances[at + 1][inside])
                weight = round(spread / (spread + own) * STEP)
                rest = sum(values[inside])
                merged.append((weight * count * STEP + (STEP - weight) * rest) // STEP)
            values = merged
            found.append((values, variances[at]))
        return found[::-1]

    def _variances_upwards(self) -> list[list[float]]:
        """Return the variance of each block's estimate from what is measured in it, by level."""
        found = [[self.variances[-1]] * self.cells]
        for at in range(len(self.widths) - 2, -1, -1):
            parts, own = self.widths[at] // self.widths[at + 1], self.variances[at]
            sums = [
                fsum(found[-1][block * parts : (block + 1) * parts])
                for block in range(self.sizes[at])
            ]
            found.append([own * each / (own + each) for each in sums])
        return found[::-1]

    def deviations(self) -> tuple[Floats, Floats]:
        """Return the standard deviations of all cells, and of all cumulative counts.

        Given a block's count, a part of it has the mean ``s = V / sum V`` times that and the
        variance ``V - V s``, and what is cumulated inside it follows from the parts before.
        """
        up = [np.array(each) for each in self._variances_upwards()]
        top = 0.0 if self.changes.records_known else float(up[0].sum())
        places = np.arange(self.cells)
        inside, rest = np.ones(self.cells), np.zeros(self.cells)
        share, own = np.ones(self.cells), np.zeros(self.cells)
        above = [*self.widths[:-1], self.cells][-1:] + list(self.widths[:-1])
        for at in range(len(self.widths) - 1, -1, -1):
            block, parent = places // self.widths[at], places // above[at]
            per = above[at] // self.widths[at] if at else len(up[at])
            before = np.concatenate([[0.0], np.cumsum(up[at])])
            first = parent * per
            total = before[np.minimum(first + per, len(up[at]))] - before[first]
            part, earlier = up[at][block], before[block] - before[first]
            mean = (earlier + inside * part) / total
            rest = rest + earlier + inside**2 * part - mean**2 * total
            inside = mean
            own = own + share**2 * (part - part**2 / total)
            share = share * part / total
        cumulative = rest + inside**2 * top
        return np.sqrt(np.maximum(own + share**2 * top, 0.0)), np.sqrt(np.maximum(cumulative, 0.0))


def change_of(cells: int, width: int, changes: Changes) -> int:
    """Return D_l: by how much one record changes a level, in the l1 and the squared l2 norm."""
    return 2 if changes.replaced and width < cells else 1


def whole_curve(cumulative: Sequence[int], records: int | None) -> list[int]:
    """Return whole cumulative counts that never fall, nearest to these steps in least squares.

    Pooling neighbours (Barlow et al. 1972), then the limits 0 and ``records``. The last one is
    ``records`` where that is public. As true counts never fall, no sum of squares gets larger.
    """
    free = cumulative[:-1] if records is not None else cumulative
    pools: list[tuple[int, int]] = []
    for each in free:
        total, size = each, 1
        while pools and pools[-1][0] * size >= total * pools[-1][1]:
            before, many = pools.pop()
            total, size = total + before, size + many
        pools.append((total, size))
    found = []
    for total, size in pools:
        # half a record is rounded up
        value = max((2 * total + size * STEP) // (2 * size * STEP), 0)
        found += [value if records is None else min(value, records)] * size
    return found if records is None else [*found, records]


@cache
def candidates(cells: int, *, rooted: bool) -> tuple[tuple[int, ...], ...]:
    """Return the widths of blocks of trees with about equal branching, of one level and more.

    ``rooted`` adds a level that is one block of all cells.

    >>> candidates(9, rooted=False)
    ((1,), (3, 1), (4, 2, 1), (8, 4, 2, 1))
    """
    found: dict[tuple[int, ...], None] = {}
    for height in range(1, cells.bit_length() + 1):
        rest, branching = cells, []
        for level in range(height, 0, -1):
            parts = _root_up(rest, level)
            branching.append(parts)
            rest = -(-rest // parts)
        if min(branching) < 2:
            break
        widths = list(accumulate(reversed(branching[1:]), int.__mul__, initial=1))[::-1]
        top = [widths[0] * branching[0]] if rooted else []
        found[tuple(top + widths)] = None
        found[tuple(widths)] = None
    return tuple(found)


def _root_up(number: int, order: int) -> int:
    """Return the smallest whole number whose power of this order is no less than the number."""
    root = max(int(exp(log(number) / order)) - 1, 1)
    while root**order < number:
        root += 1
    return root


def _worth(cells: int, widths: Sequence[int], *, known: bool) -> list[float]:
    """Return c_l: the mean of ``||(P_l - P_{l-1}) r||**2`` over all ranges."""
    top = widths[0] * -(-cells // widths[0])
    sums = [_projected(cells, top) if known else 0.0, *(_projected(cells, m) for m in widths)]
    return [max(after - before, 0.0) for before, after in pairwise(sums)]


@cache
def _projected(cells: int, width: int) -> float:
    """Return the mean of ``||P_l r||**2`` over all ranges: of pairs of cells of one block."""
    padded = -(-cells // width) * width
    before = np.zeros(padded, dtype=np.int64)
    before[:cells] = np.arange(1, cells + 1)
    after = np.zeros(padded, dtype=np.int64)
    after[:cells] = np.arange(cells, 0, -1)
    first, last = before.reshape(-1, width), after.reshape(-1, width)
    ordered = int((np.cumsum(first, axis=1) * last).sum())
    pairs = 2 * ordered - int((first * last).sum())
    return 2 * pairs / (cells * (cells + 1) * width)


def _precisions(levels: Sequence[float]) -> list[float]:
    """Return lambda_l: the sums from each level on."""
    return list(accumulate(reversed(levels)))[::-1]


def _laplace_split(
    parts: Sequence[float], widths: Sequence[int], moved: Sequence[int]
) -> list[float]:
    """Return the shares of epsilon, which add up to 1."""
    shares = [1 / len(widths)] * len(widths)
    best, kept = float("inf"), shares
    for _ in range(ROUNDS):
        terms = [
            m * (share / change) ** 2
            for m, share, change in zip(widths, shares, moved, strict=True)
        ]
        precisions = _precisions(terms)
        score = fsum(part / each for part, each in zip(parts, precisions, strict=True))
        if score < best:
            best, kept = score, shares
        slopes = list(
            accumulate(part / each**2 for part, each in zip(parts, precisions, strict=True))
        )
        gains = [
            term * slope / share for term, slope, share in zip(terms, slopes, shares, strict=True)
        ]
        mean = fsum(gain * share for gain, share in zip(gains, shares, strict=True))
        # a quarter of the way, in logarithms: whole steps would swing
        steps = [
            max(share * sqrt(sqrt(gain / mean)), 1e-9)
            for gain, share in zip(gains, shares, strict=True)
        ]
        total = fsum(steps)
        shares = [each / total for each in steps]
    return kept


def _gaussian_split(
    parts: Sequence[float], widths: Sequence[int], moved: Sequence[int]
) -> list[float]:
    """Return the shares of rho, which add up to 1."""
    costs = [change / m for m, change in zip(widths, moved, strict=True)]
    pools: list[tuple[float, float, int]] = []
    for part, cost in zip(parts, [costs[0], *(b - a for a, b in pairwise(costs))], strict=True):
        worth, price, size = part, cost, 1
        while pools and pools[-1][0] * price <= worth * pools[-1][1]:
            more, dear, many = pools.pop()
            worth, price, size = worth + more, price + dear, size + many
        pools.append((worth, price, size))
    precisions = [sqrt(worth / price) for worth, price, size in pools for _ in range(size)]
    own = [
        cost * (here - after)
        for cost, (here, after) in zip(costs, pairwise([*precisions, 0.0]), strict=True)
    ]
    total = fsum(own)
    return [each / total for each in own]


def _shared(whole: int, values: Sequence[int], variances: Sequence[float]) -> list[int]:
    """Return parts that add up to the whole: what is missing is shared by variances."""
    missing, total = whole - sum(values), fsum(variances)
    found = [
        value + missing * round(variance / total * STEP) // STEP
        for value, variance in zip(values[:-1], variances[:-1], strict=True)
    ]
    return [*found, whole - sum(found)]


def _rounded_up(variance: Fraction) -> Fraction:
    steps = variance * _STEPS
    return Fraction(max(-(-steps.numerator // steps.denominator), 1), _STEPS)
