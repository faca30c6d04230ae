"""The database server is killed while many callers are served: what was acknowledged is there.

The server's own default is not to flush at COMMIT, and it does so by itself every ten
seconds only: what is there afterwards is there because the service had it flushed. A twin
that takes the default goes through the same checks and has to fail them.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.store import Debit, Finish, Store, StoreError, UnitOfWork, UnknownCommitError
from app.store.anchor import database as anchor_database
from app.store.database import postgresql
from tests.app.clusters import Cluster, cluster
from tests.app.homes import Home
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, found_by_key, opened
from tests.app.postgres import Databases
from tests.speed import PATIENCE_S

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

SEED = 20261123
CALLERS = 64
AMOUNT = 3
ENOUGH = 200
_UNFLUSHED = """
synchronous_commit = off
wal_writer_delay = 10s
wal_writer_flush_after = 1GB
wal_buffers = 16MB
bgwriter_lru_maxpages = 0
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with cluster(_UNFLUSHED) as found:
        yield found


@pytest.fixture(scope="module")
def databases(server: Cluster) -> Databases:
    return Databases(server.address)


@pytest.fixture
def home(databases: Databases, tmp_path: Path) -> Home:
    """A ledger and its anchor on the server that is killed."""
    url, anchor_url = databases.url(databases.lend()), databases.url(databases.empty())
    return Home(tmp_path, url, anchor_url=anchor_url)


