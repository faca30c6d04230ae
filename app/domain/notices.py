"""Notices about a review: one for each step, to the requester and to the reviewers.

A notice names who, what and why. It is made from the request and from what people wrote,
never from a result.
"""

from __future__ import annotations

from enum import StrEnum

from app.domain.releases import ReleaseState


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
