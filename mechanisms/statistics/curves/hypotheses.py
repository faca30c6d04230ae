r"""The p-value of a test of noisy numbers, and the tests of noisy counts.

*The p-value.* Let S* be the released numbers, and theta what a hypothesis leaves open: group sizes,
margins, variances, censoring. For one theta, R releases S_1, ..., S_R are simulated: a sample that
meets the hypothesis, and noise of the known law. A statistic T gives

    p(theta) = (1 + #{r : T(S_r) >= T(S*)}) / (R + 1),
    p        = b + max {p(theta) : theta in C},        b = 2 / (R + 1),

C a confidence set for theta, made of the same release (Berger & Boos 1994; Awan & Wang 2023). T may
depend on theta.

**Level.** Let the hypothesis hold with theta0. Simulated numbers are made of a hash of S*, so they
are as good as independent of it, and S*, S_1, ..., S_R are exchangeable at theta0: p(theta0) <= a
has at most the probability a. If theta0 is in C, then p >= b + p(theta0). So

    P(p <= a) <= P(p(theta0) <= a - b) + P(theta0 not in C) <= (a - b) + b = a.

*C.* Pivots, such as the noise of a count over its standard deviation, have at theta0 the same law
as in a simulation. The second largest of the largest pivots of R simulations bounds that of the
release, but for the probability 2 / (R + 1) = b. C is the box of all theta within this bound.

*Two approximations.* The largest p(theta) is taken over the centre and the corners of C. Counts
have many margins: of more than two, C is the box of how many records there are and of how evenly
they spread. ``studies.hypothesis_tests`` counts how often true hypotheses are rejected.

*Intervals* invert the test: they hold what it does not reject at .05.

*Counts* are independent Poisson numbers. Given their total they are multinomial, which the
statistics below hardly distinguish: they are ratios.

**Privacy.** Functions of a released answer, of public facts and of a hash of the answer:
post-processing (Awan & Slavkovic, Proposition 2.11).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import ndtri

from mechanisms.exact.floats import Floats
from mechanisms.geometry.laws import hashed_uniforms
from mechanisms.statistics.curves.counts import NoisyCounts, poisson
from mechanisms.statistics.curves.survival import Clock, Survival

REPLICATES, _FEWER_REPLICATES = 999, 399
_MOST_NUMBERS = 400_000
_OUTSIDE = 2
"""Of the simulated pivots, how many lie outside of C."""
_LEVEL = 0.05
_TINY = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """A test statistic, its p-value, and where there is one an estimate with its 95% interval."""

    statistic: float
    p_value: float
    estimate: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Simulation:
    """Simulated numbers for a test, made of a hash of what was released."""

    seed: bytes
    replicates: int = REPLICATES

    @classmethod
    def of(cls, released: Floats) -> Simulation:
        """Return that of released numbers: of very many numbers it has fewer replicates."""
        seed = hashlib.sha256(np.ascontiguousarray(released, dtype=np.float64).tobytes()).digest()
        many = released.size * REPLICATES > _MOST_NUMBERS
        # one more is a multiple of 20, so that the level .05 is met exactly
        return cls(seed, _FEWER_REPLICATES if many else REPLICATES)

    @property
    def left_out(self) -> float:
        """Return b: the probability that the parameters lie outside of the confidence set."""
        return _OUTSIDE / (self.replicates + 1)

    def named(self, part: str) -> bytes:
        """Return the seed of a part."""
        return self.seed + part.encode()

    def uniforms(self, part: str, columns: int) -> Floats:
        """Return numbers in (0, 1), shape (replicates, columns)."""
        numbers = hashed_uniforms(self.named(part), self.replicates * columns)
        return numbers.reshape(self.replicates, columns)

    def bound(self, pivots: Floats) -> float:
        """Return the bound on all pivots together, of simulated ones of shape (replicates, any)."""
        largest = np.max(np.abs(pivots.reshape(self.replicates, -1)), axis=1)
        return float(np.partition(largest, -_OUTSIDE)[-_OUTSIDE])

    def reaches(self, moved: Floats) -> Floats:
        """Return how far the noise may have moved each number, all of them together.

        ``moved`` has simulated noise of them, shape (replicates, numbers).
        """
        spread = np.sqrt(np.mean(moved**2, axis=0))
        return np.asarray(self.bound(moved / np.maximum(spread, _TINY)) * spread)

    def p_value(self, found: Floats, drawn: Floats) -> float:
        """Return the p-value of a statistic's size, given simulated ones for each theta.

        Shape (parameters, replicates). Where T depends on theta there are as many sizes.
        """
        as_large = np.count_nonzero(drawn >= np.reshape(found, (-1, 1)), axis=1)
        # one quotient: a sum of two would end in digits of rounding
        return min(float(1 + as_large.max() + _OUTSIDE) / (self.replicates + 1), 1.0)

    def widest(self, drawn: Floats) -> Floats:
        """Return the largest size that is not rejected at .05, for each theta."""
        allowed = round((_LEVEL - self.left_out) * (self.replicates + 1))
        return np.asarray(np.partition(drawn, -allowed, axis=-1)[..., -allowed])


def is_smallest(p_value: float) -> bool:
    """Return whether a p-value is an upper bound: no simulated statistic was as large.

    It is the smallest that its number of replicates can give, and the other cannot give that one.

    >>> is_smallest(0.003), is_smallest(0.0075), is_smallest(0.004)
    (True, True, False)
    """
    return any(p_value == (1 + _OUTSIDE) / (each + 1) for each in (REPLICATES, _FEWER_REPLICATES))


def corners(dimension: int) -> Iterator[tuple[int, ...]]:
    """Yield the centre of a box and its corners, as signs."""
    yield (0,) * dimension
    yield from product((-1, 1), repeat=dimension)


# Tables of counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Noisy counts, with simulated noise of their law and its variance in each cell.

    ``noise`` has one more axis than ``counts``, the first.
    """

    counts: Floats
    noise: Floats
    variance: Floats
    simulation: Simulation

    def simulated(self, populations: Iterable[Floats]) -> Iterator[Floats]:
        """Yield noisy counts of populations whose cells have these means."""
        size, count = self.counts.size, self.simulation.replicates
        uniforms = self.simulation.uniforms("rows", size).reshape(size, count)
        for means in populations:
            rows = poisson(means.ravel(), uniforms)
            yield rows.T.reshape(count, *means.shape) + self.noise


