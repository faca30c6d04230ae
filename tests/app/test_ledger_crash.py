"""kill -9 in the middle of writing: what was acknowledged is there, and the chain holds."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from multiprocessing.connection import Connection

import pytest

from app.domain.releases import ReleaseState
from app.store import Debit, inspecting
from tests.app.forked_hosts import LOADED
from tests.app.homes import Home
from tests.app.ledgers import ANALYST, CURATOR, found_by_key, left_behind
from tests.tiers import wide

pytestmark = pytest.mark.slow

WRITERS = 4


def write_until_killed(home: Home, dataset: str, reported: Connection) -> None:
    """Charge and finish releases in several threads; tell every one that is durable."""
    store = home.open()
    for left in left_behind(store):
        store.write(lambda u, r=left.id: u.releases.finish(r, b"redrawn"))
    pid, telling = os.getpid(), threading.Lock()

    def work(thread: int) -> None:
        for number in range(10**9):
            idem = f"{pid}-{thread}-{number}"

            charge = Debit(
                dataset=dataset, amount=1, principal=ANALYST, request="{}", plan="{}", idem=idem
            )
            release = store.write(charge).record.id
            store.write(lambda u, r=release: u.releases.finish(r, r.encode()))
            with telling:
                reported.send((idem, release))

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def acknowledged_before_death(home: Home, dataset: str, delay_s: float) -> dict[str, str]:
    receiver, sender = LOADED.Pipe(duplex=False)
    process = LOADED.Process(target=write_until_killed, args=(home, dataset, sender))
    process.start()
    sender.close()
    known = dict([receiver.recv()])  # it is up and writing
    deadline = time.monotonic() + delay_s
    try:
        while True:
            if process.pid and process.is_alive() and time.monotonic() >= deadline:
                os.kill(process.pid, signal.SIGKILL)
            if receiver.poll(0.001):
                idem, release = receiver.recv()
                known[idem] = release
    except (EOFError, OSError):
        pass
    process.join(30)
    assert process.exitcode == -signal.SIGKILL
    process.close()
    receiver.close()
    return known


@pytest.mark.parametrize(
    "rounds",
    [8, *wide(20), pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout(3 * 3600)])],
)
def test_no_acknowledged_release_is_lost(home: Home, rounds: int) -> None:
    rng = random.Random(7)
    store = home.open()
    account = store.write(
        lambda u: u.accounts.open(total=10**12, principal=CURATOR, reason="budget")
    ).id
    dataset = store.write(
        lambda u: u.datasets.insert(name="d", account=account, spec="{}", rows=1, principal=CURATOR)
    ).id
    store.close()
    known: dict[str, str] = {}
    for _ in range(rounds):
        known |= acknowledged_before_death(home, dataset, rng.uniform(0.0, 0.15))
        with inspecting(home.url) as r:
            assert r.verify().ok
            for idem, release in known.items():
                found = found_by_key(r, ANALYST, idem)
                assert found is not None, "an acknowledged release is missing"
                assert (found.id, found.state) == (release, ReleaseState.RELEASED)
                assert found.result == release.encode()
    with inspecting(home.url) as r:
        final = r.accounts.get(account)
        everything = r.releases.list(limit=10**6)
        entries = r.entries.list(account, limit=10**6)
    assert final is not None
    # What the anchor knew of and the database did not was burned.
    burned = sum(entry.amount for entry in entries if entry.kind == "burn")
    assert final.spent - burned == len(everything) >= len(known) >= rounds
    states = {release.state for release in everything}
    assert states <= {ReleaseState.RELEASED, ReleaseState.DEBITED}
