"""Allowances: how many bytes one person may have stored in a day, judged as releases are charged.

What is stored of a release is never removed, whatever becomes of it, and a question that is
reserved and withdrawn costs nothing. A row holds a person's last day and what was stored on it,
so a restart, and another server on the same database, counts on.

*Rates: how many requests of a key the server processes of one database may take together.* A
process takes a portion at a time, so that few requests wait for the database. Time is the
database's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from app.domain.problems import Problem
from app.store.database import tables
from app.store.ledger.jobs import NowMs
from app.store.ledger.multi_row import change_rows, insert_of, select_rows

# Rates: how many requests of a key the server processes of one database may take together

WINDOW_MS = 60_000

_rate = tables.rate.c
_NOW = select(NowMs())
_ENDED = delete(tables.rate).where(_rate.ends_at_ms <= bindparam("now"))
_GET = select(_rate.ends_at_ms, _rate.taken).where(_rate.key_id == bindparam("of"))
_BEGIN_RATE = insert(tables.rate)
_TAKE = (
    update(tables.rate)
    .where(_rate.key_id == bindparam("of"))
    .values(taken=_rate.taken + bindparam("more"))
)


class Portion(NamedTuple):
    """A number of requests of a key, in a window that ends in ``left_ms`` milliseconds."""

    requests: int
    left_ms: int


class RatesWriter:
    """Portions of what keys may send in a minute; a key's minute begins with its first."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def take(self, key: str, *, wanted: int, most: int) -> Portion:
        """Give out ``wanted`` of a key's requests, or what is left of ``most`` in its minute."""
        now = int(self._connection.execute(_NOW).scalar_one())
        # Minutes that are over go with any key's request: so the table stays small.
        self._connection.execute(_ENDED, {"now": now})
        found = self._connection.execute(_GET, {"of": key}).one_or_none()
        if found is None:
            given = min(wanted, most)
            row = {"key_id": key, "ends_at_ms": now + WINDOW_MS, "taken": given}
            self._connection.execute(_BEGIN_RATE, row)
            return Portion(given, WINDOW_MS)
        # A smaller limit since the minute began leaves less than nothing.
        given = max(0, min(wanted, most - found.taken))
        self._connection.execute(_TAKE, {"of": key, "more": given})
        return Portion(given, found.ends_at_ms - now)


# Allowances: how many bytes one person may have stored in a day, judged as releases are charged

LIMIT = "max_stored_bytes_per_day"
"""The setting that says how many bytes a person may have stored in a day."""

ENTRY_BYTES = 4_096
"""The most that is stored of a release besides its texts: its rows, and entries of the ledger."""

_FOUND = (
    "SELECT person, day, bytes FROM (VALUES {values}) AS asked"
    " JOIN allowance ON allowance.person = asked.column1"
)
_SET = (
    "UPDATE allowance SET day = column2, bytes = column3"
    " FROM (VALUES {values}) AS step WHERE person = column1"
)
_BEGIN = insert_of("allowance", ("person", "day", "bytes"))


class Allowances:
    """What some people have had stored today, while a transaction charges them.

    ``at`` is the transaction's time, as text in UTC.
    """

    __slots__ = ("_at", "_changed", "_connection", "_known", "_stored")

    def __init__(self, connection: Connection, people: Collection[str], *, at: str) -> None:
        rows = select_rows(connection, _FOUND, [(person,) for person in people])
        self._connection = connection
        self._at = at
        self._known = {row.person for row in rows}
        # A row of another day counts nothing, and is written over.
        self._stored = Counter({row.person: row.bytes for row in rows if row.day == self._day})
        self._changed: set[str] = set()

    @property
    def _day(self) -> str:
        return self._at[:10]

    def check(self, person: str, size: int, most: int) -> None:
        """Pass for a person who may have ``size`` more bytes stored today.

        Raises
        ------
        Problem
            ``too-much-stored``, with the seconds until the day ends.
        """
        if self._stored[person] + size > most:
            now = datetime.fromisoformat(self._at)
            tomorrow = datetime.combine(
                now.date() + timedelta(days=1), datetime.min.time(), tzinfo=now.tzinfo
            )
            raise Problem(
                "too-much-stored",
                limit=LIMIT,
                maximum=most,
                # Up to the next whole second, so that the day has surely ended by then.
                retry_after=int((tomorrow - now).total_seconds()) + 1,
            )

    def take(self, person: str, size: int) -> None:
        """Count bytes that are stored for a person."""
        self._stored[person] += size
        self._changed.add(person)

    def write(self) -> None:
        """Write down what has been counted."""
        rows = [(person, self._day, self._stored[person]) for person in self._changed]
        change_rows(self._connection, _SET, [row for row in rows if row[0] in self._known])
        change_rows(self._connection, _BEGIN, [row for row in rows if row[0] not in self._known])


def allow(connection: Connection, person: str, size: int, most: int | None, *, at: str) -> None:
    """Count bytes that are stored for one person, where there is a bound on them.

    Raises
    ------
    Problem
        ``too-much-stored``.
    """
    if most is not None:
        allowances = Allowances(connection, [person], at=at)
        allowances.check(person, size, most)
        allowances.take(person, size)
        allowances.write()
