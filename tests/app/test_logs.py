"""A log line holds what is on the allow-list and nothing else."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from app.logs import AllowListFormatter, describe

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
        told = describe(error)
    assert line["failure"] == told["failure"] == "RuntimeError"
    assert line["where"][-1].startswith("test_logs.py:")
    assert SECRET not in json.dumps(told)
