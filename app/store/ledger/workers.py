"""Workers: processes that draw releases, each known to be alive for as long as its lease.

Time is the database's own, so that the clocks of several machines need not agree.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, delete, insert, select, update
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from app.store.database import tables

_worker = tables.worker.c
# Far beyond any life of a server, and an integer with room for the time now.
_FOR_EVER_MS = 2**62


class NowMs(FunctionElement[int]):
    """The database's time in milliseconds since 1970."""

    inherit_cache = True
    type = BigInteger()


@compiles(NowMs, "sqlite")
def _now_on_sqlite(_element: NowMs, _compiler: Any, **_options: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


@compiles(NowMs, "postgresql")
def _now_on_postgresql(_element: NowMs, _compiler: Any, **_options: Any) -> str:
    # of the statement and not of the transaction, which may have waited for its turn
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"


LIVE_WORKERS = select(_worker.id).where(_worker.lease_until_ms > NowMs())
"""The ids of the workers whose lease has not ended."""

_OTHERS = delete(tables.worker).where(_worker.id != bindparam("of"))
_ENDED = delete(tables.worker).where(_worker.lease_until_ms <= NowMs())
_END = delete(tables.worker).where(_worker.id == bindparam("of"))
_BEAT = (
    update(tables.worker)
    .where(_worker.id == bindparam("of"))
    .values(lease_until_ms=NowMs() + bindparam("lease_ms"))
)
_BEGIN = insert(tables.worker).values(
    id=bindparam("of"), lease_until_ms=NowMs() + bindparam("lease_ms")
)


class WorkersWriter:
    """Leases, begun, kept up and ended."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def alone(self, worker: str) -> None:
        """Let this process be the only worker, for as long as it lives.

        For a database that one process at a time may write to: the others are
        gone, or this one would not be here.
        """
        self._connection.execute(_OTHERS, {"of": worker})
        self.beat(worker, lease_ms=_FOR_EVER_MS)

    def beat(self, worker: str, *, lease_ms: int) -> None:
        """Begin a worker's lease, or make it end this much later than now."""
        lease = {"of": worker, "lease_ms": lease_ms}
        # Rows of the dead, removed by any worker's heartbeat: none of them has an owner any more.
        self._connection.execute(_ENDED)
        if self._connection.execute(_BEAT, lease).rowcount == 0:
            self._connection.execute(_BEGIN, lease)

    def end(self, worker: str) -> None:
        """End a worker's lease: what it was drawing may be taken over at once."""
        self._connection.execute(_END, {"of": worker})
