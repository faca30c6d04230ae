"""Who has seen results that are not public: noted once for each person, release, way and day.

Notes are gathered and written every few seconds in one transaction, so that reading costs nothing.
A server that is killed may lose those of its last seconds. Views of public releases are not
recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Literal

import anyio
import anyio.to_thread

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.logs import describe
from app.services.people.keys import Caller
from app.store import ReleaseRecord, Store, UnitOfWork
from app.store.ledger.ids import now
from app.store.ledger.reviewing.sights import Sight, SightRecord

__all__ = ["SightRecord", "SightService"]

_LOG = logging.getLogger(__name__)
How = Literal["read", "listed", "derived", "downloaded"]
"""In which way a result is seen."""

WRITE_EVERY_S = 2.0
_MOST_REMEMBERED = 10_000  # what is forgotten is noted again, and the database keeps one of a day


class SightService:
    """Notes who sees results, and lists it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[tuple[str, str, str, str], None] = {}
        self._unwritten: list[Sight] = []

    def note(self, records: Iterable[ReleaseRecord], how: How, *, caller: Caller) -> None:
        """Note that somebody sees the results that some releases have."""
        for record in records:
            if record.state is ReleaseState.RELEASED:
                self.note_id(record.id, how, caller=caller)

    def note_id(self, release: str, how: How, *, caller: Caller) -> None:
        """Note that somebody sees the result of a release that has one."""
        at = now()
        known = release, caller.person, how, at[:10]
        if known in self._seen:
            return
        if len(self._seen) >= _MOST_REMEMBERED:
            self._seen.clear()
        self._seen[known] = None
        self._unwritten.append(
            Sight(release=release, person=caller.person, how=how, key=caller.key, at=at)
        )

    async def write(self) -> None:
        """Write down what has been noted; what cannot be written now is, the next time."""
        taken, self._unwritten = self._unwritten, []
        if not taken:
            return

        def write(work: UnitOfWork) -> None:
            public = work.publications.public({each.release for each in taken})
            work.sights.note([each for each in taken if each.release not in public])

        try:
            await self._store.awrite(write)
        except BaseException:
            # Also of a task that is cancelled: a sight is forgotten by a crash alone.
            self._unwritten = taken + self._unwritten
            raise

    async def list(
        self, *, before: int | None, limit: int, release: str | None
    ) -> Sequence[SightRecord]:
        """Return who has seen what, newest first."""
        await self.write()

        def read() -> Sequence[SightRecord]:
            with self._store.reading() as reader:
                return reader.sights.list(before=before, limit=limit, release=release)

        return await anyio.to_thread.run_sync(read)

    async def keep_writing(self) -> None:
        """Write down what has been noted, while somebody serves."""
        while True:
            await self.try_writing()
            await anyio.sleep(WRITE_EVERY_S)

    async def try_writing(self) -> None:
        """Write down what has been noted, if that can be done now."""
        try:
            await self.write()
        except Problem as problem:  # busy, or frozen
            _LOG.info("sights not written yet", extra={"code": problem.code})
        except Exception as error:
            _LOG.error("sights not written yet", extra=describe(error))
