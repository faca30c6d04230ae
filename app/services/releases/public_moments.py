"""When an outcome becomes public: at a moment of its release's schedule, which is public too.

Without this, a client that polls a release would learn when its
draw ended. So a release that is final in the ledger is answered as running until
the first moment of its schedule that is not before its end.

*The CSV file of a release: a number a row, with its key in columns of its own.* Its rows are those
that pages and the Python client show (:mod:`app.tidy`).

Whether this machine's clock may date entries: it must not be behind the ledger's last entry.

A clock that was set back would date releases, entries and citations before what came before them,
and keep grants that are over. So nothing is charged while the clock is behind, what people do is
refused, and draws wait. Two acts cannot wait: revoking a key and pausing. Servers of one ledger and
corrections of a clock may differ by a little: so much is allowed.

The ledger's writer asks :meth:`LedgerClock.require_now` of everything that a person does, so no act
is forgotten. Acts that calculate for long before they write ask first.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio.to_thread

from app.domain.problems import Problem
from app.domain.releases import UNDECIDED, ReleaseState
from app.domain.units import Schedule, response_schedule
from app.services.plans.answers import LONGEST_DEADLINE_S, SHORTEST_DEADLINE_S, Job
from app.store import ReleaseRecord, Store
from app.tidy.names import NO_LABELS, Grouping, Labels, grouping, said_of, where
from app.tidy.pivots import csv_text
from app.tidy.rows import Row, rows_of
from mechanisms.words import worded

# The CSV file of a release: a number a row, with its key in columns of its own

MEASURES = (
    "estimate", "noise_std", "noise_low", "noise_high", "std_error", "confidence_low",
    "confidence_high", "epsilon", "note",
)  # fmt: skip
NUMBERS = frozenset(MEASURES) - {"epsilon", "note"}
"""The columns that hold numbers, or texts where those are dates or moments."""
_FIRST = ("statistic", "term")
_PART, _WHERE = "part", "where"
_TAKEN = frozenset({_PART, _WHERE, *_FIRST, *MEASURES})
_MISSING = (None, None)


def csv_columns(rows: Sequence[Row], labels: Labels = NO_LABELS) -> tuple[str, ...]:
    """Return the header: the parts of a number's key, then what is known of it."""
    return (*_of_parts(rows), *_FIRST, *_groups(rows, labels).names, *MEASURES)


def tidy_csv(answer: Mapping[str, Any]) -> str:
    """Return the numbers of a released answer as a CSV file with a line of names."""
    rows, labels = rows_of(answer), answer.get("labels", NO_LABELS)
    parts, groups = _of_parts(rows), _groups(rows, labels)
    said = said_of(answer)
    return csv_text(
        csv_columns(rows, labels),
        (
            (
                *(row.key.part if each == _PART else where(row.key) or None for each in parts),
                row.statistic,
                row.term,
                *map(groups.cells(row.key).get, groups.names),
                row.estimate,
                row.noise_std,
                *(row.noise or _MISSING),
                row.std_error,
                *(row.confidence or _MISSING),
                answer["epsilon"],
                " ".join(filter(None, (row.remark, *said))) or None,
            )
            for row in rows
        ),
    )


def _groups(rows: Sequence[Row], labels: Labels) -> Grouping:
    return grouping([row.key for row in rows], _TAKEN, labels)


