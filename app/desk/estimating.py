"""What a preview shows: what a release would cost, what it would leave, and what it would be worth.

Everything here is what the API's preview says, arranged for reading. It is a function of the
question and of public facts alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from app.desk.charts import Measured, error_curve, intervals
from app.domain.datasets import columns_json
from app.services.build import Services
from app.services.datasets.budgets import BudgetView
from app.services.people.keys import Caller
from app.services.plans.previews import Wish
from app.services.plans.questions import Question
from app.tidy.names import NO_LABELS, Labels, labels_of
from app.tidy.rows import rows_of
from mechanisms.foresight.foresee import foreseeing_ms
from mechanisms.privacy import MAX_EPSILON_NANOS, NANOS_PER_EPSILON, Epsilon

_CURVE_MS = 150.0
"""A curve is drawn where a preview takes less than this of one core; it takes several."""
_FACTORS = ((1, 4), (1, 2), (1, 1), (2, 1), (4, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One number of an answer: its expected error and its possible range."""

    name: str
    error: float | None
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


async def foresee(
    services: Services,
    dataset: str,
    question: Question,
    wish: Wish,
    *,
    freed: int = 0,
    caller: Caller,
) -> tuple[Estimated, Question]:
    """Return what a question would be like, and the question with the epsilon it was seen at.

    Where an accuracy is wanted, that is the epsilon that reaches it, where one is known. ``freed``
    is what is set aside already for a request that this one replaces, in the account's smallest
    units.

    Raises
    ------
    Problem
        What a release would be refused for, the budget aside; ``busy``.
    """
    if wish.accuracy is None:
        estimate = await services.previews.preview(dataset, question, wish, caller=caller)
    else:
        estimate, question = await services.previews.preview_within(
            dataset, question, wish, caller=caller
        )
    budget = services.budgets.view(dataset, caller=caller)
    labels = labels_of(columns_json(services.datasets.facts(dataset).columns))
    priced = replace(wish, accuracy=None)
    points = await _points(services, dataset, question, priced, caller=caller)
    left, after, share = _left(estimate, budget, freed)
    return (
        Estimated(
            estimate=estimate,
            left=left,
            after=after,
            share=share,
            expected=expected_of(estimate, labels),
            alternatives=_alternatives(estimate),
            curve=_curve(points, question.epsilon),
            points=[(str(epsilon), 100 * error) for epsilon, error in points],
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
    return [
        Expected(
            name=row.named(labels),
            error=row.estimate,
            low=None if row.noise is None else row.noise[0],
            high=None if row.noise is None else row.noise[1],
        )
        for row in rows_of(shown)
    ]


def _alternatives(estimate: Mapping[str, Any]) -> Markup | None:
    rows = [
        Measured(_choice_name(each), each["std"])
        for each in estimate["alternatives"]
        if each["std"] is not None
    ]
    return intervals(rows, "Standard deviation of the noise by choice") if rows else None


def _choice_name(each: Mapping[str, Any]) -> str:
    norm = "" if each["norm"] is None else f", {each['norm']}"
    return f"{each['mechanism'].replace('_', ' ')}{norm}"


def _share_of_range(estimate: Mapping[str, Any]) -> float | None:
    """Return the largest expected error as a part of its possible range, as the verdict does."""
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
    services: Services, dataset: str, question: Question, wish: Wish, *, caller: Caller
) -> list[tuple[Epsilon, float]]:
    """Return errors at smaller and larger epsilons, where that is quickly found."""
    schema = (await services.datasets.present(dataset)).schema
    takes_ms = question.planning_ms(schema) + foreseeing_ms(question.statistic, schema)
    if takes_ms > _CURVE_MS:
        return []
    found = []
    for times, by in _FACTORS:
        nanos = question.epsilon.nanos * times // by
        if not 1 <= nanos <= MAX_EPSILON_NANOS:
            continue
        at = replace(question, epsilon=Epsilon(nanos))
        error = await _error_at(services, dataset, at, wish, caller=caller)
        if error is not None:
            found.append((at.epsilon, error))
    return found


async def _error_at(
    services: Services, dataset: str, question: Question, wish: Wish, *, caller: Caller
) -> float | None:
    policy = (await services.datasets.present(dataset)).policy
    if (most := policy.max_epsilon_per_release) is not None and question.epsilon > most:
        return None
    estimate = await services.previews.preview(dataset, question, wish, caller=caller)
    return _share_of_range(estimate)


def _curve(points: Sequence[tuple[Epsilon, float]], now: Epsilon) -> Markup | None:
    plain = [(epsilon.nanos / NANOS_PER_EPSILON, 100 * error) for epsilon, error in points]
    name = "Largest expected error, in percent of the possible range, by epsilon"
    return error_curve(plain, now.nanos / NANOS_PER_EPSILON, name)
