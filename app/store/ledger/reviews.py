"""Releases under review: budget is set aside, then spent or given back.

Nothing has been drawn or read while a release is reserved, so giving the budget
back reveals nothing: the reviewer has seen the request and nothing else. A later version of a
request moves what is set aside: two entries, one transaction, and the condition that every
charge is judged by.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, func, select, update

from app.domain.ledger import EntryKind
from app.domain.policies import Acting
from app.domain.problems import Problem
from app.domain.releases import (
    GIVEN_BACK,
    UNDECIDED,
    ReleaseState,
    plan_digest,
    request_fingerprint,
)
from app.domain.reviews import Event, event_of
from app.store.database import tables
from app.store.ledger.accounts import AccountsWriter
from app.store.ledger.caps import PersonCaps
from app.store.ledger.commands import ENTRY_BYTES, allow
from app.store.ledger.entries import SYSTEM, EntriesWriter, Occasion, change_rows
from app.store.ledger.jobs import ENTER
from app.store.ledger.pauses import Pauses
from app.store.ledger.records import ReleaseRecord, now, release_ids
from app.store.ledger.releases import ENDED_AS, ReleasesWriter
from app.store.ledger.reviewing.notices import NoticesWriter
from app.store.ledger.reviewing.votes import (
    CHANGES_REQUESTED,
    RETURNED,
    Turn,
    VersionRecord,
    supersede,
    versions_of,
    write_turn,
)

APPROVED = "release_approved"
"""The kind of the system entry that says who approved a release; its note names it, and why."""

OVERDUE = "no one decided in time"
"""The reason of what has waited too long."""

_REVISED = "revised"
"""The reason of what was set aside for a version that another has taken the place of."""

_release = tables.release.c
_STEP = update(tables.release).where(
    _release.id == bindparam("wanted"), _release.state == ReleaseState.RESERVED.value
)
_ASKED_BY = select(tables.entry.c.key, tables.entry.c.role).where(
    tables.entry.c.account == bindparam("of"), tables.entry.c.seq == bindparam("place")
)
_APPROVE = _STEP.values(
    state=ReleaseState.DEBITED.value,
    seq=bindparam("charge"),
    attempts=1,
    worker=bindparam("by"),
)
_REVISE = _STEP.values(
    seq=bindparam("reserve"),
    request=bindparam("asked"),
    plan=bindparam("planned"),
    fingerprint=bindparam("print"),
)
_CLOSE = _STEP.values(state=bindparam("final"), finished_at=bindparam("at"))
# Written into the statement, so that the index of what waits is used.
_WAITING = (
    select(_release.id)
    .where(_release.state == bindparam("state", ReleaseState.RESERVED, literal_execute=True))
    .order_by(_release.number)
)
_WAITING_SINCE = _WAITING.where(_release.created_at <= bindparam("since")).limit(bindparam("most"))
# An expression, so that the index of a data set's releases is not: of those there may be many.
_WAITING_ON = _WAITING.where(func.coalesce(_release.account, "") == bindparam("of"))
_WAITING_FOR = _WAITING.where(func.coalesce(_release.dataset, "") == bindparam("of"))
_WAITING_OF = _WAITING.where(func.coalesce(_release.principal, "") == bindparam("by"))


class Reviews:
    """Releases that wait for a review."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def waiting_since(self, moment: str, *, limit: int = 100) -> Sequence[str]:
        """Return the ids of those that were asked for at a time or before it, oldest first."""
        wanted = {"since": moment, "most": limit}
        return self._connection.execute(_WAITING_SINCE, wanted).scalars().all()

    def waiting_for(self, dataset: str) -> Sequence[str]:
        """Return the ids of a data set's, oldest first."""
        return self._connection.execute(_WAITING_FOR, {"of": dataset}).scalars().all()

    def waiting_of(self, person: str) -> Sequence[str]:
        """Return the ids of those a person asked for, oldest first."""
        return self._connection.execute(_WAITING_OF, {"by": person}).scalars().all()

    def versions(self, release: ReleaseRecord) -> tuple[VersionRecord, ...]:
        """Return every version of a release's request, the present one last."""
        return versions_of(self._connection, release)


