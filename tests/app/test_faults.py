"""Faults at every statement and at every disk operation of a release, on both databases.

Whatever fails wherever: the ledger verifies, nothing is spent that was not
charged, what was acknowledged is there, and the same release can be asked for
again, under its old charge where there is one.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.engine.data import DataEngine
from app.services.datasets.readable import ReadableData
from app.services.health import HealthService
from app.services.releases.public_moments import LedgerClock
from app.store import Debit, Finish, ReleaseRecord, Store, StoreError
from app.store.anchor.standing import AnchorError
from app.store.guard import DiskError, disk_errors_told
from app.vault.vault import Vault
from tests.app.disk import ERRORS, Tape, image, recorded
from tests.app.forked_hosts import LOADED
from tests.app.homes import Home
from tests.app.ledgers import ANALYST, Ledger, Place, found_by_key, opened, url_of

AMOUNT = 3
RESULT = b'{"value": 1}'


def release(store: Store, dataset: str, idem: str) -> ReleaseRecord:
    """Charge, draw and finish, as the service does; what is charged is not charged again."""
    charged = store.write(
        Debit(dataset=dataset, principal=ANALYST, idem=idem, amount=AMOUNT, request="{}", plan="{}")
    ).record
    if charged.state is ReleaseState.RELEASED:
        with store.reading() as reader:
            (stored,) = reader.releases.get_all([charged.id]).values()
        return stored
    return store.write(Finish(release=charged.id, result=RESULT))


def check(store: Store, account: str, reported: set[str], *, asked: int) -> None:
    """What was reported is there, and no more is spent than was asked for."""
    assert store.frozen is None
    verification = store.verify()
    assert verification.ok, verification.faults
    with store.reading() as r:
        found = r.accounts.get(account)
        releases = r.releases.list(limit=10**6)
        for idem in reported:
            known = found_by_key(r, ANALYST, idem)
            assert known is not None
            assert (known.state, known.result) == (ReleaseState.RELEASED, RESULT)
    assert found is not None
    assert AMOUNT * len(releases) <= found.spent <= AMOUNT * asked


class Trap:
    """Counts statements, COMMIT included, and does something at one, or at so many from there."""

    def __init__(self, store: Store) -> None:
        self.count = 0
        self.at: int | None = None
        self.lasting: float = 1
        self.spring: Callable[[], object] = lambda: None
        engine = store.writer.connection.engine
        event.listen(engine, "before_cursor_execute", self)
        event.listen(engine, "commit", self)

    def __call__(self, *_: Any) -> None:
        number, self.count = self.count, self.count + 1
        if self.at is not None and 0 <= number - self.at < self.lasting:
            self.spring()


class InjectedError(RuntimeError):
    """What a trap raises."""


def raise_fault() -> None:
    raise InjectedError("injected")


def raise_at_commit(_: object) -> None:
    raise_fault()


@pytest.mark.parametrize("lasting", [1, float("inf")], ids=["once", "from then on"])
def test_an_exception_at_any_statement_undoes_it_all(home: Home, lasting: float) -> None:
    """A write that is alone fails with its statement, and the next one succeeds."""
    with opened(home, total=10**6) as ledger:
        trap = Trap(ledger.store)
        release(ledger.store, ledger.dataset, "warm up")
        statements = trap.count
        assert statements >= 11
        trap.spring, trap.lasting = raise_fault, lasting
        reported, failed = {"warm up"}, 0
        for at in range(statements):
            trap.count, trap.at = 0, at
            idem = f"fault at {at}"
            try:
                release(ledger.store, ledger.dataset, idem)
                reported.add(idem)
            except InjectedError:
                failed += 1
            assert trap.count > at
            trap.at = None
            check(ledger.store, ledger.account, reported, asked=at + 2)
            assert release(ledger.store, ledger.dataset, idem).result == RESULT
            reported.add(idem)
            check(ledger.store, ledger.account, reported, asked=at + 2)
        assert ledger.balance()[1] == AMOUNT * (statements + 1), "each was charged once"
        assert failed == statements


def test_a_commit_that_cannot_be_taken_back_is_a_failed_one_all_the_same(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    """COMMIT fails and the anchor is gone too: the first error is told, the second is logged."""
    with opened(home, total=10**6) as ledger:
        store, writer = ledger.store, ledger.store.writer
        readable = ReadableData(store, DataEngine(Vault(home.directory)))
        health = HealthService(
            store,
            readable,
            LedgerClock(store, most_behind_s=300),
            calculates=lambda: True,
            directories={"data directory": home.directory},
            anchor_shares_device=False,
        )
        release(store, ledger.dataset, "warm up")
        health.check()
        take_back = writer.rolled_back
        assert take_back is not None

        def gone() -> None:
            take_back()  # a file's never fails
            raise AnchorError("the anchor's database cannot be used")

        engine = store.writer.connection.engine
        event.listen(engine, "commit", raise_at_commit)
        writer.rolled_back = gone
        with pytest.raises(InjectedError):
            release(store, ledger.dataset, "lost")
        assert store.failing
        with pytest.raises(Problem, match="not-ready"):
            health.check()
        (reported,) = (each for each in caplog.records if each.levelname == "ERROR")
        assert vars(reported)["failure"] == "AnchorError"
        event.remove(engine, "commit", raise_at_commit)
        writer.rolled_back = take_back
        assert release(store, ledger.dataset, "lost").result == RESULT
        health.check()
        check(store, ledger.account, {"warm up", "lost"}, asked=2)


def die_at(home: Home, dataset: str, at: int, done: Any) -> None:
    store = home.open()
    trap = Trap(store)
    trap.at, trap.spring = at, lambda: os.kill(os.getpid(), signal.SIGKILL)
    release(store, dataset, f"death at {at}")
    done.send(trap.count)
    os.kill(os.getpid(), signal.SIGKILL)


def said(receiver: Connection) -> bool:
    """Return whether the process has told that its release is done."""
    try:
        receiver.recv()
    except EOFError:
        return False
    finally:
        receiver.close()
    return True


@pytest.mark.slow
def test_a_death_at_any_statement_loses_nothing(home: Home) -> None:
    with opened(home, total=10**6) as ledger:
        pass
    reported: set[str] = set()
    at = asked = 0
    alive = False
    while not alive:
        receiver, sender = LOADED.Pipe(duplex=False)
        process = LOADED.Process(target=die_at, args=(home, ledger.dataset, at, sender))
        process.start()
        sender.close()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        process.close()
        alive = said(receiver)  # it outlived the last statement
        if alive:
            reported.add(f"death at {at}")
        # A charge that was lost after the anchor had noted it is burned: asked for twice.
        asked += 2
        store = home.open()
        try:
            check(store, ledger.account, reported, asked=asked)
            assert release(store, ledger.dataset, f"death at {at}").result == RESULT
            reported.add(f"death at {at}")
            check(store, ledger.account, reported, asked=asked)
        finally:
            store.close()
        at += 1
    assert at >= 11


@contextmanager
def faulty(ledger: Ledger, directory: Path) -> Iterator[tuple[Tape, Ledger]]:
    """Open a copy of a ledger on a disk that can fail."""
    shutil.copytree(ledger.place.directory, directory)
    place = Place(directory, url_of(directory))
    with recorded() as tape:
        # What was there before counts as flushed.
        for file in (path for path in directory.rglob("*") if path.is_file()):
            tape.note("write", str(file), content=file.read_bytes())
            tape.note("sync", str(file))
        store = place.open()
        try:
            yield tape, replace(ledger, store=store, place=place)
        finally:
            store.close()


def of_driver(orig: Exception, **known: object) -> DBAPIError:
    for name, value in known.items():
        setattr(orig, name, value)
    return DBAPIError("COMMIT", None, orig)


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (of_driver(sqlite3.OperationalError(), sqlite_errorcode=sqlite3.SQLITE_FULL), True),
        (of_driver(sqlite3.OperationalError(), sqlite_errorcode=sqlite3.SQLITE_BUSY), False),
        (of_driver(psycopg.errors.DiskFull()), True),
        (of_driver(psycopg.errors.SerializationFailure()), False),
        (OSError(errno.EMFILE, "too many"), True),
        (OSError(errno.EFBIG, "more than a file may hold"), True),
        (OSError(errno.ESTALE, "its server has another disk now"), True),
        (OSError(errno.EPERM, "not yours"), False),
        (AnchorError("not the disk's"), False),
    ],
)
def test_the_disk_is_told_apart(error: Exception, reported: bool) -> None:
    with pytest.raises(DiskError if reported else type(error)), disk_errors_told():
        raise error


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
def test_a_full_disk_of_the_anchor_is_told_too(number: int) -> None:
    anchor = AnchorError("cannot be written")
    anchor.__cause__ = OSError(number, "full")
    with pytest.raises(DiskError), disk_errors_told():
        raise anchor


def attempt(ledger: Ledger, idem: str) -> bool:
    """Return whether the release was acknowledged."""
    try:
        release(ledger.store, ledger.dataset, idem)
    except (DBAPIError, StoreError):
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("lasting", [1, float("inf")], ids=["once", "from then on"])
@pytest.mark.parametrize("error", sorted(ERRORS))
def test_a_disk_error_at_any_operation(tmp_path: Path, error: str, lasting: float) -> None:
    """After it, in the same process; and after a power cut on what the disk then holds."""
    rng = random.Random(4)
    with opened(Place(tmp_path / "first", url_of(tmp_path / "first")), total=10**6) as first:
        release(first.store, first.dataset, "warm up")
    with faulty(first, tmp_path / "count") as (tape, ledger):
        tape.operations = 0
        release(ledger.store, ledger.dataset, "counted")
        operations = tape.operations
    assert operations >= 8
    for at in range(operations):
        with faulty(first, tmp_path / str(at)) as (tape, ledger):
            reported = {"warm up"}
            tape.operations, tape.fail_at, tape.fail_for, tape.error = 0, at, lasting, error
            if attempt(ledger, "faulty"):
                reported.add("faulty")
            events = tuple(tape.events)
            assert lasting == 1 or not attempt(ledger, "while it lasts")
            tape.fail_at = None
            if ledger.store.frozen is None:
                check(ledger.store, ledger.account, reported, asked=4)
                assert attempt(ledger, "faulty")
                check(ledger.store, ledger.account, {*reported, "faulty"}, asked=4)
        cut = tmp_path / f"{at} cut"
        image(events, tmp_path / str(at), cut, fate="dropped", rng=rng)
        store = Place(cut, url_of(cut)).open()
        try:
            check(store, ledger.account, reported, asked=4)
        finally:
            store.close()
