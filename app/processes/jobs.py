"""Draw processes: where jobs are drawn, beside the server and not inside it.

A draw process reads the vault itself and never the database. It is sent a
charged release and answers with the bytes of its answer, or with nothing when
the draw failed; what went wrong stays in its log, without values. A long draw
thus holds up nobody, and one that takes all the memory takes no other with it.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import queue
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

from app.engine.data import DataEngine
from app.logs import configure_logs, describe
from app.services.datasets.datasets import DataPlane, facts_of
from app.services.releases.draws import DrawDiedError, draw_answer
from app.store import DatasetRecord, ReleaseRecord
from app.vault.vault import Vault

_LOG = logging.getLogger(__name__)
_NICE = 5


@dataclass(frozen=True, slots=True)
class _Task:
    release: ReleaseRecord
    dataset: DatasetRecord


class JobProcesses:
    """A pool of draw processes, each started when first needed and kept.

    Parameters
    ----------
    count
        How many draw at once.
    data_dir
        Where the vault is.
    log_level
        Least severe line of their logs.
    """

    def __init__(self, *, count: int, data_dir: Path, log_level: str) -> None:
        self.count = count
        self._arguments = (data_dir, log_level)
        # a thread per process waits for its answer
        self._threads = ThreadPoolExecutor(max(count, 1), thread_name_prefix="job")
        self._idle: list[_Drawer] = []
        self._all: set[_Drawer] = set()
        self._erased: set[str] = set()
        self._lock = threading.Lock()
        self._stopped = False

    async def draw(self, record: ReleaseRecord, dataset: DatasetRecord) -> bytes | None:
        """Return the answer of a charged release, or None when its draw failed.

        Raises
        ------
        DrawDiedError
            The process died, or all have been stopped.
        """
        if self._stopped:
            raise DrawDiedError
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._draw, _Task(record, dataset))

    def _draw(self, task: _Task) -> bytes | None:
        drawer = self._take(task.dataset.id)
        try:
            answer = drawer.ask(task)
        except DrawDiedError:
            with self._lock:
                self._all.discard(drawer)
            raise
        with self._lock:
            self._idle.append(drawer)
        self._drop_erased()
        return answer

    def forget(self, dataset: str) -> None:
        """End the processes that have read a data set, once they have drawn; any thread may ask."""
        with self._lock:
            self._erased.add(dataset)
        self._drop_erased()

    def _drop_erased(self) -> None:
        with self._lock:
            gone = [drawer for drawer in self._idle if drawer.datasets & self._erased]
            self._idle = [drawer for drawer in self._idle if drawer not in gone]
            self._all.difference_update(gone)
            self._erased &= {name for drawer in self._all for name in drawer.datasets}
        for drawer in gone:
            drawer.end()

    def _take(self, dataset: str) -> _Drawer:
        """Return a process that is about to read a data set."""
        with self._lock:
            if self._stopped:
                raise DrawDiedError
            drawer = self._idle.pop() if self._idle else _Drawer(*self._arguments)
            drawer.datasets.add(dataset)
            self._all.add(drawer)
            return drawer

    async def stop(self) -> None:
        """Kill every process; draws under way end in :class:`DrawDiedError`."""
        with self._lock:
            self._stopped = True
            drawers = list(self._all)
        for drawer in drawers:
            drawer.kill()
        self._threads.shutdown(wait=False)


class _Drawer:
    """One draw process, seen from its parent; ``datasets`` are those that it has read."""

    def __init__(self, data_dir: Path, log_level: str) -> None:
        self.datasets: set[str] = set()
        # a forked child of a threaded process could inherit a held lock
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(
            target=_serve_draws, args=(theirs, data_dir, log_level), daemon=True
        )
        self._process.start()
        theirs.close()

    def ask(self, task: _Task) -> bytes | None:
        """Send a task and wait for its answer.

        Raises
        ------
        DrawDiedError
            The process died.
        """
        try:
            self._connection.send(task)
            answer: bytes | None = self._connection.recv()
        except (OSError, EOFError):
            self.end()
            raise DrawDiedError from None
        return answer

    def end(self) -> None:
        """End the process when nobody asks it anything any more."""
        self._process.kill()
        self._process.join()
        self._connection.close()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()


def _serve_draws(connection: Connection, data_dir: Path, log_level: str) -> None:
    """Draw what is asked for, one release after the other, until the parent goes away."""
    # a Ctrl-C or SIGTERM for the whole group is the parent's to act on
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(_NICE)
    configure_logs(level=log_level)
    plane = DataEngine(Vault(data_dir))
    tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, tasks), daemon=True).start()
    while True:
        connection.send(_answer(tasks.get(), plane))


def _receive(connection: Connection, tasks: queue.SimpleQueue[_Task]) -> None:
    """Receive tasks beside the draw; when the parent is gone, nobody waits for the draw."""
    while True:
        try:
            tasks.put(connection.recv())
        except (OSError, EOFError):
            os._exit(0)


def _answer(task: _Task, plane: DataPlane) -> bytes | None:
    try:
        return draw_answer(task.release, facts_of(task.dataset), plane)
    except Exception as error:
        _LOG.error("draw failed", extra={"release": task.release.id, **describe(error)})
        return None
