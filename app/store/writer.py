"""The one writer: a thread, a bounded queue, and group commit.

The thread takes whatever waits, at most 256 jobs, runs them in one transaction,
commits once and only then resolves the waiters. Jobs keep their order. Those of an
event loop come together, when it has nothing else to do
(:mod:`app.store.loop_batching`). A function runs in a savepoint of its own, and
one that raises is undone alone; commands that follow each other run together in
one savepoint, and alone only if that fails. Where there are only commands the
transaction itself is that savepoint, and its result is written to the anchor
while it is written (:mod:`app.store.loop_batching`).
If the commit itself fails, no job has been acknowledged: each is run again in a
transaction of its own.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.domain.problems import Problem
from app.logs import describe
from app.store.errors import StoreClosedError, UnknownCommitError
from app.store.ledger.batches import BatchWriter
from app.store.ledger.commands import Command, Debit
from app.store.ledger.entries import LedgerIdentity
from app.store.loop_batching import Expected, LoopBatches, NotTogetherError
from app.store.unit_of_work import UnitOfWork, transaction

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


class _Job(NamedTuple):
    """What to do, and who waits: a thread, or a task of an event loop, which gathers them."""

    task: Task[Any]
    waiter: Future[Any] | asyncio.Future[Any]
    loop_batches: LoopBatches[_Job] | None = None


class _Outcome(NamedTuple):
    """What a job came to: a value, or what it raised."""

    value: Any = None
    error: BaseException | None = None

    def resolve(self, waiter: Future[Any] | asyncio.Future[Any]) -> None:
        if waiter.done():  # a task that has gone away
            return
        if self.error is None:
            waiter.set_result(self.value)
        elif isinstance(self.error, StopIteration):  # which no task can receive
            waiter.set_exception(RuntimeError("a write raised StopIteration"))
        else:
            waiter.set_exception(self.error)


class Writer:
    """Runs jobs, one batch after the other, on the writing connection.

    Attributes
    ----------
    connection
        The one connection that writes. Only jobs may use it, from inside a transaction.
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
        max_batch: int = MAX_BATCH,
        before_commit: BeforeCommit | None = None,
        noted: Callable[[], None],
        rolled_back: Callable[[], None] | None = None,
    ) -> None:
        self.connection = connection
        self._work = UnitOfWork(connection, identity)
        self._batch_writer = BatchWriter(connection, self._work.entries, self._work.releases)
        self.before_commit = before_commit
        self.noted = noted
        self.rolled_back = rolled_back
        # Unbounded itself: the bound is checked under a lock, so that no thread blocks in it.
        self._waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._queue_length = queue_length
        self._max_batch = max_batch
        self._putting = threading.Lock()
        self._closed = False
        self._loop_batches: LoopBatches[_Job] | None = None
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
        """Queue a job and return the future of its durable result.

        Raises
        ------
        Problem
            ``busy`` when the queue is full; nothing has been written.
        StoreClosedError
            The store has been closed.
        """
        future: Future[T] = Future()
        # Marked as running at once: a waiter that goes away must not cancel a charge.
        future.set_running_or_notify_cancel()
        self._put(_Job(task, future))
        return future

    def write(self, task: Task[T]) -> T:
        """Do a job durably and return its result, or raise what it raised."""
        return self.submit(task).result()

    async def awrite(self, task: Task[T]) -> T:
        """Do a job durably without holding a thread while it waits.

        A charge waits a little while for results that are :meth:`expected`.
        """
        loop_batches = self._loop_batches_of(asyncio.get_running_loop())
        # What is gathered counts as waiting, or a busy loop could gather without end.
        self._require_room(loop_batches.gathered)
        future: asyncio.Future[T] = loop_batches.loop.create_future()
        loop_batches.add(_Job(task, future, loop_batches), patient=isinstance(task, Debit))
        return await future

    def expected(self) -> Expected:
        """Return what to be inside of while a result is on its way that a task will write.

        How long that takes must say nothing of data: charges wait for it.
        """
        return self._loop_batches_of(asyncio.get_running_loop()).expected

    def _loop_batches_of(self, loop: asyncio.AbstractEventLoop) -> LoopBatches[_Job]:
        """Return the batches of the one event loop that writes; a later loop takes its place."""
        loop_batches = self._loop_batches
        if loop_batches is None or loop_batches.loop is not loop:
            loop_batches = self._loop_batches = LoopBatches(loop, self._put_all)
        return loop_batches

    def close(self) -> None:
        """Finish what waits and stop the thread; what a loop has only gathered is refused."""
        with self._putting:
            # Under the lock, so that no job comes behind the end.
            already, self._closed = self._closed, True
        if not already:
            self._waiting.put(None)
        self._thread.join()

    def _put(self, job: _Job) -> None:
        with self._putting:
            self._require_room()
            self._waiting.put(job)

    def _require_room(self, gathered: int = 0) -> None:
        if self._closed:
            raise _closed()
        if self._waiting.qsize() + gathered >= self._queue_length:
            raise Problem("busy")

    def _put_all(self, jobs: Sequence[_Job]) -> None:
        """Queue what an event loop has gathered, for which there was room when it was asked for."""
        with self._putting:
            if not self._closed:
                for job in jobs:
                    self._waiting.put(job)
                return
        _resolve(jobs, [_Outcome(error=_closed()) for _ in jobs])

    def _run(self) -> None:
        while batch := self._take():
            _resolve(batch, self._outcomes(batch))

    def _take(self) -> list[_Job]:
        """Return the jobs that wait, at least one; none at the end."""
        first = self._waiting.get()
        batch = [] if first is None else [first]
        while batch and len(batch) < self._max_batch:
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
        try:
            return self._together(batch)
        except BaseException as error:
            # After a COMMIT of unknown outcome, running the jobs again might charge twice.
            if len(batch) == 1 or isinstance(error, UnknownCommitError) or not self._reachable():
                return [_Outcome(error=error)] * len(batch)
            _log.warning(
                "a group commit failed; each write is run alone", extra={"writes": len(batch)}
            )
        return [self._outcomes([job])[0] for job in batch]

    def _reachable(self) -> bool:
        """Return whether the database is there, so that a batch is not tried 256 times in vain."""
        try:
            return self.connection.connection.is_valid
        except DBAPIError:
            return False

    def _together(self, batch: Sequence[_Job]) -> Sequence[_Outcome]:
        """Run the jobs in one transaction; every outcome is durable on return."""
        # The usual case: no savepoint at all, and no statement to make or leave one.
        if all(isinstance(job.task, Command) for job in batch):
            commands: list[Any] = [job.task for job in batch]
            try:
                return self._committed(partial(self._bare, commands))
            except NotTogetherError:
                _warn_of_failure(commands)
            return self._committed(partial(self._singly, commands))
        return self._committed(partial(self._run_all, batch))

    def _committed(self, run: Callable[[], Sequence[_Outcome]]) -> Sequence[_Outcome]:
        announced = False
        try:
            with transaction(self.connection):
                self._work.begin()
                outcomes = run()
                # Before the anchor's note, which must know where the seal's entry leads.
                self._work.seal()
                if self.before_commit is not None:
                    self.before_commit(self._work)
                    announced = True
                try:
                    self._work.entries.writes.run()
                    self.noted()
                except BaseException:
                    # Before the rollback, which lets other servers write and see the note.
                    self._take_back(announced=announced)
                    announced = False
                    raise
        except BaseException as error:
            self.failing = self.failing or not isinstance(error, NotTogetherError)
            # An unknown COMMIT may have happened: its note must stay.
            self._take_back(announced=announced and not isinstance(error, UnknownCommitError))
            raise
        self.failing = False
        return outcomes

    def _take_back(self, *, announced: bool) -> None:
        if announced and self.rolled_back is not None:
            _call_quietly(self.rolled_back)

    def _bare(self, commands: Sequence[Any]) -> Sequence[_Outcome]:
        self._work.entries.writes.begin(kept=self._batch_writer.is_known(commands))
        try:
            return [_outcome_of(result) for result in self._batch_writer.run(commands)]
        except Exception as error:
            raise NotTogetherError from error

    def _run_all(self, batch: Sequence[_Job]) -> list[_Outcome]:
        outcomes: list[_Outcome] = []
        for are_commands, jobs in groupby(batch, key=lambda job: isinstance(job.task, Command)):
            tasks: list[Any] = [job.task for job in jobs]
            outcomes += self._commands(tasks) if are_commands else map(self._function, tasks)
        return outcomes

    def _function(self, function: Callable[[UnitOfWork], Any]) -> _Outcome:
        # Whom it acts for it says itself: nothing of the function before it stays.
        return self._alone(partial(function, self._work.by_service()))

    def _commands(self, commands: Sequence[Command[Any]]) -> Sequence[_Outcome]:
        """Run commands in one savepoint, or, should that fail, each in its own."""
        done = self._alone(partial(self._batch_writer.run, commands))
        if done.error is None:
            return [_outcome_of(result) for result in done.value]
        if len(commands) == 1:
            return [done]
        _warn_of_failure(commands)
        return self._singly(commands)

    def _singly(self, commands: Sequence[Command[Any]]) -> Sequence[_Outcome]:
        return [self._commands([command])[0] for command in commands]

    def _alone(self, action: Callable[[], Any]) -> _Outcome:
        """Run something in a savepoint, undoing only its own writes if it raises.

        An error of the savepoint itself is not its fault: it means that the
        transaction is gone, and it ends the whole batch.
        """
        mark = self._work.mark()
        self.connection.exec_driver_sql("SAVEPOINT job")
        try:
            outcome = _Outcome(value=action())
        except BaseException as error:
            outcome = _Outcome(error=error)
            self.connection.exec_driver_sql("ROLLBACK TO job")
            # What was undone in the database is undone in the bookkeeping for the anchor.
            self._work.forget_since(mark)
        self.connection.exec_driver_sql("RELEASE job")
        return outcome


