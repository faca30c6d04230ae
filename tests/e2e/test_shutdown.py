"""A service that is asked to stop finishes what it was asked, and forgets nothing of the rest."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.app.ledgers import place_on
from tests.e2e.live import LiveServer, release_mean, upload
from tests.speed import PATIENCE_S

pytestmark = pytest.mark.slow

REQUESTS = 24
EPSILON = "0.01"
READ_S = 0.3
"""How long a busy server may leave bytes that it has been sent unread."""


class Asking:
    """Requests from threads of their own; when each had left for the server, and its answer."""

    def __init__(self, server: LiveServer, dataset: str) -> None:
        self._server = server
        self._dataset = dataset
        self._together = threading.Barrier(REQUESTS)
        self.sent: dict[str, float] = {}
        self.answers: dict[str, bytes] = {}
        self.failed: set[str] = set()

    def ask(self, key: str, wait_s: float) -> None:
        """Ask for a release after a while, on a connection that the server has taken before."""

        def left(event: str, _: object) -> None:
            if event == "http11.send_request_body.complete":
                self.sent[key] = time.monotonic()

        statistic = {"kind": "mean", "columns": ["x"]}
        with self._server.client() as client:
            assert client.get("/livez").status_code == 200
            self._together.wait(60)
            time.sleep(wait_s)
            try:
                answer = client.post(
                    f"/v1/datasets/{self._dataset}/releases",
                    json={"statistic": statistic, "epsilon": EPSILON},
                    headers={"Idempotency-Key": key},
                    extensions={"trace": left},
                )
            except httpx.TransportError:
                self.failed.add(key)
            else:
                assert answer.status_code == 201, answer.text
                self.answers[key] = answer.content


def test_every_request_under_way_is_answered_or_can_be_asked_again(tmp_path: Path) -> None:
    slot = {"RELEASE_DESK_RESPONSE_SLOT_MS": "400"}
    with LiveServer(tmp_path / "data", **slot) as server:
        with server.client() as admin:
            columns = {"x": {"type": "number", "lower": 0, "upper": 1}}
            dataset = str(upload(admin, "x\n" + "1\n0\n" * 50, columns)["id"])
        keys = [f"request-{number}" for number in range(REQUESTS)]
        asking = Asking(server, dataset)
        threads = [
            threading.Thread(target=asking.ask, args=(key, 0.05 * number))
            for number, key in enumerate(keys)
        ]
        for thread in threads:
            thread.start()
        while len(asking.sent) < REQUESTS // 2:
            time.sleep(0.005)
        signalled = time.monotonic()
        os.kill(server.pid, signal.SIGTERM)
        for thread in threads:
            thread.join()
        server.stop()
        assert time.monotonic() - signalled < 15
        assert server.exit_code in (0, -signal.SIGTERM)
    answers, failed = asking.answers, asking.failed
    assert len(answers) + len(failed) == REQUESTS
    # what the server had when the signal came was answered; what came after was turned away
    there = {key for key, sent in asking.sent.items() if sent < signalled - READ_S}
    assert len(there) >= 3
    assert there <= answers.keys(), (there - answers.keys(), asking.sent, signalled)
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


@pytest.mark.wide
def test_an_upload_under_way_is_stored(tmp_path: Path) -> None:
    rows = "x\n" + "0.5\n" * 400_000
    found: list[int] = []

    def send(server: LiveServer) -> None:
        with server.client() as client:
            columns = {"x": {"type": "number", "lower": 0, "upper": 1}}
            found.append(upload(client, rows, columns)["rows"])

    with LiveServer(tmp_path / "data", RELEASE_DESK_DRAIN_TIMEOUT_S="60") as server:
        thread = threading.Thread(target=send, args=(server,))
        thread.start()
        deadline = time.monotonic() + PATIENCE_S
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


@pytest.mark.postgres
@pytest.mark.wide
def test_a_server_says_that_it_stops_before_it_does(tmp_path: Path) -> None:
    columns = {"x": {"type": "number", "lower": 0, "upper": 1}}
    an_hour = {"stop_notice_s": 3600}
    with (
        place_on("postgres", tmp_path / "data") as place,
        LiveServer(
            tmp_path / "data", constants=an_hour, RELEASE_DESK_DATABASE_URL=place.url
        ) as server,
        server.client() as admin,
    ):
        dataset = str(upload(admin, "x\n" + "1\n0\n" * 50, columns)["id"])
        os.kill(server.pid, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_S
        while (ready := httpx.get(f"{server.url}/readyz", verify=False)).status_code == 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert ready.status_code == 503
        assert (ready.json()["code"], ready.json()["detail"]) == (
            "not-ready",
            "This server is stopping.",
        )
        assert httpx.get(f"{server.url}/livez", verify=False).status_code == 200
        late = release_mean(admin, dataset, column="x", epsilon=EPSILON, key="late")
        assert late.status_code == 201, "who has not heard of it is served"
        server.stop()  # a second signal ends the notice
        assert server.exit_code in (0, -signal.SIGTERM)


def test_a_request_that_is_cut_off_can_be_sent_again(tmp_path: Path) -> None:
    """Its answer would leave in half a minute; the server may take a second."""
    columns = {"x": {"type": "number", "lower": 0, "upper": 1}}
    settings = {"RELEASE_DESK_RESPONSE_SLOT_MS": "30000", "RELEASE_DESK_DRAIN_TIMEOUT_S": "1"}
    answers: list[httpx.Response] = []

    def send(server: LiveServer, dataset: str) -> None:
        with server.client() as client:
            answers.append(
                release_mean(client, dataset, column="x", epsilon=EPSILON, key="cut off")
            )

    with LiveServer(tmp_path / "data", **settings) as server, server.client() as admin:
        dataset = str(upload(admin, "x\n" + "1\n0\n" * 50, columns)["id"])
        thread = threading.Thread(target=send, args=(server, dataset))
        thread.start()
        deadline = time.monotonic() + PATIENCE_S
        while admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]["spent"] == "0":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(server.pid, signal.SIGTERM)
        thread.join()
    (cut,) = answers
    assert (cut.status_code, cut.json()["code"]) == (503, "not-ready")
    assert cut.headers["retry-after"] == "10"
    with LiveServer(tmp_path / "data") as server, server.client() as admin:
        again = release_mean(admin, dataset, column="x", epsilon=EPSILON, key="cut off")
        assert again.status_code == 201
        spent = admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]["spent"]
        assert spent == EPSILON
