"""Whether the client who asks is still there: what costs nothing yet ends when it has gone.

Releases are not cancelled. What is charged is drawn and stored, with or without a waiting client. A
client that waits for an upload may look up its progress, under a text of its choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from app.domain.problems import invalid_request
from app.services.datasets.storing import Waiting

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
