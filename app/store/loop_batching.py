"""Batches of an event loop for the writer: who of the two has the interpreter.

The loop's thread and the writer's both need the interpreter's lock. Where both
are busy, each waits for the other at every statement, and the first of many
writes that are about to be asked for is committed alone. So they take turns:
what the loop has to write is gathered until the loop has come around once with
nothing else to do, and until the outcome of the writes before is known.

A write can be patient. It also waits for one that is on its way and is not, a
little while: both are then one commit. So charges go along with the results of
draws that are under way, and half of many clients is drawn for while the other
half is answered. When draws end must then be no secret.

*What a transaction writes: at once, or in order once all of it is known.* A group commit of
charges and results is judged before its rows are written. So the anchor can be written at the same
time: its flush and the statements take their time together, and both are done before COMMIT.
Nothing that is kept can be refused: what has been announced fails only as a COMMIT does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

# What a transaction writes: at once, or in order once all of it is known


class NotTogetherError(Exception):
    """What was to be written together has failed, and is to be written one by one."""


class Writes:
    """Statements that write, each in a function. While they are kept nothing reads their tables.

    Attributes
    ----------
    kept
        Whether they are kept for :meth:`run`, and not run at once.
    """

    __slots__ = ("_waiting", "kept")

    def __init__(self) -> None:
        self.kept = False
        self._waiting: list[Callable[[], object]] = []

    def begin(self, *, kept: bool = False) -> None:
        """Forget what an earlier transaction has not run."""
        self.kept = kept
        self._waiting.clear()

    def add(self, write: Callable[[], object]) -> None:
        """Run a function that writes, or keep it."""
        if self.kept:
            self._waiting.append(write)
        else:
            write()

    def run(self) -> None:
        """Run what has been kept, in order; what comes later is run at once.

        Raises
        ------
        NotTogetherError
            One of them failed; the transaction is to be undone.
        """
        waiting, self._waiting, self.kept = self._waiting, [], False
        try:
            for write in waiting:
                write()
        except Exception as error:
            raise NotTogetherError from error


# Batches of an event loop for the writer: who of the two has the interpreter

T = TypeVar("T")


class Expected:
    """How many writes are on their way; each is one while it is inside."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1


LONGEST_S = 0.01
"""So long a write waits for a busy loop to be quiet, once the outcomes before it are known."""

PATIENCE_S = 0.005
"""So long a patient write waits for one that is on its way: small draws take less."""

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

    Attributes
    ----------
    expected
        Entered by who will add a write soon; patient ones wait for it.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, hand_over: Callable[[Sequence[T]], None]
    ) -> None:
        self.loop = loop
        self.expected = Expected()
        self._hand_over = hand_over
        self._gathered: list[T] = []
        self._all_patient = True
        self._end_of_patience: asyncio.TimerHandle | None = None
        self._unsettled = 0
        self._since = self._last_turn = 0.0
        self._seen = 0

    @property
    def gathered(self) -> int:
        """Return how many writes have been gathered and not handed over."""
        return len(self._gathered)

    def add(self, write: T, *, patient: bool = False) -> None:
        """Gather a write; a patient one waits a little while for one that is expected."""
        self._gathered.append(write)
        self._all_patient = self._all_patient and patient
        if self._end_of_patience is not None:
            if not patient:
                self._end_of_patience.cancel()
                self._wait_no_longer()
        elif len(self._gathered) == 1 and not self._unsettled:
            self._begin()

    def settled(self, count: int) -> None:
        """Count outcomes that are known; after the last it is the loop's turn."""
        self._unsettled -= count
        if self._gathered and not self._unsettled:
            self._begin()

    def _begin(self) -> None:
        self._since = time.perf_counter()
        self._look_again()

    def _look_again(self) -> None:
        self._last_turn, self._seen = time.perf_counter(), 0
        # At the end of the loop's present turn: what else is ready then comes first.
        self.loop.call_soon(self._look)

    def _look(self) -> None:
        """Hand over once the loop was quiet for a turn; else look again after the next."""
        now = time.perf_counter()
        quiet = now - self._last_turn < _QUIET_S and len(self._gathered) == self._seen
        if not quiet and now - self._since <= LONGEST_S:
            self._last_turn, self._seen = now, len(self._gathered)
            self.loop.call_soon(self._look)
        elif self._all_patient and self.expected.count and now - self._since < PATIENCE_S:
            rest_s = PATIENCE_S - (now - self._since)
            self._end_of_patience = self.loop.call_later(rest_s, self._wait_no_longer)
        else:
            gathered, self._gathered, self._all_patient = self._gathered, [], True
            self._hand_over(gathered)
            self._unsettled = len(gathered)

    def _wait_no_longer(self) -> None:
        """Look again: what was expected has come, or not in time."""
        self._end_of_patience = None
        self._look_again()
