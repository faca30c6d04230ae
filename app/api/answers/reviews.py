"""The bodies of answers about what is said while a release waits for its review."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from pydantic import Field
from starlette.responses import Response

from app.api.answers.paging import Answer
from app.api.answers.releases import UsefulnessAnswer
from app.domain.datasets import StatedPeople
from app.services.plans.answers import tag_within
from app.services.reviewing.notices import Notice, ViewRecord
from app.services.reviewing.sheets import (
    CommentRecord,
    Earlier,
    History,
    Judged,
    Overlap,
    Sheet,
    Use,
    Version,
    Votes,
)
from mechanisms.estimates.estimate import ErrorEstimate


class CommentAnswer(Answer):
    """A comment on a release or a study plan."""

    person: str
    """Who said it."""
    text: str
    """What was said."""
    private: bool
    """Whether only reviewers see it."""
    turn: int
    """In which of the review's turns."""
    at: str
    """When (UTC)."""


class CommentsAnswer(Answer):
    """All that the caller may read of what has been said about a request, oldest first.

    Once a turn is over, the reasons for which reviewers requested changes in it are among them.
    """

    items: list[CommentAnswer]
    """The comments."""


class DifferenceAnswer(Answer):
    """Where two versions of a request differ."""

    place: str
    """Which member of the request, by its path."""
    before: Any
    """What it was; null where there was none."""
    after: Any
    """What it is; null where there is none."""


class VersionAnswer(Answer):
    """A version of a request."""

    version: int
    """Counted from 1."""
    at: str
    """When it was asked (UTC)."""
    request: dict[str, Any]
    """The request, defaults filled in."""
    differences: list[DifferenceAnswer]
    """Where it differs from the version before; empty for the first."""


class VersionsAnswer(Answer):
    """Every version of a request, oldest first."""

    items: list[VersionAnswer]
    """The versions."""


def comment_answer(record: CommentRecord) -> CommentAnswer:
    """Return a comment."""
    return CommentAnswer(
        person=record.person,
        text=record.text,
        private=record.private,
        turn=record.turn,
        at=record.at,
    )


def comments_answer(records: Sequence[CommentRecord]) -> CommentsAnswer:
    """Return comments."""
    return CommentsAnswer(items=[comment_answer(each) for each in records])


def versions_answer(versions: Sequence[Version]) -> VersionsAnswer:
    """Return versions."""
    return VersionsAnswer(
        items=[
            VersionAnswer(
                version=each.record.version,
                at=each.record.at,
                request=json.loads(each.record.request),
                differences=[
                    DifferenceAnswer(place=one.place, before=one.before, after=one.after)
                    for one in each.differences
                ],
            )
            for each in versions
        ]
    )


# The body of a review sheet: all that a reviewer needs of one release


class AskerAnswer(Answer):
    """The requester, and what they have requested of the service before."""

    person: str
    """Who it is."""
    asked: dict[str, int]
    """How many other releases they have asked for, by status; of their newest 100."""
    spent: str
    """What their releases have cost this account, as an epsilon."""
    cap: str | None
    """What they may use of it at most; null without a cap."""
    used: str | None
    """What counts against the cap; null without one."""


class CostAnswer(Answer):
    """What the release would take."""

    epsilon: str
    """The privacy loss of the release."""
    charge: str
    """What is reserved for it, in the account's unit."""
    unit: str
    """What the account counts in."""
    remaining: str
    """The largest epsilon that a release could have if this one were withdrawn."""
    share: float
    """Which part of what is left the release would take: 0 to 1."""


class ExpectedAnswer(Answer):
    """The expected quality of the answer, from public facts."""

    error: dict[str, Any] | None
    """The expected absolute error of each number, in the shape of the value."""
    possible_range: dict[str, Any] | None
    """Low and high of each number, in the same shape: what is taken as possible."""
    usefulness: UsefulnessAnswer
    """A verdict, and which number decides it."""


class EarlierAnswer(Answer):
    """An earlier release about the same people that touches columns of the same names."""

    release: str
    """Its id."""
    dataset: str
    """The id of its data set."""
    dataset_name: str
    """And its name."""
    kinds: list[str]
    """The kinds of its statistics."""
    epsilon: str
    """Its price."""
    status: str
    """Its status."""
    requested_by: str
    """The requester."""
    created_at: str
    """When (UTC)."""
    touches: list[bool]
    """Whether it touches each of the matrix's columns, in their order."""


class MatrixAnswer(Answer):
    """Which earlier releases touch columns of the same names: of this data set and those about the
    same people, newest first, of the newest 100 of each."""

    columns: list[str]
    """The columns that the request speaks of."""
    releases: list[EarlierAnswer]
    """The rows."""


class LinkedAnswer(Answer):
    """A data set of an account that holds data of the same people."""

    dataset: str
    """Its id."""
    name: str
    """Its name."""


