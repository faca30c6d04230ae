"""Storing processes: where uploads are taken in, beside the server and not inside it.

What costs time per row or column of an upload would hold the interpreter's
lock against everybody else in the server. So an upload has, beside the
confined process that reads it (:mod:`app.processes.upload_reader_child`), one that checks what
is read, sketches it and writes its files to the staging directory; the server
waits, and shows the finished data set by a rename. Comparing an upload's row
digests with those of earlier data is done in such a process too.

Unlike a reader these are ours and are believed. They never see the database,
have a bounded address space, run in spare time as long as there is any, and go when
the server goes. One that dies leaves its upload unstored, and nothing in staging.
"""

from __future__ import annotations

import atexit
import json
import logging
import resource
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

from app.domain.errors import ProcessLostError
from app.domain.problems import Problem
from app.logs import configure_logs, describe
from app.processes.crews import Crew
from app.processes.forking import (
    Forks,
    Message,
    StarvedError,
    confine,
    receive,
    send,
)
from app.processes.upload_reader_child import problem_json, problem_of
from app.processes.upload_reading import SHARED, checked_blocks
from app.services.datasets.lineage import Digested, Verdict, compare
from app.uploads.reading_task import ReadingTask, Tally
from app.uploads.storing import Ingested, Writer, write_files
from app.vault.lineage import LineageFiles
from app.vault.vault import VaultWriter

_LOG = logging.getLogger(__name__)
_OOM_SCORE = 500
_LIBRARIES_BYTES = 1 << 29
"""Address space that libraries take before anything is stored."""
_FORKS = Forks("app.processes.uploads", quiet=False)
atexit.register(_FORKS.close)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What a storing process is to do: store, if it gets a reader, and compare otherwise."""

    log_level: str
    memory_bytes: int
    directory: str
    dataset: str
    spare: bool
    task: str | None = None
    sha256: str = ""
    earlier: Sequence[Sequence[str]] = ()


class StoringProcesses:
    """Takes uploads in and compares them, each in a process of its own.

    Any number of threads may use it; each waits for its process.

    Parameters
    ----------
    data_dir
        Where the digests are.
    memory_bytes
        Address space of each process, beside what libraries take.
    log_level
        Least severe line of their logs.
    """

    def __init__(self, *, data_dir: Path, memory_bytes: int, log_level: str) -> None:
        self._data_dir = data_dir
        self._common: dict[str, Any] = {"log_level": log_level, "memory_bytes": memory_bytes}
        self._crew = Crew(_FORKS)

    def take_in(self, writer: Writer, stream: BinaryIO, task: ReadingTask) -> Ingested:
        """Have an upload read, and its files written; they are not to be seen yet.

        Raises
        ------
        Problem
            ``invalid-upload`` or ``too-large``; see :mod:`app.processes.upload_reading`.
        ProcessLostError
            It was not stored.
        """

        def attempt(spare: bool) -> tuple[dict[str, Any], bytes | None]:
            if not spare:
                writer.start_over()
            order = _Order(
                **self._common,
                directory=str(writer.directory.absolute()),
                dataset=writer.id,
                task=task.to_json().decode(),
                spare=spare,
            )
            reading = SHARED.reading(stream, task, scratch=writer.directory, spare=spare)
            with reading as blocks:
                channel = self._start(order, blocks.fileno())
            return self._finish(channel)

        outcome, digests = self._crew.in_spare_time(attempt)
        return Ingested(outcome["rows"], outcome["filled"], outcome["dropped"], digests)

    def compare(self, upload: Digested, earlier: Sequence[Digested]) -> Verdict:
        """Compare an upload with earlier data sets.

        See :func:`app.services.datasets.lineage.compare`.

        Raises
        ------
        ProcessLostError
            It was not compared.
        """

        def attempt(spare: bool) -> dict[str, Any]:
            order = _Order(
                **self._common,
                directory=str(self._data_dir.absolute()),
                dataset=upload.dataset,
                sha256=upload.sha256,
                earlier=[(each.dataset, each.sha256) for each in earlier],
                spare=spare,
            )
            outcome, _ = self._finish(self._start(order))
            return outcome

        outcome = self._crew.in_spare_time(attempt)
        return Verdict(outcome["found"], tuple(outcome["lost"]))

    def close(self) -> None:
        """End every process; what waits for one hears that it is lost, once it is gone."""
        self._crew.close()

    def _start(self, order: _Order, *reading: int) -> Connection:
        return self._crew.begin(json.dumps(asdict(order)).encode(), *reading, spare=order.spare)

    def _finish(self, channel: Connection) -> tuple[dict[str, Any], bytes | None]:
        """Return what a process came to: its outcome, and the digests if there are any."""
        digests = None
        with self._crew.awaited(channel):
            message, body = receive(channel)
            if message is Message.DIGESTS:
                digests = bytes(body)
                message, body = receive(channel)
        if message is Message.FAILED:
            raise ProcessLostError("a storing process failed")
        if message is Message.PROBLEM:
            raise problem_of(bytes(body))
        told: dict[str, Any] = json.loads(bytes(body))
        return told, digests


def work(*descriptors: int) -> None:
    """Do one order; see :mod:`app.processes.forking`."""
    *reading, channel = descriptors
    with Connection(channel) as answering, suppress(BrokenPipeError):
        order = _Order(**json.loads(answering.recv_bytes()))
        configure_logs(level=order.log_level)
        allowed = {resource.RLIMIT_AS: order.memory_bytes + _LIBRARIES_BYTES}
        confine(allowed, oom_score=_OOM_SCORE)
        try:
            if reading:
                with Connection(reading[0]) as blocks:
                    _store(order, blocks, answering)
            else:
                _compare(order, answering)
        except Problem as problem:
            send(answering, Message.PROBLEM, problem_json(problem))
        except StarvedError:  # the reader is
            send(answering, Message.STARVED, b"")
        except Exception as error:
            _LOG.error("upload failed", extra={"dataset": order.dataset, **describe(error)})
            send(answering, Message.FAILED, b"")


def _store(order: _Order, reading: Connection, answering: Connection) -> None:
    task = ReadingTask.from_json((order.task or "").encode())
    writer = VaultWriter(order.dataset, Path(order.directory))
    spec, tally = task.spec(), Tally()
    blocks = checked_blocks(reading, task, spec, tally, spare=order.spare)
    stored = write_files(writer, blocks, spec, tally)
    if stored.digests is not None:
        send(answering, Message.DIGESTS, stored.digests)
    outcome = {"rows": stored.rows, "filled": dict(stored.filled), "dropped": stored.dropped}
    send(answering, Message.OUTCOME, json.dumps(outcome).encode())


def _compare(order: _Order, answering: Connection) -> None:
    files = LineageFiles(Path(order.directory))
    earlier = [Digested(*each) for each in order.earlier]
    verdict = compare(files, Digested(order.dataset, order.sha256), earlier)
    outcome = {"found": verdict.found, "lost": verdict.lost}
    send(answering, Message.OUTCOME, json.dumps(outcome).encode())
