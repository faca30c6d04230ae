"""What was acknowledged survives: races for a small budget, and kill -9 under load."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from app.domain.ledger import EntryKind
from app.domain.releases import ReleaseState
from app.store import inspecting
from tests.app.ledgers import place_on
from tests.app.postgres import databases
from tests.e2e.live import LiveServer, release_mean, upload
from tests.speed import PATIENCE_S

pytestmark = pytest.mark.slow

COLUMNS = {"income": {"type": "number", "lower": 0, "upper": 100}}
ROWS = "income\n" + "\n".join(str(value % 100) for value in range(200)) + "\n"
CLIENTS = 4
DRAWER_READY_S = 0.5
"""So long after the first, small draws are made next to the server and no longer in it."""


def test_64_clients_race_for_a_budget_of_3_releases(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data") as server, server.client() as owner:
        dataset = upload(owner, ROWS, COLUMNS, budget={"epsilon": "3"})["id"]
        gate = threading.Barrier(64)

        def ask(number: int) -> httpx.Response:
            with server.client() as client:
                gate.wait()
                return release_mean(
                    client, dataset, column="income", epsilon="1", key=f"race-{number}"
                )

        with ThreadPoolExecutor(64) as pool:
            answers = list(pool.map(ask, range(64)))
        statuses = [answer.status_code for answer in answers]
        assert statuses.count(201) == 3
        assert statuses.count(409) == 61
        refused = next(answer.json() for answer in answers if answer.status_code == 409)
        assert (refused["code"], refused["requested"]) == ("budget-exceeded", "1")
        budget = owner.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]
        assert (budget["spent"], budget["remaining"]) == ("3", "0")
        assert owner.get("/v1/ledger/verification").json()["ok"] is True


class _Load:
    """Clients that release until asked to stop, remembering every acknowledged answer."""

    def __init__(self, server: LiveServer, dataset: str, kill: int) -> None:
        self.acknowledged: dict[str, bytes] = {}
        self.unexpected: list[int] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(server, dataset, f"{kill}-{number}"))
            for number in range(CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, server: LiveServer, dataset: str, prefix: str) -> None:
        with server.client() as client:
            for count in range(10_000):
                if self._stop.is_set():
                    return
                key = f"{prefix}-{count}"
                try:
                    answer = release_mean(
                        client, dataset, column="income", epsilon="0.001", key=key
                    )
                except httpx.TransportError:
                    return
                if answer.status_code == 201:
                    self.acknowledged[key] = answer.content
                else:
                    self.unexpected.append(answer.status_code)

    def wait_for(self, count: int) -> None:
        """Wait until this many releases were acknowledged, or for as long as is patient."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.acknowledged) < count and time.monotonic() < deadline:
            time.sleep(0.001)

    def finish(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def until_drawn_elsewhere(server: LiveServer, dataset: str, key: str) -> Mapping[str, bytes]:
    """Have a release drawn, which begins the process next to the server, and wait for that."""
    with server.client() as client:
        answer = release_mean(client, dataset, column="income", epsilon="0.001", key=key)
    assert answer.status_code == 201
    time.sleep(DRAWER_READY_S)
    return {key: answer.content}


@pytest.mark.parametrize(
    "kills",
    [
        15,
        pytest.param(60, marks=[pytest.mark.wide, pytest.mark.timeout(1200)]),
        pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout(4000)]),
    ],
)
def test_no_acknowledged_release_is_lost_by_kills(tmp_path: Path, kills: int) -> None:
    server = LiveServer(tmp_path / "data").start()
    with server.client() as owner:
        dataset = upload(owner, ROWS, COLUMNS, budget={"epsilon": "10000"})["id"]
    acknowledged: dict[str, bytes] = {}
    for kill in range(kills):
        if kill % 5 == 0:
            acknowledged |= until_drawn_elsewhere(server, dataset, f"{kill}-first")
        load = _Load(server, dataset, kill)
        load.wait_for(1 + kill % 5)
        # Spread the moment of death over a release's life: few kills do so too.
        time.sleep(0.0005 * (kill * 7 % 40))
        server.kill()
        load.finish()
        assert load.unexpected == []
        acknowledged |= load.acknowledged
        server.start()
        with server.client() as client:
            for key, body in list(load.acknowledged.items())[-3:]:
                replay = release_mean(client, dataset, column="income", epsilon="0.001", key=key)
                assert (replay.status_code, replay.content) == (201, body)
    assert len(acknowledged) >= kills
    with server.client() as client:
        for key, body in acknowledged.items():
            replay = release_mean(client, dataset, column="income", epsilon="0.001", key=key)
            assert (replay.status_code, replay.content) == (201, body)
        verification = client.get("/v1/ledger/verification").json()
        assert verification["ok"] is True
        spent = client.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]["spent"]
        assert float(spent) * 1000 >= len(acknowledged)
    server.stop()


