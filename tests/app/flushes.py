"""What a power cut leaves of files that Python writes: what has been flushed, and nothing else.

SQLite and the anchor write by other means, and have a disk of their own in
:mod:`tests.app.disk`. Processes that are started meanwhile are not seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

Listing = dict[str, int]


@dataclass
class Flushes:
    """Remembers what every file and directory held when it was last flushed.

    Attributes
    ----------
    early
        Names that were given to what was not on disk yet.
    named
        All names that were given.
    """

    early: list[Path] = field(default_factory=list)
    named: list[Path] = field(default_factory=list)
    _flushed: dict[int, bytes | Listing] = field(default_factory=dict)
    _unsure: dict[int, set[str]] = field(default_factory=dict)

    def flush(self, path: Path) -> None:
        """Note that what is there now is on disk."""
        number = path.stat().st_ino
        self._flushed[number] = _held_by(path)
        self._unsure.pop(number, None)

    def name(self, new: Path, *, whole: bool) -> None:
        """Note that something has another name, and whether it was on disk before."""
        self.named.append(new)
        if not whole:
            self.early.append(new)
        self._unsure.setdefault(new.parent.stat().st_ino, set()).add(new.name)

    def is_whole(self, path: Path) -> bool:
        """Return whether a file, or a directory with all that is in it, is on disk as it is now."""
        if self._flushed.get(path.stat().st_ino) != _held_by(path):
            return False
        return not path.is_dir() or all(map(self.is_whole, path.iterdir()))

    def is_found(self, path: Path, *, within: Path) -> bool:
        """Return whether a power cut leaves a path, coming from a directory that was there."""
        while path != within:
            if self._names_in(path.parent).get(path.name) != path.stat().st_ino:
                return False
            path = path.parent
        return True

    def is_gone(self, path: Path) -> bool:
        """Return whether a power cut surely leaves a directory without this name."""
        number = path.parent.stat().st_ino
        flushed, unsure = self._flushed.get(number), self._unsure.get(number, ())
        return isinstance(flushed, dict) and path.name not in {*flushed, *unsure}

    def _names_in(self, directory: Path) -> Listing:
        flushed = self._flushed.get(directory.stat().st_ino)
        return flushed if isinstance(flushed, dict) else {}


def _held_by(path: Path) -> bytes | Listing:
    if not path.is_dir():
        return path.read_bytes()
    with os.scandir(path) as entries:
        return {entry.name: entry.inode() for entry in entries}


@contextmanager
def flushes() -> Iterator[Flushes]:
    """Note this process's flushes, and the names that it gives."""
    found = Flushes()
    with ExitStack() as held, pytest.MonkeyPatch.context() as patched:

        def flushing(flush: Callable[[int], None]) -> Callable[[int], None]:
            def noted(file: int) -> None:
                held.callback(os.close, os.dup(file))  # so that no other file gets its number
                flush(file)
                found.flush(Path(f"/proc/self/fd/{file}").readlink())

            return noted

        def naming(change: Callable[..., None]) -> Callable[..., None]:
            def noted(old: Any, new: Any, **options: Any) -> None:
                whole = found.is_whole(Path(old))
                change(old, new, **options)
                found.name(Path(new), whole=whole)

            return noted

        for kind in ("fsync", "fdatasync"):
            patched.setattr(os, kind, flushing(getattr(os, kind)))
        for kind in ("link", "rename", "replace"):
            patched.setattr(os, kind, naming(getattr(os, kind)))
        yield found
