"""Notes of uploads that are stored and wait for their sender's word, one file each.

::

    waiting/<data set>.<expires>.<owner>

A note is taken once: of two processes that remove its file one succeeds. What it says is private,
as the rows are that it is about, so it is a file next to them and no row of the database.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.vault.flushing import flush

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
