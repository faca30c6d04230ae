"""Verification: walk every chain and compare every sum, whatever the triggers let through.

For each account, in order of sequence: the numbers have no gap, every hash is
that of its entry and binds the one before, every balance follows from the one
before by the entry's kind and amount. Then: the account's row is its last
entry; the system account knows of every account, data set and key, each as it
was made and none of them gone or brought back; each release is what its charge
was made for, and each result has its hash.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, select
from sqlalchemy.exc import DatabaseError

from app.domain.ledger import (
    GENESIS,
    SYSTEM_ACCOUNT,
    Balance,
    Entry,
    chain_hash,
    ledger_head,
)
from app.domain.releases import ReleaseState, plan_digest, request_fingerprint
from app.store import tables
from app.store.datasets import dataset_of
from app.store.entries import entry_of
from app.store.keys import key_of
from app.store.records import AccountRecord, Verification

_MOST_FAULTS = 20
_PAGE = 1000
_CHARGES = ("debit", "reserve")

_entry, _release = tables.entry.c, tables.release.c


def verify(connection: Connection) -> Verification:
    """Walk the whole ledger on this connection's snapshot.

    Reads entries in pages, so memory does not grow with the ledger; a damaged
    file is a fault, not an error.
    """
    walk = _Walk()
    try:
        walk.chains(connection)
        walk.registry(connection)
        walk.releases(connection)
    except (DatabaseError, TypeError, ValueError, OverflowError):
        walk.fault("the database file cannot be read through")
    return Verification(
        entries=walk.entries, head=ledger_head(walk.heads), faults=tuple(walk.faults)
    )


class _Walk:
    """What has been seen so far."""

    def __init__(self) -> None:
        self.entries = 0
        self.heads: list[str] = []
        self.faults: list[str] = []
        # What the system account has recorded: kind -> id -> digest.
        self.recorded: defaultdict[str, dict[str | None, str | None]] = defaultdict(dict)

    def fault(self, text: str) -> None:
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(text)

    def chains(self, connection: Connection) -> None:
        """Walk every account's entries and compare its row."""
        ledger = connection.execute(select(tables.ledger)).one_or_none()
        if ledger is None:
            self.fault("the ledger has no identity")
            return
        accounts = {
            row.id: AccountRecord(**row._mapping)
            for row in connection.execute(select(tables.account))
        }
        self.heads = [account.head for account in accounts.values()]
        walked: set[str] = set()
        for name, chain in groupby(_all_entries(connection), key=lambda entry: entry.account):
            if name in walked:
                self.fault(f"account {name}: its entries are out of order")
            walked.add(name)
            self._chain(name, chain, ledger, accounts.get(name))
        for name in sorted(accounts.keys() - walked):
            self.fault(f"account {name}: it has no entries")
        self._same("account", accounts.keys() - {SYSTEM_ACCOUNT}, "account_opened")

    def registry(self, connection: Connection) -> None:
        """Compare data sets and keys with what the system account has recorded."""
        datasets = [dataset_of(row) for row in connection.execute(select(tables.dataset))]
        keys = [key_of(row) for row in connection.execute(select(tables.api_key))]
        for what, records, created in (
            ("data set", datasets, "dataset_created"),
            ("key", keys, "key_created"),
        ):
            self._same(what, {record.id for record in records}, created)
            for record in records:
                if self.recorded[created].get(record.id) != record.digest:
                    self.fault(f"{what} {record.id}: it has been edited")
        self._same("data set", {x.id for x in datasets if x.archived_at}, "dataset_archived")
        lineages = connection.execute(select(tables.lineage)).all()
        self._same("data set", {row.dataset for row in lineages}, "lineage_kept")
        for row in lineages:
            if self.recorded["lineage_kept"].get(row.dataset) != row.sha256:
                self.fault(f"data set {row.dataset}: its lineage has been edited")
        self._same("key", {x.id for x in keys if x.revoked_at}, "key_revoked")

    def _same(self, what: str, found: Collection[str], kind: str) -> None:
        """Fault everything that only one of the table and the system account knows of."""
        recorded = {name for name in self.recorded[kind] if name is not None}
        for name in sorted(recorded ^ set(found)):
            self.fault(f"{what} {name}: the system account disagrees about {kind}")

    def _chain(
        self,
        name: str,
        chain: Iterator[Entry],
        ledger: Row[Any],
        account: AccountRecord | None,
    ) -> None:
        last: Entry | None = None
        for entry in chain:
            self.entries += 1
            problem = _fault_of(entry, last, ledger)
            if problem is not None:
                self.fault(f"account {name}, entry {entry.seq}: {problem}")
            if name == SYSTEM_ACCOUNT:
                self.recorded[entry.kind][entry.note] = entry.fingerprint
            last = entry
        if account is None:
            self.fault(f"account {name}: it has entries and no balance")
        elif last is not None and (
            (account.seq, account.head, account.balance)
            != (last.seq, last.hash, last.balance_after)
        ):
            self.fault(f"account {name}: its balance is not its last entry's")

    def releases(self, connection: Connection) -> None:
        """Match releases with their charges, both ways, and results with their hashes."""
        query = (
            select(
                tables.release,
                _entry.release.label("charged"),
                _entry.principal.label("charged_to"),
                _entry.fingerprint.label("charged_for"),
                _entry.note.label("charged_plan"),
            )
            .outerjoin(
                tables.entry,
                (_entry.account == _release.account) & (_entry.seq == _release.seq),
            )
            .execution_options(yield_per=_PAGE)
        )
        for row in connection.execute(query):
            problem = _release_fault_of(row)
            if problem is not None:
                self.fault(f"release {row.id}: {problem}")
        uncharged = (
            select(_entry.account, _entry.seq)
            .outerjoin(tables.release, _release.id == _entry.release)
            .where(_entry.kind.in_(_CHARGES), _release.id.is_(None))
            .limit(_MOST_FAULTS)
        )
        for row in connection.execute(uncharged):
            self.fault(f"account {row.account}, entry {row.seq}: its release is missing")


