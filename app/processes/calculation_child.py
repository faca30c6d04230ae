"""A process that calculates: it calls one function after the other, as it is told.

:mod:`app.processes.calculations` is the other end.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from multiprocessing.connection import Connection

from app.domain.problems import Problem
from app.logs import describe
from app.processes.channel import Message, pickled, problem_json, send, unpickled
from app.processes.child import prepare

_LOG = logging.getLogger(__name__)


def work(channel: int) -> None:
    """Calculate what is asked for; see :mod:`app.processes.forking`."""
    with Connection(channel) as asked, suppress(EOFError, BrokenPipeError):
        prepare(log_level=asked.recv_bytes().decode())
        while True:
            send(asked, *_answer(asked.recv_bytes()))


def _answer(order: bytes) -> tuple[Message, bytes]:
    try:
        function, arguments = unpickled(order)
        return Message.OUTCOME, pickled(function(*arguments))
    except Problem as problem:
        return Message.PROBLEM, problem_json(problem)
    except Exception as error:
        _LOG.error("calculation failed", extra=describe(error))
        return Message.FAILED, b""
