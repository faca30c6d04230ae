"""How a server stops: it says so first, and then all that it still does has one deadline.

A server that stops closes its socket at once, and a request from a load balancer in the
next moment is refused. So before that it serves on for a while, with ``/readyz`` at 503.

*Connections with deadlines: the server's protocol, which closes those of slow clients.* What
uvicorn leaves open is closed here, below the application, so that a client who dawdles costs one
socket for a bounded time and never a thread, a task or memory: a request head that does not end, a
body that trickles, an answer that is not read, heads without bound, and connections without number
(:mod:`app.web.anonymous`). What leaves instead of an answer is a problem like any other.

A connection looks at itself once a second; a request costs it a few
assignments.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum, auto
from types import FrameType
from urllib.parse import unquote_to_bytes

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from app.api.answers.problems import refusal
from app.api.middleware import address_in, safe_headers
from app.constants import Constants
from app.domain.problems import Problem
from app.web.anonymous import Admission, Connection, ConnectionLimiter

_SHORTEST_S = 1.0
"""What is handed over at the end gets so long in any case."""


class Stop:
    """When a server has begun to stop: the one moment that its last seconds are counted from."""

    def __init__(self) -> None:
        self._at: float | None = None

    def begin(self) -> None:
        """Count from now on."""
        self._at = time.monotonic()

    def left_s(self, timeout_s: float) -> float:
        """Return what is left of a number of seconds: all of them before the stop has begun."""
        gone = 0.0 if self._at is None else time.monotonic() - self._at
        return max(timeout_s - gone, min(timeout_s, _SHORTEST_S))


@contextmanager
def stopping_in_order(*, notice_s: float, say: Callable[[], None]) -> Iterator[Stop]:
    """Have a stopping server report it, and stop after its notice period.

    The server's runner handles the signals. SIGTERM is passed on to it after
    ``notice_s`` seconds, Ctrl-C and any second signal at once. Without a handler, as in a
    thread, nothing is changed.
    """
    stop, loop = Stop(), asyncio.get_running_loop()
    with ExitStack() as restored:
        if threading.current_thread() is threading.main_thread():
            for number, pause_s in ((signal.SIGTERM, notice_s), (signal.SIGINT, 0.0)):
                handler = signal.getsignal(number)
                if callable(handler) and handler is not signal.default_int_handler:
                    hear = _hearing(loop, stop, handler, pause_s, say)
                    restored.callback(signal.signal, number, handler)
                    signal.signal(number, hear)
        yield stop


def _hearing(
    loop: asyncio.AbstractEventLoop,
    stop: Stop,
    handler: Callable[[int, FrameType | None], object],
    pause_s: float,
    say: Callable[[], None],
) -> Callable[[int, FrameType | None], None]:
    """Return a handler that says it, and passes the signal on later; the second time at once."""
    heard = False

    def pass_on(number: int) -> None:
        stop.begin()
        handler(number, None)

    def begin(number: int) -> None:
        say()
        loop.call_later(pause_s, pass_on, number)

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        if heard:
            handler(number, frame)
            return
        heard = True
        # A signal may come in the middle of anything: what it means is done in the loop's turn.
        loop.call_soon_threadsafe(begin, number)

    return hear


# Connections with deadlines: the server's protocol, which closes those of slow clients

_LOG = logging.getLogger("app.requests")
_TICK_S = 1.0  # how late a client may be noticed that has stopped
_LINGER_S = 5.0
"""How long more of a body is taken after its answer, so that the client gets to read that."""


class _Phase(Enum):
    """What is expected of the client."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


