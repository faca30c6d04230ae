"""The inbox: what has happened to releases under review, in words; who, what and why.

The outcome of a draw is reported once it is public, and not before. No notice holds a value: it is
made of the request and of what people wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import anyio.to_thread

from app.domain.policies import Role
from app.domain.releases import ReleaseState
from app.domain.reviews import Audience, Event
from app.services.people.keys import Caller
from app.services.plans.questions import read_question
from app.services.releases.public_moments import PublicMoments
from app.store import Reader, ReleaseRecord, Store, UnitOfWork
from app.store.ledger.entries import SYSTEM
from app.store.ledger.reviewing.notices import NoticeRecord

__all__ = ["InboxService", "Notice", "notice_of"]

_SAID = {
    Event.ASKED: "{who} asks for a release",
    Event.CHANGES_REQUESTED: "{who} wants changes to a release",
    Event.REVISED: "{who} has revised the request for a release",
    Event.ANSWERED: "{who} has answered the reviewers of a release",
    Event.COMMENTED: "{who} has commented on a release",
    Event.CONFLICT: "Two reviewers have voted unlike on a release",
    Event.APPROVED: "{who} has approved a release",
    Event.REJECTED: "{who} has rejected a release",
    Event.WITHDRAWN: "{who} has withdrawn a release",
    Event.EXPIRED: "The time to decide on a release has passed",
    Event.RELEASED: "The result is there of a release",
    Event.VOID: "Nothing could be drawn for a release",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What has happened, to a reader: ``what`` is a sentence, ``why`` what somebody wrote."""

    number: int
    id: str
    event: Event
    audience: Audience
    release: str
    dataset: str
    requester: str
    who: str
    what: str
    why: str | None
    at: str
    read: bool


class InboxService:
    """Reading notices, and marking them as read."""

    def __init__(self, store: Store, moments: PublicMoments) -> None:
        self._store = store
        self._moments = moments

    def list(
        self, *, caller: Caller, before: int | None, limit: int, unread: bool = False
    ) -> Sequence[Notice]:
        """Return what has happened to the caller's releases, newest first.

        A curator's are those of everybody.
        """
        found: list[Notice] = []
        with self._store.reading() as reader:
            # What is not public yet is left out, so that one look may not fill the page.
            while len(found) < limit:
                records = reader.notices.inbox(
                    caller.person,
                    reviewer=caller.role.may_act_as(Role.CURATOR),
                    before=before,
                    limit=limit,
                    unread=unread,
                )
                if not records:
                    break
                before = records[-1].number
                notices = (
                    notice_of(reader, each, self._moments, caller.person) for each in records
                )
                found += [each for each in notices if each is not None]
        return found[:limit]

    async def mark_read(self, ids: Sequence[str], *, caller: Caller) -> int:
        """Mark notices as read, and return how many of these are the caller's to read."""
        reviewer = caller.role.may_act_as(Role.CURATOR)

        def look() -> Sequence[int]:
            with self._store.reading() as reader:
                known = reader.notices.numbered(ids, caller.person, reviewer=reviewer)
            return [*known.values()]

        numbers = await anyio.to_thread.run_sync(look)
        if numbers:

            def write(work: UnitOfWork) -> None:
                work.notices.mark_read(numbers, caller.person)

            await self._store.awrite(write)
        return len(numbers)


def notice_of(
    reader: Reader, record: NoticeRecord, moments: PublicMoments, person: str | None = None
) -> Notice | None:
    """Return a notice in words, as ``person`` reads it; None while its outcome is not public."""
    release = reader.releases.get(record.release, moments.publicly)
    dataset = None if release is None else reader.datasets.get(release.dataset)
    if release is None or dataset is None:
        return None
    event = record.event
    if event is Event.RELEASED:
        if release.state is ReleaseState.DEBITED:
            return None
        event = Event.VOID if release.state is ReleaseState.VOID else event
    who = "the service" if record.actor == SYSTEM else record.actor
    said = _SAID[event].format(who=who)
    return Notice(
        number=record.number,
        id=record.id,
        event=event,
        audience=record.audience,
        release=record.release,
        dataset=dataset.id,
        requester=record.requester,
        who=who,
        what=f"{said} of “{dataset.name}”: {_asked(release, who)}",
        why=record.reason if event is not Event.ASKED else _purpose(release),
        at=record.at,
        read=record.read_at is not None or record.actor == person,
    )


def _asked(release: ReleaseRecord, who: str) -> str:
    """Return what is asked, and by whom where the notice does not say so already."""
    question = read_question(release.request)
    kinds = ", ".join(dict.fromkeys(kind.replace("_", " ") for kind in question.kinds))
    by = "" if who == release.principal else f", asked by {release.principal}"
    return f"{kinds}, epsilon {question.epsilon}{by}"


def _purpose(release: ReleaseRecord) -> str | None:
    return read_question(release.request).purpose