def _call_quietly(rolled_back: Callable[[], None]) -> None:
    """Call a hook whose own failure must not hide why it is called."""
    try:
        rolled_back()
    except Exception as error:
        _log.error("a failed commit was not taken back in the anchor", extra=describe(error))


def _warn_of_failure(commands: Sequence[Command[Any]]) -> None:
    _log.warning("writes failed together; each is run alone", extra={"writes": len(commands)})


def _outcome_of(result: object) -> _Outcome:
    return _Outcome(error=result) if isinstance(result, Problem) else _Outcome(value=result)


def _resolve(batch: Sequence[_Job], outcomes: Sequence[_Outcome]) -> None:
    """Resolve the waiters: threads one by one, an event loop once for all its tasks."""
    answers: dict[LoopBatches[_Job], list[tuple[_Job, _Outcome]]] = {}
    for job, outcome in zip(batch, outcomes, strict=True):
        if job.loop_batches is None:
            outcome.resolve(job.waiter)
        else:
            answers.setdefault(job.loop_batches, []).append((job, outcome))
    for loop_batches, resolved in answers.items():
        try:
            # Once for all of a loop's tasks: each call wakes the loop.
            loop_batches.loop.call_soon_threadsafe(_resolve_tasks, loop_batches, resolved)
        except RuntimeError:
            _log.warning(
                "an event loop ended before writes of its tasks", extra={"writes": len(resolved)}
            )


def _resolve_tasks(batches: LoopBatches[_Job], resolved: Sequence[tuple[_Job, _Outcome]]) -> None:
    try:
        for job, outcome in resolved:
            outcome.resolve(job.waiter)
    finally:
        batches.settled(len(resolved))


def _closed() -> StoreClosedError:
    return StoreClosedError("the store has been closed")
