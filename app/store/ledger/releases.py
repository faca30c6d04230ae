"""Releases: each begins in the same transaction as its charge and keeps its answer's bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, Update, bindparam, func, select, update

from app.domain.merkle import result_leaves
from app.domain.problems import Problem
from app.domain.releases import (
    TRANSITIONS,
    ReleaseState,
    may_be_redrawn,
    result_digests,
)
from app.store.database import tables
from app.store.errors import SomeRefusedError
from app.store.kept_writes import Writes
from app.store.ledger import jobs
from app.store.ledger.accounts import AccountsWriter
from app.store.ledger.entries import SYSTEM
from app.store.ledger.ids import now
from app.store.ledger.multi_row import change_rows, insert_of
from app.store.ledger.records import ReleaseRecord
from app.store.ledger.release_queries import Releases

ENDED_AS: Mapping[ReleaseState, str] = {
    state: f"release_{state}"
    for state in ReleaseState
    if not TRANSITIONS[state] and state is not ReleaseState.RELEASED
}
"""The kind of the system entry that says how a release, its note, ended without a result."""

REPEATED = "release_repeated"
"""The kind of the system entry that says of a release that another attempt has begun."""

_release = tables.release.c

_INSERT = insert_of(
    "release",
    (
        "id", "account", "seq", "dataset", "principal", "state", "attempts", "request", "plan",
        "fingerprint", "created_at", "worker", "number",
    ),
)  # fmt: skip
_LAST_NUMBER = select(func.coalesce(func.max(_release.number), 0))


def _step_to(state: ReleaseState, assignments: str) -> str:
    """Return the update that moves releases, each the first value of its row, to a final state."""
    before = ", ".join(f"'{earlier}'" for earlier in ReleaseState if earlier.may_become(state))
    return (
        f"UPDATE release SET state = '{state}', {assignments}"  # noqa: S608 - constants
        " FROM (VALUES {values}) AS step WHERE release.id = step.column1"
        # an expression, so that no index of states is walked for each row of the list
        f" AND coalesce(release.state, '') IN ({before})"
    )


_FINAL = select(_release.id).where(
    _release.id.in_(bindparam("wanted", expanding=True)),
    _release.state.in_([ReleaseState.RELEASED.value, ReleaseState.VOID.value]),
)
_FINISH = _step_to(
    ReleaseState.RELEASED, "finished_at = column2, result = column3, result_hash = column4"
)
_VOID = _step_to(ReleaseState.VOID, "finished_at = column2")
_DRAWN = (
    update(tables.release)
    .where(_release.id == bindparam("wanted"), _release.state == ReleaseState.DEBITED.value)
    .returning(_release.id)
)
_TAKE = _DRAWN.values(worker=bindparam("by"), attempts=_release.attempts + bindparam("deaths"))
_HAND_BACK = _DRAWN.where(_release.worker == bindparam("by")).values(worker=None)
_ATTEMPT = _DRAWN.values(attempts=_release.attempts + 1)


class ReleasesWriter(Releases):
    """Charging, finishing and voiding releases."""

    __slots__ = ("_accounts", "_settled", "_unsealed", "_writes")

    def __init__(self, connection: Connection, accounts: AccountsWriter, writes: Writes) -> None:
        super().__init__(connection)
        self._accounts = accounts
        self._writes = writes
        self._settled: dict[str, bytes | None] = {}
        self._unsealed: dict[str, tuple[int, str]] = {}

    def next_number(self) -> int:
        """Return the number of the next release; the writers of a ledger take turns."""
        return int(self._connection.execute(_LAST_NUMBER).scalar_one()) + 1

    def insert(self, begun: Sequence[ReleaseRecord]) -> None:
        """Insert releases that begin, each with the entry that has just been written for it."""
        rows = [
            (
                each.id, each.account, each.seq, each.dataset, each.principal, each.state.value,
                each.attempts, each.request, each.plan, each.fingerprint, each.created_at,
                each.worker, each.number,
            )
            for each in begun
        ]  # fmt: skip
        self._writes.add(partial(change_rows, self._connection, _INSERT, rows))

    def finish(self, release: str, result: bytes) -> ReleaseRecord:
        """Store the answer's bytes; the release is ``released`` and never changes again.

        Raises
        ------
        Problem
            ``release-void`` when it is no longer waiting for a result.
        """
        return _only(self.finish_all({release: result}))

    def finish_all(
        self, results: Mapping[str, bytes], known: Mapping[str, ReleaseRecord] | None = None
    ) -> Mapping[str, ReleaseRecord]:
        """Do what :meth:`finish` does for many, or for none of them.

        ``known`` are records of the releases before, which are not read again.

        Raises
        ------
        SomeRefusedError
            Not every one of several was waiting; of one alone nothing is returned.
        """
        at = now()
        digests = result_digests([*results.values()], [at] * len(results))
        hashes = dict(zip(results, digests, strict=True))
        rows = [(release, at, result, hashes[release]) for release, result in results.items()]
        if not self._step_all(_FINISH, rows):
            return {}
        # The anchor keeps these bytes: should the COMMIT be lost, they are stored
        # again and never redrawn.
        self._settled.update(results)
        if known is None or not results.keys() <= known.keys():
            stored = self.get_all([*results])
        else:
            stored = {
                release: known[release].released(result, hashes[release], at)
                for release, result in results.items()
            }
        charges = [stored[release].entry_hash for release in results]
        leaves = result_leaves(results, charges, results.values())
        for release, leaf in zip(results, leaves, strict=True):
            self._unsealed[release] = stored[release].number, leaf
        return stored

    def begin(self) -> None:
        """Forget what the transaction before has settled."""
        self._settled.clear()
        self._unsealed.clear()

    def settled(self) -> Mapping[str, bytes | None]:
        """Return what the present transaction has settled: results, and None for what is void."""
        return dict(self._settled)

    @property
    def settlements(self) -> int:
        """Return how many releases the present transaction has settled."""
        return len(self._settled)

    def forget_since(self, count: int) -> None:
        """Forget all that was settled after the first ``count``: it has been rolled back."""
        while len(self._settled) > count:
            release, _ = self._settled.popitem()
            self._unsealed.pop(release, None)

    def take_unsealed(self) -> Sequence[tuple[int, str]]:
        """Return numbers and leaves of the releases whose results were stored since last asked."""
        taken = [*self._unsealed.values()]
        self._unsealed.clear()
        return taken

    def settled_before(self, releases: Sequence[str]) -> bool:
        """Return whether any of these was settled before the present transaction."""
        wanted = {"wanted": [name for name in releases if name not in self._settled]}
        return self._connection.execute(_FINAL, wanted).first() is not None

    def void(self, release: str) -> ReleaseRecord:
        """Give the release up; its charge stays.

        Raises
        ------
        Problem
            ``release-void`` when it is no longer waiting for a result.
        """
        return _only(self.void_all([release]))

    def void_all(self, releases: Sequence[str]) -> Mapping[str, ReleaseRecord]:
        """Do what :meth:`void` does for many, or for none of them.

        Raises
        ------
        SomeRefusedError
            As :meth:`finish_all`.
        """
        at = now()
        if not self._step_all(_VOID, [(release, at) for release in releases]):
            return {}
        # None: given up, and so no longer waiting either.
        self._settled.update(dict.fromkeys(releases))
        kind = ENDED_AS[ReleaseState.VOID]
        for release in releases:
            self._accounts.system_entry(kind, principal=SYSTEM, note=release, at=at)
        return self.get_all(releases)

    def _step_all(self, statement: str, rows: Sequence[Sequence[object]]) -> bool:
        """Return whether all releases took the step; with several, it is all or an error."""
        # Never kept for later: what may be refused must be known before it is announced.
        changed = change_rows(self._connection, statement, rows)
        if changed != len(rows) and len(rows) > 1:
            raise SomeRefusedError("not every release was waiting for its step")
        return bool(rows) and changed == len(rows)

    def claim(
        self, worker: str, *, longest_s: int | None = None, without: Collection[str] = ()
    ) -> ReleaseRecord | None:
        """Give a worker the release whose turn it is of those no process draws; None: there is
        none.

        One from the queue is in its first attempt. One that a dead process
        left behind is counted another, or is void when it has none left: a
        record that comes back ``void`` is not to be drawn. ``longest_s`` and ``without`` are
        as in :func:`app.store.ledger.jobs.next_to_draw`.
        """
        found = self.to_draw(longest_s=longest_s, without=without)
        if found is None:
            return None
        # Whatever becomes of it: one that is void by now has had its turn as well.
        jobs.take_turn(self._connection, person=found.principal, dataset=found.dataset)
        # From the queue: no process has begun it, so no attempt is lost.
        if found.worker is None:
            return self._step(found.id, _TAKE, by=worker, deaths=0)
        # A draw that three processes died in would take the fourth along: given up,
        # the charge stays.
        if not may_be_redrawn(found.attempts):
            return self.void(found.id)
        return self._again(found.id, _TAKE, by=worker, deaths=1)

    def hand_back(self, release: str, *, worker: str) -> None:
        """Put a release whose draw its own worker has stopped into the queue again.

        No attempt is counted: those are for draws that a process died of.
        """
        self._connection.execute(_HAND_BACK, {"wanted": release, "by": worker})

    def leave_queue(self, release: str) -> None:
        """Take a final release out of the queue: the lane that drew it is free again."""
        jobs.leave(self._connection, release)

    def begin_attempt(self, release: str) -> ReleaseRecord:
        """Count one more attempt at drawing a release that a dead process left behind."""
        return self._again(release, _ATTEMPT)

    def _again(self, release: str, statement: Update, **values: object) -> ReleaseRecord:
        """Take a step that counts another attempt, and record that it does."""
        stepped = self._step(release, statement, **values)
        self._accounts.system_entry(REPEATED, principal=SYSTEM, note=release)
        return stepped

    def _step(self, release: str, statement: Update, **values: object) -> ReleaseRecord:
        stepped = self._connection.execute(statement, {"wanted": release, **values})
        return _only(self._stepped(stepped.all()))

    def _stepped(self, rows: Sequence[Row[Any]]) -> Mapping[str, ReleaseRecord]:
        return self.get_all([row.id for row in rows]) if rows else {}


def _only(stepped: Mapping[str, ReleaseRecord]) -> ReleaseRecord:
    for record in stepped.values():
        return record
    raise Problem("release-void")
