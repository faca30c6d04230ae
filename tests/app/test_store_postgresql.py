"""What is PostgreSQL's own: the server's settings, the role, and a COMMIT without an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError

from app.store import Debit, Store, StoreError, UnitOfWork, inspecting
from app.store.anchor import database as anchor_database
from app.store.anchor.database import DatabaseAnchor
from app.store.database import engines, postgresql
from app.store.database.rules import RULES, postgresql_triggers
from app.store.database.tables import metadata
from app.store.errors import ServerSettingError, UnknownCommitError
from tests.app.ledgers import CURATOR, Ledger, Place, Raw, opened, place_on, raw
from tests.app.postgres import databases
from tests.app.test_ledger_race import hold

pytestmark = pytest.mark.postgres


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_on("postgres", tmp_path) as found:
        yield found


class Pretending:
    """A connection to a server whose settings are others."""

    def __init__(self, connection: Any, **settings: str) -> None:
        self._connection, self._settings = connection, settings

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, parameters: Any = None) -> Any:
        if parameters and parameters[0] in self._settings:
            reported = self._settings[parameters[0]]
            return self._connection.execute("SELECT %s", (reported,))
        return self._connection.execute(statement, parameters)


@pytest.mark.parametrize(
    ("name", "value", "reported"),
    [
        ("fsync", "off", "fsync = off"),
        ("full_page_writes", "off", "full_page_writes = off"),
        ("server_encoding", "SQL_ASCII", "server_encoding = SQL_ASCII"),
        ("in_hot_standby", "on", "standby"),
    ],
)
def test_a_server_that_may_lose_what_it_committed_is_refused(
    place: Place, name: str, value: str, reported: str
) -> None:
    with psycopg.connect(place.url) as connection:
        postgresql.check_server(connection)
        with pytest.raises(ServerSettingError, match=reported):
            postgresql.check_server(Pretending(connection, **{name: value}))


def test_a_server_that_is_too_old_is_refused(place: Place) -> None:
    with psycopg.connect(place.url) as connection:
        old = Pretending(connection)
        old.info = SimpleNamespace(server_version=140020)
        with pytest.raises(ServerSettingError, match="PostgreSQL 15 or newer"):
            postgresql.check_server(old)


def test_full_page_writes_off_is_noticed_on_a_real_server(place: Place) -> None:
    """The one of these settings that a running server can be asked to change."""

    def set_to(value: str) -> None:
        with psycopg.connect(place.url, autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET full_page_writes = {value}".encode())
            connection.execute("SELECT pg_reload_conf()")
            while connection.execute("SHOW full_page_writes").fetchone() != (value,):
                connection.execute("SELECT pg_sleep(0.01)")

    set_to("off")
    try:
        with pytest.raises(ServerSettingError, match="full_page_writes = off"):
            place.open()
    finally:
        set_to("on")
    place.open().close()


def test_a_commit_is_flushed_even_where_the_default_is_not_to(place: Place) -> None:
    with raw(place) as db:
        (name,) = db.execute("SELECT current_database()").fetchone()
        db.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        try:
            with opened(place) as ledger:
                assert setting(ledger, "synchronous_commit") == "on"
        finally:
            db.execute(f"ALTER DATABASE {name} RESET synchronous_commit")


def setting(ledger: Ledger, name: str) -> str:
    def ask(u: UnitOfWork) -> str:
        found = u.connection.exec_driver_sql(f"SHOW {name}")
        return str(found.scalar_one())

    return ledger.store.write(ask)


def test_the_writer_runs_as_the_design_says(place: Place) -> None:
    with opened(place) as ledger:
        assert setting(ledger, "role") == postgresql.ROLE
        assert setting(ledger, "transaction_isolation") == "read committed"
        assert setting(ledger, "search_path") == "public, pg_temp"
        assert setting(ledger, "idle_in_transaction_session_timeout") == "1min"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET amount = 0",
        "DELETE FROM entry",
        "TRUNCATE entry",
        "DELETE FROM account",
        "DELETE FROM release",
        "DROP TRIGGER entry_no_update ON entry",
        "ALTER TABLE entry DISABLE TRIGGER ALL",
        (
            "CREATE OR REPLACE FUNCTION entry_no_update() RETURNS trigger LANGUAGE plpgsql"
            " AS 'BEGIN RETURN NEW; END'"
        ),
        "SET session_replication_role = replica",
        "CREATE TABLE other (x int)",
        "UPDATE alembic_version SET version_num = '0000'",
    ],
)
def test_the_role_may_not_even_try(place: Place, statement: str) -> None:
    with opened(place) as ledger:

        def attempt(u: UnitOfWork) -> None:
            u.connection.exec_driver_sql(statement)

        with pytest.raises(DBAPIError, match=r"permission denied|must be owner"):
            ledger.store.write(attempt)
        assert ledger.store.verify().ok


@pytest.mark.parametrize(
    "connect",
    [
        lambda url: engines.writing_engine(url).connect(),
        lambda url: engines.reading_engine(url).connect(),
        lambda url: DatabaseAnchor(url).read(),
    ],
    ids=["writing_engine", "reading_engine", "DatabaseAnchor"],
)
def test_the_connection_to_a_server_that_is_refused_is_closed(
    place: Place, monkeypatch: pytest.MonkeyPatch, connect: Callable[[str], object]
) -> None:
    refused: list[Any] = []

    def refuse(connection: Any) -> None:
        refused.append(connection)
        raise ServerSettingError("a setting")

    for module in (postgresql, anchor_database):
        monkeypatch.setattr(module, "check_server", refuse)
    with pytest.raises(ServerSettingError):
        connect(place.url)
    assert [connection.closed for connection in refused] == [True]


def test_a_role_that_may_rewrite_entries_is_refused(place: Place) -> None:
    place.open().close()
    with raw(place) as db:
        db.execute("GRANT UPDATE (note) ON entry TO release_desk_service")
        db.execute("GRANT DELETE ON entry TO release_desk_service")
    try:
        with pytest.raises(StoreError, match="has DELETE, UPDATE on the ledger's entries"):
            place.open()
    finally:
        with raw(place) as db:
            db.execute("REVOKE UPDATE (note), DELETE ON entry FROM release_desk_service")
    place.open().close()


def as_user(place: Place, user: str) -> Place:
    return Place(place.directory, place.url.replace("://postgres:", f"://{user}:"))


@pytest.fixture
def user(place: Place) -> Iterator[str]:
    """A user of the server who is neither a superuser nor anything else yet."""
    with raw(place) as db:
        db.execute("CREATE ROLE plain LOGIN")
        try:
            yield "plain"
        finally:
            db.execute("DROP OWNED BY plain")
            db.execute("DROP ROLE plain")


def test_a_user_who_is_only_a_member_can_serve_and_not_migrate(place: Place, user: str) -> None:
    plain = as_user(place, user)
    with pytest.raises(StoreError, match=r"permission denied|cannot act as the role"):
        plain.open()
    with pytest.raises(StoreError, match="cannot act as the role"):
        engines.reading_engine(plain.url).connect()
    with raw(place) as db:
        db.execute(f"GRANT release_desk_service TO {user}")
    with opened(plain) as ledger:
        ledger.release("k")
        assert ledger.store.verify().ok
    with raw(place) as db:
        db.execute("DELETE FROM alembic_version")
    with pytest.raises(StoreError, match="cannot be used"):
        plain.open()
    with raw(place) as db:
        db.execute("DROP FUNCTION entry_no_update() CASCADE")  # not to be lent again


def test_an_owner_without_more_rights_can_migrate_an_empty_database(
    place: Place, user: str
) -> None:
    """The usual account of a managed server: it owns the database and may make roles."""
    name = databases().empty()
    with raw(place) as db:
        db.execute(f'ALTER DATABASE "{name}" OWNER TO {user}')
        url = databases().url(name).replace("://postgres:", f"://{user}:")
        fresh = Place(place.directory / "fresh", url)
        with pytest.raises(StoreError, match=r"GRANT release_desk_service|cannot be used"):
            fresh.open()
        db.execute(f"GRANT release_desk_service TO {user}")
        with opened(fresh) as ledger:
            ledger.release("k")
            assert ledger.store.verify().ok
        db.execute(f'ALTER DATABASE "{name}" OWNER TO postgres')
        db.execute(f"REVOKE release_desk_service FROM {user}")
        with psycopg.connect(databases().url(name), autocommit=True) as inside:
            inside.execute(b"REASSIGN OWNED BY plain TO postgres")


def test_a_user_who_may_not_make_the_role_is_told_how(
    place: Place, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "ROLE", "release_desk_of_tests")
    with raw(place) as db, engines.migrating_engine(place.url).connect() as administrator:
        with (
            engines.migrating_engine(as_user(place, user).url).connect() as connection,
            connection.begin(),
            pytest.raises(StoreError, match="CREATE ROLE release_desk_of_tests NOLOGIN; GRANT"),
        ):
            postgresql.grant(connection)
        with administrator.begin() as transaction:
            postgresql.grant(administrator)
            held = administrator.exec_driver_sql(
                "SELECT has_table_privilege('release_desk_of_tests', 'entry', 'INSERT'),"
                " has_table_privilege('release_desk_of_tests', 'entry', 'UPDATE')"
            ).one()
            transaction.rollback()
        found = db.execute("SELECT 1 FROM pg_roles WHERE rolname = 'release_desk_of_tests'")
        assert found.fetchone() is None
    assert tuple(held) == (True, False)


# A COMMIT without an answer


def lose_connection(connection: Connection, *, after_commit: bool) -> None:
    """Let the connection be gone by the next COMMIT, which the server has seen or has not."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)

    class Lost:
        def __get__(self, *_: object) -> Any:
            def commit() -> None:
                if after_commit:
                    type(driver).commit(driver)
                driver.close()
                raise psycopg.OperationalError("server closed the connection unexpectedly")

            return commit

    driver.commit = Lost().__get__(driver)  # type: ignore[method-assign]


