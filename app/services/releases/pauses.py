"""Pausing people and data sets, for an operator who must stop a flood without losing anything.

While somebody is paused nothing is charged for them. Jobs that are charged already wait in
the queue, and are drawn once they are resumed: a charge is never given back. What waits for
a review has not been charged, so it may be cancelled during the pause.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from app.domain.problems import invalid_request
from app.domain.releases import ReleaseState
from app.services.people.keys import Caller
from app.services.people.names import known_person
from app.services.releases.jobs import JobRunner
from app.store import Store, UnitOfWork
from app.store.ledger.pauses import Paused
from app.store.ledger.records import PauseRecord

__all__ = ["PauseRecord", "PauseService", "Paused"]

_AT_ONCE = 50  # in one transaction, which keeps everybody else from writing


class PauseService:
    """Pausing, resuming and listing, for callers who may."""

    def __init__(self, store: Store, jobs: JobRunner) -> None:
        self._store = store
        self._jobs = jobs

    async def pause(
        self, what: Paused, name: str, *, reason: str, cancel_waiting: bool, caller: Caller
    ) -> tuple[PauseRecord, int]:
        """Pause a person or a data set; return the pause, and how many releases were cancelled.

        ``cancel_waiting``: all of theirs that wait for a review are rejected, with the reason.

        Raises
        ------
        Problem
            ``invalid-request`` where no person or data set has the name.
        """

        def write(work: UnitOfWork) -> PauseRecord:
            known = _known(work, what, name)
            return work.by(caller.acting, urgent=True).pauses.pause(
                what, known, principal=caller.person, reason=reason
            )

        record = await self._store.awrite(write)
        cancelled = 0
        # A few at a time: one transaction for all would hold up everybody's charges.
        while cancel_waiting:
            cancel = partial(_cancel, record=record, caller=caller, reason=reason)
            ended = await self._store.awrite(cancel)
            cancelled += ended
            cancel_waiting = ended == _AT_ONCE
        return record, cancelled

    async def resume(self, what: Paused, name: str, *, reason: str, caller: Caller) -> None:
        """End a pause: jobs that have waited are drawn, in turn. Once more changes nothing.

        Raises
        ------
        Problem
            As :meth:`pause`.
        """

        def write(work: UnitOfWork) -> None:
            known = _known(work, what, name)
            work.by(caller.acting).pauses.resume(
                what, known, principal=caller.person, reason=reason
            )

        await self._store.awrite(write)
        self._jobs.wake()

    def list(self, *, after: int | None, limit: int) -> Sequence[PauseRecord]:
        """Return what is paused, oldest first."""
        with self._store.reading() as reader:
            return reader.pauses.list(after=after or 0, limit=limit)


def _known(work: UnitOfWork, what: Paused, name: str) -> str:
    """Return the name of a person as it is spelled, or the id of a data set."""
    if what is Paused.PERSON:
        known = known_person(work.keys, name)
    else:
        known = None if work.datasets.get(name) is None else name
    if known is None:
        raise invalid_request("name", f"is no {_NOUN[what]}")
    return known


_NOUN = {Paused.PERSON: "person who has had a key", Paused.DATASET: "data set's id"}


def _cancel(work: UnitOfWork, *, record: PauseRecord, caller: Caller, reason: str) -> int:
    """Reject some of what waits for a review; return how many that were."""
    waiting = (
        work.reviews.waiting_of(record.name)
        if record.what == Paused.PERSON.value
        else work.reviews.waiting_for(record.name)
    )[:_AT_ONCE]
    for release in waiting:
        work.by(caller.acting).reviews.unreserve(
            release, ReleaseState.REJECTED, principal=caller.person, reason=reason
        )
    return len(waiting)
