"""Deleting a data set of which nothing was ever released: its people may come again.

**Why the budget may be whole again.** A release, or a reservation for one, is the only way in which
anything about rows leaves. Until the first of either a data set's rows had no influence on any
answer: later releases about the same people are all that is ever published about them. So deleting
it erases the digests of its rows, too, and closes its account: nothing can be charged there.

Whether there was a release or a reservation is a public fact, and it is looked up in the
transaction that deletes: a release that arrives at the same time is either charged first, and the
deletion refused, or it is refused itself. No entry of the ledger goes: deleting adds some.
"""

from __future__ import annotations

import logging
from functools import partial

import anyio.to_thread

from app.domain.problems import Problem
from app.services.datasets.datasets import DatasetService, DatasetView
from app.services.datasets.erasing import ErasingService
from app.services.people.keys import Caller
from app.store import DatasetRecord, DatasetStatus, Store, UnitOfWork

_LOG = logging.getLogger(__name__)


class DeletingService:
    """Deletes data sets."""

    def __init__(self, store: Store, datasets: DatasetService, erasing: ErasingService) -> None:
        self._store = store
        self._datasets = datasets
        self._erasing = erasing

    def may_delete(self, dataset: str) -> bool:
        """Return whether a data set could be deleted now; everyone may know."""
        with self._store.reading() as reader:
            found = reader.datasets.get(dataset)
            if found is None or found.status is DatasetStatus.DELETED:
                return False
            try:
                reader.datasets.require_unreleased(dataset)
                reader.datasets.require_newest(dataset)
            except Problem:
                return False
        return True

    async def delete(self, dataset: str, *, caller: Caller) -> DatasetView:
        """Delete a data set that has no releases, close its account, and erase what is stored.

        The account stays open where a data set that is not deleted shares it. Deleting again
        changes nothing.

        Raises
        ------
        Problem
            ``not-found``; ``dataset-has-releases``; ``newer-version``.
        """
        record = await self._store.awrite(partial(_delete, dataset, caller))
        self._datasets.remember(record)
        _LOG.info("data set deleted", extra={"dataset": dataset})
        view = await anyio.to_thread.run_sync(self._datasets.view, dataset)
        await self._erasing.erase_deleted(dataset)
        return view


def _delete(dataset: str, caller: Caller, work: UnitOfWork) -> DatasetRecord:
    if work.datasets.get(dataset) is None:
        raise Problem("not-found")
    work.by(caller.acting)
    record = work.datasets.delete(dataset, principal=caller.person)
    work.accounts.close_if_empty(record.account, principal=caller.person)
    return record
