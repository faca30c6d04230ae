"""Votes: each is in the ledger as a salted digest, which does not reveal it.

*Whose turn it is: the reviewers', or that of who asked; and how often it has come back.* A release
without a row is in its first turn. The system account has an entry each time that the turn changes
sides, so the row can be counted again from those.

Comments on releases and study plans under review: among reviewers, or shared with who asked.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, func, insert, or_, select, update

from app.domain.access import Span
from app.domain.problems import Problem
from app.domain.reviews import Decision, Vote, given_back, vote_digest
from app.store.database import tables
from app.store.ledger.access import releases_seen, requests_seen
from app.store.ledger.accounts import AccountsWriter
from app.store.ledger.commands import allow
from app.store.ledger.entries import change_rows
from app.store.ledger.records import ReleaseRecord, now, shown, spanned

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
    turn everyone may know of: none until all are in.
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


# Who has seen results that are not public: a row for each person, release, way and day

_sight = tables.sight.c
_COLUMNS = ("release", "person", "how", "day", "key", "at")
_ONCE = (
    "INSERT INTO sight (release, person, how, day, key, at)"
    " SELECT column1, column2, column3, column4, column5, column6 FROM (VALUES {values}) AS seen"
    " WHERE column1 IS NOT NULL ON CONFLICT DO NOTHING"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Somebody has seen a release's result, by a key and in some way, at a time first that day."""

    release: str
    person: str
    how: str
    key: str
    at: str

    @property
    def day(self) -> str:
        """Return the day (UTC)."""
        return self.at[:10]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRecord(View):
    """A :class:`View` that is kept."""

    number: int


class Views:
    """What has been seen."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(
        self,
        *,
        span: Span,
        release: str | None = None,
        hidden: Collection[str] = (),
    ) -> tuple[ViewRecord, ...]:
        """Return what has been seen, of a span; nothing of ``hidden`` accounts."""
        query: Select[Any] = select(tables.sight)
        if release is not None:
            query = query.where(_sight.release == release)
        if hidden:
            query = query.where(releases_seen(_sight.release, hidden))
        rows = self._connection.execute(spanned(self._connection, query, span, _sight.number))
        return tuple(
            ViewRecord(**{name: row._mapping[name] for name in row._mapping if name != "day"})
            for row in rows
        )


class ViewsWriter(Views):
    """Noting what is seen."""

    __slots__ = ()

    def note(self, seen: Sequence[View]) -> None:
        """Note what has been seen; what is noted of the same day already stays as it is."""
        rows = [
            tuple({**asdict(each), "day": each.day}[name] for name in _COLUMNS) for each in seen
        ]
        change_rows(self._connection, _ONCE, rows)


# Comments on requests under review: among reviewers, or shared with who asked

MOST = 500
"""The most comments that a release or a study plan may have: reviewers cannot read more."""

_comment = tables.comment.c
_ABOUT = or_(_comment.release == bindparam("release"), _comment.study_plan == bindparam("plan"))
_COMMENTS_OF = select(tables.comment).where(_ABOUT).order_by(_comment.number)
_COUNT = select(func.count()).where(_ABOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentRecord:
    """What somebody has said about a release or a study plan, in which turn.

    It is about one of the two, and the other is None. ``private``: among reviewers.
    """

    number: int
    release: str | None
    study_plan: str | None
    turn: int
    person: str
    private: bool
    text: str
    at: str


def conversation(
    comments: Iterable[CommentRecord], votes: Sequence[Vote], *, before: int
) -> Sequence[CommentRecord]:
    """Return comments with the reasons for which turns before one were given back, oldest first.

    A reason has no number of its own.
    """
    reasons = (
        CommentRecord(
            number=0, release=None, study_plan=None, turn=each.turn, person=each.person,
            private=False, text=each.reason, at=each.at,
        )
        for each in given_back(votes, before=before)
    )  # fmt: skip
    return sorted((*comments, *reasons), key=lambda each: each.at)


class Comments:
    """What has been said about releases and study plans; each call names one of the two."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(
        self, release: str | None = None, *, study_plan: str | None = None
    ) -> tuple[CommentRecord, ...]:
        """Return all comments on a request, oldest first, of every visibility."""
        rows = self._connection.execute(_COMMENTS_OF, {"release": release, "plan": study_plan})
        return _comments(rows)

    def page(
        self, *, before: int | None, limit: int, hidden: Collection[str] = ()
    ) -> tuple[CommentRecord, ...]:
        """Return all comments, newest first; none on a request of ``hidden`` accounts."""
        query = (
            select(tables.comment)
            .where(requests_seen(_comment.release, _comment.study_plan, hidden))
            .order_by(_comment.number.desc())
            .limit(limit)
        )
        if before is not None:
            query = query.where(_comment.number < before)
        return _comments(self._connection.execute(query))


def _comments(rows: Iterable[Row[Any]]) -> tuple[CommentRecord, ...]:
    return tuple(CommentRecord(**{**row._mapping, "private": bool(row.private)}) for row in rows)


class CommentsWriter(Comments):
    """Adding comments; none is changed or removed."""

    __slots__ = ()

    def add(
        self,
        release: str | None = None,
        *,
        study_plan: str | None = None,
        turn: int,
        person: str,
        private: bool,
        text: str,
        most_bytes: int | None,
    ) -> CommentRecord:
        """Keep a comment; ``most_bytes`` is how many bytes the person may have stored in a day.

        Raises
        ------
        Problem
            ``too-many-comments``, ``too-much-stored``.
        """
        allow(self._connection, person, len(text.encode()), most_bytes, at=now())
        about = {"release": release, "plan": study_plan}
        if int(self._connection.execute(_COUNT, about).scalar_one()) >= MOST:
            raise Problem("too-many-comments", maximum=MOST)
        row = {
            "release": release,
            "study_plan": study_plan,
            "turn": turn,
            "person": person,
            "private": int(private),
            "text": text,
            "at": now(),
        }
        self._connection.execute(insert(tables.comment), row)
        return self.of(release, study_plan=study_plan)[-1]
