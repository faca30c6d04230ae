"""The public log: its order, its checkpoints, and proofs that strangers can check."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from typing import Any

import anyio
import pytest
from cryptography.exceptions import InvalidSignature
from hypothesis import given
from hypothesis import strategies as st

from app.domain.ledger import (
    SYSTEM_ACCOUNT,
    Peaks,
    audit_path,
    canonical_bytes,
    consistency_path,
    root_over,
)
from app.domain.problems import Problem
from app.store import LogTree, Store
from app.store.merkle_log import MOST_OF_PART
from app.store.verification.log import Checkpoints
from tests.app.ledgers import CURATOR, Ledger, Place, opened, raw
from tests.app.logs import is_consistent, log_of, root_of_path, signed
from tests.app.test_forgeries import edit

LEAVES = [sha256(bytes([0, number % 256])).digest() for number in range(600)]


def root_of(first: int, until: int) -> bytes:
    return root_over(LEAVES[first:until])


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    with opened(place) as made:
        yield made


def rows(ledger: Ledger, query: str) -> list[Any]:
    with ledger.store.reading() as reader:
        return [tuple(row) for row in reader.connection.exec_driver_sql(query)]


def parts(ledger: Ledger) -> list[Any]:
    return rows(
        ledger,
        "SELECT account, after_seq, last_seq, leaves_before, leaves_after FROM log_part"
        " ORDER BY number",
    )


# The tree


@given(size=st.integers(1, 70), data=st.data())
def test_a_path_leads_from_its_leaf_to_the_root_and_from_no_other(
    size: int, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, size - 1))
    path = audit_path(index, size, root_of)
    assert root_of_path(index, size, LEAVES[index], path) == root_of(0, size)
    assert root_of_path(index, size, LEAVES[index + 1], path) != root_of(0, size)
    if size > 1:
        assert root_of_path(index, size, LEAVES[index], path[1:]) != root_of(0, size)


@given(size=st.integers(1, 70), data=st.data())
def test_a_larger_tree_is_consistent_with_what_it_begins_with(
    size: int, data: st.DataObject
) -> None:
    before = data.draw(st.integers(1, size))
    path = consistency_path(before, size, root_of)
    assert is_consistent(before, root_of(0, before), size, root_of(0, size), path)
    if before < size:
        other = root_over([LEAVES[before], *LEAVES[1:before]])
        assert not is_consistent(before, other, size, root_of(0, size), path)


def test_a_tree_that_grows_has_the_same_roots() -> None:
    tree = Peaks()
    for size, leaf in enumerate(LEAVES[:130], start=1):
        tree.add(leaf)
        assert (tree.size, tree.root()) == (size, root_of(0, size))
    again = Peaks(tree.size, tree.roots)
    again.add(LEAVES[130])
    assert again.root() == root_of(0, 131)
    assert len(again.roots) == (131).bit_count()


# The log


def test_every_entry_but_seals_comes_in_once_and_in_its_chains_order(ledger: Ledger) -> None:
    log = log_of(ledger)
    for number in range(3):
        ledger.release(f"k{number}")
        log.extend()
    log.extend()
    found = parts(ledger)
    assert [before for *_, before, _ in found] == [0, *(after for *_, after in found[:-1])]
    for account in (SYSTEM_ACCOUNT, ledger.account):
        own = [part for part in found if part[0] == account]
        assert [after for _, after, *_ in own] == [0, *(last for _, _, last, *_ in own[:-1])]
    kinds = "kind NOT IN ('result', 'checkpoint')"
    assert rows(ledger, f"SELECT count(*) FROM entry WHERE {kinds}") == [(found[-1][-1],)]
    assert len(rows(ledger, "SELECT size FROM log_checkpoint")) == 3, "once for each size"
    assert ledger.store.verify().ok


def test_a_checkpoint_is_a_signed_note_and_the_log_only_grows(ledger: Ledger) -> None:
    log = log_of(ledger)
    with pytest.raises(Problem, match="not-found"):
        log.checkpoint()
    notes = []
    for number in range(4):
        ledger.debit(f"k{number}")
        log.extend()
        notes.append(log.checkpoint())
    (key,) = log.keys
    found = [signed(note, key.text) for note in notes]
    assert {origin for origin, _, _ in found} == {f"release-desk/{ledger.store.identity.id}/1"}
    assert log.checkpoint(found[1][1]) == notes[1]
    for _, before, old in found:
        for _, size, new in found:
            if before <= size:
                assert is_consistent(before, old, size, new, log.consistency(before, size))
    text = notes[0]
    for place in range(len(text)):
        changed = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
        with pytest.raises((AssertionError, ValueError, InvalidSignature)):
            signed(changed, key.text)


def test_a_stranger_recomputes_the_leaf_of_a_charge(ledger: Ledger) -> None:
    log = log_of(ledger)
    record = ledger.release("secret key of ann")
    assert log.prove(record.account, record.seq) is None, "not yet"
    log.extend()
    proof = log.prove(record.account, record.seq)
    assert proof is not None
    shown = (
        "release-desk log leaf 1", ledger.store.identity.id, record.account, record.seq, 1, "debit",
        record.id, record.amount, record.charged_at, record.entry_hash, proof.hidden,
    )  # fmt: skip
    leaf = sha256(b"\0" + b"".join(map(canonical_bytes, shown))).digest()
    _, size, root = signed(proof.checkpoint, log.keys[0].text)
    included = proof.inclusion
    assert (included.leaf, included.size) == (leaf, size)
    assert root_of_path(included.index, size, leaf, included.path) == root
    ledger.release("later")
    log.extend()
    assert log.prove(record.account, record.seq) == proof, "it stays the same"
    assert log.inclusion(included.index, size).path == included.path


def test_an_entry_of_the_system_account_is_found_past_the_seals(ledger: Ledger) -> None:
    log = log_of(ledger)
    for number in range(3):
        ledger.release(f"k{number}")
        ledger.store.write(
            lambda u: u.accounts.open(total=1, principal=CURATOR, reason="another budget")
        )
    log.extend()
    seqs = rows(
        ledger, "SELECT seq FROM entry WHERE account = '0' AND kind = 'account_opened' ORDER BY seq"
    )
    for (seq,) in seqs:
        proof = log.prove(SYSTEM_ACCOUNT, seq)
        assert proof is not None
        assert (proof.entry.kind, proof.entry.seq) == ("account_opened", seq)
        _, size, root = signed(proof.checkpoint, log.keys[0].text)
        included = proof.inclusion
        assert root_of_path(included.index, size, included.leaf, included.path) == root


@pytest.mark.parametrize(("index", "size"), [(0, 10**6), (3, 3), (4, 3)])
def test_nothing_is_proved_of_what_is_not_signed(ledger: Ledger, index: int, size: int) -> None:
    log = log_of(ledger)
    log.extend()
    ledger.debit("not signed yet")
    with pytest.raises(Problem, match=r"not-found|invalid-request"):
        log.inclusion(index, size)
    with pytest.raises(Problem, match=r"not-found|invalid-request"):
        log.consistency(index + 1, size)


@pytest.mark.wide
def test_what_is_left_of_a_long_catch_up_comes_in_at_once(ledger: Ledger) -> None:
    """And not at the next regular time, which is an hour later."""

    def grants(u: Any) -> None:
        for _ in range(MOST_OF_PART + 10):
            u.accounts.grant(ledger.account, 1, principal=CURATOR, reason="more")

    async def scenario() -> None:
        log = log_of(ledger)
        async with anyio.create_task_group() as group:
            group.start_soon(log.keep)
            await anyio.sleep(0.1)
            ledger.store.write(grants)
            await log.catch_up()
            with anyio.fail_after(60):
                while not signed_up_to(ledger, MOST_OF_PART + 10):
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    anyio.run(scenario)


def signed_up_to(ledger: Ledger, least: int) -> bool:
    with ledger.store.reading() as reader:
        size = reader.log.size()
        return size > least and reader.log.checkpoint_of(size) is not None


@pytest.mark.wide
def test_a_long_ledger_comes_in_step_by_step(ledger: Ledger) -> None:
    """Three blocks of the tree, and more of one account than a part holds."""
    count = MOST_OF_PART + 10

    def grants(u: Any) -> None:
        for _ in range(count):
            u.accounts.grant(ledger.account, 1, principal=CURATOR, reason="more")

    ledger.store.write(grants)
    log = log_of(ledger)
    log.extend()
    sizes = [after - before for account, *_, before, after in parts(ledger) if account != "0"]
    assert sizes == [MOST_OF_PART, 11]
    with ledger.store.reading() as reader:
        size = reader.log.size()
        leaves = reader.log.hashes(0, size)
        tree = LogTree().over(reader.log)
        assert tree(0, size) == root_over(leaves)
        for first, until in ((3, 4), (255, 257), (0, 512), (512, size), (1024, size)):
            if until - first <= 256 or first % 256 == 0:
                assert tree(first, until) == root_over(leaves[first:until])
    for index in (0, 255, 256, size - 1):
        proof = log.inclusion(index, size)
        assert root_of_path(index, size, proof.leaf, proof.path) == root_over(leaves)
    assert ledger.store.verify(signed=True).ok


def test_many_accounts_come_in_step_by_step(ledger: Ledger) -> None:
    def accounts(u: Any) -> None:
        for _ in range(70):
            u.accounts.open(total=1, principal=CURATOR, reason="one of many")

    ledger.store.write(accounts)
    log = log_of(ledger)
    log.extend()
    assert len({account for account, *_ in parts(ledger)}) == 72
    assert ledger.store.verify(signed=True).ok


def test_several_writers_make_one_log(place: Place) -> None:
    """On PostgreSQL each process has its own store; a part that comes too late is left out."""
    with opened(place) as ledger:
        for number in range(20):
            ledger.debit(f"k{number}")
        others = [] if place.backend == "sqlite" else [_shared(place, ledger.store)]
        ledgers = [replace(ledger, store=store) for store in (ledger.store, *others)]
        logs = [log_of(each) for each in ledgers for _ in range(2)]
        with ThreadPoolExecutor(len(logs)) as pool:
            for number in range(5):
                list(pool.map(lambda log: log.extend(), logs))
                ledger.debit(f"more {number}")
        logs[-1].extend()
        for store in others:
            store.close()
        assert ledger.store.verify(signed=True).ok
        found = parts(ledger)
        assert [before for *_, before, _ in found] == [0, *(after for *_, after in found[:-1])]


def test_who_comes_in_second_leaves_the_first_alone(ledger: Ledger) -> None:
    """As when two processes read, hash and sign at once, however seldom they do."""
    store = ledger.store
    ledger.debit("k")
    with store.reading() as reader:
        late, more = reader.log.unlogged(store.identity.id)
    assert late
    assert not more
    log_of(ledger).extend()
    kept = parts(ledger), rows(ledger, "SELECT size, note FROM log_checkpoint")
    ((size, _),) = kept[1]
    store.write(lambda u: u.log.append(late))
    for signed_late in (size, size - 1):
        store.write(lambda u, size=signed_late: u.log.add_checkpoint(size, b"root", "too late"))
    assert (parts(ledger), rows(ledger, "SELECT size, note FROM log_checkpoint")) == kept
    assert store.verify(signed=True).ok


def _shared(place: Place, store: Store) -> Store:
    store.share()
    return place.open()


def test_an_old_ledger_gets_a_log(place: Place) -> None:
    """Entries of the time before the log come in like new ones, with what sealed their results."""
    with opened(place) as ledger:
        kept = ledger.release("before")
    store = place.open()
    again = replace(ledger, store=store)
    log = log_of(again)
    log.extend()
    assert log.prove(kept.account, kept.seq) is not None
    assert store.verify().ok
    store.close()


def test_a_lost_signer_puts_the_checkpoint_off(ledger: Ledger, monkeypatch: Any) -> None:
    log = log_of(ledger)

    def lost(message: bytes) -> bytes:
        raise OSError("the signer is gone")

    with monkeypatch.context() as gone:
        gone.setattr(type(ledger.store.key), "sign", lambda self, message: lost(message))
        with pytest.raises(OSError, match="gone"):
            log.extend()
        with pytest.raises(Problem, match="not-found"):
            log.checkpoint()
    log.extend()
    assert signed(log.checkpoint(), log.keys[0].text)[1] > 0
    assert ledger.store.verify(signed=True).ok


# Time stamps


def test_checkpoints_are_stamped_from_the_newest_on_each_once(ledger: Ledger) -> None:
    log = log_of(ledger)
    with ledger.store.reading() as reader:
        assert reader.stamps.due() is None, "nothing is signed"
        assert reader.stamps.newest() is None
    sizes = []
    for number in range(4):
        ledger.debit(f"k{number}")
        if number != 2:
            log.extend()
            sizes.append(signed(log.checkpoint(), log.keys[0].text)[1])
        if number == 1:
            _stamp(ledger, sizes[1])
    with ledger.store.reading() as reader:
        assert reader.stamps.due() == (sizes[2], log.checkpoint(sizes[2])), "the one after it"
        assert reader.stamps.of(sizes[0]) is None, "it was older than the first stamp"
    for size, stamp in ((sizes[2], b"its stamp"), (sizes[2], b"another"), (sizes[0], b"too late")):
        ledger.store.write(lambda u, kept=(size, stamp): u.stamps.add(*kept))
    with ledger.store.reading() as reader:
        assert reader.stamps.due() is None
        assert reader.stamps.newest() == sizes[2]
        assert [reader.stamps.of(size) for size in sizes] == [None, b"a stamp", b"its stamp"]
    assert ledger.store.verify(signed=True).ok


def _stamp(ledger: Ledger, expected: int) -> None:
    with ledger.store.reading() as reader:
        size, _ = reader.stamps.due() or (0, "")
    assert size == expected, "the newest"
    ledger.store.write(lambda u: u.stamps.add(size, b"a stamp"))


# What verification finds


def test_a_checkpoint_is_of_this_ledger_and_of_an_epoch_that_has_been(place: Place) -> None:
    """However many epochs there have been, as somebody may have written."""
    with opened(replace(place, anchored=False)) as ledger:
        log_of(ledger).extend()
        own = ledger.store.identity.id

        def is_sound(named: str, epoch: int) -> bool:
            with ledger.store.readers.connect() as connection:
                checkpoints = Checkpoints(ledger=named, epoch=epoch, keys=None)
                return not list(checkpoints.faults(connection))

        def put(origin: str) -> None:
            with raw(ledger.place, guarded=False) as connection:
                note = kept.replace(f"{own}/1", origin)
                connection.execute("UPDATE log_checkpoint SET note = ?", (note,))

        ((kept,),) = rows(ledger, "SELECT note FROM log_checkpoint")
        assert is_sound(own, 1)
        assert is_sound(own, 2**62)
        assert not is_sound(own, 0)
        assert not is_sound("another", 1)
        for origin in (f"{own}/2", f"{own}/01", f"{own}/0", f"{own}/x", own):
            put(origin)
            assert not is_sound(own, 1), origin
        put(f"{own}/2")
        assert is_sound(own, 2)


@pytest.mark.parametrize(
    ("statement", "reported"),
    [
        ("UPDATE log_part SET seed = '{other}' WHERE number = 2", "does not hold its entries"),
        (
            "UPDATE log_part SET last_seq = last_seq + 100 WHERE number = 2",
            "does not hold its entries",
        ),
        ("DELETE FROM log_part WHERE number = 1", "does not follow"),
        ("DELETE FROM log_part WHERE number = (SELECT max(number) FROM log_part)", "not of these"),
        ("UPDATE log_part SET account = '0' WHERE number = 2", "does not"),
        (
            "DELETE FROM log_checkpoint WHERE size = (SELECT max(size) FROM log_checkpoint)",
            "not those in the chain",
        ),
        ("UPDATE log_checkpoint SET note = 'mine'", "not of these leaves"),
        ("UPDATE log_checkpoint SET size = size + 100", "not those in the chain"),
        ("DELETE FROM log_checkpoint", "not those in the chain"),
    ],
)
def test_a_log_that_disagrees_with_the_chains_is_found(
    place: Place, statement: str, reported: str
) -> None:
    with opened(replace(place, anchored=False)) as ledger:
        log = log_of(ledger)
        for number in range(3):
            ledger.debit(f"k{number}")
            log.extend()
        assert ledger.store.verify(signed=True).ok
        edit(ledger.place, statement.format(other="b" * 64))
        found = ledger.store.verify(signed=True).faults
        assert any(re.search(reported, fault) for fault in found), found


def test_a_leaf_exchanged_with_its_entry_and_root_is_found_by_the_signature(place: Place) -> None:
    """Who writes the log again needs the key, too."""
    with opened(replace(place, anchored=False)) as ledger:
        log = log_of(ledger)
        ledger.debit("a")
        log.extend()
        note = log.checkpoint()
        line = note.rpartition(" ")[2]
        forged = line[:20] + ("A" if line[20] != "A" else "B") + line[21:]
        other = note.replace(line, forged)
        edit(ledger.place, "UPDATE log_checkpoint SET note = :note", note=other)
        assert ledger.store.verify().ok, "signatures are not looked at"
        (fault,) = ledger.store.verify(signed=True).faults
        assert "not of these leaves" in fault
        named = note.replace(line, "AAAA" + line[4:])
        edit(ledger.place, "UPDATE log_checkpoint SET note = :note", note=named)
        (fault,) = ledger.store.verify(signed=True).faults
        assert "not of these leaves" in fault, "its key hash is another's"
