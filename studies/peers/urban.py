"""The Urban Institute's measures of private regressions and quantiles, for all our mechanisms.

Barrientos, Williams, Snoke and Bowen (2021) hold a private regression against the confidential one:
relative bias, how far the 95% intervals overlap, how wide the private one is beside the other,
whether the signs match, and whether zero is in both intervals or in neither. Their tax records are
not public. Here are California's house values and Engel's households, with public bounds.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.stats import t as student

from app.demo.questions import DEMO_DATA
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
from studies.peers.cells import REPLACE, Values, number
from studies.peers.regressions import coefficients
from studies.peers.simple import drawn_levels

SHARE = Fraction(1, 3)
"""Of epsilon, for the intervals of a regression that is released by itself."""

Interval = tuple[float, float]


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
WITHOUT = frozenset({"exponential"})
"""Ways whose noise has no law that intervals could follow from."""
DECILES = tuple(place / 10 for place in range(1, 10))
QUANTILES = (("kng", "l1"), ("kng", "linf"), ("exponential", "auto"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Medians over draws, and over slopes or levels; shares are of draws and slopes.

    A measure is None where the mechanism states no interval, or a quantile has none.
    """

    study: str
    statistic: str
    epsilon: str
    method: str
    replicate_count: int
    relative_bias: float
    overlap: float | None
    width_ratio: float | None
    sign_match: float | None
    zero_match: float | None


def findings(*, quick: bool) -> Iterator[Finding]:
    """Yield a row for each study, epsilon and mechanism."""
    for study in STUDIES:
        table = study.table()
        schema = Schema(study.columns, REPLACE, len(table[study.target]))
        data = ArrayData.from_values(schema, table)
        for epsilon in study.epsilons:
            for way in WAYS:
                yield _regression(study, data, schema, (epsilon, way), 15 if quick else 60)
            for mechanism, norm in QUANTILES:
                yield _quantiles(study, data, schema, (epsilon, mechanism, norm), quick=quick)


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
    """Tell whether zero is in an interval."""
    return interval[0] <= 0 <= interval[1]


def _regression(
    study: Study, data: ArrayData, schema: Schema, asked: tuple[str, str], draws: int
) -> Finding:
    epsilon, way = asked
    table = study.table()
    design = np.column_stack([np.ones(data.rows), *(table[name] for name in study.features)])
    truths, intervals = confidential(design, np.array(table[study.target]))
    question = LinearRegression(target=study.target, features=study.features, bound=5.0)
    draw = _drawing(question, schema, epsilon, way)
    drawn = [draw(data) for _ in range(draws)]
    compared = [
        _compared(outcome, truths[1:], intervals[1:])
        for outcome in drawn
        if outcome.inference is not None
    ]
    slopes = [coefficients(outcome.value)[1:] for outcome in drawn]
    pairs = [pair for each in slopes for pair in zip(each, truths[1:], strict=True)]
    return Finding(
        study=study.name,
        statistic="linear regression",
        epsilon=epsilon,
        method=way,
        replicate_count=draws,
        relative_bias=statistics.median(abs(found / truth - 1) for found, truth in pairs),
        overlap=_median([each.overlap for some in compared for each in some]),
        width_ratio=_median([each.width_ratio for some in compared for each in some]),
        sign_match=statistics.fmean(found * truth > 0 for found, truth in pairs),
        zero_match=_mean([each.zero_match for some in compared for each in some]),
    )


@dataclass(frozen=True, slots=True)
class _Compared:
    overlap: float
    width_ratio: float
    zero_match: bool


def _compared(
    outcome: Outcome, truths: Sequence[float], intervals: Sequence[Interval]
) -> list[_Compared]:
    """Return how the private intervals of slopes lie to the confidential ones."""
    if outcome.inference is None:
        raise ValueError("an answer without intervals")
    terms = outcome.inference.terms[1 : len(truths) + 1]
    found = []
    for term, interval in zip(terms, intervals, strict=True):
        low, high = term.confidence_95
        found.append(
            _Compared(
                overlap((low, high), interval),
                (high - low) / (interval[1] - interval[0]),
                holds_zero((low, high)) == holds_zero(interval),
            )
        )
    return found


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _mean(values: Sequence[bool]) -> float | None:
    return statistics.fmean(values) if values else None


def _drawing(
    question: LinearRegression, schema: Schema, epsilon: str, way: str
) -> Callable[[ArrayData], Outcome]:
    """Return what releases a regression with its intervals, or derives it from moments."""
    stated = Epsilon.parse(epsilon)
    if way != "moments":
        share = None if way in WITHOUT else SHARE
        plan = calibrate(question, schema, stated, mechanism=way, inference=share)
        return lambda data: plan.draw(data, system_randomness())
    asked: Statistic = Moments(columns=tuple(schema.columns))
    moments = calibrate(asked, schema, stated)

    def derived(data: ArrayData) -> Outcome:
        outcome = moments.draw(data, system_randomness())
        released = Released(
            statistic=asked,
            norm=moments.norm,
            epsilon=stated,
            value=outcome.value,
            noise=outcome.noise,
            details=moments.details,
        )
        return derive(question, released, schema)

    return derived


def _quantiles(
    study: Study, data: ArrayData, schema: Schema, asked: tuple[str, str, str], *, quick: bool
) -> Finding:
    epsilon, mechanism, norm = asked
    question = Quantile(column=study.target, levels=DECILES)
    plan = calibrate(question, schema, Epsilon.parse(epsilon), mechanism=mechanism, norm=norm)
    truths = np.quantile(study.table()[study.target], DECILES, method="inverted_cdf")
    draws = 50 if quick else 200
    biases: list[float] = []
    for _ in range(draws):
        found = drawn_levels(plan.draw(data, system_randomness()).value)
        biases += np.abs(np.array(found) / truths - 1).tolist()
    return Finding(
        study=study.name,
        statistic="deciles",
        epsilon=epsilon,
        method=mechanism if norm == "auto" else f"{mechanism} {norm}",
        replicate_count=draws,
        relative_bias=statistics.median(biases),
        overlap=None,
        width_ratio=None,
        sign_match=None,
        zero_match=None,
    )


def lines(found: Sequence[Finding]) -> Iterator[str]:
    """Yield the table of the page."""
    yield (
        "| data | question | epsilon | by | relative bias | overlap | width | sign | zero | draws |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for each in found:
        shares = (each.overlap, each.width_ratio, each.sign_match, each.zero_match)
        told = " | ".join("" if share is None else f"{share:.2f}" for share in shares)
        bias = f"{each.relative_bias:.2g}" if math.isfinite(each.relative_bias) else ""
        yield (
            f"| {each.study} | {each.statistic} | {each.epsilon} | `{each.method}` | {bias} "
            f"| {told} | {each.replicate_count:,} |"
        )
