"""Rates: how many requests of a key the server processes of one database may take together.

A process takes a portion at a time, so that few requests wait for the database. Time is
the database's own.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from app.store.database import tables
from app.store.ledger.workers import NowMs

WINDOW_MS = 60_000

_rate = tables.rate.c
_NOW = select(NowMs())
_ENDED = delete(tables.rate).where(_rate.ends_at_ms <= bindparam("now"))
_GET = select(_rate.ends_at_ms, _rate.taken).where(_rate.key_id == bindparam("of"))
_BEGIN = insert(tables.rate)
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
            self._connection.execute(_BEGIN, row)
            return Portion(given, WINDOW_MS)
        # A smaller limit since the minute began leaves less than nothing.
        given = max(0, min(wanted, most - found.taken))
        self._connection.execute(_TAKE, {"of": key, "more": given})
        return Portion(given, found.ends_at_ms - now)
