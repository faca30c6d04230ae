"""Storing processes: where uploads are stored, outside the server.

What costs time per row or column of an upload would hold the interpreter's
lock against all other work in the server. So an upload has, next to the
confined process that reads it (:mod:`app.processes.upload_reader_child`), one that checks what
is read, sketches it and writes its files to the staging directory; the server
waits, and shows the finished data set by a rename. Comparing an upload's row
digests with those of earlier data is done in such a process too.

Unlike a reader these are ours and are believed. They never see the database,
have a bounded address space, run in spare time as long as there is any, and go when
the server goes. One that dies leaves its upload unstored, and nothing in staging;
what a server leaves that is killed is the next one's to remove
(:mod:`app.services.datasets.unfinished`).
:mod:`app.processes.upload_storing_child` is the other end.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

from app.domain.problems import ProcessLostError
from app.domain.sources import Source
from app.domain.upload_problems import UploadReport
from app.engine.choice import HERE, Passes
from app.processes.channel import (
    Message,
    problem_of,
    receive,
)
from app.processes.crews import Crew
from app.processes.forking import Forks
from app.processes.upload_orders import StoringOrder
from app.processes.upload_reading import SHARED
from app.services.datasets.comparing import Digested, Verdict
from app.uploads.intake import Stop
from app.uploads.reading_task import ReadingTask
from app.uploads.sources.objects import ObjectAccess
from app.uploads.storing import Ingested, Writer

FORKS = Forks("app.processes.upload_storing_child", quiet=False)
atexit.register(FORKS.close)


class StoringProcesses:
    """Takes uploads in and compares them, each in a process of its own.

    Any number of threads may use it; each waits for its process.

    Parameters
    ----------
    data_dir
        Where the digests are.
    memory_bytes
        Address space of each process, in addition to what libraries take.
    log_level
        Least severe line of their logs.
    access
        How a store of objects is asked for the files of a source.
    passes
        Where parts are sketched.
    """

    def __init__(
        self,
        *,
        data_dir: Path,
        memory_bytes: int,
        log_level: str,
        access: ObjectAccess | None = None,
        passes: Passes = HERE,
    ) -> None:
        self._data_dir = data_dir
        self._access = access or ObjectAccess()
        self._passes, self._elsewhere = asdict(passes), passes.elsewhere
        self._common: dict[str, Any] = {"log_level": log_level, "memory_bytes": memory_bytes}
        self._crew = Crew(FORKS)

    def take_in(
        self,
        writer: Writer,
        content: BinaryIO | Source,
        task: ReadingTask,
        stop: Stop,
        extends: tuple[str, str] | None = None,
    ) -> Ingested:
        """Have an upload read, and its files written; they are not to be seen yet.

        With ``extends``, a data set and the SHA-256 of its manifest, they hold its rows first.

        Raises
        ------
        Problem
            ``invalid-upload`` or ``too-large``; see :mod:`app.processes.upload_reading`. Of a
            source ``source-unreadable`` or ``source-changed`` too. ``not-extendable``.
        ProcessLostError
            It was not stored; StoppedError, if ``stop`` was asked to.
        """

        def attempt(spare: bool) -> tuple[dict[str, Any], bytes | None]:
            # A second attempt, after one in spare time: what that has written goes.
            if not spare:
                writer.start_over()
            order = StoringOrder(
                **self._common,
                directory=str(writer.directory.absolute()),
                dataset=writer.id,
                task=task.to_json().decode(),
                passes=self._passes,
                spare=spare,
                data_dir=str(self._data_dir.absolute()),
                extends=extends,
                note=stop.note,
                size=0 if isinstance(content, Source) else content.seek(0, os.SEEK_END),
            )
            if isinstance(content, Source):
                order = replace(order, source=content.to_json(), access=self._access.to_json())
                with SHARED.reading_fed(task, spare=spare) as (blocks, feed):
                    channel = self._start(order, blocks.fileno(), feed.fileno())
            else:
                reading = SHARED.reading(content, task, scratch=writer.directory, spare=spare)
                with reading as blocks:
                    channel = self._start(order, blocks.fileno())
            with stop.ends(partial(self._crew.give_up, channel)):
                return self._finish(channel)

        # what makes passes elsewhere waits for others, and so would not be seen to starve
        in_turn = attempt(False) if self._elsewhere else self._crew.in_spare_time(attempt)
        outcome, digests = in_turn
        report = UploadReport.of(outcome["report"], outcome["report"]["columns"])
        return Ingested(outcome["rows"], report, digests)

    def compare(
        self, upload: Digested, earlier: Sequence[Digested], together: Sequence[Digested] = ()
    ) -> Verdict:
        """Compare an upload with earlier data sets, given those of its account.

        See :func:`app.services.datasets.comparing.compare`.

        Raises
        ------
        ProcessLostError
            It was not compared.
        """

        def attempt(spare: bool) -> dict[str, Any]:
            order = StoringOrder(
                **self._common,
                directory=str(self._data_dir.absolute()),
                dataset=upload.dataset,
                sha256=upload.sha256,
                earlier=_told(earlier),
                together=_told(together),
                spare=spare,
            )
            outcome, _ = self._finish(self._start(order))
            return outcome

        outcome = self._crew.in_spare_time(attempt)
        return Verdict(outcome["found"], tuple(outcome["lost"]), outcome["withheld"])

    def index(self, earlier: Sequence[Digested]) -> None:
        """Bring the digests of data sets into their index.

        See :func:`app.services.datasets.comparing.bring_up_to_date`.

        Raises
        ------
        ProcessLostError
            That has not been done, or not to its end.
        """

        def attempt(spare: bool) -> None:
            order = StoringOrder(
                **self._common,
                directory=str(self._data_dir.absolute()),
                dataset="",
                earlier=_told(earlier),
                indexing=True,
                spare=spare,
            )
            self._finish(self._start(order))

        self._crew.in_spare_time(attempt)

    def close(self) -> None:
        """End every process; what waits for one hears that it is lost, once it is gone."""
        self._crew.close()

    def _start(self, order: StoringOrder, *reading: int) -> Connection:
        return self._crew.begin(order.to_json(), *reading, spare=order.spare)

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
        outcome: dict[str, Any] = json.loads(bytes(body))
        return outcome, digests


def _told(datasets: Sequence[Digested]) -> Sequence[tuple[str, str, bool, str | None]]:
    """Return data sets as an order names them."""
    return [(each.dataset, each.sha256, each.own, each.account) for each in datasets]
