"""The moments at which answers leave, and the clock that holds them."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.units import Schedule, response_schedule
from app.web.state import PublicClock
from tests.speed import PATIENCE_S

MOMENTS = st.integers(min_value=0, max_value=4 * 10**12)
SLOTS = st.integers(min_value=1, max_value=60_000)


@given(MOMENTS, SLOTS)
def test_the_deadline_is_the_first_tick_a_full_slot_after_the_arrival(
    arrived: int, slot: int
) -> None:
    deadline = response_schedule(arrived_ms=arrived, slot_ms=slot).deadline_ms
    assert deadline % slot == 0
    assert arrived + slot <= deadline < arrived + 2 * slot


@given(MOMENTS, SLOTS, st.integers(min_value=0, max_value=10**8))
def test_a_late_answer_leaves_at_the_next_doubling(arrived: int, slot: int, late: int) -> None:
    schedule = response_schedule(arrived_ms=arrived, slot_ms=slot)
    ready = arrived + late
    leaves = schedule.first_from(ready)
    assert leaves % slot == 0
    factor = (leaves - schedule.start_ms) // schedule.wait_ms
    assert factor.bit_count() == 1
    assert leaves >= ready
    assert factor == 1 or schedule.start_ms + schedule.wait_ms * factor // 2 < ready


def test_without_a_slot_an_answer_leaves_when_it_is_ready() -> None:
    schedule = response_schedule(arrived_ms=1234, slot_ms=0)
    assert (schedule, schedule.first_from(1300)) == (Schedule(1234, 0), 1300)


SLOT_MS = 40


def leaving(work_s: float, slot_ms: int = SLOT_MS) -> tuple[Schedule, float]:
    """Do some work for an answer; return its schedule and when it left, in milliseconds."""

    async def scenario() -> tuple[Schedule, float]:
        async with PublicClock(slot_ms).answer() as answer:
            await asyncio.sleep(work_s)
        return answer.schedule, time.time() * 1000

    return asyncio.run(scenario())


@pytest.mark.parametrize(("work_s", "factor"), [(0.0, 1), (0.1, 2), (0.2, 4)])
def test_an_answer_is_held_until_its_moment(work_s: float, factor: int) -> None:
    schedule, left = leaving(work_s)
    assert left >= schedule.start_ms + factor * schedule.wait_ms


def test_an_answer_is_held_for_as_long_as_its_outcome_is() -> None:
    async def scenario() -> None:
        async with PublicClock(SLOT_MS).answer() as answer:
            until_ms = answer.schedule.deadline_ms + 3 * SLOT_MS
            answer.hold(until_ms)
        assert time.time() * 1000 >= until_ms

    asyncio.run(scenario())


def test_a_slot_of_nothing_holds_nothing() -> None:
    async def scenario() -> float:
        clock = PublicClock(0)
        started = time.perf_counter()
        for _ in range(100):
            async with clock.answer():
                pass
        return time.perf_counter() - started

    assert asyncio.run(scenario()) < 1


def test_a_failure_is_held_like_an_answer() -> None:
    async def scenario() -> None:
        async with PublicClock(SLOT_MS).answer() as answer:
            held.append(answer.schedule)
            raise ZeroDivisionError

    held: list[Schedule] = []
    with pytest.raises(ZeroDivisionError):
        asyncio.run(scenario())
    assert time.time() * 1000 >= held[0].deadline_ms


@pytest.mark.parametrize("late_ms", [0, 1, 1000])
def test_a_moment_that_has_just_passed_is_not_missed(late_ms: int) -> None:
    async def scenario() -> None:
        clock = PublicClock(SLOT_MS)
        moment = int(time.time() * 1000) - late_ms
        first, second = clock.moment(moment), clock.moment(moment)
        await asyncio.wait_for(asyncio.gather(first, second), PATIENCE_S)

    asyncio.run(scenario())


@pytest.mark.slow
def test_answers_of_one_tick_leave_in_the_order_of_their_arrival() -> None:
    async def ask(clock: PublicClock, number: int, work_s: float) -> None:
        async with clock.answer():
            await asyncio.sleep(work_s)
        left.append(number)

    async def scenario() -> None:
        clock = PublicClock(2_000)
        await asyncio.sleep(2 - time.time() % 2)  # so that all arrive in the same slot
        asked = [ask(clock, number, 0.2 - number / 100) for number in range(20)]
        await asyncio.gather(*asked)

    left: list[int] = []
    asyncio.run(scenario())
    assert left == list(range(20))
