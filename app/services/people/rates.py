"""Requests per key and minute."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from app.domain.problems import Problem

_WINDOW_S = 60.0
_MAX_KNOWN = 4_096


class RateLimiter:
    """Counts requests in windows of a minute; each key's window starts with its first request.

    Counts are this process's own: several server processes allow as many times
    the limit.

    Parameters
    ----------
    per_minute
        Requests in a window; 0 for any number.
    clock
        A clock in seconds that only goes forward.
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._windows: dict[str, tuple[float, int]] = {}

    def take(self, key: str) -> None:
        """Count a request of a key.

        Raises
        ------
        Problem
            ``rate-limited`` with the seconds until the window ends: a function
            of the times of the key's own requests.
        """
        if self._per_minute == 0:
            return
        now = self._clock()
        end, taken = self._windows.get(key, (0.0, 0))
        if now >= end:
            self._forget(now)
            end, taken = now + _WINDOW_S, 0
        if taken >= self._per_minute:
            raise Problem("rate-limited", retry_after=math.ceil(end - now))
        self._windows[key] = (end, taken + 1)

    def _forget(self, now: float) -> None:
        """Forget windows that have ended, when there are many."""
        if len(self._windows) >= _MAX_KNOWN:
            self._windows = {key: each for key, each in self._windows.items() if now < each[0]}
