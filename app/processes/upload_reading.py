"""Uploads as blocks of codes, read by a process that can be lost.

It is :mod:`app.processes.upload_reader`.

What such a process sends is not trusted either: a decoder that has been taken
over could send anything. Blocks are checked against the declaration, and only
the refusals that reading can have are passed on.

**Privacy.** As :mod:`app.uploads.ingest`: curators alone see the outcome.

*Drafts of uploads, made by the same process.* A file and a dictionary are hostile until they have
been read, so both are read where a decoder that is taken over finds no network, no file to write
and little memory. What comes back is checked, and shown to the curator alone whose file it is.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import BinaryIO

from app.domain.datasets import ColumnsSpec
from app.domain.problems import Problem, invalid_request
from app.domain.upload_reports import UploadReport
from app.processes.channel import READ_BYTES, Message, StarvedError, problem_of, receive
from app.processes.program import HOSTS, Forks, begun
from app.uploads.drafting.drafts import Draft, DraftingTask, draft_in
from app.uploads.people.wire import Field, arrays_of, fields_of
from app.uploads.row_digests import MalformedError, RowDigests, key_name
from app.uploads.sources.feeding import reopened
from app.uploads.storing import ReadingTask, Tally
from app.uploads.trouble import UNREADABLE, Limits, Trouble, Troubles
from mechanisms.domain import Values

_LOG = logging.getLogger(__name__)
_REFUSALS = ("invalid-upload", "too-large")
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}")


class UploadReader:
    """Reads uploads, each in a process of its own. Any number of threads may use it.

    Parameters
    ----------
    forks
        Where its processes come from.
    """

    def __init__(self, forks: Forks) -> None:
        self.forks = forks

    @contextmanager
    def reading(
        self,
        stream: BinaryIO,
        task: ReadingTask | DraftingTask,
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
                channel = begun(self.forks, task.to_json(), descriptor, spare=spare)
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
                channel = begun(self.forks, task.to_json(), fed.fileno(), spare=spare)
            with channel:
                yield channel, feed


SHARED = UploadReader(HOSTS["read"])
"""The one a process needs, whatever it stores."""


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


# Drafts of uploads, made by the same process

_PATIENCE_S = 60.0
_OF_DRAFTS = ("invalid-request", "too-large")


class DraftingProcesses:
    """Drafts specs, each in a process of its own. Any number of threads may use it.

    Parameters
    ----------
    limits
        What a file may cost.
    scratch
        Where a file without a descriptor is copied to.
    """

    def __init__(self, *, limits: Limits, scratch: Path) -> None:
        self._limits = limits
        self._scratch = scratch

    def draft(self, file: BinaryIO, name: str, dictionary: bytes = b"") -> Draft:
        """Return the draft of a file, by its first megabyte and a dictionary.

        Raises
        ------
        Problem
            ``invalid-request``, about ``file`` or ``dictionary``; ``too-large``.
        """
        task = DraftingTask(name=name, limits=self._limits, dictionary=dictionary)
        try:
            with SHARED.reading(file, task, scratch=self._scratch) as channel:
                message, body = receive(channel, _PATIENCE_S)
            if message is Message.OUTCOME:
                return draft_in(bytes(body))
            if message is Message.PROBLEM:
                problem = problem_of(bytes(body))
                if problem.code in _OF_DRAFTS:
                    raise problem
        except Problem:
            raise
        except (EOFError, OSError, ValueError, KeyError, TypeError):
            pass  # it was stopped by its limits mostly
        raise invalid_request("file", UNREADABLE)
