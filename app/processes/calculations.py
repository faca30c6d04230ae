"""Calculating processes: where long calculations run, outside the server.

A plan of many columns takes a second of one core, a simulation as long, and a large
hostile body seconds to be read.
In a thread that would hold the interpreter's lock against everyone else in the
server, so such calculations are made in a process forked from one that has
loaded what it needs (:mod:`app.processes.program`). It sees what it is given, which
is public facts and a question, a released answer to derive from, or a body, and neither
the vault nor the database; it runs in spare time as long as there is any, takes no more
processor time than it is given, and ends when the server ends or when no one waits for it any more.
What is sent and what comes back are pickled. Both ends are ours and are believed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import TypeVar, cast

from app.domain.problems import Problem, ProcessLostError, StoppedError, invalid_request
from app.logs import describe
from app.processes.channel import (
    SHARE_PARTS,
    Message,
    StarvedError,
    pickled,
    problem_json,
    problem_of,
    receive,
    send,
    unpickled,
)
from app.processes.program import HOSTS, Crew, prepare
from app.services.plans.lanes import OnProgress, OutOfTimeError, at_most
from app.uploads.storing import Stop
from mechanisms.tables.workload import reporting

T = TypeVar("T")

_KEPT = 2
"""As many processes as are at work for those who ask what is free."""

FORKS = HOSTS["calculate"]


class CalculatingProcesses:
    """Makes calculations in a process of its own, forked from one that takes a second to load.

    It is kept for the next one, with the tables it has made by then. Any number of
    threads may calculate; each then has a process to itself, and two are kept.

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
        self._kept: dict[bool, list[Connection]] = {True: [], False: []}

    def start(self) -> None:
        """Begin to load: it takes seconds on a busy machine, and the first caller need not wait."""
        FORKS.start()

    def is_ready(self) -> bool:
        """Return whether what calculations need has been loaded."""
        return FORKS.is_ready()

    def run(
        self,
        function: Callable[..., T],
        *arguments: object,
        stop: Stop,
        seconds: float,
        urgent: bool,
        on_progress: OnProgress | None = None,
    ) -> T:
        """Return what a function of a module comes to.

        Parameters
        ----------
        function, *arguments
            What is called.
        stop
            Ends it, and its process.
        seconds
            How much processor time it may take.
        urgent
            Whether it goes before what is made in spare time.
        on_progress
            Is called with the share that is done, from 0 to 1, if the function says it.

        Raises
        ------
        Problem
            What the function raises; ``invalid-request``: it took longer than it may.
        ProcessLostError
            It failed otherwise, or two processes died of it, or all have been ended.
        StoppedError
            It was ended.
        """
        order = pickled((seconds, function, arguments))
        attempt = partial(self._asked, order, stop, urgent, on_progress)
        made = partial(attempt, False) if urgent else partial(self._crew.in_spare_time, attempt)
        try:
            message, body = made()
        except StoppedError:
            raise
        except ProcessLostError:  # it may have died since the last one, or for want of memory
            self._forget()
            message, body = made()
        if message is Message.PROBLEM:
            raise problem_of(body)
        # Of its own doing: to ask another process would end the same.
        if message is Message.FAILED:
            raise ProcessLostError("a calculation failed")
        return cast("T", unpickled(body))

    def _asked(
        self, order: bytes, stop: Stop, urgent: bool, on_progress: OnProgress | None, spare: bool
    ) -> tuple[Message, bytes]:
        stop.check()
        # One that is not in spare time for want of it is no one's next: there may be some again.
        kept = self._kept[urgent] if spare or urgent else []
        channel = self._process(kept, spare=spare)
        try:
            with stop.ends(partial(self._crew.give_up, channel)):
                with suppress(OSError):  # its end is reported, or noticed next
                    channel.send_bytes(order)
                message, body = receive(channel, most=None)
                while message is Message.SHARE:
                    if on_progress is not None:
                        on_progress(body[0] / SHARE_PARTS)
                    message, body = receive(channel, most=None)
        except (StarvedError, StoppedError):
            self._crew.end(channel)
            raise
        except (OSError, EOFError):
            self._crew.end(channel)
            raise ProcessLostError("a calculating process died") from None
        with self._keeping:
            # No more: they are asked again at once, and their tables are worth keeping.
            keep = (spare or urgent) and len(kept) < _KEPT
            if keep:
                kept.append(channel)
        if not keep:
            self._crew.end(channel)
        return message, bytes(body)

    def _process(self, kept: list[Connection], *, spare: bool) -> Connection:
        """Return a channel to a process: one that was kept, if there is one."""
        with suppress(IndexError):
            return kept.pop()
        return self._crew.begin(self._log_level.encode(), spare=spare)

    def close(self) -> None:
        """End every process; what waits for one hears that it is lost, once it is gone."""
        self._crew.close()
        self._forget()

    def _forget(self) -> None:
        """End what was kept."""
        for kept in self._kept.values():
            while kept:
                self._crew.end(kept.pop())


# The other end: a process that calls one function after the other, on request

_LOG = logging.getLogger(__name__)


def work(channel: int) -> None:
    """Calculate what is asked for; see :mod:`app.processes.program`."""
    with Connection(channel) as asked, suppress(EOFError, BrokenPipeError):
        prepare(log_level=asked.recv_bytes().decode())
        while True:
            with reporting(_Share(asked).report):
                answer = _answer(asked.recv_bytes())
            send(asked, *answer)


_EVERY_S = 0.5


class _Share:
    """Sends on which share of a calculation is done, now and then, and never a smaller one."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._due = time.monotonic() + _EVERY_S
        self._largest = 0

    def report(self, share: float) -> None:
        """Take note of which share is done."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _EVERY_S
        self._largest = max(self._largest, min(int(SHARE_PARTS * share), SHARE_PARTS))
        send(self._channel, Message.SHARE, bytes([self._largest]))


def _answer(order: bytes) -> tuple[Message, bytes]:
    try:
        seconds, function, arguments = unpickled(order)
        with at_most(seconds):
            outcome = function(*arguments)
        return Message.OUTCOME, pickled(outcome)
    except Problem as problem:
        return Message.PROBLEM, problem_json(problem)
    except OutOfTimeError:
        refusal = invalid_request(
            "body",
            "takes more seconds of processor time to calculate than it may; ask for fewer columns, "
            f"groups or parts at once ({seconds:g})",
        )
        return Message.PROBLEM, problem_json(refusal)
    except Exception as error:
        _LOG.error("calculation failed", extra=describe(error))
        return Message.FAILED, b""
