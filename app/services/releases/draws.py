"""Draws: from a charged release to a durable answer, once.

A release is charged before it comes here. What leaves is a record that is
final and on disk: ``released``, or ``void`` whatever went wrong in the draw. Where the
data could not be read, or the outcome not be written, no one has seen any of it:
that leaves as a :class:`~app.domain.errors.StorageError`, and the
release is to be drawn again (:mod:`app.services.releases.put_off`).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol, TypeVar

import anyio.to_thread

from app.domain.errors import ProcessLostError, StorageError, is_of_storage
from app.domain.problems import Problem
from app.domain.releases import ReleaseState, may_be_redrawn
from app.logs import describe
from app.services.datasets.datasets import DatasetFacts, DatasetService
from app.services.datasets.readable import ReadableData
from app.services.plans.charged_plan import as_charged, told_as_charged
from app.services.plans.deadlines import batched_ms
from app.services.plans.plans import PlanService, make_plan
from app.services.plans.questions import Question
from app.services.releases.batches import MOST_MS, Batches
from app.services.releases.charged_draws import ChargedDraws, ReadyDraw
from app.services.releases.ledger_clock import LedgerClock
from app.store import DatasetRecord, Finish, ReleaseRecord, Store, Task, Void
from mechanisms.contract import Plan

_LOG = logging.getLogger(__name__)
_RETRY_PAUSE_S = 0.05
_LONGEST_PLAN_MS = 2.0
T = TypeVar("T")


class DrawDiedError(Exception):
    """A draw process ended before it answered; nothing of its draw is known."""


class NoDrawProcessError(DrawDiedError):
    """There was no process to draw in; nothing has been begun."""


class SmallDrawProcess(Protocol):
    """A process that makes small draws."""

    def prepare(self) -> bool:
        """Begin the process where there is none; return whether a draw need not wait for it."""

    async def draw(
        self,
        record: ReleaseRecord,
        dataset: DatasetRecord,
        manifest: str | None,
        *,
        expected_ms: float,
    ) -> bytes | None:
        """Return the signed answer of a charged release, or None when its draw failed.

        Raises
        ------
        DrawDiedError
            The process died.
        NoDrawProcessError
            There is none to be had.
        StorageError
            It could not read the data, or there was no signature.
        """

    def forget(self, dataset: str) -> None:
        """Forget what has been read of a data set; any thread may ask for it."""

    def close(self) -> None:
        """End the process; draws that it has not answered are cancelled."""


class DrawService:
    """Draws in threads of this process or in one for small draws, and makes outcomes durable.

    Parameters
    ----------
    store, datasets, readable, plans, charged_draws, ledger_clock
        What it works with. While the clock is behind no outcome is stored.
    threads
        How many draws that take long run at once; see :class:`Batches`.
    small_draws
        Where small draws are made once it is ready; None: in a thread.
    worker
        This process's name as a worker.
    """

    def __init__(
        self,
        *,
        store: Store,
        datasets: DatasetService,
        readable: ReadableData,
        plans: PlanService,
        charged_draws: ChargedDraws,
        threads: int,
        worker: str,
        ledger_clock: LedgerClock,
        small_draws: SmallDrawProcess | None = None,
    ) -> None:
        self.worker = worker
        self.ledger_clock = ledger_clock
        self.small_draws = small_draws
        self._store = store
        self._datasets = datasets
        self._readable = readable
        self._plans = plans
        self._charged_draws = charged_draws
        self._batches = Batches(threads=threads, name="draw")

    async def draw(
        self, record: ReleaseRecord, facts: DatasetFacts, question: Question, plan: Plan
    ) -> ReleaseRecord:
        """Draw, make the result durable, and only then return it.

        Raises
        ------
        StorageError
            The data could not be read, or the outcome not be written.
        """
        expected_ms = batched_ms(plan)
        manifest = await self._readable.manifest(record.dataset)
        small = self.small_draws
        if small is not None and is_small(question, facts, expected_ms) and small.prepare():
            try:
                with self._store.expected():
                    answer = await small.draw(
                        record, facts.record, manifest, expected_ms=expected_ms
                    )
                return await self.finish(record, answer)
            except NoDrawProcessError:
                pass  # it is drawn here
            except DrawDiedError:
                _LOG.error("draw process died", extra={"release": record.id})
                # Before it is drawn again: should this process die as well, the attempt has
                # been counted.
                record = await self.count_attempt(record)
                if record.state is not ReleaseState.DEBITED:
                    return record
        ready = ReadyDraw(facts, question, plan)
        try:
            result = await self._batches.submit(
                *self._charged_draws.steps(record, facts.record, manifest, ready),
                expected_ms=expected_ms,
            )
        except StorageError:
            raise
        except MemoryError:  # a process of its own would have died
            return await self._starved(record)
        except Exception as error:
            return await self.void(record, error)
        return await self.finish(record, result)

    async def _starved(self, record: ReleaseRecord) -> ReleaseRecord:
        """Return a release for which there was no memory, if that was its last attempt."""
        _LOG.error("no memory for a draw", extra={"release": record.id})
        record = await self.count_attempt(record)
        if record.state is ReleaseState.DEBITED:
            # Put off like data that cannot be read: nothing of it has been seen.
            raise StorageError("there is no memory for a draw")
        return record

    async def redraw(self, record: ReleaseRecord) -> ReleaseRecord:
        """Draw a release from what is stored of it, unless it is final; its attempt counts.

        One that would not be drawn as what it was charged for is void.

        Raises
        ------
        StorageError
            As :meth:`draw`.
        """
        if record.state is not ReleaseState.DEBITED:
            return record
        try:
            facts = await anyio.to_thread.run_sync(self._datasets.facts, record.dataset)
        except Problem as error:  # there is no such data set
            return await self.void(record, error)
        except Exception as error:  # a database that is away says nothing of the release
            raise StorageError("a data set's facts could not be read") from error
        try:
            question, offer = await self._plans.offer_again(facts, record)
            plan = offer.plan
            if plan is None:  # no job in the version that charged it, and one in this
                asked = as_charged(question, record.plan)
                plan = await anyio.to_thread.run_sync(make_plan, facts, asked)
            plan = told_as_charged(plan, record.plan)
        except (ProcessLostError, StorageError) as error:
            raise StorageError("a plan could not be made again") from error
        except Exception as error:
            if is_of_storage(error):
                raise StorageError("a plan could not be made again") from error
            return await self.void(record, error)
        return await self.draw(record, facts, question, plan)

    async def again(self, record: ReleaseRecord) -> ReleaseRecord:
        """Draw a release of this process once more, if it has an attempt left."""
        return await self.redraw(await self.count_attempt(record))

    async def count_attempt(self, record: ReleaseRecord) -> ReleaseRecord:
        """Count another attempt before it is made; after the last one a release is void."""
        if may_be_redrawn(record.attempts):
            return await self._settle(record, lambda work: work.releases.begin_attempt(record.id))
        return await self.void(record)

    async def finish(self, record: ReleaseRecord, answer: bytes | None) -> ReleaseRecord:
        """Make a signed answer durable; without one the draw has failed, and the release is void.

        If another process was faster, what that has stored counts.
        """
        if answer is None:
            return await self.void(record)
        return await self._settle(record, Finish(release=record.id, result=answer, known=record))

    async def void(self, record: ReleaseRecord, error: Exception | None = None) -> ReleaseRecord:
        """Give a release up: after the debit there is one failure, whatever happened."""
        about = {} if error is None else describe(error)
        _LOG.error("release void", extra={"release": record.id, **about})
        return await self._settle(record, Void(release=record.id))

    async def _settle(self, record: ReleaseRecord, step: Task[ReleaseRecord]) -> ReleaseRecord:
        # Put off: what has been drawn is seen by no one, and is drawn again.
        if await self.ledger_clock.is_behind():
            raise StorageError("the clock is behind the ledger's last entry")
        try:
            return await self.surely(step)
        except Problem as problem:
            final = await anyio.to_thread.run_sync(self._get, record.id)
            # Somebody else has settled it: what is stored counts, never what was drawn here.
            if problem.code != "release-void" or final is None:
                raise
            return final

    def _get(self, release: str) -> ReleaseRecord | None:
        with self._store.reading() as reader:
            return reader.releases.get(release)

    async def surely(self, write: Task[T]) -> T:
        """Write what must not be lost to a full queue."""
        while True:
            try:
                return await self._store.awrite(write)
            except Problem as problem:
                if problem.code != "busy":
                    raise
                await asyncio.sleep(_RETRY_PAUSE_S)

    def close(self) -> None:
        """Begin no further draw."""
        self._batches.close()
        if self.small_draws is not None:
            self.small_draws.close()


def is_small(question: Question, facts: DatasetFacts, expected_ms: float) -> bool:
    """Return whether a draw, and its plan in a process that does not know it yet, take little."""
    if expected_ms > MOST_MS:
        return False
    return question.planning_ms(facts.schema) <= _LONGEST_PLAN_MS
