"""Short calculations handed to threads many at a time.

Waking a thread and being woken by it costs more than a small draw takes, and
while many threads want the interpreter each of them waits for all the others.
So the calls of one turn of the event loop are handed over together, and
resolved together when they are done.

A calculation comes in steps, and each step is taken for all of a batch before
the next one is: the same code over and over stays in the processor's caches,
which makes small draws a quarter faster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from app.domain.problems import StorageError

MOST_MS = 10.0
"""Together calculations are expected to take no longer than this; a longer one goes alone."""

Step = Callable[[Any], Any]
"""Makes of what the step before came to (of None, the first one) what the next one gets."""


class Expected(Protocol):
    """Something of which it is known about how long it takes."""

    @property
    def expected_ms(self) -> float:
        """Return about how many milliseconds it takes."""


Timed = TypeVar("Timed", bound=Expected)


@dataclass(frozen=True, slots=True)
class _Call:
    """The steps of a calculation, about how long it takes, and who waits for it."""

    steps: Sequence[Step]
    expected_ms: float
    waiter: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call has come to so far, or what it raised."""

    value: Any = None
    error: BaseException | None = None

    def then(self, step: Step) -> Outcome:
        """Return what a step makes of it."""
        if self.error is not None:
            return self
        try:
            return Outcome(value=step(self.value))
        except BaseException as error:  # the waiter gets it
            return Outcome(error=error)

    def resolve(self, waiter: asyncio.Future[Any]) -> None:
        """Resolve the waiter, unless it is cancelled."""
        if waiter.done():
            return
        if self.error is None:
            waiter.set_result(self.value)
        else:
            waiter.set_exception(self.error)


class Batches:
    """Threads, and the calls that wait for the event loop's turn to end.

    **Privacy.** Which calls share a hand-over follows from when they were
    asked for and from how long each is *expected* to take. That must be
    public, and infinite where the data decide how long a call really takes:
    those that share a hand-over wait for each other, and for those before it.

    Parameters
    ----------
    threads
        How many long calls run at once. All the short ones have one thread of their own:
        more would only take the interpreter's lock, and the processor's caches, from
        one another.
    name
        How the threads' names begin.
    """

    def __init__(self, *, threads: int, name: str) -> None:
        self._short = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._long = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._waiting: list[_Call] = []
        self._closed = False

    def submit(self, *steps: Step, expected_ms: float) -> asyncio.Future[Any]:
        """Have steps taken in a thread; return the future of what the last one comes to."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Any] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._hand_over, loop)  # after all that this turn still asks for
        self._waiting.append(_Call(steps, expected_ms, waiter))
        return waiter

    def _refuse(self, batch: Sequence[_Call], error: RuntimeError) -> None:
        """Fail the calls that no thread takes: the queue is full, or the threads are closed."""
        if self._closed:
            _cancel(batch)
            return
        # A running thread may take it nonetheless; its outcome is dropped.
        for call in batch:
            Outcome(error=StorageError(str(error))).resolve(call.waiter)

    def close(self) -> None:
        """Begin no further call; those not begun are cancelled."""
        self._closed = True
        for threads in (self._short, self._long):
            threads.shutdown(wait=False, cancel_futures=True)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, self._waiting = self._waiting, []
        for batch in packed(waiting):
            threads = self._short if batch[0].expected_ms <= MOST_MS else self._long
            try:
                job = threads.submit(_call_all, batch)
            except RuntimeError as error:
                self._refuse(batch, error)
            else:
                job.add_done_callback(partial(_report, loop, batch))


def packed(calls: Sequence[Timed], *, most_ms: float = MOST_MS) -> Iterator[Sequence[Timed]]:
    """Yield calls in order, as many together as are expected to take no longer than that."""
    batch: list[Timed] = []
    expected_ms = 0.0
    for call in calls:
        # An infinite time is more than any bound: such a call is always alone.
        if batch and expected_ms + call.expected_ms > most_ms:
            yield batch
            batch, expected_ms = [], 0.0
        batch.append(call)
        expected_ms += call.expected_ms
    yield batch


def take_steps(calls: Sequence[Sequence[Step]]) -> Sequence[Outcome]:
    """Return what each call comes to, taking each step for all of them before the next."""
    outcomes = [Outcome()] * len(calls)
    for at in range(max(map(len, calls))):
        outcomes = [
            outcome.then(steps[at]) if at < len(steps) else outcome
            for steps, outcome in zip(calls, outcomes, strict=True)
        ]
    return outcomes


def _call_all(batch: Sequence[_Call]) -> Sequence[Outcome]:
    return take_steps([call.steps for call in batch])


def _report(
    loop: asyncio.AbstractEventLoop, batch: Sequence[_Call], job: Future[Sequence[Outcome]]
) -> None:
    with suppress(RuntimeError):  # the event loop has ended, and its tasks with it
        loop.call_soon_threadsafe(_resolve, batch, job)


def _resolve(batch: Sequence[_Call], job: Future[Sequence[Outcome]]) -> None:
    if job.cancelled():
        _cancel(batch)
        return
    for call, outcome in zip(batch, job.result(), strict=True):
        outcome.resolve(call.waiter)


def _cancel(batch: Sequence[_Call]) -> None:
    for call in batch:
        call.waiter.cancel()