class ReviewsWriter(Reviews):
    """Setting budget aside for a release, and what may become of it."""

    __slots__ = ("_accounts", "_entries", "_notices", "_releases")

    def __init__(
        self,
        connection: Connection,
        entries: EntriesWriter,
        accounts: AccountsWriter,
        releases: ReleasesWriter,
        notices: NoticesWriter,
    ) -> None:
        super().__init__(connection)
        self._notices = notices
        self._entries = entries
        self._accounts = accounts
        self._releases = releases

    def reserve(
        self,
        *,
        account: str,
        amount: int,
        dataset: str,
        principal: str,
        request: str,
        plan: str,
        idem: str,
        size: int = 0,
        most_bytes: int | None = None,
    ) -> ReleaseRecord:
        """Set budget aside for a release; its state is ``reserved``, and nothing is drawn.

        The arguments are those of :class:`~app.store.ledger.commands.Debit`, and so is the
        rule on the Idempotency-Key: look it up first.

        Raises
        ------
        Problem
            ``not-found``; ``too-much-stored``; ``budget-exceeded`` with nothing written.
        """
        allow(self._connection, principal, size, most_bytes, at=now())
        number = self._releases.next_number()
        [release] = release_ids(number)
        fingerprint = request_fingerprint(dataset=dataset, request=request)
        occasion = Occasion(
            principal=principal,
            release=release,
            idem=idem,
            fingerprint=fingerprint,
            note=plan_digest(plan),
        )
        entry = self._accounts.take(account, EntryKind.RESERVE, amount, occasion)
        made = ReleaseRecord.begun(
            number=number,
            id=release,
            account=account,
            seq=entry.seq,
            dataset=dataset,
            principal=principal,
            request=request,
            plan=plan,
            fingerprint=fingerprint,
            created_at=entry.at,
            worker=None,
            entry_hash=entry.hash,
            amount=amount,
            reserved=True,
        )
        self._releases.insert(made)
        self._notices.notify(
            event_of(None, made.state), made, actor=principal, reason=None, at=entry.at
        )
        return made

    def approve(
        self,
        release: str,
        *,
        principal: str,
        reason: str | None = None,
        worker: str | None = None,
        deadline_s: int | None = None,
    ) -> ReleaseRecord:
        """Spend what is reserved: the release is ``debited``, in its first attempt.

        The charge is the requester's, by the key and role that they asked with; a system entry
        says that ``principal`` approved it, by which key, and why. ``worker`` is who will draw
        it; without one it waits in the queue, as a job with a deadline in seconds.

        Raises
        ------
        Problem
            ``not-found``; ``precondition`` when it is no longer reserved.
        """
        found = self._reserved(release)
        # A pause may have come after the reservation: nothing is drawn during a pause.
        Pauses(self._connection).check(person=found.principal, dataset=found.dataset)
        occasion = Occasion(
            principal=found.principal,
            release=found.id,
            fingerprint=found.fingerprint,
            # The plan that was reserved for is the one that is drawn by.
            note=plan_digest(found.plan),
        )
        asked = self._connection.execute(_ASKED_BY, {"of": found.account, "place": found.seq}).one()
        entry = self._entries.append(
            found.account,
            EntryKind.DEBIT,
            found.amount,
            occasion,
            reserved=True,
            acting=Acting(asked.key, asked.role),
        )
        self._connection.execute(_APPROVE, {"wanted": found.id, "charge": entry.seq, "by": worker})
        if deadline_s is not None:
            change_rows(self._connection, ENTER, [(found.number, deadline_s)])
        note = found.id if reason is None else f"{found.id}: {reason}"
        # Of the charge's own moment, by which lists find the approval of a charge.
        self._accounts.system_entry(APPROVED, principal=principal, note=note, at=entry.at)
        self._tell(found, ReleaseState.DEBITED, actor=principal, reason=reason, at=entry.at)
        # Its outcome is reported once that is public.
        self._notices.notify(Event.RELEASED, found, actor=SYSTEM, reason=None, at=entry.at)
        return self._releases.get_all([found.id])[found.id]

    def request_changes(self, release: str, *, principal: str, reason: str) -> ReleaseRecord:
        """Give the turn to who asked: the release waits for them, its budget set aside.

        Raises
        ------
        Problem
            ``not-found``; ``precondition`` when it does not wait for its reviewers.
        """
        found = self._reserved(release)
        entry = self._accounts.system_entry(
            CHANGES_REQUESTED,
            principal=principal,
            fingerprint=found.fingerprint,
            note=f"{found.id}: {reason}",
        )
        to = Turn(turn=found.turn, version=found.version, returned=True, reason=reason)
        write_turn(self._connection, found.id, to)
        self._tell(
            found, ReleaseState.CHANGES_REQUESTED, actor=principal, reason=reason, at=entry.at
        )
        return self._releases.get_all([found.id])[found.id]

    def give_turn_back(self, release: str, *, answer: str) -> ReleaseRecord:
        """Give the turn back to the reviewers with an answer, the request as it is.

        Raises
        ------
        Problem
            ``not-found``; ``precondition`` when it does not wait for who asked.
        """
        found = self._in_state(release, ReleaseState.CHANGES_REQUESTED)
        return self._next_turn(found, Event.ANSWERED, version=found.version, reason=answer)

    def revise(
        self,
        release: str,
        *,
        amount: int,
        request: str,
        plan: str,
        most_bytes: int | None = None,
    ) -> ReleaseRecord:
        """Put another request in a release's place, and give the turn back to the reviewers.

        What was set aside is given back and the new amount set aside: two entries of one
        transaction, under the conditions of every charge.

        Raises
        ------
        Problem
            ``not-found``; ``precondition`` when it does not wait for who asked; ``paused``;
            ``too-much-stored``; ``budget-exceeded`` with nothing written.
        """
        found = self._in_state(release, ReleaseState.CHANGES_REQUESTED)
        person, account = found.principal, found.account
        size = len(request) + len(plan) + ENTRY_BYTES
        allow(self._connection, person, size, most_bytes, at=now())
        Pauses(self._connection).check(person=person, dataset=found.dataset)
        chain, slices = self._entries.chain(account, now()), PersonCaps(self._connection, [account])
        # Given back first, so that the new amount is judged against all that is free then.
        freed = chain.balance.after(EntryKind.UNRESERVE, found.amount)
        slices.take(account, person, -found.amount)
        slices.check(account, person, amount, remaining=freed.remaining)
        taken = freed.after(EntryKind.RESERVE, amount)
        slices.take(account, person, amount)
        acting, fingerprint = (
            self._entries.changes.acting,
            request_fingerprint(dataset=found.dataset, request=request),
        )
        before = Occasion(
            principal=person, release=found.id, fingerprint=found.fingerprint, note=_REVISED
        )
        chain.add(EntryKind.UNRESERVE, found.amount, freed, before, acting)
        after = Occasion(
            principal=person, release=found.id, fingerprint=fingerprint, note=plan_digest(plan)
        )
        chain.add(EntryKind.RESERVE, amount, taken, after, acting)
        entry = self._entries.write(chain)
        slices.write()
        # Before the row changes: the version that is there now is the one to keep.
        supersede(self._connection, found)
        row = {"reserve": entry.seq, "asked": request, "planned": plan, "print": fingerprint}
        self._connection.execute(_REVISE, {"wanted": found.id, **row})
        return self._next_turn(found, Event.REVISED, version=found.version + 1, reason=None)

    def _next_turn(
        self, found: ReleaseRecord, event: Event, *, version: int, reason: str | None
    ) -> ReleaseRecord:
        """Begin the reviewers' next turn, which has no votes."""
        entry = self._accounts.system_entry(RETURNED, principal=found.principal, note=found.id)
        to = Turn(turn=found.turn + 1, version=version)
        write_turn(self._connection, found.id, to)
        self._notices.notify(event, found, actor=found.principal, reason=reason, at=entry.at)
        return self._releases.get_all([found.id])[found.id]

    def show_conflict(self, release: str, *, votes: int, actor: str) -> ReleaseRecord:
        """Let everyone know that all votes of this turn are in, and are unlike.

        Raises
        ------
        Problem
            ``not-found``; ``precondition`` when it does not wait for its reviewers.
        """
        found = self._reserved(release)
        write_turn(
            self._connection,
            found.id,
            Turn(turn=found.turn, version=found.version, shown=votes),
        )
        self._notices.notify(Event.CONFLICT, found, actor=actor, reason=None, at=now())
        return self._releases.get_all([found.id])[found.id]

    def unreserve(
        self, release: str, final: ReleaseState, *, principal: str, reason: str
    ) -> ReleaseRecord:
        """Give back what is reserved: the release is rejected, withdrawn or expired for good.

        ``principal`` is whose decision it is; the reason is public and stays in the ledger.

        Raises
        ------
        Problem
            ``not-found``; ``precondition`` when it is no longer reserved.
        ValueError
            ``final`` is not where a reserved release may end undrawn.
        """
        if final not in GIVEN_BACK:
            raise ValueError("a reserved release cannot end so")
        found = self._in_state(release, *UNDECIDED)
        occasion = Occasion(
            principal=principal, release=found.id, fingerprint=found.fingerprint, note=reason
        )
        amount, person = found.amount, found.principal
        entry = self._accounts.give_back(found.account, amount, occasion, person=person)
        self._connection.execute(_CLOSE, {"wanted": found.id, "final": final.value, "at": entry.at})
        self._accounts.system_entry(
            ENDED_AS[final], principal=principal, note=found.id, at=entry.at
        )
        self._tell(found, final, actor=principal, reason=reason, at=entry.at)
        return self._releases.get_all([found.id])[found.id]

    def expire(self, since: str) -> int:
        """Give back what has waited since a time or longer, and return how many that were.

        Not too many at once, which would hold up everyone: repeat until there are none.
        """
        waiting = self.waiting_since(since)
        for release in waiting:
            self.unreserve(release, ReleaseState.EXPIRED, principal=SYSTEM, reason=OVERDUE)
        return len(waiting)

    def make_room(self, account: str, amount: int, *, reason: str) -> int:
        """Give back what waits on an account, oldest first, until an amount remains.

        Returns what then remains, which may be less.
        """
        waiting = self._connection.execute(_WAITING_ON, {"of": account}).scalars().all()
        for release in waiting:
            if self._remaining(account) >= amount:
                break
            self.unreserve(release, ReleaseState.EXPIRED, principal=SYSTEM, reason=reason)
        return self._remaining(account)

    def _remaining(self, account: str) -> int:
        balance = self._accounts.balance(account)
        return 0 if balance is None else balance.remaining

    def _tell(
        self, found: ReleaseRecord, later: ReleaseState, *, actor: str, reason: str | None, at: str
    ) -> None:
        event = event_of(found.state, later)
        self._notices.notify(event, found, actor=actor, reason=reason, at=at)

    def _reserved(self, release: str) -> ReleaseRecord:
        return self._in_state(release, ReleaseState.RESERVED)

    def _in_state(self, release: str, *states: ReleaseState) -> ReleaseRecord:
        found = self._releases.get(release)
        if found is None:
            raise Problem("not-found", "There is no such release.")
        if found.state not in states:
            raise Problem("precondition")
        return found
