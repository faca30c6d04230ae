"""How often the confidence intervals of means, spreads, ranks and shares hold the population's.

    python -m studies.intervals [--replicates 400] [--quick]

prints a Markdown table: the statistic, the population, the rows, the adjacency and epsilon, the
share of 95% intervals that hold the population's number, and their mean width relative to that of
an interval that would be made of the rows themselves, without noise, if their law were normal.

*Populations.* ``normal``, ``skewed`` (a gamma law), ``heavy`` (Student's t of 3 degrees of
freedom), ``rare`` (a yes of 5%), all clamped to bounds from 0 to 100; ``housing``: the rows of the
housing file, from which data sets are drawn. The population's numbers are those of a million rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.demo import DEMO_DATA
from mechanisms.catalog import calibrate
from mechanisms.domain import NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.interquartile_range import InterquartileRange
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.std import Std
from mechanisms.statistics.variance import Variance
from mechanisms.testing import seeded_randomness

Values = Mapping[str, NDArray[np.float64]]
Sample = Callable[[np.random.Generator, int], Values]

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
SHARE = Fraction(1, 2)
"""The share of epsilon that intervals of ranks cost."""
CENSUS = 1_000_000
"""Rows of which the population's numbers are computed."""
_BOUNDS = {"x": (0, 100), "y": (0, 100)}
_HOUSING_BOUNDS = {"x": (0, 15), "y": (0, 500_001)}


def _pair(rng: np.random.Generator, x: NDArray[np.float64]) -> Values:
    y = 20 + 0.6 * x + rng.normal(0, 8, len(x))
    return {"x": x.clip(0, 100), "y": y.clip(0, 100)}


def _normal(rng: np.random.Generator, rows: int) -> Values:
    return _pair(rng, rng.normal(45, 10, rows))


def _skewed(rng: np.random.Generator, rows: int) -> Values:
    return _pair(rng, rng.gamma(2, 8, rows))


def _heavy(rng: np.random.Generator, rows: int) -> Values:
    return _pair(rng, 50 + 5 * rng.standard_t(3, rows))


def _rare(rng: np.random.Generator, rows: int) -> Values:
    flags = (rng.uniform(size=rows) < 0.05).astype(float)
    return {"x": flags, "y": flags}


def _housing(rng: np.random.Generator, rows: int) -> Values:
    table = pl.read_csv(DEMO_DATA / "california_housing.csv").select(
        "median_income", "median_house_value"
    )
    every = table.drop_nulls().to_numpy()
    drawn = every[rng.integers(len(every), size=rows)] if rows < CENSUS else every
    return {"x": drawn[:, 0].astype(float), "y": drawn[:, 1].astype(float)}


POPULATIONS: Mapping[str, Sample] = {
    "normal": _normal,
    "skewed": _skewed,
    "heavy": _heavy,
    "rare": _rare,
    "housing": _housing,
}
_BOTH = ("x", "y")
STATISTICS: Mapping[str, Any] = {
    "mean": Mean(columns=_BOTH),
    "variance": Variance(columns=_BOTH),
    "std": Std(columns=_BOTH),
    "covariance": Covariance(columns=_BOTH),
    "correlation": Correlation(columns=_BOTH),
    "quartiles": Quantile(column="x", levels=(0.25, 0.5, 0.75)),
    "interquartile_range": InterquartileRange(column="x"),
}
_TRUTHS: Mapping[str, Callable[[Values], list[float]]] = {
    "mean": lambda of: [float(of[name].mean()) for name in _BOTH],
    "variance": lambda of: [float(of[name].var()) for name in _BOTH],
    "std": lambda of: [float(of[name].std()) for name in _BOTH],
    "covariance": lambda of: [float(of["x"].var()), _cov(of), float(of["y"].var())],
    "correlation": lambda of: [_cov(of) / float(of["x"].std() * of["y"].std())],
    "quartiles": lambda of: [float(each) for each in np.quantile(of["x"], [0.25, 0.5, 0.75])],
    "interquartile_range": lambda of: [float(np.subtract(*np.quantile(of["x"], [0.75, 0.25])))],
}


