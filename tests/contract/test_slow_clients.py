"""Clients that dawdle cost one socket for a bounded time, and no one else notices."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api.connections import PatientProtocol
from tests.contract.service import (
    ADMIN_KEY,
    ROWS,
    Service,
    ask,
    assert_problem,
    running,
    send_upload,
    upload,
)
from tests.speed import PATIENCE_S

HEAD = f"Host: h\r\nAuthorization: Bearer {ADMIN_KEY}\r\n"
LISTING = f"GET /v1/datasets HTTP/1.1\r\n{HEAD}\r\n".encode()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(
        tmp_path_factory.mktemp("slow") / "data",
        head_timeout_s=1,
        body_timeout_s=1,
        write_timeout_s=1,
        min_body_bytes_per_s=1000,
        max_head_bytes=4096,
        max_connections=30,
    ) as found:
        yield found


@pytest.fixture(scope="module")
def admin(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


def connect(service: Service) -> socket.socket:
    host, port = service.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    connection.settimeout(20)
    return connection


def rest(connection: socket.socket) -> bytes:
    """Return everything until the other side closes."""
    received = b""
    try:
        while piece := connection.recv(1 << 16):
            received += piece
    except ConnectionResetError:
        pass
    return received


def problem(answer: bytes, status: int, code: str) -> dict[str, Any]:
    """Check a raw answer that is a problem, and the connection's last."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert re.match(rf"HTTP/1.1 {status} \w+".encode(), head), answer[:200]
    lines = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert lines["connection"] == "close"
    assert lines["content-type"] == "application/problem+json"
    assert lines["x-content-type-options"] == "nosniff"
    found: dict[str, Any] = json.loads(body)
    assert (found["code"], found["status"]) == (code, status)
    assert found["request_id"] == lines["x-request-id"]
    return found


def test_a_connection_that_says_nothing_is_closed(service: Service) -> None:
    with connect(service) as connection:
        started = time.monotonic()
        assert rest(connection) == b""
        assert 0.9 < time.monotonic() - started < 6


def test_a_head_that_trickles_is_refused(service: Service) -> None:
    with connect(service) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: h\r\n")
        started = time.monotonic()
        while time.monotonic() - started < 4:  # one header at a time, for ever
            try:
                connection.sendall(b"X-More: 1\r\n")
            except OSError:
                break
            time.sleep(0.1)
        assert time.monotonic() - started < 3.9
        problem(rest(connection), 408, "request-timeout")


def test_bytes_between_requests_are_no_way_around(service: Service) -> None:
    with connect(service) as connection:
        connection.sendall(LISTING)
        time.sleep(0.3)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connection.sendall(b"\r\n")  # ends the server's own keep-alive clock
        started = time.monotonic()
        problem(rest(connection), 408, "request-timeout")
        assert time.monotonic() - started < 6


def test_a_head_without_bound_is_refused(service: Service) -> None:
    with connect(service) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nX-Long: " + b"a" * 3000)
        time.sleep(0.1)
        connection.sendall(b"a" * 3000)
        found = problem(rest(connection), 413, "too-large")
        assert (found["limit"], found["maximum"]) == ("max_head_bytes", 4096)


def answers(received: bytes) -> list[bytes]:
    """Split what was received on one connection into whole answers."""
    found = []
    while received:
        head, _, after = received.partition(b"\r\n\r\n")
        (length,) = re.findall(rb"(?i)\r\ncontent-length: (\d+)", head)
        found.append(head + b"\r\n\r\n" + after[: int(length)])
        received = after[int(length) :]
    return found


def long_head(length: int, *more: str) -> bytes:
    """Return a head of so many bytes: a short address, and headers of a few hundred bytes each."""
    head = "GET /v1/catalog HTTP/1.1\r\n" + HEAD + "".join(f"{each}\r\n" for each in more)
    while (left := length - len(head) - len("X-More: \r\n\r\n")) > 0:
        head += "X-More: " + "a" * min(500, left if left < 1000 else 500) + "\r\n"
    return f"{head}\r\n".encode()


LIMIT = 4096


@pytest.mark.parametrize("length", [LIMIT + 1, 8_000, 60_000, 200_000])
@pytest.mark.parametrize("pieces", [1, 2])
def test_a_head_is_as_long_as_it_is_however_it_arrives(
    service: Service, length: int, pieces: int
) -> None:
    head = long_head(length)
    assert len(head) == length
    with connect(service) as connection:
        for number in range(pieces):
            connection.sendall(head[number * 3000 :][: 3000 if number + 1 < pieces else None])
            time.sleep(0.1)
        found = problem(rest(connection), 413, "too-large")
        assert (found["limit"], found["maximum"]) == ("max_head_bytes", LIMIT)


