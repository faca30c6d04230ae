"""The operator's log: one JSON object per line, built from an allow-list.

Nothing a client sent and nothing a data set holds may reach a log, and an
exception's text may hold either. So a line carries only fields named in
:data:`ALLOWED`, given as ``extra``; of any record's message the template is
kept but not its arguments, so none of ours has any; and an exception is its
class and where it was raised, never what it says.
"""

from __future__ import annotations

import errno
import json
import logging
import shutil
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final

ALLOWED: Final = frozenset(
    {
        "accounts",
        "attempts",
        "channel",
        "client",
        "code",
        "dataset",
        "duration_ms",
        "errno",
        "failure",
        "key",
        "kind",
        "method",
        "notice",
        "path",
        "reason",
        "release",
        "request_id",
        "results",
        "route",
        "rows",
        "setting",
        "status",
        "url",
        "where",
        "writes",
    }
)
"""Fields that an event may carry: our own identifiers, codes, counts and durations.

A ``reason`` is one of a fixed list of sentences, a ``setting`` the name of one. A ``path`` is of
the service's own directories. A ``client`` is an address, where the operator asks for it.
"""

_FULL: Final = {"SQLITE_FULL": "ENOSPC", "53100": "ENOSPC"}
"""What databases call a full disk."""
_NO_ROOM: Final = ("ENOSPC", "EDQUOT")
_own_directories: list[Path] = []
START: Final = "app.start"
"""The logger of lines that there always are: what has started, and where."""
_OWN_LOGGERS: Final = ("app", "mechanisms")
_FRAMES = 12  # the innermost: those outside are the framework's, and the same each time


def describe(error: BaseException) -> dict[str, object]:
    """Return an exception's class and its innermost frames, without its text.

    Where a disk or a file is to blame, the name of the system's error is added, and which of the
    service's own files or directories it is about.
    """
    return {
        "failure": type(error).__qualname__,
        "where": _frames(error.__traceback__),
        **_of_disk(error),
    }


def _of_disk(error: BaseException) -> dict[str, str]:
    for each in _causes(error):
        name = _name_of(each)
        if name is not None:
            path = _own_path(getattr(each, "filename", None), full=name in _NO_ROOM)
            return {"errno": name} if path is None else {"errno": name, "path": path}
    return {}


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it was raised for, innermost last."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _name_of(error: BaseException) -> str | None:
    """Return how the system calls an error, or a database that of a disk."""
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno)
    code = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None)
    return _FULL.get(code) if isinstance(code, str) else None


def _own_path(filename: object, *, full: bool) -> str | None:
    """Return a path that is the service's own; of a full disk, which names none, its directory."""
    if isinstance(filename, str | bytes | Path):
        path = Path(filename.decode(errors="replace") if isinstance(filename, bytes) else filename)
        own = any(path.absolute().is_relative_to(each) for each in _own_directories)
        return str(path) if own else None
    with suppress(OSError, ValueError):
        if full:
            return str(min(_own_directories, key=lambda own: shutil.disk_usage(own).free))
    return None


def _frames(trace: TracebackType | None) -> list[str]:
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{Path(code.co_filename).name}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return frames[-_FRAMES:]


class AllowListFormatter(logging.Formatter):
    """Format a record as JSON from allowed fields only."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; arguments and exception texts are left out by construction."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _event(record.msg),
        }
        if record.name.split(".")[0] in _OWN_LOGGERS:
            line |= {key: value for key, value in vars(record).items() if key in ALLOWED}
        if record.exc_info and record.exc_info[1] is not None:
            line |= describe(record.exc_info[1])
        return json.dumps(line, default=lambda value: type(value).__qualname__)


def _event(message: object) -> str:
    """Return the template, not the message: arguments may hold what a client sent.

    A server that fails to start passes a formatted traceback as its template.
    """
    if not isinstance(message, str):
        return type(message).__qualname__
    return "traceback" if message.startswith("Traceback") else message


def configure_logs(*, level: str, directories: Collection[Path] = ()) -> None:
    """Send the process's loggers to standard error through the allow-list.

    A program that has set up the root logger itself (a test runner, an
    embedding application) keeps its set-up. ``directories`` are those that the service writes to:
    of no other file a path is logged.
    """
    _own_directories[:] = [each.absolute() for each in directories]
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(AllowListFormatter())
        root.addHandler(handler)
        root.setLevel(level.upper())
        logging.captureWarnings(capture=True)
    logging.getLogger(START).setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"  # its lines hold the query string
