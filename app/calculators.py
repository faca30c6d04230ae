"""Calculating processes: where what takes long is calculated, beside the server and not inside it.

A plan of many columns takes a second of one core, and an accuracy twenty plans.
In a thread that would hold the interpreter's lock against everybody else in the
server, so each such calculation has a process to itself, forked from one that
has loaded what it needs (:mod:`app.engine.forking`). It sees what it is given,
public facts and a question, and neither the vault nor the database, has a low
priority, and goes when the server goes.

What is sent and what comes back are pickled. Both ends are ours and are believed.
"""

from __future__ import annotations

import atexit
import logging
import pickle
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar, cast

from app.domain.problems import Problem
from app.engine.forking import Crew, Forks, Message, ProcessLostError, confine, receive, send
from app.engine.reader import problem_json, problem_of
from app.logs import configure_logs, describe
from app.services import derivations, previews

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_OOM_SCORE = 500
_LOADED = derivations, previews
"""What calculations are made of: a process is forked with it and imports nothing."""
_FORKS = Forks("app.calculators", quiet=False)
atexit.register(_FORKS.close)


class CalculatingProcesses:
    """Makes each calculation in a process of its own, which the first has to wait a second for.

    Any number of threads may use it; each waits for its process.

    Parameters
    ----------
    log_level
        Least severe line of their logs.
    """

    def __init__(self, *, log_level: str) -> None:
        self._log_level = log_level
        self._crew = Crew(_FORKS)

    def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Return what a function of a module comes to.

        Raises
        ------
        Problem
            What the function raises.
        ProcessLostError
            It failed otherwise, or its process died or was ended.
        """
        channel = self._crew.begin(pickle.dumps((self._log_level, function, arguments)))
        with self._crew.awaited(channel):
            message, body = receive(channel)
        if message is Message.PROBLEM:
            raise problem_of(bytes(body))
        if message is Message.FAILED:
            raise ProcessLostError("a calculation failed")
        return cast("T", pickle.loads(body))  # noqa: S301 - from a process of ours

    def close(self) -> None:
        """End every process; what waits for one hears that it is lost, once it is gone."""
        self._crew.close()


def work(channel: int) -> None:
    """Make one calculation; see :mod:`app.engine.forking`."""
    with Connection(channel) as answering, suppress(BrokenPipeError):
        log_level, function, arguments = pickle.loads(answering.recv_bytes())  # noqa: S301 - ours
        configure_logs(level=log_level)
        confine({}, oom_score=_OOM_SCORE)
        send(answering, *_made(function, arguments))


def _made(function: Callable[..., Any], arguments: tuple[object, ...]) -> tuple[Message, bytes]:
    try:
        return Message.OUTCOME, pickle.dumps(function(*arguments))
    except Problem as problem:
        return Message.PROBLEM, problem_json(problem)
    except Exception as error:
        _LOG.error("calculation failed", extra=describe(error))
        return Message.FAILED, b""
