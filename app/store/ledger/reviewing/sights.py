"""Who has seen results that are not public: a row for each person, release, way and day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, select

from app.store.database import tables
from app.store.ledger.multi_row import change_rows

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
