"""Cross-origin reading: which other sites' pages may read answers in a browser (the setting).

It is about the API alone. The desk's pages, and every other page, are never shared: a browser
that is signed in there has a cookie. No cookie or other credential of a browser is sent along:
the sender of a key knows it. What another site sends is answered as if there were no such
setting, so refusals keep their one shape.

*The outermost layer: request ids, safe headers, counts, one log line, and no loose exception.*
Pure ASGI: it wraps ``send`` and nothing else, so streaming and speed are untouched.

Counts for Prometheus: of requests by route, status and problem, and nothing of any data.

**Privacy.** These counts may be sent on to the machines' monitoring. So
there is no label for a data set, a key or a person. Durations are those of
routes that read neither rows nor noise, by the rule of the log: how long a draw
takes depends on both. For the same reason there is no processor time, memory or
number of draws under way, which are durations in disguise. Requests
are counted when their answer leaves, for releases a tick of the public clock.

Several server processes may answer at one address, and a scrape reaches any of
them. So every series names its process, by an id made at its start: each is a
counter that never goes back, and their sum is the service's.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import shutil
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate, count
from pathlib import Path
from typing import Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.answers.problems import refusal
from app.domain.problems import Problem, StoppedError, is_of_storage, storage_problem
from app.logs import describe
from app.web.anonymous import ConnectionLimiter

_UNROUTED = "none"
_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, math.inf)


class _Durations:
    """How many requests took how long, and all of them together."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS_S)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_BOUNDS_S, seconds)] += 1
        self.total_s += seconds

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """Return how many took no longer than each bound."""
        return [
            ("+Inf" if bound == math.inf else str(bound), count)
            for bound, count in zip(_BOUNDS_S, accumulate(self.counts), strict=True)
        ]


class Counts:
    """What one server process counts. The middleware calls it on the event loop alone."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._process = secrets.token_hex(8)
        self._started = time.time()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._problems: Counter[str] = Counter()
        self._durations: defaultdict[tuple[str, str], _Durations] = defaultdict(_Durations)
        self._open = 0

    def begin(self) -> None:
        """Note that a request is being answered."""
        self._open += 1

    def end(
        self,
        *,
        method: str,
        route: str | None,
        status: int,
        problem: str | None,
        seconds: float | None = None,
    ) -> None:
        """Count a request; without a route its method is whatever the client chose.

        ``seconds`` are how long it took, where that depends on neither rows nor noise.
        """
        self._open -= 1
        # A method or path of a client's own making would be a label with which a client
        # can fill the memory with.
        labels = (method, route, status) if route is not None else (_UNROUTED, _UNROUTED, status)
        self._requests[labels] += 1
        if problem is not None:
            self._problems[problem] += 1
        if seconds is not None and route is not None:
            self._durations[method, route].add(seconds)

    def families(self, data_dir: Path) -> Iterator[Metric]:
        """Yield the present state."""
        yield self._gauge("info", "The version that runs.", 1, version=self._version)
        yield self._gauge(
            "start_time_seconds",
            "When this server process started, in seconds since 1970.",
            self._started,
        )
        requests = CounterMetricFamily(
            "release_desk_requests",
            "Requests answered.",
            labels=["process", "method", "route", "status"],
        )
        for (method, route, status), number in sorted(self._requests.items()):
            requests.add_metric([self._process, method, route, str(status)], number)
        yield requests
        problems = CounterMetricFamily(
            "release_desk_problems", "Refusals and failures by code.", labels=["process", "code"]
        )
        for code, number in sorted(self._problems.items()):
            problems.add_metric([self._process, code], number)
        yield problems
        durations = HistogramMetricFamily(
            "release_desk_request_duration_seconds",
            "How long requests took, of routes that read neither rows nor noise.",
            labels=["process", "method", "route"],
        )
        for (method, route), found in sorted(self._durations.items()):
            labels = [self._process, method, route]
            durations.add_metric(labels, found.buckets, found.total_s)
        yield durations
        yield self._gauge("requests_open", "Requests without an answer yet.", self._open)
        disk = shutil.disk_usage(data_dir)
        yield self._gauge(
            "disk_free_ratio",
            "Free part of the data directory's disk, in whole percents.",
            round(disk.free / disk.total, 2),
        )

    def _gauge(self, name: str, about: str, value: float, **labels: str) -> Metric:
        gauge = GaugeMetricFamily(f"release_desk_{name}", about, labels=["process", *labels])
        gauge.add_metric([self._process, *labels.values()], value)
        return gauge


# Cross-origin reading: which other sites' pages may read answers in a browser (the setting)


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


class Ends(Protocol):
    """What is called at the end of each request."""

    def end(
        self,
        *,
        method: str,
        route: str | None,
        status: int,
        problem: str | None,
        seconds: float | None,
    ) -> None:
        """Take what may be said of a request; ``seconds`` is None where it is not public."""


class RequestContext:
    """Give each request an id, answer what escaped, and log what happened.

    The id is ours alone (a client's own header could carry anything into the
    log). A line holds the route's template, never the path or the query, and
    no duration where the endpoint is ``untimed``. Pages of ``origins`` may read every answer,
    a failure's too.
    """

    def __init__(
        self,
        app: ASGIApp,
        counts: Counts,
        origins: Sequence[str] = (),
        traces: Ends | None = None,
    ) -> None:
        self._origins = origins
        self._traces = traces
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
            for ends in (self._counts, self._traces):
                if ends is not None:
                    ends.end(
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
            self._limiter.body_ended(self._sender)
            self._sender = None

    def _begin(self) -> None:
        caller = self._scope.get("caller")
        if self._sender is not None or caller is None:
            return
        if not self._limiter.body_arrives(caller.person):
            raise Problem(
                "rate-limited",
                f"{self._limiter.most_bodies_each} request bodies of yours are still arriving, and "
                "no more may arrive at once. Send this request again when one of them is complete.",
                retry_after=_RETRY_BODY_S,
            )
        self._sender = caller.person

    @property
    def _limiter(self) -> ConnectionLimiter:
        limiter: ConnectionLimiter = self._scope["state"]["app"].limiter
        return limiter


def _problem_of(error: Exception) -> Problem:
    """Return the answer to a client after an unhandled error."""
    return storage_problem() if is_of_storage(error) else Problem("internal")
