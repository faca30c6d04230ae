"""Ledger entries: reading them and appending the next one of an account.

Nothing else in the code inserts an entry or moves an account.

Many rows in one statement, for the writer's batched path.

A statement that carries its rows is one call of the driver: it takes the
interpreter's lock once and not once per row, which is what bounds a writer
thread next to a busy event loop. The list of rows is filled up with NULLs to one
of a few sizes, so that few texts are ever prepared: a statement must pass over
a row whose first column is NULL. Its columns are ``column1``, ``column2`` and so
on, on both databases.

*Rows that wait.* What a group commit writes is known before most of it is written. Such rows wait,
by statement, until the anchor's note is under way, so that its flush and the statements take their
time together; or until something needs to read them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from sqlalchemy import Connection, CursorResult, Row, bindparam, func, insert, select, text

from app.domain.ledger import (
    GENESIS,
    SYSTEM_ACCOUNT,
    Balance,
    Entry,
    EntryKind,
    hash_of_columns,
)
from app.domain.policies import SERVICE, Acting
from app.domain.problems import Problem
from app.store.database import tables
from app.store.errors import LostUpdateError
from app.store.ledger import expiries
from app.store.ledger.records import AccountRecord, now

_MOST = 256  # rows of a statement: databases limit how many values one may have


def insert_of(table: str, columns: Sequence[str]) -> str:
    """Return the statement that inserts a list of rows."""
    return (
        f"INSERT INTO {table} ({', '.join(columns)})"  # noqa: S608 - names of ours
        " SELECT * FROM (VALUES {values}) AS given WHERE column1 IS NOT NULL"
    )


def change_rows(connection: Connection, statement: str, rows: Sequence[Sequence[object]]) -> int:
    """Run a statement on a list of rows, given where it holds ``{values}``; count what changed."""
    return sum(result.rowcount for result in _run(connection, statement, rows))


def select_rows(
    connection: Connection, statement: str, rows: Sequence[Sequence[object]]
) -> list[Row[Any]]:
    """Run a query on a list of rows, given where it holds ``{values}``."""
    return [row for result in _run(connection, statement, rows) for row in result.fetchall()]


def _run(
    connection: Connection, statement: str, rows: Sequence[Sequence[object]]
) -> Iterator[CursorResult[Any]]:
    for start in range(0, len(rows), _MOST):
        part = rows[start : start + _MOST]
        size, width = _size(len(part)), len(part[0])
        text = _text(statement, size, width, connection.dialect.paramstyle)
        nothing = (None,) * (width * (size - len(part)))
        yield connection.exec_driver_sql(text, (*itertools.chain.from_iterable(part), *nothing))


def _size(rows: int) -> int:
    """Return the least power of two, or three quarters of one, that is at least ``rows``."""
    power = 1 << (rows - 1).bit_length()
    return power * 3 // 4 if power > 2 and rows <= power * 3 // 4 else power


@cache
def _text(statement: str, rows: int, width: int, paramstyle: str) -> str:
    mark = "?" if paramstyle == "qmark" else "%s"
    row = f"({', '.join([mark] * width)})"
    return statement.format(values=", ".join([row] * rows))


class WaitingRows:
    """Rows that are still to be written, by statement, in the order the statements came in."""

    __slots__ = ("_connection", "by_statement")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.by_statement: dict[str, list[Sequence[object]]] = {}

    def add(self, rows: Mapping[str, Sequence[Sequence[object]]]) -> None:
        """Have rows wait, given by their statements; each must change just one row."""
        for statement, added in rows.items():
            if added:
                self.by_statement.setdefault(statement, []).extend(added)

    def write(self) -> None:
        """Write what waits.

        Raises
        ------
        LostUpdateError
            What a row was to change is not as it was read.
        """
        waiting, self.by_statement = self.by_statement, {}
        for statement, rows in waiting.items():
            changed = sum(result.rowcount for result in _run(self._connection, statement, rows))
            if changed != len(rows):
                raise LostUpdateError("a row changed under the writer")


# Ledger entries: reading them and appending the next one of an account


SYSTEM = "system"
"""The principal of what the service does by itself."""

_account, _entry = tables.account.c, tables.entry.c

_LIST = (
    select(tables.entry)
    .where(_entry.account == bindparam("of"), _entry.seq > bindparam("after"))
    .order_by(_entry.seq)
    .limit(bindparam("most"))
)
_OF_KIND = (
    select(tables.entry)
    .where(_entry.account == SYSTEM_ACCOUNT, _entry.kind == bindparam("of_kind"), text(tables.ACTS))
    .order_by(_entry.seq)
)
_NEWEST_AT = select(func.max(_entry.at)).select_from(
    tables.account.join(
        tables.entry, (_entry.account == _account.id) & (_entry.seq == _account.seq)
    )
)
_BEFORE = (
    select(tables.account).where(_account.id == bindparam("of")).with_for_update(of=tables.account)
)
_WHERE = select(tables.account).where(_account.id.in_(bindparam("wanted", expanding=True)))
_OPEN = insert(tables.account)
_COLUMNS = tuple(field.name for field in fields(Entry))
_APPEND = insert_of("entry", _COLUMNS)
# The condition is checked by the database in the same statement that charges. In
# one writer the values read a moment ago cannot have changed; should that ever
# stop being so, this statement is what still holds. A row is an account, its
# number before and after, what is granted, spent and taken, and the new head.
_MOVE = (
    "UPDATE account SET seq = column3, total = total + column4, spent = spent + column5,"
    " reserved = reserved + column6 - column5, head = column7"
    " FROM (VALUES {values}) AS step WHERE id = column1 AND seq = column2"
    " AND spent + reserved + column6 <= total + column4"
)


@dataclass(frozen=True, slots=True)
class LedgerIdentity:
    """What every hash of one ledger binds: its id and its present epoch."""

    id: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """Why an entry is made: who asked, and what it belongs to."""

    principal: str
    release: str | None = None
    idem: str | None = None
    fingerprint: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """Where an account stands: its last entry's number and hash, and what is spent."""

    seq: int
    head: str
    spent: int


