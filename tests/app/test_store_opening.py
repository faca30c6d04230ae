"""Opening: the lock, the pragmas, readers that cannot write, and what a dead process left."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.store import DirectoryLockedError, Standing, Store, StoreError, UnitOfWork, inspecting
from app.store import store as store_module
from app.store.database import engines, sqlite
from app.store.database import lock as lock_module
from app.store.database.lock import DirectoryLock
from app.store.errors import PragmaMismatchError, StoreClosedError, UnsupportedDatabaseError
from tests.app.ledgers import CURATOR, DATABASE_ERRORS, Place, file_of, left_behind, opened, url_of
from tests.speed import PATIENCE_S


def test_a_second_server_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(DirectoryLockedError, match="another Release Desk"):
        Store.open(url_of(tmp_path), data_dir=tmp_path)
    Store.open(url_of(tmp_path), data_dir=tmp_path).close()


def modes(*places: Path) -> list[int]:
    return [stat.S_IMODE(each.stat().st_mode) for each in places]


def test_an_existing_directory_and_database_are_taken_from_others(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    for made in (data, elsewhere):
        made.mkdir()
        made.chmod(0o755)
    file = elsewhere / "ledger.sqlite"
    url = f"sqlite:///{file}"
    Store.open(url, data_dir=data).close()
    assert modes(data, file) == [0o700, 0o600], "from the beginning"
    assert modes(elsewhere) == [0o755], "no directory of the service's"
    data.chmod(0o755)
    file.chmod(0o644)
    with closing(Store.open(url, data_dir=data)):
        next_to_it = [file.with_name(f"{file.name}-{each}") for each in ("wal", "shm")]
        assert modes(data, file, *next_to_it) == [0o700, *[0o600] * 3]


def test_a_directory_of_others_is_refused_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "letters.txt").touch()
    tmp_path.chmod(0o750)
    with pytest.raises(StoreError, match=f"run `chmod 700 {tmp_path}`"):
        Store.open(url_of(tmp_path), data_dir=tmp_path)
    assert modes(tmp_path) == [0o750]
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)
    DirectoryLock(tmp_path).release()  # ours by its group, as volumes of Kubernetes are
    tmp_path.chmod(0o755)
    with pytest.raises(StoreError, match=f"Run `chmod o-rwx {tmp_path}` as its owner"):
        DirectoryLock(tmp_path)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from app.store import DirectoryLockedError, Store\n"
        "try: Store.open(sys.argv[1], data_dir=pathlib.Path(sys.argv[2]))\n"
        "except DirectoryLockedError: sys.exit(7)\n"
    )
    with opened(tmp_path):
        done = subprocess.run(
            [sys.executable, "-c", code, url_of(tmp_path), str(tmp_path)],
            check=False,
            timeout=60,
        )
    assert done.returncode == 7


def test_a_failed_opening_gives_the_directory_free(tmp_path: Path) -> None:
    for url in ("mysql://localhost/x", "no address", "sqlite://", "sqlite:///:memory:"):
        with pytest.raises(UnsupportedDatabaseError):
            Store.open(url, data_dir=tmp_path)
    Store.open(url_of(tmp_path), data_dir=tmp_path).close()


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be used"):
        Store.open(url_of(tmp_path), data_dir=tmp_path / "file")
    with pytest.raises(StoreError, match="cannot be used"):
        Store.open(f"sqlite:///{tmp_path}/none/x.sqlite", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("damaged", "reported"),
    [
        (b"CREATE TRIGGER", "its schema is no text"),
        (b"CREATE TABLE account", "malformed database schema"),
        (b"SQLite format 3", "file is not a database"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, damaged: bytes, reported: str) -> None:
    with opened(tmp_path) as ledger:
        file = ledger.file
    sound = file.read_bytes()
    file.write_bytes(sound.replace(damaged, damaged[:-1] + b"\xff", 1))
    for _ in range(2):
        with pytest.raises(StoreError, match=f"the database cannot be used: {reported}"):
            Store.open(url_of(tmp_path), data_dir=tmp_path)
    file.write_bytes(sound)
    Store.open(url_of(tmp_path), data_dir=tmp_path).close()


def test_two_data_directories_cannot_share_a_database(tmp_path: Path) -> None:
    """Also by another name of the file: it has one writer."""
    (tmp_path / "linked").mkdir()
    with opened(tmp_path):
        link = tmp_path / "linked" / "ledger.sqlite"
        link.symlink_to(tmp_path / "ledger.sqlite")
        for url in (url_of(tmp_path), f"sqlite:///{link}"):
            with pytest.raises(DirectoryLockedError, match="running on the database"):
                Store.open(url, data_dir=tmp_path / "other")
    Store.open(f"sqlite:///{link}", data_dir=tmp_path / "other").close()


def test_another_ledger_than_the_directory_s_is_frozen(tmp_path: Path) -> None:
    Store.open(url_of(tmp_path), data_dir=tmp_path).close()
    other = f"sqlite:///{tmp_path}/other.sqlite"
    for _ in range(2):
        store = Store.open(other, data_dir=tmp_path)
        assert store.frozen is Standing.FOREIGN
        with pytest.raises(Problem, match="ledger-frozen"):
            store.write(lambda u: None)
        store.close()
    store = Store.open(url_of(tmp_path), data_dir=tmp_path)
    assert store.frozen is None
    store.close()


def test_every_pragma_is_in_force(tmp_path: Path) -> None:
    expected = {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "recursive_triggers": 1,
        "trusted_schema": 0,
        "busy_timeout": 5000,
    }
    for engine, query_only in (
        (engines.writing_engine(url_of(tmp_path)), 0),
        (engines.reading_engine(url_of(tmp_path)), 1),
    ):
        with engine.connect() as connection:
            found = {
                name: connection.execute(text(f"PRAGMA {name}")).scalar_one()
                for name in (*expected, "query_only")
            }
        engine.dispose()
        assert found == {**expected, "query_only": query_only}


@pytest.mark.parametrize(("made_with", "kept"), [(None, 8192), (4096, 4096)])
def test_a_new_file_has_large_pages_and_an_older_one_keeps_its_own(
    tmp_path: Path, made_with: int | None, kept: int
) -> None:
    file = file_of(tmp_path)
    if made_with is not None:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(f"PRAGMA page_size = {made_with}")
            connection.execute("PRAGMA journal_mode = WAL")
    with opened(tmp_path):
        pass
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA page_size").fetchone() == (kept,)


def test_a_pragma_that_does_not_hold_halts(tmp_path: Path) -> None:
    class Stubborn(sqlite3.Connection):
        def execute(self, statement: str, *parameters: object) -> sqlite3.Cursor:  # type: ignore[override]
            if statement == "PRAGMA synchronous = FULL":
                statement = "PRAGMA synchronous = NORMAL"
            return super().execute(statement, *parameters)

    connection = sqlite3.connect(tmp_path / "x.sqlite", factory=Stubborn)
    with pytest.raises(PragmaMismatchError, match="synchronous = 1"):
        sqlite.set_pragmas(connection, sqlite.PRAGMAS)
    connection.close()


def test_readers_cannot_write(place: Place) -> None:
    with opened(place):
        engine = engines.reading_engine(place.url)
        with (
            engine.connect() as connection,
            pytest.raises(DBAPIError, match=r"readonly|read-only"),
        ):
            connection.execute(text("UPDATE account SET seq = seq + 1"))
        engine.dispose()


def test_only_one_writing_transaction_runs_at_once(place: Place) -> None:
    """Two writing connections are never both past their beginning: the second waits there."""
    began = threading.Event()

    def begin_elsewhere() -> None:
        with engines.writing_engine(place.url).connect() as other, other.begin():
            began.set()

    waiting = threading.Thread(target=begin_elsewhere)
    with opened(place) as ledger:

        def look(_: object) -> bool:
            waiting.start()
            return began.wait(0.3)

        assert not ledger.store.write(look)
        assert began.wait(PATIENCE_S)
        waiting.join(PATIENCE_S)


def test_a_snapshot_does_not_move(place: Place) -> None:
    with opened(place) as ledger, ledger.store.reading() as r:
        before = r.accounts.get(ledger.account)
        ledger.debit("later")
        assert r.accounts.get(ledger.account) == before
        assert ledger.balance() == (1000, 1, 0)


@pytest.mark.parametrize("part", ["Guard", "SigningKey.of", "_know", "reading_engine", "Writer"])
def test_an_opening_that_fails_gives_everything_free(
    place: Place, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    connections = []
    with monkeypatch.context() as patched:
        open_database = store_module.open_database

        def opening(*args: Any, **options: Any) -> Any:
            found = open_database(*args, **options)
            connections.append(found.connection)
            return found

        def fail(*_: object, **__: object) -> Any:
            raise MemoryError(part)

        patched.setattr(store_module, "open_database", opening)
        patched.setattr(f"app.store.store.{part}", fail)
        with pytest.raises(MemoryError, match=part):
            place.open()
    assert [connection.closed for connection in connections] == [True]
    place.open().close()


def test_a_closed_store_takes_no_writes(place: Place) -> None:
    with opened(place) as ledger:
        store = ledger.store
    with pytest.raises(StoreClosedError):
        store.write(lambda u: None)


def test_closing_again_closes_nothing_of_others(place: Place) -> None:
    store = place.open()
    store.close()
    others = [os.open(os.devnull, os.O_RDONLY) for _ in range(64)]
    try:
        store.close()
        assert all(os.read(other, 1) == b"" for other in others)
    finally:
        for other in others:
            os.close(other)


def test_a_thread_that_reads_on_leaves_no_connection_to_a_closed_store(place: Place) -> None:
    """One that had begun when the store was closed, and one that comes later still."""
    store = place.open()
    left = []
    with store.reading() as r:
        left.append(r.connection.connection.driver_connection)
        store.close()
        assert r.accounts.get("none") is None
    with store.reading() as r:
        left.append(r.connection.connection.driver_connection)
    assert store.is_newest()
    assert store.readers.pool.checkedin() == 0
    for driver in left:
        with pytest.raises(DATABASE_ERRORS, match="closed"):
            driver.execute("SELECT 1")


def test_inspecting_works_beside_a_server(place: Place) -> None:
    with opened(replace(place, anchored=False)) as ledger, inspecting(place.url) as r:
        assert r.verify() == ledger.store.verify()
        assert r.verify().ok


def test_inspecting_does_not_make_a_database(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreError, match="no ledger"),
        inspecting(f"sqlite:///{tmp_path}/none.sqlite"),
    ):
        pass
    assert not (tmp_path / "none.sqlite").exists()


def test_a_release_is_drawn_at_most_three_times(place: Place) -> None:
    with opened(place) as ledger:
        done = ledger.release("done")
        left = ledger.debit("left")
    attempts = []
    for _ in range(4):
        store = place.open()
        attempts.append([(r.id, r.attempts) for r in left_behind(store)])
        store.close()
    assert attempts == [[(left.id, 2)], [(left.id, 3)], [], []]
    with inspecting(place.url) as r:
        void, kept = r.releases.get(left.id), r.releases.get(done.id)
        account = r.accounts.get(ledger.account)
        assert r.verify().ok
    assert void is not None
    assert kept is not None
    assert account is not None
    assert (void.state, void.result, kept.state) == (
        ReleaseState.VOID,
        None,
        ReleaseState.RELEASED,
    )
    assert account.spent == 2, "the charge of a void release stays"


def test_a_void_release_takes_no_result(place: Place) -> None:
    with opened(place) as ledger:
        left = ledger.debit("left")
        ledger.store.write(lambda u: u.releases.void(left.id))
        for step in ("finish", "void"):
            with pytest.raises(Problem) as refused:
                ledger.store.write(
                    lambda u, s=step: (
                        u.releases.finish(left.id, b"x")
                        if s == "finish"
                        else u.releases.void(left.id)
                    )
                )
            assert refused.value.code == "release-void"


def test_who_shares_a_directory_waits_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one has it to itself while it clears away what a crash left."""
    first = DirectoryLock(tmp_path, shared=True)
    assert first.alone
    monkeypatch.setattr(lock_module, "_SHARE_TIMEOUT_S", 0.1)
    with pytest.raises(DirectoryLockedError, match="another Release Desk"):
        DirectoryLock(tmp_path, shared=True)
    monkeypatch.setattr(lock_module, "_SHARE_TIMEOUT_S", 30)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(DirectoryLock, tmp_path, shared=True)
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        first.share()
        second = waiting.result(PATIENCE_S)
    assert not second.alone
    with pytest.raises(DirectoryLockedError):
        DirectoryLock(tmp_path)
    for held in (first, second):
        held.release()
    DirectoryLock(tmp_path).release()


