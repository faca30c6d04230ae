"""The anchor by itself: what it knows after any crash, and what it takes a database for."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.store.anchor import file as anchor_file
from app.store.anchor.file import LOG_NAME, FileAnchor
from app.store.anchor.standing import (
    Anchored,
    AnchorError,
    AnchorMismatchError,
    LedgerState,
    Standing,
    Step,
    judge,
)
from app.store.errors import DirectoryLockedError
from app.store.ledger.entries import Move, Position


def at(seq: int, spent: int = 0) -> Position:
    return Position(seq, f"{seq:064x}", spent)


def state(**accounts: Position) -> LedgerState:
    return LedgerState(ledger="ledger_a", epoch=1, accounts={"0": at(1), **accounts}, unfinished=0)


def step(before: LedgerState, unfinished: int = 0, /, **moved: Position) -> Step:
    moves = {name: Move(before.accounts.get(name), to) for name, to in moved.items()}
    return Step(moves=moves, unfinished_change=unfinished, results={"rel_1": b"\xff{}"})


def reread(directory: Path) -> Anchored | None:
    anchor = FileAnchor(directory)
    try:
        return anchor.read()
    finally:
        anchor.close()


def test_a_transaction_is_known_before_and_after(tmp_path: Path) -> None:
    first = state(a=at(1))
    anchor = FileAnchor(tmp_path)
    assert anchor.read() is None
    anchor.start(first)
    assert anchor.read() is None, "nothing is written before there is something to remember"
    one = step(first, 1, a=at(2, 5), b=at(1))
    anchor.begin(one)
    assert anchor.read() == Anchored(first, one)
    two = step(first.after(one), 2, a=at(3, 7))
    anchor.begin(two)
    assert anchor.read() == Anchored(first.after(one), two)
    anchor.close()
    known = reread(tmp_path)
    assert known == Anchored(first.after(one), two)
    assert known.latest == first.after(one).after(two)
    assert known.spent == {"0": 0, "a": 7, "b": 0}
    assert known.results == {"rel_1": b"\xff{}"}


def test_an_undone_transaction_is_not_counted(tmp_path: Path) -> None:
    first = state(a=at(1))
    anchor = FileAnchor(tmp_path)
    anchor.start(first)
    anchor.begin(step(first, a=at(2, 5)))
    anchor.undo()
    anchor.undo()
    other = step(first, a=at(2, 1))
    anchor.begin(other)
    assert anchor.read() == Anchored(first, other)
    third = step(first.after(other), a=at(3, 2))
    anchor.begin(third)
    assert anchor.read() == Anchored(first.after(other), third)
    anchor.close()


def test_a_transaction_from_somewhere_else_is_refused(tmp_path: Path) -> None:
    first = state(a=at(1))
    anchor = FileAnchor(tmp_path)
    anchor.start(first)
    for wrong in (
        Move(at(1, 1), at(2, 2)),
        Move(None, at(1)),
        Move(replace(at(1), head="f" * 64), at(2)),
    ):
        with pytest.raises(AnchorMismatchError, match="account a"):
            anchor.begin(Step(moves={"a": wrong}, unfinished_change=0))
    anchor.begin(step(first, a=at(2, 5)))
    with pytest.raises(AnchorMismatchError):
        anchor.begin(step(first, a=at(2, 5)))
    anchor.close()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError("No space")])
@pytest.mark.parametrize("broken", ["pwrite", "fdatasync", "replace"])
def test_what_cannot_be_noted_does_not_happen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, error: Exception
) -> None:
    reported = AnchorError if isinstance(error, OSError) else MemoryError
    first = state(a=at(1))
    anchor = FileAnchor(tmp_path)
    anchor.start(first)
    one = step(first, a=at(2, 5))
    anchor.begin(one)
    two = step(first.after(one), a=at(3, 6))

    def full(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync" if broken == "replace" else broken, full)
        with pytest.raises(reported, match="No space"):
            anchor.begin(two)
        if broken == "replace":
            patched.setattr(Path, "replace", full)
        with pytest.raises(reported, match="No space"):
            anchor.begin(two)
    # The file may end in what was being written; either way it explains the database.
    known = anchor.read()
    assert known is not None
    assert judge(known, first.after(one)) in (Standing.CURRENT, Standing.BEHIND)
    anchor.begin(two)
    assert anchor.read() == Anchored(first.after(one), two)
    anchor.close()


def test_a_torn_record_has_never_been(tmp_path: Path) -> None:
    """Whatever prefix of the last write reaches the disk, the transactions before it stand."""
    first = state(a=at(1))
    anchor = FileAnchor(tmp_path)
    anchor.start(first)
    one = step(first, a=at(2, 5))
    anchor.begin(one)
    file = tmp_path / LOG_NAME
    before = file.read_bytes()
    two = step(first.after(one), a=at(3, 6))
    anchor.begin(two)
    after = file.read_bytes()
    anchor.close()
    assert len(before) == len(after), "the file is filled up in advance"
    end = len(after.rstrip(b"\0"))
    start = next(i for i, (x, y) in enumerate(zip(before, after, strict=True)) if x != y)
    for cut in range(start, end):
        file.write_bytes(after[:cut] + before[cut:])
        assert reread(tmp_path) == Anchored(first, one)
    file.write_bytes(after)
    assert reread(tmp_path) == Anchored(first.after(one), two)
    file.write_bytes(after[:end])
    assert reread(tmp_path) == Anchored(first.after(one), two), "zeros after it are not needed"


def test_damage_ends_the_anchor_early(tmp_path: Path) -> None:
    now = first = state(a=at(1))
    anchor = FileAnchor(tmp_path)
    anchor.start(first)
    for seq in range(2, 8):
        taken = step(now, a=at(seq, seq))
        anchor.begin(taken)
        now = now.after(taken)
    anchor.close()
    file = tmp_path / LOG_NAME
    whole = file.read_bytes()
    for place in range(0, len(whole.rstrip(b"\0")), 7):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        standing = judge(reread(tmp_path), now)
        assert standing.frozen, f"byte {place}: {standing}"
    file.write_bytes(whole)
    assert judge(reread(tmp_path), now) is Standing.CURRENT


def test_the_file_is_written_anew_when_it_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchor_file, "_REWRITE_AT", 2000)
    monkeypatch.setattr(anchor_file, "_SPARE", 100)
    now = state(a=at(1))
    anchor = FileAnchor(tmp_path)
    anchor.start(now)
    sizes = []
    for seq in range(2, 60):
        taken = step(now, seq, a=at(seq, seq))
        anchor.begin(taken)
        assert anchor.read() == Anchored(now, taken)
        now = now.after(taken)
        sizes.append((tmp_path / LOG_NAME).stat().st_size)
    anchor.close()
    assert max(sizes) < 6000
    assert sum(later < earlier for earlier, later in itertools.pairwise(sizes)) >= 2


def test_the_cost_does_not_grow_with_the_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One write and one flush per transaction, of a size that the accounts do not change."""
    calls: list[tuple[str, int]] = []
    pwrite, fdatasync = os.pwrite, os.fdatasync
    written = {}
    for accounts in (1, 2000):
        now = state(**{f"acc_{n}": at(1) for n in range(accounts)})
        anchor = FileAnchor(tmp_path / str(accounts))
        anchor.start(now)
        first = step(now, acc_0=at(2, 1))
        anchor.begin(first)
        second = step(now.after(first), acc_0=at(3, 2))
        with monkeypatch.context() as patched:
            patched.setattr(
                os, "pwrite", lambda *a: calls.append(("write", len(a[1]))) or pwrite(*a)
            )
            patched.setattr(os, "fdatasync", lambda f: calls.append(("flush", 0)) or fdatasync(f))
            anchor.begin(second)
        written[accounts] = calls.copy()
        calls.clear()
        anchor.close()
    assert written[1] == written[2000]
    assert [what for what, _ in written[1]] == ["write", "flush"]


