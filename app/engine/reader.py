"""The processes that read uploads, so that the service need not.

An uploaded file is hostile until it has been read: a few bytes can declare
gigabytes, a decoder that gives up may end its process or print cells. So every
file is read in a process of its own, with a bounded address space and
processor time, at the lowest priority, that can write to nothing but its
channel and is the first to go when the machine runs out of memory.

:func:`host` is what the service starts once: it has loaded the decoders, holds
nothing of the service (no environment, no descriptor, no key) and forks for
every upload. :mod:`app.engine.reading` is the other end.

*Channel.* The reader gets one :class:`Task` as JSON. Each message it sends is
one byte that says what it is (:class:`Message`) and a body.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import IntEnum
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from app.domain.datasets import ColumnsSpec, columns_json, parse_columns
from app.domain.problems import Problem
from app.engine.cells import Codes
from app.engine.ingest import ingest
from app.engine.limits import Limits
from app.engine.row_digests import RowDigester
from mechanisms.privacy import Adjacency

_MESSAGE_BYTES = 1 << 20
_NICENESS = 10


class Message(IntEnum):
    """What a message's body is."""

    BLOCK = 0
    """The declared columns' int32 codes, one column after the other."""
    COUNTS = 1
    """JSON: the counts of :func:`app.engine.ingest.ingest`; the last message."""
    PROBLEM = 2
    """JSON: code, detail and extras of a refusal; the last message."""
    FAILED = 3
    """The class of an exception that is none of ours; the last message."""
    DIGESTS = 4
    """:class:`app.engine.row_digests.RowDigests`, if the task has a key; before the counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a reader is to do.

    ``lineage_key`` is hex, and no use to anybody who cannot read the digests it
    made; a reader whose decoder was taken over could read the key's file too.
    """

    columns: Mapping[str, Any]
    adjacency: str
    max_rows: int | None
    limits: Mapping[str, Any]
    lineage_key: str | None = None

    @classmethod
    def of(cls, spec: ColumnsSpec, limits: Limits, *, lineage_key: bytes | None = None) -> Task:
        """Return the task to read a file under a spec and limits."""
        return cls(
            columns=columns_json(spec),
            adjacency=spec.adjacency.value,
            max_rows=spec.max_rows,
            limits=asdict(limits),
            lineage_key=None if lineage_key is None else lineage_key.hex(),
        )

    def spec(self) -> ColumnsSpec:
        """Return the declared columns."""
        return parse_columns(
            self.columns, adjacency=Adjacency(self.adjacency), max_rows=self.max_rows
        )

    def digester(self) -> RowDigester | None:
        """Return what makes the rows' digests, if that is asked for."""
        if self.lineage_key is None:
            return None
        return RowDigester(bytes.fromhex(self.lineage_key), self.spec())


def host(descriptor: int) -> None:
    """Fork a reader for every pair of descriptors (the file, its channel) until the other end goes.

    The decoders' threads start with their first use, so there is one thread here to fork.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # readers need not be waited for
    with socket.socket(fileno=descriptor) as orders:
        while True:
            _, descriptors, _, _ = socket.recv_fds(orders, 1, 2)
            if not descriptors:
                return
            with suppress(OSError):  # no process to be had: the channel closes, and that is told
                if os.fork() == 0:
                    orders.close()
                    _be_reader(*descriptors)
            for each in descriptors:
                os.close(each)


def _be_reader(file: int, channel: int) -> None:
    """Read one file and leave, come what may."""
    try:
        with Connection(channel) as sending:
            threading.Thread(target=_leave_with, args=(channel,), daemon=True).start()
            _read(file, sending)
    except BrokenPipeError:
        pass
    finally:
        os._exit(0)


def _leave_with(channel: int) -> None:
    """End this process when nobody listens any more."""
    hung_up = select.poll()
    hung_up.register(channel, 0)
    hung_up.poll()
    os._exit(0)


def _read(file: int, channel: Connection) -> None:
    task = Task(**json.loads(channel.recv_bytes()))
    limits = Limits(**task.limits)
    try:
        _confine(limits)
        digester = task.digester()
        for message, body in _messages(file, task.spec(), limits, digester):
            channel.send_bytes(bytes([message]) + body)
    except BrokenPipeError:
        raise
    except Problem as problem:
        told = {"code": problem.code, "detail": problem.detail, "extras": problem.extras}
        channel.send_bytes(bytes([Message.PROBLEM]) + json.dumps(told).encode())
    except BaseException as error:  # a decoder's panic is no Exception; what it says is dropped
        channel.send_bytes(bytes([Message.FAILED]) + type(error).__qualname__.encode())


def _confine(limits: Limits) -> None:
    """Give this process what it may use, for good."""
    with suppress(OSError):  # Linux alone has this
        Path("/proc/self/oom_score_adj").write_text("1000")
    os.nice(_NICENESS)
    for kind, most in (
        (resource.RLIMIT_AS, limits.upload_memory_bytes),
        (resource.RLIMIT_CPU, limits.upload_cpu_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))


def _messages(
    file: int, spec: ColumnsSpec, limits: Limits, digester: RowDigester | None
) -> Iterator[tuple[Message, bytes]]:
    counts: Counter[str] = Counter()
    with open(file, "rb", buffering=0) as stream:
        stream.seek(0)
        for block in ingest(stream, spec, limits=limits, counts=counts, digester=digester):
            for body in _bodies(list(block.values())):
                yield Message.BLOCK, body
    if digester is not None:
        yield Message.DIGESTS, digester.finish().to_bytes()
    yield Message.COUNTS, json.dumps(counts).encode()


def _bodies(columns: list[Codes]) -> Iterator[bytes]:
    """Yield a block in pieces small enough that who receives one is soon done."""
    rows = max(1, _MESSAGE_BYTES // (4 * len(columns)))
    for start in range(0, len(columns[0]), rows):
        yield b"".join(codes[start : start + rows].tobytes() for codes in columns)
