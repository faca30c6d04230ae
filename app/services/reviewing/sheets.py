"""The review sheet: all that a reviewer needs of one release, on one screen.

Everything on it is public, or was written by people: the request, the policy, the history of who
asks, what has been said. Nothing is read of the rows.

*Comments.* Where two reviewers decide, neither reads what the other says in a turn before both
votes are in. Who asked reads all that is shared, and so does everyone what they have said.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import anyio.to_thread

from app.domain.access import Span
from app.domain.policies import Policy, Right, policy_json
from app.domain.problems import Problem, invalid_request
from app.domain.releases import GIVEN_BACK, UNDECIDED, ReleaseState
from app.domain.reviews import Count, Difference, Event, PlanState, Vote, differences
from app.services.datasets.accounting import delta_of, meter_of
from app.services.datasets.datasets import DatasetFacts, DatasetService
from app.services.people.keys import Caller
from app.services.plans.answers import etag_of, status_of
from app.services.plans.missing import column_members, warned
from app.services.plans.plans import PlanService
from app.services.plans.questions import Question, kinds_of, read_question
from app.services.plans.wording import columns_named, in_words
from app.services.publishing.published import columns_of, odds_at_most, together_at_most
from app.services.releases.releases import ReleaseService
from app.services.releases.reviews import gone_on
from app.services.reviewing.study_plans import StudyPlanService
from app.services.reviewing.study_plans import gone_on as plan_gone_on
from app.store import (
    CapRecord,
    DatasetRecord,
    DatasetStatus,
    Reader,
    ReleaseRecord,
    Store,
    UnitOfWork,
)
from app.store.ledger.reviewing.study_plans import GOING_ON, PlanRecord
from app.store.ledger.reviewing.votes import CommentRecord, VersionRecord, conversation
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import ErrorEstimate
from mechanisms.words import worded

__all__ = [
    "CommentRecord", "CommentService", "Sheet", "SheetService", "Version", "compared", "readable",
    "talk_of",
]  # fmt: skip

# Comments and versions: what people say while a release waits, and who may read it when


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a request, and where it differs from the one before."""

    record: VersionRecord
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """All that is said of a release or a study plan under review, in every turn.

    ``waits``: its reviewers have not decided, and may have to do so without each other's comments.
    """

    requester: str
    turn: int
    waits: bool
    comments: Sequence[CommentRecord]
    votes: Sequence[Vote]


