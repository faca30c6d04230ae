"""What proves each offer of the catalog: one question, one worst pair of neighbours per offer.

:mod:`tests.mechanisms.test_every_offer` reads the catalog and this table. An offer (statistic x
mechanism x norm x adjacency) that no entry of :data:`PROOFS` covers fails the suite.

To add an offer, append one :class:`Proof` per statistic x mechanism:

1. ``statistic`` is a question on :data:`COLUMNS` (or on columns of your own). It is drawn on empty,
   single-row, constant and mixed data at the smallest and the largest epsilon, so keep it small.
2. ``shape`` is the answer's value with every number replaced by 0.0. Give ``shape_add_remove``
   where the answer differs under add-remove.
3. ``common`` and ``changed`` are the worst pair of neighbours you know: the records both data sets
   hold, then the one that is replaced, before and after. Under add-remove it is removed.
4. ``reading`` takes one number from the value, the one that tells the pair apart best; the events
   of the black-box audit are "above" and "at most" each of ``cuts``. Choose them from the
   mechanism's law, before looking at draws.
   ``compared`` are the members that an answer in groups has besides those of the groups.
5. ``draws`` per data set, so that an audit takes less than about half a second of processor time
   (both data sets, and again for the twin). A few hundred are enough for a twin that is far away:
   most entries here catch theirs with a chance above 0.97. ``draws_replace_one`` is for pairs that
   are told apart sooner where a record is replaced, ``fewer`` for norms by which they are.
6. ``caught_at``: the audit must flag the same mechanism calibrated at this many times epsilon. It
   proves that the pair, the events and the number of draws could have found a violation. An audit
   of few draws on a simple pair sees about half of a K-norm gradient's loss, so 4 to 6 is usual
   there. Other neighbours reach all of it: nothing may be tightened because an audit finds less.
7. ``noise`` says whether a release states its noise. ``details["noise"]`` of every plan says in a
   sentence what is known, or why nothing is: the suite checks that too. ``noise_is_bound``: the
   answer is nearer to the truth than stated, as post-processing removes a part of the noise.
8. ``plain`` (optional): the value by numpy, from the columns' clamped values. A release at the
   largest epsilon comes to it.
9. A regression's entry on the feature ``x`` is proved again, by generation, on a product
   with an expression and on a category that stand for it: see :func:`on_designs`.
10. ``norms``, ``adjacencies`` and ``refused`` narrow an entry to what its question can be drawn by;
   some entry must then cover the rest. What is ``refused`` is tested to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from mechanisms.analysis.hypothesis import HypothesisTest
from mechanisms.analysis.pca import PrincipalComponents
from mechanisms.analysis.summary import Summary
from mechanisms.domain import CategoryColumn, Column, NumberColumn
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.count import Count
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.curves.kaplan_meier import KaplanMeier
from mechanisms.statistics.curves.roc import Roc
from mechanisms.statistics.designs.cox_regression import CoxRegression
from mechanisms.statistics.designs.features import Category, Expression, Feature, Product
from mechanisms.statistics.designs.multinomial_regression import MultinomialRegression
from mechanisms.statistics.designs.poisson_regression import PoissonRegression
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.interquartile_range import InterquartileRange
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.std import Std
from mechanisms.statistics.tables import Tables
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance
from tests.mechanisms.proof import ADD, COLUMNS, REPLACE, Proof, Record, record

FITS = LinearRegression | LogisticRegression | PoissonRegression | QuantileRegression
OF_LOSSES = FITS | MultinomialRegression | CoxRegression
ABOVE = (Condition(column="x", op=">", value=0),)
WITHIN = (Condition(column="group", op="==", value="a"),)

LEVELS: Mapping[str, Column] = {**COLUMNS, "level": CategoryColumn(("a", "b", "c"))}
WEIGHED: Mapping[str, Column] = {**COLUMNS, "w": NumberColumn(Fraction(0), Fraction(4))}


def leveled(level: str, x: float) -> Record:
    """Return a record of one of several levels."""
    return {**record(x=x), "level": level}


def weighed(w: float, x: float = 0.0, y: float = 0.0, yes: int = 0) -> Record:
    """Return a record that counts by a weight."""
    return {**record(x=x, y=y, yes=yes), "w": w}


def _weighted_means(columns: Mapping[str, Any]) -> Mapping[str, Any]:
    weights = columns["w"]
    return {name: (weights * columns[name]).sum() / weights.sum() for name in ("x", "y")}


def _weighted_variance(columns: Mapping[str, Any]) -> float:
    weights, x = columns["w"], columns["x"]
    mean = (weights * x).sum() / weights.sum()
    return float((weights * (x - mean) ** 2).sum() / weights.sum())


def _weighted_covariances(columns: Mapping[str, Any]) -> Any:
    return np.cov(columns["x"], columns["y"], aweights=columns["w"], bias=True)


def _weighted_correlations(columns: Mapping[str, Any]) -> Any:
    found = _weighted_covariances(columns)
    return found / np.sqrt(np.outer(np.diag(found), np.diag(found)))


_CELLS = {"group": ("a", "b", "c"), "yes": ("false", "true"), "kind": ("low", "high")}


def _table(columns: Sequence[str]) -> Mapping[str, Any]:
    """The shape of one table."""
    cells = product(*(_CELLS[name] for name in columns))
    named = [dict(zip(columns, each, strict=True)) for each in cells]
    return {"columns": list(columns), "cells": [{"cell": cell, "count": 0.0} for cell in named]}


def _counts(value: Any) -> list[float]:
    """The counts of the first table."""
    return [cell["count"] for cell in value["tables"][0]["cells"]]


def summary_row(
    column: str | None, measure: str, level: str | None = None, *, of: str = "data"
) -> Mapping[str, Any]:
    """Return the shape of a row of a summary of all records."""
    return {
        "by": {}, "column": column, "measure": measure, "level": level, "value": 0.0,
        "interval": [0.0, 0.0], "interval_of": of,
    }  # fmt: skip


LISTED: tuple[Proof, ...] = (
    Proof(
        statistic=Count(where=ABOVE),
        mechanism="k_norm",
        shape={"count": 0.0},
        common=[record(x=-1)] * 3,
        changed=(record(x=1), record(x=-1)),
        reading=lambda value: value["count"],
        cuts=(-0.5, 0.5, 1.5),
        caught_at=3,
        draws=100,
        noise=True,
    ),
    Proof(
        statistic=Count(),
        mechanism="k_norm",
        shape={"count": 0.0},
        common=[record()] * 3,
        changed=(record(), record()),
        reading=lambda value: value["count"],
        cuts=(2.5, 3.5, 4.5),
        caught_at=3,
        draws=100,
        noise=True,
        adjacencies=(ADD,),
    ),
    Proof(
        statistic=Histogram(columns=("group",)),
        mechanism="k_norm",
        shape={"cells": [{"cell": {"group": name}, "count": 0.0} for name in "abc"]},
        common=[record(group="a"), record(group="b"), record(group="c")],
        changed=(record(group="a"), record(group="b")),
        reading=lambda value: value["cells"][0]["count"] - value["cells"][1]["count"],
        cuts=(-1.0, 0.0, 1.0, 2.0),
        caught_at=6,
        draws_replace_one=100,
        fewer={"optimal": 100, "l1": 100},
        noise=True,
    ),
    Proof(
        statistic=Histogram(columns=("x",), edges={"x": (-1, -0.5, 0, 0.5, 1)}, ranges=True),
        mechanism="k_norm",
        norms=("l1",),
        shape={
            "cells": [
                {"cell": {"x": label}, "count": 0.0, "cumulative": 0.0}
                for label in ("[-1,-0.5)", "[-0.5,0)", "[0,0.5)", "[0.5,1]")
            ]
        },
        common=[record(x=x) for x in (-1, -0.5, 0, 1)] * 4,
        changed=(record(x=-1), record(x=1)),
        reading=lambda value: value["cells"][0]["count"] - value["cells"][3]["count"],
        cuts=(-1.0, 0.0, 1.0, 2.0),
        caught_at=8,
        noise=True,
        noise_is_bound=True,
    ),
    Proof(
        statistic=Tables(columns=("group",), margins="all_one_way", raw=True),
        mechanism="margins",
        shape={"tables": [_table(("group",))], "rows": 0.0},
        common=[record(group="a"), record(group="b"), record(group="c")],
        changed=(record(group="a"), record(group="b")),
        reading=lambda value: _counts(value)[0] - _counts(value)[1],
        cuts=(-1.0, 0.0, 1.0, 2.0),
        caught_at=6,
        noise=True,
    ),
    Proof(
        statistic=Tables(columns=("group", "yes")),
        mechanism="margins",
        shape={"tables": [_table(("group", "yes"))], "rows": 0.0},
        common=[record(group=group, yes=yes) for group in "abc" for yes in (0, 1)] * 3,
        changed=(record(group="a"), record(group="b", yes=1)),
        reading=lambda value: _counts(value)[0] - _counts(value)[3],
        cuts=(-1.0, 0.0, 1.0, 2.0),
        caught_at=8,
        noise=True,
        noise_is_bound=True,
        draws=150,
    ),
    Proof(
        statistic=Tables(columns=("yes", "kind"), raw=True),
        mechanism="margins",
        shape={"tables": [_table(("yes", "kind"))], "rows": 0.0},
        common=[record()] * 3,
        changed=(record(), record(yes=1)),
        reading=lambda value: _counts(value)[0] - _counts(value)[2],
        cuts=(1.0, 2.0, 3.0, 4.0),
        caught_at=8,
        noise=True,
    ),
    Proof(
        statistic=Tables(columns=("group", "yes"), weights="w", raw=True),
        mechanism="margins",
        columns=WEIGHED,
        shape={"tables": [_table(("group", "yes"))], "rows": 0.0},
        common=[weighed(0)] * 3,
        changed=(weighed(4), weighed(4, yes=1)),
        reading=lambda value: _counts(value)[0] - _counts(value)[1],
        cuts=(-4.0, 0.0, 4.0, 8.0),
        caught_at=6,
        noise=True,
    ),
    Proof(
        statistic=Sum(columns=("x", "y")),
        mechanism="k_norm",
        shape={"x": 0.0, "y": 0.0},
        common=[record(x=-1, y=-1)] * 3,
        changed=(record(x=1, y=1), record(x=-1, y=-1)),
        reading=lambda value: min(value["x"], value["y"]),
        cuts=(-4.0, -3.0, -2.0, -1.0),
        caught_at=4,
        noise=True,
    ),
    Proof(
        statistic=Sum(columns=("x",), where=WITHIN),
        mechanism="k_norm",
        shape={"x": 0.0},
        common=[record(x=0.5)] * 3,
        changed=(record(x=1), record(x=-1)),
        reading=lambda value: value["x"],
        cuts=(1.0, 1.5, 2.0, 2.5),
        caught_at=4,
        noise=True,
    ),
    Proof(
        statistic=Mean(columns=("x", "y")),
        mechanism="k_norm",
        plain=lambda columns: {name: columns[name].mean() for name in ("x", "y")},
        shape={"x": 0.0, "y": 0.0},
        common=[record(x=-1, y=-1)] * 3,
        changed=(record(x=1, y=1), record(x=-1, y=-1)),
        reading=lambda value: min(value["x"], value["y"]),
        cuts=(-1.0, -0.75, -0.5, 0.0),
        caught_at=6,
        draws=200,
        draws_replace_one=100,
        fewer={"l2": 100, "linf": 100, "optimal": 100},
        noise=True,
    ),
    Proof(
        statistic=Sum(columns=("x", "y"), weights="w"),
        mechanism="k_norm",
        columns=WEIGHED,
        plain=lambda columns: {name: (columns["w"] * columns[name]).sum() for name in ("x", "y")},
        shape={"x": 0.0, "y": 0.0},
        common=[weighed(0, x=1)] * 3,
        changed=(weighed(4, x=1, y=1), weighed(4, x=-1, y=-1)),
        reading=lambda value: min(value["x"], value["y"]),
        cuts=(-4.0, 0.0, 2.0, 4.0),
        caught_at=4,
        noise=True,
    ),
    Proof(
        statistic=Mean(columns=("x", "y"), weights="w"),
        mechanism="k_norm",
        columns=WEIGHED,
        plain=_weighted_means,
        shape={"x": 0.0, "y": 0.0},
        common=[weighed(4, x=-1, y=-1)] * 3,
        changed=(weighed(4, x=1, y=1), weighed(4, x=-1, y=-1)),
        reading=lambda value: min(value["x"], value["y"]),
        cuts=(-1.0, -0.75, -0.5, 0.0),
        caught_at=6,
        noise=True,
    ),
    Proof(
        statistic=Count(weights="w"),
        mechanism="k_norm",
        columns=WEIGHED,
        plain=lambda columns: {"count": columns["w"].sum()},
        shape={"count": 0.0},
        common=[weighed(0)] * 3,
        changed=(weighed(4), weighed(0)),
        reading=lambda value: value["count"],
        cuts=(-2.0, 0.0, 2.0, 4.0),
        caught_at=4,
        draws=100,
        noise=True,
    ),
    Proof(
        statistic=Histogram(columns=("yes",), weights="w"),
        mechanism="k_norm",
        columns=WEIGHED,
        shape={"cells": [{"cell": {"yes": name}, "count": 0.0} for name in ("false", "true")]},
        common=[weighed(0)] * 3,
        changed=(weighed(4), weighed(4, yes=1)),
        reading=lambda value: value["cells"][0]["count"] - value["cells"][1]["count"],
        cuts=(-4.0, 0.0, 4.0, 8.0),
        caught_at=6,
        draws_replace_one=100,
        fewer={"optimal": 100, "l1": 100},
        noise=True,
    ),
    Proof(
        statistic=Variance(columns=("x",)),
        mechanism="k_norm",
        plain=lambda columns: {"x": columns["x"].var()},
        shape={"x": 0.0},
        common=[record(x=-1)] * 3,
        changed=(record(x=1), record(x=-1)),
        reading=lambda value: value["x"],
        cuts=(0.0, 0.25, 0.5, 0.75),
        caught_at=8,
        draws=100,
        noise=True,
    ),
    Proof(
        statistic=Std(columns=("x",)),
        mechanism="k_norm",
        plain=lambda columns: {"x": columns["x"].std()},
        shape={"x": 0.0},
        common=[record(x=-1)] * 3,
        changed=(record(x=1), record(x=-1)),
        reading=lambda value: value["x"],
        cuts=(0.0, 0.5, 0.7, 0.85),
        caught_at=8,
        draws=100,
        noise=True,
    ),
    Proof(
        statistic=Variance(columns=("x",), weights="w"),
        mechanism="k_norm",
        columns=WEIGHED,
        plain=lambda columns: {"x": _weighted_variance(columns)},
        shape={"x": 0.0},
        common=[weighed(4, x=-1)] * 3,
        changed=(weighed(4, x=1), weighed(4, x=-1)),
        reading=lambda value: value["x"],
        cuts=(0.0, 0.25, 0.5, 0.75),
        caught_at=8,
        draws=100,
        noise=True,
    ),
    Proof(
        statistic=Std(columns=("x",), weights="w"),
        mechanism="k_norm",
        columns=WEIGHED,
        plain=lambda columns: {"x": _weighted_variance(columns) ** 0.5},
        shape={"x": 0.0},
        common=[weighed(4, x=-1)] * 3,
        changed=(weighed(4, x=1), weighed(4, x=-1)),
        reading=lambda value: value["x"],
        cuts=(0.0, 0.5, 0.75),
        caught_at=8,
        draws=100,
        noise=True,
    ),
    Proof(
        statistic=Moments(columns=("x", "y")),
        mechanism="k_norm",
        shape={"means": {"x": 0.0, "y": 0.0}, "second": [[0.0, 0.0], [0.0, 0.0]]},
        shape_add_remove={
            "count": 0.0,
            "means": {"x": 0.0, "y": 0.0},
            "second": [[0.0, 0.0], [0.0, 0.0]],
        },
        common=[record(x=-1, y=-1)] * 3,
        changed=(record(x=1, y=1), record(x=-1, y=-1)),
        reading=lambda value: min(value["means"].values()),
        cuts=(-2.0, -1.0, -0.75, -0.5, 0.0),
        caught_at=10,
        draws=200,
        draws_replace_one=120,
        fewer={"linf": 100, "optimal": 80},
        noise=True,
    ),
    Proof(
        statistic=Covariance(columns=("x", "y")),
        mechanism="k_norm",
        shape={"matrix": [[0.0, 0.0], [0.0, 0.0]]},
        common=[record(x=-1, y=-1)] * 3,
        changed=(record(x=1, y=1), record(x=-1, y=-1)),
        reading=lambda value: value["matrix"][0][0],
        cuts=(0.0, 0.25, 0.5, 0.75),
        caught_at=12,
        noise=True,
        draws=200,
        fewer={"l2": 130, "linf": 100, "optimal": 80},
    ),
    Proof(
        statistic=Covariance(columns=("x", "y"), weights="w"),
        mechanism="k_norm",
        columns=WEIGHED,
        plain=lambda columns: {"matrix": _weighted_covariances(columns).tolist()},
        shape={"matrix": [[0.0, 0.0], [0.0, 0.0]]},
        common=[weighed(4, x=-1, y=-1)] * 3,
        changed=(weighed(4, x=1, y=1), weighed(4, x=-1, y=-1)),
        reading=lambda value: value["matrix"][0][0],
        cuts=(0.0, 0.25, 0.5, 0.75),
        caught_at=12,
        draws=200,
        noise=True,
    ),
    Proof(
        statistic=Correlation(columns=("x", "y")),
        mechanism="k_norm",
        shape={"matrix": [[0.0, 0.0], [0.0, 0.0]]},
        common=[record(x=-1, y=-1), record(x=1, y=1)],
        changed=(record(x=1, y=-1), record(x=-1, y=-1)),
        reading=lambda value: value["matrix"][0][1],
        cuts=(-0.5, 0.0, 0.5),
        caught_at=40,
        draws=160,
        noise=True,
    ),
    Proof(
        statistic=Correlation(columns=("x", "y"), weights="w"),
        mechanism="k_norm",
        columns=WEIGHED,
        plain=lambda columns: {"matrix": _weighted_correlations(columns).tolist()},
        shape={"matrix": [[0.0, 0.0], [0.0, 0.0]]},
        common=[weighed(4, x=-1, y=-1), weighed(4, x=1, y=1)],
        changed=(weighed(4, x=1, y=-1), weighed(4, x=-1, y=-1)),
        reading=lambda value: value["matrix"][0][1],
        cuts=(-0.5, 0.0, 0.5),
        caught_at=40,
        draws=160,
        noise=True,
    ),
    Proof(
        statistic=PrincipalComponents(columns=("x", "y"), components=1),
        mechanism="k_norm",
        shape={
            "means": {"x": 0.0, "y": 0.0},
            "components": [
                {
                    "variance": 0.0,
                    "share": 0.0,
                    "cumulative": 0.0,
                    "loadings": {"x": 0.0, "y": 0.0},
                    "scores": {"x": 0.0, "y": 0.0},
                }
            ],
        },
        common=[record(x=-1, y=-1), record(x=1, y=1)],
        changed=(record(x=1, y=-1), record(x=-1, y=-1)),
        reading=lambda value: value["components"][0]["variance"],
        cuts=(1.6, 1.75, 1.9),
        caught_at=40,
        draws=160,
        noise=True,
    ),
    Proof(
        statistic=Quantile(column="x", levels=(0.5,)),
        mechanism="kng",
        shape={"quantiles": [{"level": "0.5", "value": 0.0}]},
        common=[record(x=0.5)],
        changed=(record(x=-1), record(x=1)),
        reading=lambda value: value["quantiles"][0]["value"],
        cuts=(0.0, 0.5),
        caught_at=4,
        noise=False,
    ),
    Proof(
        statistic=Quantile(column="x", levels=(0.5,)),
        mechanism="exponential",
        shape={"quantiles": [{"level": "0.5", "value": 0.0}]},
        common=[record(x=0.5)],
        changed=(record(x=-1), record(x=1)),
        reading=lambda value: value["quantiles"][0]["value"],
        cuts=(0.0, 0.5),
        caught_at=4,
        noise=False,
    ),
    Proof(
        statistic=Quantile(column="x", levels=(0.5,), weights="w"),
        mechanism="kng",
        columns=WEIGHED,
        shape={"quantiles": [{"level": "0.5", "value": 0.0}]},
        common=[weighed(4, x=0.5)],
        changed=(weighed(4, x=-1), weighed(4, x=1)),
        reading=lambda value: value["quantiles"][0]["value"],
        cuts=(0.0, 0.5),
        caught_at=4,
        noise=False,
        norms=("linf",),
        refused=(("l1", REPLACE), ("l1", ADD)),
    ),
    Proof(
        statistic=Quantile(column="x", levels=(0.5,), weights="w"),
        mechanism="exponential",
        columns=WEIGHED,
        shape={"quantiles": [{"level": "0.5", "value": 0.0}]},
        common=[weighed(4, x=0.5)],
        changed=(weighed(4, x=-1), weighed(4, x=1)),
        reading=lambda value: value["quantiles"][0]["value"],
        cuts=(0.0, 0.5),
        caught_at=4,
        noise=False,
    ),
    Proof(
        statistic=InterquartileRange(column="x"),
        mechanism="kng",
        shape={"x": 0.0},
        common=[record(x=x) for x in (*[-0.1] * 4, *[0.8] * 3, *[1] * 3)],
        changed=(record(x=-1), record(x=1)),
        reading=lambda value: value["x"],
        cuts=(0.25, 0.5, 0.75, 1.0, 1.25),
        caught_at=16,
        noise=False,
    ),
    Proof(
        statistic=InterquartileRange(column="x"),
        mechanism="exponential",
        shape={"x": 0.0},
        common=[record(x=x) for x in (*[-0.1] * 4, *[0.8] * 3, *[1] * 3)],
        changed=(record(x=-1), record(x=1)),
        reading=lambda value: value["x"],
        cuts=(0.25, 0.5, 0.75, 1.0, 1.25),
        caught_at=16,
        noise=False,
    ),
    Proof(
        statistic=LinearRegression(target="y", features=("x",), intercept=False, bound=1.0),
        mechanism="kng",
        shape={"coefficients": {"x": 0.0}},
        common=[record(x=1, y=0)],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(-0.5, 0.0, 0.5),
        caught_at=6,
        draws=450,
        noise=False,
    ),
    Proof(
        statistic=LinearRegression(
            target="y", features=("x",), intercept=False, bound=1.0, loss="squared"
        ),
        mechanism="objective_perturbation",
        shape={"coefficients": {"x": 0.0}},
        common=[record(x=1, y=0)],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(-0.5, 0.0, 0.5),
        caught_at=8,
        draws_replace_one=160,
        noise=False,
    ),
    Proof(
        statistic=LinearRegression(
            target="y", features=("x",), intercept=False, bound=1.0, threshold=1.0
        ),
        mechanism="objective_perturbation",
        shape={"coefficients": {"x": 0.0}},
        common=[record(x=1, y=0)],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(-0.5, 0.0, 0.5),
        caught_at=8,
        draws_replace_one=160,
        noise=False,
        norms=("linf",),
    ),
    Proof(
        statistic=LinearRegression(target="y", features=("x",), intercept=False, bound=1.0),
        mechanism="functional",
        shape={"coefficients": {"x": 0.0}},
        common=[record(x=1, y=0)],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(0.0,),
        caught_at=20,
        draws=100,
        draws_replace_one=40,
        noise=True,
        norms=("linf", "l2", "l1"),
        refused=(("optimal", REPLACE), ("optimal", ADD)),
    ),
    Proof(
        statistic=LinearRegression(target="y", features=("x",), bound=1.0),
        mechanism="functional",
        shape={"coefficients": {"(intercept)": 0.0, "x": 0.0}},
        common=[record(x=1, y=0), record(x=-1, y=0)],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: sum(value["coefficients"].values()),
        cuts=(0.0,),
        caught_at=20,
        draws=100,
        draws_replace_one=40,
        noise=True,
        norms=("optimal",),
    ),
    Proof(
        statistic=LinearRegression(target="y", features=("x",), bound=1.0, weights="w"),
        mechanism="functional",
        columns=WEIGHED,
        shape={"coefficients": {"(intercept)": 0.0, "x": 0.0}},
        common=[weighed(4, x=1, y=0), weighed(4, x=-1, y=0)],
        changed=(weighed(4, x=1, y=1), weighed(4, x=1, y=-1)),
        reading=lambda value: sum(value["coefficients"].values()),
        cuts=(0.0,),
        caught_at=20,
        draws=100,
        draws_replace_one=40,
        noise=True,
    ),
    Proof(
        statistic=LinearRegression(target="y", features=("x",), intercept=False, bound=1.0),
        mechanism="exponential",
        shape={"coefficients": {"x": 0.0}},
        common=[record(x=1, y=0)],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(-0.5, 0.0, 0.5),
        caught_at=20,
        draws=200,
        draws_replace_one=130,
        noise=False,
    ),
    Proof(
        statistic=LogisticRegression(target="yes", features=("x",), intercept=False, bound=1.0),
        mechanism="objective_perturbation",
        shape={"coefficients": {"x": 0.0}},
        common=[record(x=1, yes=1), record(x=1, yes=0)],
        changed=(record(x=1, yes=1), record(x=1, yes=0)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(-0.8, 0.0, 0.8),
        caught_at=8,
        draws=300,
        draws_replace_one=160,
        noise=False,
    ),
    Proof(
        statistic=PoissonRegression(target="yes", features=("x",), intercept=False, bound=1.0),
        mechanism="objective_perturbation",
        shape={"coefficients": {"x": 0.0}},
        common=[record(x=1, yes=1), record(x=1, yes=0)],
        changed=(record(x=1, yes=0), record(x=-1, yes=0)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(-0.8, 0.0, 0.8),
        caught_at=8,
        draws=200,
        draws_replace_one=120,
        noise=False,
    ),
    Proof(
        statistic=MultinomialRegression(
            target="level", features=("x",), intercept=False, bound=1.0
        ),
        mechanism="objective_perturbation",
        shape={"coefficients": {"b:x": 0.0, "c:x": 0.0}},
        columns=LEVELS,
        common=[leveled("a", x=1)],
        changed=(leveled("b", x=1), leveled("b", x=-1)),
        reading=lambda value: value["coefficients"]["b:x"],
        cuts=(-0.25, 0.0, 0.25),
        caught_at=16,
        draws=120,
        noise=False,
    ),
    Proof(
        statistic=CoxRegression(
            time="y", event="yes", edges={"y": (-1, 0, 1)}, features=("x",), bound=1.0, ceiling=1.0
        ),
        mechanism="objective_perturbation",
        shape={"coefficients": {"(hazard to 0)": 0.0, "(hazard to 1)": 0.0, "x": 0.0}},
        common=[record(x=1, y=1)],
        changed=(record(x=1, y=-1, yes=1), record(x=-1, y=-1, yes=1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(-0.3, 0.0, 0.3),
        caught_at=20,
        draws=120,
        noise=False,
    ),
    Proof(
        statistic=GeometricMedian(columns=("x",)),
        mechanism="kng",
        shape={"x": 0.0},
        common=[record(x=0)],
        changed=(record(x=1), record(x=-1)),
        reading=lambda value: value["x"],
        cuts=(0.0,),
        caught_at=8,
        draws=200,
        noise=False,
    ),
    Proof(
        statistic=QuantileRegression(target="y", features=("x",), intercept=False, bound=1.0),
        mechanism="kng",
        shape={"coefficients": {"x": 0.0}},
        common=[record(x=1, y=0)],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(0.0,),
        caught_at=6,
        draws=200,
        draws_replace_one=80,
        noise=False,
    ),
    Proof(
        statistic=QuantileRegression(target="y", features=("x",), intercept=False, bound=1.0),
        mechanism="exponential",
        shape={"coefficients": {"x": 0.0}},
        common=[record()],
        changed=(record(x=1, y=1), record(x=1, y=-1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(0.0,),
        caught_at=20,
        draws=130,
        draws_replace_one=50,
        noise=False,
    ),
    Proof(
        statistic=QuantileRegression(target="y", features=("x",), intercept=False, tau=0.9),
        mechanism="objective_perturbation",
        shape={"coefficients": {"x": 0.0}},
        common=[record()],
        changed=(record(x=1, y=1), record(x=-1, y=1)),
        reading=lambda value: value["coefficients"]["x"],
        cuts=(0.0,),
        caught_at=8,
        draws=300,
        draws_replace_one=70,
        noise=False,
    ),
    Proof(
        statistic=Stack(
            parts=(
                Part(statistic=Count(where=ABOVE)),
                Part(statistic=Sum(columns=("x",), where=WITHIN), share=2.0, norm="l1"),
            )
        ),
        mechanism="composition",
        shape={"parts": [{"count": 0.0}, {"x": 0.0}]},
        common=[record(x=-1)] * 3,
        changed=(record(x=1), record(x=-1)),
        reading=lambda value: value["parts"][0]["count"] + value["parts"][1]["x"],
        cuts=(-5.0, -4.0, -3.0, -2.0, -1.0, 0.0),
        caught_at=6,
        draws=150,
        draws_replace_one=100,
        noise=True,
    ),
    Proof(
        statistic=HypothesisTest(test="t", columns=("x",)),
        mechanism="k_norm",
        shape={"statistic": 0.0, "p_value": 0.0, "estimate": 0.0},
        common=[record(x=-1)] * 3,
        changed=(record(x=1), record(x=-1)),
        reading=lambda value: value["estimate"],
        cuts=(-1.0, -0.75, -0.5, 0.0),
        caught_at=6,
        draws=100,
        draws_replace_one=60,
        noise=False,
    ),
    Proof(
        statistic=Summary(columns=("kind", "here"), show=("n", "share")),
        mechanism="composition",
        shape={
            "rows": [
                summary_row(None, "n"),
                *(
                    summary_row(name, measure, level, of=of)
                    for name, level in (("kind", "low"), ("kind", "high"), ("here", "true"))
                    for measure, of in (("count", "data"), ("share", "population"))
                ),
            ]
        },
        common=[record()] * 3,
        changed=({**record(), "kind": "high"}, {**record(), "here": 0}),
        reading=lambda value: value["rows"][3]["value"] + value["rows"][5]["value"],
        cuts=(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
        caught_at=6,
        draws=150,
        draws_replace_one=100,
        noise=True,
        noise_is_bound=True,  # counts of one group are made to agree
    ),
    Proof(
        statistic=KaplanMeier(time="x", event="yes", edges={"x": (-1, 0, 1)}),
        mechanism="k_norm",
        shape={
            "curve": [
                {"time": each, "at_risk": 0.0, "events": 0.0, "survival": 0.0} for each in "01"
            ]
        },
        common=[record(x=1)] * 8,
        changed=(record(x=-1, yes=1), record(x=1)),
        reading=lambda value: value["curve"][0]["events"],
        compared={"log_rank": {"statistic": 0.0, "p_value": 0.0}},
        cuts=(0.0, 0.5, 1.0, 1.5),
        caught_at=8,
        draws=60,
        noise=False,
    ),
    Proof(
        statistic=Roc(score="x", label="yes", edges={"x": (-1, 0, 1)}),
        mechanism="k_norm",
        shape={
            "curve": [{"threshold": "0", "false_positive": 0.0, "true_positive": 0.0}],
            "area": 0.0,
        },
        common=[record(x=-1)] * 4,
        changed=(record(x=1), record(x=-1)),
        reading=lambda value: value["curve"][0]["false_positive"],
        cuts=(0.0, 0.1, 0.2, 0.3),
        caught_at=8,
        draws=60,
        noise=False,
    ),
    Proof(
        statistic=KaplanMeier(time="x", event="yes", edges={"x": (-1, 0, 1)}, weights="w"),
        mechanism="k_norm",
        columns=WEIGHED,
        shape={
            "curve": [
                {"time": each, "at_risk": 0.0, "events": 0.0, "survival": 0.0} for each in "01"
            ]
        },
        common=[weighed(4, x=1)] * 8,
        changed=(weighed(4, x=-1, yes=1), weighed(4, x=1)),
        reading=lambda value: value["curve"][0]["events"],
        cuts=(0.0, 2.0, 4.0, 6.0),
        caught_at=16,
        draws=80,
        noise=False,
    ),
    Proof(
        statistic=Roc(score="x", label="yes", edges={"x": (-1, 0, 1)}, weights="w"),
        mechanism="k_norm",
        columns=WEIGHED,
        shape={
            "curve": [{"threshold": "0", "false_positive": 0.0, "true_positive": 0.0}],
            "area": 0.0,
        },
        common=[weighed(4, x=-1)] * 4,
        changed=(weighed(4, x=1), weighed(4, x=-1)),
        reading=lambda value: value["curve"][0]["false_positive"],
        cuts=(0.0, 0.1, 0.2, 0.3),
        caught_at=16,
        draws=80,
        noise=False,
    ),
)


WEIGHED_FITS: tuple[Proof, ...] = tuple(
    replace(
        proof,
        statistic=replace(proof.statistic, weights="w"),  # type: ignore[call-arg, type-var]
        columns={**proof.columns, "w": WEIGHED["w"]},
        common=[{**each, "w": 4.0} for each in proof.common],
        changed=({**proof.changed[0], "w": 4.0}, {**proof.changed[1], "w": 4.0}),
        caught_at=proof.caught_at * 2,
        draws_replace_one=None,
        norms=proof.offered_norms[:1] if proof.offered_norms != ("auto",) else None,
        refused=(),
    )
    for proof in LISTED
    if isinstance(proof.statistic, OF_LOSSES) and proof.mechanism != "functional"
)
"""Each regression with weights, all the largest: no neighbours are further apart."""


BY_CELLS: tuple[Proof, ...] = (
    Proof(
        statistic=LinearRegression(target="y", features=("group",), bound=3.0),
        mechanism="functional",
        shape={"coefficients": {"(intercept)": 0.0, "groupb": 0.0, "groupc": 0.0}},
        common=[record(group=group, y=y) for group in "abc" for y in (0, 0.5)],
        changed=(record(group="a", y=1), record(group="b", y=-1)),
        reading=lambda value: value["coefficients"]["(intercept)"],
        cuts=(0.0, 0.25, 0.5),
        caught_at=40,
        draws=150,
        noise=True,
    ),
    Proof(
        statistic=LinearRegression(target="y", features=("group",), bound=3.0, threshold=1.0),
        mechanism="objective_perturbation",
        shape={"coefficients": {"(intercept)": 0.0, "groupb": 0.0, "groupc": 0.0}},
        common=[record(group=group) for group in "abc"],
        changed=(record(group="a", y=1), record(group="b", y=-1)),
        reading=lambda value: value["coefficients"]["(intercept)"],
        cuts=(0.0, 0.25),
        caught_at=16,
        draws=300,
        noise=False,
    ),
)
"""Moments and gradients by the cells of a category, between which a record moves."""


DESIGNS: Mapping[str, Feature] = {
    "I(x * 1):here": Product(product=(Expression(expr="x * 1"), "here")),
    "kindhigh": Category(column="kind", reference="low"),
}
"""By the coefficient that stands for ``x``: a product with an expression, and a category."""


def on_designs(proof: Proof) -> Iterator[Proof]:
    """Yield a regression's proof on columns that are made of others, row by row.

    The product is ``x`` itself, so that the law is the same. The category is high where x is 1;
    without an intercept it has a coefficient for each value. One norm is tried, as the norms differ
    in the mechanism, which knows no design; and fewer draws, which catch twice the epsilon.
    """
    for name, feature in DESIGNS.items():
        category = isinstance(feature, Category)
        both = {"kindlow": 0.0} if category and "(intercept)" not in _coefficients(proof) else {}
        others = {each: 0.0 for each in _coefficients(proof) if each != "x"}
        yield replace(
            proof,
            statistic=replace(proof.statistic, features=(feature,)),  # type: ignore[type-var]
            shape={"coefficients": {**others, **both, name: 0.0}},
            common=[_of_kind(each) for each in proof.common],
            changed=(_of_kind(proof.changed[0]), _of_kind(proof.changed[1])),
            reading=partial(_read_as_x, proof.reading, name),
            caught_at=proof.caught_at * 2,
            draws=max(proof.draws * 2 // 3, 100),
            draws_replace_one=None,
            norms=proof.offered_norms[:1] if proof.offered_norms != ("auto",) else None,
            refused=(),
        )


def _coefficients(proof: Proof) -> Mapping[str, float]:
    found: Mapping[str, float] = proof.shape["coefficients"]
    return found


def _of_kind(each: Record) -> Record:
    return {**each, "kind": "high" if each["x"] == 1 else "low"}


def _read_as_x(reading: Callable[[Any], float], name: str, value: Any) -> float:
    found = {"x" if each == name else each: got for each, got in value["coefficients"].items()}
    return reading({"coefficients": {k: v for k, v in found.items() if k != "kindlow"}})


_OF_FITS: Mapping[str, Any] = {"draws": 300}
"""A certificate of rho needs more draws than one of epsilon."""

GAUSSIAN: tuple[Proof, ...] = tuple(
    replace(
        proof,
        mechanism="gaussian",
        norms=None,
        refused=(),
        fewer={},
        # rho is certified by frequent events: the pair's correlations are 1/2 and 1
        cuts=(0.75,) if isinstance(proof.statistic, Correlation) else proof.cuts,
        **(_OF_FITS if proof.mechanism == "functional" else {}),
    )
    for proof in (*LISTED, *BY_CELLS)
    if proof.mechanism in ("k_norm", "margins", "functional")
    and "gaussian" in proof.statistic.mechanisms
)
"""Sums, tables and regressions with Gaussian noise: what proves them with K-norm noise."""

PROOFS: tuple[Proof, ...] = (
    *LISTED,
    *WEIGHED_FITS,
    *BY_CELLS,
    *(made for proof in LISTED if isinstance(proof.statistic, FITS) for made in on_designs(proof)),
    *GAUSSIAN,
)
"""Those listed, each regression's on every kind of design, and those with Gaussian noise."""
