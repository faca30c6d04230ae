"""Going on with a database that is not the one that was last written.

Reconciling takes the database as it is and charges it for everything that the
anchor knows was spent and the database does not: what was released may have
been seen. Releases that wait for a result are given up, because their results
may have been seen too. The epoch goes up, so every later entry differs from
those of the life that was cut off. Data sets that the database does not know and
whose row digests are there are written down: see :mod:`app.store.reconciliation`. All of
it is in the ledger.

*What reconciliations have left: data sets that a database has forgotten, and their accounts.* A
database that is put in place of a newer one knows nothing of the data sets uploaded since; their
people have been spent on all the same. A reconciliation opens their accounts again, as the anchor
knows of them, and writes down whose row digests are there without a data set. So the same people
are found when they come back, and belong into the account that was opened again. An account of
which no digests say whose it was, and that no data set has been attached to since, may belong to
any people.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sqlalchemy import update

from app.domain.ledger import ledger_head
from app.store.anchor.standing import Anchor, Anchored, Standing, read_state, standing_of
from app.store.database import tables
from app.store.errors import DirectoryLockedError
from app.store.guard import Burned, burn, forgotten, store_results
from app.store.ledger.entries import SYSTEM, LedgerIdentity
from app.store.ledger.signing import ReceiptKey, SigningKey, record_key, recorded_keys
from app.store.opening import Opened, open_database
from app.store.unit_of_work import Reader, UnitOfWork, transaction
from app.store.verification.verify import Verification, verify
from app.vault.lineage import LineageFiles, Origin

# What reconciliations have left: data sets that a database has forgotten, and their accounts

KIND = "lineage_forgotten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """A data set that the database does not know: the SHA-256 of its digests, and whose it was."""

    dataset: str
    sha256: str
    origin: Origin | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestHistory:
    """What reconciliations have left.

    Attributes
    ----------
    datasets
        Forgotten data sets whose digests were there; without an origin where that account
        is gone too.
    reopened
        Accounts that were opened again.
    unidentified
        Those of them whose people are unknown.
    """

    datasets: tuple[Forgotten, ...]
    reopened: tuple[str, ...]
    unidentified: tuple[str, ...]

    def accounts_of(self, dataset: Forgotten) -> tuple[str, ...]:
        """Return the accounts that a forgotten data set may be in: its own, or all of them."""
        return self.reopened if dataset.origin is None else (dataset.origin.account,)

    def origin_of(self, account: str) -> Origin | None:
        """Return what is fixed with an account that was opened again, as far as it is known."""
        origins = [each.origin for each in self.datasets if each.origin is not None]
        return next((each for each in origins if each.account == account), None)


def read_digest_history(reader: Reader | UnitOfWork) -> DigestHistory:
    """Return what reconciliations have left."""
    datasets = []
    for entry in reader.entries.of_system(KIND):
        each = _read(entry.note or "", entry.fingerprint or "")
        gone = each.origin is not None and reader.accounts.get(each.origin.account) is None
        # Its account is gone as well, so which of the reopened ones it was in is not known.
        datasets.append(replace(each, origin=None) if gone else each)
    accounts = {each.origin.account for each in datasets if each.origin is not None}
    reopened = reader.accounts.reopened()
    return DigestHistory(
        datasets=tuple(datasets),
        reopened=tuple(reopened),
        unidentified=tuple(
            name for name, empty in reopened.items() if empty and name not in accounts
        ),
    )


def find_forgotten(
    reader: Reader, files: LineageFiles, *, spent: Mapping[str, int]
) -> tuple[Forgotten, ...]:
    """Return the data sets whose digests are there, and that are not recorded yet.

    But for those of accounts that are gone and of which it is known that nothing
    was ever ``spent``: their people may come in as if for the first time.
    """
    known = {each.dataset for each in read_digest_history(reader).datasets}
    found = []
    for name in files.kept():
        if name in known or reader.datasets.get(name) is not None:
            continue
        origin = files.origin(name)
        gone = origin is not None and reader.accounts.get(origin.account) is None
        # Nothing was ever spent on them, so nothing about them has been released.
        if not (gone and origin is not None and spent.get(origin.account) == 0):
            found.append(Forgotten(dataset=name, sha256=files.sha256_of(name), origin=origin))
    return tuple(found)


def record_forgotten(work: UnitOfWork, forgotten: tuple[Forgotten, ...]) -> None:
    """Write down which data sets have been forgotten; the system account keeps it."""
    for each in forgotten:
        origin = None if each.origin is None else asdict(each.origin)
        note = json.dumps({"dataset": each.dataset, "origin": origin})
        work.accounts.system_entry(KIND, principal=SYSTEM, fingerprint=each.sha256, note=note)


def _read(note: str, sha256: str) -> Forgotten:
    said = json.loads(note)
    origin = None if said["origin"] is None else Origin(**said["origin"])
    return Forgotten(dataset=said["dataset"], sha256=sha256, origin=origin)


# Going on with a database that is not the one that was last written

_NOTE = "forgotten by the database that was put in place"


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a reconciliation is about to do.

    ``lost`` is what each account will be charged, in its own unit;
    ``unfinished`` counts the releases that will be given up, and ``forgotten`` are
    the data sets whose people are identified by their row digests alone.
    """

    standing: Standing
    ledger: str
    anchored: str | None
    lost: Mapping[str, int]
    unfinished: int
    forgotten: tuple[Forgotten, ...]
    verification: Verification


