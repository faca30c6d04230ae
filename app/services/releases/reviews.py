"""Reviews: releases that wait for reviewers, who see the request and nothing of the data.

While a release waits its budget is set aside, and nothing is drawn or read. An
approval charges for it and puts it into the queue like any job: by its schedule,
which begins with the charge, the reviewer learns no more of the draw than
others do. Every other outcome gives the budget back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

import anyio
import anyio.to_thread

from app.domain.policies import Review
from app.domain.problems import Problem
from app.domain.releases import UNDECIDED, ReleaseState
from app.domain.reviews import Count, Decision
from app.logs import describe
from app.services.datasets.accounting import refusal_of
from app.services.datasets.datasets import DatasetService, require_active, require_askable
from app.services.datasets.readable import ReadableData
from app.services.people.keys import Caller
from app.services.plans.answers import status_of
from app.services.plans.plans import PlanService, charged_plan
from app.services.plans.questions import Question, weighed_for
from app.services.releases.jobs import JobRunner
from app.services.releases.public_moments import LedgerClock, PublicMoments, job_of_record
from app.store import Charged, Debit, Reader, ReleaseRecord, Store, UnitOfWork
from app.store.ledger.records import text_of
from mechanisms.catalog import PlanChangedError
from mechanisms.privacy import Epsilon
from mechanisms.words import worded

__all__ = ["Decision", "ReviewService", "Unchanged", "gone_on", "reserve"]

_LOG = logging.getLogger(__name__)
LOOK_EVERY_S = 15.0
_WITHDRAWN = "withdrawn by who asked"
_BY_VOTES = frozenset(
    {
        ReleaseState.DEBITED, ReleaseState.REJECTED, ReleaseState.CHANGES_REQUESTED,
    }
)  # fmt: skip
_SAID = {
    Decision.APPROVE: worded("%(person)s approved it at %(at)s"),
    Decision.REQUEST_CHANGES: worded("%(person)s asked for changes at %(at)s"),
    Decision.REJECT: worded("%(person)s rejected it at %(at)s"),
}

Unchanged = Callable[[ReleaseRecord], bool]
"""Says of a release whether it is still what somebody has seen."""


class ReviewService:
    """Deciding on releases that wait, withdrawing them, and ending what waits too long.

    Parameters
    ----------
    store, datasets, readable, plans, jobs, moments, ledger_clock
        What it works with.
    longest
        After which time a release without a decision is given back.
    most_bytes
        How many bytes a person may have stored in a day, None for any number.
    """

    def __init__(
        self,
        *,
        store: Store,
        datasets: DatasetService,
        readable: ReadableData,
        plans: PlanService,
        jobs: JobRunner,
        moments: PublicMoments,
        ledger_clock: LedgerClock,
        longest: timedelta,
        most_bytes: int | None,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._readable = readable
        self._plans = plans
        self._jobs = jobs
        self._moments = moments
        self._ledger_clock = ledger_clock
        self._longest = longest
        self._most_bytes = most_bytes

    async def decide(
        self,
        release: str,
        decision: Decision,
        reason: str,
        *,
        unchanged: Unchanged,
        caller: Caller,
    ) -> ReleaseRecord:
        """Vote on a release, for somebody who may see every release; the last vote decides.

        ``unchanged`` says of the release as it may be shown whether it is still
        what the reviewer has seen.

        Raises
        ------
        Problem
            ``not-found``; ``own-request``; ``precondition``; ``not-awaiting-review``;
            ``votes-complete``; ``plan-changed``, where it cannot be drawn as it says any
            more; ``paused``; ``dataset-unreadable``; ``clock-behind``.
        """
        # What has waited too long is over, even where no process has ended it yet.
        await self.expire_due()
        found = await anyio.to_thread.run_sync(self._get, release)
        if found is None:
            raise Problem("not-found", "There is no such release.")
        if found.principal == caller.person:
            raise Problem("own-request")
        if not unchanged(found) or found.state is not ReleaseState.RESERVED:
            raise await anyio.to_thread.run_sync(self._gone_on, found, unchanged)
        facts = await self._datasets.present(found.dataset)
        if decision is Decision.APPROVE:
            await self._check_plan(found)
            await self._readable.require(found.dataset)
            await self._ledger_clock.require()
        ballot = _Ballot(
            release=release,
            decision=decision,
            reason=reason,
            needed=facts.policy.reviewers,
            unchanged=unchanged,
            caller=caller,
        )
        # A client that goes away must not leave it in a queue without a reader.
        return await asyncio.shield(asyncio.ensure_future(self._vote(ballot)))

    async def _vote(self, ballot: _Ballot) -> ReleaseRecord:
        try:
            return await self._store.awrite(partial(_vote, ballot))
        finally:
            self._jobs.wake()

    def _gone_on(self, found: ReleaseRecord, unchanged: Unchanged) -> Problem:
        with self._store.reading() as reader:
            return gone_on(reader, found, unchanged)

    async def _check_plan(self, record: ReleaseRecord) -> None:
        """Pass for a plan that can be drawn as it was reviewed; another version may not."""
        facts = await anyio.to_thread.run_sync(self._datasets.facts, record.dataset)
        try:
            await anyio.to_thread.run_sync(charged_plan, record, facts)
        except PlanChangedError:
            raise Problem("plan-changed") from None

    async def withdraw(self, release: str, *, caller: Caller) -> ReleaseRecord:
        """Withdraw a release of the caller's own; once more changes nothing.

        Raises
        ------
        Problem
            ``not-found``, for foreign and unknown ids alike; ``not-awaiting-review``.
        """
        await self.expire_due()
        found = await anyio.to_thread.run_sync(self._get_own, release, caller.person)
        if found is None:
            raise Problem("not-found", "There is no such release.")
        if found.state is ReleaseState.WITHDRAWN:
            return found
        if found.state not in UNDECIDED:
            raise Problem("not-awaiting-review")
        return await self._give_back(
            release, ReleaseState.WITHDRAWN, caller=caller, reason=_WITHDRAWN
        )

    async def _give_back(
        self, release: str, final: ReleaseState, *, caller: Caller, reason: str
    ) -> ReleaseRecord:
        return await self._store.awrite(
            lambda work: work.by(caller.acting).reviews.unreserve(
                release, final, principal=caller.person, reason=reason
            )
        )

    async def revise(
        self, release: str, question: Question, *, unchanged: Unchanged, caller: Caller
    ) -> ReleaseRecord:
        """Put another request in the place of one whose reviewers want changes.

        It waits for its reviewers again, whatever it costs now: a review that has begun is ended
        by its reviewers. What is set aside follows the new price in the same transaction.

        Raises
        ------
        Problem
            ``not-found``, for foreign and unknown ids alike; ``precondition``;
            ``not-your-turn``; what a release would be refused for.
        """
        await self.expire_due()
        found = await anyio.to_thread.run_sync(self._get_own, release, caller.person)
        if found is None:
            raise Problem("not-found", "There is no such release.")
        if not unchanged(found) or found.state is not ReleaseState.CHANGES_REQUESTED:
            outcome = await anyio.to_thread.run_sync(self._gone_on, found, unchanged)
            raise (
                outcome
                if outcome.code == "precondition"
                else Problem("not-your-turn", **outcome.extras)
            )
        facts = await self._datasets.present(found.dataset)
        require_askable(facts, kinds=question.kinds, epsilon=question.epsilon)
        question = weighed_for(question, facts.schema)
        # A review that has begun goes on: planned as one that everything is reviewed under.
        always = replace(facts, policy=replace(facts.policy, review=Review(Epsilon(0))))
        offer = await self._plans.offer(always, question, person=caller.person)
        await self._readable.require(found.dataset)
        await self._ledger_clock.require()

        def write(work: UnitOfWork) -> ReleaseRecord:
            # Once more inside the transaction: between the two somebody may have decided.
            present = work.releases.get(release)
            if present is None or not unchanged(present):
                raise gone_on(work, present or found, unchanged)
            return work.by(caller.acting).reviews.revise(
                release,
                amount=offer.cost,
                request=question.canonical,
                plan=offer.text,
                most_bytes=self._most_bytes,
            )

        try:
            return await self._store.awrite(write)
        except Problem as problem:
            raise refusal_of(problem, facts.meter, question.epsilon) from None

    def _get(self, release: str) -> ReleaseRecord | None:
        with self._store.reading() as reader:
            return reader.releases.get(release, self._moments.publicly)

    def _get_own(self, release: str, person: str) -> ReleaseRecord | None:
        with self._store.reading() as reader:
            return reader.releases.of_person(release, person, self._moments.publicly)

    async def expire_due(self, *, at: datetime | None = None) -> int:
        """Give back what has waited too long at a time, by default now; return how many.

        Study plans expire too: those that have waited as long, and those whose approval has ended.
        """
        moment = at or datetime.now(UTC)
        since, now = text_of(moment - self._longest), text_of(moment)
        expired = 0
        while await anyio.to_thread.run_sync(self._is_due, since, now):
            expired += await self._store.awrite(
                lambda work: (
                    work.reviews.expire(since) + work.study_plans.expire(since=since, at=now)
                )
            )
        return expired

    def _is_due(self, since: str, now: str) -> bool:
        with self._store.reading() as reader:
            return bool(
                reader.reviews.waiting_since(since, limit=1)
                or reader.study_plans.due(since=since, at=now, limit=1)
            )

    async def keep_expiring(self) -> None:
        """Give back what has waited too long, while somebody serves."""
        while True:
            try:
                await self.expire_due()
            except Problem as problem:  # busy, or frozen
                _LOG.info("reviews not ended yet", extra={"code": problem.code})
            except Exception as error:
                _LOG.error("reviews not ended yet", extra=describe(error))
            await anyio.sleep(LOOK_EVERY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ballot:
    """What a reviewer says, of how many, about a release as they have seen it."""

    release: str
    decision: Decision
    reason: str
    needed: int
    unchanged: Unchanged
    caller: Caller


def _vote(ballot: _Ballot, work: UnitOfWork) -> ReleaseRecord:
    """Cast a vote, and do what the votes come to once all are in."""
    found = work.releases.get(ballot.release)
    if found is None:
        raise Problem("not-found", "There is no such release.")
    if not ballot.unchanged(found) or found.state is not ReleaseState.RESERVED:
        raise gone_on(work, found, ballot.unchanged)
    person, reason = ballot.caller.person, ballot.reason
    work.by(ballot.caller.acting)
    earlier = work.votes.of(found.id)
    if not Count.of(earlier, turn=found.turn, needed=ballot.needed).may_vote(person):
        raise Problem("votes-complete")
    own = [vote for vote in earlier if (vote.turn, vote.person) == (found.turn, person)]
    # The same vote again, as when an answer was lost: no second entry.
    if own and (own[-1].decision, own[-1].reason) == (ballot.decision, reason):
        return found  # sent twice
    vote = work.votes.cast(
        found.id, turn=found.turn, person=person, decision=ballot.decision, reason=reason
    )
    votes = (*earlier, vote)
    count = Count.of(votes, turn=found.turn, needed=ballot.needed)
    if count.conflict:
        shown = sum(each.turn == found.turn for each in votes)
        return work.reviews.show_conflict(found.id, votes=shown, actor=person)
    return _decided(work, found, count, person)


def _decided(work: UnitOfWork, found: ReleaseRecord, count: Count, person: str) -> ReleaseRecord:
    """Do what all votes say; nothing while one is missing."""
    match count.outcome:
        case Decision.APPROVE:
            job = job_of_record(found)
            return work.reviews.approve(
                found.id,
                principal=person,
                reason=count.reason,
                deadline_s=None if job is None else job.deadline_s,
            )
        case Decision.REJECT:
            return work.reviews.unreserve(
                found.id, ReleaseState.REJECTED, principal=person, reason=count.reason
            )
        case Decision.REQUEST_CHANGES:
            return work.reviews.request_changes(found.id, principal=person, reason=count.reason)
        case None:
            return found


def gone_on(reader: Reader | UnitOfWork, found: ReleaseRecord, unchanged: Unchanged) -> Problem:
    """Return the refusal for an act on a release that has changed since it was seen."""
    code = "not-awaiting-review" if unchanged(found) else "precondition"
    if found.state in (ReleaseState.RELEASED, ReleaseState.VOID):
        # When its draw ended may not be public yet.
        found = found._replace(state=ReleaseState.DEBITED)
    status, details = status_of(found.state), {}
    votes = reader.votes.of(found.id)
    detail = f"The release is now {status.replace('_', ' ')}."
    if found.state in _BY_VOTES and votes:
        last = votes[-1]
        details = {"by": last.person, "at": last.at, "why": last.reason}
        said = _SAID[last.decision] % {"person": last.person, "at": last.at}
        detail = f"{said}: {last.reason}"
    elif found.shown:
        detail = "Both votes are in, and they are unlike: read the review again."
    elif found.state is ReleaseState.RESERVED:
        now = worded(
            "it is now in turn %(turn)s, version %(version)s.",
            turn=found.turn, version=found.version,
        )  # fmt: skip
        # In its first turn it has no answers yet: the tag was of something else.
        answered, again = worded("Who asked has answered:"), worded("Read it again:")
        detail = f"{answered if found.turn > 1 else again} {now}"
    return Problem(code, detail, release_status=status, **details)


async def reserve(store: Store, wanted: Debit) -> Charged:
    """Set aside what a release would be charged, unless the person has used the key before.

    Raises
    ------
    Problem
        ``not-found``, ``dataset-archived``, ``paused``, ``too-much-stored``;
        ``budget-exceeded`` with nothing written.
    """
    return await store.awrite(partial(_reserve, wanted))


def _reserve(wanted: Debit, work: UnitOfWork) -> Charged:
    key = wanted.principal, wanted.idem
    known = work.releases.known({key}).get(key)
    if known is not None:
        return Charged(known, fresh=False)
    dataset = require_active(work.datasets.get(wanted.dataset))
    work.pauses.check(person=wanted.principal, dataset=wanted.dataset)
    record = work.by(wanted.acting).reviews.reserve(
        account=dataset.account,
        amount=wanted.amount,
        dataset=wanted.dataset,
        principal=wanted.principal,
        request=wanted.request,
        plan=wanted.plan,
        idem=wanted.idem,
        size=wanted.size,
        most_bytes=wanted.most_bytes,
    )
    return Charged(record, fresh=True)
