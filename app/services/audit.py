"""The audit: reading the ledger and walking it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio.to_thread

from app.domain.ledger import Entry
from app.engine.choice import Passes
from app.engine.data import DataEngine
from app.logs import describe
from app.services.datasets.datasets import DatasetService
from app.store import Store, StoreError, Verification, inspecting, read_digest_history
from app.store.ledger.datasets import MANIFEST_KEPT
from app.store.ledger.records import now
from app.vault.lineage import LineageFiles
from app.vault.stored import VaultError
from app.vault.vault import Vault

__all__ = [
    "AuditService",
    "Verification",
    "Verified",
    "check_lineage",
    "check_manifests",
    "check_stored_data",
]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Verified:
    """What a walk over the ledger found, and when it began (UTC)."""

    at: str
    found: Verification


class AuditService:
    """Shows entries and verifies chains and sums."""

    def __init__(self, store: Store, datasets: DatasetService) -> None:
        self._store = store
        self._datasets = datasets
        self._turn = asyncio.Lock()
        self._last: Verified | None = None
        self._walk: asyncio.Task[Verification] | None = None

    def entries(
        self, dataset: str, *, after: int, limit: int
    ) -> tuple[Sequence[Entry], Mapping[str, Sequence[str]]]:
        """Return the entries of a data set's account, oldest first, and who approved what.

        The second is by release: the people who let it be charged, where there was a review.

        Raises
        ------
        Problem
            ``not-found``.
        """
        account = self._datasets.facts(dataset).record.account
        with self._store.reading() as reader:
            entries = reader.entries.list(account, after=after, limit=limit)
            return entries, reader.journal.approvals(entries)

    async def verify(self, *, full: bool = True) -> Verification:
        """Walk every chain, sum and result: one walk at a time, and a long one elsewhere.

        A large ledger is walked by processes that yield to this one. Unless ``full``, it is walked
        from where the last walk has found it sound.
        """
        # A second caller waits and checks again: it must see what was committed since.
        async with self._turn:
            at = now()
            walk = partial(self._store.verify, signed=True, full=full)
            found = await anyio.to_thread.run_sync(walk)
            if full or not found.ok:
                self._last = Verified(at, found)
            return found

    async def verified(self, *, wait_s: float, afresh: bool = False) -> Verified | None:
        """Return what the last walk of this process found; the first time there is one.

        A walk goes on when it takes longer than ``wait_s``; None: the first has not ended.
        """
        if self._walk is None and (afresh or self._last is None):
            self._walk = asyncio.ensure_future(self.verify())
            self._walk.add_done_callback(self._walked)
        if self._walk is not None:
            await asyncio.wait([self._walk], timeout=wait_s)
        return self._last

    def _walked(self, done: asyncio.Task[Verification]) -> None:
        self._walk = None
        if not done.cancelled() and (error := done.exception()) is not None:
            _LOG.error("the ledger was not walked", extra=describe(error))


def check_lineage(data_dir: Path, url: str) -> Iterator[str]:
    """Yield the data sets whose row digests are missing or altered; works as the other does.

    Where there is no ledger there is nothing to compare with.
    """
    files, after = LineageFiles(data_dir), 0
    kept: list[tuple[str, str]] = []
    with suppress(StoreError), inspecting(url) as reader:
        kept += [(each.dataset, each.sha256) for each in read_digest_history(reader).datasets]
        while records := reader.datasets.lineages(after=after):
            after = records[-1].number
            kept += [(each.dataset, each.sha256) for each in records if each.sha256 is not None]
    for dataset, sha256 in kept:
        try:
            files.read(dataset, sha256)
        except VaultError:
            yield dataset


def check_manifests(data_dir: Path, url: str) -> Iterator[str]:
    """Yield the data sets whose manifest is not the one that they were registered with.

    A manifest names the digests of all other files; this one is in the ledger.
    """
    vault, recorded = Vault(data_dir), {}
    with suppress(StoreError), inspecting(url) as reader:
        recorded = {
            entry.note: entry.fingerprint for entry in reader.entries.of_system(MANIFEST_KEPT)
        }
    for dataset in vault.published():
        try:
            found = vault.manifest_digest(dataset)
        except VaultError:
            found = ""
        # Data sets of early versions have no such entry: there is nothing to compare with.
        if recorded.get(dataset, found) != found:
            yield dataset


def check_stored_data(data_dir: Path, passes: Passes) -> Iterator[tuple[str, str | None]]:
    """Hash every stored file and compute every sketch again from the rows.

    Works while a service is running. Yields each data set's id, and the name of
    what is wrong with it, or None.
    """
    vault, executor = Vault(data_dir), passes.executor()
    engine = DataEngine(vault, executor=executor)
    try:
        for dataset in vault.published():
            try:
                engine.check(dataset)
            except Exception as error:  # whatever a damaged file makes fail is the finding
                yield dataset, type(error).__name__
            else:
                yield dataset, None
    finally:
        executor.close()
