"""What a question would be like, for the pages that show it: price, errors, and other mechanisms.

It is what the API's preview says, arranged for reading: a function of the question and of public
facts alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from markupsafe import Markup

from app.desk.charts import error_curve
from app.desk.figures import Say, figure
from app.domain.datasets import columns_json
from app.domain.problems import Problem
from app.services.build import Services
from app.services.datasets.budgets import BudgetView
from app.services.people.keys import Caller
from app.services.plans.previews import PreviewOptions
from app.services.plans.questions import Question
from app.tidy import names
from app.tidy.keys import Key
from app.tidy.names import NO_LABELS, Labels, marked
from app.tidy.rows import Row, rows_of
from mechanisms.estimates.estimate import estimating_ms
from mechanisms.privacy import MAX_EPSILON_NANOS, NANOS_PER_EPSILON, Epsilon

_STD = marked("Standard deviation of the noise")
_BY_CHOICE = marked("Standard deviation of the noise by choice")
_CURVE_MS = 150.0
"""A curve is drawn where a preview takes less than this of one core; it takes several."""
_FACTORS = ((1, 4), (1, 2), (1, 1), (2, 1), (4, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One number of an answer: its expected error and its possible range.

    ``most`` is the largest error over several populations, where there are some.
    """

    name: str
    error: float | None
    most: float | None
    low: Any
    high: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """A preview, with the budget and the charts that its page shows."""

    estimate: Mapping[str, Any]
    left: str
    after: str | None
    """What would be left; None where it is not enough."""
    share: float | None
    """The cost as a part of what is left."""
    expected: Sequence[Expected]
    alternatives: Markup | None
    curve: Markup | None
    points: Sequence[tuple[str, float]]
    left_out: str = ""
    """Why the usual intervals are not part of it."""


async def estimated(
    services: Services,
    dataset: str,
    question: Question,
    options: PreviewOptions,
    *,
    freed: int = 0,
    say: Say = str,
    caller: Caller,
) -> tuple[Estimated, Question]:
    """Return what a question would be like, and the question with the epsilon it was seen at.

    Where an accuracy is wanted, that is the epsilon that reaches it, where one is known. ``freed``
    is what is set aside already for a request that this one replaces, in the account's smallest
    units. ``say`` says the words of charts.

    Raises
    ------
    Problem
        What a release would be refused for, the budget aside; ``busy``.
    """
    if options.accuracy is None:
        estimate = await services.previews.preview(dataset, question, options, caller=caller)
    else:
        estimate, question = await services.previews.preview_within(
            dataset, question, options, caller=caller
        )
    budget = services.budgets.view(dataset, caller=caller)
    labels = names.labels_of(columns_json(services.datasets.facts(dataset).columns))
    priced = replace(options, accuracy=None)
    points = await _points(services, dataset, question, priced, caller=caller)
    left, after, share = _left(estimate, budget, freed)
    return (
        Estimated(
            estimate=estimate,
            left=left,
            after=after,
            share=share,
            expected=expected_of(estimate, labels),
            alternatives=_alternatives(estimate, say),
            curve=_curve(points, question.epsilon),
            points=[(str(epsilon), error) for epsilon, error in points],
        ),
        question,
    )


def _left(
    estimate: Mapping[str, Any], budget: BudgetView, freed: int
) -> tuple[str, str | None, float | None]:
    """Return what a release may still cost, what it would leave, and the cost's part of that."""
    meter, left = budget.meter, budget.remaining + freed
    cost = _units(estimate["charge"]["amount"], meter.unit)
    share = cost / left if left else None
    after = meter.text(left - cost) if cost <= left else None
    return meter.text(left), after, share


def _units(amount: str, unit: str) -> int:
    """Return an amount of an account in its smallest units: 1e-9 epsilon, 1e-12 rho."""
    whole, _, decimals = amount.partition(".")
    places = 9 if unit == "epsilon" else 12
    return int(whole + decimals.ljust(places, "0"))


def expected_of(estimate: Mapping[str, Any], labels: Labels = NO_LABELS) -> list[Expected]:
    """Return each number's expected error and possible range, of a preview or a sheet."""
    errors, ranges = estimate["expected_error"], estimate["possible_range"]
    if errors is None:
        return []
    shown = {
        "statistic": estimate["statistic"],
        "value": errors,
        "noise": {"interval_95": ranges},
        "epsilon": estimate["epsilon"],
    }
    over = estimate.get("error_range")
    largest = rows_of({**shown, "value": over["high"]}) if over else []
    return [
        Expected(
            name=row.named(labels),
            error=row.estimate,
            most=most.estimate if most else None,
            low=None if row.noise is None else row.noise[0],
            high=None if row.noise is None else row.noise[1],
        )
        for row, most in zip_longest(rows_of(shown), largest)
    ]


def _alternatives(estimate: Mapping[str, Any], say: Say) -> Markup | None:
    rows = [
        Row(key=Key(kind=_STD, terms=(_choice_name(each),)), estimate=each["std"])
        for each in estimate["alternatives"]
        if each["std"] is not None
    ]
    drawn = figure(rows, say(_BY_CHOICE), {}, say)
    return None if drawn is None else drawn.svg


def _choice_name(each: Mapping[str, Any]) -> str:
    norm = "" if each["norm"] is None else f", {each['norm']}"
    return f"{each['mechanism'].replace('_', ' ')}{norm}"


def _share_of_range(estimate: Mapping[str, Any]) -> float | None:
    """Return the largest expected error as a part of its possible range."""
    shares = [
        each.error / (each.high - each.low)
        for each in expected_of(estimate)
        if isinstance(each.error, int | float)
        and isinstance(each.low, int | float)
        and isinstance(each.high, int | float)
        and each.high > each.low
    ]
    return max(shares, default=None)


async def _points(
    services: Services, dataset: str, question: Question, options: PreviewOptions, *, caller: Caller
) -> list[tuple[Epsilon, float]]:
    """Return errors at smaller and larger epsilons, in percent, where that is quickly found."""
    schema = (await services.datasets.present(dataset)).schema
    takes_ms = question.planning_ms(schema) + estimating_ms(question.statistic, schema)
    if takes_ms > _CURVE_MS:
        return []
    found = []
    for times, by in _FACTORS:
        nanos = question.epsilon.nanos * times // by
        if not 1 <= nanos <= MAX_EPSILON_NANOS:
            continue
        at = replace(question, epsilon=Epsilon(nanos))
        error = await _error_at(services, dataset, at, options, caller=caller)
        if error is not None:
            found.append((at.epsilon, error))
    now = dict(found).get(question.epsilon)
    return [(epsilon, 100 * error / now) for epsilon, error in found] if now else []


async def _error_at(
    services: Services, dataset: str, question: Question, options: PreviewOptions, *, caller: Caller
) -> float | None:
    policy = (await services.datasets.present(dataset)).policy
    if (most := policy.max_epsilon_per_release) is not None and question.epsilon > most:
        return None
    try:
        estimate = await services.previews.preview(dataset, question, options, caller=caller)
    except Problem as problem:
        if problem.code != "invalid-request":
            raise
        return None  # at this epsilon intervals would say nothing
    return _share_of_range(estimate)


def _curve(points: Sequence[tuple[Epsilon, float]], now: Epsilon) -> Markup | None:
    plain = [(epsilon.nanos / NANOS_PER_EPSILON, error) for epsilon, error in points]
    name = marked("Largest expected error, in percent of that at the chosen epsilon, by epsilon")
    return error_curve(plain, now.nanos / NANOS_PER_EPSILON, name)
