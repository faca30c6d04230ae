"""Archiving: a data set takes no more charges, and its rows go; ledger and releases stay."""

from __future__ import annotations

import logging
from functools import partial

import anyio.to_thread

from app.domain.releases import ReleaseState
from app.services.datasets.datasets import DatasetService, DatasetView
from app.services.datasets.erasing import ErasingService
from app.services.people.keys import Caller
from app.services.releases.releases import ReleaseService
from app.store import DatasetRecord, Store, UnitOfWork

_LOG = logging.getLogger(__name__)
_REASON = "the data set has been archived"


class ArchivingService:
    """Archives data sets."""

    def __init__(
        self,
        store: Store,
        datasets: DatasetService,
        releases: ReleaseService,
        erasing: ErasingService,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._releases = releases
        self._erasing = erasing

    async def archive(self, dataset: str, *, caller: Caller) -> DatasetView:
        """Close a data set to new charges, give back what waits for a review, and erase its rows.

        Charged releases keep their right to a draw: the rows go when none is under way.

        Raises
        ------
        Problem
            ``not-found``.
        """
        record = await self._store.awrite(partial(_archive, dataset, caller))
        self._datasets.remember(record)
        _LOG.info("data set archived", extra={"dataset": dataset})
        view = await anyio.to_thread.run_sync(self._datasets.view, dataset)
        await self._releases.finish_running()
        await self._erasing.erase(dataset)
        return view


def _archive(dataset: str, caller: Caller, work: UnitOfWork) -> DatasetRecord:
    """Archive a data set; what waits for a review could not be drawn any more."""
    person = caller.person
    work.by(caller.acting)
    for release in work.reviews.waiting_for(dataset):
        work.reviews.unreserve(release, ReleaseState.REJECTED, principal=person, reason=_REASON)
    return work.datasets.archive(dataset, principal=person)
