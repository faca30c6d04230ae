"""Whether the service can do its work: charge, draw and keep."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.domain.problems import Problem
from app.services.datasets.readable import ReadableData
from app.services.releases.public_moments import LedgerClock
from app.store import Store
from mechanisms.words import worded

_LOG = logging.getLogger(__name__)
MIN_FREE_BYTES = 1 << 26
"""With less room than this on a disk, a release may be charged and find none for its result."""
_MIN_FREE_PART = 0.1
"""Of a small disk a part is enough: it was made for a small ledger."""
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a ready service says of itself: of its ledger's anchor, and of its replica."""

    anchor: str
    anchor_shares_device: bool
    replica: str


class HealthService:
    """Looks at what a release needs.

    Parameters
    ----------
    store
        The ledger.
    readable
        Which data sets cannot be read.
    ledger_clock
        Whether the clock may date releases.
    calculates
        Whether the calculating processes have loaded what they need.
    directories
        Where the service writes, by what is there.
    anchor_shares_device
        Whether the anchor is on the ledger's own disk.
    """

    def __init__(
        self,
        store: Store,
        readable: ReadableData,
        ledger_clock: LedgerClock,
        *,
        calculates: Callable[[], bool],
        directories: Mapping[str, Path],
        anchor_shares_device: bool,
    ) -> None:
        self._store = store
        self._readable = readable
        self._ledger_clock = ledger_clock
        self._calculates = calculates
        self._directories = directories
        self._anchor_shares_device = anchor_shares_device
        self._stopping = False
        self._full: set[str] = set()

    def stop(self) -> None:
        """Report not ready from now on, so that a load balancer sends requests elsewhere."""
        self._stopping = True

    def check(self) -> Readiness:
        """Return how things are if releases can be made.

        Raises
        ------
        Problem
            ``ledger-frozen``; ``clock-behind``; ``not-ready``.
        """
        if self._stopping:
            raise Problem("not-ready", "This server is stopping.")
        if self._store.frozen is not None:
            raise Problem("ledger-frozen")
        if not self._store.is_newest():
            raise Problem("not-ready", "The database has another schema than this version's.")
        self._ledger_clock.check()
        for what, directory in self._directories.items():
            self._require_room(what, directory)
        if self._store.failing:
            raise Problem("not-ready", "The last write to the ledger failed.")
        if not self._calculates():
            raise Problem("not-ready", "The calculating processes are still starting.")
        if unreadable := self._readable.unreadable:
            raise Problem("not-ready", _told(unreadable), unreadable_datasets=unreadable)
        return Readiness(
            anchor=self._store.anchored,
            anchor_shares_device=self._anchor_shares_device,
            replica=self._store.replica,
        )

    def _require_room(self, what: str, directory: Path) -> None:
        """Pass where a disk has room for what is charged; the log says which directory has none.

        Raises
        ------
        Problem
            ``not-ready``. How much is free is not public: uploads have taken the rest.
        """
        found = os.statvfs(directory)
        needed = min(MIN_FREE_BYTES, int(found.f_blocks * found.f_frsize * _MIN_FREE_PART))
        if found.f_bavail * found.f_frsize >= needed:
            self._full.discard(what)
            return
        if what not in self._full:  # everyone may call this: one log line is enough
            self._full.add(what)
            _LOG.warning("a disk is full", extra={"path": str(directory), "errno": "ENOSPC"})
        raise Problem(
            "not-ready",
            worded(
                "The disk of the %(what)s is full: less than %(needed)s MiB are free. Make room "
                "there, or move it to a larger disk.",
                what=what,
                needed=f"{needed / _MIB:.3g}",
            ),
        )


def _told(unreadable: int) -> str:
    if unreadable == 1:
        return "1 data set cannot be read: its files are damaged, gone or cannot be opened."
    return f"{unreadable} data sets cannot be read: files are damaged, gone or cannot be opened."