def test_an_anchor_has_one_server(tmp_path: Path) -> None:
    anchor = FileAnchor(tmp_path)
    with pytest.raises(DirectoryLockedError, match="anchor of its own"):
        FileAnchor(tmp_path)
    anchor.close()
    FileAnchor(tmp_path).close()
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(AnchorError, match="cannot be used"):
        FileAnchor(tmp_path / "file")
    (tmp_path / "unreadable" / LOG_NAME).mkdir(parents=True)
    with pytest.raises(AnchorError, match="cannot be read"):
        reread(tmp_path / "unreadable")


def test_a_reconciliation_holds_either_way(tmp_path: Path) -> None:
    first = state(a=at(1))
    anchor = FileAnchor(tmp_path)
    anchor.start(first)
    taken = step(first, a=at(2, 5))
    anchor.begin(taken)
    anchor.begin(step(first.after(taken), a=at(3, 9)))
    restored = state(a=at(1))
    assert judge(anchor.read(), restored) is Standing.OLDER
    adopted = replace(restored, epoch=2, accounts={"0": at(2), "a": at(2, 9)})
    anchor.adopt(adopted)
    known = anchor.read()
    assert known == Anchored(first.after(taken), adopted)
    assert judge(known, adopted) is Standing.CURRENT
    assert judge(known, restored) is Standing.OLDER, "it can be begun again after a crash"
    assert known.spent["a"] == 9
    anchor.start(adopted)
    anchor.begin(step(adopted, a=at(3, 10)))
    assert anchor.read() == Anchored(adopted, step(adopted, a=at(3, 10)))
    kept = tmp_path / "anchor.before-epoch-2.log"
    assert kept.is_file()
    anchor.close()


