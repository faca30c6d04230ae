"""Several processes at once: servers on PostgreSQL, clients on either database."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest

from app.domain.releases import ReleaseState
from app.store import inspecting
from tests.app.conftest import ON_BOTH
from tests.app.forked_hosts import LOADED
from tests.app.ledgers import Place, place_on
from tests.e2e.live import ADMIN_KEY, LiveServer, free_port, release_mean, upload
from tests.speed import PATIENCE_S

pytestmark = pytest.mark.slow

PROCESSES = 4
CLIENTS = 64
"""In each process."""
GRANTED = 40
COLUMNS = {"age": {"type": "number", "lower": 0, "upper": 100}}
ROWS = "age\n" + "".join(f"{age}\n" for age in range(100))


@pytest.fixture(params=ON_BOTH)
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Place, list[LiveServer]]]:
    """One server on SQLite, four over one ledger on PostgreSQL."""
    directory = tmp_path_factory.mktemp("processes") / "data"
    with place_on(request.param, directory) as place, ExitStack() as stack:
        count = 1 if place.backend == "sqlite" else PROCESSES
        live = [
            LiveServer(
                directory,
                RELEASE_DESK_DATABASE_URL=place.url,
                RELEASE_DESK_RESPONSE_SLOT_MS="0",
            )
            for _ in range(count)
        ]
        for server in live:
            stack.enter_context(server)
        yield place, live


def ask(url: str, dataset: str, number: int) -> tuple[int, str]:
    """Ask for one release under a key of its own; return the status and the problem's code."""
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    with httpx.Client(base_url=url, headers=headers, timeout=120, verify=False) as client:
        answer = release_mean(client, dataset, column="age", epsilon="0.05", key=f"key {number}")
    return answer.status_code, answer.json().get("code", "")


def ask_together(url: str, dataset: str, numbers: list[int]) -> list[tuple[int, str]]:
    """Ask in as many threads as there are numbers; run in a process of its own."""
    with ThreadPoolExecutor(len(numbers)) as pool:
        return list(pool.map(lambda number: ask(url, dataset, number), numbers))


def test_64_clients_in_each_of_4_processes_spend_exactly_the_budget(
    servers: tuple[Place, list[LiveServer]],
) -> None:
    """All at once; there is budget for forty of their releases."""
    place, live = servers
    with live[0].client() as client:
        dataset = upload(client, ROWS, COLUMNS, budget={"epsilon": "2"})["id"]
    with ProcessPoolExecutor(PROCESSES, mp_context=LOADED) as pool:
        futures = [
            pool.submit(
                ask_together,
                live[process % len(live)].url,
                dataset,
                list(range(process * CLIENTS, (process + 1) * CLIENTS)),
            )
            for process in range(PROCESSES)
        ]
        outcomes = Counter(outcome for future in futures for outcome in future.result(240))
    assert outcomes == {(201, ""): GRANTED, (409, "budget-exceeded"): PROCESSES * CLIENTS - GRANTED}
    for server in live:
        with server.client() as client:
            left = client.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]
        assert left == {"total": "2", "spent": "2", "reserved": "0", "remaining": "0"}
    with inspecting(place.url) as reader:
        assert reader.verify().ok
        assert len(reader.releases.list(limit=1000)) == GRANTED


@pytest.mark.postgres
@pytest.mark.parametrize("servers", ["postgres"], indirect=True)
@pytest.mark.wide
def test_what_one_server_changes_every_server_knows(
    servers: tuple[Place, list[LiveServer]],
) -> None:
    _, live = servers
    with ExitStack() as stack:
        clients = [stack.enter_context(server.client()) for server in live]
        dataset = upload(clients[0], ROWS, COLUMNS, budget={"epsilon": "5"})["id"]
        body = {"name": "An analyst", "role": "analyst"}
        key = clients[1].post("/v1/keys", json=body).json()
        analysts = [stack.enter_context(server.client(key["secret"])) for server in live]
        first = release_mean(analysts[0], dataset, column="age", epsilon="1", key="k")
        assert first.status_code == 201
        for client in analysts:
            again = release_mean(client, dataset, column="age", epsilon="1", key="k")
            assert again.content == first.content
            seen = client.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]
            assert seen["spent"] == "1"
            other = release_mean(client, dataset, column="age", epsilon="2", key="k")
            assert other.json()["code"] == "idempotency-key-reused"
        assert clients[2].delete(f"/v1/keys/{key['id']}").status_code == 204
        assert [c.get("/v1/datasets").status_code for c in analysts] == [401] * PROCESSES
        assert clients[3].post(f"/v1/datasets/{dataset}/archive").status_code == 200
        for client in clients:
            assert client.get(f"/v1/datasets/{dataset}").json()["status"] == "archived"
            asked = release_mean(client, dataset, column="age", epsilon="1", key="later")
            assert asked.json()["code"] == "dataset-archived"


