"""Whose turn it is: the reviewers', or that of who asked; and how often it has come back.

A release without a row is in its first turn. The system account has an entry each time that the
turn changes sides, so the row can be counted again from those.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, update

from app.store.database import tables

CHANGES_REQUESTED = "release_changes_requested"
"""The kind of the system entry that gives the turn to who asked; its note names the release."""

RETURNED = "release_returned"
"""The kind of the system entry that gives it back to the reviewers; its note is the release."""

_review = tables.review.c
_BEGIN = insert(tables.review)
_SET = (
    update(tables.review)
    .where(_review.release == bindparam("wanted"))
    .values(
        turn=bindparam("to_turn"),
        version=bindparam("to_version"),
        returned=bindparam("now_returned"),
        shown=bindparam("now_shown"),
        reason=bindparam("why"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Where a review stands.

    ``returned``: it waits for who asked, for this ``reason``. ``shown`` is how many votes of the
    turn everybody may know of: none until all are in.
    """

    turn: int
    version: int
    returned: bool = False
    shown: int = 0
    reason: str | None = None


def write_turn(connection: Connection, release: str, to: Turn) -> None:
    """Write down where a release's review stands from now on."""
    row = {
        "wanted": release,
        "to_turn": to.turn,
        "to_version": to.version,
        "now_returned": int(to.returned),
        "now_shown": to.shown,
        "why": to.reason,
    }
    # The first time that the turn changes sides.
    if connection.execute(_SET, row).rowcount == 0:
        first = {
            "release": release,
            "turn": to.turn,
            "version": to.version,
            "returned": int(to.returned),
            "shown": to.shown,
            "reason": to.reason,
        }
        connection.execute(_BEGIN, first)
