"""Storing processes: where uploads are stored, outside the server.

What costs time per row or column of an upload would hold the interpreter's
lock against all other work in the server. So an upload has, next to the
confined process that reads it (:mod:`app.processes.upload_reader`), one that checks what
is read, sketches it and writes its files to the staging directory; the server
waits, and shows the finished data set by a rename. Comparing an upload's row
digests with those of earlier data is done in such a process too.

Unlike a reader these are ours and are believed. They never see the database,
have a bounded address space, run in spare time as long as there is any, and go when
the server goes. One that dies leaves its upload unstored, and nothing in staging;
what a server leaves that is killed is the next one's to remove
(:mod:`app.services.datasets.unfinished`).

*How far the reading of an upload is, noted while it is stored, for who has sent it.* The note is a
small file in the upload's own directory. Any server of the desk finds it there by its name, which
follows from the person. When all is stored it is gone.

**Privacy.** Only the sender of the rows, who has them, sees how many rows and bytes were read.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

import numpy.ma  # noqa: F401 - each process would load it with its first series

from app.domain.problems import (
    Problem,
    ProcessLostError,
    StorageError,
    is_of_storage,
    storage_problem,
)
from app.domain.sources import Source
from app.domain.upload_reports import UploadProgress, UploadReport
from app.engine.choice import HERE, Passes
from app.logs import describe
from app.processes.channel import Message, StarvedError, problem_json, problem_of, receive, send
from app.processes.program import HOSTS, Crew, keep_memory, prepare
from app.processes.upload_reading import SHARED, checked_blocks
from app.services.datasets.comparing import Digested, Verdict, bring_up_to_date, compare
from app.uploads.sources.feeding import feeding
from app.uploads.sources.places import ObjectAccess, place_of
from app.uploads.storing import Extended, Ingested, ReadingTask, Stop, Tally, write_files
from app.vault.lineage import LineageFiles
from app.vault.vault import Vault, VaultWriter
from mechanisms.contract import Block

# How far the reading of an upload is, noted while it is stored, for who has sent it

_EVERY_S = 0.5  # often enough for who looks once a second


def noted(
    blocks: Iterator[Block], tally: Tally, note: Path, reading: str, total: Callable[[], int]
) -> Iterator[Block]:
    """Yield blocks, and note from time to time how far they are; ``total`` counts all bytes."""
    rows, next_s, partial = 0, 0.0, note.with_suffix(".part")
    try:
        for block in blocks:
            rows += len(next(iter(block.values())))
            if time.monotonic() >= next_s:
                next_s, known = time.monotonic() + _EVERY_S, total()
                # a reader is not believed, and could say anything
                read = min(tally.read_bytes, known)
                progress = UploadProgress(
                    reading=reading, rows=rows, read_bytes=read, total_bytes=known or None
                )
                partial.touch(mode=0o600)
                partial.write_bytes(progress.to_json())
                partial.replace(note)
            yield block
    finally:
        note.unlink(missing_ok=True)


# The first message to a process that stores uploads, or compares them


@dataclass(frozen=True, slots=True, kw_only=True)
class StoringOrder:
    """What a storing process is to do: store, if it gets a reader, and compare or index otherwise.

    ``extends`` is the data set that rows are added to, with the SHA-256 of its manifest, and
    ``data_dir`` is where it lies. ``source`` is where the files are that it has to feed the reader
    with, and ``access`` is how a store of objects is asked for them. ``passes`` says where parts
    are sketched. ``note`` is the name of a file that says how far it is, and by
    which text its sender knows it, if they want to know.
    ``size`` is how large an upload is. With ``indexing`` the digests of ``earlier`` data sets are
    brought into their index (:mod:`app.uploads.digest_index`).
    """

    log_level: str
    memory_bytes: int
    directory: str
    dataset: str
    spare: bool
    task: str | None = None
    source: Mapping[str, Any] | None = None
    access: Mapping[str, Any] = field(default_factory=dict, repr=False)
    passes: Mapping[str, Any] = field(default_factory=dict, repr=False)
    sha256: str = ""
    earlier: Sequence[tuple[str, str, bool, str | None]] = ()
    together: Sequence[tuple[str, str, bool, str | None]] = ()
    data_dir: str = ""
    extends: tuple[str, str] | None = None
    note: tuple[str, str] | None = None
    size: int = 0
    indexing: bool = False

    def to_json(self) -> bytes:
        """Return the order as it is sent."""
        # not by asdict(): it would copy each of thousands of data sets
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self)}).encode()

    @classmethod
    def from_json(cls, content: bytes) -> StoringOrder:
        """Return the order that was sent."""
        return cls(**json.loads(content))


# The service's end

FORKS = HOSTS["store"]


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
        writer: VaultWriter,
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


# The other end: a process that stores one upload, compares one with earlier data, or indexes that

_LOG = logging.getLogger(__name__)
_LIBRARIES_BYTES = 1 << 29
"""Address space that libraries take before anything is stored."""


def work(*descriptors: int) -> None:
    """Do one order; see :mod:`app.processes.program`."""
    *reading, channel = descriptors
    with Connection(channel) as answering, suppress(BrokenPipeError):
        order = StoringOrder.from_json(answering.recv_bytes())
        allowed = {resource.RLIMIT_AS: order.memory_bytes + _LIBRARIES_BYTES}
        prepare(log_level=order.log_level, directories=[Path(order.directory)], limits=allowed)
        keep_memory()
        try:
            if reading:
                with Connection(reading[0]) as blocks:
                    stored = _stored(order, blocks, *reading[1:])
                _answer(stored, answering)
            elif order.indexing:
                _index(order)
                send(answering, Message.OUTCOME, b"null")
            else:
                _compare(order, answering)
        except Problem as problem:
            send(answering, Message.PROBLEM, problem_json(problem))
        except StarvedError:  # the reader is
            send(answering, Message.STARVED, b"")
        except Exception as error:
            _LOG.error("upload failed", extra={"dataset": order.dataset, **describe(error)})
            if isinstance(error, OSError | StorageError) and is_of_storage(error):
                send(answering, Message.PROBLEM, problem_json(storage_problem()))
            else:  # too little memory included: that much is for the upload to have
                send(answering, Message.FAILED, b"")


def _stored(order: StoringOrder, reading: Connection, *feeds: int) -> Ingested:
    """Store what the reader sends; one that is to be fed is fed with the source's files."""
    task = ReadingTask.from_json((order.task or "").encode())
    writer = VaultWriter(order.dataset, Path(order.directory))
    spec, tally = task.spec(), Tally()
    blocks = checked_blocks(reading, task, spec, tally, spare=order.spare)
    passes = Passes(**order.passes)
    executor = passes.executor() if passes.elsewhere else None
    extended = None if order.extends is None else _extended(writer, order)

    def store(total: Callable[[], int], origin: Callable[[], Mapping[str, object]]) -> Ingested:
        reported = blocks
        if order.note is not None:
            name, reading = order.note
            reported = noted(blocks, tally, writer.directory / name, reading, total)
        return write_files(
            writer, reported, spec, tally, task.ids(), origin=origin, executor=executor,
            extended=extended,
        )  # fmt: skip

    if order.source is None:
        return store(lambda: order.size, dict)
    source, end = Source.of(order.source), socket.socket(fileno=feeds[0])
    place = place_of(source, ObjectAccess(**order.access), writer.directory)
    with feeding(source, place, end, {*spec.headers.values()}) as feeder:
        return store(lambda: feeder.total_bytes, feeder.facts)


