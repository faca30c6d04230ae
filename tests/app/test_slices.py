"""Grants that end and caps on persons, at the ledger's own interface, on both databases."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.ledger import Balance, EntryKind
from app.domain.problems import BudgetExceededError, Problem
from app.domain.releases import ReleaseState
from app.store.ledger import records
from app.store.ledger.accounts import CLOSED
from app.store.ledger.commands import Debit
from app.store.ledger.entries import Occasion
from app.store.ledger.records import text_of
from app.store.unit_of_work import UnitOfWork, Wanted
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, opened, raw

NOW = datetime(2031, 5, 1, 12, tzinfo=UTC)


class Clock:
    """The time that entries are made at, as the test sets it."""

    def __init__(self) -> None:
        self.now = NOW

    def text(self) -> str:
        return text_of(self.now)


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    with opened(place) as found:
        yield found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    for module in ("accounts", "entries", "commands", "releases", "datasets", "reviews"):
        monkeypatch.setattr(f"app.store.ledger.{module}.now", found.text)
    monkeypatch.setattr(records, "now", found.text)
    return found


def ends_in(minutes: float) -> str:
    return text_of(NOW + timedelta(minutes=minutes))


def grant(ledger: Ledger, amount: int, *, until: str | None) -> int:
    entry = ledger.store.write(
        lambda u: u.accounts.grant(
            ledger.account, amount, principal=CURATOR, reason="a while", expires_at=until
        )
    )
    return entry.seq


def cap(ledger: Ledger, amount: int | None, person: str = ANALYST) -> None:
    ledger.store.write(
        lambda u: u.accounts.set_cap(
            ledger.account, person, amount, principal=CURATOR, reason="a slice"
        )
    )


def charge(ledger: Ledger, idem: str, amount: int, person: str = ANALYST) -> str:
    """Charge in bulk, as the service does; return the code of a refusal or 'charged'."""
    command = Debit(
        dataset=ledger.dataset, principal=person, idem=idem, amount=amount, request="{}", plan="{}"
    )
    try:
        ledger.store.write(command)
    except Problem as refused:
        return refused.code
    return "charged"


def kinds(ledger: Ledger) -> list[str]:
    with ledger.store.reading() as r:
        return [entry.kind for entry in r.entries.list(ledger.account)]


def assert_sound(ledger: Ledger) -> None:
    found = ledger.store.verify()
    assert found.ok, found.faults


# Grants that end


def test_a_grant_is_there_until_its_time_and_then_gone(ledger: Ledger, clock: Clock) -> None:
    seq = grant(ledger, 500, until=ends_in(10))
    assert ledger.balance() == (1500, 0, 0)
    assert charge(ledger, "a", 1200) == "charged"
    clock.now = NOW + timedelta(minutes=10)
    # the total falls to what is spent, no further
    assert charge(ledger, "b", 1) == "budget-exceeded"
    assert ledger.balance() == (1200, 1200, 0)
    assert kinds(ledger)[-2:] == ["debit", "expire"]
    with ledger.store.reading() as r:
        last = r.entries.list(ledger.account)[-1]
        granted = next(e for e in r.entries.list(ledger.account) if e.seq == seq)
    assert (last.principal, last.fingerprint, last.amount) == ("system", granted.hash, 500)
    assert_sound(ledger)


def test_what_is_due_is_judged_before_a_charge(ledger: Ledger, clock: Clock) -> None:
    grant(ledger, 500, until=ends_in(10))
    clock.now = NOW + timedelta(minutes=9)
    assert charge(ledger, "a", 1001) == "charged"
    clock.now = NOW + timedelta(hours=9)
    with ledger.store.reading() as r:
        # balances are shown without it before anything is written
        assert r.accounts.balance(ledger.account) == Balance(1001, 1001, 0)
        assert r.accounts.due() == (ledger.account,)
        own = Balance(1001, 1001, 0)
        assert r.accounts.balances({ledger.account}) == {ledger.account: own}
    with pytest.raises(Problem, match="budget-exceeded"):
        ledger.debit("b")
    grant(ledger, 7, until=None)
    assert kinds(ledger)[-2:] == ["expire", "grant"]
    assert ledger.balance() == (1008, 1001, 0)
    assert_sound(ledger)


def test_several_grants_end_each_once(ledger: Ledger, clock: Clock) -> None:
    for minutes in (30, 10, 20, 10):
        grant(ledger, 100, until=ends_in(minutes))
    clock.now = NOW + timedelta(minutes=20)
    assert ledger.store.write(lambda u: u.accounts.expire_due()) == 1
    assert ledger.balance() == (1100, 0, 0)
    assert ledger.store.write(lambda u: u.accounts.expire_due()) == 0
    clock.now = NOW + timedelta(days=900)
    ledger.store.write(lambda u: u.accounts.expire_due())
    assert ledger.balance() == (1000, 0, 0)
    assert kinds(ledger).count("expire") == 4
    assert_sound(ledger)


def test_a_grant_ends_while_nobody_serves(place: Place, clock: Clock) -> None:
    with opened(place) as ledger:
        grant(ledger, 500, until=ends_in(10))
    clock.now = NOW + timedelta(days=1)
    store = place.open()
    try:
        again = Ledger(store, ledger.account, ledger.dataset, place)
        assert charge(again, "a", 1001) == "budget-exceeded"
        assert again.balance() == (1000, 0, 0)
        assert_sound(again)
    finally:
        store.close()


@pytest.mark.parametrize("seed", range(5))
def test_grants_that_end_agree_with_the_arithmetic(ledger: Ledger, clock: Clock, seed: int) -> None:
    chance = random.Random(seed)
    expected, waiting = Balance(1000), list[tuple[str, int, int]]()
    for step in range(60):
        clock.now += timedelta(minutes=chance.randrange(5))
        if chance.random() < 0.5:
            amount, minutes = chance.randrange(1, 300), chance.randrange(1, 40)
            until = text_of(clock.now + timedelta(minutes=minutes))
            expected = ended(expected, waiting, clock)
            expected = expected.after(EntryKind.GRANT, amount)
            waiting.append((until, grant(ledger, amount, until=until), amount))
        else:
            amount = chance.randrange(1, 400)
            expected = ended(expected, waiting, clock)
            covered = amount <= expected.remaining
            said = charge(ledger, f"{step}", amount)
            assert said == ("charged" if covered else "budget-exceeded"), f"seed {seed}"
            if covered:
                expected = expected.after(EntryKind.DEBIT, amount)
        total, spent, reserved = ledger.balance()
        assert Balance(total, spent, reserved) == expected, f"seed {seed}"
    assert_sound(ledger)


def ended(balance: Balance, waiting: list[tuple[str, int, int]], clock: Clock) -> Balance:
    for grant_ in sorted(waiting):
        if grant_[0] <= clock.text():
            balance = balance.after(EntryKind.EXPIRE, grant_[2])
            waiting.remove(grant_)
    return balance


def test_an_end_without_a_grant_is_found(ledger: Ledger) -> None:
    """It lowers the total, so no one is overspent by it; still no one may enter one."""
    occasion = Occasion(principal=CURATOR, fingerprint="f" * 64, note="not of any grant")
    ledger.store.write(lambda u: u.entries.append(ledger.account, EntryKind.EXPIRE, 100, occasion))
    assert ledger.balance() == (900, 0, 0)
    (fault,) = ledger.store.verify().faults
    assert fault == f"account {ledger.account}, entry 2: it ends no grant"


def test_an_account_of_which_nothing_is_left_is_closed_without_an_end(ledger: Ledger) -> None:
    assert charge(ledger, "all", 1000) == "charged"
    with raw(ledger.place, guarded=False) as db:
        db.execute("UPDATE dataset SET status = 'deleted', archived_at = '2026-01-01T00:00:00Z'")
    for _ in range(2):
        ledger.store.write(lambda u: u.accounts.close_if_empty(ledger.account, principal=CURATOR))
    with ledger.store.reading() as r:
        (closed,) = r.entries.of_system(CLOSED)
    assert closed.fingerprint is None
    assert any("is deleted and has releases" in fault for fault in ledger.store.verify().faults)


def test_an_end_that_closes_an_account_is_missed(ledger: Ledger) -> None:
    """Who enters that an account is closed names its last entry."""
    ledger.store.write(
        lambda u: u.accounts.system_entry(
            CLOSED, principal=CURATOR, fingerprint="e" * 64, note=ledger.account
        )
    )
    faults = ledger.store.verify().faults
    assert f"account {ledger.account}: the entry that closes it is missing" in faults


@pytest.mark.usefixtures("clock")  # both are approved in the same microsecond
def test_approvals_at_one_time_are_those_of_their_own_releases(ledger: Ledger) -> None:
    waiting = [ledger.store.write(lambda u, i=i: ledger.reserve(u, i, 1)).id for i in "ab"]

    def both(u: UnitOfWork) -> None:
        for each in waiting:
            u.reviews.approve(each, principal=CURATOR, reason="r")

    ledger.store.write(both)
    with ledger.store.reading() as r:
        entries = r.journal.page(Wanted(account=ledger.account, kind="debit"), skip=0, limit=9)
        assert {*r.journal.approvals(entries)} == {*waiting}
        alone = r.journal.approvals(entries[:1])
    assert alone == {entries[0].release: (CURATOR,)}


# Caps


@pytest.mark.parametrize("review", [False, True], ids=["at once", "by a review"])
def test_a_cap_is_judged_with_the_charge(ledger: Ledger, review: bool) -> None:
    def once(idem: str, amount: int) -> str:
        if not review:
            return charge(ledger, idem, amount)
        try:
            waits = ledger.store.write(lambda u: ledger.reserve(u, idem, amount)).id
        except Problem as refused:
            return refused.code
        ledger.store.write(lambda u: u.reviews.approve(waits, principal=CURATOR, reason="r"))
        return "charged"

    assert once("before", 100) == "charged"
    cap(ledger, 300)
    assert once("a", 150) == "charged"
    assert once("b", 51) == "budget-exceeded"
    assert once("c", 50) == "charged"
    assert once("d", 1) == "budget-exceeded"
    assert charge(ledger, "e", 600, "person_bob") == "charged"
    cap(ledger, None)
    assert once("f", 50) == "charged"
    # what was used without a cap counts when there is one again
    cap(ledger, 351)
    assert once("g", 2) == "budget-exceeded"
    assert once("h", 1) == "charged"
    cap(ledger, 10)  # below what is used: nothing more, and nothing breaks
    assert once("i", 1) == "budget-exceeded"
    assert ledger.balance() == (1000, 951, 0)
    assert_sound(ledger)


def test_a_refusal_tells_what_remains_for_the_person(ledger: Ledger) -> None:
    cap(ledger, 300)
    with pytest.raises(BudgetExceededError) as refused:
        ledger.debit("a", 301)
    assert (refused.value.requested, refused.value.remaining) == (301, 300)
    assert charge(ledger, "b", 900, "person_bob") == "charged"
    with pytest.raises(BudgetExceededError) as refused:
        ledger.debit("c", 301)
    assert refused.value.remaining == 100


def test_what_waits_for_a_review_counts_and_comes_back(ledger: Ledger) -> None:
    def reserve(idem: str, amount: int) -> str:
        return ledger.store.write(
            lambda u: u.reviews.reserve(
                account=ledger.account,
                amount=amount,
                dataset=ledger.dataset,
                principal=ANALYST,
                request="{}",
                plan="{}",
                idem=idem,
            )
        ).id

    before = reserve("before", 50)
    cap(ledger, 300)
    first, second = reserve("a", 100), reserve("b", 150)
    assert charge(ledger, "c", 1) == "budget-exceeded"
    with pytest.raises(Problem, match="budget-exceeded"):
        reserve("d", 1)
    ledger.store.write(
        lambda u: u.reviews.unreserve(
            second, ReleaseState.REJECTED, principal=CURATOR, reason="no need"
        )
    )
    for approved in (before, first):
        ledger.store.write(lambda u, r=approved: u.reviews.approve(r, principal=CURATOR))
    assert charge(ledger, "e", 151) == "budget-exceeded"
    assert charge(ledger, "f", 150) == "charged"
    assert ledger.balance() == (1000, 300, 0)
    assert_sound(ledger)


def test_a_release_under_review_ends_only_undrawn(ledger: Ledger) -> None:
    reserved = ledger.store.write(
        lambda u: u.reviews.reserve(
            account=ledger.account, amount=100, dataset=ledger.dataset, principal=ANALYST,
            request="{}", plan="{}", idem="a",
        )
    ).id  # fmt: skip

    def end(release: str, final: ReleaseState) -> object:
        return ledger.store.write(
            lambda u: u.reviews.unreserve(release, final, principal=CURATOR, reason="no need")
        )

    for drawn in (ReleaseState.DEBITED, ReleaseState.RELEASED, ReleaseState.VOID):
        with pytest.raises(ValueError, match="cannot end so"):
            end(reserved, drawn)
    with pytest.raises(Problem, match="not-found"):
        end("rel_unknown", ReleaseState.REJECTED)
    assert ledger.balance() == (1000, 0, 100)
    end(reserved, ReleaseState.WITHDRAWN)
    with pytest.raises(Problem, match="precondition"):
        end(reserved, ReleaseState.REJECTED)
    assert ledger.balance() == (1000, 0, 0)
    assert_sound(ledger)


def test_a_replay_is_no_use_of_the_cap(ledger: Ledger) -> None:
    cap(ledger, 100)
    for _ in range(3):
        assert charge(ledger, "once", 60) == "charged"
    with ledger.store.reading() as r:
        found = r.accounts.cap(ledger.account, ANALYST)
    assert found is not None
    assert (found.amount, found.used) == (100, 60)


def test_a_race_of_ten_colluding_persons_ends_at_the_total_and_the_caps(ledger: Ledger) -> None:
    persons = [f"person_{number}" for number in range(10)]
    for person in persons[:5]:
        cap(ledger, 37, person)
    with ThreadPoolExecutor(16) as pool:
        tries = [(f"{n}", 1 + n % 5, persons[n % 10]) for n in range(1_200)]
        said = list(pool.map(lambda one: charge(ledger, *one), tries))
    spent = dict.fromkeys(persons, 0)
    for (_, amount, person), outcome in zip(tries, said, strict=True):
        spent[person] += amount if outcome == "charged" else 0
    total, used, _ = ledger.balance()
    assert used == sum(spent.values()) <= total
    assert total - used < 5
    assert all(spent[person] <= 37 for person in persons[:5])
    with ledger.store.reading() as r:
        for person in persons[:5]:
            found = r.accounts.cap(ledger.account, person)
            assert found is not None
            assert found.used == spent[person]
    assert_sound(ledger)


# Edits


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE cap SET amount = 999",
        "UPDATE cap SET amount = NULL",
        "UPDATE cap SET used = 0",
        "UPDATE cap SET person = 'person_bob'",
        "DELETE FROM cap",
        "UPDATE expiring SET expires_at = '2099-01-01T00:00:00.000000Z' WHERE expired_seq IS NULL",
        "UPDATE expiring SET amount = 1 WHERE expired_seq IS NULL",
        "UPDATE expiring SET expired_seq = NULL",
        "UPDATE expiring SET expired_seq = seq + 1 WHERE expired_seq IS NULL",
        "DELETE FROM expiring WHERE expired_seq IS NULL",
        "DELETE FROM expiring WHERE expired_seq IS NOT NULL",
    ],
)
def test_an_edit_is_found(ledger: Ledger, clock: Clock, edit: str) -> None:
    cap(ledger, 300)
    assert charge(ledger, "a", 20) == "charged"
    grant(ledger, 100, until=ends_in(10))
    grant(ledger, 200, until=ends_in(60))
    clock.now = NOW + timedelta(minutes=20)
    ledger.store.write(lambda u: u.accounts.expire_due())
    assert_sound(ledger)
    with raw(ledger.place, guarded=False) as db:
        db.execute(edit)
    assert not ledger.store.verify().ok
