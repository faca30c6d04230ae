"""The cells of means, sums, histograms and quantiles.

Data are made with a fixed seed, or are the two files of the demonstration. No cell of a histogram
is near zero: there diffprivlib's counts have an advantage, because they are never negative.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from app.demo import DEMO_DATA
from mechanisms.contract import Json
from mechanisms.domain import CategoryColumn
from mechanisms.privacy import Adjacency
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.total import Sum
from studies.peers.cells import ADD, DISTANCE, REPLACE, Call, Cell, Values, Way, listed, number

SEED = 20261123
_CANDIDATES = {
    False: ((1_001, 2_000), (5_001, 1_000), (50_001, 200)),
    True: ((2_001, 200),),
}
"""Of OpenDP's quantile, spread evenly between the bounds, and draws: many levels or one."""
_ROWS = 1_000
_HIGH = 100.0
_FLOATS = "holds for real numbers; its floats leak (see audits)"
_SAME = "it has the same law: Laplace noise of the same scale"
_EXPONENTIAL = "it has the same law: the exponential mechanism on ranks"
_EMPTY = "it has the same law; its counts are cut off at zero"
_FEW = (
    "permute-and-flip gains where few candidates score alike, so the number of candidates decides, "
    "and which is best depends on the data; ours are the two million points of the column's grid"
)


def cells() -> Iterator[Cell]:
    """Yield every cell."""
    yield from _totals()
    for count, adjacency in ((10, ADD), (10, REPLACE), (100, ADD)):
        yield _histogram(count, adjacency)
    yield from _quantiles()


def file_column(name: str, column: str) -> list[float]:
    """Return the numbers of a column of a demonstration file; rows without one are left out."""
    with (DEMO_DATA / name).open(encoding="utf-8", newline="") as lines:
        return [float(row[column]) for row in csv.DictReader(lines) if row[column]]


def _incomes(rng: np.random.Generator, count: int) -> list[Values]:
    """Return skewed columns between 0 and 100."""
    return [np.minimum(np.exp(rng.normal(3, 0.6, _ROWS)), _HIGH) for _ in range(count)]


def named(value: Json) -> list[float]:
    """Return the numbers of an answer that has one for each column."""
    return [float(cast(float, each)) for each in value.values()]


def counts(value: Json) -> list[float]:
    """Return the counts of an answer."""
    return [float(each["count"]) for each in cast(Sequence[Mapping[str, Any]], value["cells"])]


def drawn_levels(value: Json) -> list[float]:
    """Return the quantiles of an answer."""
    found = cast(Sequence[Mapping[str, Any]], value["quantiles"])
    return [float(each["value"]) for each in found]


