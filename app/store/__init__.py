"""The store: one database, one writer at a time, and the ledger it must never break.

Open it once per process. On SQLite a second server on the same directory is
refused; a PostgreSQL database may be open in many processes (``store.shared``)::

    store = Store.open("sqlite:////srv/data/release-desk.sqlite", data_dir=Path("/srv/data"))
    ...
    store.close()

*Reading*, from any thread, on a read-only connection with one snapshot per block::

    with store.reading() as r:
        r.accounts.get(account_id)                    -> AccountRecord | None
        r.accounts.balance(account_id)                -> Balance without grants that are over
        r.accounts.spent_by(account_id, principal)    -> int, in its unit ("yours")
        r.accounts.cap(account_id, person) / .caps(account_id, Span(after=number, limit=))
        r.entries.list(account_id, after=seq, limit=) -> list[Entry], oldest first
        r.journal.page(Wanted(account=, kind=, person=, until=), skip=, limit=)   newest first
        r.releases.get(id) / .known({(principal, idem), ...}) without results
        r.releases.list(principal=, dataset=, state=, before=number, limit=)   newest first
        r.releases.page(..., most_bytes=, shown=)     -> ReleasePage; results of what is shown only
        r.reviews.waiting_since(time) / .waiting_for(dataset)   -> ids of what is reserved
        r.datasets.get(id) / .by_name(name) / .list(before=number, limit=)
        r.keys.get(id) / .by_secret_hash(hash) / .list(before=number, limit=) / .count()
        r.pauses.list(after=number, limit=) / .get(what, name)
        r.publications.get(release) / .list(wanted, before=number, limit=)   what is public
        r.log.size() / .unlogged(ledger) / .hashes(first, until) / .place_of(account, seq)
        r.log.newest_checkpoint() / .checkpoint_of(size) / .checkpoint_covering(leaf)
        r.verify()                                    -> Verification of this snapshot

*Writing*: hand the writer a function of the unit of work. It runs in the writer
thread, in a transaction shared with whatever else waits, and
returns once that transaction is on disk. What the function raises is raised
here, with its writes undone and no others. It may be run several times (when
anything of a shared transaction fails, each half is tried again), so it must have
no other effects. A full queue refuses with the problem ``busy``::

    store.write(lambda u: ...)            # blocks
    await store.awrite(lambda u: ...)     # a cancelled waiter cancels nothing

    u.accounts.open(total=, principal=, reason=, id=None)    -> AccountRecord
    u.accounts.grant(account_id, amount, principal=, reason=, expires_at=None) -> Entry
    u.accounts.expire_due()                                  ends grants that are over
    u.accounts.set_cap(account_id, person, amount, principal=, reason=) -> CapRecord
    u.releases.claim(worker)                 -> ReleaseRecord to draw (or void), or None
    u.releases.hand_back(id, worker=)        back into the queue
    u.releases.finish(id, result_bytes)      -> ReleaseRecord, 'released'
    u.releases.void(id)                      -> ReleaseRecord, the charge stays
    u.reviews.reserve(account=, amount=, dataset=, principal=, request=, plan=, idem=)
                                             -> ReleaseRecord, 'reserved': nothing is drawn
    u.reviews.approve(id, principal=, reason=)   -> ReleaseRecord, 'debited'
    u.reviews.unreserve(id, state, principal=, reason=)   rejected, withdrawn or expired
    u.reviews.expire(time)                   -> how many waited since then: given back, not all
                                             at once; .make_room(account, amount, reason=)
    u.datasets.insert(name=, account=, spec=, rows=, principal=, id=None, lineage=None,
                      manifest=None, extends=None)
    u.datasets.archive(id, principal=)       -> DatasetRecord (idempotent)
    u.keys.insert(name=, role=, person=, secret_hash=, expires_at=, principal=) -> KeyRecord
    u.keys.revoke(id, principal=)            -> KeyRecord (idempotent)
    u.pauses.pause(what, name, principal=, reason=) -> PauseRecord; .resume(what, name, ...)
    u.sessions.begin(record) / .see(token, at_s=) / .end(token)   of browsers; no entry
    u.forms.claim(person, form, at_s=) / .done(..., location=) / .forget(...)   sent once
    u.publications.publish(release=, dataset=, ...) / .withdraw(release, principal=, note=)
    u.log.append(parts) / .add_checkpoint(size, root, note)    of the public log
    u.accounts.system_entry(kind, principal=, fingerprint=, note=)   -> Entry on account 0

All amounts are integers of the account's unit: 1e-9 epsilon, or 1e-12 rho in zCDP. ``u``
reads as well as writes. What releases need all the time are *commands* instead, which the
writer does for all that wait at once::

    await store.awrite(Debit(dataset=, principal=, idem=, amount=, request=, plan=,
                             worker=None))
        -> Charged(record, fresh): the release just charged for, or the one that the
           Idempotency-Key already has: compare its fingerprint, replay its result
    await store.awrite(Finish(release=id, result=bytes))     -> ReleaseRecord
    await store.awrite(Void(release=id))                     -> ReleaseRecord

A charge stores ``request_fingerprint(dataset=dataset, request=request)`` itself. Keys,
data sets and archiving write their system entry themselves.

*Problems raised*: ``budget-exceeded`` (``BudgetExceededError``: integers), ``name-taken``,
``not-found``, ``busy``, ``invalid-request`` (a grant above the largest total).

*Drawing*: a charged release has a ``worker``, or waits in the queue. A worker is
alive until its lease ends (``u.workers.beat(id, lease_ms=)``, ``u.workers.end(id)``;
``u.workers.alone(id)`` where one process at a time may write); what a dead one left
is claimed like the queue, its attempts counted. ``r.releases.debited()`` lists all
that is charged and not drawn; ``begin_attempt`` counts another try before it is made.

*Starting and checking*:
``store.verify()`` walks the whole ledger, compares it with its anchor, and returns a
:class:`Verification`. ``inspecting(url)`` compares with the ``witness`` it is given.
``store.key`` signs receipts; ``r.entries.of_system(RECEIPT_KEY)`` are the public
keys that the ledger has recorded.
``with inspecting(url) as r`` is a reader without the lock, for a command next to
a running server.

May enter: what reads or writes the ledger, and what watches over it. May import: the domain,
``app.vault`` for the files next to the database, and what opens databases; no use case.
"""

