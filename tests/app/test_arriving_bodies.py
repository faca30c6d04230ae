"""Bodies that are still arriving: bounded by person, below every route."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from app.api.middleware import Counts, RequestContext
from app.domain.problems import Problem
from app.web.anonymous import ConnectionLimiter

MOST = 8


@dataclass(frozen=True)
class Caller:
    """Who sends a body."""

    person: str
    key: str = "key_1"


async def send_bodies(limiter: ConnectionLimiter) -> None:
    """Send more bodies of one person than may arrive, and one of another."""
    ends: list[asyncio.Event] = []
    refused: list[Problem] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["caller"] = Caller(scope["person"])
        try:
            while (await receive())["more_body"]:
                pass
        except Problem as problem:
            refused.append(problem)

    context = RequestContext(app, Counts("0"))

    def sent(person: str, *, whole: bool = False) -> asyncio.Task[None]:
        end, parts = asyncio.Event(), iter([not whole, False])
        ends.append(end)

        async def receive() -> Message:
            more = next(parts)
            if not (more or whole):
                await end.wait()
            return {"type": "http.request", "body": b"x", "more_body": more}

        async def send(message: Message) -> None:
            del message

        state: Any = {"app": SimpleNamespace(limiter=limiter)}
        scope = {"type": "http", "method": "POST", "state": state, "person": person}
        return asyncio.create_task(context(scope, receive, send))

    arriving = [sent("ada") for _ in range(MOST)]
    await asyncio.sleep(0)
    await sent("ada")
    assert [(each.code, each.extras) for each in refused] == [("rate-limited", {"retry_after": 5})]
    await sent("ada", whole=True)
    other = sent("bob")
    await asyncio.sleep(0)
    assert not other.done()
    assert len(refused) == 1, "one that comes whole is not counted, and neither is another's"
    arriving[0].cancel()  # as when its connection is closed
    ends[1].set()
    await asyncio.wait(arriving[:2])
    arriving += [sent("ada"), sent("ada")]
    await asyncio.sleep(0)
    assert len(refused) == 1
    for end in ends:
        end.set()
    await asyncio.wait([*arriving, other])
    assert limiter.body_arrives("ada")


def test_a_person_has_so_many_bodies_under_way() -> None:
    limiter = ConnectionLimiter(most=4 * MOST, most_each=4, head_room=1)
    assert limiter.most_bodies_each == MOST
    assert ConnectionLimiter(most=10_000, most_each=1, head_room=1).most_bodies_each == 64
    asyncio.run(send_bodies(limiter))
