"""How large a question may be, and how large its answer will about be: public rules.

An answer's bytes are reckoned and not counted: what is really stored, and when, depends on
the draw.
"""

from __future__ import annotations

from app.domain.problems import Problem
from app.services.plans.questions import Question
from mechanisms.contract import Statistic
from mechanisms.domain import Schema
from mechanisms.statistics.questions import Question as RowQuestion
from mechanisms.statistics.questions import viewed
from mechanisms.statistics.stack import Stack

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
