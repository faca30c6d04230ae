"""Hostile SQL on a connection that is not ours: the database itself refuses.

Rules, foreign keys and CHECKs together are tried here; that each rule does its part is tested
next to the rules. On PostgreSQL the connection is a superuser's, whom no privilege stops.
What the service's own role may not even try is tested next to the other privileges.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain.ledger import GENESIS
from app.domain.releases import TRANSITIONS, ReleaseState
from app.store import StoreError
from app.store.database.rules import RULES, postgresql_triggers, sqlite_trigger
from tests.app.conftest import ON_BOTH
from tests.app.ledgers import (
    DATABASE_ERRORS,
    REFUSALS,
    Ledger,
    Place,
    Raw,
    opened,
    place_on,
    raw,
)

_COLUMNS = (
    "account, seq, epoch, kind, principal, release, idem, fingerprint, note, amount,"
    " total_after, spent_after, reserved_after, at, prev, hash, key, role"
)


@pytest.fixture(scope="module", params=ON_BOTH)
def ledger(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ledger]:
    """Everything that is tried on this one is refused, so it stays as it is."""
    directory = tmp_path_factory.mktemp("ledger")
    with place_on(request.param, directory) as place, opened(place, total=100) as ledger:
        ledger.release("first", 10)
        ledger.debit("second", 20)
        yield ledger


@pytest.fixture
def db(ledger: Ledger) -> Iterator[Raw]:
    with raw(ledger.place) as connection:
        yield connection


UNCHARGED = """
INSERT INTO release (number, id, account, seq, dataset, principal, state, attempts, request, plan,
fingerprint, created_at) SELECT 99, 'rel_x', account, 1, dataset, principal, 'debited', 1, request,
plan, fingerprint, created_at FROM release LIMIT 1"""

REFUSED_BY_BOTH = [
    # Entries are append-only.
    "UPDATE entry SET amount = 1 WHERE kind = 'debit'",
    "UPDATE entry SET note = 'x'",
    "DELETE FROM entry WHERE seq = (SELECT max(seq) FROM entry)",
    "DELETE FROM entry",
    "INSERT INTO entry SELECT * FROM entry WHERE seq = 2",
    # Accounts move forward, with their entries or not at all.
    "DELETE FROM account",
    "UPDATE account SET spent = spent - 1",
    "UPDATE account SET spent = 0, seq = seq + 1 WHERE id <> '0'",
    "UPDATE account SET total = total + 1",
    "UPDATE account SET total = total + 1, seq = seq + 1 WHERE id <> '0'",
    "UPDATE account SET seq = seq - 1 WHERE id <> '0'",
    "UPDATE account SET head = replace(head, 'a', 'b')",
    "UPDATE account SET id = 'acc_other' WHERE id <> '0'",
    "INSERT INTO account SELECT 'acc_new', seq, total, spent, reserved, head FROM account",
    "INSERT INTO account SELECT 'acc_new', 1, 5, 0, 0, head FROM account WHERE id = '0'",
    "INSERT INTO account SELECT 'acc_new', 1, 5, 6, 0, head FROM account WHERE id = '0'",
    # The ledger's identity.
    "DELETE FROM ledger",
    "UPDATE ledger SET id = 'x'",
    "UPDATE ledger SET epoch = epoch - 1",
    "INSERT INTO ledger VALUES (2, 'x', 1, 'now')",
    # Releases.
    "DELETE FROM release",
    "UPDATE release SET result = NULL WHERE state = 'released'",
    "UPDATE release SET result_hash = 'x' WHERE state = 'released'",
    "UPDATE release SET state = 'debited', result = NULL, result_hash = NULL WHERE attempts = 1",
    "UPDATE release SET state = 'void' WHERE state = 'released'",
    "UPDATE release SET state = 'reserved' WHERE state = 'debited'",
    "UPDATE release SET state = 'released' WHERE state = 'debited'",
    "UPDATE release SET attempts = 0 WHERE state = 'debited'",
    "UPDATE release SET attempts = 3 WHERE state = 'debited'",
    "UPDATE release SET worker = 'mallory' WHERE state = 'released'",
    "UPDATE release SET worker = 'w', principal = 'mallory' WHERE state = 'debited'",
    "UPDATE release SET request = '{\"other\": 1}' WHERE state = 'debited'",
    "UPDATE release SET seq = seq - 1 WHERE state = 'debited'",
    "UPDATE release SET principal = 'mallory', attempts = 2 WHERE state = 'debited'",
    UNCHARGED,
    # Types: an amount is an integer, not something that looks like one.
    "UPDATE account SET total = 1e300, seq = seq + 1 WHERE id <> '0'",
    "UPDATE account SET total = 'lots', seq = seq + 1 WHERE id <> '0'",
]
REFUSED_BY_SQLITE = [
    "UPDATE OR REPLACE entry SET seq = 1 WHERE seq = 2",
    "INSERT OR REPLACE INTO entry SELECT * FROM entry WHERE kind = 'debit'",
    "REPLACE INTO entry SELECT * FROM entry WHERE seq = 1 AND account <> '0'",
    "INSERT INTO entry SELECT * FROM entry WHERE seq = 2 ON CONFLICT DO UPDATE SET amount = 0",
    "REPLACE INTO account SELECT id, 1, total, 0, 0, head FROM account WHERE id <> '0'",
    "REPLACE INTO ledger VALUES (1, 'x', 1, 'now')",
    "UPDATE release SET result = x'00' WHERE state = 'released'",
    "REPLACE INTO release SELECT * FROM release",
]
REFUSED_BY_POSTGRES = [
    "TRUNCATE entry, account, release, dataset CASCADE",
    "TRUNCATE ledger CASCADE",
    "TRUNCATE release CASCADE",
    (
        "INSERT INTO entry SELECT * FROM entry WHERE seq = 2"
        " ON CONFLICT ON CONSTRAINT pk_entry DO UPDATE SET amount = 0"
    ),
    (
        "INSERT INTO account SELECT id, 1, total, 0, 0, head FROM account WHERE id <> '0'"
        " ON CONFLICT (id) DO UPDATE SET spent = 0"
    ),
    (
        "MERGE INTO entry e USING entry s ON e.account = s.account AND e.seq = s.seq"
        " WHEN MATCHED THEN DELETE"
    ),
    "MERGE INTO account a USING account s ON a.id = s.id WHEN MATCHED THEN UPDATE SET spent = 0",
    "WITH gone AS (DELETE FROM entry RETURNING *) SELECT count(*) FROM gone",
    r"UPDATE release SET result = '\x00' WHERE state = 'released'",
    # The rules hold where replication switches ordinary triggers off ...
    "SET LOCAL session_replication_role = replica; DELETE FROM entry",
    "SET LOCAL session_replication_role = replica; UPDATE account SET spent = 0",
    # ... and cannot be hidden.
    (
        "SET LOCAL search_path = pg_temp; CREATE TEMP TABLE entry ON COMMIT DROP"
        " AS SELECT 1 AS account; DELETE FROM public.entry"
    ),
    # A deferred check is not a missing one.
    (
        "UPDATE account SET total = total + 1, seq = seq + 1 WHERE id <> '0';"
        " SET CONSTRAINTS ALL IMMEDIATE"
    ),
]


def check_refused(ledger: Ledger, db: Raw, statement: str) -> None:
    before = db.dump()
    with pytest.raises(REFUSALS):
        db.execute(statement)
    assert db.dump() == before
    assert ledger.store.verify().ok


@pytest.mark.parametrize("statement", REFUSED_BY_BOTH)
def test_hostile_statement_is_refused(ledger: Ledger, db: Raw, statement: str) -> None:
    check_refused(ledger, db, statement)


@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
@pytest.mark.parametrize("recursive", ["ON", "OFF"])
@pytest.mark.parametrize("statement", REFUSED_BY_SQLITE)
def test_sqlite_refuses(ledger: Ledger, db: Raw, statement: str, recursive: str) -> None:
    """``REPLACE`` deletes without delete triggers unless the connection asks for them."""
    db.execute(f"PRAGMA recursive_triggers = {recursive}")
    check_refused(ledger, db, statement)


@pytest.mark.postgres
@pytest.mark.parametrize("ledger", ["postgres"], indirect=True)
@pytest.mark.parametrize("statement", REFUSED_BY_POSTGRES)
def test_postgresql_refuses(ledger: Ledger, db: Raw, statement: str) -> None:
    check_refused(ledger, db, statement)


def append(db: Raw, ledger: Ledger, *, move: bool = True, **changes: object) -> None:
    """Append a grant of 1 by hand, moving the account first, with some columns changed."""
    last = db.execute(
        f"SELECT {_COLUMNS} FROM entry WHERE account = ? ORDER BY seq DESC LIMIT 1",
        (ledger.account,),
    ).fetchone()
    columns = dict(zip(_COLUMNS.split(", "), last, strict=True))
    hash_ = "f" * 64
    row = {
        **columns,
        "kind": "grant",
        "seq": columns["seq"] + 1,
        "release": None,
        "idem": None,
        "fingerprint": None,
        "amount": 1,
        "total_after": columns["total_after"] + 1,
        "prev": columns["hash"],
        "hash": hash_,
        **changes,
    }
    db.begin()
    try:
        if move:
            db.execute(
                "UPDATE account SET seq = seq + 1, total = ?, spent = ?, reserved = ?, head = ?"
                " WHERE id = ?",
                (
                    row["total_after"],
                    row["spent_after"],
                    row["reserved_after"],
                    hash_,
                    ledger.account,
                ),
            )
        marks = ", ".join("?" * len(row))
        names = _COLUMNS.split(", ")
        db.execute(
            f"INSERT INTO entry ({_COLUMNS}) VALUES ({marks})", [row[name] for name in names]
        )
        db.execute("COMMIT")
    except DATABASE_ERRORS:
        db.execute("ROLLBACK")
        raise


def test_a_wellformed_grant_by_hand_passes_the_guards(place: Place) -> None:
    """The refusals below are about what they change, not about something else."""
    with opened(place, total=100) as ledger, raw(place) as db:
        append(db, ledger)
        assert ledger.balance() == (101, 0, 0)
        # Its hash is made up: that is what verification is for.
        assert any("edited" in fault for fault in ledger.store.verify().faults)


@pytest.mark.parametrize(
    "changes",
    [
        {"prev": GENESIS},
        {"prev": "e" * 64},
        {"seq": 3},
        {"seq": 5},
        {"seq": None},
        {"total_after": 1000},
        {"spent_after": 29},
        {"spent_after": None},
        {"reserved_after": 1},
        {"amount": 2},
        {"amount": -1, "total_after": 99},
        {"epoch": 2},
        {"epoch": 0},
        {"kind": "open"},
        {"kind": "key_created", "amount": 0, "total_after": 100},
        {"kind": "debit"},
        {"kind": "debit", "amount": 0, "total_after": 100, "release": "r", "fingerprint": "f"},
        {"kind": "unreserve", "amount": 1, "total_after": 100, "reserved_after": -1},
        {"kind": "burn", "amount": 71, "total_after": 100, "spent_after": 101},
        {"hash": "short"},
        {"account": "acc_unknown"},
        {"account": "acc_unknown", "seq": 1, "prev": GENESIS},
        {"idem": "first", "principal": "person_ann"},
    ],
    ids=str,
)
def test_an_entry_out_of_order_is_refused(
    ledger: Ledger, db: Raw, changes: dict[str, object]
) -> None:
    with pytest.raises(REFUSALS):
        append(db, ledger, **changes)
    assert ledger.balance() == (100, 30, 0)
    assert ledger.store.verify().ok


def test_an_entry_without_its_balance_is_refused(ledger: Ledger, db: Raw) -> None:
    with pytest.raises(REFUSALS, match="ahead of its account"):
        append(db, ledger, move=False)


def test_a_balance_without_its_entry_is_refused_at_commit(ledger: Ledger, db: Raw) -> None:
    db.begin()
    db.execute(
        "UPDATE account SET seq = seq + 1, total = total + 50 WHERE id = ?", (ledger.account,)
    )
    with pytest.raises(REFUSALS, match=r"(?i)foreign key"):
        db.execute("COMMIT")
    db.execute("ROLLBACK")


def test_the_release_trigger_allows_what_the_domain_allows(place: Place) -> None:
    """Try every pair of states on a real row; both statements of the rule must agree."""
    states = [ReleaseState.DEBITED, ReleaseState.RELEASED, ReleaseState.VOID]
    with opened(place) as ledger, raw(place) as db:
        for start in states:
            for end in ReleaseState:
                release = ledger.debit(f"{start}-{end}")
                if start is ReleaseState.RELEASED:
                    ledger.store.write(lambda u, r=release: u.releases.finish(r.id, b"x"))
                if start is ReleaseState.VOID:
                    ledger.store.write(lambda u, r=release: u.releases.void(r.id))
                result = (b"x", "h") if end is ReleaseState.RELEASED else (None, None)
                try:
                    db.execute(
                        "UPDATE release SET state = ?, result = ?, result_hash = ? WHERE id = ?",
                        (end.value, *result, release.id),
                    )
                    moved = True
                except REFUSALS:
                    moved = False
                assert moved == (end in TRANSITIONS[start]), (start, end)


def test_the_list_of_rules_is_this_one() -> None:
    """Dropping a rule is a decision, not an accident."""
    assert [rule.name for rule in RULES] == PINNED
    assert {rule.event for rule in RULES} == {"INSERT", "UPDATE", "DELETE"}
    assert all(rule.name.startswith(f"{rule.table}_") for rule in RULES)


PINNED = [
    "ledger_no_delete",
    "ledger_no_replace",
    "ledger_epoch_forward",
    "entry_no_update",
    "entry_no_delete",
    "entry_no_replace",
    "entry_continues",
    "entry_not_ahead",
    "entry_epoch",
    "entry_made_by",
    "api_key_no_delete",
    "api_key_no_replace",
    "api_key_revoked_once",
    "account_no_delete",
    "account_no_replace",
    "account_opens_empty",
    "account_forward",
    "release_no_delete",
    "release_no_replace",
    "release_charged",
    "release_forward",
    "dataset_no_delete",
    "dataset_no_replace",
    "dataset_archived_once",
    "lineage_no_update",
    "lineage_no_delete",
    "lineage_no_replace",
    "leaf_no_update",
    "leaf_no_delete",
    "leaf_continues",
    "expiring_no_delete",
    "expiring_grant",
    "expiring_once",
    "cap_no_delete",
    "cap_no_replace",
    "cap_same_slice",
    "review_no_delete",
    "study_plan_no_delete",
    "study_plan_is_new",
    "study_plan_forward",
    "revision_no_update",
    "revision_no_delete",
    "vote_no_update",
    "vote_no_delete",
    "plan_revision_no_update",
    "plan_revision_no_delete",
    "plan_vote_no_update",
    "plan_vote_no_delete",
    "review_comment_no_update",
    "review_comment_no_delete",
    "notice_no_update",
    "notice_no_delete",
    "sight_no_update",
    "sight_no_delete",
    "dataset_edit_no_update",
    "dataset_edit_no_delete",
    "log_part_no_update",
    "log_part_no_delete",
    "log_part_continues",
    "log_checkpoint_no_update",
    "log_checkpoint_no_delete",
    "log_checkpoint_grows",
    "log_stamp_no_update",
    "log_stamp_no_delete",
    "log_stamp_grows",
]


def test_every_trigger_is_needed_to_open(place: Place) -> None:
    with opened(place):
        pass
    for rule in RULES:
        for name, fires in postgresql_triggers(rule):
            if place.backend == "sqlite" and name != rule.name:
                continue
            with raw(place) as db:
                if place.backend == "sqlite":
                    db.execute(f"DROP TRIGGER {name}")
                else:
                    db.execute(f"DROP TRIGGER {name} ON {rule.table}")
            with pytest.raises(StoreError, match=f"{name}$"):
                place.open()
            with raw(place) as db:
                if place.backend == "sqlite":
                    db.execute(sqlite_trigger(rule))
                else:
                    db.execute(f"CREATE TRIGGER {name} {fires} EXECUTE FUNCTION {rule.name}()")
                    db.execute(f"ALTER TABLE {rule.table} ENABLE ALWAYS TRIGGER {name}")
    place.open().close()


@pytest.mark.postgres
def test_a_temporary_table_does_not_stand_in_for_the_ledger(tmp_path: Path) -> None:
    with place_on("postgres", tmp_path) as place, opened(place) as ledger, raw(place) as db:
        db.begin()
        db.execute("CREATE TEMP TABLE ledger AS SELECT 9 AS epoch")
        db.execute("UPDATE public.account SET seq = 2, head = ? WHERE seq = 1", ("f" * 64,))
        with pytest.raises(REFUSALS, match="not of this epoch"):
            db.execute(
                "INSERT INTO public.entry SELECT account, 2, 9, 'grant', principal, NULL, NULL,"
                " NULL, NULL, 1, total_after + 1, 0, 0, at, hash, ? FROM public.entry"
                " WHERE account = ?",
                ("f" * 64, ledger.account),
            )
        db.execute("ROLLBACK")


@pytest.mark.postgres
@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE entry DISABLE TRIGGER entry_continues",
        "ALTER TABLE entry ENABLE TRIGGER entry_continues",
        (
            "CREATE OR REPLACE FUNCTION entry_continues() RETURNS trigger LANGUAGE plpgsql"
            " SET search_path = public, pg_temp AS 'BEGIN RETURN NEW; END'"
        ),
        "ALTER FUNCTION entry_continues() RESET search_path",
        (
            "DROP TRIGGER entry_continues ON entry; CREATE TRIGGER entry_continues BEFORE INSERT ON"
            " entry FOR EACH ROW WHEN (false) EXECUTE FUNCTION entry_continues();"
            " ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_continues"
        ),
    ],
)
def test_a_trigger_that_was_weakened_is_noticed(tmp_path: Path, change: str) -> None:
    with place_on("postgres", tmp_path) as place:
        place.open().close()
        with raw(place) as db:
            db.execute(change)
        with pytest.raises(StoreError, match=r"entry_continues$"):
            place.open()
