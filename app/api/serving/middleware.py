"""The outermost layer: request ids, safe headers, counts, one log line, and no loose exception.

Pure ASGI: it wraps ``send`` and nothing else, so streaming and speed are untouched.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Sequence, Set
from hashlib import blake2b
from itertools import count

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.answers.problems import problem_response
from app.api.counts import Counts
from app.api.serving.origins import OtherOrigins
from app.domain.errors import StoppedError, is_of_storage
from app.domain.problems import Problem, storage_problem
from app.logs import describe

_LOG = logging.getLogger("app.requests")
SAFE_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_SAFE_NAMES = frozenset(name for name, _ in SAFE_HEADERS)

_CUT_OFF = Problem(
    "not-ready",
    "The server is stopping. What was asked for may have been done: the same request under the "
    "same Idempotency-Key finds it, at any server.",
)


class RequestContext:
    """Give each request an id, answer what escaped, and log what happened.

    The id is ours alone (a client's own header could carry anything into the
    log). A line holds the route's template, never the path or the query, and
    no duration where the endpoint is ``untimed``. Pages of ``origins`` may read every answer,
    a failure's too.
    """

    def __init__(self, app: ASGIApp, counts: Counts, origins: Sequence[str] = ()) -> None:
        self._origins = origins
        self._app = self._shared(app)
        self._counts = counts
        self._secret = secrets.token_bytes(32)
        self._numbers = count()

    def _new_id(self) -> str:
        """Return an id that is unique and tells nothing of how many came before it."""
        number = next(self._numbers).to_bytes(8)
        return f"req_{blake2b(number, key=self._secret, digest_size=8).hexdigest()}"

    def _shared(self, app: ASGIApp) -> ASGIApp:
        return OtherOrigins(app, self._origins) if self._origins else app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = self._new_id()
        scope["request_id"] = request_id
        self._counts.begin()
        started = time.perf_counter()
        status = 0
        if head := scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # what GET would say, without the body

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message.setdefault("headers", [])
                given = {name for name, _ in headers}
                headers.append((b"x-request-id", request_id.encode()))
                # Nearly all answers have none of these, and one look says so.
                usual = given.isdisjoint(_SAFE_NAMES)
                headers += SAFE_HEADERS if usual else _without(given)
            elif head:
                message = {**message, "body": b""}
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except (ClientDisconnect, StoppedError):
            status = 499  # for the log alone: nobody is left to be answered
        except asyncio.CancelledError:  # the server stops, and waits no longer
            # An answer has begun to leave: there is no room for another.
            if status:
                raise
            scope["problem"] = _CUT_OFF.code
            answer = self._shared(problem_response(_CUT_OFF, request_id))
            await answer(scope, receive, send_with_headers)
        except Exception as error:  # the boundary: nothing passes it
            _LOG.error("request failed", extra={"request_id": request_id, **describe(error)})
            problem = _problem_of(error)
            scope["problem"] = problem.code
            if status == 0:
                failure = self._shared(problem_response(problem, request_id))
                await failure(scope, receive, send_with_headers)
        finally:
            found = scope.get("route")
            route: str | None = getattr(found, "path", None)
            code = scope.get("problem")
            method = "HEAD" if head else scope["method"]
            self._counts.end(method=method, route=route, status=status, problem=code)
            if _LOG.isEnabledFor(logging.INFO):
                taken_ms = round((time.perf_counter() - started) * 1000, 1)
                _LOG.info(
                    "request",
                    extra={
                        "request_id": request_id,
                        "method": method if route is not None else None,
                        "route": route,
                        "status": status,
                        "code": code,
                        "duration_ms": None if getattr(found, "untimed", False) else taken_ms,
                        "key": caller.key if (caller := scope.get("caller")) else None,
                    },
                )


def _without(given: Set[bytes]) -> list[tuple[bytes, bytes]]:
    """Return the safe headers that an answer has not got."""
    return [pair for pair in SAFE_HEADERS if pair[0] not in given]


def _problem_of(error: Exception) -> Problem:
    """Return what a client is told of an error that nobody has answered."""
    return storage_problem() if is_of_storage(error) else Problem("internal")
