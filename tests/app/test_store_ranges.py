"""The walk in ranges: cut anywhere it finds the same, in one process or in several."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from app.domain.ledger import GENESIS, Entry, chain_hash
from app.domain.policies import Role
from app.store import Store, Verification, inspecting
from app.store.verification import verify as verification
from app.store.verification.blocks import ENTRY_COLUMNS
from app.store.verification.ranges import EntryRange, cut_entries
from app.store.verification.verify import verify
from app.store.verification.walks import EntryWalk
from tests.app.conftest import ON_BOTH
from tests.app.ledgers import Ledger, Place, opened, place_on, raw


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    grown=st.integers(0, 5),
    length=st.integers(1, 12),
)
@settings(max_examples=300, deadline=None)
def test_every_entry_and_account_is_in_one_range(sizes: list[int], grown: int, length: int) -> None:
    """Also when every account has grown, and another has come, since the cut."""
    accounts = [(f"acc_{number:02d}", size) for number, size in enumerate(sizes)]
    parts = list(cut_entries(accounts, ledger="l", epoch=1, length=length))
    later = [(name, size + grown) for name, size in accounts] + [("acc_05x", 1)]
    for name, last in later:
        for seq in range(1, last + 1):
            assert sum(_holds(part, (name, seq)) for part in parts) == 1
        then = [part for part in parts if _holds(part, (name, last))]
        now = [part for part in parts if _holds(part, (name, max(1, last - grown)))]
        assert then == now, "an account ends in the same range in every snapshot"


def _holds(part: EntryRange, place: tuple[str, int]) -> bool:
    return (part.after is None or part.after < place) and (
        part.until is None or place <= part.until
    )


def test_a_preposterous_number_does_not_make_endless_ranges() -> None:
    assert len(list(cut_entries([("a", 2**61)], ledger="l", epoch=1, length=50))) < 2000


@pytest.fixture(params=ON_BOTH)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place_on(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "_PIECE", 3)
    monkeypatch.setattr(verification, "_ALONE", 0)


def fill(ledger: Ledger) -> None:
    for number in range(7):
        ledger.release(f"done {number}", 3)
    ledger.grant(5)
    for total in (1, 2):
        ledger.store.write(
            lambda u, t=total: u.accounts.open(total=t, principal="person_cleo", reason="another")
        )
    ledger.store.write(
        lambda u: u.keys.insert(
            name="k",
            role=Role.ANALYST,
            person="person_ann",
            secret_hash="0" * 64,
            expires_at=None,
            principal="person_ada",
        )
    )


def check(place: Place, *, processes: int) -> Verification:
    with inspecting(place.url) as reader:
        return verify(reader.connection, processes=processes, may_end=True)


@pytest.mark.usefixtures("in_pieces")
def test_a_walk_reports_how_far_it_is(tmp_path: Path) -> None:
    for processes in (0, 2):
        shares: list[float] = []
        with opened(tmp_path / str(processes)) as ledger, inspecting(ledger.place.url) as reader:
            assert verify(reader.connection, processes=processes, progress=shares.append).ok
        assert shares == sorted(shares)
        assert 0 < shares[0] < shares[-1] == 1.0


@pytest.mark.wide
@pytest.mark.usefixtures("in_pieces")
def test_pieces_find_nothing_where_nothing_is_wrong(place: Place) -> None:
    with opened(place) as ledger:
        fill(ledger)
        whole = ledger.store.verify()
        for processes in (0, 2):
            found = check(place, processes=processes)
            assert (found.faults, found.entries, found.head) == ((), whole.entries, whole.head)


EDITS = {
    "UPDATE entry SET amount = amount + 1 WHERE kind = 'debit' AND seq = {}": "edited",
    "UPDATE entry SET seq = seq + 100 WHERE kind = 'debit' AND seq = {}": "missing",
    "DELETE FROM entry WHERE kind = 'debit' AND seq = {}": "missing",
    "DELETE FROM release WHERE seq = {}": "its release is missing",
    "UPDATE release SET plan = '[]' WHERE seq = {}": "its plan",
    "UPDATE release SET created_at = finished_at WHERE seq = {}": "its time",
    "UPDATE account SET spent = spent - {} WHERE spent > 0": "its balance is not its last",
    "UPDATE account SET seq = seq - {} WHERE spent > 0": "",
    "UPDATE account SET seq = seq + {} WHERE spent > 0": "",
}


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_found_wherever_the_cuts_are(place: Place, edit: str) -> None:
    with opened(place) as ledger:
        fill(ledger)
    with raw(place, guarded=False) as connection:
        connection.execute(edit.format(4))
    found = check(place, processes=0)
    own = [fault for fault in found.faults if "schema" not in fault]
    assert any(EDITS[edit] in fault for fault in own), own


@pytest.mark.wide
@pytest.mark.usefixtures("in_pieces")
def test_processes_find_an_edit_and_tell_no_value(place: Place) -> None:
    with opened(place) as ledger:
        fill(ledger)
    with raw(place, guarded=False) as connection:
        connection.execute("UPDATE entry SET note = 'Gudrun 77191' WHERE seq = 5")
    found = check(place, processes=2)
    assert any("entry 5: it has been edited" in fault for fault in found.faults)
    assert not any("Gudrun" in fault or "77191" in fault for fault in found.faults)


@pytest.mark.usefixtures("in_pieces")
def test_a_server_may_go_on_meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the cut and each piece another release is charged, and one more is finished."""
    with opened(place) as ledger:
        fill(ledger)
        walked = verification._found
        extra = []

        def meanwhile(task: Any, connection: Any) -> list[str]:
            extra.append(ledger.release(f"more {len(extra)}"))
            ledger.grant(1)
            return walked(task, connection)

        monkeypatch.setattr(verification, "_found", meanwhile)
        with inspecting(place.url) as reader:
            assert verify(reader.connection, processes=0).ok
        assert len(extra) > 5


