"""Ledger entries: reading them and appending the next one of an account.

Nothing else in the code inserts an entry or moves an account.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from app.domain.ledger import GENESIS, SYSTEM_ACCOUNT, Balance, Entry, EntryKind
from app.domain.problems import Problem
from app.store import tables
from app.store.errors import LostUpdateError
from app.store.ids import now

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
_OPEN = insert(tables.account)
_APPEND = insert(tables.entry)
_COLUMNS = tuple(column.name for column in tables.entry.columns)
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
        seq=_account.seq + 1,
        total=_account.total + bindparam("granted"),
        spent=_account.spent + bindparam("spend"),
        reserved=_account.reserved + bindparam("taken") - bindparam("spend"),
        head=bindparam("new_head"),
    )
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


class EntriesWriter(Entries):
    """Appends the next entry of an account and moves the account to it."""

    __slots__ = ("_identity",)

    def __init__(self, connection: Connection, identity: LedgerIdentity) -> None:
        super().__init__(connection)
        self._identity = identity

    def open_account(self, account: str, total: int, occasion: Occasion) -> Entry:
        """Insert an account and its first entry."""
        entry = self._seal(
            occasion,
            account=account,
            seq=1,
            prev=GENESIS,
            kind=EntryKind.OPEN,
            amount=total,
            after=Balance(0).after(EntryKind.OPEN, total),
        )
        opened = {"id": account, "seq": 1, "total": total, "spent": 0, "reserved": 0}
        self._connection.execute(_OPEN, {**opened, "head": entry.hash})
        self._insert(entry)
        return entry

    def append(self, account: str, kind: EntryKind, amount: int, occasion: Occasion) -> Entry:
        """Move an account's balance by one entry, or refuse with nothing written.

        Raises
        ------
        Problem
            ``not-found``, or what :meth:`Balance.after` refuses.
        """
        row = self._before(account)
        before = Balance(row.total, row.spent, row.reserved)
        return self._follow(row, kind, amount, before.after(kind, amount), occasion)

    def append_system(self, kind: str, occasion: Occasion) -> Entry:
        """Add an entry that moves no budget to the system account."""
        row = self._before(SYSTEM_ACCOUNT)
        return self._follow(row, kind, 0, Balance(row.total, row.spent, row.reserved), occasion)

    def _before(self, account: str) -> Row[Any]:
        row = self._connection.execute(_BEFORE, {"of": account}).one_or_none()
        if row is None:
            raise Problem("not-found")
        return row

    def _follow(
        self, row: Row[Any], kind: str, amount: int, after: Balance, occasion: Occasion
    ) -> Entry:
        entry = self._seal(
            occasion,
            account=row.id,
            seq=row.seq + 1,
            prev=row.head,
            kind=kind,
            amount=amount,
            after=after,
        )
        moved = self._connection.execute(
            _MOVE,
            {
                "of": row.id,
                "seq_before": row.seq,
                "granted": after.total - row.total,
                "spend": after.spent - row.spent,
                "taken": after.spent + after.reserved - row.spent - row.reserved,
                "new_head": entry.hash,
            },
        )
        if moved.rowcount != 1:
            raise LostUpdateError("an account changed under the writer")
        self._insert(entry)
        return entry

    def _seal(
        self,
        occasion: Occasion,
        *,
        account: str,
        seq: int,
        prev: str,
        kind: str,
        amount: int,
        after: Balance,
    ) -> Entry:
        return Entry(
            account=account,
            seq=seq,
            epoch=self._identity.epoch,
            kind=str(kind),
            principal=occasion.principal,
            release=occasion.release,
            idem=occasion.idem,
            fingerprint=occasion.fingerprint,
            note=occasion.note,
            amount=amount,
            total_after=after.total,
            spent_after=after.spent,
            reserved_after=after.reserved,
            at=now(),
            prev=prev,
        ).sealed(self._identity.id)

    def _insert(self, entry: Entry) -> None:
        self._connection.execute(_APPEND, {name: getattr(entry, name) for name in _COLUMNS})
