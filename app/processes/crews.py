"""Processes at work for many threads, which first run in spare time.

See :mod:`app.processes.forking` for where they come from, and
:mod:`app.processes.spare_time` for what they ask for.

*Ending a process whose threads all wait for each other.* A library's thread that gets no memory
may end without a word, and the others wait for it for ever. From outside, that looks like long
work. From inside it does not: none of them has a processor, wants one or waits for a disk.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe
from typing import TypeVar

from app.domain.problems import ProcessLostError
from app.processes.channel import StarvedError
from app.processes.forking import Forks
from app.processes.spare_time import others_had, others_in, there_may_be_spare_time

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
        # No clean-up: the locks that it would take are what everybody waits for.
        os._exit(1)


def _at_work() -> bool:
    try:
        return others_in("RD")
    except Exception:  # no memory to look with, which is when threads wait for ever
        return False


# Processes at work for many threads, which first run in spare time

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_NONE_FOR_S = 10.0  # what has no spare time now has hardly any a moment later


class Crew:
    """Processes at work, each on one order; any number of threads may each wait for one.

    Parameters
    ----------
    forks
        Where they come from.
    """

    def __init__(self, forks: Forks) -> None:
        self._forks = forks
        self._lock = threading.Lock()
        self._channels: set[Connection] = set()
        self._closed = False
        self._none_until = 0.0

    def in_spare_time(self, attempt: Callable[[bool], T]) -> T:
        """Return what an attempt in spare time comes to, or one without where there is none.

        Where there was none, none is looked for in the next seconds.

        Parameters
        ----------
        attempt
            Called with whether its processes run in spare time; starts from scratch each time.

        Raises
        ------
        Exception
            What the last attempt raises.
        """
        if time.monotonic() >= self._none_until:
            try:
                return attempt(True)
            except StarvedError:
                self._none_until = time.monotonic() + _NONE_FOR_S
                _LOG.info("no spare time")
        return attempt(False)

    def begin(self, order: bytes, *descriptors: int, spare: bool) -> Connection:
        """Have a process started and send it its order; return its channel.

        Parameters
        ----------
        order
            What it is sent.
        descriptors, spare
            As for :meth:`Forks.order`.

        Raises
        ------
        ProcessLostError
            There are to be no more.
        """
        ours, theirs = Pipe()
        # Under the lock, so that none is begun behind close().
        with theirs, self._lock:
            if self._closed:
                ours.close()
                raise ProcessLostError("no process is started any more")
            self._forks.order(*descriptors, theirs.fileno(), spare=spare)
            self._channels.add(ours)
        with suppress(OSError):  # one that is gone already is noticed next
            ours.send_bytes(order)
        return ours

    @contextmanager
    def awaited(self, channel: Connection) -> Iterator[None]:
        """Receive what a process sends, inside, and be done with it afterwards.

        Raises
        ------
        ProcessLostError
            It died.
        StarvedError
            It leaves, for want of spare time; it may not be gone yet.
        """
        try:
            yield
        except (OSError, EOFError):
            raise ProcessLostError("a process died") from None
        finally:
            self.end(channel)

    def end(self, channel: Connection) -> None:
        """Have a process leave."""
        with self._lock:
            self._channels.discard(channel)
        channel.close()

    def close(self, *, at_once: bool = False) -> None:
        """End every process; what waits for one hears that it is lost, once it is gone.

        ``at_once``: before it is gone, for processes that leave nothing but their answer.
        One that cannot leave yet, deep in a calculation say, then blocks no other.
        """
        with self._lock:
            self._closed = True
            for channel in self._channels:
                _shut(channel, at_once=at_once)

    def give_up(self, channel: Connection) -> None:
        """End a process that is at work; what waits for it hears that it is lost, once it is."""
        with self._lock:
            if channel in self._channels:
                _shut(channel, at_once=False)


def _shut(channel: Connection, *, at_once: bool) -> None:
    with socket.socket(fileno=os.dup(channel.fileno())) as end:
        # Shut down and not closed: a thread may be reading from it, and would not hear of that.
        end.shutdown(socket.SHUT_RDWR if at_once else socket.SHUT_WR)