def test_a_long_address_is_a_long_head(service: Service) -> None:
    with connect(service) as connection:
        connection.sendall(f"GET /livez?{'a' * LIMIT} HTTP/1.1\r\n{HEAD}\r\n".encode())
        problem(rest(connection), 413, "too-large")


def test_a_long_head_behind_other_requests_is_refused_after_their_answers(
    service: Service,
) -> None:
    with connect(service) as connection:
        connection.sendall(LISTING + long_head(LIMIT) + long_head(8_000) + LISTING)
        listed, catalog, refused = answers(rest(connection))
    assert listed.startswith(b"HTTP/1.1 200")
    assert catalog.startswith(b"HTTP/1.1 200")
    problem(refused, 413, "too-large")


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_bodies_and_other_requests_are_no_part_of_a_head(service: Service, pieces: int) -> None:
    """Whole heads, bodies above the limit and half a head, in one piece or in several."""
    body = b" " * 20_000 + b"{}"
    post = f"POST /v1/keys HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\n"
    post += f"Content-Length: {len(body)}\r\n\r\n"
    whole = (post.encode() + body) * 2 + LISTING * 40 + (post.encode() + body)
    last = long_head(LIMIT, "Connection: close")
    sent = whole + last
    cuts = [0, len(post) + 10_000, len(whole) - 10_000, len(whole) + 2_000]
    with connect(service) as connection:
        for start, end in zip(cuts[:pieces], [*cuts[1:pieces], len(sent)], strict=True):
            connection.sendall(sent[start:end])
            time.sleep(0.2)
        found = [int(each[9:12]) for each in answers(rest(connection))]
    assert found == [422] * 2 + [200] * 40 + [422, 200]


CHUNKED = (
    f"POST /v1/keys HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
)


@pytest.mark.parametrize("trailer", ["X-More: " + "a" * 500 + "\r\n", "a" * 500])
def test_headers_behind_a_body_are_bounded_too(service: Service, trailer: str) -> None:
    with connect(service) as connection:
        connection.sendall(f"{CHUNKED}1\r\n{{\r\n0\r\nX-First: ".encode())
        sent = 0
        while sent < 1 << 20:
            try:
                connection.sendall(trailer.encode() * 4)
            except OSError:
                break
            sent += 4 * len(trailer)
            time.sleep(0.01)
        assert sent < 10 * LIMIT
        problem(rest(connection), 413, "too-large")


def test_a_body_in_many_small_chunks_is_no_head(service: Service) -> None:
    chunks = "1;of=many\r\n \r\n" * 2_000 + "2\r\n{}\r\n0\r\nX-Trailer: 1\r\n\r\n"
    sent = (CHUNKED + chunks).replace("HTTP/1.1\r\n", "HTTP/1.1\r\nConnection: close\r\n").encode()
    with connect(service) as connection:
        for start in range(0, len(sent), 700):
            connection.sendall(sent[start : start + 700])
            time.sleep(0.001)
        assert rest(connection).startswith(b"HTTP/1.1 422")


def test_what_is_not_http_is_refused(service: Service) -> None:
    for sent in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"NONSENSE\r\n\r\n"):
        with connect(service) as connection:
            connection.sendall(sent)
            problem(rest(connection), 400, "malformed-request")


@pytest.mark.parametrize("path", ["/v1/keys", "/v1/datasets"])
def test_a_body_that_trickles_is_refused(service: Service, path: str) -> None:
    kind = "application/json" if path.endswith("keys") else "multipart/form-data; boundary=b"
    head = f"POST {path} HTTP/1.1\r\n{HEAD}Content-Type: {kind}\r\nContent-Length: 50000\r\n\r\n"
    with connect(service) as connection:
        connection.sendall(head.encode())
        started = time.monotonic()
        while time.monotonic() - started < 6:
            try:
                connection.sendall(b" " if path.endswith("keys") else b"\r\n")
            except OSError:
                break
            time.sleep(0.1)
        assert time.monotonic() - started < 5.5
        problem(rest(connection), 408, "request-timeout")
    assert [path.name for path in service.data_dir.glob("tmp*")] == []


@pytest.mark.slow
def test_a_steady_upload_may_take_its_time(service: Service) -> None:
    """At the allowed rate an upload takes far longer than a body may without it."""
    spec = {
        "name": "steady", "adjacency": "replace_one", "budget": {"epsilon": "1"},
        "columns": {"x": {"type": "number", "lower": 0, "upper": 1}},
    }  # fmt: skip
    part = '--b\r\nContent-Disposition: form-data; name="{}"\r\n\r\n'
    start = part.format("spec") + json.dumps(spec) + "\r\n" + part.format("file") + "x\n"
    rows, end = b"1\n" * 1000, b"\r\n--b--\r\n"
    length = len(start) + 6 * len(rows) + len(end)
    head = (
        f"POST /v1/datasets HTTP/1.1\r\n{HEAD}Content-Type: multipart/form-data; boundary=b\r\n"
        f"Content-Length: {length}\r\nConnection: close\r\n\r\n{start}"
    )
    with connect(service) as connection:
        connection.sendall(head.encode())
        for _ in range(6):
            time.sleep(0.6)
            connection.sendall(rows)
        connection.sendall(end)
        assert rest(connection).startswith(b"HTTP/1.1 201")


