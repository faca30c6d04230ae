"""Cross-origin reading: which other sites' pages may read answers in a browser (the setting).

It is about the API alone. The desk's pages, and every other page, are never shared: a browser
that is signed in there has a cookie. No cookie or other credential of a browser is sent along:
the sender of a key knows it. What another site sends is answered as if there were no such
setting, so refusals keep their one shape.

*The outermost layer: request ids, safe headers, counts, one log line, and no loose exception.*
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

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.answers.problems import refusal
from app.api.counts import Counts
from app.domain.problems import Problem, StoppedError, is_of_storage, storage_problem
from app.logs import describe
from app.web.crowd import Crowd

EXPOSED = ("ETag", "Link", "Location", "Retry-After", "X-Request-Id")
"""Headers of an answer that a page of another site may read, in addition to the safelisted ones."""
_API = ("/v1/", "/openapi.json", "/problems/")


class OtherOrigins(CORSMiddleware):
    """Let pages of some origins read what the API answers.

    Pure ASGI. The methods and request headers are not limited: what may be sent is for
    the routes to say. A page of a public address may reach a service on a private network only
    where its origin is named: with ``*`` any page that somebody inside opens could.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=["*"],
            allow_headers=["*"],
            allow_credentials=False,
            allow_private_network="*" not in origins,
            expose_headers=EXPOSED,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http" or not is_of_api(scope["path"]):
            await self.app(scope, receive, send)
            return
        # Where the origin is not allowed, the answer is the one that there would be
        # without the setting.
        if scope["method"] == "OPTIONS" and not self._may_ask(Headers(scope=scope)):
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def _may_ask(self, headers: Headers) -> bool:
        private = headers.get("access-control-request-private-network") == "true"
        allowed = self.is_allowed_origin(headers.get("origin", ""))
        return allowed and (self.allow_private_network or not private)


def is_of_api(path: str) -> bool:
    """Return whether a path is of the API, or of a public release in a form for programs.

    >>> is_of_api("/v1/datasets"), is_of_api("/public/releases/rel_1.json")
    (True, True)
    >>> is_of_api("/desk"), is_of_api("/public/releases/rel_1"), is_of_api("/metrics")
    (False, False, False)
    """
    if path.startswith("/public/"):
        return "." in path.rpartition("/")[2]
    return path.startswith(_API)


# The outermost layer: request ids, safe headers, counts, one log line, and no loose exception

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
