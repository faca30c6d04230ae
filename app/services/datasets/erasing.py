"""Archiving, deleting and editing data sets; erasing rows once no charged release needs them.

A process that archives or deletes a data set erases it from the disk and its own memory. Other
servers and workers on the same database may have read it too, and look for such
data sets from time to time.

*Editing what is said of a data set: policy, description, notices, labels, checklist.* Bounds,
columns and adjacency are fixed for good: releases are about them. Every edit stands in the ledger,
by a digest, with who made it and why.

*Deleting a data set of which nothing was ever released: its people may come again.*

**Why the budget may be whole again.** A release, or a reservation for one, is the only way in which
anything about rows leaves. Until the first of either a data set's rows had no influence on any
answer: later releases about the same people are all that is ever published about them. So deleting
it erases the digests of its rows, too, and closes its account: nothing can be charged there.

Whether there was a release or a reservation is a public fact, and it is looked up in the
transaction that deletes: a release that arrives at the same time is either charged first, and the
deletion refused, or it is refused itself. No entry of the ledger goes: deleting adds some.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.to_thread

from app.domain.policies import policy_json
from app.domain.problems import Problem, invalid_request
from app.domain.releases import ReleaseState
from app.engine.data import DataEngine
from app.logs import describe
from app.services.datasets.datasets import DatasetService, DatasetView, facts_of
from app.services.people.keys import Caller
from app.store import DatasetRecord, DatasetStatus, Store, UnitOfWork
from app.vault.lineage import LineageFiles

# Editing what is said of a data set: policy, description, notices, labels, checklist


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What is to be changed; None leaves a thing as it is, and so do policy members not named.

    ``labels`` are texts by column; None takes a column's label away.
    """

    description: str | None = None
    policy: Mapping[str, object] | None = None
    notices: tuple[str, ...] | None = None
    labels: Mapping[str, str | None] | None = None
    checklist: tuple[str, ...] | None = None


class EditingService:
    """Edits data sets, for callers who may."""

    def __init__(self, store: Store, datasets: DatasetService) -> None:
        self._store = store
        self._datasets = datasets

    async def edit(self, dataset: str, edit: Edit, *, reason: str, caller: Caller) -> DatasetView:
        """Change what is said of a data set; whatever is asked from then on is judged by it.

        Raises
        ------
        Problem
            ``not-found``; ``invalid-request`` for the label of a column that is not there.
        """
        facts = await self._datasets.present(dataset)

        def write(work: UnitOfWork) -> DatasetRecord:
            record = work.datasets.get(dataset) or facts.record
            fields = json.dumps(_edited(record, edit), allow_nan=False)
            return work.by(caller.acting).datasets.edit(
                dataset, fields, principal=caller.person, reason=reason
            )

        self._datasets.remember(await self._store.awrite(write))
        return await anyio.to_thread.run_sync(self._datasets.view, dataset)


def _edited(record: DatasetRecord, edit: Edit) -> Mapping[str, object]:
    """Return all that may be edited, as it is afterwards."""
    facts = facts_of(record)
    labels = {**json.loads(record.edits or "{}").get("labels", {}), **(edit.labels or {})}
    for name in edit.labels or {}:
        if name not in facts.columns.columns:
            raise invalid_request("labels", "may name columns of the data set only")
    return {
        "description": facts.description if edit.description is None else edit.description,
        "policy": {**policy_json(facts.policy), **(edit.policy or {})},
        "notices": list(facts.notices if edit.notices is None else edit.notices),
        "labels": labels,
        "checklist": list(facts.checklist if edit.checklist is None else edit.checklist),
    }


# Erasing the rows of archived and deleted data sets, once no charged release needs them any more

_LOG = logging.getLogger(__name__)
LOOK_EVERY_S = 10.0
_PAGE = 500


class ErasingService:
    """Erases rows, and says which may not be."""

    def __init__(self, store: Store, plane: DataEngine, digests: LineageFiles) -> None:
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


# Deleting a data set of which nothing was ever released: its people may come again


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


# Archiving: a data set takes no more charges, and its rows go; ledger and releases stay

_ARCHIVED = "the data set has been archived"


class ArchivingService:
    """Archives data sets."""

    def __init__(
        self,
        store: Store,
        datasets: DatasetService,
        finish_running: Callable[[], Awaitable[None]],
        erasing: ErasingService,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._finish_running = finish_running
        self._erasing = erasing

    async def archive(self, dataset: str, *, caller: Caller) -> DatasetView:
        """Close a data set to new charges, give back what waits for a review, and erase its rows.

        All its versions are archived together: each has the rows of those before it.
        Charged releases keep their right to a draw: the rows go when none is under way.

        Raises
        ------
        Problem
            ``not-found``; ``dataset-archived`` for a deleted one.
        """
        # Closed first: whatever comes from here on is refused, and what is charged
        # by now gets its draw.
        records = await self._store.awrite(partial(_archive, dataset, caller))
        for record in records:
            self._datasets.remember(record)
            _LOG.info("data set archived", extra={"dataset": record.id})
        view = await anyio.to_thread.run_sync(self._datasets.view, dataset)
        await self._finish_running()
        for record in records:
            await self._erasing.erase(record.id)
        return view


def _archive(dataset: str, caller: Caller, work: UnitOfWork) -> Sequence[DatasetRecord]:
    """Archive all versions of a data set; what waits for a review could not be drawn any more."""
    person = caller.person
    work.by(caller.acting)
    found = work.datasets.get(dataset)
    if found is None:
        raise Problem("not-found")
    versions = [each.id for each in work.datasets.versions(found.first)]
    if not versions:
        raise Problem("dataset-archived")
    # In the same transaction: nothing may be approved between the two.
    for release in (each for name in versions for each in work.reviews.waiting_for(name)):
        work.reviews.unreserve(release, ReleaseState.REJECTED, principal=person, reason=_ARCHIVED)
    return [work.datasets.archive(name, principal=person) for name in versions]
