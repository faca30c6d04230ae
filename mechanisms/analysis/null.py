r"""The law of a test statistic under its hypothesis, simulated: sampling and privacy noise.

:mod:`mechanisms.statistics.curves.hypotheses` has the p-value of every test, why its level holds,
and the tests of counts. Here is what they are read off, and the tests of moments.

*Samples.* Means and variances of groups are those of normal samples: a mean of many rows is nearly
normal whatever the values are. This is an assumption of the tests of means, with noise or without.

*What a hypothesis leaves open* (theta) of moments: the sizes of groups, their mean, and variances.
Pivots are the noise of sizes and of sums about the mean, and the normal numbers of samples. So the
sums of squares about a mean bound a variance, by their noise and by a chi-square's quantiles.
Variances are tried at several places between their bounds.

*Denominators* hold the variance of the noise, so that no variance near 0 inflates a statistic. Its
law then depends little on theta, and the largest p-value is not much larger than that of theta0.

*Repeatable.* All simulated numbers are made of a hash of the released ones. So the same release has
the same p-value, and a repeated question reveals nothing more.

**Privacy.** A function of released numbers and public facts: post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, cast

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri

from mechanisms.contract import Inference, Json, Outcome, Statistic, Term
from mechanisms.derivations import parts_of
from mechanisms.domain import NumberColumn, Schema
from mechanisms.estimates.asked import Weight
from mechanisms.exact.floats import Floats
from mechanisms.functional.linear import coordinate_noise
from mechanisms.functional.sanitized import CoordinateNoise
from mechanisms.gaussian import additive_noise
from mechanisms.grouped import group_epsilon, group_facts
from mechanisms.privacy import PrivacyLoss
from mechanisms.statistics.additive import AdditiveStatistic
from mechanisms.statistics.cells.spelling import canonical
from mechanisms.statistics.curves.hypotheses import Simulation, Table, Tested, corners
from mechanisms.statistics.facts.readings import Released
from mechanisms.statistics.questions import plain, viewed
from mechanisms.statistics.second_order import MomentSource, Selection

KNOWN = ("k_norm", "gaussian")
"""The mechanisms whose law the simulation knows."""
_MANY_DEGREES = 50.0
_FEWEST = 2.0  # rows of a group: fewer have no variance
_BETWEEN = np.array([0.0, 0.5, 1.0])
"""Where between its bounds a standard deviation is tried."""
_ENDS = ((0.0, 0.0), (0.5, 0.5), (1.0, 1.0), (0.0, 1.0), (1.0, 0.0))
"""The same of two columns or groups whose variances differ."""
_SURE = 1 - 1e-9
_METHOD = (
    "simulated from the released numbers, the law of their noise and that of a sample under the "
    "hypothesis, for rows drawn independently; the largest p-value over a confidence set of what "
    "the hypothesis leaves open"
)


def outcome_of(tested: Tested, name: str) -> Outcome:
    """Return the answer: the statistic, its p-value, and the estimate with its interval."""
    value: dict[str, object] = {"statistic": tested.statistic, "p_value": tested.p_value}
    if tested.estimate is None or tested.interval is None:
        return Outcome(value=value, noise=None)
    low, high = tested.interval
    term = Term(
        term="estimate",
        estimate=tested.estimate,
        std_error=(high - low) / (2 * float(ndtri(0.975))),
        confidence_95=tested.interval,
        place=("estimate",),
    )
    return Outcome(
        value={**value, "estimate": tested.estimate},
        noise=None,
        inference=Inference(terms=(term,), method=f"{name}: {_METHOD}"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """The known law of the noise of a test's source, and the facts that it was planned with."""

    statistic: Any
    facts: Schema
    grouped: bool
    noise: CoordinateNoise
    unit: int

    @classmethod
    def of(
        cls, source: Statistic, schema: Schema, mechanism: str, norm: str, epsilon: PrivacyLoss
    ) -> Law:
        """Return the law of a release of this question, by this mechanism at this epsilon."""
        asked = viewed(source, schema)
        statistic, facts = cast(Any, asked.statistic), asked.view.schema
        grouped = bool(statistic.by)
        if grouped:
            epsilon, facts = group_epsilon(facts, epsilon), group_facts(facts)
        elif statistic.where:
            facts = replace(facts, selected=True)
        statistic = plain(statistic)
        space = cast(AdditiveStatistic, statistic).additive(facts).space
        noise = additive_noise(space, mechanism, norm, epsilon.fraction)
        return cls(
            statistic=statistic,
            facts=facts,
            grouped=grouped,
            noise=coordinate_noise(noise),
            unit=space.unit,
        )

    def simulated(self, count: int, seed: bytes) -> Floats:
        """Return simulated noise of the coordinates, in lattice units."""
        return np.asarray(self.noise.simulated(count, seed) / float(self.noise.rate))


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The released sums of a group, of (1, u, u v) with scaled columns, and their noise.

    ``sums`` are by place as :meth:`~mechanisms.statistics.second_order.Layout.sums` has them, and
    ``noise`` has a simulated vector for each.
    """

    sums: Mapping[tuple[int, int], float]
    noise: Mapping[tuple[int, int], Floats]

    def of(self, places: Sequence[tuple[int, int]]) -> tuple[Floats, Floats]:
        """Return the sums at these places, and their noise of shape (places, replicates)."""
        return (
            np.array([self.sums[place] for place in places]),
            np.stack([self.noise[place] for place in places]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a test is read off: groups of moments, or a row of counts with their noise."""

    groups: Sequence[Group]
    numbers: Sequence[NumberColumn]
    counts: Table
    simulation: Simulation

    def table(self, *shape: int) -> Table:
        """Return the counts in another shape."""
        own = self.counts
        return replace(
            own,
            counts=own.counts.reshape(shape),
            noise=own.noise.reshape(len(own.noise), *shape),
            variance=own.variance.reshape(shape),
        )

    def normals(self, part: str, columns: int) -> Floats:
        """Return standard normal numbers, shape (replicates, columns)."""
        return np.asarray(ndtri(self.simulation.uniforms(part, columns)), dtype=np.float64)


