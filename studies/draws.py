"""Time per draw: K-norm noise of m coordinates and certified KNG regressions, sketch ready.

It also measures draws without a sketch: derived columns, which are computed from the rows once, and
sums and counts of the rows that meet conditions or are in groups.

All times are CPU time, because a draw never waits and the machine is shared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mechanisms.catalog import calibrate
from mechanisms.contract import Statistic
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.samplers.knorm import draw_linf
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.quantile import Quantile


@dataclass(frozen=True, slots=True)
class Timing:
    """A median time per call and its target, both in milliseconds."""

    what: str
    median_ms: float
    target_ms: float


def _median_ms(call: Callable[[], object], repeats: int) -> float:
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return 1000 * statistics.median(times)


def _regression_draw(
    n: int, *, bound: float, slopes: float, mechanism: str = "kng"
) -> Callable[[], object]:
    rng = np.random.default_rng(n)
    names = tuple(f"x{number}" for number in range(11))
    unit = NumberColumn(lower=Fraction(-1), upper=Fraction(1))
    schema = Schema(
        columns=dict.fromkeys((*names, "y"), unit), adjacency=Adjacency.REPLACE_ONE, rows=n
    )
    features = rng.uniform(-1, 1, (11, n))
    slope = np.linspace(-1, 1, 11)
    slope *= slopes / np.abs(slope).sum()
    target = np.clip(slope @ features + 0.1 * rng.standard_normal(n), -1, 1)
    data = ArrayData.from_values(schema, dict(zip(names, features, strict=True)) | {"y": target})
    statistic = LinearRegression(target="y", features=names, bound=bound)
    plan = calibrate(statistic, schema, Epsilon.parse("1"), mechanism=mechanism)
    data.gram((*names, "y"))
    return lambda: plan.draw(data, system_randomness())


def timings() -> Iterator[Timing]:
    """Yield each measured draw."""
    for m, target, repeats in ((12, 0.3, 300), (100, 3.0, 100), (1000, 30.0, 20)):
        rate = Fraction(1, 8 * m)
        call = _noise_draw(m, rate)
        yield Timing(f"l_inf noise, m={m}", _median_ms(call, repeats), target)
    for n in (10**4, 10**5):
        for bound, slopes in ((10.0, 1.2), (1.0, 0.6), (1.0, 1.2)):
            call = _regression_draw(n, bound=bound, slopes=slopes)
            place = "inside" if slopes < bound else "outside"
            what = f"KNG linear, d=12, n={n}, fit {place} bound {bound:g}"
            yield Timing(what, _median_ms(call, 30), 5.0)
        call = _regression_draw(n, bound=10.0, slopes=1.2, mechanism="exponential")
        yield Timing(f"exponential linear, d=12, n={n}", _median_ms(call, 30), 10.0)

    for right, columns in (("log(x + 1)", 1), ("x*group + I(x^2)", 5)):
        what = f"features {right} of 10^6 rows, at first"
        derived = LinearRegression(formula=f"y ~ {right}", bound=2)
        yield Timing(what, _median_ms(_draw_of_rows(derived, "kng"), 5), 150.0 * columns)
    above = (Condition(column="y", op=">", value=30),)
    asked: tuple[tuple[str, Statistic, int], ...] = (
        ("mean where y > 30", Mean(columns=("x",), where=above), 2),
        ("mean by group", Mean(columns=("x",), by=("group",)), 2),
        (
            "mean of two by group where y > 30",
            Mean(columns=("x", "y"), by=("group",), where=above),
            3,
        ),
        ("median by group", Quantile(column="x", levels=(0.5,), by=("group",)), 2),
    )
    for what, statistic, columns in asked:
        call = _draw_of_rows(statistic, next(iter(statistic.mechanisms)))
        yield Timing(f"{what}, 10^6 rows", _median_ms(call, 5), 150.0 * columns)


def _draw_of_rows(statistic: Statistic, mechanism: str) -> Callable[[], object]:
    """Return a draw on rows that remember nothing, so that all is computed in each."""
    rng, rows = np.random.default_rng(1), 10**6
    number = NumberColumn(lower=Fraction(0), upper=Fraction(100))
    schema = Schema(
        columns={"x": number, "y": number, "group": CategoryColumn(("a", "b", "c"))},
        adjacency=Adjacency.REPLACE_ONE,
        rows=rows,
    )
    codes = {name: number.encode(rng.uniform(0, 100, rows)) for name in ("x", "y")}
    group = rng.integers(0, 3, rows).astype(np.int32)
    data = ArrayData(schema.columns, {**codes, "group": group})
    plan = calibrate(statistic, schema, Epsilon.parse("1"), mechanism=mechanism)
    return lambda: plan.draw(data, system_randomness())


def _noise_draw(m: int, rate: Fraction) -> Callable[[], object]:
    randomness = system_randomness()
    return lambda: draw_linf(randomness, m, rate)
