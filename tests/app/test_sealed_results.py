"""Results are in the chain: who edits one and signs it again with the ledger's own key is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import text

from app.domain.ledger import SYSTEM_ACCOUNT, Entry, result_leaves, tree_root
from app.domain.releases import result_digest
from app.services.releases.receipts import Receipts, sent_answer
from app.store import Finish, ReleaseRecord
from app.store.unit_of_work import UnitOfWork
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, opened
from tests.app.test_forgeries import edit

ANSWER = b'{"id":"rel","value":{"income":%d}}'
OTHER = "its result is not the one in the chain"
UNSEALED = "it does not hold its results' leaves"


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    """A ledger where only itself tells what has been edited."""
    with opened(replace(place, anchored=False)) as made:
        yield made


def answered(ledger: Ledger, idem: str, value: int = 3) -> ReleaseRecord:
    record = ledger.debit(idem)
    signed = Receipts(ledger.store).attach(record, ANSWER % value)
    return ledger.store.write(Finish(release=record.id, result=signed, known=record))


def system(ledger: Ledger, *kinds: str) -> list[Entry]:
    with ledger.store.reading() as reader:
        found = reader.entries.list(SYSTEM_ACCOUNT, limit=1000)
    return [entry for entry in found if entry.kind in kinds]


def leaves(ledger: Ledger) -> list[tuple[int, int, str]]:
    with ledger.store.reading() as reader:
        rows = reader.connection.execute(text("SELECT number, release, hash FROM leaf"))
        return sorted(tuple(row) for row in rows)


def faults(ledger: Ledger) -> list[str]:
    return [*ledger.store.verify(signed=True).faults]


def forge(ledger: Ledger, record: ReleaseRecord) -> bytes:
    """Store another answer, with its hash and a receipt made again, and return it."""
    forged = Receipts(ledger.store).attach(record, ANSWER % 4)
    edit(
        ledger.place,
        "UPDATE release SET result = :result, result_hash = :hash WHERE id = :id",
        result=forged, hash=result_digest(forged, record.finished_at or ""), id=record.id,
    )  # fmt: skip
    return forged


def test_each_group_commit_seals_its_results_by_one_entry(ledger: Ledger) -> None:
    records = [ledger.debit(f"k{n}") for n in range(3)]
    first = answered(ledger, "first")

    def finish(u: UnitOfWork) -> None:
        for record in records:
            u.releases.finish(record.id, b"{}")

    ledger.store.write(finish)
    one, three = system(ledger, "result")
    assert (one.note, three.note, one.principal, one.role) == ("1", "4", "system", "system")
    expected = result_leaves(
        [record.id for record in records], [record.entry_hash for record in records], [b"{}"] * 3
    )
    assert three.fingerprint == tree_root(expected)
    assert [leaf for _, _, leaf in leaves(ledger)][1:] == [*expected]
    assert [(number, of) for number, of, _ in leaves(ledger)] == [
        *enumerate([first.number, *(record.number for record in records)], start=1)
    ]
    assert ledger.store.verify().ok


def test_what_is_rolled_back_is_not_sealed(ledger: Ledger) -> None:
    record = ledger.debit("a")

    def finish(u: UnitOfWork) -> None:
        u.releases.finish(record.id, b"{}")
        raise ValueError("undone")

    with pytest.raises(ValueError, match="undone"):
        ledger.store.write(finish)
    assert (system(ledger, "result"), leaves(ledger)) == ([], [])
    ledger.store.write(lambda u: u.releases.finish(record.id, b"[]"))
    assert [number for number, _, _ in leaves(ledger)] == [1]
    assert ledger.store.verify().ok


def test_a_result_signed_again_is_found(ledger: Ledger) -> None:
    """The receipt itself is sound: hash and signature were made again with the ledger's key."""
    records = [answered(ledger, f"k{n}") for n in range(3)]
    assert faults(ledger) == []
    forged = forge(ledger, records[1])
    assert Receipts(ledger.store).check(sent_answer(json.loads(forged), forged)).ok, (
        "nothing else tells"
    )
    assert faults(ledger) == [f"release {records[1].id}: {OTHER}"]