@pytest.mark.parametrize("after_commit", [True, False])
def test_what_a_lost_connection_left_is_neither_lost_nor_written_twice(
    place: Place, after_commit: bool
) -> None:
    with opened(place) as ledger:
        runs: list[str] = []

        def grant(u: UnitOfWork) -> None:
            runs.append("run")
            u.accounts.grant(ledger.account, 5, principal=CURATOR, reason="r")
            if len(runs) == 1:
                lose_connection(u.connection, after_commit=after_commit)

        if after_commit:
            ledger.store.write(grant)
        else:
            with pytest.raises(DBAPIError, match="closed the connection"):
                ledger.store.write(grant)
        assert runs == ["run"]
        assert ledger.balance()[0] == (1005 if after_commit else 1000)
        ledger.grant(1)
        assert ledger.store.verify().ok


def test_nobody_knowing_is_not_taken_for_an_answer(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_DOUBT_S", 0.2)
    with opened(place):
        engine = engines.writing_engine(place.url)
        with engine.connect() as connection, connection.begin():
            life = known_as(connection).life
        with raw(place) as db:
            db.begin()
            number = db.execute("SELECT pg_current_xact_id()::text").fetchone()[0]
            asked = postgresql.Numbered(number, life)
            with pytest.raises(UnknownCommitError, match="has not come back"):
                postgresql.has_committed(engine, asked)
            db.execute("COMMIT")
            assert postgresql.has_committed(engine, asked)
        nowhere = engines.writing_engine("postgresql:///x?host=/nowhere")
        with pytest.raises(UnknownCommitError, match="has not come back"):
            postgresql.has_committed(nowhere, asked)


def known_as(connection: Connection) -> postgresql.Numbered:
    found = postgresql.numbered(connection)
    assert found is not None
    return found


def test_a_yes_of_a_server_that_was_started_anew_is_none(place: Place) -> None:
    """The number may be another transaction's by then (test_database_killed); a no is a no."""
    with opened(place):
        engine = engines.writing_engine(place.url)
        reported = []
        for end in ("COMMIT", "ROLLBACK"):
            with engine.connect() as connection:
                connection.begin()
                reported.append(known_as(connection))
                connection.exec_driver_sql(end)
        committed, undone = (each._replace(life=f"before {each.life}") for each in reported)
        assert postgresql.has_committed(engine, reported[0])
        with pytest.raises(UnknownCommitError, match="restarted"):
            postgresql.has_committed(engine, committed)
        assert not postgresql.has_committed(engine, undone)


def test_the_service_outlives_its_connections(place: Place) -> None:
    """As when the database server is started again: what is asked next is answered."""
    with opened(place) as ledger:
        ledger.debit("before")
        with raw(place) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert ledger.balance() == (1000, 1, 0)
        for attempt in range(2):
            try:
                ledger.debit(f"after {attempt}")
            except DBAPIError:
                assert attempt == 0
        ledger.debit("later")
        assert ledger.store.verify().ok


def test_a_database_that_is_away_fails_what_waits_at_once(place: Place) -> None:
    server = databases().url("postgres")
    with opened(place) as ledger, psycopg.connect(server, autocommit=True) as admin:
        ledger.debit("before")
        (name,) = ledger.store.write(
            lambda u: u.connection.exec_driver_sql("SELECT current_database()").one()
        )
        go = hold(ledger)
        futures = [ledger.store.writer.submit(lambda u: ledger.account) for _ in range(100)]
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
        )
        attempts: list[object] = []
        engine = ledger.store.writer.connection.engine
        event.listen(engine, "do_connect", lambda *a: attempts.append(a))
        go.set()
        for future in futures:
            with pytest.raises(DBAPIError):
                future.result(30)
        assert 1 <= len(attempts) <= 5
        with pytest.raises(DBAPIError):
            ledger.debit("away")
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())
        ledger.debit("back")
        assert ledger.balance() == (1000, 2, 0)


