"""Ending a process whose threads all wait for each other.

A library's thread that gets no memory may end without a word, and the others wait for it
for ever. From outside, that looks like long work. From inside it does not: none of them has
a processor, wants one or waits for a disk.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from app.processes.spare_time import others_had, others_in, there_may_be_spare_time

_LOOK_S = 0.25
_MOST_SHARE = 0.01
"""Of the time looked at, that threads which wait may have used: some look around now and then."""


class Standstill:
    """Whether the other threads of this process have come to a standstill; it then ends.

    Looks are counted and not the time: who gets no moment to look has not seen the others
    get one either.

    Parameters
    ----------
    most_s
        How long they may stand still.
    """

    def __init__(self, most_s: float) -> None:
        self._most = max(round(most_s / _LOOK_S), 1)
        self._excused = False
        self._begin()

    def watch(self) -> None:
        """Look from now on, in a thread, where the system shows what threads do: Linux does."""
        if there_may_be_spare_time():
            threading.Thread(target=self._look_around, daemon=True).start()

    @contextmanager
    def excused(self) -> Iterator[None]:
        """Let this process wait for somebody else within the block."""
        self._excused = True
        try:
            yield
        finally:
            self._excused = False

    def found(self) -> bool:
        """Return whether that is so; to be asked at every look."""
        self._looks += 1
        used_s = (others_had() - self._had) / 1e9
        # Any sign of life resets the count.
        if self._excused or used_s > _MOST_SHARE * _LOOK_S * self._most or _at_work():
            self._begin()
        return self._looks >= self._most

    def _begin(self) -> None:
        self._looks, self._had = 0, others_had()

    def _look_around(self) -> None:
        while not self.found():
            time.sleep(_LOOK_S)
        # No clean-up: the locks that it would take are what everybody waits for.
        os._exit(1)


def _at_work() -> bool:
    try:
        return others_in("RD")
    except Exception:  # no memory to look with, which is when threads wait for ever
        return False