def _cov(of: Values) -> float:
    return float(np.mean((of["x"] - of["x"].mean()) * (of["y"] - of["y"].mean())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A statistic of samples of a population."""

    statistic: str
    population: str
    rows: int
    epsilon: str = "1"
    adjacency: Adjacency = ADD

    def schema(self) -> Schema:
        """Return the public facts."""
        bounds = _HOUSING_BOUNDS if self.population == "housing" else _BOUNDS
        columns: dict[str, Any] = {
            name: NumberColumn(Fraction(low), Fraction(high))
            for name, (low, high) in bounds.items()
        }
        if self.population == "rare":
            columns = dict.fromkeys(_BOTH, NumberColumn(Fraction(0), Fraction(1), boolean=True))
        known = self.rows if self.adjacency is REPLACE else None
        return Schema(columns, self.adjacency, known, 2 * self.rows)


_RANKS = frozenset({"quartiles", "interquartile_range"})
_IMPOSSIBLE = frozenset({"covariance", "correlation", *_RANKS})
"""Of one yes-or-no column."""
SETTINGS: tuple[Setting, ...] = (
    *(
        Setting(statistic=statistic, population=population, rows=2_000)
        for statistic in STATISTICS
        for population in POPULATIONS
        if not (population == "rare" and statistic in _IMPOSSIBLE)
    ),
    *(
        Setting(statistic=statistic, population="normal", rows=rows, adjacency=REPLACE, epsilon=e)
        for statistic in STATISTICS
        for rows, e in ((300, "2"), (10_000, "0.3"))
    ),
)
QUICK = tuple(each for each in SETTINGS if each.population == "normal" and each.rows == 2_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of one setting: for all numbers of the answer together, and for the worst one."""

    setting: Setting
    coverage: float
    worst: float
    width: float


def measured(setting: Setting, *, replicates: int, seed: int, narrowed: float = 1.0) -> Row:
    """Return the coverage of the intervals; ``narrowed`` is the factor of a negative control."""
    sample, schema = POPULATIONS[setting.population], setting.schema()
    truths = np.array(_TRUTHS[setting.statistic](sample(np.random.default_rng(0), CENSUS)))
    plan = calibrate(
        STATISTICS[setting.statistic], schema, Epsilon.parse(setting.epsilon), inference=SHARE
    )
    rng = np.random.default_rng(seed)
    ends, own = [], []
    for turn in range(replicates):
        values = sample(rng, setting.rows)
        known = Schema(schema.columns, REPLACE, setting.rows, 2 * setting.rows)
        data = ArrayData.from_values(known, {name: list(each) for name, each in values.items()})
        outcome = plan.draw(data, seeded_randomness(seed * 100_000 + turn))
        assert outcome.inference is not None
        ends.append([term.confidence_95 for term in outcome.inference.terms])
        own.append(_TRUTHS[setting.statistic](values))
    low, high = np.moveaxis(np.array(ends, dtype=float), -1, 0)
    middle = (low + high) / 2
    low, high = middle - (middle - low) * narrowed, middle + (high - middle) * narrowed
    held = ((low <= truths) & (truths <= high)).mean(axis=0)
    without = 2 * 1.96 * np.array(own).std(axis=0)
    return Row(
        setting=setting,
        coverage=float(held.mean()),
        worst=float(held.min()),
        width=float(np.mean((high - low).mean(axis=0) / without)),
    )


def study(settings: tuple[Setting, ...], *, replicates: int, seed: int = 1) -> Iterator[Row]:
    """Yield a row per setting."""
    for place, setting in enumerate(settings):
        yield measured(setting, replicates=replicates, seed=seed + place)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=400, help="data sets per setting")
    parser.add_argument("--quick", action="store_true", help="one population, 100 data sets")
    asked = parser.parse_args()
    settings, replicates = (QUICK, 100) if asked.quick else (SETTINGS, asked.replicates)
    sys.stdout.write(
        "| statistic | population | rows | adjacency | epsilon | coverage | worst number | width |"
        "\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
    )
    for row in study(settings, replicates=replicates):
        of = row.setting
        sys.stdout.write(
            f"| {of.statistic} | {of.population} | {of.rows:,} | `{of.adjacency}` | {of.epsilon} "
            f"| {row.coverage:.3f} | {row.worst:.3f} | {row.width:.1f} |\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
