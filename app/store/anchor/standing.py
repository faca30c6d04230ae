"""The anchor: what the ledger had come to, noted outside the database before every COMMIT.

A database file that is put back from a backup is sound in itself: its chains
hold, and what was spent since is forgotten. The anchor remembers. Before each
COMMIT it holds, durably, where the transaction is about to take the ledger; so
after a crash the database is found either there or one transaction before, and
anywhere else it is not the database that was last written.

:class:`Anchored` is what an anchor knows, :func:`judge` compares it with what a
database holds. An anchor itself is an :class:`Anchor`: a file
(:mod:`app.store.anchor.file`) or a row in another database.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from sqlalchemy import Connection

from app.domain.ledger import SYSTEM_ACCOUNT
from app.store.errors import StoreError
from app.store.ledger.entries import Move, Position


class AnchorError(StoreError):
    """The anchor cannot be read or written."""


class AnchorMismatchError(AnchorError):
    """The database is not where the anchor left it."""


class AnchorMovedError(AnchorMismatchError):
    """Another writer has moved the anchor since it was read; the next transaction reads it again.

    A writer whose connection to the ledger was cut loses the ledger's lock while its note is under
    way, so the note can come after another writer has read the anchor.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerState:
    """Everything of a ledger that an older copy of it would have otherwise.

    ``unfinished`` counts the releases that are charged and have no result:
    with equal accounts, a copy that has more of them lacks results that may
    have been answered already.
    """

    ledger: str
    epoch: int
    accounts: Mapping[str, Position]
    unfinished: int

    def after(self, step: Step) -> LedgerState:
        """Return the state that a transaction leads to."""
        moved = {name: move.pending for name, move in step.moves.items()}
        unfinished = self.unfinished + step.unfinished_change
        return replace(self, accounts={**self.accounts, **moved}, unfinished=unfinished)

    @property
    def pristine(self) -> bool:
        """Return whether nothing has happened in this ledger, so nothing can be lost."""
        if self.unfinished or self.epoch != 1:
            return False
        return {name: at.seq for name, at in self.accounts.items()} == {SYSTEM_ACCOUNT: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One transaction that is about to be committed.

    ``results`` holds the bytes that it stores, by release: should the database
    turn out to lack them, they are stored again instead of drawn again. A
    release that it gives up has None.
    """

    moves: Mapping[str, Move]
    unfinished_change: int
    results: Mapping[str, bytes | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Anchored:
    """What an anchor knows: the last state that is certain, and what was to follow it.

    ``state`` is None when a reconciliation began without any; ``follows`` is a
    transaction, or the whole state that a reconciliation was to lead to.
    """

    state: LedgerState | None
    follows: Step | LedgerState | None = None

    @property
    def latest(self) -> LedgerState | None:
        """Return the state if what was to follow has happened."""
        match self.follows:
            case None:
                return self.state
            case Step():
                return None if self.state is None else self.state.after(self.follows)
            case _:
                return self.follows

    @property
    def spent(self) -> Mapping[str, int]:
        """Return the most that each account can have spent."""
        found: dict[str, int] = {}
        for state in (self.state, self.latest):
            for name, at in () if state is None else state.accounts.items():
                # Whether the last step happened is unknown: a burn must be for the larger.
                found[name] = max(at.spent, found.get(name, 0))
        return found

    @property
    def results(self) -> Mapping[str, bytes | None]:
        """Return the results that the last transaction was to store."""
        return self.follows.results if isinstance(self.follows, Step) else {}


class Standing(StrEnum):
    """How a database compares with its anchor."""

    NEW = "a new ledger without an anchor"
    CURRENT = "matches"
    BEHIND = "one transaction before the anchor, as after a crash"
    FORGOTTEN = "there is no anchor for it"
    FOREIGN = "it is another ledger than the anchor's"
    OLDER = "it lacks what the anchor knows of"
    DIFFERENT = "it is not what the anchor knows"
    EDITED = "its tables do not hold what its entries say"

    @property
    def frozen(self) -> bool:
        """Return whether nothing may be charged before a reconciliation."""
        return self not in (Standing.NEW, Standing.CURRENT, Standing.BEHIND)


def judge(known: Anchored | None, found: LedgerState) -> Standing:
    """Compare an anchor with a database.

    Anything that a crash cannot explain is frozen: only the state the anchor
    ends in, and the one a single transaction before it, are.
    """
    latest = None if known is None else known.latest
    if known is None or latest is None:
        return Standing.NEW if found.pristine else Standing.FORGOTTEN
    if found == latest:
        return Standing.CURRENT
    # After a crash between the note and the COMMIT; a reconciliation must be gone through again.
    if found == known.state and isinstance(known.follows, Step):
        return Standing.BEHIND
    if found.ledger != latest.ledger:
        return Standing.FOREIGN
    older = found.epoch < latest.epoch or any(
        name not in found.accounts or found.accounts[name].seq < at.seq
        for name, at in latest.accounts.items()
    )
    # With equal accounts it is the counts that differ: results are missing.
    return Standing.OLDER if older or found.accounts == latest.accounts else Standing.DIFFERENT


class Evidence(Protocol):
    """What the ledger itself says of the time before the present transaction."""

    @property
    def moved(self) -> Collection[str]:
        """Return the accounts that the present transaction moves."""

    def positions(self, accounts: Sequence[str]) -> Mapping[str, Position]:
        """Return where accounts were before the present transaction."""

    def settled(self, releases: Sequence[str]) -> bool:
        """Return whether any of these releases was settled before the present transaction."""


class Witness(Protocol):
    """An anchor that is read and not held: the ledger's writer goes on."""

    def require_apart(self, ledger: Connection) -> None:
        """Pass unless the anchor is in the ledger's own database, to which this connection is.

        Raises
        ------
        UnsupportedDatabaseError
            It is.
        AnchorError
            It cannot be reached.
        """

    def look(self) -> Any:
        """Return what the anchor is now.

        Raises
        ------
        AnchorError
            It cannot be read.
        """

    def between(self, before: Any, after: Any) -> Sequence[Anchored | None] | None:
        """Return what the anchor has known from one look to another, both included.

        None where that is no longer known.
        """


class Anchor(Protocol):
    """Where a ledger's last state is noted. One thread at a time uses it."""

    place: str

    @property
    def witness(self) -> Witness:
        """Return a reader of it for any thread or process."""

    def read(self) -> Anchored | None:
        """Return what it knows; None when there is nothing yet."""

    def start(self, state: LedgerState, *, lost: Step | None) -> None:
        """Go on from the state that the database has been found in.

        ``lost`` is a transaction that has been noted and has not happened.
        """

    def settle(self, evidence: Evidence) -> Step | None:
        """Find out what became of the transaction noted last; return it if it was lost.

        Raises
        ------
        AnchorMismatchError
            The ledger is neither before nor after it.
        """

    def begin(self, step: Step) -> None:
        """Note a transaction, durably, before its COMMIT, once the one before it is settled.

        Raises
        ------
        AnchorMismatchError
            The transaction does not start where the anchor is.
        AnchorError
            It cannot be noted; the transaction must not be committed.
        """

    def undo(self) -> None:
        """Take back the transaction begun last: its COMMIT has failed."""

    def adopt(self, state: LedgerState) -> None:
        """Note, durably, the state that a reconciliation is about to commit."""

    def close(self) -> None:
        """Close it."""
