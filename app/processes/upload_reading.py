"""Uploads as blocks of codes, read by a process that can be lost.

It is :mod:`app.processes.upload_reader_child`.

What such a process sends is not trusted either: a decoder that has been taken
over could send anything. Blocks are checked against the declaration, and only
the refusals that reading can have are passed on.

**Privacy.** As :mod:`app.uploads.ingest`: curators alone see the outcome.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import BinaryIO, Protocol

from app.domain.datasets import ColumnsSpec
from app.domain.problems import Problem
from app.domain.upload_problems import UploadReport
from app.processes.channel import READ_BYTES, Message, StarvedError, receive
from app.processes.forking import Forks
from app.uploads.people.wire import Field, arrays_of, fields_of
from app.uploads.reading_task import ReadingTask, Tally
from app.uploads.row_digests import MalformedError, RowDigests, key_name
from app.uploads.sources.feeding import reopened
from app.uploads.trouble import UNREADABLE, Trouble, Troubles
from mechanisms.domain import Values

_LOG = logging.getLogger(__name__)
_REFUSALS = ("invalid-upload", "too-large")
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}")


class Order(Protocol):
    """The order to a reader."""

    def to_json(self) -> bytes: ...


class UploadReader:
    """Reads uploads, each in a process of its own. Any number of threads may use it."""

    def __init__(self) -> None:
        self.forks = Forks("app.processes.upload_reader_child", quiet=True)

    @contextmanager
    def reading(
        self,
        stream: BinaryIO,
        task: Order,
        *,
        scratch: Path | None = None,
        spare: bool = False,
    ) -> Iterator[Connection]:
        """Have a file read, as long as some process holds the returned channel.

        In spare time alone, if requested. The file is read from its beginning; one without
        a descriptor is copied to ``scratch`` first.
        """
        with _file_of(stream, scratch) as file:
            descriptor = reopened(file.fileno())  # the reader may not write to it
            try:
                channel = self._started(descriptor, task, spare=spare)
            finally:
                os.close(descriptor)
        with channel:
            yield channel

    @contextmanager
    def reading_fed(
        self, task: ReadingTask, *, spare: bool = False
    ) -> Iterator[tuple[Connection, socket.socket]]:
        """Have files read as they are fed: give the channel, and the way to feed the reader.

        See :mod:`app.uploads.sources.feeding`.
        """
        feed, fed = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with feed:
            with fed:
                channel = self._started(fed.fileno(), task, spare=spare)
            with channel:
                yield channel, feed

    def _started(self, descriptor: int, task: Order, *, spare: bool) -> Connection:
        """Have a reader forked; return the channel to it."""
        ours, theirs = Pipe()
        with theirs:
            self.forks.order(descriptor, theirs.fileno(), spare=spare)
        with suppress(OSError):  # a reader that is gone already is noticed next
            ours.send_bytes(task.to_json())
        return ours

    def close(self) -> None:
        """End the process that starts readers; a later upload starts another."""
        self.forks.close()


SHARED = UploadReader()
"""The one a process needs, whatever it stores."""
atexit.register(SHARED.close)


def checked_blocks(
    channel: Connection, task: ReadingTask, spec: ColumnsSpec, tally: Tally, *, spare: bool = False
) -> Iterator[Mapping[str, Values]]:
    """Yield what :func:`app.uploads.ingest.ingest` would, once it is found sound.

    Parameters
    ----------
    channel
        Where the reader sends it.
    task
        The order to the reader.
    spec
        The columns of the task.
    tally
        Receives the report and the rows' digests after the last block.
    spare
        Whether the reader was to read in spare time.

    Raises
    ------
    Problem
        What ``ingest`` refuses. A reader that was lost to its limits is an ``invalid-upload`` too.
    StarvedError
        It was to read in spare time, and there is none.
    """
    received = partial(_received, channel, task.upload_limits().silence_s, spare=spare)
    fields = fields_of(spec)
    while (message := received())[0] in (Message.BLOCK, Message.READ):
        if message[0] is Message.READ:
            tally.read_bytes = int.from_bytes(message[1][:READ_BYTES])
        else:
            yield _block(message[1], fields)
    key = task.key()
    if message[0] is Message.DIGESTS and key is not None:
        tally.digests = _digests(message[1], key)
        message = received()
    tally.report = _outcome(*message, spec)


@contextmanager
def _file_of(stream: BinaryIO, scratch: Path | None) -> Iterator[BinaryIO]:
    """Give a file with a descriptor."""
    try:
        stream.fileno()
    except OSError:
        with tempfile.TemporaryFile(dir=scratch) as copy:
            stream.seek(0)
            shutil.copyfileobj(stream, copy)
            copy.flush()
            yield copy
    else:
        yield stream


def _received(channel: Connection, patience_s: float, *, spare: bool) -> tuple[Message, memoryview]:
    """Return the next message; a reader that is silent, gone or talks nonsense is unreadable."""
    try:
        return receive(channel, patience_s)
    except StarvedError:
        if spare:
            raise
        raise _unreadable() from None
    except (EOFError, OSError, ValueError):  # stopped by its own limits mostly
        raise _unreadable() from None


def _block(body: memoryview, fields: Mapping[str, Field]) -> Mapping[str, Values]:
    """Return a block, once every value is one that the declaration can give."""
    try:
        block = arrays_of(body, fields)
    except ValueError:
        raise _unreadable() from None
    # Values outside of what a column can have would break sums that are bounded by them.
    if not all(field.holds(block[name]) for name, field in fields.items()):
        raise _unreadable()
    return block


def _digests(body: memoryview, key: bytes) -> RowDigests:
    """Return the rows' digests, if they are of this form and under this key."""
    try:
        digests = RowDigests.from_bytes(bytes(body))
    except MalformedError:
        raise _unreadable() from None
    # Digests under another key would be compared with nothing, and overlap with none.
    if digests.key != key_name(key):
        raise _unreadable()
    return digests


def _outcome(message: Message, body: memoryview, spec: ColumnsSpec) -> UploadReport:
    """Return the report, or raise the refusal."""
    if message is Message.FAILED:
        # A name of a class and nothing else: a decoder's words may hold cells.
        name = str(body, "ascii", "replace")
        failure = name if _CLASS.fullmatch(name) else "unknown"
        _LOG.warning("upload unreadable", extra={"failure": failure})
        raise _unreadable()
    if message not in (Message.OUTCOME, Message.PROBLEM):
        raise _unreadable()
    outcome = json.loads(bytes(body))
    if message is Message.OUTCOME:
        try:
            return UploadReport.of(outcome, spec.in_file)
        except (ValueError, KeyError, TypeError):
            raise _unreadable() from None
    # A reader that was taken over could say any problem in the service's name.
    if outcome["code"] not in _REFUSALS:
        raise _unreadable()
    raise Problem(outcome["code"], outcome["detail"], **outcome["extras"])


def _unreadable() -> Problem:
    return Troubles([Trouble(UNREADABLE)]).refusal()
