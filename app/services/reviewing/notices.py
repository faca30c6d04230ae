"""Notices: what has happened to releases under review, in words; who, what and why.

The outcome of a draw is reported once it is public, and not before. No notice holds a value: it is
made of the request and of what people wrote. Notices are in the inbox, and are sent on.

*The webhook* is a POST of JSON with three headers, as the Standard Webhooks have them:
``webhook-id``, the same however often it is sent; ``webhook-timestamp``, seconds since 1970; and
``webhook-signature``, ``v1,`` and the base64 of HMAC-SHA256 under the secret, over id, timestamp
and body, joined by full stops. Any 2xx takes it.

A notice that is sent says nothing of a data set that is restricted to named people but that it is.

*Mail* goes to the requester where their name is an address, and to the reviewers' address. Where
the service's public address is known, it leads to the page of the review.

*Who has seen results that are not public: noted once for each person, release, way and day.* Notes
are gathered and written every few seconds in one transaction, so that reading costs nothing. A
server that is killed may lose those of its last seconds. Views of public releases are not
recorded.

*Sending: each notice is claimed, sent, and tried again with longer and longer pauses.* A claim is
written before a notice is sent, so two server processes seldom send the same one, and a process
that dies in between has it sent again later: at least once, with an id to detect duplicates.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import re
import smtplib
import ssl
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from functools import partial
from typing import Literal, Protocol
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread

from app.domain.access import Span
from app.domain.policies import Right
from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.domain.reviews import Audience, Event
from app.logs import describe
from app.services.people.keys import Caller
from app.services.plans.questions import read_question
from app.services.releases.public_moments import PublicMoments
from app.services.transparency.stamps import NotPostedError, post
from app.store import DatasetRecord, Reader, ReleaseRecord, Store, UnitOfWork
from app.store.ledger.entries import SYSTEM
from app.store.ledger.records import now, text_of
from app.store.ledger.reviewing.notices import NoticeRecord
from app.store.ledger.reviewing.study_plans import PlanRecord
from app.store.ledger.reviewing.votes import View, ViewRecord
from app.tidy.names import Phrase, joined, marked, words

__all__ = ["InboxService", "Notice", "ViewRecord", "ViewService", "notice_of"]

_SAID = {
    Event.ASKED: marked("%(who)s asks for %(it)s of %(name)s: %(asked)s"),
    Event.CHANGES_REQUESTED: marked("%(who)s wants changes to %(it)s of %(name)s: %(asked)s"),
    Event.REVISED: marked("%(who)s has revised the request for %(it)s of %(name)s: %(asked)s"),
    Event.ANSWERED: marked("%(who)s has answered the reviewers of %(it)s of %(name)s: %(asked)s"),
    Event.COMMENTED: marked("%(who)s has commented on %(it)s of %(name)s: %(asked)s"),
    Event.CONFLICT: marked("Two reviewers have voted unlike on %(it)s of %(name)s: %(asked)s"),
    Event.APPROVED: marked("%(who)s has approved %(it)s of %(name)s: %(asked)s"),
    Event.REJECTED: marked("%(who)s has rejected %(it)s of %(name)s: %(asked)s"),
    Event.WITHDRAWN: marked("%(who)s has withdrawn %(it)s of %(name)s: %(asked)s"),
    Event.EXPIRED: marked("The time for %(it)s of %(name)s has passed: %(asked)s"),
    Event.RELEASED: marked("The result is there of %(it)s of %(name)s: %(asked)s"),
    Event.VOID: marked("Nothing could be drawn for %(it)s of %(name)s: %(asked)s"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What has happened, to a reader: ``what`` is a sentence, ``why`` what somebody wrote.

    It is about a release or a study plan, and the other of the two is None.
    """

    number: int
    id: str
    event: Event
    audience: Audience
    release: str | None = None
    study_plan: str | None = None
    dataset: str
    requester: str
    who: str
    what: str
    why: str | None
    at: str
    read: bool

    @property
    def page(self) -> str:
        """Return the path of the page at the desk where it is decided on."""
        if self.study_plan is not None:
            return f"/desk/study-plans/{self.study_plan}"
        return f"/desk/reviews/{self.release}"


