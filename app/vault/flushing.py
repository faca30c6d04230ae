"""Having a file, or the names in a directory, on disk before going on."""

from __future__ import annotations

import os
from pathlib import Path


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
