"""Grants that end: which are due, and that their time is part of the ledger.

A grant with an end has the digest of that end as its entry's fingerprint, and
the entry that ends it has the grant's hash. So neither the time nor the end of
a grant can be edited unnoticed. An end without such a hash closes its account: the system
account has an entry with the hash of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select

from app.domain.ledger import Balance, EntryKind, digest_of
from app.store.database import tables
from app.store.ledger.records import shown

_expiring, _entry = tables.expiring.c, tables.entry.c

_DUE = (
    select(_expiring.seq, _expiring.amount, _entry.hash)
    .join(tables.entry, (_entry.account == _expiring.account) & (_entry.seq == _expiring.seq))
    .where(
        _expiring.account == bindparam("of"),
        _expiring.expired_seq.is_(None),
        _expiring.expires_at <= bindparam("at"),
    )
    .order_by(_expiring.expires_at, _expiring.seq)
)
_ACCOUNTS = (
    select(_expiring.account)
    .where(_expiring.expired_seq.is_(None), _expiring.expires_at <= bindparam("at"))
    .distinct()
    .order_by(_expiring.account)
)
# One scan of all entries finds both.
_GRANTS_AND_ENDS = (
    select(tables.entry)
    .where(
        (_entry.kind == EntryKind.EXPIRE.value)
        | ((_entry.kind == EntryKind.GRANT.value) & _entry.fingerprint.is_not(None))
    )
    .order_by(_entry.account, _entry.seq)
)
_REGISTER = insert(tables.expiring)
EXPIRED = (
    "UPDATE expiring SET expired_seq = column3 FROM (VALUES {values}) AS step"
    " WHERE account = column1 AND seq = column2 AND expired_seq IS NULL"
)
"""Notes the entries that have ended grants: an account, the grant's number, and the entry's."""


@dataclass(frozen=True, slots=True)
class Due:
    """A grant whose time is over: its entry's number and hash, and what it gave."""

    seq: int
    amount: int
    hash: str


def end_digest(expires_at: str) -> str:
    """Return what a grant's entry keeps of its end."""
    return digest_of("release-desk grant until", expires_at)


def due(connection: Connection, account: str, at: str) -> tuple[Due, ...]:
    """Return an account's grants that should have ended by a time, and have not."""
    rows = connection.execute(_DUE, {"of": account, "at": at})
    return tuple(Due(row.seq, row.amount, row.hash) for row in rows)


def accounts_due(connection: Connection, at: str) -> tuple[str, ...]:
    """Return the accounts with grants that should have ended by a time, and have not."""
    return tuple(connection.execute(_ACCOUNTS, {"at": at}).scalars())


def without_due(connection: Connection, account: str, balance: Balance, at: str) -> Balance:
    """Return a balance as the next entry will find it: less what is due."""
    for grant in due(connection, account, at):
        balance = balance.after(EntryKind.EXPIRE, grant.amount)
    return balance


def register(
    connection: Connection, *, account: str, seq: int, amount: int, expires_at: str
) -> None:
    """Note when a grant ends."""
    connection.execute(
        _REGISTER,
        {
            "account": account,
            "seq": seq,
            "amount": amount,
            "expires_at": expires_at,
            "expired_seq": None,
        },
    )


def faults(connection: Connection, closed: Mapping[str, str | None]) -> Iterator[str]:
    """Yield where grants and their ends do not fit the entries, both ways.

    ``closed`` are the accounts that have been closed, and the hashes of the entries that did so.
    """
    rows = {(row.account, row.seq): row for row in connection.execute(select(tables.expiring))}
    entries = connection.execute(_GRANTS_AND_ENDS).all()
    # Each row is taken out as its grant is met: what is left over belongs to none.
    grants = [each for each in entries if each.kind == EntryKind.GRANT.value]
    ended = [each for each in entries if each.kind == EntryKind.EXPIRE.value]
    ends = {(end.account, end.fingerprint): end for end in ended if end.fingerprint is not None}
    closings = {end.hash: end for end in ended if end.fingerprint is None}
    for grant in grants:
        row = rows.pop((grant.account, grant.seq), None)
        if not _fits(row, grant, ends.pop((grant.account, grant.hash), None)):
            yield f"account {shown(grant.account)}, entry {grant.seq}: its end has been edited"
    for account, seq in rows:
        yield f"account {shown(account)}, entry {seq}: it is no grant that ends"
    for account, closing in closed.items():
        end = closings.pop(closing, None) if closing is not None else None
        if closing is not None and (end is None or end.account != account):
            yield f"account {shown(account)}: the entry that closes it is missing"
    for end in (*ends.values(), *closings.values()):
        yield f"account {shown(end.account)}, entry {end.seq}: it ends no grant"


def _fits(row: Row[Any] | None, grant: Row[Any], end: Row[Any] | None) -> bool:
    if row is None or (row.amount, end_digest(row.expires_at)) != (grant.amount, grant.fingerprint):
        return False
    if end is None or row.expired_seq is None:
        return end is None and row.expired_seq is None
    return bool(
        # An end may come late, when somebody next moves the account, and never early.
        end.seq == row.expired_seq and end.amount == grant.amount and end.at >= row.expires_at
    )
