"""Job processes: where jobs are drawn, outside the server.

A job may take minutes, and all the memory there is. So each is drawn in a process of its
own (:mod:`app.processes.draws`), which blocks no other and takes no other with it
when it is lost. As many as there are lanes are kept for the next jobs.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from app.domain.problems import ProcessLostError
from app.processes.channel import pickled, unpickled
from app.processes.draws import FORKS, Answers, Batch, DrawOrder, NoAnswer, answer_of
from app.processes.program import Crew
from app.services.releases.draws import DrawDiedError, NoDrawProcessError
from app.services.releases.jobs import ROOM
from app.store import DatasetRecord, ReleaseRecord


class JobProcesses:
    """A pool of draw processes, each begun when first needed and kept.

    Parameters
    ----------
    count
        How many draw at once, not counting those that are late.
    order
        What each is sent first.
    """

    def __init__(self, *, count: int, order: DrawOrder) -> None:
        self.count = count
        self._order = pickled(order)
        self._crew = Crew(FORKS)
        # a thread per process waits for its answer
        self._threads = ThreadPoolExecutor(max(count + ROOM * count, 1), thread_name_prefix="job")
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._erased: set[str] = set()
        self._lock = threading.Lock()
        self._stopped = False

    async def draw(
        self, record: ReleaseRecord, dataset: DatasetRecord, manifest: str | None
    ) -> bytes | None:
        """Return the signed answer of a charged release, or None when its draw failed.

        Raises
        ------
        DrawDiedError
            The process died, or all have been stopped.
        NoDrawProcessError
            There is none to be had.
        StorageError
            It could not read the data, or there was no signature.
        """
        if self._stopped:
            raise DrawDiedError
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, self._draw, dataset.id, [(record, dataset, manifest)]
        )

    def _draw(self, dataset: str, batch: Batch) -> bytes | None:
        process = self._take(dataset)
        try:
            answered = self._ask(process, batch)
        except BaseException:
            with self._lock:
                # Whatever went wrong, its channel may hold half an answer: the process is
                # not asked again.
                self._all.discard(process)
            self._crew.end(process.channel)
            raise
        with self._lock:
            if kept := len(self._idle) < self.count:
                self._idle.append(process)
            else:
                self._all.discard(process)
        if not kept:
            self._crew.end(process.channel)
        # A data set may have been erased while it was drawn from.
        self._end_what_read_erased()
        return answer_of(answered)

    def _take(self, dataset: str) -> _Process:
        """Return a process that is about to read a data set."""
        with self._lock:
            process = self._kept() or self._begin()
            process.datasets.add(dataset)
            self._all.add(process)
            return process

    def _kept(self) -> _Process | None:
        """Return a process that waits for a draw, and forget those that have died."""
        while self._idle:
            process = self._idle.pop()
            if not process.has_died():
                return process
            self._all.discard(process)
            self._crew.end(process.channel)
        return None

    def _begin(self) -> _Process:
        try:
            return _Process(self._crew.begin(self._order, spare=False))
        except ProcessLostError:
            raise DrawDiedError from None

    def _ask(self, process: _Process, batch: Batch) -> bytes | NoAnswer:
        asked = False
        try:
            # The first message says that it has loaded everything.
            if not process.ready:
                process.channel.recv_bytes()
                process.ready = True
            process.channel.send_bytes(pickled(batch))
            asked = True
            answers: Answers = unpickled(process.channel.recv_bytes())
        except (OSError, EOFError):
            # Only the death of one that has been asked counts as a draw's.
            if asked or self._stopped:
                raise DrawDiedError from None
            raise NoDrawProcessError from None
        [(_, answered)] = answers
        return answered

    def forget(self, dataset: str) -> None:
        """End the processes that have read a data set, once they have drawn; any thread may ask."""
        with self._lock:
            self._erased.add(dataset)
        self._end_what_read_erased()

    def _end_what_read_erased(self) -> None:
        with self._lock:
            gone = [process for process in self._idle if process.datasets & self._erased]
            self._idle = [process for process in self._idle if process not in gone]
            self._all.difference_update(gone)
            # Erased ids are remembered as long as some process may still have read them.
            self._erased &= {name for process in self._all for name in process.datasets}
        for process in gone:
            self._crew.end(process.channel)

    async def stop(self) -> None:
        """End every process; draws under way end in :class:`DrawDiedError`."""
        self._stopped = True
        self._crew.close(at_once=True)
        self._threads.shutdown(wait=False)


@dataclass(eq=False, slots=True)
class _Process:
    """A draw process, as its server sees it; ``datasets`` are those that it may have read.

    ``ready`` is whether it has said so.
    """

    channel: Connection
    ready: bool = False
    datasets: set[str] = field(default_factory=set)

    def has_died(self) -> bool:
        """Return whether one that waits for a draw is there no more: it has nothing to say."""
        try:
            return self.channel.poll()
        except OSError:
            return True
