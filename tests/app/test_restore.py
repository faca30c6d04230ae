"""Restores, on both databases: an older one, or none, or another's, is frozen until reconciled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.store import (
    DirectoryLockedError,
    Findings,
    ReleaseRecord,
    Standing,
    Store,
    UnitOfWork,
    back_up,
    reconciling,
)
from app.store.anchor.file import LOG_NAME
from app.store.database.engines import writing_engine
from app.store.ledger.records import text_of
from app.store.unit_of_work import transaction
from tests.app.conftest import ON_BOTH
from tests.app.homes import Home, Saved, home_on
from tests.app.ledgers import ANALYST, CURATOR, Ledger, found_by_key, opened
from tests.app.test_review_faults import reserve


@pytest.fixture(params=ON_BOTH)
def homes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Home]]:
    """Each call gives a home for another ledger."""
    with ExitStack() as held:
        yield lambda name: held.enter_context(home_on(request.param, tmp_path / name))


@pytest.fixture
def home(homes: Callable[[str], Home]) -> Home:
    return homes("data")


def a_life(home: Home, also: Callable[[Ledger], object] = id) -> tuple[Ledger, Saved]:
    """A ledger that is saved half-way and goes on: 10 spent, then 30; a release is unfinished."""
    with opened(home, total=100) as ledger:
        ledger.release("first", 10)
        saved = home.save()
        also(ledger)
        ledger.release("second", 15)
        ledger.debit("waiting", 5)
    return ledger, saved


def reconcile(home: Home) -> Findings:
    with reconciling(home.url, data_dir=home.directory, anchor=home.anchor()) as reconciliation:
        findings = reconciliation.findings()
        reconciliation.apply()
    return findings


def assert_frozen(home: Home, why: Standing) -> None:
    """Twice, since nothing about it changes by itself; reads work."""
    for _ in range(2):
        store = home.open()
        assert store.frozen is why
        with pytest.raises(Problem, match="ledger-frozen"):
            store.write(lambda u: u.accounts.system_entry("note", principal=CURATOR))
        assert all(fault.startswith("the anchor: ") for fault in store.verify().faults)
        store.close()


def assert_runs(home: Home) -> Store:
    store = home.open()
    assert store.frozen is None
    verification = store.verify()
    assert verification.ok, verification.faults
    return store


def release_of(store: Store, idem: str) -> ReleaseRecord | None:
    with store.reading() as r:
        return found_by_key(r, ANALYST, idem)


def test_an_old_database_is_frozen_and_burned(home: Home) -> None:
    ledger, saved = a_life(home)
    assert_frozen_and_burned(home, ledger, saved)


@pytest.mark.parametrize("how", ["file", "backup"])
def test_an_old_file_without_its_journal_is_frozen_and_burned(tmp_path: Path, how: str) -> None:
    backup = tmp_path / "backup"
    with home_on("sqlite", tmp_path / "data") as home:
        if how == "backup":
            ledger, _ = a_life(home, lambda _: back_up(home.url, backup))
            saved = Saved({"": backup.read_bytes()})
        else:
            with opened(home, total=100) as ledger:
                ledger.release("first", 10)
            saved = home.save()
            assert saved.parts.keys() == {""}, "what is closed has no journal"
            store = home.open()
            replace(ledger, store=store).release("second", 15)
            replace(ledger, store=store).debit("waiting", 5)
            store.close()
        assert_frozen_and_burned(home, ledger, saved)


def assert_frozen_and_burned(home: Home, ledger: Ledger, saved: Saved) -> None:
    home.put_back(saved)
    assert_frozen(home, Standing.OLDER)
    findings = reconcile(home)
    assert findings.standing is Standing.OLDER
    assert findings.lost == {ledger.account: 20}
    assert findings.verification.ok
    store = assert_runs(home)
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
    assert_runs(home).close()
    if home.backend == "sqlite":
        assert sorted(path.name for path in (home.directory / "anchor").iterdir()) == [
            "anchor.before-epoch-2.log", "anchor.lock", LOG_NAME,
        ]  # fmt: skip


def test_an_old_file_under_a_newer_journal_never_runs_as_if_it_were_new(tmp_path: Path) -> None:
    """SQLite may take the journal for its own; then it is the newest state, or it is frozen."""
    with home_on("sqlite", tmp_path / "data") as home:
        with opened(home, total=100) as ledger:
            ledger.release("first", 10)
            old = home.save()
            ledger.release("second", 15)
            new = home.save()
        assert new.parts["-wal"]
        home.put_back(Saved({**new.parts, "": old.parts[""]}))
        store = home.open()
        if store.frozen is None:
            with store.reading() as r:
                account = r.accounts.get(ledger.account)
            assert account is not None
            assert account.spent == 25
            assert store.verify().ok
        store.close()


def test_another_ledger_s_database_is_frozen(homes: Callable[[str], Home]) -> None:
    ours, theirs = homes("data"), homes("other")
    ledger, _ = a_life(ours)
    other, _ = a_life(theirs)
    ours.put_back(theirs.save())
    assert_frozen(ours, Standing.FOREIGN)
    findings = reconcile(ours)
    assert findings.anchored not in (None, findings.ledger)
    store = assert_runs(ours)
    with store.reading() as r:
        one, two = r.accounts.get(ledger.account), r.accounts.get(other.account)
    assert one is not None, "what its accounts have spent is not forgotten"
    assert two is not None
    assert (one.total, one.spent, one.remaining) == (30, 30, 0)
    assert two.spent == 30
    store.close()


@pytest.mark.parametrize("anchored", [True, False])
def test_another_ledger_is_frozen_though_its_anchor_came_with_it(
    homes: Callable[[str], Home], anchored: bool
) -> None:
    """Its database and its anchor agree, or it has none: the rows here are still not its own."""
    ours, theirs = (replace(homes(name), anchored=anchored) for name in ("data", "other"))
    a_life(ours)
    a_life(theirs)

    def here(**options: Any) -> Store:
        store = Store.open(theirs.url, data_dir=ours.directory, anchor=theirs.anchor(), **options)
        store.share()
        return store

    for _ in range(2):
        store = here()
        assert store.frozen is Standing.FOREIGN
        with pytest.raises(Problem, match="ledger-frozen"):
            store.write(lambda u: u.accounts.system_entry("note", principal=CURATOR))
        store.close()
    with reconciling(theirs.url, data_dir=ours.directory, anchor=theirs.anchor()) as reconciliation:
        assert reconciliation.findings().standing is Standing.FOREIGN
        reconciliation.apply()
    store = here()
    assert store.frozen is None
    assert store.verify().ok
    store.close()
    assert_frozen(ours, Standing.FOREIGN)


def test_a_deleted_anchor_is_frozen(home: Home) -> None:
    ledger, _ = a_life(home)
    home.forget_anchor()
    assert_frozen(home, Standing.FORGOTTEN)
    findings = reconcile(home)
    assert (findings.anchored, findings.lost, findings.unfinished) == (None, {}, 1)
    store = assert_runs(home)
    waiting = release_of(store, "waiting")
    assert waiting is not None
    assert waiting.state is ReleaseState.VOID, "its result may have been seen"
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
    assert account is not None
    assert account.spent == 30, "and its charge stays"
    store.close()


@pytest.mark.parametrize("also_note", [False, True])
def test_a_deleted_database_is_frozen(home: Home, also_note: bool) -> None:
    ledger, _ = a_life(home)
    home.remove()
    if also_note:
        (home.directory / "ledger.id").unlink()
    assert_frozen(home, Standing.FOREIGN)
    reconcile(home)
    store = assert_runs(home)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
    assert account is not None
    assert account.remaining == 0
    store.close()


def test_a_copy_that_lacks_only_a_result_is_older(home: Home) -> None:
    with opened(home, total=100) as ledger:
        first, second = ledger.debit("one", 10), ledger.debit("two", 10)
        old = home.save()
        for release in (first, second):
            ledger.store.write(lambda u, r=release.id: u.releases.finish(r, b"seen"))
    home.put_back(old)
    assert_frozen(home, Standing.OLDER)
    findings = reconcile(home)
    assert (findings.lost, findings.unfinished) == ({}, 2)
    store = assert_runs(home)
    one, two = release_of(store, "one"), release_of(store, "two")
    assert one is not None
    assert two is not None
    assert one.state is ReleaseState.VOID, "it is not drawn again: its result has been seen"
    assert (two.state, two.result) == (ReleaseState.RELEASED, b"seen"), "the anchor still had it"
    store.close()


def test_one_transaction_back_is_burned_without_asking(home: Home) -> None:
    """As after a crash between the anchor's flush and the COMMIT."""
    with opened(home, total=100) as ledger:
        ledger.release("first", 10)
        old = home.save()
        ledger.debit("second", 15)
    home.put_back(old)
    store = assert_runs(home)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
    assert account is not None
    assert account.spent == 25
    store.close()
    assert_runs(home).close()


