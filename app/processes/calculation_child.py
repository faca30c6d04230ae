"""A process that calculates: it calls one function after the other, on request.

:mod:`app.processes.calculations` is the other end.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from multiprocessing.connection import Connection

from app.domain.problems import Problem, invalid_request
from app.logs import describe
from app.processes.channel import Message, pickled, problem_json, send, unpickled
from app.processes.child import prepare
from app.services.plans.lanes import OutOfTimeError, at_most

_LOG = logging.getLogger(__name__)
_TOO_LONG = (
    "takes more seconds of processor time to calculate than it may; ask for fewer columns, groups "
    "or parts at once"
)


def work(channel: int) -> None:
    """Calculate what is asked for; see :mod:`app.processes.forking`."""
    with Connection(channel) as asked, suppress(EOFError, BrokenPipeError):
        prepare(log_level=asked.recv_bytes().decode())
        while True:
            send(asked, *_answer(asked.recv_bytes()))


def _answer(order: bytes) -> tuple[Message, bytes]:
    try:
        seconds, function, arguments = unpickled(order)
        with at_most(seconds):
            outcome = function(*arguments)
        return Message.OUTCOME, pickled(outcome)
    except Problem as problem:
        return Message.PROBLEM, problem_json(problem)
    except OutOfTimeError:
        refusal = invalid_request("body", f"{_TOO_LONG} ({seconds:g})")
        return Message.PROBLEM, problem_json(refusal)
    except Exception as error:
        _LOG.error("calculation failed", extra=describe(error))
        return Message.FAILED, b""
