"""Plans: from a question to a calibrated release, on public facts alone.

A data set's public facts never change, so neither does the plan of a
question; the last few are remembered.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from app.domain.hashing import sha256_hex
from app.domain.policies import Review
from app.domain.problems import Problem, invalid_request
from app.services.datasets.datasets import DatasetFacts
from app.services.plans.answers import plan_json
from app.services.plans.charged_plan import as_charged, require_charged_plan
from app.services.plans.deadlines import Job, job_of
from app.services.plans.lanes import (
    LONGEST_SHORT_MS,
    Calculator,
    FairLane,
    Lane,
)
from app.services.plans.questions import Question, read_question
from app.services.plans.sizes import answer_bytes, require_storable
from app.services.plans.typical import with_typical
from app.store import ReleaseRecord
from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Plan
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.choice import choose, decided, remember, undecided
from mechanisms.foresight.foresee import Foresight, foresee
from mechanisms.privacy import Adjacency

T = TypeVar("T")

_Key = tuple[str, str, Review]

_MAX_CACHED = 64
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

    Parameters
    ----------
    threads
        How many plans are made here at once.
    max_waiting, max_waiting_costly
        How many may be made or wait for it: here, and of one person's in the calculator.
    calculator
        Where the costly ones are made, one at a time.
    most_bytes
        How large a question may be that is asked anew.
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
        self._most_bytes = most_bytes
        self._short = Lane(threads=threads, most=max_waiting)
        self._costly = FairLane(most=max_waiting_costly)
        self._calculator = calculator
        self._known: OrderedDict[_Key, Offer] = OrderedDict()
        self._left: OrderedDict[str, object] = OrderedDict()

    async def offer(self, facts: DatasetFacts, question: Question, *, person: str) -> Offer:
        """Return what follows from a question before any data, and how it is drawn.

        ``person`` is who asks: people take turns at what is costly.

        Raises
        ------
        Problem
            ``invalid-request`` when the question does not fit the data set's
            public description or is not offered; ``empty-dataset``; ``too-large``; ``busy``.
        """
        self.require_askable(question)
        return await self._offer(facts, question, person=person, patient=False)

    def require_askable(self, question: Question) -> None:
        """Pass for a question that is not too large to be asked anew.

        Raises
        ------
        Problem
            ``too-large``.
        """
        require_storable(question, self._most_bytes)

    async def _offer(
        self, facts: DatasetFacts, question: Question, *, person: str, patient: bool
    ) -> Offer:
        offer = self._remembered(facts, question)
        if offer is not None:
            return offer
        # First, as a plan is one of what this decides; it may take a simulation.
        await self._decide(facts, question, person=person, patient=patient)
        if is_costly(facts, question):
            offer = await self._costly.run(person, self._made, facts, question, patient=patient)
        else:
            offer = await self._short.run(self._made, facts, question, patient=patient)
        return self._remember(facts, question, offer)

    async def _decide(
        self, facts: DatasetFacts, question: Question, *, person: str, patient: bool
    ) -> None:
        """Have decided what "auto" stands for, where that takes a simulation."""
        waiting = undecided(
            question.statistic,
            facts.schema,
            question.epsilon,
            mechanism=question.mechanism,
            norm=question.norm,
            inference=question.inference,
        )
        if waiting:
            remember(await self._apart(person, decided, waiting, patient=patient))

    def _made(self, facts: DatasetFacts, question: Question) -> Offer:
        """Return what another request may have had made while this one waited, or make it."""
        known = self._known.get(_key(facts, question))
        if known is not None:
            return known
        if is_costly(facts, question):
            return self._calculator.run(_offer_alone, facts, question)
        return make_offer(facts, question)

    def _remembered(self, facts: DatasetFacts, question: Question) -> Offer | None:
        key = _key(facts, question)
        if key in self._known:
            self._known.move_to_end(key)
        return self._known.get(key)

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
        offer = await self._offer(facts, asked, person=record.principal, patient=True)
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

        Raises
        ------
        Problem
            As :meth:`offer`, and what the function raises.
        """
        self.require_askable(question)
        if expected_ms <= LONGEST_SHORT_MS:
            offer = await self.offer(facts, question, person=person)
            return await self._short.run(function, offer, facts, question, *arguments)
        offer, outcome = await self._apart(person, _weighed, function, facts, question, *arguments)
        if is_costly(facts, question):
            self._remember(facts, question, offer)
        return cast(T, outcome)

    async def _apart(
        self,
        person: str,
        function: Callable[..., T],
        *arguments: object,
        patient: bool = False,
    ) -> T:
        """Run a function in another process, or return what was left of the same request.

        A client that goes before its answer often asks again. It would never get one that takes
        longer than its patience.
        """
        text = sha256_hex(repr((function, arguments)).encode())

        def run() -> object:
            if text not in self._left:
                self._left[text] = self._calculator.run(function, *arguments)
                if len(self._left) > _MAX_CACHED:
                    self._left.popitem(last=False)
            return self._left[text]

        found = await self._costly.run(person, run, patient=patient)
        # Only who is still there gets here: what has been answered is not left.
        self._left.pop(text, None)
        return cast(T, found)

    async def compute(
        self,
        function: Callable[..., T],
        *arguments: object,
        person: str,
        expected_ms: float,
        patient: bool = False,
    ) -> T:
        """Run a function of a module in another thread, or in the calculator if it takes long.

        Raises
        ------
        Problem
            ``busy``, unless patient.
        """
        if expected_ms <= LONGEST_SHORT_MS:
            return await self._short.run(function, *arguments, patient=patient)
        return await self._apart(person, function, *arguments, patient=patient)

    def close(self) -> None:
        """End what is being calculated in other processes."""
        self._calculator.close()


