"""Uploads that were refused because they overlap earlier data: written down, and few a day.

Such a refusal tells that some rows are in data that somebody else may have uploaded.
So the system account has an entry of each: who was told of which data set. A person
is told of others' data only so often in 24 hours; then no upload of theirs is taken
in, whatever is in it, so that the limit tells nothing either. Refusals by what one has
uploaded oneself are written down and not counted.
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
        How often a person is told in 24 hours of what others have uploaded.
    """

    def __init__(self, *, most_per_day: int) -> None:
        self._most = most_per_day

    def require_left(self, reader: Reader | UnitOfWork, person: str) -> None:
        """Pass for somebody who may be told of another overlap.

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
        """Write down that a person is about to be told of an overlap.

        Raises
        ------
        Problem
            ``too-many-overlaps``, and then it is not told.
        """
        if not comparison.own:
            self.require_left(work, caller.person)
        accounts = work.by(caller.acting).accounts
        accounts.system_entry(KIND, principal=caller.person, note=comparison.found)


def _told(reader: Reader | UnitOfWork, person: str, *, since: datetime) -> Iterator[datetime]:
    """Yield when a person was told of what others have uploaded."""
    for entry in reader.entries.of_system(KIND):
        at = datetime.fromisoformat(entry.at)
        if entry.principal == person and at > since:
            dataset = reader.datasets.get(entry.note or "")
            if dataset is None or dataset.created_by != person:
                yield at
