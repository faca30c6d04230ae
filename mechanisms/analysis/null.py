r"""The law of a test statistic under its hypothesis, simulated: sampling and privacy noise.

Let S* = S + V be the released sums or counts, with V of a law that is known exactly. A statistic
T(S*) is compared with T(S' + V'), where S' are sums of a simulated sample that meets the hypothesis
and V' is simulated noise of the known law:

    q = (1 + #{r : |T(S'_r + V'_r)| >= |T(S*)|}) / (R + 1),   r = 1, ..., R,
    p = q + 3 sqrt(q (1 - q) / R),   three standard errors of the simulation added,

a parametric bootstrap (Gaboardi, Lim, Rogers & Vadhan 2016; Ferrando, Wang & Sheldon 2022). The
hypothesis leaves nuisance parameters open: variances, group sizes, margins. They are taken from S*;
a variance is also tried where it is larger by one and by two standard deviations of its noise, and
the largest p counts, as by Berger and Boos (1994). So a variance that the noise makes too small
does not make a test reject too often.

*Samples.* Means and variances of groups are those of normal samples: a mean of many rows is nearly
normal whatever the values are. Counts are binomial or multinomial, drawn exactly.

*Denominators* hold the variance of the noise, so that no variance near 0 inflates T.

*Repeatable.* All simulated numbers are made of a hash of public facts, the same for every release
of one law. So the same release has the same p-value, and a repeated question reveals nothing more.

**Privacy.** A function of released numbers and public facts: post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt
from typing import Any, cast

import numpy as np
from scipy.special import gammaincinv, ndtri
from scipy.stats import binom

from mechanisms.contract import Inference, Outcome, Statistic, Term
from mechanisms.derivations import parts_of
from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.functional.linear import coordinate_noise
from mechanisms.functional.sanitized import CoordinateNoise
from mechanisms.geometry.laws import hashed_uniforms, simulate
from mechanisms.grouped import group_epsilon, group_facts
from mechanisms.knorm import integer_noise
from mechanisms.privacy import PrivacyLoss
from mechanisms.statistics.additive import AdditiveStatistic
from mechanisms.statistics.cells.spelling import canonical
from mechanisms.statistics.facts.readings import Released
from mechanisms.statistics.questions import plain, viewed
from mechanisms.statistics.second_order import MomentSource, Selection

_KNOWN = "k_norm"
"""The mechanism whose law the simulation knows."""
REPLICATES = 2999
_ADDED = 3.0
"""Standard errors of the simulation: all releases of one law have the same simulated numbers, so
its error does not average out over them."""
_LARGER = (0.0, 1.0, 2.0)
"""By how many standard deviations of its noise a variance is tried to be larger."""
_MANY_DEGREES = 50.0
_LOST = 0.25  # 1 / 0.8 - 1: of the rows' worth a fifth is lost
_FEWEST = 2.0  # rows of a group: fewer have no variance
_METHOD = (
    "simulated from the released numbers, the law of their noise and that of a sample under the "
    "hypothesis, for rows drawn independently"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A test statistic, its p-value, and where they are known an estimate and its interval."""

    statistic: float
    p_value: float
    estimate: float | None = None
    interval: tuple[float, float] | None = None

    def outcome(self, name: str) -> Outcome:
        """Return the answer."""
        value: dict[str, object] = {"statistic": self.statistic, "p_value": self.p_value}
        inference = None
        if self.estimate is not None and self.interval is not None:
            value["estimate"] = self.estimate
            low, high = self.interval
            term = Term(
                term="estimate",
                estimate=self.estimate,
                std_error=(high - low) / (2 * float(ndtri(0.975))),
                confidence_95=self.interval,
                place=("estimate",),
            )
            inference = Inference(terms=(term,), method=f"{name}: {_METHOD}")
        return Outcome(value=value, noise=None, inference=inference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The released sums of a group, of (1, u, u v) with scaled columns, and their noise.

    ``sums`` are by place as :meth:`~mechanisms.statistics.second_order.Layout.sums` has them, and
    ``noise`` has a simulated vector for each.
    """

    sums: Mapping[tuple[int, int], float]
    noise: Mapping[tuple[int, int], Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """The known law of the noise of a test's source, and the facts that it was planned with."""

    statistic: Any
    facts: Schema
    grouped: bool
    noise: CoordinateNoise
    ball: Hashable
    unit: int

    @classmethod
    def of(cls, source: Statistic, schema: Schema, norm: str, epsilon: PrivacyLoss) -> Law:
        """Return the law of a release of this question, by this norm at this epsilon."""
        asked = viewed(source, schema)
        statistic, facts = cast(Any, asked.statistic), asked.view.schema
        grouped = bool(statistic.by)
        if grouped:
            epsilon, facts = group_epsilon(facts, epsilon), group_facts(facts)
        elif statistic.where:
            facts = replace(facts, selected=True)
        statistic = plain(statistic)
        space = cast(AdditiveStatistic, statistic).additive(facts).space
        law = integer_noise(space, norm, epsilon.fraction)
        return cls(
            statistic=statistic,
            facts=facts,
            grouped=grouped,
            noise=coordinate_noise(law),
            ball=cast(Hashable, law.ball),
            unit=space.unit,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a test is read off: groups of moments, or counts of cells with their noise."""

    groups: Sequence[Group]
    numbers: Sequence[NumberColumn]
    counts: Floats
    noise: Floats

    @classmethod
    def of(cls, released: Released, columns: Sequence[str], schema: Schema) -> Source:
        """Return the released numbers and simulated noise of their law.

        ``columns`` are those of moments that are tested.
        """
        law = Law.of(released.statistic, schema, str(released.norm), released.epsilon)
        value = cast(Any, released.value)
        nothing = np.zeros(0)
        if "cells" in value:
            counts = np.array([float(each["count"]) for each in value["cells"]])
            noise = _noises(law) / law.unit
            return cls(groups=(), numbers=(), counts=counts, noise=noise)
        values = [each["value"] for each in value["groups"]] if law.grouped else [value]
        groups = [_group(law, columns, each, at) for at, each in enumerate(values)]
        numbers = [cast(NumberColumn, law.facts.columns[name]) for name in columns]
        return cls(groups=groups, numbers=numbers, counts=nothing, noise=nothing)

    def normals(self, part: str, columns: int) -> Floats:
        """Return standard normal numbers, shape (replicates, columns)."""
        return _normals(part, columns)

    def chi_squares(self, part: str, degrees: Floats) -> Floats:
        """Return a chi-square number for each of the degrees of freedom, in each replicate.

        Of many degrees by the cube of a normal number (Wilson & Hilferty 1931), which is right to
        about 1e-4 there, and takes a fraction of the time.
        """
        if np.min(degrees) > _MANY_DEGREES:
            spread = 2 / (9 * degrees)
            z = self.normals(part, len(degrees))
            return np.asarray(degrees * (1 - spread + np.sqrt(spread) * z) ** 3)
        u = self.uniforms(part, len(degrees))
        return np.asarray(2 * gammaincinv(degrees / 2, u), dtype=np.float64)

    def uniforms(self, part: str, columns: int) -> Floats:
        """Return numbers in (0, 1), shape (replicates, columns)."""
        return _uniforms(part, columns)


@lru_cache(maxsize=8)
def _uniforms(part: str, columns: int) -> Floats:
    found = hashed_uniforms(part.encode(), REPLICATES * columns).reshape(-1, columns)
    found.flags.writeable = False  # shared by all callers
    return found


@lru_cache(maxsize=8)
def _normals(part: str, columns: int) -> Floats:
    found = np.asarray(ndtri(_uniforms(part, columns)), dtype=np.float64)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=8)
def _simulated(ball: Hashable, dimension: int, part: int) -> Floats:
    """Return simulated noise at rate 1, shape (replicates, dimension); another for each part."""
    found = simulate(cast(Any, ball), dimension, REPLICATES, seed=f"noise {part}".encode())
    found.flags.writeable = False
    return found


def _noises(law: Law, part: int = 0) -> Floats:
    """Return simulated noise of the coordinates, in lattice units."""
    own = law.noise
    return _simulated(law.ball, own.dimension, part) / float(own.rate)


def _group(law: Law, columns: Sequence[str], value: Any, part: int) -> Group:
    statistic = cast(MomentSource, law.statistic)
    layout = statistic.layout(law.facts)
    chosen = Selection(layout, tuple(layout.names.index(name) for name in columns))
    jets = chosen.sums(statistic.read_back(value, law.facts))
    noise = _noises(law, part)
    return Group(
        sums={place: float(jet.value) for place, jet in jets.items()},
        noise={
            place: sum(
                (float(slope) * noise[:, at] for at, slope in jet.slopes.items()),
                np.zeros(REPLICATES),
            )
            for place, jet in jets.items()
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What the noise does to a test: its standard error in those without noise, for some rows.

    ``epsilon`` and ``rows`` are what would leave four fifths of the rows' worth: a factor of each.
    """

    error: float
    rows: int

    @property
    def worth(self) -> float:
        """Return how many rows without noise have the same power."""
        return self.rows / self.error**2

    @property
    def more_epsilon(self) -> float:
        """Return by what factor epsilon would have to be larger; 1 or less where it is enough."""
        return sqrt((self.error**2 - 1) / _LOST)

    @property
    def more_rows(self) -> float:
        """Return by what factor there would have to be more rows."""
        return (self.error**2 - 1) / _LOST


def weight(law: Law, rows: int, *, of_products: bool) -> Weight:
    """Return what the noise of a law does to a test of this many rows.

    In scaled columns values spread evenly have the variance 1/3; a mean of n of them errs by
    ``1 / (3 n)`` and by ``Var(noise) / n**2``, a correlation by ``1 / n`` and by
    ``9 Var(noise) / n**2``. A cell of k has n / k rows, and that variance.
    """
    if not isinstance(law.statistic, MomentSource):
        cells = law.noise.dimension
        variance = np.mean([float(std / law.unit) ** 2 for std in law.noise.stds])
        return Weight(error=sqrt(1 + variance * cells / rows), rows=rows)
    layout = law.statistic.layout(law.facts)
    sums = layout.sums(layout.spread_evenly(rows))
    groups = 2 if law.grouped else 1
    place, factor = ((1, 2), 9.0) if of_products else ((0, 1), 3.0)
    noise = law.noise.variance(sums[place])
    return Weight(error=sqrt(1 + factor * noise * groups / rows), rows=rows)


def parts_alike(released: Released, source: Statistic, schema: Schema) -> Iterator[Released]:
    """Yield the parts of a release that are a test's source, of more columns of moments as well."""
    wanted = canonical(source, schema)
    for part in parts_of(released):
        own = canonical(part.statistic, schema)
        if part.mechanism != _KNOWN:
            continue
        if own == wanted:
            yield part
        elif isinstance(own, MomentSource) and isinstance(wanted, MomentSource):
            names = set(wanted.columns) <= set(own.columns)
            if names and replace(cast(Any, own), columns=wanted.columns) == wanted:
                yield part


# Tests of means


@dataclass(frozen=True, slots=True)
class _Means:
    """Group sizes, means and variances, one of each for each group; in replicates one a row."""

    n: Floats
    m: Floats
    v: Floats

    @classmethod
    def of(cls, n: Floats, s: Floats, q: Floats) -> _Means:
        """Return them of sums of 1, u and u squared."""
        n = np.maximum(n, _FEWEST)
        m = np.clip(s / n, -1, 1)
        v = np.clip(q / n - m**2, 0, 1) * n / (n - 1)
        return cls(n, m, v)


def of_means(source: Source, *, pooled: bool, several: bool, value: float) -> Simulated:
    """Return the test that the means of groups are equal, or that one mean is a value.

    ``pooled``: with one variance of all groups. ``several``: by the ratio of variances between and
    within groups.
    """
    groups = source.groups
    at = ((0, 0), (0, 1), (1, 1))
    sums = np.array([[group.sums[place] for group in groups] for place in at])
    noise = np.array([[group.noise[place] for group in groups] for place in at])
    noise = noise.transpose(0, 2, 1)
    seen = _Means.of(*sums)
    centre = noise[1] - seen.m * noise[0]
    tau = np.mean(centre**2, axis=0) / seen.n**2
    moved = noise[2] - (seen.v + seen.m**2) * noise[0] - 2 * seen.m * centre
    spread = np.sqrt(np.mean(moved**2, axis=0)) / seen.n
    column = source.numbers[0]
    scale, middle = float(column.sum_half_width), float(column.midpoint)
    fixed = (value - middle) / scale if len(groups) == 1 else None
    statistic = _f(tau) if several else _t(tau, pooled=pooled, fixed=fixed)
    found, se = statistic(seen)
    best = 0.0, 0.0
    degrees = np.maximum(seen.n - 1, 1)
    z = source.normals("means", len(groups))
    chi = source.chi_squares("variances", degrees) / degrees
    for larger in _LARGER:
        v = np.clip(seen.v + larger * spread, 0, 1 - seen.m**2)
        v = np.full_like(v, np.average(v, weights=seen.n)) if pooled else v
        centre_of = np.average(seen.m, weights=seen.n / np.maximum(v, 1e-12))
        mean = (centre_of if fixed is None else fixed) + np.sqrt(v / seen.n) * z
        own = v * chi
        q = seen.n * (own * degrees / seen.n + mean**2)
        drawn, _ = statistic(_Means.of(seen.n + noise[0], seen.n * mean + noise[1], q + noise[2]))
        p = _p_value(found, drawn)
        best = max(best, (p, float(np.quantile(np.abs(drawn), 0.95))))
    if several:
        return Simulated(statistic=float(found), p_value=best[0])
    estimate = float(seen.m[0]) * scale + middle
    if fixed is None:
        estimate = float(seen.m[1] - seen.m[0]) * scale
    reach = best[1] * float(se) * scale
    return Simulated(
        statistic=float(found),
        p_value=best[0],
        estimate=estimate,
        interval=(estimate - reach, estimate + reach),
    )


_Statistic = Callable[[_Means], tuple[Floats, Floats]]


def _t(tau: Floats, *, pooled: bool, fixed: float | None) -> _Statistic:
    """Return Student's or Welch's t and its standard error, of one group or two."""

    def statistic(of: _Means) -> tuple[Floats, Floats]:
        v = of.v
        if pooled and fixed is None:
            whole = np.sum(v * (of.n - 1), axis=-1) / np.sum(of.n - 1, axis=-1)
            v = np.repeat(whole[..., None], 2, axis=-1)
        se = np.sqrt(np.sum(v / of.n + tau, axis=-1))
        d = of.m[..., 0] - fixed if fixed is not None else of.m[..., 1] - of.m[..., 0]
        return np.asarray(d / se), np.asarray(se)

    return statistic


def _f(tau: Floats) -> _Statistic:
    """Return the ratio of the variances between and within groups."""

    def statistic(of: _Means) -> tuple[Floats, Floats]:
        total = np.sum(of.n, axis=-1, keepdims=True)
        mean = np.sum(of.n * of.m, axis=-1, keepdims=True) / total
        between = np.sum(of.n * (of.m - mean) ** 2, axis=-1) / (of.m.shape[-1] - 1)
        within = np.sum(of.v * (of.n - 1), axis=-1) / np.sum(of.n - 1, axis=-1)
        within = within + np.mean(of.n * tau, axis=-1)
        return np.asarray(between / within), np.asarray(within)

    return statistic


def _p_value(found: Floats, drawn: Floats) -> float:
    """Return the share of simulated statistics as far from the hypothesis, with its own error."""
    p = float((1 + np.sum(np.abs(drawn) >= np.abs(found))) / (REPLICATES + 1))
    return min(p + _ADDED * sqrt(p * (1 - p) / REPLICATES), 1.0)


# The correlation of two columns


def of_correlation(source: Source) -> Simulated:
    """Return the test that two columns are uncorrelated."""
    (group,) = source.groups
    at = ((0, 0), (0, 1), (0, 2), (1, 1), (2, 2), (1, 2))
    sums = np.array([group.sums[place] for place in at])
    noise = np.stack([group.noise[place] for place in at], axis=-1)
    n = max(sums[0], 4.0)
    floors = np.std(noise[:, 3:5], axis=0) / n
    found, v = _correlated(sums, floors)
    best = 0.0, 0.0
    z, chi = source.normals("scores", 2), source.chi_squares("spreads", np.array([n - 1, n - 2]))
    means = np.clip(sums[1:3] / n, -1, 1)
    for larger in _LARGER:
        spread = np.clip(v + larger * floors, 0, 1 - means**2)
        # Bartlett's decomposition of a Wishart matrix without correlation
        a, b = np.sqrt(chi[:, 0]), np.sqrt(chi[:, 1])
        xx, yy, xy = a**2, b**2 + z[:, 0] ** 2, a * z[:, 0]
        cross = np.sqrt(spread[0] * spread[1])
        drawn = np.stack(
            [
                np.full(REPLICATES, n),
                np.full(REPLICATES, n * means[0]),
                np.full(REPLICATES, n * means[1]),
                spread[0] * xx + n * means[0] ** 2,
                spread[1] * yy + n * means[1] ** 2,
                cross * xy + n * means[0] * means[1],
            ],
            axis=-1,
        )
        under, _ = _correlated(drawn + noise, floors)
        best = max(best, (_p_value(found, under), float(np.quantile(np.abs(under), 0.95))))
    r = float(found)
    # Fisher's z, with the width that the hypothesis gives it: sampling and noise together
    angle, reach = np.arctanh(np.clip(r, -1 + 1e-9, 1 - 1e-9)), np.arctanh(min(best[1], 1 - 1e-9))
    return Simulated(
        statistic=r,
        p_value=best[0],
        estimate=r,
        interval=(float(np.tanh(angle - reach)), float(np.tanh(angle + reach))),
    )


def _correlated(sums: Floats, floors: Floats) -> tuple[Floats, Floats]:
    """Return the correlation of sums, and both variances, none below its noise."""
    n = np.maximum(sums[..., 0], 4.0)[..., None]
    m = np.clip(sums[..., 1:3] / n, -1, 1)
    v = np.maximum(sums[..., 3:5] / n - m**2, floors)
    c = sums[..., 5] / n[..., 0] - m[..., 0] * m[..., 1]
    return np.clip(c / np.sqrt(v[..., 0] * v[..., 1]), -1, 1), v


# Tables of counts


def of_table(source: Source, rows: int, by: TableBy) -> Simulated:
    """Return the test that rows and columns of a table are independent, by one of three statistics.

    :data:`SQUARES`, :data:`SHARES` of the last of two columns in two rows, or mean :data:`RANKS` of
    two rows.
    """
    table = source.counts.reshape(rows, -1)
    columns = table.shape[1]
    noise = source.noise.reshape(REPLICATES, rows, columns)
    statistic = by(np.mean(noise**2, axis=0))
    found, difference, se = statistic(table)
    total = max(round(float(table.sum())), 1)
    margins = [np.maximum(table.sum(axis=1), 0.5), np.maximum(table.sum(axis=0), 0.5)]
    odds = np.outer(margins[0] / margins[0].sum(), margins[1] / margins[1].sum()).ravel()
    sample = _multinomial(source, total, odds).reshape(REPLICATES, rows, columns)
    drawn, _, _ = statistic(sample + noise)
    p = _p_value(found, drawn)
    if by is not SHARES:
        return Simulated(statistic=float(found), p_value=p)
    estimate, reach = float(difference), float(np.quantile(np.abs(drawn), 0.95)) * float(se)
    return Simulated(
        statistic=float(found),
        p_value=p,
        estimate=estimate,
        interval=(max(estimate - reach, -1.0), min(estimate + reach, 1.0)),
    )


def _multinomial(source: Source, total: int, odds: Floats) -> Floats:
    """Return samples of cells, each cell binomial given those before it."""
    u = source.uniforms("cells", len(odds))
    left = np.full(REPLICATES, total)
    rest = 1.0
    found = np.zeros((REPLICATES, len(odds)))
    for at, each in enumerate(odds):
        share = min(max(each / rest, 0.0), 1.0) if at < len(odds) - 1 else 1.0
        found[:, at] = binom.ppf(u[:, at], left, share) if share < 1 else left
        left = left - found[:, at].astype(int)
        rest = max(rest - each, 1e-300)
    return found


_Table = Callable[[Floats], tuple[Floats, Floats, Floats]]


def _margins(table: Floats) -> tuple[Floats, Floats, Floats]:
    positive = np.maximum(table, 0.0)
    total = np.maximum(positive.sum(axis=(-2, -1)), 1.0)
    return positive.sum(axis=-1), positive.sum(axis=-2), total


def _squares(variance: Floats) -> _Table:
    """Return Pearson's statistic, each square over the expected count and the noise."""

    def statistic(table: Floats) -> tuple[Floats, Floats, Floats]:
        down, across, total = _margins(table)
        expected = down[..., :, None] * across[..., None, :] / total[..., None, None]
        squares = (table - expected) ** 2 / (expected + variance)
        zero = np.zeros_like(total)
        return np.asarray(squares.sum(axis=(-2, -1))), zero, zero

    return statistic


def _shares(variance: Floats) -> _Table:
    """Return the difference of two shares over its standard error, the difference and that."""

    def statistic(table: Floats) -> tuple[Floats, Floats, Floats]:
        n = np.maximum(table.sum(axis=-1), 1.0)
        p = np.clip(table[..., 1] / n, 0, 1)
        whole = np.clip(table[..., 1].sum(axis=-1) / n.sum(axis=-1), 0, 1)[..., None]
        own = whole * (1 - whole) / n
        noisy = ((1 - p) ** 2 * variance[:, 1] + p**2 * variance[:, 0]) / n**2
        se = np.sqrt((own + noisy).sum(axis=-1))
        d = p[..., 1] - p[..., 0]
        return np.asarray(d / np.maximum(se, 1e-12)), np.asarray(d), np.asarray(se)

    return statistic


def _ranks(variance: Floats) -> _Table:
    """Return the difference of the mean ranks of two groups over its standard error."""

    def statistic(table: Floats) -> tuple[Floats, Floats, Floats]:
        _, across, total = _margins(table)
        ranks = np.cumsum(across, axis=-1) - across / 2
        ranks = ranks / total[..., None] - 0.5
        n = np.maximum(table.sum(axis=-1), 1.0)
        means = (table * ranks[..., None, :]).sum(axis=-1) / n
        spread = (across * ranks**2).sum(axis=-1) / total
        noisy = (variance * ranks[..., None, :] ** 2).sum(axis=-1) / n**2
        se = np.sqrt((spread[..., None] / n + noisy).sum(axis=-1))
        d = means[..., 1] - means[..., 0]
        return np.asarray(d / np.maximum(se, 1e-12)), np.asarray(d), np.asarray(se)

    return statistic


TableBy = Callable[[Floats], _Table]
"""Makes a statistic of a table, given the variance of the noise in each cell."""
SQUARES, SHARES, RANKS = _squares, _shares, _ranks


# Signs and ranks


def of_signs(source: Source, ranks: Sequence[int]) -> Simulated:
    """Return Wilcoxon's signed-rank test, of cells with these signed ranks."""
    most = max(map(abs, ranks))
    above, below = (np.zeros((most, len(ranks))) for _ in range(2))
    for at, rank in enumerate(ranks):
        if rank:
            (above if rank > 0 else below)[abs(rank) - 1, at] = 1
    noisy = source.noise @ above.T, source.noise @ below.T
    variance = sum(np.mean(each**2, axis=0) for each in noisy)
    statistic = _signed(cast(Floats, variance))
    pairs = source.counts @ above.T, source.counts @ below.T
    found = statistic(*pairs)
    sizes = np.maximum(np.rint(pairs[0] + pairs[1]), 0).astype(int)
    positive = binom.ppf(source.uniforms("signs", most), sizes, 0.5)
    drawn = statistic(positive + noisy[0], sizes - positive + noisy[1])
    return Simulated(statistic=float(found), p_value=_p_value(found, drawn))


def _signed(variance: Floats) -> Callable[[Floats, Floats], Floats]:
    """Return the sum of signed ranks over its standard error."""

    def statistic(above: Floats, below: Floats) -> Floats:
        sizes = np.maximum(above + below, 0.0)
        ranks = np.cumsum(sizes, axis=-1) - sizes / 2
        ranks = ranks / np.maximum(sizes.sum(axis=-1, keepdims=True), 1.0)
        se = np.sqrt((ranks**2 * (sizes + variance)).sum(axis=-1))
        return np.asarray((ranks * (above - below)).sum(axis=-1) / np.maximum(se, 1e-12))

    return statistic