class UseAnswer(Answer):
    """What has been released of an account that holds data of the same people."""

    account: str
    """Its id."""
    datasets: list[LinkedAnswer]
    """Those of its data sets that are linked with this one."""
    releases: int
    """How many releases were charged, of the newest 100 of each data set."""
    spent: str
    """What the account has spent, as an epsilon."""
    asked: dict[str, int]
    """What the requester has asked of these data sets, by status."""
    spent_by_requester: str
    """What the requester has spent of the account, as an epsilon."""


class OverlapAnswer(Answer):
    """A data set about the same people."""

    dataset: str
    """Its id."""
    name: str
    """Its name."""
    why: str
    """What makes it so."""


class VoteAnswer(Answer):
    """A vote."""

    person: str
    """Whose it is."""
    decision: str
    """What they said."""
    reason: str
    """And why."""
    at: str
    """When (UTC)."""


class VotesAnswer(Answer):
    """The votes of this turn, as far as the caller may see them."""

    needed: int
    """How many reviewers decide."""
    complete: bool
    """Whether all votes are in; then all are shown."""
    conflict: bool
    """Whether they are unlike. Either reviewer may then revise theirs."""
    items: list[VoteAnswer]
    """The votes: your own, until all are in."""


class JudgedAnswer(Answer):
    """What a reviewer needs of any request, of one question or of several."""

    asker: AskerAnswer
    """Who asks."""
    bounds: dict[str, dict[str, Any]]
    """The declared facts of the columns that the request speaks of."""
    matrix: MatrixAnswer
    """Which earlier releases touch the same columns."""
    overlaps: list[OverlapAnswer]
    """Other data sets about the same people."""
    uses: list[UseAnswer]
    """What has been released of each account that holds data of the same people."""
    for_one_person: list[str]
    """What the request means for one person, a sentence each; empty where there is a delta."""
    same_people: StatedPeople
    """What the data set's curator has stated of whether its people may be in an earlier one."""
    policy: dict[str, Any]
    """The data set's policy."""
    policy_says: list[str]
    """What it says of this request, a sentence each."""
    checklist: list[str]
    """What this data set's reviewers look at."""
    versions: list[VersionAnswer]
    """Every version of the request, each compared with the one before."""
    votes: VotesAnswer
    """The votes, as far as the caller may see them."""
    comments: list[CommentAnswer]
    """What has been said, as far as the caller may read it."""


class SheetAnswer(JudgedAnswer):
    """All that a reviewer needs of one release."""

    release: str
    """The id of the release."""
    dataset: str
    """The id of the data set."""
    dataset_name: str
    """And its name."""
    status: str
    """The status of the release."""
    etag: str
    """What a decision carries as `If-Match`."""
    turn: int
    """How often it has come before its reviewers."""
    version: int
    """Which version of the request this is."""
    purpose: str | None
    """What the numbers are for, in the asker's words."""
    words: str
    """What is asked, in a sentence."""
    about_missing: list[str] = Field(default=[], exclude_if=lambda said: not said)
    """Which records the answer leaves out for want of a value, and what was filled in."""
    about_weights: list[str] = Field(default=[], exclude_if=lambda said: not said)
    """That records count once, where the data set declares their weight."""
    request: dict[str, Any]
    """What is asked, as JSON, defaults filled in."""
    cost: CostAnswer
    """What it would take."""
    expected: ExpectedAnswer
    """Its expected quality."""


def sheet_response(sheet: Sheet, *, known: Callable[[str], bool]) -> Response:
    """Return a review sheet with its entity tag; ``known`` says whether the caller has this one."""
    content = sheet_answer(sheet).model_dump_json().encode()
    tag = tag_within(sheet.etag, content)
    headers = {"Cache-Control": "private, no-cache", "ETag": tag}
    if known(tag):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/json", headers=headers)


def sheet_answer(sheet: Sheet) -> SheetAnswer:
    """Return a review sheet."""
    cost = sheet.cost
    return SheetAnswer(
        **judged(sheet),
        release=sheet.record.id,
        dataset=sheet.facts.id,
        dataset_name=sheet.facts.record.name,
        status=sheet.status,
        etag=sheet.etag,
        turn=sheet.record.turn,
        version=sheet.record.version,
        purpose=sheet.purpose,
        words=sheet.words,
        about_missing=list(sheet.about_columns.get("about_missing", ())),
        about_weights=list(sheet.about_columns.get("about_weights", ())),
        request=dict(sheet.request),
        cost=CostAnswer(
            epsilon=cost.epsilon,
            charge=cost.charge,
            unit=cost.unit,
            remaining=cost.remaining,
            share=cost.share,
        ),
        expected=expected_answer(sheet.expected),
    )


