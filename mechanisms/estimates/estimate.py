"""The error estimate of a question before it is charged: errors, ranges and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from mechanisms.contract import InvalidStatisticError, Json, Statistic
from mechanisms.domain import Schema
from mechanisms.estimates.asked import (
    Asked,
    EstimatedByRows,
    Spreads,
    Weighed,
    Weight,
    comparison,
    is_simulated,
    parts_asked,
    spreads_of,
    with_spreads,
)
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.closed_forms import has_closed_form
from mechanisms.estimates.errors import (
    COARSE,
    FULL,
    MOST_SIZES,
    Effort,
    ExpectedErrors,
    expected_error,
)
from mechanisms.estimates.sizes import (
    over_sizes,
    ranges_of,
    scale_of,
    sizes_of,
    with_amounts,
    with_sizes,
    worst_of,
)
from mechanisms.estimates.trees import at, placed
from mechanisms.estimates.verdicts import Estimate, Usefulness, Verdict, judged, judged_within
from mechanisms.presentation import shown_ranges
from mechanisms.privacy import Adjacency, PrivacyLoss
from mechanisms.statistics.additive import AdditiveStatistic
from mechanisms.statistics.cells.parting import about_groups
from mechanisms.statistics.questions import Question, letters_derived
from mechanisms.statistics.stack import Stack
from mechanisms.words import rounded, worded

_STATED_MS, _ADDITIVE_MS, _SIMULATED_MS, _COARSE_MS = 10.0, 15.0, 100.0, 80.0
_GOOD_TEST, _WEAK_TEST = 1.2, 2.0  # standard errors in those without noise
_CLOSED_MS = 20.0  # measured; of closed forms in several populations
_MS_PER_NUMBER = 0.2  # measured; of answers that are simulated all at once
_MS_PER_GROUP = 0.02  # measured; per number and group in the verdict
_MS_PER_LETTER = 0.03  # measured; of expressions that are computed on every sample


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEstimate:
    """The expected quality of an answer: JSON-ready, and a function of public facts.

    ``expected_error``, ``possible_range`` and ``scale`` have the shape of the answer's value. For a
    date or a moment the first counts days or seconds, and the others have ISO 8601 texts.
    ``scale`` is what the verdict compares errors with. ``low`` and ``high`` are the least and the
    largest errors over several populations, where what is unknown of the records matters.
    ``usefulness`` says how the errors were found.
    """

    expected_error: Json | None
    possible_range: Json | None
    usefulness: Usefulness
    scale: Json | None = None
    low: Json | None = None
    high: Json | None = None

    def within(self, accuracy: float) -> Usefulness:
        """Return the verdict where this accuracy is wanted: a half-width, in the answer's units."""
        if self.expected_error is None:  # a test has no error to compare an accuracy with
            return self.usefulness
        return judged_within(
            self.expected_error, accuracy, rows=self.usefulness.rows, high=self.high
        ).by(self.usefulness.estimate)


def estimate_error(
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    *,
    mechanism: str,
    norm: str,
    assumptions: Assumptions,
    inference: Fraction | None = None,
    coarse: bool = False,
) -> ErrorEstimate:
    """Return the expected quality of an answer to a question, under these assumptions.

    ``inference``: the share of epsilon that standard errors cost in each part of a stack that has
    them; of any other question ``epsilon`` is what its numbers are drawn with. ``coarse``: use few
    draws, for callers that must not wait.

    Raises
    ------
    InvalidStatisticError
        The question does not fit the schema, or is not offered; the assumptions do not fit.
    """
    assumptions.check(schema)
    whole = Asked(
        statistic=statistic, schema=schema, epsilon=epsilon, mechanism=mechanism, norm=norm,
        inference=inference,
    )  # fmt: skip
    if isinstance(statistic, Weighed):
        return ErrorEstimate(
            expected_error=None,
            possible_range=None,
            usefulness=_weighed(statistic.weighed(whole, assumptions.rows_of(schema)), schema),
        )
    asked = parts_asked(whole)
    effort = COARSE if coarse else FULL
    singles = [_single(each, assumptions, effort) for each in asked]
    if isinstance(statistic, EstimatedByRows):
        found = _of_rows(statistic, schema, singles, sizes_of(asked[0], assumptions).each)
    else:
        found = _stacked(singles) if isinstance(statistic, Stack) else singles[0]
    private = schema.adjacency is Adjacency.ADD_REMOVE
    # The sentence states the number of rows only where it is an assumption, not a fact.
    rows = assumptions.rows_of(schema) if private else None
    parts = [
        _judged(single, each, assumptions, rows)
        for single, each in zip(singles, asked, strict=True)
    ]
    useful = worst_of(parts)
    if len(parts) > 1 and useful.verdict == "depends" and useful.share is None:
        useful = judged(found.errors.mean, found.scale, rows=rows)
    elif isinstance(statistic, Stack):
        place = f"Part {1 + parts.index(useful)}: {useful.sentence}"
        useful = replace(useful, sentence=place)
    elif weight := comparison(asked[0], assumptions.rows_of(schema)):
        compared = worded("The groups are also compared by a test.")
        useful = replace(useful, sentence=f"{useful.sentence} {compared} {_power(weight)}")
    errors = found.errors
    _, biased = max(
        zip(
            (each.errors.bias for each in singles), (each.statistic for each in asked), strict=True
        ),
        key=lambda each: each[0],
    )
    return ErrorEstimate(
        expected_error=errors.mean,
        possible_range=None if errors.mean is None else _in_its_shape(errors.mean, found.ranges),
        usefulness=useful.by(errors.estimate, bias=errors.bias, reason=biased.reason_of_bias),
        scale=None if errors.mean is None else _in_its_shape(errors.mean, found.scale),
        low=errors.low,
        high=errors.high,
    )


