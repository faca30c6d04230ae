"""Batches of an event loop for the writer: who of the two has the interpreter.

The loop's thread and the writer's both need the interpreter's lock. Where both
are busy, each waits for the other at every statement, and the first of many
writes that are about to be asked for is committed alone. So they take turns:
what the loop has to write is gathered until the loop has come around once with
nothing else to do, and until the outcome of the writes before is known.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

LONGEST_S = 0.01
"""So long a write waits for a busy loop to be quiet, once the outcomes before it are known."""

_QUIET_S = 100e-6
"""A turn that takes longer had something to do: a small request takes about as long."""


class LoopBatches(Generic[T]):
    """What one event loop has to write; only that loop's own thread uses this.

    Parameters
    ----------
    loop
        The event loop.
    hand_over
        Takes what has been gathered. Once outcomes are known, call :meth:`settled`.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, hand_over: Callable[[Sequence[T]], None]
    ) -> None:
        self.loop = loop
        self._hand_over = hand_over
        self._gathered: list[T] = []
        self._unsettled = 0
        self._since = self._last_turn = 0.0
        self._seen = 0

    @property
    def gathered(self) -> int:
        """Return how many writes have been gathered and not handed over."""
        return len(self._gathered)

    def add(self, write: T) -> None:
        """Gather a write."""
        self._gathered.append(write)
        if len(self._gathered) == 1 and not self._unsettled:
            self._begin()

    def settled(self, count: int) -> None:
        """Count outcomes that are known; after the last it is the loop's turn."""
        self._unsettled -= count
        if self._gathered and not self._unsettled:
            self._begin()

    def _begin(self) -> None:
        self._since = self._last_turn = time.perf_counter()
        self._seen = 0
        # At the end of the loop's present turn: what else is ready then comes first.
        self.loop.call_soon(self._look)

    def _look(self) -> None:
        """Hand over once the loop was quiet for a turn; else look again after the next."""
        now = time.perf_counter()
        quiet = now - self._last_turn < _QUIET_S and len(self._gathered) == self._seen
        if quiet or now - self._since > LONGEST_S:
            gathered, self._gathered = self._gathered, []
            self._hand_over(gathered)
            self._unsettled = len(gathered)
        else:
            self._last_turn, self._seen = now, len(self._gathered)
            self.loop.call_soon(self._look)
