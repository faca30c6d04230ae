"""Whole blocks against the row by row: what is passed at once is never faulted one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.ledger import MAX_TOTAL, SYSTEM_ACCOUNT, Entry, chain_hash, result_leaves
from app.domain.releases import (
    plan_digest,
    request_fingerprint,
    result_digest,
    result_digests,
)
from app.store.verification.blocks import (
    CHARGE_COLUMNS,
    ENTRY_COLUMNS,
    RELEASE_COLUMNS,
    EntryRow,
    all_answered,
    all_follow,
    entry_hashes,
)
from app.store.verification.walks import EntryWalk, ReleaseWalk, place_of
from tests.tiers import in_one

TEXTS = st.text(max_size=9) | st.sampled_from(
    ["", "é", "%s", "\x00" * 9 + "t", "a" * 127, "a" * 128, "a" * 256, "\ud800"]
)
NUMBERS = st.integers(-(10**18), 10**18)
COPIED = tuple(name for name in ENTRY_COLUMNS if name != "hash")
ENTRIES = st.builds(
    Entry, account=TEXTS, seq=NUMBERS, epoch=NUMBERS, kind=TEXTS, principal=TEXTS,
    release=TEXTS | st.none(), idem=TEXTS | st.none(), fingerprint=TEXTS | st.none(),
    note=TEXTS | st.none(), amount=NUMBERS, total_after=NUMBERS, spent_after=NUMBERS,
    reserved_after=NUMBERS, at=TEXTS, prev=TEXTS, key=TEXTS | st.none(),
    role=st.sampled_from(["analyst", "system"]),
)  # fmt: skip
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def row_of(entry: Entry) -> EntryRow:
    return EntryRow(*(getattr(entry, name) for name in ENTRY_COLUMNS))


def columns_of(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True))


@patient
@given(entries=st.lists(ENTRIES, min_size=1, max_size=4), same=st.sets(st.sampled_from(COPIED)))
def test_a_block_s_hashes_are_the_chain_s(entries: list[Entry], same: set[str]) -> None:
    """Also where whole columns are the same, as most are."""
    first = {name: getattr(entries[0], name) for name in same}
    block = [replace(entry, **first) for entry in entries]
    hashes = tuple(chain_hash(entry, "ledger_%1") for entry in block)
    assert entry_hashes(columns_of([row_of(entry) for entry in block]), "ledger_%1") == hashes


# Entries

GROWING = {"grant": "total_after", "debit": "spent_after", "burn": "spent_after",
           "reserve": "reserved_after"}  # fmt: skip


def run_of(kind: str, amounts: list[int]) -> list[Entry]:
    """Return an opening and entries of a kind that follow it, with room for them, unhashed."""
    entry = Entry(
        account="acc_a", seq=7, epoch=1, kind="grant", principal="p", release=None, idem=None,
        fingerprint=None, note=None, amount=1, total_after=10**6, spent_after=5,
        reserved_after=3, at="now", prev="0" * 64,
    )  # fmt: skip
    entries = [entry]
    for number, amount in enumerate(amounts):
        grown = {GROWING[kind]: getattr(entry, GROWING[kind]) + amount}
        entry = replace(
            entry, seq=entry.seq + 1, kind=kind, amount=amount, release=f"rel_{number}",
            fingerprint=f"request {number}", **grown,
        )  # fmt: skip
        entries.append(entry)
    return entries


def hashed(entries: list[Entry]) -> list[tuple[Any, ...]]:
    """Return rows with hashes that are right, each bound by the next, but for what was edited."""
    rows: list[tuple[Any, ...]] = []
    for entry in entries:
        linked = replace(entry, prev=rows[-1][15]) if rows and not entry.prev else entry
        rows.append(row_of(replace(linked, hash=chain_hash(linked, "l"))))
    return rows


def one_by_one(rows: list[tuple[Any, ...]]) -> list[str]:
    walk = EntryWalk(ledger="l", epoch=2, accounts={}, keys={}, before=rows[0], ends_inside=True)
    return list(walk._one_by_one(rows[1:], hashed=True))


AMOUNTS = st.lists(st.integers(1, 1000), min_size=2, max_size=5)


@given(kind=st.sampled_from([*GROWING]), amounts=AMOUNTS)
@patient
def test_a_block_of_one_kind_is_passed_at_once(kind: str, amounts: list[int]) -> None:
    entries = run_of(kind, amounts)
    rows = hashed([entries[0], *(replace(entry, prev="") for entry in entries[1:])])
    assert all_follow(columns_of(rows[1:]), rows[0])
    assert one_by_one(rows) == []


EDITS = {
    "account": st.just("acc_b"),
    "seq": st.integers(0, 20),
    "epoch": st.integers(0, 3),
    "kind": st.sampled_from([*GROWING, "open", "unreserve", "expire", "noted", "result"]),
    "amount": st.integers(-5, 1001),
    "total_after": st.integers(-5, 2 * 10**6) | st.just(MAX_TOTAL + 5),
    "spent_after": st.integers(-5, 2 * 10**6),
    "reserved_after": st.integers(-5, 2 * 10**6),
    "prev": st.just("1" * 64),
    "release": st.none(),
    "idem": st.just("a key"),
    "fingerprint": st.none(),
}
FREE = {"grant": {"release", "fingerprint"}, "burn": {"release", "fingerprint"},
        "debit": {"idem"}, "reserve": {"idem"}}  # fmt: skip
"""What entries of a kind may have, or lack."""


@given(
    kind=st.sampled_from([*GROWING]),
    amounts=AMOUNTS,
    edit=st.sampled_from([*EDITS]).flatmap(lambda name: st.tuples(st.just(name), EDITS[name])),
    place=st.integers(1, 5),
    onwards=st.booleans(),
)
@settings(patient, max_examples=300)
def test_an_edited_block_that_is_passed_has_nothing_wrong(
    kind: str, amounts: list[int], edit: tuple[str, Any], place: int, onwards: bool
) -> None:
    """With every hash computed again: sums and links alone must show it."""
    entries = run_of(kind, amounts)
    place = min(place, len(amounts))
    edited = [
        replace(entry, **{"prev": "", edit[0]: edit[1]})
        if number == place or (onwards and number > place)
        else replace(entry, prev="")
        for number, entry in enumerate(entries)
    ]
    rows = hashed([entries[0], *edited[1:]])
    if edited[1:] == [replace(entry, prev="") for entry in entries[1:]]:
        return
    passed = all_follow(columns_of(rows[1:]), rows[0])
    assert not (passed and one_by_one(rows)), "what is wrong row by row must not pass at once"
    # Debits that are all burns instead are burns.
    assert not passed or edit[0] in {"kind", *FREE[kind]}, "an edit of one column breaks something"


def test_a_block_beyond_what_an_account_may_hold_is_looked_at() -> None:
    entries = run_of("grant", [1, 1])
    for total, spent, passes in (
        (MAX_TOTAL - 2, 5, True),
        (MAX_TOTAL - 1, 5, False),
        (7, 5, False),
        (8, 5, True),
        (10**6, -1, False),
    ):
        moved = [
            replace(entry, total_after=total + number, spent_after=spent, prev="")
            for number, entry in enumerate(entries)
        ]
        rows = hashed(moved)
        assert all_follow(columns_of(rows[1:]), rows[0]) is passes, (total, spent)


def test_a_debit_beyond_the_total_does_not_pass() -> None:
    entries = [replace(entry, prev="") for entry in run_of("debit", [500_000, 499_992])]
    assert all_follow(columns_of(hashed(entries)[1:]), hashed(entries)[0])
    entries = [replace(entry, prev="") for entry in run_of("debit", [500_000, 499_993])]
    rows = hashed(entries)
    assert not all_follow(columns_of(rows[1:]), rows[0])
    assert one_by_one(rows)


def test_entries_that_seal_results_pass_in_blocks() -> None:
    sealing: dict[str, Any] = {
        "account": SYSTEM_ACCOUNT, "kind": "result", "amount": 0, "total_after": 0,
        "spent_after": 0, "reserved_after": 0, "prev": "",
    }  # fmt: skip
    rows = hashed([replace(entry, **sealing) for entry in run_of("grant", [0, 0, 0])])
    assert all_follow(columns_of(rows[1:]), rows[0])
    assert not one_by_one(rows)


@pytest.mark.parametrize(
    ("kind", "edit"),
    [
        ("debit", {"release": None}),
        ("reserve", {"fingerprint": None}),
        ("grant", {"idem": "a key"}),
        ("burn", {"idem": "a key"}),
        ("grant", {"kind": "result", "amount": 0, "total_after": 10**6}),
        ("grant", {"kind": "noted", "amount": 0, "total_after": 10**6}),
    ],
)
def test_an_entry_that_does_not_fit_its_kind_is_found(kind: str, edit: dict[str, Any]) -> None:
    """Its hash, its balance and its links are right."""
    first, *others = run_of(kind, [5, 5])
    rows = hashed([first, replace(others[0], prev="", **edit)])
    assert not all_follow(columns_of(rows[1:]), rows[0])
    said = "its account or its columns do not fit its kind"
    assert one_by_one(rows) == [f"{place_of('acc_a', 8)}: {said}"]


@pytest.mark.parametrize("kind", [*GROWING])
def test_the_system_account_moves_no_budget(kind: str) -> None:
    entries = [replace(each, account=SYSTEM_ACCOUNT, prev="") for each in run_of(kind, [5, 5])]
    rows = hashed(entries)
    assert not all_follow(columns_of(rows[1:]), rows[0])
    assert len(one_by_one(rows)) == 2


@pytest.mark.parametrize("amount", [0, -3])
def test_an_amount_that_gives_nothing_or_gives_back_does_not_pass(amount: int) -> None:
    entries = [replace(entry, prev="") for entry in run_of("debit", [5, amount, 5])]
    rows = hashed(entries)
    assert not all_follow(columns_of(rows[1:]), rows[0])
    assert len(one_by_one(rows)) == 1


def test_nothing_before_or_another_kind_is_not_for_blocks() -> None:
    rows = hashed([replace(entry, prev="") for entry in run_of("debit", [1, 2])])
    assert not all_follow(columns_of(rows[1:]), None)
    other = [replace(entry, kind="expire", prev="") for entry in run_of("debit", [1, 2])]
    assert not all_follow(columns_of(hashed(other)[1:]), rows[0])


# Releases


def release(number: int) -> dict[str, Any]:
    at, end, result = f"at {number}", f"end {number}", b"{}" * number
    fingerprint, plan = request_fingerprint(dataset="ds", request="{}"), "[]"
    return {
        "number": number, "id": f"rel_{number}", "account": "acc_a", "seq": number + 1,
        "dataset": "ds", "principal": "p", "state": "released", "attempts": 1,
        "request": "{}", "plan": plan, "fingerprint": fingerprint, "result": result,
        "result_hash": result_digest(result, end), "created_at": at, "finished_at": end,
        "kind": "debit", "release": f"rel_{number}", "charged": "p", "for": fingerprint,
        "note": plan_digest(plan), "at": at, "hash": "0" * 64,
        "leaf": result_leaves([f"rel_{number}"], ["0" * 64], [result])[0],
    }  # fmt: skip


def answered(*releases: dict[str, Any]) -> tuple[bool, list[str]]:
    """Return whether releases pass at once, and what is wrong with them one by one."""
    rows = [tuple(each.values()) for each in releases]
    assert len(rows[0]) == len(RELEASE_COLUMNS) + len(CHARGE_COLUMNS) + 1
    walk = ReleaseWalk(ledger="l", keys=None, before=0)
    passed = all_answered(columns_of(rows), 0)
    return passed, list(walk._one_by_one(rows, walk._fault_of))


def test_answered_releases_are_passed_at_once() -> None:
    assert answered(release(1), release(2), release(3)) == (True, [])


@in_one("place", [0, 1, 2])
@in_one(
    "edit",
    [
        {"number": 9}, {"id": "rel_x"}, {"dataset": "other"}, {"principal": "q"},
        {"state": "void"}, {"state": "debited"}, {"attempts": 0}, {"attempts": 4},
        {"request": "[]"}, {"plan": "{}"}, {"fingerprint": "x"},
        {"result": b"[]"}, {"result": None},
        {"result_hash": "x"}, {"finished_at": "later"}, {"finished_at": None},
        {"kind": "reserve"}, {"kind": None}, {"release": "rel_y"}, {"charged": "q"},
        {"for": "x"}, {"note": "x"}, {"hash": "1" * 64}, {"leaf": "0" * 64}, {"leaf": None},
        {"result": None, "result_hash": None},
    ],
)  # fmt: skip
def test_an_edited_release_is_not_passed_at_once(edit: dict[str, Any], place: int) -> None:
    releases = [release(1), release(2), release(3)]
    releases[place] |= edit
    passed, faults = answered(*releases)
    assert not passed
    assert len(faults) >= 1


@pytest.mark.parametrize("edit", [{"attempts": 2}, {"created_at": "then"}, {"at": "then"}], ids=str)
def test_what_is_compared_elsewhere_is_not_passed_at_once(edit: dict[str, Any]) -> None:
    passed, faults = answered(release(1), release(2) | edit)
    assert (passed, faults) == (False, [])


@given(
    results=st.lists(st.tuples(st.binary(max_size=300), st.text(max_size=40)), max_size=4),
)
def test_digests_of_many_results_are_those_of_each(results: list[tuple[bytes, str]]) -> None:
    each = tuple(result_digest(result, end) for result, end in results)
    assert result_digests([r for r, _ in results], [end for _, end in results]) == each