def _weighed(weight: Weight, schema: Schema) -> Usefulness:
    """Return the verdict on a test: how many rows without noise would have the same power."""
    verdict: Verdict = "good" if weight.error <= _GOOD_TEST else "noise"
    if verdict == "noise" and weight.error <= _WEAK_TEST:
        verdict = "weak"
    said = {"good": worded("Good."), "weak": worded("Weak."), "noise": worded("Mostly noise.")}
    sentence = f"{said[verdict]} {_power(weight)}"
    rows = weight.rows * weight.tests if schema.adjacency is Adjacency.ADD_REMOVE else None
    return Usefulness(verdict, sentence, rows=rows, estimate="approximated")


def _power(weight: Weight) -> str:
    """Return what the noise takes of a test's power; where it is much, what would keep it."""
    each = weight.tests > 1
    known = {
        "rows": f"{weight.rows:,}",
        "added": _added(weight.error),
        "worth": f"{max(round(weight.worth), 1):,}",
    }
    sentence = (
        worded(
            "With %(rows)s rows in each group the noise adds %(added)s to the standard error: the "
            "test has the power of one with %(worth)s rows without noise.",
            **known,
        )
        if each
        else worded(
            "With %(rows)s rows the noise adds %(added)s to the standard error: the test has the "
            "power of one with %(worth)s rows without noise.",
            **known,
        )
    )
    if weight.error <= _GOOD_TEST:
        return sentence
    wanted = {
        "factor": rounded(weight.more_epsilon, 2),
        "rows": rounded(round(weight.more_rows * weight.rows), 2),
    }
    more = (
        worded(
            "To have the power of four fifths of the rows, the test needs %(factor)s times this "
            "epsilon, or %(rows)s rows in each group.",
            **wanted,
        )
        if each
        else worded(
            "To have the power of four fifths of the rows, the test needs %(factor)s times this "
            "epsilon, or %(rows)s rows.",
            **wanted,
        )
    )
    return f"{sentence} {more}"


def _added(error: float) -> str:
    """Return what the noise adds to a standard error, by the factor that both together make.

    >>> _added(1.003), _added(1.25), _added(3.9)
    ('less than 1%', '25%', '290%')
    """
    share = 100 * (error - 1)
    return worded("less than 1%") if share < 1 else f"{float(f'{share:.2g}'):,.0f}%"


def _judged(found: _Found, asked: Asked, assumptions: Assumptions, rows: int | None) -> Usefulness:
    """Return the verdict on one answer: how it depends on private sizes and spreads, too."""
    errors, sizes = found.errors, sizes_of(asked, assumptions)
    # Errors in proportion to a spread's inverse: the sentence says how far it takes.
    spreads = Spreads((), 0) if errors.bias else spreads_of(asked, assumptions)
    high = None if spreads or sizes.guessed else errors.high
    useful = judged(errors.mean, found.scale, rows=rows, high=high, possible=found.ranges)
    useful = with_sizes(useful, asked.statistic, sizes)
    useful = with_spreads(useful, spreads)
    return with_amounts(useful, asked.statistic, errors.mean, sizes)


