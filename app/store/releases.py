"""Releases: each begins in the same transaction as its charge and keeps its answer's bytes."""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy import Connection, Row, Update, bindparam, insert, or_, select, update

from app.domain.problems import Problem
from app.domain.releases import ReleaseState, may_be_redrawn, plan_digest, request_fingerprint
from app.store import tables
from app.store.accounts import AccountsWriter
from app.store.ids import new_id, now
from app.store.records import ReleaseRecord
from app.store.workers import LIVE_WORKERS

_release, _entry = tables.release.c, tables.entry.c

_ENTRY_HASH = (
    select(_entry.hash)
    .where(_entry.account == _release.account, _entry.seq == _release.seq)
    .correlate(tables.release)
    .scalar_subquery()
    .label("entry_hash")
)
_SHOWN = (*_release, _ENTRY_HASH)

_GET = select(*_SHOWN).where(_release.id == bindparam("wanted"))
_BY_IDEM = (
    select(*_SHOWN)
    .join(tables.entry, _entry.release == _release.id)
    .where(_entry.principal == bindparam("by"), _entry.idem == bindparam("idem_key"))
)
_DEBITED = (
    select(*_SHOWN).where(_release.state == ReleaseState.DEBITED.value).order_by(_release.number)
)
_INSERT = insert(tables.release)


def _step_from(*states: ReleaseState) -> Update:
    """Return an update of one release that is in one of these states."""
    return update(tables.release).where(
        _release.id == bindparam("wanted"), _release.state.in_([*states])
    )


def _step_to(state: ReleaseState) -> Update:
    """Return the update that moves a release forward to a final state."""
    before = [earlier for earlier in ReleaseState if earlier.may_become(state)]
    return _step_from(*before).values(state=state.value, finished_at=bindparam("at"))


_FINISH = _step_to(ReleaseState.RELEASED).values(
    result=bindparam("new_result"), result_hash=bindparam("new_hash")
)
_VOID = _step_to(ReleaseState.VOID)
_TO_DRAW = (
    select(*_SHOWN)
    .where(
        _release.state == ReleaseState.DEBITED.value,
        or_(_release.worker.is_(None), _release.worker.not_in(LIVE_WORKERS)),
    )
    .order_by(_release.number)
    .limit(1)
)
_TAKE = _step_from(ReleaseState.DEBITED).values(
    worker=bindparam("by"), attempts=_release.attempts + bindparam("deaths")
)
_HAND_BACK = (
    _step_from(ReleaseState.DEBITED).where(_release.worker == bindparam("by")).values(worker=None)
)
_ATTEMPT = _step_from(ReleaseState.DEBITED).values(attempts=_release.attempts + 1)