def sources(
    released: Released, columns: Sequence[str], schema: Schema, *, tests: int
) -> Sequence[Source]:
    """Return the released numbers of each of several tests, and simulated noise of their law.

    ``columns`` are those of moments that are tested.
    """
    law = Law.of(
        released.statistic, schema, released.mechanism, str(released.norm), released.epsilon
    )
    value = cast(Any, released.value)
    if "cells" in value:
        return _sources_of_counts(law, [float(each["count"]) for each in value["cells"]], tests)
    values = [each["value"] for each in value["groups"]] if law.grouped else [value]
    read = [_sums(law, columns, each) for each in values]
    simulation = Simulation.of(np.array([list(sums.values()) for sums, _ in read]))
    numbers = [cast(NumberColumn, law.facts.columns[name]) for name in columns]
    each, found = len(read) // tests, []
    for test in range(tests):
        own = _of_test(simulation, test)
        groups = [_group(law, *read[test * each + place], own, place) for place in range(each)]
        found.append(Source(groups=groups, numbers=numbers, counts=_NO_COUNTS, simulation=own))
    return found


def _of_test(simulation: Simulation, test: int) -> Simulation:
    return replace(simulation, seed=simulation.named(f"test {test} "))


def _sources_of_counts(law: Law, cells: Sequence[float], tests: int) -> Sequence[Source]:
    counts = np.array(cells)
    simulation = Simulation.of(counts)
    noise = law.simulated(simulation.replicates, simulation.named("noise")) / law.unit
    variance = np.array([float(std / law.unit) ** 2 for std in law.noise.stds])
    found = []
    for test, places in enumerate(np.split(np.arange(len(counts)), tests)):
        own = _of_test(simulation, test)
        table = Table(
            counts=counts[places], noise=np.ascontiguousarray(noise[:, places]),
            variance=variance[places], simulation=own,
        )  # fmt: skip
        found.append(Source(groups=(), numbers=(), counts=table, simulation=own))
    return found


_NO_COUNTS = Table(
    counts=np.zeros(0), noise=np.zeros((0, 0)), variance=np.zeros(0), simulation=Simulation(b"")
)
_Jets = Mapping[tuple[int, int], Any]


def _sums(
    law: Law, columns: Sequence[str], value: Json
) -> tuple[Mapping[tuple[int, int], float], _Jets]:
    statistic = cast(MomentSource, law.statistic)
    layout = statistic.layout(law.facts)
    chosen = Selection(layout, tuple(layout.names.index(name) for name in columns))
    jets = chosen.sums(statistic.read_back(value, law.facts))
    return {place: float(jet.value) for place, jet in jets.items()}, jets


