"""Keeping a ledger to its anchor: the check at the start, the note before each COMMIT, the freeze.

A frozen ledger is read as ever and takes no write, because every write either
moves budget or leans on what is not known to be the last state.

*Errors of either database that are the disk's, or for want of memory or descriptors.* Nothing of a
transaction that fails so has been written, and the same may be written later.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.domain.ledger import EntryKind
from app.domain.problems import Problem, StorageError, is_of_storage
from app.domain.releases import ReleaseState
from app.store.anchor.standing import (
    Anchor,
    Anchored,
    AnchorError,
    AnchorMismatchError,
    AnchorMovedError,
    Evidence,
    LedgerState,
    Standing,
    Step,
    Witness,
    read_state,
    standing_of,
)
from app.store.errors import StoreError
from app.store.ledger.entries import SYSTEM, LedgerIdentity, Occasion
from app.store.unit_of_work import UnitOfWork, transaction

# Errors of either database that are the disk's, or for want of memory or descriptors

_OF_SQLITE = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CANTOPEN}
)
_PRIMARY = 0xFF
"""Where SQLite's result codes have what is extended by their other bits."""

_OF_POSTGRESQL = ("53", "58")
"""Classes of SQLSTATE: insufficient resources, system errors."""


class DiskError(StoreError, StorageError):
    """The disk of the database or of its anchor does not take or give what it should."""


def public_error(error: BaseException) -> BaseException:
    """Return an error, or the :class:`DiskError` it is the cause of."""
    if isinstance(error, (DBAPIError, AnchorError, OSError)) and _is_of_disk(error):
        disk = DiskError("the database's disk is full or fails, or nothing can be opened")
        disk.__cause__ = error
        return disk
    return error


@contextmanager
def disk_errors_told() -> Iterator[None]:
    """Raise errors of the disk as disk errors.

    Raises
    ------
    DiskError
        In place of the database's or the operating system's error.
    """
    try:
        yield
    except Exception as error:
        if (disk := public_error(error)) is not error:
            raise disk from error
        raise


def _is_of_disk(error: DBAPIError | AnchorError | OSError) -> bool:
    if isinstance(error, AnchorError):
        return error.__cause__ is not None and is_of_storage(error.__cause__)
    if isinstance(error, OSError):
        return is_of_storage(error)
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & _PRIMARY in _OF_SQLITE
    return str(getattr(error.orig, "sqlstate", "")).startswith(_OF_POSTGRESQL)


# Keeping a ledger to its anchor: the check at the start, the note before each COMMIT, the freeze

_LOST = "lost with the last transaction"

_log = logging.getLogger(__name__)


