"""Requests without a key: bounded by address and in all, served after people who are signed in.

Anyone may send them, in any number. So they get three bounds, none of which a request with a valid
key meets:

*Rates.* Each address, and all addresses together, have a rate limit per minute, with bursts. A
request above them waits for its turn if that comes within a second. Else it is refused after that
second: who asks again at once gains nothing by it, and costs nothing. Requests with a wrong key
count as well.

*One page at a time.* Pages are rendered one after the other. While people with keys are being
served, rendering takes at most a quarter of a processor.

*A cache.* What anyone may keep (``Cache-Control: public``) is rendered once, and sent from memory
until something public changes: a release is published or withdrawn, a data set is edited or
archived, the log is signed. This process's own changes count at once, another server's within
a second.

The address is the other end's, or what a trusted proxy says that it is (``trusted_proxies``).
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar

import anyio.to_thread
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.domain.ledger import sha256_hex
from app.domain.problems import Problem
from app.logs import describe
from app.web.crowd import address_of

# Answers that every cache may store: with an entity tag, and no cookie, key or secret in them

KEPT = "public, max-age=0, s-maxage=60"
"""A browser asks each time whether it has the newest; a cache before many does after a minute."""
_ADDRESS = re.compile(r"https?://[\w.:\[\]-]+(/[\w./~%-]*)?", re.ASCII)


def names(condition: str | None, tag: str) -> bool:
    """Return whether an If-None-Match names the tag (weak comparison, RFC 9110 13.1.2)."""
    if condition is None:
        return False
    named = [part.strip().removeprefix("W/") for part in condition.split(",")]
    return "*" in named or tag in named


def public_answer(
    content: bytes,
    media_type: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an answer that everyone may read and store; a client that has it is sent 304."""
    tag = f'"{sha256_hex(content)[:32]}"'
    sent = {"Cache-Control": KEPT, "ETag": tag, **(headers or {})}
    return Response(content, status_code=status, media_type=media_type, headers=sent)


def base_of(request: Request, public_url: str) -> str:
    """Return where the service is reached, without a slash at its end.

    By default where the request says that it came to, which is only words: what is no plain
    address is left out, and addresses begin at this one then.
    """
    said = str(request.base_url).rstrip("/")
    return public_url or (said if _ADDRESS.fullmatch(said) else "")


# Requests without a key: bounded by address and in all, served after people who are signed in

_LOG = logging.getLogger(__name__)
_LONGEST_WAIT_S = 1.0
_BURST_S = 15.0
"""How much of its rate an address may use at once, after a pause."""
_MOST_ADDRESSES = 10_000
_MOST_WAITING = 64
_SHARE = 4
"""Rendering gets one part in this many of a CPU while people are being served."""
_BUSY_S = 1.0
"""For how long after a request with a key people count as being served."""
_VALID_S = 1.0
_MOST_BYTES = 1 << 25
_MOST_EACH = 1 << 23
_CONDITIONS = frozenset({b"if-none-match", b"if-modified-since", b"range", b"if-range"})

Key = tuple[object, ...]


