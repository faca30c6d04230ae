"""What keeps a data directory to one server and to one ledger.

The operating system's lock belongs to the open file, so it goes with the
process however that ends; a lock file left behind by a killed server locks nothing.

The directory remembers its ledger's id: another ledger's rows mean nothing to a
database, so the two do not go together unless an operator reconciles them.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import time
from functools import partial
from pathlib import Path

from app.store.errors import DirectoryLockedError, StoreError

_LOG = logging.getLogger(__name__)

LOCK_NAME = "server.lock"
LEDGER_NAME = "ledger.id"

_SHARE_TIMEOUT_S = 30.0  # so long the first server may take to clear away what a crash left


def was_served(database: Path) -> bool:
    """Return whether any process has opened this SQLite file for writing, where it lies now.

    The lock file that says so stays when a server ends, and no backup has it.
    """
    return _lock_beside(database.resolve()).exists()


def _lock_beside(database: Path) -> Path:
    return database.with_name(f"{database.name}.lock")


_OWN = (LOCK_NAME, LEDGER_NAME, "receipts.key", "datasets", "release-desk.db", "anchor")
"""What shows that a directory is a service's: no other one is changed."""


def keep_private(place: Path) -> None:
    """Take a file or directory of the service away from all other users of this machine.

    One of another owner, such as a volume that is ours by its group, stays as it is.

    Raises
    ------
    StoreError
        Others may open it, and it is not ours to change.
    """
    found = place.stat()
    mode = stat.S_IMODE(found.st_mode)
    private = mode & stat.S_IRWXU
    if found.st_uid != os.geteuid():
        if mode & stat.S_IRWXO:
            raise StoreError(
                f"{place} belongs to another user, and everyone on this machine may open it (mode "
                f"{mode:04o}). Run `chmod o-rwx {place}` as its owner, or choose another place"
            )
        return
    if mode == private:
        return
    if place.is_dir() and _is_of_others({each.name for each in place.iterdir()}):
        raise StoreError(
            f"other users of this machine may open {place} (mode {mode:04o}), and it holds files "
            f"of others. Choose an empty directory, or run `chmod 700 {place}`"
        )
    place.chmod(private)
    _LOG.warning(
        "other users of this machine could open this, and no longer can",
        extra={"path": str(place)},
    )


def _is_of_others(names: set[str]) -> bool:
    """Return whether a directory that holds these is none of a service's, and not an empty one."""
    return bool(names - {"lost+found"}) and names.isdisjoint(_OWN)


class DatabaseLock:
    """An exclusive lock on an SQLite file, by means of a file next to it.

    Two data directories may name one database; it still has one writer. (The
    file itself is SQLite's to lock: closing it here would undo its locks.)

    Raises
    ------
    DirectoryLockedError
        Somebody holds it already.
    StoreError
        The file cannot be made or written to.
    """

    def __init__(self, database: Path) -> None:
        path = database.resolve()
        try:
            self._descriptor = os.open(
                _lock_beside(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
            if not path.exists():  # SQLite would make it readable to all
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise StoreError(f"the database {path} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise DirectoryLockedError(
                f"another Release Desk server is running on the database {path}: "
                "only one may write there. Stop it, or choose another database."
            ) from error

    def release(self) -> None:
        """Give the database free."""
        os.close(self._descriptor)


class DirectoryLock:
    """A lock on a directory, held until released or the process ends.

    It is exclusive, unless ``shared``: then the first process has the directory
    to itself until it calls :meth:`share`, and the others wait for that.

    Attributes
    ----------
    alone
        Whether no other process had the file open when the lock was taken.

    Raises
    ------
    DirectoryLockedError
        Somebody holds it already, and does not share it.
    StoreError
        The directory cannot be made or written to.
    """

    def __init__(self, directory: Path, *, shared: bool = False) -> None:
        self._note = directory / LEDGER_NAME
        self._shared = shared
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            keep_private(directory)
            self._descriptor = os.open(
                directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise StoreError(
                f"the data directory {directory} cannot be used: {error.strerror}"
            ) from error
        try:
            self.alone = self._take()
        except OSError as error:
            os.close(self._descriptor)
            raise DirectoryLockedError(
                f"another Release Desk server is running on {directory}: "
                "only one may write there. Stop it, or choose another data directory."
            ) from error

    def _take(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if not self._shared:
                raise
        else:
            return True
        # The first process keeps it until it has cleared away what a crash left.
        deadline = time.monotonic() + _SHARE_TIMEOUT_S
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return False

    def share(self) -> None:
        """Let others in that share; nothing happens on an exclusive lock."""
        if self._shared:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def belongs_to(self, ledger: str) -> bool:
        """Return whether this is a ledger's directory; the first ledger makes it its own.

        Raises
        ------
        StoreError
            The directory cannot be written to.
        """
        try:
            if self._note.exists():
                return self._note.read_text().strip() == ledger
        except OSError as error:
            raise self._unusable(error) from error
        self.give_to(ledger)
        return True

    def give_to(self, ledger: str) -> None:
        """Note whose directory this is from now on.

        Raises
        ------
        StoreError
            The directory cannot be written to.
        """
        try:
            fresh = self._note.with_suffix(".new")
            with open(fresh, "w", opener=partial(os.open, mode=0o600)) as file:
                file.write(ledger)
                file.flush()
                # Before the rename: a name without its content would belong to no ledger.
                os.fsync(file.fileno())
            fresh.replace(self._note)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> StoreError:
        return StoreError(
            f"the data directory {self._note.parent} cannot be used: {error.strerror}"
        )

    def release(self) -> None:
        """Give the directory free."""
        os.close(self._descriptor)