def test_one_result_back_is_stored_again(home: Home) -> None:
    with opened(home, total=100) as ledger:
        release = ledger.debit("first", 10)
        old = home.save()
        ledger.store.write(lambda u: u.releases.finish(release.id, b"seen"))
    home.put_back(old)
    store = assert_runs(home)
    found = release_of(store, "first")
    assert found is not None
    assert (found.state, found.result) == (ReleaseState.RELEASED, b"seen")
    store.close()


def test_a_forgotten_grant_does_not_make_room(home: Home) -> None:
    """Where the total no longer covers what was spent it is raised to just that."""
    with opened(home, total=10) as ledger:
        old = home.save()
        ledger.grant(40)
        ledger.release("first", 30)
        ledger.release("second", 5)
    home.put_back(old)
    reconcile(home)
    store = assert_runs(home)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
    assert account is not None
    assert (account.total, account.spent, account.remaining) == (35, 35, 0)
    store.close()


@pytest.mark.wide
def test_what_waits_for_a_review_makes_room(home: Home) -> None:
    """An approval that was lost, or taken away: what it spent may not be had a second time."""
    with opened(home, total=10) as ledger:
        first, second = (reserve(ledger.store, ledger, idem) for idem in ("first", "second"))
        old = home.save()
        ledger.store.write(lambda u: u.reviews.approve(second, principal=CURATOR))
    home.put_back(old)
    store = assert_runs(home)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
        states = {name: r.releases.get(name).state for name in (first, second)}  # type: ignore[union-attr]
    # 10 - 3 - 3 covers the 3 that were spent
    assert account is not None
    assert (account.total, account.spent, account.reserved) == (10, 3, 6)
    assert set(states.values()) == {ReleaseState.RESERVED}
    later = home.save()
    store.write(lambda u: u.reviews.approve(first, principal=CURATOR))
    store.write(lambda u: u.reviews.approve(second, principal=CURATOR))
    store.close()
    home.put_back(later)
    assert reconcile(home).lost == {ledger.account: 6}
    store = assert_runs(home)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
        given_back = [r.releases.get(name) for name in (first, second)]
    assert account is not None
    assert (account.total, account.spent, account.reserved) == (10, 9, 0)
    assert [each and each.state for each in given_back] == [ReleaseState.EXPIRED] * 2
    store.close()


