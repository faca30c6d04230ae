"""What verification finds, said in its own words: one edit each, on both databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.domain.ledger import ledger_head
from app.domain.policies import Role
from app.store import UnitOfWork, inspecting
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, opened, raw


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    """Releases that are out, void after two attempts, and under review; keys; a grant that ends."""
    with opened(place) as found:
        for idem in "abc":
            found.release(idem, 3)
        left = found.debit("void").id

        def write(u: UnitOfWork) -> None:
            u.releases.begin_attempt(left)
            u.releases.void(left)
            u.reviews.reserve(
                account=found.account, amount=5, dataset=found.dataset, principal=ANALYST,
                request="{}", plan="{}", idem="review",
            )  # fmt: skip
            for secret in "01":
                key = u.keys.insert(
                    name="k", role=Role.ANALYST, person=ANALYST, secret_hash=secret * 64,
                    expires_at=None, principal=CURATOR,
                )  # fmt: skip
            u.keys.revoke(key.id, principal=CURATOR)
            u.datasets.archive(found.dataset, principal=CURATOR)
            more = u.datasets.insert(
                name="more", account=found.account, spec="{}", rows=3, principal=CURATOR,
                lineage="a" * 64,
            )  # fmt: skip
            u.datasets.insert(
                name="most", account=found.account, spec="{}", rows=4, principal=CURATOR,
                extends=more,
            )  # fmt: skip
            u.accounts.grant(
                found.account, 1, principal=CURATOR, reason="a while",
                expires_at="2099-01-01T00:00:00.000000Z",
            )  # fmt: skip

        found.store.write(write)
        yield found


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        ("UPDATE release SET number = -1 WHERE number = 3", "it is out of order"),
        ("DELETE FROM release WHERE state = 'reserved'", "its release is missing"),
        ("DELETE FROM release WHERE number = 2", "its release is missing"),
        (
            "UPDATE release SET finished_at = '2031-01-01T00:00:00.000000Z' WHERE state = 'void'",
            "the system account does not know of its end",
        ),
        ("UPDATE release SET attempts = 3 WHERE state = 'void'", "its attempts have been edited"),
        (
            "UPDATE dataset SET archived_at = '2031-01-01T00:00:00.000000Z' WHERE number = 1",
            "the time of its end has been edited",
        ),
        ("UPDATE dataset SET spec = '{\"x\":1}'", "it has been edited"),
        ("UPDATE lineage SET sha256 = 'b'", "its lineage has been edited"),
        ("UPDATE version SET number = 3", "what it extends has been edited"),
        ("UPDATE version SET earlier = first, first = dataset", "what it extends has been edited"),
        (
            "INSERT INTO version SELECT id, id, id, 2 FROM dataset WHERE number = 1",
            "what it extends has been edited",
        ),
        ("DELETE FROM version", " is missing"),
        ("UPDATE expiring SET seq = 1", "entry 1: it is no grant that ends"),
        ("UPDATE api_key SET role = 'admin'", "it has been edited"),
        ("DELETE FROM ledger", "the ledger has no identity"),
        ("DELETE FROM entry WHERE account <> '0'", "it has no entries"),
    ],
)
def test_an_edit_is_named(ledger: Ledger, edit: str, fault: str) -> None:
    before = ledger.store.verify()
    assert before.ok, before.faults
    with raw(ledger.place, guarded=False) as db:
        db.execute(edit)
    with inspecting(ledger.place.url) as reader:  # without the anchor, which knows anyway
        found = reader.verify()
    assert any(each.endswith(fault) for each in found.faults), found.faults


def test_what_cannot_be_read_is_a_fault_and_not_an_error(ledger: Ledger) -> None:
    with raw(ledger.place, guarded=False) as db:
        db.execute("ALTER TABLE account RENAME COLUMN head TO other")
    with inspecting(ledger.place.url) as reader:
        found = reader.verify()
    assert found.faults == ("the database file cannot be read through",)
    assert (found.entries, found.head) == (0, ledger_head([]))
