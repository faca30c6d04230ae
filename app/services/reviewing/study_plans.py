"""Study plans: questions that are saved, requested, reviewed as one, and drawn one by one.

A plan holds each question exactly, at its epsilon, with the charge and the mechanism that follow.
Reviewers decide on all of it, or request changes: then its owner edits it and sends it again, and
each version that was sent is kept. Until then others see it as it was sent. Once it is approved,
its owner draws each question when they want to, without a further review; the question is charged
before its draw, as ever, and once: its Idempotency-Key is the plan's. A question that the service
would now draw otherwise is refused.

A plan reserves no budget (:mod:`app.domain.reviews` says why). So a draw is refused where others
have spent what it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import anyio.to_thread

from app.domain.access import Span
from app.domain.policies import Right
from app.domain.problems import Problem, invalid_request
from app.domain.reviews import Count, Decision, PlannedRequest, PlanState
from app.services.datasets.datasets import (
    DatasetFacts,
    DatasetService,
    require_active,
    require_askable,
)
from app.services.people.keys import Caller
from app.services.plans.plans import Offer, PlanService
from app.services.plans.previews import MOST_PLANNED, PlannedQuestion, PreviewService
from app.services.plans.questions import Question, read_question, weighed_for
from app.services.plans.wording import in_words
from app.services.releases.releases import Approval, ReleaseService
from app.services.releases.reviews import ReviewService
from app.store import Reader, ReleaseRecord, Store, UnitOfWork
from app.store.ledger.entries import SYSTEM
from app.store.ledger.records import now, text_of
from app.store.ledger.reviewing.study_plans import GOING_ON, PlanRecord
from mechanisms.words import worded

__all__ = [
    "GOING_ON", "PLAN_NOTICE", "PlanHead", "PlanRecord", "PlanView", "PlannedView",
    "StudyPlanService", "gone_on",
]  # fmt: skip

PLAN_NOTICE = (
    "A study plan reserves no budget. Each question is charged when it is drawn, and a draw is "
    "refused if the remaining budget does not cover it."
)
NOT_REVIEWED = worded("The data set's policy asks for no review of these questions.")
"""The reason of an approval that no reviewer had to give."""

Unchanged = Callable[[str], bool]
"""Says of a plan's entity tag whether it is that of what somebody has seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedView:
    """A question of a plan: what is asked, what it costs, and its release once it is charged."""

    question: Question
    planned: PlannedRequest
    charge: str
    words: str
    release: ReleaseRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHead:
    """What a list says of a study plan, as a person may see it.

    Amounts are in the account's ``unit``: ``charge`` of all questions, and ``paid`` of those that
    have been charged.
    """

    record: PlanRecord
    dataset_name: str
    unit: str
    charge: str
    paid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView(PlanHead):
    """A study plan as a person may see it; ``remaining`` is what its owner may still spend."""

    etag: str
    questions: Sequence[PlannedView]
    remaining: str
    fits: bool

    @property
    def edited(self) -> bool:
        """Return whether it is shown as its owner has changed it, and has not sent it."""
        return self.record.unsent is not None

    @property
    def decided_by(self) -> str | None:
        """Return the reviewer whose vote decided; None: none has, or no review was needed."""
        return None if self.record.decided_by == SYSTEM else self.record.decided_by


