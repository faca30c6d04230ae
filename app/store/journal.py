"""Entries of every account for people to read: by who, what and where, newest first.

Entries that seal results or keep checkpoints are left out, and so they are over HTTP
(:mod:`app.store.seals`): their time would reveal how long a draw took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select, text

from app.domain.ledger import SYSTEM_ACCOUNT, Entry, EntryKind
from app.domain.reviews import Decision
from app.store.database import tables
from app.store.ledger.entries import entry_of
from app.store.ledger.reviewing.votes import Votes
from app.store.ledger.reviews import APPROVED
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

_APPROVED = select(_entry.principal, _entry.note, _entry.at).where(
    _entry.account == SYSTEM_ACCOUNT,
    _entry.kind == APPROVED,
    text(tables.ACTS),
    _entry.at.in_(bindparam("times", expanding=True)),
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

    def approvals(self, entries: Sequence[Entry]) -> Mapping[str, tuple[str, ...]]:
        """Return who approved the releases that entries charge for, by release.

        An approval is an entry of the system account, of the same moment as the charge.
        """
        charged = {
            each.release: each.at
            for each in entries
            if each.kind == EntryKind.DEBIT and each.idem is None and each.release is not None
        }
        if not charged:
            return {}
        times = sorted(set(charged.values()))
        found = {}
        for row in self._connection.execute(_APPROVED, {"times": times}):
            release = (row.note or "").partition(":")[0]
            if charged.get(release) == row.at:
                found[release] = self._approvers(release, row.principal)
        return found

    def _approvers(self, release: str, last: str) -> tuple[str, ...]:
        """Return all whose votes let a release be charged, the one that decided last."""
        votes = Votes(self._connection).of(release)
        stand = {each.person: each.decision for each in votes if each.turn == votes[-1].turn}
        others = [person for person, vote in stand.items() if vote is Decision.APPROVE]
        return (*(person for person in others if person != last), last)

    def at(self, account: str, places: Sequence[int]) -> tuple[Entry, ...]:
        """Return an account's entries in these places, oldest first."""
        rows = self._connection.execute(_AT, {"of": account, "places": places})
        return tuple(entry_of(row) for row in rows)
