"""Uploads as blocks of codes, read by a process that can be lost (:mod:`app.engine.reader`).

What such a process sends is not trusted either: a decoder that has been taken
over could send anything. Blocks are checked against the declaration, and only
the refusals that reading can have are passed on.

**Privacy.** As :mod:`app.engine.ingest`: curators alone see the outcome.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import BinaryIO

import numpy as np

from app.domain.datasets import CategorySpec, ColumnSpec, ColumnsSpec
from app.domain.problems import Problem
from app.engine.cells import Codes
from app.engine.limits import Limits
from app.engine.reader import Message, Task
from app.engine.row_digests import MalformedError, RowDigests, key_name
from app.engine.trouble import UNREADABLE, Trouble, Troubles
from mechanisms.domain import CODE_MAX

_LOG = logging.getLogger(__name__)
_REFUSALS = ("invalid-upload", "too-large")
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from app.engine.reader import host
host(int(sys.argv[2]))
"""
_MAX_THREADS = 4
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}")
_MAX_MESSAGE_BYTES = 1 << 24


@dataclass(slots=True)
class Lineage:
    """The key that rows are digested under, and then their digests."""

    key: bytes
    digests: RowDigests | None = None


class UploadReader:
    """Reads uploads, each in a process of its own. Any number of threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # by process: a forked one does not use its parent's
        self._hosts: dict[int, _Host] = {}

    def blocks(
        self,
        stream: BinaryIO,
        spec: ColumnsSpec,
        *,
        limits: Limits,
        scratch: Path | None = None,
        counts: Counter[str] | None = None,
        lineage: Lineage | None = None,
    ) -> Iterator[Mapping[str, Codes]]:
        """Yield what :func:`app.engine.ingest.ingest` would, and refuse what it would.

        Parameters
        ----------
        stream
            The uploaded file. One without a descriptor is copied to ``scratch`` first.
        spec, limits, counts
            As there; ``counts`` is filled after the last block.
        lineage
            Receives the rows' digests after the last block.

        Raises
        ------
        Problem
            As there. A reader that was lost to its limits is an ``invalid-upload`` too.
        """
        with ExitStack() as held:
            file = held.enter_context(_file_of(stream, scratch))
            channel = held.enter_context(self._reader(file.fileno()))
            task = Task.of(spec, limits, lineage_key=None if lineage is None else lineage.key)
            with suppress(OSError):  # a reader that is gone already is noticed next
                channel.send_bytes(json.dumps(asdict(task)).encode())
            while (message := _received(channel, limits.silence_s))[0] is Message.BLOCK:
                yield _block(message[1], spec)
            if message[0] is Message.DIGESTS and lineage is not None:
                lineage.digests = _digests(message[1], lineage.key)
                message = _received(channel, limits.silence_s)
        found = _outcome(*message)
        if counts is not None:
            counts.update(found)

    def close(self) -> None:
        """Let go of the process that starts readers; a later upload starts another."""
        with self._lock:
            self._drop()

    @contextmanager
    def _reader(self, file: int) -> Iterator[Connection]:
        """Have a file read for as long as the block lasts; the reader ends with its channel."""
        ours, theirs = Pipe()
        with ours:
            with theirs:
                self._order(file, theirs.fileno())
            yield ours

    def _order(self, file: int, channel: int) -> None:
        with self._lock:
            try:
                self._host().order(file, channel)
            except OSError:  # the host was lost since the last upload
                self._drop()
                self._host().order(file, channel)

    def _host(self) -> _Host:
        return self._hosts.get(os.getpid()) or self._hosts.setdefault(os.getpid(), _Host.start())

    def _drop(self) -> None:
        if (host := self._hosts.pop(os.getpid(), None)) is not None:
            host.stop()


SHARED = UploadReader()
"""The one a process needs, whatever it stores."""
atexit.register(SHARED.close)


@dataclass(frozen=True, slots=True)
class _Host:
    """The process that starts readers, and the way to it."""

    orders: socket.socket
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls) -> _Host:
        """Start one.

        It gets nothing of this process but the module path, has nowhere to
        print to, and does not hear the terminal's Ctrl-C: uploads under way are
        read to their end.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            modules = json.dumps([str(Path(entry).absolute()) for entry in sys.path])
            threads = max(1, min(_MAX_THREADS, (os.cpu_count() or 2) // 2))
            process = subprocess.Popen(  # noqa: S603 - fixed words, this interpreter
                [sys.executable, "-I", "-c", _START, modules, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={"POLARS_MAX_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        return cls(ours, process)

    def order(self, file: int, channel: int) -> None:
        """Have a reader started for a file and its channel."""
        socket.send_fds(self.orders, [b"r"], [file, channel])

    def stop(self) -> None:
        """End the process; readers that run are not touched."""
        self.orders.close()
        self.process.kill()
        self.process.wait()


@contextmanager
def _file_of(stream: BinaryIO, scratch: Path | None) -> Iterator[BinaryIO]:
    """Give a file with a descriptor."""
    try:
        stream.fileno()
    except OSError:
        with tempfile.TemporaryFile(dir=scratch) as copy:
            shutil.copyfileobj(stream, copy)
            copy.flush()
            yield copy
    else:
        yield stream


def _received(channel: Connection, patience_s: float) -> tuple[Message, memoryview]:
    """Return the next message; a reader that is silent, gone or talks nonsense is unreadable."""
    try:
        if not channel.poll(patience_s):
            raise _unreadable()
        content = channel.recv_bytes(_MAX_MESSAGE_BYTES)
        return Message(content[0]), memoryview(content)[1:]
    except (EOFError, OSError, ValueError, IndexError):  # stopped by its own limits mostly
        raise _unreadable() from None


def _block(body: memoryview, spec: ColumnsSpec) -> Mapping[str, Codes]:
    """Return a block, once every code is one that the declaration can give."""
    try:
        codes = np.frombuffer(body, dtype=np.int32).reshape(len(spec.columns), -1)
    except ValueError:
        raise _unreadable() from None
    for column, own in zip(spec.columns.values(), codes, strict=True):
        low, high = _range(column)
        if len(own) and not low <= int(own.min()) <= int(own.max()) <= high:
            raise _unreadable()
    return dict(zip(spec.columns, codes, strict=True))


def _range(column: ColumnSpec) -> tuple[int, int]:
    match column:
        case CategorySpec():
            return 0, len(column.values) - 1
    return -CODE_MAX, CODE_MAX


def _digests(body: memoryview, key: bytes) -> RowDigests:
    """Return the rows' digests, if they are of this form and under this key."""
    try:
        digests = RowDigests.from_bytes(bytes(body))
    except MalformedError:
        raise _unreadable() from None
    if digests.key != key_name(key):
        raise _unreadable()
    return digests


def _outcome(message: Message, body: memoryview) -> dict[str, int]:
    """Return the counts, or raise the refusal."""
    if message is Message.FAILED:
        name = str(body, "ascii", "replace")
        failure = name if _CLASS.fullmatch(name) else "unknown"
        _LOG.warning("upload unreadable", extra={"failure": failure})
        raise _unreadable()
    if message not in (Message.COUNTS, Message.PROBLEM):
        raise _unreadable()
    told = json.loads(bytes(body))
    if message is Message.COUNTS:
        return {name: int(count) for name, count in told.items()}
    if told["code"] not in _REFUSALS:
        raise _unreadable()
    raise Problem(told["code"], told["detail"], **told["extras"])


def _unreadable() -> Problem:
    return Troubles([Trouble(None, None, UNREADABLE)]).refusal()