class Guard:
    """What stands between the writer and its COMMIT.

    Parameters
    ----------
    connection
        The writing connection.
    anchor
        Where the ledger's last state is noted; None keeps no anchor.
    """

    def __init__(self, connection: Connection, anchor: Anchor | None) -> None:
        self._connection = connection
        self._anchor = anchor
        self._notes = ThreadPoolExecutor(1, thread_name_prefix="anchor-note")
        self._noting: Future[None] | None = None
        self.frozen: Standing | None = None

    @property
    def place(self) -> str:
        """Return where the anchor is, for ``/readyz``."""
        return "off" if self._anchor is None else self._anchor.place

    @property
    def witness(self) -> Witness | None:
        """Return a reader of the anchor for other processes, or None."""
        return None if self._anchor is None else self._anchor.witness

    def start(self, identity: LedgerIdentity, *, own: bool) -> None:
        """Compare the database with its anchor, and go on, catch up or freeze.

        Parameters
        ----------
        identity
            The database's ledger.
        own
            Whether the data directory belongs to it.

        Raises
        ------
        UnsupportedDatabaseError
            The anchor is in the ledger's own database.
        AnchorError
            The anchor cannot be read.
        """
        # Rows of another ledger mean nothing to this database.
        if not own:
            self.freeze(Standing.FOREIGN)
        if self._anchor is None or self.frozen:
            return
        # The thread begins here: later there might be none to be had.
        self._notes.submit(int).result()
        with transaction(self._connection):
            # In one transaction, since on PostgreSQL others may be writing.
            self._anchor.witness.require_apart(self._connection)
            found, known = read_state(self._connection), self._anchor.read()
            standing = standing_of(self._connection, known, found)
            if standing.frozen:
                self.freeze(standing)
                return
            behind = standing is Standing.BEHIND and known is not None
            lost = known.follows if behind and known is not None else None
            self._anchor.start(found, lost=lost if isinstance(lost, Step) else None)
        # Another transaction, which notes where it leads before its COMMIT, like every one.
        if behind:
            with transaction(self._connection):
                self.before_commit(UnitOfWork(self._connection, identity))

    def before_commit(self, work: UnitOfWork) -> None:
        """Note where the transaction is about to take the ledger.

        Raises
        ------
        Problem
            ``ledger-frozen``; ``busy`` where another writer has moved the anchor since it was read.
        AnchorError
            The anchor cannot be written.
        """
        self.announce(work)
        work.changes.rows.write()
        self.noted()

    def announce(self, work: UnitOfWork) -> None:
        """Begin to note it, while what the transaction has kept is written.

        Raises
        ------
        Problem
            ``ledger-frozen``.
        """
        self.require_open()
        if self._anchor is None:
            return
        with self._kept_to():
            self._follow(work)
        # After what was lost has been burned, so that the note covers it.
        self._noting = self._notes.submit(self._anchor.begin, _step_of(work))

    def noted(self) -> None:
        """Return once the note is durable: only then may the transaction be committed.

        Raises
        ------
        Problem, AnchorError
            As :meth:`before_commit`.
        """
        if self._noting is not None:
            with self._kept_to():
                self._noting.result()

    @contextmanager
    def _kept_to(self) -> Iterator[None]:
        try:
            yield
        # A late note of a writer that has lost the ledger. This transaction fails, and the next one
        # judges by the ledger what was noted: an older copy, or a second one, is frozen then.
        except AnchorMovedError:
            _log.warning("another writer has moved the anchor: a transaction failed")
            raise Problem("busy") from None
        # Somebody else writes, or an older copy was put in place while it was open.
        except AnchorMismatchError:
            self.freeze(Standing.DIFFERENT)
            raise Problem("ledger-frozen") from None

    def _follow(self, work: UnitOfWork) -> None:
        """Charge for what a noted transaction that was lost would have charged; store its results.

        Whether it was lost in a crash or taken away with an old copy cannot be
        distinguished: in the latter case what it charged for has been answered.
        """
        evidence = Evidence(
            work.changes.before.keys(),
            work.entries.positions_before,
            work.releases.settled_before,
        )
        lost = None if self._anchor is None else self._anchor.settle(evidence)
        if lost is not None:
            # What follows reads what it moves.
            work.changes.rows.write()
            amounts = {
                name: move.pending.spent - (0 if move.before is None else move.before.spent)
                for name, move in lost.moves.items()
            }
            burned = burn(work, amounts, note=_LOST)
            # The same bytes again, never a new draw: they may have been answered.
            store_results(work, lost.results)
            # Results stored here belong to the chain like all others.
            work.releases.seal()
            _log.warning(
                "the last transaction was lost: accounts burned, results stored again",
                extra={"accounts": len(burned), "results": len(lost.results)},
            )

    def rolled_back(self) -> None:
        """Hear that the transaction noted last has not been committed."""
        # One thread at a time uses the anchor. What it could not note is nothing to take back.
        noted = self._noting is not None and self._noting.exception() is None
        if self._anchor is not None and noted:
            self._anchor.undo()

    def require_open(self) -> None:
        """Pass unless the ledger is frozen.

        Raises
        ------
        Problem
            ``ledger-frozen``.
        """
        if self.frozen is not None:
            raise Problem("ledger-frozen")

    def check(self, mismatches: Collection[str]) -> None:
        """Freeze where rows are not as the entries say: what they allow has not been decided."""
        if mismatches and self.frozen is None:
            self.freeze(Standing.EDITED)

    def freeze(self, why: Standing) -> None:
        """Take no write any more until a reconciliation."""
        self.frozen = why
        _log.error("the ledger is frozen", extra={"reason": why.value})

    def stop(self) -> None:
        """Wait for a note that is under way, and begin no other."""
        self._notes.shutdown()

    def close(self) -> None:
        """Close the anchor."""
        self.stop()
        if self._anchor is not None:
            self._anchor.close()


def _step_of(work: UnitOfWork) -> Step:
    """Return what a unit of work has come to."""
    changes = work.changes
    return Step(
        moves=changes.moves(),
        unfinished_change=changes.debits - len(changes.settled),
        results={**changes.settled},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Burned:
    """What an account was charged for what the database has forgotten (in the account's unit)."""

    account: str
    amount: int


def forgotten(found: LedgerState, known: Anchored) -> Mapping[str, int]:
    """Return how much more than the database knows of accounts must have spent."""
    there = {name: at.spent for name, at in found.accounts.items()}
    more = {name: most - there.get(name, 0) for name, most in known.spent.items()}
    return {name: amount for name, amount in more.items() if amount > 0}


def burn(work: UnitOfWork, amounts: Mapping[str, int], *, note: str) -> tuple[Burned, ...]:
    """Burn these amounts; open again the accounts that are gone.

    What waits for a review makes room. Where an account's total still does not
    cover it, because a grant has been forgotten with it, the total is raised to
    just that: nothing remains.
    """
    burned = []
    for account, amount in sorted(amounts.items()):
        if amount <= 0:
            continue
        occasion = Occasion(principal=SYSTEM, note=note)
        if work.accounts.get(account) is None:
            work.entries.open_account(account, 0, occasion)
            work.accounts.system_entry("account_opened", principal=SYSTEM, note=account)
        remaining = work.reviews.make_room(account, amount, reason=note)
        # The total grows by just what is missing: burning must never fail, and
        # leaves nothing to spend.
        if amount > remaining:
            work.entries.append(account, EntryKind.GRANT, amount - remaining, occasion)
        work.entries.append(account, EntryKind.BURN, amount, occasion)
        burned.append(Burned(account=account, amount=amount))
    return tuple(burned)


def store_results(work: UnitOfWork, results: Mapping[str, bytes | None]) -> None:
    """Store results whose releases still wait for them; these bytes may have been answered."""
    for name, result in results.items():
        release = work.releases.get(name)
        waits = release is not None and release.state is ReleaseState.DEBITED
        if waits and result is not None:
            work.releases.finish(name, result)
