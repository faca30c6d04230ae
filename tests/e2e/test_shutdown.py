"""A service that is told to stop finishes what it was asked, and forgets nothing of the rest."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import httpx

from tests.e2e.live import LiveServer, release_mean, upload

REQUESTS = 24
EPSILON = "0.01"


def test_every_request_under_way_is_answered_or_can_be_asked_again(tmp_path: Path) -> None:
    slot = {"RELEASE_DESK_RESPONSE_SLOT_MS": "400"}
    answers: dict[str, bytes] = {}
    failed: list[str] = []

    def ask(server: LiveServer, dataset: str, key: str, wait_s: float) -> None:
        time.sleep(wait_s)
        try:
            with server.client() as client:
                answer = release_mean(client, dataset, column="x", epsilon=EPSILON, key=key)
            assert answer.status_code == 201, answer.text
            answers[key] = answer.content
        except httpx.TransportError:
            failed.append(key)

    with LiveServer(tmp_path / "data", **slot) as server:
        with server.client() as admin:
            columns = {"x": {"type": "number", "lower": 0, "upper": 1}}
            dataset = str(upload(admin, "x\n" + "1\n0\n" * 50, columns)["id"])
        keys = [f"request-{number}" for number in range(REQUESTS)]
        threads = [
            threading.Thread(target=ask, args=(server, dataset, key, 0.05 * number))
            for number, key in enumerate(keys)
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.05 * REQUESTS / 2)
        os.kill(server.pid, signal.SIGTERM)
        started = time.monotonic()
        for thread in threads:
            thread.join()
        server.stop()
        assert time.monotonic() - started < 15
        assert server.exit_code in (0, -signal.SIGTERM)
        # what was asked before the signal was answered; what came after was turned away
        assert len(answers) >= REQUESTS // 4
        assert failed
    assert "void" not in server.log.read_text()
    with LiveServer(tmp_path / "data") as server, server.client() as admin:
        spent = admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]["spent"]
        assert float(spent) * 100 >= len(answers)
        for key in keys:
            again = release_mean(admin, dataset, column="x", epsilon=EPSILON, key=key)
            assert again.status_code == 201, again.text
            assert again.content == answers.get(key, again.content)
        budget = admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]
        assert float(budget["spent"]) == REQUESTS * float(EPSILON)
        assert admin.get("/v1/ledger/verification").json()["ok"]


def test_an_upload_under_way_is_stored(tmp_path: Path) -> None:
    rows = "x\n" + "0.5\n" * 400_000
    found: list[int] = []

    def send(server: LiveServer) -> None:
        with server.client() as client:
            columns = {"x": {"type": "number", "lower": 0, "upper": 1}}
            found.append(upload(client, rows, columns)["rows"])

    with LiveServer(tmp_path / "data") as server:
        thread = threading.Thread(target=send, args=(server,))
        thread.start()
        deadline = time.monotonic() + 20
        staging = tmp_path / "data" / "staging"
        while not any(staging.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        os.kill(server.pid, signal.SIGTERM)
        thread.join()
        server.stop()
    assert found == [400_000]
    with LiveServer(tmp_path / "data") as server, server.client() as admin:
        (dataset,) = admin.get("/v1/datasets").json()["items"]
        assert dataset["rows"] == 400_000
        key = "after the restart"
        answer = release_mean(admin, dataset["id"], column="x", epsilon="1", key=key)
        assert answer.status_code == 201
