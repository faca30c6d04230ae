"""Short calculations share a hand-over; long ones, failing ones and left ones harm no other."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from app.domain.problems import StorageError
from app.services.releases.charged_draws import MOST_MS, Batches, packed
from tests.speed import PATIENCE_S


class Counted(Batches):
    """Batches that count the hand-overs."""

    def __init__(self, *, threads: int) -> None:
        super().__init__(threads=threads, name="test")
        self.sizes: list[int] = []
        for pool in (self._short, self._long):
            self._count(pool)

    def _count(self, threads: ThreadPoolExecutor) -> None:
        submit = threads.submit

        def counted(function: Callable[..., object], *arguments: object) -> Future[object]:
            (batch,) = arguments
            assert isinstance(batch, list)
            self.sizes.append(len(batch))
            return submit(function, *arguments)

        threads.submit = counted  # type: ignore[method-assign, assignment]


@pytest.fixture
def batches() -> Iterator[Counted]:
    made = Counted(threads=4)
    yield made
    made.close()


def _nothing(_: object) -> None:
    """Take a step that comes to nothing."""


def run(work: Callable[[], Awaitable[object]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(work(), PATIENCE_S)

    asyncio.run(limited())


def test_what_one_turn_asks_for_is_handed_over_once(batches: Counted) -> None:
    async def work() -> None:
        async def ask(number: int) -> tuple[int, int]:
            return await batches.submit(
                lambda _: (number, threading.get_ident()), expected_ms=MOST_MS / 100
            )

        answers = await asyncio.gather(*map(ask, range(50)))
        assert [number for number, _ in answers] == [*range(50)]
        assert len({thread for _, thread in answers} - {threading.get_ident()}) == 1
        assert batches.sizes == [50]

    run(work)


def test_together_they_are_expected_to_take_no_longer_than_said(batches: Counted) -> None:
    expected = [0.5, 0.4, 0.2, 3.0, 0.5, 0.5, 0.1]

    async def work() -> None:
        asked = [batches.submit(_nothing, expected_ms=part * MOST_MS) for part in expected]
        await asyncio.gather(*asked)
        assert batches.sizes == [2, 1, 1, 2, 1]

    run(work)


def test_a_long_one_holds_no_short_one_up(batches: Counted) -> None:
    last = threading.Event()

    async def work() -> None:
        long = batches.submit(lambda _: last.wait(PATIENCE_S), expected_ms=5 * MOST_MS)
        short = [batches.submit(lambda _: 1, expected_ms=0.1) for _ in range(20)]
        assert await asyncio.gather(*short) == [1] * 20
        assert not long.done()
        last.set()
        assert await long

    run(work)


def test_long_ones_hold_no_short_one_up_however_many(batches: Counted) -> None:
    last = threading.Event()

    async def work() -> None:
        long = [
            batches.submit(lambda _: last.wait(PATIENCE_S), expected_ms=math.inf) for _ in range(9)
        ]
        short = [batches.submit(lambda _: 1, expected_ms=0.1) for _ in range(20)]
        assert await asyncio.gather(*short) == [1] * 20
        assert not any(call.done() for call in long)
        last.set()
        assert await asyncio.gather(*long) == [True] * 9

    run(work)


def test_short_ones_take_turns_in_one_thread(batches: Counted) -> None:
    async def work() -> None:
        asked = [
            batches.submit(lambda _: threading.get_ident(), expected_ms=MOST_MS) for _ in range(9)
        ]
        assert len(set(await asyncio.gather(*asked))) == 1

    run(work)


def test_one_that_fails_fails_alone(batches: Counted) -> None:
    def fail(_: object) -> None:
        raise ValueError("its own")

    async def work() -> None:
        asked = [
            batches.submit(function, expected_ms=0.1)
            for function in (_nothing, fail, _nothing, fail, _nothing)
        ]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert batches.sizes == [5]
        failed = [isinstance(outcome, ValueError) for outcome in outcomes]
        assert failed == [False, True, False, True, False]

    run(work)


def test_each_step_is_taken_for_all_before_the_next(batches: Counted) -> None:
    taken: list[str] = []

    def step(name: str) -> Callable[[str | None], str]:
        def take(before: str | None) -> str:
            taken.append(name)
            return f"{before or ''}{name}"

        return take

    def fail(_: object) -> None:
        raise ValueError("its own")

    async def work() -> None:
        asked = [
            batches.submit(step("a"), step("b"), step("c"), expected_ms=0.1),
            batches.submit(step("d"), fail, step("never"), expected_ms=0.1),
            batches.submit(step("e"), expected_ms=0.1),
            batches.submit(step("f"), step("g"), step("h"), expected_ms=0.1),
        ]
        whole, failed, short, last = await asyncio.gather(*asked, return_exceptions=True)
        assert (whole, short, last) == ("abc", "e", "fgh")
        assert isinstance(failed, ValueError)
        assert "".join(taken) == "adefbgch"

    run(work)


def test_one_that_nobody_waits_for_any_more_is_passed_over(batches: Counted) -> None:
    async def work() -> None:
        asked = [batches.submit(_nothing, expected_ms=0.1) for _ in range(3)]
        asked[1].cancel()
        assert await asked[0] is await asked[2] is None

    run(work)


def test_the_end_cancels_what_has_not_begun() -> None:
    made, begun, last = Counted(threads=1), threading.Event(), threading.Event()

    def first(_: object) -> bool:
        begun.set()
        return last.wait(PATIENCE_S)

    async def work() -> None:
        running = made.submit(first, expected_ms=MOST_MS)
        queued = made.submit(_nothing, expected_ms=MOST_MS)
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        late = made.submit(_nothing, expected_ms=MOST_MS)
        made.close()
        last.set()
        assert await running
        await asyncio.wait([queued, late], timeout=PATIENCE_S)
        assert queued.cancelled()
        assert late.cancelled()

    run(work)


def test_an_event_loop_that_has_ended_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    made, begun, last = Counted(threads=1), threading.Event(), threading.Event()

    def first(_: object) -> bool:
        begun.set()
        return last.wait(PATIENCE_S)

    async def leave() -> None:
        made.submit(first, expected_ms=1)
        await asyncio.to_thread(begun.wait, PATIENCE_S)

    asyncio.run(leave())
    last.set()
    made._short.shutdown(wait=True)
    assert not caplog.records


@dataclass(frozen=True)
class _Timed:
    expected_ms: float


@pytest.mark.parametrize(
    ("most_ms", "sizes"), [(10.0, [4, 1, 1, 1]), (5.0, [2, 2, 1, 1, 1]), (1.0, [1] * 7)]
)
def test_as_many_go_together_as_are_short_together(most_ms: float, sizes: list[int]) -> None:
    calls = [_Timed(ms) for ms in (2.5, 2.5, 2.5, 2.5, 0.1, 99.0, 10.0)]
    batches = list(packed(calls, most_ms=most_ms))
    assert [call for batch in batches for call in batch] == calls
    assert [len(batch) for batch in batches] == sizes


def test_calls_for_which_the_system_gives_no_thread_may_be_made_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are not told that they are cancelled: who waits for them has not gone."""

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def scenario() -> None:
        batches = Batches(threads=1, name="test")
        with monkeypatch.context() as starved:
            starved.setattr(threading.Thread, "start", refused)
            with pytest.raises(StorageError):
                await batches.submit(_nothing, expected_ms=math.inf)
        assert await batches.submit(_nothing, expected_ms=math.inf) is None
        batches.close()
        with pytest.raises(asyncio.CancelledError):
            await batches.submit(_nothing, expected_ms=math.inf)

    run(scenario)