def _group(
    law: Law,
    sums: Mapping[tuple[int, int], float],
    jets: _Jets,
    simulation: Simulation,
    place: int,
) -> Group:
    noise = law.simulated(simulation.replicates, simulation.named(f"noise {place}"))
    return Group(
        sums=sums,
        noise={
            place: sum(
                (float(slope) * noise[:, at] for at, slope in jet.slopes.items()),
                np.zeros(len(noise)),
            )
            for place, jet in jets.items()
        },
    )


def weight(law: Law, rows: int, tests: int, *, compared: int, of_products: bool) -> Weight:
    """Return what the noise of a law does to each of several tests of this many rows together.

    In scaled columns values spread evenly have the variance 1/3; a mean of n of them errs by
    ``1 / (3 n)`` and by ``Var(noise) / n**2``, a correlation by ``1 / n`` and by
    ``9 Var(noise) / n**2``. A cell of k has n / k rows, and that variance.
    """
    own = max(rows // tests, 1)
    if not isinstance(law.statistic, MomentSource):
        cells = law.noise.dimension // tests
        variance = np.mean([float(std / law.unit) ** 2 for std in law.noise.stds])
        return Weight(error=sqrt(1 + variance * cells / own), rows=own, tests=tests)
    layout = law.statistic.layout(law.facts)
    sums = layout.sums(layout.spread_evenly(own))
    place, factor = ((1, 2), 9.0) if of_products else ((0, 1), 3.0)
    noise = law.noise.variance(sums[place])
    return Weight(error=sqrt(1 + factor * noise * compared / own), rows=own, tests=tests)


def parts_alike(released: Released, source: Statistic, schema: Schema) -> Iterator[Released]:
    """Yield the parts of a release that are a test's source, of more columns of moments as well."""
    wanted = canonical(source, schema)
    for part in parts_of(released):
        own = canonical(part.statistic, schema)
        if part.mechanism not in KNOWN:
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


@dataclass(frozen=True, slots=True)
class _Squares:
    """Bounds on a variance, from released sums of 1, u and u squared about a mean."""

    bound: float

    def between(
        self, sums: Floats, noise: Floats, mean: Floats | float, n: Floats
    ) -> tuple[Floats, Floats]:
        """Return the bounds of each column's variance."""
        about, moved = (each[2] - 2 * mean * each[1] + mean**2 * each[0] for each in (sums, noise))
        reach = self.bound * np.sqrt(np.mean(moved**2, axis=0))
        return self.of(about, reach, n, 1 - np.asarray(mean) ** 2)

    def of(
        self, about: Floats, reach: Floats, degrees: Floats, most: Floats
    ) -> tuple[Floats, Floats]:
        """Return the bounds of the variance of squares about a mean that noise moves so far."""
        low, high = (2 * gammaincinv(degrees / 2, ndtr(sign * self.bound)) for sign in (-1, 1))
        return (
            np.clip(np.maximum(about - reach, 0) / high, 0, most),
            np.clip(np.maximum(about + reach, 0) / np.maximum(low, 1e-9), 1e-12, most),
        )


def of_means(source: Source, *, pooled: bool, several: bool, value: float) -> Tested:
    """Return the test that the means of groups are equal, or that one mean is a value.

    ``pooled``: with one variance of all groups. ``several``: by the ratio of variances between and
    within groups.
    """
    parts = [group.of(((0, 0), (0, 1), (1, 1))) for group in source.groups]
    sums = np.stack([each for each, _ in parts], axis=-1)
    noise = np.stack([each for _, each in parts], axis=-1)
    column, simulation = source.numbers[0], source.simulation
    scale, middle = float(column.sum_half_width), float(column.midpoint)
    fixed = (value - middle) / scale if len(parts) == 1 else None
    tau = _Noise.of(noise[1], -noise[0])
    statistic = _f(tau) if several else _t(tau, pooled=pooled, fixed=fixed)
    seen = _Means.of(*sums)
    shown, se = statistic(seen)
    z, w = (source.normals(part, len(parts)) for part in ("means", "variances"))
    drawn = []
    for at in _nuisances(sums, noise, (z, w), pooled=pooled, fixed=fixed, simulation=simulation):
        mean = at.mean + np.sqrt(at.v / at.n)[:, None] * z
        q = at.v[:, None] * _chi_squares(at.n - 1, w) + at.n * mean**2
        made = _Means.of(at.n + noise[0], at.n * mean + noise[1], q + noise[2])
        drawn.append(np.abs(statistic(made)[0]))
    sizes = np.concatenate(drawn)
    p = simulation.p_value(np.abs(shown), sizes)
    if several:
        return Tested(statistic=float(shown), p_value=p)
    estimate = float(seen.m[0]) * scale + middle
    if fixed is None:
        estimate = float(seen.m[1] - seen.m[0]) * scale
    reach = float(simulation.widest(sizes).max()) * float(se) * scale
    return Tested(
        statistic=float(shown),
        p_value=p,
        estimate=estimate,
        interval=(estimate - reach, estimate + reach),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nuisance:
    """Group sizes, the mean of all groups, and several variances of each."""

    n: Floats
    mean: float
    v: Floats


def _nuisances(
    sums: Floats,
    noise: Floats,
    normals: tuple[Floats, Floats],
    *,
    pooled: bool,
    fixed: float | None,
    simulation: Simulation,
) -> Iterator[_Nuisance]:
    """Yield what the hypothesis leaves open, at places of its confidence set."""
    seen = _Means.of(*sums)
    centred = noise[1] - seen.m * noise[0]
    squares = noise[2] - seen.m * (noise[1] + centred)
    spreads = [np.sqrt(np.mean(each**2, axis=0)) for each in (noise[0], centred, squares)]
    pivots = [
        each / np.maximum(own, 1e-12)
        for each, own in zip((noise[0], centred, squares), spreads, strict=True)
    ]
    bound = simulation.bound(np.concatenate([*pivots, *normals], axis=1))
    bounds = _Squares(bound)
    moves = bool(np.any(spreads[0] > 0)), fixed is None
    for signs in corners(2):
        if any(sign and not moving for sign, moving in zip(signs, moves, strict=True)):
            continue
        n = np.maximum(sums[0] + signs[0] * bound * spreads[0], _FEWEST)
        high = bounds.between(sums, noise, seen.m, n)[1]
        reach = bound * (np.sqrt(high / n) + spreads[1] / n)
        weights = n / n.sum()
        mean = float(seen.m @ weights) + signs[1] * sqrt(float(weights**2 @ reach**2))
        mean = float(np.clip(mean, -1, 1)) if fixed is None else fixed
        yield _Nuisance(
            n=n,
            mean=mean,
            v=_variances(sums, noise, mean, n, bounds, pooled=pooled),
        )


def _variances(
    sums: Floats, noise: Floats, mean: float, n: Floats, bounds: _Squares, *, pooled: bool
) -> Floats:
    """Return variances that are tried, of shape (several, groups)."""
    if pooled:
        about, moved = (each[2] - 2 * mean * each[1] + mean**2 * each[0] for each in (sums, noise))
        reach = bounds.bound * sqrt(float(np.sum(np.mean(moved**2, axis=0))))
        most = np.full(1, 1 - mean**2)
        low, high = bounds.of(
            np.sum(about, keepdims=True), np.full(1, reach), np.sum(n, keepdims=True), most
        )
        between = _BETWEEN[:, None]
    else:
        low, high = bounds.between(sums, noise, mean, n)
        between = np.array(_ENDS)
    tried = (np.sqrt(low) + between * (np.sqrt(high) - np.sqrt(low))) ** 2
    return np.broadcast_to(tried, (len(tried), len(n)))


def _chi_squares(degrees: Floats, normals: Floats) -> Floats:
    """Return chi-square numbers of these degrees of freedom, at the probabilities of normal ones.

    Of many degrees by the cube of a normal number (Wilson & Hilferty 1931), which is right to
    about 1e-4 there, and takes a fraction of the time.
    """
    if np.min(degrees) > _MANY_DEGREES:
        spread = 2 / (9 * degrees)
        return np.asarray(degrees * (1 - spread + np.sqrt(spread) * normals) ** 3)
    return np.asarray(2 * gammaincinv(degrees / 2, ndtr(normals)), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Noise:
    """The noise of numbers linear in released sums: the second moments of its parts."""

    moments: Floats

    @classmethod
    def of(cls, *parts: Floats) -> _Noise:
        """Return that of parts, each of shape (replicates, ...)."""
        table = np.stack(parts)
        return cls(np.mean(table[:, None] * table[None], axis=2))

    def variance(self, *weights: Floats | float) -> Floats:
        """Return the variance of the sum of the parts with these weights."""
        own = range(len(weights))
        terms = [weights[j] * weights[k] * self.moments[j, k] for j in own for k in own]
        return np.asarray(np.maximum(sum(terms), 0.0))


_Statistic = Callable[[_Means], tuple[Floats, Floats]]


def _t(noise: _Noise, *, pooled: bool, fixed: float | None) -> _Statistic:
    """Return Student's or Welch's t and its standard error, of one group or two."""

    def statistic(of: _Means) -> tuple[Floats, Floats]:
        v, tau = of.v, noise.variance(1.0, of.m) / of.n**2
        if pooled and fixed is None:
            whole = np.sum(v * (of.n - 1), axis=-1) / np.sum(of.n - 1, axis=-1)
            v = np.repeat(whole[..., None], 2, axis=-1)
        se = np.sqrt(np.sum(v / of.n + tau, axis=-1))
        d = of.m[..., 0] - fixed if fixed is not None else of.m[..., 1] - of.m[..., 0]
        return np.asarray(d / np.maximum(se, 1e-12)), np.asarray(se)

    return statistic


def _f(noise: _Noise) -> _Statistic:
    """Return the ratio of the variances between and within groups, and the second."""

    def statistic(of: _Means) -> tuple[Floats, Floats]:
        total = np.sum(of.n, axis=-1, keepdims=True)
        mean = np.sum(of.n * of.m, axis=-1, keepdims=True) / total
        between = np.sum(of.n * (of.m - mean) ** 2, axis=-1) / (of.m.shape[-1] - 1)
        within = np.sum(of.v * (of.n - 1), axis=-1) / np.sum(of.n - 1, axis=-1)
        tau = noise.variance(1.0, of.m) / of.n
        within = np.maximum(within + np.mean(tau, axis=-1), 1e-12)
        return np.asarray(between / within), np.asarray(within)

    return statistic


# The correlation of two columns


def of_correlation(source: Source) -> Tested:
    """Return the test that two columns are uncorrelated.

    By their covariance over its standard error. The interval is of Fisher's z of the correlation,
    about the one that each set of variances makes of the covariance.
    """
    sums, noise = source.groups[0].of(((0, 0), (0, 1), (0, 2), (1, 1), (2, 2), (1, 2)))
    simulation = source.simulation
    seen = np.clip(sums[1:3] / max(sums[0], 4.0), -1, 1)
    z, w = source.normals("scores", 1)[:, 0], source.normals("spreads", 2)
    drawn, shifts, most = [], [], 0.0
    samples: dict[float, Floats] = {}
    tau = _Noise.of(noise[5], -noise[2], -noise[1], noise[0])
    shown, deviation = _covariance(sums, tau)
    floors = np.std(noise[3:5], axis=1)
    estimate = float(_correlation(sums, floors))
    for n, means, v in _nuisances_of_two(sums, noise, seen, (z[:, None], w), simulation):
        if n not in samples:
            a, b = np.sqrt(_chi_squares(np.array([n - 1, n - 2]), w)).T
            # Bartlett's decomposition of a Wishart matrix without correlation
            samples[n] = np.stack([a**2, b**2 + z**2, a * z])
        squares = samples[n]
        most = max(most, sqrt(v[0] * v[1]))
        made = _made(n, means, v, squares, noise)
        drawn.append(np.abs(_covariance(made, tau)[0]))
        rho = float(np.clip(shown * deviation / sqrt(v[0] * v[1]), -0.99, 0.99))
        rest = sqrt(1 - rho**2)
        xx, yy, xy = squares
        turned = np.stack(
            [xx, rho**2 * xx + 2 * rho * rest * xy + rest**2 * yy, rho * xx + rest * xy]
        )
        about = _correlation(_made(n, means, v, turned, noise), floors)
        angles = np.arctanh(np.clip(about, -_SURE, _SURE))
        shifts.append(np.abs(angles - np.arctanh(rho)))
    sizes, sign = np.stack(drawn), -1.0 if estimate < 0 else 1.0
    p = simulation.p_value(np.abs(shown), sizes)
    reach = float(simulation.widest(np.stack(shifts)).max())
    angle = abs(float(np.arctanh(np.clip(estimate, -_SURE, _SURE))))
    # what the test rejects is not in the interval, and 0 is where it does not
    beyond = float(abs(shown) - simulation.widest(sizes).max()) * float(deviation) / most
    near, far = float(np.tanh(angle - reach)), float(np.tanh(angle + reach))
    near = min(max(near, beyond), abs(estimate)) if beyond > 0 else min(near, 0.0)
    return Tested(
        statistic=float(shown),
        p_value=p,
        estimate=estimate,
        interval=(near, far) if sign > 0 else (-far, -near),
    )


def _nuisances_of_two(
    sums: Floats,
    noise: Floats,
    seen: Floats,
    normals: tuple[Floats, Floats],
    simulation: Simulation,
) -> Iterator[tuple[float, Floats, Floats]]:
    """Yield sizes, means and variances, at places of a confidence set."""
    one, other = seen
    parts = np.stack(
        [
            noise[0],
            noise[1] - one * noise[0],
            noise[2] - other * noise[0],
            noise[3] - 2 * one * noise[1] + one**2 * noise[0],
            noise[4] - 2 * other * noise[2] + other**2 * noise[0],
        ],
        axis=1,
    )
    spreads = np.sqrt(np.mean(parts**2, axis=0))
    bound = simulation.bound(np.concatenate([parts / np.maximum(spreads, 1e-12), *normals], axis=1))
    bounds = _Squares(bound)
    own_sums, own_noise = ((each[[0, 0]], each[1:3], each[3:5]) for each in (sums, noise))
    columns = np.stack(own_sums), np.moveaxis(np.stack(own_noise), -1, 1)
    moves = spreads[0] > 0
    for signs in corners(3):
        if signs[0] and not moves:
            continue
        n = max(sums[0] + signs[0] * bound * spreads[0], 4.0)
        high = bounds.between(*columns, seen, np.full(2, n))[1]
        reach = bound * (np.sqrt(high / n) + spreads[1:3] / n)
        means = np.clip(seen + np.array(signs[1:]) * reach, -1, 1)
        ends = [np.sqrt(each) for each in bounds.between(*columns, means, np.full(2, n))]
        for place in _ENDS:
            v = (ends[0] + np.array(place) * (ends[1] - ends[0])) ** 2
            yield n, means, np.maximum(v, 1e-12)


def _made(n: float, means: Floats, v: Floats, squares: Floats, noise: Floats) -> Floats:
    """Return noisy sums of samples with these means, of squares and products at variance 1."""
    xx, yy, xy = squares
    one, other = means
    ones = np.ones_like(xx)
    exact = [
        n * ones,
        n * one * ones,
        n * other * ones,
        v[0] * xx + n * one**2,
        v[1] * yy + n * other**2,
        sqrt(v[0] * v[1]) * xy + n * one * other,
    ]
    return np.stack(exact) + noise


def _seconds(sums: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the rows, both means and variances, and the covariance of sums."""
    n = np.maximum(sums[0], 4.0)
    m = np.clip(sums[1:3] / n, -1, 1)
    return n, m, sums[3:5] / n - m**2, sums[5] / n - m[0] * m[1]


def _covariance(sums: Floats, noise: _Noise) -> tuple[Floats, Floats]:
    """Return the covariance over its standard error without correlation, and that."""
    n, m, v, c = _seconds(sums)
    v = np.maximum(v, 0.0)
    tau = noise.variance(1.0, m[0], m[1], m[0] * m[1]) / n**2
    se = np.sqrt(np.maximum(v[0] * v[1] / n + tau, 1e-24))
    return c / se, se


def _correlation(sums: Floats, floors: Floats) -> Floats:
    """Return the correlation; no sum of squares is below its noise."""
    n, _, v, c = _seconds(sums)
    least = floors.reshape(2, *[1] * (sums.ndim - 1)) / n
    v = np.maximum(v, np.maximum(least, 1e-12))
    return np.asarray(np.clip(c / np.sqrt(v[0] * v[1]), -1, 1))
