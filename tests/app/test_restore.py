"""Restores: an older database, or none, or another's, is frozen until it is reconciled."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.store import (
    DirectoryLockedError,
    FileAnchor,
    Findings,
    ReleaseRecord,
    Standing,
    Store,
    UnitOfWork,
    back_up,
    reconciling,
)
from app.store.anchor_file import LOG_NAME
from app.store.engines import writing_engine
from app.store.ids import text_of
from app.store.unit_of_work import transaction
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, file_of, opened, url_of
from tests.app.test_review_faults import reserve

FILES = ("", "-wal", "-shm")


def place(directory: Path) -> Place:
    return Place(directory, url_of(directory))


def copy(directory: Path, target: Path) -> None:
    """Copy the database's files as they are, the journal included."""
    target.mkdir(exist_ok=True)
    for suffix in FILES:
        file = Path(f"{file_of(directory)}{suffix}")
        if file.exists():
            shutil.copy(file, target / file.name)


def put_back(source: Path, directory: Path, *, journal: bool = True) -> None:
    for suffix in FILES:
        Path(f"{file_of(directory)}{suffix}").unlink(missing_ok=True)
    for file in source.iterdir():
        if journal or file.name == file_of(directory).name:
            shutil.copy(file, directory / file.name)


def a_life(directory: Path, backup: Path, also: Callable[[Ledger], object] = id) -> Ledger:
    """A ledger that is copied half-way and goes on: 10 spent, then 30; a release is unfinished."""
    with opened(place(directory), total=100) as ledger:
        ledger.release("first", 10)
        copy(directory, backup)
        also(ledger)
        ledger.release("second", 15)
        ledger.debit("waiting", 5)
    return ledger


def reconcile(directory: Path) -> Findings:
    anchor = FileAnchor(directory / "anchor")
    with reconciling(url_of(directory), data_dir=directory, anchor=anchor) as reconciliation:
        findings = reconciliation.findings()
        reconciliation.apply()
    return findings


def assert_frozen(directory: Path, why: Standing) -> None:
    """Twice, since nothing about it changes by itself; reads work."""
    for _ in range(2):
        store = place(directory).open()
        assert store.frozen is why
        with pytest.raises(Problem, match="ledger-frozen"):
            store.write(lambda u: u.accounts.system_entry("note", principal=CURATOR))
        assert all(fault.startswith("the anchor: ") for fault in store.verify().faults)
        store.close()


def assert_runs(directory: Path) -> Store:
    store = place(directory).open()
    assert store.frozen is None
    verification = store.verify()
    assert verification.ok, verification.faults
    return store


def release_of(store: Store, idem: str) -> ReleaseRecord | None:
    with store.reading() as r:
        return r.releases.find_by_idem(ANALYST, idem)


@pytest.mark.parametrize("journal", [False, True], ids=["file", "file and journal"])
def test_an_old_file_is_frozen_and_burned(tmp_path: Path, journal: bool) -> None:
    directory = tmp_path / "data"
    if journal:
        ledger = a_life(directory, tmp_path / "old")
    else:
        ledger = a_life(
            directory,
            tmp_path / "unused",
            lambda ledger: back_up(url_of(directory), tmp_path / "ledger.sqlite"),
        )
        (tmp_path / "old").mkdir()
        shutil.move(tmp_path / "ledger.sqlite", tmp_path / "old" / "ledger.sqlite")
    put_back(tmp_path / "old", directory)
    assert_frozen(directory, Standing.OLDER)
    findings = reconcile(directory)
    assert findings.standing is Standing.OLDER
    assert findings.lost == {ledger.account: 20}
    assert findings.verification.ok
    store = assert_runs(directory)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
        system = r.entries.list("0", limit=1000)
        last = r.entries.list(ledger.account, limit=1000)[-1]
    assert account is not None
    assert (account.total, account.spent) == (100, 30), "what was forgotten is spent"
    assert (last.kind, last.amount, last.principal, last.epoch) == ("burn", 20, "system", 2)
    assert (system[-1].kind, system[-1].note) == ("reconciled", "OLDER")
    assert release_of(store, "first") is not None
    assert release_of(store, "second") is None
    store.write(lambda u: u.accounts.grant(ledger.account, 1, principal=CURATOR, reason="r"))
    store.close()
    assert_runs(directory).close()
    assert sorted(path.name for path in (directory / "anchor").iterdir()) == [
        "anchor.before-epoch-2.log", "anchor.lock", LOG_NAME,
    ]  # fmt: skip


def test_an_old_file_under_a_newer_journal_never_runs_as_if_it_were_new(tmp_path: Path) -> None:
    """SQLite may take the journal for its own; then it is the newest state, or it is frozen."""
    directory = tmp_path / "data"
    with opened(place(directory), total=100) as ledger:
        ledger.release("first", 10)
        copy(directory, tmp_path / "old")
        ledger.release("second", 15)
        copy(directory, tmp_path / "new")
    shutil.copy(tmp_path / "old" / "ledger.sqlite", tmp_path / "new" / "ledger.sqlite")
    put_back(tmp_path / "new", directory)
    store = place(directory).open()
    if store.frozen is None:
        with store.reading() as r:
            account = r.accounts.get(ledger.account)
        assert account is not None
        assert account.spent == 25
        assert store.verify().ok
    store.close()


