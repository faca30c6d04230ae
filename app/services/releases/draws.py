"""Draws: from a charged release to a durable answer, once.

A release is charged before it comes here. What leaves is a record that is
final and on disk: ``released``, or ``void`` whatever went wrong in the draw. Where the
data could not be read, or the outcome not be written, no one has seen any of it:
that leaves as a :class:`~app.domain.problems.StorageError`, and the
release is to be drawn again (:mod:`app.services.releases.draws`).

*Charged releases that storage was in the way of: each is drawn again after a pause.* A data set's
files could not be opened, a disk was full, there was no memory: nothing of such a draw has been
seen, and who asks learns that the release is under way. It is put off, at first briefly and then
for longer, does not block others, and goes back into the queue. After several tries in a row it
counts as an attempt, like a process that died of a draw: so the number of tries is bounded, and
only then may a release become void.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeVar

import anyio.to_thread

from app.domain.problems import Problem, StorageError, is_of_storage
from app.domain.releases import ReleaseState, may_be_redrawn
from app.logs import describe
from app.services.datasets.datasets import DatasetService
from app.services.datasets.readable import ReadableData
from app.services.plans.answers import batched_ms
from app.services.releases.charged_draws import MOST_MS, Batches, ChargedDraws, ReadyDraw
from app.services.releases.public_moments import LedgerClock
from app.store import DatasetRecord, Finish, ReleaseRecord, Store, Task, Void

# Charged releases that storage was in the way of: each is drawn again after a pause

_LOG = logging.getLogger(__name__)
TRIES_PER_ATTEMPT = 24
"""With pauses of up to half a minute, about ten minutes."""

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
_REMEMBERED = 4_096


class PutOff:
    """Releases of this process that wait for their next try.

    Parameters
    ----------
    draws
        Counts their attempts.
    hand_back
        Puts one into the queue again, as soon as the database takes it.
    stopping
        Set when this process is about to end: then nothing waits any more.
    """

    def __init__(
        self,
        draws: DrawService,
        hand_back: Callable[[ReleaseRecord], Awaitable[None]],
        stopping: asyncio.Event,
    ) -> None:
        self._draws = draws
        self._hand_back = hand_back
        self._stopping = stopping
        self._tries: OrderedDict[str, int] = OrderedDict()
        self._waiting: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, release: str) -> bool:
        """Return whether a release waits here."""
        return release in self._waiting

    def add(self, record: ReleaseRecord, error: Exception) -> None:
        """Have a release of this process drawn again later."""
        tries = self._tries.pop(record.id, 0) + 1
        self._tries[record.id] = tries
        if len(self._tries) > _REMEMBERED:
            # A forgotten one starts counting from 0: it then waits longer for its last attempt.
            self._tries.popitem(last=False)
        _LOG.error("draw put off", extra={"release": record.id, **describe(error)})
        task = asyncio.ensure_future(self._wait(record, tries))
        self._waiting[record.id] = task
        task.add_done_callback(lambda _: self._waiting.pop(record.id))

    def forget(self, release: str) -> None:
        """Hear that a release has been drawn."""
        self._tries.pop(release, None)

    async def _wait(self, record: ReleaseRecord, tries: int) -> None:
        pause_s = min(FIRST_PAUSE_S * 2 ** (tries - 1), LONGEST_PAUSE_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._stopping.wait()
        if tries % TRIES_PER_ATTEMPT == 0:
            try:
                record = await self._draws.count_attempt(record)
            except Exception as error:  # then it is counted after as many tries again
                _LOG.error("attempt not counted", extra={"release": record.id, **describe(error)})
        if record.state is ReleaseState.DEBITED:
            await self._hand_back(record)

    async def settled(self, timeout_s: float) -> None:
        """Wait until everything has been handed back, at most so long."""
        if self._waiting:
            await asyncio.wait(self._waiting.values(), timeout=timeout_s)
        for task in self._waiting.values():
            task.cancel()


# Draws: from a charged release to a durable answer, once

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
    store, datasets, readable, charged_draws, ledger_clock
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
        self._charged_draws = charged_draws
        self._batches = Batches(threads=threads, name="draw")

    async def draw(self, record: ReleaseRecord, ready: ReadyDraw) -> ReleaseRecord:
        """Draw, make the result durable, and only then return it.

        Raises
        ------
        StorageError
            The data could not be read, or the outcome not be written.
        """
        dataset, expected_ms = ready.facts.record, batched_ms(ready.plan)
        manifest = await self._readable.manifest(record.dataset)
        small = self.small_draws
        if small is not None and is_small(ready, expected_ms) and small.prepare():
            try:
                answer = await small.draw(record, dataset, manifest, expected_ms=expected_ms)
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
        try:
            result = await self._batches.submit(
                *self._charged_draws.steps(record, dataset, manifest, ready),
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

        One that cannot be drawn as what it was charged for is void.

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
            ready = await anyio.to_thread.run_sync(self._charged_draws.ready, record, facts.record)
        except Exception as error:
            if is_of_storage(error):
                raise StorageError("a plan could not be read again") from error
            return await self.void(record, error)
        return await self.draw(record, ready)

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


def is_small(ready: ReadyDraw, expected_ms: float) -> bool:
    """Return whether a draw, and to read its plan in a process that has not yet, take little."""
    if expected_ms > MOST_MS:
        return False
    return ready.planning_ms <= _LONGEST_PLAN_MS
