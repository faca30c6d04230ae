"""Erasing the rows of archived and deleted data sets, once no charged release needs them any more.

A process that archives or deletes a data set erases it from the disk and its own memory. Other
servers and workers on the same database may have read it too, and look for such
data sets from time to time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence, Set
from typing import Protocol

import anyio
import anyio.to_thread

from app.logs import describe
from app.services.datasets.datasets import DataPlane
from app.store import DatasetStatus, Store

_LOG = logging.getLogger(__name__)
LOOK_EVERY_S = 10.0
_PAGE = 500


class Digests(Protocol):
    """Where row digests are kept."""

    def kept(self) -> Sequence[str]:
        """Return the data sets whose digests are there."""

    def forget(self, dataset: str, /) -> None:
        """Remove those of a data set."""


class ErasingService:
    """Erases rows, and says which may not be."""

    def __init__(self, store: Store, plane: DataPlane, digests: Digests) -> None:
        self._store = store
        self.plane = plane
        self._digests = digests

    def with_rows(self) -> frozenset[str]:
        """Return the data sets whose rows must be kept: open ones, and what charges still need."""
        kept: set[str] = set()
        before: int | None = None
        with self._store.reading() as reader:
            kept |= {release.dataset for release in reader.releases.debited()}
            while records := reader.datasets.list(before=before, limit=_PAGE):
                kept |= {each.id for each in records if each.status is DatasetStatus.ACTIVE}
                before = records[-1].number
        return frozenset(kept)

    async def erase(self, dataset: str) -> None:
        """Erase an archived data set's rows, unless a charged release still needs them.

        Then they go when the last of these is drawn.
        """
        if dataset not in await anyio.to_thread.run_sync(self.with_rows):
            await anyio.to_thread.run_sync(self.plane.erase, dataset)

    async def erase_deleted(self, dataset: str) -> None:
        """Erase a deleted data set's rows, and the digests that would recognise its people."""
        await anyio.to_thread.run_sync(self.plane.erase, dataset)
        await anyio.to_thread.run_sync(self._digests.forget, dataset)

    def forget_deleted(self) -> None:
        """Remove the digests of deleted data sets that a crash left; for the start."""
        with self._store.reading() as reader:
            deleted = reader.datasets.deleted()
        for dataset in deleted.intersection(self._digests.kept()):
            self._digests.forget(dataset)

    async def erase_if_archived(self, dataset: str) -> None:
        """Erase the rows of a data set that was archived while they were still needed."""
        if await anyio.to_thread.run_sync(self._is_archived, dataset):
            await self.erase(dataset)

    def _is_archived(self, dataset: str) -> bool:
        with self._store.reading() as reader:
            record = reader.datasets.get(dataset)
        return record is not None and record.status is DatasetStatus.ARCHIVED

    async def keep_erasing(self) -> None:
        """Forget what this process has read of archived data sets, as they come.

        Where one process has the database to itself there are none.
        """
        erased: set[str] = set()
        while self._store.shared:
            for dataset in await anyio.to_thread.run_sync(self._found) - erased:
                if await anyio.to_thread.run_sync(self._erased, dataset):
                    erased.add(dataset)
            await anyio.sleep(LOOK_EVERY_S)

    def _found(self) -> Set[str]:
        """Return the archived data sets that no charged release waits for.

        While a ledger is frozen this is unknown: it may be an old copy, or another one.
        """
        if self._store.frozen is not None:
            return frozenset()
        try:
            with self._store.reading() as reader:
                waiting = {release.dataset for release in reader.releases.debited()}
                return reader.datasets.without_rows() - waiting
        except Exception as error:
            _LOG.error("archived data not looked for", extra=describe(error))
            return frozenset()

    def _erased(self, dataset: str) -> bool:
        """Erase a data set, and return whether nothing is left of it."""
        try:
            self.plane.erase(dataset)
        except Exception as error:
            about = {"dataset": dataset, **describe(error)}
            _LOG.error("archived data not erased yet", extra=about)
            return False
        return True
