"""What reviewers may say, what their votes come to, and who may read what until both are in.

With two reviewers each decides without the other's vote: until both are in, no one sees more
than their own. Votes that are alike then decide. Unlike ones are a conflict, and either of the
two may revise theirs. A turn is what lies between two answers of who asked: each begins without
votes.

*Notices about a review: one for each step, to the requester and to the reviewers.* A notice names
who, what and why. It is made from the request and from what people wrote, never from a result.

*Study plans* are several questions that reviewers decide on as one. Where they request changes, the
owner edits the plan and sends it again; each version that was sent is kept. A plan reserves no
budget: each question is charged when it is drawn, and a draw is refused where the budget is no
longer there. An entry of the ledger reserves for one release, so a reserve for a plan could not be
followed question by question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.domain.ledger import digest_of
from app.domain.releases import ReleaseState, request_fingerprint

# Notices about a review: one for each step, to the requester and to the reviewers


class Event(StrEnum):
    """What has happened."""

    ASKED = "asked"
    CHANGES_REQUESTED = "changes_requested"
    REVISED = "revised"
    ANSWERED = "answered"
    COMMENTED = "commented"
    CONFLICT = "conflict"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"
    RELEASED = "released"
    VOID = "void"


class Audience(StrEnum):
    """Whom a notice is for."""

    REQUESTER = "requester"
    REVIEWERS = "reviewers"
    BOTH = "both"


def audience_of(event: Event, *, by_requester: bool) -> Audience:
    """Return for whom a notice is.

    The requester gets no notice of a conflict, and no other reviewer one of a reviewer's comment:
    they may still have to decide without it.
    """
    if event is Event.COMMENTED:
        return Audience.REVIEWERS if by_requester else Audience.REQUESTER
    return Audience.REVIEWERS if event is Event.CONFLICT else Audience.BOTH


_BEGUN = {None: Event.ASKED, ReleaseState.CHANGES_REQUESTED: Event.REVISED}


def event_of(before: ReleaseState | None, after: ReleaseState) -> Event:
    """Return what a step between two states is called; a release begins after None.

    >>> str(event_of(ReleaseState.RESERVED, ReleaseState.DEBITED))
    'approved'
    """
    if after is ReleaseState.RESERVED:
        return _BEGUN[before]
    return Event.APPROVED if after is ReleaseState.DEBITED else Event(after.value)


# What reviewers may say, what their votes come to, and who may read what until both are in


class Decision(StrEnum):
    """What a reviewer may say."""

    APPROVE = "approve"
    REQUEST_CHANGES = "request_changes"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """What one reviewer has said in one turn, and why."""

    turn: int
    person: str
    decision: Decision
    reason: str
    at: str


@dataclass(frozen=True, slots=True)
class Count:
    """How the votes of one turn stand: the last of each reviewer, in the order they came in.

    ``needed`` is how many reviewers decide.
    """

    votes: tuple[Vote, ...]
    needed: int

    @classmethod
    def of(cls, votes: Sequence[Vote], *, turn: int, needed: int) -> Count:
        """Return the count of a turn; a reviewer's later vote takes the place of the earlier.

        Where one reviewer decides, the last vote does: another may have voted while two did.
        """
        last: dict[str, Vote] = {}
        for vote in votes:
            if vote.turn == turn:
                # Taken out first, or the later vote would keep the earlier one's place.
                last.pop(vote.person, None)
                last[vote.person] = vote
        return cls(tuple(last.values())[-1 if needed == 1 else 0 :], needed)

    @property
    def complete(self) -> bool:
        """Return whether all votes are in, and may be seen."""
        return len(self.votes) >= self.needed

    @property
    def outcome(self) -> Decision | None:
        """Return what the votes come to; None while one is missing or they are unlike."""
        said = {vote.decision for vote in self.votes}
        return said.pop() if self.complete and len(said) == 1 else None

    @property
    def conflict(self) -> bool:
        """Return whether all votes are in, and they are unlike."""
        return self.complete and self.outcome is None

    @property
    def reason(self) -> str:
        """Return every reviewer's reason, word for word."""
        return "\n\n".join(dict.fromkeys(vote.reason for vote in self.votes))

    def may_vote(self, person: str) -> bool:
        """Return whether this reviewer's vote is wanted: there is a place, or it is revised."""
        known = any(vote.person == person for vote in self.votes)
        return known or self.needed == 1 or not self.complete

    def seen_by(self, person: str) -> tuple[Vote, ...]:
        """Return the votes that a reviewer may see: all once they are in, else the own one."""
        return tuple(vote for vote in self.votes if self.complete or vote.person == person)


def given_back(votes: Sequence[Vote], *, before: int) -> Iterator[Vote]:
    """Yield the votes that gave the turns before one back to who asked, in their order."""
    for turn in range(1, before):
        for vote in Count.of(votes, turn=turn, needed=2).votes:
            if vote.decision is Decision.REQUEST_CHANGES:
                yield vote


@dataclass(frozen=True, slots=True)
class Difference:
    """What one member of a request was in the version before, and is now, as JSON values."""

    place: str
    before: object
    after: object


def differences(before: object, after: object, place: str = "") -> Iterator[Difference]:
    """Yield where two requests differ; a member that one of them lacks is None there.

    >>> [each.place for each in differences({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "c": 2})]
    ['a.b']
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            inner = f"{place}.{name}" if place else str(name)
            yield from differences(before.get(name), after.get(name), inner)
    elif before != after:
        yield Difference(place, before, after)


def vote_digest(release: str, vote: Vote, salt: str) -> str:
    """Return the ledger's note of a vote, which does not reveal the vote without its salt."""
    return digest_of(
        "release-desk vote 1", release, vote.turn, vote.person, vote.decision.value, vote.reason,
        vote.at, salt,
    )  # fmt: skip


# Study plans


class PlanState(StrEnum):
    """Where a study plan stands."""

    DRAFT = "draft"
    """Saved, and seen by its owner alone."""
    REQUESTED = "requested"
    CHANGES_REQUESTED = "changes_requested"
    """Its owner may edit it and send it again; others see it as it was sent."""
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"

    @property
    def is_edited(self) -> bool:
        """Return whether its owner may change its questions, and send them for review."""
        return self in (PlanState.DRAFT, PlanState.CHANGES_REQUESTED)

    @property
    def status(self) -> str:
        """Return what it is called in answers, as a release's state is.

        >>> PlanState.REQUESTED.status, PlanState.APPROVED.status
        ('awaiting_review', 'approved')
        """
        return "awaiting_review" if self is PlanState.REQUESTED else self.value

    @classmethod
    def called(cls, status: str) -> PlanState:
        """Return the state that answers call so.

        >>> PlanState.called("awaiting_review")
        <PlanState.REQUESTED: 'requested'>
        """
        return next(state for state in cls if state.status == status)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequest:
    """A question of a study plan, exactly as it is drawn, and what its plan was when it was saved.

    ``request`` is the canonical text that its release keeps. ``amount`` is its charge, in the
    account's unit. A question that would now be drawn by another mechanism, or at another charge,
    is not the one that was reviewed.
    """

    request: str
    amount: int
    mechanism: str
    norm: str | None

    def fingerprint(self, dataset: str) -> str:
        """Return the digest that the entry of its charge has."""
        return request_fingerprint(dataset=dataset, request=self.request)


def plan_key(plan: str, question: int) -> str:
    """Return the Idempotency-Key of a plan's question, by which it is charged once.

    No client can send it: the header takes ASCII alone.

    >>> plan_key("plan_1", 0)
    'plan_1\xa70'
    """
    return f"{plan}\xa7{question}"
