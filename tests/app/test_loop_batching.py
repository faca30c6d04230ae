"""The event loop and the writer take turns: writes come together, and none waits for long."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence

import pytest

from app.domain.problems import Problem
from app.store import Debit, loop_batching
from app.store.errors import StoreClosedError
from app.store.loop_batching import LONGEST_S, LoopBatches
from app.store.loop_batching import PATIENCE_S as A_WHILE_S
from app.store.unit_of_work import UnitOfWork
from tests.app.ledgers import Ledger, Place, opened
from tests.speed import PATIENCE_S


class Handed:
    """Takes what is handed over."""

    def __init__(self) -> None:
        self.groups: list[Sequence[int]] = []
        self.batches = LoopBatches(asyncio.get_running_loop(), self.groups.append)

    async def until(self, groups: int) -> None:
        """Wait until so many groups have come, turn by turn."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.groups) < groups:
                await asyncio.sleep(0)


def charge(ledger: Ledger, key: str) -> Debit:
    return Debit(
        dataset=ledger.dataset, principal="ann", idem=key, amount=1, request="{}", plan="{}"
    )


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(work(), PATIENCE_S)

    asyncio.run(limited())


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a quiet loop as long as it takes."""
    monkeypatch.setattr(loop_batching, "LONGEST_S", 600.0)


@pytest.mark.usefixtures("patient")
def test_a_write_alone_is_handed_over_at_the_first_quiet_turn() -> None:
    async def work() -> None:
        handed = Handed()
        handed.batches.add(1)
        await handed.until(1)
        assert handed.groups == [[1]]

    run(work)


@pytest.mark.usefixtures("patient")
def test_writes_of_turns_in_a_row_are_handed_over_together() -> None:
    async def work() -> None:
        handed = Handed()
        for number in range(9):
            handed.batches.add(number)
            await asyncio.sleep(0)
        await handed.until(1)
        assert handed.groups == [list(range(9))]
        assert handed.batches.gathered == 0

    run(work)


def test_no_write_waits_long_for_a_busy_loop() -> None:
    async def work() -> None:
        handed, began, turns = Handed(), time.perf_counter(), 0
        handed.batches.add(1)
        while not handed.groups and turns < 100:
            time.sleep(LONGEST_S / 10)
            await asyncio.sleep(0)
            turns += 1
        assert time.perf_counter() - began >= LONGEST_S
        assert turns < 20, "in turns of a busy loop: how long they take is the machine's doing"

    run(work)


def test_nothing_is_handed_over_before_all_outcomes_are_told() -> None:
    async def work() -> None:
        handed = Handed()
        handed.batches.add(1)
        handed.batches.add(2)
        await handed.until(1)
        handed.batches.add(3)
        handed.batches.settled(1)
        await asyncio.sleep(3 * LONGEST_S)
        handed.batches.add(4)
        assert handed.groups == [[1, 2]]
        handed.batches.settled(1)
        await handed.until(2)
        assert handed.groups == [[1, 2], [3, 4]]
        handed.batches.settled(2)
        handed.batches.add(5)
        await handed.until(3)

    run(work)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def never_out_of_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_batching, "PATIENCE_S", 600.0)


@pytest.mark.usefixtures("patient")
def test_a_patient_write_goes_along_with_the_one_that_is_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    never_out_of_patience(monkeypatch)

    async def work() -> None:
        handed = Handed()
        with handed.batches.expected:
            handed.batches.add(1, patient=True)
            await turns(50)
            handed.batches.add(2, patient=True)
            await turns(50)
            assert handed.groups == []
        handed.batches.add(3)
        await handed.until(1)
        assert handed.groups == [[1, 2, 3]]
        handed.batches.settled(3)
        handed.batches.add(4, patient=True)
        await handed.until(2)
        assert handed.groups[1:] == [[4]], "nothing is expected any more"

    run(work)


def test_patience_has_an_end() -> None:
    async def work() -> None:
        handed, began = Handed(), time.perf_counter()
        with handed.batches.expected:
            handed.batches.add(1, patient=True)
            await handed.until(1)
        assert handed.groups == [[1]]
        assert time.perf_counter() - began >= A_WHILE_S

    run(work)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("kinds", [(False,), (True, False), (False, True)])
def test_only_patient_writes_wait_for_an_expected_one(
    kinds: Sequence[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    never_out_of_patience(monkeypatch)

    async def work() -> None:
        handed = Handed()
        with handed.batches.expected, handed.batches.expected:
            for number, patient in enumerate(kinds):
                handed.batches.add(number, patient=patient)
            await handed.until(1)
        assert handed.groups == [list(range(len(kinds)))]

    run(work)


@pytest.mark.usefixtures("patient")
def test_a_charge_and_the_result_that_is_expected_are_one_commit(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_out_of_patience(monkeypatch)
    with opened(place) as ledger:
        seen: list[int] = []

        def result(work: UnitOfWork) -> None:
            seen.append(work.entries.debits)

        async def work() -> None:
            with ledger.store.expected():
                charging = asyncio.ensure_future(ledger.store.awrite(charge(ledger, "k")))
                await asyncio.sleep(0.05)
                assert not charging.done()
            await ledger.store.awrite(result)
            await charging

        run(work)
        assert seen == [1], "the charge was in the same transaction, and before it"


@pytest.mark.usefixtures("patient")
def test_charges_of_turns_in_a_row_are_one_commit(place: Place) -> None:
    commits = 0
    with opened(place) as ledger:
        writer = ledger.store.writer
        before = writer.before_commit
        assert before is not None

        def counted(work: UnitOfWork) -> None:
            nonlocal commits
            commits += 1
            before(work)

        writer.before_commit = counted

        async def work() -> None:
            charging = []
            for number in range(9):
                write = ledger.store.awrite(charge(ledger, f"k{number}"))
                charging.append(asyncio.ensure_future(write))
                await asyncio.sleep(0)
            await asyncio.gather(*charging)

        run(work)
        assert commits == 1
        assert ledger.balance() == (1000, 9, 0)


def test_what_no_task_can_be_told_stops_no_other_write(place: Place) -> None:
    with opened(place) as ledger:

        async def work() -> None:
            with pytest.raises(RuntimeError):
                await ledger.store.awrite(lambda _: next(iter(())))
            assert (await ledger.store.awrite(charge(ledger, "k"))).fresh

        run(work)
        assert ledger.balance() == (1000, 1, 0)


def test_what_is_gathered_fills_the_queue_too(place: Place) -> None:
    with opened(place, queue_length=4) as ledger:

        async def work() -> None:
            writes = [ledger.store.awrite(charge(ledger, f"k{number}")) for number in range(6)]
            found = await asyncio.gather(*writes, return_exceptions=True)
            refused = [each.code for each in found if isinstance(each, Problem)]
            assert refused == ["busy", "busy"]

        run(work)
        assert ledger.balance() == (1000, 4, 0)


def test_what_a_closing_store_has_gathered_is_refused(place: Place) -> None:
    with opened(place) as ledger:

        async def work() -> None:
            charging = asyncio.ensure_future(ledger.store.awrite(charge(ledger, "k")))
            await asyncio.sleep(0)
            ledger.store.writer.close()
            with pytest.raises(StoreClosedError):
                await charging
            with pytest.raises(StoreClosedError):
                await ledger.store.awrite(charge(ledger, "k"))

        run(work)
        assert ledger.balance() == (1000, 0, 0)


def test_what_waits_when_a_store_is_closed_is_written(place: Place) -> None:
    with opened(place) as ledger:
        writer = ledger.store.writer
        begun, going_on = threading.Event(), threading.Event()

        def hold(_: UnitOfWork) -> None:
            begun.set()
            assert going_on.wait(PATIENCE_S)

        held = writer.submit(hold)
        assert begun.wait(PATIENCE_S)
        waiting = writer.submit(charge(ledger, "k"))
        closing = threading.Thread(target=writer.close)
        closing.start()
        until = time.monotonic() + PATIENCE_S
        while writer._waiting.qsize() < 2:
            assert time.monotonic() < until
            time.sleep(0.001)
        going_on.set()
        held.result(PATIENCE_S)
        assert waiting.result(PATIENCE_S).fresh
        closing.join(PATIENCE_S)
        assert not closing.is_alive()
        assert ledger.balance() == (1000, 1, 0)
