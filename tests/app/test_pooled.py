"""Behind a pooler that lends server connections for one transaction each, all goes on as ever."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from app.store import StoreError
from app.store.anchor.database import DatabaseAnchor
from app.store.database import postgresql
from tests.app.ledgers import Place, opened, place_on
from tests.app.poolers import Pooler, pooler
from tests.app.postgres import databases
from tests.contract.service import ask, running, upload

pytestmark = pytest.mark.postgres


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_on("postgres", tmp_path / "data") as found:
        yield found


@pytest.fixture
def between(place: Place) -> Iterator[Pooler]:
    """A pooler; the paths of sockets are short."""
    with tempfile.TemporaryDirectory() as directory, pooler(Path(directory), place.url) as found:
        yield found


def test_a_ledger_leaves_nothing_in_a_session(place: Place, between: Pooler) -> None:
    pooled = Place(place.directory, between.url(place.url))
    name = databases().lend()
    try:
        anchor = DatabaseAnchor(between.url(databases().url(name)))
        with opened(pooled, total=1000, anchor=anchor) as ledger:
            for number in range(20):  # often enough for a driver to prepare what it repeats
                ledger.release(f"key {number}")
            with ThreadPoolExecutor(4) as pool:
                assert {each[1] for each in pool.map(lambda _: ledger.balance(), range(40))} == {20}
                list(pool.map(lambda number: ledger.debit(f"at once {number}"), range(20)))
            role = ledger.store.write(
                lambda u: u.connection.exec_driver_sql("SELECT current_user").scalar_one()
            )
            assert role == postgresql.ROLE
            assert ledger.store.verify().ok
            assert ledger.balance() == (1000, 40, 0)
        again = pooled.open(anchor=DatabaseAnchor(between.url(databases().url(name))))
        assert again.frozen is None
        again.close()
    finally:
        databases().take_back(name)
    assert between.left == []
    assert between.lent > 100


@pytest.mark.slow
def test_a_server_serves_behind_a_pooler(place: Place, between: Pooler) -> None:
    url = between.url(place.url)
    with (
        running(place.directory, database_url=url, replica_url=url) as service,
        service.client() as admin,
    ):
        dataset = upload(admin)["id"]
        first = ask(admin, dataset, key="k")
        assert first.status_code == 201, first.text
        assert ask(admin, dataset, key="k").content == first.content
        found = admin.get("/v1/releases").json()["items"]
        assert [each["id"] for each in found] == [first.json()["id"]]
        assert admin.get("/v1/ledger/verification").json()["ok"]
        assert admin.get("/readyz").json()["replica"] == "read"
    assert between.left == []


def test_a_role_that_cannot_be_had_is_told_behind_a_pooler(place: Place, between: Pooler) -> None:
    with psycopg.connect(place.url, autocommit=True) as db:
        db.execute("CREATE ROLE pooled LOGIN")
        try:
            url = between.url(place.url).replace("://postgres", "://pooled")
            with pytest.raises(StoreError, match=r"permission denied|cannot act as the role"):
                Place(place.directory, url).open()
        finally:
            db.execute("DROP OWNED BY pooled")
            db.execute("DROP ROLE pooled")


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("SET statement_timeout = 1000", b"statement_timeout"),
        ("SET ROLE release_desk_service", b"role"),
        ("SELECT pg_advisory_lock(1)", b"advisory"),
        ("LISTEN news", b"news"),
        ("CREATE TEMPORARY TABLE mine (x int)", b"mine"),
    ],
)
def test_what_is_left_in_a_session_is_found(
    place: Place, between: Pooler, statement: str, left: bytes
) -> None:
    with psycopg.connect(between.url(place.url), autocommit=True) as db:
        db.execute(statement.encode())
        db.execute("SELECT 1")
    assert len(between.left) == 1
    assert left in between.left[0]


def test_a_statement_with_a_name_is_found(place: Place, between: Pooler) -> None:
    with (
        psycopg.connect(between.url(place.url), autocommit=True, prepare_threshold=0) as db,
        pytest.raises(psycopg.errors.InvalidSqlStatementName),
    ):
        db.execute("SELECT 1")
    assert b"SELECT 1" in between.left[0]
