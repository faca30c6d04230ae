"""The error estimate of a question before it is charged: errors, ranges and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mechanisms.contract import InvalidStatisticError, Json, Statistic
from mechanisms.domain import Schema
from mechanisms.foresight.asked import Asked, is_simulated, spreads_of, with_spreads
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.choice import choose
from mechanisms.foresight.errors import COARSE, FULL, Effort, expected_error
from mechanisms.foresight.ranges import ranges_of
from mechanisms.foresight.sizes import sizes_of, with_amounts, with_sizes, worst_of
from mechanisms.foresight.trees import at, placed
from mechanisms.foresight.verdicts import Estimate, Usefulness, judged
from mechanisms.presentation import shown_ranges
from mechanisms.privacy import Adjacency, PrivacyLoss, split
from mechanisms.statistics.additive import AdditiveStatistic
from mechanisms.statistics.cells.parting import about_groups
from mechanisms.statistics.questions import Question, letters_derived
from mechanisms.statistics.stack import Stack

_STATED_MS, _ADDITIVE_MS, _SIMULATED_MS, _COARSE_MS = 10.0, 15.0, 500.0, 80.0
_MS_PER_NUMBER = 0.2  # measured; of answers that are simulated all at once
_MS_PER_GROUP = 0.02  # measured; per number and group in the verdict
_MS_PER_LETTER = 0.03  # measured; of expressions that are computed on every sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """The expected quality of an answer: JSON-ready, and a function of public facts.

    ``expected_error`` and ``possible_range`` have the shape of the answer's value. For a date or a
    moment the first counts days or seconds, and the second has ISO 8601 texts.
    ``usefulness`` says how the errors were found.
    """

    expected_error: Json | None
    possible_range: Json | None
    usefulness: Usefulness


def foresee(
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    *,
    mechanism: str,
    norm: str,
    assumptions: Assumptions,
    coarse: bool = False,
) -> Foresight:
    """Return the expected quality of an answer to a question, under these assumptions.

    ``coarse``: use few draws, for callers that must not wait.

    Raises
    ------
    InvalidStatisticError
        The question does not fit the schema, or is not offered; the assumptions do not fit.
    """
    assumptions.check(schema)
    if isinstance(statistic, Stack):
        shares = split(epsilon, statistic.exact_shares())
        asked = [
            Asked(statistic=part.statistic, schema=schema, epsilon=share,
                  mechanism=part.mechanism, norm=part.norm)
            for part, share in zip(statistic.parts, shares, strict=True)
        ]  # fmt: skip
    else:
        asked = [
            Asked(
                statistic=statistic, schema=schema, epsilon=epsilon, mechanism=mechanism, norm=norm
            )
        ]
    effort = COARSE if coarse else FULL
    found = [_single(each, assumptions, effort) for each in asked]
    errors, ranges, estimate = _stacked(found) if isinstance(statistic, Stack) else found[0]
    possible = None
    if errors is not None:
        possible = _in_its_shape(errors, ranges)
    private = schema.adjacency is Adjacency.ADD_REMOVE
    # The sentence states the number of rows only where it is an assumption, not a fact.
    rows = assumptions.rows_of(schema) if private else None
    useful = judged(errors, ranges, rows=rows)
    sizes = [sizes_of(each, assumptions) for each in asked]
    spreads = [spreads_of(each, assumptions) for each in asked]
    if any(each.guessed or each.complete for each in sizes) or any(map(bool, spreads)):
        parts = []
        for one, each, size, spread in zip(found, asked, sizes, spreads, strict=True):
            own = with_sizes(judged(*one[:2], rows=rows), each.statistic, size)
            parts.append(with_amounts(with_spreads(own, spread), each.statistic, one[0], size))
        useful = worst_of(parts)
        if isinstance(statistic, Stack):
            place = f"Part {1 + parts.index(useful)}: {useful.sentence}"
            useful = replace(useful, sentence=place, share=judged(errors, ranges).share)
    return Foresight(
        expected_error=errors,
        possible_range=possible,
        usefulness=useful.by(estimate),
    )


def foreseeing_ms(statistic: Statistic, schema: Schema, *, coarse: bool = False) -> float:
    """Return about how many milliseconds of one core it takes, planning apart."""
    if isinstance(statistic, Stack):
        return sum(foreseeing_ms(part.statistic, schema, coarse=coarse) for part in statistic.parts)
    try:
        answered = statistic.answer_numbers(schema)
    except InvalidStatisticError:  # it is refused where it is planned
        return _STATED_MS
    groups = about_groups(statistic.by, schema) if isinstance(statistic, Question) else 0
    verdict_ms = _MS_PER_GROUP * groups * answered
    if not is_simulated(statistic, schema):
        return _STATED_MS + verdict_ms
    if isinstance(statistic, AdditiveStatistic):
        each_ms = _ADDITIVE_MS + _MS_PER_NUMBER * answered
    else:
        each_ms = _COARSE_MS if coarse else _SIMULATED_MS
    return each_ms + verdict_ms + _MS_PER_LETTER * letters_derived(statistic)


_Found = tuple[Json | None, Json | None, Estimate]
_ROUGHEST_FIRST: Sequence[Estimate] = ("coarse", "simulated", "closed form")


def _stacked(parts: Sequence[_Found]) -> _Found:
    return (
        {"parts": [errors for errors, _, _ in parts]},
        {"parts": [ranges for _, ranges, _ in parts]},
        min((estimate for *_, estimate in parts), key=_ROUGHEST_FIRST.index),
    )


def _single(asked: Asked, assumptions: Assumptions, effort: Effort) -> _Found:
    if asked.mechanism == "auto":
        choice = choose(asked.statistic, asked.schema, asked.epsilon, norm=asked.norm)
        asked = asked if choice is None else replace(asked, mechanism=choice.mechanism)
    plan = asked.plan()
    # What auto became: errors and ranges are those of the mechanism that is taken.
    asked = replace(asked, mechanism=plan.mechanism)
    errors, estimate = expected_error(asked, plan, assumptions, effort)
    ranges = ranges_of(asked, assumptions)
    if ranges is not None:
        ranges = shown_ranges(ranges, asked.statistic, asked.schema)
    return errors, ranges, estimate


def _in_its_shape(errors: Json, ranges: Json | None) -> Json:
    """Return the ranges in the shape of the errors, with their labels; null where none is known."""
    return placed(lambda path, _error: at(ranges, path), errors)