def test_a_grant_that_has_ended_does_not_make_room(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The total falls before what was lost is burned, and is raised to just that."""
    with opened(home, total=10) as ledger:
        until = text_of(datetime.now(UTC) + timedelta(hours=1))
        ledger.store.write(
            lambda u: u.accounts.grant(
                ledger.account, 40, principal=CURATOR, reason="a while", expires_at=until
            )
        )
        old = home.save()
        ledger.debit("first", 30)
    home.put_back(old)
    later = text_of(datetime.now(UTC) + timedelta(hours=2))
    for module in ("accounts", "entries"):
        monkeypatch.setattr(f"app.store.ledger.{module}.now", lambda: later)
    store = assert_runs(home)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
    assert account is not None
    assert (account.total, account.spent, account.remaining) == (30, 30, 0)
    store.close()


@pytest.mark.wide
def test_a_reconciliation_can_be_repeated(home: Home) -> None:
    ledger, old = a_life(home)
    for epoch in (2, 3):
        home.put_back(old)
        assert_frozen(home, Standing.OLDER)
        reconcile(home)
        store = assert_runs(home)
        assert store.identity.epoch == epoch
        with store.reading() as r:
            account = r.accounts.get(ledger.account)
        assert account is not None
        assert account.spent == 30
        store.close()


def test_a_reconciliation_cut_off_before_its_commit_is_done_again(home: Home) -> None:
    ledger, old = a_life(home)
    home.put_back(old)
    reconcile(home)
    home.put_back(old)  # the anchor knows of it, the database does not
    assert_frozen(home, Standing.OLDER)
    reconcile(home)
    store = assert_runs(home)
    with store.reading() as r:
        account = r.accounts.get(ledger.account)
    assert account is not None
    assert account.spent == 30
    store.close()


def test_a_foreign_write_freezes_a_running_server(home: Home) -> None:
    with opened(home, total=100) as ledger:
        ledger.debit("one", 1)
        with writing_engine(home.url).connect() as foreign, transaction(foreign):
            work = UnitOfWork(foreign, ledger.store.identity)
            work.accounts.grant(ledger.account, 5, principal=CURATOR, reason="behind its back")
        for _ in range(2):
            with pytest.raises(Problem, match="ledger-frozen"):
                ledger.debit("two", 1)
        assert ledger.store.frozen is Standing.DIFFERENT
        assert ledger.balance() == (105, 1, 0)
    assert_frozen(home, Standing.DIFFERENT)
    assert reconcile(home).lost == {}
    assert_runs(home).close()


def test_reconciling_needs_the_ledger_to_itself(homes: Callable[[str], Home]) -> None:
    for name, anchored in (("anchored", True), ("bare", False)):
        home = replace(homes(name), anchored=anchored)
        with opened(home), pytest.raises(DirectoryLockedError, match="server"):
            reconcile(home)


def test_reconciling_works_without_any_anchor(home: Home) -> None:
    bare = replace(home, anchored=False)
    with opened(bare, total=10) as ledger:
        ledger.debit("one", 4)
    with reconciling(bare.url, data_dir=bare.directory, anchor=None) as reconciliation:
        assert reconciliation.findings().standing is Standing.CURRENT
        assert reconciliation.apply() == ()
    store = bare.open()
    assert (store.identity.epoch, store.anchored, store.frozen) == (2, "off", None)
    with store.reading() as r:
        assert r.releases.debited() == ()
    assert store.verify().ok
    store.close()
