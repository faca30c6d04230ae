"""Calculating processes: where what takes long is calculated, beside the server and not inside it.

A plan of many columns takes a second of one core, an accuracy twenty plans, and a large
hostile body seconds to be read.
In a thread that would hold the interpreter's lock against everybody else in the
server, so such calculations are made in a process forked from one that has
loaded what it needs (:mod:`app.processes.forking`). It sees what it is given, which
is public facts and a question, a released answer to derive from, or a body, and neither
the vault nor the database; it runs in spare time as long as there is any, and goes
when the server goes. :mod:`app.processes.calculation_child` is the other end.

What is sent and what comes back are pickled. Both ends are ours and are believed.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import TypeVar, cast

from app.domain.errors import ProcessLostError
from app.processes.channel import (
    Message,
    StarvedError,
    pickled,
    problem_of,
    receive,
    unpickled,
)
from app.processes.crews import Crew
from app.processes.forking import Forks

T = TypeVar("T")

FORKS = Forks("app.processes.calculation_child", quiet=False)
atexit.register(FORKS.close)


class CalculatingProcesses:
    """Makes calculations in a process of its own, which the first has to wait a second for.

    It is kept for the next one, with the tables it has made by then. Any number of
    threads may calculate; each then has a process to itself, and one is kept.

    Parameters
    ----------
    log_level
        Least severe line of their logs.
    modules
        Where the functions to be called are, most of them: a process has these loaded
        already when it is forked.
    """

    def __init__(self, *, log_level: str, modules: Sequence[str] = ()) -> None:
        self._log_level = log_level
        FORKS.load(*modules)
        self._crew = Crew(FORKS)
        self._keeping = threading.Lock()
        self._kept: list[Connection] = []

    def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Return what a function of a module comes to.

        Raises
        ------
        Problem
            What the function raises.
        ProcessLostError
            It failed otherwise, or two processes died of it, or all have been ended.
        """
        order = pickled((function, arguments))
        try:
            message, body = self._crew.in_spare_time(partial(self._asked, order))
        except ProcessLostError:  # it may have died since the last one, or for want of memory
            message, body = self._crew.in_spare_time(partial(self._asked, order))
        if message is Message.PROBLEM:
            raise problem_of(body)
        # Of its own doing: to ask another process would end the same.
        if message is Message.FAILED:
            raise ProcessLostError("a calculation failed")
        return cast("T", unpickled(body))

    def _asked(self, order: bytes, spare: bool) -> tuple[Message, bytes]:
        channel = self._process(spare=spare)
        try:
            with suppress(OSError):  # what has become of it is told, or noticed next
                channel.send_bytes(order)
            message, body = receive(channel, most=None)
        except StarvedError:
            self._crew.end(channel)
            raise
        except (OSError, EOFError):
            self._crew.end(channel)
            raise ProcessLostError("a calculating process died") from None
        with self._keeping:
            # One is enough: it is asked again at once, and its tables are worth keeping.
            keep = spare and not self._kept
            if keep:
                self._kept.append(channel)
        if not keep:
            self._crew.end(channel)
        return message, bytes(body)

    def _process(self, *, spare: bool) -> Connection:
        """Return a channel to a process: the one that was kept has spare time."""
        if spare:
            with suppress(IndexError):
                return self._kept.pop()
        return self._crew.begin(self._log_level.encode(), spare=spare)

    def close(self) -> None:
        """End every process; what waits for one hears that it is lost, once it is gone."""
        self._crew.close()
        while self._kept:
            self._crew.end(self._kept.pop())
