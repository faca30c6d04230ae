"""Study plans: saved, requested as one, decided on as one; each question is charged when drawn.

A draft is its owner's note, and may be changed or deleted. From the request on each of its steps
is an entry of the system account. The entry's fingerprint is the digest of the plan, so an edited
plan is found. Where its reviewers want changes, what the owner writes is again a note of theirs,
until the plan is sent as a new version; the version before is kept. What a question was charged is
an entry of the budget account under :func:`~app.domain.reviews.plan_key`, of which a person has one
at most.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import compress
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from app.domain.access import Span, sorts_as
from app.domain.ledger import SYSTEM_ACCOUNT, Entry, EntryKind, digest_of
from app.domain.problems import Problem
from app.domain.reviews import (
    Decision,
    Event,
    PlannedRequest,
    PlanState,
    Vote,
    plan_key,
    vote_digest,
)
from app.store.database import tables
from app.store.ledger.access import is_seen
from app.store.ledger.accounts import AccountsWriter
from app.store.ledger.commands import ENTRY_BYTES, allow
from app.store.ledger.entries import SYSTEM
from app.store.ledger.records import has_word, new_id, now, shown, spanned
from app.store.ledger.reviewing.notices import NoticesWriter
from app.store.ledger.reviewing.votes import VersionRecord

KIND: Mapping[PlanState, str] = {
    state: f"study_plan_{state}" for state in PlanState if state is not PlanState.DRAFT
}
"""The kind of the system entry about each step; its note is JSON."""

GOING_ON = (PlanState.REQUESTED, PlanState.CHANGES_REQUESTED, PlanState.APPROVED)
"""The states of a plan that its owner has sent, and that has not ended."""

PLAN_VOTED = "study_plan_vote"
"""The kind of the system entry about a vote on a plan."""

_plan, _vote, _entry = tables.study_plan.c, tables.plan_vote.c, tables.entry.c
_FACTS = [each for each in _plan if each.name != "sorts_as"]
_GET = select(*_FACTS).where(_plan.id == bindparam("wanted"))
_LAST_NUMBER = select(func.coalesce(func.max(_plan.number), 0))
_VOTES_OF = select(tables.plan_vote).where(_vote.study_plan == bindparam("of")).order_by(_vote.seq)
_OLDER_OF = (
    select(tables.plan_revision)
    .where(tables.plan_revision.c.study_plan == bindparam("of"))
    .order_by(tables.plan_revision.c.turn)
)
_DUE = (
    select(_plan.id)
    .where(
        or_(
            _plan.state.in_([PlanState.REQUESTED.value, PlanState.CHANGES_REQUESTED.value])
            & (_plan.requested_at <= bindparam("since")),
            (_plan.state == PlanState.APPROVED.value) & (_plan.expires_at <= bindparam("at")),
        )
    )
    .order_by(_plan.number)
    .limit(bindparam("most"))
)
_STEP = update(tables.study_plan).where(
    _plan.id == bindparam("wanted"), _plan.state == bindparam("before")
)
_MOST_AT_ONCE = 100
_DECIDED = ("decided_by", "decided_at", "reason", "expires_at")
Columns = Mapping[str, str | int | None]
"""Values of columns of a plan, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A study plan as it is stored; ``questions`` are in the order in which they were saved.

    ``turn`` is how often it has come before its reviewers, 1 for a draft. ``unsent`` is what its
    owner has written since changes were requested, JSON; None: nothing yet.
    ``decided_by`` is the reviewer whose vote decided, or the service where the data set's policy
    asks for no review. ``expires_at`` is until when an approved plan's questions may be drawn.
    """

    number: int
    id: str
    account: str
    dataset: str
    person: str
    name: str
    purpose: str | None
    questions: tuple[PlannedRequest, ...]
    created_at: str
    state: PlanState
    turn: int
    unsent: str | None
    seq: int | None
    requested_at: str | None
    decided_by: str | None
    decided_at: str | None
    reason: str | None
    expires_at: str | None
    ended_at: str | None

    @property
    def written(self) -> PlanRecord:
        """Return the plan as its owner has it: with what they have written and not sent yet."""
        if self.unsent is None:
            return self
        return replace(self, **_content(json.loads(self.unsent)))

    @property
    def sent(self) -> PlanRecord:
        """Return the plan as everyone else sees it."""
        return replace(self, unsent=None)

    def amounts(self, charged: Collection[tuple[str, str]]) -> tuple[int, int]:
        """Return what all questions cost, and those of them whose keys are charged."""
        paid = compress(self.questions, ((self.person, key) in charged for key in self.keys))
        return sum(each.amount for each in self.questions), sum(each.amount for each in paid)

    @property
    def waits_for_answer(self) -> bool:
        """Return whether its owner may answer its reviewers, the plan as these have seen it."""
        return self.state is PlanState.CHANGES_REQUESTED and self.unsent is None

    @property
    def digest(self) -> str:
        """Return the digest of what reviewers decide on."""
        return digest_of(
            "release-desk study plan 1", self.number, self.id, self.account, self.dataset,
            self.person, self.name, self.purpose, questions_text(self.questions), self.created_at,
        )  # fmt: skip

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the Idempotency-Keys of its questions."""
        return tuple(plan_key(self.id, place) for place in range(len(self.questions)))

    def is_drawn_at(self, moment: str) -> bool:
        """Return whether its questions may be drawn at a time."""
        until = self.expires_at
        return self.state is PlanState.APPROVED and until is not None and moment < until


