"""Charged releases that storage was in the way of: each is drawn again after a pause.

A data set's files could not be opened, a disk was full, there was no memory: nothing of
such a draw has been seen, and who asks learns that the release is under way. It is put
off, at first briefly and then for longer, does not block others, and goes back into
the queue. After several tries in a row it counts as an attempt, like a process that died
of a draw: so the number of tries is bounded, and only then may a release become void.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress

from app.domain.releases import ReleaseState
from app.logs import describe
from app.services.releases.draws import DrawService
from app.store import ReleaseRecord

_LOG = logging.getLogger(__name__)
TRIES_PER_ATTEMPT = 24
"""With pauses of up to half a minute, about ten minutes."""

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
_REMEMBERED = 4_096


class PutOff:
    """Releases of this process that wait for their next try.

    Parameters
    ----------
    draws
        Counts their attempts.
    hand_back
        Puts one into the queue again, as soon as the database takes it.
    stopping
        Set when this process is about to end: then nothing waits any more.
    """

    def __init__(
        self,
        draws: DrawService,
        hand_back: Callable[[ReleaseRecord], Awaitable[None]],
        stopping: asyncio.Event,
    ) -> None:
        self._draws = draws
        self._hand_back = hand_back
        self._stopping = stopping
        self._tries: OrderedDict[str, int] = OrderedDict()
        self._waiting: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, release: str) -> bool:
        """Return whether a release waits here."""
        return release in self._waiting

    def add(self, record: ReleaseRecord, error: Exception) -> None:
        """Have a release of this process drawn again later."""
        tries = self._tries.pop(record.id, 0) + 1
        self._tries[record.id] = tries
        if len(self._tries) > _REMEMBERED:
            # A forgotten one starts counting from 0: it then waits longer for its last attempt.
            self._tries.popitem(last=False)
        _LOG.error("draw put off", extra={"release": record.id, **describe(error)})
        task = asyncio.ensure_future(self._wait(record, tries))
        self._waiting[record.id] = task
        task.add_done_callback(lambda _: self._waiting.pop(record.id))

    def forget(self, release: str) -> None:
        """Hear that a release has been drawn."""
        self._tries.pop(release, None)

    async def _wait(self, record: ReleaseRecord, tries: int) -> None:
        pause_s = min(FIRST_PAUSE_S * 2 ** (tries - 1), LONGEST_PAUSE_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._stopping.wait()
        if tries % TRIES_PER_ATTEMPT == 0:
            try:
                record = await self._draws.count_attempt(record)
            except Exception as error:  # then it is counted after as many tries again
                _LOG.error("attempt not counted", extra={"release": record.id, **describe(error)})
        if record.state is ReleaseState.DEBITED:
            await self._hand_back(record)

    async def settled(self, timeout_s: float) -> None:
        """Wait until everything has been handed back, at most so long."""
        if self._waiting:
            await asyncio.wait(self._waiting.values(), timeout=timeout_s)
        for task in self._waiting.values():
            task.cancel()