@dataclass(frozen=True, slots=True)
class Move:
    """What one transaction does to an account; ``before`` is None for one that it opens."""

    before: Position | None
    pending: Position


class Entries:
    """The ledger's lines, as they were written."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, account: str, *, after: int = 0, limit: int = 100) -> tuple[Entry, ...]:
        """Return an account's entries with a sequence number above ``after``, oldest first."""
        rows = self._connection.execute(_LIST, {"of": account, "after": after, "most": limit})
        return tuple(entry_of(row) for row in rows)

    def of_system(self, kind: str) -> tuple[Entry, ...]:
        """Return the system account's entries of one kind, oldest first."""
        rows = self._connection.execute(_OF_KIND, {"of_kind": kind})
        return tuple(entry_of(row) for row in rows)

    def newest_at(self) -> str:
        """Return the time of the newest entry, by every account's last one."""
        return str(self._connection.execute(_NEWEST_AT).scalar_one())


def entry_of(row: Row[Any]) -> Entry:
    """Return the entry a row of the table holds."""
    return Entry(**row._mapping)


class Chain:
    """Entries that are to be appended to one account, and where they take it."""

    __slots__ = (
        "_at", "_identity", "balance", "before", "debits", "expired", "head", "rows", "seq",
    )  # fmt: skip

    def __init__(self, before: AccountRecord, identity: LedgerIdentity, at: str) -> None:
        self._identity = identity
        self._at = at
        self.before = before
        self.seq = before.seq
        self.head = before.head
        self.balance = before.balance
        self.debits = 0
        self.rows: list[tuple[Any, ...]] = []
        self.expired: list[tuple[str, int, int]] = []

    def expire(self, grant: expiries.Due) -> None:
        """Add the entry that ends a grant whose time is over."""
        occasion = Occasion(
            principal=SYSTEM, fingerprint=grant.hash, note=f"the grant of entry {grant.seq} ended"
        )
        after = self.balance.after(EntryKind.EXPIRE, grant.amount)
        self.add(EntryKind.EXPIRE, grant.amount, after, occasion)
        self.expired.append((self.before.id, grant.seq, self.seq))

    def add(
        self,
        kind: str,
        amount: int,
        after: Balance,
        occasion: Occasion,
        acting: Acting = SERVICE,
    ) -> str:
        """Add one entry and return its hash."""
        self.seq += 1
        self.balance = after
        # The anchor counts charged releases that have no result yet.
        self.debits += kind == EntryKind.DEBIT
        columns = (
            self.before.id, self.seq, self._identity.epoch, str(kind), occasion.principal,
            occasion.release, occasion.idem, occasion.fingerprint, occasion.note, amount,
            after.total, after.spent, after.reserved, self._at, self.head, *acting,
        )  # fmt: skip
        self.head = hash_of_columns(columns, self._identity.id)
        # In the order of the table's columns: key and role come last.
        self.rows.append((*columns[:-2], self.head, *acting))
        return self.head

    @property
    def move(self) -> tuple[object, ...]:
        """Return the row of the update that takes the account to the chain's end."""
        before, after = self.before, self.balance
        return (
            before.id, before.seq, self.seq, after.total - before.total,
            after.spent - before.spent,
            after.spent + after.reserved - before.spent - before.reserved, self.head,
        )  # fmt: skip

    @property
    def last(self) -> Entry:
        """Return the entry added last."""
        return Entry(**dict(zip(_COLUMNS, self.rows[-1], strict=True)))

    @property
    def end(self) -> Position:
        """Return where the account stands at the chain's end."""
        return Position(self.seq, self.head, self.balance.spent)


