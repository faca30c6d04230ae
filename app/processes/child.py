"""What every process does first that has been forked to work for the service."""

from __future__ import annotations

import ctypes
import resource
import signal
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from app.logs import configure_logs

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as malloc.h numbers them
_KEPT_BYTES, _LARGE_BYTES = 1 << 28, 1 << 25
_OOM_SCORE = 500
"""Before the service itself, and after what reads uploads."""


def prepare(
    *,
    log_level: str,
    directories: Collection[Path] = (),
    limits: Mapping[int, int] | None = None,
    finishes: bool = False,
) -> None:
    """Log as the service does, and take no more than this process may use.

    Parameters
    ----------
    log_level
        Least severe line of its log.
    directories
        Where it writes, or reads the service's files.
    limits
        As for :func:`confine`.
    finishes
        Whether it goes on after a SIGTERM. One for all processes at once is the
        service's to act on, which lets charged releases be drawn.
    """
    if finishes:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    configure_logs(level=log_level, directories=directories)
    end_first(_OOM_SCORE)
    confine(limits or {})


def end_first(score: int) -> None:
    """Have the system end this process rather than others when memory runs out: up to 1000."""
    with suppress(OSError):  # Linux alone has this
        Path("/proc/self/oom_score_adj").write_text(str(score))


def confine(limits: Mapping[int, int]) -> None:
    """Give this process what it may use, for good.

    Parameters
    ----------
    limits
        Resource (``RLIMIT_*``) to how much of it there is.
    """
    # No core dump: it would write rows to the disk.
    for kind, most in {resource.RLIMIT_CORE: 0, **limits}.items():
        resource.setrlimit(kind, (most, most))


def keep_memory() -> None:
    """Have memory that arrays leave used by the next ones, up to so much of it.

    Given back, it would be asked for again at once, page by page. Not for what reads uploads, whose
    memory is bounded: what is kept counts. Where the C library has no such thing it stays as it is.
    """
    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
