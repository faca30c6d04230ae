"""Messages between a process and its parent, and their framing.

A *channel* is one end of a pair of connected sockets. A frame is what
:class:`multiprocessing.connection.Connection` makes of some bytes: them, after their
length in four bytes. An event loop, which has no such thing, makes the same of them by
:func:`framed` and :class:`Frames`.

What frames hold depends on who is believed. Between ends that are both ours it is
pickled. A process that reads uploads is not believed: it gets and says JSON and
codes, in *messages* of one byte that says what it is (:class:`Message`) and a body.
"""

from __future__ import annotations

import json
import os
import pickle
import struct
import threading
from collections.abc import Sequence
from enum import IntEnum
from multiprocessing.connection import Connection
from typing import Any

from app.domain.problems import Problem, ProcessLostError

_LENGTH = struct.Struct("!i")
_HEAD = struct.Struct("!iB")
_MAX_MESSAGE_BYTES = 1 << 24  # a sender that is not in order must not fill the reader's memory
_MOST_PIECES = 1 << 10  # that the system takes at once
READ_BYTES = 8
"""Of which a number of bytes is a message."""
SHARE_PARTS = 255
_SENDING = threading.Lock()


class Message(IntEnum):
    """What a message's body is."""

    BLOCK = 0
    """The declared columns' values, one column after the other."""
    OUTCOME = 1
    """What the work came to, JSON or (of calculations) pickled; the last message."""
    PROBLEM = 2
    """JSON: code, detail and extras of a refusal; the last message."""
    FAILED = 3
    """A reader says the class of an exception that is none of ours, others nothing; the last."""
    DIGESTS = 4
    """:class:`app.uploads.row_digests.RowDigests`, if the task has a key; before the outcome."""
    STARVED = 5
    """There is no spare time; the last message, which :func:`receive` raises."""
    READ = 6
    """How many bytes a reader has read by the end of the next block."""
    SHARE = 7
    """Which share of a calculation is done; :data:`SHARE_PARTS` are all of it."""


class StarvedError(ProcessLostError):
    """No time was left for a process in spare time, and it has left."""


def send(channel: Connection, message: Message, *body: bytes | memoryview) -> None:
    """Send a message, whole: a process's other thread may have one to send too.

    ``body`` may be in pieces, each of bytes.
    """
    # not put together first: a block is long
    head = _HEAD.pack(1 + sum(map(len, body)), message)
    left = [memoryview(piece) for piece in (head, *body)]
    # A frame is more than one write: two threads' frames must not mix.
    with _SENDING:
        while left:
            written = os.writev(channel.fileno(), left[:_MOST_PIECES])
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if left:
                left[0] = left[0][written:]


def receive(
    channel: Connection,
    patience_s: float | None = None,
    *,
    most: int | None = _MAX_MESSAGE_BYTES,
) -> tuple[Message, memoryview]:
    """Return the next message, unless the other end is silent for too long.

    ``most`` bytes are taken, any number if None: for one whose messages follow from ours.

    Raises
    ------
    OSError, EOFError, ValueError
        It is silent or gone, or this is no message.
    StarvedError
        It leaves, for want of spare time.
    """
    if not channel.poll(patience_s):
        raise TimeoutError
    descriptor = channel.fileno()
    head = bytearray(_HEAD.size)
    _fill(descriptor, memoryview(head))
    length, kind = _HEAD.unpack(head)
    # Bounded: the other end may be one that a hostile file has taken over.
    if length < 1 or (most is not None and length > most):
        raise ValueError("a message of another length")
    body = memoryview(bytearray(length - 1))
    _fill(descriptor, body)
    message = Message(kind)
    if message is Message.STARVED:
        raise StarvedError
    return message, body


def _fill(descriptor: int, room: memoryview) -> None:
    """Read as much as there is room for."""
    while room:
        read = os.readv(descriptor, [room])
        if not read:
            raise EOFError
        room = room[read:]


def problem_json(problem: Problem) -> bytes:
    """Return the body of a refusal's message."""
    fields = {"code": problem.code, "detail": problem.detail, "extras": problem.extras}
    return json.dumps(fields).encode()


def problem_of(body: bytes) -> Problem:
    """Return the refusal in a message's body."""
    fields = json.loads(body)
    return Problem(fields["code"], fields["detail"], **fields["extras"])


def pickled(content: object) -> bytes:
    """Return an object as it is sent between ends that are both ours."""
    return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)


def unpickled(frame: bytes | memoryview) -> Any:
    """Return the inverse of :func:`pickled`."""
    return pickle.loads(frame)  # noqa: S301 - from a process of ours


def framed(content: bytes) -> bytes:
    """Return bytes as a frame."""
    return _LENGTH.pack(len(content)) + content


class Frames:
    """Takes frames out of what comes in pieces."""

    def __init__(self) -> None:
        self._received = bytearray()

    def add(self, piece: bytes) -> Sequence[bytes]:
        """Take in the next piece, and return what the frames hold that are whole by now."""
        self._received += piece
        frames: list[bytes] = []
        while len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            end = _LENGTH.size + length
            if len(self._received) < end:
                break
            frames.append(bytes(self._received[_LENGTH.size : end]))
            del self._received[:end]
        return frames