Sizes = Callable[[Floats], Floats]
TableBy = Callable[[Floats], tuple[Floats, Floats, Floats]]
"""A statistic of tables: itself, and of shares the difference and its standard error."""


def of_table(table: Table, by: Callable[[Floats], TableBy]) -> Tested:
    """Return the test that rows and columns of a table are independent, by one of three statistics.

    :func:`squares`, :func:`shares` of the last of two columns in two rows, or mean :func:`ranks` of
    two rows.
    """
    statistic, simulation = by(table.variance), table.simulation
    found, difference, se = statistic(table.counts)
    box = _Margins.of(table)
    tried = table.simulated(box.independent(signs) for signs in corners(3))
    drawn = np.stack([np.abs(statistic(each)[0]) for each in tried])
    p = simulation.p_value(np.abs(found), drawn)
    if by is not shares:
        return Tested(statistic=float(found), p_value=p)
    reach = max(float(simulation.widest(drawn).max()) * float(se), _of_shares(table))
    estimate = float(difference)
    return Tested(
        statistic=float(found),
        p_value=p,
        estimate=estimate,
        interval=(max(estimate - reach, -1.0), min(estimate + reach, 1.0)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Margins:
    """The totals of rows and columns, and how far the noise may have moved each of them."""

    totals: tuple[Floats, Floats]
    reaches: tuple[Floats, Floats]
    counted: tuple[float, float]

    @classmethod
    def of(cls, table: Table) -> _Margins:
        counts, noise = table.counts, table.noise
        moved = [noise.sum(axis=2), noise.sum(axis=1), noise.sum(axis=(1, 2))[:, None]]
        reaches = table.simulation.reaches(np.concatenate(moved, axis=1))
        rows, columns, whole = np.split(reaches, np.cumsum(counts.shape))
        return cls(
            totals=(counts.sum(axis=1), counts.sum(axis=0)),
            reaches=(_spread_over(rows), _spread_over(columns)),
            counted=(float(counts.sum()), float(whole[0])),
        )

    def independent(self, signs: tuple[int, ...]) -> Floats:
        """Return the means of cells: of margins more or less even, and of more or fewer records."""
        shares = [
            _positive(total + sign * reach)
            for total, reach, sign in zip(self.totals, self.reaches, signs, strict=False)
        ]
        total, reach = self.counted
        records = max(total + signs[2] * reach, 1.0)
        return np.outer(shares[0] / shares[0].sum(), shares[1] / shares[1].sum()) * records


def _spread_over(reaches: Floats) -> Floats:
    """Return how far margins move together: less of each, the more there are."""
    return np.asarray(reaches * np.sqrt(2 / max(len(reaches), 2)))


def _positive(counts: Floats) -> Floats:
    return np.maximum(counts, 0.5)


def _of_shares(table: Table) -> float:
    """Return the half-width of the difference of shares, about the difference that was found."""
    statistic = shares(table.variance, pooled=False)
    se = statistic(table.counts)[2]
    reach = table.simulation.reaches(table.noise.reshape(-1, 4)).reshape(2, 2)
    tried = [_positive(table.counts + sign * reach) for (sign,) in corners(1)]
    widest = 0.0
    for means, simulated in zip(tried, table.simulated(tried), strict=True):
        own = means[:, 1] / means.sum(axis=1)
        _, drawn, errors = statistic(simulated)
        sizes = np.abs(drawn - (own[1] - own[0])) / np.maximum(errors, _TINY)
        widest = max(widest, float(table.simulation.widest(sizes)))
    return widest * float(se)


def _margins(table: Floats) -> tuple[Floats, Floats, Floats]:
    positive = np.maximum(table, 0.0)
    total = np.maximum(positive.sum(axis=(-2, -1)), 1.0)
    return positive.sum(axis=-1), positive.sum(axis=-2), total


def squares(variance: Floats) -> TableBy:
    """Return Pearson's statistic, each square over the expected count and the noise."""

    def statistic(table: Floats) -> tuple[Floats, Floats, Floats]:
        down, across, total = _margins(table)
        expected = down[..., :, None] * across[..., None, :] / total[..., None, None]
        terms = (table - expected) ** 2 / (expected + variance)
        zero = np.zeros_like(total)
        return np.asarray(terms.sum(axis=(-2, -1))), zero, zero

    return statistic


def shares(variance: Floats, *, pooled: bool = True) -> TableBy:
    """Return the difference of two shares over its standard error, the difference and that."""

    def statistic(table: Floats) -> tuple[Floats, Floats, Floats]:
        n = np.maximum(table.sum(axis=-1), 1.0)
        p = np.clip(table[..., 1] / n, 0, 1)
        whole = np.clip(table[..., 1].sum(axis=-1) / n.sum(axis=-1), 0, 1)[..., None]
        own = (whole * (1 - whole) if pooled else p * (1 - p)) / n
        noisy = ((1 - p) ** 2 * variance[:, 1] + p**2 * variance[:, 0]) / n**2
        se = np.sqrt((own + noisy).sum(axis=-1))
        d = p[..., 1] - p[..., 0]
        return np.asarray(d / np.maximum(se, _TINY)), np.asarray(d), np.asarray(se)

    return statistic


def ranks(variance: Floats) -> TableBy:
    """Return the difference of the mean ranks of two groups over its standard error."""

    def statistic(table: Floats) -> tuple[Floats, Floats, Floats]:
        _, across, total = _margins(table)
        places = np.cumsum(across, axis=-1) - across / 2
        places = places / total[..., None] - 0.5
        n = np.maximum(table.sum(axis=-1), 1.0)
        means = (table * places[..., None, :]).sum(axis=-1) / n
        spread = (across * places**2).sum(axis=-1) / total
        noisy = (variance * places[..., None, :] ** 2).sum(axis=-1) / n**2
        se = np.sqrt((spread[..., None] / n + noisy).sum(axis=-1))
        d = means[..., 1] - means[..., 0]
        return np.asarray(d / np.maximum(se, _TINY)), np.asarray(d), np.asarray(se)

    return statistic


# Signs and ranks


def of_signs(table: Table, signed: Sequence[int]) -> Tested:
    """Return Wilcoxon's signed-rank test, of cells in a line that have these signed ranks."""
    most = max(map(abs, signed))
    place = np.zeros((2, most, len(signed)))
    for at, rank in enumerate(signed):
        if rank:
            place[int(rank < 0), abs(rank) - 1, at] = 1

    def sides(cells: Floats) -> Floats:
        """Return counts above and below, by rank."""
        return np.asarray(np.einsum("srk,...k->...sr", place, cells))

    paired = Table(
        counts=sides(table.counts),
        noise=sides(table.noise),
        variance=sides(table.variance),
        simulation=table.simulation,
    )
    reach = _spread_over(table.simulation.reaches(paired.noise.sum(axis=1)))
    statistic = _signed(paired.variance.sum(axis=0))
    found = statistic(paired.counts)
    sizes = paired.counts.sum(axis=0)
    tried = [np.maximum(sizes + sign * reach, 0.0) for (sign,) in corners(1)]
    halves = (np.stack([each, each]) / 2 for each in tried)
    drawn = np.stack([statistic(each) for each in paired.simulated(halves)])
    p = table.simulation.p_value(np.abs(found), np.abs(drawn))
    return Tested(statistic=float(found), p_value=p)


def _signed(variance: Floats) -> Sizes:
    """Return the sum of signed ranks over its standard error, of counts (..., 2, ranks)."""

    def statistic(sides: Floats) -> Floats:
        above, below = sides[..., 0, :], sides[..., 1, :]
        sizes = np.maximum(above + below, 0.0)
        places = np.cumsum(sizes, axis=-1) - sizes / 2
        places = places / np.maximum(sizes.sum(axis=-1, keepdims=True), 1.0)
        se = np.sqrt((places**2 * (sizes + variance)).sum(axis=-1))
        return np.asarray((places * (above - below)).sum(axis=-1) / np.maximum(se, _TINY))

    return statistic


# The log-rank statistic


def log_rank(noisy: NoisyCounts, clock: Clock) -> Tested:
    r"""Return the log-rank test of groups that have the same hazard.

    With d_gj the events of group g in the j-th cell of time, x_gj its records at risk, and sums
    over groups without an index:

        U_g = sum_j w_j (d_gj - d_j x_gj / x_j),
        T   = (1 - 1/G) sum_g U_g^2 / (V_g + noise of U_g),

    V_g the sampling variance of U_g. The weights ``w_j = x_j^2 / (x_j^2 + noise of x_j)`` are near
    1, but near 0 where hardly more records are at risk than the noise would make.
    """
    simulation = Simulation.of(noisy.counts)
    made = noisy.noise(simulation.replicates, simulation.named("noise"))
    table = Table(
        counts=noisy.counts,
        noise=made,
        variance=np.mean(made**2, axis=0),
        simulation=simulation,
    )
    spreading = noisy.noise(_FEWER_REPLICATES, simulation.named("spread"))
    unsure = _unsure(spreading, clock)
    tried = list(_same_hazards(table, clock))
    found, drawn = [], []
    for means, simulated in zip(tried, table.simulated(tried), strict=True):
        noise_of = _noise_of(means, spreading, clock, unsure)
        found.append(_log_rank(noisy.counts, clock, unsure, noise_of))
        drawn.append(_log_rank(simulated, clock, unsure, noise_of))
    p = simulation.p_value(np.array(found), np.stack(drawn))
    return Tested(statistic=float(found[0]), p_value=p)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Risk:
    """Events and records at risk, shape (..., groups, cells)."""

    events: Floats
    at_risk: Floats

    @classmethod
    def of(cls, counts: Floats, clock: Clock, *, positive: bool = True) -> _Risk:
        """Return them of counts of shape (..., groups, cells, 2), no event first."""
        cells = len(clock.ends)
        left = np.cumsum(counts.sum(axis=-1)[..., ::-1], axis=-1)[..., ::-1][..., :cells]
        at_risk = left - clock.late * counts[..., :cells, 0]
        return cls(
            events=counts[..., :cells, 1],
            at_risk=np.maximum(at_risk, 0.0) if positive else at_risk,
        )

    def parts(self, unsure: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the shares of those at risk, the events of all groups, and the weights."""
        whole = self.at_risk.sum(axis=-2, keepdims=True)
        weights = whole**2 / (whole**2 + unsure + _TINY)
        return self.at_risk / np.maximum(whole, 1.0), self.events.sum(-2, keepdims=True), weights

    def sampled(self, unsure: Floats) -> Floats:
        """Return the sampling variance of each group's excess."""
        own, events, weights = self.parts(unsure)
        return np.asarray((weights**2 * np.maximum(events, 0.0) * own * (1 - own)).sum(axis=-1))


def log_rank_error(means: Floats, std: float, clock: Clock) -> float:
    """Return the standard error of the log-rank test in that without noise, for expected counts.

    ``means`` has the shape (groups, cells, 2); the noise of each count has the deviation ``std``.
    """
    simulation = Simulation.of(means)
    shape = (_FEWER_REPLICATES, *means.shape)
    uniforms = hashed_uniforms(simulation.named("noise"), int(np.prod(shape)))
    spreading = std * ndtri(uniforms).reshape(shape)
    unsure = _unsure(spreading, clock)
    sampled = _Risk.of(means, clock).sampled(unsure)
    noise_of = _noise_of(means, spreading, clock, unsure)
    return float(np.sqrt(1 + noise_of.mean() / max(sampled.mean(), _TINY)))


def _unsure(noise: Floats, clock: Clock) -> Floats:
    """Return the variance of the noise of those at risk, by cell."""
    at_risk = _Risk.of(noise, clock, positive=False).at_risk.sum(axis=1)
    return np.asarray(np.mean(at_risk**2, axis=0))


def _log_rank(counts: Floats, clock: Clock, unsure: Floats, noise_of: Floats) -> Floats:
    risk = _Risk.of(counts, clock)
    own, events, weights = risk.parts(unsure)
    excess = (weights * (risk.events - own * events)).sum(axis=-1)
    sampled, groups = risk.sampled(unsure), counts.shape[-3]
    terms = excess**2 / np.maximum(sampled + noise_of, _TINY)
    return np.asarray(terms.sum(axis=-1) * (1 - 1 / groups))


def _noise_of(means: Floats, noise: Floats, clock: Clock, unsure: Floats) -> Floats:
    """Return the variance of each group's excess by the noise alone, to first order."""
    risk, moved = _Risk.of(means, clock), _Risk.of(noise, clock, positive=False)
    own, events, weights = risk.parts(unsure)
    hazard = events / np.maximum(risk.at_risk.sum(axis=-2, keepdims=True), 1.0)
    change = moved.events - own * moved.events.sum(axis=-2, keepdims=True)
    change -= hazard * (moved.at_risk - own * moved.at_risk.sum(axis=-2, keepdims=True))
    return np.asarray(np.mean((weights * change).sum(axis=-1) ** 2, axis=0))


def _same_hazards(table: Table, clock: Clock) -> Iterator[Floats]:
    """Yield means of cells if all groups have one hazard, at the centre and corners of a box.

    Its directions are more events, more records without, and groups of more or less even sizes.
    """
    counts, noise = table.counts, table.noise
    groups, cells = counts.shape[0], counts.shape[1]
    moved = [noise[..., 1].sum((1, 2)), noise[..., 0].sum((1, 2)), *noise.sum(axis=(2, 3)).T]
    reach = table.simulation.reaches(np.stack(moved, axis=1))
    even = _spread_over(reach[2:])[:, None, None]
    for signs in corners(3):
        shift = np.zeros_like(counts)
        shift[..., 1] += signs[0] * reach[0] / (groups * cells)
        shift[..., 0] += signs[1] * reach[1] / (groups * cells)
        totals = np.maximum(counts.sum(axis=(1, 2), keepdims=True), 1.0)
        factor = np.maximum(totals + signs[2] * even, 1.0) / totals
        moved_counts = (counts + shift) * factor
        yield _same_hazard(Survival.of(moved_counts, clock), moved_counts, clock)


def _same_hazard(curves: Survival, counts: Floats, clock: Clock) -> Floats:
    """Return the counts that are expected if all groups have one hazard, and their censoring."""
    cells = len(clock.ends)
    exposed = np.maximum(
        np.maximum(curves.at_risk - clock.late * curves.censored[..., :cells], curves.events), 0.0
    ).sum(axis=0)
    hazard = curves.events.sum(axis=0) / np.maximum(exposed, 1.0)
    left = curves.at_risk[:, 0] if cells else counts.sum(axis=(1, 2))
    means = np.zeros_like(counts)
    for at in range(counts.shape[1]):
        lost = curves.censored[:, at]
        if at < cells:
            staying = np.maximum(curves.at_risk[:, at] - curves.events[:, at], 0.0)
            share = np.minimum(lost / np.maximum(staying, 1e-9), 1.0)
            # those who are lost are at risk during half of a wide cell, as in the estimate
            dead = left * np.minimum(hazard[at], 1.0) * (1 - clock.late[at] * share)
            means[:, at, 1] = dead
            lost = (left - dead) * share
        else:
            lost = left
        means[:, at, 0] = lost
        left = np.maximum(left - means[:, at].sum(axis=-1), 0.0)
    return means
