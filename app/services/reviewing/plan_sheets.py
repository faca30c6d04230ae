"""The review sheet of a study plan: all that a reviewer needs to decide on its questions as one.

Like that of a release it is made of the request, public facts and what was asked before. Nothing is
read of the rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import anyio.to_thread

from app.domain.policies import Policy, policy_json
from app.domain.reviews import Count, PlanState
from app.services.datasets.accounting import PureMeter
from app.services.datasets.datasets import DatasetFacts, DatasetService
from app.services.people.keys import Caller
from app.services.plans.plans import PlanService
from app.services.plans.questions import read_question
from app.services.publishing.published import columns_of
from app.services.reviewing.sheets import (
    Judged,
    SheetService,
    Votes,
    compared,
    for_one_person,
    policy_says,
    readable,
    talk_of,
)
from app.services.reviewing.study_plans import (
    PlanRecord,
    PlanView,
    StudyPlanService,
    gone_on,
)
from app.store import Reader, Store
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import ErrorEstimate
from mechanisms.privacy import NANOS_PER_EPSILON
from mechanisms.words import worded


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSheet(Judged):
    """All that a reviewer needs of one study plan.

    ``share`` is which part of what is left the whole plan would take: above 1 it does not fit.
    """

    view: PlanView
    epsilon: str
    share: float
    expected: Sequence[ErrorEstimate]


class PlanSheetService:
    """Fills review sheets of study plans."""

    def __init__(
        self,
        store: Store,
        datasets: DatasetService,
        plans: PlanService,
        sheets: SheetService,
        study_plans: StudyPlanService,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._plans = plans
        self._sheets = sheets
        self._study_plans = study_plans

    async def sheet(self, plan: str, *, caller: Caller) -> PlanSheet:
        """Return the review sheet of a plan that has been requested.

        Raises
        ------
        Problem
            ``not-found``; ``not-awaiting-review`` for a draft; ``busy``.
        """
        found = await anyio.to_thread.run_sync(self._study_plans.seen, plan, caller)
        if found.state is PlanState.DRAFT:
            raise gone_on(found)
        facts = await self._datasets.present(found.dataset)
        expected = [
            await self._plans.estimate(
                facts, read_question(each.request), Assumptions(), person=caller.person
            )
            for each in found.questions
        ]

        def read() -> PlanSheet:
            with self._store.reading() as reader:
                return self._filled(reader, found, facts, expected, caller=caller)

        return await anyio.to_thread.run_sync(read)

    def _filled(
        self,
        reader: Reader,
        found: PlanRecord,
        facts: DatasetFacts,
        expected: Sequence[ErrorEstimate],
        *,
        caller: Caller,
    ) -> PlanSheet:
        view, bounds = self._study_plans.view_in(reader, found), _bounds(facts, found)
        known = self._sheets.background(reader, facts, found.person, bounds, hidden=caller.hidden)
        nanos = sum(each.question.epsilon.nanos for each in view.questions if each.release is None)
        left = reader.accounts.balance(found.account).remaining
        unpaid = sum(each.planned.amount for each in view.questions if each.release is None)
        kinds = {kind for each in view.questions for kind in each.question.kinds}
        return PlanSheet(
            view=view,
            facts=facts,
            background=known,
            epsilon=PureMeter().text(sum(each.question.epsilon.nanos for each in view.questions)),
            share=float(Fraction(unpaid, left)) if left else 1.0,
            expected=expected,
            bounds=bounds,
            for_one_person=for_one_person(
                nanos / NANOS_PER_EPSILON, facts, known.uses, charged=False
            ),
            policy=policy_json(facts.policy),
            policy_says=_said(facts.policy, kinds),
            votes=_votes(reader, found, facts.policy.reviewers, caller),
            versions=compared(reader.study_plans.versions(found)),
            comments=readable(talk_of(reader, found), caller, needed=facts.policy.reviewers),
        )


def _votes(reader: Reader, found: PlanRecord, needed: int, caller: Caller) -> Votes:
    """Return the votes as far as somebody may see them; who asked sees none."""
    count = Count.of(reader.study_plans.votes_of(found.id), turn=found.turn, needed=needed)
    own = found.person == caller.person
    return Votes(
        needed=needed,
        complete=count.complete,
        conflict=count.conflict,
        seen=() if own else count.seen_by(caller.person),
    )


def _said(policy: Policy, kinds: set[str]) -> Sequence[str]:
    return [
        *policy_says(policy, kinds),
        worded("One decision covers all questions of the plan, exactly as they are."),
    ]


def _bounds(facts: DatasetFacts, found: PlanRecord) -> Mapping[str, Mapping[str, Any]]:
    """Return the declared facts of the columns that the questions speak of."""
    bounds: dict[str, Mapping[str, Any]] = {}
    for each in found.questions:
        bounds |= columns_of(facts, json.loads(each.request)["statistic"])
    return bounds