class InboxService:
    """Reading notices, and marking them as read."""

    def __init__(self, store: Store, moments: PublicMoments) -> None:
        self._store = store
        self._moments = moments

    def list(self, *, caller: Caller, span: Span, unread: bool = False) -> Sequence[Notice]:
        """Return what has happened to the caller's releases, of a span.

        A curator's are those of everyone.
        """
        found: list[Notice] = []
        with self._store.reading() as reader:
            # What is not public yet is left out, so that one look may not fill the page.
            while len(found) < span.limit:
                records = reader.notices.inbox(
                    caller.person,
                    reviewer=caller.role.may(Right.DECIDE),
                    span=span,
                    unread=unread,
                    hidden=caller.hidden,
                )
                if not records:
                    break
                span = span.beyond(records[-1].number)
                found += notices_of(reader, records, self._moments, caller.person)
        return found[: span.limit]

    async def mark_read(self, ids: Sequence[str], *, caller: Caller) -> int:
        """Mark notices as read, and return how many of these are the caller's to read."""
        reviewer = caller.role.may(Right.DECIDE)

        def look() -> Sequence[int]:
            with self._store.reading() as reader:
                known = reader.notices.numbered(
                    ids, caller.person, reviewer=reviewer, hidden=caller.hidden
                )
            return [*known.values()]

        numbers = await anyio.to_thread.run_sync(look)
        if numbers:

            def write(work: UnitOfWork) -> None:
                work.notices.mark_read(numbers, caller.person)

            await self._store.awrite(write)
        return len(numbers)


def notices_of(
    reader: Reader, records: Sequence[NoticeRecord], moments: PublicMoments, person: str
) -> Sequence[Notice]:
    """Return what :func:`notice_of` does of many, without those that are not public yet."""
    about = _all_about(reader, records, moments)
    datasets = {
        each: reader.datasets.get(each)
        for each in {found.dataset for found in about if found is not None}
    }
    return [
        made
        for record, each in zip(records, about, strict=True)
        if each is not None and (dataset := datasets[each.dataset]) is not None
        if (made := _notice(record, each, dataset, person)) is not None
    ]


def notice_of(
    reader: Reader,
    record: NoticeRecord,
    moments: PublicMoments,
    person: str | None = None,
    *,
    restricted: Collection[str] = (),
) -> Notice | None:
    """Return a notice in words, as ``person`` reads it; None while its outcome is not public.

    Of the data sets of ``restricted`` accounts it says neither a name nor what somebody wrote.
    """
    [about] = _all_about(reader, [record], moments)
    dataset = None if about is None else reader.datasets.get(about.dataset)
    if about is None or dataset is None:
        return None
    return _notice(record, about, dataset, person, restricted=restricted)