class Rates:
    """A rate limit per minute for each name, with bursts (the generic cell rate algorithm).

    Parameters
    ----------
    per_minute
        Requests of one name; 0 for any number.
    clock
        A clock in seconds that only goes forward.
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._step_s = 60 / per_minute if per_minute else 0.0
        self._clock = clock
        self._due: dict[Hashable, float] = {}

    def wait_s(self, name: Hashable) -> float:
        """Return in how many seconds a request of a name has its turn."""
        now = self._clock()
        return max(self._due.get(name, now) + self._step_s - _BURST_S - now, 0.0)

    def take(self, name: Hashable) -> None:
        """Count a request of a name."""
        if self._step_s:
            now = self._clock()
            self._due[name] = max(self._due.get(name, now), now) + self._step_s
            if len(self._due) > _MOST_ADDRESSES:
                self._due = {each: due for each, due in self._due.items() if due > now}


@dataclass(frozen=True, slots=True)
class _Rendered:
    """An answer as it is sent, and of which version of what is public."""

    version: Hashable
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    @property
    def tag(self) -> str | None:
        return Headers(raw=list(self.headers)).get("etag")

    async def send(self, send: Send, condition: str | None) -> None:
        """Send it, or 304 to who has it already."""
        headers, status, body = list(self.headers), self.status, self.body
        if status == 200 and self.tag is not None and names(condition, self.tag):
            headers = [each for each in headers if not each[0].startswith(b"content-t")]
            headers = [each for each in headers if each[0] != b"content-length"]
            status, body = 304, b""
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class _Cache:
    """A cache of rendered answers, limited in bytes; the least recently used are dropped first."""

    def __init__(self) -> None:
        self._held: OrderedDict[Key, _Rendered] = OrderedDict()
        self._bytes = 0

    def get(self, key: Key, version: Hashable) -> _Rendered | None:
        found = self._held.get(key)
        if found is None or found.version != version:
            return None
        self._held.move_to_end(key)
        return found

    def put(self, key: Key, rendered: _Rendered) -> None:
        if _size(key, rendered) > _MOST_EACH:
            return
        if (earlier := self._held.pop(key, None)) is not None:
            self._bytes -= _size(key, earlier)
        self._held[key] = rendered
        self._bytes += _size(key, rendered)
        while self._bytes > _MOST_BYTES:
            self._bytes -= _size(*self._held.popitem(last=False))


def _size(key: Key, rendered: _Rendered) -> int:
    """Return about how many bytes an answer takes, with what it is found by."""
    head = sum(len(name) + len(value) for name, value in rendered.headers)
    return len(rendered.body) + head + sum(len(str(part)) for part in key) + 1_000


class Anonymous:
    """Serves requests without a key.

    Parameters
    ----------
    each_per_minute, all_per_minute
        Requests of one address, and of all; 0 for any number.
    changes
        What has changed in public by this process; it is compared for equality.
    marks
        What has changed in public in the database, by any process; it reads, in a thread.
    clock
        A clock in seconds that only goes forward.
    """

    def __init__(
        self,
        *,
        each_per_minute: int,
        all_per_minute: int,
        changes: Callable[[], Hashable],
        marks: Callable[[], Hashable],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._each = Rates(each_per_minute, clock=clock)
        self._all = Rates(all_per_minute, clock=clock)
        self._changes = changes
        self._marks = marks
        self._clock = clock
        self._cache = _Cache()
        self._marked: Hashable = None
        self._marked_at = -math.inf
        self._marking, self._rendering = asyncio.Lock(), asyncio.Lock()
        self._waiting = 0
        self._idle_from = 0.0
        self.person_at = -math.inf
        """When a request with a valid key came last, by the clock."""

    def note_person(self) -> None:
        """Note that somebody with a valid key is being served."""
        self.person_at = self._clock()

    async def admit(self, scope: Scope, *, probe: bool = False) -> None:
        """Wait for the turn of a request's address, a second at most.

        Probes count by their address alone, and apart from its other requests.

        Raises
        ------
        Problem
            ``rate-limited``, after that second.
        """
        address = address_of((scope.get("client") or ("",))[0])
        asked = [(self._each, (address, probe)), *([] if probe else [(self._all, "")])]
        wait_s = max(rates.wait_s(name) for rates, name in asked)
        if wait_s > _LONGEST_WAIT_S:
            await asyncio.sleep(_LONGEST_WAIT_S)
            raise Problem(
                "rate-limited",
                "Your address, or all requests without a key together, have used up their minute. "
                "A request with a key has a rate of its own.",
                retry_after=math.ceil(wait_s),
            )
        for rates, name in asked:
            rates.take(name)
        if wait_s:
            await asyncio.sleep(wait_s)

    async def serve(
        self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, kept: bool = False
    ) -> None:
        """Answer a request by an application, or with what that has answered before.

        ``kept``: anyone may keep an answer of 200, whether or not the application says so.

        Raises
        ------
        Problem
            ``rate-limited``; ``busy`` where too many wait to be rendered.
        """
        await self.admit(scope)
        if scope["method"] != "GET":
            await app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        key = (
            *map(scope.get, ("scheme", "path", "query_string", "root_path")),
            headers.get("host"),
            headers.get("accept"),
        )
        condition = headers.get("if-none-match")
        version = await self._version()
        rendered = self._cache.get(key, version)
        if rendered is None:
            async with self._turn():
                # somebody who waited before this one may have asked for the same
                version = await self._version()
                rendered = self._cache.get(key, version) or await _render(
                    app, scope, receive, version, kept=kept
                )
            if version is not None and _is_kept(rendered):
                self._cache.put(key, rendered)
        await rendered.send(send, condition)

    async def _version(self) -> Hashable:
        """Return what is compared to see whether anything public has changed; None: unknown."""
        if self._clock() - self._marked_at >= _VALID_S:
            async with self._marking:
                if self._clock() - self._marked_at >= _VALID_S:
                    at = self._clock()
                    try:
                        self._marked = await anyio.to_thread.run_sync(self._marks)
                    except Exception as error:  # then nothing is sent from memory
                        _LOG.warning("what is public is not known", extra=describe(error))
                        return None
                    self._marked_at = at
        return self._changes(), self._marked

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Render alone while the block lasts, and not more than a share of the time."""
        if self._waiting >= _MOST_WAITING:
            await asyncio.sleep(_LONGEST_WAIT_S)
            raise Problem("busy")
        self._waiting += 1
        try:
            async with self._rendering:
                idle_s = self._idle_from - self._clock()
                if idle_s > 0 and self._clock() - self.person_at < _BUSY_S:
                    await asyncio.sleep(idle_s)
                begun = self._clock()
                try:
                    yield
                finally:
                    ended = self._clock()
                    self._idle_from = ended + (_SHARE - 1) * (ended - begun)
        finally:
            self._waiting -= 1