def questions_text(questions: Sequence[PlannedRequest]) -> str:
    """Return questions as the JSON text that is stored."""
    return json.dumps([asdict(each) for each in questions])


def _content(stored: Any) -> dict[str, Any]:
    """Return what an owner writes of a plan, as a record has it, of the columns that store it."""
    questions = tuple(PlannedRequest(**each) for each in json.loads(stored["questions"]))
    return {"name": stored["name"], "purpose": stored["purpose"], "questions": questions}


def _record(row: Row[Any]) -> PlanRecord:
    stored = row._mapping
    return PlanRecord(**{**stored, "state": PlanState(row.state), **_content(stored)})


def _version(record: PlanRecord) -> VersionRecord:
    """Return a version of a plan as reviews show versions of a request."""
    asked = {
        "name": record.name,
        "purpose": record.purpose,
        "questions": [json.loads(each.request) for each in record.questions],
    }
    return VersionRecord(
        version=record.turn,
        request=json.dumps(asked),
        plan="",
        at=record.requested_at or record.created_at,
        amount=sum(each.amount for each in record.questions),
    )


_SORTED: Mapping[str, ColumnElement[Any]] = {"name": _plan.sorts_as}


class StudyPlans:
    """Saved study plans, and the votes on them."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, plan: str) -> PlanRecord | None:
        """Return a plan, or None."""
        row = self._connection.execute(_GET, {"wanted": plan}).one_or_none()
        return None if row is None else _record(row)

    def get_all(self, plans: Collection[str]) -> Mapping[str, PlanRecord]:
        """Return those of some plans that there are, by their ids."""
        query = select(*_FACTS).where(_plan.id.in_([*plans]))
        return {row.id: _record(row) for row in self._connection.execute(query)} if plans else {}

    def account_for(self, plan: str, *, person: str, overseer: bool) -> str | None:
        """Return the account of a plan that a person may see by their role, or None."""
        query = select(_plan.account).where(_plan.id == plan, _may_see(person, overseer=overseer))
        return self._connection.execute(query).scalar_one_or_none()

    def page(
        self,
        *,
        person: str,
        overseer: bool,
        span: Span,
        dataset: str | None = None,
        owner: str | None = None,
        states: Collection[PlanState] = (),
        words: Sequence[str] = (),
        hidden: Collection[str] = (),
    ) -> tuple[PlanRecord, ...]:
        """Return the plans of a span that a person may see; nothing of ``hidden`` accounts.

        With ``owner``, those of one person; with ``states``, those in one of them; with ``words``,
        those that have each of them in their name, purpose, questions or id.
        """
        query: Select[Any] = select(*_FACTS).where(_may_see(person, overseer=overseer))
        if dataset is not None:
            query = query.where(_plan.dataset == dataset)
        if owner is not None:
            query = query.where(_plan.person == owner)
        if states:
            query = query.where(_plan.state.in_([each.value for each in states]))
        for word in words:
            query = query.where(
                has_word(word, _plan.name, _plan.purpose, _plan.questions, _plan.id)
            )
        if hidden:
            query = query.where(is_seen(_plan.account, hidden))
        rows = spanned(self._connection, query, span, _plan.number, _SORTED.get(span.by))
        return tuple(_record(row) for row in self._connection.execute(rows))

    def votes_of(self, plan: str) -> tuple[Vote, ...]:
        """Return all votes on a plan, in the order they came in."""
        return tuple(_vote_of(row) for row in self._connection.execute(_VOTES_OF, {"of": plan}))

    def versions(self, plan: PlanRecord) -> tuple[VersionRecord, ...]:
        """Return every version of a plan that was sent, the present one last."""
        return tuple(_version(each) for each in (*_older(self._connection, plan), plan))

    def due(self, *, since: str, at: str, limit: int = _MOST_AT_ONCE) -> Sequence[str]:
        """Return plans that wait since a time or before, and those whose approval has ended."""
        due = {"since": since, "at": at, "most": limit}
        return self._connection.execute(_DUE, due).scalars().all()


def _older(connection: Connection, plan: PlanRecord) -> Iterator[PlanRecord]:
    """Yield the versions of a plan that the present one has taken the place of, oldest first."""
    for row in connection.execute(_OLDER_OF, {"of": plan.id}):
        at = {"turn": row.turn, "requested_at": row.requested_at}
        yield replace(plan, **_content(row._mapping), **at)


def _may_see(person: str, *, overseer: bool) -> Any:
    """Return the condition on plans that a person may see: their own, and others' requests."""
    own = _plan.person == person
    return or_(own, _plan.state != PlanState.DRAFT.value) if overseer else own


