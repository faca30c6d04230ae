"""Jobs: charged releases that wait in the database, claimed by the processes that draw.

A process has a lane for each draw process. It claims a release for a lane that
is free, has it drawn, and stores the outcome. A release that no process draws any
more, because the process that did has died, is claimed like one from the queue;
its attempts are counted. Small releases left behind are drawn in this process itself.

**Privacy.** A lane is not free when its draw ends: a person who queued jobs behind it would
learn when that was. It is taken until a public moment, counted from the one when it was
taken: the job's deadline, or a doubling of it. So when anything is claimed follows from
what was asked for and when, and from which doublings draws took.

Where there are several lanes one takes short jobs only. What is short is public.

**Late draws.** How long a draw takes has no bound. One that is late, at twice its deadline,
goes on in parallel with the lanes and leaves its lane to others; that is a public moment as well.
There is room for twice as many as there are lanes. A person with a late draw has no more draws
at work than there are lanes, so no person takes all of that room.

Pausing people and data sets, for an operator who must stop a flood without losing anything.

While somebody is paused nothing is charged for them. Jobs that are charged already wait in
the queue, and are drawn once they are resumed: a charge is never given back. What waits for
a review has not been charged, so it may be cancelled during the pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import anyio.to_thread

from app.domain.problems import DataUnreadableError, Problem, StorageError, invalid_request
from app.domain.releases import ReleaseState
from app.domain.units import Schedule
from app.logs import describe
from app.services.datasets.datasets import DatasetService
from app.services.datasets.erasing import ErasingService
from app.services.datasets.readable import ReadableData
from app.services.people.keys import Caller, known_person
from app.services.releases.draws import DrawDiedError, DrawService, NoDrawProcessError, PutOff
from app.services.releases.public_moments import job_of_record
from app.store import DatasetRecord, ReleaseRecord, Store, Task, UnitOfWork
from app.store.ledger.pauses import Paused
from app.store.ledger.records import PauseRecord
from mechanisms.words import worded

# This process as a worker: alive for the others as long as its lease is kept up

_LOG = logging.getLogger(__name__)


class Lease:
    """A worker's lease.

    Where one process at a time may write, it lasts until the process ends;
    elsewhere it is kept up from the event loop: after ``lease_ms`` without a
    beat the process counts as dead.
    """

    def __init__(self, store: Store, worker: str, *, lease_ms: int) -> None:
        self._store = store
        self._worker = worker
        self._lease_ms = lease_ms
        self._begun = False
        self._beating: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Begin the lease. Nothing may be charged with this worker's name before."""
        self._begun = True
        if not self._store.shared:
            await self._store.awrite(lambda work: work.workers.alone(self._worker))
            return
        await self._beat()
        self._beating = asyncio.ensure_future(self._keep_up())

    async def end(self) -> None:
        """End the lease: whatever this process was drawing may be taken over at once."""
        if not self._begun:
            return
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        try:
            await self._store.awrite(lambda work: work.workers.end(self._worker))
        except Exception as error:  # a frozen ledger, a lost server: then the lease runs out
            _LOG.error("lease not ended", extra=describe(error))

    async def _keep_up(self) -> None:
        while True:
            # Three beats to a lease: one that is late, or lost, does no harm.
            await asyncio.sleep(self._lease_ms / 3000)
            try:
                await self._beat()
            except Exception as error:
                _LOG.error("lease not kept up", extra=describe(error))

    async def _beat(self) -> None:
        await self._store.awrite(
            lambda work: work.workers.beat(self._worker, lease_ms=self._lease_ms)
        )


# Jobs: charged releases that wait in the database, claimed by the processes that draw

SHORT_JOB_S = 4
"""A job with a later deadline is not short."""

ROOM = 2
"""How many late draws there is room for, per lane."""

_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0


