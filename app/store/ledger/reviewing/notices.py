"""The outbox: notices, written in the transaction of what they report, and how far each came.

What a draw leads to has a notice from its charge on, because when the draw ends is not public:
the notice is shown, and sent, once its outcome is. Until then readers do without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    bindparam,
    insert,
    literal,
    or_,
    select,
    text,
    update,
)

from app.domain.access import Span
from app.domain.ledger import SYSTEM_ACCOUNT
from app.domain.releases import GIVEN_BACK, plan_digest, request_fingerprint
from app.domain.reviews import Audience, Event, audience_of
from app.store.database import tables
from app.store.ledger.access import requests_seen
from app.store.ledger.datasets import DATASET_EDITED, edit_faults
from app.store.ledger.records import ReleaseRecord, new_id, now, shown, spanned
from app.store.ledger.reviewing.votes import CHANGES_REQUESTED, RETURNED, VOTED, vote_faults

# Reviews against the ledger's word: turns, versions and votes must match the entries

_SAID = text(
    "SELECT seq, kind, note, fingerprint FROM entry WHERE account = :system AND kind IN"  # noqa: S608
    f" (:changes, :returned, :voted, :edited) AND {tables.ACTS} ORDER BY seq"
)
_REVISIONS = text(
    "SELECT v.release, v.version, v.request, v.plan, r.dataset,"
    " e.release AS reserved, e.fingerprint, e.note"
    " FROM revision AS v LEFT JOIN release AS r ON r.id = v.release"
    " LEFT JOIN entry AS e ON e.account = v.account AND e.seq = v.seq"
    " ORDER BY v.release, v.version"
)
_GIVEN_BACK = text(
    "SELECT release, count(*) AS times FROM entry WHERE kind = 'unreserve' GROUP BY release"
)
_ENDED = select(tables.release.c.id).where(
    tables.release.c.id.in_(bindparam("wanted", expanding=True)),
    tables.release.c.state.in_(sorted(GIVEN_BACK)),
)
_CHUNK = 500  # databases limit how many values a statement may have


def review_faults(connection: Connection) -> Iterator[str]:
    """Yield where reviews are not what the ledger says."""
    kinds = {
        "system": SYSTEM_ACCOUNT, "changes": CHANGES_REQUESTED, "returned": RETURNED,
        "voted": VOTED, "edited": DATASET_EDITED,
    }  # fmt: skip
    changes, returned = Counter[str](), Counter[str]()
    digests: dict[str, dict[int, str | None]] = {VOTED: {}, DATASET_EDITED: {}}
    for row in connection.execute(_SAID, kinds):
        if row.kind == CHANGES_REQUESTED:
            # The note is the release, a colon and the reason.
            changes[row.note.partition(":")[0]] += 1
        elif row.kind == RETURNED:
            returned[row.note] += 1
        else:
            digests[row.kind][row.seq] = row.fingerprint
    yield from vote_faults(connection, digests[VOTED])
    yield from edit_faults(connection, digests[DATASET_EDITED])
    revised = Counter[str]()
    for row in connection.execute(_REVISIONS):
        revised[row.release] += 1
        said = (row.release, request_fingerprint(dataset=row.dataset or "", request=row.request))
        fits = (row.reserved, row.fingerprint) == said and row.note == plan_digest(row.plan)
        if not fits or row.version != revised[row.release]:
            yield f"release {shown(row.release)}: a version of it has been edited"
    yield from _turn_faults(connection, changes, returned, revised)
    yield from _given_back_faults(connection, revised)


def _turn_faults(
    connection: Connection,
    changes: Mapping[str, int],
    returned: Mapping[str, int],
    revised: Mapping[str, int],
) -> Iterator[str]:
    """Fault turns that have not come about as they are written down."""
    found: dict[str, tuple[int, int, int]] = {}
    for row in connection.execute(select(tables.review)):
        found[row.release] = (row.turn, row.returned, row.version)
    nothing = 1, 0, 1
    for release in sorted({*found, *changes, *returned, *revised}):
        turns = returned.get(release, 0)
        # Each request for changes passes the turn over, each return passes it back
        # and begins the next.
        said = (1 + turns, changes.get(release, 0) - turns, 1 + revised.get(release, 0))
        if found.get(release, nothing) != said:
            yield f"release {shown(release)}: its review is not the one in the ledger"


def _given_back_faults(connection: Connection, revised: Mapping[str, int]) -> Iterator[str]:
    """Fault what was given back more often, or less, than its versions and its end require."""
    times = {row.release: int(row.times) for row in connection.execute(_GIVEN_BACK)}
    odd = sorted({*times, *revised})
    for start in range(0, len(odd), _CHUNK):
        wanted = odd[start : start + _CHUNK]
        ended = {*connection.execute(_ENDED, {"wanted": wanted}).scalars()}
        for release in wanted:
            if times.get(release, 0) != revised.get(release, 0) + (release in ended):
                yield f"release {shown(release)}: its versions are not those in the ledger"


# The outbox: notices, written in the transaction of what they report, and how far each came

_notice, _read, _delivery = tables.notice.c, tables.notice_read.c, tables.delivery.c

_IT = (_delivery.notice == bindparam("of"), _delivery.channel == bindparam("on"))
_TRIED = select(tables.delivery).where(*_IT)
_TRY = (
    update(tables.delivery)
    .where(*_IT)
    .values(attempts=_delivery.attempts + 1, next_at=bindparam("then"))
)
_DONE = update(tables.delivery).where(*_IT).values(done_at=bindparam("then"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRecord:
    """What has happened to which release or study plan, by whom and why; ``read_at`` is the
    reader's own.

    An :attr:`Event.RELEASED` stands for what its draw leads to, whatever that is.
    """

    number: int
    id: str
    event: Event
    audience: Audience
    release: str | None
    study_plan: str | None
    requester: str
    actor: str
    reason: str | None
    at: str
    read_at: str | None = None
    attempts: int = 0


class Notices:
    """Notices for a person, or for a channel."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def inbox(
        self,
        person: str,
        *,
        reviewer: bool,
        span: Span,
        unread: bool = False,
        hidden: Collection[str] = (),
    ) -> tuple[NoticeRecord, ...]:
        """Return notices of a span for a person; a reviewer's are those of others' requests.

        What somebody has done is read by themselves already. Those about releases of ``hidden``
        accounts are left out.
        """
        query = (
            select(tables.notice, _read.read_at, literal(0).label("attempts"))
            .outerjoin(
                tables.notice_read,
                and_(_read.notice == _notice.number, _read.person == person),
            )
            .where(_is_for(person, reviewer=reviewer, hidden=hidden))
        )
        if unread:
            query = query.where(_read.read_at.is_(None), _notice.actor != person)
        return _records(self._connection, spanned(self._connection, query, span, _notice.number))

    def numbered(
        self, ids: Collection[str], person: str, *, reviewer: bool, hidden: Collection[str] = ()
    ) -> dict[str, int]:
        """Return the numbers of those of some notices that are for a person, by id."""
        query = select(_notice.id, _notice.number).where(
            _notice.id.in_([*ids]), _is_for(person, reviewer=reviewer, hidden=hidden)
        )
        return {row.id: int(row.number) for row in self._connection.execute(query)}

    def undelivered(
        self, channel: str, *, since: str, at: str, after: int, limit: int
    ) -> tuple[NoticeRecord, ...]:
        """Return what is to be sent on a channel now, oldest first; nothing before ``since``."""
        query = (
            select(
                tables.notice,
                literal(None).label("read_at"),
                _delivery.attempts,
            )
            .outerjoin(
                tables.delivery,
                and_(_delivery.notice == _notice.number, _delivery.channel == channel),
            )
            .where(
                _notice.at >= since,
                _notice.number > after,
                or_(
                    _delivery.notice.is_(None),
                    and_(_delivery.done_at.is_(None), _delivery.next_at <= at),
                ),
            )
            .order_by(_notice.number)
            .limit(limit)
        )
        return _records(self._connection, query)


