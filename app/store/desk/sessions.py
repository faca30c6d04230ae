"""Sessions of browsers: which key signed in, and when it was last heard of.

A session is found by the MAC of its token, which only the browser holds
(:mod:`app.services.people.sessions`). The other columns are for sweeping, and believed of no one.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from app.store.database import tables

_session = tables.desk_session.c
_IT = _session.token_hash == bindparam("token")
_GET = select(tables.desk_session).where(_IT)
_END = delete(tables.desk_session).where(_IT)
_BEGIN = insert(tables.desk_session)
_SEEN = update(tables.desk_session).where(_IT).values(seen_at_s=bindparam("at"))
_SWEEP = delete(tables.desk_session).where(
    or_(
        _session.began_at_s < bindparam("began_before"),
        _session.seen_at_s < bindparam("seen_before"),
    )
)

_LATEST = (
    select(_session.token_hash)
    .where(_session.key_id == bindparam("of_key"))
    .order_by(_session.began_at_s.desc(), _session.seen_at_s.desc())
    .limit(bindparam("most"))
)
_KEEP = delete(tables.desk_session).where(
    _session.key_id == bindparam("of_key"), _session.token_hash.not_in(_LATEST)
)


class SessionRecord(NamedTuple):
    """A session; times are seconds since 1970."""

    token_hash: str
    key_id: str
    began_at_s: int
    seen_at_s: int


class Sessions:
    """What sessions there are."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, token_hash: str) -> SessionRecord | None:
        """Return a session, or None."""
        row = self._connection.execute(_GET, {"token": token_hash}).one_or_none()
        return None if row is None else SessionRecord(**row._mapping)


class SessionsWriter(Sessions):
    """Beginning and ending sessions."""

    __slots__ = ()

    def begin(self, record: SessionRecord) -> None:
        """Keep a new session."""
        self._connection.execute(_BEGIN, record._asdict())

    def keep_latest(self, key: str, most: int) -> None:
        """Forget the sessions of a key, except the newest ``most``."""
        self._connection.execute(_KEEP, {"of_key": key, "most": most})

    def see(self, token_hash: str, *, at_s: int) -> None:
        """Note that a session was used."""
        self._connection.execute(_SEEN, {"token": token_hash, "at": at_s})

    def end(self, token_hash: str) -> None:
        """Forget a session; where there is none nothing changes."""
        self._connection.execute(_END, {"token": token_hash})

    def sweep(self, *, began_before_s: int, seen_before_s: int) -> None:
        """Forget sessions that are over."""
        times = {"began_before": began_before_s, "seen_before": seen_before_s}
        self._connection.execute(_SWEEP, times)
