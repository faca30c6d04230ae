"""The range of possible values of each number of an answer, known before the answer.

Errors are compared with it. A mean is between its column's bounds, so an answer with an error of
that width contains no information. Where the extremes are implausible the range is narrower:

- *a count* of the rows that meet conditions, in a group or in a cell: from 0 to five times what
  the assumed population has there, or all rows if those are fewer;
- *a slope* of a linear or quantile regression of d features: up to 1 / sqrt(d) of either sign, in
  scaled columns. At that size d equally strong features fully explain a target of their width;
- *a logistic regression's slope*: 4 / sqrt(d) in scaled columns. One feature then moves the odds
  by a factor of 3000 between its bounds;
- *an intercept*: the sum of all of these at the point where every column is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import sqrt
from typing import Any

from mechanisms.contract import Json, Statistic
from mechanisms.domain import NumberColumn, Schema
from mechanisms.foresight.asked import Asked
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.sizes import sizes_of
from mechanisms.statistics.designs.scaling import RegressionScaling
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.questions import Question, plain, viewed

Range = list[float]

_SHARES = 5
_LARGEST_LOGIT = Fraction(4)


def ranges_of(asked: Asked, assumptions: Assumptions) -> Json | None:
    """Return ``[low, high]`` for each number of an answer; None where no range is known."""
    wanted = viewed(asked.statistic, asked.schema)
    facts, rows = wanted.view.schema, assumptions.rows_of(asked.schema)
    if not isinstance(wanted.statistic, Question):
        return possible_ranges(wanted.statistic, facts, rows)
    sizes = sizes_of(asked, assumptions).each
    parts = [possible_ranges(plain(wanted.statistic), facts, most_of(size, rows)) for size in sizes]
    if parts[0] is None or not wanted.statistic.by:
        return parts[0]
    return {"groups": [{"value": part} for part in parts]}


def most_of(expected: float, rows: float) -> float:
    """Return the largest number of rows an answer may be about, where ``expected`` are expected."""
    return min(rows, _SHARES * expected)


def possible_ranges(statistic: Statistic, schema: Schema, rows: float) -> Json | None:
    """Return ``[low, high]`` for each number of an answer about at most ``rows`` rows.

    The statistic is about plain columns, without groups. None where no range is known.
    """
    found = _RANGES.get(statistic.kind)
    return None if found is None else found(statistic, schema, max(rows, 1.0))


def _bounds(schema: Schema, name: str) -> Range:
    column = schema.columns[name]
    assert isinstance(column, NumberColumn)  # the statistic has been checked
    return [float(column.lower), float(column.upper)]


def _width(schema: Schema, name: str) -> float:
    low, high = _bounds(schema, name)
    return high - low


def _values(statistic: Any, schema: Schema, _rows: float) -> Json:
    return {name: _bounds(schema, name) for name in statistic.columns}


def _sums(statistic: Any, schema: Schema, rows: float) -> Json:
    ends = {name: _bounds(schema, name) for name in statistic.columns}
    most = rows * (1.0 if statistic.weights is None else _bounds(schema, statistic.weights)[1])
    return {
        name: [min(0.0, most * low), max(0.0, most * high)] for name, (low, high) in ends.items()
    }


def _count(_statistic: Any, _schema: Schema, rows: float) -> Json:
    return {"count": [0.0, rows]}


def _cells(statistic: Histogram, schema: Schema, rows: float) -> Json:
    cells = statistic.size(schema)
    return {"cells": [{"count": [0.0, most_of(rows / cells, rows)]}] * cells}


def _variances(statistic: Any, schema: Schema, _rows: float) -> Json:
    return {name: [0.0, _width(schema, name) ** 2 / 4] for name in statistic.columns}


def _stds(statistic: Any, schema: Schema, _rows: float) -> Json:
    return {name: [0.0, _width(schema, name) / 2] for name in statistic.columns}


def _moments(statistic: Any, schema: Schema, rows: float) -> Json:
    names = statistic.columns

    def product(one: str, other: str) -> Range:
        corners = [a * b for a in _bounds(schema, one) for b in _bounds(schema, other)]
        low = min(corners)
        return [max(low, 0.0) if one == other else low, max(corners)]

    return {
        "count": [0.0, rows],
        "means": {name: _bounds(schema, name) for name in names},
        "second": [[product(one, other) for other in names] for one in names],
    }


def _covariances(statistic: Any, schema: Schema, _rows: float) -> Json:
    def entry(one: str, other: str) -> Range:
        most = _width(schema, one) * _width(schema, other) / 4
        return [0.0 if one == other else -most, most]

    names = statistic.columns
    return {"matrix": [[entry(one, other) for other in names] for one in names]}


def _correlations(statistic: Any, _schema: Schema, _rows: float) -> Json:
    names = statistic.columns
    return {"matrix": [[[-1.0, 1.0] for _ in names] for _ in names]}


def _quantiles(statistic: Any, schema: Schema, _rows: float) -> Json:
    ends = _bounds(schema, statistic.column)
    return {"quantiles": [{"value": ends}] * len(statistic.levels)}


def _coefficients(statistic: Any, schema: Schema, _rows: float) -> Json:
    scaling: RegressionScaling = statistic.scaling(schema)
    bound = statistic.exact_bound
    largest = Fraction(1) if scaling.target is not None else _LARGEST_LOGIT
    largest /= Fraction(sqrt(max(len(scaling.features), 1)))
    most = largest if bound is None else min(largest, Fraction(bound))
    return {"coefficients": _spans(scaling, most)}


def _spans(scaling: RegressionScaling, most: Fraction) -> Mapping[str, Range]:
    """Return the ranges of coefficients whose scaled values run from -most to most."""
    zeros: Sequence[Fraction] = [Fraction(0)] * scaling.dimension
    middle = scaling.unscale(zeros)
    reach = dict.fromkeys(middle, Fraction(0))
    for place in range(scaling.dimension):
        moved = scaling.unscale([most if at == place else Fraction(0) for at in range(len(zeros))])
        for name, value in moved.items():
            reach[name] += abs(value - middle[name])
    return {
        name: [float(middle[name] - reach[name]), float(middle[name] + reach[name])]
        for name in middle
    }


_RANGES: Mapping[str, Callable[[Any, Schema, float], Json]] = {
    "count": _count,
    "histogram": _cells,
    "sum": _sums,
    "mean": _values,
    "geometric_median": _values,
    "variance": _variances,
    "std": _stds,
    "moments": _moments,
    "covariance": _covariances,
    "correlation": _correlations,
    "quantile": _quantiles,
    "linear_regression": _coefficients,
    "logistic_regression": _coefficients,
    "quantile_regression": _coefficients,
}
