"""However a body is made, it costs the server little time and memory, and others a turn."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.e2e.hostile_bodies import KINDS, hostile_body
from tests.e2e.live import LiveServer, upload
from tests.scale.yardstick import slowness
from tests.tiers import wide

pytestmark = pytest.mark.slow

LIMIT = 2**20
SHORT = 2**12
MOST_S = {LIMIT: 0.15, SHORT: 0.1}
"""Of the server's processor time for one request, all its threads; a third is what it takes."""
MOST_GROWTH = 100 * 2**20
FLOODING = 20
"""Clients; a person has 16 places."""
ROUNDS = 3
"""Whatever else the server does can only make it more."""
NUMBER = {"type": "number", "lower": 0, "upper": 2}
JSON = {"Content-Type": "application/json"}


class Served:
    """A server, a data set in it, and what the server has used so far."""

    def __init__(self, server: LiveServer, client: httpx.Client, dataset: str) -> None:
        self.server = server
        self._client = client
        self._pid = server.pid
        self.path = f"/v1/datasets/{dataset}/previews"

    def ask(self, body: bytes) -> tuple[int, str]:
        """Return the status of a preview, and the problem's code."""
        answer = self._client.post(self.path, content=body, headers=JSON)
        return answer.status_code, answer.json().get("code", "")

    def cpu_s(self) -> float:
        """Return the processor time of the server's process, without those next to it."""
        stat = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Return the most memory that the server's process has had."""
        status = Path(f"/proc/{self._pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data, columns = tmp_path_factory.mktemp("bodies") / "data", {"x": NUMBER}
    with LiveServer(data) as server, server.client() as admin:
        found = Served(server, admin, str(upload(admin, "x\n1\n2\n", columns)["id"]))
        for size in (SHORT, LIMIT):  # the first have to wait for modules
            assert found.ask(hostile_body("levels that are text", size))[0] == 422
        yield found


@pytest.mark.parametrize("size", [LIMIT, *wide(SHORT)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_body_takes_little_of_the_server(served: Served, kind: str, size: int) -> None:
    body = hostile_body(kind, size)
    assert 0.9 * size < len(body) <= size
    # what is sound is only too long a question to be kept
    long = kind in {"sound edges", "sound choices", "sound columns"} and size == LIMIT
    refused = (413, "too-large") if long else (422, "invalid-request")
    memory, took = served.memory(), list[float]()
    while not took or (min(took) >= MOST_S[size] * slowness() and len(took) < ROUNDS):
        before = served.cpu_s()
        assert served.ask(body) == refused
        took.append(served.cpu_s() - before)
    assert min(took) < MOST_S[size] * slowness(), took
    assert served.memory() - memory < MOST_GROWTH


def test_people_take_turns_at_having_long_bodies_read(served: Served) -> None:
    """One fills all places that there are for one; another's are read, and an upload's spec."""
    server, stop = served.server, threading.Event()
    hostile, sound = (hostile_body("sound edges", size) for size in (LIMIT // 8, 2 * SHORT))
    columns = {f"column {number}": NUMBER for number in range(100)}
    assert len(json.dumps(columns)) > SHORT
    reported: list[int] = []

    def flood() -> None:
        with server.client(key) as client:
            while not stop.is_set():
                reported.append(client.post(served.path, content=hostile, headers=JSON).status_code)
                time.sleep(0.02)

    with server.client() as admin, ThreadPoolExecutor(FLOODING) as pool:
        made = admin.post("/v1/keys", json={"name": "flood", "role": "analyst"})
        key = made.json()["secret"]
        floods = [pool.submit(flood) for _ in range(FLOODING)]
        try:
            while 503 not in reported:
                assert not any(each.done() for each in floods)
                time.sleep(0.01)
            assert served.ask(sound) == (422, "invalid-request")
            upload(admin, ",".join(columns) + "\n" + ",".join("1" * 100) + "\n", columns)
        finally:
            stop.set()
        for each in floods:
            each.result()
    assert set(reported) == {413, 503}
