"""The anchor in a second PostgreSQL database: several writers, restores, copies served beside."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.store import DatabaseAnchor, Debit, Finish, Standing, Store, StoreError, reconciling
from app.store.anchor import AnchorError
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, place_on
from tests.app.postgres import databases

pytestmark = pytest.mark.postgres


class Pair:
    """A ledger's database and its anchor's."""

    def __init__(self, directory: Path, url: str, anchor_url: str) -> None:
        self.directory = directory
        self.url = url
        self.anchor_url = anchor_url

    def open(self, directory: Path | None = None, url: str | None = None) -> Store:
        store = Store.open(
            url or self.url,
            data_dir=directory or self.directory,
            anchor=DatabaseAnchor(self.anchor_url, ledger=url or self.url),
        )
        store.share()
        return store

    def ledger(self, store: Store) -> Ledger:
        account = store.write(
            lambda u: u.accounts.open(total=1000, principal=CURATOR, reason="budget")
        ).id
        dataset = store.write(
            lambda u: u.datasets.insert(
                name="people", account=account, spec="{}", rows=3, principal=CURATOR
            )
        ).id
        return Ledger(store, account, dataset, Place(self.directory, self.url))

    def copied(self) -> str:
        """Return the address of a copy of the ledger's database."""
        name, copy = make_url(self.url).database, databases().empty()
        databases()._administer(f'DROP DATABASE "{copy}"')
        databases()._administer(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        databases()._administer(f'CREATE DATABASE "{copy}" TEMPLATE "{name}"')
        return databases().url(copy)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with place_on("postgres", tmp_path) as place:
        yield Pair(tmp_path, place.url, databases().url(databases().empty()))


@contextmanager
def closing(*stores: Store) -> Iterator[None]:
    try:
        yield
    finally:
        for store in stores:
            store.close()


def charge(store: Store, ledger: Ledger, idem: str, amount: int = 1) -> str:
    debit = Debit(
        dataset=ledger.dataset, principal=ANALYST, idem=idem, amount=amount, request="{}", plan="{}"
    )
    return store.write(debit).record.id


def spent(store: Store, account: str) -> int:
    with store.reading() as r:
        found = r.accounts.get(account)
    assert found is not None
    return found.spent


def test_writers_share_an_anchor(pair: Pair) -> None:
    stores = [pair.open() for _ in range(3)]
    with closing(*stores):
        ledger = pair.ledger(stores[0])

        def work(number: int) -> None:
            for count in range(8):
                release = charge(stores[number], ledger, f"{number}-{count}")
                if count % 2:
                    other = stores[(number + 1) % 3]
                    other.write(Finish(release=release, result=b"{}"))
                elif count % 4:
                    stores[number].write(lambda u, r=release: u.releases.void(r))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [store.frozen for store in stores] == [None] * 3
        assert stores[0].anchored == "database"
        assert spent(stores[1], ledger.account) == 24
    store = pair.open()
    with closing(store):
        assert store.frozen is None
        assert store.verify().ok


def test_an_older_database_is_frozen_and_burned(pair: Pair) -> None:
    store = pair.open()
    ledger = pair.ledger(store)
    charge(store, ledger, "first", 10)
    store.close()
    old = pair.copied()
    store = pair.open()
    charge(store, ledger, "second", 15)
    charge(store, ledger, "third", 5)
    store.close()
    restored = pair.open(url=old)
    with closing(restored):
        assert restored.frozen is Standing.OLDER
        with pytest.raises(Problem, match="ledger-frozen"):
            charge(restored, ledger, "fourth")
    anchor = DatabaseAnchor(pair.anchor_url, ledger=old)
    with reconciling(old, data_dir=pair.directory, anchor=anchor) as reconciliation:
        assert reconciliation.findings().lost == {ledger.account: 20}
        reconciliation.apply()
    restored = pair.open(url=old)
    with closing(restored):
        assert restored.frozen is None
        assert spent(restored, ledger.account) == 30
        charge(restored, ledger, "fourth")
        assert restored.verify().ok
    again = pair.open(url=old)
    assert again.frozen is None
    again.close()


def test_what_a_dead_process_had_noted_is_burned_by_the_next(pair: Pair) -> None:
    dead, alive = pair.open(), pair.open()
    with closing(alive):
        ledger = pair.ledger(alive)
        waiting = charge(alive, ledger, "waiting", 2)

        def die(_: object) -> None:
            guard = dead._guard
            work = dead._writer._work
            guard.before_commit(work)
            guard.rolled_back = lambda: None  # type: ignore[method-assign]
            raise RuntimeError("as if killed before COMMIT")

        dead._writer._before_commit = die
        for task in (
            Debit(
                dataset=ledger.dataset,
                principal=ANALYST,
                idem="lost",
                amount=7,
                request="{}",
                plan="{}",
            ),
        ):
            with pytest.raises(RuntimeError, match="killed"):
                dead.write(task)
        assert spent(alive, ledger.account) == 2
        charge(alive, ledger, "next", 3)
        assert spent(alive, ledger.account) == 12, "2, the 7 that were lost, and 3"
        with pytest.raises(RuntimeError, match="killed"):
            dead.write(Finish(release=waiting, result=b"seen"))
        charge(alive, ledger, "after", 1)
        with alive.reading() as r:
            found = r.releases.get(waiting)
        assert found is not None
        assert (found.state, found.result) == (ReleaseState.RELEASED, b"seen")
        assert alive.verify().ok
    dead._writer._before_commit = None
    dead.close()
    store = pair.open()
    assert store.frozen is None
    store.close()


def test_a_copy_served_beside_stops_the_other(pair: Pair, tmp_path: Path) -> None:
    store = pair.open()
    ledger = pair.ledger(store)
    store.close()
    copy = pair.copied()
    ours, theirs = pair.open(), pair.open(tmp_path / "other", copy)
    with closing(ours, theirs):
        charge(ours, ledger, "ours")
        charge(ours, ledger, "ours too")
        for _ in range(2):
            with pytest.raises(Problem, match="ledger-frozen"):
                charge(theirs, ledger, "theirs")
        assert theirs.frozen is Standing.DIFFERENT
        charge(ours, ledger, "ours still")


def test_an_emptied_anchor_freezes(pair: Pair) -> None:
    store = pair.open()
    with closing(store):
        ledger = pair.ledger(store)
        with psycopg.connect(
            pair.anchor_url.replace("+psycopg", ""), autocommit=True
        ) as connection:
            connection.execute("DELETE FROM anchor")
        with pytest.raises(Problem, match="ledger-frozen"):
            charge(store, ledger, "one")
    store = pair.open()
    assert store.frozen is Standing.FORGOTTEN
    store.close()


def test_an_anchor_that_cannot_be_reached_stops_writes(pair: Pair) -> None:
    with pytest.raises(StoreError, match="must be on PostgreSQL"):
        DatabaseAnchor("sqlite:///x", ledger=pair.url)
    with pytest.raises(StoreError, match="another database"):
        DatabaseAnchor(pair.url, ledger=pair.url)
    store = pair.open()
    with closing(store):
        ledger = pair.ledger(store)
        anchor = store._guard._anchor
        assert isinstance(anchor, DatabaseAnchor)
        there, anchor._info = anchor._info, "host=127.0.0.1 port=1 connect_timeout=1"
        anchor.close()
        with pytest.raises(AnchorError):
            charge(store, ledger, "one")
        anchor._info = there
        charge(store, ledger, "one")
        assert spent(store, ledger.account) == 1
        assert store.frozen is None