def test_a_leaf_made_anew_does_not_fit_its_entry(ledger: Ledger) -> None:
    record, seal = answered(ledger, "a"), system(ledger, "result")[0]
    (leaf,) = result_leaves([record.id], [record.entry_hash], [forge(ledger, record)])
    edit(ledger.place, "UPDATE leaf SET hash = :hash", hash=leaf)
    assert faults(ledger) == [f"account 0, entry {seal.seq}: {UNSEALED}"]
    edit(ledger.place, "UPDATE entry SET fingerprint = :hash WHERE kind = 'result'", hash=leaf)
    assert faults(ledger) == [f"account 0, entry {seal.seq}: it has been edited"]


@pytest.mark.parametrize(
    ("statement", "reported"),
    [
        ("DELETE FROM leaf WHERE number = 2", {OTHER, UNSEALED}),
        ("DELETE FROM leaf WHERE number = 3", {OTHER, UNSEALED}),
        ("DELETE FROM leaf", {OTHER, UNSEALED}),
        ("UPDATE leaf SET number = number + 7", {UNSEALED, "there are leaves that no entry seals"}),
        (
            "UPDATE leaf SET release = CASE release WHEN 1 THEN 4 ELSE release END",
            {OTHER, "there are leaves without a release"},
        ),
        (
            "INSERT INTO leaf SELECT 4, 9, hash FROM leaf WHERE number = 1",
            {"there are leaves that no entry seals", "there are leaves without a release"},
        ),
        (
            "UPDATE leaf SET hash = (SELECT hash FROM leaf AS o WHERE o.number + leaf.number = 4)",
            {OTHER, UNSEALED},
        ),
        (
            """UPDATE release SET state = 'debited', result = NULL, result_hash = NULL,
            finished_at = NULL WHERE number = 3""",
            {OTHER},
        ),
        ("UPDATE entry SET note = '9' WHERE kind = 'result'", {UNSEALED, "it has been edited"}),
    ],
)  # fmt: skip
def test_a_leaf_removed_swapped_or_added_is_found(
    ledger: Ledger, statement: str, reported: set[str]
) -> None:
    for number in range(3):
        answered(ledger, f"k{number}")
    edit(ledger.place, statement)
    assert {fault.partition(": ")[2] for fault in faults(ledger)} >= reported


def test_rules_let_no_leaf_be_changed_or_made_up(ledger: Ledger) -> None:
    answered(ledger, "a")
    for statement, reported in (
        ("UPDATE leaf SET hash = hash", "written once"),
        ("DELETE FROM leaf", "written once"),
        ("INSERT INTO leaf SELECT 3, release + 1, hash FROM leaf", "not the next one"),
        ("INSERT INTO leaf SELECT 2, release, hash FROM leaf", "not the next one"),
        ("INSERT INTO leaf SELECT 2, release + 1, hash FROM leaf", "not the next one"),
    ):
        with pytest.raises(Exception, match=f"{reported}|permission denied"):
            ledger.store.write(lambda u, s=statement: u.connection.exec_driver_sql(s))
    assert ledger.store.verify().ok


def test_nothing_shown_moves_when_a_result_is_stored(ledger: Ledger) -> None:
    """Its answer has a public moment; what verification shows must not tell an earlier one."""
    record = ledger.debit("a")
    before = ledger.store.verify()
    ledger.store.write(lambda u: u.releases.finish(record.id, b"{}"))
    after = ledger.store.verify()
    assert (after.entries, after.head) == (before.entries, before.head)
    ledger.store.write(lambda u: u.accounts.open(total=1, principal=CURATOR, reason=ANALYST))
    assert ledger.store.verify().head != before.head
