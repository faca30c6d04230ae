"""Which mechanism ``auto`` takes for a regression: the one with the least simulated error.

Let e_mp be the expected error of mechanism m in a population p: the mean over the coefficients.
Let z_p be the error of the constant answer, the middle of the possible values. Both are shares of
the range of possible values. There are two populations: features spread evenly over their bounds,
and features that fill about a quarter of them, off centre. The target fills about a quarter of its
bounds in both: a wider target with narrow features would have unusually large slopes. The weight of
a population is how much the best mechanism improves on the constant answer,

    w_p = max(0, 1 - min_m e_mp / z_p),

so a population has no weight where all answers are noise. ``auto`` takes the mechanism with the
least product of e_mp^(w_p), times 1.1 if the answers do not state their noise. So ``auto`` gives
up intervals only if the error decreases by more than the simulation's own error.
``studies/choices.py`` compares the choice with the mechanism of least error, on other data.

The exponential mechanism is no candidate, because it is the baseline. Neither are draws on boxes:
their time depends on the data, so a request must ask for them explicitly. So for now only linear
regressions have a choice; other kinds have one candidate. A plan that takes too long to simulate,
such as sanitized moments of many columns, is no candidate either.

**Privacy.** The choice is a function of the question, the schema and epsilon, all public. It reads
no data, and the same question always gets the same mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from statistics import fmean
from typing import NamedTuple

from mechanisms.contract import InvalidStatisticError, Plan, Statistic
from mechanisms.domain import CategoryColumn, Schema
from mechanisms.foresight.asked import Asked, Memory, one_group, relation_of
from mechanisms.foresight.assumptions import Assumptions, Spread
from mechanisms.foresight.errors import (
    CHOOSING,
    is_tried_in_time,
    simulated_error,
    simulated_truths,
)
from mechanisms.foresight.ranges import ranges_of
from mechanisms.foresight.trees import at, numbers
from mechanisms.people import per_row
from mechanisms.privacy import PrivacyLoss, split
from mechanisms.single import SINGLE_MECHANISMS, calibrate_by
from mechanisms.statistics.questions import viewed
from mechanisms.statistics.stack import Stack

_BASELINE = "exponential"
_FREE = "functional"
"""Its standard errors cost nothing."""
_FILLED = 0.25  # of the bounds, by narrow columns
_OFF_CENTRE = 0.1  # of the width
_UNSTATED = 1.1
"""The factor on the error of a mechanism whose answers do not state their noise."""
_NEAR = 1.05
"""Errors that differ by a smaller factor are reported as about the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A mechanism, and why it was taken."""

    mechanism: str
    reason: str

    def explained(self, plan: Plan) -> Plan:
        """Return the mechanism's plan with the reason for the choice."""
        return replace(plan, reason=f"{self.reason} {plan.reason}")


# Choices of this process: a simulation takes seconds, and the same question comes many times.
_KNOWN: Memory[Choice] = Memory(512)


def choose(
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    *,
    norm: str,
    inference: Fraction | None = None,
) -> Choice | None:
    """Return the mechanism that ``auto`` stands for; None where it is the first that is offered.

    Raises
    ------
    InvalidStatisticError
        The question does not fit the schema, or no mechanism offers the norm.
    """
    if not statistic.chosen_by_simulation:
        return None
    asked = _asked(statistic, schema, epsilon, norm, inference)
    known = _KNOWN.get(_text(asked))
    if known is None:
        known = _chosen(asked)
        _KNOWN.keep({_text(asked): known})
    return known


def undecided(
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    *,
    mechanism: str,
    norm: str,
    inference: Fraction | None = None,
) -> list[Asked]:
    """Return the questions that ``auto`` has not decided here yet: for a stack, those of its parts.

    A stack that does not fit has none: its plan is refused.
    """
    if isinstance(statistic, Stack):
        try:
            statistic.check(schema)
        except InvalidStatisticError:
            return []
        shares = split(epsilon, statistic.exact_shares())
        return [
            asked
            for part, share in zip(statistic.parts, shares, strict=True)
            for asked in undecided(
                part.statistic, schema, share, mechanism=part.mechanism, norm=part.norm
            )
        ]
    if mechanism != "auto" or not statistic.chosen_by_simulation:
        return []
    asked = _asked(statistic, schema, epsilon, norm, inference)
    return [asked] if _KNOWN.get(_text(asked)) is None else []


def decided(questions: Sequence[Asked]) -> dict[str, Choice]:
    """Return choices that another process may :func:`remember`, without refused questions."""
    found = {}
    for asked in questions:
        with suppress(InvalidStatisticError):
            choice = choose(
                asked.statistic,
                asked.schema,
                asked.epsilon,
                norm=asked.norm,
                inference=asked.inference,
            )
            if choice is not None:
                found[_text(asked)] = choice
    return found


def remember(choices: Mapping[str, Choice]) -> None:
    """Store choices; the oldest are dropped."""
    _KNOWN.keep(choices)


def _asked(
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    norm: str,
    inference: Fraction | None,
) -> Asked:
    """Return the question about one row, at its share of epsilon."""
    schema, epsilon = per_row(schema, epsilon)
    return Asked(
        statistic=statistic,
        schema=schema,
        epsilon=epsilon,
        mechanism="auto",
        norm=norm,
        inference=inference,
    )


def _text(asked: Asked) -> str:
    """Return a text that is different for every question."""
    price = f"{asked.epsilon.fraction} {asked.inference}"
    # repr holds every field, so fields that are added later also distinguish questions.
    return f"{asked.statistic!r} {asked.schema!r} {price} {asked.norm}"


