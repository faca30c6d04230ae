"""Previews: what a release would cost and how noisy it would be, without reading data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from functools import partial
from math import ceil
from typing import Any, NamedTuple

from app.domain.problems import Problem
from app.services.datasets.accounting import Meter, charge_json
from app.services.datasets.datasets import DatasetFacts, DatasetService, require_askable
from app.services.people.keys import Caller
from app.services.plans.answers import noise_json, plan_json
from app.services.plans.lanes import FREE_S, OutOfTimeError, at_most
from app.services.plans.missing import warned, with_typical
from app.services.plans.plans import Offer, PlanService, estimate_of, make_plan
from app.services.plans.questions import Question, asked_json, weighed_for
from mechanisms.contract import Noise
from mechanisms.domain import Schema
from mechanisms.estimates.accuracy import USUALLY_TRIED, AskedAt, is_searched, smallest_epsilon
from mechanisms.estimates.asked import Asked, Weighed, is_simulated, parts_asked
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import ErrorEstimate, estimating_ms
from mechanisms.estimates.trees import numbers
from mechanisms.estimates.verdicts import REACH, Estimate
from mechanisms.privacy import MAX_EPSILON_NANOS, Epsilon
from mechanisms.statistics.stack import Stack

NOTICE = (
    "The same question under a new Idempotency-Key is a new draw and a new charge; "
    "under the same key it is the same answer, free."
)
STUDY_NOTICE = "A plan charges and reserves nothing. Each question is paid for when it is asked."
MOST_PLANNED = 20
"""Questions of a study plan: each may be calculated for a while."""
_EXACT_DIGITS = 60  # of sums of amounts: none is rounded
_ONE = Epsilon.parse("1")
_DIGITS = 4
_MAX_STEPS = 60  # never reached: about 20 find four digits among all epsilons
_MOST_CHOICES = 3
"""How often "auto" may take another mechanism at the price that the last one needs."""
_TRIED = 20
"""About how many epsilons are tried before one is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewOptions:
    """What a preview may ask beyond a release.

    ``accuracy``: the wanted half-width of the widest 95% interval, in the answer's units; where
    no law states one, 95% of simulated errors are to be within it. ``assume_rows``: the row count
    to assume for ratios, of the rows that the answer is about. ``assume``: the population that
    errors are expected in. ``judged_by``: an accuracy that the verdict is about, where none is
    searched for.
    """

    accuracy: float | None = None
    assume_rows: int | None = None
    assume: Assumptions = field(default_factory=Assumptions)
    judged_by: float | None = None

    @property
    def assumed(self) -> Assumptions:
        """Return the population, with the rows that are assumed for ratios if it has none."""
        if self.assume.rows is not None:
            return self.assume
        return replace(self.assume, rows=self.assume_rows)

    def rows_of_ratios(self, schema: Schema) -> int | None:
        """Return the row count to assume for ratios: of more than can be, noise seems too small."""
        return None if self.assume_rows is None else min(self.assume_rows, schema.row_bound)


