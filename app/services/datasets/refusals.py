"""Uploads that were refused because they overlap earlier data: written down, and few a day.

Such a refusal reveals that some rows are in data that another person may have uploaded.
So the system account has an entry of each: which person learned of which data set. A person
may learn of others' data only a few times in 24 hours. After that every upload of theirs is
refused, whatever is in it, so that the limit reveals nothing either. Refusals by what one has
uploaded oneself are recorded and not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from app.domain.problems import Problem
from app.services.datasets.lineage import Comparison
from app.services.people.keys import Caller
from app.store import Reader, UnitOfWork

KIND = "overlap_refused"
_DAY = timedelta(days=1)


class OverlapRefusals:
    """Writes refusals down, and knows when a person has had as many as may be.

    Parameters
    ----------
    most_per_day
        How often in 24 hours a person may learn of what others have uploaded.
    """

    def __init__(self, *, most_per_day: int) -> None:
        self._most = most_per_day

    def require_left(self, reader: Reader | UnitOfWork, person: str) -> None:
        """Pass for a person who may learn of another overlap.

        Raises
        ------
        Problem
            ``too-many-overlaps``.
        """
        now = datetime.now(UTC)
        times = sorted(_told(reader, person, since=now - _DAY))
        if len(times) >= self._most:
            # Once that one is a day old, one fewer than the limit is left.
            wait_s = (times[-self._most] + _DAY - now).total_seconds()
            raise Problem(
                "too-many-overlaps",
                maximum=self._most,
                retry_after=max(1, int(wait_s) + 1),
            )

    def record(self, work: UnitOfWork, *, caller: Caller, comparison: Comparison) -> None:
        """Record that a person is about to learn of an overlap.

        Raises
        ------
        Problem
            ``too-many-overlaps``, and then it is not shown.
        """
        if not comparison.own:
            self.require_left(work, caller.person)
        accounts = work.by(caller.acting).accounts
        accounts.system_entry(KIND, principal=caller.person, note=comparison.found)


def _told(reader: Reader | UnitOfWork, person: str, *, since: datetime) -> Iterator[datetime]:
    """Yield the times when a person learned of what others have uploaded."""
    for entry in reader.entries.of_system(KIND):
        at = datetime.fromisoformat(entry.at)
        if entry.principal == person and at > since:
            dataset = reader.datasets.get(entry.note or "")
            if dataset is None or dataset.created_by != person:
                yield at