def _totals() -> Iterator[Cell]:
    rng = np.random.default_rng(SEED)
    for count in (1, 10, 200):
        names = tuple(f"x{place}" for place in range(count))
        columns = dict(zip(names, _incomes(rng, count), strict=True))
        yield Cell(
            name="mean" if count == 1 else f"means of {count} columns",
            statistic="mean",
            about="1,000 incomes in [0, 100]",
            adjacency=REPLACE,
            epsilon="1",
            question=Mean(columns=names),
            columns=dict.fromkeys(names, number(0, _HIGH)),
            rows=_ROWS,
            values={name: listed(each) for name, each in columns.items()},
            plain={name: listed(each) for name, each in columns.items()},
            truth=[float(each.mean()) for each in columns.values()],
            read=named,
            peers=_additive({"bounds": [0.0, _HIGH]}, REPLACE, 10_000 // count),
        )
    (x,) = _incomes(rng, 1)
    yield Cell(
        name="sum",
        statistic="sum",
        about="1,000 incomes in [0, 100]",
        adjacency=ADD,
        epsilon="1",
        question=Sum(columns=("x",)),
        columns={"x": number(0, _HIGH)},
        rows=_ROWS,
        values={"x": listed(x)},
        plain={"x": listed(x)},
        truth=[float(x.sum())],
        read=named,
        peers=_additive({"bounds": [0.0, _HIGH]}, ADD),
    )


def _additive(
    settings: Mapping[str, object], adjacency: Adjacency, draws: int = 10_000
) -> tuple[Call, ...]:
    common = {**settings, "distance": DISTANCE[adjacency], "epsilon": 1.0}
    return (
        Call(peer="opendp", settings=common, stated=1.0, true=1.0, remark=_SAME, draws=draws),
        Call(
            peer="diffprivlib",
            settings=common,
            stated=1.0,
            true=1.0,
            promise=_FLOATS,
            remark=_SAME,
            draws=draws,
        ),
        Call(peer="tumult", settings=common, stated=1.0, true=1.0, remark=_SAME, draws=draws),
    )


def _histogram(count: int, adjacency: Adjacency) -> Cell:
    rng = np.random.default_rng(SEED + count)
    names = tuple(f"c{place}" for place in range(count))
    cell = np.minimum((rng.beta(2, 2, 100 * count) * count).astype(int), count - 1)
    cell = np.concatenate([cell, np.repeat(np.arange(count), 20)])
    common: dict[str, object] = {"cells": count, "distance": DISTANCE[adjacency]}
    halved = adjacency is REPLACE
    return Cell(
        name=f"histogram of {count} cells, {adjacency.value}",
        statistic="histogram",
        about=f"{len(cell):,} rows, at least 20 in each cell",
        adjacency=adjacency,
        epsilon="1",
        question=Histogram(columns=("cell",)),
        columns={"cell": CategoryColumn(names)},
        rows=len(cell),
        values={"cell": [names[place] for place in cell]},
        plain={"cell": [int(each) for each in cell]},
        truth=[float(each) for each in np.bincount(cell, minlength=count)],
        read=counts,
        peers=(
            Call(
                peer="opendp",
                settings={**common, "epsilon": 1.0},
                stated=1.0,
                true=1.0,
                remark=_SAME,
            ),
            Call(
                peer="diffprivlib",
                settings={**common, "epsilon": 0.5 if halved else 1.0},
                stated=0.5 if halved else 1.0,
                true=1.0,
                promise="holds where a row comes or goes; a replaced row changes two cells, and "
                "so costs twice what is stated"
                if halved
                else "holds",
                remark=_EMPTY,
            ),
            Call(
                peer="tumult",
                settings={**common, "epsilon": 1.0},
                stated=1.0,
                true=1.0,
                remark=_SAME,
                draws=2_000,
            ),
        ),
    )


def _quantiles() -> Iterator[Cell]:
    (x,) = _incomes(np.random.default_rng(SEED + 1), 1)
    food = file_column("engel.csv", "foodexp")
    prices = file_column("california_housing.csv", "median_house_value")
    deciles = tuple(place / 10 for place in range(1, 10))
    for adjacency in (ADD, REPLACE):
        yield _quantile(f"median, {adjacency.value}", listed(x), _HIGH, (0.5,), adjacency)
    yield _quantile("median of Engel's food expenditure", food, 2_500.0, (0.5,), ADD)
    yield _quantile("deciles of Californian house values", prices, 500_001.0, deciles, ADD)


def _quantile(
    name: str, x: list[float], high: float, levels: tuple[float, ...], adjacency: Adjacency
) -> Cell:
    many = len(levels) > 1
    common: dict[str, object] = {
        "bounds": [0.0, high],
        "levels": list(levels),
        "distance": DISTANCE[adjacency],
        "epsilon": 1.0,
    }
    ways: tuple[Way, ...] = (Way(draws=400 if many else 5_000),)
    if many:
        ways += (Way(mechanism="kng", norm="linf", draws=400),)
    return Cell(
        name=name,
        statistic="quantile",
        about=f"{len(x):,} rows in [0, {high:,.0f}]",
        adjacency=adjacency,
        epsilon="1",
        question=Quantile(column="x", levels=levels),
        columns={"x": number(0, high)},
        rows=len(x),
        values={"x": x},
        plain={"x": x},
        truth=[float(each) for each in np.quantile(x, levels, method="inverted_cdf")],
        read=drawn_levels,
        ours=(*ways, Way(mechanism="exponential", draws=400 if many else 5_000)),
        peers=(
            *(
                Call(
                    peer="opendp",
                    label=f"{candidates:,} candidates",
                    settings={**common, "candidates": candidates},
                    stated=1.0,
                    true=1.0,
                    remark=_FEW,
                    draws=draws,
                )
                for candidates, draws in _CANDIDATES[many]
            ),
            Call(
                peer="diffprivlib",
                settings=common,
                stated=1.0,
                true=1.0,
                promise=_FLOATS,
                remark=_EXPONENTIAL,
                draws=100 if many else 2_000,
            ),
            Call(
                peer="tumult",
                settings=common,
                stated=1.0,
                true=1.0,
                remark=_EXPONENTIAL,
                draws=100 if many else 1_000,
            ),
        ),
    )
