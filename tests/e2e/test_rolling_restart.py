"""Servers over one ledger, replaced one by one under load: nothing is lost or doubled."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.domain.releases import ReleaseState
from app.store import inspecting
from tests.app.ledgers import Place, place_on
from tests.e2e.live import ADMIN_KEY, LiveServer, upload
from tests.tiers import wide

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

CLIENTS = 8
KILLED = 2
"""Which of them ends by SIGKILL, and not in order."""
PAUSE_S = 1.5
BREATH_S = 0.05
LONGEST_S = 300.0
LOST_EVERY = 10
"""Of so many answers one does not arrive."""
COLUMNS: dict[str, Any] = {"y": {"type": "number", "lower": -1, "upper": 1}}
COLUMNS |= {"a": COLUMNS["y"]}
ROWS = "y,a\n" + "".join(f"{(7 * i % 41) / 41},{(11 * i % 97) / 97}\n" for i in range(100))
MEAN = {"statistic": {"kind": "mean", "columns": ["y"]}, "epsilon": "0.01"}
JOB = {
    "statistic": {"kind": "quantile_regression", "target": "y", "features": ["a"], "bound": 1},
    "mechanism": "kng",
    "epsilon": "0.02",
}


class Fleet:
    """Servers over one ledger, some of which are being replaced."""

    def __init__(self, place: Place, servers: int) -> None:
        self._place = place
        self.live = [self._new() for _ in range(servers)]

    def _new(self) -> LiveServer:
        return LiveServer(
            self._place.directory,
            RELEASE_DESK_DATABASE_URL=self._place.url,
            constants={"worker_lease_s": 2},
            RELEASE_DESK_JOB_PROCESSES="1",
            RELEASE_DESK_DRAIN_TIMEOUT_S="10",
        )

    def start(self) -> None:
        """Start all of them at once."""
        with ThreadPoolExecutor(len(self.live)) as pool:
            list(pool.map(LiveServer.start, self.live))

    def replace(self, number: int, *, killed: bool) -> None:
        """End a server, one way or the other, and start another one in its place."""
        old = self.live[number]
        if killed:
            old.kill()
        else:
            old.stop()
        self.live[number] = self._new().start()

    def stop(self) -> None:
        """End all of them at once."""
        with ThreadPoolExecutor(len(self.live)) as pool:
            list(pool.map(LiveServer.stop, self.live))


@contextmanager
def fleet(place: Place, servers: int) -> Iterator[Fleet]:
    found = Fleet(place, servers)
    try:
        found.start()
        yield found
    finally:
        found.stop()


@dataclass
class Asker:
    """Asks one question after the other of whatever server is next, until each is answered.

    A ``careless`` one asks again under a new key where it has heard nothing, which it must not.
    """

    fleet: Fleet
    dataset: str
    name: str
    careless: bool = False
    answers: dict[str, bytes] = field(default_factory=dict)
    tries: int = 0

    def ask(self, number: int, body: Any) -> None:
        """Ask for a release; where no answer has come, or a later one is promised, once more."""
        key = f"{self.name} {number}"
        deadline = time.monotonic() + LONGEST_S
        lose = number % LOST_EVERY == 0
        while time.monotonic() < deadline:
            found = self._send(key, body)
            if found is not None and found.status_code == 201 and not lose:
                self.answers[key] = found.content
                return
            if self.careless and lose:
                key = f"{key} once more"
            lose = lose and (found is None or found.status_code != 201)
            if found is not None and found.status_code != 201:
                assert found.status_code in (202, 409, 503), found.text
                time.sleep(min(float(found.headers.get("retry-after", 0.2)), 0.5))
        raise AssertionError(f"{key} was never answered")

    def _send(self, key: str, body: Any) -> httpx.Response | None:
        """Send a request to the next server; None: there is none, or it has gone."""
        self.tries += 1
        url = self.fleet.live[self.tries % len(self.fleet.live)].url
        headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Idempotency-Key": key}
        path = f"{url}/v1/datasets/{self.dataset}/releases"
        try:
            return httpx.post(path, json=body, headers=headers, timeout=60, verify=False)
        except httpx.TransportError:
            time.sleep(0.05)
            return None


def require_accounted(place: Place, dataset: str, answers: dict[str, bytes]) -> None:
    """Require that a ledger has exactly the releases that were answered, each charged once."""
    with inspecting(place.url) as reader:
        assert reader.verify(signed=True).ok
        record = reader.datasets.get(dataset)
        assert record is not None
        entries = reader.entries.list(record.account, limit=10**6)
        charges = {each.release: each.amount for each in entries if each.kind == "debit"}
        releases = {
            each.id: each for each in reader.releases.list(limit=10**6) if each.dataset == dataset
        }
        account = reader.accounts.get(record.account)
    assert account is not None
    idems = [each.idem for each in entries if each.kind == "debit"]
    assert len(set(idems)) == len(idems)
    assert sorted(map(str, idems)) == sorted(answers), "what was answered is what was charged"
    assert charges.keys() == releases.keys()
    assert {each.state for each in releases.values()} == {ReleaseState.RELEASED}
    assert max(each.attempts for each in releases.values()) <= 2
    assert account.spent == sum(charges.values())
    assert account.reserved == 0


def load(fleet: Fleet, dataset: str, number: int, stop: threading.Event) -> Asker:
    """Ask until it is enough; two of the clients ask for what is drawn as a job."""
    asker = Asker(fleet, dataset, f"client {number}")
    for turn in itertools.count():
        if stop.is_set():
            break
        asker.ask(turn, body_of(number))
        time.sleep(BREATH_S)
    return asker


def body_of(number: int) -> Any:
    return JOB if number < 2 else MEAN


@pytest.mark.parametrize("servers", [2, *wide(4)])
def test_servers_are_replaced_under_load(tmp_path: Path, servers: int) -> None:
    """Each of them, and one of their successors."""
    with place_on("postgres", tmp_path / "data") as place, fleet(place, servers) as found:
        with found.live[0].client() as admin:
            dataset = str(upload(admin, ROWS, COLUMNS, budget={"epsilon": "1000"})["id"])
            other = str(upload(admin, ROWS, COLUMNS, overlap={"reason": "a test"})["id"])
        stop = threading.Event()
        with ThreadPoolExecutor(CLIENTS) as pool:
            futures = [pool.submit(load, found, dataset, each, stop) for each in range(CLIENTS)]
            try:
                for turn in range(servers + 1):
                    time.sleep(PAUSE_S)
                    found.replace(turn % servers, killed=turn == KILLED)
            finally:
                stop.set()
            askers = [future.result(LONGEST_S) for future in futures]
        for number, asker in enumerate(askers):
            again = Asker(found, dataset, asker.name)
            again.ask(len(asker.answers) - 1, body_of(number))
            assert again.answers.items() <= asker.answers.items(), "the same bytes, by any server"
        answers = {key: answer for asker in askers for key, answer in asker.answers.items()}
        require_accounted(place, dataset, answers)

        careless = Asker(found, other, "careless", careless=True)
        for turn in range(LOST_EVERY):
            careless.ask(turn, MEAN)
        with pytest.raises(AssertionError, match="what was answered is what was charged"):
            require_accounted(place, other, careless.answers)