def _all_entries(connection: Connection) -> Iterator[Entry]:
    query = (
        select(tables.entry).order_by(_entry.account, _entry.seq).execution_options(yield_per=_PAGE)
    )
    return (entry_of(row) for row in connection.execute(query))


def _fault_of(entry: Entry, last: Entry | None, ledger: Row[Any]) -> str | None:
    """Return what is wrong with an entry, given the one before it."""
    seq, prev, epoch, before = 0, GENESIS, 1, Balance(0)
    if last is not None:
        seq, prev, epoch, before = last.seq, last.hash, last.epoch, last.balance_after
    checks = (
        (entry.seq == seq + 1, "an entry before it is missing"),
        (entry.prev == prev, "it does not continue the entry before it"),
        (entry.hash == chain_hash(entry, ledger.id), "it has been edited"),
        ((entry.kind == "open") == (last is None), "only an account's first entry opens it"),
        (
            before.may_become(entry.balance_after, entry.kind, entry.amount),
            "its balance does not follow",
        ),
        (epoch <= entry.epoch <= ledger.epoch, "its epoch does not follow"),
    )
    return next((fault for holds, fault in checks if not holds), None)


def _release_fault_of(row: Row[Any]) -> str | None:
    """Return what is wrong with a release, given the entry that charged it."""
    hashed = None if row.result is None else hashlib.sha256(row.result).hexdigest()
    asked = request_fingerprint(dataset=row.dataset, request=row.request)
    checks = (
        (
            row.charged == row.id and row.charged_for == row.fingerprint,
            "it is not what its entry charged for",
        ),
        (row.charged_to == row.principal, "it belongs to another person than was charged"),
        (row.fingerprint == asked, "its request has been edited"),
        (row.charged_plan == plan_digest(row.plan), "its plan has been edited"),
        (
            (row.state == ReleaseState.RELEASED) == (row.result is not None),
            "its state does not fit its result",
        ),
        (hashed == row.result_hash, "its result has been edited"),
    )
    return next((fault for holds, fault in checks if not holds), None)
