"""Several quantiles in one exact draw (Gillenwater, Joseph & Kulesza 2021).

For levels q_1 < .. < q_m, with q_0 = 0, q_{m+1} = 1 and gaps g_j = q_j - q_{j-1}, the law
of sorted points t_1 <= .. <= t_m is

    P(t) proportional to nu(t) exp(-rate * s(t)),
    s(t) = sum over j = 1 .. m + 1 of |C(t_j) - C(t_{j-1}) - n g_j|,

where C counts the records at or below a point, C(t_0) = 0 and C(t_{m+1}) = n, and nu
counts the orders of t: the law is that of m points with this score, sorted.

*Sensitivity.* A record lies in one of the m + 1 cells between the points. Replacing
it takes 1 from one count and adds 1 to another: s moves by at most 2. Adding
one to cell b raises that count by 1 and every n g_j by g_j: s moves by at most
``(1 - g_b) + sum over j != b of g_j = 2 (1 - g_b)``, at most 2 (1 - smallest gap).

*Ties.* Records are spread over a finer grid first (:mod:`mechanisms.samplers.geometric`),
so that every rank from 1 to n can be had, inside a tie too.

*Steps.* C is constant between neighbouring records. A *path* says in which steps
the points lie; k points in a step of length L weigh L^k / k!, so a path weighs
``w = exp(-rate s) prod L^k / k!`` and, given the path, the points are independent
and uniform in their steps. Let B_j(i) be the weight of the first j points when
the j-th lies in step i and V_j(i) when it lies before step i, where the
next one is:

    V_j(i) = sum over i' < i of B_j(i') exp(-rate |r_i - r_i' - n g_{j+1}|)
    B_j(i) = sum over k of V_{j-k}(i) L_i^k / k! exp(-rate n (g_{j-k+2} + .. + g_j)),

r_i being the rank of step i. The first sum falls into ranks below and above
r_i - n g_{j+1}: a running sum, and a sum over a range, built from ranges of
lengths 1, 2, 4, .. without a subtraction. All in logarithms.

*Windows.* Level j looks only at ranks within ``T / (2 rate)`` of n q_j: a rank off by
delta costs 2 |delta| of score, since the counts on either side of t_j are off by
delta together. T is such that a path outside weighs less than its share below.

*Exactness.* These float sums only *propose*. Walking back from j = m, each choice is made
with integer odds derived from the floats, so that the path's odds Q are an exact
rational, never zero inside the windows; once in 2**20 tries all points are uniform on
the grid instead. A try is accepted with probability w / (Z Q') where Q' mixes the two
odds and Z is the float total, raised by a bound on all float errors: so that the ratio
never exceeds 1. It is decided in ball arithmetic with a lazily refined uniform.
The law of an accepted try is exact, however rough the floats: a rougher total
only costs tries. *The bound*: an addition of logarithms of size at most S is
off by 8 (S + 1) 2**-52, a chain has at most D of them, and each of the 2m + 1 choices adds
twice that and the rounding of its odds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, pairwise

import numpy as np
from flint import arb

from mechanisms.exact.balls import rational
from mechanisms.exact.continuous import UnsoundEnvelopeError, exceeds, settled
from mechanisms.exact.floats import Floats, Integers
from mechanisms.randomness import Randomness
from mechanisms.samplers.geometric import FINE_BITS, FineGrid, Steps
from mechanisms.samplers.intervals import GridCodes

Path = tuple[tuple[int, int], ...]
"""(step, how many points lie in it), steps ascending."""

_UNIFORM_SHARE_BITS = 20  # once in 2**20 tries all of the grid is proposed
_ODDS_BITS = 40  # float weights become integers of this many bits, rounded up


@dataclass(frozen=True, slots=True, kw_only=True)
class JointLaw:
    """The public part of the law: sorted levels and the rate, epsilon / (2 Delta)."""

    levels: tuple[Fraction, ...]
    rate: Fraction

    @property
    def edges(self) -> tuple[Fraction, ...]:
        """Return q_0 .. q_{m+1}."""
        return (Fraction(0), *self.levels, Fraction(1))

    def gap(self, level: int) -> Fraction:
        """Return the gap after this level, counted from 0."""
        edges = self.edges
        return edges[level + 1] - edges[level]

    def half_width(self, span: int) -> int:
        """Return the largest distance of a rank from n q_j that a window must hold.

        With n >= 1 the ranks max(1, round(n q_j)) can all be had and have a score
        of at most 2 m, so Z >= exp(-2 m rate) / m!. A path outside weighs at most
        exp(-T); T = m log(span) + 2 m rate - log(uniform share) keeps its ratio below 1.
        """
        count = len(self.levels)
        nats = Fraction(count * math.ceil(math.log(span)) + _UNIFORM_SHARE_BITS)
        return math.ceil(nats / (2 * self.rate)) + count

    def loss(self, level: int, counts: Integers, rows: int) -> Floats:
        """Return ``rate * |count - n g|`` for the cell after this level, without cancellation."""
        whole, part = divmod(rows * self.gap(level), 1)
        distances: Floats = np.abs((counts - whole) - float(part))
        return float(self.rate) * distances

    def run(self, level: int, count: int, lengths: Integers, rows: int) -> Floats:
        """Return the log weight of ``count`` points, up to ``level``, in one step."""
        inner = self.rate * rows * (self.edges[level] - self.edges[level - count + 1])
        logs: Floats = np.log(lengths)
        return count * logs - (math.lgamma(count + 1) + float(inner))

    def additions(self, span: int, rows: int) -> int:
        """Return about how many additions of logarithms the sums take for at most ``rows``."""
        count = len(self.levels)
        window = min(2 * self.half_width(span) + 3, rows + 1)
        return count * window * (window.bit_length() + count)

    def score(self, ranks: Sequence[int], rows: int) -> Fraction:
        """Return s exactly."""
        counts = (after - before for before, after in pairwise((0, *ranks, rows)))
        return sum(
            (abs(count - rows * self.gap(level)) for level, count in enumerate(counts)), Fraction(0)
        )


def joint_points(
    grid: GridCodes,
    *,
    levels: Sequence[Fraction],
    rate: Fraction,
    randomness: Randomness,
    bits: int = FINE_BITS,
) -> list[int]:
    """Return one grid point per level, ascending, by the joint law.

    Parameters
    ----------
    grid
        The codes on their grid.
    levels
        Distinct, ascending, in (0, 1).
    rate
        ``epsilon / (2 Delta)``; Delta as the module derives it.
    bits
        How much finer the grid is on which ties are spread.
    """
    fine = FineGrid(grid, randomness, bits=bits)
    if not fine.rows:
        return sorted(grid.point(grid.first + randomness.below(grid.span)) for _ in levels)
    tables = Tables.build(fine, JointLaw(levels=tuple(levels), rate=rate))
    while True:
        kept = _try(tables, fine, randomness)
        if kept is not None:
            return [fine.code(point) for point in kept]


def _try(tables: Tables, fine: FineGrid, randomness: Randomness) -> list[int] | None:
    """Propose fine points, ascending, and return them if they are accepted."""
    # The few uniform proposals reach what lies outside the windows, so that no point is lost.
    if not randomness.bits(_UNIFORM_SHARE_BITS):
        points = sorted(fine.low + randomness.below(fine.span) for _ in tables.law.levels)
        every = fine.all_steps()
        ranks = [every.rank_of(point) for point in points]
        path = tables.path(ranks)
    else:
        path = tables.propose(randomness)
        steps = tables.steps
        places = [step for step, count in path for _ in range(count)]
        ranks = [int(steps.ranks[step]) for step in places]
        points = sorted(
            int(steps.starts[step]) + randomness.below(int(steps.lengths[step])) for step in places
        )
    return points if _kept(tables, path, ranks, randomness) else None


def _kept(tables: Tables, path: Path | None, ranks: Sequence[int], randomness: Randomness) -> bool:
    """Return True with probability w / (Z Q'); w and Q' relative to the path's volume."""
    odds = tables.relative_odds(path)
    loss = tables.law.rate * tables.law.score(ranks, tables.rows)
    coin = randomness.uniform()

    def look(bits: int) -> bool | None:
        limit = -rational(loss) - arb(tables.log_total) - rational(odds).log()
        if limit > 0:
            raise UnsoundEnvelopeError
        return exceeds(limit, coin.enclose(bits).log())

    return settled(look, guard_bits=64)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tables:
    """The float sums of one data set, and the exact odds made of them. Private.

    ``windows[j]`` is the slice of steps that level j + 1 looks at; ``reach[j]`` holds
    log V_j on the window of level j + 1 and ``ends[j]`` log B_{j+1} on that same window.
    """

    law: JointLaw
    steps: Steps
    rows: int
    span: int
    windows: tuple[tuple[int, int], ...]
    reach: tuple[Floats, ...]
    ends: tuple[Floats, ...]
    log_total: float

    @classmethod
    def build(cls, fine: FineGrid, law: JointLaw) -> Tables:
        """Return the tables for spread records."""
        width = law.half_width(fine.span)
        centres = [fine.rows * level for level in law.levels]
        ranges = [
            (max(math.floor(c) - width, 0), min(math.ceil(c) + width, fine.rows)) for c in centres
        ]
        steps = fine.steps(ranges)
        windows = tuple(
            (
                int(np.searchsorted(steps.ranks, first)),
                int(np.searchsorted(steps.ranks, last, side="right")),
            )
            for first, last in ranges
        )
        reach, ends = _sums(law, steps, windows, fine.rows)
        first, last = windows[-1]
        remaining = fine.rows - steps.ranks[first:last]
        # The last cell, from the last point to the end, has a score as well.
        final = ends[-1] - law.loss(len(windows), remaining, fine.rows)
        total = float(np.logaddexp.reduce(final))
        return cls(
            law=law,
            steps=steps,
            rows=fine.rows,
            span=fine.span,
            windows=windows,
            reach=reach,
            ends=ends,
            log_total=total + _slack(law, windows, width, [*reach, *ends, final]),
        )

    def propose(self, randomness: Randomness) -> Path:
        """Draw a path with the odds of :meth:`odds`."""
        path: list[tuple[int, int]] = []
        level, step = len(self.windows), None
        while level:
            first = self.windows[level - 1][0]
            step = first + _draw(_odds(self._previous(level, step)), randomness)
            count = 1 + _draw(_odds(self._runs(level, step)), randomness)
            path.append((step, count))
            level -= count
        return tuple(reversed(path))

    def odds(self, path: Path) -> Fraction:
        """Return the exact probability that :meth:`propose` gives a path inside the windows."""
        level, step, product = len(self.windows), None, Fraction(1)
        for place, count in reversed(path):
            choices = _odds(self._previous(level, step))
            product *= Fraction(
                int(choices[place - self.windows[level - 1][0]]), int(choices.sum())
            )
            runs = _odds(self._runs(level, place))
            product *= Fraction(int(runs[count - 1]), int(runs.sum()))
            level, step = level - count, place
        return product

    def relative_odds(self, path: Path | None) -> Fraction:
        """Return Q' over the path's volume prod L^k / k!; None is a path outside the windows."""
        count = len(self.windows)
        share = Fraction(1, 1 << _UNIFORM_SHARE_BITS)
        uniform = share * Fraction(math.factorial(count), self.span**count)
        if path is None:
            return uniform
        volume = Fraction(1)
        for step, points in path:
            volume *= Fraction(int(self.steps.lengths[step]) ** points, math.factorial(points))
        return (1 - share) * self.odds(path) / volume + uniform

    def path(self, ranks: Sequence[int]) -> Path | None:
        """Return the path with these ranks, or None outside the windows."""
        places: list[int] = []
        for rank, (first, last) in zip(ranks, self.windows, strict=True):
            place = int(np.searchsorted(self.steps.ranks[first:last], rank)) + first
            if place == last or self.steps.ranks[place] != rank:
                return None
            places.append(place)
        return tuple((step, len(list(same))) for step, same in groupby(places))

    def _previous(self, level: int, following: int | None) -> Floats:
        """Return log weights of the step of point ``level``, the next point's step given."""
        first, last = self.windows[level - 1]
        ranks = self.steps.ranks[first:last]
        next_rank = self.rows if following is None else int(self.steps.ranks[following])
        weights = self.ends[level - 1] - self.law.loss(level, next_rank - ranks, self.rows)
        # Points of one step are drawn together, so the step before is another one.
        if following is not None:
            weights[max(following - first, 0) :] = -np.inf
        return weights

    def _runs(self, level: int, step: int) -> Floats:
        """Return log weights of 1, 2, .. points in this step, the last being ``level``."""
        weights: list[float] = []
        for count in range(1, level + 1):
            first, last = self.windows[level - count]
            if not first <= step < last:
                break
            length = self.steps.lengths[step : step + 1]
            before = self.reach[level - count][step - first]
            weights.append(float(before + self.law.run(level, count, length, self.rows)[0]))
        return np.array(weights)


def _sums(
    law: JointLaw, steps: Steps, windows: Sequence[tuple[int, int]], rows: int
) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return log V_0 .. V_{m-1} and log B_1 .. B_m, each on its level's window."""
    first, last = windows[0]
    reach = [-law.loss(0, steps.ranks[first:last], rows)]
    ends: list[Floats] = []
    for level, (first, last) in enumerate(windows, start=1):
        total = np.full(last - first, -np.inf)
        for count in range(1, level + 1):
            start, end = windows[level - count]  # never to the right of this level's window
            if end <= first:
                break
            lengths = steps.lengths[first:end]
            terms = reach[level - count][first - start :]
            terms = terms + law.run(level, count, lengths, rows)
            total[: end - first] = np.logaddexp(total[: end - first], terms)
        ends.append(total)
        if level < len(windows):
            gap = rows * law.gap(level)
            pair = windows[level - 1 : level + 1]
            reach.append(_reach(steps.ranks, pair, total, gap, float(law.rate)))
    return tuple(reach), tuple(ends)


def _reach(
    ranks: Integers,
    windows: Sequence[tuple[int, int]],
    ends: Floats,
    gap: Fraction,
    rate: float,
) -> Floats:
    """Return log V_j on the next level's window from log B_j on its own; ``gap`` is n g_{j+1}."""
    (first, last), (start, stop) = windows
    sources = ranks[first:last]
    whole, part = divmod(gap, 1)
    centre = int(sources[0])
    goals = ranks[start:stop] - whole - centre  # less part: where the score turns
    limit = np.clip(np.arange(start, stop) - first, 0, last - first)
    # Below the turn the score falls with the source's rank, above it rises.
    turn = np.minimum(np.searchsorted(sources - centre, goals - (part > 0), side="right"), limit)
    tilt = rate * (sources - centre)
    shift = rate * (goals - float(part))
    below = np.append(-np.inf, np.logaddexp.accumulate(ends + tilt))[turn] - shift
    sums: Floats = np.logaddexp(below, _range_sums(ends - tilt, turn, limit) + shift)
    return sums


def _range_sums(terms: Floats, starts: Integers, ends: Integers) -> Floats:
    """Return the log sums of ``terms[start:end]``, from sums over 1, 2, 4, .. terms."""
    sums = np.full(len(starts), -np.inf)
    places, blocks, size = starts.copy(), terms, 1
    lengths = ends - starts
    # Each range is cut into blocks of 1, 2, 4, .. by the bits of its length.
    while (lengths >= size).any():
        taking = (lengths & size) > 0
        sums[taking] = np.logaddexp(sums[taking], blocks[places[taking]])
        places[taking] += size
        blocks = np.logaddexp(blocks[:-size], blocks[size:])
        size *= 2
    return sums


def _slack(
    law: JointLaw, windows: Sequence[tuple[int, int]], width: int, logs: Sequence[Floats]
) -> float:
    """Return a bound on how far the odds and the log total can be off, all errors together."""
    finite = max(float(np.abs(table[np.isfinite(table)]).max(initial=0.0)) for table in logs)
    size = finite + 2 * float(law.rate) * (width + 2 + len(windows))
    widest = max(last - first for first, last in windows)
    chain = (len(windows) + 1) * (widest + 200 + len(windows))
    error = 8 * (size + 1) * 2.0**-52 * chain
    choices = 2 * len(windows) + 1
    odds = (widest + len(windows) + 2) * 2.0**-_ODDS_BITS
    return error + choices * (2 * error + odds) + 2 * 2.0**-_UNIFORM_SHARE_BITS


def _odds(weights: Floats) -> Integers:
    """Return integer odds from log weights, rounded up; 0 only for -inf."""
    # Rounded up, so that no place inside the windows is impossible.
    scaled = np.exp(weights - weights.max()) * 2.0**_ODDS_BITS
    return np.where(np.isneginf(weights), 0, scaled.astype(np.int64) + 1)


def _draw(odds: Integers, randomness: Randomness) -> int:
    """Return a place with exactly these odds."""
    sums = np.cumsum(odds)
    return int(np.searchsorted(sums, randomness.below(int(sums[-1])), side="right"))