class StudyPlanService:
    """Saving plans, deciding on them, and drawing their questions.

    Parameters
    ----------
    store, datasets, plans, previews, releases, reviews
        Where plans are kept, and what plans, charges and draws their questions.
    valid_for
        For how long after its approval a plan's questions can be drawn.
    most_bytes
        How many bytes a person may have stored in a day, None for any number.
    """

    def __init__(
        self,
        *,
        store: Store,
        datasets: DatasetService,
        plans: PlanService,
        previews: PreviewService,
        releases: ReleaseService,
        reviews: ReviewService,
        valid_for: timedelta,
        most_bytes: int | None,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._plans = plans
        self._previews = previews
        self._releases = releases
        self._reviews = reviews
        self._valid_for = valid_for
        self._most_bytes = most_bytes

    async def save(
        self,
        dataset: str,
        planned: Sequence[PlannedQuestion],
        *,
        name: str,
        purpose: str | None,
        caller: Caller,
    ) -> PlanView:
        """Save a draft; a question without an epsilon gets the one that its accuracy takes.

        Raises
        ------
        Problem
            ``not-found``; ``dataset-archived``; ``policy-refused``; ``invalid-request``, of
            ``questions`` by their places from 0; ``too-much-stored``; ``busy``.
        """
        facts = await self._datasets.present(dataset)
        questions = await self._planned(facts, planned, purpose, caller=caller)

        def write(work: UnitOfWork) -> PlanRecord:
            require_active(work.datasets.get(facts.id))
            return work.study_plans.save(
                account=facts.record.account,
                dataset=facts.id,
                person=caller.person,
                name=name,
                purpose=purpose,
                questions=questions,
                most_bytes=self._most_bytes,
            )

        made = await self._store.awrite(write)
        return await self.get(made.id, caller=caller)

    async def edit(
        self,
        plan: str,
        planned: Sequence[PlannedQuestion],
        *,
        name: str,
        purpose: str | None,
        caller: Caller,
    ) -> PlanView:
        """Change a draft of the caller's own, or a plan whose reviewers want changes.

        Raises
        ------
        Problem
            As :meth:`save`; ``plan-not-draft``.
        """
        found = await self._own(plan, caller)
        if not found.state.is_edited:
            raise Problem("plan-not-draft", plan_status=found.state.status)
        facts = await self._datasets.present(found.dataset)
        questions = await self._planned(facts, planned, purpose, caller=caller)
        await self._store.awrite(
            lambda work: work.study_plans.edit(
                plan,
                name=name,
                purpose=purpose,
                questions=questions,
                most_bytes=self._most_bytes,
            )
        )
        return await self.get(plan, caller=caller)

    async def add(
        self,
        plan: str | None,
        dataset: str,
        planned: PlannedQuestion,
        *,
        name: str,
        caller: Caller,
        replaces: str | None = None,
    ) -> PlanView:
        """Add a question to a plan that the caller may edit, or begin one with it.

        With ``replaces`` it takes the place of the question that has this fingerprint.

        Raises
        ------
        Problem
            As :meth:`edit`; ``invalid-request`` where the draft is full, or of another data set;
            ``precondition`` where no question of it has the fingerprint.
        """
        if plan is None:
            purpose = planned.question.purpose
            return await self.save(dataset, [planned], name=name, purpose=purpose, caller=caller)
        found = await self._own(plan, caller)
        if found.dataset != dataset:
            raise invalid_request("plan", "must be one of the same data set")
        questions = [*found.questions]
        prints = [each.fingerprint(dataset) for each in questions]
        if replaces is not None and replaces not in prints:
            raise Problem("precondition")
        if replaces is None and len(questions) >= MOST_PLANNED:
            raise invalid_request("plan", f"must have at most {MOST_PLANNED} questions")
        facts = await self._datasets.present(dataset)
        at = len(questions) if replaces is None else prints.index(replaces)
        questions[at : at + 1] = await self._planned(facts, [planned], found.purpose, caller=caller)
        return await self._with(found, questions, caller=caller)

    async def remove(self, plan: str, question: int, *, caller: Caller) -> PlanView:
        """Remove a question from a plan that the caller may edit, which keeps one at least.

        Raises
        ------
        Problem
            ``not-found``; ``plan-not-draft``; ``invalid-request``.
        """
        found = await self._own(plan, caller)
        if len(found.questions) < 2 or question >= len(found.questions):
            raise invalid_request("question", "must be one of several")
        left = [each for place, each in enumerate(found.questions) if place != question]
        return await self._with(found, left, caller=caller)

    async def _with(
        self, found: PlanRecord, questions: Sequence[PlannedRequest], *, caller: Caller
    ) -> PlanView:
        """Give a plan other questions."""

        def write(work: UnitOfWork) -> None:
            present = work.study_plans.get(found.id)
            if present is not None and present.written.questions != found.questions:
                raise Problem("precondition")
            work.study_plans.edit(
                found.id,
                name=found.name,
                purpose=found.purpose,
                questions=questions,
                most_bytes=self._most_bytes,
            )

        await self._store.awrite(write)
        return await self.get(found.id, caller=caller)

    async def delete(self, plan: str, *, caller: Caller) -> None:
        """Delete a draft of the caller's own.

        Raises
        ------
        Problem
            ``not-found``; ``plan-not-draft``.
        """
        await self._own(plan, caller)
        await self._store.awrite(lambda work: work.study_plans.delete(plan))

    async def request(self, plan: str, *, caller: Caller) -> PlanView:
        """Ask for the approval of a plan of the caller's own, as one request; again if edited.

        Where the data set's policy asks for no review of any of its questions, a draft is approved
        at once. A review that has begun is ended by its reviewers.

        Raises
        ------
        Problem
            ``not-found``; ``plan-not-draft``; ``dataset-archived``; ``policy-refused``;
            ``plan-changed``.
        """
        found = await self._own(plan, caller)
        facts = await self._datasets.present(found.dataset)
        reviewed = found.state is PlanState.CHANGES_REQUESTED
        for place, each in enumerate(found.questions):
            offer = await self._offered(facts, place, each, caller=caller)
            reviewed = reviewed or offer.reviewed

        def write(work: UnitOfWork) -> None:
            require_active(work.datasets.get(facts.id))
            plans = work.by(caller.acting).study_plans
            # Compared once more: between the two somebody may have changed it.
            present = plans.get(plan)
            if present is not None and present.written.questions != found.questions:
                raise Problem("precondition")
            plans.request(plan)
            if not reviewed:
                plans.approve(plan, principal=SYSTEM, reason=NOT_REVIEWED, expires_at=self._until())

        await self._store.awrite(write)
        return await self.get(plan, caller=caller)

    async def withdraw(self, plan: str, *, caller: Caller) -> PlanView:
        """Withdraw a plan of the caller's own; what has been drawn stays. Once more is the same.

        Raises
        ------
        Problem
            ``not-found``; ``not-awaiting-review``, of a draft and of what has ended.
        """
        await self._reviews.expire_due()
        found = await self._own(plan, caller)
        if found.state is not PlanState.WITHDRAWN:
            if found.state not in GOING_ON:
                raise gone_on(found)
            await self._store.awrite(
                lambda work: work.by(caller.acting).study_plans.end(
                    plan, PlanState.WITHDRAWN, principal=caller.person
                )
            )
        return await self.get(plan, caller=caller)

    async def decide(
        self,
        plan: str,
        decision: Decision,
        reason: str,
        *,
        unchanged: Unchanged,
        caller: Caller,
    ) -> PlanView:
        """Vote on a plan that waits; the last vote decides on all of its questions.

        A request for changes gives the turn to its owner.

        Raises
        ------
        Problem
            ``not-found``; ``own-request``; ``precondition``; ``not-awaiting-review``;
            ``votes-complete``; ``dataset-archived``; ``policy-refused``; ``plan-changed``.
        """
        # What has waited too long is over, even where no process has ended it yet.
        await self._reviews.expire_due()
        found = await anyio.to_thread.run_sync(self.seen, plan, caller)
        if found.person == caller.person:
            raise Problem("own-request")
        facts = await self._datasets.present(found.dataset)
        if decision is Decision.APPROVE and found.state is PlanState.REQUESTED:
            for place, each in enumerate(found.questions):
                await self._offered(facts, place, each, caller=caller)
        ballot = _Ballot(
            plan=plan,
            decision=decision,
            reason=reason,
            needed=facts.policy.reviewers,
            until=self._until(),
            unchanged=unchanged,
            caller=caller,
        )
        vote = self._store.awrite(partial(_vote, ballot))
        await asyncio.shield(asyncio.ensure_future(vote))
        return await self.get(plan, caller=caller)

    async def draw(self, plan: str, question: int, *, caller: Caller) -> ReleaseRecord:
        """Charge and draw a question of the caller's own plan, or find the release it has.

        Raises
        ------
        Problem
            ``not-found``; ``invalid-request`` of a place that the plan does not have;
            ``plan-not-approved``; ``plan-changed``; what a release would be refused for.
        """
        found = await self._own(plan, caller)
        if question >= len(found.questions):
            raise invalid_request("question", f"must be below {len(found.questions)}")
        planned = found.questions[question]
        drawn = found.is_drawn_at(now())
        approval = Approval(
            plan=plan,
            planned=planned,
            reviewed=found.decided_by != SYSTEM,
            status=None if drawn else _state_at(found, now()).status,
        )
        return await self._releases.submit(
            found.dataset,
            read_question(planned.request),
            idem=found.keys[question],
            caller=caller,
            approval=approval,
        )

    async def get(self, plan: str, *, caller: Caller) -> PlanView:
        """Return a plan to its owner, and once it is requested to those who see all requests.

        Raises
        ------
        Problem
            ``not-found``, for foreign and unknown ids alike.
        """
        return await anyio.to_thread.run_sync(self._get, plan, caller)

    def _get(self, plan: str, caller: Caller) -> PlanView:
        with self._store.reading() as reader:
            return self.view_in(reader, _seen_in(reader, plan, caller), caller)

    def list(
        self,
        *,
        caller: Caller,
        span: Span,
        dataset: str | None = None,
        states: Collection[PlanState] = (),
    ) -> Sequence[PlanView]:
        """Return the caller's plans, or everyone's requests for those who see all, of a span.

        With ``states``, those in one of them.
        """
        with self._store.reading() as reader:
            records = _page(reader, caller, span, dataset, states)
            return [self.view_in(reader, each, caller) for each in records]

    def heads(
        self,
        *,
        caller: Caller,
        span: Span,
        dataset: str | None = None,
        owner: str | None = None,
        states: Collection[PlanState] = (),
    ) -> Sequence[PlanHead]:
        """Return what :meth:`list` does, without questions: what a long list shows.

        With ``owner``, those of one person.
        """
        with self._store.reading() as reader:
            records = _page(reader, caller, span, dataset, states, owner=owner)
            found = [
                each.written if each.person == caller.person else each.sent for each in records
            ]
            facts = self._datasets.all_in(reader, {each.dataset for each in found})
            charged = reader.releases.charged(
                {(each.person, key) for each in found for key in each.keys}
            )
        heads = []
        for each in found:
            meter = facts[each.dataset].meter
            charge, paid = map(meter.text, each.amounts(charged))
            heads.append(
                PlanHead(
                    record=each, dataset_name=facts[each.dataset].record.name, unit=meter.unit,
                    charge=charge, paid=paid,
                )
            )  # fmt: skip
        return heads

    def view_in(self, reader: Reader, found: PlanRecord, caller: Caller | None = None) -> PlanView:
        """Return a plan with what its questions have come to, as far as that is public.

        Its owner sees it as they have written it. Everyone else, and ``caller`` None, sees it as
        it was sent.
        """
        own = caller is not None and found.person == caller.person
        found = found.written if own else found.sent
        facts = self._datasets.facts_in(reader, found.dataset)
        meter = facts.meter
        known = reader.releases.known({(found.person, key) for key in found.keys})
        questions = []
        for key, planned in zip(found.keys, found.questions, strict=True):
            release = known.get((found.person, key))
            question = read_question(planned.request)
            questions.append(
                PlannedView(
                    question=question,
                    planned=planned,
                    charge=meter.text(planned.amount),
                    words=in_words(question),
                    release=None if release is None else self._releases.moments.publicly(release),
                )
            )
        remaining = reader.accounts.balance(found.account).remaining
        cap = reader.accounts.cap(found.account, found.person)
        if cap is not None and cap.amount is not None:
            remaining = min(remaining, max(0, cap.amount - cap.used))
        charge, paid = found.amounts(known.keys())
        return PlanView(
            record=found,
            dataset_name=facts.record.name,
            etag=_etag(reader, found, facts.policy.reviewers),
            questions=questions,
            unit=meter.unit,
            charge=meter.text(charge),
            paid=meter.text(paid),
            remaining=meter.text(remaining),
            fits=charge - paid <= remaining,
        )

    async def _planned(
        self,
        facts: DatasetFacts,
        planned: Sequence[PlannedQuestion],
        purpose: str | None,
        *,
        caller: Caller,
    ) -> Sequence[PlannedRequest]:
        """Return questions as a plan keeps them."""
        found = []
        for place, each in enumerate(planned):
            try:
                priced = await self._priced(facts, each, caller=caller)
                question = weighed_for(priced, facts.schema)
                asked = replace(question, purpose=question.purpose or purpose)
                offer = await self._offer(facts, asked, caller=caller)
            except Problem as problem:
                raise problem.inside(f"questions.{place}") from None
            found.append(
                PlannedRequest(
                    request=asked.canonical,
                    amount=offer.cost,
                    mechanism=offer.plan.mechanism,
                    norm=offer.plan.norm,
                )
            )
        return tuple(found)

    async def _priced(
        self, facts: DatasetFacts, planned: PlannedQuestion, *, caller: Caller
    ) -> Question:
        """Return a question at its epsilon, or at the one that its accuracy takes."""
        if planned.priced:
            return planned.question
        preview, question = await self._previews.preview_within(
            facts.id, planned.question, planned.options, caller=caller
        )
        accuracy: Any = preview["accuracy"]
        if accuracy["epsilon"] is None:
            raise invalid_request(
                "epsilon", "is required: no epsilon is known to reach the accuracy"
            )
        return question

    async def _offer(self, facts: DatasetFacts, question: Question, *, caller: Caller) -> Offer:
        require_askable(facts, kinds=question.kinds, epsilon=question.epsilon)
        return await self._plans.offer(facts, question, person=caller.person)

    async def _offered(
        self, facts: DatasetFacts, place: int, planned: PlannedRequest, *, caller: Caller
    ) -> Offer:
        """Return the offer of a saved question, which must still be what was saved."""
        try:
            offer = await self._offer(facts, read_question(planned.request), caller=caller)
        except Problem as problem:
            raise problem.inside(f"questions.{place}") from None
        drawn = offer.cost, offer.plan.mechanism, offer.plan.norm
        if drawn != (planned.amount, planned.mechanism, planned.norm):
            raise Problem("plan-changed")
        return offer

    async def _own(self, plan: str, caller: Caller) -> PlanRecord:
        """Return a plan of the caller's own, as they have written it."""
        found = await anyio.to_thread.run_sync(self.seen, plan, caller)
        if found.person != caller.person:
            raise _unknown()
        return found.written

    def seen(self, plan: str, caller: Caller) -> PlanRecord:
        """Return a plan that a caller may see, in a thread of theirs."""
        with self._store.reading() as reader:
            return _seen_in(reader, plan, caller)

    def _until(self) -> str:
        return text_of(datetime.now(UTC) + self._valid_for)


def _unknown() -> Problem:
    return Problem("not-found", "There is no such study plan.")


def _seen_in(reader: Reader, plan: str, caller: Caller) -> PlanRecord:
    """Return a plan that a caller may see."""
    found = reader.study_plans.get(plan)
    overseer = caller.role.may(Right.OVERSEE)
    if found is None or found.account in caller.hidden:
        raise _unknown()
    if found.person != caller.person and not (overseer and found.state is not PlanState.DRAFT):
        raise _unknown()
    return found


def _page(
    reader: Reader,
    caller: Caller,
    span: Span,
    dataset: str | None,
    states: Collection[PlanState],
    *,
    owner: str | None = None,
) -> Sequence[PlanRecord]:
    """Return the plans of a span that a caller may see."""
    return reader.study_plans.page(
        person=caller.person, overseer=caller.role.may(Right.OVERSEE), span=span, dataset=dataset,
        owner=owner, states=states, hidden=caller.hidden,
    )  # fmt: skip


def _state_at(found: PlanRecord, moment: str) -> PlanState:
    """Return a plan's state at a time, by which no process may have ended it yet."""
    over = found.state is PlanState.APPROVED and not found.is_drawn_at(moment)
    return PlanState.EXPIRED if over else found.state


def _etag(reader: Reader | UnitOfWork, found: PlanRecord, needed: int) -> str:
    """Return the entity tag of where a plan stands: state, turn, and votes that everyone may see.

    What has been requested does not change within a turn, so a decision needs no more.
    """
    votes = reader.study_plans.votes_of(found.id)
    count = Count.of(votes, turn=found.turn, needed=needed)
    conflict = found.state is PlanState.REQUESTED and count.conflict
    turn = f"-{found.turn}" if found.turn > 1 else ""
    return f'"{found.state.value}{turn}{f".{len(votes)}" if conflict else ""}"'


def gone_on(found: PlanRecord, *, code: str = "not-awaiting-review") -> Problem:
    """Return the refusal for an act on a plan that is in another state."""
    status = found.state.status
    details = {}
    detail = f"The study plan is now {status.replace('_', ' ')}."
    if found.decided_by is not None and found.decided_at is not None:
        details = {"by": found.decided_by, "at": found.decided_at, "why": found.reason or ""}
        said = worded("%(person)s decided at %(at)s", person=found.decided_by, at=found.decided_at)
        detail = f"{detail} {said}: {found.reason}"
    return Problem(code, detail, plan_status=status, **details)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ballot:
    """What a reviewer says, of how many, about a plan as they have seen it."""

    plan: str
    decision: Decision
    reason: str
    needed: int
    until: str
    unchanged: Unchanged
    caller: Caller


def _vote(ballot: _Ballot, work: UnitOfWork) -> None:
    """Cast a vote, and do what the votes come to once all are in."""
    plans, person, reason = work.study_plans, ballot.caller.person, ballot.reason
    found = plans.get(ballot.plan)
    if found is None:
        raise _unknown()
    if found.state is not PlanState.REQUESTED:
        raise gone_on(found)
    if not ballot.unchanged(_etag(work, found, ballot.needed)):
        raise gone_on(found, code="precondition")
    work.by(ballot.caller.acting)
    earlier = plans.votes_of(found.id)
    before = Count.of(earlier, turn=found.turn, needed=ballot.needed)
    if not before.may_vote(person):
        raise Problem("votes-complete")
    own = [vote for vote in earlier if (vote.turn, vote.person) == (found.turn, person)]
    # The same vote again, as when an answer was lost: no second entry.
    if own and (own[-1].decision, own[-1].reason) == (ballot.decision, reason):
        return
    vote = plans.vote(found, person=person, decision=ballot.decision, reason=reason)
    count = Count.of((*earlier, vote), turn=found.turn, needed=ballot.needed)
    if count.conflict:
        plans.show_conflict(found, actor=person)
    match count.outcome:
        case Decision.APPROVE:
            plans.approve(found.id, principal=person, reason=count.reason, expires_at=ballot.until)
        case Decision.REJECT:
            plans.reject(found.id, principal=person, reason=count.reason)
        case Decision.REQUEST_CHANGES:
            plans.request_changes(found.id, principal=person, reason=count.reason)