class Changes:
    """What the present transaction has done: the anchor is notified of it before COMMIT.

    Attributes
    ----------
    acting
        Whom entries are made by.
    before
        Where accounts were before it, as far as it has read them; None for those that it opens.
    pending
        Where it has taken accounts.
    debits
        How many releases it has charged for.
    settled
        Results that it has stored, and None for what is void.
    unsealed
        Numbers and leaves of results that no entry holds yet.
    rows
        What is still to be written.
    """

    __slots__ = ("acting", "before", "debits", "pending", "rows", "settled", "unsealed")

    def __init__(self, connection: Connection) -> None:
        self.rows = WaitingRows(connection)
        self.begin()

    def begin(self) -> None:
        """Forget the transaction before."""
        self.acting = SERVICE
        self.before: dict[str, Position | None] = {}
        self.pending: dict[str, Position] = {}
        self.debits = 0
        self.settled: dict[str, bytes | None] = {}
        self.unsealed: list[tuple[int, str]] = []
        self.rows.by_statement.clear()

    def moves(self) -> Mapping[str, Move]:
        """Return what it has done to each account that it has moved."""
        return {account: Move(self.before[account], to) for account, to in self.pending.items()}


class EntriesWriter(Entries):
    """Appends the next entries of an account and moves the account to them."""

    __slots__ = ("_identity", "changes")

    def __init__(
        self, connection: Connection, identity: LedgerIdentity, changes: Changes | None = None
    ) -> None:
        super().__init__(connection)
        self._identity = identity
        self.changes = changes or Changes(connection)

    def open_account(
        self, account: str, total: int, occasion: Occasion, *, at: str | None = None
    ) -> Entry:
        """Insert an account and its first entry."""
        # None: it was not there before the transaction.
        self.changes.before.setdefault(account, None)
        nothing = AccountRecord(id=account, seq=0, total=0, spent=0, reserved=0, head=GENESIS)
        chain = Chain(nothing, self._identity, at or now())
        after, acting = chain.balance.after(EntryKind.OPEN, total), self._by(occasion)
        chain.add(EntryKind.OPEN, total, after, occasion, acting)
        # The rule lets an account open empty only: seq 1, with its total as the first entry says.
        opened = {"id": account, "seq": 1, "total": total, "spent": 0, "reserved": 0}
        self._connection.execute(_OPEN, {**opened, "head": chain.head})
        change_rows(self._connection, _APPEND, chain.rows)
        self.changes.pending[account] = chain.end
        return chain.last

    def append(
        self,
        account: str,
        kind: EntryKind,
        amount: int,
        occasion: Occasion,
        *,
        reserved: bool = False,
        acting: Acting | None = None,
    ) -> Entry:
        """Move an account's balance by one entry, or refuse with nothing written.

        ``reserved`` makes it a debit of something that is reserved. ``acting`` is by what it is
        made, where that is not the key of the transaction.

        Raises
        ------
        Problem
            ``not-found``, or what :meth:`Balance.after` refuses.
        """
        chain = self.chain(account, now())
        before = chain.balance
        after = before.approved(amount) if reserved else before.after(kind, amount)
        chain.add(kind, amount, after, occasion, acting or self._by(occasion))
        return self.write(chain)

    def append_system(self, kind: str, occasion: Occasion, *, at: str | None = None) -> Entry:
        """Add an entry that moves no budget to the system account."""
        chain = self.chain(SYSTEM_ACCOUNT, at or now())
        chain.add(kind, 0, chain.balance, occasion, self._by(occasion))
        return self.write(chain)

    def _by(self, occasion: Occasion) -> Acting:
        """Return whom an entry is made by; what the service does by itself has no key."""
        return SERVICE if occasion.principal == SYSTEM else self.changes.acting

    def chain(self, account: str, at: str) -> Chain:
        """Return the chain that continues an account with entries of one time.

        It begins with the ends of grants that are due, so that whatever is
        judged next is judged without them.

        Raises
        ------
        Problem
            ``not-found``.
        """
        self.changes.rows.write()
        # Locked where several processes write: no process moves it between this read and the
        # update.
        row = self._connection.execute(_BEFORE, {"of": account}).one_or_none()
        if row is None:
            raise Problem("not-found")
        return self.chain_from(AccountRecord(**row._mapping), at, due=account != SYSTEM_ACCOUNT)

    def chain_from(self, before: AccountRecord, at: str, *, due: bool) -> Chain:
        """Return the chain of an account just read; ``due``: grants may be over."""
        # The first read of a transaction is where the account was before it.
        if before.id not in self.changes.before:
            self.changes.before[before.id] = Position(before.seq, before.head, before.spent)
        chain = Chain(before, self._identity, at)
        for grant in expiries.due(self._connection, before.id, at) if due else ():
            chain.expire(grant)
        return chain

    def write(self, chain: Chain) -> Entry:
        """Move the account to the end of its chain, insert the entries and return the last.

        Raises
        ------
        LostUpdateError
            The account is not where the chain began, or the budget does not cover it.
        """
        self.write_later([chain])
        self.changes.rows.write()
        return chain.last

    def write_later(self, chains: Sequence[Chain]) -> None:
        """Have the rows of what :meth:`write` does wait, for the chains of several accounts."""
        changes = self.changes
        for chain in chains:
            changes.pending[chain.before.id] = chain.end
            changes.debits += chain.debits
        # Accounts before entries: a rule refuses an entry that is ahead of its account.
        changes.rows.add(
            {
                _MOVE: [chain.move for chain in chains],
                _APPEND: [row for chain in chains for row in chain.rows],
                expiries.EXPIRED: [row for chain in chains for row in chain.expired],
            }
        )

    def positions_before(self, accounts: Sequence[str]) -> Mapping[str, Position]:
        """Return where accounts were before the present transaction, where they were there."""
        before = self.changes.before
        touched = {name: before[name] for name in accounts if name in before}
        others = {"wanted": [name for name in accounts if name not in touched]}
        found = {name: at for name, at in touched.items() if at is not None}
        for row in self._connection.execute(_WHERE, others):
            found[row.id] = Position(row.seq, row.head, row.spent)
        return found
