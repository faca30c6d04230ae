"""Notes of uploads that are stored and wait for their sender's word, one file each.

::

    waiting/<data set>.<expires>.<owner>

A note is taken once: of two processes that remove its file one succeeds. What it says is private,
as the rows are that it is about, so it is a file next to them and no row of the database.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Directories of uploads in progress


def staged(staging: Path, dataset_id: str) -> Path:
    """Return a new directory for a data set, of whose id a file's name can be made."""
    directory = staging / f"{dataset_id}-{secrets.token_hex(8)}"
    directory.mkdir(mode=0o700)
    return directory


def discard(directory: Path) -> None:
    """Remove a directory that somebody may still write to, who finds it no more."""
    aside = directory.with_name(f"{directory.name}-left")
    with suppress(OSError):
        directory.rename(aside)
    for each in (aside, directory):
        shutil.rmtree(each, ignore_errors=True)


# Files that no other user may read, and are on disk before the service goes on


def private(path: str, flags: int) -> int:
    """Open a file that no other user of the machine may read; an ``opener`` of :func:`open`."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def flush(path: Path) -> None:
    """Flush a file's content, or a directory's names.

    Raises
    ------
    OSError
        It is not there, or the disk does not take it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Notes of uploads that are stored and wait for their sender's word, one file each

_PARTS = 3


@dataclass(frozen=True, slots=True)
class WaitingNote:
    """Which upload waits, until when (ms since 1970), and the digest of its sender's name."""

    dataset: str
    expires_ms: int
    owner: str


class WaitingFiles:
    """The notes below one data directory; ``waiting`` is made in it."""

    def __init__(self, data_dir: Path) -> None:
        self._directory = data_dir / "waiting"

    def put(self, note: WaitingNote, content: bytes) -> None:
        """Write a note, whole or not at all."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._directory, prefix=".", delete=False) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).rename(self._file(note))
        flush(self._directory)

    def all(self) -> Sequence[WaitingNote]:
        """Return every note, those whose time is over too."""
        found = (file.name.split(".") for file in self._directory.glob("[!.]*"))
        return [
            WaitingNote(dataset, int(expires), owner)
            for dataset, expires, owner in (each for each in found if len(each) == _PARTS)
        ]

    def read(self, note: WaitingNote) -> bytes | None:
        """Return what a note says, None once it is taken."""
        try:
            return self._file(note).read_bytes()
        except FileNotFoundError:
            return None

    def take(self, note: WaitingNote) -> bool:
        """Remove a note, and return whether this did it."""
        try:
            self._file(note).unlink()
        except FileNotFoundError:
            return False
        return True

    def sweep(self) -> None:
        """Remove files that were cut off while they were written; for a process that is alone."""
        for file in self._directory.glob(".*"):
            file.unlink(missing_ok=True)

    def _file(self, note: WaitingNote) -> Path:
        return self._directory / f"{note.dataset}.{note.expires_ms}.{note.owner}"
