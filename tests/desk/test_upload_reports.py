"""A report of an upload travels with the browser: sealed, in parts, and in short if it is long."""

from __future__ import annotations

import secrets
from http.cookies import SimpleCookie
from types import SimpleNamespace

import pytest
from starlette.requests import Request
from starlette.responses import Response

from app.desk.cookies import forget_report, send_report, sent_report
from app.domain.upload_reports import ColumnCounts, UploadReport


def request(token: str, cookies: dict[str, str]) -> Request:
    sent = "; ".join(f"{name}={text}" for name, text in {**cookies, **_session(token)}.items())
    app = SimpleNamespace(settings=SimpleNamespace(public_url=""))
    return Request(
        {
            "type": "http", "method": "GET", "scheme": "http", "server": ("desk", 80), "path": "/",
            "query_string": b"", "headers": [(b"cookie", sent.encode())], "state": {"app": app},
        }
    )  # fmt: skip


def _session(token: str) -> dict[str, str]:
    return {"release-desk-session": token}


def carried(report: UploadReport) -> dict[str, str]:
    """Return the cookies that a browser gets with a report."""
    answer = Response()
    send_report(request("mine", {}), answer, "ds_1", report)
    found: dict[str, str] = {}
    for line in answer.headers.getlist("set-cookie"):
        assert len(line) < 4096
        found |= {name: each.value for name, each in SimpleCookie(line).items()}
    return found


def report(count: int) -> UploadReport:
    columns = [secrets.token_hex(16) for _ in range(count)]
    counts = {name: ColumnCounts(*map(secrets.randbelow, [10**6] * 6)) for name in columns}
    return UploadReport(7, 2, counts)


@pytest.mark.parametrize("columns", [1, 20, 200])
def test_what_is_sent_along_comes_back_to_the_same_session(columns: int) -> None:
    reported = report(columns)
    cookies = carried(reported)
    assert len(cookies) > columns // 100
    assert sent_report(request("mine", cookies), "ds_1") == reported
    assert sent_report(request("another", cookies), "ds_1") is None
    assert sent_report(request("mine", cookies), "ds_2") is None
    first = dict(list(cookies.items())[1:])
    assert sent_report(request("mine", first), "ds_1") is None
    answer = Response()
    forget_report(request("mine", cookies), answer, "ds_1")
    assert len(answer.headers.getlist("set-cookie")) == len(cookies)
    assert all("Max-Age=0" in line for line in answer.headers.getlist("set-cookie"))


def test_what_is_too_long_goes_without_its_columns() -> None:
    found = sent_report(request("mine", carried(report(1000))), "ds_1")
    assert found == UploadReport(7, 2)
