"""What shares the process of small draws takes little of it, however many values filters have."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from app.constants import CONSTANTS
from app.domain.datasets import parse_columns
from app.domain.policies import Policy
from app.engine.schema import schema_of
from app.services.plans.answers import batched_ms, require_storable
from app.services.plans.questions import Question
from app.services.releases.charged_draws import ReadyDraw
from app.services.releases.draws import is_small
from mechanisms.catalog import calibrate, read_plan, written_plan
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics import conditions
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count

ROWS = 300
LONGEST_MS = 40.0
"""Of processor time, on a busy machine: everyday draws take 1."""
SPEC = parse_columns(
    {"x": {"type": "number", "lower": 0, "upper": 1_000_000}},
    adjacency=Adjacency.REPLACE_ONE,
    max_rows=None,
)
SCHEMA = schema_of(SPEC, rows=ROWS)


class Facts:
    """Public facts, as far as the rule reads them."""

    schema = SCHEMA
    policy = Policy()


def question(values: int) -> Question:
    chosen = tuple(round(7.001 * value, 3) for value in range(values))
    where = (Condition(column="x", op="in", value=chosen),) * conditions.MAX_CONDITIONS
    return Question(
        statistic=Count(where=where), mechanism="auto", norm="auto", epsilon=Epsilon.parse("1")
    )


def longest_small_ms() -> float:
    """Return the most processor time that a question takes which counts as small."""
    facts: Any = Facts()
    codes = {name: np.arange(ROWS, dtype=np.int32) for name in SCHEMA.columns}
    rows = ArrayData(columns=SCHEMA.columns, codes=codes)
    longest = 0.0
    for values in (2, 20, conditions.MAX_CHOICES):
        asked = question(values)
        plan = calibrate(asked.statistic, SCHEMA, asked.epsilon, mechanism="auto", norm="auto")
        if is_small(ReadyDraw(facts, asked, plan, asked.planning_ms(SCHEMA)), batched_ms(plan)):
            begun = time.thread_time()
            plan = read_plan(written_plan(plan), asked.statistic, SCHEMA)
            plan.draw(rows, system_randomness())
            longest = max(longest, 1000 * (time.thread_time() - begun))
    return longest


def test_no_small_draw_takes_long() -> None:
    assert 0 < longest_small_ms() < LONGEST_MS


@pytest.mark.wide
def test_unless_filters_are_not_reckoned_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: values that count for nothing, neither to be read nor to be looked for."""
    counted = longest_small_ms()
    monkeypatch.setattr(conditions, "_MS_PER_VALUE", 0.0)
    monkeypatch.setattr(conditions, "_MS_PER_ROW", 0.0)
    assert longest_small_ms() > 3 * counted


def test_an_everyday_question_is_never_too_large() -> None:
    most = CONSTANTS.max_question_bytes
    require_storable(question(300), most)
    with pytest.raises(Exception, match="too-large"):
        require_storable(question(conditions.MAX_CHOICES), most)