def estimating_ms(statistic: Statistic, schema: Schema, *, coarse: bool = False) -> float:
    """Return about how many milliseconds of one core it takes, planning apart."""
    try:
        parts = _drawn_apart(statistic, schema)
    except InvalidStatisticError:  # it is refused where it is planned
        return _STATED_MS
    if parts is not None:
        return _STATED_MS + sum(estimating_ms(each, schema, coarse=coarse) for each in parts)
    try:
        answered = statistic.answer_numbers(schema)
    except InvalidStatisticError:  # it is refused where it is planned
        return _STATED_MS
    groups = about_groups(statistic.by, schema) if isinstance(statistic, Question) else 0
    verdict_ms = _MS_PER_GROUP * groups * answered
    if not is_simulated(statistic, schema):
        return _STATED_MS + verdict_ms
    if has_closed_form(statistic, schema):
        sizes = min(groups, MOST_SIZES) or 1
        each_ms = sizes * _CLOSED_MS
    elif isinstance(statistic, AdditiveStatistic):
        each_ms = _ADDITIVE_MS + _MS_PER_NUMBER * answered
    else:
        each_ms = _COARSE_MS if coarse else _SIMULATED_MS
    return each_ms + verdict_ms + _MS_PER_LETTER * letters_derived(statistic)


def _drawn_apart(statistic: Statistic, schema: Schema) -> Sequence[Statistic] | None:
    """Return the questions whose errors are estimated in place of this one's; None if it is one."""
    if isinstance(statistic, Stack):
        return [part.statistic for part in statistic.parts]
    if isinstance(statistic, EstimatedByRows):
        return [each for _, each in statistic.estimated_as(schema)]
    return () if isinstance(statistic, Weighed) else None


@dataclass(frozen=True, slots=True)
class _Found:
    """The errors of an answer, and the ranges that they are shown next to and compared with."""

    errors: ExpectedErrors
    ranges: Json | None
    scale: Json | None


_ROUGHEST_FIRST: Sequence[Estimate] = ("coarse", "simulated", "approximated", "closed form")


def _stacked(parts: Sequence[_Found]) -> _Found:
    errors = [part.errors for part in parts]
    ranged = any(each.high is not None for each in errors)
    return _Found(
        ExpectedErrors(
            {"parts": [each.mean for each in errors]},
            min((each.estimate for each in errors), key=_ROUGHEST_FIRST.index),
            {"parts": [each.low or each.mean for each in errors]} if ranged else None,
            {"parts": [each.high or each.mean for each in errors]} if ranged else None,
            max(each.bias for each in errors),
        ),
        {"parts": [part.ranges for part in parts]},
        {"parts": [part.scale for part in parts]},
    )


def _with_rows_alone(errors: ExpectedErrors, asked: Asked) -> ExpectedErrors:
    """Return errors without those of numbers that are not shown."""
    mean, low, high = (
        None if each is None else asked.shown(each)
        for each in (errors.mean, errors.low, errors.high)
    )
    return replace(errors, mean=mean, low=low, high=high)


def _of_rows(
    statistic: EstimatedByRows, schema: Schema, parts: Sequence[_Found], sizes: Sequence[float]
) -> _Found:
    errors = [part.errors for part in parts]
    ranged = any(each.high is not None for each in errors)

    def rows(trees: Sequence[Json | None]) -> Json:
        return statistic.rows_of_errors(trees, sizes, schema)

    return _Found(
        ExpectedErrors(
            rows([each.mean for each in errors]),
            min((each.estimate for each in errors), key=_ROUGHEST_FIRST.index),
            rows([each.low or each.mean for each in errors]) if ranged else None,
            rows([each.high or each.mean for each in errors]) if ranged else None,
            max(each.bias for each in errors),
        ),
        statistic.rows_of_ranges([part.ranges for part in parts], schema),
        statistic.rows_of_ranges([part.scale for part in parts], schema),
    )


def _single(asked: Asked, assumptions: Assumptions, effort: Effort) -> _Found:
    plan = asked.plan()
    # What auto became: errors and ranges are those of the mechanism that is taken.
    asked = replace(asked, mechanism=plan.mechanism)
    errors = expected_error(asked, plan, assumptions, effort)
    errors = over_sizes(errors, asked.statistic, sizes_of(asked, assumptions))
    return _Found(
        _with_rows_alone(errors, asked),
        _shown(ranges_of(asked, assumptions), asked),
        _shown(scale_of(asked, assumptions), asked),
    )


def _shown(ranges: Json | None, asked: Asked) -> Json | None:
    return None if ranges is None else shown_ranges(ranges, asked.statistic, asked.schema)


def _in_its_shape(errors: Json, ranges: Json | None) -> Json:
    """Return the ranges in the shape of the errors, with their labels; null where none is known."""
    return placed(lambda path, _error: at(ranges, path), errors)
