"""Published files as they are read: every byte is checked against its hash first.

What the system cannot read differs from what is not as it was published: the
first may be over soon (:mod:`app.vault.stored`).

*What the vault may fail with. Messages name files, never contents.*

``VaultError``
    ``AbsentError``: there is no such data set.
    ``OutdatedError``: it was stored by an earlier version, which is not read any more.
    ``TamperedError``: a file is gone, or is not the one that was stored.
    ``UnreadableError``: a file is there, and the system does not give its bytes now.

Notes of uploads that are stored and wait for their sender's word, one file each.

::

    waiting/<data set>.<expires>.<owner>

A note is taken once: of two processes that remove its file one succeeds. What it says is private,
as the rows are that it is about, so it is a file next to them and no row of the database.

What long calculations of released numbers came to, one file each, for an hour.

::

    calculated/<key>          what it came to
    calculated/<key>.share    which share is done, written again and again as long as it goes on
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.domain.problems import DataUnreadableError

if TYPE_CHECKING:
    from numpy.typing import NDArray
import secrets
import shutil
import tempfile
import time
from contextlib import suppress

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
        _write_whole(self._file(note), content, flushed=True)
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


def _write_whole(path: Path, content: bytes, *, flushed: bool = False) -> None:
    """Write a file, whole or not at all, in a directory that is made if there is none."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        file.write(content)
        if flushed:
            file.flush()
            os.fsync(file.fileno())
    Path(file.name).rename(path)


# What long calculations of released numbers came to, one file each, for an hour

KEPT_S = 3600.0
MOST_KEPT = 32
"""Some hundred megabytes, if all are of a million cells."""
_GONE_S = 10.0
"""Who has not said for so long how far a calculation is makes it no more."""


class CalculatedFiles:
    """The outcomes below one data directory; ``calculated`` is made in it."""

    def __init__(self, data_dir: Path) -> None:
        self._directory = data_dir / "calculated"

    def put(self, key: str, content: bytes) -> None:
        """Keep what a calculation came to, and remove the oldest outcomes that are too many."""
        _write_whole(self._directory / key, content)
        self._clear()

    def read(self, key: str) -> bytes | None:
        """Return what a calculation came to, None if that is not known."""
        try:
            return (self._directory / key).read_bytes()
        except FileNotFoundError:
            return None

    def say(self, key: str, share: float) -> None:
        """Say which share of a calculation is done; again and again, as long as it goes on."""
        _write_whole(self._share(key), f"{share:.3f}".encode())

    def forget(self, key: str) -> None:
        """Say that a calculation goes on no more."""
        self._share(key).unlink(missing_ok=True)

    def share(self, key: str) -> float | None:
        """Return which share is done of a calculation, None if no process makes it."""
        try:
            said = self._share(key).stat().st_mtime
            share = float(self._share(key).read_bytes())
        except FileNotFoundError:
            return None
        return share if time.time() - said < _GONE_S else None

    def _share(self, key: str) -> Path:
        return self._directory / f"{key}.share"

    def _clear(self) -> None:
        found = []
        for file in self._directory.iterdir():
            with suppress(FileNotFoundError):  # another process has removed it
                found.append((file.stat().st_mtime, file))
        found.sort(reverse=True)
        for place, (since, file) in enumerate(found):
            if place >= MOST_KEPT or time.time() - since > KEPT_S:
                file.unlink(missing_ok=True)


# Published files as they are read: every byte is checked against its hash first


# What the vault may fail with. Messages name files, never contents


class VaultError(DataUnreadableError):
    """The vault cannot give what was asked; the message names files, never contents."""


class AbsentError(VaultError):
    """There is no such data set, or none any more."""


class OutdatedError(VaultError):
    """It was stored in a form of an earlier version."""


class TamperedError(VaultError):
    """A file is gone, or its bytes are not those that were published."""


class UnreadableError(VaultError):
    """The system does not open or read a file: no descriptor or memory is left, or a disk fails.

    It says nothing of the file, and may be over soon.
    """


def trouble_of(name: str, error: OSError | MemoryError) -> VaultError:
    """Return what has to be said of a stored file that could not be read."""
    gone = isinstance(error, FileNotFoundError | NotADirectoryError)
    return (TamperedError if gone else UnreadableError)(f"{name} cannot be read")


# Published files as they are read: every byte is checked against its hash first