def _of_parts(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the columns that say which part of a stack a number is of, where there are parts."""
    found = (_PART,) if any(row.key.part is not None for row in rows) else ()
    return (*found, _WHERE) if any(row.key.where for row in rows) else found


# When an outcome becomes public: at a moment of its release's schedule, which is public too

_LONGEST_MS = 1000 * LONGEST_DEADLINE_S
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_REVIEW_S = 60
_SCHEDULED = (ReleaseState.DEBITED, ReleaseState.RELEASED, ReleaseState.VOID)


class PublicMoments:
    """Says when outcomes become public; with a slot of 0, as soon as they are final."""

    def __init__(self, slot_ms: int) -> None:
        self._slot_ms = slot_ms

    def public_from_ms(self, record: ReleaseRecord) -> int:
        """Return the moment from which a release's outcome is public, in ms since 1970.

        Of one that has none yet, the next moment at which it may have one.
        """
        ended_ms = _ms(record.finished_at) if record.finished_at is not None else now_ms() + 1
        if self._slot_ms == 0:
            return ended_ms
        return self._schedule(record).first_from(ended_ms)

    def publicly(self, record: ReleaseRecord) -> ReleaseRecord:
        """Return a release as the public may see it now, its result read or not.

        The work is the same for one that has not ended and one that has, but too
        lately: how long it takes must not distinguish them.
        """
        if self._slot_ms == 0 or record.state not in _SCHEDULED:
            return record
        now, charged_ms = now_ms(), _ms(record.charged_at)
        ended_ms = _ms(record.finished_at or record.charged_at)
        if record.finished_at is None:
            ended_ms = now + 1
        # after that long it is past its moment, whatever its schedule is
        if now > charged_ms + 2 * max(ended_ms - charged_ms, _LONGEST_MS):
            return record
        if self._schedule(record).first_from(ended_ms) <= now:
            return record
        return record._replace(
            state=ReleaseState.DEBITED, result=None, result_hash=None, finished_at=None
        )

    def lane_taken_ms(self, record: ReleaseRecord) -> int:
        """Return for how long a release takes the lane that it is drawn in, in milliseconds.

        Its deadline counted from there, or a doubling of that; with a slot of 0, 0.
        """
        if self._slot_ms == 0:
            return 0
        return 1000 * _deadline_s(record)

    def late_ms(self, record: ReleaseRecord) -> int:
        """Return after how long a draw is late, in milliseconds: twice its deadline."""
        return 2 * 1000 * _deadline_s(record)

    def retry_after_s(self, record: ReleaseRecord) -> int:
        """Return in how many seconds it is worth asking for an unfinished release again."""
        if record.state in UNDECIDED:
            return _REVIEW_S
        return max(1, -(-(self.public_from_ms(record) - now_ms()) // 1000))

    def waited_s(self, record: ReleaseRecord) -> int:
        """Return how many seconds ago a release was charged: progress towards a public moment."""
        return max(0, now_ms() - _ms(record.charged_at)) // 1000

    def _schedule(self, record: ReleaseRecord) -> Schedule:
        charged_ms = _ms(record.charged_at)
        job = job_of_record(record)
        if job is None:
            return response_schedule(arrived_ms=charged_ms, slot_ms=self._slot_ms)
        return Schedule(charged_ms, 1000 * job.deadline_s)


def job_of_record(record: ReleaseRecord) -> Job | None:
    """Return the job that a stored release was made as, or None."""
    job = json.loads(record.plan).get("job")
    return None if job is None else Job.of_json(job)


def _deadline_s(record: ReleaseRecord) -> int:
    job = job_of_record(record)
    return SHORTEST_DEADLINE_S if job is None else job.deadline_s


def _ms(moment: str) -> int:
    """Return a time of the ledger in whole milliseconds, rounded up."""
    # Rounded up, like the time now: an outcome is never a millisecond early.
    return -((_EPOCH - datetime.fromisoformat(moment)) // _MILLISECOND)


def now_ms() -> int:
    """Return the time, rounded up: with a time rounded down a slot would not be full."""
    return -(-time.time_ns() // 10**6)


# Whether this machine's clock may date entries: it must not be behind the ledger's last entry


_DAY_S = 86_400


class LedgerClock:
    """Compares the clock with the ledger.

    Parameters
    ----------
    store
        The ledger.
    most_behind_s
        How far the clock may be behind the ledger's last entry, in seconds.
    clock
        Seconds since 1970.
    """

    def __init__(
        self, store: Store, *, most_behind_s: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._most_behind_s = most_behind_s
        self._clock = clock
        # No entry of this process is later than the last time at which one was allowed.
        self._latest_s = math.inf

    async def require(self) -> None:
        """Pass while entries may be dated; it costs a look at the clock.

        Raises
        ------
        Problem
            ``clock-behind``.
        """
        if self._may_be_behind():
            await anyio.to_thread.run_sync(self.check)

    def require_now(self) -> None:
        """Do what :meth:`require` does, in this thread.

        Raises
        ------
        Problem
            ``clock-behind``.
        """
        if self._may_be_behind():
            self.check()

    async def is_behind(self) -> bool:
        """Return whether draws have to wait until the clock is right."""
        try:
            await self.require()
        except Problem:
            return True
        return False

    def _may_be_behind(self) -> bool:
        """Return whether the ledger is to be asked."""
        now_s = self._clock()
        # Infinite at first: then the ledger is asked.
        self._latest_s = max(now_s, self._latest_s)
        return now_s < self._latest_s - self._most_behind_s

    def check(self) -> None:
        """Compare with the ledger as it is now.

        Raises
        ------
        Problem
            ``clock-behind``.
        """
        with self._store.reading() as reader:
            newest = reader.entries.newest_at()
        self._latest_s = datetime.fromisoformat(newest).timestamp()
        behind_s = self._latest_s - self._clock()
        if behind_s > self._most_behind_s:
            raise Problem(
                "clock-behind",
                _behind(behind_s),
            )


def _behind(seconds: float) -> str:
    """Return how far the clock is behind, in words.

    >>> _behind(86_400)
    "The clock of this server is a day behind the ledger's last entry."
    >>> _behind(601)
    "The clock of this server is 10 minutes behind the ledger's last entry."
    """
    days, minutes = int(seconds // _DAY_S), int(seconds // 60)
    if days == 1:
        return worded("The clock of this server is a day behind the ledger's last entry.")
    if days:
        return worded(
            "The clock of this server is %(count)s days behind the ledger's last entry.", count=days
        )
    return worded(
        "The clock of this server is %(count)s minutes behind the ledger's last entry.",
        count=minutes,
    )
