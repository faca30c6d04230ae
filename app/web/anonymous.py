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
a second. Each language has its own copy, since pages differ by it.

The address is the other end's, or what a trusted proxy says that it is (``trusted_proxies``).

All connections of a server: which are served, and which are closed for that.

A connection is *quiet* while no request of its own is being answered: it has just been made,
its head has not ended yet, or its last answer is out. A client that opens many and sends
nothing loses the oldest of them to new connections. So connections that send nothing
keep no client out, wherever they come from; those with a request are bounded for each address.

Beyond the most that are served there is head room: there probes are answered, and who
has an admin key. One that is quiet there makes room there, and not among those served.

A person's bodies that are still arriving are bounded too, whatever addresses they come from. So
who sends many of them slowly holds that many connections, and no more.

An address is the other end's: an IPv4 address, or the first 64 bits of an IPv6 address.
Behind a proxy that is the proxy's, for all clients.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum, auto
from ipaddress import IPv6Address, ip_address
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
from app.web.languages import language_of

_MOST_BODIES_EACH = 64
"""Bodies of one person that may arrive at once; fewer where few connections are served."""
_FEWEST_BODIES_EACH = 4
_SHARE_OF_BODIES = 4  # of all connections, one in this many
_NETWORK_BITS = 64
"""Of an IPv6 address; who has one has all of its network."""


@dataclass(frozen=True, slots=True, eq=False)
class Connection:
    """An open connection; ``dismiss`` closes it now, so that another one is served."""

    dismiss: Callable[[], None]


class Admission(Enum):
    """How a connection is admitted."""

    SERVED = auto()
    HEAD_ROOM = auto()
    REFUSED = auto()


class _Quiet:
    """Connections that are quiet, by address; each address has its oldest first."""

    def __init__(self) -> None:
        self._held: dict[str, dict[Connection, None]] = {}

    def add(self, connection: Connection, address: str) -> None:
        self._held.setdefault(address, {}).setdefault(connection)

    def discard(self, connection: Connection, address: str) -> None:
        if (held := self._held.get(address)) is not None:
            held.pop(connection, None)
            if not held:
                del self._held[address]

    def oldest(self, address: str) -> Connection | None:
        return next(iter(self._held.get(address, ())), None)

    def oldest_of_most(self) -> Connection | None:
        """Return the oldest of the address that has most of them."""
        if not self._held:
            return None
        return self.oldest(max(self._held, key=lambda each: len(self._held[each])))


class ConnectionLimiter:
    """Limits the connections that are open, by address.

    Parameters
    ----------
    most, most_each
        How many are served, and of one address.
    head_room
        How many more are admitted.
    """

    def __init__(self, *, most: int, most_each: int, head_room: int) -> None:
        self._most = most
        self._most_each = most_each
        self._head_room = head_room
        self._addresses: dict[Connection, str] = {}
        self._beyond: set[Connection] = set()
        self._served: Counter[str] = Counter()
        self._quiet, self._quiet_beyond = _Quiet(), _Quiet()
        share = max(_FEWEST_BODIES_EACH, most // _SHARE_OF_BODIES)
        self.most_bodies_each = min(_MOST_BODIES_EACH, share)
        self._arriving: Counter[str] = Counter()

    def body_arrives(self, person: str) -> bool:
        """Count a body of a person's that is not complete; False where there are too many."""
        if self._arriving[person] >= self.most_bodies_each:
            return False
        self._arriving[person] += 1
        return True

    def body_ended(self, person: str) -> None:
        """Stop counting a body: it is complete, or its request has ended."""
        self._arriving[person] -= 1
        if not self._arriving[person]:
            del self._arriving[person]

    def admit(self, connection: Connection, host: str) -> Admission:
        """Admit a connection, which is quiet at first; another may be dismissed for it."""
        address = address_of(host)
        admission = Admission.SERVED
        if not self._is_room(address):
            admission = Admission.HEAD_ROOM if self._is_head_room() else Admission.REFUSED
        if admission is Admission.HEAD_ROOM:
            self._beyond.add(connection)
        elif admission is Admission.SERVED:
            self._served[address] += 1
        if admission is not Admission.REFUSED:
            self._addresses[connection] = address
            self.mark_quiet(connection)
        return admission

    def _is_room(self, address: str) -> bool:
        """Return whether one more is served, which another may be dismissed for."""
        if self._served[address] >= self._most_each:
            return self._dismiss(self._quiet.oldest(address))
        if len(self._addresses) - len(self._beyond) < self._most:
            return True
        return self._dismiss(self._quiet.oldest_of_most())

    def _is_head_room(self) -> bool:
        if len(self._beyond) < self._head_room:
            return True
        return self._dismiss(self._quiet_beyond.oldest_of_most())

    def mark_quiet(self, connection: Connection) -> None:
        """Note that no request of a connection is being answered."""
        address = self._addresses.get(connection)
        if address is not None:
            self._quiet_like(connection).add(connection, address)

    def mark_busy(self, connection: Connection) -> None:
        """Note that a request of a connection is being answered."""
        address = self._addresses.get(connection)
        if address is not None:
            self._quiet_like(connection).discard(connection, address)

    def remove(self, connection: Connection) -> None:
        """Note that a connection is closed."""
        self.mark_busy(connection)
        address = self._addresses.pop(connection, None)
        if connection in self._beyond:
            self._beyond.discard(connection)
        elif address is not None:
            self._served[address] -= 1
            if not self._served[address]:
                del self._served[address]

    def _quiet_like(self, connection: Connection) -> _Quiet:
        return self._quiet_beyond if connection in self._beyond else self._quiet

    def _dismiss(self, connection: Connection | None) -> bool:
        """Dismiss a connection for another's sake, if there is one."""
        if connection is None:
            return False
        self.remove(connection)
        connection.dismiss()
        return True


def address_of(host: str) -> str:
    """Return what counts as one address: of IPv6, a network.

    >>> address_of("2001:db8::1") == address_of("2001:db8::2:3:4")
    True
    >>> address_of("::ffff:192.0.2.1")
    '192.0.2.1'
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:  # a socket in the file system: everyone's
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(int(address) >> _NETWORK_BITS)


# Requests without a key: bounded by address and in all, served after people who are signed in


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
            language_of(scope),
        )
        condition = headers.get("if-none-match")
        version = await self._version()
        rendered = self._cache.get(key, version)
        if rendered is None:
            async with self._turn():
                # somebody who waited before this one may have asked for the same
                version = await self._version()
                rendered = self._cache.get(key, version) or await _render(
                    app, scope, version, kept=kept
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


async def _render(app: ASGIApp, scope: Scope, version: Hashable, *, kept: bool) -> _Rendered:
    """Return an application's whole answer, to be sent when the client takes it.

    It is rendered to its end for everyone who will ask for it, also when this client has left:
    a file that stops being sent to a client who is gone would be kept as its first part.
    """
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
    await app(inner, _nothing_more(), take)
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


def _nothing_more() -> Receive:
    """Return what an application receives of a request without a body whose client stays."""
    whole = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Message:
        return next(whole, None) or await asyncio.get_running_loop().create_future()

    return receive


def _is_kept(rendered: _Rendered) -> bool:
    """Return whether an answer may be sent again to somebody else."""
    headers = Headers(raw=list(rendered.headers))
    public = headers.get("cache-control", "").startswith("public")
    return public and rendered.status in (200, 410) and "set-cookie" not in headers