# Several servers, and the anchor in a database of its own


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[str, list[LiveServer]]]:
    """The ledger's address, and two servers over it."""
    with place_on("postgres", tmp_path / "data") as place, ExitStack() as stack:
        anchor = databases().url(databases().empty())
        servers = [
            stack.enter_context(
                LiveServer(
                    place.directory,
                    RELEASE_DESK_DATABASE_URL=place.url,
                    RELEASE_DESK_ANCHOR_URL=anchor,
                    constants={"worker_lease_s": 2},
                )
            )
            for _ in range(2)
        ]
        yield place.url, servers


def assert_replayed(server: LiveServer, dataset: str, acknowledged: Mapping[str, bytes]) -> None:
    with server.client() as client:
        for key, body in acknowledged.items():
            replay = release_mean(client, dataset, column="income", epsilon="0.001", key=key)
            assert (replay.status_code, replay.content) == (201, body)


def wait_for_what_is_left(url: str) -> None:
    """Wait until what the dead had charged is drawn by the living, once their leases are over."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with inspecting(url) as reader:
            if not reader.releases.debited():
                return
        time.sleep(0.1)
    raise AssertionError("charged releases wait for ever")


@pytest.mark.postgres
@pytest.mark.parametrize(
    "rounds",
    [
        3,
        pytest.param(150, marks=[pytest.mark.long, pytest.mark.timeout(4000)]),
    ],
)
def test_kills_between_the_anchor_and_the_commit_freeze_nobody(
    pair: tuple[str, list[LiveServer]], rounds: int
) -> None:
    """Killed alone, a server's last transaction is found out by the other; together, at the start.

    A server that dies between its note and its COMMIT has noted what never
    happened: the next writer, in whatever process, burns it and goes on.
    """
    url, servers = pair
    with servers[0].client() as owner:
        dataset = upload(owner, ROWS, COLUMNS, budget={"epsilon": "10000"})["id"]
    acknowledged: dict[str, bytes] = {}
    for turn in range(rounds):
        if turn % 3 == 0:
            for each in servers:
                acknowledged |= until_drawn_elsewhere(each, dataset, f"{turn}-first-{each.port}")
        loads = [_Load(each, dataset, 2 * turn + n) for n, each in enumerate(servers)]
        dying = [0, 1] if turn % 3 == 2 else [turn % 2]
        for load in loads:
            load.wait_for(2 + turn % 5)
        time.sleep(0.0007 * (turn % 40))  # spread the moment of death over a release's life
        for number in dying:
            servers[number].kill()
        before = [len(load.acknowledged) for load in loads]
        living = [number for number in (0, 1) if number not in dying]
        for number in living:
            loads[number].wait_for(before[number] + 3)
        for load in loads:
            load.finish()
            assert load.unexpected == []
            acknowledged |= load.acknowledged
        assert all(len(loads[number].acknowledged) >= before[number] + 3 for number in living)
        for number in dying:
            servers[number].start()
        for load in loads:
            last = dict(list(load.acknowledged.items())[-3:])
            assert_replayed(servers[(turn + 1) % 2], dataset, last)
    wait_for_what_is_left(url)
    assert_replayed(servers[0], dataset, acknowledged)
    with servers[1].client() as client:
        assert client.get("/readyz").json()["anchor"] == "database"
        assert client.get("/v1/ledger/verification").json()["ok"] is True
    with inspecting(url) as reader:
        releases = reader.releases.list(limit=10**6)
        entries = reader.entries.list(releases[0].account, limit=10**6)
        account = reader.accounts.get(releases[0].account)
    burned = [entry.amount for entry in entries if entry.kind == EntryKind.BURN]
    assert account is not None
    assert account.spent == 10**6 * len(releases) + sum(burned)
    assert {release.state for release in releases} == {ReleaseState.RELEASED}
    assert len(acknowledged) <= len(releases)
    if rounds >= 100:
        assert burned, "no kill fell between a note and its COMMIT"
