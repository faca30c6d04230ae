"""Releases: debit before draw, result before answer, one result per debit.

The order of :meth:`ReleaseService.submit` is the ledger's protocol. Until the
charge, only the request and public facts are read. After it, what leaves is
the declared result or the one fixed problem ``release-void``; either is
durable first and is replayed for ever. A client that goes away stops nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import anyio.to_thread

from app.domain.policies import Ask, enforce
from app.domain.problems import Problem
from app.domain.releases import ReleaseState, may_be_redrawn, request_fingerprint
from app.domain.roles import Role
from app.engine.run import run
from app.logs import describe
from app.services.accounting import refusal_of
from app.services.answers import plan_json, release_answer
from app.services.datasets import DataPlane, DatasetFacts, DatasetService, require_active
from app.services.keys import Caller
from app.services.plans import PlanService
from app.services.questions import Question, read_question
from app.services.receipts import Receipts
from app.store import Debit, Finish, ReleaseRecord, Store, Task, Void
from mechanisms.statistics.base import Plan

_LOG = logging.getLogger(__name__)
_RETRY_PAUSE_S = 0.05
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Running:
    """A release on its way: what was asked, and the task that will know the outcome."""

    fingerprint: str
    task: asyncio.Task[ReleaseRecord]


class ReleaseService:
    """Submitting, replaying, showing and recovering releases.

    Parameters
    ----------
    store, datasets, plans, plane, receipts
        What it works with.
    threads
        How many draws run at once.
    max_waiting
        How many releases may be under way; above it a request is refused as
        ``busy`` before any charge.
    """

    def __init__(
        self,
        *,
        store: Store,
        datasets: DatasetService,
        plans: PlanService,
        plane: DataPlane,
        receipts: Receipts,
        threads: int,
        max_waiting: int,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._plans = plans
        self._plane = plane
        self._receipts = receipts
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="draw")
        self._max_waiting = max_waiting
        self._running: dict[tuple[str, str], _Running] = {}

    async def submit(
        self, dataset: str, question: Question, *, idem: str, caller: Caller
    ) -> ReleaseRecord:
        """Charge for a question and answer it, or replay the answer it already has.

        Raises
        ------
        Problem
            Every refusal is judged before the charge; ``release-void`` and
            ``internal`` are all that can come after it.
        """
        facts = self._datasets.facts(dataset)
        request = question.canonical
        fingerprint = request_fingerprint(dataset=dataset, request=request)
        running = self._running.get((caller.person, idem))
        if running is None:
            # no await between the look above and the entry below: one task per key
            work = self._answer(facts, question, request, idem=idem, principal=caller.person)
            running = self._start(caller.person, idem, fingerprint, work)
        elif running.fingerprint != fingerprint:
            raise Problem("idempotency-key-reused")
        try:
            return await asyncio.shield(running.task)
        except Problem as problem:
            raise refusal_of(problem, facts.meter, question.epsilon) from None

    def _start(
        self, person: str, idem: str, fingerprint: str, work: Awaitable[ReleaseRecord]
    ) -> _Running:
        task = asyncio.ensure_future(work)
        running = self._running[person, idem] = _Running(fingerprint, task)

        def forget(done: asyncio.Task[ReleaseRecord]) -> None:
            del self._running[person, idem]
            if not done.cancelled():
                done.exception()  # somebody has looked: a client may have gone away

        task.add_done_callback(forget)
        return running

    async def _answer(
        self, facts: DatasetFacts, question: Question, request: str, *, idem: str, principal: str
    ) -> ReleaseRecord:
        try:
            plan = await self._prepare(facts, question)
        except Problem:
            # a request that would be refused today may have been answered before: that wins
            found = await anyio.to_thread.run_sync(self._find, principal, idem)
            if found is None:
                raise
        else:
            charged = await self._store.awrite(
                Debit(
                    dataset=facts.id,
                    principal=principal,
                    idem=idem,
                    amount=facts.meter.cost(plan.guarantee),
                    request=request,
                    plan=json.dumps(plan_json(plan, question.epsilon), allow_nan=False),
                )
            )
            if charged.fresh:
                return await self._draw(charged.record, facts, question, plan)
            found = charged.record
        _require_same(found, facts.id, request)
        return await self._settled(found)

    def _find(self, principal: str, idem: str) -> ReleaseRecord | None:
        with self._store.reading() as reader:
            return reader.releases.find_by_idem(principal, idem)

    async def _prepare(self, facts: DatasetFacts, question: Question) -> Plan:
        """Judge everything that can be judged without the data."""
        if len(self._running) > self._max_waiting:
            raise Problem("busy")
        require_active(facts.record)
        enforce(facts.policy, Ask(kinds=question.kinds, epsilon=question.epsilon))
        return await self._plans.plan(facts, question)

    async def _settled(self, known: ReleaseRecord) -> ReleaseRecord:
        """Return a final release; draw one that an earlier failure left charged."""
        if known.state is ReleaseState.VOID:
            raise Problem("release-void")
        if known.state is ReleaseState.RELEASED:
            return known
        return await self._redraw(known)

    async def _redraw(self, left: ReleaseRecord) -> ReleaseRecord:
        """Draw a release again that was charged and whose draw nobody has seen."""
        if not may_be_redrawn(left.attempts):
            await self._surely(Void(release=left.id))
            _LOG.error("release void: no attempt left", extra={"release": left.id})
            raise Problem("release-void")
        record = await self._surely(lambda work: work.releases.begin_attempt(left.id))
        try:
            facts = self._datasets.facts(record.dataset)
            question = read_question(record.request)
            plan = await self._plans.plan(facts, question)
        except Exception as error:
            return await self._give_up(record, error)
        return await self._draw(record, facts, question, plan)

    async def _draw(
        self, record: ReleaseRecord, facts: DatasetFacts, question: Question, plan: Plan
    ) -> ReleaseRecord:
        """Draw, make the result durable, and only then return it."""
        loop = asyncio.get_running_loop()
        try:
            result = await loop.run_in_executor(
                self._pool, self._draw_bytes, record, facts, question, plan
            )
            result = self._receipts.attach(record, result)
        except Exception as error:
            return await self._give_up(record, error)
        return await self._surely(Finish(release=record.id, result=result))

    async def _give_up(self, record: ReleaseRecord, error: Exception) -> NoReturn:
        """Void a charged release: after the debit there is one failure, whatever happened."""
        _LOG.error("release void", extra={"release": record.id, **describe(error)})
        await self._surely(Void(release=record.id))
        raise Problem("release-void") from None

    def _draw_bytes(
        self, record: ReleaseRecord, facts: DatasetFacts, question: Question, plan: Plan
    ) -> bytes:
        outcome = run(plan, self._plane.open(facts.id))
        return release_answer(record, facts, question, plan, outcome)

    async def _surely(self, write: Task[T]) -> T:
        """Write what must not be lost to a full queue."""
        while True:
            try:
                return await self._store.awrite(write)
            except Problem as problem:
                if problem.code != "busy":
                    raise
                await asyncio.sleep(_RETRY_PAUSE_S)

    async def get(self, release: str, *, caller: Caller) -> ReleaseRecord:
        """Return a release to its owner or a curator.

        Raises
        ------
        Problem
            ``not-found``, for foreign and unknown ids alike.
        """
        record = await anyio.to_thread.run_sync(self._get, release)
        if record is None or not _may_see(record, caller):
            raise Problem("not-found", "There is no such release.")
        return record

    def _get(self, release: str) -> ReleaseRecord | None:
        with self._store.reading() as reader:
            return reader.releases.get(release)

    def list(
        self, *, caller: Caller, dataset: str | None, before: int | None, limit: int
    ) -> Sequence[ReleaseRecord]:
        """Return the caller's releases, or everybody's for a curator, newest first."""
        everybody = caller.role.may_act_as(Role.CURATOR)
        with self._store.reading() as reader:
            return reader.releases.list(
                principal=None if everybody else caller.person,
                dataset=dataset,
                before=before,
                limit=limit,
            )

    def recover(self) -> None:
        """Begin to draw again what a dead process left charged.

        Every one is known as running before the first request is answered, so
        a replay waits for it. They are drawn one after the other: a release
        that kills the process uses up its own attempts and nobody else's.
        """
        with self._store.reading() as reader:
            left = [
                (record, entry.idem)
                for record in reader.releases.debited()
                for entry in reader.entries.list(record.account, after=record.seq - 1, limit=1)
            ]
        turn = asyncio.Lock()
        for record, idem in left:
            if idem is not None:
                work = self._in_turn(turn, record)
                self._start(record.principal, idem, _fingerprint_today(record), work)

    async def _in_turn(self, turn: asyncio.Lock, record: ReleaseRecord) -> ReleaseRecord:
        async with turn:
            return await self._redraw(record)

    async def finish_running(self, *, timeout_s: float | None = None) -> None:
        """Wait for the releases under way, at most ``timeout_s`` seconds."""
        tasks = [running.task for running in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)

    async def close(self, *, timeout_s: float) -> None:
        """Let charged releases finish; what does not is drawn again at the next start."""
        await self.finish_running(timeout_s=timeout_s)
        self._pool.shutdown(wait=False, cancel_futures=True)


def _may_see(record: ReleaseRecord, caller: Caller) -> bool:
    return caller.role.may_act_as(Role.CURATOR) or record.principal == caller.person


def _require_same(known: ReleaseRecord, dataset: str, request: str) -> None:
    asked = request_fingerprint(dataset=dataset, request=request)
    if asked not in (known.fingerprint, _fingerprint_today(known)):
        raise Problem("idempotency-key-reused")


def _fingerprint_today(known: ReleaseRecord) -> str:
    """Return what the stored request's fingerprint would be in this version.

    An earlier version may not have known a field that now has a default; the
    question is the same one. One that this version cannot read keeps its own.
    """
    try:
        request = read_question(known.request).canonical
    except (KeyError, ValueError):
        return known.fingerprint
    return request_fingerprint(dataset=known.dataset, request=request)