_Seen = tuple[int, int, int, int]
_CHECKED: dict[tuple[Path, str], _Seen] = {}
"""What this process has hashed: a file and what it is to hash to, and what it looked like."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A published file and what its bytes must hash to."""

    path: Path
    size: int
    sha256: str

    def read(self) -> bytes:
        """Return the bytes, after checking them.

        Raises
        ------
        TamperedError
            The file is gone or differs from what was published.
        UnreadableError
            The system does not give it.
        """
        return self.checked(_bytes_of(self.path))

    def checked(self, content: bytes) -> bytes:
        """Return the bytes, if they are those that were published.

        Raises
        ------
        TamperedError
            They are not.
        """
        self._require(len(content), hashlib.sha256(content).hexdigest())
        return content

    def check(self) -> None:
        """Hash the file unless this process has already seen these very bytes.

        Raises
        ------
        TamperedError, UnreadableError
            As :meth:`read`.
        """
        _once(self.path, self.sha256, self._hash)

    def _hash(self) -> None:
        with _opened(self.path) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
        self._require(size, digest)

    def _require(self, size: int, digest: str) -> None:
        if (size, digest) != (self.size, self.sha256):
            raise TamperedError(f"{self.path.name} differs from what was published")


@dataclass(frozen=True, slots=True)
class StoredPiece:
    """A run of bytes in a published file, and what it must hash to."""

    run: StoredFile
    start: int

    def read(self) -> bytes:
        """Return the bytes, after checking them.

        Raises
        ------
        TamperedError
            The file is gone, or this run of it differs from what was published.
        UnreadableError
            The system does not give it.
        """
        return self.run.checked(_bytes_of(self.run.path, self.start, self.run.size))


Attached = StoredFile | StoredPiece


@dataclass(frozen=True, slots=True)
class StoredPart:
    """One part: a run of rows, in stored order."""

    file: StoredFile
    rows: int

    def read(self, columns: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return the named columns, each of shape (rows,), in the types they were written in.

        Raises
        ------
        TamperedError, UnreadableError
            As :meth:`StoredFile.read`.
        """
        import polars as pl  # noqa: PLC0415 - only who reads rows waits for it to load

        self.file.check()
        try:
            frame = pl.read_parquet(self.file.path, columns=list(columns), glob=False)
            return {name: frame[name].to_numpy() for name in columns}
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # its panics are no exceptions
            # the bytes are those that were published: the system does not let them be read
            raise UnreadableError(f"{self.file.path.name} cannot be read") from None


@dataclass(frozen=True, slots=True)
class StoredDataset:
    """A published data set: its facts, its parts in order, its attached files by name."""

    id: str
    rows: int
    facts: Mapping[str, Any]
    parts: tuple[StoredPart, ...]
    attached: Mapping[str, Attached]

    def check(self) -> None:
        """Hash every file that this process has not yet seen as it is now.

        Raises
        ------
        TamperedError, UnreadableError
            As :meth:`StoredFile.read`.
        """
        for part in self.parts:
            part.file.check()
        for path, files in self._attached_by_path().items():
            wanted = hashlib.sha256("".join(_sha256_of(each) for each in files).encode())
            _once(path, wanted.hexdigest(), partial(self._verify_attached, path, files))

    def verify(self) -> None:
        """Read and hash everything.

        Raises
        ------
        TamperedError, UnreadableError
            As :meth:`StoredFile.read`.
        """
        for part in self.parts:
            part.file.read()
        for path, files in self._attached_by_path().items():
            self._verify_attached(path, files)

    def _attached_by_path(self) -> Mapping[Path, Sequence[Attached]]:
        found: dict[Path, list[Attached]] = {}
        for file in self.attached.values():
            path = file.run.path if isinstance(file, StoredPiece) else file.path
            found.setdefault(path, []).append(file)
        return found

    @staticmethod
    def _verify_attached(path: Path, files: Sequence[Attached]) -> None:
        for file in files:
            file.read()
        last = files[-1]
        end = last.start + last.run.size if isinstance(last, StoredPiece) else last.size
        if _look_of(path)[1] != end:
            raise TamperedError(f"{path.name} differs from what was published")


def _sha256_of(file: Attached) -> str:
    return file.run.sha256 if isinstance(file, StoredPiece) else file.sha256


def _once(path: Path, wanted: str, check: Callable[[], None]) -> None:
    """Check a file unless this process has checked it for the same, and it looks the same."""
    # Before it is hashed: what is written to it in between makes it look different next time.
    seen = _look_of(path)
    if _CHECKED.get((path, wanted)) != seen:
        check()
        _CHECKED[path, wanted] = seen


def _look_of(path: Path) -> _Seen:
    try:
        stat = path.stat()
    except OSError as error:
        raise trouble_of(path.name, error) from None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a file for reading; raise every failure as an error of the vault."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except (OSError, MemoryError) as error:
        raise trouble_of(path.name, error) from None


def _bytes_of(path: Path, start: int = 0, size: int = -1) -> bytes:
    with _opened(path) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as file:
        file.seek(start)
        return file.read(size)
