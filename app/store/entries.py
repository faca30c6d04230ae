"""Ledger entries: reading them and appending the next one of an account.

Nothing else in the code inserts an entry or moves an account.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from app.domain.ledger import (
    GENESIS,
    SYSTEM_ACCOUNT,
    Balance,
    Entry,
    EntryKind,
    hash_of_columns,
)
from app.domain.problems import Problem
from app.store import expiries, tables
from app.store.errors import LostUpdateError
from app.store.ids import now
from app.store.records import AccountRecord
from app.store.rows import change_rows, insert_of, select_rows

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
    .where(_entry.account == SYSTEM_ACCOUNT, _entry.kind == bindparam("of_kind"))
    .order_by(_entry.seq)
)
_BEFORE = (
    select(tables.account).where(_account.id == bindparam("of")).with_for_update(of=tables.account)
)
_MOVED = select(tables.account).where(_account.id.in_(bindparam("touched", expanding=True)))
# A cross join keeps its order on SQLite: a few ranges of entries, whatever the ledger's length.
_DEBITS = (
    "SELECT count(*) AS debits FROM (VALUES {values}) AS moved CROSS JOIN entry"
    " WHERE entry.account = column1 AND entry.seq > column2 AND entry.seq <= column3"
    " AND entry.kind = 'debit'"
)
_OPEN = insert(tables.account)
_COLUMNS = tuple(field.name for field in fields(Entry))
_APPEND = insert_of("entry", _COLUMNS)
# The condition is checked by the database in the same statement that charges. In
# one writer the values read a moment ago cannot have changed; should that ever
# stop being so, this statement is what still holds.
_MOVE = (
    update(tables.account)
    .where(
        _account.id == bindparam("of"),
        _account.seq == bindparam("seq_before"),
        _account.spent + _account.reserved + bindparam("taken")
        <= _account.total + bindparam("granted"),
    )
    .values(
        seq=bindparam("seq_after"),
        total=_account.total + bindparam("granted"),
        spent=_account.spent + bindparam("spend"),
        reserved=_account.reserved + bindparam("taken") - bindparam("spend"),
        head=bindparam("new_head"),
    )
)


SYSTEM = "system"
"""The principal of what the service does by itself."""


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


def entry_of(row: Row[Any]) -> Entry:
    """Return the entry a row of the table holds."""
    return Entry(**row._mapping)


class Chain:
    """Entries that are to be appended to one account, and where they take it."""

    __slots__ = ("_at", "_identity", "balance", "before", "expired", "head", "rows", "seq")

    def __init__(self, before: AccountRecord, identity: LedgerIdentity, at: str) -> None:
        self._identity = identity
        self._at = at
        self.before = before
        self.seq = before.seq
        self.head = before.head
        self.balance = before.balance
        self.rows: list[tuple[Any, ...]] = []
        self.expired: list[tuple[int, int]] = []

    def expire(self, grant: expiries.Due) -> None:
        """Add the entry that ends a grant whose time is over."""
        occasion = Occasion(
            principal=SYSTEM, fingerprint=grant.hash, note=f"the grant of entry {grant.seq} ended"
        )
        after = self.balance.after(EntryKind.EXPIRE, grant.amount)
        self.add(EntryKind.EXPIRE, grant.amount, after, occasion)
        self.expired.append((grant.seq, self.seq))

    def add(self, kind: str, amount: int, after: Balance, occasion: Occasion) -> str:
        """Add one entry and return its hash."""
        self.seq += 1
        self.balance = after
        columns = (
            self.before.id, self.seq, self._identity.epoch, str(kind), occasion.principal,
            occasion.release, occasion.idem, occasion.fingerprint, occasion.note, amount,
            after.total, after.spent, after.reserved, self._at, self.head,
        )  # fmt: skip
        self.head = hash_of_columns(columns, self._identity.id)
        self.rows.append((*columns, self.head))
        return self.head


class EntriesWriter(Entries):
    """Appends the next entries of an account and moves the account to them."""

    __slots__ = ("_identity", "_touched")

    def __init__(self, connection: Connection, identity: LedgerIdentity) -> None:
        super().__init__(connection)
        self._identity = identity
        self._touched: dict[str, Position | None] = {}

    def open_account(
        self, account: str, total: int, occasion: Occasion, *, at: str | None = None
    ) -> Entry:
        """Insert an account and its first entry."""
        self._touched.setdefault(account, None)
        nothing = AccountRecord(id=account, seq=0, total=0, spent=0, reserved=0, head=GENESIS)
        chain = Chain(nothing, self._identity, at or now())
        chain.add(EntryKind.OPEN, total, chain.balance.after(EntryKind.OPEN, total), occasion)
        opened = {"id": account, "seq": 1, "total": total, "spent": 0, "reserved": 0}
        self._connection.execute(_OPEN, {**opened, "head": chain.head})
        return self._insert(chain)

    def append(
        self,
        account: str,
        kind: EntryKind,
        amount: int,
        occasion: Occasion,
        *,
        reserved: bool = False,
    ) -> Entry:
        """Move an account's balance by one entry, or refuse with nothing written.

        ``reserved`` makes it a debit of something that is reserved.

        Raises
        ------
        Problem
            ``not-found``, or what :meth:`Balance.after` refuses.
        """
        chain = self.chain(account, now())
        before = chain.balance
        after = before.approved(amount) if reserved else before.after(kind, amount)
        chain.add(kind, amount, after, occasion)
        return self.write(chain)

    def append_system(self, kind: str, occasion: Occasion, *, at: str | None = None) -> Entry:
        """Add an entry that moves no budget to the system account."""
        chain = self.chain(SYSTEM_ACCOUNT, at or now())
        chain.add(kind, 0, chain.balance, occasion)
        return self.write(chain)

    def chain(self, account: str, at: str) -> Chain:
        """Return the chain that continues an account with entries of one time.

        It begins with the ends of grants that are due, so that whatever is
        judged next is judged without them.

        Raises
        ------
        Problem
            ``not-found``.
        """
        row = self._connection.execute(_BEFORE, {"of": account}).one_or_none()
        if row is None:
            raise Problem("not-found")
        self._touched.setdefault(account, Position(row.seq, row.head, row.spent))
        chain = Chain(AccountRecord(**row._mapping), self._identity, at)
        if account != SYSTEM_ACCOUNT:
            for grant in expiries.due(self._connection, account, at):
                chain.expire(grant)
        return chain

    def write(self, chain: Chain) -> Entry:
        """Move the account to the end of its chain, insert the entries and return the last.

        Raises
        ------
        LostUpdateError
            The account is not where the chain began, or the budget does not cover it.
        """
        before, after = chain.before, chain.balance
        moved = self._connection.execute(
            _MOVE,
            {
                "of": before.id,
                "seq_before": before.seq,
                "seq_after": chain.seq,
                "granted": after.total - before.total,
                "spend": after.spent - before.spent,
                "taken": after.spent + after.reserved - before.spent - before.reserved,
                "new_head": chain.head,
            },
        )
        if moved.rowcount != 1:
            raise LostUpdateError("an account changed under the writer")
        return self._insert(chain)

    def begin(self) -> None:
        """Forget the moves of the transaction before."""
        self._touched.clear()

    def moves(self) -> Mapping[str, Move]:
        """Return what the present transaction has done to each account that it has moved."""
        moves: dict[str, Move] = {}
        for row in self._connection.execute(_MOVED, {"touched": [*self._touched]}):
            before, pending = self._touched[row.id], Position(row.seq, row.head, row.spent)
            if before != pending:
                moves[row.id] = Move(before, pending)
        return moves

    @property
    def moved(self) -> Collection[str]:
        """Return the accounts that the present transaction has touched."""
        return self._touched.keys()

    def positions_before(self, accounts: Sequence[str]) -> Mapping[str, Position]:
        """Return where accounts were before the present transaction, where they were there."""
        touched = {name: self._touched[name] for name in accounts if name in self._touched}
        others = {"touched": [name for name in accounts if name not in touched]}
        found = {name: at for name, at in touched.items() if at is not None}
        for row in self._connection.execute(_MOVED, others):
            found[row.id] = Position(row.seq, row.head, row.spent)
        return found

    def debits(self, moves: Mapping[str, Move]) -> int:
        """Return how many releases these moves have charged for."""
        rows = [
            (name, 0 if move.before is None else move.before.seq, move.pending.seq)
            for name, move in moves.items()
            if name != SYSTEM_ACCOUNT
        ]
        return sum(row.debits for row in select_rows(self._connection, _DEBITS, rows))

    def _insert(self, chain: Chain) -> Entry:
        change_rows(self._connection, _APPEND, chain.rows)
        for grant, by in chain.expired:
            expiries.expired(self._connection, chain.before.id, grant, by)
        return Entry(**dict(zip(_COLUMNS, chain.rows[-1], strict=True)))