# The schema


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        ("DROP TRIGGER release_forward", "the schema's release_forward: missing or changed"),
        ("DROP INDEX ix_release_dataset", "the schema's ix_release_dataset: missing"),
        ("UPDATE alembic_version SET version_num = '0000'", "not the one of this version"),
        ("CREATE INDEX elvis ON entry (note)", "something foreign"),
        ("CREATE TABLE elvis (x INTEGER)", "something foreign"),
        (
            "CREATE TRIGGER elvis AFTER INSERT ON entry BEGIN SELECT 1; END",
            "something foreign",
        ),
    ],
)
def test_an_edited_schema_is_found_on_sqlite(tmp_path: Path, edit: str, fault: str) -> None:
    with opened(tmp_path) as ledger:
        fill(ledger)
        file = ledger.file
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(edit)
    with inspecting(f"sqlite:///{file}") as reader:
        found = reader.verify()
    assert any(fault in each for each in found.faults), found.faults
    assert not any("elvis" in each for each in found.faults)


def test_an_edited_check_is_found(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        file = ledger.file
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'spent >= 0', 'spent >= -9')"
            " WHERE name = 'account'"
        )
    with inspecting(f"sqlite:///{file}") as reader:
        assert "the schema's account: missing or changed" in reader.verify().faults


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        ("ALTER TABLE entry DROP CONSTRAINT ck_entry_within_total", "ck_entry_within_total"),
        ("DROP TRIGGER entry_no_update ON entry", "the schema's entry_no_update"),
        ("ALTER TABLE entry DISABLE TRIGGER entry_no_update", "the schema's entry_no_update"),
        ("DROP INDEX ix_release_dataset", "the schema's ix_release_dataset"),
        ("ALTER TABLE account ADD CONSTRAINT elvis CHECK (seq > 0)", "something foreign"),
        ("GRANT DELETE ON entry TO release_desk_service", "the service's role"),
    ],
)
def test_an_edited_schema_is_found_on_postgresql(tmp_path: Path, edit: str, fault: str) -> None:
    with place_on("postgres", tmp_path) as place:
        with opened(place) as ledger:
            assert ledger.store.verify().ok
        with raw(place) as connection:
            connection.execute(edit)
        found = check(place, processes=0)
    assert any(fault in each for each in found.faults), found.faults