def test_whose_directory_it_is_must_be_readable_and_writable(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    in_the_way = tmp_path / "ledger.new"
    in_the_way.mkdir()
    with pytest.raises(StoreError, match="cannot be used: Is a directory"):
        lock.belongs_to("ledger_a")
    in_the_way.rmdir()
    assert lock.belongs_to("ledger_a")
    assert not lock.belongs_to("ledger_b")
    note = tmp_path / "ledger.id"
    note.unlink()
    note.mkdir()
    with pytest.raises(StoreError, match="cannot be used: Is a directory"):
        lock.belongs_to("ledger_a")
    lock.release()


def test_a_note_that_cannot_be_written_is_dropped_and_logged(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with opened(place) as ledger:

        def fail(u: UnitOfWork) -> None:
            u.accounts.grant(ledger.account, 5, principal=CURATOR, reason="undone")
            raise ZeroDivisionError("the cell 77191")

        ledger.store.write_later(fail)
        ledger.grant(1)  # comes after it
        assert ledger.balance() == (1001, 0, 0)
        ledger.store._guard.freeze(Standing.DIFFERENT)
        ledger.store.write_later(lambda u: u.accounts.expire_due())
    ledger.store._guard.frozen = None
    ledger.store.write_later(lambda u: u.accounts.expire_due())
    said = [each for each in caplog.records if each.getMessage() == "a note was not written"]
    assert [getattr(each, "failure", None) for each in said] == ["ZeroDivisionError", None, None]
    assert "the cell" not in str([vars(each) for each in caplog.records])
