"""Plans: from a question to a calibrated release, on public facts alone.

A data set's public facts never change, so neither does the plan of a
question; the last few are remembered.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from app.domain.problems import Problem, invalid_request
from app.services.answers import plan_json
from app.services.datasets import DatasetFacts
from app.services.planning import LONGEST_SHORT_MS, Lane, planning_ms
from app.services.questions import Question, read_question
from app.services.terms import require_same_terms
from app.services.work import Job, job_of
from app.store import ReleaseRecord
from mechanisms.catalog import calibrate
from mechanisms.privacy import Adjacency
from mechanisms.statistics.base import InvalidStatisticError, Plan

T = TypeVar("T")

_MAX_CACHED = 64
_TOP_LEVEL = frozenset({"statistic", "mechanism", "norm", "epsilon"})


@dataclass(frozen=True, slots=True)
class Offer:
    """A plan, the job that a release of it is, and what is charged and kept for it.

    ``reviewed`` says whether it waits for a review first. ``cost`` is in the
    account's unit; ``text`` is what the release keeps of plan and job, as JSON.
    """

    plan: Plan
    job: Job | None
    reviewed: bool
    cost: int
    text: str


class PlanService:
    """Calibration, off the event loop, with a memory.

    Parameters
    ----------
    threads
        How many plans are made at once; one more for the costly ones.
    max_waiting, max_waiting_costly
        How many may be made or wait for it, of either sort.
    """

    def __init__(self, *, threads: int, max_waiting: int, max_waiting_costly: int) -> None:
        self._short = Lane(threads=threads, most=max_waiting)
        self._costly = Lane(threads=1, most=max_waiting_costly)
        self._known: OrderedDict[tuple[str, str], Offer] = OrderedDict()

    async def offer(self, facts: DatasetFacts, question: Question) -> Offer:
        """Return the plan of a question, and what follows from it before any data.

        Raises
        ------
        Problem
            ``invalid-request`` when the question does not fit the data set's
            public description or is not offered; ``empty-dataset``; ``busy``.
        """
        return await self._offer(facts, question, patient=False)

    async def _offer(self, facts: DatasetFacts, question: Question, *, patient: bool) -> Offer:
        key = (facts.id, question.canonical)
        offer = self._known.get(key)
        if offer is None:
            lane = self._lane(planning_ms(question.statistic, question.mechanism, facts.schema))
            offer = await lane.run(self._made, key, facts, question, patient=patient)
            self._known[key] = offer
            if len(self._known) > _MAX_CACHED:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return offer

    def _made(self, key: tuple[str, str], facts: DatasetFacts, question: Question) -> Offer:
        """Return what another request may have had made while this one waited, or make it."""
        return self._known.get(key) or make_offer(facts, question)

    async def offer_again(
        self, facts: DatasetFacts, record: ReleaseRecord
    ) -> tuple[Question, Offer]:
        """Return the question of a stored release, and its plan if it is still the one it has.

        Raises
        ------
        TermsChangedError
            It would be drawn otherwise than it was charged or reserved for.
        Problem, KeyError, ValueError
            The question cannot be read any more, or is not offered any more.
        """
        question = read_question(record.request)
        # charged or reserved already: it waits for its turn however many are there
        offer = await self._offer(facts, question, patient=True)
        require_same_terms(record, plan=offer.text, cost=offer.cost)
        return question, offer

    async def compute(
        self, function: Callable[..., T], *arguments: object, expected_ms: float
    ) -> T:
        """Run a calculation in another thread, in line with the plans that take as long.

        Raises
        ------
        Problem
            ``busy``.
        """
        return await self._lane(expected_ms).run(function, *arguments)

    def _lane(self, expected_ms: float) -> Lane:
        return self._costly if expected_ms > LONGEST_SHORT_MS else self._short


def make_plan(facts: DatasetFacts, question: Question) -> Plan:
    """Calibrate a question on the public facts of a data set.

    Raises
    ------
    Problem
        As :meth:`PlanService.offer`.
    """
    if facts.schema.adjacency is Adjacency.REPLACE_ONE and facts.schema.rows == 0:
        raise Problem("empty-dataset")
    try:
        return calibrate(
            question.statistic,
            facts.schema,
            question.epsilon,
            mechanism=question.mechanism,
            norm=question.norm,
        )
    except InvalidStatisticError as error:
        raise _refusal(error) from None


def make_offer(facts: DatasetFacts, question: Question) -> Offer:
    """Do what :meth:`PlanService.offer` does, without a memory.

    Raises
    ------
    Problem
        As :meth:`PlanService.offer`.
    """
    plan = make_plan(facts, question)
    reviewed = facts.policy.review.covers(question.epsilon)
    job = job_of(question.statistic, plan, facts.schema, reviewed=reviewed)
    kept = {
        **plan_json(plan, question.epsilon),
        "job": None if job is None else job.to_json(),
    }
    cost = facts.meter.cost(plan.guarantee)
    return Offer(plan, job, reviewed, cost, json.dumps(kept, allow_nan=False))


def _refusal(error: InvalidStatisticError) -> Problem:
    place = error.field_name
    if place.split(".")[0] not in _TOP_LEVEL:
        place = f"statistic.{place}"
    return invalid_request(place, error.detail)