def test_uploads_beyond_the_limit_are_told_to_come_back(tmp_path: Path) -> None:
    with running(tmp_path / "data", max_waiting_uploads=2) as service, service.client() as admin:
        head = (
            f"POST /v1/datasets HTTP/1.1\r\n{HEAD}Content-Type: multipart/form-data; boundary=b\r\n"
            "Content-Length: 50000\r\n\r\n--b\r\n"
        )
        held = [connect(service) for _ in range(2)]
        for connection in held:
            connection.sendall(head.encode())
        deadline = time.monotonic() + PATIENCE_S
        while (answer := send_upload(admin)).status_code == 201:
            assert time.monotonic() < deadline
        assert_problem(answer, 503, "busy")
        for connection in held:
            connection.close()
        while (answer := send_upload(admin, ROWS.replace("40", "41"))).status_code == 503:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert answer.status_code in (201, 409)


@pytest.mark.slow
@pytest.mark.timed
def test_a_refused_body_is_not_taken_for_ever(service: Service) -> None:
    head = (
        "POST /v1/datasets HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=b\r\n"
        f"Content-Length: {1 << 40}\r\n\r\n"
    )
    with connect(service) as connection:
        connection.sendall(head.encode())
        assert b"HTTP/1.1 401" in connection.recv(1 << 16)
        started = time.monotonic()
        while time.monotonic() - started < 15:
            try:
                connection.sendall(b"x" * 1000)
            except OSError:
                break
            time.sleep(0.05)
        assert 4 < time.monotonic() - started < 12


@pytest.mark.wide
def test_an_answer_that_nobody_reads_is_dropped(
    service: Service, admin: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = str(upload(admin)["id"])
    for _ in range(3):
        assert ask(admin, dataset).status_code == 201
    open_now: set[Any] = set()
    made = PatientProtocol.connection_made

    def noted(self: PatientProtocol, transport: Any) -> None:
        made(self, transport)
        open_now.add(self)

    monkeypatch.setattr(PatientProtocol, "connection_made", noted)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = service.url.removeprefix("http://").split(":")
        connection.connect((host, int(port)))
        connection.setblocking(False)
        request = f"GET /openapi.json HTTP/1.1\r\n{HEAD}\r\n".encode()
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                connection.send(request)
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:
                break
        else:
            pytest.fail("the connection was never dropped")
    (held,) = open_now
    assert held.transport.is_closing()


def test_who_leaves_amid_many_answers_is_no_failure_of_ours(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests in one piece wait for each other's answers, and no one takes those."""
    requests = f"GET /openapi.json HTTP/1.1\r\n{HEAD}\r\n".encode() * 20
    for _ in range(5):
        with connect(service) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(requests)
            connection.recv(1)
            time.sleep(0.2)
    with service.client() as client:
        assert client.get("/livez").status_code == 200
    time.sleep(0.5)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def ten_releases_s(admin: httpx.Client, dataset: str) -> float:
    """Return how long ten releases at once take."""
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(ask(admin, dataset).status_code))
        for _ in range(10)
    ]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [201] * 10
    return time.monotonic() - started


@pytest.mark.wide
def test_a_hundred_slow_clients_hold_nobody_up(tmp_path: Path) -> None:
    with running(tmp_path / "data") as service, service.client() as admin:
        dataset = str(upload(admin, budget={"epsilon": "100"})["id"])
        ten_releases_s(admin, dataset)
        quiet, busy = [], []
        for _ in range(4):
            quiet.append(ten_releases_s(admin, dataset))
            held = [connect(service) for _ in range(100)]
            head = f"POST /v1/keys HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\n"
            for number, connection in enumerate(held):
                more = "" if number % 2 else "Content-Length: 10\r\n\r\n"
                connection.sendall((head + more).encode())
            busy.append(ten_releases_s(admin, dataset))
            for connection in held:
                connection.close()
        # whatever else the machine does can only make either slower, for a while
        assert min(busy) <= 2 * max(quiet), (quiet, busy)


def test_head_is_get_without_a_body(admin: httpx.Client) -> None:
    for path in ("/livez", "/v1/datasets", "/openapi.json", "/v1/catalog"):
        answer, full = admin.head(path), admin.get(path)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-length"] == str(len(full.content))
    assert admin.head("/v1/nothing").status_code == 404
    assert_problem(admin.request("GET", "/v1/datasets/"), 404, "not-found")
