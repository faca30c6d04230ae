"""The bodies of answers about pauses."""

from __future__ import annotations

from typing import Literal, cast

from app.api.answers.base import Answer
from app.services.releases.pauses import PauseRecord


class PauseAnswer(Answer):
    """A person or a data set that is paused."""

    what: Literal["person", "dataset"]
    """Which of the two it is."""
    name: str
    """The `person` of keys, or the id of the data set."""
    reason: str
    """Why."""
    paused_by: str
    """The person who paused it."""
    paused_at: str
    """When (UTC)."""


class SetPauseAnswer(Answer):
    """What has been paused or resumed."""

    what: Literal["person", "dataset"]
    """Which of the two it is."""
    name: str
    """The `person` of keys, or the id of the data set."""
    paused: bool
    """Whether it is paused now."""
    cancelled: int
    """How many releases that waited for a review have been rejected."""


def pause_answer(record: PauseRecord) -> PauseAnswer:
    """Return a pause."""
    return PauseAnswer(
        what=_what(record.what),
        name=record.name,
        reason=record.reason,
        paused_by=record.paused_by,
        paused_at=record.paused_at,
    )


def set_pause_answer(record: PauseRecord, cancelled: int) -> SetPauseAnswer:
    """Return a pause just made."""
    what = _what(record.what)
    return SetPauseAnswer(what=what, name=record.name, paused=True, cancelled=cancelled)


def resumed_answer(what: str, name: str) -> SetPauseAnswer:
    """Return what has just been resumed."""
    return SetPauseAnswer(what=_what(what), name=name, paused=False, cancelled=0)


def _what(what: str) -> Literal["person", "dataset"]:
    return cast(Literal["person", "dataset"], what)