def test_another_ledger_s_file_is_frozen(tmp_path: Path) -> None:
    ledger = a_life(tmp_path / "data", tmp_path / "unused")
    other = a_life(tmp_path / "other", tmp_path / "unused too")
    copy(tmp_path / "other", tmp_path / "theirs")
    put_back(tmp_path / "theirs", tmp_path / "data")
    assert_frozen(tmp_path / "data", Standing.FOREIGN)
    findings = reconcile(tmp_path / "data")
    assert findings.anchored not in (None, findings.ledger)
    store = assert_runs(tmp_path / "data")
    with store.reading() as r:
        ours, theirs = r.accounts.get(ledger.account), r.accounts.get(other.account)
    assert ours is not None, "what its accounts have spent is not forgotten"
    assert theirs is not None
    assert (ours.total, ours.spent, ours.remaining) == (30, 30, 0)
    assert theirs.spent == 30
    store.close()


def test_a_deleted_anchor_is_frozen(tmp_path: Path) -> None:
    ledger = a_life(tmp_path, tmp_path / "unused")
    (tmp_path / "anchor" / LOG_NAME).unlink()
    assert_frozen(tmp_path, Standing.FORGOTTEN)
    findings = reconcile(tmp_path)
    assert (findings.anchored, findings.lost, findings.unfinished) == (None, {}, 1)
    store = assert_runs(tmp_path)
    waiting = release_of(store, "waiting")
    assert waiting is not None
    assert waiting.state is ReleaseState.VOID, "its result may have been seen"
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
    assert account is not None
    assert account.spent == 30, "and its charge stays"
    store.close()


@pytest.mark.parametrize("also_note", [False, True])
def test_a_deleted_database_is_frozen(tmp_path: Path, also_note: bool) -> None:
    ledger = a_life(tmp_path, tmp_path / "unused")
    for suffix in FILES:
        Path(f"{file_of(tmp_path)}{suffix}").unlink(missing_ok=True)
    if also_note:
        (tmp_path / "ledger.id").unlink()
    assert_frozen(tmp_path, Standing.FOREIGN)
    reconcile(tmp_path)
    store = assert_runs(tmp_path)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
    assert account is not None
    assert account.remaining == 0
    store.close()


def test_a_copy_that_lacks_only_a_result_is_older(tmp_path: Path) -> None:
    with opened(place(tmp_path), total=100) as ledger:
        first, second = ledger.debit("one", 10), ledger.debit("two", 10)
        copy(tmp_path, tmp_path / "old")
        for release in (first, second):
            ledger.store.write(lambda u, r=release.id: u.releases.finish(r, b"seen"))
    put_back(tmp_path / "old", tmp_path)
    assert_frozen(tmp_path, Standing.OLDER)
    findings = reconcile(tmp_path)
    assert (findings.lost, findings.unfinished) == ({}, 2)
    store = assert_runs(tmp_path)
    one, two = release_of(store, "one"), release_of(store, "two")
    assert one is not None
    assert two is not None
    assert one.state is ReleaseState.VOID, "it is not drawn again: its result has been seen"
    assert (two.state, two.result) == (ReleaseState.RELEASED, b"seen"), "the anchor still had it"
    store.close()


def test_one_transaction_back_is_burned_without_asking(tmp_path: Path) -> None:
    """As after a crash between the anchor's flush and the COMMIT."""
    with opened(place(tmp_path), total=100) as ledger:
        ledger.release("first", 10)
        copy(tmp_path, tmp_path / "old")
        ledger.debit("second", 15)
    put_back(tmp_path / "old", tmp_path)
    store = assert_runs(tmp_path)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
    assert account is not None
    assert account.spent == 25
    store.close()
    assert_runs(tmp_path).close()


def test_one_result_back_is_stored_again(tmp_path: Path) -> None:
    with opened(place(tmp_path), total=100) as ledger:
        release = ledger.debit("first", 10)
        copy(tmp_path, tmp_path / "old")
        ledger.store.write(lambda u: u.releases.finish(release.id, b"seen"))
    put_back(tmp_path / "old", tmp_path)
    store = assert_runs(tmp_path)
    found = release_of(store, "first")
    assert found is not None
    assert (found.state, found.result) == (ReleaseState.RELEASED, b"seen")
    store.close()


def test_a_forgotten_grant_does_not_make_room(tmp_path: Path) -> None:
    """Where the total no longer covers what was spent it is raised to just that."""
    directory = tmp_path / "data"
    with opened(place(directory), total=10) as ledger:
        copy(directory, tmp_path / "old")
        ledger.grant(40)
        ledger.release("first", 30)
        ledger.release("second", 5)
    put_back(tmp_path / "old", directory)
    reconcile(directory)
    store = assert_runs(directory)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
    assert account is not None
    assert (account.total, account.spent, account.remaining) == (35, 35, 0)
    store.close()


