"""How much CPU time a calculation may take, whatever the wall clock says.

A block in a process of its own is ended when it has taken what it may. In a thread nothing is
ended: only what is quick is calculated there. How much that is depends on nothing but what is
calculated, so it depends on no data and on no other person's questions.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

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
