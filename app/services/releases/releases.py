"""Releases: debit before draw, result before answer, one result per debit.

The order of :meth:`ReleaseService.submit` is the ledger's protocol. Until the
charge, only the request and public facts are read. After it, what leaves is
the declared result or the one fixed problem ``release-void``; either is
durable first and is replayed for ever. A client that goes away stops nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio.to_thread

from app.domain.access import Span
from app.domain.policies import Review, Right
from app.domain.problems import Problem, StorageError
from app.domain.releases import ReleaseState
from app.domain.reviews import PlannedRequest
from app.services.datasets.accounting import refusal_of
from app.services.datasets.datasets import DatasetFacts, DatasetService, require_askable
from app.services.datasets.readable import ReadableData
from app.services.people.keys import Caller
from app.services.plans.plans import Offer, PlanService
from app.services.plans.questions import (
    Question,
    question_key,
    read_question,
    spelled,
    weighed_for,
)
from app.services.releases.charged_draws import ReadyDraw
from app.services.releases.draws import DrawService
from app.services.releases.jobs import JobRunner
from app.services.releases.public_moments import LedgerClock, PublicMoments, job_of_record
from app.services.releases.reviews import reserve
from app.store import Debit, ReleasePage, ReleaseRecord, Store

__all__ = ["OWN_KEY", "Approval", "ReleasePage", "ReleaseRecord", "ReleaseService"]

OWN_KEY = "auto"
"""The Idempotency-Key that stands for the one that follows from data set, question and price."""

_LONGEST_REPLAY_S = 10.0
_LOOK_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question in its one spelling, and the key that it is asked under.

    Under its own key its purpose is no part of it: what a number is for does not change it, and is
    no reason to pay for it again.
    """

    question: Question
    key: str
    own: bool

    @classmethod
    def under(cls, key: str, question: Question, dataset: str) -> _Asked:
        """Return what is asked under a key, or under the question's own."""
        own = key == OWN_KEY
        question = replace(question, purpose=None) if own else question
        return cls(question, question_key(dataset, question) if own else key, own)

    def is_of(self, request: str, facts: DatasetFacts) -> bool:
        """Return whether a stored request is of this question, however it was spelled."""
        try:
            stored = spelled(read_question(request), facts.schema)
        except (KeyError, ValueError):  # of an earlier version
            return False
        return self.question == (replace(stored, purpose=None) if self.own else stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """What lets a question be drawn without a review of its own: an approved study plan.

    ``planned`` is what was approved. ``reviewed``: by people; else the data set's policy asked for
    no review, and still must. ``status`` is where the plan stands if it may not be drawn.
    """

    plan: str
    planned: PlannedRequest
    reviewed: bool
    status: str | None = None

    def policy(self, facts: DatasetFacts) -> DatasetFacts:
        """Return the data set as one that reviews nothing, where people have reviewed this."""
        if not self.reviewed:
            return facts
        return replace(facts, policy=replace(facts.policy, review=Review()))

    def require(self, offer: Offer) -> None:
        """Pass for what was approved.

        Raises
        ------
        Problem
            ``plan-not-approved``, ``plan-changed``.
        """
        if offer.reviewed:
            raise Problem("plan-not-approved")
        planned = self.planned
        drawn = offer.cost, offer.plan.mechanism, offer.plan.norm
        if drawn != (planned.amount, planned.mechanism, planned.norm):
            raise Problem("plan-changed")


@dataclass(frozen=True, slots=True)
class _Running:
    """A release on its way: what was asked of which data set, and who waits for the outcome."""

    dataset: str
    question: Question
    task: asyncio.Task[ReleaseRecord]
    waiters: list[asyncio.Future[ReleaseRecord]] = field(default_factory=list)

    def notify(self) -> None:
        """Resolve every waiter that is still pending."""
        task = self.task
        error = None if task.cancelled() else task.exception()
        for waiter in self.waiters:
            if waiter.done():
                continue
            if task.cancelled():
                waiter.cancel()
            elif error is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(task.result())


class ReleaseService:
    """Submitting, replaying and showing releases.

    Parameters
    ----------
    store, datasets, readable, plans, draws, jobs, moments, ledger_clock
        What it works with.
    max_waiting
        How many requests may be under way; above it one is refused as
        ``busy`` before any charge.
    most_jobs
        How many unfinished jobs a person may have; one more is refused as
        ``too-many-jobs`` before any charge.
    most_bytes
        How many bytes a person may have stored in a day, None for any number; above it a
        release is refused as ``too-much-stored`` before any charge.
    """

    def __init__(
        self,
        *,
        store: Store,
        datasets: DatasetService,
        readable: ReadableData,
        plans: PlanService,
        draws: DrawService,
        jobs: JobRunner,
        moments: PublicMoments,
        ledger_clock: LedgerClock,
        max_waiting: int,
        most_jobs: int,
        most_bytes: int | None,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._readable = readable
        self._plans = plans
        self.draws = draws
        self._jobs = jobs
        self._max_waiting = max_waiting
        self._most_jobs = most_jobs
        self._most_bytes = most_bytes
        self._ledger_clock = ledger_clock
        self._running: dict[tuple[str, str], _Running] = {}
        self.moments = moments

    async def submit(
        self,
        dataset: str,
        question: Question,
        *,
        idem: str,
        caller: Caller,
        approval: Approval | None = None,
    ) -> ReleaseRecord:
        """Charge for a question, or find the release that its key already has.

        The key :data:`OWN_KEY` stands for the one that the question has by itself. With an
        ``approval`` the question has no review of its own.

        The release that comes back is final, a job under way, or waits for a
        review: then it is charged once it is approved. A released or void one
        may be answered from the moment :attr:`moments` says.

        Raises
        ------
        Problem
            Every refusal is judged before the charge; ``internal`` is all
            that is raised after it.
        """
        facts = await self._datasets.present(dataset)
        question = weighed_for(question, facts.schema)
        one = await self._plans.spelled(facts, question, person=caller.person)
        asked = _Asked.under(idem, one, facts.id)
        idem = asked.key
        running, loop = self._running.get((caller.person, idem)), asyncio.get_running_loop()
        if running is None:
            # no await between the look above and the entry below: one task per key
            work = self._answer(facts, question, asked, approval, caller=caller)
            task = loop.create_task(work)
            running = self._begun(caller.person, idem, _Running(facts.id, asked.question, task))
        elif (running.dataset, running.question) != (facts.id, asked.question):
            raise Problem("idempotency-key-reused")
        # Of its own: a client that goes away stops nothing, what is charged is drawn and stored.
        waiter: asyncio.Future[ReleaseRecord] = loop.create_future()
        running.waiters.append(waiter)
        try:
            return await waiter
        except Problem as problem:
            raise refusal_of(problem, facts.meter, question.epsilon) from None

    async def asked_before(self, dataset: str, question: Question, *, caller: Caller) -> str | None:
        """Return the id of the caller's release under the question's own key, if there is one.

        Raises
        ------
        Problem
            ``not-found``; ``busy``.
        """
        facts = await self._datasets.present(dataset)
        one = await self._plans.spelled(facts, question, person=caller.person)
        key = _Asked.under(OWN_KEY, one, facts.id).key
        known = await anyio.to_thread.run_sync(self._known, caller.person, key)
        return None if known is None else known.id

    def _begun(self, person: str, idem: str, running: _Running) -> _Running:
        """Know a release while it is on its way."""
        self._running[person, idem] = running

        def forget(_: asyncio.Task[ReleaseRecord]) -> None:
            del self._running[person, idem]
            running.notify()

        running.task.add_done_callback(forget)
        return running

    async def _answer(
        self,
        facts: DatasetFacts,
        question: Question,
        asked: _Asked,
        approval: Approval | None,
        *,
        caller: Caller,
    ) -> ReleaseRecord:
        principal, idem = caller.person, asked.key
        try:
            offer = await self._prepare(facts, question, approval, person=principal)
        except Problem:
            # a request that would be refused today may have been answered before: that wins
            known = await anyio.to_thread.run_sync(self._known, principal, idem)
            if known is None:
                raise
            found = known
        else:
            charge = Debit(
                dataset=facts.id,
                principal=principal,
                idem=idem,
                amount=offer.cost,
                request=question.canonical,
                plan=offer.text,
                # A job is left to the queue: the process that claims it names itself.
                worker=self.draws.worker if offer.job is None else None,
                deadline_s=None if offer.job is None else offer.job.deadline_s,
                most_jobs=None if offer.job is None else self._most_jobs,
                answer_bytes=offer.answer_bytes,
                most_bytes=self._most_bytes,
                acting=caller.acting,
                study_plan=None if approval is None else approval.plan,
            )
            if offer.reviewed:
                charged = await reserve(self._store, charge)
            else:
                charged = await self._store.awrite(charge)
            if charged.fresh and offer.job is None:
                ready = ReadyDraw(facts, question, offer.plan, offer.planning_ms)
                draw = self.draws.draw(charged.record, ready)
                return await self._drawn(charged.record, draw)
            found = charged.record
        if not await anyio.to_thread.run_sync(self._is_same, found, facts, asked):
            raise Problem("idempotency-key-reused")
        return await self._found(found)

    async def _drawn(
        self, record: ReleaseRecord, draw: Coroutine[Any, Any, ReleaseRecord]
    ) -> ReleaseRecord:
        """Return what a draw comes to, or a release that is under way if it has to be put off."""
        try:
            return await draw
        except StorageError as error:
            self._jobs.put_off(record, error)
            return record

    def _known(self, principal: str, idem: str) -> ReleaseRecord | None:
        with self._store.reading() as reader:
            return reader.releases.known({(principal, idem)}).get((principal, idem))

    def _is_same(self, known: ReleaseRecord, facts: DatasetFacts, asked: _Asked) -> bool:
        """Return whether a release is of this request, in any of its versions."""
        if known.dataset != facts.id:
            return False
        if asked.is_of(known.request, facts):
            return True
        if known.version == 1:
            return False
        with self._store.reading() as reader:
            versions = reader.reviews.versions(known)
        return any(asked.is_of(each.request, facts) for each in versions)

    async def _prepare(
        self,
        facts: DatasetFacts,
        question: Question,
        approval: Approval | None = None,
        *,
        person: str,
    ) -> Offer:
        """Judge everything that can be judged without the data, and look that it is there."""
        # Judged first, as it costs nothing to find out.
        if len(self._running) > self._max_waiting:
            raise Problem("busy")
        require_askable(facts, kinds=question.kinds, epsilon=question.epsilon)
        if approval is not None and approval.status is not None:
            raise Problem("plan-not-approved", plan_status=approval.status)
        facts = facts if approval is None else approval.policy(facts)
        offer = await self._plans.offer(facts, question, person=person)
        if approval is not None:
            approval.require(offer)
        # Last: what cannot be drawn or dated now is not charged.
        await self._readable.require(facts.id)
        await self._ledger_clock.require()
        return offer

    async def _found(self, known: ReleaseRecord) -> ReleaseRecord:
        """Return a release that is charged and not drawn here and now, as it may be shown.

        A job is in the queue, or has been. Another release is waited for, but
        not for ever: a process that died may have left it. Results have not been
        read, and are once they may be shown.
        """
        if job_of_record(known) is not None:
            self._jobs.wake()
            return await self._with_result(self.moments.publicly(known))
        loop = asyncio.get_running_loop()
        until = loop.time() + _LONGEST_REPLAY_S
        while known.state is ReleaseState.DEBITED and loop.time() < until:
            if known.worker == self.draws.worker and not self._jobs.has(known.id):
                # drawn here, and the outcome could not be stored: no other process will draw it
                return await self._drawn(known, self.draws.again(known))
            self._jobs.wake()
            await asyncio.sleep(_LOOK_AGAIN_S)
            found = await anyio.to_thread.run_sync(self._get, known.id)
            known = found or known
        return await self._with_result(known)

    async def _with_result(self, known: ReleaseRecord) -> ReleaseRecord:
        """Return a release with its result, if it has one."""
        if known.state is not ReleaseState.RELEASED or known.result is not None:
            return known
        return await anyio.to_thread.run_sync(self._get, known.id) or known

    async def get(self, release: str, *, caller: Caller) -> ReleaseRecord:
        """Return a release to its owner or a curator, as it may be shown now.

        Raises
        ------
        Problem
            ``not-found``, for foreign and unknown ids alike.
        """
        record = await anyio.to_thread.run_sync(self._get_for, release, caller)
        if record is None:
            raise Problem("not-found", "There is no such release.")
        return record

    def _get(self, release: str) -> ReleaseRecord | None:
        with self._store.reading() as reader:
            return reader.releases.get(release)

    def _get_for(self, release: str, caller: Caller) -> ReleaseRecord | None:
        """Look a release up; a foreign one is not read, so that it takes as long as none."""
        with self._store.reading() as reader:
            # a request may name more releases than the one in its path
            if caller.hidden and reader.access.account_of_release(release) in caller.hidden:
                return None
            if caller.role.may(Right.OVERSEE):
                return reader.releases.get(release, self.moments.publicly)
            return reader.releases.of_person(release, caller.person, self.moments.publicly)

    def list(
        self,
        *,
        caller: Caller,
        dataset: str | None,
        before: int | None,
        limit: int,
        most_bytes: int,
        state: ReleaseState | None = None,
    ) -> ReleasePage:
        """Return the caller's releases, or everyone's for a curator, newest first.

        They end after ``limit``, or after a number of bytes of what is shown of them.
        ``state`` is one that no draw leads to or from: when that happens is not public.
        """
        everyone = caller.role.may(Right.OVERSEE)
        with self._store.reading() as reader:
            return reader.releases.page(
                principal=None if everyone else caller.person,
                dataset=dataset,
                state=state,
                before=before,
                limit=limit,
                most_bytes=most_bytes,
                shown=self.moments.publicly,
                hidden=caller.hidden,
            )

    def heads(
        self,
        *,
        caller: Caller,
        dataset: str | None = None,
        span: Span,
        state: ReleaseState | None = None,
        person: str | None = None,
    ) -> Sequence[ReleaseRecord]:
        """Return what :meth:`list` does, of a span and without results: what a long list shows.

        A curator may limit it to what one ``person`` has asked for.
        """
        everyone = caller.role.may(Right.OVERSEE)
        with self._store.reading() as reader:
            return reader.releases.page_of_heads(
                principal=person if everyone else caller.person,
                dataset=dataset,
                state=state,
                span=span,
                shown=self.moments.publicly,
                hidden=caller.hidden,
            )

    async def finish_running(self, *, timeout_s: float | None = None) -> None:
        """Wait for the requests under way, at most ``timeout_s`` seconds."""
        tasks = [running.task for running in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)

    async def close(self, *, timeout_s: float) -> None:
        """Let charged releases finish; what does not is drawn again by another process."""
        await asyncio.gather(
            self.finish_running(timeout_s=timeout_s), self._jobs.close(timeout_s=timeout_s)
        )
        self.draws.close()
        self._plans.close()