class PreviewService:
    """Weighs questions. Everything here is a function of the request and public facts."""

    def __init__(self, datasets: DatasetService, plans: PlanService) -> None:
        self._datasets = datasets
        self._plans = plans

    async def preview(
        self, dataset: str, question: Question, options: PreviewOptions, *, caller: Caller
    ) -> dict[str, object]:
        """Return the preview as JSON-ready fields.

        Raises
        ------
        Problem
            What a release would be refused for, the budget aside; ``busy``.
        """
        facts = await self._datasets.present(dataset)
        require_askable(facts, kinds=question.kinds, epsilon=question.epsilon)
        self._plans.require_askable(question)
        asked, question = (
            weighed_for(question, facts.schema),
            await self._plans.spelled(facts, question, person=caller.person, free=True),
        )
        expected_ms = question.planning_ms(facts.schema)
        if options.accuracy is not None:
            # By the most that it may take: where it is calculated must not depend on
            # how the search goes.
            expected_ms *= 1 + _TRIED
            if is_simulated(question.statistic, facts.schema):
                expected_ms += USUALLY_TRIED * estimating_ms(question.statistic, facts.schema)
        known = self._plans.known_estimate(facts, question, options.assumed)
        if known is None:
            expected_ms += estimating_ms(question.statistic, facts.schema)
        preview, found = await self._plans.weigh(
            _preview, facts, question, options, known, person=caller.person, expected_ms=expected_ms
        )
        self._plans.remember_estimate(facts, question, options.assumed, found)
        return {**preview, **asked_json(asked)}

    async def preview_within(
        self, dataset: str, question: Question, options: PreviewOptions, *, caller: Caller
    ) -> tuple[dict[str, object], Question]:
        """Return the preview at the smallest epsilon that reaches an accuracy, and the question so.

        It is weighed first at epsilon 1, or at the most that the policy allows; where no epsilon is
        known to reach the accuracy, that is what is returned.

        Raises
        ------
        Problem
            As :meth:`preview`.
        """
        facts = await self._datasets.present(dataset)
        most = facts.policy.max_epsilon_per_release
        question = replace(question, epsilon=_ONE if most is None else min(_ONE, most))
        preview = await self.preview(dataset, question, options, caller=caller)
        for _ in range(_MOST_CHOICES):
            needed = _epsilon_told(preview["accuracy"])
            if needed is None or needed == question.epsilon:
                break
            # Asked at that epsilon again: cost and noise shown must be those of the price shown.
            question = replace(question, epsilon=needed)
            within = replace(options, accuracy=None, judged_by=options.accuracy)
            again = await self.preview(dataset, question, within, caller=caller)
            if again["mechanism"] == preview["mechanism"]:
                return {**again, "accuracy": preview["accuracy"]}, question
            # At that price "auto" takes another mechanism, which needs an epsilon of its own.
            preview = await self.preview(dataset, question, options, caller=caller)
        return preview, question

    async def study(
        self, dataset: str, planned: Sequence[PlannedQuestion], *, caller: Caller
    ) -> Sequence[Mapping[str, object]]:
        """Return the previews of several questions, one after the other.

        Raises
        ------
        Problem
            As :meth:`preview`; fields are of ``questions``, by their places from 0.
        """
        found: list[Mapping[str, object]] = []
        for place, (question, options, priced) in enumerate(planned):
            try:
                if priced:
                    found.append(await self.preview(dataset, question, options, caller=caller))
                else:
                    within = await self.preview_within(dataset, question, options, caller=caller)
                    found.append(within[0])
            except Problem as problem:
                raise problem.inside(f"questions.{place}") from None
        return found


class PlannedQuestion(NamedTuple):
    """A question of a study plan; ``priced`` says whether its epsilon was said."""

    question: Question
    options: PreviewOptions
    priced: bool


def study_json(
    previews: Sequence[Mapping[str, Any]], *, meter: Meter, remaining: int
) -> dict[str, object]:
    """Return what questions cost together, in the account's unit, and whether there is as much.

    Charges add up in any account, so the sum is exact. A question whose accuracy has no known
    epsilon is counted at the one that its preview is weighed at, and named in ``unpriced``.
    """
    amounts = [Decimal(each["charge"]["amount"]) for each in previews]
    with localcontext(prec=_EXACT_DIGITS):
        charge, left = sum(amounts, Decimal()), Decimal(meter.text(remaining))
        unpriced = [
            place
            for place, each in enumerate(previews)
            if each["accuracy"] is not None and each["accuracy"]["epsilon"] is None
        ]
        return {
            "questions": list(previews),
            "charge": {"amount": f"{charge.normalize():f}", "unit": meter.unit},
            "remaining": {"amount": f"{left.normalize():f}", "unit": meter.unit},
            "fits": charge <= left,
            "unpriced": unpriced,
            "notice": STUDY_NOTICE,
        }


def _epsilon_told(accuracy: object) -> Epsilon | None:
    """Return the epsilon that a preview says a wanted accuracy takes."""
    epsilon = accuracy["epsilon"] if isinstance(accuracy, Mapping) else None
    return None if epsilon is None else Epsilon.parse(epsilon)