class JobDrawing(Protocol):
    """Processes that draw, each one release at a time."""

    @property
    def count(self) -> int:
        """Return how many draw at once, not counting those that are late."""

    async def draw(
        self, record: ReleaseRecord, dataset: DatasetRecord, manifest: str | None
    ) -> bytes | None:
        """Return the signed answer of a charged release, or None when its draw failed.

        ``manifest`` is the SHA-256 of the data set's manifest, as the ledger has it.

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

    async def stop(self) -> None:
        """Kill every process; draws under way end in :class:`DrawDiedError`."""


@dataclass(slots=True)
class _Lanes:
    """Lanes of one sort: which are free, and whether they should look into the queue.

    ``longest_s`` is the latest deadline of a job that they take, None: they take any.
    """

    longest_s: int | None
    free: asyncio.Semaphore
    something: asyncio.Event = field(default_factory=asyncio.Event)
    claiming: bool = False


def _lanes(count: int) -> Sequence[_Lanes]:
    """Return the lanes: if there are several, the last is for short jobs."""
    if count < 2:
        return [_Lanes(None, asyncio.Semaphore(count))] if count else []
    short = _Lanes(SHORT_JOB_S, asyncio.Semaphore(1))
    return [_Lanes(None, asyncio.Semaphore(count - 1)), short]


class JobRunner:
    """Claims releases from the queue and has them drawn.

    Parameters
    ----------
    store, datasets, readable, erasing, draws, processes
        What it works with. Without a process it claims nothing.
    taken_ms
        For how long a release takes its lane, a public time in milliseconds: so long, or
        twice or four times as long and so on. 0: until it is drawn.
    late_ms
        After how long its draw is late, a public time in milliseconds.
    look_s
        How often it looks for what other processes have queued or left, where
        there may be any; in this process :meth:`wake` is enough.
    """

    def __init__(
        self,
        *,
        store: Store,
        datasets: DatasetService,
        readable: ReadableData,
        erasing: ErasingService,
        draws: DrawService,
        processes: JobDrawing,
        taken_ms: Callable[[ReleaseRecord], int],
        late_ms: Callable[[ReleaseRecord], int],
        look_s: float = 1.0,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._readable = readable
        self._erasing = erasing
        self.draws = draws
        self._processes = processes
        self.look_s = look_s if store.shared else None
        self.taken_ms = taken_ms
        self.late_ms = late_ms
        self._lanes: Sequence[_Lanes] = ()
        self._room = 0
        self._held: dict[asyncio.Task[None], str] = {}
        self._late: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self._taken: set[asyncio.Task[None]] = set()
        self._working: dict[str, asyncio.Task[None]] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._put_off = PutOff(draws, self._hand_back, self._stopping)

    def start(self) -> None:
        """Begin to claim, first of all what a dead process left behind."""
        self._lanes = _lanes(self._processes.count)
        self._room = ROOM * self._processes.count
        self.wake()
        self._loops = [asyncio.ensure_future(self._run(lanes)) for lanes in self._lanes]

    def wake(self) -> None:
        """Look into the queue now."""
        for lanes in self._lanes:
            lanes.something.set()

    def has(self, release: str) -> bool:
        """Return whether this process draws, puts off, or may just be claiming, a release."""
        claiming = any(lanes.claiming for lanes in self._lanes)
        return claiming or release in self._working or release in self._put_off

    def put_off(self, record: ReleaseRecord, error: StorageError) -> None:
        """Have a charged release of this process drawn later, which storage was in the way of."""
        if isinstance(error, DataUnreadableError):
            self._readable.failed(record.dataset)
        self._put_off.add(record, error)

    async def idle(self) -> None:
        """Wait until nothing is left that this process could draw."""
        while self._working or any(
            lanes.something.is_set() or lanes.claiming for lanes in self._lanes
        ):
            await asyncio.sleep(0.01)

    def claim_no_more(self) -> None:
        """Leave what waits in the queue to others; what has been claimed is drawn."""
        for loop in self._loops:
            loop.cancel()

    async def close(self, *, timeout_s: float) -> None:
        """Claim no more, let draws finish for a while, and hand back what does not."""
        self.claim_no_more()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self._settled(timeout_s)
        self._stopping.set()
        await self._processes.stop()
        await self._settled(_PAUSE_S)
        await self._put_off.settled(_PAUSE_S)
        for task in (*self._working.values(), *self._taken):
            task.cancel()

    async def _settled(self, timeout_s: float) -> None:
        if self._working:
            await asyncio.wait(self._working.values(), timeout=timeout_s)

    async def _run(self, lanes: _Lanes) -> None:
        while True:
            await lanes.free.acquire()
            record = await self._next(lanes)
            task = asyncio.ensure_future(self._work(record))
            self._working[record.id] = task
            self._held[task] = record.principal
            taken = asyncio.ensure_future(self._take(lanes, record, task))
            self._taken.add(taken)
            taken.add_done_callback(self._taken.discard)

    async def _take(self, lanes: _Lanes, record: ReleaseRecord, work: asyncio.Task[None]) -> None:
        """Have a lane, or room for what is late, taken until a public moment after a draw."""
        over = asyncio.ensure_future(self._until_public(record, work))
        self._taken.add(over)
        over.add_done_callback(self._taken.discard)
        late = await self._is_late(record, work, over)
        if late:
            _LOG.info("a late draw leaves its lane", extra={"release": record.id})
            self._room -= 1
            self._late.add(work)
            lanes.free.release()
        await over
        del self._held[work]
        self._late.discard(work)
        await self._at_last(
            lambda work: work.releases.leave_queue(record.id),
            lambda error: _LOG.error(
                "not out of the queue", extra={"release": record.id, **describe(error)}
            ),
        )
        if late:
            self._room += 1
        else:
            lanes.free.release()

    async def _until_public(self, record: ReleaseRecord, work: asyncio.Task[None]) -> None:
        """Wait for a draw, and on until a public moment."""
        loop = asyncio.get_running_loop()
        # By the loop's clock: the lane's time must not jump with the machine's.
        begun_ms = int(1000 * loop.time())
        await asyncio.wait([work])
        if self._working.get(record.id) is work:
            del self._working[record.id]
        drawn_ms = int(1000 * loop.time())
        free_ms = Schedule(begun_ms, self.taken_ms(record)).first_from(drawn_ms)
        await asyncio.sleep((free_ms - drawn_ms) / 1000)

    async def _is_late(
        self, record: ReleaseRecord, work: asyncio.Task[None], over: asyncio.Task[None]
    ) -> bool:
        """Return whether a draw is late, once there is room for it; without, it keeps its lane."""
        await asyncio.wait([work], timeout=self.late_ms(record) / 1000)
        if work.done():
            return False
        # Until it is over, and not until it has ended: room is no stopwatch either.
        while not over.done() and not self._room:
            await asyncio.wait([over], timeout=_PAUSE_S)
        return not over.done()

    def _waiting(self) -> Collection[str]:
        """Return the people who wait until one of their late draws has ended."""
        at_work = Counter(self._held.values())
        late = {self._held[work] for work in self._late}
        return [person for person in late if at_work[person] >= self._processes.count]

    async def _next(self, lanes: _Lanes) -> ReleaseRecord:
        """Wait for a release that no process draws, and claim it."""
        while True:
            lanes.claiming = True
            # Before the look, so that a release that comes in during it is not overlooked.
            lanes.something.clear()
            try:
                # One after the other, so that each knows whose draws the others have begun.
                async with self._turn:
                    found = await self._claim(lanes)
            except Exception as error:
                _LOG.error("queue not readable", extra=describe(error))
                await asyncio.sleep(_PAUSE_S)
                self.wake()
                continue
            finally:
                lanes.claiming = False
            if found is not None:
                return found
            behind = await self.draws.ledger_clock.is_behind()
            await _within(lanes.something, _LONGEST_PAUSE_S if behind else self.look_s)

    async def _claim(self, lanes: _Lanes) -> ReleaseRecord | None:
        if self._store.frozen is not None:  # what was drawn in another time must not be again
            return None
        if await self.draws.ledger_clock.is_behind():  # it would date the result wrongly
            return None
        longest_s, without = lanes.longest_s, self._waiting()
        # A reader looks first: an idle queue then costs no write.
        if not await anyio.to_thread.run_sync(self._is_something_left, longest_s, without):
            return None
        worker = self.draws.worker
        claim = asyncio.ensure_future(
            self.draws.surely(
                lambda work: work.releases.claim(worker, longest_s=longest_s, without=without)
            )
        )
        try:
            # Shielded: a claim that is being committed cannot be called back.
            return await asyncio.shield(claim)
        except asyncio.CancelledError:
            # What it has got nonetheless is put back for others at once.
            record = await claim
            if record is not None:
                await self._hand_back(record)
            raise

    def _is_something_left(self, longest_s: int | None, without: Collection[str]) -> bool:
        with self._store.reading() as reader:
            found = reader.releases.to_draw(longest_s=longest_s, without=without)
            return found is not None

    async def _work(self, record: ReleaseRecord) -> None:
        """See to it that a claimed release becomes final, or that somebody else draws it."""
        try:
            if record.state is ReleaseState.VOID:
                _LOG.error("release void: no attempt left", extra={"release": record.id})
            elif job_of_record(record) is None:
                await self.draws.redraw(record)
            else:
                await self._draw(record)
            self._put_off.forget(record.id)
            await self._erasing.erase_if_archived(record.dataset)
        except StorageError as error:
            self.put_off(record, error)
        except Exception as error:
            _LOG.error("draw not stored", extra={"release": record.id, **describe(error)})
            await asyncio.sleep(_PAUSE_S)
            await self._hand_back(record)

    async def _draw(self, record: ReleaseRecord) -> None:
        try:
            facts = await anyio.to_thread.run_sync(self._datasets.facts, record.dataset)
            manifest = await self._readable.manifest(record.dataset)
        except Problem as error:
            await self.draws.void(record, error)
            return
        while record.state is ReleaseState.DEBITED:
            try:
                answer = await self._processes.draw(record, facts.record, manifest)
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
        await self._at_last(
            lambda work: work.releases.hand_back(record.id, worker=worker),
            lambda error: _LOG.error(
                "not handed back", extra={"release": record.id, **describe(error)}
            ),
        )

    async def _at_last(self, step: Task[None], say: Callable[[Exception], None]) -> None:
        """Take a step as soon as the database does, and look into the queue.

        ``say`` puts the first failure into the log.
        """
        for tries, pause_s in enumerate(pauses_s()):
            try:
                await self.draws.surely(step)
            except Exception as error:
                if tries == 0:  # why it is not taken then, a frozen ledger say, may last
                    say(error)
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


# Pausing people and data sets, for an operator who must stop a flood without losing anything


__all__ = ["PauseRecord", "PauseService", "Paused"]

_AT_ONCE = 50  # in one transaction, which keeps everyone else from writing


class PauseService:
    """Pausing, resuming and listing, for callers who may."""

    def __init__(self, store: Store, jobs: JobRunner) -> None:
        self._store = store
        self._jobs = jobs

    async def pause(
        self, what: Paused, name: str, *, reason: str, cancel_waiting: bool, caller: Caller
    ) -> tuple[PauseRecord, int]:
        """Pause a person or a data set; return the pause, and how many releases were cancelled.

        ``cancel_waiting``: all of theirs that wait for a review are rejected, with the reason.

        Raises
        ------
        Problem
            ``invalid-request`` where no person or data set has the name.
        """

        def write(work: UnitOfWork) -> PauseRecord:
            known = _known(work, what, name)
            return work.by(caller.acting, urgent=True).pauses.pause(
                what, known, principal=caller.person, reason=reason
            )

        record = await self._store.awrite(write)
        cancelled = 0
        # A few at a time: one transaction for all would hold up everyone's charges.
        while cancel_waiting:
            cancel = partial(_cancel, record=record, caller=caller, reason=reason)
            ended = await self._store.awrite(cancel)
            cancelled += ended
            cancel_waiting = ended == _AT_ONCE
        return record, cancelled

    async def resume(self, what: Paused, name: str, *, reason: str, caller: Caller) -> None:
        """End a pause: jobs that have waited are drawn, in turn. Once more changes nothing.

        Raises
        ------
        Problem
            As :meth:`pause`.
        """

        def write(work: UnitOfWork) -> None:
            known = _known(work, what, name)
            work.by(caller.acting).pauses.resume(
                what, known, principal=caller.person, reason=reason
            )

        await self._store.awrite(write)
        self._jobs.wake()

    def list(self, *, after: int | None, limit: int) -> Sequence[PauseRecord]:
        """Return what is paused, oldest first."""
        with self._store.reading() as reader:
            return reader.pauses.list(after=after or 0, limit=limit)


def _known(work: UnitOfWork, what: Paused, name: str) -> str:
    """Return the name of a person as it is spelled, or the id of a data set."""
    if what is Paused.PERSON:
        known = known_person(work.keys.is_person, name)
    else:
        known = None if work.datasets.get(name) is None else name
    if known is None:
        raise invalid_request("name", _NO_SUCH[what])
    return known


_NO_SUCH = {
    Paused.PERSON: worded("is no person who has had a key"),
    Paused.DATASET: worded("is no data set's id"),
}


def _cancel(work: UnitOfWork, *, record: PauseRecord, caller: Caller, reason: str) -> int:
    """Reject some of what waits for a review; return how many that were."""
    waiting = (
        work.reviews.waiting_of(record.name)
        if record.what == Paused.PERSON.value
        else work.reviews.waiting_for(record.name)
    )[:_AT_ONCE]
    for release in waiting:
        work.by(caller.acting).reviews.unreserve(
            release, ReleaseState.REJECTED, principal=caller.person, reason=reason
        )
    return len(waiting)
