"""Any sequence of what moves an account or a release, restarts and refusals, against a reference.

Keys, workers' claims, the deadline of a review and reconciliation are proven elsewhere, one by one.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from app.domain.ledger import SYSTEM_ACCOUNT, EntryKind
from app.domain.problems import Problem
from app.domain.releases import MAX_ATTEMPTS, ReleaseState
from app.store import Debit, Finish, UnitOfWork, Void
from app.store.ledger.entries import Occasion
from app.store.ledger.releases import RESULT
from tests.app.ledgers import ANALYST, CURATOR, found_by_key, left_behind, place_on
from tests.app.reference import Account, Reference
from tests.tiers import wide

ACCOUNTS = st.integers(0, 1)
AMOUNTS = st.integers(1, 12)
EVERYBODY = [ANALYST, "person_bob"]
PEOPLE = st.sampled_from(EVERYBODY)
KEYS = st.integers(0, 400).map(str)
ANY = st.integers(0, 10**6)
CHARGES = st.tuples(ACCOUNTS, AMOUNTS, PEOPLE, KEYS)
STEPS = 200
LONG_AGO = "2020-01-01T00:00:00.000000Z"
REPEATED = "LEDGER_MACHINE_SEED"
FINALS = st.sampled_from(["rejected", "withdrawn", "expired"])


def code_of(action: Callable[[], object]) -> str | None:
    try:
        action()
    except Problem as problem:
        return problem.code
    return None


class LedgerMachine(RuleBasedStateMachine):
    """Two accounts with a data set each; every answer and every row is the reference's."""

    backend: ClassVar[str] = "sqlite"
    made: ClassVar[int] = 0
    """Steps of every run of this class together."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        directory = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.place = self.stack.enter_context(place_on(self.backend, directory))
        self.store = self.place.open()
        self.reference = Reference()
        self.names: list[str] = []
        self.datasets: list[str] = []
        self.steps = 0
        """Since the store was opened; opening takes longer than all else."""
        self.begun = False
        """Whether the first look, which comes before any step, has been taken."""

    @initialize(totals=st.tuples(st.integers(0, 40), st.integers(0, 2000)))
    def open_accounts(self, totals: tuple[int, int]) -> None:
        for number, total in enumerate(totals):

            def make(u: UnitOfWork, n: int = number, t: int = total) -> tuple[str, str]:
                account = u.accounts.open(total=t, principal=CURATOR, reason="r").id
                return account, u.datasets.insert(
                    name=f"d{n}", account=account, spec="{}", rows=None, principal=CURATOR
                ).id

            account, dataset = self.store.write(make)
            self.names.append(account)
            self.datasets.append(dataset)
            self.reference.accounts.append(Account(total))

    def debit_of(self, which: int, amount: int, person: str, key: str) -> Debit:
        return Debit(
            dataset=self.datasets[which], principal=person, idem=key, amount=amount,
            request="{}", plan="{}",
        )  # fmt: skip

    def judge_debit(self, charge: tuple[int, int, str, str], outcome: Any) -> None:
        """Compare what a debit came to with what the reference says, and enter it there."""
        which, amount, person, key = charge
        known = self.reference.keys.get((person, key))
        if known is not None:
            assert (outcome.record.id, outcome.fresh) == (known, False)
            return
        refused = self.reference.refusal(which, amount, person)
        if refused is not None:
            assert isinstance(outcome, Problem)
            assert outcome.code == refused
            return
        assert outcome.fresh
        self.reference.charge(which, amount, person, key, outcome.record.id)

    @rule(charge=CHARGES)
    def debit(self, charge: tuple[int, int, str, str]) -> None:
        try:
            outcome: Any = self.store.write(self.debit_of(*charge))
        except Problem as problem:
            outcome = problem
        self.judge_debit(charge, outcome)

    @rule(charges=st.lists(CHARGES, min_size=2, max_size=20))
    def debit_together(self, charges: list[tuple[int, int, str, str]]) -> None:
        go = threading.Event()
        self.store.writer.submit(lambda _: go.wait(30))
        waiting = [self.store.writer.submit(self.debit_of(*charge)) for charge in charges]
        go.set()
        for charge, future in zip(charges, waiting, strict=True):
            self.judge_debit(charge, future.exception(30) or future.result(30))

    @rule(charge=CHARGES)
    def reserve(self, charge: tuple[int, int, str, str]) -> None:
        which, amount, person, key = charge
        if (person, key) in self.reference.keys or which in self.reference.archived:
            return

        def set_aside(u: UnitOfWork) -> str:
            return u.reviews.reserve(
                account=self.names[which], amount=amount, dataset=self.datasets[which],
                principal=person, request="{}", plan="{}", idem=key,
            ).id  # fmt: skip

        refused = self.reference.refusal(which, amount, person)
        if refused is not None:
            assert code_of(lambda: self.store.write(set_aside)) == refused
            return
        name = self.store.write(set_aside)
        self.reference.charge(which, amount, person, key, name, reserve=True)

    def some(self, number: int, *states: str) -> str:
        """Return a release, in one of these states if there is any."""
        fitting = [n for n, each in self.reference.releases.items() if each.state in states]
        names = fitting or list(self.reference.releases)
        return names[number % len(names)]

    def any_release(self) -> bool:
        return bool(self.reference.releases)

    @precondition(any_release)
    @rule(number=ANY)
    def approve(self, number: int) -> None:
        name = self.some(number, "reserved")
        code = code_of(
            lambda: self.store.write(lambda u: u.reviews.approve(name, principal=CURATOR))
        )
        assert code == self.reference.approve(name)

    @precondition(any_release)
    @rule(number=ANY, final=FINALS)
    def unreserve(self, number: int, final: str) -> None:
        name = self.some(number, "reserved")

        def give_back(u: UnitOfWork) -> None:
            u.reviews.unreserve(name, ReleaseState(final), principal=CURATOR, reason="r")

        assert code_of(lambda: self.store.write(give_back)) == self.reference.unreserve(name, final)

    @precondition(any_release)
    @rule(number=ANY, result=st.none() | st.binary(max_size=3), open_=st.booleans())
    def settle(self, number: int, result: bytes | None, open_: bool) -> None:
        name = self.some(number, *(["debited"] if open_ else []))
        command = Void(release=name) if result is None else Finish(release=name, result=result)
        assert code_of(lambda: self.store.write(command)) == self.reference.settle(name, result)

    @precondition(any_release)
    @rule(number=ANY)
    def attempt(self, number: int) -> None:
        name = self.some(number, "debited")
        if self.reference.releases[name].attempts < MAX_ATTEMPTS:
            code = code_of(lambda: self.store.write(lambda u: u.releases.begin_attempt(name)))
            assert code == self.reference.attempt(name)

    @rule(which=ACCOUNTS, person=PEOPLE, more=st.none() | st.integers(-5, 40))
    def cap(self, which: int, person: str, more: int | None) -> None:
        """Cap a person near what they have used, which is where it matters, or lift the cap."""
        amount = None if more is None else max(0, self.reference.used_by(which, person) + more)
        record = self.store.write(
            lambda u: u.accounts.set_cap(
                self.names[which], person, amount, principal=CURATOR, reason="r"
            )
        )
        assert record.amount == amount
        self.reference.cap(which, person, amount)

    @rule(which=ACCOUNTS, amount=AMOUNTS)
    def grant(self, which: int, amount: int) -> None:
        self.store.write(
            lambda u: u.accounts.grant(self.names[which], amount, principal=CURATOR, reason="r")
        )
        self.reference.grant(which, amount)

    def append(self, which: int, kind: EntryKind, amount: int) -> str | None:
        occasion = Occasion(principal=CURATOR, note="r")
        return code_of(
            lambda: self.store.write(
                lambda u: u.entries.append(self.names[which], kind, amount, occasion)
            )
        )

    @rule(which=ACCOUNTS, amount=AMOUNTS)
    def expire(self, which: int, amount: int) -> None:
        """A grant that is over at once: nothing else may end one."""

        def grant_and_end(u: UnitOfWork) -> int:
            u.accounts.grant(
                self.names[which], amount, principal=CURATOR, reason="r", expires_at=LONG_AGO
            )
            return u.accounts.expire_due()

        assert self.store.write(grant_and_end) == 1
        self.reference.grant(which, amount)
        self.reference.expire(which, amount)

    @rule(which=ACCOUNTS, amount=AMOUNTS)
    def burn(self, which: int, amount: int) -> None:
        assert self.append(which, EntryKind.BURN, amount) == self.reference.burn(which, amount)

    @rule(which=ACCOUNTS, amount=AMOUNTS)
    def fail_after_writing(self, which: int, amount: int) -> None:
        def fail(u: UnitOfWork) -> None:
            u.accounts.grant(self.names[which], amount, principal=CURATOR, reason="r")
            raise RuntimeError("on purpose")

        with pytest.raises(RuntimeError, match="on purpose"):
            self.store.write(fail)

    @precondition(lambda self: len(self.reference.releases) > 60 and not self.reference.archived)
    @rule(which=ACCOUNTS)
    def archive(self, which: int) -> None:
        self.store.write(lambda u: u.datasets.archive(self.datasets[which], principal=CURATOR))
        self.reference.archived.add(which)

    @precondition(lambda self: self.any_release() and self.steps > 40)
    @rule()
    def restart(self) -> None:
        self.steps = 0
        self.store.close()
        self.store = self.place.open()
        again = {release.id for release in left_behind(self.store)}
        for name, release in self.reference.releases.items():
            if release.state == "debited":
                assert (name in again) == (release.attempts < MAX_ATTEMPTS)
                if name in again:
                    self.reference.attempt(name)
                else:
                    self.reference.settle(name, None)
        self.everything_agrees()

    @invariant()
    def balances_agree(self) -> None:
        self.steps += 1
        type(self).made += self.begun
        self.begun = True
        with self.store.reading() as r:
            for name, account in zip(self.names, self.reference.accounts, strict=True):
                found = r.accounts.get(name)
                assert found is not None
                assert (found.total, found.spent, found.reserved) == account.amounts
                assert found.seq == len(account.log)
            for which, name in enumerate(self.names):
                used = {
                    (which, cap.person): (cap.amount, cap.used) for cap in r.accounts.caps(name)
                }
                assert used == {
                    key: (cap, self.reference.used_by(*key))
                    for key, cap in self.reference.caps.items()
                    if key[0] == which
                }

    def everything_agrees(self) -> None:
        with self.store.reading() as r:
            for which, name in enumerate(self.names):
                entries = r.entries.list(name, limit=10**6)
                account = self.reference.accounts[which]
                assert [(entry.kind, entry.amount) for entry in entries] == account.log
                for person in EVERYBODY:
                    spent = self.reference.spent_by(which, person)
                    assert r.accounts.spent_by(name, person) == spent
            for name, release in self.reference.releases.items():
                kept = r.releases.get(name)
                assert kept is not None
                assert (kept.state, kept.attempts) == (release.state, release.attempts)
                assert (kept.result, kept.principal) == (release.result, release.person)
            for (person, key), name in self.reference.keys.items():
                known = found_by_key(r, person, key)
                assert known is not None
                assert known.id == name
            found = r.verify()
            listed = r.entries.list(SYSTEM_ACCOUNT, limit=10**6)
        system = sum(entry.kind != RESULT for entry in listed)  # no seals
        assert found.ok, found.faults
        assert found.entries == system + sum(len(a.log) for a in self.reference.accounts)

    def teardown(self) -> None:
        try:
            if len(self.names) == 2:
                self.everything_agrees()
        finally:
            self.store.close()
            self.stack.close()


def make_steps(backend: str, wanted: int, *, number: int = 0) -> int:
    """Run a machine until it has made so many steps; the same ones for the same number.

    Hypothesis ends an example early now and then, so what is missing is made in further runs.
    """
    machine: Any = type(f"{backend.title()}Machine", (LedgerMachine,), {"backend": backend})
    for run in count(number):
        missing = wanted - machine.made
        if missing <= 0:
            break
        run_state_machine_as_test(
            seed(run)(machine),
            settings=settings(
                max_examples=-(-missing // STEPS),
                stateful_step_count=STEPS + 1,  # opening the accounts is the first
                deadline=None,
                database=None,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
    return int(machine.made)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [700, *wide(6_000)])
def test_thousands_of_steps(steps: int) -> None:
    assert make_steps("sqlite", steps) >= steps


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("steps", [250, *wide(1_000)])
def test_hundreds_of_steps_on_postgresql(steps: int) -> None:
    assert make_steps("postgres", steps) >= steps


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize(
    ("backend", "steps"),
    [
        ("sqlite", 10**6),
        pytest.param("postgres", 10**5, marks=pytest.mark.postgres),
    ],
)
def test_a_million_steps(backend: str, steps: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Others each time; the number that it tells at its start repeats them."""
    number = int(os.environ.get(REPEATED) or random.SystemRandom().getrandbits(32))
    with capsys.disabled():
        sys.stdout.write(f"\n{REPEATED}={number} repeats this run\n")
        sys.stdout.flush()
    assert make_steps(backend, steps, number=number) >= steps