@dataclass
class Load:
    """Callers who ask for one release after the other, and each again until it is answered."""

    store: Store
    dataset: str
    charged: dict[str, str] = field(default_factory=dict)
    answered: dict[str, bytes] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def call(self, caller: int) -> None:
        try:
            for number in count():
                if self.over.is_set():
                    return
                self.ask(f"{caller}-{number}")
        finally:
            self.over.set()

    def ask(self, idem: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        for draw in count():
            try:
                self._ask(idem, f"{idem}, draw {draw}".encode())
            except (DBAPIError, StoreError):
                assert time.monotonic() < deadline, "it is not served any more"
                self.failed.append(idem)
                time.sleep(0.02)
            else:
                return

    def _ask(self, idem: str, drawn: bytes) -> None:
        charged = self.store.write(
            Debit(
                dataset=self.dataset, principal=ANALYST, idem=idem, amount=AMOUNT, request="{}",
                plan="{}",
            )
        ).record  # fmt: skip
        known = self.charged.setdefault(idem, charged.id)
        assert charged.id == known, "an acknowledged charge is missing"
        if charged.state is ReleaseState.DEBITED:
            try:
                self.store.write(Finish(release=charged.id, result=drawn))
            except Problem as problem:
                if problem.code != "release-void":
                    raise
            else:
                self.answered[idem] = drawn
                return
        # It came to the ledger although it was not acknowledged, and that is what counts.
        with self.store.reading() as reader:
            found = found_by_key(reader, ANALYST, idem)
        assert found is not None, "an acknowledged charge is missing"
        assert found.result is not None, "a result that ended its release is missing"
        self.answered[idem] = found.result

    def wait_for_more(self) -> None:
        enough, deadline = len(self.answered) + ENOUGH, time.monotonic() + PATIENCE_S
        while len(self.answered) < enough and not self.over.is_set():
            assert time.monotonic() < deadline
            time.sleep(0.002)

    def check(self, store: Store, account: str) -> int:
        """Compare a ledger with what was reported; return how much of it was burned."""
        with store.reading() as reader:
            found = reader.accounts.get(account)
            everything = reader.releases.list(limit=10**6)
            for idem, release in self.charged.items():
                known = found_by_key(reader, ANALYST, idem)
                assert known is not None, "an acknowledged charge is missing"
                assert known.id == release, "an acknowledged charge is missing"
                assert known.state is ReleaseState.RELEASED, "an acknowledged answer is missing"
                assert known.result == self.answered[idem]
            entries = reader.entries.list(account, limit=10**6)
        assert store.frozen is None
        verification = store.verify()
        assert verification.ok, verification.faults
        assert found is not None
        burned = sum(entry.amount for entry in entries if entry.kind == "burn")
        # Each was asked for until it was answered, so there is nothing else.
        assert len(everything) == len(self.charged) == len(self.answered)
        assert found.spent - burned == AMOUNT * len(everything)
        return burned


@contextmanager
def loaded(ledger: Ledger) -> Iterator[Load]:
    """Have callers served until the block ends, and then wait for what they still ask for."""
    load = Load(ledger.store, ledger.dataset)
    with ThreadPoolExecutor(CALLERS) as pool:
        calls = [pool.submit(load.call, caller) for caller in range(CALLERS)]
        try:
            yield load
        finally:
            load.over.set()
    for call in calls:
        call.result()


def outlived(ledger: Ledger, server: Cluster, ways: list[Callable[[], None]]) -> Load:
    """End the server in each of these ways while it is busy, start it, and compare at the end."""
    rng = random.Random(SEED)
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("CHECKPOINT")  # what was before the load is there in any case
    with loaded(ledger) as load:
        for end in ways:
            load.wait_for_more()
            time.sleep(rng.uniform(0, 0.05))
            end()
            server.start()
        load.wait_for_more()
    load.check(ledger.store, ledger.account)
    return load


def test_what_was_acknowledged_outlives_the_database_server(server: Cluster, home: Home) -> None:
    ways = [server.kill, server.stop_at_once, server.kill, server.stop_at_once]
    with opened(home, total=10**9) as ledger:
        load = outlived(ledger, server, ways)
        assert load.failed, "it was in the middle of something"
        assert not ledger.store.failing
    with closing(home.open()) as store:
        burned = load.check(store, ledger.account)
    # Each time at most one transaction was noted in the anchor and then lost.
    assert burned <= AMOUNT * CALLERS * len(ways)


def test_a_service_that_takes_the_servers_default_loses_it(
    server: Cluster, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchor_database, "DURABLE", "NULL")
    begin = postgresql._BEGIN_WRITING.replace(postgresql.DURABLE, "NULL")
    monkeypatch.setattr(postgresql, "_BEGIN_WRITING", begin)
    with opened(home, total=10**9) as ledger, pytest.raises(AssertionError, match="missing"):
        outlived(ledger, server, [server.kill])


def _taken(connection: psycopg.Connection) -> int:
    """Take one transaction number."""
    (number,) = connection.execute("SELECT pg_current_xact_id()::text").fetchone() or ("0",)
    return int(number)


@pytest.mark.parametrize("way", ["killed", "crashed"])
def test_a_transaction_number_that_is_given_out_again_proves_nothing(
    server: Cluster, databases: Databases, tmp_path: Path, way: str
) -> None:
    """A crash forgets a transaction with its number, which is then somebody else's."""

    def end() -> None:
        if way == "crashed":
            server.crash()
        else:
            server.kill()
            server.start()

    def grant(store: Store, amount: int) -> int:
        def write(u: UnitOfWork) -> int:
            u.accounts.grant(ledger.account, amount, principal=CURATOR, reason="more")
            return number_of(u)

        return store.write(write)

    # An anchor on the same server would have the number flushed.
    place = Place(tmp_path, databases.url(databases.lend()))
    with opened(place) as ledger:
        ledger.store.share()
        with closing(place.open()) as other:
            numbers: list[int] = []
            dialect = ledger.store.writer.connection.engine.dialect
            commit = dialect.do_commit

            def lost(connection: object) -> None:
                dialect.do_commit = commit  # type: ignore[method-assign]
                end()
                with pytest.raises(DBAPIError):  # its connection is gone as well
                    grant(other, 1)
                # Those given back include some of transactions that wrote nothing; a grant takes
                # several, so the last ones before the number are taken one by one.
                with closing(psycopg.connect(place.url, autocommit=True)) as raw:
                    while _taken(raw) < numbers[0] - 1:
                        pass
                numbers.append(grant(other, 1))
                commit(connection)

            def lost_grant(u: UnitOfWork) -> None:
                u.accounts.grant(ledger.account, 100, principal=CURATOR, reason="lost")
                numbers.append(number_of(u))
                dialect.do_commit = lost  # type: ignore[method-assign]

            with pytest.raises(UnknownCommitError):
                ledger.store.write(lost_grant)
            assert numbers[-1] == numbers[0]
            assert ledger.balance()[0] == 1000 + len(numbers) - 1
            ledger.grant(100)
            assert ledger.balance()[0] == 1100 + len(numbers) - 1
            assert ledger.store.verify().ok


def number_of(work: UnitOfWork) -> int:
    """Return the number of a unit of work's transaction."""
    found = work.connection.exec_driver_sql("SELECT pg_current_xact_id()::text")
    return int(found.scalar_one())