def stale_index(connection: sqlite3.Connection) -> None:
    """Hide an Idempotency-Key from its index, so that it could be used again."""
    connection.execute("PRAGMA writable_schema = ON")
    (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'release'").fetchone()
    connection.execute("DROP INDEX ix_release_principal")
    connection.execute(
        "CREATE INDEX ix_release_principal ON release (principal, number) WHERE number > 2"
    )
    connection.execute(
        "UPDATE sqlite_master SET sql = 'CREATE INDEX ix_release_principal ON release"
        " (principal, number)' WHERE name = 'ix_release_principal'"
    )
    assert sql


def lost_reference(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("INSERT INTO key_use VALUES ('key_none', '2026-01-01T00:00:00Z')")


@pytest.mark.parametrize("damage", [stale_index, lost_reference])
def test_an_index_that_lies_is_found(
    tmp_path: Path, damage: Callable[[sqlite3.Connection], None]
) -> None:
    with opened(tmp_path) as ledger:
        fill(ledger)
        file = ledger.file
    with closing(sqlite3.connect(file)) as connection, connection:
        damage(connection)
    with inspecting(f"sqlite:///{file}") as reader:
        (fault,) = reader.verify().faults
    assert fault == "the database file is damaged, or an index does not fit its table"


def test_a_process_that_cannot_open_the_database_says_so(tmp_path: Path) -> None:
    task = next(cut_entries([("a", 1)], ledger="l", epoch=1, length=9))
    url = f"sqlite:///{tmp_path / 'absent' / 'file'}"
    assert verification._connected(url, task) == ["the database file cannot be read through"]


@dataclass(frozen=True)
class Dying:
    """A part of the walk that ends its process, as a page that cannot be delivered does."""

    def faults(self, connection: Connection) -> Iterator[str]:
        os.kill(os.getpid(), signal.SIGBUS)
        yield ""


@pytest.mark.wide
def test_a_process_that_dies_is_a_fault_and_not_an_error(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger, ledger.store.readers.connect() as connection:
        (found,) = verification._elsewhere(connection, [Dying()], 1)
        assert found == ["the database file cannot be read through"]


def test_a_process_walks_its_range_on_a_connection_of_its_own(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the processes do, done here: a walk on a fresh connection, out of a server's way."""
    with opened(place) as ledger:
        fill(ledger)
        sizes = [(ledger.account, 9)]
        parts = cut_entries(sizes, ledger=ledger.store.identity.id, epoch=1, length=4)
        assert [verification._connected(place.url, part) for part in parts] == [[], [], []]
        verification._engine(place.url).dispose()
    steps: list[object] = []
    monkeypatch.setattr("os.nice", steps.append)
    monkeypatch.setattr("gc.disable", lambda: steps.append("no cycles"))
    verification._set_out()
    assert steps == [10, "no cycles"]


def walked(*entries: Entry) -> list[str]:
    """Walk entries of one account, each made to continue the one before and rightly hashed."""
    rows: list[tuple[Any, ...]] = []
    for entry in entries:
        follows = replace(entry, prev=rows[-1][15] if rows else GENESIS)
        fitting = replace(follows, hash=chain_hash(follows, "ledger_1"))
        rows.append(tuple(getattr(fitting, name) for name in ENTRY_COLUMNS))
    last = rows[-1]
    accounts = {last[0]: (last[1], *last[10:13], last[15])}
    walk = EntryWalk(
        ledger="ledger_1", epoch=1, accounts=accounts, keys={}, before=None, ends_inside=False
    )
    return [fault.partition(": ")[2] for fault in walk.walk([rows])]


OPEN = Entry(
    account=f"acc_{'a' * 32}", seq=1, epoch=1, kind="open", principal="p", release=None,
    idem=None, fingerprint=None, note="é", amount=5, total_after=5, spent_after=0,
    reserved_after=0, at="now", prev="",
)  # fmt: skip


def test_a_rightly_hashed_entry_must_still_be_one_that_can_follow() -> None:
    grant = replace(OPEN, seq=2, kind="grant", amount=1, total_after=6)
    assert walked(OPEN, grant) == []
    opens = "only an account's first entry opens it"
    assert walked(OPEN, replace(OPEN, seq=2, amount=0)) == [opens]
    assert walked(grant) == ["an entry before it is missing"]
    assert walked(replace(grant, seq=1)) == [opens]
    assert walked(OPEN, replace(grant, total_after=7)) == ["its balance does not follow"]
    assert walked(OPEN, replace(grant, epoch=2)) == ["its epoch does not follow"]
    assert walked(OPEN, replace(grant, epoch=0)) == ["its epoch does not follow"]
    debit = replace(grant, kind="debit", amount=6, total_after=5, spent_after=6)
    assert walked(OPEN, debit) == ["its balance does not follow"]


def test_opening_a_store_leaves_a_ledger_without_a_fault(place: Place) -> None:
    store: Store = place.open()
    with closing(store):
        assert store.verify().faults == ()
