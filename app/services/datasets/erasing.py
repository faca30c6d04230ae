"""Letting go of archived data that other processes have erased.

Who archives a data set erases it from the disk and from its own memory. Other
servers and workers on the same database may have read it too.
"""

from __future__ import annotations

import logging
from collections.abc import Set

import anyio
import anyio.to_thread

from app.logs import describe
from app.services.datasets.datasets import DataPlane
from app.store import Store

_LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 10.0


class ErasingService:
    """Looks for archived data sets that nothing waits for any more."""

    def __init__(self, store: Store, plane: DataPlane) -> None:
        self._store = store
        self._plane = plane

    async def keep_erasing(self) -> None:
        """Let go of what this process has read of them, as they come.

        Where one process has the database to itself there are none.
        """
        erased: set[str] = set()
        while self._store.shared:
            for dataset in await anyio.to_thread.run_sync(self._found) - erased:
                if await anyio.to_thread.run_sync(self._let_go, dataset):
                    erased.add(dataset)
            await anyio.sleep(_LOOK_EVERY_S)

    def _found(self) -> Set[str]:
        """Return the archived data sets that no charged release waits for.

        While a ledger is frozen nobody knows: it may be an old copy, or another one.
        """
        if self._store.frozen is not None:
            return frozenset()
        try:
            with self._store.reading() as reader:
                waiting = {release.dataset for release in reader.releases.debited()}
                return reader.datasets.archived() - waiting
        except Exception as error:
            _LOG.error("archived data not looked for", extra=describe(error))
            return frozenset()

    def _let_go(self, dataset: str) -> bool:
        """Erase a data set, and return whether nothing is left of it."""
        try:
            self._plane.erase(dataset)
        except Exception as error:
            about = {"dataset": dataset, **describe(error)}
            _LOG.error("archived data not let go of yet", extra=about)
            return False
        return True
