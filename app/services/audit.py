"""The audit: walking the ledger, and reading it: entries with filters, a budget over time."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import anyio.to_thread

from app.domain.ledger import Balance, Entry, EntryKind
from app.domain.problems import Problem
from app.engine.choice import Passes
from app.engine.data import DataEngine
from app.logs import describe
from app.services.datasets.accounting import Epsilons, Meter, delta_of, in_epsilons, meter_of
from app.services.datasets.datasets import DatasetService
from app.services.people.keys import Caller
from app.store import (
    DatasetRecord,
    Store,
    StoreError,
    Verification,
    Wanted,
    inspecting,
    read_digest_history,
)
from app.store.ledger.datasets import MANIFEST_KEPT
from app.store.ledger.records import now
from app.vault.lineage import LineageFiles
from app.vault.stored import VaultError
from app.vault.vault import Vault

__all__ = [
    "AuditService",
    "Looked",
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


@dataclass(frozen=True, slots=True)
class Looked:
    """What is known of the ledger's soundness at a moment.

    Attributes
    ----------
    last
        What the last walk of this process has found; None: none has ended yet.
    percent
        How far a walk is that goes on, in steps of ten; None: none goes on.
    """

    last: Verified | None
    percent: int | None


class AuditService:
    """Shows entries and verifies chains and sums."""

    def __init__(self, store: Store, datasets: DatasetService) -> None:
        self._store = store
        self._datasets = datasets
        self._turn = asyncio.Lock()
        self._last: Verified | None = None
        self._walk: asyncio.Task[Verification] | None = None
        self._begun_s = 0.0
        self._share = 0.0

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
            self._advance(0.0)
            walk = partial(self._store.verify, signed=True, full=full, progress=self._advance)
            found = await anyio.to_thread.run_sync(walk)
            if full or not found.ok:
                self._last = Verified(at, found)
            return found

    def begin(self) -> None:
        """Begin a walk, unless one goes on."""
        if self._walk is None:
            self._walk, self._begun_s = asyncio.ensure_future(self.verify()), monotonic()
            self._walk.add_done_callback(self._walked)

    async def look(self, *, wait_s: float) -> Looked:
        """Return what is known of the ledger; the first look of a process begins a walk.

        A walk goes on when it takes longer than ``wait_s`` seconds: most ledgers take less. A look
        at one that has gone on for longer does not wait.
        """
        if self._last is None:
            self.begin()
        left_s = self._begun_s + wait_s - monotonic()
        if self._walk is not None and left_s > 0:
            await asyncio.wait([self._walk], timeout=left_s)
        return Looked(self._last, None if self._walk is None else 10 * int(10 * self._share))

    def _advance(self, share: float) -> None:
        self._share = share

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


__all__ = ["JournalService", "Line", "Moment", "Wanted"]

DECISIONS = (
    "release_approved", "release_rejected", "release_changes_requested", "release_returned",
    "study_plan_changes_requested", "study_plan_approved", "study_plan_rejected",
    "study_plan_withdrawn",
    "unreserve", "release_withdrawn", "release_published", "publication_withdrawn",
    "overlap_refused", "overlap_override", "cap_set", "access_set", "group_set", "sign_in_allowed",
    "pause_set", "grant",
    "dataset_edited", "dataset_archived", "dataset_deleted",
)  # fmt: skip
"""The kinds of entries that are decisions of people. Votes are none: some are not shown yet."""
MOST_REPORTED = 1_000
"""Charges that a report has, the newest; an export has all."""
_MOST_MOMENTS = 160


@dataclass(frozen=True, slots=True)
class Line:
    """An entry, and what its account counts in; None for the system's own, which counts nothing.

    ``dataset`` and ``name`` are of the data set that its account was opened for.
    ``approved_by`` are the people who let its release be charged, where there was a review.
    """

    entry: Entry
    meter: Meter | None = None
    dataset: str | None = None
    name: str | None = None
    approved_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """What a budget was after one of its entries."""

    at: str
    epsilons: Epsilons


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A release that was charged: its entry, its request, and whether everyone may read it."""

    line: Line
    request: Mapping[str, Any]
    public: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an account was used for, for people who answer for it.

    Attributes
    ----------
    datasets
        The data sets whose people it protects.
    meter, balance
        What it counts in, and what is spent, reserved and left.
    charges
        Releases that were charged, newest first, at most :data:`MOST_REPORTED`.
    more
        Whether there are older ones.
    """

    account: str
    datasets: Sequence[DatasetRecord]
    meter: Meter
    balance: Balance
    charges: Sequence[Charge]
    more: bool


class JournalService:
    """Shows the ledger to those who may see all of it."""

    def __init__(self, store: Store, datasets: DatasetService) -> None:
        self._store = store
        self._datasets = datasets

    def page(self, wanted: Wanted, *, skip: int, limit: int) -> tuple[Sequence[Line], bool]:
        """Return entries, newest first, and whether there are more after them."""
        with self._store.reading() as reader:
            # One more than is shown reveals whether there are more.
            entries = reader.journal.page(wanted, skip=skip, limit=limit + 1)
            approvals = reader.journal.approvals(entries[:limit])
            firsts = reader.datasets.firsts_of({each.account for each in entries})
        known = {account: _known(first) for account, first in firsts.items()}
        lines = [
            Line(
                entry,
                *known.get(entry.account, _UNKNOWN),
                approved_by=approvals.get(entry.release or "", ()),
            )
            if entry.kind == EntryKind.DEBIT
            else Line(entry, *known.get(entry.account, _UNKNOWN))
            for entry in entries[:limit]
        ]
        return lines, len(entries) > limit

    def report(self, account: str, *, caller: Caller, skip: int, limit: int) -> Report:
        """Return what an account was used for, with its charges after the first ``skip``.

        Raises
        ------
        Problem
            ``not-found``: no data set that the caller may see has such an account.
        """
        if account in caller.hidden:
            raise Problem("not-found")
        charged = Wanted(account=account, kind=EntryKind.DEBIT)
        lines, more = self.page(charged, skip=skip, limit=min(limit, MOST_REPORTED))
        with self._store.reading() as reader:
            datasets = reader.datasets.of_account(account)
            if not datasets:
                raise Problem("not-found")
            balance = reader.accounts.balance(account)
            heads = reader.releases.heads([line.entry.release or "" for line in lines])
            public = reader.publications.public(heads.keys())
        charges = [
            Charge(line=line, request=json.loads(head.request), public=head.id in public)
            for line in lines
            if (head := heads.get(line.entry.release or "")) is not None
        ]
        delta = delta_of(json.loads(datasets[0].spec).get("delta"))
        return Report(
            account=account, datasets=datasets, meter=meter_of(delta), balance=balance,
            charges=charges, more=more,
        )  # fmt: skip

    def course(self, dataset: str) -> Sequence[Moment]:
        """Return how the budget of a data set's account went, oldest first: at ``most`` moments.

        Raises
        ------
        Problem
            ``not-found``.
        """
        facts = self._datasets.facts(dataset)
        account, meter = facts.record.account, facts.meter
        with self._store.reading() as reader:
            record = reader.accounts.get(account)
            places = _spread(0 if record is None else record.seq)
            entries = reader.journal.at(account, places)
        return [Moment(entry.at, in_epsilons(_after(entry), meter)) for entry in entries]


def _spread(last: int) -> Sequence[int]:
    """Return the places of an account's entries, or ``most`` of them with the first and the last.

    >>> _spread(3), len(_spread(10**6))
    ([1, 2, 3], 160)
    """
    if last <= _MOST_MOMENTS:
        return list(range(1, last + 1))
    return [1 + index * (last - 1) // (_MOST_MOMENTS - 1) for index in range(_MOST_MOMENTS)]


def _after(entry: Entry) -> Balance:
    return Balance(entry.total_after, entry.spent_after, entry.reserved_after)


_UNKNOWN = (None, None, None)


def _known(first: DatasetRecord) -> tuple[Meter | None, str | None, str | None]:
    """Return what is known of an account by the data set that it was opened for."""
    delta = delta_of(json.loads(first.spec).get("delta"))
    return meter_of(delta), first.id, first.name
