"""Lanes: where calculations are made, and how people take turns at them.

What is quick is made in threads of the server, everything else in processes next to it. In every
lane one of a person's calculations is made at a time, and behind it the others wait in a queue of
the person's own, so that a person who asks for many holds up no one else. Releases have lanes
of their own: none waits for what is free. A calculation in a process ends when no one waits for it
any more, and after as much processor time as it may take (:mod:`app.services.plans.lanes`).

*How much CPU time a calculation may take, whatever the wall clock says.* A block in a process of
its own is ended when it has taken what it may. In a thread nothing is ended: only what is quick is
calculated there. How much that is depends on nothing but what is calculated, so it depends on no
data and on no other person's questions.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import NoReturn, Protocol, TypeVar

import anyio
import anyio.to_thread

from app.domain.problems import Problem
from app.uploads.storing import Stop

# How much CPU time a calculation may take, whatever the wall clock says

FREE_S = 3.0
"""What a free estimate may take; where that is not enough a coarser one is returned.

How much is simulated follows from public facts, and takes a third of this as a rule: so a busy
machine, where CPU time is worth less, gives the same estimate.
"""
LONGEST_S = 8.0
"""What all of a free calculation may take; where that is not enough it is refused."""
LONGEST_CHARGED_S = 120.0
"""What the plan of a release may take."""
_AT_ONCE_S = 1e-4
_TICK_S = 0.1
"""Timers may be late by as much."""


class OutOfTimeError(BaseException):
    """A calculation has taken as much processor time as it may; ``Exception`` is not above it."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Run a block, and end it after so much processor time of its process.

    Raises
    ------
    OutOfTimeError
        It took longer, or longer than a block around it may.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    began, before = time.process_time(), signal.signal(signal.SIGPROF, _end)
    outer, _ = signal.setitimer(signal.ITIMER_PROF, seconds)
    if 0 < outer < seconds:
        signal.setitimer(signal.ITIMER_PROF, outer)
    try:
        yield
    finally:
        taken = time.process_time() - began
        # The block around it goes on being timed, and ends at once if its time is over, too.
        signal.setitimer(signal.ITIMER_PROF, max(outer - taken, _AT_ONCE_S) if outer > 0 else 0)
        if outer <= 0:
            signal.signal(signal.SIGPROF, before)
    if taken > seconds + _TICK_S:  # a block within it was ended in its place
        raise OutOfTimeError


