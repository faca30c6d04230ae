"""Whether this machine's clock may date entries: it must not be behind the ledger's last entry.

A clock that was set back would date releases, entries and citations before what came before them,
and keep grants that are over. So nothing is charged while the clock is behind, what people do is
refused, and draws wait. Two acts cannot wait: revoking a key and pausing. Servers of one ledger and
corrections of a clock may differ by a little: so much is allowed.

The ledger's writer asks :meth:`LedgerClock.require_now` of everything that a person does, so no act
is forgotten. Acts that calculate for long before they write ask first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import datetime

import anyio.to_thread

from app.domain.problems import Problem
from app.store import Store

_DAY_S = 86_400


class LedgerClock:
    """Compares the clock with the ledger.

    Parameters
    ----------
    store
        The ledger.
    most_behind_s
        How far the clock may be behind the ledger's last entry, in seconds.
    clock
        Seconds since 1970.
    """

    def __init__(
        self, store: Store, *, most_behind_s: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._most_behind_s = most_behind_s
        self._clock = clock
        # No entry of this process is later than the last time at which one was allowed.
        self._latest_s = math.inf

    async def require(self) -> None:
        """Pass while entries may be dated; it costs a look at the clock.

        Raises
        ------
        Problem
            ``clock-behind``.
        """
        if self._may_be_behind():
            await anyio.to_thread.run_sync(self.check)

    def require_now(self) -> None:
        """Do what :meth:`require` does, in this thread.

        Raises
        ------
        Problem
            ``clock-behind``.
        """
        if self._may_be_behind():
            self.check()

    async def is_behind(self) -> bool:
        """Return whether draws have to wait until the clock is right."""
        try:
            await self.require()
        except Problem:
            return True
        return False

    def _may_be_behind(self) -> bool:
        """Return whether the ledger is to be asked."""
        now_s = self._clock()
        # Infinite at first: then the ledger is asked.
        self._latest_s = max(now_s, self._latest_s)
        return now_s < self._latest_s - self._most_behind_s

    def check(self) -> None:
        """Compare with the ledger as it is now.

        Raises
        ------
        Problem
            ``clock-behind``.
        """
        with self._store.reading() as reader:
            newest = reader.entries.newest_at()
        self._latest_s = datetime.fromisoformat(newest).timestamp()
        behind_s = self._latest_s - self._clock()
        if behind_s > self._most_behind_s:
            raise Problem(
                "clock-behind",
                f"The clock of this server is {_length(behind_s)} behind the ledger's last entry.",
            )


def _length(seconds: float) -> str:
    """Return a length of time in words.

    >>> _length(400 * 86_400), _length(86_400), _length(601)
    ('400 days', '1 day', '10 minutes')
    """
    days, minutes = int(seconds // _DAY_S), int(seconds // 60)
    if days:
        return f"{days} day{'s' if days > 1 else ''}"
    return f"{minutes} minute{'s' if minutes != 1 else ''}"
