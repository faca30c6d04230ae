"""Whatever a desk address refuses, it answers with a page that has a way out, never with JSON."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from lxml import html

from app.api.dependencies import DirectRoutes
from app.domain.problems import PROBLEMS, Problem
from app.services.people.sessions import SessionService
from tests.contract.service import ADMIN_KEY, Service, running
from tests.desk.browsing import Browsing, signed_in, signed_out
from tests.tiers import in_one

FORM = "application/x-www-form-urlencoded"
OWN = {"Sec-Fetch-Site": "same-origin"}
LARGE = b"a=" + b"b" * 70_000

REFUSED: dict[str, tuple[int, str, str, dict[str, Any]]] = {
    "no such page": (404, "GET", "/desk/nowhere", {}),
    "no such data set": (404, "GET", "/desk/datasets/ds_x", {}),
    "an id that is none": (404, "GET", "/desk/datasets/%00", {}),
    "a number that is none": (404, "GET", "/public?before=x", {}),
    "no such file": (404, "GET", "/desk/static/x/desk.css", {}),
    "no such release": (404, "GET", "/desk/releases/rel_x", {}),
    "nothing is public there": (404, "GET", "/public/nowhere", {}),
    "no public release": (404, "GET", "/public/releases/rel_x", {}),
    "another method": (405, "PUT", "/desk/datasets", {}),
    "a form sent to the desk": (405, "POST", "/desk", {}),
    "a form sent to what is public": (405, "POST", "/public", {}),
    "options": (405, "OPTIONS", "/desk/releases", {}),
    "a method of no page": (405, "DELETE", "/desk/nowhere", {}),
    "a method that there is not": (405, "PROPFIND", "/desk", {}),
    "JSON": (415, "POST", "/desk/keys", {"json": {}, "headers": OWN}),
    "no kind of content": (415, "POST", "/desk/sign-in", {"content": b"", "headers": OWN}),
    "a file without a boundary": (
        400, "POST", "/desk/datasets/new",
        {"content": b"x", "headers": {**OWN, "Content-Type": "multipart/form-data"}},
    ),
    "a file that is a text": (
        415, "POST", "/desk/datasets/new", {"content": b"x", "headers": OWN},
    ),
    "a text that cannot be read": (
        400, "POST", "/desk/keys", {"content": b"\xff", "headers": {**OWN, "Content-Type": FORM}},
    ),
    "too much": (
        413, "POST", "/desk/keys", {"content": LARGE, "headers": {**OWN, "Content-Type": FORM}},
    ),
    "another site": (
        403, "POST", "/desk/keys",
        {"data": {"a": "b"}, "headers": {"Sec-Fetch-Site": "cross-site"}},
    ),
    "another origin": (
        403, "POST", "/desk/keys", {"data": {"a": "b"}, "headers": {"Origin": "http://x.test"}},
    ),
    "no key of the form": (422, "POST", "/desk/keys", {"data": {"a": "b"}, "headers": OWN}),
}  # fmt: skip


def assert_page(answer: httpx.Response, status: int) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "style-src 'self'" in answer.headers["content-security-policy"]
    assert len(answer.headers.get_list("content-security-policy")) == 1
    tree = html.document_fromstring(answer.text)
    assert tree.xpath("//h1")
    assert tree.xpath("//main//a[starts-with(@href, '/')]|//main//form")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Return a server that takes small requests alone, and does not wait for them."""
    data = tmp_path_factory.mktemp("small") / "data"
    with running(
        data, max_request_bytes=65_536, max_head_bytes=16_384, head_timeout_s=1, body_timeout_s=1
    ) as service:
        yield service


@pytest.fixture(scope="module")
def admin_there(small: Service) -> Iterator[Browsing]:
    with signed_in(small, ADMIN_KEY) as browsing:
        yield browsing


@pytest.fixture(scope="module")
def somebody_there(small: Service) -> Iterator[Browsing]:
    with signed_out(small) as browsing:
        yield browsing


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_a_refusal_is_a_page(
    admin_there: Browsing, case: tuple[int, str, str, dict[str, Any]]
) -> None:
    status, method, path, sent = case
    answer = admin_there.client.request(method, path, **sent)
    assert_page(answer, status)
    assert ("allow" in answer.headers) == (status == 405)


@in_one("case", REFUSED.values())
def test_those_who_are_not_signed_in_get_a_page_too(
    somebody_there: Browsing, case: tuple[int, str, str, dict[str, Any]]
) -> None:
    _, method, path, sent = case
    answer = somebody_there.client.request(method, path, **sent)
    assert_page(answer, answer.status_code)


def test_programs_are_refused_in_json(small: Service) -> None:
    with small.client() as client:
        for path in ("/v1/nowhere", "/deskx", "/public/releases/rel_x.json"):
            assert client.get(path).headers["content-type"] == "application/problem+json"
        assert client.put("/public/releases/rel_x.json").status_code == 405


def _fails(error: Exception) -> Callable[..., Any]:
    async def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@in_one(
    ("error", "status"),
    [
        *(
            (Problem(code), kind.status)
            for code, kind in PROBLEMS.items()
            if code != "unauthorized"
        ),
        (RuntimeError("a secret"), 500),
        (OSError(28, "no space"), 503),
        (MemoryError(), 503),
    ],
)
def test_every_failure_is_a_page(
    admin_there: Browsing, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    monkeypatch.setattr(SessionService, "caller", _fails(error))
    answer = admin_there.client.get("/desk")
    assert_page(answer, status)
    assert "secret" not in answer.text
    after = error.retry_after_s if isinstance(error, Problem) else None
    assert after is None or answer.headers["retry-after"] == str(after)


def test_a_failure_outside_of_a_page_is_a_page(
    admin_there: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DirectRoutes, "__call__", _fails(RuntimeError("a secret")))
    assert_page(admin_there.client.get("/desk"), 500)


LAST_WORDS: dict[str, tuple[int, bytes]] = {
    "a head that is too long": (413, b"GET /desk?%s HTTP/1.1\r\n\r\n" % (b"a" * 40_000)),
    "a head too long, all at once": (413, b"GET /desk HTTP/1.1\r\nX: %s" % (b"a" * 70_000)),
    "a head that does not end": (408, b"GET /desk/datasets HTTP/1.1\r\nHost: x\r\n"),
    "a body that does not come": (
        408, b"POST /desk/sign-in HTTP/1.1\r\nContent-Length: 9\r\n"
        b"Content-Type: %s\r\n\r\n" % FORM.encode(),
    ),
    "a head that is none": (400, b"GET /desk HTTP/1.1\r\n:\r\n\r\n"),
}  # fmt: skip


@pytest.mark.parametrize(("status", "sent"), LAST_WORDS.values(), ids=LAST_WORDS.keys())
def test_the_last_words_of_a_connection_are_a_page(
    small: Service, status: int, sent: bytes
) -> None:
    with _connected(small) as connection:
        connection.sendall(sent)
        head, _, body = _all_of(connection).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
    assert_page(httpx.Response(int(lines[0].split()[1]), headers=headers, content=body), status)
    assert dict(headers)["connection"] == "close"


@contextmanager
def _connected(service: Service) -> Iterator[socket.socket]:
    at = urlsplit(service.url)
    with socket.create_connection((at.hostname, at.port), timeout=10) as connection:  # type: ignore[arg-type]
        yield connection


def _all_of(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65_536), b""))
