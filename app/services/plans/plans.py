"""Plans: from a question to a calibrated release, on public facts alone.

A data set's public facts never change, so neither does the plan of a
question; the last few are remembered.

The plan that a release is charged by: what the ledger keeps of it, and how it is read again.

A plan is made once. The release keeps it as JSON, and the process that draws it reads it there: a
draw process, this one after a restart, a worker of another version. It is drawn by the parameters
that were charged for, or not at all.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, cast

from app.domain.policies import Review
from app.domain.problems import Problem, ProcessLostError, invalid_request
from app.services.datasets.datasets import DatasetFacts
from app.services.plans.answers import (
    Job,
    answer_bytes,
    job_of,
    kept_json,
    plan_json,
    require_storable,
)
from app.services.plans.lanes import (
    FREE_S,
    LONGEST_CHARGED_S,
    LONGEST_S,
    Calculator,
    Lanes,
    OutOfTimeError,
    ProcessLane,
    ThreadLane,
    at_most,
)
from app.services.plans.missing import intervals_of, with_column_facts, with_typical
from app.services.plans.questions import Question, read_question, spelled, spelling_ms
from app.store import DatasetRecord, ReleaseRecord
from mechanisms.catalog import PlanChangedError, calibrate, read_plan, written_plan
from mechanisms.contract import InvalidStatisticError, Plan
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import ErrorEstimate, estimate_error, estimating_ms
from mechanisms.privacy import Adjacency
from mechanisms.words import worded


def kept_plan(plan: Plan, question: Question, job: Job | None) -> str:
    """Return what a release keeps of its plan and job: what is shown of it, and how it is drawn."""
    drawn = written_plan(plan)
    del drawn["alternatives"]  # only a preview shows what else could have been asked for
    kept = {**plan_json(plan, question.epsilon), **drawn}
    return json.dumps({**kept, "job": None if job is None else job.to_json()}, allow_nan=False)


def charged_plan(record: ReleaseRecord, facts: DatasetFacts) -> tuple[Question, Plan]:
    """Return the question of a stored release, and the plan it was charged or reserved for.

    Raises
    ------
    PlanChangedError
        Another version made it, in a form that this one does not read, or the question cannot be
        read any more; it promises another loss than was charged.
    """
    try:
        question = read_question(record.request)
        asked = spelled(question, facts.schema)
        plan = read_plan(json.loads(record.plan), asked.statistic, facts.schema)
    except (Problem, KeyError, TypeError, ValueError):
        raise PlanChangedError from None
    promised = plan.guarantee
    if (promised.epsilon, facts.meter.cost(promised)) != (question.epsilon, record.amount):
        raise PlanChangedError
    return question, plan


# Plans: from a question to a calibrated release, on public facts alone


T = TypeVar("T")

_Key = tuple[DatasetRecord, str, Review]
_Estimated = tuple[str, str, Assumptions]

_MAX_CACHED = 64
_MAX_ESTIMATES = 256
USUAL = Assumptions()
"""What a release assumes, which says nothing."""
LONGEST_SHORT_MS = 100.0
"""A plan that is expected to take longer than this is costly, and its release a job."""
QUICK_MS = 25.0
"""What is expected to take longer is calculated in another process, but for plans that are drawn
here: in a thread it would hold up everyone else in the server."""
_AT_ONCE_MS = 2.0
"""What takes no longer is done on the event loop: a thread would take as long."""
_TOP_LEVEL = frozenset({"statistic", "mechanism", "norm", "epsilon", "inference", "assume"})


@dataclass(frozen=True, slots=True)
class Offer:
    """The plan of a release, the job that it is, and what is charged for it: a value.

    ``reviewed`` says whether it waits for a review first. ``cost`` is in the account's unit;
    ``text`` is what the release keeps of plan and job, as JSON, and of the ``estimate``: what it
    is worth by the usual assumptions, None where that has not been found out.
    ``answer_bytes`` is about how much the answer takes, and ``planning_ms`` how long the plan took.
    """

    plan: Plan
    job: Job | None
    reviewed: bool
    cost: int
    text: str
    answer_bytes: int
    planning_ms: float
    estimate: ErrorEstimate | None = None

    def worth(self, found: ErrorEstimate, facts: DatasetFacts) -> Offer:
        """Return the offer with an estimate in its text."""
        assumed = with_typical(USUAL, facts.columns).to_json(facts.schema)
        text = {**json.loads(self.text), "estimate": kept_json(found, assumed)}
        return replace(self, text=json.dumps(text, allow_nan=False), estimate=found)


class PlanService:
    """Calibration and error estimates, off the event loop, with a memory of each.

    What is free has lanes of its own, so that no release waits for it. Laws that depend on the
    data are simulated, which takes up to two seconds: that is done in another process. No release
    waits for it: it shows the estimate that is known, or what a coarse simulation finds in a few
    milliseconds, and says which. Nothing here is given data.

    Parameters
    ----------
    threads
        How many calculations are made here at once.
    max_waiting, max_waiting_costly
        How many of one person's may be made or wait for it: here, and in the calculator.
    calculator
        Where the costly ones are made.
    most_bytes
        How large a new question may be.
    """

    def __init__(
        self,
        *,
        threads: int,
        max_waiting: int,
        max_waiting_costly: int,
        calculator: Calculator,
        most_bytes: int,
    ) -> None:
        def lanes(seconds: float, *, urgent: bool) -> Lanes:
            return Lanes(
                ThreadLane(threads=threads, most=max_waiting),
                ProcessLane(calculator, most=max_waiting_costly, seconds=seconds, urgent=urgent),
            )

        self._most_bytes = most_bytes
        self._free = lanes(LONGEST_S, urgent=False)
        self._charged = lanes(LONGEST_CHARGED_S, urgent=True)
        self._calculator = calculator
        self._known: OrderedDict[_Key, Offer] = OrderedDict()
        self._estimates: OrderedDict[_Estimated, ErrorEstimate] = OrderedDict()
        self._spelled: OrderedDict[tuple[str, str], Question] = OrderedDict()

    async def spelled(
        self,
        facts: DatasetFacts,
        question: Question,
        *,
        person: str,
        free: bool = False,
        patient: bool = False,
    ) -> Question:
        """Return a question in the one spelling that it has for a data set.

        Raises
        ------
        Problem
            ``busy``, of a question that takes long to spell, unless patient.
        """
        key = facts.id, question.canonical
        found = self._spelled.get(key)
        if found is not None:
            self._spelled.move_to_end(key)
        else:
            takes_ms = spelling_ms(question)
            if takes_ms <= _AT_ONCE_MS:
                found = spelled(question, facts.schema)
            else:
                found = await self.compute(
                    spelled,
                    question,
                    facts.schema,
                    person=person,
                    expected_ms=takes_ms,
                    free=free,
                    patient=patient,
                )
            self._spelled[key] = found
            if len(self._spelled) > _MAX_CACHED:
                self._spelled.popitem(last=False)
        return found

    async def offer(self, facts: DatasetFacts, question: Question, *, person: str) -> Offer:
        """Return what follows from a question before any data, and how it is drawn.

        ``person`` is who asks: people take turns. The text says what the answer is worth; where
        that could not be found out, the release goes on without it.

        Raises
        ------
        Problem
            ``invalid-request`` when the question does not fit the data set's
            public description or is not offered; ``empty-dataset``; ``too-large``; ``busy``.
        """
        self.require_askable(question)  # as it was asked, which is what is stored
        question = await self.spelled(facts, question, person=person)
        self.require_askable(question)
        offer = await self._offer(facts, question, person=person, lanes=self._charged)
        known = self.known_estimate(facts, question, USUAL) or offer.estimate
        if known is None:
            try:
                known = await self._coarse(facts, question, person=person)
            # an estimate is a courtesy: a release must not fail for want of one
            except ProcessLostError:
                return offer
        if known is offer.estimate:
            return offer
        return self._remember(facts, question, offer.worth(known, facts))

    def require_askable(self, question: Question) -> None:
        """Pass for a question that is not too large for a new request.

        Raises
        ------
        Problem
            ``too-large``.
        """
        require_storable(question, self._most_bytes)

    async def _offer(
        self,
        facts: DatasetFacts,
        question: Question,
        *,
        person: str,
        lanes: Lanes,
    ) -> Offer:
        """Return the offer of a question in its one spelling."""
        key = _key(facts, question)
        known = partial(self._known.get, key)
        found = known()
        if found is not None:
            self._known.move_to_end(key)
            return found
        if is_costly(facts, question):
            found = await lanes.processes.run(person, make_offer, facts, question, known=known)
        else:
            found = await lanes.threads.run(person, make_offer, facts, question)
        return self._remember(facts, question, found)

    def _remember(self, facts: DatasetFacts, question: Question, offer: Offer) -> Offer:
        self._known[_key(facts, question)] = offer
        if len(self._known) > _MAX_CACHED:
            self._known.popitem(last=False)
        return offer

    async def weigh(
        self,
        function: Callable[..., T],
        facts: DatasetFacts,
        question: Question,
        *arguments: object,
        person: str,
        expected_ms: float,
    ) -> T:
        """Return what a function of a module makes of an offer, a data set's facts and a question.

        It is free.

        Raises
        ------
        Problem
            As :meth:`offer`, and what the function raises.
        """
        self.require_askable(question)
        lanes = self._free
        if expected_ms <= QUICK_MS:
            offer = await self._offer(facts, question, person=person, lanes=lanes)
            return await lanes.threads.run(person, function, offer, facts, question, *arguments)
        offer, outcome = await lanes.processes.run(
            person, _weighed, function, facts, question, *arguments
        )
        self._remember(facts, question, offer)
        return cast(T, outcome)

    async def estimate(
        self, facts: DatasetFacts, question: Question, assumed: Assumptions, *, person: str
    ) -> ErrorEstimate:
        """Return what an answer would be worth under these assumptions; it is free.

        Raises
        ------
        Problem
            ``invalid-request`` when they do not fit the data set; ``busy``.
        """
        question = await self.spelled(facts, question, person=person, free=True)
        found = self.known_estimate(facts, question, assumed)
        if found is None:
            planning_ms = question.planning_ms(facts.schema)
            found = await self.compute(
                estimate_of,
                facts,
                question,
                assumed,
                person=person,
                expected_ms=planning_ms + estimating_ms(question.statistic, facts.schema),
            )
            self.remember_estimate(facts, question, assumed, found)
        return found

    def known_estimate(
        self, facts: DatasetFacts, question: Question, assumed: Assumptions
    ) -> ErrorEstimate | None:
        """Return what is remembered of a question in its one spelling."""
        key = facts.id, question.canonical, assumed
        if key in self._estimates:
            self._estimates.move_to_end(key)
        return self._estimates.get(key)

    def remember_estimate(
        self, facts: DatasetFacts, question: Question, assumed: Assumptions, found: ErrorEstimate
    ) -> None:
        """Remember what has been found out of a question in its one spelling."""
        self._estimates[facts.id, question.canonical, assumed] = found
        if len(self._estimates) > _MAX_ESTIMATES:
            self._estimates.popitem(last=False)

    async def _coarse(
        self, facts: DatasetFacts, question: Question, *, person: str
    ) -> ErrorEstimate:
        """Return what takes some milliseconds to find out, in a lane where nothing free is made."""
        planning_ms = question.planning_ms(facts.schema)
        takes_ms = estimating_ms(question.statistic, facts.schema, coarse=True)
        return await self.compute(
            partial(estimate_of, coarse=True),
            facts,
            question,
            USUAL,
            person=person,
            expected_ms=planning_ms + takes_ms,
            free=False,
            patient=True,
        )

    async def compute(
        self,
        function: Callable[..., T],
        *arguments: object,
        person: str,
        expected_ms: float,
        free: bool = True,
        patient: bool = False,
    ) -> T:
        """Run a function of a module in another thread, or in the calculator if it takes long.

        Raises
        ------
        Problem
            ``busy``, unless patient.
        """
        lanes = self._free if free else self._charged
        lane = lanes.threads if expected_ms <= QUICK_MS else lanes.processes
        return await lane.run(person, function, *arguments, patient=patient)

    def close(self) -> None:
        """End what is being calculated in other processes."""
        self._calculator.close()


def _key(facts: DatasetFacts, question: Question) -> _Key:
    """Return what an offer depends on; labels, and what is reviewed, a curator may change."""
    return facts.record, question.canonical, facts.policy.review


def is_costly(facts: DatasetFacts, question: Question) -> bool:
    """Return whether a question takes long to plan, for any caller."""
    return question.planning_ms(facts.schema) > LONGEST_SHORT_MS


def make_plan(facts: DatasetFacts, question: Question) -> Plan:
    """Calibrate a question on the public facts of a data set.

    Raises
    ------
    Problem
        As :meth:`PlanService.offer`.
    """
    question = spelled(question, facts.schema)
    # Refused before any charge: no mean of nothing, and the row count is public here.
    if facts.schema.adjacency is Adjacency.REPLACE_ONE and facts.schema.rows == 0:
        raise Problem("empty-dataset")
    try:
        plan = calibrate(
            question.statistic,
            facts.schema,
            question.epsilon,
            mechanism=question.mechanism,
            norm=question.norm,
            inference=question.inference,
        )
    except InvalidStatisticError as error:
        raise _refusal(error) from None
    if question.inference is not None:  # those of a summary come with it
        _require_intervals(plan)
    return with_column_facts(plan, question.statistic, facts)


def _require_intervals(plan: Plan) -> None:
    """Pass for a plan whose confidence intervals will say something, where they are paid for.

    Raises
    ------
    Problem
        ``invalid-request``, with the epsilon that would do.
    """
    for place, inference in intervals_of(plan.details):
        if "enough_epsilon" in inference:
            enough = inference["enough_epsilon"]
            why = worded("about epsilon %(epsilon)s would do", epsilon=enough)
            if enough is None:
                why = worded("there are too few rows for any epsilon")
            raise invalid_request(
                "inference",
                f"for the number of records assumed, most confidence intervals of part {place} "
                f"would say nothing: {why}; without inference the numbers alone are released"
                if place
                else "for the number of records assumed, most confidence intervals would say "
                f"nothing: {why}; without inference the numbers alone are released",
            )


def estimate_of(
    facts: DatasetFacts, question: Question, assumed: Assumptions, *, coarse: bool = False
) -> ErrorEstimate:
    """Return what an answer would be worth, under these assumptions.

    A simulation that takes longer than is free is given up for a coarse one, which ``coarse`` asks
    for at once.

    Raises
    ------
    Problem
        ``invalid-request`` when question or assumptions do not fit the data set.
    """
    try:
        question = spelled(question, facts.schema)
        asked = question.statistic
        if question.inference is not None and question.mechanism == "auto":
            # it decides what standard errors cost
            question = replace(question, mechanism=make_plan(facts, question).mechanism)
        seen = partial(
            estimate_error,
            asked,
            facts.schema,
            question.spent_on_numbers,
            mechanism=question.mechanism,
            norm=question.norm,
            assumptions=with_typical(assumed, facts.columns),
            inference=question.inference,
        )
        if not coarse:
            with suppress(OutOfTimeError), at_most(FREE_S):
                return seen()
        return seen(coarse=True)
    except InvalidStatisticError as error:
        raise _refusal(error) from None


def make_offer(facts: DatasetFacts, question: Question) -> Offer:
    """Do what :meth:`PlanService.offer` does, without a memory.

    Raises
    ------
    Problem
        As :meth:`PlanService.offer`.
    """
    question = spelled(question, facts.schema)
    plan = make_plan(facts, question)
    reviewed = facts.policy.review.covers(question.epsilon)
    later = reviewed or is_costly(facts, question)
    planning_ms = question.planning_ms(facts.schema)
    job = job_of(plan, later=later, planning_ms=planning_ms)
    return Offer(
        plan=plan,
        job=job,
        reviewed=reviewed,
        cost=facts.meter.cost(plan.guarantee),
        text=kept_plan(plan, question, job),
        answer_bytes=answer_bytes(question, facts.schema),
        planning_ms=planning_ms,
    )


def _weighed(
    function: Callable[..., T], facts: DatasetFacts, question: Question, *arguments: object
) -> tuple[Offer, T]:
    """Return an offer, and what a function makes of it."""
    offer = make_offer(facts, question)
    return offer, function(offer, facts, question, *arguments)


def _refusal(error: InvalidStatisticError) -> Problem:
    place = error.field_name
    if place.split(".")[0] not in _TOP_LEVEL:
        place = f"statistic.{place}"
    return invalid_request(place, error.detail)
