"""Jobs: charged releases that wait in the database, claimed by the processes that draw.

A process claims one release at a time for each draw process it has, draws it
there, and stores the outcome. A release that nobody draws any more, because
the process that did has died, is claimed like one from the queue; its attempts
are counted. Small releases left behind are drawn in this process itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Protocol

import anyio.to_thread

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.logs import describe
from app.services.datasets.datasets import DatasetService
from app.services.datasets.erasing import ErasingService
from app.services.releases.draws import DrawDiedError, DrawService, NoDrawProcessError
from app.services.releases.public_moments import job_of_record
from app.store import DatasetRecord, ReleaseRecord, Store

_LOG = logging.getLogger(__name__)
_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0


class JobDrawing(Protocol):
    """Processes that draw, each one release at a time."""

    @property
    def count(self) -> int:
        """Return how many draw at once."""

    async def draw(self, record: ReleaseRecord, dataset: DatasetRecord) -> bytes | None:
        """Return the signed answer of a charged release, or None when its draw failed.

        Raises
        ------
        DrawDiedError
            The process died.
        NoDrawProcessError
            There is none to be had.
        """

    def forget(self, dataset: str) -> None:
        """Forget what has been read of a data set; any thread may ask for it."""

    async def stop(self) -> None:
        """Kill every process; draws under way end in :class:`DrawDiedError`."""


class JobRunner:
    """Claims releases from the queue and has them drawn.

    Parameters
    ----------
    store, datasets, erasing, draws, processes
        What it works with. Without a process it claims nothing.
    look_s
        How often it looks for what other processes have queued or left, where
        there may be any; in this process :meth:`wake` is enough.
    """

    def __init__(
        self,
        *,
        store: Store,
        datasets: DatasetService,
        erasing: ErasingService,
        draws: DrawService,
        processes: JobDrawing,
        look_s: float = 1.0,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._erasing = erasing
        self.draws = draws
        self._processes = processes
        self.look_s = look_s if store.shared else None
        self._something = asyncio.Event()
        self._claiming = False
        self._working: dict[str, asyncio.Task[None]] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Begin to claim, first of all what a dead process left behind."""
        self.wake()
        count = self._processes.count
        if count:
            self._loops = [asyncio.ensure_future(self._run(asyncio.Semaphore(count)))]

    def wake(self) -> None:
        """Look into the queue now."""
        self._something.set()

    def has(self, release: str) -> bool:
        """Return whether this process draws, or may just be claiming, a release."""
        return self._claiming or release in self._working

    async def idle(self) -> None:
        """Wait until nothing is left that this process could draw."""
        while self._something.is_set() or self._claiming or self._working:
            await asyncio.sleep(0.01)

    async def close(self, *, timeout_s: float) -> None:
        """Claim no more, let draws finish for a while, and hand back what does not."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self._settled(timeout_s)
        self._stopping.set()
        await self._processes.stop()
        await self._settled(_PAUSE_S)
        for task in self._working.values():
            task.cancel()

    async def _settled(self, timeout_s: float) -> None:
        if self._working:
            await asyncio.wait(self._working.values(), timeout=timeout_s)

    async def _run(self, free: asyncio.Semaphore) -> None:
        while True:
            await free.acquire()
            record = await self._next()
            task = asyncio.ensure_future(self._work(record))
            self._working[record.id] = task
            task.add_done_callback(partial(self._ended, record.id, free))

    def _ended(self, release: str, free: asyncio.Semaphore, _task: asyncio.Task[None]) -> None:
        del self._working[release]
        free.release()

    async def _next(self) -> ReleaseRecord:
        """Wait for a release that nobody draws, and claim it."""
        while True:
            self._claiming = True
            self._something.clear()
            try:
                found = await self._claim()
            except Exception as error:
                _LOG.error("queue not readable", extra=describe(error))
                await asyncio.sleep(_PAUSE_S)
                self.wake()
                continue
            finally:
                self._claiming = False
            if found is not None:
                return found
            await _within(self._something, self.look_s)

    async def _claim(self) -> ReleaseRecord | None:
        if self._store.frozen is not None:  # what was drawn in another time must not be again
            return None
        if not await anyio.to_thread.run_sync(self._is_something_left):
            return None
        worker = self.draws.worker
        claim = asyncio.ensure_future(self.draws.surely(lambda work: work.releases.claim(worker)))
        try:
            return await asyncio.shield(claim)
        except asyncio.CancelledError:
            record = await claim
            if record is not None:
                await self._hand_back(record)
            raise

    def _is_something_left(self) -> bool:
        with self._store.reading() as reader:
            return reader.releases.to_draw() is not None

    async def _work(self, record: ReleaseRecord) -> None:
        """See to it that a claimed release becomes final, or that somebody else draws it."""
        try:
            if record.state is ReleaseState.VOID:
                _LOG.error("release void: no attempt left", extra={"release": record.id})
            elif job_of_record(record) is None:
                await self.draws.redraw(record)
            else:
                await self._draw(record)
            await self._erasing.erase_if_archived(record.dataset)
        except Exception as error:
            _LOG.error("draw not stored", extra={"release": record.id, **describe(error)})
            await asyncio.sleep(_PAUSE_S)
            await self._hand_back(record)

    async def _draw(self, record: ReleaseRecord) -> None:
        try:
            facts = await anyio.to_thread.run_sync(self._datasets.facts, record.dataset)
        except Problem as error:
            await self.draws.void(record, error)
            return
        while record.state is ReleaseState.DEBITED:
            try:
                answer = await self._processes.draw(record, facts.record)
            except NoDrawProcessError:  # nothing was begun: that is no attempt
                raise
            except DrawDiedError:
                if self._stopping.is_set():
                    await self._hand_back(record)
                    return
                _LOG.error(
                    "draw process died", extra={"release": record.id, "attempts": record.attempts}
                )
                record = await self.draws.count_attempt(record)
                continue
            await self.draws.finish(record, answer)
            return

    async def _hand_back(self, record: ReleaseRecord) -> None:
        """Put a release into the queue again, as soon as the database takes it."""
        worker = self.draws.worker
        for tries, pause_s in enumerate(pauses_s()):
            try:
                await self.draws.surely(
                    lambda work: work.releases.hand_back(record.id, worker=worker)
                )
            except Exception as error:
                if tries == 0:  # why it is not taken then, a frozen ledger say, may last
                    _LOG.error("not handed back", extra={"release": record.id, **describe(error)})
                if self._stopping.is_set():
                    return  # when this process is gone, its lease says so
                await _within(self._stopping, pause_s)
            else:
                self.wake()
                return


async def _within(event: asyncio.Event, most_s: float | None) -> None:
    """Wait for an event, at most so long.

    ``wait_for`` would not do: before Python 3.12 it goes on when it is cancelled
    just as the event happens, and who has cancelled it then waits for ever.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            await event.wait()


def pauses_s() -> Iterator[float]:
    """Yield how long to wait after each failure in turn: twice as long, up to a bound, for ever."""
    pause_s = _PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