class OpenRoute(APIRoute):
    """A route for anyone, without a key: its requests are bounded, its answers may be cached."""

    kept: ClassVar[bool] = False
    """Whether anyone may keep an answer of 200; else the answer says so itself."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await serve_anyone(super().handle, scope, receive, send, kept=self.kept)


class KeptRoute(OpenRoute):
    """A route for anyone whose answer is the same for as long as the process runs."""

    kept = True


async def serve_anyone(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, kept: bool = False
) -> None:
    """Answer a request that needs no key, as :meth:`Anonymous.serve` does."""
    gate = gate_of(scope)
    if gate is None:
        await app(scope, receive, send)
    else:
        await gate.serve(app, scope, receive, send, kept=kept)


async def admit(scope: Scope, *, probe: bool = False) -> None:
    """Wait for the turn of a request that has no key, a wrong one, or no route.

    Raises
    ------
    Problem
        ``rate-limited``.
    """
    gate = gate_of(scope)
    if gate is not None:
        await gate.admit(scope, probe=probe)


def gate_of(scope: Scope) -> Anonymous | None:
    """Return what bounds requests without a key; an application without services has none."""
    state = scope.get("state") or {}
    found: Anonymous | None = state["app"].anonymous if "app" in state else None
    return found


async def _render(
    app: ASGIApp, scope: Scope, receive: Receive, version: Hashable, *, kept: bool
) -> _Rendered:
    """Return an application's whole answer, to be sent when the client takes it."""
    plain = [each for each in scope["headers"] if each[0] not in _CONDITIONS]
    started: Message = {}
    body = bytearray()

    async def take(message: Message) -> None:
        if message["type"] == "http.response.start":
            started.update(message)
        else:
            body.extend(message.get("body", b""))

    inner = {**scope, "headers": plain}
    inner.pop("extensions", None)  # files are to come as bytes
    await app(inner, receive, take)
    for name in ("problem", "route"):  # what the log and the counts look for
        if name in inner:
            scope[name] = inner[name]
    headers = MutableHeaders(raw=list(started["headers"]))
    status = int(started["status"])
    if kept and status == 200:
        headers.setdefault("Cache-Control", KEPT)
    if status == 200 and headers.get("cache-control", "").startswith("public"):
        headers.setdefault("ETag", f'"{sha256_hex(bytes(body))[:32]}"')
    return _Rendered(version, status, tuple(headers.raw), bytes(body))


def _is_kept(rendered: _Rendered) -> bool:
    """Return whether an answer may be sent again to somebody else."""
    headers = Headers(raw=list(rendered.headers))
    public = headers.get("cache-control", "").startswith("public")
    return public and rendered.status in (200, 410) and "set-cookie" not in headers
