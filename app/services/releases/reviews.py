"""Reviews: releases that wait for a curator, who sees the request and nothing of the data.

While a release waits its budget is set aside, and nothing is drawn or read. An
approval charges for it and puts it into the queue like any job: by its schedule,
which begins with the charge, the reviewer learns no more of the draw than
anybody else. Whatever else becomes of it gives the budget back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial

import anyio
import anyio.to_thread

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.logs import describe
from app.services.datasets.datasets import DatasetService, require_active
from app.services.datasets.readable import ReadableData
from app.services.people.keys import Caller
from app.services.plans.charged_plan import PlanChangedError
from app.services.plans.plans import PlanService
from app.services.releases.jobs import JobRunner
from app.services.releases.public_moments import PublicMoments, job_of_record
from app.store import Charged, Debit, ReleaseRecord, Store, UnitOfWork
from app.store.ledger.ids import text_of

_LOG = logging.getLogger(__name__)
LOOK_EVERY_S = 15.0
_WITHDRAWN = "withdrawn by who asked"


class Decision(StrEnum):
    """What a reviewer may say."""

    APPROVE = "approve"
    REJECT = "reject"


class ReviewService:
    """Deciding on releases that wait, withdrawing them, and ending what waits too long.

    Parameters
    ----------
    store, datasets, readable, plans, jobs, moments
        What it works with.
    longest
        After which time a release that nobody has decided on is given back.
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
        longest: timedelta,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._readable = readable
        self._plans = plans
        self._jobs = jobs
        self._moments = moments
        self._longest = longest

    async def decide(
        self,
        release: str,
        decision: Decision,
        reason: str,
        *,
        unchanged: Callable[[ReleaseRecord], bool],
        caller: Caller,
    ) -> ReleaseRecord:
        """Approve or reject a release, for somebody who may see every release.

        ``unchanged`` says of the release as it may be shown whether it is still
        what the reviewer has seen.

        Raises
        ------
        Problem
            ``not-found``; ``own-request``; ``precondition``; ``not-awaiting-review``;
            ``plan-changed``, where it would now be drawn otherwise than it says; ``paused``;
            ``dataset-unreadable``.
        """
        await self.expire_due()
        found = await anyio.to_thread.run_sync(self._get, release)
        if found is None:
            raise Problem("not-found", "There is no such release.")
        if found.principal == caller.person:
            raise Problem("own-request")
        if not unchanged(found):
            raise Problem("precondition")
        if found.state is not ReleaseState.RESERVED:
            raise Problem("not-awaiting-review")
        if decision is Decision.REJECT:
            return await self._give_back(
                release, ReleaseState.REJECTED, caller=caller, reason=reason
            )
        await self._check_plan(found)
        await self._readable.require(found.dataset)
        # A client that goes away must not leave it in a queue that nobody looks into.
        approving = self._approve(found, caller=caller, reason=reason)
        return await asyncio.shield(asyncio.ensure_future(approving))

    async def _approve(self, found: ReleaseRecord, *, caller: Caller, reason: str) -> ReleaseRecord:
        job = job_of_record(found)
        deadline_s = None if job is None else job.deadline_s
        try:
            return await self._store.awrite(
                lambda work: work.by(caller.acting).reviews.approve(
                    found.id, principal=caller.person, reason=reason, deadline_s=deadline_s
                )
            )
        finally:
            self._jobs.wake()

    async def _check_plan(self, record: ReleaseRecord) -> None:
        """Pass for a plan that is still the one that was reviewed; another version may differ."""
        facts = await anyio.to_thread.run_sync(self._datasets.facts, record.dataset)
        try:
            await self._plans.offer_again(facts, record)
        except (PlanChangedError, Problem, KeyError, ValueError):
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
        if found.state is not ReleaseState.RESERVED:
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

    def _get(self, release: str) -> ReleaseRecord | None:
        with self._store.reading() as reader:
            return reader.releases.get(release, self._moments.publicly)

    def _get_own(self, release: str, person: str) -> ReleaseRecord | None:
        with self._store.reading() as reader:
            return reader.releases.of_person(release, person, self._moments.publicly)

    async def expire_due(self, *, at: datetime | None = None) -> int:
        """Give back what has waited too long at a time, by default now; return how many."""
        since = text_of((at or datetime.now(UTC)) - self._longest)
        expired = 0
        while await anyio.to_thread.run_sync(self._is_due, since):
            expired += await self._store.awrite(lambda work: work.reviews.expire(since))
        return expired

    def _is_due(self, since: str) -> bool:
        with self._store.reading() as reader:
            return bool(reader.reviews.waiting_since(since, limit=1))

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