class NoticesWriter(Notices):
    """Writing notices, and what becomes of them."""

    __slots__ = ()

    def notify(
        self, event: Event, release: ReleaseRecord, *, actor: str, reason: str | None, at: str
    ) -> None:
        """Write a notice about a release."""
        self.notify_of(
            event,
            release=release.id,
            requester=release.principal,
            actor=actor,
            reason=reason,
            at=at,
        )

    def notify_of(
        self,
        event: Event,
        *,
        release: str | None = None,
        study_plan: str | None = None,
        requester: str,
        actor: str,
        reason: str | None,
        at: str,
    ) -> None:
        """Write a notice; the transaction's own end decides whether there is one."""
        row = {
            "id": new_id("ntf"),
            "event": event.value,
            "audience": audience_of(event, by_requester=actor == requester).value,
            "release": release,
            "study_plan": study_plan,
            "requester": requester,
            "actor": actor,
            "reason": reason,
            "at": at,
        }
        self._connection.execute(insert(tables.notice), row)

    def mark_read(self, numbers: Sequence[int], person: str) -> None:
        """Note that a person has read some notices; what is read stays so."""
        known = select(_read.notice).where(_read.person == person, _read.notice.in_([*numbers]))
        read = {*self._connection.execute(known).scalars()}
        rows = [
            {"person": person, "notice": number, "read_at": now()}
            for number in numbers
            if number not in read
        ]
        if rows:
            self._connection.execute(insert(tables.notice_read), rows)

    def claim(self, notice: int, channel: str, *, at: str, next_at: str) -> bool:
        """Count a try to send a notice, unless it was sent or is being tried; the next is later."""
        it = {"of": notice, "on": channel}
        known = self._connection.execute(_TRIED, it).one_or_none()
        if known is None:
            row = {"notice": notice, "channel": channel, "attempts": 1, "next_at": next_at}
            self._connection.execute(insert(tables.delivery), row)
            return True
        # Another server may be sending it: its try has set the next time before it began.
        if known.done_at is not None or known.next_at > at:
            return False
        self._connection.execute(_TRY, {**it, "then": next_at})
        return True

    def delivered(self, notice: int, channel: str) -> None:
        """Note that a notice has arrived."""
        self._connection.execute(_DONE, {"of": notice, "on": channel, "then": now()})


def _is_for(person: str, *, reviewer: bool, hidden: Collection[str]) -> ColumnElement[bool]:
    seen = requests_seen(_notice.release, _notice.study_plan, hidden)
    own = and_(_notice.requester == person, _notice.audience != Audience.REVIEWERS.value)
    if not reviewer:
        return and_(own, seen)
    others = and_(_notice.requester != person, _notice.audience != Audience.REQUESTER.value)
    return and_(or_(own, others), seen)


def _records(connection: Connection, query: object) -> tuple[NoticeRecord, ...]:
    rows = connection.execute(query)  # type: ignore[call-overload]
    return tuple(
        NoticeRecord(
            **{
                **row._mapping,
                "event": Event(row.event),
                "audience": Audience(row.audience),
                "attempts": row.attempts or 0,
            }
        )
        for row in rows
    )