def _preview(
    offer: Offer,
    facts: DatasetFacts,
    question: Question,
    options: PreviewOptions,
    known: ErrorEstimate | None,
) -> tuple[dict[str, object], ErrorEstimate]:
    """Return the preview of what is offered, and what it would be worth, unless that is known."""
    plan = offer.plan
    found = known or estimate_of(facts, question, options.assumed)
    noise = plan.preview(options.rows_of_ratios(facts.schema))
    wanted = options.accuracy or options.judged_by
    useful = found.usefulness if wanted is None else found.within(wanted)
    return {
        **_weighed(offer, facts, question, noise),
        "accuracy": _accuracy(facts, question, options, plan.mechanism, noise=noise, found=found),
        "assume": with_typical(options.assumed, facts.columns).to_json(facts.schema),
        "expected_error": found.expected_error,
        "error_range": error_range(found),
        "possible_range": found.possible_range,
        "usefulness": warned(useful, plan.details).to_json(),
    }, found


def error_range(found: ErrorEstimate) -> dict[str, object] | None:
    """Return the least and the largest expected errors over several populations, if there are."""
    return None if found.high is None else {"low": found.low, "high": found.high}


def _weighed(
    offer: Offer, facts: DatasetFacts, question: Question, noise: Noise | None
) -> dict[str, object]:
    """Return what is said of the plan itself."""
    plan = offer.plan
    figure = plan.figure()
    return {
        "dataset": facts.id,
        **asked_json(question),
        "cost": str(question.epsilon),
        "charge": charge_json(facts.meter, plan.guarantee),
        **plan_json(plan, question.epsilon),
        "review": offer.reviewed,
        "job": None if offer.job is None else offer.job.to_json(),
        "noise": noise_json(noise),
        "alternatives": [
            {
                "mechanism": other.mechanism,
                "norm": other.norm,
                "comparison": other.comparison,
                "std": other.std,
            }
            for other in plan.alternatives
        ],
        "adjacent_output_space": None if figure is None else {"svg": figure},
        "notice": NOTICE,
    }


def _accuracy(
    facts: DatasetFacts,
    question: Question,
    options: PreviewOptions,
    mechanism: str,
    *,
    noise: Noise | None,
    found: ErrorEstimate,
) -> dict[str, object] | None:
    """Return what the wanted accuracy would cost by this mechanism, if one is wanted.

    Where a search would take longer than is free it follows from what is known at the question's
    epsilon.
    """
    if options.accuracy is None:
        return None
    if question.mechanism == "auto" and not isinstance(question.statistic, Stack):
        question = replace(question, mechanism=mechanism)  # the one that is weighed
    law = None
    if noise is not None and _known(noise.interval_95) and not _depends_on_data(facts, question):
        law = noise
    needed, estimate = _searched(facts, question, options, law) or _coarsely(
        question, options.accuracy, law, found
    )
    return {
        "wanted": options.accuracy,
        "epsilon": None if needed is None else str(needed),
        "estimate": estimate,
    }


def _searched(
    facts: DatasetFacts, question: Question, options: PreviewOptions, law: Noise | None
) -> tuple[Epsilon | None, Estimate] | None:
    """Return the smallest epsilon that is enough; None where a search takes longer than is free."""
    if isinstance(question.statistic, Weighed):  # a p-value has no error in any units
        return None, "coarse"
    if law is None and not _depends_on_data(facts, question):  # the noise follows from the draw
        return None, "coarse"
    with suppress(OutOfTimeError), at_most(FREE_S):
        if law is not None:
            return _needed(facts, question, options, law), "closed form"
        asked_at = partial(_asked, facts, question)
        assumed = with_typical(options.assumed, facts.columns)
        if is_searched(question.epsilon, asked_at, assumed):
            return _simulated(question, asked_at, assumed, options), "simulated"
    return None


def _coarsely(
    question: Question, wanted: float, law: Noise | None, found: ErrorEstimate
) -> tuple[Epsilon, Estimate]:
    """Return about the smallest epsilon that is enough, by the error at the question's own."""
    errors = () if found.expected_error is None else numbers(found.expected_error)
    largest = max((error for _, error in errors), default=0.0)
    return _scaled(question, REACH * largest if law is None else widest(law), wanted), "coarse"


def _depends_on_data(facts: DatasetFacts, question: Question) -> bool:
    """Return whether errors do not follow from the noise law: for ratios it is the widest noise."""
    asked = question.statistic
    alone = [part.statistic for part in asked.parts] if isinstance(asked, Stack) else [asked]
    return any(is_simulated(each, facts.schema) for each in alone)


def widest(noise: Noise) -> float:
    """Return half the width of the widest 95% interval in a law of noise."""
    return max((high - low) / 2 for low, high in _intervals(noise.interval_95))


