"""Lanes that keep costly plans apart.

Most plans take a millisecond or two; one of 64 columns' moments takes a second
of one core. Those are made in another process, one at a time, and wait in
queues of bounded length, one for each person, so that whoever asks for many holds
up nobody but themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

import anyio
import anyio.to_thread

from app.domain.problems import Problem

T = TypeVar("T")

LONGEST_SHORT_MS = 100.0
"""A plan that is expected to take longer than this is costly."""


class Calculator(Protocol):
    """Other processes, in which what takes long is calculated."""

    def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Return what a function of a module comes to, or raise the Problem that it raises.

        All that it takes and returns can be pickled.
        """

    def close(self) -> None:
        """End the calculations under way."""


class CalculationQueue:
    """Calculations in another process, one at a time, for which people take turns.

    Parameters
    ----------
    calculator
        Where they are made.
    most
        How many of one person's may be made or wait.
    """

    def __init__(self, calculator: Calculator, *, most: int) -> None:
        self._calculator = calculator
        self._lane = FairLane(most=most)

    async def run(self, person: str, function: Callable[..., T], *arguments: object) -> T:
        """Return what a function of a module comes to.

        Raises
        ------
        Problem
            What the function raises; ``busy``, when as many of the person's as may are there.
        """
        return await self._lane.run(person, self._calculator.run, function, *arguments)


class Lane:
    """Threads for calculations of one sort, and a queue before them.

    Parameters
    ----------
    threads
        How many run at once.
    most
        How many may run or wait.
    """

    def __init__(self, *, threads: int, most: int) -> None:
        self._turns = anyio.CapacityLimiter(threads)
        self._most = most
        self._there = 0

    async def run(self, function: Callable[..., T], *arguments: object, patient: bool = False) -> T:
        """Run a calculation in another thread when its turn has come.

        ``patient``: for what has been charged already, and is never turned away.

        Raises
        ------
        Problem
            ``busy``, when as many as may are there.
        """
        # Refused before anything is begun: a queue without bound would hold every request's memory.
        if self._there >= self._most and not patient:
            raise Problem("busy")
        self._there += 1
        try:
            return await anyio.to_thread.run_sync(function, *arguments, limiter=self._turns)
        finally:
            self._there -= 1


class FairLane:
    """A thread for calculations that take long, and for each person a queue before it.

    The first of every queue stand in line, so a person waits for one calculation of each other
    person's at most, however many those have asked for.

    Parameters
    ----------
    most
        How many of one person's may run or wait.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._line = anyio.CapacityLimiter(1)
        self._queues: dict[str, _Queue] = {}

    async def run(
        self, person: str, function: Callable[..., T], *arguments: object, patient: bool = False
    ) -> T:
        """Run a person's calculation in another thread when its turn has come.

        ``patient`` is as in :meth:`Lane.run`.

        Raises
        ------
        Problem
            ``busy``, when as many of the person's as may are there.
        """
        queue = self._queues.setdefault(person, _Queue())
        if queue.there >= self._most and not patient:
            raise Problem("busy")
        queue.there += 1
        try:
            # One of each person stands in line; the others wait behind it, in its own queue.
            async with queue.first, self._line:
                return await _to_its_end(function, *arguments)
        finally:
            queue.there -= 1
            # Else there would be a queue for everybody who has ever asked.
            if not queue.there:
                del self._queues[person]


async def _to_its_end(function: Callable[..., T], *arguments: object) -> T:
    """Run a calculation in another thread; whoever goes away meanwhile goes when it has ended.

    No thread can be stopped: one that nobody waits for would run beside the next.
    """
    own = anyio.CapacityLimiter(1)
    running = asyncio.ensure_future(
        anyio.to_thread.run_sync(partial(function, *arguments), limiter=own)
    )
    try:
        return await asyncio.shield(running)
    finally:
        await asyncio.wait((running,))


@dataclass(slots=True)
class _Queue:
    """One person's calculations: how many are there, and the right to stand in line for one."""

    there: int = 0
    first: anyio.Lock = field(default_factory=anyio.Lock)