def _notice(
    record: NoticeRecord,
    about: _About,
    dataset: DatasetRecord,
    person: str | None,
    *,
    restricted: Collection[str] = (),
) -> Notice | None:
    event = record.event
    if event is Event.RELEASED:
        if about.state is ReleaseState.DEBITED:
            return None
        event = Event.VOID if about.state is ReleaseState.VOID else event
    who = "the service" if record.actor == SYSTEM else record.actor
    named = dataset.account not in restricted
    of = f"“{dataset.name}”" if named else marked("a restricted data set")
    why = record.reason if event is not Event.ASKED else about.purpose
    asked = about.asked if named or record.study_plan is None else about.size
    if who != record.requester:
        asked = marked("%(asked)s, asked by %(person)s", asked=asked, person=record.requester)
    called = marked("the service") if record.actor == SYSTEM else who
    values = {"who": called, "it": about.it, "name": of, "asked": asked}
    return Notice(
        number=record.number,
        id=record.id,
        event=event,
        audience=record.audience,
        release=record.release,
        study_plan=record.study_plan,
        dataset=dataset.id,
        requester=record.requester,
        who=who,
        what=Phrase(_SAID[event], values),
        why=why if named else None,
        at=record.at,
        read=record.read_at is not None or record.actor == person,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _About:
    """What a notice is about; ``asked`` says what is asked in short, ``size`` how much alone."""

    it: str
    dataset: str
    asked: str
    size: str
    purpose: str | None
    state: ReleaseState | None = None


def _all_about(
    reader: Reader, records: Sequence[NoticeRecord], moments: PublicMoments
) -> Sequence[_About | None]:
    """Return what each notice is about; None where that is not there."""
    plans = reader.study_plans.get_all([each.study_plan for each in records if each.study_plan])
    releases = reader.releases.heads([each.release for each in records if each.release])
    found: list[_About | None] = []
    for each in records:
        plan, release = plans.get(each.study_plan or ""), releases.get(each.release or "")
        if plan is not None:
            found.append(_of_plan(plan))
        else:
            found.append(None if release is None else _of_release(moments.publicly(release)))
    return found


def _of_plan(plan: PlanRecord) -> _About:
    count = len(plan.questions)
    size = marked("%(count)s questions", count=count) if count > 1 else marked("1 question")
    return _About(
        it=marked("a study plan"),
        dataset=plan.dataset,
        asked=joined([f"“{plan.name}”", size]),
        size=size,
        purpose=plan.purpose,
    )


def _of_release(release: ReleaseRecord) -> _About:
    question = read_question(release.request)
    kinds = joined(dict.fromkeys(map(words, question.kinds)))
    asked = joined([kinds, marked("epsilon %(epsilon)s", epsilon=question.epsilon)])
    return _About(
        it=marked("a release"),
        dataset=release.dataset,
        asked=asked,
        size=asked,
        purpose=question.purpose,
        state=release.state,
    )


_TIMEOUT_S = 10.0
_ADDRESS = re.compile(r"[^@\s<>,;\"]+@[^@\s<>,;\"]+", re.ASCII)


class NotTakenError(Exception):
    """A channel has not taken a notice; it is sent again."""


class Channel(Protocol):
    """What notices are sent on; its name is kept with how far each has come."""

    @property
    def name(self) -> str:
        """Return what it is called."""

    def send(self, notice: Notice) -> None:
        """Send a notice.

        Raises
        ------
        NotTakenError
            It was not taken.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A signed POST of each notice to one address."""

    url: str
    secret: str
    name: str = "webhook"

    def send(self, notice: Notice) -> None:
        """Post a notice."""
        body = _body(notice)
        sent_at = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "webhook-id": notice.id,
            "webhook-timestamp": sent_at,
            "webhook-signature": signature(self.secret, notice.id, sent_at, body),
        }
        try:
            post(self.url, body, headers)
        except NotPostedError as error:
            raise NotTakenError(str(error)) from None


def _named(notice: Notice) -> str:
    if notice.study_plan is not None:
        return f"Study plan {notice.study_plan}"
    return f"Release {notice.release}"


