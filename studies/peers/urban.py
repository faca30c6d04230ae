"""The Urban Institute's measures of private regressions and quantiles: ours, and the published.

Barrientos, Williams, Snoke and Bowen (2021) compare a private regression with the confidential one.
Their measures are the relative bias, the overlap of the 95% intervals, the ratio of their widths,
whether the signs match, and whether zero is in both intervals or in neither. This study adds
whether the private interval contains the confidential slope. Their tax records are not public, so
it uses California's house values and Engel's households, with public bounds.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.stats import t as student

from app.demo import DEMO_DATA
from mechanisms.catalog import calibrate
from mechanisms.contract import Outcome, Statistic
from mechanisms.derivations import Released, derive
from mechanisms.domain import NumberColumn, Schema
from mechanisms.privacy import Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from studies.peers.cells import REPLACE, Interval, Table, Values, number
from studies.peers.published import quantiles
from studies.peers.published.fits import Asked, Fit
from studies.peers.published.methods import DELTA, METHODS, Method
from studies.peers.regressions import coefficients
from studies.peers.simple import SEED, drawn_levels

SHARE = Fraction(1, 3)
"""Of epsilon, for the intervals of a regression that is released by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A file, the regression of it, and the column whose deciles are asked for."""

    name: str
    file: str
    target: str
    features: tuple[str, ...]
    bounds: Mapping[str, Interval]
    epsilons: tuple[str, ...]

    @property
    def columns(self) -> dict[str, NumberColumn]:
        """Return the columns with their public bounds."""
        return {name: number(*self.bounds[name]) for name in (*self.features, self.target)}

    def table(self) -> dict[str, list[float]]:
        """Return the rows that have a number everywhere, moved to the bounds."""
        names = tuple(self.columns)
        with (DEMO_DATA / self.file).open(encoding="utf-8", newline="") as lines:
            rows = [row for row in csv.DictReader(lines) if all(row[name] for name in names)]
        return {
            name: [min(max(float(row[name]), low), high) for row in rows]
            for name, (low, high) in ((name, self.bounds[name]) for name in names)
        }


STUDIES = (
    Study(
        name="Engel",
        file="engel.csv",
        target="foodexp",
        features=("income",),
        bounds={"income": (0.0, 5_000.0), "foodexp": (0.0, 2_500.0)},
        epsilons=("1", "5"),
    ),
    Study(
        name="California",
        file="california_housing.csv",
        target="median_house_value",
        features=("median_income", "housing_median_age", "total_rooms"),
        bounds={
            "median_income": (0.0, 15.0),
            "housing_median_age": (0.0, 60.0),
            "total_rooms": (0.0, 40_000.0),
            "median_house_value": (0.0, 500_001.0),
        },
        epsilons=("1", "5"),
    ),
)

WAYS = ("moments", "functional", "kng", "objective_perturbation", "exponential")
DECILES = tuple(place / 10 for place in range(1, 10))
QUANTILES = (("kng", "l1"), ("kng", "linf"), ("exponential", "auto"))
_PUBLISHED = "published, "
_REAL = "holds for real numbers"
_EACH_DELTA = (
    "holds for real numbers; here nine levels share delta, where the authors' code gives it to each"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A method, the epsilon that it states, and the guarantee that truly holds."""

    method: str
    epsilon: str
    delta: float = 0.0
    true_epsilon: float | None = None
    promise: str = "holds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Medians over draws, and over slopes or levels; shares are of draws and slopes.

    A measure is None where the mechanism states no interval, or a quantile has none. ``coverage``
    is the share of private intervals that hold the confidential slope. ``epsilon`` is the one asked
    for, ``true_epsilon`` what holds at ``delta`` where a row is replaced, and ``promise`` why.
    """

    study: str
    statistic: str
    epsilon: str
    method: str
    delta: float
    true_epsilon: float
    promise: str
    replicate_count: int
    relative_bias: float
    overlap: float | None
    width_ratio: float | None
    sign_match: float | None
    zero_match: float | None
    coverage: float | None


def findings(*, quick: bool) -> Iterator[Finding]:
    """Yield a row for each study, epsilon and mechanism."""
    for study in STUDIES:
        table = study.table()
        schema = Schema(study.columns, REPLACE, len(table[study.target]))
        data = ArrayData.from_values(schema, table)
        for epsilon in study.epsilons:
            regressions, deciles = (15, 50) if quick else (60, 200)
            for way in WAYS:
                yield _regression(study, data, schema, (epsilon, way), regressions)
            yield from published_regressions(study, table, epsilon, regressions)
            for mechanism, norm in QUANTILES:
                yield _quantiles(study, data, schema, (epsilon, mechanism, norm), deciles)
            yield from published_quantiles(study, table, epsilon, deciles)


def confidential(design: Values, target: Values) -> tuple[list[float], list[Interval]]:
    """Return least squares and its 95% intervals, as a statistics package prints them."""
    rows, d = design.shape
    found, residuals, _, _ = np.linalg.lstsq(design, target, rcond=None)
    inverse = np.linalg.inv(design.T @ design)
    half = student.ppf(0.975, rows - d) * np.sqrt(residuals[0] / (rows - d) * np.diag(inverse))
    ends = zip((found - half).tolist(), (found + half).tolist(), strict=True)
    return [float(each) for each in found], [(low, high) for low, high in ends]


def overlap(one: Interval, other: Interval) -> float:
    """Return the share of each interval that lies in the other, averaged; below 0 if apart.

    >>> overlap((0.0, 2.0), (1.0, 3.0)), overlap((0.0, 1.0), (0.0, 1.0))
    (0.5, 1.0)
    """
    common = min(one[1], other[1]) - max(one[0], other[0])
    return (common / (one[1] - one[0]) + common / (other[1] - other[0])) / 2


def holds_zero(interval: Interval) -> bool:
    """Return whether zero is in an interval."""
    return interval[0] <= 0 <= interval[1]


def _regression(
    study: Study, data: ArrayData, schema: Schema, asked: tuple[str, str], draws: int
) -> Finding:
    epsilon, way = asked
    question = LinearRegression(target=study.target, features=study.features, bound=5.0)
    draw = _drawing(question, schema, epsilon, way)
    fits = [_fit(draw(data)) for _ in range(draws)]
    return _held(study, study.table(), Claim(method=way, epsilon=epsilon), fits)


def _fit(outcome: Outcome) -> Fit:
    found = coefficients(outcome.value)
    if outcome.inference is None:
        return Fit(estimates=found, intervals=None)
    terms = outcome.inference.terms[: len(found)]
    return Fit(estimates=found, intervals=[term.confidence_95 for term in terms])


def published_regressions(
    study: Study, table: Table, epsilon: str, draws: int
) -> Iterator[Finding]:
    """Yield a row for each published method and each kind of its intervals, from the same draws."""
    for method in METHODS:
        if float(epsilon) <= method.most:
            yield from _published(study, table, (epsilon, method), draws)


def _published(
    study: Study, table: Table, asked: tuple[str, Method], draws: int
) -> Iterator[Finding]:
    epsilon, method = asked
    rng = np.random.default_rng(SEED)
    question = Asked(
        rows=np.column_stack([_design(study, table), table[study.target]]),
        bounds=[study.bounds[name] for name in study.columns],
        epsilon=float(epsilon),
        delta=method.delta,
    )
    drawn = [method.draw(question, rng) for _ in range(draws)]
    for kind in drawn[0]:
        claim = Claim(
            method=f"{_PUBLISHED}{method.name}, {kind}",
            epsilon=epsilon,
            delta=method.delta,
            true_epsilon=method.keeps(question),
            promise=method.promise,
        )
        yield _held(study, table, claim, [fits[kind] for fits in drawn])


def _design(study: Study, table: Table) -> Values:
    ones = np.ones(len(table[study.target]))
    return np.column_stack([ones, *(table[name] for name in study.features)])


def _held(study: Study, table: Table, claim: Claim, fits: Sequence[Fit]) -> Finding:
    """Compare private regressions with the confidential one, without intercepts."""
    truths, intervals = confidential(_design(study, table), np.array(table[study.target]))
    compared = [
        _compared(private, interval, truth)
        for fit in fits
        if fit.intervals is not None
        for private, interval, truth in zip(
            fit.intervals[1:], intervals[1:], truths[1:], strict=True
        )
    ]
    pairs = [pair for fit in fits for pair in zip(fit.estimates[1:], truths[1:], strict=True)]
    return Finding(
        study=study.name,
        statistic="linear regression",
        **_of(claim),
        replicate_count=len(fits),
        relative_bias=statistics.median(abs(found / truth - 1) for found, truth in pairs),
        overlap=_median([each.overlap for each in compared]),
        width_ratio=_median([each.width_ratio for each in compared]),
        sign_match=statistics.fmean(found * truth > 0 for found, truth in pairs),
        zero_match=_mean([each.zero_match for each in compared]),
        coverage=_mean([each.holds_slope for each in compared]),
    )


def _of(claim: Claim) -> Any:
    """Return the members of a row that identify the method and its guarantee."""
    found = asdict(claim)
    if claim.true_epsilon is None:
        found["true_epsilon"] = float(claim.epsilon)
    return found


@dataclass(frozen=True, slots=True)
class _Compared:
    overlap: float
    width_ratio: float
    zero_match: bool
    holds_slope: bool


def _compared(private: Interval, interval: Interval, truth: float) -> _Compared:
    """Compare a private interval with the confidential one, and with its slope."""
    return _Compared(
        overlap(private, interval),
        (private[1] - private[0]) / (interval[1] - interval[0]),
        holds_zero(private) == holds_zero(interval),
        private[0] <= truth <= private[1],
    )


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _mean(values: Sequence[bool]) -> float | None:
    return statistics.fmean(values) if values else None


def _drawing(
    question: LinearRegression, schema: Schema, epsilon: str, way: str
) -> Callable[[ArrayData], Outcome]:
    """Return a function that releases a regression with intervals, or derives it from moments."""
    stated = Epsilon.parse(epsilon)
    if way != "moments":
        plan = calibrate(question, schema, stated, mechanism=way, inference=SHARE)
        return lambda data: plan.draw(data, system_randomness())
    asked: Statistic = Moments(columns=tuple(schema.columns))
    moments = calibrate(asked, schema, stated)

    def derived(data: ArrayData) -> Outcome:
        outcome = moments.draw(data, system_randomness())
        released = Released(
            statistic=asked,
            mechanism=moments.mechanism,
            norm=moments.norm,
            epsilon=stated,
            value=outcome.value,
            noise=outcome.noise,
            details=moments.details,
        )
        return derive(question, released, schema)

    return derived


def _quantiles(
    study: Study, data: ArrayData, schema: Schema, asked: tuple[str, str, str], draws: int
) -> Finding:
    epsilon, mechanism, norm = asked
    question = Quantile(column=study.target, levels=DECILES)
    plan = calibrate(question, schema, Epsilon.parse(epsilon), mechanism=mechanism, norm=norm)
    drawn = [drawn_levels(plan.draw(data, system_randomness()).value) for _ in range(draws)]
    name = mechanism if norm == "auto" else f"{mechanism} {norm}"
    return _held_deciles(study, study.table(), Claim(method=name, epsilon=epsilon), drawn)


def published_quantiles(study: Study, table: Table, epsilon: str, draws: int) -> Iterator[Finding]:
    """Yield a row of deciles by exponential mechanisms, and one by smooth sensitivities."""
    rng = np.random.default_rng(SEED)
    bounds = study.bounds[study.target]
    ends = quantiles.gaps(table[study.target], bounds)
    claim = Claim(method=f"{_PUBLISHED}independent exponential", epsilon=epsilon, promise=_REAL)
    ranked = [
        quantiles.independent_exponential(ends, DECILES, float(epsilon), rng) for _ in range(draws)
    ]
    yield _held_deciles(study, table, claim, ranked)
    claim = Claim(
        method=f"{_PUBLISHED}smooth sensitivity", epsilon=epsilon, delta=DELTA, promise=_EACH_DELTA
    )
    laws = quantiles.smooth_laws(ends, DECILES, float(epsilon), DELTA)
    yield _held_deciles(
        study, table, claim, [quantiles.smooth(laws, bounds, rng) for _ in range(draws)]
    )


def _held_deciles(
    study: Study, table: Table, claim: Claim, drawn: Sequence[Sequence[float]]
) -> Finding:
    """Compare private deciles with the confidential ones."""
    truths = np.quantile(table[study.target], DECILES, method="inverted_cdf")
    return Finding(
        study=study.name,
        statistic="deciles",
        **_of(claim),
        replicate_count=len(drawn),
        relative_bias=float(np.median(np.abs(np.array(drawn) / truths - 1))),
        overlap=None,
        width_ratio=None,
        sign_match=None,
        zero_match=None,
        coverage=None,
    )


def lines(found: Sequence[Finding]) -> Iterator[str]:
    """Yield the tables of the page: what was measured, and what the published methods promise."""
    yield (
        "| data | question | epsilon | delta | by | relative bias | overlap | width | sign | zero "
        "| holds | draws |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for each in found:
        shares = (
            each.overlap,
            each.width_ratio,
            each.sign_match,
            each.zero_match,
            each.coverage,
        )
        shown = " | ".join("" if share is None else f"{share:.2f}" for share in shares)
        bias = f"{each.relative_bias:.2g}" if math.isfinite(each.relative_bias) else ""
        yield (
            f"| {each.study} | {each.statistic} | {each.epsilon} | {each.delta:g} "
            f"| `{each.method}` | {bias} | {shown} | {each.replicate_count:,} |"
        )
    yield "\n| published | epsilon | delta | epsilon that holds | why |"
    yield "| --- | --- | --- | --- | --- |"
    largest: dict[tuple[str, str, float, str], float] = {}
    for each in found:
        if each.method.startswith(_PUBLISHED):
            name = each.method.removeprefix(_PUBLISHED)
            name = name.removesuffix(", asymptotic").removesuffix(", bootstrap")
            stated = name, each.epsilon, each.delta, each.promise
            largest[stated] = max(largest.get(stated, 0.0), each.true_epsilon)
    for (name, epsilon, delta, why), true in largest.items():
        yield f"| {name} | {epsilon} | {delta:g} | {true:.3g} | {why} |"
