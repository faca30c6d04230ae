"""While somebody asks for one costly plan after another, everybody else is served."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.forked_hosts import LOADED
from tests.e2e.bystanders import require_served_as_before
from tests.e2e.live import ADMIN_KEY, LiveServer, upload

pytestmark = [pytest.mark.slow, pytest.mark.timed]

NUMBERS = [f"number{place}" for place in range(40)]
FLAGS = [f"flag{place}" for place in range(24)]
COLUMNS: dict[str, Any] = {
    **{name: {"type": "number", "lower": 0, "upper": 100} for name in NUMBERS},
    **{name: {"type": "boolean"} for name in FLAGS},
}
ROWS = ",".join(COLUMNS) + "\n" + (",".join(["7"] * 40 + ["true"] * 24) + "\n") * 10
CLIENTS = 16
WAITING = 8
SECONDS = 3.0


def _ask(client: httpx.Client, dataset: str) -> httpx.Response:
    """Preview moments of 60 columns, of others each time, so that nothing is remembered."""
    columns = random.sample(list(COLUMNS), 60)
    body = {"statistic": {"kind": "moments", "columns": columns}, "epsilon": "1"}
    return client.post(f"/v1/datasets/{dataset}/previews", json=body)


def _attack(url: str, dataset: str, ready: Any, stop: Any, answers: Any) -> None:
    """Ask for costly plans from many clients, one after the other."""
    reported: list[tuple[str, float]] = []

    def ask() -> None:
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        with httpx.Client(base_url=url, timeout=120, verify=False, headers=headers) as client:
            while not stop.is_set():
                started = time.perf_counter()
                answer = _ask(client, dataset)
                code = f"{answer.status_code} {answer.json().get('code', '')}"
                reported.append((code, time.perf_counter() - started))
                ready.set()
                if answer.status_code == 503:
                    time.sleep(0.2)

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put(reported)


@contextmanager
def _attacked(
    server: LiveServer, dataset: str, reported: list[tuple[str, float]]
) -> Iterator[None]:
    """Have costly plans asked for from another process; tell the answers and what they took."""
    ready, stop, answers = LOADED.Event(), LOADED.Event(), LOADED.Queue()
    process = LOADED.Process(
        target=_attack, args=(server.url, dataset, ready, stop, answers), daemon=True
    )
    process.start()
    assert ready.wait(60)
    try:
        yield
    finally:
        stop.set()
        reported.extend(answers.get(timeout=60))
        process.join()


def test_nobody_waits_for_the_costly_plans_of_others(tmp_path: Path) -> None:
    reported: list[tuple[str, float]] = []
    with LiveServer(tmp_path / "data", constants={"max_waiting_plans": WAITING}) as server:
        with server.client() as admin:
            dataset = str(upload(admin, ROWS, COLUMNS)["id"])
            assert _ask(admin, dataset).status_code == 200  # the first has to wait for modules
        require_served_as_before(
            server,
            dataset,
            "number0",
            lambda: _attacked(server, dataset, reported),
            seconds=SECONDS,
        )
    assert {code for code, _ in reported} == {"200 ", "503 busy"}
