"""Which mechanism ``auto`` takes for a regression: by its error in a public simulation.

Let e_mp be the mean, over the coefficients, of the error that is expected by mechanism m in a
population p, and z_p that of no answer, the middle of the values that are possible; each as a share
of the range of these. There are two populations: features spread evenly over their bounds, and
features that fill about a quarter of them, off centre. The target fills about a quarter of its own
in both: a target that filled all of them beside narrow features would have slopes larger than most
are. A population weighs what the best mechanism tells in it,

    w_p = max(0, 1 - min_m e_mp / z_p),

so that it says nothing where all answers are noise. ``auto`` takes the mechanism with the least
product of e_mp^(w_p), which counts 1.1-fold if the answers do not state their noise. So intervals
are given up only for what errs less by more than a simulation may be wrong. ``studies/choices.py``
has what is taken beside what errs least, on other data.

The exponential mechanism is no candidate, being the baseline, and neither is what is drawn on
boxes: how long such a draw takes depends on the data, so it is a job that one has to ask for. So
for now the choice is one for linear regressions alone; others have one candidate. What would take
too long to simulate, as sanitized moments of many columns do, is no candidate either.

**Privacy.** The choice is a function of the question, the schema and epsilon, all public. It reads
no data, and the same question is drawn by the same mechanism.
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
from mechanisms.foresight.assumptions import Assumptions, Spread
from mechanisms.foresight.errors import (
    Asked,
    is_tried_in_time,
    relation_of,
    simulated_error,
    simulated_truths,
)
from mechanisms.foresight.memory import Memory
from mechanisms.foresight.ranges import ranges_of
from mechanisms.foresight.trees import at, numbers
from mechanisms.people import per_row
from mechanisms.privacy import PrivacyLoss, split
from mechanisms.single import SINGLE_MECHANISMS, calibrate_by
from mechanisms.statistics.questions import viewed
from mechanisms.statistics.stack import Stack

CHOSEN_KINDS = frozenset({"linear_regression"})
_BASELINE = "exponential"
_FREE = "functional"
"""Its standard errors cost nothing."""
_FILLED = 0.25  # of the bounds, by narrow columns
_OFF_CENTRE = 0.1  # of the width
_UNSTATED = 1.1
"""As many times its own does an error count where answers do not state their noise."""
_NEAR = 1.05
"""Errors that differ by less are told as about the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A mechanism, and why it was taken."""

    mechanism: str
    reason: str

    def told(self, plan: Plan) -> Plan:
        """Return the plan of the mechanism with the reason why it was taken."""
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
    if statistic.kind not in CHOSEN_KINDS:
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
    """Return what a question leaves to ``auto`` that has not been decided here: a stack's parts.

    Of a stack that does not fit there is nothing to decide: its plan is refused.
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
    if mechanism != "auto" or statistic.kind not in CHOSEN_KINDS:
        return []
    asked = _asked(statistic, schema, epsilon, norm, inference)
    return [asked] if _KNOWN.get(_text(asked)) is None else []


def decided(questions: Sequence[Asked]) -> dict[str, Choice]:
    """Return choices that another process may :func:`remember`; what is refused is left out."""
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
    """Remember choices; the oldest are forgotten."""
    _KNOWN.keep(choices)


def _asked(
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    norm: str,
    inference: Fraction | None,
) -> Asked:
    """Return what is asked of one row, at its share of epsilon."""
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
    """Return a text that tells a question from all others."""
    price = f"{asked.epsilon.fraction} {asked.inference}"
    # By repr, which holds every field: one that is added later tells questions apart as well.
    return f"{asked.statistic!r} {asked.schema!r} {price} {asked.norm}"


def _chosen(asked: Asked) -> Choice:
    offered = _candidates(asked)
    if len(offered) == 1:
        return Choice(mechanism=offered[0].mechanism, reason="No other can be compared with it.")
    errors, weight = _errors(offered)
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
    told = "about as much" if 1 / _NEAR < ratio < _NEAR else f"{ratio:.2g} times as much"
    simulated = "in a public simulation of this question"
    if ratio < 1:
        but = f"the runner-up, {second}, does not, and errs"
        return f"{best} states its noise; {but} {told} {simulated}."
    return f"{best} errs least {simulated}; the runner-up, {second}, errs {told}."


def _candidates(asked: Asked) -> list[Asked]:
    """Return the question by each mechanism that may be taken for it.

    Raises
    ------
    InvalidStatisticError
        None may: what the first of them says.
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
    """Return the question by a mechanism, at what of epsilon its standard errors leave.

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
    # Where nothing is told all are alike.
    root = 1 / total if total > 0 else 0.0
    return {mechanism: product**root for mechanism, product in products.items()}, total


_Population = tuple[tuple[str, Spread], ...]


def _populations(asked: Asked) -> tuple[_Population, _Population]:
    """Return what fills a part of its bounds: the target, and the features as well."""
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
    """The mean error of an answer's numbers, and of none, as shares of what was possible."""

    error: float
    none: float


def _compared(asked: Asked, assumptions: Assumptions) -> _Compared:
    """Return how an answer errs, and how the middle of what was possible does."""
    truths = [dict(numbers(each)) for each in simulated_truths(asked, assumptions)]
    ranges = ranges_of(asked, assumptions)
    errors, none = [], []
    for path, error in numbers(simulated_error(asked, assumptions)):
        low, high = at(ranges, path)
        if low < high:
            errors.append(error / (high - low))
            none.append(fmean(abs(each[path] - (low + high) / 2) for each in truths) / (high - low))
    return _Compared(fmean(errors), fmean(none))
