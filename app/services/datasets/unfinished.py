"""Uploads under way: written down before anything of them is stored, removed when they end badly.

An upload belongs to the server that takes it in, for as long as that lives. Before it is
cleared away it is taken over in a transaction, and it is registered only while it still
is its server's: so nothing is removed of what is registered, and nothing is registered
of what has been removed.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
import anyio.to_thread

from app.domain.problems import Problem
from app.logs import describe
from app.store import Store, UnitOfWork, UnknownCommitError, read_digest_history

_LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 10.0


class Staging(Protocol):
    """Where uploads are written."""

    def staged(self) -> frozenset[str]:
        """Return the ids of what is there."""

    def unstage(self, dataset_id: str, /) -> None:
        """Remove what is there of a data set."""


class Published(Protocol):
    """Where rows lie that have been written whole."""

    def erase(self, dataset_id: str, /) -> None:
        """Remove a data set's rows; nothing happens when there are none."""


class Digests(Protocol):
    """Where row digests are kept."""

    def forget(self, dataset: str, /) -> None:
        """Remove those of a data set."""


class UnfinishedUploads:
    """Knows the uploads that this process takes in, and clears away what is left of any.

    Parameters
    ----------
    store
        Where they are written down.
    staging, published, digests
        Where their files are.
    worker
        This process's name, whose lease says that it lives.
    """

    def __init__(
        self,
        store: Store,
        *,
        staging: Staging,
        published: Published,
        digests: Digests,
        worker: str,
    ) -> None:
        self._store = store
        self._staging = staging
        self._published = published
        self._digests = digests
        self._worker = worker
        self._running: set[str] = set()

    @asynccontextmanager
    async def begun(self, dataset: str) -> AsyncIterator[None]:
        """Write an upload down for the block; if it fails nothing is left of it.

        Where nobody knows whether it was registered it stays until that is known.
        """
        self._running.add(dataset)
        try:
            await self._store.awrite(lambda work: work.uploads.begin(dataset, worker=self._worker))
            try:
                yield
            except UnknownCommitError:
                raise
            # One that is cancelled is left to `clear`: here nothing could be waited for any more.
            except Exception:
                await anyio.to_thread.run_sync(self._cleared, dataset)
                raise
        finally:
            self._running.discard(dataset)

    def register(self, dataset: str, work: UnitOfWork) -> None:
        """Strike an upload out, in the transaction that registers it.

        Raises
        ------
        Problem
            ``busy``: this process was thought dead, and the upload has been cleared away.
        """
        if not work.uploads.end(dataset, worker=self._worker):
            raise Problem("busy", "The upload took a pause and was given up. Send it again.")

    def clear_all(self) -> None:
        """Clear away every upload; for a process that is alone, before it takes any in."""
        with self._store.reading() as reader:
            under_way = reader.uploads.under_way()
        for each in under_way:
            self._remove(each.dataset, worker=each.worker)

    async def keep_clearing(self) -> None:
        """Clear away, from time to time, what dead servers and failed attempts have left."""
        while True:
            await anyio.to_thread.run_sync(self.clear)
            await anyio.sleep(_LOOK_EVERY_S)

    def clear(self) -> None:
        """Clear away what is left of uploads that no living server takes in."""
        if self._store.frozen is not None:
            return
        try:
            # in this order: whoever writes into staging has written down before that they will
            staged = self._staging.staged()
            with self._store.reading() as reader:
                under_way = {each.dataset for each in reader.uploads.under_way()}
                left = reader.uploads.left(self._worker)
            for dataset in staged - under_way:
                self._staging.unstage(dataset)
        except Exception as error:
            _LOG.error("unfinished uploads not looked for", extra=describe(error))
            return
        for each in left:
            if each.dataset not in self._running:
                self._cleared(each.dataset)

    def _cleared(self, dataset: str) -> None:
        """Clear an upload away, unless it is registered or somebody else's; at worst, later."""
        try:
            if self._store.write(lambda work: work.uploads.take_over(dataset, worker=self._worker)):
                self._remove(dataset, worker=self._worker)
        except Exception as error:
            about = {"dataset": dataset, **describe(error)}
            _LOG.error("an unfinished upload was not cleared away yet", extra=about)

    def _remove(self, dataset: str, *, worker: str) -> None:
        """Remove what an upload has stored, and strike it out.

        One that a reconciliation has written down was registered in a database that is
        gone: its digests tell its people, and its rows are not this upload's to erase.
        """
        self._staging.unstage(dataset)
        with self._store.reading() as reader:
            known = {each.dataset for each in read_digest_history(reader).datasets}
        if dataset not in known:
            self._published.erase(dataset)
            self._digests.forget(dataset)
        self._store.write(lambda work: work.uploads.end(dataset, worker=worker))
        _LOG.warning("an unfinished upload was cleared away", extra={"dataset": dataset})
