"""What keeps a data directory to one server and to one ledger.

The operating system's lock belongs to the open file, so it goes with the
process however that ends; a lock file left behind by a killed server locks nothing.

The directory remembers its ledger's id: rows that a ledger does not know are
cleared away at the start, so another ledger must never be started on them.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from app.store.errors import DirectoryLockedError, StoreError

LOCK_NAME = "server.lock"
LEDGER_NAME = "ledger.id"

_SHARE_TIMEOUT_S = 30.0


class DirectoryLock:
    """A lock on a directory, held until released or the process ends.

    It is exclusive, unless ``shared``: then the first process has the directory
    to itself until it calls :meth:`share`, and the others wait for that.

    Attributes
    ----------
    alone
        Whether nobody else was here when the lock was taken.

    Raises
    ------
    DirectoryLockedError
        Somebody holds it already, and does not share it.
    StoreError
        The directory cannot be made or written to.
    """

    def __init__(self, directory: Path, *, shared: bool = False) -> None:
        self._directory = directory
        self._shared = shared
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
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

    def belong_to(self, ledger: str) -> None:
        """Note whose directory this is, the first time; later make sure that it still is.

        Raises
        ------
        StoreError
            The directory belongs to another ledger, or cannot be written to.
        """
        note = self._directory / LEDGER_NAME
        try:
            if not note.exists():
                fresh = note.with_suffix(".new")
                with fresh.open("w") as file:
                    file.write(ledger)
                    file.flush()
                    os.fsync(file.fileno())
                fresh.replace(note)
            known = note.read_text().strip()
        except OSError as error:
            raise StoreError(
                f"the data directory {self._directory} cannot be used: {error.strerror}"
            ) from error
        if known != ledger:
            raise StoreError(
                f"the data directory {self._directory} belongs to another ledger than the "
                "database. Put the right database in place or choose another data directory; "
                f"to give the directory's rows up, remove {LEDGER_NAME} from it."
            )

    def release(self) -> None:
        """Give the directory free."""
        os.close(self._descriptor)
