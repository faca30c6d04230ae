"""Workers next to a server on PostgreSQL: they draw its jobs, and each other's after a death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.e2e.live import LiveServer, upload

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

BOUNDS: dict[str, Any] = {"type": "number", "lower": -1, "upper": 1}
COLUMNS = dict.fromkeys("yabc", BOUNDS)
ROWS = "y,a,b,c\n" + "".join(
    f"{(7 * i % 41) / 41},{(11 * i % 97) / 97},{(5 * i % 89) / 89},{(3 * i % 83) / 83}\n"
    for i in range(400)
)
SHORT = {"kind": "quantile_regression", "target": "y", "features": ["a", "b"], "bound": 1}
LONG = {**SHORT, "features": ["a", "b", "c"]}
LEASE_S = 1
WORKER = f"""
import functools
from app import worker
from app.cli import main
from app.constants import Constants
constants = Constants(worker_lease_s={LEASE_S})
worker.run_worker = functools.partial(worker.run_worker, constants=constants)
main()
"""


@pytest.fixture
def url() -> Iterator[str]:
    from tests.app.postgres import databases

    name = databases().lend()
    yield databases().url(name)
    databases().take_back(name)


def settings(url: str) -> dict[str, str]:
    return {
        "RELEASE_DESK_DATABASE_URL": url,
        "RELEASE_DESK_JOB_PROCESSES": "0",
        "RELEASE_DESK_RESPONSE_SLOT_MS": "0",
    }


@contextmanager
def worker(url: str, data_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        **settings(url),
        "RELEASE_DESK_DATA_DIR": str(data_dir),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, "-c", WORKER, "worker", "--processes", "1"]
    with subprocess.Popen(command, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def ask(client: httpx.Client, dataset: str, statistic: Any, key: str) -> httpx.Response:
    return client.post(
        f"/v1/datasets/{dataset}/releases",
        json={"statistic": statistic, "mechanism": "kng", "epsilon": "1"},
        headers={"Idempotency-Key": key},
    )


def until(met: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_jobs_are_drawn_by_workers_and_survive_them(url: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with (
        LiveServer(data, constants={"worker_lease_s": LEASE_S}, **settings(url)) as live,
        live.client() as client,
        psycopg.connect(url.replace("postgresql+psycopg", "postgresql"), autocommit=True) as db,
    ):

        def attempts(release: str) -> tuple[Any, ...]:
            row = db.execute(
                "SELECT attempts, worker IS NOT NULL, state FROM release WHERE id = %s", (release,)
            ).fetchone()
            return () if row is None else row

        dataset = str(upload(client, ROWS, COLUMNS)["id"])
        one, other = ask(client, dataset, SHORT, "one"), ask(client, dataset, LONG, "other")
        assert [answer.status_code for answer in (one, other)] == [202, 202]
        time.sleep(1)
        assert attempts(one.json()["id"]) == (1, False, "debited")

        with worker(url, data) as first:
            until(lambda: attempts(one.json()["id"]) == (1, True, "released"))
            until(lambda: attempts(other.json()["id"])[1])  # and its draw takes longer than this
            first.send_signal(signal.SIGKILL)
        assert attempts(other.json()["id"]) == (1, True, "debited")
        with worker(url, data) as second:
            until(lambda: attempts(other.json()["id"]) == (2, True, "released"))
            # a worker that is stopped in order has nothing left to hand back
            second.send_signal(signal.SIGTERM)
            assert second.wait(20) == 0
        replay = ask(client, dataset, LONG, "other")
        assert replay.status_code == 201
        assert replay.content == client.get(other.headers["location"]).content
        spent = client.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]["spent"]
        assert spent == "2"
        assert client.get("/v1/ledger/verification").json()["ok"]