class StudyPlansWriter(StudyPlans):
    """Saving plans, and the steps that they take."""

    __slots__ = ("_accounts", "_notices")

    def __init__(
        self, connection: Connection, accounts: AccountsWriter, notices: NoticesWriter
    ) -> None:
        super().__init__(connection)
        self._accounts = accounts
        self._notices = notices

    def save(
        self,
        *,
        account: str,
        dataset: str,
        person: str,
        name: str,
        purpose: str | None,
        questions: Sequence[PlannedRequest],
        most_bytes: int | None = None,
    ) -> PlanRecord:
        """Keep a new draft.

        Raises
        ------
        Problem
            ``too-much-stored``.
        """
        kept, at = questions_text(questions), now()
        allow(self._connection, person, len(kept) + ENTRY_BYTES, most_bytes, at=at)
        row = {
            "number": int(self._connection.execute(_LAST_NUMBER).scalar_one()) + 1,
            "id": new_id("plan"),
            "account": account,
            "dataset": dataset,
            "person": person,
            "name": name,
            "purpose": purpose,
            "questions": kept,
            "created_at": at,
            "state": PlanState.DRAFT.value,
            "turn": 1,
            "sorts_as": sorts_as(name),
        }
        self._connection.execute(insert(tables.study_plan), row)
        return self._present(str(row["id"]))

    def edit(
        self,
        plan: str,
        *,
        name: str,
        purpose: str | None,
        questions: Sequence[PlannedRequest],
        most_bytes: int | None = None,
    ) -> PlanRecord:
        """Change a draft, or what is to be sent of a plan whose reviewers want changes.

        Raises
        ------
        Problem
            ``not-found``; ``plan-not-draft``; ``too-much-stored``.
        """
        found, kept = self._edited(plan), questions_text(questions)
        allow(self._connection, found.person, len(kept), most_bytes, at=now())
        changed: Columns = {"name": name, "purpose": purpose, "questions": kept}
        unsent, sorted_by = {"unsent": json.dumps(changed)}, {"sorts_as": sorts_as(name)}
        changed = {**changed, **sorted_by} if found.state is PlanState.DRAFT else unsent
        return self._changed(found, found.state, changed)

    def delete(self, plan: str) -> None:
        """Delete a draft.

        Raises
        ------
        Problem
            ``not-found``; ``plan-not-draft``.
        """
        found = self._edited(plan)
        if found.state is not PlanState.DRAFT:
            raise _not_draft(found)
        self._connection.execute(delete(tables.study_plan).where(_plan.id == found.id))

    def request(self, plan: str) -> PlanRecord:
        """Ask for the approval of a draft as one request, or send it again as it was edited.

        The version before is kept, and the votes on it count no more.

        Raises
        ------
        Problem
            ``not-found``; ``plan-not-draft``.
        """
        found = self._edited(plan)
        event = Event.ASKED if found.state is PlanState.DRAFT else Event.REVISED
        return self._sent(found, event, reason=found.written.purpose)

    def give_turn_back(self, plan: str, *, answer: str) -> PlanRecord:
        """Give the turn back to the reviewers with an answer, the plan as they have seen it.

        Raises
        ------
        Problem
            ``not-found``; ``precondition`` when it does not wait for its owner, or has changes
            that are not sent.
        """
        found = self._present(plan)
        if not found.waits_for_answer:
            raise Problem("precondition")
        return self._sent(found, Event.ANSWERED, reason=answer)

    def _sent(self, found: PlanRecord, event: Event, *, reason: str | None) -> PlanRecord:
        """Send a plan as its owner has written it; the version before is kept."""
        again, sent = event is not Event.ASKED, found.written
        if again:
            self._supersede(found)
        entry = self._noted(sent, PlanState.REQUESTED, principal=found.person)
        step: Columns = {
            **dict.fromkeys((*_DECIDED, "unsent")),
            "name": sent.name,
            "sorts_as": sorts_as(sent.name),
            "purpose": sent.purpose,
            "questions": questions_text(sent.questions),
            "turn": found.turn + again,
            "seq": entry.seq,
            "requested_at": entry.at,
        }
        made = self._changed(found, PlanState.REQUESTED, step)
        self._tell(event, made, actor=found.person, reason=reason, at=entry.at)
        return made

    def _supersede(self, found: PlanRecord) -> None:
        """Keep the present version of a plan, which another is about to take the place of."""
        row = {
            "study_plan": found.id, "turn": found.turn, "name": found.name,
            "purpose": found.purpose, "questions": questions_text(found.questions),
            "requested_at": found.requested_at,
        }  # fmt: skip
        self._connection.execute(insert(tables.plan_revision), row)

    def vote(self, found: PlanRecord, *, person: str, decision: Decision, reason: str) -> Vote:
        """Keep a reviewer's vote; the ledger has its digest, which does not reveal it."""
        vote = Vote(turn=found.turn, person=person, decision=decision, reason=reason, at=now())
        salt = secrets.token_hex(16)
        entry = self._accounts.system_entry(
            PLAN_VOTED,
            principal=person,
            fingerprint=vote_digest(found.id, vote, salt),
            note=_note(found),
            at=vote.at,
        )
        row = {
            "seq": entry.seq,
            "study_plan": found.id,
            "turn": found.turn,
            "person": person,
            "decision": decision.value,
            "reason": reason,
            "at": vote.at,
            "salt": salt,
        }
        self._connection.execute(insert(tables.plan_vote), row)
        return vote

    def show_conflict(self, found: PlanRecord, *, actor: str) -> None:
        """Let reviewers know that all votes are in, and are unlike."""
        self._tell(Event.CONFLICT, found, actor=actor, reason=None, at=now())

    def approve(self, plan: str, *, principal: str, reason: str, expires_at: str) -> PlanRecord:
        """Approve a requested plan: its questions may be drawn until a time.

        Raises
        ------
        Problem
            ``not-found``; ``precondition`` when it is not waiting.
        """
        return self._decide(
            plan, PlanState.APPROVED, principal=principal, reason=reason, expires_at=expires_at
        )

    def reject(self, plan: str, *, principal: str, reason: str) -> PlanRecord:
        """Reject a requested plan.

        Raises
        ------
        Problem
            ``not-found``; ``precondition`` when it is not waiting.
        """
        return self._decide(plan, PlanState.REJECTED, principal=principal, reason=reason)

    def request_changes(self, plan: str, *, principal: str, reason: str) -> PlanRecord:
        """Give the turn to the owner of a requested plan.

        Raises
        ------
        Problem
            ``not-found``; ``precondition`` when it is not waiting.
        """
        return self._decide(plan, PlanState.CHANGES_REQUESTED, principal=principal, reason=reason)

    def _decide(
        self,
        plan: str,
        state: PlanState,
        *,
        principal: str,
        reason: str,
        expires_at: str | None = None,
    ) -> PlanRecord:
        found = self._in_state(plan, PlanState.REQUESTED)
        until = {} if expires_at is None else {"until": expires_at}
        entry = self._noted(found, state, principal=principal, **until, reason=reason)
        decided: Columns = {
            "seq": entry.seq,
            "decided_by": principal,
            "decided_at": entry.at,
            "reason": reason,
            "expires_at": expires_at,
        }
        made = self._changed(found, state, decided)
        self._tell(Event(state.value), made, actor=principal, reason=reason, at=entry.at)
        return made

    def end(self, plan: str, state: PlanState, *, principal: str) -> PlanRecord:
        """End a plan that goes on: withdrawn by its owner, or expired.

        What has been drawn of it stays.

        Raises
        ------
        Problem
            ``not-found``; ``precondition`` when it has ended, or is a draft.
        """
        found = self._in_state(plan, *GOING_ON)
        entry = self._noted(found, state, principal=principal)
        step: Columns = {"seq": entry.seq, "ended_at": entry.at, "unsent": None}
        made = self._changed(found, state, step)
        self._tell(Event(state.value), made, actor=principal, reason=None, at=entry.at)
        return made

    def expire(self, *, since: str, at: str) -> int:
        """End what is due, at most 100 at once, and return how many that were."""
        due = self.due(since=since, at=at)
        for plan in due:
            self.end(plan, PlanState.EXPIRED, principal=SYSTEM)
        return len(due)

    def _noted(self, found: PlanRecord, state: PlanState, *, principal: str, **said: str) -> Entry:
        """Make the entry about a step."""
        return self._accounts.system_entry(
            KIND[state],
            principal=principal,
            fingerprint=found.digest,
            note=_note(found, **said),
        )

    def _changed(self, found: PlanRecord, state: PlanState, values: Columns) -> PlanRecord:
        step = {"wanted": found.id, "before": found.state.value}
        self._connection.execute(_STEP.values(state=state.value, **values), step)
        return self._present(found.id)

    def _tell(
        self, event: Event, plan: PlanRecord, *, actor: str, reason: str | None, at: str
    ) -> None:
        self._notices.notify_of(
            event, study_plan=plan.id, requester=plan.person, actor=actor, reason=reason, at=at
        )

    def _edited(self, plan: str) -> PlanRecord:
        found = self._present(plan)
        if not found.state.is_edited:
            raise _not_draft(found)
        return found

    def _in_state(self, plan: str, *states: PlanState) -> PlanRecord:
        found = self._present(plan)
        if found.state not in states:
            raise Problem("precondition")
        return found

    def _present(self, plan: str) -> PlanRecord:
        found = self.get(plan)
        if found is None:
            raise Problem("not-found", "There is no such study plan.")
        return found


