"""The anchor: what the ledger had come to, noted outside the database before every COMMIT.

A database file that is put back from a backup is sound in itself: its chains
hold, and what was spent since is forgotten. The anchor remembers. Before each
COMMIT it holds, durably, where the transaction is about to take the ledger; so
after a crash the database is found either there or one transaction before, and
anywhere else it is not the database that was last written.

:class:`Anchored` is what an anchor knows, :func:`judge` compares it with what a
database holds. An anchor itself is an :class:`Anchor`: a file
(:mod:`app.store.anchor.file`) or a row in another database.

Comparing a ledger with its anchor from another process, while a server moves both.

The anchor is noted before each COMMIT, so the two are never read at one moment.
It is looked at before the ledger's snapshot is taken and after it: the snapshot
then is one of the states that the anchor went through from the first look to the
second. Where that is none of them, the ledger is not the one that was last
written: a result that has been taken out again, say, with everything that
belongs to it, makes one release more that waits for its result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from sqlalchemy import Connection, bindparam, func, select

from app.domain.ledger import SYSTEM_ACCOUNT
from app.domain.releases import ReleaseState
from app.store.database import tables
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


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the ledger itself says of the time before the present transaction.

    Attributes
    ----------
    moved
        The accounts that the present transaction has read to move them.
    positions
        Returns where accounts were before it.
    settled
        Returns whether any of some releases was settled before it.
    """

    moved: Collection[str]
    positions: Callable[[Sequence[str]], Mapping[str, Position]]
    settled: Callable[[Sequence[str]], bool]


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


# Comparing a ledger with its anchor from another process, while a server moves both


_MOST_LOOKS = 100
_SNAPSHOT = select(tables.ledger.c.id)
_account, _release = tables.account.c, tables.release.c
_POSITIONS = select(_account.id, _account.seq, _account.head, _account.spent)
_UNFINISHED = (
    select(func.count())
    .select_from(tables.release)
    .where(_release.state == ReleaseState.DEBITED.value)
)
_STORED = (
    select(func.count())
    .select_from(tables.release)
    .where(
        _release.id.in_(bindparam("wanted", expanding=True)),
        _release.state.in_([ReleaseState.RELEASED.value, ReleaseState.VOID.value]),
    )
)


def read_state(connection: Connection) -> LedgerState:
    """Return what the database holds, as an anchor would note it."""
    ledger = connection.execute(select(tables.ledger)).one()
    accounts = {
        row.id: Position(row.seq, row.head, row.spent) for row in connection.execute(_POSITIONS)
    }
    return LedgerState(
        ledger=ledger.id,
        epoch=ledger.epoch,
        accounts=accounts,
        unfinished=connection.execute(_UNFINISHED).scalar_one(),
    )


def standing_of(connection: Connection, known: Anchored | None, found: LedgerState) -> Standing:
    """Return how a database stands to what an anchor knows, the last results included.

    With a transaction that does nothing but store results, a copy that lacks one
    of an older release is as far as the state before: only that one has the results.
    """
    standing = judge(known, found)
    if known is None or standing not in (Standing.CURRENT, Standing.BEHIND):
        return standing
    # Where the anchor's last step is done all its results are there, before it none is.
    stored = connection.execute(_STORED, {"wanted": [*known.results]}).scalar_one()
    expected = len(known.results) if standing is Standing.CURRENT else 0
    return standing if stored == expected else Standing.OLDER


def standing_to(connection: Connection, witness: Witness) -> Standing | None:
    """Return how a reader's fresh snapshot stands to the anchor.

    None where the anchor moves too fast to be looked at.

    Raises
    ------
    AnchorError
        The anchor cannot be read.
    """
    for _ in range(_MOST_LOOKS):
        # A fresh snapshot each time: the old one would be compared with looks that came after it.
        before = witness.look()
        connection.rollback()
        connection.execute(_SNAPSHOT).all()
        known = witness.between(before, witness.look())
        if known is not None:
            found = read_state(connection)
            standings = [standing_of(connection, each, found) for each in known]
            # Whichever of the states between the looks the snapshot is: one that fits is enough.
            return next((each for each in standings if not each.frozen), standings[-1])
    return None
