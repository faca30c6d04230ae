"""Who comes in when there are too many: no one is kept out by connections that say nothing."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from app.constants import HEAD_ROOM, most_accepted, most_connections
from app.settings import Settings
from app.web.anonymous import Admission, ConnectionLimiter, address_of
from tests.contract.service import ADMIN_KEY, Service, make_key, running
from tests.tiers import in_one

BODY_TO_COME = (
    "POST /v1/keys HTTP/1.1\r\nHost: h\r\n"
    f"Authorization: Bearer {ADMIN_KEY}\r\n"
    "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n"
).encode()


FORM_TO_COME = (
    b"POST /desk/sign-in HTTP/1.1\r\nHost: h\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\nkey="
)


class Connection:
    def __init__(self, name: str, gone: list[str]) -> None:
        self._name, self._gone = name, gone

    def dismiss(self) -> None:
        self._gone.append(self._name)


def limiter_of(most: int, most_each: int, head_room: int = 0) -> ConnectionLimiter:
    return ConnectionLimiter(most=most, most_each=most_each, head_room=head_room)


def test_the_oldest_quiet_one_of_the_same_address_goes() -> None:
    gone: list[str] = []
    limiter = limiter_of(10, 3)
    held = {name: Connection(name, gone) for name in "abcdef"}
    for name in "abc":
        assert limiter.admit(held[name], "192.0.2.1") is Admission.SERVED
    limiter.mark_busy(held["a"])
    assert limiter.admit(held["d"], "192.0.2.1") is Admission.SERVED
    assert gone == ["b"]
    limiter.remove(held["b"])  # reported twice: by us, and once it is closed
    assert limiter.admit(held["e"], "192.0.2.2") is Admission.SERVED
    for name in "cd":
        limiter.mark_busy(held[name])
    assert limiter.admit(held["f"], "192.0.2.1") is Admission.REFUSED
    limiter.mark_quiet(held["d"])
    assert limiter.admit(held["f"], "192.0.2.1") is Admission.SERVED
    assert gone == ["b", "d"]


def test_the_noisiest_address_makes_room_for_others() -> None:
    gone: list[str] = []
    limiter = limiter_of(4, 4)
    for name in "abc":
        limiter.admit(Connection(name, gone), "192.0.2.1")
    limiter.admit(Connection("x", gone), "192.0.2.2")
    assert limiter.admit(Connection("y", gone), "192.0.2.3") is Admission.SERVED
    assert gone == ["a"]


def test_head_room_is_beyond_the_most_and_bounded() -> None:
    limiter = limiter_of(2, 2, head_room=1)
    held = [Connection(str(number), []) for number in range(5)]
    for number, each in enumerate(held[:2]):
        limiter.admit(each, f"192.0.2.{number}")
        limiter.mark_busy(each)
    assert limiter.admit(held[2], "192.0.2.9") is Admission.HEAD_ROOM
    limiter.mark_busy(held[2])
    assert limiter.admit(held[3], "192.0.2.8") is Admission.REFUSED
    limiter.remove(held[3])
    limiter.remove(held[0])
    assert limiter.admit(held[4], "192.0.2.8") is Admission.SERVED


def test_who_waits_in_head_room_makes_no_room_among_the_served() -> None:
    gone: list[str] = []
    limiter = limiter_of(2, 2, head_room=2)
    held = {name: Connection(name, gone) for name in "abcdefg"}
    for name in "ab":
        limiter.admit(held[name], "192.0.2.1")
        limiter.mark_busy(held[name])
    for address, name in (("192.0.2.1", "c"), ("192.0.2.2", "d")):
        assert limiter.admit(held[name], address) is Admission.HEAD_ROOM
    assert gone == []


def test_half_open_connections_keep_nobody_out_of_head_room() -> None:
    gone: list[str] = []
    limiter = limiter_of(1, 1, head_room=2)
    held = {name: Connection(name, gone) for name in "abcdef"}
    limiter.admit(held["a"], "192.0.2.1")
    limiter.mark_busy(held["a"])
    for name in "bcde":
        assert limiter.admit(held[name], "192.0.2.1") is Admission.HEAD_ROOM
    assert gone == ["b", "c"]
    for name in "de":
        limiter.mark_busy(held[name])
    assert limiter.admit(held["f"], "192.0.2.2") is Admission.REFUSED


@in_one(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "", True),
    ],
)
def test_what_counts_as_one_address(one: str, other: str, same: bool) -> None:
    assert (address_of(one) == address_of(other)) is same


@contextmanager
def limited(soft: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(("limit", "least"), [(256, 60), (1024, 400), (4096, 2500)])
def test_connections_follow_from_the_limit_on_open_files(limit: int, least: int) -> None:
    with limited(limit):
        most, each = Settings().resolved_max_connections
        assert least <= most == most_connections() < limit - most_accepted() - HEAD_ROOM
        assert each == most // 2
        assert Settings(max_connections=10**6).resolved_max_connections[0] == most
        assert Settings(max_connections=1).resolved_max_connections == (1, 1)
        few = Settings(max_connections=50, max_connections_per_address=80)
        assert few.resolved_max_connections == (50, 50)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("limiter") / "data"
    with running(directory, max_connections=20, max_connections_per_address=20) as found:
        yield found


def connected(
    service: Service, stack: ExitStack, count: int, said: bytes, *, pause_s: float = 0.3
) -> list[socket.socket]:
    """Hold connections that have said something."""
    host, port = service.url.removeprefix("http://").split(":")
    held = []
    for _ in range(count):
        each = stack.enter_context(socket.create_connection((host, int(port))))
        each.settimeout(10)
        each.sendall(said)
        held.append(each)
    time.sleep(pause_s)
    return held


@pytest.mark.parametrize("said", [b"", b"GET /v1/datasets HTTP/1.1\r\nHost: h\r\n"])
def test_half_open_connections_keep_nobody_out(service: Service, said: bytes) -> None:
    with ExitStack() as stack:
        connected(service, stack, 60, said)
        for _ in range(10):
            with service.client() as client:
                assert client.get("/v1/datasets").status_code == 200


def test_connections_between_requests_keep_nobody_out(service: Service) -> None:
    with ExitStack() as stack:
        for _ in range(40):
            client = stack.enter_context(service.client())
            assert client.get("/livez").status_code == 200


def test_where_all_have_a_request_there_is_room_for_probes_and_admins(tmp_path: Path) -> None:
    with (
        running(tmp_path / "data", max_connections=10, max_connections_per_address=40) as full,
        ExitStack() as stack,
    ):
        with full.client() as admin:
            key = make_key(admin, "analyst")["secret"]
        connected(full, stack, 10, BODY_TO_COME)
        for path in ("/livez", "/readyz"):
            answer = httpx.get(f"{full.url}{path}", verify=False)
            assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        with full.client() as admin:
            assert admin.get("/v1/datasets").status_code == 200
        with full.client(key) as analyst:
            refused = analyst.get("/v1/datasets")
            assert (refused.status_code, refused.json()["code"]) == (503, "busy")
            assert refused.headers["retry-after"] == "1"


def test_forms_without_a_key_take_no_head_room(tmp_path: Path) -> None:
    with (
        running(tmp_path / "data", max_connections=10) as full,
        ExitStack() as stack,
    ):
        connected(full, stack, 10 + 2 * HEAD_ROOM, FORM_TO_COME)
        assert httpx.get(f"{full.url}/readyz").status_code == 200
        with full.client() as admin:
            assert admin.get("/v1/datasets").status_code == 200


def test_an_address_has_a_bound_of_its_own(tmp_path: Path) -> None:
    with (
        running(tmp_path / "data", max_connections=40, max_connections_per_address=5) as service,
        ExitStack() as stack,
    ):
        with service.client() as admin:
            key = make_key(admin, "analyst")["secret"]
        time.sleep(0.1)
        connected(service, stack, 5, BODY_TO_COME)
        with service.client(key) as analyst:
            assert analyst.get("/v1/datasets").status_code == 503
        connected(service, stack, HEAD_ROOM, BODY_TO_COME)
        [refused] = connected(service, stack, 1, b"")
        assert refused.recv(1 << 16).startswith(b"HTTP/1.1 503 ")
        port = int(service.url.rpartition(":")[2])
        other = stack.enter_context(
            socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0))
        )
        other.settimeout(10)
        other.sendall(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        assert other.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def test_connections_that_displace_each_other_are_no_more_than_may_come_in(
    tmp_path: Path,
) -> None:
    most = 6
    with running(tmp_path / "data", max_connections=most) as service, ExitStack() as stack:
        held = connected(service, stack, most, BODY_TO_COME)
        for _ in range(2 * HEAD_ROOM):
            held += connected(service, stack, 1, b"", pause_s=0.02)
            held += connected(service, stack, 1, BODY_TO_COME, pause_s=0.02)
        open_yet = sum(is_open(each) for each in held)
        assert open_yet <= most + HEAD_ROOM, "each that goes makes room for one"


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            pass
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False
