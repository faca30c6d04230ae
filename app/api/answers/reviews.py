"""The bodies of answers about what is said while a release waits for its review."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from app.api.answers.base import Answer
from app.services.releases.comments import CommentRecord, Version


class CommentAnswer(Answer):
    """What somebody has said about a release."""

    person: str
    """Who said it."""
    text: str
    """What was said."""
    private: bool
    """Whether it stays among reviewers."""
    turn: int
    """In which of the review's turns."""
    at: str
    """When (UTC)."""


class CommentsAnswer(Answer):
    """All that the caller may read of what has been said about a release, oldest first."""

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
