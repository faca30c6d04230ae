"""A log line holds what is on the allow-list and nothing else."""

from __future__ import annotations

import ast
import errno
import json
import logging
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError

from app.logs import ALLOWED, AllowListFormatter, configure_logs, describe
from app.store.anchor.standing import Standing
from app.store.guard import DiskError, Guard

SECRET = "sentinel90817263"


def _line(name: str, message: object, *arguments: object, **fields: Any) -> dict[str, Any]:
    error = sys.exc_info()
    record = logging.LogRecord(
        name, logging.ERROR, "f.py", 1, message, arguments, error if error[0] else None
    )  # type: ignore[arg-type]
    vars(record).update(fields)
    text = AllowListFormatter().format(record)
    assert SECRET not in text
    return dict(json.loads(text))


def test_arguments_are_left_out() -> None:
    assert _line("uvicorn.error", "got %s", SECRET)["event"] == "got %s"
    assert _line("app.engine", "got %s", SECRET)["event"] == "got %s"
    assert _line("app", ValueError(SECRET))["event"] == "ValueError"
    assert _line("uvicorn.error", f"Traceback (most recent call last): {SECRET}")["event"] == (
        "traceback"
    )


def test_fields_must_be_allowed() -> None:
    line = _line("app.requests", "request", status=200, value=SECRET, query=SECRET)
    assert line["status"] == 200
    assert "value" not in line
    assert "status" not in _line("other", "request", status=SECRET)


def test_an_exception_is_its_class_and_its_place() -> None:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as cause:
            raise RuntimeError(SECRET) from cause
    except RuntimeError as error:
        line = _line("app", "failed")
        reported = describe(error)
    assert line["failure"] == reported["failure"] == "RuntimeError"
    assert line["where"][-1].startswith("test_logs.py:")
    assert SECRET not in json.dumps(reported)


def _raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as raised:
        return raised


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    configure_logs(level="warning", directories=[tmp_path])
    yield tmp_path
    configure_logs(level="warning")


def test_a_full_disk_is_named(own: Path) -> None:
    full = OSError(errno.ENOSPC, SECRET, str(own / "part-0.parquet"))
    by_descriptor = OSError(errno.ENOSPC, SECRET)
    in_database = sqlite3.OperationalError(SECRET)
    in_database.sqlite_errorname = "SQLITE_FULL"
    for error, path in (
        (full, own / "part-0.parquet"),
        (by_descriptor, own),
        (in_database, own),
        (_raised(DiskError(SECRET), full), own / "part-0.parquet"),
        (
            _raised(DiskError(SECRET), _raised(DBAPIError(SECRET, {}, in_database), in_database)),
            own,
        ),
    ):
        reported = describe(error)
        assert (reported["errno"], reported["path"]) == ("ENOSPC", str(path))
        assert SECRET not in json.dumps(reported)


def test_no_path_but_the_services_own_is_logged(own: Path) -> None:
    for number, name in ((errno.EACCES, "EACCES"), (errno.ENOSPC, "ENOSPC")):
        reported = describe(OSError(number, SECRET, f"/home/somebody/{SECRET}.csv"))
        assert reported["errno"] == name
        assert "path" not in reported
    assert "errno" not in describe(ValueError(SECRET))
    assert "errno" not in describe(sqlite3.OperationalError(SECRET))


LEVELS = {"critical", "debug", "error", "exception", "info", "log", "warning"}
SOURCES = [
    path
    for package in ("app", "mechanisms")
    for path in sorted((Path(__file__).parents[2] / package).rglob("*.py"))
]


def _log_calls(source: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=level)):
                if level in LEVELS and name.lower().strip("_") in ("log", "logger", "logging"):
                    yield node


def _lost(call: ast.Call) -> list[str]:
    """Return what the allow-list would drop from a line of our own."""
    template, *arguments = call.args
    lost = [ast.unparse(each) for each in arguments]
    if not (isinstance(template, ast.Constant) and "%" not in str(template.value)):
        lost.append(ast.unparse(template))
    for keyword in call.keywords:
        if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict):
            named = [each.value for each in keyword.value.keys if isinstance(each, ast.Constant)]
            lost += [str(each) for each in named if each not in ALLOWED]
    return lost


def test_no_line_of_our_own_says_what_the_log_leaves_out() -> None:
    calls = [
        (f"{path.name}:{call.lineno}", _lost(call))
        for path in SOURCES
        for call in _log_calls(path.read_text())
    ]
    assert len(calls) > 30
    assert [call for call in calls if call[1]] == []


@pytest.mark.parametrize(
    ("call", "lost"),
    [
        ('_LOG.error("the ledger is frozen: %s", why)', ["why", "'the ledger is frozen: %s'"]),
        ("_log.warning(_LINE, len(burned))", ["len(burned)", "_LINE"]),
        ('_log.info("stored", extra={"rows": 3, "value": 4, **describe(error)})', ["value"]),
        ('_log.error("failed", extra=describe(error))', []),
    ],
)
def test_the_look_at_the_sources_finds_what_is_lost(call: str, lost: list[str]) -> None:
    (found,) = _log_calls(call)
    assert _lost(found) == lost


def test_a_frozen_ledger_says_why(caplog: pytest.LogCaptureFixture) -> None:
    connection = create_engine("sqlite://").connect()
    Guard(connection, None).freeze(Standing.OLDER)
    connection.close()
    (record,) = caplog.records
    line = json.loads(AllowListFormatter().format(record))
    assert line["event"] == "the ledger is frozen"
    assert line["reason"] == "it lacks what the anchor knows of"
