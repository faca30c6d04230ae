"""Whether a release would be drawn by the plan that it was charged for.

A release is charged by a plan, and may be drawn by another process than the one
that planned it: after a restart, an approval or an upgrade, or by a worker of
another version. A process that draws from a stored plan plans again, and compares.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace

from app.services.plans.questions import Question
from app.store import ReleaseRecord
from mechanisms.contract import Plan
from mechanisms.statistics.stack import Stack

_MEMBERS = ("mechanism", "norm", "epsilon", "guarantee", "grid", "details")
_PROSE = frozenset({"reason", "noise", "adjacent_output_space", "design", "method", "warnings"})
_EXACT = frozenset({"guarantee", "grid"})
_EXPLAINED = frozenset({"reduction", "protects"})
"""What of a guarantee is in words: how filter and groups were treated, and who is protected. How
many rows a person may have is in ``details`` too, and follows from the data set."""
_ROUNDING = 1e-9  # another machine's mathematical library may differ in the last digits


def as_charged(question: Question, plan: str) -> Question:
    """Return a stored question with the mechanisms and base measures that it was charged for.

    What "auto" stands for is decided once, before the charge, and another version may decide
    otherwise; ``plan`` is what the release keeps.
    """
    kept = json.loads(plan)
    statistic = question.statistic
    if isinstance(statistic, Stack):
        facts = kept["details"]["parts"]
        parts = [
            replace(
                part,
                mechanism=fact["mechanism"],
                statistic=part.statistic.as_drawn(fact["mechanism"], fact.get("details", {})),
            )
            for part, fact in zip(statistic.parts, facts, strict=True)
        ]
        statistic = replace(statistic, parts=tuple(parts))
    else:
        statistic = statistic.as_drawn(kept["mechanism"], kept.get("details", {}))
    return replace(question, statistic=statistic, mechanism=kept["mechanism"])


def told_as_charged(plan: Plan, text: str) -> Plan:
    """Return a plan with the reason that was given when the release was charged."""
    return replace(plan, reason=json.loads(text)["reason"])


class PlanChangedError(Exception):
    """A release would be drawn otherwise than it was charged for, so it is not drawn."""


def require_charged_plan(record: ReleaseRecord, *, plan: str, cost: int) -> None:
    """Pass for a plan, and its cost, that are those a release was charged or reserved for.

    What decides the law of the draw, or what is promised of it, must be equal: the
    cost in the account's unit; mechanism, norm, epsilon and the whole guarantee
    (sensitivity, theorem, adjacency); the grid; and ``details``, which hold ridge,
    budget split and base measure, and all of this again for each part of a stack. A
    member that only one of the two plans has is a difference.

    What says nothing of the law may differ: sentences (``reason``; in ``details``
    ``noise``, ``adjacent_output_space``, ``warnings`` and the ``method`` of standard errors; the
    ``design`` follows from the question and the data set, which do not change; ``reduction`` and
    ``protects`` in the guarantee), and ``job``, since a release keeps the deadline it was
    promised. Floats in ``details`` may differ in their last digits: they describe, and another
    processor may round them otherwise.

    Raises
    ------
    PlanChangedError
        They are not the same.
    """
    kept, present = json.loads(record.plan), json.loads(plan)
    # All of it: a member that only one version writes may be what decides the law.
    same = record.amount == cost and all(
        name in kept and name in present and _agree(name, kept[name], present[name])
        for name in _MEMBERS
    )
    if not same:
        raise PlanChangedError


def _agree(name: str | None, kept: object, present: object) -> bool:
    """Return whether what a member of two plans says of the law is the same."""
    if name == "guarantee" and isinstance(kept, Mapping) and isinstance(present, Mapping):
        kept = {each: value for each, value in kept.items() if each not in _EXPLAINED}
        present = {each: value for each, value in present.items() if each not in _EXPLAINED}
    if name in _EXACT:
        return kept == present
    if isinstance(kept, Mapping) and isinstance(present, Mapping):
        names = (kept.keys() | present.keys()) - _PROSE
        return all(
            each in kept and each in present and _agree(each, kept[each], present[each])
            for each in names
        )
    if isinstance(kept, list) and isinstance(present, list):
        return len(kept) == len(present) and all(
            _agree(None, one, other) for one, other in zip(kept, present, strict=True)
        )
    if isinstance(kept, float) and isinstance(present, float):
        return math.isclose(kept, present, rel_tol=_ROUNDING)
    return kept == present
