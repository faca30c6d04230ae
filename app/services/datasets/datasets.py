"""Data sets: taking one in, and its public facts."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Protocol

import anyio
import anyio.to_thread

from app.domain.datasets import ColumnsSpec, parse_columns
from app.domain.ledger import Balance
from app.domain.policies import Ask, Policy, enforce
from app.domain.problems import Problem
from app.domain.roles import Role
from app.domain.sources import Source
from app.domain.upload_reports import UploadProgress, UploadReport
from app.engine.schema import schema_of
from app.services.datasets.accounting import Meter, meter_of
from app.services.datasets.accounts import delta_of
from app.services.datasets.admitting import Admission, NewDataset, origin_in, register
from app.services.datasets.lineage import Comparison, LineageService, require_unrelated
from app.services.datasets.policies import read_policy
from app.services.datasets.refusals import OverlapRefusals
from app.services.datasets.storing import NOBODY, Intake, Stored, Waiting, stored_while_there
from app.services.datasets.unfinished import UnfinishedUploads
from app.services.people.keys import Caller
from app.store import (
    DatasetRecord,
    DatasetStatus,
    Reader,
    Store,
    UnitOfWork,
    new_id,
)
from app.vault.lineage import Origin
from mechanisms.contract import Data
from mechanisms.domain import Schema
from mechanisms.privacy import Adjacency, Epsilon

_LOG = logging.getLogger(__name__)
_MAX_CACHED = 1_024
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFacts:
    """A data set as everybody may see it, its columns and policy parsed.

    ``notices`` are for whoever asks it, ``checklist`` is what its reviewers look at.
    """

    record: DatasetRecord
    description: str
    notices: tuple[str, ...]
    checklist: tuple[str, ...]
    columns: ColumnsSpec
    policy: Policy
    schema: Schema
    meter: Meter

    @property
    def id(self) -> str:
        """Return the data set's id."""
        return self.record.id


@dataclass(frozen=True, slots=True)
class DatasetView:
    """Public facts and the present balance."""

    facts: DatasetFacts
    balance: Balance


class DataPlane(Protocol):
    """Where rows live, as far as the use cases know it."""

    def open(self, dataset_id: str, *, manifest: str | None = None) -> Data:
        """Return a stored data set for draws; ``manifest`` is the SHA-256 that its manifest has."""

    def erase(self, dataset_id: str) -> None:
        """Remove a data set's rows; nothing happens when there are none."""


