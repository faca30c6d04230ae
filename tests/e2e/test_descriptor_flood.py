"""Half-open connections without number, where few files may be open: releases go on.

A server that lets everybody in has no descriptor left for data sets, its database or who
comes next. The twin does, and has to be caught.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.e2e.live import ADMIN_KEY, free_port, release_mean, upload

pytestmark = [pytest.mark.slow, pytest.mark.timed]

MOST_OPEN = 256
CONNECTIONS = 600
DATASETS = 3
COLUMNS = {"x": {"type": "number", "lower": 0, "upper": 1}}
SERVE = f"""
import functools, resource
from app import main as server
from app.constants import Constants
# time ends no request
server.create_app = functools.partial(server.create_app, constants=Constants(head_timeout_s=60))
resource.setrlimit(resource.RLIMIT_NOFILE, ({MOST_OPEN} // 2, {MOST_OPEN}))
from app.cli import main
main()
"""
LETS_EVERYBODY_IN = f"""
from app.web import connection_limiter
connection_limiter.ConnectionLimiter.admit = (
    lambda *_: connection_limiter.Admission.SERVED
)
{SERVE}
"""


@contextmanager
def served(directory: Path, script: str) -> Iterator[str]:
    """Serve with a low limit on open files, which the service raises as far as it may: not."""
    port = free_port()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "RELEASE_DESK_DATA_DIR": str(directory),
        "RELEASE_DESK_BOOTSTRAP_KEY": ADMIN_KEY,
        "RELEASE_DESK_RESPONSE_SLOT_MS": "0",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", script, "serve", "--port", str(port)],
        env=environment,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        until_ready(url)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until_ready(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/readyz", timeout=5, verify=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("not ready")


def client_of(url: str, timeout_s: float = 60) -> httpx.Client:
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    return httpx.Client(base_url=url, headers=headers, timeout=timeout_s, verify=False)


def flood(url: str, stack: ExitStack) -> None:
    """Open connections that say half a head, all from one address, for as long as that works."""
    port = int(url.rpartition(":")[2])
    deadline = time.monotonic() + 10
    for _ in range(CONNECTIONS):
        try:
            each = socket.create_connection(("127.0.0.1", port), timeout=3)
        except OSError:  # no place left in the system's queue, for now or for good
            if time.monotonic() > deadline:
                return
            continue
        stack.enter_context(each)
        try:
            each.sendall(b"GET /v1/datasets HTTP/1.1\r\nHost: h\r\n")
        except OSError:
            each.close()


def goes_on(directory: Path, script: str) -> bool:
    """Return whether releases from data sets not opened before, and probes, go on in a flood."""
    with served(directory, script) as url, ExitStack() as stack:
        with client_of(url) as client:
            rows = "x\n" + "0\n1\n" * 50
            datasets = [
                upload(client, rows, COLUMNS, budget={"epsilon": "3"}, name=f"d{number}")["id"]
                for number in range(DATASETS)
            ]
        flood(url, stack)
        try:
            statuses = []
            for dataset in datasets:
                with client_of(url, 10) as client:
                    statuses.append(
                        httpx.get(f"{url}/readyz", timeout=10, verify=False).status_code
                    )
                    answer = release_mean(client, dataset, column="x", epsilon="1", key=dataset)
                    statuses.append(answer.status_code)
        except httpx.TransportError:
            return False
        return statuses == [200, 201] * DATASETS


def test_a_flood_of_half_open_connections_keeps_nobody_out(tmp_path: Path) -> None:
    assert goes_on(tmp_path / "data", SERVE)


@pytest.mark.wide
def test_a_server_that_lets_everybody_in_is_caught(tmp_path: Path) -> None:
    assert not goes_on(tmp_path / "data", LETS_EVERYBODY_IN)
