"""Entries of every account for people to read: by who, what and where, newest first.

Entries that seal results or keep checkpoints are left out, and so they are over HTTP
(:mod:`app.store.seals`): when they were made tells how long a draw took.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select

from app.domain.ledger import Entry
from app.store.database import tables
from app.store.ledger.entries import entry_of
from app.store.merkle_log.parts import CHECKPOINT
from app.store.seals import RESULT, RESULT_KEPT

_entry = tables.entry.c
_TOLD = select(tables.entry).where(_entry.kind.not_in([RESULT, RESULT_KEPT, CHECKPOINT]))
_AT = (
    select(tables.entry)
    .where(
        _entry.account == bindparam("of"),
        _entry.seq.in_(bindparam("places", expanding=True)),
    )
    .order_by(_entry.seq)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which entries: of one account, kind or person, and none after a time; None: of all."""

    account: str | None = None
    kind: str | None = None
    person: str | None = None
    until: str | None = None


class Journal:
    """The ledger as people read it."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(self, wanted: Wanted, *, skip: int, limit: int) -> tuple[Entry, ...]:
        """Return entries, newest first, after the first ``skip`` of them."""
        query = _TOLD
        for column, value in (
            (_entry.account, wanted.account),
            (_entry.kind, wanted.kind),
            (_entry.principal, wanted.person),
        ):
            if value is not None:
                query = query.where(column == value)
        if wanted.until is not None:
            query = query.where(_entry.at <= wanted.until)
        # By time, then account and number: within one transaction all times are equal.
        if wanted.account is None:
            query = query.order_by(_entry.at.desc(), _entry.account)
        rows = self._connection.execute(query.order_by(_entry.seq.desc()).offset(skip).limit(limit))
        return tuple(entry_of(row) for row in rows)

    def at(self, account: str, places: Sequence[int]) -> tuple[Entry, ...]:
        """Return an account's entries in these places, oldest first."""
        rows = self._connection.execute(_AT, {"of": account, "places": places})
        return tuple(entry_of(row) for row in rows)
