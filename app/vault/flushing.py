"""Files that no other user may read, and are on disk before the service goes on."""

from __future__ import annotations

import os
from pathlib import Path


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