def _key(facts: DatasetFacts, question: Question) -> _Key:
    """Return what an offer depends on; what is reviewed a curator may change."""
    return facts.id, question.canonical, facts.policy.review


def is_costly(facts: DatasetFacts, question: Question) -> bool:
    """Return whether a question takes long to plan, whoever asks it."""
    return question.planning_ms(facts.schema) > LONGEST_SHORT_MS


def make_plan(facts: DatasetFacts, question: Question) -> Plan:
    """Calibrate a question on the public facts of a data set.

    Raises
    ------
    Problem
        As :meth:`PlanService.offer`.
    """
    # Refused before any charge: no mean of nothing, and the row count is public here.
    if facts.schema.adjacency is Adjacency.REPLACE_ONE and facts.schema.rows == 0:
        raise Problem("empty-dataset")
    try:
        return calibrate(
            question.statistic,
            facts.schema,
            question.epsilon,
            mechanism=question.mechanism,
            norm=question.norm,
            inference=question.inference,
        )
    except InvalidStatisticError as error:
        raise _refusal(error) from None


def foretell(facts: DatasetFacts, question: Question, assumed: Assumptions) -> Foresight:
    """Return what an answer would be worth, under these assumptions.

    Raises
    ------
    Problem
        ``invalid-request`` when question or assumptions do not fit the data set.
    """
    try:
        question = _with_choice(facts, question)
        return foresee(
            question.statistic,
            facts.schema,
            question.spent_on_numbers,
            mechanism=question.mechanism,
            norm=question.norm,
            assumptions=with_typical(assumed, facts.columns),
        )
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
    foresight = foretell(facts, question, Assumptions())
    return replace(make_offer(facts, question), plan=None, foresight=foresight)


def _weighed(
    function: Callable[..., T], facts: DatasetFacts, question: Question, *arguments: object
) -> tuple[Offer, T]:
    """Return an offer that may travel between processes, and what a function makes of it."""
    offer = make_offer(facts, question)
    return replace(offer, plan=None), function(offer, facts, question, *arguments)


def _refusal(error: InvalidStatisticError) -> Problem:
    place = error.field_name
    if place.split(".")[0] not in _TOP_LEVEL:
        place = f"statistic.{place}"
    return invalid_request(place, error.detail)
