"""Jobs outlive their server: killed, their attempt counts; stopped in order, it does not."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.live import LiveServer, upload

pytestmark = pytest.mark.slow

BOUNDS: dict[str, Any] = {"type": "number", "lower": -1, "upper": 1}
COLUMNS = dict.fromkeys("yabc", BOUNDS)
ROWS = "y,a,b,c\n" + "".join(
    f"{(7 * i % 41) / 41},{(11 * i % 97) / 97},{(5 * i % 89) / 89},{(3 * i % 83) / 83}\n"
    for i in range(400)
)
LONG = {"kind": "quantile_regression", "target": "y", "features": ["a", "b", "c"], "bound": 1}


def until(met: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def stored(data: Path, release: str) -> tuple[Any, ...]:
    """Return a release's attempts, whether somebody draws it, and its state."""
    with closing(sqlite3.connect(f"file:{data / 'release-desk.db'}?mode=ro", uri=True)) as db:
        row = db.execute(
            "SELECT attempts, worker IS NOT NULL, state FROM release WHERE id = ?", (release,)
        ).fetchone()
    return tuple(row)


@contextmanager
def no_draw_gets_on(server: LiveServer) -> Iterator[None]:
    """Have no process draw for a server, however little a draw takes, until the block ends."""

    def hosts() -> list[psutil.Process]:
        found = psutil.Process(server.pid).children(recursive=True)
        return [each for each in found if each.name() == "draws"]

    until(lambda: len(hosts()) == 1)
    [host] = hosts()
    host.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            host.send_signal(signal.SIGCONT)


@pytest.mark.parametrize(("kill", "attempts"), [(True, 2), (False, 1)])
def test_a_job_outlives_its_server(tmp_path: Path, kill: bool, attempts: int) -> None:
    data = tmp_path / "data"
    server = LiveServer(
        data, constants={"draw_process": True}, RELEASE_DESK_DRAIN_TIMEOUT_S="0.2"
    ).start()
    with server.client() as client, no_draw_gets_on(server):
        dataset = str(upload(client, ROWS, COLUMNS)["id"])
        path = f"/v1/datasets/{dataset}/releases"
        body = {"statistic": LONG, "mechanism": "kng", "epsilon": "1"}
        headers = {"Idempotency-Key": "job"}
        accepted = client.post(path, json=body, headers=headers)
        assert accepted.status_code == 202
        release = accepted.json()["id"]
        until(lambda: stored(data, release) == (1, True, "debited"))
        if kill:
            server.kill()
        else:
            server.stop()
    assert stored(data, release) == (1, kill, "debited")

    with LiveServer(data) as again, again.client() as client:
        until(lambda: stored(data, release)[2] == "released")
        assert stored(data, release) == (attempts, True, "released")
        replay = client.post(path, json=body, headers=headers)
        assert replay.status_code == 201
        assert client.get(accepted.headers["location"]).content == replay.content
        assert client.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]["spent"] == "1"
        assert client.get("/v1/ledger/verification").json()["ok"]
