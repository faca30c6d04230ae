"""What is said between the process that opens a source's files and the one that reads them.

A pair of connected sockets that keep messages apart. The reader asks for the next file, and gets
one message with the file's descriptor, or one without that says there are no more. So few files
are open at a time, and the reader, which is not believed, is given nothing to open by name.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from app.domain.sources import Partitions

_NEXT = b"next"
_MOST_BYTES = 1 << 17  # a file's number, and the names of its folders


@dataclass(frozen=True, slots=True)
class FileOfMany:
    """One file of an upload, at its start.

    ``number`` counts from 1 where there are several, and is None where there is one.
    ``partitions`` are the declared columns that its folders give. With ``by_ranges`` it is read
    by ranges of bytes where its format allows that.
    """

    stream: BinaryIO
    number: int | None = None
    partitions: Partitions = field(default_factory=dict)
    by_ranges: bool = False


class FedError(Exception):
    """The other end has left."""


def fed_files(end: socket.socket) -> Iterator[FileOfMany]:
    """Yield the files that the other end feeds; each is closed when the next one is asked for.

    Raises
    ------
    FedError
        The other end has given up.
    """
    while True:
        order, descriptors = _asked(end)
        if not descriptors:
            if order.get("end"):
                return
            raise FedError
        with os.fdopen(descriptors[0], "rb", buffering=0) as stream:
            yield FileOfMany(stream, order["number"], order["partitions"], by_ranges=True)


def _asked(end: socket.socket) -> tuple[Mapping[str, Any], list[int]]:
    try:
        end.send(_NEXT)
        message, descriptors, _, _ = socket.recv_fds(end, _MOST_BYTES, 1)
    except OSError:
        raise FedError from None
    return (json.loads(message) if message else {}), descriptors


def wait_until_asked(end: socket.socket) -> None:
    """Wait until the reader asks for the next file.

    Raises
    ------
    FedError
        It has left.
    """
    try:
        asked = end.recv(len(_NEXT))
    except OSError:
        raise FedError from None
    if asked != _NEXT:
        raise FedError


def feed_file(
    end: socket.socket, descriptor: int, *, number: int | None, partitions: Partitions
) -> None:
    """Give the reader a file, to read and with a position of its own.

    It is opened again here: the reader may open nothing, and a position that others move is none.
    """
    order = json.dumps({"number": number, "partitions": dict(partitions)}).encode()
    opened = reopened(descriptor)
    try:
        socket.send_fds(end, [order], [opened])
    finally:
        os.close(opened)


def reopened(descriptor: int) -> int:
    """Open an open file again, for reading alone."""
    return os.open(f"/dev/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)


def feed_end(end: socket.socket) -> None:
    """Signal to the reader that there are no more files."""
    end.send(json.dumps({"end": True}).encode())
