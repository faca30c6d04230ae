"""Plans: from a question to a calibrated release, on public facts alone.

A data set's public facts never change, so neither does the plan of a
question; the last few are remembered.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, cast

from app.domain.policies import Review
from app.domain.problems import Problem, invalid_request
from app.services.datasets.datasets import DatasetFacts
from app.services.plans.answers import plan_json
from app.services.plans.charged_plan import as_charged, require_charged_plan
from app.services.plans.deadlines import Job, answer_bytes, job_of, require_storable
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
from app.services.plans.missing import with_column_facts, with_typical
from app.services.plans.questions import Question, read_question, spelled, spelling_ms
from app.store import ReleaseRecord
from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Plan
from mechanisms.foresight.asked import Asked
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.choice import Choice, choose, decided, remember, undecided
from mechanisms.foresight.foresee import Foresight, foresee
from mechanisms.privacy import Adjacency

T = TypeVar("T")

_Key = tuple[str, str, Review]

_MAX_CACHED = 64
LONGEST_SHORT_MS = 100.0
"""A plan that is expected to take longer than this is costly, and its release a job."""
QUICK_MS = 25.0
"""What is expected to take longer is calculated in another process, but for plans that are drawn
here: in a thread it would hold up everybody else in the server."""
_AT_ONCE_MS = 2.0
"""What takes no longer is done on the event loop: a thread would take as long."""
_TOP_LEVEL = frozenset({"statistic", "mechanism", "norm", "epsilon", "inference", "assume"})


@dataclass(frozen=True, slots=True)
class Offer:
    """The job that a release is, what is charged for it, and what is kept of its plan.

    ``plan`` is how it is drawn here, None where it was made in another process:
    what is costly to plan is a job, and a job is not drawn here. ``reviewed``
    says whether it waits for a review first. ``cost`` is in the account's unit;
    ``text`` is what the release keeps of plan and job, as JSON. ``answer_bytes`` is
    about how much the answer takes. ``foresight`` is what it is worth by the default
    assumptions, where that was found out with the plan.
    """

    plan: Plan | None
    job: Job | None
    reviewed: bool
    cost: int
    text: str
    answer_bytes: int
    foresight: Foresight | None = None

    def drawn_here(self) -> Plan:
        """Return the plan.

        Raises
        ------
        LookupError
            It was made in another process.
        """
        if self.plan is None:
            raise LookupError("the plan is not here")
        return self.plan


class PlanService:
    """Calibration, off the event loop, with a memory.

    What is free has lanes of its own, so that no release waits for it.

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

        ``person`` is who asks: people take turns.

        Raises
        ------
        Problem
            ``invalid-request`` when the question does not fit the data set's
            public description or is not offered; ``empty-dataset``; ``too-large``; ``busy``.
        """
        self.require_askable(question)
        return await self._offer(facts, question, person=person, lanes=self._charged)

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
        patient: bool = False,
    ) -> Offer:
        question = await self.spelled(
            facts, question, person=person, free=lanes is self._free, patient=patient
        )
        key = _key(facts, question)
        known = partial(self._known.get, key)
        found = known()
        if found is not None:
            self._known.move_to_end(key)
            return found
        # First, as a plan is one of what this decides; it may take a simulation.
        waiting = _undecided(facts, question)
        if waiting:
            remember(await lanes.processes.run(person, decided, waiting, patient=patient))
        if is_costly(facts, question):
            found = await lanes.processes.run(
                person, _offer_alone, facts, question, patient=patient, known=known
            )
        else:
            found = await lanes.threads.run(person, make_offer, facts, question, patient=patient)
        return self._remember(facts, question, found)

    def _remember(self, facts: DatasetFacts, question: Question, offer: Offer) -> Offer:
        self._known[_key(facts, question)] = offer
        if len(self._known) > _MAX_CACHED:
            self._known.popitem(last=False)
        return offer

    async def offer_again(
        self, facts: DatasetFacts, record: ReleaseRecord
    ) -> tuple[Question, Offer]:
        """Return the question of a stored release, and its plan if it is still the one it has.

        Raises
        ------
        PlanChangedError
            It would be drawn otherwise than it was charged or reserved for.
        Problem, KeyError, ValueError
            The question cannot be read any more, or is not offered any more.
        """
        question = read_question(record.request)
        asked = as_charged(question, record.plan)
        # charged or reserved already: it waits for its turn however many are there
        offer = await self._offer(
            facts, asked, person=record.principal, lanes=self._charged, patient=True
        )
        require_charged_plan(record, plan=offer.text, cost=offer.cost)
        return question, offer

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
        offer, choices, outcome = await lanes.processes.run(
            person, _weighed, function, facts, question, *arguments
        )
        remember(choices)
        if is_costly(facts, question):
            self._remember(facts, question, offer)
        return cast(T, outcome)

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


def _undecided(facts: DatasetFacts, question: Question) -> Sequence[Asked]:
    """Return what a question leaves to "auto" that takes a simulation and is not known here."""
    return undecided(
        question.statistic,
        facts.schema,
        question.epsilon,
        mechanism=question.mechanism,
        norm=question.norm,
        inference=question.inference,
    )


def _key(facts: DatasetFacts, question: Question) -> _Key:
    """Return what an offer depends on; what is reviewed a curator may change."""
    return facts.id, question.canonical, facts.policy.review


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
        return with_column_facts(plan, question.statistic, facts)
    except InvalidStatisticError as error:
        raise _refusal(error) from None


def foretell(
    facts: DatasetFacts, question: Question, assumed: Assumptions, *, coarse: bool = False
) -> Foresight:
    """Return what an answer would be worth, under these assumptions.

    A simulation that takes longer than is free is given up for a coarse one, which ``coarse`` asks
    for at once.

    Raises
    ------
    Problem
        ``invalid-request`` when question or assumptions do not fit the data set.
    """
    try:
        question = _with_choice(facts, spelled(question, facts.schema))
        seen = partial(
            foresee,
            question.statistic,
            facts.schema,
            question.spent_on_numbers,
            mechanism=question.mechanism,
            norm=question.norm,
            assumptions=with_typical(assumed, facts.columns),
        )
        if not coarse:
            with suppress(OutOfTimeError), at_most(FREE_S):
                return seen()
        return seen(coarse=True)
    except InvalidStatisticError as error:
        raise _refusal(error) from None


def _with_choice(facts: DatasetFacts, question: Question) -> Question:
    """Return a question with what its "auto" stands for, where that is decided by simulation."""
    if question.mechanism != "auto":
        return question
    choice = choose(
        question.statistic,
        facts.schema,
        question.epsilon,
        norm=question.norm,
        inference=question.inference,
    )
    return question if choice is None else replace(question, mechanism=choice.mechanism)


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
    job = job_of(plan, later=later, planning_ms=question.planning_ms(facts.schema))
    kept = {
        **plan_json(plan, question.epsilon),
        "job": None if job is None else job.to_json(),
    }
    return Offer(
        plan=plan,
        job=job,
        reviewed=reviewed,
        cost=facts.meter.cost(plan.guarantee),
        text=json.dumps(kept, allow_nan=False),
        answer_bytes=answer_bytes(question, facts.schema),
    )


def _offer_alone(facts: DatasetFacts, question: Question) -> Offer:
    """Return an offer that may travel between processes: a plan may not."""
    foresight = foretell(facts, question, Assumptions(), coarse=True)
    return replace(make_offer(facts, question), plan=None, foresight=foresight)


def _weighed(
    function: Callable[..., T], facts: DatasetFacts, question: Question, *arguments: object
) -> tuple[Offer, Mapping[str, Choice], T]:
    """Return an offer that may travel between processes, and what a function makes of it.

    With what was decided on the way: it takes a simulation, which is not to be made again.
    """
    choices = decided(_undecided(facts, question))
    offer = make_offer(facts, question)
    return replace(offer, plan=None), choices, function(offer, facts, question, *arguments)


def _refusal(error: InvalidStatisticError) -> Problem:
    place = error.field_name
    if place.split(".")[0] not in _TOP_LEVEL:
        place = f"statistic.{place}"
    return invalid_request(place, error.detail)
