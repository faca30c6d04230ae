"""Which data sets can be read: one that cannot takes no charge until it can again.

A data set is opened and its files are checked before it is charged for, in every process
that charges: the first look hashes them, later ones see that they have not changed. Their manifest
must be the one that the ledger has, so rows put in their place take no charge either. A draw
that could not read its data says so here, too. What cannot be read is looked at again, at
first soon and then less often.

**Privacy.** How long a look takes follows from how many files there are and how long they
are, and what it finds from the disk: neither from what is in them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import anyio
import anyio.to_thread

from app.domain.problems import DataUnreadableError, Problem
from app.engine.data import DataEngine
from app.logs import describe
from app.services.datasets.datasets import require_active
from app.store import DatasetRecord, Store

_LOG = logging.getLogger(__name__)
SOUND_S = 0.25
"""So long a data set that could be read is believed to be readable."""
PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_THREADS = 2  # looks at once: they mostly wait for disks


class ReadableData:
    """Looks at data sets' files before they are charged for.

    Parameters
    ----------
    store
        Which of them are archived.
    plane
        Where their rows are.
    clock
        A clock in seconds that only goes forward.
    """

    def __init__(
        self, store: Store, plane: DataEngine, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._plane = plane
        self._clock = clock
        self._sound_until: dict[str, float] = {}
        self._unreadable: dict[str, tuple[float, float]] = {}  # the pause, and until when
        self._manifests: dict[str, str | None] = {}
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._threads = anyio.CapacityLimiter(_THREADS)

    @property
    def unreadable(self) -> int:
        """Return how many data sets are known that cannot be read."""
        return len(self._unreadable)

    async def manifest(self, dataset: str) -> str | None:
        """Return the SHA-256 of a data set's manifest, as the ledger has it; None: it has none."""
        if dataset not in self._manifests:
            await anyio.to_thread.run_sync(self._manifest, dataset)
        return self._manifests[dataset]

    async def require(self, dataset: str) -> None:
        """Pass for a data set that can be read.

        Raises
        ------
        Problem
            ``dataset-unreadable``; ``dataset-archived``, by another process.
        """
        now = self._clock()
        if now < self._sound_until.get(dataset, 0.0):
            return
        _, until = self._unreadable.get(dataset, (0.0, 0.0))
        if now >= until:
            await self._look(dataset)
        if dataset in self._unreadable:
            raise Problem("dataset-unreadable")

    def failed(self, dataset: str) -> None:
        """Hear that a draw could not read a data set: it is looked at before the next charge."""
        before, until = self._unreadable.get(dataset, (0.0, 0.0))
        self._sound_until.pop(dataset, None)
        now = self._clock()
        if now >= until:
            pause = min(max(2 * before, PAUSE_S), _LONGEST_PAUSE_S)
            self._unreadable[dataset] = (pause, now + pause)

    async def _look(self, dataset: str) -> None:
        """Look at a data set; concurrent callers share one look."""
        look = self._looks.get(dataset)
        if look is None:
            look = self._looks[dataset] = asyncio.ensure_future(self._looked(dataset))

            def forget(done: asyncio.Task[None]) -> None:
                del self._looks[dataset]
                if not done.cancelled():
                    done.exception()  # somebody has looked: who waited may have gone away

            look.add_done_callback(forget)
        # Shielded: one who goes away must not end it for the others.
        await asyncio.shield(look)

    async def _looked(self, dataset: str) -> None:
        try:
            await anyio.to_thread.run_sync(self._require, dataset, limiter=self._threads)
        except DataUnreadableError as error:
            await self._unless_archived(dataset)
            if dataset not in self._unreadable:
                _LOG.error("data set unreadable", extra={"dataset": dataset, **describe(error)})
            self.failed(dataset)
        else:
            if self._unreadable.pop(dataset, None) is not None:
                _LOG.warning("data set readable again", extra={"dataset": dataset})
            self._sound_until[dataset] = self._clock() + SOUND_S

    def _require(self, dataset: str) -> None:
        self._plane.require_readable(dataset, self._manifest(dataset))

    def _manifest(self, dataset: str) -> str | None:
        if dataset not in self._manifests:
            with self._store.reading() as reader:
                self._manifests[dataset] = reader.datasets.manifest(dataset)
        return self._manifests[dataset]

    async def _unless_archived(self, dataset: str) -> None:
        """Pass for a data set that should have its rows; another process may have erased them."""
        try:
            require_active(await anyio.to_thread.run_sync(self._record, dataset))
        except Problem:
            self._unreadable.pop(dataset, None)
            raise

    def _record(self, dataset: str) -> DatasetRecord | None:
        with self._store.reading() as reader:
            return reader.datasets.get(dataset)

    async def keep_looking(self) -> None:
        """Look again at what could not be read, while somebody serves."""
        while True:
            await anyio.sleep(PAUSE_S)
            now = self._clock()
            for dataset in [name for name, (_, until) in self._unreadable.items() if now >= until]:
                try:
                    await self._look(dataset)
                except Problem:
                    pass  # it has been archived
                except Exception as error:
                    _LOG.error("data set not looked at", extra=describe(error))
