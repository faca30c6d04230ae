"""Handing a source's files to the process that reads them, and noting what they were.

This runs in a thread, in parallel with the storing of what has been read: while the reader is at
one file, the one before is looked at again and the next one is opened and digested.

*No other content.* Each file is digested before the reader gets it and again once the reader is
done with it, and looks the same both times; the names are listed again at the end. So what the
reader saw is what the digests are of, or the source is refused.

*What is said between the process that opens a source's files and the one that reads them.* A pair
of connected sockets that keep messages apart. The reader asks for the next file, and gets one
message with the file's descriptor, or one without that says there are no more. So few files are
open at a time, and the reader, which is not believed, is given nothing to open by name.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from app.domain.problems import Problem
from app.domain.sources import InvalidSourceError, Partitions, Path, Source, partitions_of
from app.uploads.sources.places import Opened, Place, changed, unreadable

# What is said between the process that opens a source's files and the one that reads them

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


# Handing a source's files to the process that reads them, and noting what they were

COPY = "copy"
"""Encoded rows go to the vault, and the source is not read again."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a file of a source was when it was read."""

    path: Path
    size: int
    sha256: str
    etag: str | None

    def to_json(self) -> dict[str, object]:
        """Return the note as the manifest keeps it."""
        fields = {"path": "/".join(self.path), "bytes": self.size, "sha256": self.sha256}
        return fields if self.etag is None else {**fields, "etag": self.etag}


class Feeder:
    """Feeds a reader with the files of a source, in a thread of its own.

    Parameters
    ----------
    source
        Which files.
    place
        Where they are.
    end
        The way to the reader.
    columns
        The declared columns, which folders may give.
    """

    def __init__(
        self, source: Source, place: Place, end: socket.socket, columns: Collection[str]
    ) -> None:
        self._source = source
        self._place = place
        self._end = end
        self._columns = columns
        self._notes: list[Note] = []
        self._bytes = 0
        self._listed_bytes = 0
        self._held: list[Opened] = []
        self._stopped = threading.Event()
        self._complete = False
        self._thread = threading.Thread(target=self._run, name="feeding", daemon=True)
        self.failure: Exception | None = None

    def facts(self) -> Mapping[str, object]:
        """Return what the manifest keeps of the source, once the reader has had all of it.

        Raises
        ------
        Problem
            ``source-unreadable``: it has not.
        """
        if not self._complete:
            raise unreadable("not all of it was read")
        files = [note.to_json() for note in self._notes]
        return {"source": {"url": self._source.url, "mode": COPY, "files": files}}

    @property
    def total_bytes(self) -> int:
        """Return how many bytes the files have, as far as that is known."""
        return max(self._bytes, self._listed_bytes)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, whether or not all has been fed."""
        self._stopped.set()
        with suppress(OSError):  # the reader has left already
            self._end.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._end.close()

    def _run(self) -> None:
        try:
            self._feed()
        except FedError:
            pass  # the reader reports why it left
        except Exception as error:
            self.failure = error
        finally:
            for opened in self._held:
                opened.close()
            with suppress(OSError):
                self._end.shutdown(socket.SHUT_RDWR)

    def _feed(self) -> None:
        found = self._place.found()
        paths, self._listed_bytes = list(found), sum(found.values())
        for number, path in enumerate(paths, 1):
            partitions = self._partitions(path)
            opened = self._opened(path)
            wait_until_asked(self._end)
            place = number if len(paths) > 1 else None
            feed_file(self._end, opened.descriptor, number=place, partitions=partitions)
            if number > 1:
                self._confirm()
        wait_until_asked(self._end)
        self._confirm()
        if list(self._place.found()) != paths:
            raise changed()
        self._complete = True
        feed_end(self._end)

    def _partitions(self, path: Path) -> Partitions:
        try:
            found = partitions_of(path)
        except InvalidSourceError as error:
            raise unreadable(str(error)) from None
        return {key: value for key, value in found.items() if key in self._columns}

    def _opened(self, path: Path) -> Opened:
        """Open the next file, and note what it is."""
        opened = self._place.opened(path)
        self._held.append(opened)
        self._bytes += opened.look.size
        if self._bytes > self._source.max_bytes:
            most = self._source.max_bytes
            raise Problem(
                "too-large",
                f"The source is above max_source_bytes ({most}).",
                limit="max_source_bytes",
                maximum=most,
            )
        size, sha256 = self._digest(opened)
        self._notes.append(Note(path, size, sha256, opened.etag))
        return opened

    def _confirm(self) -> None:
        """Be done with the file that was fed first of those held, if it is what it was."""
        opened = self._held[0]
        note = self._notes[-len(self._held)]
        same = opened.look_again() == opened.look
        if not same or self._digest(opened) != (note.size, note.sha256):
            raise changed()
        self._held.pop(0).close()

    def _digest(self, opened: Opened) -> tuple[int, str]:
        """Return how many bytes a file has, and their SHA-256."""
        digest, size = hashlib.sha256(), 0
        for piece in opened.pieces():
            if self._stopped.is_set():
                raise FedError
            digest.update(piece)
            size += len(piece)
            if size > opened.look.size:
                raise changed()
        return size, digest.hexdigest()


@contextmanager
def feeding(
    source: Source, place: Place, end: socket.socket, columns: Collection[str]
) -> Iterator[Feeder]:
    """Feed a reader for the block; what made the feeding fail is what the block fails with.

    Raises
    ------
    Problem
        ``source-unreadable``, ``source-changed`` or ``too-large``; or what the block raises.
    """
    feeder = Feeder(source, place, end, columns)
    feeder.start()
    try:
        yield feeder
    except Problem:
        feeder.stop()
        if feeder.failure is not None:
            raise feeder.failure from None
        raise
    finally:
        feeder.stop()
        place.close()