def test_what_waits_for_a_review_makes_room(tmp_path: Path) -> None:
    """An approval that was lost, or taken away: what it spent may not be had a second time."""
    directory = tmp_path / "data"
    with opened(place(directory), total=10) as ledger:
        first, second = (reserve(ledger.store, ledger, idem) for idem in ("first", "second"))
        copy(directory, tmp_path / "old")
        ledger.store.write(lambda u: u.reviews.approve(second, principal=CURATOR))
    put_back(tmp_path / "old", directory)
    store = assert_runs(directory)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
        states = {name: r.releases.get(name).state for name in (first, second)}  # type: ignore[union-attr]
    # 10 - 3 - 3 covers the 3 that were spent
    assert account is not None
    assert (account.total, account.spent, account.reserved) == (10, 3, 6)
    assert set(states.values()) == {ReleaseState.RESERVED}
    copy(directory, tmp_path / "later")
    store.write(lambda u: u.reviews.approve(first, principal=CURATOR))
    store.write(lambda u: u.reviews.approve(second, principal=CURATOR))
    store.close()
    put_back(tmp_path / "later", directory)
    assert reconcile(directory).lost == {ledger.account: 6}
    store = assert_runs(directory)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
        given_back = [r.releases.get(name) for name in (first, second)]
    assert account is not None
    assert (account.total, account.spent, account.reserved) == (10, 9, 0)
    assert [each and each.state for each in given_back] == [ReleaseState.EXPIRED] * 2
    store.close()


def test_a_grant_that_has_ended_does_not_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The total falls before what was lost is burned, and is raised to just that."""
    with opened(place(tmp_path), total=10) as ledger:
        until = text_of(datetime.now(UTC) + timedelta(hours=1))
        ledger.store.write(
            lambda u: u.accounts.grant(
                ledger.account, 40, principal=CURATOR, reason="a while", expires_at=until
            )
        )
        copy(tmp_path, tmp_path / "old")
        ledger.debit("first", 30)
    put_back(tmp_path / "old", tmp_path)
    later = text_of(datetime.now(UTC) + timedelta(hours=2))
    for module in ("accounts", "entries"):
        monkeypatch.setattr(f"app.store.{module}.now", lambda: later)
    store = assert_runs(tmp_path)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
    assert account is not None
    assert (account.total, account.spent, account.remaining) == (30, 30, 0)
    store.close()


def test_a_reconciliation_can_be_repeated(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    ledger = a_life(directory, tmp_path / "old")
    for epoch in (2, 3):
        put_back(tmp_path / "old", directory)
        assert_frozen(directory, Standing.OLDER)
        reconcile(directory)
        store = assert_runs(directory)
        assert store.identity.epoch == epoch
        with store.reading() as r:
            account = r.accounts.get(ledger.account)
        assert account is not None
        assert account.spent == 30
        store.close()


def test_a_reconciliation_cut_off_before_its_commit_is_done_again(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    ledger = a_life(directory, tmp_path / "old")
    put_back(tmp_path / "old", directory)
    reconcile(directory)
    put_back(tmp_path / "old", directory)  # the anchor knows of it, the database does not
    assert_frozen(directory, Standing.OLDER)
    reconcile(directory)
    store = assert_runs(directory)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
    assert account is not None
    assert account.spent == 30
    store.close()


def test_a_foreign_write_freezes_a_running_server(tmp_path: Path) -> None:
    with opened(place(tmp_path), total=100) as ledger:
        ledger.debit("one", 1)
        with writing_engine(url_of(tmp_path)).connect() as foreign, transaction(foreign):
            work = UnitOfWork(foreign, ledger.store.identity)
            work.accounts.grant(ledger.account, 5, principal=CURATOR, reason="behind its back")
        for _ in range(2):
            with pytest.raises(Problem, match="ledger-frozen"):
                ledger.debit("two", 1)
        assert ledger.store.frozen is Standing.DIFFERENT
        assert ledger.balance() == (105, 1, 0)
    assert_frozen(tmp_path, Standing.DIFFERENT)
    assert reconcile(tmp_path).lost == {}
    assert_runs(tmp_path).close()


def test_reconciling_needs_the_ledger_to_itself(tmp_path: Path) -> None:
    with opened(place(tmp_path)), pytest.raises(DirectoryLockedError):
        reconcile(tmp_path)
    with (
        opened(replace(place(tmp_path / "bare"), anchored=False)),
        pytest.raises(DirectoryLockedError),
        reconciling(url_of(tmp_path / "bare"), data_dir=tmp_path / "bare", anchor=None),
    ):
        pass


def test_reconciling_works_without_any_anchor(tmp_path: Path) -> None:
    with opened(replace(place(tmp_path), anchored=False), total=10) as ledger:
        ledger.debit("one", 4)
    with reconciling(url_of(tmp_path), data_dir=tmp_path, anchor=None) as reconciliation:
        assert reconciliation.findings().standing is Standing.CURRENT
        assert reconciliation.apply() == ()
    store = replace(place(tmp_path), anchored=False).open()
    assert (store.identity.epoch, store.anchored, store.frozen) == (2, "off", None)
    with store.reading() as r:
        assert r.releases.debited() == ()
    assert store.verify().ok
    store.close()
