"""The one writer: a thread, a bounded queue, and group commit.

The thread takes whatever waits, at most 256 functions, runs each in a savepoint
of one transaction, commits once and only then tells the waiters. A function
that raises is undone alone. If the commit itself fails, no function has been
acknowledged: each is run again in a transaction of its own.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.domain.problems import Problem
from app.store.entries import LedgerIdentity
from app.store.errors import StoreClosedError, UnknownCommitError
from app.store.unit_of_work import UnitOfWork, transaction

T = TypeVar("T")

MAX_BATCH = 256
QUEUE_LENGTH = 4096

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Job:
    function: Callable[[UnitOfWork], Any]
    future: Future[Any] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a job came to: a value, or what it raised."""

    value: Any = None
    error: BaseException | None = None


class Writer:
    """Runs functions of the unit of work, one after the other, on the writing connection."""

    def __init__(
        self,
        connection: Connection,
        identity: LedgerIdentity,
        *,
        queue_length: int = QUEUE_LENGTH,
        max_batch: int = MAX_BATCH,
    ) -> None:
        self._connection = connection
        self._work = UnitOfWork(connection, identity)
        self._waiting: queue.Queue[_Job | None] = queue.Queue(queue_length)
        self._max_batch = max_batch
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[UnitOfWork], T]) -> Future[T]:
        """Queue a function and return the future of its durable result.

        Raises
        ------
        Problem
            ``busy`` when the queue is full; nothing has been written.
        StoreClosedError
            The store has been closed.
        """
        job = _Job(function)
        # Marked as running at once: a waiter that goes away must not cancel a charge.
        job.future.set_running_or_notify_cancel()
        with self._closing:
            if self._closed:
                raise StoreClosedError("the store has been closed")
            try:
                self._waiting.put_nowait(job)
            except queue.Full:
                raise Problem("busy") from None
        return job.future

    def write(self, function: Callable[[UnitOfWork], T]) -> T:
        """Run a function durably and return its result, or raise what it raised."""
        return self.submit(function).result()

    async def awrite(self, function: Callable[[UnitOfWork], T]) -> T:
        """Run a function durably without holding a thread while it waits."""
        return await asyncio.wrap_future(self.submit(function))

    def close(self) -> None:
        """Finish what waits and stop the thread."""
        with self._closing:
            already, self._closed = self._closed, True
        if not already:
            self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while batch := self._take():
            for job, outcome in zip(batch, self._outcomes(batch), strict=True):
                if outcome.error is None:
                    job.future.set_result(outcome.value)
                else:
                    job.future.set_exception(outcome.error)

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
                self._waiting.put_nowait(None)
                break
            batch.append(job)
        return batch

    def _outcomes(self, batch: list[_Job]) -> list[_Outcome]:
        try:
            return self._together(batch)
        except BaseException as error:
            if len(batch) == 1 or isinstance(error, UnknownCommitError) or not self._reachable():
                return [_Outcome(error=error)] * len(batch)
            _log.warning("a group commit of %d failed; each is run alone", len(batch))
        return [self._outcomes([job])[0] for job in batch]

    def _reachable(self) -> bool:
        """Return whether the database is there, so that a batch is not tried 256 times in vain."""
        try:
            return self._connection.connection.is_valid
        except DBAPIError:
            return False

    def _together(self, batch: list[_Job]) -> list[_Outcome]:
        """Run the jobs in one transaction; every outcome is durable on return."""
        with transaction(self._connection):
            return [self._alone(job) for job in batch]

    def _alone(self, job: _Job) -> _Outcome:
        """Run one job in a savepoint, undoing only its own writes if it raises.

        An error of the savepoint itself is not the job's: it means that the
        transaction is gone, and it ends the whole batch.
        """
        self._connection.exec_driver_sql("SAVEPOINT job")
        try:
            outcome = _Outcome(value=job.function(self._work))
        except BaseException as error:
            outcome = _Outcome(error=error)
            self._connection.exec_driver_sql("ROLLBACK TO job")
        self._connection.exec_driver_sql("RELEASE job")
        return outcome