def _chosen(asked: Asked) -> Choice:
    offered = _candidates(asked)
    if len(offered) == 1:
        return Choice(mechanism=offered[0].mechanism, reason="No other can be compared with it.")
    errors, weight = _errors([one_group(each) for each in offered])
    stating = {each.mechanism for each in offered if _states_noise(each)}

    def counted(mechanism: str) -> float:
        return float(errors[mechanism] ** weight) * (1 if mechanism in stating else _UNSTATED)

    best, second, *_ = sorted(errors, key=counted)
    return Choice(mechanism=best, reason=_reason(best, second, errors))


def _states_noise(asked: Asked) -> bool:
    """Return whether an answer says how far its noise reaches, at no further cost."""
    return asked.plan().preview(Assumptions().rows_of(asked.schema)) is not None


def _reason(best: str, second: str, errors: Mapping[str, float]) -> str:
    ratio = errors[second] / errors[best] if errors[best] > 0 else 1.0
    difference = "about as much" if 1 / _NEAR < ratio < _NEAR else f"{ratio:.2g} times as much"
    simulated = "in a public simulation of this question"
    if ratio < 1:
        but = f"the runner-up, {second}, does not, and errs"
        return f"{best} states its noise; {but} {difference} {simulated}."
    return f"{best} errs least {simulated}; the runner-up, {second}, errs {difference}."


def _candidates(asked: Asked) -> list[Asked]:
    """Return the question with each candidate mechanism.

    Raises
    ------
    InvalidStatisticError
        There is no candidate: the refusal of the first mechanism.
    """
    found: list[Asked] = []
    others: list[Asked] = []
    refused: list[InvalidStatisticError] = []
    for mechanism in asked.statistic.mechanisms:
        if mechanism == _BASELINE:
            continue
        try:
            candidate = _by(asked, mechanism)
            plan = candidate.plan()
        except InvalidStatisticError as error:
            refused.append(error)
            continue
        # A mechanism that cannot be compared is only taken where none can.
        quick = not plan.drawn_on_boxes and is_tried_in_time(candidate, Assumptions())
        (found if quick else others).append(candidate)
    if not (found or others):
        raise refused[0]
    return found or others[:1]


def _by(asked: Asked, mechanism: str) -> Asked:
    """Return the question with a mechanism, at the epsilon that its standard errors leave.

    Raises
    ------
    InvalidStatisticError
        Standard errors are wanted and not offered by it.
    """
    if asked.inference is None:
        return replace(asked, mechanism=mechanism)
    # Only for its refusal: what standard errors are not offered for is no candidate.
    calibrate_by(
        SINGLE_MECHANISMS,
        asked.statistic,
        asked.schema,
        asked.epsilon,
        mechanism=mechanism,
        norm=asked.norm,
        inference=asked.inference,
    )
    # Simulated at what is left for the coefficients: errors are theirs.
    left = asked.epsilon
    if mechanism != _FREE:
        left, _ = split(asked.epsilon, [1 - asked.inference, asked.inference])
    return replace(asked, mechanism=mechanism, epsilon=left)


def _errors(offered: Sequence[Asked]) -> tuple[dict[str, float], float]:
    """Return the weighed geometric means of the mechanisms' errors, and what they weigh in all."""
    # Geometric, so that a mechanism twice as good in one population and half in the other ties.
    products, total = {each.mechanism: 1.0 for each in offered}, 0.0
    for population in _populations(offered[0]):
        assumed = Assumptions(population=population)
        found = {each.mechanism: _compared(each, assumed) for each in offered}
        least, none = min(found.values())[0], max(each.none for each in found.values())
        weight = max(0.0, 1 - least / none) if none > 0 else 0.0
        total += weight
        for mechanism, each in found.items():
            products[mechanism] *= each.error**weight
    # Where no population has weight, all mechanisms are equal.
    root = 1 / total if total > 0 else 0.0
    return {mechanism: product**root for mechanism, product in products.items()}, total


_Population = tuple[tuple[str, Spread], ...]


def _populations(asked: Asked) -> tuple[_Population, _Population]:
    """Return the columns that fill a part of their bounds: the target, and the features too."""
    relation = relation_of(viewed(asked.statistic, asked.schema))
    if relation is None:
        return (), ()
    target = _narrow(asked, relation.target)
    return target, (*target, *_narrow(asked, *relation.features))


def _narrow(asked: Asked, *names: str) -> _Population:
    spreads: list[tuple[str, Spread]] = []
    for name in names:
        column = asked.schema.columns[name]
        if isinstance(column, CategoryColumn) or column.boolean:
            continue
        width = float(column.upper - column.lower)
        centre = float(column.midpoint) + _OFF_CENTRE * width
        spreads.append((name, Spread(mean=centre, std=_FILLED * width / sqrt(12))))
    return tuple(spreads)


class _Compared(NamedTuple):
    """Mean errors of an answer and of the constant answer, as shares of the possible range."""

    error: float
    none: float


def _compared(asked: Asked, assumptions: Assumptions) -> _Compared:
    """Return the mean errors of an answer and of the middle of the possible range."""
    truths = [dict(numbers(each)) for each in simulated_truths(asked, assumptions, CHOOSING)]
    ranges = ranges_of(asked, assumptions)
    errors, none = [], []
    for path, error in numbers(simulated_error(asked, assumptions, CHOOSING)):
        low, high = at(ranges, path)
        if low < high:
            errors.append(error / (high - low))
            none.append(fmean(abs(each[path] - (low + high) / 2) for each in truths) / (high - low))
    return _Compared(fmean(errors), fmean(none))
