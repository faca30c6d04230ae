"""Time of draws with the box engine, and its dependence on data and public facts.

Public facts bound the time: rows (or max_rows), coefficients, the kind of law, epsilon. Within them
it depends on how well the data determine the coefficients. Where epsilon times the rows is small, a
law is spread over much of Theta, and the engine bounds many boxes. It also varies at random from
draw to draw. All times are CPU time, with the codes in memory.
"""

from __future__ import annotations

import csv
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from mechanisms.catalog import calibrate
from mechanisms.contract import Statistic
from mechanisms.domain import NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.statistics.quantile_regression import QuantileRegression

_CALIFORNIA = Path(__file__).parent.parent / "app" / "demo_data" / "california_housing.csv"
_BOUNDS = {
    "median_income": (0, 15),
    "housing_median_age": (0, 60),
    "total_rooms": (0, 40_000),
    "median_house_value": (0, 500_001),
}


@dataclass(frozen=True, slots=True)
class Timing:
    """CPU time of several draws, in seconds, and the target of the slowest."""

    what: str
    median_s: float
    slowest_s: float
    target_s: float | None


@dataclass(frozen=True, slots=True)
class _Case:
    what: str
    statistic: Statistic
    mechanism: str
    schema: Schema
    data: ArrayData
    epsilon: str = "1"
    target_s: float | None = None
    repeats: int = 3

    def draw(self) -> Callable[[], object]:
        plan = calibrate(
            self.statistic, self.schema, Epsilon.parse(self.epsilon), mechanism=self.mechanism
        )
        return lambda: plan.draw(self.data, system_randomness())


def timings() -> Iterator[Timing]:
    """Yield each measured draw."""
    for case in _cases():
        call, times = case.draw(), []
        for _ in range(case.repeats):
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
        yield Timing(case.what, statistics.median(times), max(times), case.target_s)


def _cases() -> Iterator[_Case]:
    for rows, d, target in ((10**5, 2, 0.4), (10**5, 3, 2.4), (10**5, 4, 10.0), (10**6, 2, None)):
        schema, data, names = _synthetic(rows, d)
        asked = QuantileRegression(target="y", features=names)
        where = f"d={d}, n={rows}"
        yield _Case(f"quantile regression, kng, {where}", asked, "kng", schema, data, "1", target)
        yield _Case(
            f"quantile regression, exponential, {where}", asked, "exponential", schema, data
        )
    schema, data, names = _synthetic(10**4, 3)
    median = GeometricMedian(columns=names)
    yield _Case("geometric median, d=2, n=10000", median, "kng", schema, data)
    yield from _california()


def _synthetic(rows: int, dimension: int) -> tuple[Schema, ArrayData, tuple[str, ...]]:
    """Return d - 1 uniform features and a linear target y."""
    rng = np.random.default_rng(rows + dimension)
    names = tuple(f"x{number}" for number in range(dimension - 1))
    features = rng.uniform(-1, 1, (dimension - 1, rows))
    y = 0.5 / (dimension - 1) * features.sum(axis=0) + 0.1 * rng.standard_normal(rows)
    unit = NumberColumn(lower=Fraction(-1), upper=Fraction(1))
    schema = Schema(
        columns=dict.fromkeys((*names, "y"), unit),
        adjacency=Adjacency.REPLACE_ONE,
        rows=rows,
    )
    values = dict(zip(names, features, strict=True))
    values |= {"y": np.clip(y, -1, 1)}
    return schema, ArrayData.from_values(schema, values), names


def _california() -> Iterator[_Case]:
    """Yield house value on income, age and rooms: rooms hardly vary inside their public bounds."""
    with _CALIFORNIA.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {
        name: NumberColumn(lower=Fraction(low), upper=Fraction(high))
        for name, (low, high) in _BOUNDS.items()
    }
    schema = Schema(columns=columns, adjacency=Adjacency.REPLACE_ONE, rows=len(rows))
    values = {name: [float(row[name]) for row in rows] for name in columns}
    data = ArrayData.from_values(schema, values)
    features = ("median_income", "housing_median_age", "total_rooms")
    asked = QuantileRegression(target="median_house_value", features=features)
    yield _Case("quantile regression, kng, California d=4", asked, "kng", schema, data, "1", 10.0)
    yield _Case(
        "quantile regression, exponential, California d=4", asked, "exponential", schema, data
    )
