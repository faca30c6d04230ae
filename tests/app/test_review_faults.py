"""Faults and deaths at every statement of a review, on both databases."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection

import pytest

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.store import Finish, Store
from tests.app.forked_hosts import LOADED
from tests.app.homes import Home
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, opened
from tests.app.test_faults import Trap, raise_fault, said

pytestmark = pytest.mark.slow

AMOUNT = 3


def reserve(store: Store, ledger: Ledger, idem: str) -> str:
    return store.write(
        lambda u: u.reviews.reserve(
            account=ledger.account, amount=AMOUNT, dataset=ledger.dataset, principal=ANALYST,
            request="{}", plan="{}", idem=idem,
        )
    ).id  # fmt: skip


STEPS = {
    "reserve": None,
    "approve": lambda u, r: u.reviews.approve(r, principal=CURATOR, reason="fine"),
    "reject": lambda u, r: u.reviews.unreserve(
        r, ReleaseState.REJECTED, principal=CURATOR, reason="no"
    ),
    "expire": lambda u, _: u.reviews.expire("9999"),
}
ENDS = {
    "reserve": ReleaseState.RESERVED,
    "approve": ReleaseState.DEBITED,
    "reject": ReleaseState.REJECTED,
    "expire": ReleaseState.EXPIRED,
}


@pytest.mark.parametrize("step", STEPS)
def test_an_exception_at_any_statement_undoes_it_all(home: Home, step: str) -> None:
    with opened(home, total=10**6) as ledger:
        store = ledger.store
        trap = Trap(store)

        def take(release: str, number: int) -> str:
            if step == "reserve":
                return reserve(store, ledger, f"step {number}")
            store.write(lambda u: STEPS[step](u, release))  # type: ignore[misc]
            return release

        def begin(number: int) -> str:
            return "" if step == "reserve" else reserve(store, ledger, f"begin {number}")

        take(begin(-1), -1)
        first = begin(-2)
        trap.count = 0
        take(first, -2)
        statements = trap.count
        assert statements >= 8
        trap.spring = raise_fault
        for at in range(statements):
            release = begin(at)
            before = ledger.balance()
            trap.count, trap.at = 0, at
            with pytest.raises(RuntimeError, match="injected"):
                take(release, at)
            trap.at = None
            assert ledger.balance() == before
            with store.reading() as r:
                found = r.releases.get(release)
            assert (found and found.state) == (ReleaseState.RESERVED if release else None)
            name = take(release, at)
            with store.reading() as r:
                stepped = r.releases.get(name)
            assert stepped is not None
            assert stepped.state is ENDS[step]
        verification = store.verify()
        assert verification.ok, verification.faults
        assert store.frozen is None
        done = statements + 2
        expected = {"reserve": (0, done), "approve": (done, 0)}.get(step, (0, 0))
        assert ledger.balance()[1:] == tuple(AMOUNT * each for each in expected)


def die_at(home: Home, release: str, at: int, done: Connection) -> None:
    store = home.open()
    trap = Trap(store)
    trap.at, trap.spring = at, lambda: os.kill(os.getpid(), signal.SIGKILL)
    store.write(lambda u: u.reviews.approve(release, principal=CURATOR, reason="fine"))
    done.send(trap.count)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_death_at_any_statement_of_an_approval_loses_nothing(home: Home) -> None:
    with opened(home, total=10**6) as ledger:
        pass
    at, alive = 0, False
    while not alive:
        store = home.open()
        release = reserve(store, ledger, f"death at {at}")
        store.close()
        receiver, sender = LOADED.Pipe(duplex=False)
        process = LOADED.Process(target=die_at, args=(home, release, at, sender))
        process.start()
        sender.close()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        process.close()
        alive = said(receiver)
        store = home.open()
        try:
            assert store.frozen is None
            with store.reading() as r:
                found = r.releases.get(release)
            assert found is not None
            assert found.state is ReleaseState.DEBITED or not alive
            if found.state is ReleaseState.RESERVED:
                found = store.write(lambda u, n=release: u.reviews.approve(n, principal=CURATOR))
            assert (found.state, found.attempts, found.worker) == (ReleaseState.DEBITED, 1, None)
            store.write(Finish(release=release, result=b"{}"))
            verification = store.verify()
            assert verification.ok, verification.faults
            with store.reading() as r:
                account = r.accounts.get(ledger.account)
            # what was lost after the anchor had noted it is burned: twice at most
            assert account is not None
            assert account.reserved == 0
            assert AMOUNT * (at + 1) <= account.spent <= 2 * AMOUNT * (at + 1)
        finally:
            store.close()
        at += 1
    assert at >= 12


def test_an_approved_release_gives_one_answer(place: Place) -> None:
    with opened(place, total=10) as ledger:
        release = reserve(ledger.store, ledger, "a")
        for late in (b"early", b"still early"):
            with pytest.raises(Problem, match="release-void"):
                ledger.store.write(Finish(release=release, result=late))
        ledger.store.write(lambda u: u.reviews.approve(release, principal=CURATOR))
        with pytest.raises(Problem, match="precondition"):
            ledger.store.write(lambda u: u.reviews.approve(release, principal=CURATOR))
        for wrong in (ReleaseState.DEBITED, ReleaseState.RELEASED):
            with pytest.raises(ValueError, match="cannot end so"):
                ledger.store.write(
                    lambda u, w=wrong: u.reviews.unreserve(release, w, principal=CURATOR, reason="")
                )
        with pytest.raises(Problem, match="not-found"):
            ledger.store.write(lambda u: u.reviews.approve("rel_absent", principal=CURATOR))
        done = ledger.store.write(Finish(release=release, result=b"{}"))
        assert (done.state, done.result) == (ReleaseState.RELEASED, b"{}")
        assert ledger.balance() == (10, AMOUNT, 0)
        assert ledger.store.verify().ok