def test_several_stores_share_a_database(place: Place) -> None:
    """Two processes' stores at once, each with its writer; the budget is one."""
    with opened(place, total=100) as first:
        first.store.share()
        second = place.open()
        assert first.store.shared
        assert (first.store.alone, second.alone) == (True, False)
        granted: list[int] = []

        def spend(store: Store, name: str) -> None:
            for number in range(100):
                try:
                    store.write(
                        Debit(
                            dataset=first.dataset,
                            amount=1,
                            principal=name,
                            request="{}",
                            plan="{}",
                            idem=str(number),
                        )
                    )
                except Exception:
                    continue
                granted.append(1)

        threads = [
            threading.Thread(target=spend, args=(store, name))
            for store, name in ((first.store, "a"), (second, "b"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(granted) == 100
        assert first.balance() == (100, 100, 0)
        assert second.verify().ok
        second.close()


# What was edited behind the rules' back


EDITS = [
    "UPDATE entry SET amount = amount + 1 WHERE kind = 'debit'",
    "UPDATE entry SET principal = 'mallory' WHERE kind = 'debit'",
    "UPDATE entry SET at = '2020-01-01T00:00:00.000000Z' WHERE seq = 1",
    "UPDATE entry SET hash = prev WHERE seq = 2",
    "UPDATE account SET total = total + 1 WHERE id <> '0'",
    "UPDATE account SET spent = 0 WHERE id <> '0'",
    "UPDATE release SET result = result || 'x' WHERE state = 'released'",
    "UPDATE release SET principal = 'mallory'",
    "UPDATE dataset SET spec = '{}x'",
    "UPDATE ledger SET id = 'other'",
    "DELETE FROM entry WHERE kind = 'debit'",
    "DELETE FROM release",
]


def behind_the_rules(db: Raw, *statements: str) -> None:
    """Run statements as a superuser who switches every trigger off, and on again."""
    db.begin()
    for table in metadata.tables:
        db.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
    for statement in statements:
        db.execute(statement)
    for table in metadata.tables:
        db.execute(f"ALTER TABLE {table} ENABLE TRIGGER ALL")
    for rule in RULES:
        for name, _ in postgresql_triggers(rule):
            db.execute(f"ALTER TABLE {rule.table} ENABLE ALWAYS TRIGGER {name}")
    db.execute("COMMIT")


def test_edits_behind_the_rules_are_found(place: Place) -> None:
    with opened(place) as ledger:
        ledger.release("first", 10)
        ledger.debit("second", 20)
    with raw(place) as db:
        for edit in EDITS:
            table = edit.removeprefix("DELETE FROM ").removeprefix("UPDATE ").split()[0]
            behind_the_rules(db, f"CREATE TEMP TABLE kept AS SELECT * FROM {table}", edit)
            with inspecting(place.url) as reader:
                assert not reader.verify().ok, edit
            back = f"INSERT INTO {table} SELECT * FROM kept"
            behind_the_rules(db, f"DELETE FROM {table}", back, "DROP TABLE kept")
            with inspecting(place.url) as reader:
                assert reader.verify().ok, reader.verify().faults


def test_a_database_with_a_schema_of_its_own_is_not_lent_to_another_test(tmp_path: Path) -> None:
    with place_on("postgres", tmp_path) as changed, psycopg.connect(changed.url) as connection:
        connection.execute("CREATE SCHEMA elsewhere")
    with place_on("postgres", tmp_path) as next_one:
        assert next_one.url != changed.url
