"""CPU time that the rest of the service does not use, and noticing that there is none.

Under Linux a thread that wakes waits for the slice of the one that runs, some
milliseconds, however low that one's priority is. One that runs in spare time is
interrupted at once, and others get its place as if it did not run. The
price: where other programs leave no time, it gets next to none for as long as
they go on, and there is no way back to a priority. So a process in spare time
is watched, and what it was at is begun again at a lower priority instead.

*Ending a process whose threads all wait for each other.* A library's thread that gets no memory
may end without a word, and the others wait for it for ever. From outside, that looks like long
work. From inside it does not: none of them has a processor, wants one or waits for a disk.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NICENESS = 5  # below the server, which somebody waits for
_TASKS = Path("/proc/self/task")
_WINDOW_NS = 2_000_000_000
_STARVING = 30
"""Waiting for a processor this many times as long as having one: even who competes with
programs of a low priority alone does that."""


def take_lower_priority() -> None:
    """Let the service's own threads go before this one, and those it starts and what it forks."""
    os.nice(_NICENESS)


def there_may_be_spare_time() -> bool:
    """Return whether the system has such a priority, and shows when it gets no time: Linux does."""
    return hasattr(os, "SCHED_IDLE") and _TASKS.is_dir()


def take_spare_time() -> None:
    """Let this thread have spare time alone, and those it starts and processes it forks."""
    with suppress(OSError):  # a sandbox may forbid it
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


class Starvation:
    """Whether the other threads of this process want a processor and get next to none."""

    def __init__(self) -> None:
        self._looked = time.monotonic_ns()
        self._wanted = 0
        self._had = others_had()

    def found(self) -> bool:
        """Return whether that is so; to be asked again and again.

        Two seconds of wanting one are looked at, together: a moment's load is no
        starvation, and to wait for anything else is none.
        """
        now = time.monotonic_ns()
        passed, self._looked = now - self._looked, now
        if others_in("R"):
            self._wanted += passed
        if self._wanted < _WINDOW_NS:
            return False
        had = others_had()
        starving = (had - self._had) * _STARVING < self._wanted
        self._wanted, self._had = 0, had
        return starving


def others_had() -> int:
    """Return the processor time of this process without this thread's, in ns."""
    return time.process_time_ns() - time.thread_time_ns()


def others_in(states: str) -> bool:
    """Return whether any other thread of this process is in one of the system's states.

    R has a processor or waits for one, D waits for a disk.
    """
    own = str(threading.get_native_id())
    for task in _TASKS.iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            if task.name != own and _state(task) in states:
                return True
    return False


def _state(task: Path) -> str:
    _, _, state = (task / "stat").read_text().rpartition(")")
    return state.split(maxsplit=1)[0]


# Ending a process whose threads all wait for each other

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
        # No clean-up: the locks that it would take are what everyone waits for.
        os._exit(1)


def _at_work() -> bool:
    try:
        return others_in("RD")
    except Exception:  # no memory to look with, which is when threads wait for ever
        return False
