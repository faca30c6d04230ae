"""Many callers at once: the budget is never overspent, and no one spoils another's write."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from app.domain.problems import BudgetExceededError, Problem
from app.store import UnitOfWork
from app.store.ledger.commands import Debit
from app.store.writer import MAX_BATCH
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, found_by_key, opened


def outcome_of(action: Callable[[], object]) -> str:
    try:
        action()
    except Problem as problem:
        return problem.code
    return "granted"


def hold(ledger: Ledger) -> threading.Event:
    """Keep the writer busy until the event is set, so that what comes next waits together."""
    started, go = threading.Event(), threading.Event()

    def wait(_: UnitOfWork) -> None:
        started.set()
        assert go.wait(30)

    ledger.store.writer.submit(wait)
    assert started.wait(30)
    return go


def test_64_threads_race_for_a_budget_of_3(place: Place) -> None:
    with opened(place, total=3_000_000_000) as ledger:
        barrier = threading.Barrier(64)

        def ask(number: int) -> str:
            barrier.wait(30)
            return outcome_of(lambda: ledger.debit(f"key {number}", 1_000_000_000))

        with ThreadPoolExecutor(64) as pool:
            outcomes = Counter(pool.map(ask, range(64)))
        assert outcomes == {"granted": 3, "budget-exceeded": 61}
        assert ledger.balance() == (3_000_000_000, 3_000_000_000, 0)
        assert ledger.store.verify().ok


def test_a_refusal_says_what_was_left(place: Place) -> None:
    with opened(place, total=1_500_000_000) as ledger:
        ledger.debit("first", 1_000_000_000)
        before = ledger.store.verify()
        with pytest.raises(BudgetExceededError) as refused:
            ledger.debit("second", 500_000_001)
        assert (refused.value.requested, refused.value.remaining) == (500_000_001, 500_000_000)
        assert ledger.store.verify() == before


def test_one_key_is_charged_once_however_often_it_is_sent(place: Place) -> None:
    with opened(place) as ledger:
        charge = Debit(
            dataset=ledger.dataset,
            amount=1,
            principal=ANALYST,
            request="{}",
            plan="{}",
            idem="same",
        )

        with ThreadPoolExecutor(32) as pool:
            charged = list(pool.map(lambda _: ledger.store.write(charge), range(64)))
        assert len({each.record.id for each in charged}) == 1
        assert [each.fresh for each in charged].count(True) == 1
        assert ledger.balance() == (1000, 1, 0)


def test_a_key_belongs_to_its_person(place: Place) -> None:
    with opened(place) as ledger:
        first, other = ledger.debit("k"), ledger.debit("k", principal="person_bob")
        assert first.id != other.id
        with pytest.raises(IntegrityError, match="exists already"):
            ledger.store.write(lambda u: ledger.reserve(u, "k"))
        with ledger.store.reading() as r:
            assert found_by_key(r, "person_bob", "k") == other
            assert found_by_key(r, "person_cy", "k") is None


def test_a_failing_function_is_undone_alone(place: Place) -> None:
    """Ten functions in one group commit; every third writes, then fails."""
    with opened(place) as ledger:
        go = hold(ledger)

        def write(number: int) -> Callable[[UnitOfWork], int]:
            def function(u: UnitOfWork) -> int:
                u.accounts.grant(ledger.account, 1 + number, principal=CURATOR, reason="r")
                if number % 3 == 0:
                    raise RuntimeError(f"number {number}")
                return number

            return function

        futures = [ledger.store.writer.submit(write(number)) for number in range(10)]
        go.set()
        for number, future in enumerate(futures):
            if number % 3 == 0:
                with pytest.raises(RuntimeError, match=f"number {number}"):
                    future.result(30)
            else:
                assert future.result(30) == number
        assert ledger.balance() == (1000 + sum(1 + n for n in range(10) if n % 3), 0, 0)
        assert ledger.store.verify().ok


def test_a_commit_that_fails_is_tried_again_in_halves(place: Place) -> None:
    """A function leaves a balance without its entry, which only COMMIT can notice."""
    with opened(place) as ledger:
        go = hold(ledger)
        runs: Counter[str] = Counter()

        def poison(u: UnitOfWork) -> None:
            runs["poison"] += 1
            u.connection.exec_driver_sql(
                "UPDATE account SET seq = seq + 1, total = total + 5 WHERE id <> '0'"
            )

        def good(u: UnitOfWork) -> None:
            runs["good"] += 1
            u.accounts.grant(ledger.account, 1, principal=CURATOR, reason="r")

        futures = [ledger.store.writer.submit(f) for f in (good, poison, good)]
        go.set()
        futures[0].result(30)
        futures[2].result(30)
        with pytest.raises(IntegrityError, match=r"(?i)foreign key"):
            futures[1].result(30)
        assert runs == {"poison": 3, "good": 5}, "three, then one and two, then one and one"
        assert ledger.balance() == (1002, 0, 0)
        assert ledger.store.verify().ok


@pytest.mark.parametrize("statement", ["ROLLBACK", "COMMIT", "RELEASE job"])
def test_a_function_that_ends_the_transaction_takes_nobody_along(
    place: Place, statement: str
) -> None:
    """As SQLite itself may roll back on a full disk: no waiter hears of a write that is gone.

    Without an anchor: a commit that it has not been told of freezes the ledger.
    """
    with opened(replace(place, anchored=False)) as ledger:
        go = hold(ledger)

        def grant(u: UnitOfWork) -> None:
            u.accounts.grant(ledger.account, 1, principal=CURATOR, reason="r")

        def end(u: UnitOfWork) -> None:
            u.connection.exec_driver_sql(statement)

        futures = [ledger.store.writer.submit(f) for f in (grant, end, grant)]
        go.set()
        futures[0].result(30)
        futures[2].result(30)
        assert futures[1].exception(30) is not None
        assert ledger.balance()[0] >= 1002
        assert ledger.store.verify().ok
        assert ledger.debit("after").attempts == 1


def test_a_full_queue_is_busy_and_writes_nothing(place: Place) -> None:
    with opened(place, queue_length=4) as ledger:
        go = hold(ledger)
        futures = [ledger.store.writer.submit(lambda u: None) for _ in range(4)]
        with pytest.raises(Problem) as refused:
            ledger.debit("too many")
        assert (refused.value.code, refused.value.status) == ("busy", 503)
        assert refused.value.kind.retry_after_s
        go.set()
        assert [future.result(30) for future in futures] == [None] * 4
        assert ledger.balance() == (1000, 0, 0)


@pytest.mark.parametrize("in_bulk", [False, True], ids=["functions", "commands"])
def test_a_group_is_bounded_and_keeps_its_order(place: Place, in_bulk: bool) -> None:
    with opened(place) as ledger:
        go = hold(ledger)
        done: list[int] = []
        commits: list[int] = []
        ledger.store.writer.before_commit = lambda work: commits.append(
            work.changes.debits if in_bulk else len(done)
        )

        def job(n: int) -> Callable[[UnitOfWork], None] | Debit:
            if not in_bulk:
                return lambda u: done.append(n)
            return Debit(
                dataset=ledger.dataset, principal=ANALYST, idem=f"{n}", amount=1,
                request="{}", plan="{}",
            )  # fmt: skip

        futures = [ledger.store.writer.submit(job(n)) for n in range(MAX_BATCH * 2)]
        go.set()
        results: list[Any] = [future.result(30) for future in futures]
        # What held the writer was committed alone.
        assert len(commits) == 3
        if in_bulk:
            assert commits == [0, MAX_BATCH, MAX_BATCH]
            assert [each.record.seq for each in results] == [*range(2, 2 + MAX_BATCH * 2)]
        else:
            assert commits == [0, MAX_BATCH, MAX_BATCH * 2]
            assert done == [*range(MAX_BATCH * 2)]


def test_a_waiter_that_leaves_cancels_nothing(place: Place) -> None:
    async def leave(ledger: Ledger) -> None:
        go = hold(ledger)
        task = asyncio.ensure_future(
            ledger.store.awrite(
                lambda u: u.accounts.grant(ledger.account, 7, principal=CURATOR, reason="r")
            )
        )
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        assert (await ledger.store.awrite(lambda u: u.accounts.get(ledger.account))) is not None

    with opened(place) as ledger:
        asyncio.run(leave(ledger))
        assert ledger.balance() == (1007, 0, 0)


def test_closing_finishes_what_waits(place: Place) -> None:
    with opened(place) as ledger:
        go = hold(ledger)
        future = ledger.store.writer.submit(
            lambda u: u.accounts.grant(ledger.account, 1, principal=CURATOR, reason="r")
        )
        closing = threading.Thread(target=ledger.store.writer.close)
        closing.start()
        go.set()
        closing.join(30)
        assert future.result(0).total_after == 1001
