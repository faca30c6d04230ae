"""Everything that is told of a question before it is paid for, put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mechanisms.contract import Json, Statistic
from mechanisms.domain import Schema
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.choice import choose
from mechanisms.foresight.errors import (
    ADDITIVE,
    Asked,
    expected_error,
    is_simulated,
)
from mechanisms.foresight.ranges import ranges_of
from mechanisms.foresight.trees import at, placed
from mechanisms.foresight.verdicts import Usefulness, judged
from mechanisms.grouped import answer_numbers
from mechanisms.presentation import shown_ranges
from mechanisms.privacy import Adjacency, PrivacyLoss, split
from mechanisms.statistics.cells.parting import about_groups
from mechanisms.statistics.questions import Question, letters_derived
from mechanisms.statistics.stack import Stack

_STATED_MS, _ADDITIVE_MS, _SIMULATED_MS = 10.0, 60.0, 500.0
_MS_PER_NUMBER = 0.35  # measured; of the draws of a number in each of many groups
_MS_PER_LETTER = 0.03  # measured; of expressions that are computed on every sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """What an answer would be worth: JSON-ready, and a function of public facts.

    ``expected_error`` and ``possible_range`` have the shape of the answer's value; of a date or a
    moment the first counts days or seconds, and the second has ISO 8601 texts.
    ``simulated`` says whether a part of it took a simulation.
    """

    expected_error: Json | None
    possible_range: Json | None
    usefulness: Usefulness
    simulated: bool


def foresee(
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    *,
    mechanism: str,
    norm: str,
    assumptions: Assumptions,
) -> Foresight:
    """Return what an answer to a question would be worth, under these assumptions.

    Raises
    ------
    InvalidStatisticError
        The question does not fit the schema, or is not offered; the assumptions do not fit.
    """
    assumptions.check(schema)
    if isinstance(statistic, Stack):
        shares = split(epsilon, statistic.exact_shares())
        parts = [
            _single(Asked(statistic=part.statistic, schema=schema, epsilon=share,
                          mechanism=part.mechanism, norm=part.norm), assumptions)
            for part, share in zip(statistic.parts, shares, strict=True)
        ]  # fmt: skip
        errors, ranges, simulated = _stacked(parts)
    else:
        asked = Asked(
            statistic=statistic, schema=schema, epsilon=epsilon, mechanism=mechanism, norm=norm
        )
        errors, ranges, simulated = _single(asked, assumptions)
    told = None
    if errors is not None:
        told = _in_its_shape(errors, ranges)
    private = schema.adjacency is Adjacency.ADD_REMOVE
    # Told only where the number of rows is an assumption, not where it is a fact.
    rows = assumptions.rows_of(schema) if private else None
    return Foresight(
        expected_error=errors,
        possible_range=told,
        usefulness=judged(errors, ranges, rows=rows),
        simulated=simulated,
    )


def foreseeing_ms(statistic: Statistic, schema: Schema) -> float:
    """Return about how many milliseconds of one core it takes, planning apart."""
    if isinstance(statistic, Stack):
        return sum(foreseeing_ms(part.statistic, schema) for part in statistic.parts)
    if not is_simulated(statistic, schema):
        return _STATED_MS
    each_ms = _ADDITIVE_MS if statistic.kind in ADDITIVE else _SIMULATED_MS
    groups = about_groups(statistic.by, schema) if isinstance(statistic, Question) else 0
    drawn_ms = _MS_PER_NUMBER * groups * answer_numbers(statistic, schema) if groups else 0.0
    return each_ms + drawn_ms + _MS_PER_LETTER * letters_derived(statistic)


_Found = tuple[Json | None, Json | None, bool]


def _stacked(parts: Sequence[_Found]) -> _Found:
    return (
        {"parts": [errors for errors, _, _ in parts]},
        {"parts": [ranges for _, ranges, _ in parts]},
        any(simulated for _, _, simulated in parts),
    )


def _single(asked: Asked, assumptions: Assumptions) -> _Found:
    if asked.mechanism == "auto":
        choice = choose(asked.statistic, asked.schema, asked.epsilon, norm=asked.norm)
        asked = asked if choice is None else replace(asked, mechanism=choice.mechanism)
    plan = asked.plan()
    # What auto became: errors and ranges are those of the mechanism that is taken.
    asked = replace(asked, mechanism=plan.mechanism)
    errors = expected_error(asked, plan, assumptions)
    ranges = ranges_of(asked, assumptions)
    if ranges is not None:
        ranges = shown_ranges(ranges, asked.statistic, asked.schema)
    return errors, ranges, is_simulated(asked.statistic, asked.schema)


def _in_its_shape(errors: Json, ranges: Json | None) -> Json:
    """Return the ranges in the shape of the errors, with their labels; null where none is known."""
    return placed(lambda path, _error: at(ranges, path), errors)
