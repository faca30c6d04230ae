"""Slices: what one person may use of an account, judged in the transaction that charges.

A slice takes nothing out of the account: slices may add up to more than the
total, and then the first request is served. What counts against a cap is all
that the person has ever been charged on the account, before the cap was set too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from app.domain.access import Span
from app.domain.ledger import EntryKind
from app.domain.problems import BudgetExceededError
from app.domain.releases import ReleaseState
from app.store.database import tables
from app.store.ledger.entries import change_rows
from app.store.ledger.records import CapRecord, shown, spanned

CAP_SET = "cap_set"
"""The kind of the system account's entry about a cap; its note is JSON."""

_cap, _entry, _release = tables.cap.c, tables.entry.c, tables.release.c

_SPENT = select(func.coalesce(func.sum(_entry.amount), 0)).where(
    _entry.account == bindparam("of"),
    _entry.principal == bindparam("by"),
    _entry.kind == EntryKind.DEBIT.value,
)
_RESERVED = (
    select(func.coalesce(func.sum(_entry.amount), 0))
    .join(tables.release, (_release.account == _entry.account) & (_release.seq == _entry.seq))
    .where(
        _release.account == bindparam("of"),
        _release.principal == bindparam("by"),
        _release.state == ReleaseState.RESERVED.value,
    )
)
_GET = select(tables.cap).where(_cap.account == bindparam("of"), _cap.person == bindparam("by"))
_LIST = select(tables.cap).where(_cap.account == bindparam("of"), _cap.amount.is_not(None))
_OF_ACCOUNTS = select(tables.cap).where(
    _cap.account.in_(bindparam("wanted", expanding=True)), _cap.amount.is_not(None)
)
_CAPPED = select(_cap.account).where(_cap.amount.is_not(None))
_ALL_SPENT = (
    select(_entry.account, _entry.principal, func.sum(_entry.amount))
    .where(_entry.account.in_(_CAPPED), _entry.kind == EntryKind.DEBIT.value)
    .group_by(_entry.account, _entry.principal)
)
_ALL_RESERVED = (
    select(_release.account, _release.principal, func.sum(_entry.amount))
    .join(tables.entry, (_release.account == _entry.account) & (_release.seq == _entry.seq))
    .where(_release.account.in_(_CAPPED), _release.state == ReleaseState.RESERVED.value)
    .group_by(_release.account, _release.principal)
)
_OPEN = insert(tables.cap)
_SET = (
    update(tables.cap)
    .where(_cap.account == bindparam("of"), _cap.person == bindparam("by"))
    .values(amount=bindparam("to"), used=bindparam("so_far"))
)
_USE = (
    "UPDATE cap SET used = used + column3 FROM (VALUES {values}) AS step"
    " WHERE account = column1 AND person = column2"
)


def spent_by(connection: Connection, account: str, person: str) -> int:
    """Return what one person's releases have cost an account."""
    return int(connection.execute(_SPENT, {"of": account, "by": person}).scalar_one())


def used_by(connection: Connection, account: str, person: str) -> int:
    """Return what one person has used of an account: spent, and reserved for a review."""
    reserved = connection.execute(_RESERVED, {"of": account, "by": person}).scalar_one()
    return spent_by(connection, account, person) + int(reserved)


def cap_of(connection: Connection, account: str, person: str) -> CapRecord | None:
    """Return a person's slice of an account, or None."""
    row = connection.execute(_GET, {"of": account, "by": person}).one_or_none()
    return None if row is None else _record(row)


def caps_of(connection: Connection, account: str, span: Span) -> tuple[CapRecord, ...]:
    """Return an account's caps of a span, numbered in the order they were first set."""
    rows = connection.execute(spanned(connection, _LIST, span, _cap.number), {"of": account})
    return tuple(_record(row) for row in rows)


def caps_of_person(
    connection: Connection, person: str, accounts: Collection[str]
) -> Mapping[str, CapRecord]:
    """Return a person's slices of some accounts, by account: those that there are."""
    query = select(tables.cap).where(_cap.person == person, _cap.account.in_([*accounts]))
    return {row.account: _record(row) for row in connection.execute(query)}