def _known(part: object) -> bool:
    """Return whether a law is stated everywhere: a stack's is null where a part's is."""
    if isinstance(part, Mapping):
        return all(map(_known, part.values()))
    if isinstance(part, Sequence) and not isinstance(part, str):
        return all(map(_known, part))
    return part is not None


def _intervals(part: object) -> Iterator[tuple[float, float]]:
    """Yield every ``[low, high]`` at the leaves of a structure."""
    if isinstance(part, Mapping):
        for inner in part.values():
            yield from _intervals(inner)
    elif isinstance(part, Sequence) and not isinstance(part, str):
        if len(part) == 2 and all(isinstance(end, int | float) for end in part):
            yield float(part[0]), float(part[1])
        else:
            for inner in part:
                yield from _intervals(inner)


def _scaled(question: Question, reach: float, wanted: float) -> Epsilon:
    """Return about the smallest epsilon that is enough: what is wanted, and reached at another."""
    nanos = min(question.epsilon.nanos * reach / wanted, float(MAX_EPSILON_NANOS))
    return Epsilon(min(max(_round_up(ceil(nanos)), 1), MAX_EPSILON_NANOS))


def _needed(
    facts: DatasetFacts, question: Question, options: PreviewOptions, noise: Noise
) -> Epsilon | None:
    """Return the smallest epsilon, to 4 digits, whose widest interval is narrow enough.

    The half-width falls with epsilon: where it does not do so in proportion to the ``noise`` at
    the question's own, bisection on the logarithm finds it. None when no epsilon the service
    accepts is enough.
    """
    wanted = options.accuracy
    if wanted is None:
        return None

    def reaches(epsilon: Epsilon) -> bool:
        try:
            plan = make_plan(facts, replace(question, epsilon=epsilon))
        except Problem:  # too little to be split
            return False
        noise = plan.preview(options.rows_of_ratios(facts.schema))
        return noise is not None and widest(noise) <= wanted

    # Noise is in inverse proportion to epsilon, nearly: as a rule this is it, and the next is not.
    guess = _scaled(question, widest(noise), wanted).nanos
    if reaches(Epsilon(guess)):
        high, low, step = guess, max(_next_below(guess), 1), 2
        while reaches(Epsilon(low)):
            if low == 1:
                return Epsilon(1)
            high, low, step = low, max(low // step, 1), step**2
    else:
        low, high, step = guess, guess, 2
        while low < MAX_EPSILON_NANOS:
            high, step = min(low * step, MAX_EPSILON_NANOS), step**2
            if reaches(Epsilon(high)):
                break
            low = high
        else:
            return None
    for _ in range(_MAX_STEPS):
        # The middle by factors, as epsilons differ by factors; rounded as the answer will be.
        middle = _round_up(math.isqrt(low * high))
        if not low < middle < high:
            break
        low, high = (low, middle) if reaches(Epsilon(middle)) else (middle, high)
    return Epsilon(_round_up(high))


def _asked(facts: DatasetFacts, question: Question, epsilon: Epsilon) -> Sequence[Asked]:
    """Return what is asked at an epsilon: a stack as its parts."""
    return parts_asked(
        Asked(
            statistic=question.statistic,
            schema=facts.schema,
            epsilon=replace(question, epsilon=epsilon).spent_on_numbers,
            mechanism=question.mechanism,
            norm=question.norm,
            inference=question.inference,
        )
    )


def _simulated(
    question: Question,
    asked_at: AskedAt,
    assumed: Assumptions,
    options: PreviewOptions,
) -> Epsilon | None:
    """Return the smallest epsilon, within about 10%, where a simulation estimates the error."""
    wanted = options.accuracy
    if wanted is None:
        return None
    found = smallest_epsilon(question.epsilon, asked_at, assumed, wanted=wanted)
    return None if found is None else Epsilon(_round_up(found.nanos))


def _next_below(nanos: int) -> int:
    """Return the next smaller integer with at most 4 significant digits."""
    unit = int("1" + "0" * max(0, len(str(nanos - 1)) - _DIGITS))
    return (nanos - 1) // unit * unit


def _round_up(nanos: int) -> int:
    """Return the next integer at or above with at most 4 significant digits."""
    unit = int("1" + "0" * max(0, len(str(nanos)) - _DIGITS))
    return -(-nanos // unit) * unit
