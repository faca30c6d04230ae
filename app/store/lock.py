"""The operating system's lock that keeps a data directory to one server.

The lock belongs to the open file, so it goes with the process however that
ends; a lock file left behind by a killed server locks nothing.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from app.store.errors import DirectoryLockedError, StoreError

LOCK_NAME = "server.lock"


class DirectoryLock:
    """An exclusive lock on a directory, held until released or the process ends.

    Raises
    ------
    DirectoryLockedError
        Somebody holds it already.
    StoreError
        The directory cannot be made or written to.
    """

    def __init__(self, directory: Path) -> None:
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
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise DirectoryLockedError(
                f"another Release Desk server is running on {directory}: "
                "only one may write there. Stop it, or choose another data directory."
            ) from error

    def release(self) -> None:
        """Give the directory free."""
        os.close(self._descriptor)
