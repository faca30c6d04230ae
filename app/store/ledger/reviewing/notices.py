"""The outbox: notices, written in the transaction of what they report, and how far each came.

What a draw leads to has a notice from its charge on, because when the draw ends is not public:
the notice is shown, and sent, once its outcome is. Until then readers do without it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    update,
)

from app.domain.notices import Audience, Event, audience_of
from app.store.database import tables
from app.store.ledger.ids import new_id, now
from app.store.ledger.records import ReleaseRecord

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
    """What has happened to which release, by whom and why; ``read_at`` is the reader's own.

    An :attr:`Event.RELEASED` stands for what its draw leads to, whatever that is.
    """

    number: int
    id: str
    event: Event
    audience: Audience
    release: str
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
        self, person: str, *, reviewer: bool, before: int | None, limit: int, unread: bool = False
    ) -> tuple[NoticeRecord, ...]:
        """Return notices for a person, newest first; a reviewer's are those of others' requests.

        What somebody has done is read by themselves already.
        """
        query = (
            select(tables.notice, _read.read_at, literal(0).label("attempts"))
            .outerjoin(
                tables.notice_read,
                and_(_read.notice == _notice.number, _read.person == person),
            )
            .where(_is_for(person, reviewer=reviewer))
            .order_by(_notice.number.desc())
            .limit(limit)
        )
        if before is not None:
            query = query.where(_notice.number < before)
        if unread:
            query = query.where(_read.read_at.is_(None), _notice.actor != person)
        return _records(self._connection, query)

    def numbered(self, ids: Collection[str], person: str, *, reviewer: bool) -> dict[str, int]:
        """Return the numbers of those of some notices that are for a person, by id."""
        query = select(_notice.id, _notice.number).where(
            _notice.id.in_([*ids]), _is_for(person, reviewer=reviewer)
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
        """Write a notice; the transaction's own end decides whether there is one."""
        row = {
            "id": new_id("ntf"),
            "event": event.value,
            "audience": audience_of(event, by_requester=actor == release.principal).value,
            "release": release.id,
            "requester": release.principal,
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


def _is_for(person: str, *, reviewer: bool) -> ColumnElement[bool]:
    own = and_(_notice.requester == person, _notice.audience != Audience.REVIEWERS.value)
    if not reviewer:
        return own
    others = and_(_notice.requester != person, _notice.audience != Audience.REQUESTER.value)
    return or_(own, others)


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