def _note(found: PlanRecord, **said: str) -> str:
    # The rule of the table reads the id at the beginning; lists hide what names a hidden data set.
    return json.dumps({"study_plan": found.id, "dataset": found.dataset, **said})


def _not_draft(found: PlanRecord) -> Problem:
    return Problem("plan-not-draft", plan_status=found.state.status)


def _vote_of(row: Row[Any]) -> Vote:
    return Vote(
        turn=row.turn,
        person=row.person,
        decision=Decision(row.decision),
        reason=row.reason,
        at=row.at,
    )


# Study plans against the ledger's word

_SAID = (
    select(_entry.seq, _entry.kind, _entry.principal, _entry.note, _entry.fingerprint, _entry.at)
    .where(
        _entry.account == SYSTEM_ACCOUNT,
        _entry.kind.in_([*KIND.values(), PLAN_VOTED]),
        text(tables.ACTS),
    )
    .order_by(_entry.seq)
)
_DRAWN = select(_entry.idem, _entry.kind, _entry.account, _entry.fingerprint, _entry.at).where(
    _entry.principal == bindparam("by"), _entry.idem.in_(bindparam("keys", expanding=True))
)


def plan_faults(connection: Connection) -> Iterator[str]:
    """Yield where study plans, votes on them and draws by them are not what the ledger says."""
    said: defaultdict[str, dict[str, str | int | None]] = defaultdict(dict)
    sent: defaultdict[str, list[tuple[str | None, str]]] = defaultdict(list)
    votes: dict[int, str | None] = {}
    rows: Iterable[Row[Any]] = connection.execute(_SAID)
    for row in rows:
        if row.kind == PLAN_VOTED:
            votes[row.seq] = row.fingerprint
            continue
        note = json.loads(row.note)
        plan = note["study_plan"]
        known = said[plan]
        known.update(_said_by(row, note), seq=row.seq)
        if known["state"] == PlanState.REQUESTED.value:
            sent[plan].append((row.fingerprint, row.at))
            known.update(turn=len(sent[plan]), digest=row.fingerprint)
        elif known.get("digest") != row.fingerprint:
            known["digest"] = None
    stored_plans: Iterable[Row[Any]] = connection.execute(select(*_FACTS))
    found = {row.id: row for row in stored_plans}
    for plan in sorted(said.keys() | found.keys()):
        stored, stated = found.get(plan), said.get(plan)
        if stored is None or (stored.state == PlanState.DRAFT.value) != (stated is None):
            yield f"study plan {shown(plan)}: the system account disagrees about it"
        elif stated is not None:
            yield from _faults_of(connection, stored, stated, sent[plan][:-1])
    for vote in connection.execute(select(tables.plan_vote)):
        digest = vote_digest(vote.study_plan, _vote_of(vote), vote.salt)
        if votes.pop(vote.seq, None) != digest:
            yield f"study plan {shown(vote.study_plan)}: a vote on it has been edited"
    for seq in sorted(votes):
        yield f"account 0, entry {seq}: its vote on a study plan is missing"


