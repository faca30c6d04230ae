"""Verifying again walks what is new; what is older, and has been edited, a full walk finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.domain.releases import ReleaseState
from app.store import Mark, Verification, earlier_mark, inspecting, keep_mark
from app.store import store as store_module
from app.store.verification.verify import LARGE
from tests.app.ledgers import CURATOR, Ledger, Place, opened, raw
from tests.app.logs import log_of
from tests.app.test_forgeries import edit
from tests.app.test_sealed_results import answered


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    with opened(replace(place, anchored=False), total=100_000) as made:
        yield made


def verified(ledger: Ledger, since: Mark | None = None) -> Verification:
    with ledger.store.reading() as reader:
        return reader.verify(signed=True, marked=True, since=since)


def marked(ledger: Ledger) -> Mark:
    found = verified(ledger)
    assert found.faults == ()
    assert found.mark is not None
    again = Mark.of_json(found.mark.to_json())
    assert again == found.mark
    return again


def grow(ledger: Ledger, *names: str) -> None:
    """Add answers, one left to be drawn, one that waits, a grant, and bring it into the log."""
    for name in names:
        answered(ledger, name)
    ledger.debit(f"left of {names}")
    ledger.store.write(lambda u: ledger.reserve(u, f"waits of {names}"))
    ledger.grant(5)
    log_of(ledger).extend()


def test_what_has_come_since_is_sound(ledger: Ledger) -> None:
    grow(ledger, "a", "b")
    mark = marked(ledger)
    assert mark.size > 0
    for names in (("c",), ("d", "e"), ("f",)):
        grow(ledger, *names)
        ledger.store.write(
            lambda u: u.accounts.open(total=3, principal=CURATOR, reason="another budget")
        )
        found = verified(ledger, mark)
        assert found.faults == ()
        assert found.entries == verified(ledger).entries
        assert found.mark == verified(ledger).mark, "both have come equally far"
        assert found.mark is not None
        mark = found.mark
    assert verified(ledger, mark).faults == (), "nothing is new"


def test_what_changes_later_is_walked_again(ledger: Ledger) -> None:
    """A release that was not final at the mark is looked at once more, and so are all after it."""
    left = ledger.debit("left")
    waits = ledger.store.write(lambda u: ledger.reserve(u, "waits"))
    grow(ledger, "a")
    mark = marked(ledger)
    ledger.store.write(lambda u: u.releases.void(left.id))
    ledger.store.write(
        lambda u: u.reviews.unreserve(
            waits.id, ReleaseState.REJECTED, principal=CURATOR, reason="no"
        )
    )
    grow(ledger, "b")
    assert verified(ledger, mark).faults == ()
    edit(ledger.place, "UPDATE release SET state = 'expired' WHERE id = :id", id=waits.id)
    assert verified(ledger, mark).faults != ()


NEW = [
    "UPDATE entry SET amount = amount + 1 WHERE account <> '0' AND seq = :seq",
    "UPDATE release SET request = '[]' WHERE number = (SELECT max(number) FROM release)",
    "UPDATE log_part SET seed = '{other}' WHERE number = (SELECT max(number) FROM log_part)",
    "UPDATE log_checkpoint SET note = 'x' WHERE size = (SELECT max(size) FROM log_checkpoint)",
    "UPDATE leaf SET hash = '{other}' WHERE number = (SELECT max(number) FROM leaf)",
    "UPDATE dataset SET name = 'other'",
]


@pytest.mark.parametrize("statement", NEW)
def test_an_edit_of_what_is_new_is_found(ledger: Ledger, statement: str) -> None:
    grow(ledger, "a")
    mark = marked(ledger)
    grow(ledger, "b")
    seq = mark.accounts[ledger.account][0] + 1
    given = {"seq": seq} if ":seq" in statement else {}
    edit(ledger.place, statement.replace("{other}", "c" * 64), **given)
    assert verified(ledger, mark).faults != ()
    assert verified(ledger, mark).mark is None


def test_an_edit_of_what_is_old_is_found_by_the_full_walk(ledger: Ledger) -> None:
    grow(ledger, "a", "b")
    mark = marked(ledger)
    grow(ledger, "c")
    edit(ledger.place, "UPDATE entry SET note = 'other' WHERE account <> '0' AND seq = 2")
    assert verified(ledger, mark).faults == (), "it is not read again"
    assert verified(ledger).faults != ()


@pytest.mark.parametrize("account", ["budget", "system"])
def test_an_entry_that_a_mark_goes_on_from_is_looked_at(ledger: Ledger, account: str) -> None:
    grow(ledger, "a")
    mark = marked(ledger)
    name = ledger.account if account == "budget" else "0"
    seq, _ = mark.accounts[name]
    grow(ledger, "b")
    edit(
        ledger.place, "UPDATE entry SET hash = :hash WHERE account = :of AND seq = :seq",
        hash="d" * 64, of=name, seq=seq,
    )  # fmt: skip
    reported = f"account {name}, entry {seq}: it is not the one verified earlier"
    assert reported in verified(ledger, mark).faults


def test_a_balance_that_is_not_its_last_entry_s_is_found(ledger: Ledger) -> None:
    grow(ledger, "a")
    mark = marked(ledger)
    with raw(ledger.place, guarded=False) as db:
        db.execute("UPDATE account SET total = total + 1 WHERE id <> '0'")
    reported = f"account {ledger.account}: its balance is not its last entry's"
    assert reported in verified(ledger, mark).faults


@pytest.mark.wide
def test_it_costs_what_is_new(ledger: Ledger) -> None:
    """Counted in rows of entries that are read, not in seconds."""

    def grants(u: Any) -> None:
        for _ in range(3000):
            u.accounts.grant(ledger.account, 1, principal=CURATOR, reason="more")

    ledger.store.write(grants)
    log_of(ledger).extend()
    mark = marked(ledger)
    grow(ledger, "a")
    assert rows_read(ledger, None) > 3000
    assert rows_read(ledger, mark) < 100


def rows_read(ledger: Ledger, since: Mark | None) -> int:
    """Return how many entries a verification hashes."""
    from app.store.verification import walks

    counted, hashes = [0], walks.entry_hashes

    def counting(columns: Any, name: str) -> Any:
        counted[0] += len(columns[0])
        return hashes(columns, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walks, "entry_hashes", counting)
        assert verified(ledger, since).faults == ()
    return counted[0]


def test_a_server_goes_on_from_what_it_found_sound(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def since(*, full: bool = False, signed: bool = True) -> int | None:
        found = ledger.store.verify(signed=signed, full=full)
        assert found.ok
        return found.since

    grow(ledger, "a")
    assert [since(), since()] == [None, None], "a small ledger is always walked from the beginning"
    monkeypatch.setattr(store_module, "VERIFIED_WHOLE", 3)
    assert since(signed=False) is None
    assert since() is None, "receipts had not been looked at"
    assert since() is not None
    assert since(full=True) is None
    edit(ledger.place, "UPDATE log_part SET seed = '" + "c" * 64 + "' WHERE number = 1")
    assert since() is not None, "it is older than what was found sound"
    assert not ledger.store.verify(signed=True).ok
    assert not ledger.store.verify(signed=True, full=False).ok, "nothing is sound any more"


def test_a_note_is_kept_of_a_large_ledger_alone(ledger: Ledger) -> None:
    grow(ledger, "a")
    note = ledger.place.directory / "verified.json"
    small, found = marked(ledger), verified(ledger)
    keep_mark(note, found)
    assert not note.exists()
    large = replace(small, size=LARGE + 1)
    keep_mark(note, replace(found, mark=large))
    with inspecting(ledger.place.url) as reader:
        assert earlier_mark(note, signed=True) == large
        keep_mark(note, replace(found, mark=replace(large, signed=False)))
        assert earlier_mark(note, signed=True) is None, "receipts were not looked at"
        assert earlier_mark(note, signed=False) is not None
        for other in (replace(small, ledger="another"), replace(small, epoch=2)):
            assert reader.verify(since=other).since is None
        assert reader.verify(since=small).since == small.size
        sound = json.loads(large.to_json())
        damaged = ({"size": None}, {"size": "x"}, {"part": []}, {"peaks": ["zz"]}, {"epoch": "y"})
        texts = [json.dumps({**sound, **each}) for each in damaged]
        for content in ("", "{}", "[]", '{"accounts": 3}', "\udcff", *texts):
            note.write_text(content, "utf-8", "surrogatepass")
            assert earlier_mark(note, signed=False) is None
    keep_mark(ledger.place.directory / "no such" / "place", replace(found, mark=large))
