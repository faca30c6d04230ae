"""The bodies of answers about notices, and about who has seen what."""

from __future__ import annotations

from typing import Literal

from app.api.answers.base import Answer
from app.services.reviewing.inbox import Notice
from app.services.reviewing.sights import SightRecord


class NoticeAnswer(Answer):
    """What has happened to a release under review; never a value."""

    id: str
    """Names the notice; a webhook sends it as `webhook-id`."""
    event: str
    """What has happened: `asked`, `changes_requested`, `revised`, `answered`, `commented`,
    `conflict`, `approved`, `rejected`, `withdrawn`, `expired`, `released` or `void`."""
    release: str
    """The release."""
    dataset: str
    """The id of its data set."""
    requested_by: str
    """Who asked for it."""
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


class SightAnswer(Answer):
    """Somebody has seen a result that is not public."""

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
        dataset=notice.dataset,
        requested_by=notice.requester,
        who=notice.who,
        what=notice.what,
        why=notice.why,
        at=notice.at,
        read=notice.read,
    )


def sight_answer(record: SightRecord) -> SightAnswer:
    """Return a note of who has seen what."""
    return SightAnswer.model_validate(
        {
            "release": record.release,
            "person": record.person,
            "key": record.key,
            "how": record.how,
            "at": record.at,
        }
    )
