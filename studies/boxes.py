"""Time of draws by the box engine, and what it depends on.

Public facts that bound it: rows (or max_rows), coefficients, the kind of law, epsilon. Within them
it depends on the data, by how well they determine the coefficients: where epsilon times the rows is
small a law is spread over much of Theta, and many boxes are looked at. And it depends on the
draw's own luck. Processor time, codes ready.
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
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.statistics.logistic_regression import LogisticRegression
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
    """Processor time of several draws, in seconds, beside the target of the slowest."""

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
        logistic = LogisticRegression(target="yes", features=names)
        yield _Case(f"logistic regression, kng, {where}", logistic, "kng", schema, data)
    for rows, d, epsilon in ((10**4, 4, "1"), (10**4, 4, "0.1"), (10**5, 4, "0.1")):
        schema, data, names = _synthetic(rows, d)
        logistic = LogisticRegression(target="yes", features=names)
        what = f"logistic regression, kng, d={d}, n={rows}, epsilon {epsilon}"
        yield _Case(what, logistic, "kng", schema, data, epsilon, repeats=1)
    schema, data, names = _synthetic(10**4, 3)
    median = GeometricMedian(columns=names)
    yield _Case("geometric median, d=2, n=10000", median, "kng", schema, data)
    yield from _california()


def _synthetic(rows: int, dimension: int) -> tuple[Schema, ArrayData, tuple[str, ...]]:
    """Return d - 1 uniform features, a linear target y and a 0/1 target with odds in them."""
    rng = np.random.default_rng(rows + dimension)
    names = tuple(f"x{number}" for number in range(dimension - 1))
    features = rng.uniform(-1, 1, (dimension - 1, rows))
    y = 0.5 / (dimension - 1) * features.sum(axis=0) + 0.1 * rng.standard_normal(rows)
    yes = rng.uniform(size=rows) < 1 / (1 + np.exp(-0.3 - features.sum(axis=0)))
    unit = NumberColumn(lower=Fraction(-1), upper=Fraction(1))
    flag = NumberColumn(lower=Fraction(0), upper=Fraction(1), boolean=True)
    schema = Schema(
        columns=dict.fromkeys((*names, "y"), unit) | {"yes": flag},
        adjacency=Adjacency.REPLACE_ONE,
        rows=rows,
    )
    values = dict(zip(names, features, strict=True))
    values |= {"y": np.clip(y, -1, 1), "yes": yes.astype(np.float64)}
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
    dear = Condition(column="median_house_value", op=">", value=200_000)
    logistic = LogisticRegression(target=dear, features=features)
    yield _Case("logistic regression, kng, California d=4", logistic, "kng", schema, data)
