"""A copy of the database for what anyone may read: whose it is, and what happens without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from app.domain.problems import Problem
from app.places import open_store
from app.settings import Settings, SettingsError
from app.store import Reader, Store
from app.store.errors import UnsupportedDatabaseError
from app.store.opening import REST_S, Replica, ReplicaAwayError
from tests.app.ledgers import Place, opened, place_on, raw
from tests.app.postgres import databases

pytestmark = pytest.mark.postgres


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_on("postgres", tmp_path / "data") as found:
        yield found


@contextmanager
def copy_of(place: Place) -> Iterator[str]:
    """Copy the database as it is now, which no one may have open, and remove the copy."""
    name = make_url(place.url).database
    databases().administer(f'CREATE DATABASE "{name}_copy" TEMPLATE "{name}"')
    try:
        yield databases().url(f"{name}_copy")
    finally:
        databases().administer(f'DROP DATABASE "{name}_copy" WITH (FORCE)')


@contextmanager
def behind(place: Place) -> Iterator[tuple[Store, str, str]]:
    """Open a ledger with a replica that is behind: by a grant, and by a second account."""
    with opened(place) as ledger:
        account = ledger.account
    with copy_of(place) as url:
        store = place.open(replica=url)
        try:
            store.write(lambda u: u.accounts.grant(account, 5, principal="c", reason="more"))
            later = store.write(lambda u: u.accounts.open(total=7, principal="c", reason="new"))
            yield store, account, later.id
        finally:
            store.close()


def total_of(reader: Reader, account: str) -> int:
    found = reader.accounts.get(account)
    if found is None:
        raise Problem("not-found")
    return found.total


def test_what_anybody_may_read_comes_from_the_replica(place: Place) -> None:
    with behind(place) as (store, account, later):
        assert store.replica == "read"
        assert store.read_public(lambda reader: total_of(reader, account)) == 1000
        with store.reading() as reader:
            assert total_of(reader, account) == 1005
        # what it has not got is read of the ledger's own database
        assert store.read_public(lambda reader: total_of(reader, later)) == 7
        with pytest.raises(Problem, match="not-found"):
            store.read_public(lambda reader: total_of(reader, "acc_nobody"))


def test_nothing_can_be_written_there(place: Place) -> None:
    with behind(place) as (store, _, _), copy_of_nothing(store) as replica:
        with pytest.raises(ReplicaAwayError) as refused:
            replica.read(lambda r: r.connection.exec_driver_sql("UPDATE account SET total = 0"))
        assert isinstance(refused.value.__cause__, DBAPIError)
        assert "read-only" in str(refused.value.__cause__)


@contextmanager
def copy_of_nothing(store: Store) -> Iterator[Replica]:
    """Give a replica that is the ledger's own database."""
    url = store.readers.url.render_as_string(hide_password=False)
    replica = Replica(url, store.identity)
    try:
        yield replica
    finally:
        replica.close()


def test_a_replica_that_is_away_is_not_asked_again_for_a_while(place: Place) -> None:
    now = [100.0]
    with opened(place) as ledger:
        gone = databases().url("nowhere")
        replica = Replica(gone, ledger.store.identity, clock=lambda: now[0])
        assert not replica.is_there
        with pytest.raises(ReplicaAwayError, match="a moment ago"):
            replica.read(lambda _: None)
        now[0] += REST_S
        with pytest.raises(ReplicaAwayError, match="cannot be read"):
            replica.read(lambda _: None)


@pytest.mark.parametrize(
    "change",
    ["DELETE FROM alembic_version", "UPDATE ledger SET epoch = 2", "DROP TABLE ledger CASCADE"],
)
def test_a_copy_that_is_not_this_ledgers_is_not_read(place: Place, change: str) -> None:
    with opened(place) as ledger:
        account = ledger.account
    with copy_of(place) as url:
        with raw(Place(place.directory, url)) as db:
            db.execute("SET session_replication_role = replica")
            db.execute(change)
        store = place.open(replica=url)
        try:
            assert store.replica == "away"
            assert store.read_public(lambda reader: total_of(reader, account)) == 1000
        finally:
            store.close()


def test_an_empty_copy_is_not_read(place: Place) -> None:
    with opened(place) as ledger, copy_of_nothing(ledger.store) as replica:
        assert replica.is_there
        other = databases().lend()
        try:
            empty = Replica(databases().url(other), ledger.store.identity)
            assert not empty.is_there
            empty.close()
        finally:
            databases().take_back(other)


def test_only_postgresql_has_replicas(place: Place, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="RELEASE_DESK_REPLICA_URL"):
        open_store(Settings(data_dir=tmp_path / "lite", replica_url=place.url))
    settings = Settings(
        data_dir=tmp_path / "full", database_url=place.url, replica_url="sqlite:///copy"
    )
    with pytest.raises(UnsupportedDatabaseError, match="kept by PostgreSQL"):
        open_store(settings)
    store = open_store(
        Settings(data_dir=tmp_path / "full", database_url=place.url, replica_url=place.url)
    )
    assert store.replica == "read"
    store.close()
