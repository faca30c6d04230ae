"""The operator's log: one JSON object per line, built from an allow-list.

Nothing a client sent and nothing a data set holds may reach a log, and an
exception's text may hold either. So a line carries only fields named in
:data:`ALLOWED`, given as ``extra``; of any record's message the template is
kept but not its arguments, so none of ours has any; and an exception is its
class and where it was raised, never what it says.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final

ALLOWED: Final = frozenset(
    {
        "accounts",
        "attempts",
        "channel",
        "code",
        "dataset",
        "duration_ms",
        "failure",
        "key",
        "kind",
        "method",
        "notice",
        "reason",
        "release",
        "request_id",
        "results",
        "route",
        "rows",
        "setting",
        "status",
        "where",
        "writes",
    }
)
"""Fields that an event may carry: our own identifiers, codes, counts and durations.

A ``reason`` is one of a fixed list of sentences, a ``setting`` the name of one.
"""

_OWN_LOGGERS: Final = ("app", "mechanisms")
_FRAMES = 12  # the innermost: those outside are the framework's, and the same each time


def describe(error: BaseException) -> dict[str, object]:
    """Return an exception's class and its innermost frames, without its text."""
    return {"failure": type(error).__qualname__, "where": _frames(error.__traceback__)}


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


def configure_logs(*, level: str) -> None:
    """Send the process's loggers to standard error through the allow-list.

    A program that has set up the root logger itself (a test runner, an
    embedding application) keeps its set-up.
    """
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(AllowListFormatter())
        root.addHandler(handler)
        root.setLevel(level.upper())
        logging.captureWarnings(capture=True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"  # its lines hold the query string
