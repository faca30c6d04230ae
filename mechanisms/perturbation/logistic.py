"""Logistic regression by objective perturbation, with or without a bound of theta."""

from __future__ import annotations

from mechanisms.contract import Data, Plan
from mechanisms.domain import Schema
from mechanisms.exact.fractions import as_written
from mechanisms.objectives.losses import logistic_loss
from mechanisms.objectives.sigmoid import LogisticObjective
from mechanisms.perturbation.release import Newton, plan_fit
from mechanisms.privacy import PrivacyLoss
from mechanisms.statistics.designs.rows import passes
from mechanisms.statistics.designs.scaling import design
from mechanisms.statistics.logistic_regression import LogisticRegression, SignedCodes
from mechanisms.statistics.weights import weighing


@weighing
def calibrate_logistic(
    statistic: LogisticRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a logistic regression, epsilon-DP."""
    return plan_fit(
        statistic,
        schema,
        epsilon,
        norm,
        objective=lambda data: logistic_objective(statistic, schema, data),
        loss=logistic_loss(statistic.scaling(schema).dimension, schema.adjacency),
        bound=statistic.exact_bound,
        newton=Newton(ms_per_cell=1e-4, passes=13),
        q=None if statistic.q == "auto" else as_written(statistic.q),
    )


def logistic_objective(
    statistic: LogisticRegression, schema: Schema, data: Data
) -> LogisticObjective:
    """Return the logistic loss of private rows."""
    read = SignedCodes.of(statistic, schema)
    rows, mapping = passes(data, read, schema), design(statistic.scaling(schema))
    return LogisticObjective(rows, mapping, weighted=read.weights is not None)