def set_cap(connection: Connection, account: str, person: str, amount: int | None) -> CapRecord:
    """Cap what a person may use of an account, or lift the cap (None)."""
    # Counted from scratch: without a cap the person's use was not stored.
    used = used_by(connection, account, person)
    if cap_of(connection, account, person) is None:
        values = {"account": account, "person": person, "amount": amount, "used": used}
        connection.execute(_OPEN, values)
    else:
        connection.execute(_SET, {"of": account, "by": person, "to": amount, "so_far": used})
    record = cap_of(connection, account, person)
    assert record is not None
    return record


def note_of(account: str, person: str, amount: int | None, reason: str, at: str) -> str:
    """Return what the ledger keeps about a cap."""
    said = {"account": account, "person": person, "amount": amount, "reason": reason, "at": at}
    return json.dumps(said)


class PersonCaps:
    """The caps of some accounts, while a transaction charges them."""

    __slots__ = ("_connection", "_records", "_taken")

    def __init__(self, connection: Connection, accounts: Collection[str]) -> None:
        self._connection = connection
        rows = connection.execute(_OF_ACCOUNTS, {"wanted": [*accounts]}) if accounts else ()
        self._records = {(row.account, row.person): _record(row) for row in rows}
        self._taken: dict[tuple[str, str], int] = {}

    def check(self, account: str, person: str, amount: int, *, remaining: int) -> None:
        """Pass for an amount that the person's cap covers; ``remaining`` is the account's.

        Raises
        ------
        BudgetExceededError
            It does not; ``remaining`` is what is left for this person.
        """
        record = self._records.get((account, person))
        if record is None or record.amount is None:
            return
        # A cap may be set below what was used already.
        left = max(0, record.amount - record.used - self._taken.get((account, person), 0))
        if amount > left:
            raise BudgetExceededError(
                requested=amount,
                # Never more than the account has: a request for the amount shown here succeeds.
                remaining=min(left, remaining),
                detail="This costs more than what remains of your share of the data set's budget. "
                "Nothing was charged and nothing was drawn.",
            )

    def take(self, account: str, person: str, amount: int) -> None:
        """Count what a person has been charged, or given back (a negative amount)."""
        if (account, person) in self._records:
            self._taken[account, person] = self._taken.get((account, person), 0) + amount

    def rows(self) -> Mapping[str, Sequence[Sequence[object]]]:
        """Return the rows that write down what was taken, by their statement."""
        return {_USE: [(*of, amount) for of, amount in self._taken.items()]}

    def write(self) -> None:
        """Write down what was taken."""
        for statement, rows in self.rows().items():
            change_rows(self._connection, statement, rows)
        self._taken.clear()


def faults(connection: Connection, notes: Collection[str | None]) -> Iterator[str]:
    """Yield where caps are not what the ledger's notes, oldest first, and its entries say."""
    said, used = _last_said(notes), _used(connection)
    for row in connection.execute(select(tables.cap)).all():
        key = row.account, row.person
        if key not in said or said.pop(key) != row.amount:
            yield f"account {shown(row.account)}: a cap has been edited"
        # Without a cap the use is not counted, and the stored value is old.
        elif row.amount is not None and row.used != used[key]:
            yield f"account {shown(row.account)}: what a person has used has been edited"
    for account, _ in said:
        yield f"account {shown(account)}: a cap is missing"


def _used(connection: Connection) -> Counter[tuple[str, str]]:
    """Return what everyone has used of the accounts with caps; each is read once."""
    used: Counter[tuple[str, str]] = Counter()
    for query in (_ALL_SPENT, _ALL_RESERVED):
        for account, person, amount in connection.execute(query):
            used[account, person] += int(amount)
    return used


def _last_said(notes: Collection[str | None]) -> dict[tuple[str, str], int | None]:
    said: dict[tuple[str, str], int | None] = {}
    for note in notes:
        found: Mapping[str, Any] = json.loads(note or "{}")
        said[str(found.get("account")), str(found.get("person"))] = found.get("amount")
    return said


def _record(row: Row[Any]) -> CapRecord:
    return CapRecord(**row._mapping)