def _extended(writer: VaultWriter, order: StoringOrder) -> Extended:
    """Have a data set start with the rows of the one it extends."""
    dataset, manifest = order.extends or ("", "")
    earlier = Vault(Path(order.data_dir)).open(dataset, manifest=manifest)
    writer.build_on(earlier.parts)
    return Extended(
        dataset=dataset, manifest=manifest, facts=earlier.facts, attached=earlier.attached
    )


def _answer(stored: Ingested, answering: Connection) -> None:
    if stored.digests is not None:
        send(answering, Message.DIGESTS, stored.digests)
    outcome = {"rows": stored.rows, "report": stored.report.to_json()}
    send(answering, Message.OUTCOME, json.dumps(outcome).encode())


def _compare(order: StoringOrder, answering: Connection) -> None:
    files = LineageFiles(Path(order.directory))
    earlier = [Digested(*each) for each in order.earlier]
    together = [Digested(*each) for each in order.together]
    verdict = compare(files, Digested(order.dataset, order.sha256), earlier, together)
    outcome = {"found": verdict.found, "lost": verdict.lost, "withheld": verdict.withheld}
    send(answering, Message.OUTCOME, json.dumps(outcome).encode())


def _index(order: StoringOrder) -> None:
    files = LineageFiles(Path(order.directory))
    bring_up_to_date(files, [Digested(*each) for each in order.earlier])