class DatasetService:
    """The life of data sets. Facts are kept, and compared with a database that others write to."""

    def __init__(
        self,
        store: Store,
        intake: Intake,
        lineage: LineageService,
        unfinished: UnfinishedUploads,
        refusals: OverlapRefusals,
        *,
        threads: int = 1,
    ) -> None:
        self._store = store
        self._intake = intake
        self._lineage = lineage
        self._unfinished = unfinished
        self._refusals = refusals
        # reading an upload in takes memory and time: only so many at once, and
        # never all the threads that answer plain reads
        self._turns = anyio.CapacityLimiter(threads)
        self._facts: dict[str, DatasetFacts] = {}

    async def create(
        self,
        new: NewDataset,
        content: BinaryIO | Source,
        *,
        caller: Caller,
        waiting: Waiting = NOBODY,
    ) -> tuple[DatasetView, UploadReport]:
        """Store an upload or a source, open its budget, and say how it was read: here only.

        It is given up, and nothing is left of it, when whoever sends it leaves before it is read.
        Meanwhile :meth:`readings` tells them how far it is.

        Raises
        ------
        Problem
            ``name-taken``, ``forbidden`` (an overlap override by a curator),
            ``invalid-request`` (an account it cannot have), what ingest
            refuses, ``overlapping-dataset``, ``too-few-rows``, ``too-many-overlaps`` or
            ``lineage-lost``.
        StoppedError
            They have left while the rows were read and stored.
        """
        if new.overlap_reason is not None:
            caller.require(Role.ADMIN)
        origin = await anyio.to_thread.run_sync(self._check_free, new, caller.person)
        dataset = new_id("ds")
        async with self._unfinished.begun(dataset):
            stored = await stored_while_there(
                self._intake,
                dataset,
                content,
                new.columns,
                new.stored_before,
                leaving=waiting.leaving,
                note=_note_of(caller, waiting),
                turns=self._turns,
            )
            await self._admit(dataset, new, stored, caller, origin=origin)
        _LOG.info("data set created", extra={"dataset": dataset})
        return await anyio.to_thread.run_sync(self.view, dataset), stored.report

    def readings(self, *, caller: Caller) -> Sequence[UploadProgress]:
        """Return how far the caller's own uploads are; see :class:`Waiting`."""
        notes = self._intake.staged_files(note_name(caller.person))
        return [UploadProgress.of(note) for note in notes]

    async def _admit(
        self, dataset: str, new: NewDataset, stored: Stored, caller: Caller, *, origin: Origin
    ) -> None:
        """Register a stored upload, once it has been compared with everything registered before."""
        digests, kept = stored.digests, None
        comparison = Comparison()
        manifest = await anyio.to_thread.run_sync(self._intake.manifest, dataset)
        if digests is not None:
            keep = partial(self._lineage.keep, dataset, digests, origin)
            kept = await anyio.to_thread.run_sync(keep)
        while True:
            if kept is not None:
                compare = partial(
                    self._lineage.compare,
                    kept,
                    account=new.account,
                    person=caller.person,
                    since=comparison,
                    family=new.family,
                )
                comparison = await anyio.to_thread.run_sync(compare, limiter=self._turns)
            if new.overlap_reason is None:
                # Written down before it is told, so that asking and going away is counted too.
                if comparison.found is not None:
                    await self._store.awrite(
                        partial(self._refusals.record, caller=caller, comparison=comparison)
                    )
                require_unrelated(comparison)
            admission = Admission(
                dataset=dataset, new=new, rows=stored.rows, caller=caller, origin=origin,
                sha256=None if kept is None else kept.sha256, comparison=comparison,
                manifest=manifest,
            )  # fmt: skip
            if await self._store.awrite(partial(self._register, admission)):
                return

    def _register(self, upload: Admission, work: UnitOfWork) -> bool:
        """Register an upload; False when another one came first and is to be compared with."""
        upto = upload.comparison.upto
        if upload.sha256 is not None and work.datasets.lineages(after=upto, limit=1):
            return False
        self._unfinished.register(upload.dataset, work)
        register(upload, work)
        return True

    def _check_free(self, new: NewDataset, person: str) -> Origin:
        with self._store.reading() as reader:
            if new.overlap_reason is None:
                self._refusals.require_left(reader, person)
            if new.extends is not None:
                reader.datasets.require_newest(new.extends.record.id)
            if reader.datasets.by_name(new.name) is not None:
                raise Problem("name-taken", "Another data set has this name.")
            return origin_in(reader, new)

    def facts(self, dataset: str) -> DatasetFacts:
        """Return a data set's public facts.

        Raises
        ------
        Problem
            ``not-found``.
        """
        known = None if self._store.shared else self._facts.get(dataset)
        if known is not None:
            return known
        with self._store.reading() as reader:
            return self.facts_in(reader, dataset)

    async def present(self, dataset: str) -> DatasetFacts:
        """Do what :meth:`facts` does, without holding the event loop up for a server."""
        if not self._store.shared:
            return self.facts(dataset)
        return await anyio.to_thread.run_sync(self.facts, dataset)

    def facts_in(self, reader: Reader, dataset: str) -> DatasetFacts:
        """Return a data set's public facts as they are in a snapshot of the database."""
        record = reader.datasets.get(dataset)
        if record is None:
            raise Problem("not-found", "There is no such data set.")
        return self._remembered(record)

    def _remembered(self, record: DatasetRecord) -> DatasetFacts:
        """Return the facts of a record; reading a wide data set's spec takes long."""
        known = self._facts.get(record.id)
        if known is not None and known.record == record:
            return known
        facts = facts_of(record)
        if len(self._facts) >= _MAX_CACHED:
            self._facts.clear()
        if self._store.shared:
            self._facts[record.id] = facts
        else:  # what an archiving has remembered since the look-up is newer
            self._facts.setdefault(record.id, facts)
        return facts

    def view(self, dataset: str) -> DatasetView:
        """Return a data set's public facts and balance.

        Raises
        ------
        Problem
            ``not-found``.
        """
        known = None if self._store.shared else self._facts.get(dataset)
        with self._store.reading() as reader:
            facts = known or self.facts_in(reader, dataset)
            balance = reader.accounts.balance(facts.record.account)
        return DatasetView(facts, balance)

    def list(
        self, *, before: int | None, limit: int, most_bytes: int
    ) -> tuple[Sequence[DatasetView], bool]:
        """Return data sets, newest first, so many bytes at most, and whether there are more."""
        with self._store.reading() as reader:
            records, more = reader.datasets.page(before=before, limit=limit, most_bytes=most_bytes)
            balances = {
                account: reader.accounts.balance(account)
                for account in {record.account for record in records}
            }
        views = [
            DatasetView(self._remembered(record), balances[record.account]) for record in records
        ]
        return views, more

    def remember(self, record: DatasetRecord) -> None:
        """Know a data set from now on as this record says: it has been archived or edited."""
        self._facts[record.id] = facts_of(record)

    async def close(self) -> None:
        """End the uploads that are still being taken in."""
        await anyio.to_thread.run_sync(self._intake.close)

    def ids(self) -> frozenset[str]:
        """Return every data set's id."""
        found: set[str] = set()
        before: int | None = None
        with self._store.reading() as reader:
            while records := reader.datasets.list(before=before, limit=_PAGE):
                found |= {each.id for each in records}
                before = records[-1].number
        return frozenset(found)


