"""Which releases are jobs, and by when their answers are promised: the public rule.

A release whose draw may outlast the response slot is a *job*: it is answered
202, drawn in a process of its own, and shown at its public deadline. What is a
job follows from the request and public facts alone: what the plan says of its
draw's time and what the plan itself takes, both reckoned without the data, and
whether the data set's policy has it reviewed. What a draw really takes depends
on the noise, and for some statistics on the data, and changes nothing here.

*How large a question may be, and how large its answer will about be: public rules.* An answer's
bytes are reckoned and not counted: what is really stored, and when, depends on the draw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.domain.problems import Problem
from app.services.plans.questions import Question
from mechanisms.contract import Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.statistics.questions import Question as RowQuestion
from mechanisms.statistics.questions import viewed
from mechanisms.statistics.stack import Stack

# How large a question may be, and how large its answer will about be: public rules

_BYTES_PER_NUMBER = 384
"""What one number takes in an answer with its interval, its noise and its name."""
_OTHER_NUMBERS = 16
"""As many numbers as the rest of an answer counts for."""


def require_storable(question: Question, most: int) -> None:
    """Pass for a question that may be stored.

    Raises
    ------
    Problem
        ``too-large``.
    """
    if len(question.canonical) > most:
        raise Problem(
            "too-large",
            f"The question is larger than max_question_bytes ({most} bytes). Nothing was charged.",
            limit="max_question_bytes",
            maximum=most,
        )


def answer_bytes(question: Question, schema: Schema) -> int:
    """Return about how many bytes an answer takes, for a question that fits the schema."""
    each = _BYTES_PER_NUMBER * (1 if question.inference is None else 2)
    return each * _numbers(question.statistic, schema)


def _numbers(statistic: Statistic, schema: Schema) -> int:
    if isinstance(statistic, Stack):
        return sum(_numbers(part.statistic, schema) for part in statistic.parts)
    asked = viewed(statistic, schema)
    found, facts = asked.statistic, asked.view.schema
    numbers = found.answer_numbers(facts) + _OTHER_NUMBERS
    if isinstance(found, RowQuestion) and found.by:
        return numbers * found.parting(facts).cells
    return numbers


# Which releases are jobs, and by when their answers are promised: the public rule

LONGEST_INLINE_MS = 50.0
"""A plan that expects more than this makes a job. It is no setting: a slot must not decide it."""

LONGEST_DEADLINE_S = 3600
"""No job's first deadline is later than this, however long its draw may take."""

SHORTEST_DEADLINE_S = 2
# Few draws take that many times the expected time, and those are shown at a doubling.
_MARGIN = 8


@dataclass(frozen=True, slots=True)
class Job:
    """A release that is drawn in the background, and the first moment it may be shown.

    Of 100 draws from realistic rows 95 take at most ``expected_s``, by the same public facts; None
    where an earlier version planned it.
    """

    deadline_s: int
    expected_s: int | None = None

    def to_json(self) -> dict[str, object]:
        """Return the job as JSON-ready fields."""
        return {"deadline_s": self.deadline_s, "expected_s": self.expected_s}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> Job:
        """Return the inverse of :meth:`to_json`."""
        return cls(stored["deadline_s"], stored.get("expected_s"))


def job_of(plan: Plan, *, later: bool = False, planning_ms: float = 0.0) -> Job | None:
    """Return the job a release is, or None when it is drawn while its client waits.

    What is drawn on boxes is one however short it is expected to be, as data can make it
    hundreds of times longer. ``later``: no client waits for the draw of this one, however
    short. So it is with one that is reviewed first, and with one whose plan, which the
    draw needs again, takes long: ``planning_ms``.
    """
    if not (later or plan.drawn_on_boxes or plan.expected_ms > LONGEST_INLINE_MS):
        return None
    bound_ms = plan.slowness * plan.expected_ms
    expected_s = max(1, math.ceil((bound_ms + planning_ms) / 1000))
    return Job(_deadline_s(max(_MARGIN * plan.expected_ms, bound_ms)), expected_s)


def batched_ms(plan: Plan) -> float:
    """Return about how many milliseconds of a batch a draw takes up; infinitely many: draw alone.

    No other person's draw may wait for one whose time may depend on the data.
    """
    return math.inf if plan.time_depends_on_data else plan.expected_ms


def _deadline_s(wanted_ms: float) -> int:
    """Return the first deadline that is no earlier: a power of two, up to the longest."""
    wanted_s = wanted_ms / 1000
    # A power of two reveals little of the estimate, and few deadlines mean few different waits.
    deadline_s = SHORTEST_DEADLINE_S
    while deadline_s < min(wanted_s, LONGEST_DEADLINE_S):
        deadline_s *= 2
    return min(deadline_s, LONGEST_DEADLINE_S)
