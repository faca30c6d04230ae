"""Faults at every statement of a job's way through the queue, on both databases.

Every step is failed at its first statement, at its second and so on until it
comes through: whatever failed has left no trace, and the step can be asked for again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from app.domain.releases import ReleaseState
from app.store import ReleaseRecord, Store, UnitOfWork
from tests.app.homes import Home
from tests.app.ledgers import Ledger, opened, raw
from tests.app.test_faults import InjectedError, Trap, raise_fault

AMOUNT = 3
LONG_MS = 600_000


@dataclass(frozen=True)
class Step:
    """Something that is done to a release, and where that leaves it."""

    act: Callable[[UnitOfWork, str], object]
    state: ReleaseState
    attempts: int
    worker: str | None

    def fits(self, record: ReleaseRecord | None) -> bool:
        return record is not None and (record.state, record.attempts, record.worker) == (
            self.state,
            self.attempts,
            self.worker,
        )


DEBITED = ReleaseState.DEBITED
TO_THE_END = (
    Step(lambda u, _: u.releases.claim("one"), DEBITED, 1, "one"),
    Step(lambda u, r: u.releases.hand_back(r, worker="one"), DEBITED, 1, None),
    Step(lambda u, _: u.releases.claim("one"), DEBITED, 1, "one"),
    Step(lambda u, r: u.releases.begin_attempt(r), DEBITED, 2, "one"),
    Step(lambda u, _: u.workers.end("one"), DEBITED, 2, "one"),
    Step(lambda u, _: u.releases.claim("two"), DEBITED, 3, "two"),
    Step(lambda u, r: u.releases.finish(r, b"{}"), ReleaseState.RELEASED, 3, "two"),
)
TO_THE_THIRD_DEATH = (
    *TO_THE_END[:-1],
    Step(lambda u, _: u.workers.end("two"), DEBITED, 3, "two"),
    Step(lambda u, _: u.releases.claim("one"), ReleaseState.VOID, 3, "two"),
)


def everything(home: Home) -> list[object]:
    with raw(home) as connection:
        return list(connection.dump())


def failed_everywhere(
    home: Home, store: Store, trap: Trap, act: Callable[[UnitOfWork], object]
) -> int:
    """Fail at one statement after the other; return at how many before it came through."""
    before = everything(home)
    failed = 0
    while True:
        trap.count, trap.at = 0, failed
        try:
            store.write(act)
        except InjectedError:
            trap.at = None
            assert everything(home) == before
            assert store.frozen is None
            failed += 1
        else:
            trap.at = None
            return failed


def queued(ledger: Ledger, idem: str) -> str:
    for worker in ("one", "two"):
        ledger.store.write(lambda u, w=worker: u.workers.beat(w, lease_ms=LONG_MS))
    return ledger.debit(idem, AMOUNT).id


@pytest.mark.parametrize("lasting", [1, float("inf")], ids=["once", "from then on"])
def test_an_exception_at_any_statement_of_a_job_undoes_its_step(home: Home, lasting: float) -> None:
    with opened(home, total=10**6) as ledger:
        trap = Trap(ledger.store)
        trap.spring, trap.lasting = raise_fault, lasting
        for number, steps in enumerate((TO_THE_END, TO_THE_THIRD_DEATH)):
            release = queued(ledger, str(number))
            for step in steps:
                failed = failed_everywhere(
                    home, ledger.store, trap, lambda u, s=step, r=release: s.act(u, r)
                )
                assert failed >= 5, "BEGIN, SAVEPOINT, what it does, RELEASE and COMMIT"
                with ledger.store.reading() as r:
                    assert step.fits(r.releases.get(release)), step
            assert ledger.balance()[1] == AMOUNT * (number + 1), "it was charged once"
            verification = ledger.store.verify()
            assert verification.ok, verification.faults
    store = home.open()
    assert store.frozen is None
    assert store.verify().ok
    store.close()