def _note_of(caller: Caller, waiting: Waiting) -> tuple[str, str] | None:
    """Return where it is noted how far an upload is, and for which text; None: nobody looks."""
    return None if waiting.reading is None else (note_name(caller.person), waiting.reading)


def note_name(person: str) -> str:
    """Return the name of the file that says how far an upload of a person's is."""
    return hashlib.sha256(person.encode()).hexdigest() + ".progress"


def facts_of(record: DatasetRecord) -> DatasetFacts:
    """Return the public facts that a data set's record holds."""
    spec = json.loads(record.spec)
    said = {**spec, **json.loads(record.edits or "{}")}
    labels: Mapping[str, str | None] = said.get("labels", {})
    columns = parse_columns(
        {
            name: {**column, "label": labels[name]} if name in labels else column
            for name, column in spec["columns"].items()
        },
        adjacency=Adjacency(spec["adjacency"]),
        max_rows=spec["max_rows"],
        derived=spec.get("derive"),
        unit=spec.get("unit"),
    )
    return DatasetFacts(
        record=record,
        description=said["description"],
        notices=tuple(said.get("notices", ())),
        checklist=tuple(said.get("checklist", ())),
        columns=columns,
        policy=read_policy(said["policy"]),
        schema=schema_of(columns, rows=record.rows),
        meter=meter_of(delta_of(spec.get("delta"))),
    )


def require_active(record: DatasetRecord | None) -> DatasetRecord:
    """Return a data set that has its rows.

    Raises
    ------
    Problem
        ``not-found`` or ``dataset-archived``.
    """
    if record is None:
        raise Problem("not-found", "There is no such data set.")
    if record.status is not DatasetStatus.ACTIVE:
        raise Problem("dataset-archived")
    return record


def require_askable(facts: DatasetFacts, *, kinds: tuple[str, ...], epsilon: Epsilon) -> None:
    """Pass for a data set that has its rows and whose policy allows the question.

    Raises
    ------
    Problem
        ``dataset-archived`` or ``policy-refused``.
    """
    require_active(facts.record)
    enforce(facts.policy, Ask(kinds=kinds, epsilon=epsilon))
