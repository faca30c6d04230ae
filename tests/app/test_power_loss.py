"""Power cuts: from every moment of the disk's life, what was acknowledged comes back.

The life is recorded once; the disk is then cut off after any write or flush,
with what was not flushed dropped, kept or torn. A twin that does not flush at
COMMIT goes through the same checks and has to fail them.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from app.domain.releases import ReleaseState
from app.store import Finish
from tests.app.disk import Event, Tape, image, recorded
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, found_by_key, opened, url_of

pytestmark = pytest.mark.slow

SEED = 20261121
THREADS, RELEASES = 3, 2


def busy_life(tape: Tape, ledger: Ledger) -> None:
    """Charge and finish releases in several threads, and grant in between."""

    def work(thread: int) -> None:
        for number in range(RELEASES):
            key = f"{thread}-{number}"
            release = ledger.debit(key, 2).id
            tape.acknowledge(f"debited {key}")
            ledger.store.write(Finish(release=release, result=key.encode()))
            tape.acknowledge(f"released {key}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    ledger.grant(3)
    tape.acknowledge("granted")
    for thread in threads:
        thread.join()


def record(directory: Path, rewrite: Callable[[str], str] = str) -> tuple[Sequence[Event], str]:
    with recorded(rewrite=rewrite) as tape, opened(place(directory), total=100) as ledger:
        tape.acknowledge("opened")
        busy_life(tape, ledger)
        events = tuple(tape.events)
    return events, ledger.account


def place(directory: Path) -> Place:
    return Place(directory, url_of(directory))


def check(directory: Path, reported: set[str], account: str) -> None:
    """Start on a disk as it was found: everything told is there, and work goes on."""
    store = place(directory).open()
    try:
        assert not store.frozen, "a power cut is no restore: something acknowledged is missing"
        with store.reading() as r:
            assert r.verify().ok
            if "opened" not in reported:
                return
            found = r.accounts.get(account)
            assert found is not None, "an acknowledged account is missing"
            assert found.total >= (103 if "granted" in reported else 100), "a grant is missing"
            for what in reported - {"opened", "granted"}:
                state, _, key = what.partition(" ")
                release = found_by_key(r, ANALYST, key)
                assert release is not None, "an acknowledged charge is missing"
                if state == "released":
                    assert release.state is ReleaseState.RELEASED, "an answer is missing"
                    assert release.result == key.encode()
            assert found.spent >= 2 * len(r.releases.list())
        store.write(lambda u: u.accounts.grant(account, 1, principal=CURATOR, reason="on it goes"))
        assert store.verify().ok
    finally:
        store.close()


def cuts(events: Sequence[Event], rng: random.Random) -> list[tuple[int, str]]:
    """Return the moments at which the disk differs, with a fate for what was not flushed."""
    chosen = []
    for number, event in enumerate(events, start=1):
        if event.kind in ("sync", "ack", "sync directory", "rename", "delete"):
            chosen.append((number, "dropped"))
        if rng.random() < 0.4:
            chosen.append((number, rng.choice(["torn", "kept"])))
    return chosen


def told_before(events: Sequence[Event]) -> set[str]:
    return {event.path for event in events if event.kind == "ack"}


@pytest.mark.slow
def test_a_power_cut_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    events, account = record(tmp_path / "life")
    assert len(told_before(events)) == 2 + 2 * THREADS * RELEASES
    chosen = cuts(events, rng)
    assert len(chosen) > 100
    for number, fate in chosen:
        target = tmp_path / f"cut-{number}-{fate}"
        image(events[:number], tmp_path / "life", target, fate=fate, rng=rng)
        try:
            check(target, told_before(events[:number]), account)
        except AssertionError as error:
            raise AssertionError(f"cut after event {number}, {fate}, seed {SEED}") from error


def test_a_database_that_does_not_flush_is_found_out(tmp_path: Path) -> None:
    """The same checks on ``synchronous = NORMAL``: a cut loses what was acknowledged."""

    def weaker(sql: str) -> str:
        if sql == "PRAGMA synchronous":
            return "SELECT 2"
        return sql.replace("PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL")

    events, account = record(tmp_path / "life", weaker)
    target = tmp_path / "cut"
    rng = random.Random(SEED)
    image(events, tmp_path / "life", target, fate="dropped", rng=rng)
    with pytest.raises(AssertionError, match="missing"):
        check(target, told_before(events), account)
