"""What the lifespan builds and every request sees.

*The public clock: what holds an answer until the moment it may leave.* Nothing here holds a
thread: a waiting answer is a future of the event loop. Answers of one tick leave in the order in
which their requests arrived; by the order in which they were ready, a crowd of requests could be
timed.

*Whether the client who asks is still there: what costs nothing yet ends when it has gone.* Releases
are not cancelled. What is charged is drawn and stored, with or without a waiting client. A client
that waits for an upload may look up its progress, under a text of its choice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from app.constants import Constants
from app.domain.problems import Problem, invalid_request
from app.domain.units import Schedule, response_schedule
from app.services.build import Services
from app.services.datasets.storing import Waiting
from app.services.people.rates import RateLimiter
from app.services.releases.public_moments import now_ms
from app.settings import Settings
from app.web.anonymous import Anonymous, ConnectionLimiter
from app.web.providers import ProviderSignIn
from app.web.requests.uploads import UploadGate

# The public clock: what holds an answer until the moment it may leave

_SHORTEST_S = 0.001


class PublicClock:
    """Ticks of ``slot_ms`` milliseconds; with 0 it holds nothing."""

    def __init__(self, slot_ms: int) -> None:
        self._slot_ms = slot_ms
        self._waiting: dict[int, list[asyncio.Future[None]]] = {}

    def answer(self) -> Answer:
        """Return a block for the work on a request that has just arrived.

        However the block ends, by a return or by any exception, it ends at a
        moment of the request's schedule.
        """
        schedule = response_schedule(arrived_ms=now_ms(), slot_ms=self._slot_ms)
        return Answer(self, schedule)

    def moment(self, at_ms: int) -> asyncio.Future[None]:
        """Return the future that is done at a moment."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        waiting = self._waiting.setdefault(at_ms, [])
        waiting.append(future)
        if len(waiting) == 1:
            self._ring_at(loop, at_ms)  # last: a moment that has just passed rings at once
        return future

    def _ring_at(self, loop: asyncio.AbstractEventLoop, at_ms: int) -> None:
        left_s = at_ms / 1000 - time.time()
        if left_s > 0:
            # a loop's timer may ring a little early, so the clock is asked again
            loop.call_later(max(left_s, _SHORTEST_S), self._ring_at, loop, at_ms)
            return
        for future in self._waiting.pop(at_ms):
            if not future.done():
                future.set_result(None)


class Answer:
    """A block of work that ends at a moment of its schedule, see :meth:`PublicClock.answer`."""

    __slots__ = ("_clock", "_deadline", "_until_ms", "schedule")

    def __init__(self, clock: PublicClock, schedule: Schedule) -> None:
        self._clock = clock
        self.schedule = schedule
        self._deadline: asyncio.Future[None] | None = None
        self._until_ms = 0

    def hold(self, until_ms: int) -> None:
        """Let the block not end before a moment: an outcome may not be shown earlier."""
        self._until_ms = until_ms

    async def __aenter__(self) -> Self:
        if self.schedule.wait_ms:
            # its place among the answers of that tick is that of its arrival
            self._deadline = self._clock.moment(self.schedule.deadline_ms)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        deadline = self._deadline
        # A cancelled request has no client left, so it does not wait.
        if deadline is None or isinstance(error, asyncio.CancelledError):
            return
        now = now_ms()
        if self._until_ms > max(now, self.schedule.deadline_ms):
            # Only a moment of the release's own schedule, which is public, may be later.
            deadline = self._clock.moment(self._until_ms)
        elif deadline.done():
            deadline = self._clock.moment(self.schedule.first_from(now))
        await deadline


# Whether the client who asks is still there

T = TypeVar("T")

LONGEST_READING = 100


def waiting(request: Request) -> Waiting:
    """Return who waits for an upload.

    Raises
    ------
    Problem
        ``invalid-request``: the text is given twice, or not printable ASCII of at most 100
        characters.
    """
    found = request.headers.getlist("reading")
    text = found[0] if len(found) == 1 else ""
    if found and not (1 <= len(text) <= LONGEST_READING and text.isascii() and text.isprintable()):
        raise invalid_request("Reading", "must be one printable text of at most 100 characters")
    return Waiting(partial(gone, request), text or None)


async def gone(request: Request) -> None:
    """Return when the client has closed the connection; its body has been received before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work, and cancel it once no client waits for it.

    Work that waits for its turn leaves the queue, and a calculation in another process ends.

    Raises
    ------
    ClientDisconnect
        The client has gone.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        # Both have ended before the request does: nothing of it goes on unseen.
        await asyncio.wait((working, leaving))


# What the lifespan builds and every request sees


@dataclass(frozen=True, slots=True, kw_only=True)
class AppState:
    """The running application."""

    services: Services
    settings: Settings
    constants: Constants
    anonymous: Anonymous
    clock: PublicClock
    limiter: ConnectionLimiter
    rates: RateLimiter
    sign_in: ProviderSignIn
    uploads: UploadGate
    refusal_page: Callable[[Request, Problem, Mapping[str, str]], Response]
    """Shows a refusal to people; its headers are sent along."""
    documents_with: Callable[[str], Sequence[tuple[str, str]]]
    """Returns the sections of the documents with every word of a query: headings, addresses."""


class LifespanState(TypedDict):
    """The shape of ``request.state``."""

    app: AppState