def _end(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise OutOfTimeError


# Lanes: where calculations are made, and how people take turns at them

T = TypeVar("T")
OnProgress = Callable[[float], object]
"""Is called with the share of a calculation that is done, from 0 to 1."""

AT_ONCE = 2
"""How many people's calculations a lane of processes makes at once."""


class Calculator(Protocol):
    """Other processes, in which what takes long is calculated."""

    def start(self) -> None:
        """Begin to load what calculations need."""

    def is_ready(self) -> bool:
        """Return whether that has been loaded."""

    def run(
        self,
        function: Callable[..., T],
        *arguments: object,
        stop: Stop,
        seconds: float,
        urgent: bool,
        on_progress: OnProgress | None = None,
    ) -> T:
        """Return what a function of a module comes to, or raise the Problem that it raises.

        All that it takes and returns can be pickled. ``stop`` ends it, and the process with it;
        it may use at most ``seconds`` of CPU time. What is ``urgent`` goes before the rest.
        ``on_progress`` gets the share that is done, if the function reports it.
        """

    def close(self) -> None:
        """End the calculations under way."""


class Turns:
    """Limits how many people's calculations run at once, with one per person.

    The first of every queue stand in line, so a person waits for one calculation of each other
    person's at most, however many those have asked for.

    Parameters
    ----------
    at_once
        How many may be made.
    most
        How many of one person's may be made or wait.
    """

    def __init__(self, *, at_once: int, most: int) -> None:
        self._most = most
        self._line = anyio.CapacityLimiter(at_once)
        self._queues: dict[str, _Queue] = {}

    @asynccontextmanager
    async def turn(self, person: str, *, patient: bool = False) -> AsyncIterator[None]:
        """Run a block when the person's turn has come.

        ``patient``: for what has been charged already, and is never turned away.

        Raises
        ------
        Problem
            ``busy``, when as many of the person's as may are there.
        """
        queue = self._queues.setdefault(person, _Queue())
        # Refused before anything is begun: a queue without bound would hold every request's memory.
        if queue.there >= self._most and not patient:
            raise Problem("busy")
        queue.there += 1
        try:
            # One of each person stands in line; the others wait behind it, in its own queue.
            async with queue.first, self._line:
                yield
        finally:
            queue.there -= 1
            # Else there would be a queue for everyone who has ever asked.
            if not queue.there:
                del self._queues[person]


@dataclass(slots=True)
class _Queue:
    """One person's calculations: how many are there, and the right to stand in line for one."""

    there: int = 0
    first: anyio.Lock = field(default_factory=anyio.Lock)


class ThreadLane:
    """Calculations that are quick, in threads.

    Parameters
    ----------
    threads
        How many run at once.
    most
        How many of one person's may run or wait.
    """

    def __init__(self, *, threads: int, most: int) -> None:
        self._turns = Turns(at_once=threads, most=most)
        self._threads = anyio.CapacityLimiter(threads)

    async def run(
        self, person: str, function: Callable[..., T], *arguments: object, patient: bool = False
    ) -> T:
        """Run a person's calculation in another thread.

        Raises
        ------
        Problem
            ``busy``, unless patient; what the function raises.
        """
        async with self._turns.turn(person, patient=patient):
            return await anyio.to_thread.run_sync(function, *arguments, limiter=self._threads)


class ProcessLane:
    """Calculations that take longer, in other processes.

    Parameters
    ----------
    calculator
        Where they are made.
    most
        How many of one person's may be made or wait.
    seconds
        How much processor time one may take.
    urgent
        Whether they go before others.
    """

    def __init__(
        self, calculator: Calculator, *, most: int, seconds: float, urgent: bool = False
    ) -> None:
        self._urgent = urgent
        self._calculator = calculator
        self._seconds = seconds
        self._turns = Turns(at_once=AT_ONCE, most=most)

    async def run(
        self,
        person: str,
        function: Callable[..., T],
        *arguments: object,
        patient: bool = False,
        known: Callable[[], T | None] = lambda: None,
        on_progress: OnProgress | None = None,
    ) -> T:
        """Return what a function of a module comes to, in another process.

        ``known`` says, when the turn has come, what it would come to if another caller has computed
        it in the meantime. ``on_progress`` gets the share that is done, if the function reports it.

        Raises
        ------
        Problem
            ``busy``, unless patient; what the function raises.
        """
        async with self._turns.turn(person, patient=patient):
            found = known()
            if found is not None:
                return found
            return await self._while_wanted(on_progress, function, *arguments)

    async def _while_wanted(
        self, on_progress: OnProgress | None, function: Callable[..., T], *arguments: object
    ) -> T:
        """Run a calculation, which ends with who waits for it: no thread can be stopped."""
        stop, own = Stop(), anyio.CapacityLimiter(1)
        run = partial(
            self._calculator.run,
            function,
            *arguments,
            stop=stop,
            seconds=self._seconds,
            urgent=self._urgent,
            on_progress=on_progress,
        )
        running = asyncio.ensure_future(anyio.to_thread.run_sync(run, limiter=own))
        try:
            return await asyncio.shield(running)
        finally:
            if not running.done():
                stop.ask()
                # Its turn is over when it has ended, or it would run in parallel with the next.
                await asyncio.wait((running,))
                running.exception()  # no one waits for it, so it is dropped


@dataclass(frozen=True, slots=True)
class Lanes:
    """Where calculations of one sort are made: what is quick, and what is not."""

    threads: ThreadLane
    processes: ProcessLane
