"""Votes: each is in the ledger as a salted digest, which does not reveal it.

*Whose turn it is: the reviewers', or that of who asked; and how often it has come back.* A release
without a row is in its first turn. The system account has an entry each time that the turn changes
sides, so the row can be counted again from those.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from app.domain.reviews import Decision, Vote, vote_digest
from app.store.database import tables
from app.store.ledger.accounts import AccountsWriter
from app.store.ledger.records import ReleaseRecord, now, shown

# Whose turn it is: the reviewers', or that of who asked; and how often it has come back

CHANGES_REQUESTED = "release_changes_requested"
"""The kind of the system entry that gives the turn to who asked; its note names the release."""

RETURNED = "release_returned"
"""The kind of the system entry that gives it back to the reviewers; its note is the release."""

_review = tables.review.c
_BEGIN = insert(tables.review)
_SET = (
    update(tables.review)
    .where(_review.release == bindparam("wanted"))
    .values(
        turn=bindparam("to_turn"),
        version=bindparam("to_version"),
        returned=bindparam("now_returned"),
        shown=bindparam("now_shown"),
        reason=bindparam("why"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Where a review stands.

    ``returned``: it waits for who asked, for this ``reason``. ``shown`` is how many votes of the
    turn everybody may know of: none until all are in.
    """

    turn: int
    version: int
    returned: bool = False
    shown: int = 0
    reason: str | None = None


def write_turn(connection: Connection, release: str, to: Turn) -> None:
    """Write down where a release's review stands from now on."""
    row = {
        "wanted": release,
        "to_turn": to.turn,
        "to_version": to.version,
        "now_returned": int(to.returned),
        "now_shown": to.shown,
        "why": to.reason,
    }
    # The first time that the turn changes sides.
    if connection.execute(_SET, row).rowcount == 0:
        first = {
            "release": release,
            "turn": to.turn,
            "version": to.version,
            "returned": int(to.returned),
            "shown": to.shown,
            "reason": to.reason,
        }
        connection.execute(_BEGIN, first)


# Votes: each is in the ledger as a salted digest, which does not reveal it

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


# Versions of a request: those that a later one has taken the place of stay, as they were

_revision, _entry = tables.revision.c, tables.entry.c
_OLDER_OF = (
    select(_revision.version, _revision.request, _revision.plan, _entry.at, _entry.amount)
    .join(tables.entry, (_entry.account == _revision.account) & (_entry.seq == _revision.seq))
    .where(_revision.release == bindparam("of"))
    .order_by(_revision.version)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """A version of a release's request and its plan, JSON both, and what was set aside when."""

    version: int
    request: str
    plan: str
    at: str
    amount: int


def versions_of(connection: Connection, release: ReleaseRecord) -> tuple[VersionRecord, ...]:
    """Return every version of a release's request, the present one last."""
    rows = connection.execute(_OLDER_OF, {"of": release.id})
    present = VersionRecord(
        version=release.version,
        request=release.request,
        plan=release.plan,
        at=release.charged_at,
        amount=release.amount,
    )
    return (*(VersionRecord(**row._mapping) for row in rows), present)


def supersede(connection: Connection, release: ReleaseRecord) -> None:
    """Keep the present version of a release, which another is about to take the place of."""
    row = {
        "release": release.id,
        "version": release.version,
        "account": release.account,
        "seq": release.seq,
        "request": release.request,
        "plan": release.plan,
    }
    connection.execute(insert(tables.revision), row)
