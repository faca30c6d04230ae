"""Time stamps of checkpoints, by an authority outside: when each was there at the latest.

They are made after their checkpoint, in the order of sizes. Where the log is older than the wish
for stamps, the newest checkpoint is the first to get one.
"""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, func, insert, select, text

from app.store.database import tables

_stamp = tables.log_stamp.c
_DUE = text(
    "SELECT size, note FROM log_checkpoint WHERE size > coalesce("
    "(SELECT max(size) FROM log_stamp), (SELECT max(size) - 1 FROM log_checkpoint))"
    " ORDER BY size LIMIT 1"
)
_OF_SIZE = select(_stamp.stamp).where(_stamp.size == bindparam("of"))
_LARGEST = select(func.max(_stamp.size))


class Stamps:
    """Stamps as they are stored."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def due(self) -> tuple[int, str] | None:
        """Return the size and the note of the checkpoint to be stamped next, if there is one."""
        row = self._connection.execute(_DUE).one_or_none()
        return None if row is None else (row.size, row.note)

    def of(self, size: int) -> bytes | None:
        """Return the stamp of the checkpoint of a size."""
        return self._connection.execute(_OF_SIZE, {"of": size}).scalar_one_or_none()

    def newest(self) -> int | None:
        """Return the largest size that has a stamp."""
        found: int | None = self._connection.execute(_LARGEST).scalar_one()
        return found


class StampsWriter(Stamps):
    """Keeps stamps."""

    __slots__ = ()

    def add(self, size: int, stamp: bytes) -> None:
        """Keep a stamp, unless another process has come as far meanwhile."""
        if size > (self.newest() or 0):
            self._connection.execute(insert(tables.log_stamp), {"size": size, "stamp": stamp})
