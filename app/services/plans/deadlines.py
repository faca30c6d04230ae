"""Which releases are jobs, and by when their answers are promised: the public rule.

A release whose draw may outlast the response slot is a *job*: it is answered
202, drawn in a process of its own, and shown at its public deadline. What is a
job follows from the request and public facts alone: the statistic, the
mechanism the plan chose, the dimension, the row count or its public bound, what
the plan itself takes, and whether the data set's policy has it reviewed.
The estimates below are of processor time on one ordinary core, measured with
the rows spread evenly; what a draw really takes depends on the noise, and for
some statistics on the data, and changes nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mechanisms.contract import Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.statistics.stack import Stack

LONGEST_INLINE_MS = 50.0
"""Estimates above this make a job. It is no setting: a slot must not decide it."""

LONGEST_DEADLINE_S = 3600
"""No job's first deadline is later than this, however long its draw may take."""

_SHORTEST_DEADLINE_S = 2
_MARGIN = 8
_LEAST_BOXES_MS = 2 * LONGEST_INLINE_MS

Estimate = Callable[[Any, Schema], float]


@dataclass(frozen=True, slots=True)
class Job:
    """A release that is drawn in the background, and the first moment it may be shown."""

    deadline_s: int

    def to_json(self) -> dict[str, object]:
        """Return the job as JSON-ready fields."""
        return {"deadline_s": self.deadline_s}


def job_of(statistic: Statistic, plan: Plan, schema: Schema, *, later: bool = False) -> Job | None:
    """Return the job a release is, or None when it is drawn while its client waits.

    ``later``: no client waits for the draw of this one, however short. So it is
    with one that is reviewed first, and with one whose plan, which the draw
    needs again, takes long.
    """
    job = _job_taking(expected_ms(statistic, plan, schema))
    return Job(_SHORTEST_DEADLINE_S) if job is None and later else job


def expected_ms(statistic: Statistic, plan: Plan, schema: Schema) -> float:
    """Return about how many milliseconds a draw takes, from public facts alone."""
    if not isinstance(statistic, Stack):
        return ESTIMATES[plan.mechanism, statistic.kind](statistic, schema)
    drawn: Any = plan.details["parts"]
    return sum(
        ESTIMATES[part["mechanism"], asked.statistic.kind](asked.statistic, schema)
        for asked, part in zip(statistic.parts, drawn, strict=True)
    )


def batched_ms(statistic: Statistic, plan: Plan, schema: Schema) -> float:
    """Return about how many milliseconds of a batch a draw takes up; infinitely many: draw alone.

    By k_norm the time is that of the noise, whatever the data are. By other
    mechanisms it may depend on the data, and nobody else's draw is to wait for it.
    """
    return expected_ms(statistic, plan, schema) if plan.mechanism == "k_norm" else math.inf


def _job_taking(expected: float) -> Job | None:
    """Return the job of a draw that takes so long; deadlines are powers of two."""
    if expected <= LONGEST_INLINE_MS:
        return None
    wanted_s = _MARGIN * expected / 1000
    deadline_s = _SHORTEST_DEADLINE_S
    while deadline_s < min(wanted_s, LONGEST_DEADLINE_S):
        deadline_s *= 2
    return Job(min(deadline_s, LONGEST_DEADLINE_S))


def _counted(cells: Callable[[Any, Schema], int]) -> Estimate:
    """One coordinate of noise per cell, and a pass over the rows where there is a filter."""

    def estimate(statistic: Any, schema: Schema) -> float:
        return 0.15 * cells(statistic, schema) + _pass(statistic, schema)

    return estimate


def _pass(statistic: Any, schema: Schema) -> float:
    where = getattr(statistic, "where", ())
    columns = {*getattr(statistic, "columns", ()), *(condition.column for condition in where)}
    sketched = not where and (statistic.kind != "histogram" or len(columns) == 1)
    return 0.0 if sketched else 1e-5 * len(columns) * schema.row_bound


def _moments(statistic: Any, _schema: Schema) -> float:
    """A point of a conditioned hull in about k squared coordinates."""
    return 0.15 * len(statistic.columns) ** 2


def _regression(factor: float) -> Estimate:
    """Linear algebra on the normal equations of d coefficients."""

    def estimate(statistic: Any, _schema: Schema) -> float:
        return float(factor * _coefficients(statistic) ** 2)

    return estimate


def _iterated(per_cell: float) -> Estimate:
    """Newton's method over the rows, and linear algebra."""

    def estimate(statistic: Any, schema: Schema) -> float:
        d = _coefficients(statistic)
        return per_cell * schema.row_bound * d + 0.03 * d**2

    return estimate


def _quantiles(statistic: Any, schema: Schema) -> float:
    """A walk over the distinct values, of which a column's codes allow no more than 2**21."""
    levels = len(statistic.levels)
    return (1e-4 * min(schema.row_bound, 2**21) + 0.05 * levels) * levels


def _boxes(dimension: Callable[[Any], int]) -> Estimate:
    """Adaptive rejection on boxes of a grid: its cost grows tenfold with each dimension.

    Always a job. Rows that all but determine a coefficient, or all but fail to, can make a draw
    hundreds of times longer than rows spread evenly do, however few they are.
    """

    def estimate(statistic: Any, schema: Schema) -> float:
        expected = 10.0 ** (dimension(statistic) - 1) * (1 + 0.1 * math.sqrt(schema.row_bound))
        return float(max(_LEAST_BOXES_MS, expected))

    return estimate


def _coefficients(statistic: Any) -> int:
    return len(statistic.features) + int(statistic.intercept)


def _columns(statistic: Any) -> int:
    return len(statistic.columns)


ESTIMATES: Mapping[tuple[str, str], Estimate] = {
    ("k_norm", "count"): _counted(lambda _statistic, _schema: 1),
    ("k_norm", "sum"): _counted(lambda statistic, _schema: len(statistic.columns)),
    ("k_norm", "mean"): _counted(lambda statistic, _schema: len(statistic.columns)),
    ("k_norm", "variance"): _counted(lambda statistic, _schema: 2 * len(statistic.columns)),
    ("k_norm", "histogram"): _counted(lambda statistic, schema: statistic.size(schema)),
    ("k_norm", "moments"): _moments,
    ("k_norm", "covariance"): _moments,
    ("k_norm", "correlation"): _moments,
    ("kng", "quantile"): _quantiles,
    ("exponential", "quantile"): _quantiles,
    ("kng", "linear_regression"): _regression(0.15),
    ("exponential", "linear_regression"): _regression(0.7),
    ("functional", "linear_regression"): _regression(0.3),
    ("objective_perturbation", "linear_regression"): _regression(0.03),
    ("objective_perturbation", "logistic_regression"): _iterated(1e-4),
    ("objective_perturbation", "quantile_regression"): _iterated(2e-4),
    ("kng", "logistic_regression"): _boxes(_coefficients),
    ("kng", "quantile_regression"): _boxes(_coefficients),
    ("exponential", "quantile_regression"): _boxes(_coefficients),
    ("kng", "geometric_median"): _boxes(_columns),
}
"""Milliseconds of a draw by mechanism and statistic. A new offer needs a line here."""