class CommentService:
    """Saying and reading, for who asked and for reviewers; each call names a release or a plan."""

    def __init__(
        self,
        store: Store,
        datasets: DatasetService,
        releases: ReleaseService,
        study_plans: StudyPlanService,
        *,
        most_bytes: int | None,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._releases = releases
        self._study_plans = study_plans
        self._most_bytes = most_bytes

    async def add(
        self,
        text: str,
        *,
        release: str | None = None,
        study_plan: str | None = None,
        private: bool,
        caller: Caller,
    ) -> CommentRecord:
        """Say something about a release that waits, or a study plan that has not ended.

        What who asked says while reviewers want changes is their answer: the turn goes back to the
        reviewers, with the request as it is. Where a plan has changes that are not sent yet, it
        goes back when they are.

        Raises
        ------
        Problem
            ``not-found``, for foreign and unknown ids alike; ``forbidden`` to who neither asked
            nor decides; ``not-awaiting-review``;
            ``invalid-request`` (a private comment of who asked); ``too-many-comments``;
            ``too-much-stored``.
        """
        found = await self._found(release, study_plan, caller)
        own = _requester(found) == caller.person
        if not own:
            caller.require(Right.DECIDE)
        if own and private:
            raise invalid_request("private", "must be false for who asked: it is among reviewers")

        def write(work: UnitOfWork) -> CommentRecord:
            # Read again inside the transaction: it may have gone on since it was shown.
            present = _present(work, found)
            work.by(caller.acting)
            made = work.comments.add(
                release,
                study_plan=study_plan,
                turn=present.turn,
                person=caller.person,
                private=private,
                text=text,
                most_bytes=self._most_bytes,
            )
            plan = isinstance(present, PlanRecord)
            if own and present.waits_for_answer:
                turns = work.study_plans if plan else work.reviews
                turns.give_turn_back(present.id, answer=text)
            elif not private:
                work.notices.notify_of(
                    Event.COMMENTED,
                    release=release,
                    study_plan=study_plan,
                    requester=_requester(present),
                    actor=caller.person,
                    reason=text,
                    at=made.at,
                )
            return made

        return await self._store.awrite(write)

    async def list(
        self, *, release: str | None = None, study_plan: str | None = None, caller: Caller
    ) -> Sequence[CommentRecord]:
        """Return what the caller may read of what has been said, oldest first.

        Raises
        ------
        Problem
            ``not-found``, for foreign and unknown ids alike.
        """
        found = await self._found(release, study_plan, caller)
        facts = await self._datasets.present(found.dataset)

        def read() -> Sequence[CommentRecord]:
            with self._store.reading() as reader:
                return readable(talk_of(reader, found), caller, needed=facts.policy.reviewers)

        return await anyio.to_thread.run_sync(read)

    async def versions(
        self, *, release: str | None = None, study_plan: str | None = None, caller: Caller
    ) -> Sequence[Version]:
        """Return every version of a request, oldest first, each compared with the one before.

        Raises
        ------
        Problem
            ``not-found``, for foreign and unknown ids alike.
        """
        found = await self._found(release, study_plan, caller)

        def read() -> Sequence[Version]:
            with self._store.reading() as reader:
                return compared(
                    reader.study_plans.versions(found)
                    if isinstance(found, PlanRecord)
                    else reader.reviews.versions(found)
                )

        return await anyio.to_thread.run_sync(read)

    def page(self, *, before: int | None, limit: int, caller: Caller) -> Sequence[CommentRecord]:
        """Return who commented on what, newest first, for the audit; in a thread of the caller's.

        Only the requests themselves have the words, for those who may read them there.
        """
        with self._store.reading() as reader:
            records = reader.comments.page(before=before, limit=limit, hidden=caller.hidden)
        return [replace(each, text="") for each in records]

    async def _found(
        self, release: str | None, study_plan: str | None, caller: Caller
    ) -> ReleaseRecord | PlanRecord:
        if study_plan is not None:
            return await anyio.to_thread.run_sync(self._study_plans.seen, study_plan, caller)
        return await self._releases.get(release or "", caller=caller)


def _requester(found: ReleaseRecord | PlanRecord) -> str:
    return found.person if isinstance(found, PlanRecord) else found.principal


def _present(work: UnitOfWork, found: ReleaseRecord | PlanRecord) -> ReleaseRecord | PlanRecord:
    """Return a request as it is now, about which something can still be said."""
    if isinstance(found, PlanRecord):
        plan = work.study_plans.get(found.id) or found
        if plan.state not in GOING_ON:
            raise plan_gone_on(plan)
        return plan
    release = work.releases.get(found.id) or found
    if release.state not in UNDECIDED:
        raise gone_on(work, release, lambda _: True)
    return release


def compared(records: Sequence[VersionRecord]) -> Sequence[Version]:
    """Return every version of a request, each compared with the one before."""
    asked = [_by_place(json.loads(each.request)) for each in records]
    return [
        Version(
            record=each,
            differences=() if place == 0 else tuple(differences(asked[place - 1], asked[place])),
        )
        for place, each in enumerate(records)
    ]


def _by_place(asked: dict[str, Any]) -> dict[str, Any]:
    """Return a request with the questions of a study plan by their places, from 0."""
    if "questions" in asked:
        asked["questions"] = {str(at): each for at, each in enumerate(asked["questions"])}
    return asked


def talk_of(reader: Reader, found: ReleaseRecord | PlanRecord) -> Talk:
    """Return all that is said of a request."""
    if isinstance(found, PlanRecord):
        return Talk(
            requester=found.person,
            turn=found.turn,
            waits=found.state is PlanState.REQUESTED,
            comments=reader.comments.of(study_plan=found.id),
            votes=reader.study_plans.votes_of(found.id),
        )
    return Talk(
        requester=found.principal,
        turn=found.turn,
        waits=found.state is ReleaseState.RESERVED,
        comments=reader.comments.of(found.id),
        votes=reader.votes.of(found.id),
    )


def readable(talk: Talk, caller: Caller, *, needed: int) -> Sequence[CommentRecord]:
    """Return what a caller, who may see the request, may read of what has been said of it."""
    said = conversation(talk.comments, talk.votes, before=talk.turn)
    own = talk.requester == caller.person
    if own or not caller.role.may(Right.OVERSEE):
        return [each for each in said if not each.private or each.person == caller.person]
    votes = Count.of(talk.votes, turn=talk.turn, needed=needed)
    if needed == 1 or votes.complete or not talk.waits:
        return said
    return [
        each
        for each in said
        if each.turn < talk.turn or each.person in (caller.person, talk.requester)
    ]


# The review sheet: all that a reviewer needs of one release, on one screen

MOST_EARLIER = 100
"""How many earlier releases of a data set a sheet looks at: the newest."""
MOST_LINKED = 25
"""How many data sets about the same people a sheet looks at: the newest."""
_DATASET = re.compile(r"\bds_[0-9a-f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """An earlier release about the same people that touches columns of the same names.

    ``dataset`` and ``name`` are of its data set, which may be another one.
    """

    id: str
    dataset: str
    name: str
    kinds: tuple[str, ...]
    epsilon: str
    status: str
    requested_by: str
    created_at: str
    columns: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What somebody has asked of the data set's account before, by status, and may still use."""

    person: str
    asked: Mapping[str, int]
    spent: str
    cap: str | None
    used: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """What has been asked of the same people before, by anyone and by who asks now."""

    asker: History
    earlier: Sequence[Earlier]
    overlaps: Sequence[Overlap]
    uses: Sequence[Use]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the release takes of the account's budget, and its share of what is left."""

    epsilon: str
    charge: str
    unit: str
    remaining: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Another data set about the same people: it shares the account, or was taken for an overlap.

    ``why`` is what the ledger says of it.
    """

    dataset: str
    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What has been released of an account that holds data of the same people.

    Attributes
    ----------
    account
        Its id.
    datasets
        The id and the name of each of its data sets that are linked with this one.
    releases, spent
        How many releases were charged, at most :data:`MOST_EARLIER` for each data set, and what the
        account has spent, as an epsilon.
    asked, spent_by_requester
        What the requester has asked of these data sets, by status, and has spent of the account.
    """

    account: str
    datasets: tuple[tuple[str, str], ...]
    releases: int
    spent: str
    asked: Mapping[str, int]
    spent_by_requester: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes:
    """The votes that the reader may see, and how many decide."""

    needed: int
    complete: bool
    conflict: bool
    seen: tuple[Vote, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a reviewer needs of any request: of one question, or of a study plan."""

    facts: DatasetFacts
    background: Background
    bounds: Mapping[str, Mapping[str, Any]]
    for_one_person: Sequence[str]
    policy: Mapping[str, object]
    policy_says: Sequence[str]
    votes: Votes
    versions: Sequence[Version]
    comments: Sequence[CommentRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet(Judged):
    """All that a reviewer needs of one release."""

    record: ReleaseRecord
    status: str
    etag: str
    purpose: str | None
    words: str
    about_columns: Mapping[str, Any]
    request: Mapping[str, Any]
    cost: Cost
    expected: ErrorEstimate


class SheetService:
    """Fills review sheets."""

    def __init__(
        self,
        store: Store,
        datasets: DatasetService,
        releases: ReleaseService,
        plans: PlanService,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._releases = releases
        self._plans = plans

    async def sheet(self, release: str, *, caller: Caller) -> Sheet:
        """Return the sheet of a release under review.

        Raises
        ------
        Problem
            ``not-found``; ``not-awaiting-review`` for one that was never reviewed; ``busy``.
        """
        found = await self._releases.get(release, caller=caller)
        reviewed = found.state in (*UNDECIDED, *GIVEN_BACK)
        if found.charged_at == found.created_at and not reviewed:
            raise Problem("not-awaiting-review", release_status=status_of(found.state))
        facts = await self._datasets.present(found.dataset)
        question = read_question(found.request)
        expected = await self._plans.estimate(facts, question, Assumptions(), person=caller.person)

        def read() -> Sheet:
            with self._store.reading() as reader:
                return self._filled(reader, found, facts, expected=expected, caller=caller)

        return await anyio.to_thread.run_sync(read)

    def _filled(
        self,
        reader: Reader,
        found: ReleaseRecord,
        facts: DatasetFacts,
        *,
        expected: ErrorEstimate,
        caller: Caller,
    ) -> Sheet:
        request, question = json.loads(found.request), read_question(found.request)
        needed, details = facts.policy.reviewers, json.loads(found.plan)["details"]
        bounds = columns_of(facts, request["statistic"])
        known = self.background(reader, facts, found.principal, bounds, found, hidden=caller.hidden)
        charged = found.state not in (*UNDECIDED, *GIVEN_BACK)
        return Sheet(
            record=found,
            facts=facts,
            status=status_of(found.state),
            etag=etag_of(found),
            background=known,
            purpose=question.purpose,
            words=in_words(question),
            about_columns=column_members(details),
            request=request,
            cost=_cost(reader, found, facts, question),
            expected=replace(expected, usefulness=warned(expected.usefulness, details)),
            bounds=bounds,
            for_one_person=for_one_person(
                float(str(question.epsilon)), facts, known.uses, charged=charged
            ),
            policy=policy_json(facts.policy),
            policy_says=policy_says(facts.policy, question.kinds),
            versions=compared(reader.reviews.versions(found)),
            votes=_votes(reader, found, needed, caller),
            comments=readable(talk_of(reader, found), caller, needed=needed),
        )

    def background(
        self,
        reader: Reader,
        facts: DatasetFacts,
        person: str,
        columns: Collection[str],
        found: ReleaseRecord | None = None,
        *,
        hidden: Collection[str],
    ) -> Background:
        """Return what was asked of the same people before a release, or before now."""
        overlaps = _overlaps(reader, facts, hidden)
        linked = _linked(reader, facts, overlaps)
        heads = {each.id: self._heads(reader, each.id) for each in linked}
        uses = _uses(reader, person, linked, heads, found)
        return Background(
            asker=_history(reader, person, facts, uses),
            earlier=[
                each
                for dataset in linked
                for each in _earlier(found, dataset, heads[dataset.id], columns)
            ],
            overlaps=overlaps,
            uses=uses,
        )

    def _heads(self, reader: Reader, dataset: str) -> Sequence[ReleaseRecord]:
        """Return the newest releases of a data set, without their results."""
        span, shown = Span(limit=MOST_EARLIER), self._releases.moments.publicly
        return reader.releases.page_of_heads(dataset=dataset, span=span, shown=shown)


def _linked(
    reader: Reader, facts: DatasetFacts, overlaps: Sequence[Overlap]
) -> Sequence[DatasetRecord]:
    """Return a data set and those about the same people, itself first."""
    others = [reader.datasets.get(each.dataset) for each in overlaps]
    known = [each for each in others if each is not None and each.id != facts.id]
    return [facts.record, *known[:MOST_LINKED]]


def _uses(
    reader: Reader,
    person: str,
    linked: Sequence[DatasetRecord],
    heads: Mapping[str, Sequence[ReleaseRecord]],
    found: ReleaseRecord | None,
) -> Sequence[Use]:
    """Return what has been released of each account that holds data of the same people."""
    uses, but = [], None if found is None else found.id
    for account in dict.fromkeys(each.account for each in linked):
        datasets = [each for each in linked if each.account == account]
        records = [each for dataset in datasets for each in heads[dataset.id]]
        own = [each for each in records if each.principal == person]
        meter = meter_of(delta_of(json.loads(datasets[0].spec).get("delta")))
        charged = [each for each in records if each.state not in (*UNDECIDED, *GIVEN_BACK)]
        uses.append(
            Use(
                account=account,
                datasets=tuple((each.id, each.name) for each in datasets),
                releases=len(charged),
                spent=str(meter.epsilon(reader.accounts.balance(account).spent)),
                asked=Counter(status_of(each.state) for each in own if each.id != but),
                spent_by_requester=str(meter.epsilon(reader.accounts.spent_by(account, person))),
            )
        )
    return uses


def _history(reader: Reader, person: str, facts: DatasetFacts, uses: Sequence[Use]) -> History:
    account, meter = facts.record.account, facts.meter
    cap: CapRecord | None = reader.accounts.cap(account, person)
    limit = None if cap is None else cap.amount
    own = next(each for each in uses if each.account == account)
    return History(
        person=person,
        asked=own.asked,
        spent=own.spent_by_requester,
        cap=None if limit is None else str(meter.epsilon(limit)),
        used=None if limit is None or cap is None else str(meter.epsilon(cap.used)),
    )


def _earlier(
    found: ReleaseRecord | None,
    dataset: DatasetRecord,
    records: Sequence[ReleaseRecord],
    columns: Collection[str],
) -> Iterator[Earlier]:
    """Yield the releases of a data set, before this one if given, that touch such columns."""
    for each in records:
        request = json.loads(each.request)
        touched = columns_named(request["statistic"])
        before = found is None or each.number < found.number
        if before and not touched.isdisjoint(columns):
            yield Earlier(
                id=each.id,
                dataset=dataset.id,
                name=dataset.name,
                kinds=kinds_of(request["statistic"]),
                epsilon=request["epsilon"],
                status=status_of(each.state),
                requested_by=each.principal,
                created_at=each.created_at,
                columns=tuple(name in touched for name in columns),
            )


def for_one_person(
    own: float, facts: DatasetFacts, uses: Sequence[Use], *, charged: bool
) -> Sequence[str]:
    """Return what an epsilon means for one person, and with all before it; a sentence each.

    ``charged``: what has been spent includes it. Nothing is said where an account has a delta: its
    guarantee has exceptions.
    """
    if facts.meter.delta is not None:
        return ()
    spent = sum(float(each.spent) for each in uses)
    alone, others = odds_at_most(own, facts.schema.adjacency.value), spent - own * charged
    if others <= 0:
        return (alone,)
    return alone, together_at_most(own, others, linked=len(uses) > 1)


def _cost(reader: Reader, found: ReleaseRecord, facts: DatasetFacts, question: Question) -> Cost:
    """Return the price and what is left; what is reserved for it counts as left."""
    left = reader.accounts.balance(found.account).remaining
    if found.state in UNDECIDED:
        left += found.amount
    meter = facts.meter
    return Cost(
        epsilon=str(question.epsilon),
        charge=meter.text(found.amount),
        unit=meter.unit,
        remaining=str(meter.affordable(left)),
        share=float(Fraction(found.amount, left)) if left else 1.0,
    )


def _overlaps(reader: Reader, facts: DatasetFacts, hidden: Collection[str]) -> Sequence[Overlap]:
    """Return the data sets about the same people, as far as the ledger knows.

    Those of ``hidden`` accounts are left out.
    """
    overlapping = [
        Overlap(dataset=each.id, name=each.name, why="shares the budget account")
        for each in reader.datasets.of_account(facts.record.account)
        if each.id != facts.id and each.status is not DatasetStatus.DELETED
    ]
    for entry in reader.entries.of_system("overlap_override"):
        about, _, reason = (entry.note or "").partition(":")
        named = _DATASET.findall(about)
        others = dict.fromkeys(each for each in named if each != facts.id)
        for other in others if facts.id in named else ():
            known = reader.datasets.get(other)
            if known is not None and known.account not in hidden:
                why = f"registered although it overlaps; the reason given:{reason}"
                overlapping.append(Overlap(dataset=other, name=known.name, why=why))
    return overlapping


def policy_says(policy: Policy, kinds: Collection[str]) -> Sequence[str]:
    """Return what the policy says of this request, a sentence each."""
    above, most = policy.review.above, policy.max_epsilon_per_release
    sentences = [
        worded("This data set asks for no review any more.")
        if above is None
        else worded("What costs more than epsilon %(epsilon)s is reviewed.", epsilon=above)
        if above.nanos
        else worded("Every release from this data set is reviewed."),
        worded("Two reviewers decide.")
        if policy.reviewers == 2
        else worded("One reviewer decides."),
    ]
    if most is not None:
        sentences.append(worded("One release may cost at most epsilon %(epsilon)s.", epsilon=most))
    if policy.allowed is not None:
        allowed, inside = ", ".join(policy.allowed), set(kinds) <= set(policy.allowed)
        only = worded("Only these statistics are allowed: %(kinds)s.", kinds=allowed)
        this = worded("This one is.") if inside else worded("This one is not.")
        sentences.append(f"{only} {this}")
    return sentences


def _votes(reader: Reader, found: ReleaseRecord, needed: int, caller: Caller) -> Votes:
    """Return the votes of the turn as far as somebody may see them; who asked sees none."""
    count = Count.of(reader.votes.of(found.id), turn=found.turn, needed=needed)
    own = found.principal == caller.person
    return Votes(
        needed=needed,
        complete=count.complete,
        conflict=count.conflict,
        seen=() if own else count.seen_by(caller.person),
    )
