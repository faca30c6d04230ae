"""Ledger entries: reading them and appending the next one of an account.

Nothing else in the code inserts an entry or moves an account.

*Where the entries of the first form end, which say neither key nor role.* A ledger that an earlier
version began has such entries. The first start of this version records in the system account the
last of each chain. So none can be added later: neither to a chain that nothing has been added to
since, nor as a chain of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, func, insert, select, text

from app.domain.ledger import (
    GENESIS,
    SECOND_FORM,
    SYSTEM_ACCOUNT,
    Balance,
    Entry,
    EntryKind,
    digest_of,
    hash_of_columns,
)
from app.domain.policies import SERVICE, Acting
from app.domain.problems import Problem
from app.store.database import tables
from app.store.errors import LostUpdateError
from app.store.ledger import expiries
from app.store.ledger.multi_row import change_rows, insert_of
from app.store.ledger.records import AccountRecord, now
from app.store.loop_batching import Writes

# Where the entries of the first form end, which say neither key nor role

# One account after the other: a join of all may begin with every entry.
_OF_FIRST_FORM = text(
    "SELECT a.id FROM account AS a WHERE EXISTS"
    " (SELECT 1 FROM entry AS f WHERE f.account = a.id AND f.seq = 1 AND f.role IS NULL)"
    " ORDER BY a.id"
)
_LAST = text(
    "SELECT account, seq, hash FROM entry WHERE account = :of AND role IS NULL"
    " ORDER BY seq DESC LIMIT 1"
)
_BEGUN = text(
    "SELECT 1 FROM account AS a JOIN entry AS e ON e.account = a.id AND e.seq = a.seq"
    " WHERE e.role IS NOT NULL LIMIT 1"
)


def begin_second_form(entries: EntriesWriter, connection: Connection) -> None:
    """Record where the entries of the first form end, once; a new ledger has none."""
    ends = _ends_digest(connection)
    if ends is not None and not entries.of_system(SECOND_FORM):
        occasion = Occasion(principal=SYSTEM, fingerprint=ends, note="entries say key and role")
        entries.append_system(SECOND_FORM, occasion)


def form_faults(connection: Connection, recorded: Sequence[str | None]) -> Iterator[str]:
    """Fault what is of the first form, going by the digests that have been recorded."""
    ends = _ends_digest(connection)
    expected = [] if ends is None else [ends]
    begun = bool(recorded) or connection.execute(_BEGUN).first() is not None
    if begun and [*recorded] != expected:
        yield "the ledger: entries of the first form are not those that were recorded"


def _ends_digest(connection: Connection) -> str | None:
    """Return the digest of the last entries of the first form; None where there are none."""
    accounts = connection.execute(_OF_FIRST_FORM).scalars().all()
    rows = [connection.execute(_LAST, {"of": account}).one() for account in accounts]
    parts = [part for row in rows for part in row]
    return digest_of("release-desk first form 1", *parts) if rows else None


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
        self.expired: list[tuple[int, int]] = []

    def expire(self, grant: expiries.Due) -> None:
        """Add the entry that ends a grant whose time is over."""
        occasion = Occasion(
            principal=SYSTEM, fingerprint=grant.hash, note=f"the grant of entry {grant.seq} ended"
        )
        after = self.balance.after(EntryKind.EXPIRE, grant.amount)
        self.add(EntryKind.EXPIRE, grant.amount, after, occasion)
        self.expired.append((grant.seq, self.seq))

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
            after.total, after.spent, after.reserved, self._at, self.head,
        )  # fmt: skip
        key, role = acting
        self.head = hash_of_columns(columns, self._identity.id, key=key, role=role)
        # In the order of the table's columns: the hash comes after what it binds,
        # key and role last.
        self.rows.append((*columns, self.head, key, role))
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


class _Taken(NamedTuple):
    """Where a chain has taken an account, and how many releases it has charged for."""

    account: str
    to: Position
    debits: int


class EntriesWriter(Entries):
    """Appends the next entries of an account and moves the account to them."""

    __slots__ = ("_identity", "_kept", "_steps", "_touched", "acting", "writes")

    def __init__(self, connection: Connection, identity: LedgerIdentity) -> None:
        super().__init__(connection)
        self._identity = identity
        self.writes = Writes()
        self._kept: list[Chain] = []
        self.acting = SERVICE
        # Where accounts were before the transaction, and where it has taken them since.
        self._touched: dict[str, Position | None] = {}
        self._steps: list[_Taken] = []

    def open_account(
        self, account: str, total: int, occasion: Occasion, *, at: str | None = None
    ) -> Entry:
        """Insert an account and its first entry."""
        # None: it was not there before the transaction.
        self._touched.setdefault(account, None)
        nothing = AccountRecord(id=account, seq=0, total=0, spent=0, reserved=0, head=GENESIS)
        chain = Chain(nothing, self._identity, at or now())
        after, acting = chain.balance.after(EntryKind.OPEN, total), self._by(occasion)
        chain.add(EntryKind.OPEN, total, after, occasion, acting)
        # The rule lets an account open empty only: seq 1, with its total as the first entry says.
        opened = {"id": account, "seq": 1, "total": total, "spent": 0, "reserved": 0}
        self._connection.execute(_OPEN, {**opened, "head": chain.head})
        self._insert([chain])
        self._steps.append(_Taken(account, chain.end, chain.debits))
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
        return SERVICE if occasion.principal == SYSTEM else self.acting

    def chain(self, account: str, at: str) -> Chain:
        """Return the chain that continues an account with entries of one time.

        It begins with the ends of grants that are due, so that whatever is
        judged next is judged without them.

        Raises
        ------
        Problem
            ``not-found``.
        """
        # Locked where several processes write: no process moves it between this read and the
        # update.
        row = self._connection.execute(_BEFORE, {"of": account}).one_or_none()
        if row is None:
            raise Problem("not-found")
        return self.chain_from(AccountRecord(**row._mapping), at, due=account != SYSTEM_ACCOUNT)

    def chain_from(self, before: AccountRecord, at: str, *, due: bool) -> Chain:
        """Return the chain of an account just read; ``due``: grants may be over."""
        # The first read of a transaction is where the account was before it.
        self._touched.setdefault(before.id, Position(before.seq, before.head, before.spent))
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
        self.write_all([chain])
        return chain.last

    def write_all(self, chains: Sequence[Chain]) -> None:
        """Do what :meth:`write` does for the chains of several accounts, or for none of them."""
        for chain in chains:
            self._steps.append(_Taken(chain.before.id, chain.end, chain.debits))
        if not self.writes.kept:
            self._move(chains)
            return
        # With those that come later, in one statement, and before what refers to their entries.
        if not self._kept:
            self.writes.add(self._move_kept)
        self._kept += chains

    def _move_kept(self) -> None:
        kept, self._kept = self._kept, []
        self._move(kept)

    def _move(self, chains: Sequence[Chain]) -> None:
        # Accounts before entries: a rule refuses an entry that is ahead of its account.
        moved = change_rows(self._connection, _MOVE, [chain.move for chain in chains])
        if moved != len(chains):
            raise LostUpdateError("an account changed under the writer")
        self._insert(chains)

    def begin(self) -> None:
        """Forget the moves of the transaction before, and whom it acted for."""
        self.acting = SERVICE
        self._touched.clear()
        self._steps.clear()
        self._kept.clear()
        self.writes.begin()

    def moves(self) -> Mapping[str, Move]:
        """Return what the present transaction has done to each account that it has moved."""
        return {step.account: Move(self._touched[step.account], step.to) for step in self._steps}

    @property
    def debits(self) -> int:
        """Return how many releases the present transaction has charged for."""
        return sum(step.debits for step in self._steps)

    @property
    def steps(self) -> int:
        """Return how often the present transaction has moved an account."""
        return len(self._steps)

    def forget_since(self, steps: int) -> None:
        """Forget all moves after the first ``steps``: they have been rolled back."""
        # What was touched stays: an account that was read is still where it was.
        del self._steps[steps:]

    @property
    def moved(self) -> Collection[str]:
        """Return the accounts that the present transaction has touched."""
        return self._touched.keys()

    def positions_before(self, accounts: Sequence[str]) -> Mapping[str, Position]:
        """Return where accounts were before the present transaction, where they were there."""
        touched = {name: self._touched[name] for name in accounts if name in self._touched}
        others = {"wanted": [name for name in accounts if name not in touched]}
        found = {name: at for name, at in touched.items() if at is not None}
        for row in self._connection.execute(_WHERE, others):
            found[row.id] = Position(row.seq, row.head, row.spent)
        return found

    def _insert(self, chains: Sequence[Chain]) -> None:
        change_rows(self._connection, _APPEND, [row for chain in chains for row in chain.rows])
        for chain in chains:
            for grant, by in chain.expired:
                expiries.expired(self._connection, chain.before.id, grant, by)
