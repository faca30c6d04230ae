"""Whether the service can do its work: charge, draw and keep."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from app.domain.problems import Problem
from app.services.datasets.readable import ReadableData
from app.store import Store

MIN_FREE_BYTES = 1 << 26
"""With less room than this on a disk, a release may be charged and find none for its result."""


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
    directories
        Where the service writes.
    anchor_shares_device
        Whether the anchor is on the ledger's own disk.
    """

    def __init__(
        self,
        store: Store,
        readable: ReadableData,
        *,
        directories: tuple[Path, ...],
        anchor_shares_device: bool,
    ) -> None:
        self._store = store
        self._readable = readable
        self._directories = directories
        self._anchor_shares_device = anchor_shares_device
        self._stopping = False

    def stop(self) -> None:
        """Be not ready from now on: whoever sends requests here is to send them elsewhere."""
        self._stopping = True

    def check(self) -> Readiness:
        """Return how things are if releases can be made.

        Raises
        ------
        Problem
            ``ledger-frozen``; ``not-ready``.
        """
        if self._stopping:
            raise Problem("not-ready", "This server is stopping.")
        if self._store.frozen is not None:
            raise Problem("ledger-frozen")
        if not self._store.is_newest():
            raise Problem("not-ready", "The database has another schema than this version's.")
        if not all(map(_has_room, self._directories)):
            raise Problem("not-ready", "A disk is full.")
        if self._store.failing:
            raise Problem("not-ready", "The last write to the ledger failed.")
        if unreadable := self._readable.unreadable:
            raise Problem("not-ready", _told(unreadable), unreadable_datasets=unreadable)
        return Readiness(
            anchor=self._store.anchored,
            anchor_shares_device=self._anchor_shares_device,
            replica=self._store.replica,
        )


def _told(unreadable: int) -> str:
    if unreadable == 1:
        return "1 data set cannot be read: its files are damaged, gone or cannot be opened."
    return f"{unreadable} data sets cannot be read: files are damaged, gone or cannot be opened."


def _has_room(directory: Path) -> bool:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize >= MIN_FREE_BYTES
