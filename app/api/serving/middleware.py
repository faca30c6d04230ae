"""The outermost layer: request ids, safe headers, counts, one log line, and no loose exception.

Pure ASGI: it wraps ``send`` and nothing else, so streaming and speed are untouched.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Sequence
from hashlib import blake2b
from itertools import count

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.answers.problems import refusal
from app.api.counts import Counts
from app.api.serving.origins import OtherOrigins
from app.domain.errors import StoppedError, is_of_storage
from app.domain.problems import Problem, storage_problem
from app.logs import describe
from app.web.crowd import Crowd

_LOG = logging.getLogger("app.requests")
SAFE_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_SAFE_NAMES = frozenset(name for name, _ in SAFE_HEADERS)

_RETRY_BODY_S = 5
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
        """Return an id that is unique and does not reveal how many came before it."""
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
                headers += [*safe_headers(headers), (b"x-request-id", request_id.encode())]
            elif head:
                message = {**message, "body": b""}
            await send(message)

        body = _ArrivingBody(scope, receive)
        try:
            await self._app(scope, body.receive, send_with_headers)
        except (ClientDisconnect, StoppedError):
            status = 499  # for the log alone: the client is gone
        except asyncio.CancelledError:  # the server stops, and waits no longer
            # An answer has begun to leave: there is no room for another.
            if status:
                raise
            scope["problem"] = _CUT_OFF.code
            answer = self._shared(refusal(scope, _CUT_OFF))
            await answer(scope, receive, send_with_headers)
        except Exception as error:  # the boundary: nothing passes it
            _LOG.error("request failed", extra={"request_id": request_id, **describe(error)})
            problem = _problem_of(error)
            scope["problem"] = problem.code
            if status == 0:
                failure = self._shared(refusal(scope, problem))
                await failure(scope, receive, send_with_headers)
        finally:
            body.end()
            found = scope.get("route")
            route: str | None = getattr(found, "path", None)
            code = scope.get("problem")
            method = "HEAD" if head else scope["method"]
            # The duration is logged only where it is public.
            taken_s = None if getattr(found, "untimed", False) else time.perf_counter() - started
            self._counts.end(
                method=method, route=route, status=status, problem=code, seconds=taken_s
            )
            if _LOG.isEnabledFor(logging.INFO):
                _LOG.info(
                    "request",
                    extra={
                        "request_id": request_id,
                        "method": method if route is not None else None,
                        "route": route,
                        "status": status,
                        "code": code,
                        "duration_ms": None if taken_s is None else round(taken_s * 1000, 1),
                        "key": caller.key if (caller := scope.get("caller")) else None,
                        **address_in(scope),
                    },
                )


def address_in(scope: Scope) -> dict[str, str]:
    """Return the client's address for the log, where the operator asks for it."""
    state, client = scope.get("state") or {}, scope.get("client")
    logged = client is not None and "app" in state and state["app"].settings.log_addresses
    return {"client": client[0]} if logged and client is not None else {}


def safe_headers(headers: Sequence[tuple[bytes, bytes]]) -> Sequence[tuple[bytes, bytes]]:
    """Return the safe headers that an answer with these has not got."""
    given = {name for name, _ in headers}
    # Nearly all answers have none of these, and one look says so.
    if given.isdisjoint(_SAFE_NAMES):
        return SAFE_HEADERS
    return [pair for pair in SAFE_HEADERS if pair[0] not in given]


class _ArrivingBody:
    """Receives a request's body, which counts among its sender's while it is not complete."""

    __slots__ = ("_receive", "_scope", "_sender")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._scope = scope
        self._receive = receive
        self._sender: str | None = None

    async def receive(self) -> Message:
        """Return what comes next.

        Raises
        ------
        Problem
            ``rate-limited``: too many bodies of the sender's are arriving.
        """
        message = await self._receive()
        if message.get("more_body"):
            self._begin()
        else:
            self.end()
        return message

    def end(self) -> None:
        """Stop counting it."""
        if self._sender is not None:
            self._crowd.body_ended(self._sender)
            self._sender = None

    def _begin(self) -> None:
        caller = self._scope.get("caller")
        if self._sender is not None or caller is None:
            return
        if not self._crowd.body_arrives(caller.person):
            raise Problem(
                "rate-limited",
                f"{self._crowd.most_bodies_each} request bodies of yours are still arriving, and no"
                " more may arrive at once. Send this request again when one of them is complete.",
                retry_after=_RETRY_BODY_S,
            )
        self._sender = caller.person

    @property
    def _crowd(self) -> Crowd:
        crowd: Crowd = self._scope["state"]["app"].crowd
        return crowd


def _problem_of(error: Exception) -> Problem:
    """Return the answer to a client after an unhandled error."""
    return storage_problem() if is_of_storage(error) else Problem("internal")
