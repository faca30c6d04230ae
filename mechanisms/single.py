"""One statistic by one mechanism: the table of mechanisms, and how a request finds its plan.

Adding a mechanism is one line in :data:`SINGLE_MECHANISMS`. Several statistics in one release are
composed of these plans (:mod:`mechanisms.composition`), so that is no entry here;
:mod:`mechanisms.catalog` lists it beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Protocol

from mechanisms import exponential, functional, kng, knorm, perturbation
from mechanisms.contract import Calibrate, InvalidStatisticError, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.filtered import plan_filtered
from mechanisms.grouped import plan_grouped
from mechanisms.inference.bought import WithInference
from mechanisms.people import plan_for_people
from mechanisms.privacy import PrivacyLoss
from mechanisms.statistics.questions import Question, viewed


class MechanismModule(Protocol):
    """What a mechanism's module exposes."""

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
    asked = viewed(statistic, schema)
    plan = _planner(asked.statistic, calibrate)
    return asked.plan(plan(asked.statistic, asked.view.schema, epsilon, norm))


def _planner(statistic: Statistic, calibrate: Calibrate) -> Calibrate:
    """Return how a mechanism plans a statistic of the rows that are asked about."""
    if not isinstance(statistic, Question) or statistic.is_of_all_rows:
        return calibrate
    return partial(plan_grouped if statistic.by else plan_filtered, calibrate)
