"""Comments on releases under review: among reviewers, or shared with who asked."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, insert, select

from app.domain.problems import Problem
from app.store.database import tables
from app.store.ledger.allowances import allow
from app.store.ledger.ids import now

MOST = 500
"""The most comments that a release may have: reviewers cannot read more."""

_comment = tables.comment.c
_OF = select(tables.comment).where(_comment.release == bindparam("of")).order_by(_comment.number)
_COUNT = select(func.count()).where(_comment.release == bindparam("of"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentRecord:
    """What somebody has said about a release, in which turn; ``private``: among reviewers."""

    number: int
    release: str
    turn: int
    person: str
    private: bool
    text: str
    at: str


class Comments:
    """What has been said about releases."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, release: str) -> tuple[CommentRecord, ...]:
        """Return all comments on a release, oldest first, of every visibility."""
        rows = self._connection.execute(_OF, {"of": release})
        return tuple(
            CommentRecord(**{**row._mapping, "private": bool(row.private)}) for row in rows
        )


class CommentsWriter(Comments):
    """Adding comments; none is changed or removed."""

    __slots__ = ()

    def add(
        self,
        release: str,
        *,
        turn: int,
        person: str,
        private: bool,
        text: str,
        most_bytes: int | None,
    ) -> CommentRecord:
        """Keep a comment; ``most_bytes`` is how many bytes the person may have stored in a day.

        Raises
        ------
        Problem
            ``too-many-comments``, ``too-much-stored``.
        """
        allow(self._connection, person, len(text.encode()), most_bytes, at=now())
        if int(self._connection.execute(_COUNT, {"of": release}).scalar_one()) >= MOST:
            raise Problem("too-many-comments", maximum=MOST)
        row = {
            "release": release,
            "turn": turn,
            "person": person,
            "private": int(private),
            "text": text,
            "at": now(),
        }
        self._connection.execute(insert(tables.comment), row)
        return self.of(release)[-1]