def test_a_reconciliation_without_an_anchor_makes_one(tmp_path: Path) -> None:
    found = replace(state(a=at(4, 2)), epoch=2)
    anchor = FileAnchor(tmp_path)
    anchor.adopt(found)
    assert anchor.read() == Anchored(None, found)
    assert judge(anchor.read(), found) is Standing.CURRENT
    assert judge(anchor.read(), state(a=at(4, 2))) is Standing.OLDER
    anchor.close()


def test_the_first_reconciliation_torn_has_never_been(tmp_path: Path) -> None:
    """What it begins from is whole, and that is nothing: there is still no anchor."""
    anchor = FileAnchor(tmp_path)
    anchor.adopt(replace(state(a=at(4, 2)), epoch=2))
    anchor.close()
    file = tmp_path / LOG_NAME
    content = file.read_bytes().rstrip(b"\0")
    for length in range(len(content)):
        file.write_bytes(content[:length])
        assert reread(tmp_path) is None, length


def test_a_reconciliation_that_cannot_be_noted_leaves_the_anchor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = state(a=at(1))
    anchor = FileAnchor(tmp_path)
    anchor.start(first)
    taken = step(first, a=at(2, 5))
    anchor.begin(taken)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", full)
        with pytest.raises(AnchorError, match="cannot be written: No space"):
            anchor.adopt(replace(first, epoch=2))
    assert anchor.read() == Anchored(first, taken)
    anchor.adopt(replace(first, epoch=2))
    assert anchor.read() == Anchored(first, replace(first, epoch=2))
    anchor.close()


def test_judgements() -> None:
    first = state(a=at(1))
    taken = step(first, 1, a=at(2, 5))
    after = first.after(taken)
    known = Anchored(first, taken)
    assert judge(known, after) is Standing.CURRENT
    assert judge(known, first) is Standing.BEHIND
    assert judge(Anchored(after), first) is Standing.OLDER
    assert judge(Anchored(first), after) is Standing.DIFFERENT, "ahead of its anchor"
    assert judge(None, after) is Standing.FORGOTTEN
    assert judge(None, state()) is Standing.NEW
    assert judge(Anchored(None), state()) is Standing.NEW
    assert judge(None, replace(state(), epoch=2)) is Standing.FORGOTTEN
    assert judge(None, replace(state(), unfinished=1)) is Standing.FORGOTTEN
    assert judge(known, replace(after, ledger="ledger_b")) is Standing.FOREIGN
    assert judge(known, replace(after, unfinished=2)) is Standing.OLDER, "a result is missing"
    assert judge(known, state(a=replace(at(2, 5), head="f" * 64))) is Standing.DIFFERENT
    assert judge(Anchored(after), state()) is Standing.OLDER, "an account is missing"
    half = step(first, a=at(2, 1), b=at(1))
    mixed = replace(first, accounts={**first.accounts, "b": at(1)})
    assert judge(Anchored(first, half), mixed).frozen, "half a transaction"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    fates=st.lists(st.sampled_from(["kept", "undone", "crash before", "crash after"]), max_size=12)
)
def test_any_life_ends_in_a_known_place(
    tmp_path_factory: pytest.TempPathFactory, fates: list[str]
) -> None:
    """Commits, failures and crashes in any order: the database is where its anchor expects it."""
    directory = tmp_path_factory.mktemp("life")
    now = state(a=at(1))
    anchor = FileAnchor(directory)
    anchor.start(now)
    for number, fate in enumerate(fates, start=2):
        taken = step(now, a=at(number, number))
        anchor.begin(taken)
        if fate in ("kept", "crash after"):
            now = now.after(taken)
        if fate == "undone":
            anchor.undo()
        if fate.startswith("crash"):
            anchor.close()
            anchor = FileAnchor(directory)
            expected = Standing.CURRENT if fate == "crash after" else Standing.BEHIND
            assert judge(anchor.read(), now) is expected
            anchor.start(now)
    anchor.close()
    standing = judge(reread(directory), now)
    assert standing in (Standing.CURRENT, Standing.BEHIND) or not fates
    if fates and fates[-1] != "undone":
        assert (standing is Standing.BEHIND) == (fates[-1] == "crash before")
