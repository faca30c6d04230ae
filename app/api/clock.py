"""The public clock: what holds an answer until the moment it may leave.

Nothing here holds a thread: a waiting answer is a future of the event loop.
Answers of one tick leave in the order in which their requests arrived; by the
order in which they were ready, a crowd of requests could be timed.
"""

from __future__ import annotations

import asyncio
import time
from types import TracebackType

from app.domain.timing import Schedule, response_schedule

_SHORTEST_S = 0.001


class PublicClock:
    """Ticks of ``slot_ms`` milliseconds; with 0 it holds nothing."""

    def __init__(self, slot_ms: int) -> None:
        self._slot_ms = slot_ms
        self._waiting: dict[int, list[asyncio.Future[None]]] = {}

    def answer(self) -> _Answer:
        """Return a block for the work on a request that has just arrived.

        However the block ends, by a return or by any exception, it ends at a
        moment of the request's schedule.
        """
        schedule = response_schedule(arrived_ms=_now_ms(), slot_ms=self._slot_ms)
        return _Answer(self, schedule)

    def moment(self, at_ms: int) -> asyncio.Future[None]:
        """Return the future that is done at a moment."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        waiting = self._waiting.get(at_ms)
        if waiting is None:
            waiting = self._waiting[at_ms] = []
            self._ring_at(loop, at_ms)
        waiting.append(future)
        return future

    def _ring_at(self, loop: asyncio.AbstractEventLoop, at_ms: int) -> None:
        left_s = at_ms / 1000 - time.time()
        if left_s > 0:
            # a loop's timer may ring a little early, so the clock is asked again
            loop.call_later(max(left_s, _SHORTEST_S), self._ring_at, loop, at_ms)
            return
        for future in self._waiting.pop(at_ms):
            if not future.done():
                future.set_result(None)


class _Answer:
    """A block of work that ends at a moment of its schedule."""

    __slots__ = ("_clock", "_deadline", "_schedule")

    def __init__(self, clock: PublicClock, schedule: Schedule) -> None:
        self._clock = clock
        self._schedule = schedule
        self._deadline: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Schedule:
        if self._schedule.wait_ms:
            # its place among the answers of that tick is that of its arrival
            self._deadline = self._clock.moment(self._schedule.deadline_ms)
        return self._schedule

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        deadline = self._deadline
        if deadline is None or isinstance(error, asyncio.CancelledError):
            return
        if deadline.done():
            deadline = self._clock.moment(self._schedule.first_from(_now_ms()))
        await deadline


def _now_ms() -> int:
    """Return the next whole millisecond: rounded down, a slot would be less than full."""
    return -(-time.time_ns() // 10**6)