class Reconciliation:
    """A ledger that no other process has open, and its anchor."""

    def __init__(
        self, opened: Opened, anchor: Anchor | None, key: ReceiptKey, lineage: LineageFiles
    ) -> None:
        self._connection = opened.connection
        self._lock = opened.lock
        self._anchor = anchor
        self._key = key
        self._known: Anchored | None = None
        with transaction(self._connection):
            if anchor is not None:
                anchor.witness.require_apart(self._connection)
                self._known = anchor.read()
            self._found = read_state(self._connection)
            self._judged = standing_of(self._connection, self._known, self._found)
            spent = {} if self._known is None else self._known.spent
            self._forgotten = find_forgotten(Reader(self._connection), lineage, spent=spent)
        self._own = self._lock.belongs_to(self._found.ledger)

    def findings(self) -> Findings:
        """Compare the database with the anchor and verify it, changing nothing."""
        latest = None if self._known is None else self._known.latest
        with transaction(self._connection):
            verification = verify(self._connection)
        return Findings(
            standing=self._standing(),
            ledger=self._found.ledger,
            anchored=None if latest is None else latest.ledger,
            lost=self._lost(),
            unfinished=self._found.unfinished,
            forgotten=self._forgotten,
            verification=verification,
        )

    def _lost(self) -> Mapping[str, int]:
        """Return what each account will be charged."""
        return forgotten(self._found, self._known or Anchored(None))

    def _standing(self) -> Standing:
        if not self._own:
            return Standing.FOREIGN
        if self._anchor is None:
            return Standing.CURRENT
        return self._judged

    def apply(self) -> tuple[Burned, ...]:
        """Burn the difference, give up what waits, raise the epoch, and move the anchor along."""
        known = self._known or Anchored(None)
        epochs = [s.epoch for s in (self._found, known.state, known.latest) if s is not None]
        # Above every epoch that the anchor knows of: the life that was cut off may
        # have had newer ones.
        identity = LedgerIdentity(self._found.ledger, max(epochs) + 1)
        with transaction(self._connection):
            # First: entries must be of the ledger's epoch, by rule.
            self._connection.execute(update(tables.ledger).values(epoch=identity.epoch))
            work = UnitOfWork(self._connection, identity)
            burned = burn(work, self._lost(), note=_NOTE)
            record_forgotten(work, self._forgotten)
            # Results that the anchor still has are kept; only what is left is given up.
            store_results(work, known.results)
            work.releases.seal()
            for release in work.releases.debited():
                work.releases.void(release.id)
            anchored = _head_of(known)
            work.accounts.system_entry(
                "reconciled", principal=SYSTEM, fingerprint=anchored, note=self._standing().name
            )
            if recorded_keys(work.entries)[-1:] != [self._key.public]:
                record_key(work.entries, self._key)
            if self._anchor is not None:
                # Noted before the COMMIT, as always: a crash between the two is found at
                # the next start.
                self._anchor.adopt(read_state(self._connection))
        # Not before: a ledger that is not reconciled yet would pass for the directory's own.
        self._lock.give_to(identity.id)
        return burned


@contextmanager
def reconciling(
    url: str, *, data_dir: Path, anchor: Anchor | None, key: ReceiptKey | None = None
) -> Iterator[Reconciliation]:
    """Open a ledger for a reconciliation, under the lock that servers take.

    Raises
    ------
    StoreError
        A server runs, or the database cannot hold a ledger.
    """
    with ExitStack() as held:
        if anchor is not None:
            held.callback(anchor.close)
        opened = open_database(url, data_dir=data_dir)
        held.callback(opened.close)
        # On PostgreSQL servers share the directory, so the lock alone does not keep them out.
        if not opened.lock.alone:
            raise DirectoryLockedError("a server is running here; stop it first")
        own = key or SigningKey.of(data_dir)
        yield Reconciliation(opened, anchor, own, LineageFiles(data_dir))


def _head_of(known: Anchored) -> str | None:
    """Return the head of the ledger that the anchor knew."""
    latest = known.latest
    return None if latest is None else ledger_head(at.head for at in latest.accounts.values())
