"""While somebody asks for one costly plan after another, everybody else is served."""

from __future__ import annotations

import multiprocessing
import random
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.live import ADMIN_KEY, LiveServer, release_mean, upload

NUMBERS = [f"number{place}" for place in range(40)]
FLAGS = [f"flag{place}" for place in range(24)]
COLUMNS: dict[str, Any] = {
    **{name: {"type": "number", "lower": 0, "upper": 100} for name in NUMBERS},
    **{name: {"type": "boolean"} for name in FLAGS},
}
ROWS = ",".join(COLUMNS) + "\n" + (",".join(["7"] * 40 + ["true"] * 24) + "\n") * 10
CLIENTS = 16
WAITING = 8
ASKED = 80
ROUNDS = 3


def _ask(client: httpx.Client, dataset: str) -> httpx.Response:
    """Preview moments of 60 columns, of others each time, so that nothing is remembered."""
    columns = random.sample(list(COLUMNS), 60)
    body = {"statistic": {"kind": "moments", "columns": columns}, "epsilon": "1"}
    return client.post(f"/v1/datasets/{dataset}/previews", json=body)


def _attack(url: str, dataset: str, ready: Any, stop: Any, answers: Any) -> None:
    """Ask for costly plans from many clients, one after the other."""
    told: list[tuple[str, float]] = []

    def ask() -> None:
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        with httpx.Client(base_url=url, timeout=120, verify=False, headers=headers) as client:
            while not stop.is_set():
                started = time.perf_counter()
                answer = _ask(client, dataset)
                code = f"{answer.status_code} {answer.json().get('code', '')}"
                told.append((code, time.perf_counter() - started))
                ready.set()
                if answer.status_code == 503:
                    time.sleep(0.2)

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put(told)


@contextmanager
def _attacked(server: LiveServer, dataset: str, told: list[tuple[str, float]]) -> Iterator[None]:
    """Have costly plans asked for from another process; tell the answers and what they took."""
    context = multiprocessing.get_context("forkserver")
    ready, stop, answers = context.Event(), context.Event(), context.Queue()
    process = context.Process(
        target=_attack, args=(server.url, dataset, ready, stop, answers), daemon=True
    )
    process.start()
    assert ready.wait(60)
    try:
        yield
    finally:
        stop.set()
        told.extend(answers.get(timeout=60))
        process.join()


def _latencies(server: LiveServer, dataset: str) -> list[float]:
    """Release a mean at one new epsilon after the other; return how long each took, sorted."""
    found: list[float] = []
    with server.client() as client:
        for _ in range(ASKED):
            number = time.time_ns()
            epsilon = f"0.000{number % 10**5:05}1"
            started = time.perf_counter()
            answer = release_mean(
                client, dataset, column="number0", epsilon=epsilon, key=str(number)
            )
            found.append(time.perf_counter() - started)
            assert answer.status_code == 201, answer.text
    return sorted(found)


def test_nobody_waits_for_the_costly_plans_of_others(tmp_path: Path) -> None:
    """Who waits in the same queue waits as long; the machine slows both alike."""
    measured = []
    with LiveServer(tmp_path / "data", RELEASE_DESK_MAX_WAITING_PLANS=str(WAITING)) as server:
        with server.client() as admin:
            dataset = str(upload(admin, ROWS, COLUMNS)["id"])
        _latencies(server, dataset)
        for _ in range(ROUNDS):
            told: list[tuple[str, float]] = []
            with _attacked(server, dataset, told):
                found = _latencies(server, dataset)
            assert {code for code, _ in told} == {"200 ", "503 busy"}
            costly = statistics.median(taken for code, taken in told if code == "200 ")
            median, p99 = found[ASKED // 2], found[int(0.99 * ASKED)]
            measured.append((costly, median, p99))
            if median <= costly / 4 and p99 <= costly:
                break
        else:
            pytest.fail(f"a costly plan's wait, others' median and 99th percentile: {measured}")