@pytest.mark.postgres
@pytest.mark.parametrize("servers", ["postgres"], indirect=True)
def test_a_key_sent_to_every_server_at_once_is_charged_once(
    servers: tuple[Place, list[LiveServer]],
) -> None:
    place, live = servers
    keys = 12
    with live[0].client() as client:
        dataset = upload(client, ROWS, COLUMNS, budget={"epsilon": "12"})["id"]
    barrier = threading.Barrier(keys * PROCESSES)

    def send(number: int) -> tuple[int, int, bytes]:
        with live[number % PROCESSES].client() as client:
            barrier.wait(60)
            key = number // PROCESSES
            answer = release_mean(client, dataset, column="age", epsilon="1", key=f"key {key}")
            while answer.status_code in (202, 409):
                # another server has it in hand
                time.sleep(float(answer.headers.get("retry-after", 0.2)))
                answer = release_mean(client, dataset, column="age", epsilon="1", key=f"key {key}")
        return key, answer.status_code, answer.content

    with ThreadPoolExecutor(keys * PROCESSES) as pool:
        answers = list(pool.map(send, range(keys * PROCESSES)))
    assert {status for _, status, _ in answers} == {201}
    assert len({(key, content) for key, _, content in answers}) == keys
    with inspecting(place.url) as reader:
        assert reader.verify().ok
        releases = reader.releases.list(limit=1000)
    assert len(releases) == keys
    assert {release.attempts for release in releases} == {1}, "nobody drew what another one had"


@pytest.mark.postgres
def test_what_a_killed_server_had_in_hand_the_others_answer(tmp_path: Path) -> None:
    with place_on("postgres", tmp_path / "data") as place, ExitStack() as stack:
        doomed, other = (
            stack.enter_context(
                LiveServer(
                    place.directory,
                    RELEASE_DESK_DATABASE_URL=place.url,
                    RELEASE_DESK_RESPONSE_SLOT_MS="0",
                    constants={"worker_lease_s": 2},
                )
            )
            for _ in range(2)
        )
        with other.client() as client:
            dataset = upload(client, ROWS, COLUMNS, budget={"epsilon": "100"})["id"]
        enough = threading.Semaphore(0)

        def send(number: int) -> tuple[str, bytes]:
            """Ask one server until it dies, and then the other one until it answers."""
            key = ""
            with suppress(httpx.TransportError), doomed.client() as client:
                for turn in range(10**6):
                    key = f"{number} {turn}"
                    release_mean(client, dataset, column="age", epsilon="0.01", key=key)
                    enough.release()
            with other.client() as client:
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline:
                    answer = release_mean(client, dataset, column="age", epsilon="0.01", key=key)
                    if answer.status_code == 201:
                        return key, answer.content
                    assert answer.status_code in (202, 409), answer.text
                    time.sleep(0.2)
            raise AssertionError("never answered")

        with ThreadPoolExecutor(16) as pool:
            futures = [pool.submit(send, number) for number in range(16)]
            for _ in range(200):
                assert enough.acquire(timeout=60)
            doomed.kill()
            answers = [future.result(120) for future in futures]
        assert len({content for _, content in answers}) == 16
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with inspecting(place.url) as reader:
                waiting = len(reader.releases.debited())
            if not waiting:
                break
            time.sleep(0.2)
        with inspecting(place.url) as reader:
            assert reader.verify().ok
            releases = reader.releases.list(limit=10**6)
        assert {release.state for release in releases} == {ReleaseState.RELEASED}
        assert max(release.attempts for release in releases) <= 2


@pytest.mark.postgres
def test_the_command_line_serves_with_workers(tmp_path: Path) -> None:
    with place_on("postgres", tmp_path / "data") as place:
        port = free_port()
        log = (tmp_path / "log").open("w+b")
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "serve", "--port", str(port), "--workers", "2"],
            env={
                **os.environ,
                "RELEASE_DESK_DATA_DIR": str(place.directory),
                "RELEASE_DESK_DATABASE_URL": place.url,
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        children: list[psutil.Process] = []
        try:
            wait_until_ready(process, port)
            printed = Path(log.name).read_text()
            keys = [
                line.split()[-1]
                for line in printed.splitlines()
                if line.startswith("first admin key")
            ]
            assert len(keys) == 1, printed
            children = psutil.Process(process.pid).children(recursive=True)
            assert len(children) >= 2
            headers = {"Authorization": f"Bearer {keys[0]}"}
            url = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=url, headers=headers, timeout=60, verify=False) as client:
                dataset = upload(client, ROWS, COLUMNS)["id"]
                answer = release_mean(client, dataset, column="age", epsilon="1", key="k")
                assert answer.status_code == 201
                assert json.loads(answer.content)["status"] == "released"
            assert len(processes_counted(url, headers)) == 2
        finally:
            process.send_signal(signal.SIGTERM)
            returned = process.wait(60)
            log.close()
        assert returned == 0
        _, alive = psutil.wait_procs(children, timeout=15)
        assert not alive


def processes_counted(url: str, headers: dict[str, str]) -> set[str]:
    """Return the processes that metrics tell of, over connections until there are two."""
    found: set[str] = set()
    deadline = time.monotonic() + 60
    scrape = partial(httpx.get, f"{url}/metrics", headers=headers, timeout=60, verify=False)
    while len(found) < 2 and time.monotonic() < deadline:
        with ThreadPoolExecutor(8) as pool:
            scrapes = [answer.text for answer in pool.map(lambda _: scrape(), range(8))]
            found.update(*(re.findall('process="([0-9a-f]{16})"', text) for text in scrapes))
    return found


def wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if (
                httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5, verify=False).status_code
                == 200
            ):
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError("the service did not start")
