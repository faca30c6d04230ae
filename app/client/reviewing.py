"""The calls about reviews: deciding, revising, talking, the sheet, the inbox and the audit.

A decision and a revision are about what was seen: they carry the release's entity tag. Without
``seen`` the release is read first, so that nothing can change in between unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from app.client.answers import Answer, members_of
from app.client.models import Release
from app.client.questions import Amount, Question, question
from app.client.releasing import Call, Line, Listing, Pages, Steps, release_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(Answer):
    """What somebody has said about a release; ``private``: among reviewers."""

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
    """What has happened to a release under review: who, what and why."""

    id: str
    event: str
    release: str
    who: str
    what: str
    why: str | None
    at: str
    read: bool


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
        body = {**question(statistic, epsilon, mechanism, norm), **options}
        sent = self.line.send("POST", f"{path}/revisions", json=body, headers={"If-Match": tag})
        return release_in((yield from sent))

    @Call
    def versions(self, release: Release | str) -> Steps[list[Version]]:
        """Return every version of a request, oldest first."""
        response = yield from self.line.read(f"{at(release)}/revisions")
        items = members_of(response.content)["items"]
        return [Version.model_validate(item) for item in items]

    @Call
    def comment(
        self, release: Release | str, text: str, *, private: bool = False
    ) -> Steps[Comment]:
        """Say something about a release that waits; ``private``: among reviewers."""
        body = {"text": text, "private": private}
        response = yield from self.line.send("POST", f"{at(release)}/comments", json=body)
        return Comment.model_validate_json(response.content)

    @Call
    def comments(self, release: Release | str) -> Steps[list[Comment]]:
        """Return what has been said about a release, as far as the caller may read it."""
        response = yield from self.line.read(f"{at(release)}/comments")
        items = members_of(response.content)["items"]
        return [Comment.model_validate(item) for item in items]

    @Call
    def review(self, release: Release | str) -> Steps[Sheet]:
        """Return the review sheet of a release (curators)."""
        response = yield from self.line.read(f"{at(release)}/review")
        return Sheet.model_validate_json(response.content)

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


def at(release: Release | str) -> str:
    """Return the address of a release."""
    return f"/v1/releases/{release.id if isinstance(release, Release) else release}"
