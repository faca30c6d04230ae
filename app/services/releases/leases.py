"""This process as a worker: alive for the others as long as its lease is kept up."""

from __future__ import annotations

import asyncio
import logging

from app.logs import describe
from app.store import Store

_LOG = logging.getLogger(__name__)


class Lease:
    """A worker's lease.

    Where one process at a time may write, it lasts until the process ends;
    elsewhere it is kept up from the event loop: after ``lease_ms`` without a
    beat the process counts as dead.
    """

    def __init__(self, store: Store, worker: str, *, lease_ms: int) -> None:
        self._store = store
        self._worker = worker
        self._lease_ms = lease_ms
        self._begun = False
        self._beating: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Begin the lease. Nothing may be charged with this worker's name before."""
        self._begun = True
        if not self._store.shared:
            await self._store.awrite(lambda work: work.workers.alone(self._worker))
            return
        await self._beat()
        self._beating = asyncio.ensure_future(self._keep_up())

    async def end(self) -> None:
        """End the lease: whatever this process was drawing may be taken over at once."""
        if not self._begun:
            return
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        try:
            await self._store.awrite(lambda work: work.workers.end(self._worker))
        except Exception as error:  # a frozen ledger, a lost server: then the lease runs out
            _LOG.error("lease not ended", extra=describe(error))

    async def _keep_up(self) -> None:
        while True:
            # Three beats to a lease: one that is late, or lost, does no harm.
            await asyncio.sleep(self._lease_ms / 3000)
            try:
                await self._beat()
            except Exception as error:
                _LOG.error("lease not kept up", extra=describe(error))

    async def _beat(self) -> None:
        await self._store.awrite(
            lambda work: work.workers.beat(self._worker, lease_ms=self._lease_ms)
        )
