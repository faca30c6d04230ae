"""The queue: jobs that wait for a lane or occupy one, and whose turn it is.

People take turns: next is who has been served least lately, then of that person's data
sets the one served least lately, then the oldest release on it. So a person who asks for many
jobs makes no other person wait for more than one of them. What is paused waits. Turns are
counted where releases are claimed, in the claim's transaction, so all workers take part in
one order.

A job is in the queue from its charge until the lane that drew it is free again, which is
a public moment; when its draw ended is not. The number that a person has there may therefore be
shown, and has a bound. What was being drawn by a worker that has died counts no longer.

*Workers: processes that draw releases, each known to be alive for as long as its lease.* Time is
the database's own, so that the clocks of several machines need not agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.store.database import tables
from app.store.ledger.entries import insert_of
from app.store.ledger.pauses import is_paused

# Workers: processes that draw releases, each known to be alive for as long as its lease

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


# The queue: jobs that wait for a lane or occupy one, and whose turn it is

LIMIT = "max_unfinished_jobs"
"""The setting that bounds how many jobs a person may have in the queue."""

# More seconds than any deadline has: no limit, as a number that both databases take.
_AT_MOST_S = 2**31
_RETRY_AFTER_S = 10

_release, _job, _turn = tables.release.c, tables.job.c, tables.turn.c
_OWN = tables.turn.alias("own")
_THEIRS = (
    select(_turn.person, func.max(_turn.number).label("number"))
    .group_by(_turn.person)
    .subquery("theirs")
)
_IS_CHARGED: ColumnElement[bool] = _release.state == bindparam(
    "debited", ReleaseState.DEBITED, literal_execute=True
)
_IS_LEFT = or_(_release.worker.is_(None), _release.worker.not_in(LIVE_WORKERS))
_NEXT = (
    select(_release.id)
    .outerjoin(tables.job, _job.number == _release.number)
    .outerjoin(_OWN, (_OWN.c.person == _release.principal) & (_OWN.c.dataset == _release.dataset))
    .outerjoin(_THEIRS, _THEIRS.c.person == _release.principal)
    .where(
        _IS_CHARGED,
        _IS_LEFT,
        func.coalesce(_job.deadline_s, 0) <= bindparam("longest_s"),
        _release.principal.not_in(bindparam("without", expanding=True)),
        ~is_paused(),
    )
    # Who was never served comes first, as turn 0.
    .order_by(func.coalesce(_THEIRS.c.number, 0), func.coalesce(_OWN.c.number, 0), _release.number)
    .limit(1)
)
ENTER = insert_of("job", ("number", "deadline_s"))
"""Puts jobs into the queue: the numbers of releases, and their deadlines in seconds."""

_NEXT_TURN = select(func.coalesce(func.max(_turn.number), 0) + 1).scalar_subquery()
_AGAIN = (
    update(tables.turn)
    .where(_turn.person == bindparam("by"), _turn.dataset == bindparam("of"))
    .values(number=_NEXT_TURN)
)
_FIRST = insert(tables.turn).values(
    person=bindparam("by"), dataset=bindparam("of"), number=_NEXT_TURN
)
_OF_RELEASE = select(_release.number).where(
    _release.id == bindparam("wanted"), ~_IS_CHARGED, _release.number == _job.number
)
_LEAVE = delete(tables.job).where(_OF_RELEASE.exists())
_OVER = delete(tables.job).where(
    select(_release.number).where(_release.number == _job.number, ~_IS_CHARGED, _IS_LEFT).exists()
)
_UNFINISHED = (
    select(_release.principal, func.count().label("jobs"))
    .join(tables.job, _job.number == _release.number)
    .where(
        _release.principal.in_(bindparam("people", expanding=True)),
        or_(_IS_CHARGED, _release.worker.in_(LIVE_WORKERS)),
    )
    .group_by(_release.principal)
)


def next_to_draw(
    connection: Connection, *, longest_s: int | None = None, without: Collection[str] = ()
) -> str | None:
    """Return the charged release whose turn it is of those no process draws, or None.

    They are the queue, and what the dead have left. ``longest_s``: only jobs with a public
    deadline of at most this many seconds. ``without``: nothing that these people asked for.
    """
    longest_s = _AT_MOST_S if longest_s is None else longest_s
    wanted = {"longest_s": longest_s, "without": [*without]}
    found: str | None = connection.execute(_NEXT, wanted).scalar_one_or_none()
    return found


def take_turn(connection: Connection, *, person: str, dataset: str) -> None:
    """Count a turn of a person and a data set; clear away jobs whose workers have died."""
    connection.execute(_OVER)
    served = {"by": person, "of": dataset}
    # Most people have had a turn before: an insert is the exception.
    if connection.execute(_AGAIN, served).rowcount == 0:
        connection.execute(_FIRST, served)


def leave(connection: Connection, release: str) -> None:
    """Take a job out of the queue if it is final: its lane is free again."""
    connection.execute(_LEAVE, {"wanted": release})


class Places:
    """How many jobs some people have in the queue, while a transaction charges them."""

    __slots__ = ("_taken",)

    def __init__(self, connection: Connection, people: Collection[str]) -> None:
        rows = connection.execute(_UNFINISHED, {"people": [*people]}) if people else ()
        self._taken = Counter({row.principal: row.jobs for row in rows})

    def check(self, person: str, most: int) -> None:
        """Pass for a person who may queue one more job.

        Raises
        ------
        Problem
            ``too-many-jobs``.
        """
        if self._taken[person] >= most:
            raise Problem(
                "too-many-jobs",
                f"You have {most} unfinished jobs, and may have no more. Nothing was charged.",
                limit=LIMIT,
                maximum=most,
                retry_after=_RETRY_AFTER_S,
            )

    def take(self, person: str) -> None:
        """Count a job of a person."""
        self._taken[person] += 1
