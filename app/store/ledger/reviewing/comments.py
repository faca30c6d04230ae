"""Comments on releases under review: among reviewers, or shared with who asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, bindparam, func, insert, select

from app.domain.problems import Problem
from app.store.database import tables
from app.store.ledger.allowances import allow
from app.store.ledger.multi_row import change_rows
from app.store.ledger.records import now

# Who has seen results that are not public: a row for each person, release, way and day

_sight = tables.sight.c
_COLUMNS = ("release", "person", "how", "day", "key", "at")
_ONCE = (
    "INSERT INTO sight (release, person, how, day, key, at)"
    " SELECT column1, column2, column3, column4, column5, column6 FROM (VALUES {values}) AS seen"
    " WHERE column1 IS NOT NULL ON CONFLICT DO NOTHING"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Somebody has seen a release's result, by a key and in some way, at a time first that day."""

    release: str
    person: str
    how: str
    key: str
    at: str

    @property
    def day(self) -> str:
        """Return the day (UTC)."""
        return self.at[:10]


@dataclass(frozen=True, slots=True, kw_only=True)
class SightRecord(Sight):
    """A :class:`Sight` that is kept."""

    number: int


class Sights:
    """What has been seen."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(
        self, *, before: int | None, limit: int, release: str | None = None
    ) -> tuple[SightRecord, ...]:
        """Return what has been seen, newest first."""
        query = select(tables.sight).order_by(_sight.number.desc()).limit(limit)
        if before is not None:
            query = query.where(_sight.number < before)
        if release is not None:
            query = query.where(_sight.release == release)
        rows = self._connection.execute(query)
        return tuple(
            SightRecord(**{name: row._mapping[name] for name in row._mapping if name != "day"})
            for row in rows
        )


class SightsWriter(Sights):
    """Noting what is seen."""

    __slots__ = ()

    def note(self, seen: Sequence[Sight]) -> None:
        """Note what has been seen; what is noted of the same day already stays as it is."""
        rows = [
            tuple({**asdict(each), "day": each.day}[name] for name in _COLUMNS) for each in seen
        ]
        change_rows(self._connection, _ONCE, rows)


# Comments on releases under review: among reviewers, or shared with who asked

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
