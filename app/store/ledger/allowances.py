"""Allowances: how many bytes one person may have stored in a day, judged as releases are charged.

What is stored of a release is never removed, whatever becomes of it, and a question that is
reserved and withdrawn costs nothing. A row holds a person's last day and what was stored on it,
so a restart, and another server on the same database, counts on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, insert, select, update

from app.domain.problems import Problem
from app.store.database import tables

LIMIT = "max_stored_bytes_per_day"
"""The setting that says how many bytes a person may have stored in a day."""

ENTRY_BYTES = 4_096
"""At most so much is stored of a release beside its texts: its rows, and entries of the ledger."""

_allowance = tables.allowance.c
_FOUND = select(tables.allowance).where(_allowance.person.in_(bindparam("people", expanding=True)))
_SET = (
    update(tables.allowance)
    .where(_allowance.person == bindparam("of"))
    .values(day=bindparam("on_day"), bytes=bindparam("so_many"))
)
_BEGIN = insert(tables.allowance)


class Allowances:
    """What some people have had stored today, while a transaction charges them.

    ``at`` is the transaction's time, as text in UTC.
    """

    __slots__ = ("_at", "_changed", "_connection", "_known", "_stored")

    def __init__(self, connection: Connection, people: Collection[str], *, at: str) -> None:
        rows = connection.execute(_FOUND, {"people": [*people]}).all() if people else ()
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
        """Pass for a person who may have so many bytes more stored today.

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
        # In one order for all writers, whose row locks then never wait in a circle.
        for person in sorted(self._changed):
            stored = self._stored[person]
            if person in self._known:
                row = {"of": person, "on_day": self._day, "so_many": stored}
                self._connection.execute(_SET, row)
            else:
                row = {"person": person, "day": self._day, "bytes": stored}
                self._connection.execute(_BEGIN, row)


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
