"""Votes: each is in the ledger as a salted digest, which does not reveal it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select

from app.domain.reviews import Decision, Vote, vote_digest
from app.store.database import tables
from app.store.ledger.accounts import AccountsWriter
from app.store.ledger.ids import now, shown

VOTED = "review_vote"
"""The kind of the system entry about a vote; its note names the release and the turn."""

_vote = tables.vote.c
_OF = select(tables.vote).where(_vote.release == bindparam("of")).order_by(_vote.seq)
_ALL = select(tables.vote).order_by(_vote.seq)


class Votes:
    """The votes of releases, of all their turns."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, release: str) -> tuple[Vote, ...]:
        """Return all votes on a release, in the order they came in."""
        rows = self._connection.execute(_OF, {"of": release})
        return tuple(_vote_of(row) for row in rows)


class VotesWriter(Votes):
    """Casting votes; the system account notes each."""

    __slots__ = ("_accounts",)

    def __init__(self, connection: Connection, accounts: AccountsWriter) -> None:
        super().__init__(connection)
        self._accounts = accounts

    def cast(
        self, release: str, *, turn: int, person: str, decision: Decision, reason: str
    ) -> Vote:
        """Keep a reviewer's vote."""
        vote = Vote(turn=turn, person=person, decision=decision, reason=reason, at=now())
        # Without it the few possible votes could be tried against the digest, which
        # everyone may see.
        salt = secrets.token_hex(16)
        entry = self._accounts.system_entry(
            VOTED,
            principal=person,
            fingerprint=vote_digest(release, vote, salt),
            note=f"{release}: turn {turn}",
            at=vote.at,
        )
        row = {
            "seq": entry.seq,
            "release": release,
            "turn": turn,
            "person": person,
            "decision": decision.value,
            "reason": reason,
            "at": vote.at,
            "salt": salt,
        }
        self._connection.execute(insert(tables.vote), row)
        return vote


def vote_faults(connection: Connection, recorded: Mapping[int, str | None]) -> Iterator[str]:
    """Fault votes that are not as the ledger notes: ``recorded`` are digests, by entry."""
    left = dict(recorded)
    for row in connection.execute(_ALL):
        digest = vote_digest(row.release, _vote_of(row), row.salt)
        if left.pop(row.seq, None) != digest:
            yield f"release {shown(row.release)}: a vote has been edited"
    for seq in sorted(left):
        yield f"account 0, entry {seq}: its vote is missing"


def _vote_of(row: Row[Any]) -> Vote:
    return Vote(
        turn=row.turn,
        person=row.person,
        decision=Decision(row.decision),
        reason=row.reason,
        at=row.at,
    )
