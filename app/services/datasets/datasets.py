"""Data sets: taking one in, and its public facts."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import anyio
import anyio.to_thread

from app.domain.access import Span
from app.domain.datasets import ColumnsSpec, StatedPeople, parse_columns
from app.domain.ledger import Balance
from app.domain.policies import Ask, Policy, Right, enforce, read_policy
from app.domain.problems import Problem
from app.domain.sources import Source
from app.domain.upload_reports import UploadProgress, UploadReport
from app.engine.schema import schema_of
from app.services.datasets.accounting import Meter, delta_of, meter_of
from app.services.datasets.admitting import (
    NewDataset,
    Registration,
    origin_in,
    register,
    require_replaceable,
)
from app.services.datasets.comparing import Digested
from app.services.datasets.drafts import (
    MOST,
    MOST_OF_A_PERSON,
    WAITS_S,
    Staged,
    owner_of,
)
from app.services.datasets.lineage import (
    Comparison,
    LineageService,
    OverlapRefusals,
    require_unrelated,
)
from app.services.datasets.storing import (
    NO_WAITER,
    Waiting,
    note_name,
    note_of,
    stored_while_there,
)
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
from app.store.ledger.datasets import DatasetName
from app.uploads.storing import Ingested, Intake
from app.vault.lineage import Origin
from app.vault.stored import WaitingNote
from mechanisms.domain import Schema
from mechanisms.privacy import Adjacency, Epsilon

# A data set's public facts, as its record holds them, and what follows from them alone


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFacts:
    """A data set as everyone may see it, its columns and policy parsed.

    ``notices`` are for the requester, ``checklist`` is what its reviewers look at, and
    ``same_people`` what its curator has stated of earlier data sets.
    """

    id: str
    record: DatasetRecord
    description: str
    notices: tuple[str, ...]
    checklist: tuple[str, ...]
    same_people: StatedPeople
    columns: ColumnsSpec
    policy: Policy
    schema: Schema
    meter: Meter


STATUSES = tuple(each.value for each in DatasetStatus)
"""What becomes of data sets, in words."""


@dataclass(frozen=True, slots=True)
class DatasetView:
    """Public facts and the present balance."""

    facts: DatasetFacts
    balance: Balance


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
        text=spec.get("text"),
        design=spec.get("design"),
    )
    delta = delta_of(spec.get("delta"))
    return DatasetFacts(
        id=record.id,
        record=record,
        description=said["description"],
        notices=tuple(said.get("notices", ())),
        checklist=tuple(said.get("checklist", ())),
        same_people=spec.get("same_people", "not_stated"),
        columns=columns,
        policy=read_policy(said["policy"]),
        schema=schema_of(columns, rows=record.rows, zcdp=delta is not None),
        meter=meter_of(delta),
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


# Data sets: taking one in, and its public facts

__all__ = [
    "DatasetFacts", "DatasetService", "DatasetView", "facts_of", "require_active",
    "require_askable",
]  # fmt: skip

_LOG = logging.getLogger(__name__)
_MAX_CACHED = 1_024
_PAGE = 500


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
        erase_deleted: Callable[[str], Awaitable[None]],
        read_access: Callable[[], object],
        threads: int = 1,
    ) -> None:
        self._store = store
        self._intake = intake
        self._lineage = lineage
        self._unfinished = unfinished
        self._refusals = refusals
        self._erase_deleted = erase_deleted
        self._read_access = read_access
        # reading an upload in takes memory and time: a limited number at once, and
        # never all the threads that answer plain reads
        self._turns = anyio.CapacityLimiter(threads)
        self._facts: dict[str, DatasetFacts] = {}
        self.changes = 0

    async def create(
        self,
        new: NewDataset,
        content: BinaryIO | Source,
        *,
        caller: Caller,
        waiting: Waiting = NO_WAITER,
    ) -> tuple[DatasetView, UploadReport]:
        """Store an upload or a source, open its budget, and say how it was read: here only.

        The upload is cancelled, and nothing of it is stored, when the sender disconnects before it
        is read. Until then :meth:`readings` reports its progress to them.

        Raises
        ------
        Problem
            ``name-taken``, ``forbidden`` (an overlap override by a curator),
            ``invalid-request`` (an account it cannot have), what ingest
            refuses, ``overlapping-dataset``, ``too-few-rows``, ``too-many-overlaps``,
            ``lineage-lost``, ``dataset-has-releases`` or ``newer-version`` (of what it replaces).
        StoppedError
            They have left while the rows were read and stored.
        """
        origin = await self._allowed(new, caller)
        dataset = new_id("ds")
        async with self._unfinished.begun(dataset):
            stored = await self._stored(dataset, new, content, caller, waiting)
            staged = await self._staged(dataset, new, stored, origin, declared="")
            await self._admit(staged, new, caller)
        return await self._made(dataset, new), stored.report

    async def check(
        self,
        new: NewDataset,
        content: BinaryIO | Source,
        *,
        caller: Caller,
        waiting: Waiting = NO_WAITER,
    ) -> UploadReport:
        """Say how an upload would be read, and keep nothing of it.

        With what it is compared is not looked at.

        Raises
        ------
        Problem, StoppedError
            As :meth:`create`, but for overlaps.
        """
        await self._allowed(new, caller)
        dataset = new_id("ds")
        async with self._unfinished.begun(dataset, kept=False):
            stored = await self._stored(dataset, new, content, caller, waiting)
        return stored.report

    async def stage(
        self,
        new: NewDataset,
        content: BinaryIO | Source,
        *,
        declared: str,
        caller: Caller,
        waiting: Waiting = NO_WAITER,
    ) -> str:
        """Store an upload that waits for its sender's word, and return the id it would have.

        ``declared`` is kept for :meth:`confirm`, which is given what it says.

        Raises
        ------
        Problem, StoppedError
            As :meth:`create`; ``busy`` where too many wait.
        """
        origin = await self._allowed(new, caller)
        dataset = new_id("ds")
        async with self._unfinished.begun(dataset):
            stored = await self._stored(dataset, new, content, caller, waiting)
            staged = await self._staged(dataset, new, stored, origin, declared=declared)
            await self._compared(staged, new, caller, since=Comparison())
            note = WaitingNote(dataset, _in_ms(WAITS_S), owner_of(caller.person))
            keep = partial(self._unfinished.keep_waiting, most=MOST_OF_A_PERSON, in_all=MOST)
            await anyio.to_thread.run_sync(keep, note, staged.to_bytes())
        return dataset

    def staged(self, dataset: str, *, caller: Caller) -> Staged:
        """Return an upload of the caller's own that waits.

        Raises
        ------
        Problem
            ``not-found``.
        """
        return Staged.of_bytes(self._note(dataset, caller)[1])

    def waiting(self, *, caller: Caller) -> Sequence[Staged]:
        """Return the uploads of the caller's own that wait, the last one first."""
        return [*map(Staged.of_bytes, self._unfinished.waiting_of(owner_of(caller.person)))]

    async def confirm(self, dataset: str, new: NewDataset, *, caller: Caller) -> DatasetView:
        """Create the data set of an upload that waits: its budget is opened now.

        Raises
        ------
        Problem
            ``not-found``, and what :meth:`create` raises; then nothing is left of it.
        """
        note, content = await anyio.to_thread.run_sync(self._note, dataset, caller)
        async with self._unfinished.taken_up(note):
            await self._allowed(new, caller)
            await self._admit(Staged.of_bytes(content), new, caller)
        return await self._made(dataset, new)

    def discard(self, dataset: str, *, caller: Caller) -> None:
        """Clear away an upload of the caller's own that waits.

        Raises
        ------
        Problem
            ``not-found``.
        """
        self._unfinished.withdraw(self._note(dataset, caller)[0])

    def _note(self, dataset: str, caller: Caller) -> tuple[WaitingNote, bytes]:
        found = self._unfinished.waiting(dataset, owner_of(caller.person))
        if found is None:
            raise Problem("not-found", "No upload of yours waits here. Send the file again.")
        return found

    async def _allowed(self, new: NewDataset, caller: Caller) -> Origin:
        """Return whose an upload is that the caller may send."""
        if new.overlap_reason is not None:
            caller.require(Right.ADMINISTER)
        return await anyio.to_thread.run_sync(self._check_free, new, caller)

    async def _stored(
        self,
        dataset: str,
        new: NewDataset,
        content: BinaryIO | Source,
        caller: Caller,
        waiting: Waiting,
    ) -> Ingested:
        return await stored_while_there(
            self._intake,
            dataset,
            content,
            new.columns,
            new.stored_before,
            leaving=waiting.leaving,
            note=note_of(caller, waiting),
            turns=self._turns,
        )

    async def _made(self, dataset: str, new: NewDataset) -> DatasetView:
        _LOG.info("data set created", extra={"dataset": dataset})
        if new.replaces is not None:
            await self._replaced(new.replaces)
        return await anyio.to_thread.run_sync(self.view, dataset)

    async def _replaced(self, dataset: str) -> None:
        """Forget what is known of a data set that another one has replaced, and erase it."""
        await anyio.to_thread.run_sync(self._read_access)
        self._facts.pop(dataset, None)
        _LOG.info("data set replaced", extra={"dataset": dataset})
        await self._erase_deleted(dataset)

    def readings(self, *, caller: Caller) -> Sequence[UploadProgress]:
        """Return how far the caller's own uploads are; see :class:`Waiting`."""
        notes = self._intake.staged_files(note_name(caller.person))
        return [UploadProgress.of(note) for note in notes]

    async def _staged(
        self, dataset: str, new: NewDataset, stored: Ingested, origin: Origin, *, declared: str
    ) -> Staged:
        """Keep the digests of a stored upload, if it has any, and return what is known of it."""
        manifest = await anyio.to_thread.run_sync(self._intake.manifest, dataset)
        sha256 = None
        if stored.digests is not None:
            keep = partial(self._lineage.keep, dataset, stored.digests, origin)
            sha256 = (await anyio.to_thread.run_sync(keep)).sha256
        return Staged(
            dataset=dataset, name=new.name, declared=declared,
            extends=None if new.extends is None else new.extends.record.id,
            rows=stored.rows, report=stored.report, sha256=sha256, manifest=manifest, origin=origin,
        )  # fmt: skip

    async def _compared(
        self, staged: Staged, new: NewDataset, caller: Caller, *, since: Comparison
    ) -> Comparison:
        """Compare an upload with what came since, and refuse one that overlaps it."""
        if staged.sha256 is None:
            return since
        compare = partial(
            self._lineage.compare,
            Digested(staged.dataset, staged.sha256),
            account=new.account,
            person=caller.person,
            since=since,
            family=new.family,
            replaces=new.replaces,
        )
        comparison = await anyio.to_thread.run_sync(compare, limiter=self._turns)
        if new.overlap_reason is None:
            # Recorded before it is shown, so that a request whose client disconnects counts too.
            if comparison.found is not None:
                await self._store.awrite(
                    partial(self._refusals.record, caller=caller, comparison=comparison)
                )
            require_unrelated(self._as_seen(comparison, caller))
        return comparison

    def _as_seen(self, comparison: Comparison, caller: Caller) -> Comparison:
        """Return a comparison whose refusal names nothing that a caller may not see."""
        named = [comparison.found] if comparison.found is not None else comparison.lost
        if not named or not caller.hidden:
            return comparison
        with self._store.reading() as reader:
            accounts = {reader.access.account_of_dataset(each) for each in named}
        if caller.hidden.isdisjoint(accounts.union(comparison.accounts)):
            return comparison
        raise Problem("lineage-lost" if comparison.found is None else "overlapping-dataset")

    async def _admit(self, staged: Staged, new: NewDataset, caller: Caller) -> None:
        """Register a stored upload, once it has been compared with everything registered before."""
        comparison = Comparison()
        while True:
            comparison = await self._compared(staged, new, caller, since=comparison)
            registration = Registration(
                dataset=staged.dataset, new=new, rows=staged.rows, caller=caller,
                origin=staged.origin, sha256=staged.sha256, comparison=comparison,
                manifest=staged.manifest,
            )  # fmt: skip
            if await self._store.awrite(partial(self._register, registration)):
                return

    def _register(self, upload: Registration, work: UnitOfWork) -> bool:
        """Register an upload; False when another one came first and is to be compared with."""
        upto = upload.comparison.upto
        if upload.sha256 is not None and work.datasets.lineages(after=upto, limit=1):
            return False
        self._unfinished.register(upload.dataset, work)
        register(upload, work)
        return True

    def _check_free(self, new: NewDataset, caller: Caller) -> Origin:
        self._store.require_clock()
        with self._store.reading() as reader:
            if new.overlap_reason is None:
                self._refusals.require_left(reader, caller.person)
            if new.extends is not None:
                reader.datasets.require_newest(new.extends.record.id)
            if new.replaces is not None:
                require_replaceable(reader, new.replaces, hidden=caller.hidden)
            named = reader.datasets.by_name(new.name)
            if named is not None and named.id != new.replaces:
                raise Problem("name-taken", "Another data set has this name.")
            return origin_in(reader, new, hidden=caller.hidden)

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

    def all_in(self, reader: Reader, datasets: Collection[str]) -> Mapping[str, DatasetFacts]:
        """Return what :meth:`facts_in` does of some data sets, by their ids: those there are."""
        found = reader.datasets.get_all(datasets)
        return {each: self._remembered(record) for each, record in found.items()}

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
        self,
        *,
        caller: Caller,
        span: Span,
        most_bytes: int,
        words: Sequence[str] = (),
        status: str | None = None,
    ) -> tuple[Sequence[DatasetView], bool]:
        """Return the data sets of a span that a caller may see, and whether there are more.

        They are limited by size. With ``words``, those whose name has each of them; with
        ``status``, those in that one of :data:`STATUSES`.
        """
        with self._store.reading() as reader:
            records, more = reader.datasets.page(
                span=span,
                most_bytes=most_bytes,
                hidden=caller.hidden,
                words=words,
                status=None if status is None else DatasetStatus(status),
            )
            balances = reader.accounts.balances({record.account for record in records})
        views = [
            DatasetView(self._remembered(record), balances[record.account]) for record in records
        ]
        return views, more

    def called(self, text: str, *, caller: Caller) -> DatasetFacts | None:
        """Return the data set with an id, or the active one with a name; None: there is none.

        One that is hidden from the caller is none.
        """
        with self._store.reading() as reader:
            record = reader.datasets.get(text) or reader.datasets.by_name(text)
        if record is None or record.account in caller.hidden:
            return None
        return self._remembered(record)

    def account_called(self, text: str, *, caller: Caller) -> tuple[str, str]:
        """Return the account of an id, or of a data set's id or name, and what to call it.

        A text that names none, or one that is hidden from the caller, is returned as it is.
        """
        with self._store.reading() as reader:
            datasets = reader.datasets
            record = datasets.get(text) or datasets.by_name(text) or datasets.first_of(text)
            if record is None or record.account in caller.hidden:
                return text, text
            named = datasets.by_name(record.name)
        known = named is not None and named.account == record.account
        return record.account, record.name if known else record.account

    def newest(self, *, caller: Caller, limit: int) -> Sequence[DatasetName]:
        """Return what the newest data sets are called, of those that a caller may see."""
        with self._store.reading() as reader:
            return reader.datasets.newest(limit, caller.hidden)

    def remember(self, record: DatasetRecord) -> None:
        """Know a data set from now on as this record says: it has been archived or edited."""
        self._facts[record.id] = facts_of(record)
        self.changes += 1

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


def _in_ms(seconds: float) -> int:
    return int(1000 * (time.time() + seconds))
