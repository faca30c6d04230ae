"""A person with a key, while a hundred connections without one ask for all there is to ask for."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from tests.app.forked_hosts import LOADED
from tests.e2e.bystanders import latencies
from tests.e2e.live import LiveServer, release_mean, upload

pytestmark = [pytest.mark.slow, pytest.mark.timed]

CONNECTIONS = 100
FACTOR, SLACK_S = 3.0, 0.02
"""Other sessions of the machine make answers slower as well, and the attacker is one of them."""
PUBLIC = 40


def flood(port: int, paths: list[str], key: str) -> None:
    """Ask over and over, each connection as soon as it is answered, until this process ends."""
    asyncio.run(_flood(port, paths, key))


async def _flood(port: int, paths: list[str], key: str) -> None:
    numbers = count()
    await asyncio.gather(*(_ask(port, paths, key, numbers) for _ in range(CONNECTIONS)))


async def _ask(port: int, paths: list[str], key: str, numbers: Iterator[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        path = paths[number % len(paths)].format(number)
        head = f"GET {path} HTTP/1.1\r\nHost: desk\r\n{key}\r\n"
        writer.write(head.encode())
        await writer.drain()
        reported = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(reported.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        await reader.readexactly(length)
        if b"connection: close" in reported:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)


@contextmanager
def flooded(server: LiveServer, paths: list[str], key: str = "") -> Iterator[None]:
    attacker = LOADED.Process(target=flood, args=(server.port, paths, key), daemon=True)
    attacker.start()
    try:
        time.sleep(2)
        yield
        assert attacker.is_alive()
    finally:
        attacker.kill()
        attacker.join()


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveServer, str, str]]:
    """Serve with the limits that there are by default, and many public releases."""
    own = {"RELEASE_DESK_ANONYMOUS_RATE_LIMIT_PER_MINUTE": "1200"}
    with (
        LiveServer(tmp_path_factory.mktemp("flood") / "data", **own) as server,
        server.client() as admin,
    ):
        columns = {"x": {"type": "number", "lower": 0, "upper": 1}}
        dataset = upload(admin, "x\n" + "0\n1\n" * 500, columns)["id"]
        for number in range(PUBLIC):
            made = release_mean(admin, dataset, column="x", epsilon="0.01", key=f"public {number}")
            release = made.json()["id"]
            said: dict[str, Any] = {"json": {"reason": "a test"}, "headers": {"If-Match": "*"}}
            shown = admin.post(f"/v1/releases/{release}/publication", **said)
            assert shown.status_code == 201, shown.text
        yield server, dataset, release


@pytest.mark.parametrize("what", ["croissant", "search", "mixed", "wrong keys"])
def test_somebody_with_a_key_is_served_as_before(
    desk: tuple[LiveServer, str, str], what: str
) -> None:
    server, dataset, release = desk
    croissant, search = f"/public/datasets/{dataset}/croissant.json", "/public?q=word{}"
    paths = {
        "croissant": [croissant],
        "search": [search],
        "mixed": [
            croissant, search, f"/public/releases/{release}", "/public/feed.atom", "/v1/catalog",
            "/v1/log/checkpoint", "/desk/sign-in", "/nowhere/{}", "/v1/datasets", "/readyz",
        ],
        "wrong keys": ["/v1/datasets?limit={}"],
    }[what]  # fmt: skip
    key = "Authorization: Bearer not-a-key-of-this-desk\r\n" if what == "wrong keys" else ""
    latencies(server, dataset, "x", 1)
    quiet, busy = [], []
    for _ in range(2):
        quiet.append(statistics.median(latencies(server, dataset, "x", 2)))
        with flooded(server, paths, key):
            busy.append(statistics.median(latencies(server, dataset, "x", 3)))
        if busy[-1] <= FACTOR * max(quiet) + SLACK_S:
            return
    pytest.fail(f"medians: quiet {quiet} s, under a flood {busy} s: {json.dumps(paths)}")