from __future__ import annotations

from app.store.anchor.file import FileAnchor, FileWitness
from app.store.anchor.standing import Anchor, Standing, Witness
from app.store.database.engines import sqlite_file
from app.store.database.lock import keep_private, was_served
from app.store.errors import (
    DirectoryLockedError,
    OutdatedDataError,
    StoreError,
    UnknownCommitError,
)
from app.store.external_signing import ProgramKey, key_of
from app.store.ledger.commands import Charged, Debit, Finish, Portion, Void
from app.store.ledger.entries import LedgerIdentity
from app.store.ledger.records import (
    AccountRecord,
    CapRecord,
    DatasetRecord,
    DatasetStatus,
    KeyRecord,
    LineageRecord,
    ReleaseRecord,
    VersionRecord,
    new_id,
)
from app.store.ledger.releases import ReleasePage
from app.store.ledger.signing import RECEIPT_KEY, KeySource, ReceiptKey, SigningKey, base64url
from app.store.merkle_log import KeptStamp, LogTree
from app.store.opening import back_up
from app.store.reconciliation import (
    DigestHistory,
    Findings,
    Forgotten,
    Reconciliation,
    read_digest_history,
    reconciling,
)
from app.store.store import Store, inspecting
from app.store.unit_of_work import Reader, UnitOfWork, Wanted
from app.store.verification.marks import Mark
from app.store.verification.verify import (
    MOST_FAULTS,
    VERIFIED,
    Verification,
    earlier_mark,
    keep_mark,
)
from app.store.writer import Task

__all__ = [
    "MOST_FAULTS",
    "RECEIPT_KEY",
    "VERIFIED",
    "AccountRecord",
    "Anchor",
    "CapRecord",
    "Charged",
    "DatasetRecord",
    "DatasetStatus",
    "Debit",
    "DigestHistory",
    "DirectoryLockedError",
    "FileAnchor",
    "FileWitness",
    "Findings",
    "Finish",
    "Forgotten",
    "KeptStamp",
    "KeyRecord",
    "KeySource",
    "LedgerIdentity",
    "LineageRecord",
    "LogTree",
    "Mark",
    "OutdatedDataError",
    "Portion",
    "ProgramKey",
    "Reader",
    "ReceiptKey",
    "Reconciliation",
    "ReleasePage",
    "ReleaseRecord",
    "SigningKey",
    "Standing",
    "Store",
    "StoreError",
    "Task",
    "UnitOfWork",
    "UnknownCommitError",
    "Verification",
    "VersionRecord",
    "Void",
    "Wanted",
    "Witness",
    "back_up",
    "base64url",
    "earlier_mark",
    "inspecting",
    "keep_mark",
    "keep_private",
    "key_of",
    "new_id",
    "read_digest_history",
    "reconciling",
    "sqlite_file",
    "was_served",
]
