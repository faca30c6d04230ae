"""The one writer: a thread, a bounded queue, and group commit.

The thread takes whatever waits, at most 256 writes, does them in one transaction,
commits once and only then resolves the waiters. Writes keep their order. A write is a
command, of which those that follow each other are done in bulk
(:mod:`app.store.ledger.commands`), or a function.

What a transaction comes to is known before all of its rows are written. So it is noted in the
anchor at the same time: the flush of the note and the statements take their time together, and
both are done before COMMIT.

Should anything fail, a refusal of a function included, the transaction is undone, nothing of it
has been acknowledged, and each half of its writes is tried again: what fails alone gets its error.
A function may therefore be called several times before it is done once.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, OperationalError

from app.domain.problems import Problem
from app.logs import describe
from app.store.errors import StoreClosedError, UnknownCommitError
from app.store.guard import public_error
from app.store.ledger.commands import Command, Commands
from app.store.ledger.entries import LedgerIdentity
from app.store.unit_of_work import UnitOfWork

T = TypeVar("T")
Task = Callable[[UnitOfWork], T] | Command[T]
BeforeCommit = Callable[[UnitOfWork], None]
"""Called at the end of a transaction, before COMMIT; raising undoes it all.

Should what is still to be written fail, or the COMMIT, ``rolled_back`` is called, in the first case
before the rollback; what that raises is only logged.
"""

MAX_BATCH = 256  # writes of one transaction: a flush to disk is shared, and no write waits long
QUEUE_LENGTH = 4096  # further writes are refused as busy

_log = logging.getLogger(__name__)


class _Outcome(NamedTuple):
    """What a write came to: a value, or what it raised."""

    value: Any = None
    error: BaseException | None = None


class _Job(NamedTuple):
    """What to do, and who waits: a thread, or a task of an event loop."""

    task: Task[Any]
    waiter: Future[Any] | asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop | None = None


class Writer:
    """Does writes, one batch after the other, on the writing connection.

    Attributes
    ----------
    connection
        The one connection that writes. Only functions may use it, from inside a transaction.
    require_open
        Passes while anything may be written.
    before_commit, noted, rolled_back
        What is called with the unit of work before each COMMIT, what then returns once it may
        happen (both may forbid it by raising), and what is called should it fail after the first.
    failing
        Whether the last transaction could not be committed.
    """

    def __init__(
        self,
        connection: Connection,
        identity: LedgerIdentity,
        *,
        queue_length: int = QUEUE_LENGTH,
        require_open: Callable[[], None],
        before_commit: BeforeCommit,
        noted: Callable[[], None],
        rolled_back: Callable[[], None],
    ) -> None:
        self.connection = connection
        self._work = UnitOfWork(connection, identity)
        self._commands = Commands(connection, self._work.entries, self._work.releases)
        self.require_open = require_open
        self.before_commit = before_commit
        self.noted = noted
        self.rolled_back = rolled_back
        # Unbounded itself: the bound is checked under a lock, so that no thread blocks in it.
        self._waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._queue_length = queue_length
        self._putting = threading.Lock()
        self._closed = False
        self.failing = False
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    @property
    def require_clock(self) -> Callable[[], None]:
        """Return what must pass before anything that a person does is written."""
        return self._work.require_clock

    @require_clock.setter
    def require_clock(self, check: Callable[[], None]) -> None:
        self._work.require_clock = check

    def submit(self, task: Task[T]) -> Future[T]:
        """Queue a write and return the future of its durable result.

        Raises
        ------
        Problem
            ``ledger-frozen``; ``busy`` when the queue is full; nothing has been written.
        StoreClosedError
            The store has been closed.
        """
        future: Future[T] = Future()
        # Marked as running at once: a waiter that goes away must not cancel a charge.
        future.set_running_or_notify_cancel()
        self._put(_Job(task, future))
        return future

    def write(self, task: Task[T]) -> T:
        """Do a function or a command durably and return its result.

        Raises
        ------
        Problem
            ``ledger-frozen``; ``busy`` when too much waits; else whatever the task raised.
        DiskError
            The disk did not take it; nothing has been written.
        """
        return self.submit(task).result()

    async def awrite(self, task: Task[T]) -> T:
        """Do what :meth:`write` does without holding a thread while it waits."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._put(_Job(task, future, loop))
        return await future

    def close(self) -> None:
        """Finish what waits and stop the thread."""
        with self._putting:
            # Under the lock, so that no write comes behind the end.
            already, self._closed = self._closed, True
        if not already:
            self._waiting.put(None)
        self._thread.join()

    def _put(self, job: _Job) -> None:
        self.require_open()
        with self._putting:
            if self._closed:
                raise StoreClosedError("the store has been closed")
            if self._waiting.qsize() >= self._queue_length:
                raise Problem("busy")
            self._waiting.put(job)

    def _run(self) -> None:
        while batch := self._take():
            _resolve(batch, self._outcomes(batch))

    def _take(self) -> list[_Job]:
        """Return the writes that wait, at least one; none at the end."""
        first = self._waiting.get()
        batch = [] if first is None else [first]
        while batch and len(batch) < MAX_BATCH:
            try:
                job = self._waiting.get_nowait()
            except queue.Empty:
                break
            if job is None:
                # The end comes after this batch.
                self._waiting.put(None)
                break
            batch.append(job)
        return batch

    def _outcomes(self, batch: Sequence[_Job]) -> Sequence[_Outcome]:
        """Return what each write came to; every outcome is durable on return."""
        try:
            return self._together(batch)
        except BaseException as error:
            # After a COMMIT of unknown outcome, doing the writes again might charge twice.
            if len(batch) == 1 or isinstance(error, UnknownCommitError) or not self._reachable():
                return [_Outcome(error=public_error(error))] * len(batch)
            if not isinstance(error, Problem):
                about = {"writes": len(batch), **describe(error)}
                _log.warning("a group commit failed; each half is tried again", extra=about)
        half = len(batch) // 2
        return [*self._outcomes(batch[:half]), *self._outcomes(batch[half:])]

    def _reachable(self) -> bool:
        """Return whether the database is there, so that a batch is not tried 256 times in vain."""
        try:
            return self.connection.connection.is_valid
        except DBAPIError:
            return False

    def _together(self, batch: Sequence[_Job]) -> Sequence[_Outcome]:
        """Do the writes in one transaction."""
        done, announced = False, False
        try:
            with self._work.transaction():
                outcomes = self._done(batch)
                done = True
                # Before the anchor's note, which must know where the seal's entry leads.
                if self._work.changes.unsealed:
                    self._work.releases.seal()
                self.before_commit(self._work)
                announced = True
                try:
                    self._work.changes.rows.write()
                    self.noted()
                except BaseException:
                    # Before the rollback, which lets other servers write and see the note.
                    self._take_back(announced=True)
                    announced = False
                    raise
        except BaseException as error:
            # What a write raises itself says nothing of others, unless the database fails.
            failed = done or isinstance(error, OperationalError) or not self._reachable()
            self.failing = self.failing or failed
            # An unknown COMMIT may have happened: its note must stay.
            self._take_back(announced=announced and not isinstance(error, UnknownCommitError))
            raise
        self.failing = False
        return outcomes

    def _done(self, batch: Sequence[_Job]) -> list[_Outcome]:
        outcomes: list[_Outcome] = []
        for in_bulk, jobs in groupby(batch, key=lambda job: isinstance(job.task, Command)):
            tasks: list[Any] = [job.task for job in jobs]
            if in_bulk:
                outcomes += map(_outcome_of, self._commands.run(tasks))
            else:
                # Its end fails where a function, or the database, has ended the transaction:
                # what came before would be gone, and COMMIT would say nothing of it.
                self.connection.exec_driver_sql("SAVEPOINT job")
                outcomes += [_Outcome(function(self._work.by_service())) for function in tasks]
                self.connection.exec_driver_sql("RELEASE job")
        return outcomes

    def _take_back(self, *, announced: bool) -> None:
        if announced:
            try:
                self.rolled_back()
            except Exception as error:  # must not hide why it is called
                _log.error(
                    "a failed commit was not taken back in the anchor", extra=describe(error)
                )


def _outcome_of(result: object) -> _Outcome:
    return _Outcome(error=result) if isinstance(result, Problem) else _Outcome(value=result)


def _resolve(batch: Sequence[_Job], outcomes: Sequence[_Outcome]) -> None:
    """Resolve the waiters: threads one by one, an event loop once for all its tasks."""
    answers: dict[asyncio.AbstractEventLoop, list[tuple[_Job, _Outcome]]] = {}
    for job, outcome in zip(batch, outcomes, strict=True):
        if job.loop is None:
            _resolve_all([(job, outcome)])
        else:
            answers.setdefault(job.loop, []).append((job, outcome))
    for loop, told_to in answers.items():
        try:
            loop.call_soon_threadsafe(_resolve_all, told_to)
        except RuntimeError:
            _log.warning("the event loop has gone", extra={"writes": len(told_to)})


def _resolve_all(answers: Sequence[tuple[_Job, _Outcome]]) -> None:
    for (_, waiter, _), (value, error) in answers:
        if waiter.done():  # a task that has gone away
            continue
        if error is None:
            waiter.set_result(value)
        elif isinstance(error, StopIteration):  # which no task can receive
            waiter.set_exception(RuntimeError("a write raised StopIteration"))
        else:
            waiter.set_exception(error)
