"""Uploads under way: written down before anything of them is stored, removed when they end badly.

An upload belongs to the server that takes it in, for as long as that lives. Before it is
cleared away it is taken over in a transaction, and it is registered only while it still
is its server's: so nothing is removed of what is registered, and nothing is registered
of what has been removed.

One that is stored may wait for its sender's word. Then a note says so (:mod:`app.vault.stored`),
and the process that takes the note decides: it is registered, or cleared away. Before a process
takes the note to register, it has made the upload its own, so that no other clears it away.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence, Set
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

from app.domain.problems import Problem
from app.engine.data import DataEngine
from app.logs import describe
from app.store import Store, UnitOfWork, UnknownCommitError, read_digest_history
from app.vault.lineage import LineageFiles
from app.vault.stored import WaitingFiles, WaitingNote
from app.vault.vault import Vault

_LOG = logging.getLogger(__name__)
_NAME = re.compile(r"\w+")
_LOOK_EVERY_S = 10.0


class UnfinishedUploads:
    """Knows the uploads that this process takes in, and clears away what is left of any.

    Parameters
    ----------
    store
        Where they are written down.
    staging, published, digests
        Where their files are.
    waiting
        The notes of those that wait for their senders' word.
    worker
        This process's name, whose lease says that it lives.
    """

    def __init__(
        self,
        store: Store,
        *,
        staging: Vault,
        published: DataEngine,
        digests: LineageFiles,
        waiting: WaitingFiles,
        worker: str,
    ) -> None:
        self._store = store
        self._staging = staging
        self._published = published
        self._digests = digests
        self._waiting = waiting
        self._worker = worker
        self._running: set[str] = set()

    @asynccontextmanager
    async def begun(self, dataset: str, *, kept: bool = True) -> AsyncIterator[None]:
        """Write an upload down for the block; if it fails, or not ``kept``, nothing is left of it.

        Where it is unknown whether it was registered, it stays until that is known.
        """
        self._running.add(dataset)
        try:
            await self._store.awrite(lambda work: work.uploads.begin(dataset, worker=self._worker))
            try:
                yield
                if not kept:
                    await anyio.to_thread.run_sync(self._cleared, dataset)
            except UnknownCommitError:
                raise
            # One that is cancelled is left to `clear`: here nothing could be waited for any more.
            except Exception:
                await anyio.to_thread.run_sync(self._cleared, dataset)
                raise
        finally:
            self._running.discard(dataset)

    def keep_waiting(self, note: WaitingNote, content: bytes, *, most: int, in_all: int) -> None:
        """Have an upload wait that is under way here; of its sender's own the oldest make room.

        Raises
        ------
        Problem
            ``busy``: too many uploads wait.
        """
        mine = [each for each in self._still_waiting() if each.owner == note.owner]
        for each in sorted(mine, key=lambda each: each.expires_ms)[: max(0, len(mine) + 1 - most)]:
            self.withdraw(each)
        if len(self._still_waiting()) >= in_all:
            raise Problem("busy", "Too many uploads wait to be confirmed.")
        self._waiting.put(note, content)

    def waiting(self, dataset: str, owner: str) -> tuple[WaitingNote, bytes] | None:
        """Return the note of somebody's upload that waits, and what it says."""
        for note in self._still_waiting():
            if (note.dataset, note.owner) == (dataset, owner):
                content = self._waiting.read(note)
                return None if content is None else (note, content)
        return None

    def waiting_of(self, owner: str) -> Iterator[bytes]:
        """Yield what the notes of somebody's uploads say that wait, the last one first."""
        mine = [note for note in self._still_waiting() if note.owner == owner]
        for note in sorted(mine, key=lambda note: -note.expires_ms):
            if (content := self._waiting.read(note)) is not None:
                yield content

    @asynccontextmanager
    async def taken_up(self, note: WaitingNote) -> AsyncIterator[None]:
        """Take a note for the block, which registers its upload; if it fails nothing is left.

        Raises
        ------
        Problem
            ``not-found``: another has taken it.
        """
        dataset = note.dataset
        self._running.add(dataset)
        try:
            await self._store.awrite(lambda work: work.uploads.claim(dataset, worker=self._worker))
            if not await anyio.to_thread.run_sync(self._waiting.take, note):
                raise Problem("not-found")
            try:
                yield
            except UnknownCommitError:
                raise
            except Exception:
                await anyio.to_thread.run_sync(self._cleared, dataset)
                raise
        finally:
            self._running.discard(dataset)

    def withdraw(self, note: WaitingNote) -> None:
        """Take a note, and clear its upload away."""
        if self._waiting.take(note):
            dataset = note.dataset
            self._store.write(lambda work: work.uploads.claim(dataset, worker=self._worker))
            self._cleared(dataset)

    def still_waiting(self) -> frozenset[str]:
        """Return the uploads that wait, and whose time is not over."""
        return frozenset(note.dataset for note in self._still_waiting())

    def _still_waiting(self) -> Sequence[WaitingNote]:
        now = time.time() * 1000
        return [note for note in self._waiting.all() if note.expires_ms > now]

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
        """Clear away every upload that does not wait; for a process that is alone, at its start."""
        self._waiting.sweep()
        with self._store.reading() as reader:
            under_way = reader.uploads.under_way()
        waiting = self.still_waiting()
        for each in under_way:
            if each.dataset not in waiting:
                self._remove(each.dataset, worker=each.worker)
        self._drop_notes({each.dataset for each in under_way})

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
            # in this order: a writer to staging records before it writes that it will
            staged = self._staging.staged()
            with self._store.reading() as reader:
                under_way = {each.dataset for each in reader.uploads.under_way()}
                left = reader.uploads.left(self._worker)
            for dataset in staged - under_way:
                self._staging.unstage(dataset)
            # After the notes of the database: one that is taken by then is its taker's.
            waiting = self.still_waiting()
        except Exception as error:
            _LOG.error("unfinished uploads not looked for", extra=describe(error))
            return
        for each in left:
            if each.dataset not in self._running and each.dataset not in waiting:
                self._cleared(each.dataset)
        self._drop_notes(under_way)

    def _drop_notes(self, under_way: Set[str]) -> None:
        """Remove the notes whose time is over, and those of unknown uploads."""
        now = time.time() * 1000
        for note in self._waiting.all():
            known = note.dataset in under_way or note.dataset in self._running
            if note.expires_ms <= now or not known:
                self._waiting.take(note)

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
        gone: its digests identify its people, and its rows are not this upload's to erase.
        """
        if not _NAME.fullmatch(dataset):  # an edited row: a path or a pattern, and no data set
            self._store.write(lambda work: work.uploads.end(dataset, worker=worker))
            _LOG.error("a note of an upload that names no data set was struck out")
            return
        self._staging.unstage(dataset)
        with self._store.reading() as reader:
            known = {each.dataset for each in read_digest_history(reader).datasets}
        if dataset not in known:
            self._published.erase(dataset)
            self._digests.forget(dataset)
        self._store.write(lambda work: work.uploads.end(dataset, worker=worker))
        _LOG.warning("an unfinished upload was cleared away", extra={"dataset": dataset})