def _said_by(row: Row[Any], note: Mapping[str, str]) -> Columns:
    """Return what an entry says of the columns of its plan."""
    state = row.kind.removeprefix("study_plan_")
    match PlanState(state):
        case PlanState.REQUESTED:
            return {
                "state": state, "person": row.principal, "requested_at": row.at,
                **dict.fromkeys(_DECIDED),
            }  # fmt: skip
        case PlanState.APPROVED | PlanState.REJECTED | PlanState.CHANGES_REQUESTED:
            return {
                "state": state, "decided_by": row.principal, "decided_at": row.at,
                "reason": note["reason"], "expires_at": note.get("until"),
            }  # fmt: skip
    return {"state": state, "ended_at": row.at}


def _faults_of(
    connection: Connection,
    row: Row[Any],
    known: Columns,
    before: Sequence[tuple[str | None, str]],
) -> Iterator[str]:
    """Fault a plan that is not as it was requested, or draws that it did not allow.

    ``before`` has the digest of each version but the present one, and when it was requested.
    """
    stated = {**dict.fromkeys((*_DECIDED, "ended_at")), **known}
    digest = stated.pop("digest")
    try:
        plan = _record(row)
        edited = plan.digest != digest or any(row._mapping[name] != stated[name] for name in stated)
        older = [(each.turn, each.digest, each.requested_at) for each in _older(connection, plan)]
        edited = edited or older != [(turn, *sent) for turn, sent in enumerate(before, start=1)]
    except (KeyError, TypeError, ValueError):
        edited = True
    if edited:
        yield f"study plan {shown(row.id)}: it has been edited"
        return
    places = {key: place for place, key in enumerate(plan.keys)}
    for drawn in connection.execute(_DRAWN, {"by": plan.person, "keys": [*places]}):
        allowed = (
            drawn.kind == EntryKind.DEBIT
            and drawn.account == plan.account
            and drawn.fingerprint == plan.questions[places[drawn.idem]].fingerprint(plan.dataset)
            and plan.decided_at is not None
            and plan.expires_at is not None
            and plan.decided_at <= drawn.at < plan.expires_at
            and (plan.ended_at is None or drawn.at <= plan.ended_at)
        )
        if not allowed:
            yield f"study plan {shown(plan.id)}: a draw by it was not approved"