def signature(secret: str, id: str, sent_at: str, body: bytes) -> str:
    """Return what ``webhook-signature`` holds."""
    signed = b".".join((id.encode(), sent_at.encode(), body))
    digest = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def _body(notice: Notice) -> bytes:
    body = {
        "id": notice.id,
        "event": notice.event.value,
        "audience": notice.audience.value,
        "release": notice.release,
        "study_plan": notice.study_plan,
        "dataset": notice.dataset,
        "requested_by": notice.requester,
        "who": notice.who,
        "what": notice.what,
        "why": notice.why,
        "at": notice.at,
    }
    return json.dumps(body).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A mail for each notice, by one server: ``smtp://`` (STARTTLS where offered) or ``smtps://``.

    A user and a password in the URL are sent over TLS alone; both are percent-encoded there.
    """

    url: str = field(repr=False)
    sender: str
    reviewers: Sequence[str]
    public_url: str = ""
    name: str = "mail"

    def send(self, notice: Notice) -> None:
        """Mail a notice to whom it is for, if any of them has an address."""
        to = self._recipients(notice)
        if not to:
            return
        message = EmailMessage()
        # Names of data sets are in it, and no line may end in a header.
        message["Subject"] = " ".join(notice.what.split())[:200]
        message["From"] = self.sender
        message["To"] = ", ".join(to)
        message["Date"] = datetime.now(UTC)
        message["Auto-Submitted"] = "auto-generated"  # so that no absence notice answers it
        # the same in every try, so that a mail that came twice is recognised as one
        message["Message-ID"] = f"<{notice.id}@{self.sender.rpartition('@')[2]}>"
        message.set_content(
            f"{notice.what}.\n\n"
            + (f"{notice.why}\n\n" if notice.why else "")
            + f"{_named(notice)}, {notice.at}\n"
            + (f"{self.public_url}{notice.page}\n" if self.public_url else "")
        )
        try:
            self._hand_over(message)
        except (OSError, smtplib.SMTPException) as error:
            raise NotTakenError(type(error).__name__) from None

    def _recipients(self, notice: Notice) -> Sequence[str]:
        to: list[str] = []
        if notice.audience is not Audience.REVIEWERS and _ADDRESS.fullmatch(notice.requester):
            to.append(notice.requester)
        if notice.audience is not Audience.REQUESTER:
            to += self.reviewers
        return to

    def _hand_over(self, message: EmailMessage) -> None:
        parts = urlsplit(self.url)
        host, context = parts.hostname or "localhost", ssl.create_default_context()
        secure = parts.scheme == "smtps"
        port = parts.port or (465 if secure else 25)
        server = (
            smtplib.SMTP_SSL(host, port, timeout=_TIMEOUT_S, context=context)
            if secure
            else smtplib.SMTP(host, port, timeout=_TIMEOUT_S)
        )
        with server:
            server.ehlo_or_helo_if_needed()  # what is offered is not known before
            if not secure and server.has_extn("starttls"):
                server.starttls(context=context)
                secure = True
            if parts.username and parts.password:
                if not secure:
                    raise NotTakenError("no password is sent to a mail server without TLS")
                server.login(unquote(parts.username), unquote(parts.password))
            server.send_message(message)


# Sending notices: each is claimed, sent, and tried again with longer and longer pauses

_LOG = logging.getLogger(__name__)
LOOK_EVERY_S = 2.0
FIRST_PAUSE_S = 10
LONGEST_PAUSE_S = 3600
GIVEN_UP_AFTER = timedelta(days=7)
"""What could not be sent for so long is not sent any more; it stays in the inbox."""
_PAGE = 100


class SendingService:
    """Sends what is in the outbox on every channel that is set."""

    def __init__(self, store: Store, moments: PublicMoments, channels: Sequence[Channel]) -> None:
        self._store = store
        self._moments = moments
        self._channels = channels

    async def send_due(self, *, at: datetime | None = None) -> int:
        """Send what is due, and return how many arrived."""
        moment, arrived = at or datetime.now(UTC), 0
        for channel in self._channels:
            after = 0
            while due := await anyio.to_thread.run_sync(self._due, channel.name, moment, after):
                after = due[-1][0].number
                for record, notice in due:
                    if notice is not None:
                        arrived += await self._send(channel, record, notice, moment)
        return arrived

    def _due(
        self, channel: str, at: datetime, after: int
    ) -> Sequence[tuple[NoticeRecord, Notice | None]]:
        with self._store.reading() as reader:
            records = reader.notices.undelivered(
                channel,
                since=text_of(at - GIVEN_UP_AFTER),
                at=text_of(at),
                after=after,
                limit=_PAGE,
            )
            # It goes to addresses, and who reads there may not be named.
            restricted = reader.access.now().lists if records else ()
            return [
                (each, notice_of(reader, each, self._moments, restricted=restricted))
                for each in records
            ]

    async def _send(
        self, channel: Channel, record: NoticeRecord, notice: Notice, at: datetime
    ) -> bool:
        """Send one notice, unless another process has claimed it."""
        pause_s = min(FIRST_PAUSE_S * 2 ** min(record.attempts, 16), LONGEST_PAUSE_S)
        again, now = text_of(at + timedelta(seconds=pause_s)), text_of(at)
        claimed = await self._store.awrite(
            lambda work: work.notices.claim(record.number, channel.name, at=now, next_at=again)
        )
        if not claimed:
            return False
        try:
            await anyio.to_thread.run_sync(channel.send, notice)
        except NotTakenError as error:
            _LOG.warning(
                "a notice was not taken",
                extra={"channel": channel.name, "notice": notice.id, "reason": str(error)},
            )
            return False
        await self._store.awrite(lambda work: work.notices.delivered(record.number, channel.name))
        return True

    async def keep_sending(self) -> None:
        """Send what is due, while somebody serves."""
        while self._channels:
            try:
                await self.send_due()
            except Problem as problem:  # busy, or frozen
                _LOG.info("notices not sent yet", extra={"code": problem.code})
            except Exception as error:
                _LOG.error("notices not sent yet", extra=describe(error))
            await anyio.sleep(LOOK_EVERY_S)


# Who has seen results that are not public: noted once for each person, release, way and day

How = Literal["read", "listed", "derived", "downloaded"]
"""In which way a result is seen."""

WRITE_EVERY_S = 2.0
_MOST_REMEMBERED = 10_000  # what is forgotten is noted again, and the database keeps one of a day


class ViewService:
    """Notes who sees results, and lists it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[tuple[str, str, str, str], None] = {}
        self._unwritten: list[View] = []

    def note(self, records: Iterable[ReleaseRecord], how: How, *, caller: Caller) -> None:
        """Note that somebody sees the results that some releases have."""
        for record in records:
            if record.state is ReleaseState.RELEASED:
                self.note_id(record.id, how, caller=caller)

    def note_id(self, release: str, how: How, *, caller: Caller) -> None:
        """Note that somebody sees the result of a release that has one."""
        at = now()
        known = release, caller.person, how, at[:10]
        if known in self._seen:
            return
        if len(self._seen) >= _MOST_REMEMBERED:
            self._seen.clear()
        self._seen[known] = None
        self._unwritten.append(
            View(release=release, person=caller.person, how=how, key=caller.key, at=at)
        )

    async def write(self) -> None:
        """Write down what has been noted; what cannot be written now is, the next time."""
        taken, self._unwritten = self._unwritten, []
        if not taken:
            return

        def write(work: UnitOfWork) -> None:
            public = work.publications.public({each.release for each in taken})
            work.views.note([each for each in taken if each.release not in public])

        try:
            await self._store.awrite(write)
        except BaseException:
            # Also of a task that is cancelled: a view is lost by a crash alone.
            self._unwritten = taken + self._unwritten
            raise

    async def list(
        self, *, caller: Caller, span: Span, release: str | None
    ) -> Sequence[ViewRecord]:
        """Return who has seen what, of a span, as far as a caller may see it."""
        await self.write()
        return await anyio.to_thread.run_sync(
            partial(self.written, caller=caller, span=span, release=release)
        )

    def written(
        self, *, caller: Caller, span: Span, release: str | None = None
    ) -> Sequence[ViewRecord]:
        """Return what has been written down, of a span; in a thread of the caller's."""
        with self._store.reading() as reader:
            return reader.views.list(span=span, release=release, hidden=caller.hidden)

    async def keep_writing(self) -> None:
        """Write down what has been noted, while somebody serves."""
        while True:
            await self.try_writing()
            await anyio.sleep(WRITE_EVERY_S)

    async def try_writing(self) -> None:
        """Write down what has been noted, if that can be done now."""
        try:
            await self.write()
        except Problem as problem:  # busy, or frozen
            _LOG.info("views not written yet", extra={"code": problem.code})
        except Exception as error:
            _LOG.error("views not written yet", extra=describe(error))
