"""The calls about reviews: deciding, revising, talking, the sheet, the inbox and the audit.

Study plans are saved, requested, decided on as one, and drawn question by question.

A decision and a revision are about what was seen: they carry the release's entity tag. Without
``seen`` the release is read first, so that nothing can change in between unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from app.client.answers import Answer, members_of, plain
from app.client.datasets import Facts
from app.client.models import Release, SavedPlan
from app.client.questions import Amount, OnWait, Question, question, several
from app.client.releasing import Call, Line, Listing, Pages, Steps, drawing, release_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(Answer):
    """What somebody has said about a release or a study plan; ``private``: among reviewers."""

    person: str
    text: str
    private: bool
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(Answer):
    """A version of a request; ``differences`` are from the version before."""

    version: int
    request: dict[str, Any]
    differences: Sequence[Mapping[str, Any]]
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Answer):
    """What has happened to a release or a study plan under review: who, what and why."""

    id: str
    event: str
    release: str | None
    study_plan: str | None = None
    who: str
    what: str
    why: str | None
    at: str
    read: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSheet(Answer):
    """All that a reviewer needs of a study plan; ``plan`` has its questions.

    ``epsilon`` is that of all questions together, and ``share`` which part of what is left the
    unpaid ones would take. ``for_one_person`` says what they mean for one person. ``versions`` are
    those that were requested, each compared with the one before.
    """

    plan: Mapping[str, Any]
    asker: Mapping[str, Any]
    epsilon: str
    share: float
    for_one_person: Sequence[str]
    policy_says: Sequence[str]
    versions: Sequence[Mapping[str, Any]]
    votes: Mapping[str, Any]
    comments: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class View(Answer):
    """Somebody has seen a result that was not public."""

    release: str
    person: str
    how: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet(Answer):
    """All that a reviewer needs of one release; ``etag`` is what a decision carries as seen.

    Further members, such as ``matrix`` and ``overlaps``, are as the service sends them.
    """

    release: str
    dataset: str
    status: str
    etag: str
    words: str
    purpose: str | None
    version: int
    turn: int
    asker: dict[str, Any]
    cost: dict[str, Any]
    expected: dict[str, Any]
    bounds: dict[str, Any]
    matrix: dict[str, Any]
    overlaps: Sequence[Mapping[str, Any]]
    same_people: str
    policy_says: Sequence[str]
    checklist: Sequence[str]
    versions: Sequence[Mapping[str, Any]]
    votes: dict[str, Any]
    comments: Sequence[Mapping[str, Any]]

    parts: ClassVar[Mapping[str, type[Answer]]] = {}


class ReviewCalls:
    """The methods about reviews, of both desks."""

    line: Line

    @Call
    def approve(
        self, release: Release | str, *, reason: str, seen: str | None = None
    ) -> Steps[Release]:
        """Approve a release that awaits a review: it is charged and drawn (curators).

        Where two reviewers decide, this is a vote. ``seen``: the ``etag`` of the sheet.
        """
        return (yield from self._decide(release, "approve", reason, seen))

    @Call
    def reject(
        self, release: Release | str, *, reason: str, seen: str | None = None
    ) -> Steps[Release]:
        """Reject a release that awaits a review; its budget is given back (curators)."""
        return (yield from self._decide(release, "reject", reason, seen))

    @Call
    def request_changes(
        self, release: Release | str, *, reason: str, seen: str | None = None
    ) -> Steps[Release]:
        """Give the turn to who asked: they may revise, answer or withdraw (curators)."""
        return (yield from self._decide(release, "request_changes", reason, seen))

    def _decide(
        self, release: Release | str, decision: str, reason: str, seen: str | None
    ) -> Steps[Release]:
        path = at(release)
        tag = seen or (yield from self._seen(path))
        body, headers = {"decision": decision, "reason": reason}, {"If-Match": tag}
        sent = self.line.send("POST", f"{path}/decision", json=body, headers=headers)
        return release_in((yield from sent))

    def _seen(self, path: str) -> Steps[str]:
        return str((yield from self.line.read(path)).headers["ETag"])

    @Call
    def withdraw(self, release: Release | str) -> Steps[Release]:
        """Withdraw a release of one's own that awaits a review, or changes."""
        return release_in((yield from self.line.repeatable("POST", f"{at(release)}/withdrawal")))

    @Call
    def revise(
        self,
        /,
        release: Release | str,
        statistic: Question,
        *,
        epsilon: Amount,
        mechanism: str = "auto",
        norm: str = "auto",
        seen: str | None = None,
        **options: object,
    ) -> Steps[Release]:
        """Put another request in the place of one's own, whose reviewers want changes.

        ``options``: further members of the request, such as ``purpose``.
        """
        path = at(release)
        tag = seen or (yield from self._seen(path))
        body = question(statistic, epsilon, mechanism, norm, **options)
        sent = self.line.send("POST", f"{path}/revisions", json=body, headers={"If-Match": tag})
        return release_in((yield from sent))

    @Call
    def versions(self, request: Release | SavedPlan | str) -> Steps[list[Version]]:
        """Return every version of the request for a release or a study plan, oldest first."""
        response = yield from self.line.read(f"{at(request)}/revisions")
        items = members_of(response.content)["items"]
        return [Version.model_validate(item) for item in items]

    @Call
    def comment(
        self, request: Release | SavedPlan | str, text: str, *, private: bool = False
    ) -> Steps[Comment]:
        """Say something about a release that waits, or a study plan; ``private``: among reviewers.

        The requester of a release whose reviewers want changes answers them with it.
        """
        body = {"text": text, "private": private}
        response = yield from self.line.send("POST", f"{at(request)}/comments", json=body)
        return Comment.model_validate_json(response.content)

    @Call
    def comments(self, request: Release | SavedPlan | str) -> Steps[list[Comment]]:
        """Return what has been said about a release or a plan, as far as the caller may read it."""
        response = yield from self.line.read(f"{at(request)}/comments")
        items = members_of(response.content)["items"]
        return [Comment.model_validate(item) for item in items]

    @Call
    def review(self, release: Release | str) -> Steps[Sheet]:
        """Return the review sheet of a release (curators)."""
        response = yield from self.line.read(f"{at(release)}/review")
        return Sheet.model_validate_json(response.content)

    # Study plans

    @Call
    def save_plan(
        self,
        dataset: Facts | str,
        questions: Sequence[Mapping[str, Any]],
        *,
        name: str,
        purpose: str | None = None,
    ) -> Steps[SavedPlan]:
        """Save questions, each with an ``epsilon`` or an ``accuracy``, as a draft of a study plan.

        Only its owner sees a draft. ``request_plan`` asks for its approval.
        """
        wanted = dataset.id if isinstance(dataset, Facts) else dataset
        body = {
            "dataset": wanted,
            "name": name,
            "purpose": purpose,
            "questions": several(questions),
        }
        response = yield from self.line.send("POST", _PLANS, json=plain(body))
        return SavedPlan.model_validate_json(response.content)

    @Call
    def edit_plan(
        self,
        plan: SavedPlan | str,
        questions: Sequence[Mapping[str, Any]],
        *,
        name: str,
        purpose: str | None = None,
    ) -> Steps[SavedPlan]:
        """Put other questions in the place of those of a draft of one's own.

        Also of a plan whose reviewers want changes: ``request_plan`` then sends it again.
        """
        body = {"name": name, "purpose": purpose, "questions": several(questions)}
        response = yield from self.line.repeatable("PUT", _plan_at(plan), json=plain(body))
        return SavedPlan.model_validate_json(response.content)

    @Call
    def saved_plan(self, plan: SavedPlan | str) -> Steps[SavedPlan]:
        """Return a study plan, and which of its questions are paid for."""
        response = yield from self.line.read(_plan_at(plan))
        return SavedPlan.model_validate_json(response.content)

    @Listing
    def saved_plans(
        self, *, dataset: Facts | str | None = None, status: str | None = None
    ) -> Pages[SavedPlan]:
        """Yield one's own study plans, newest first; reviewers and curators see all requests."""
        wanted = dataset.id if isinstance(dataset, Facts) else dataset
        return Pages(_PLANS, SavedPlan.model_validate, {"dataset": wanted, "status": status})

    @Call
    def delete_plan(self, plan: SavedPlan | str) -> Steps[None]:
        """Delete a draft of one's own."""
        yield from self.line.send("DELETE", _plan_at(plan))

    @Call
    def request_plan(self, plan: SavedPlan | str) -> Steps[SavedPlan]:
        """Ask for the approval of all questions of a draft as one request; nothing is reserved.

        Where reviewers want changes, this sends the plan again as it was edited.
        """
        response = yield from self.line.send("POST", f"{_plan_at(plan)}/request")
        return SavedPlan.model_validate_json(response.content)

    @Call
    def withdraw_plan(self, plan: SavedPlan | str) -> Steps[SavedPlan]:
        """Withdraw a study plan of one's own; what has been drawn of it stays."""
        response = yield from self.line.send("POST", f"{_plan_at(plan)}/withdrawal")
        return SavedPlan.model_validate_json(response.content)

    @Call
    def review_plan(self, plan: SavedPlan | str) -> Steps[PlanSheet]:
        """Return the review sheet of a study plan (reviewers)."""
        response = yield from self.line.read(f"{_plan_at(plan)}/review")
        return PlanSheet.model_validate_json(response.content)

    @Call
    def decide_on_plan(
        self, plan: SavedPlan | str, decision: str, *, reason: str, seen: str | None = None
    ) -> Steps[SavedPlan]:
        """Vote ``approve`` or ``reject`` on all questions of a study plan (reviewers).

        ``request_changes`` gives the turn to its owner. ``seen`` is the ``etag`` of the plan as it
        was read; without it the plan is read first.
        """
        path = _plan_at(plan)
        tag = seen or (yield from self._seen(path))
        body, headers = {"decision": decision, "reason": reason}, {"If-Match": tag}
        response = yield from self.line.send("POST", f"{path}/decision", json=body, headers=headers)
        return SavedPlan.model_validate_json(response.content)

    @Call
    def draw(
        self,
        plan: SavedPlan | str,
        question: int,
        *,
        wait: bool = True,
        on_wait: OnWait | None = None,
    ) -> Steps[Release]:
        """Release a question of an approved study plan, by its place from 0.

        It is charged once, however often it is called.
        """
        id_ = plan.id if isinstance(plan, SavedPlan) else plan
        return (yield from drawing(self.line, id_, question, wait=wait, on_wait=on_wait))

    @Listing
    def inbox(self, *, unread: bool = False) -> Pages[Notice]:
        """Yield what has happened to releases under review, newest first."""
        return Pages("/v1/inbox", Notice.model_validate, {"unread": "true" if unread else None})

    @Call
    def mark_read(self, notices: Sequence[Notice | str]) -> Steps[int]:
        """Mark notices as read; return how many of them are the caller's."""
        ids = [each.id if isinstance(each, Notice) else each for each in notices]
        response = yield from self.line.repeatable("POST", "/v1/inbox/read", json={"ids": ids})
        return int(response.json()["read"])

    @Listing
    def audit(self, *, release: Release | str | None = None) -> Pages[View]:
        """Yield who has seen results that were not public, newest first (curators)."""
        wanted = release.id if isinstance(release, Release) else release
        return Pages("/v1/audit", View.model_validate, {"release": wanted})


_PLANS = "/v1/study-plans"


def _plan_at(plan: SavedPlan | str) -> str:
    """Return the address of a study plan."""
    return f"{_PLANS}/{plan.id if isinstance(plan, SavedPlan) else plan}"


def at(request: Release | SavedPlan | str) -> str:
    """Return the address of a release, or of a study plan.

    >>> at("rel_1"), at("plan_1")
    ('/v1/releases/rel_1', '/v1/study-plans/plan_1')
    """
    id_ = request if isinstance(request, str) else request.id
    return f"{_PLANS if id_.startswith('plan_') else '/v1/releases'}/{id_}"