class Releases:
    """Releases with their requests, plans and results."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, release: str) -> ReleaseRecord | None:
        """Return the release, or None."""
        return _record(self._connection.execute(_GET, {"wanted": release}).one_or_none())

    def find_by_idem(self, principal: str, idem: str) -> ReleaseRecord | None:
        """Return the release this person asked for under this Idempotency-Key, or None."""
        found = self._connection.execute(_BY_IDEM, {"by": principal, "idem_key": idem})
        return _record(found.one_or_none())

    def list(
        self,
        *,
        principal: str | None = None,
        dataset: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> tuple[ReleaseRecord, ...]:
        """Return releases, newest first, whose number is below ``before``."""
        query = select(*_SHOWN).order_by(_release.number.desc()).limit(limit)
        if principal is not None:
            query = query.where(_release.principal == principal)
        if dataset is not None:
            query = query.where(_release.dataset == dataset)
        if before is not None:
            query = query.where(_release.number < before)
        return tuple(_present(row) for row in self._connection.execute(query))

    def to_draw(self) -> ReleaseRecord | None:
        """Return the oldest charged release that nobody draws: queued, or left by the dead."""
        return _record(self._connection.execute(_TO_DRAW).one_or_none())

    def debited(self) -> tuple[ReleaseRecord, ...]:
        """Return the releases that are charged and have no result yet, oldest first."""
        return tuple(_present(row) for row in self._connection.execute(_DEBITED))


class ReleasesWriter(Releases):
    """Charging, finishing and voiding releases."""

    __slots__ = ("_accounts",)

    def __init__(self, connection: Connection, accounts: AccountsWriter) -> None:
        super().__init__(connection)
        self._accounts = accounts

    def debit(
        self,
        *,
        account: str,
        amount: int,
        dataset: str,
        principal: str,
        request: str,
        plan: str,
        idem: str,
        worker: str | None = None,
    ) -> ReleaseRecord:
        """Charge the account and make the release, state ``debited``, first attempt.

        ``request`` is the canonical JSON text of the request and ``plan`` that
        of its public plan. ``worker`` is who will draw it; without one it
        waits in the queue. Look the Idempotency-Key up first, in the same
        write: using one twice violates a constraint here.

        Raises
        ------
        Problem
            ``not-found``; ``budget-exceeded`` with nothing written.
        """
        release = new_id("rel")
        fingerprint = request_fingerprint(dataset=dataset, request=request)
        entry = self._accounts.debit(
            account,
            amount,
            principal=principal,
            release=release,
            idem=idem,
            fingerprint=fingerprint,
            note=plan_digest(plan),
        )
        values: dict[str, Any] = {
            "id": release,
            "account": account,
            "seq": entry.seq,
            "dataset": dataset,
            "principal": principal,
            "state": ReleaseState.DEBITED.value,
            "attempts": 1,
            "request": request,
            "plan": plan,
            "fingerprint": fingerprint,
            "result": None,
            "result_hash": None,
            "created_at": entry.at,
            "finished_at": None,
            "worker": worker,
        }
        inserted = self._connection.execute(_INSERT, values)
        (number,) = inserted.inserted_primary_key or (0,)
        values["state"] = ReleaseState.DEBITED
        return ReleaseRecord(number=number, entry_hash=entry.hash, **values)

    def finish(self, release: str, result: bytes) -> ReleaseRecord:
        """Store the answer's bytes; the release is ``released`` and never changes again.

        Raises
        ------
        Problem
            ``release-void`` when it is no longer waiting for a result.
        """
        return self._step(
            release,
            _FINISH,
            new_result=result,
            new_hash=hashlib.sha256(result).hexdigest(),
            at=now(),
        )

    def void(self, release: str) -> ReleaseRecord:
        """Give the release up; its charge stays.

        Raises
        ------
        Problem
            ``release-void`` when it is no longer waiting for a result.
        """
        return self._step(release, _VOID, at=now())

    def claim(self, worker: str) -> ReleaseRecord | None:
        """Give a worker the oldest release that nobody draws; None when there is none.

        One from the queue is in its first attempt. One that a dead process
        left behind is counted another, or is void when it has none left: a
        record that comes back ``void`` is not to be drawn.
        """
        found = self.to_draw()
        if found is None:
            return None
        if found.worker is None:
            return self._step(found.id, _TAKE, by=worker, deaths=0)
        if not may_be_redrawn(found.attempts):
            return self.void(found.id)
        return self._step(found.id, _TAKE, by=worker, deaths=1)

    def hand_back(self, release: str, *, worker: str) -> None:
        """Put a release whose draw its own worker has stopped into the queue again.

        No attempt is counted: those are for draws that a process died of.
        """
        self._connection.execute(_HAND_BACK, {"wanted": release, "by": worker})

    def begin_attempt(self, release: str) -> ReleaseRecord:
        """Count one more attempt at drawing a release that a dead process left behind."""
        return self._step(release, _ATTEMPT)

    def _step(self, release: str, statement: Update, **values: object) -> ReleaseRecord:
        stepped = self._connection.execute(statement, {"wanted": release, **values})
        found = self.get(release)
        if stepped.rowcount != 1 or found is None:
            raise Problem("release-void")
        return found


def _record(row: Row[Any] | None) -> ReleaseRecord | None:
    return None if row is None else _present(row)


def _present(row: Row[Any]) -> ReleaseRecord:
    return ReleaseRecord(**{**row._mapping, "state": ReleaseState(row.state)})
