"""Requests per key and minute."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.domain.problems import Problem
from app.logs import describe
from app.store import Portion, Store

_LOG = logging.getLogger(__name__)
_WINDOW_S = 60.0
_MAX_KNOWN = 4_096
_PORTIONS = 64
"""A minute's requests are shared out between processes in this many portions, or one by one."""

Share = Callable[[str, int], Awaitable[Portion]]
"""Gives out requests of a key, at most what is left of its minute for all processes."""


@dataclass(slots=True)
class _Window:
    """What this process may still take of a key's minute; ``over``: the minute is used up."""

    end: float
    left: int
    over: bool


class RateLimiter:
    """Counts requests in windows of a minute; each key's window starts with its first request.

    Parameters
    ----------
    per_minute
        Requests in a window; 0 for any number.
    share
        Where other processes serve the same keys: what gives out portions of a window, so
        that all of them together take no more. While it fails, this process counts alone.
    clock
        A clock in seconds that only goes forward.
    """

    def __init__(
        self,
        per_minute: int,
        *,
        share: Share | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_minute = per_minute
        self._share = share
        self._clock = clock
        self._windows: dict[str, _Window] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    @property
    def known(self) -> frozenset[str]:
        """Return the keys whose requests are being counted."""
        return frozenset(self._windows)

    async def take(self, key: str) -> None:
        """Count a request of a key.

        Raises
        ------
        Problem
            ``rate-limited`` with the seconds until the window ends: a function
            of the times of the key's own requests.
        """
        while self._per_minute:
            window, now = self._windows.get(key), self._clock()
            if window is None or now >= window.end:
                self._forget(now)
            elif window.left:
                window.left -= 1
                return
            elif window.over:
                raise Problem("rate-limited", retry_after=math.ceil(window.end - now))
            if self._share is None:
                self._windows[key] = _Window(now + _WINDOW_S, self._per_minute, over=True)
            else:
                await self._asked(key, self._share)

    async def _asked(self, key: str, share: Share) -> None:
        """Ask for a portion; concurrent requests of the same key share one call."""
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.ensure_future(self._ask(key, share))
            asking.add_done_callback(lambda _: self._asking.pop(key))
        # Shielded: one who goes away must not end it for the others.
        await asyncio.shield(asking)

    async def _ask(self, key: str, share: Share) -> None:
        wanted = max(self._per_minute // _PORTIONS, 1)
        try:
            given, left_ms = await share(key, wanted)
        except Exception as error:  # a frozen ledger can still be read
            _LOG.info("requests counted here alone", extra=describe(error))
            window = _Window(self._clock() + _WINDOW_S, self._per_minute, over=True)
        else:
            window = _Window(self._clock() + left_ms / 1000, given, over=given < wanted)
        self._windows[key] = window

    def _forget(self, now: float) -> None:
        """Forget windows that have ended, when there are many."""
        if len(self._windows) >= _MAX_KNOWN:
            self._windows = {key: each for key, each in self._windows.items() if now < each.end}


def shared_by(store: Store, per_minute: int) -> Share | None:
    """Return what shares windows out between the processes of a database, if it has several."""
    if not store.shared:
        return None

    async def share(key: str, wanted: int) -> Portion:
        return await store.awrite(lambda work: work.rates.take(key, wanted=wanted, most=per_minute))

    return share
