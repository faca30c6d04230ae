"""The ledger as people read it: which entries, in which order, and never those that seal."""

from __future__ import annotations

from app.domain.ledger import SYSTEM_ACCOUNT
from app.store import Wanted
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, opened

SEALS = {"result", "checkpoint"}


def page(ledger: Ledger, skip: int = 0, limit: int = 100, **wanted: str) -> list[tuple[str, str]]:
    with ledger.store.reading() as reader:
        found = reader.journal.page(Wanted(**wanted), skip=skip, limit=limit)
    return [(entry.account, entry.kind) for entry in found]


def test_entries_are_found_by_account_kind_and_person(place: Place) -> None:
    with opened(place) as ledger:
        ledger.grant(5)
        ledger.release("a")
        ledger.debit("b")
        own = [(ledger.account, kind) for kind in ("debit", "debit", "grant", "open")]
        assert page(ledger, account=ledger.account) == own
        assert page(ledger, account=ledger.account, limit=2, skip=1) == own[1:3]
        assert page(ledger, kind="grant") == own[2:3]
        assert page(ledger, person=ANALYST) == own[:2]
        assert {kind for _, kind in page(ledger, person=CURATOR)} >= {"grant", "dataset_created"}
        assert page(ledger, kind="grant", person=ANALYST) == []
        with ledger.store.reading() as reader:
            several = Wanted(account=ledger.account, kinds=("grant", "open"))
            found = reader.journal.page(several, skip=0, limit=100)
        assert [each.kind for each in found] == ["grant", "open"]


def test_all_accounts_are_read_newest_first_but_for_seals(place: Place) -> None:
    with opened(place) as ledger:
        ledger.release("a")
        ledger.grant(5)
        with ledger.store.reading() as reader:
            every = reader.journal.page(Wanted(), skip=0, limit=100)
            until = reader.journal.page(Wanted(until=every[1].at), skip=0, limit=100)
            assert any(each.kind in SEALS for each in reader.entries.list(SYSTEM_ACCOUNT))
        assert [each.at for each in every] == sorted((each.at for each in every), reverse=True)
        assert not SEALS & {each.kind for each in every}
        assert {each.account for each in every} == {ledger.account, SYSTEM_ACCOUNT}
        assert until == every[1:] or until == every  # two of one time stay together


def test_entries_are_found_by_their_places(place: Place) -> None:
    with opened(place) as ledger:
        for _ in range(3):
            ledger.grant(1)
        with ledger.store.reading() as reader:
            found = reader.journal.at(ledger.account, [4, 1, 9])
        assert [(each.seq, each.kind) for each in found] == [(1, "open"), (4, "grant")]
