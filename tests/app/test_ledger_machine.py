"""Any sequence of writes, restarts and refusals, against a reference ledger of three integers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from app.domain.ledger import SYSTEM_ACCOUNT
from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.store import Store, UnitOfWork
from tests.app.ledgers import ANALYST, CURATOR, left_behind, url_of

AMOUNTS = st.integers(min_value=1, max_value=12)
PEOPLE = st.sampled_from([ANALYST, "person_bob"])


class LedgerMachine(RuleBasedStateMachine):
    """Two accounts; the reference knows totals, what each person spent, and each release."""

    waiting: Bundle[str] = Bundle("waiting")

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.store = self.open()
        self.totals: dict[str, int] = {}
        self.spent: dict[tuple[str, str], int] = {}
        self.releases: dict[str, tuple[ReleaseState, int, bytes | None]] = {}
        self.datasets: dict[str, str] = {}
        self.keys = 0

    def open(self) -> Store:
        directory = Path(self.directory.name)
        return Store.open(url_of(directory), data_dir=directory)

    def spent_on(self, account: str) -> int:
        return sum(spent for (of, _), spent in self.spent.items() if of == account)

    @initialize(totals=st.tuples(st.integers(0, 40), st.integers(0, 40)))
    def open_accounts(self, totals: tuple[int, int]) -> None:
        for number, total in enumerate(totals):
            account = self.store.write(
                lambda u, t=total: u.accounts.open(total=t, principal=CURATOR, reason="r")
            ).id
            self.datasets[account] = self.store.write(
                lambda u, a=account, n=number: u.datasets.insert(
                    name=f"d{n}", account=a, spec="{}", rows=None, principal=CURATOR
                )
            ).id
            self.totals[account] = total

    @rule(which=st.integers(0, 1), amount=AMOUNTS)
    def grant(self, which: int, amount: int) -> None:
        account = list(self.totals)[which]
        self.store.write(lambda u: u.accounts.grant(account, amount, principal=CURATOR, reason="r"))
        self.totals[account] += amount

    @rule(target=waiting, which=st.integers(0, 1), amount=AMOUNTS, person=PEOPLE)
    def debit(self, which: int, amount: int, person: str) -> object:
        account = list(self.totals)[which]
        self.keys += 1
        affordable = self.spent_on(account) + amount <= self.totals[account]

        def charge(u: UnitOfWork) -> str:
            return u.releases.debit(
                account=account,
                amount=amount,
                dataset=self.datasets[account],
                principal=person,
                request="{}",
                plan="{}",
                idem=str(self.keys),
            ).id

        if not affordable:
            with pytest.raises(Problem, match="budget-exceeded"):
                self.store.write(charge)
            return multiple()
        release = self.store.write(charge)
        self.spent[account, person] = self.spent.get((account, person), 0) + amount
        self.releases[release] = (ReleaseState.DEBITED, 1, None)
        return release

    @rule(release=consumes(waiting), result=st.binary(max_size=3))
    def finish(self, release: str, result: bytes) -> None:
        state, attempts, _ = self.releases[release]
        if state is ReleaseState.VOID:
            with pytest.raises(Problem):
                self.store.write(lambda u: u.releases.finish(release, result))
            return
        self.store.write(lambda u: u.releases.finish(release, result))
        self.releases[release] = (ReleaseState.RELEASED, attempts, result)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = self.open()
        again = {release.id for release in left_behind(self.store)}
        for release, (state, attempts, _) in self.releases.items():
            if state is ReleaseState.DEBITED:
                assert (release in again) == (attempts < 3)
                self.releases[release] = (
                    (ReleaseState.DEBITED, attempts + 1, None)
                    if release in again
                    else (ReleaseState.VOID, attempts, None)
                )

    @invariant()
    def balances_and_releases_agree(self) -> None:
        with self.store.reading() as r:
            for account, total in self.totals.items():
                found = r.accounts.get(account)
                assert found is not None
                assert (found.total, found.spent) == (total, self.spent_on(account))
                assert found.spent <= found.total
                last = r.entries.list(account, limit=10**6)[-1]
                assert (found.seq, found.head) == (last.seq, last.hash)
                for person in (ANALYST, "person_bob"):
                    assert r.accounts.spent_by(account, person) == self.spent.get(
                        (account, person), 0
                    )
            for release, expected in self.releases.items():
                kept = r.releases.get(release)
                assert kept is not None
                assert (kept.state, kept.attempts, kept.result) == expected

    @invariant()
    def the_chain_verifies(self) -> None:
        with self.store.reading() as r:
            found = r.verify()
            entries = sum(
                len(r.entries.list(account, limit=10**6))
                for account in (*self.totals, SYSTEM_ACCOUNT)
            )
        assert found.ok, found.faults
        assert found.entries == entries

    def teardown(self) -> None:
        self.store.close()
        self.directory.cleanup()


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(
    max_examples=20,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
