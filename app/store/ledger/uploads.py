"""Uploads under way: each belongs to the server that takes it in, until it is registered or gone.

What an upload writes outside the database (staging, rows, digests) would be orphaned
after a crash. So it is written down here before, and struck out in the transaction that
registers it; what is left here of a dead server is to be removed.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from app.store.database import tables
from app.store.ledger.ids import now
from app.store.ledger.workers import LIVE_WORKERS

_upload = tables.upload.c

_LIST = select(_upload.dataset, _upload.worker).order_by(_upload.dataset)
_DEAD = _upload.worker.not_in(LIVE_WORKERS)
# In one statement: of two servers that find a dead one's upload, one gets it.
_TAKE_OVER = (
    update(tables.upload)
    .where(_upload.dataset == bindparam("of"), or_(_upload.worker == bindparam("by"), _DEAD))
    .values(worker=bindparam("by"))
)
_CLAIM = (
    update(tables.upload).where(_upload.dataset == bindparam("of")).values(worker=bindparam("by"))
)
_END = delete(tables.upload).where(
    _upload.dataset == bindparam("of"), _upload.worker == bindparam("by")
)


@dataclass(frozen=True, slots=True)
class UploadRecord:
    """An upload under way, by its data set's id, and the worker whose it is."""

    dataset: str
    worker: str


class Uploads:
    """Uploads under way."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def under_way(self) -> tuple[UploadRecord, ...]:
        """Return all of them, those of the dead too."""
        return tuple(UploadRecord(*row) for row in self._connection.execute(_LIST))

    def left(self, worker: str) -> tuple[UploadRecord, ...]:
        """Return those that are a worker's own, or a dead one's."""
        found = self._connection.execute(_LIST.where(or_(_upload.worker == worker, _DEAD)))
        return tuple(UploadRecord(*row) for row in found)


class UploadsWriter(Uploads):
    """Uploads begun, taken over and ended."""

    __slots__ = ()

    def begin(self, dataset: str, *, worker: str) -> None:
        """Write down that a worker takes an upload in."""
        values = {"dataset": dataset, "worker": worker, "begun_at": now()}
        self._connection.execute(insert(tables.upload), values)

    def take_over(self, dataset: str, *, worker: str) -> bool:
        """Make an upload this worker's if it was so, or a dead one's; False where it is neither."""
        return self._connection.execute(_TAKE_OVER, {"of": dataset, "by": worker}).rowcount == 1

    def claim(self, dataset: str, *, worker: str) -> bool:
        """Make an upload this worker's, whichever has it; False where it is struck out."""
        return self._connection.execute(_CLAIM, {"of": dataset, "by": worker}).rowcount == 1

    def end(self, dataset: str, *, worker: str) -> bool:
        """Strike an upload out; False where it is no longer this worker's."""
        return self._connection.execute(_END, {"of": dataset, "by": worker}).rowcount == 1