def judged(sheet: Judged) -> dict[str, Any]:
    """Return the fields of a :class:`JudgedAnswer`."""
    background = sheet.background
    return {
        "asker": _asker(background.asker),
        "bounds": {name: dict(column) for name, column in sheet.bounds.items()},
        "matrix": matrix_answer(sheet.bounds, background.earlier),
        "overlaps": _overlaps(background.overlaps),
        "uses": _uses(background.uses),
        "for_one_person": list(sheet.for_one_person),
        "same_people": sheet.facts.same_people,
        "policy": dict(sheet.policy),
        "policy_says": list(sheet.policy_says),
        "checklist": list(sheet.facts.checklist),
        "versions": versions_answer(sheet.versions).items,
        "votes": votes_answer(sheet.votes),
        "comments": comments_answer(sheet.comments).items,
    }


def _asker(asker: History) -> AskerAnswer:
    """Return who asks."""
    return AskerAnswer(
        person=asker.person,
        asked=dict(asker.asked),
        spent=asker.spent,
        cap=asker.cap,
        used=asker.used,
    )


def expected_answer(expected: ErrorEstimate) -> ExpectedAnswer:
    """Return what an answer would be worth."""
    return ExpectedAnswer.model_validate(
        {
            "error": expected.expected_error,
            "possible_range": expected.possible_range,
            "usefulness": expected.usefulness.to_json(),
        }
    )


def _overlaps(overlaps: Sequence[Overlap]) -> list[OverlapAnswer]:
    """Return data sets about the same people."""
    return [OverlapAnswer(dataset=each.dataset, name=each.name, why=each.why) for each in overlaps]


def _uses(uses: Sequence[Use]) -> list[UseAnswer]:
    """Return what has been released about the same people."""
    return [
        UseAnswer(
            account=each.account,
            datasets=[LinkedAnswer(dataset=id_, name=name) for id_, name in each.datasets],
            releases=each.releases,
            spent=each.spent,
            asked=dict(each.asked),
            spent_by_requester=each.spent_by_requester,
        )
        for each in uses
    ]


def votes_answer(votes: Votes) -> VotesAnswer:
    """Return votes, as far as the caller may see them."""
    return VotesAnswer(
        needed=votes.needed,
        complete=votes.complete,
        conflict=votes.conflict,
        items=[
            VoteAnswer(
                person=each.person,
                decision=each.decision.value,
                reason=each.reason,
                at=each.at,
            )
            for each in votes.seen
        ],
    )


def matrix_answer(columns: Iterable[str], earlier: Sequence[Earlier]) -> MatrixAnswer:
    """Return which releases touch columns."""
    return MatrixAnswer(
        columns=list(columns),
        releases=[
            EarlierAnswer(
                release=each.id,
                dataset=each.dataset,
                dataset_name=each.name,
                kinds=list(each.kinds),
                epsilon=each.epsilon,
                status=each.status,
                requested_by=each.requested_by,
                created_at=each.created_at,
                touches=list(each.columns),
            )
            for each in earlier
        ],
    )


# The bodies of answers about notices, and about who has seen what


class NoticeAnswer(Answer):
    """What has happened to a release or a study plan under review; never a value."""

    id: str
    """Names the notice; a webhook sends it as `webhook-id`."""
    event: str
    """What has happened: `asked`, `changes_requested`, `revised`, `answered`, `commented`,
    `conflict`, `approved`, `rejected`, `withdrawn`, `expired`, `released` or `void`."""
    release: str | None
    """The release; null where it is about a study plan."""
    study_plan: str | None
    """The study plan; null where it is about a release."""
    dataset: str
    """The id of its data set."""
    requested_by: str
    """The requester."""
    who: str
    """Who did it."""
    what: str
    """What has happened, in a sentence."""
    why: str | None
    """The reason or the words that were given; null where there are none."""
    at: str
    """When (UTC)."""
    read: bool
    """Whether you have read it, or did it yourself."""


class ReadAnswer(Answer):
    """How many notices are read now."""

    read: int
    """Of those that were named, how many are yours."""


class ViewAnswer(Answer):
    """A view of a result that is not public."""

    release: str
    """Whose result it is."""
    person: str
    """Who has seen it."""
    key: str
    """The id of the key that they used."""
    how: Literal["read", "listed", "derived", "downloaded"]
    """In which way: asked for by its id, in a list, by what follows from it, or as a file."""
    at: str
    """When first on that day (UTC)."""


def read_answer(read: int) -> ReadAnswer:
    """Return how many notices are read now."""
    return ReadAnswer(read=read)


def notice_answer(notice: Notice) -> NoticeAnswer:
    """Return a notice."""
    return NoticeAnswer(
        id=notice.id,
        event=notice.event.value,
        release=notice.release,
        study_plan=notice.study_plan,
        dataset=notice.dataset,
        requested_by=notice.requester,
        who=notice.who,
        what=notice.what,
        why=notice.why,
        at=notice.at,
        read=notice.read,
    )


def view_answer(record: ViewRecord) -> ViewAnswer:
    """Return a note of who has seen what."""
    return ViewAnswer.model_validate(
        {
            "release": record.release,
            "person": record.person,
            "key": record.key,
            "how": record.how,
            "at": record.at,
        }
    )