class PatientProtocol(HttpToolsProtocol):
    """One connection; its limits are constants of the application it serves."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to watch the clock, and come in if there is room."""
        super().connection_made(transport)
        self.url = b""  # until a request names one
        self._constants: Constants = self.app_state["app"].constants
        self._limiter: ConnectionLimiter = self.app_state["app"].limiter
        self._connection = Connection(self.dismiss)
        self._unread_s = 0.0
        self._behind = False
        self._answered: RequestResponseCycle | None = None
        self._await(_Phase.HEAD)
        self._watch = self.loop.call_later(_TICK_S, self._look)
        admission = self._limiter.admit(self._connection, self.client[0] if self.client else "")
        if admission is Admission.REFUSED:
            self._refuse(Problem("busy"))
        elif admission is Admission.HEAD_ROOM:
            self.app = _InHeadRoom(self.app)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching, and leave."""
        self._watch.cancel()
        self._limiter.remove(self._connection)
        self._give_up()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes, and refuse a head that is too long already, or headers behind a body."""
        if self._phase is _Phase.NOTHING:
            self._await(_Phase.HEAD)
        self._bytes += len(data)
        self._bodiless += len(data)
        super().data_received(data)
        limit = self._constants.max_head_bytes
        if self._phase is _Phase.HEAD:
            if self._bytes > limit:
                self._refuse(_head_too_long(limit))
        elif self._phase is _Phase.BODY and self._bodiless > limit:
            # An answer that has begun cannot be followed by another one.
            self._refuse(None if self.cycle.response_started else _head_too_long(limit))

    def on_message_begin(self) -> None:
        """Note that a head has begun; behind another request, its place in the bytes is unknown."""
        if self._phase is _Phase.NOTHING:
            self._await(_Phase.HEAD)
            self._behind = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note that the body is next, and have a head that is too long refused in its turn.

        What came with it or since it began is counted already: within the limit,
        so is the head, and as a rule there is no more to do.
        """
        limit = self._constants.max_head_bytes
        if (self._behind or self._bytes > limit) and self._head_bytes() > limit:
            self.app = _Refusal(_head_too_long(limit))
        self._behind = False
        self._await(_Phase.BODY)
        self._limiter.mark_busy(self._connection)
        super().on_headers_complete()
        if not self.pipeline:
            self._answered = self.cycle

    def on_body(self, body: bytes) -> None:
        """Note that there is a body still, and not headers behind its end."""
        # Body bytes: what a chunked body has behind its end is counted from here again.
        self._bodiless = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that nothing more is expected."""
        self._phase = _Phase.NOTHING
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Give a client who is still sending a moment to read the answer."""
        if self.pipeline:
            self._answered, _ = self.pipeline[-1]
        super().on_response_complete()
        self._since = self.loop.time()
        if not self.pipeline and self.cycle.response_complete:
            self._limiter.mark_quiet(self._connection)

    def dismiss(self) -> None:
        """Close a connection that is quiet, for another's sake, with a word if it has begun."""
        self._refuse(Problem("busy") if self._bytes and self._phase is _Phase.HEAD else None)
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # it reads nothing: its descriptor is needed now

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        del msg
        self._refuse(Problem("malformed-request"))

    def _head_bytes(self) -> int:
        """Return how long a whole head is, the blanks around its values aside."""
        line = len(self.parser.get_method()) + len(self.url) + len("  HTTP/1.1\r\n\r\n")
        return line + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)

    def _await(self, phase: _Phase) -> None:
        self._phase = phase
        self._since = self.loop.time()
        self._bytes = self._bodiless = 0

    def _look(self) -> None:
        """Look at the clock: what the client owes, and what it has not read."""
        self._watch = self.loop.call_later(_TICK_S, self._look)
        # Closing, with bytes that the client does not read: it would keep its socket for ever.
        stuck = self.transport.is_closing() or self.flow.write_paused
        self._unread_s = self._unread_s + _TICK_S if stuck else 0.0
        if self._unread_s > self._constants.write_timeout_s:
            self._give_up()
            self.transport.abort()
        elif not self.transport.is_closing() and self._phase is not _Phase.NOTHING:
            self._look_at_request(self.loop.time() - self._since)

    def _look_at_request(self, waited_s: float) -> None:
        answering = self.cycle is not None and not self.cycle.response_complete
        if self._phase is _Phase.HEAD:
            if not answering and waited_s > self._constants.head_timeout_s:
                self._refuse(Problem("request-timeout") if self._bytes else None)
        elif not answering:
            if waited_s > _LINGER_S:
                self._refuse(None)
        elif self.flow.read_paused:
            self._since += _TICK_S  # the client waits for us
        elif waited_s > self._body_timeout_s() and not self.cycle.response_started:
            self._refuse(Problem("request-timeout"))

    def _body_timeout_s(self) -> float:
        constants = self._constants
        return constants.body_timeout_s + self._bytes / constants.min_body_bytes_per_s

    def _refuse(self, problem: Problem | None) -> None:
        """Close the connection, with a last word if there is one."""
        if self.transport.is_closing():
            return
        self._give_up()
        if problem is not None:
            _log_refusal(problem, {"client": self.client, "state": self.app_state})
            self.transport.write(_last_words(problem, self._scope()))
        self.transport.close()
        self._phase = _Phase.NOTHING

    def _scope(self) -> Scope:
        """Return what is known of the request that is refused; of some, not even the address."""
        path = unquote_to_bytes(self.url.partition(b"?")[0]).decode("ascii", "replace")
        about = {"path": path, "raw_path": b"", "query_string": b"", "headers": [], "root_path": ""}
        return {"type": "http", "method": "GET", "state": self.app_state, **about}

    def _give_up(self) -> None:
        """Cancel an answer that the client does not read; others may wait behind it."""
        for cycle in (self._answered, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()


def _log_refusal(problem: Problem, scope: Scope) -> None:
    _LOG.info(
        "connection refused",
        extra={"code": problem.code, "status": problem.status, **address_in(scope)},
    )


def _request_id() -> str:
    return f"req_{secrets.token_hex(8)}"


def _last_answer(problem: Problem, scope: Scope) -> Response:
    """Return a problem as a whole answer, the connection's last."""
    request_id = _request_id()
    answer = refusal({**scope, "request_id": request_id}, problem, {"Connection": "close"})
    answer.raw_headers += [
        *safe_headers(answer.raw_headers),
        (b"x-request-id", request_id.encode()),
    ]
    return answer


def _last_words(problem: Problem, scope: Scope) -> bytes:
    """Return a problem's answer as bytes."""
    answer = _last_answer(problem, scope)
    lines = [b"%s: %s\r\n" % header for header in answer.raw_headers]
    return b"".join([STATUS_LINE[problem.status], *lines, b"\r\n", bytes(answer.body)])


class _InHeadRoom:
    """Serves one request of a connection beyond the most, which only some are answered in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_the_last(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", []).append((b"connection", b"close"))
            await send(message)

        await self._app({**scope, "in_head_room": True}, receive, send_the_last)


def _head_too_long(limit: int) -> Problem:
    return Problem(
        "too-large",
        f"The request line and headers are longer than max_head_bytes ({limit} bytes).",
        limit="max_head_bytes",
        maximum=limit,
    )


class _Refusal:
    """Answers the next request of a connection, in its turn, with a problem, and closes."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _log_refusal(self._problem, scope)
        await _last_answer(self._problem, scope)(scope, receive, send)
