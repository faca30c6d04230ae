"""The processes that read uploads, so that the service need not.

An uploaded file is hostile until it has been read: a few bytes can declare
gigabytes, a decoder that gives up may end its process or print cells. So every
file is read in a process of its own (:mod:`app.processes.program`), with a bounded
address space and processor time, that may run in spare time, can reach nothing but its channel
and its file (:mod:`app.processes.confinement`) and is the first to go when the machine runs
out of memory. One whose
threads all wait for each other ends (:mod:`app.processes.spare_time`).
:mod:`app.processes.upload_reading` is the other end.

*Channel.* The reader gets one :class:`ReadingTask` as JSON. It sends blocks, how many bytes
it has read by their ends, digests, and an outcome: the report of
:func:`app.uploads.ingest.ingest`. In place of a file it may get the way to who feeds it with
files (:mod:`app.uploads.sources.feeding`).
"""

from __future__ import annotations

import json
import os
import resource
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import numpy.ma  # each process would load it with its first series

from app.domain.problems import Problem
from app.domain.upload_reports import UploadReport
from app.processes.channel import READ_BYTES, Message, problem_json, send
from app.processes.confinement import confine_reader
from app.processes.program import confine, end_first
from app.processes.spare_time import Standstill
from app.uploads.drafting.drafts import DraftingTask, draft_json
from app.uploads.ingest import ingest_files
from app.uploads.sources.feeding import FedError, FileOfMany, fed_files
from app.uploads.sources.places import Layout
from app.uploads.storing import ReadingTask
from app.uploads.trouble import Limits
from mechanisms.domain import Values

_RESERVED_BYTES = 1 << 30
"""Address space of libraries, and what each thread's heap reserves: the memory is not taken."""

_MESSAGE_BYTES = 1 << 20  # about so much of a block is sent at once: it is held at both ends


def first(*descriptors: int) -> None:
    """Confine this process, before it has a second thread and reads anything."""
    end_first(1000)
    confine_reader(descriptors)


def work(file: int, channel: int) -> None:
    """Read one file; see :mod:`app.processes.program`."""
    with Connection(channel) as sending, suppress(BrokenPipeError):
        _read(file, sending)


def _read(file: int, channel: Connection) -> None:
    order = channel.recv_bytes()
    if (drafting := DraftingTask.found_in(order)) is not None:
        _draft(file, drafting, channel)
        return
    task = ReadingTask.from_json(order)
    limits = task.upload_limits()
    try:
        # Before the limits: the thread that watches needs memory too.
        standstill = Standstill(limits.standstill_s)
        standstill.watch()
        _confine(limits, mapped=limits.max_upload_bytes if task.fed else os.fstat(file).st_size)
        for message, body in _messages(_files(file, task, standstill), task, limits):
            with standstill.excused():  # the other end may take its time
                send(channel, message, *body)
    except BrokenPipeError:
        raise
    except FedError:
        pass  # the feeding process knows why, and reports it
    except Problem as problem:
        send(channel, Message.PROBLEM, problem_json(problem))
    except BaseException as error:  # a decoder's panic is no Exception; what it says is dropped
        send(channel, Message.FAILED, type(error).__qualname__.encode())


def _draft(file: int, task: DraftingTask, channel: Connection) -> None:
    """Draft the spec of a file; see :mod:`app.processes.upload_reading`."""
    try:
        _confine(task.limits, mapped=os.fstat(file).st_size)
        with Path(f"/dev/fd/{file}").open("rb") as stream:
            draft = task.done(stream)
        send(channel, Message.OUTCOME, draft_json(draft))
    except BrokenPipeError:
        raise
    except Problem as problem:
        send(channel, Message.PROBLEM, problem_json(problem))
    except BaseException as error:  # as of a reader
        send(channel, Message.FAILED, type(error).__qualname__.encode())


def _confine(limits: Limits, *, mapped: int) -> None:
    """Let this process read no longer and take no more than it may.

    The decoder of Parquet maps a whole file, and a second time where it has
    several row groups. That is address space and no memory. A file may be larger than the memory
    that there is.
    """
    memory = limits.upload_memory_bytes
    allowed = {
        resource.RLIMIT_AS: memory + _RESERVED_BYTES + 2 * mapped,
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_CPU: limits.upload_cpu_s,
        # It cannot write to any file, even one that is open.
        resource.RLIMIT_FSIZE: 0,
    }
    confine(allowed)


def _files(file: int, task: ReadingTask, standstill: Standstill) -> Iterator[FileOfMany]:
    """Yield the file, or the files that are fed in its place."""
    if not task.fed:
        # Opened again: a reader that was given up and is not gone yet moves its own position.
        with Path(f"/dev/fd/{file}").open("rb", buffering=0) as stream:
            stream.seek(0)
            yield FileOfMany(stream)
        return
    with socket.socket(fileno=file) as end:
        files = fed_files(end)
        while True:
            with standstill.excused():  # the next file may have to come from afar
                fed = next(files, None)
            if fed is None:
                return
            yield fed


def _messages(
    files: Iterator[FileOfMany], task: ReadingTask, limits: Limits
) -> Iterator[tuple[Message, Sequence[bytes | memoryview]]]:
    spec, digester, ids = task.spec(), task.digester(), task.ids()
    report, layout = UploadReport(), Layout()
    blocks = ingest_files(
        files, spec, limits=limits, report=report, digester=digester, ids=ids, layout=layout
    )
    for block in blocks:
        yield Message.READ, [layout.read_bytes.to_bytes(READ_BYTES)]
        for body in _bodies(list(block.values())):
            yield Message.BLOCK, body
    if digester is not None:
        yield Message.DIGESTS, [digester.finish().to_bytes()]
    yield Message.OUTCOME, [json.dumps(report.to_json()).encode()]


def _bodies(columns: list[Values]) -> Iterator[list[memoryview]]:
    """Yield a block in messages small enough that the receiver is soon done with one."""
    whole = [np.ascontiguousarray(values) for values in columns]
    # An even number of rows, so that the arrays of 8 bytes begin at multiples of 8.
    rows = max(2, _MESSAGE_BYTES // sum(values.itemsize for values in whole) & -2)
    for start in range(0, len(whole[0]), rows):
        yield [values[start : start + rows].data.cast("B") for values in whole]
