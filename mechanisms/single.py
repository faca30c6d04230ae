"""One statistic with one mechanism: the table of mechanisms, and how a request gets its plan.

Adding a mechanism is one line in :data:`SINGLE_MECHANISMS`. A release of several statistics
composes these plans (:mod:`mechanisms.composition`), so composition is not in the table;
:mod:`mechanisms.catalog` lists both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Protocol

from mechanisms import exponential, functional, kng, knorm, perturbation
from mechanisms.available import parts_by_column, plan_by_column
from mechanisms.contract import Calibrate, InvalidStatisticError, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.filtered import plan_filtered
from mechanisms.grouped import plan_grouped
from mechanisms.inference.bought import WithInference
from mechanisms.people import plan_for_people
from mechanisms.privacy import PrivacyLoss
from mechanisms.statistics.questions import Question, viewed


class MechanismModule(Protocol):
    """The interface of a mechanism's module."""

    THEOREM: str

    @property
    def calibrate(self) -> Calibrate:
        """Plans one release; see :func:`mechanisms.contract.by_statistic`."""


SINGLE_MECHANISMS: dict[str, MechanismModule] = {
    "k_norm": knorm,
    "kng": kng,
    "exponential": exponential,
    "objective_perturbation": perturbation,
    "functional": functional,
}


def calibrate_by(
    mechanisms: Mapping[str, MechanismModule],
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    *,
    mechanism: str,
    norm: str,
    inference: Fraction | None = None,
) -> Plan:
    """Return the plan of a release by one of these mechanisms: see ``catalog.calibrate``."""
    offered = statistic.mechanisms
    chosen = next(iter(offered)) if mechanism == "auto" else mechanism
    if chosen not in offered:
        raise InvalidStatisticError(
            f"{statistic.kind} is released by {', '.join(offered)}", field_name="mechanism"
        )
    calibrate = mechanisms[chosen].calibrate
    if inference is not None:
        calibrate = WithInference(calibrate, inference, schema.protects)
    plan = partial(_plan_of_rows, calibrate)
    return plan_for_people(plan, statistic, schema, epsilon, norm)


def _plan_of_rows(
    calibrate: Calibrate, statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan for people of one row each, with the columns that the question makes."""
    parts = parts_by_column(statistic, schema)
    if len(parts) > 1:
        return plan_by_column(partial(_plan_of_rows, calibrate), parts, schema, epsilon, norm)
    (statistic,) = parts
    asked = viewed(statistic, schema)
    plan = _planner(asked.statistic, calibrate)(asked.statistic, asked.view.schema, epsilon, norm)
    if isinstance(asked.statistic, Question) and not asked.statistic.is_of_all_rows:
        warnings = asked.statistic.warnings(asked.view.schema)
        if warnings:
            plan = replace(plan, details={**plan.details, "warnings": warnings})
    return asked.plan(plan)


def _planner(statistic: Statistic, calibrate: Calibrate) -> Calibrate:
    """Return how a mechanism plans a statistic of the rows that are asked about."""
    if not isinstance(statistic, Question) or statistic.is_of_all_rows:
        return calibrate
    return partial(plan_grouped if statistic.by else plan_filtered, calibrate)
