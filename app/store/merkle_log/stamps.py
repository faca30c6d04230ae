"""Time stamps of checkpoints, by an authority outside: when each was there at the latest.

They are made after their checkpoint, in the order of sizes. Where the log is older than the request
for stamps, the newest checkpoint is the first to get one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, insert, select, text

from app.domain.ledger import SYSTEM_ACCOUNT
from app.store.database import tables
from app.store.merkle_log.parts import CHECKPOINT

_PAGE = 64
_stamp, _checkpoint, _entry = tables.log_stamp.c, tables.log_checkpoint.c, tables.entry.c
_DUE = text(
    "SELECT size, note FROM log_checkpoint WHERE size > coalesce("
    "(SELECT max(size) FROM log_stamp), (SELECT max(size) - 1 FROM log_checkpoint))"
    " ORDER BY size LIMIT 1"
)
_OF_SIZE = select(_stamp.stamp).where(_stamp.size == bindparam("of"))
_LARGEST = select(func.max(_stamp.size))
_KEPT = (
    select(_stamp.size, _stamp.stamp, _checkpoint.note)
    .select_from(tables.log_stamp.outerjoin(tables.log_checkpoint, _stamp.size == _checkpoint.size))
    .order_by(_stamp.size)
    .execution_options(yield_per=_PAGE)
)
_SIGNED = select(_entry.note, _entry.at).where(
    _entry.account == SYSTEM_ACCOUNT, _entry.kind == CHECKPOINT
)
_LEFT_OUT = text(
    "SELECT c.size FROM log_checkpoint AS c LEFT JOIN log_stamp AS s ON s.size = c.size"
    " WHERE s.size IS NULL AND c.size > (SELECT min(size) FROM log_stamp)"
    " AND c.size < (SELECT max(size) FROM log_stamp) ORDER BY c.size LIMIT :most"
)
_WAITING = text(
    "SELECT count(*) FROM log_checkpoint WHERE size > (SELECT max(size) FROM log_stamp)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptStamp:
    """A stamp as it is stored, and the checkpoint of its size.

    ``note`` is that checkpoint and ``signed_at`` when the chain says that it was signed; None
    where there is none.
    """

    size: int
    stamp: bytes
    note: str | None
    signed_at: str | None


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

    def kept(self) -> Iterator[KeptStamp]:
        """Yield every stamp, in the order of sizes."""
        signed = {row.note: row.at for row in self._connection.execute(_SIGNED)}
        for row in self._connection.execute(_KEPT):
            yield KeptStamp(
                size=row.size,
                stamp=row.stamp,
                note=row.note,
                signed_at=signed.get(str(row.size)),
            )

    def left_out(self, most: int) -> list[int]:
        """Return the first sizes between stamped ones that have none: there should be none."""
        return [*self._connection.execute(_LEFT_OUT, {"most": most}).scalars()]

    def waiting(self) -> int:
        """Return how many checkpoints are larger than the last one stamped."""
        found: int = self._connection.execute(_WAITING).scalar_one()
        return found


class StampsWriter(Stamps):
    """Keeps stamps."""

    __slots__ = ()

    def add(self, size: int, stamp: bytes) -> None:
        """Store a stamp, unless another process has stamped as much."""
        if size > (self.newest() or 0):
            self._connection.execute(insert(tables.log_stamp), {"size": size, "stamp": stamp})
