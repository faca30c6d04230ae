"""A process that stores one upload, compares one with earlier data, or indexes that.

:mod:`app.processes.uploads` is the other end, and says what such a process may do.
"""

from __future__ import annotations

import json
import logging
import resource
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import numpy.ma  # noqa: F401 - each process would load it with its first series

from app.domain.problems import Problem, StorageError, is_of_storage, storage_problem
from app.domain.sources import Source
from app.engine.choice import Passes
from app.logs import describe
from app.processes.channel import Message, StarvedError, problem_json, send
from app.processes.child import keep_memory, prepare
from app.processes.upload_orders import StoringOrder, noted
from app.processes.upload_reading import checked_blocks
from app.services.datasets.comparing import Digested, bring_up_to_date, compare
from app.uploads.reading_task import ReadingTask, Tally
from app.uploads.sources.feeding import feeding
from app.uploads.sources.objects import ObjectAccess
from app.uploads.sources.opening import place_of
from app.uploads.storing import Extended, Ingested, write_files
from app.vault.lineage import LineageFiles
from app.vault.vault import Vault, VaultWriter

_LOG = logging.getLogger(__name__)
_LIBRARIES_BYTES = 1 << 29
"""Address space that libraries take before anything is stored."""


def work(*descriptors: int) -> None:
    """Do one order; see :mod:`app.processes.forking`."""
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
                _tell(stored, answering)
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


def _tell(stored: Ingested, answering: Connection) -> None:
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
