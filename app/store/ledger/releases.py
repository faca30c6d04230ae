"""Releases: each begins in the same transaction as its charge and keeps its answer's bytes.

*Reading releases: what is public of each comes first, and results only where they are shown.* A
client may ask for a release whose draw has ended and whose outcome is not public yet. How long the
answer takes must not reveal that it has ended, so the statements that are run then are the ones of
a release still under way: none of them reads a result.

*Results in the chain: each is a leaf, and an entry holds the root over those of one commit.* An
entry of kind ``result`` in the system account seals what one transaction stored: its
fingerprint is the Merkle root over the leaves, its note how many leaves there are since the
beginning. So editing a result and signing it again requires writing the system account's chain
again. Leaves are numbered without gaps, and are what proofs for others can be made of. These
entries are not shown over HTTP, and neither their number nor their hashes: an answer has a
public moment, and when it was stored would reveal how long its draw took.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, Update, bindparam, func, select, text, update

from app.domain.access import Span
from app.domain.ledger import SYSTEM_ACCOUNT, result_leaves, tree_root
from app.domain.problems import Problem
from app.domain.releases import (
    TRANSITIONS,
    UNDECIDED,
    ReleaseState,
    may_be_redrawn,
    result_digests,
)
from app.store.database import tables
from app.store.errors import SomeRefusedError
from app.store.ledger import jobs
from app.store.ledger.access import is_seen
from app.store.ledger.accounts import AccountsWriter
from app.store.ledger.entries import (
    SYSTEM,
    EntriesWriter,
    Occasion,
    change_rows,
    insert_of,
    select_rows,
)
from app.store.ledger.jobs import next_to_draw
from app.store.ledger.records import (
    IS_RETURNED,
    AccountRecord,
    ReleaseRecord,
    are_newest,
    fitting,
    has_word,
    now,
    release_of,
    select_releases,
    spanned,
)

# Reading releases: what is public of each comes first, and results only where they are shown

Shown = Callable[[ReleaseRecord], ReleaseRecord]
"""Says how a release, its result not read yet, is shown; only a ``released`` one's is then read."""

# In one statement: databases bound how many parameters it may have.
_MOST = 500
_release, _entry = tables.release.c, tables.entry.c

_GET = select_releases().where(_release.id == bindparam("wanted"))
_OF_PERSON = _GET.where(_release.principal == bindparam("by"))
_GET_MANY = select_releases().where(_release.id.in_(bindparam("wanted", expanding=True)))
KNOWN = (
    "SELECT entry.principal, entry.idem, entry.release FROM (VALUES {values}) AS asked"
    " JOIN entry ON entry.principal = asked.column1 AND entry.idem = asked.column2"
)
"""Finds people's Idempotency-Keys: rows for :meth:`Releases.of_keys`."""

_DEBITED = (
    select_releases().where(_release.state == ReleaseState.DEBITED.value).order_by(_release.number)
)
_RESULTS = select(_release.id, _release.result, _release.result_hash).where(
    _release.id.in_(bindparam("wanted", expanding=True))
)
# Neither database reads a stored value to find its length.
_LENGTHS = select(_release.id, func.length(_release.result).label("length")).where(
    _release.id.in_(bindparam("wanted", expanding=True))
)
_SIZE = (func.length(_release.request) + func.length(_release.plan)).label("size")


_ENDED = re.sub("(?=state)", "release.", tables.ENDED)
"""Says to SQLite that an index of some releases has all that are asked for."""


class ReleasePage(NamedTuple):
    """Some releases of a list, newest first, and whether there are more after them."""

    records: tuple[ReleaseRecord, ...]
    more: bool


def _as_stored(record: ReleaseRecord) -> ReleaseRecord:
    return record


class Releases:
    """Releases with their requests, plans and results."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, release: str, shown: Shown = _as_stored) -> ReleaseRecord | None:
        """Return the release, or None."""
        return _only_record(self._read(_GET, {"wanted": release}, shown))

    def of_person(
        self, release: str, principal: str, shown: Shown = _as_stored
    ) -> ReleaseRecord | None:
        """Return the release if this person asked for it, or None."""
        return _only_record(self._read(_OF_PERSON, {"wanted": release, "by": principal}, shown))

    def get_all(self, releases: Sequence[str]) -> Mapping[str, ReleaseRecord]:
        """Return those of many releases that there are, by their ids."""
        return _by_id(self._read(_GET_MANY, {"wanted": releases}))

    def heads(self, releases: Sequence[str]) -> Mapping[str, ReleaseRecord]:
        """Return what :meth:`get_all` does, without the results."""
        return _by_id(self._heads(_GET_MANY, {"wanted": releases}))

    def known(self, keys: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], ReleaseRecord]:
        """Return the releases that people's Idempotency-Keys already have, without their results.

        A key may be sent again at any time, also before the outcome is public.
        """
        rows = select_rows(self._connection, KNOWN, [*keys])
        return self.of_keys(rows) if rows else {}

    def charged(self, keys: Collection[tuple[str, str]]) -> Collection[tuple[str, str]]:
        """Return those of people's Idempotency-Keys that have a release."""
        rows = select_rows(self._connection, KNOWN, [*keys])
        return {(row.principal, row.idem) for row in rows}

    def of_keys(self, rows: Sequence[Row[Any]]) -> Mapping[tuple[str, str], ReleaseRecord]:
        """Return what :meth:`known` does, of keys that were found."""
        found = _by_id(self._heads(_GET_MANY, {"wanted": [row.release for row in rows]}))
        # A key and its release are written in one transaction, so each is found.
        return {(row.principal, row.idem): found[row.release] for row in rows}

    def list(
        self,
        *,
        principal: str | None = None,
        dataset: str | None = None,
        state: ReleaseState | None = None,
        before: int | None = None,
        limit: int = 100,
        hidden: Collection[str] = (),
    ) -> tuple[ReleaseRecord, ...]:
        """Return releases, newest first, whose number is below ``before``.

        Those of ``hidden`` accounts are left out.
        """
        query = _listed(select_releases(), principal, dataset, state, before, hidden=hidden)
        return tuple(self._read(query.limit(limit)))

    def page_of_heads(
        self,
        *,
        principal: str | None = None,
        dataset: str | None = None,
        state: ReleaseState | None = None,
        span: Span,
        shown: Shown = _as_stored,
        hidden: Collection[str] = (),
    ) -> tuple[ReleaseRecord, ...]:
        """Return what :meth:`list` does as it is shown, of a span, no results read."""
        query = _listed(select_releases(), principal, dataset, state, None, hidden=hidden)
        rows = spanned(self._connection, query, span, _release.number)
        return tuple(self._heads(rows, shown=shown))

    def page(
        self,
        *,
        principal: str | None = None,
        dataset: str | None = None,
        state: ReleaseState | None = None,
        before: int | None = None,
        limit: int,
        most_bytes: int,
        shown: Shown = _as_stored,
        hidden: Collection[str] = (),
    ) -> ReleasePage:
        """Return what :meth:`list` does as it is shown, limited to a number of bytes.

        There is one release at least, if there are any. Lengths are asked for first, so no
        more than that is read; a result that is not shown does not count.
        """
        sizes = self._connection.execute(
            _listed(
                select(_release.number, _SIZE), principal, dataset, state, before, hidden=hidden
            ).limit(limit + 1)
        ).all()
        # Requests and plans are counted first, since they are read whether a result
        # is shown or not.
        own = [row.size for row in sizes[:limit]]
        query = _listed(select_releases(), principal, dataset, state, before, hidden=hidden)
        found = self._heads(query.limit(fitting(own, most_bytes)), shown=shown)
        lengths = self._lengths(found)
        each = [size + lengths.get(head.id, 0) for size, head in zip(own, found, strict=False)]
        records = self._with_results(found[: fitting(each, most_bytes)])
        return ReleasePage(tuple(records), more=len(records) < len(sizes))

    def named(
        self,
        words: Sequence[str],
        *,
        newest: int,
        limit: int,
        principal: str | None = None,
        hidden: Collection[str] = (),
        shown: Shown = _as_stored,
    ) -> Iterator[ReleaseRecord]:
        """Yield the newest releases whose id, request or data set's name has every word in it.

        Only the ``newest`` releases of all are searched, and none after the last one that is
        wanted; no results are read.
        """
        query = _listed(select_releases(), principal, None, None, None, hidden=hidden)
        query = query.where(are_newest(_release.number, newest))
        dataset = tables.dataset.c
        for word in words:
            inside = has_word(word, _release.id, _release.request, _release.principal)
            named = select(dataset.id).where(has_word(word, dataset.name))
            query = query.where(_release.dataset.in_(named) | inside)
        with self._connection.execute(query.limit(limit)) as rows:
            for row in rows:
                yield shown(release_of(row))

    def to_draw(
        self, *, longest_s: int | None = None, without: Collection[str] = ()
    ) -> ReleaseRecord | None:
        """Return the charged release that is drawn next: see :mod:`app.store.ledger.jobs`."""
        found = next_to_draw(self._connection, longest_s=longest_s, without=without)
        return None if found is None else _only_record(self._heads(_GET, {"wanted": found}))

    def debited(self) -> tuple[ReleaseRecord, ...]:
        """Return the releases that are charged and have no result yet, oldest first."""
        return tuple(self._heads(_DEBITED))

    def _read(
        self,
        query: Select[Any],
        parameters: Mapping[str, object] | None = None,
        shown: Shown = _as_stored,
    ) -> Sequence[ReleaseRecord]:
        return self._with_results(self._heads(query, parameters, shown))

    def _heads(
        self,
        query: Select[Any],
        parameters: Mapping[str, object] | None = None,
        shown: Shown = _as_stored,
    ) -> Sequence[ReleaseRecord]:
        """Return releases as they are shown, their results not read yet."""
        return [shown(release_of(row)) for row in self._connection.execute(query, parameters)]

    def _with_results(self, heads: Sequence[ReleaseRecord]) -> Sequence[ReleaseRecord]:
        results = {row.id: row for row in self._of_released(_RESULTS, heads)}
        return [
            head
            if (row := results.get(head.id)) is None
            else head._replace(result=row.result, result_hash=row.result_hash)
            for head in heads
        ]

    def _lengths(self, heads: Sequence[ReleaseRecord]) -> Mapping[str, int]:
        return {row.id: row.length for row in self._of_released(_LENGTHS, heads)}

    def _of_released(self, query: Select[Any], heads: Sequence[ReleaseRecord]) -> Iterable[Any]:
        """Yield a query's rows on those of some releases that have a result to show."""
        wanted = [head.id for head in heads if head.state is ReleaseState.RELEASED]
        for start in range(0, len(wanted), _MOST):
            yield from self._connection.execute(query, {"wanted": wanted[start : start + _MOST]})


def _listed(
    query: Select[Any],
    principal: str | None,
    dataset: str | None,
    state: ReleaseState | None,
    before: int | None,
    *,
    hidden: Collection[str],
) -> Select[Any]:
    """Return a query on releases as one on some of them, newest first."""
    query = query.order_by(_release.number.desc())
    if principal is not None:
        query = query.where(_release.principal == principal)
    if dataset is not None:
        query = query.where(_release.dataset == dataset)
    if state is not None:
        # Both undecided states are this one in the table; whose turn it is has its own column.
        raw = ReleaseState.RESERVED if state in UNDECIDED else state
        query = query.where(_release.state == bindparam("in", raw, literal_execute=True))
        if raw in ENDED_AS:
            query = query.where(text(_ENDED))
    if state in UNDECIDED:
        query = query.where(
            IS_RETURNED if state is ReleaseState.CHANGES_REQUESTED else ~IS_RETURNED
        )
    if before is not None:
        query = query.where(_release.number < before)
    if hidden:
        query = query.where(is_seen(_release.account, hidden))
    return query


def _only_record(records: Sequence[ReleaseRecord]) -> ReleaseRecord | None:
    return next(iter(records), None)


def _by_id(records: Iterable[ReleaseRecord]) -> Mapping[str, ReleaseRecord]:
    return {record.id: record for record in records}


# Releases: each begins in the same transaction as its charge and keeps its answer's bytes

ENDED_AS: Mapping[ReleaseState, str] = {
    state: f"release_{state}"
    for state in ReleaseState
    if not TRANSITIONS[state] and state is not ReleaseState.RELEASED
}
"""The kind of the system entry that says how a release, its note, ended without a result."""

RESULT = "result"
"""The kind of the system entry that seals the results of one transaction."""

REPEATED = "release_repeated"
"""The kind of the system entry that says of a release that another attempt has begun."""


INSERT = insert_of(
    "release",
    (
        "id", "account", "seq", "dataset", "principal", "state", "attempts", "request", "plan",
        "fingerprint", "created_at", "worker", "number",
    ),
)  # fmt: skip
"""Inserts releases that begin, each given by :func:`row_of`."""


def row_of(begun: ReleaseRecord) -> tuple[object, ...]:
    """Return the row of a release that begins."""
    return (
        begun.id, begun.account, begun.seq, begun.dataset, begun.principal, begun.state.value,
        begun.attempts, begun.request, begun.plan, begun.fingerprint, begun.created_at,
        begun.worker, begun.number,
    )  # fmt: skip


# Where the system account stands, and how many leaves there are: in one statement of the bare
# driver, since one of these is run with each commit of results.
_SEALED = (
    "SELECT id, seq, total, spent, reserved, head,"
    " (SELECT coalesce(max(number), 0) FROM leaf) AS leaves"
    " FROM (VALUES {values}) AS asked JOIN account ON account.id = asked.column1"
)
_SEALED_LOCKED = {"sqlite": _SEALED, "postgresql": f"{_SEALED} FOR UPDATE OF account"}
_INSERT_LEAVES = insert_of("leaf", ("number", "release", "hash"))
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

    __slots__ = ("_accounts", "_changes", "_entries")

    def __init__(
        self, connection: Connection, accounts: AccountsWriter, entries: EntriesWriter
    ) -> None:
        super().__init__(connection)
        self._accounts = accounts
        self._entries = entries
        self._changes = entries.changes

    def next_number(self) -> int:
        """Return the number of the next release; the writers of a ledger take turns."""
        return int(self._connection.execute(_LAST_NUMBER).scalar_one()) + 1

    def insert(self, begun: ReleaseRecord) -> None:
        """Insert a release that begins, with the entry that has just been written for it."""
        change_rows(self._connection, INSERT, [row_of(begun)])

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
        self._changes.settled.update(results)
        if known is None or not results.keys() <= known.keys():
            stored = self.get_all([*results])
        else:
            stored = {
                release: known[release].released(result, hashes[release], at)
                for release, result in results.items()
            }
        charges = [stored[release].entry_hash for release in results]
        leaves = result_leaves(results, charges, results.values())
        numbers = [stored[release].number for release in results]
        self._changes.unsealed += zip(numbers, leaves, strict=True)
        return stored

    def seal(self) -> None:
        """Have an entry hold the results stored so far: once before each COMMIT is enough."""
        leaves, self._changes.unsealed = self._changes.unsealed, []
        if not leaves:
            return
        # Locked where there are several writers: the leaves' numbers follow from this count.
        query = _SEALED_LOCKED[self._connection.dialect.name]
        [row] = select_rows(self._connection, query, [(SYSTEM_ACCOUNT,)])
        account = {**row._mapping}
        before = int(account.pop("leaves"))
        # The system account has no grants that could end.
        chain = self._entries.chain_from(AccountRecord(**account), now(), due=False)
        occasion = Occasion(
            principal=SYSTEM,
            fingerprint=tree_root([leaf for _, leaf in leaves]),
            note=str(before + len(leaves)),
        )
        chain.add(RESULT, 0, chain.balance, occasion)
        self._entries.write_later([chain])
        rows = [(number, *leaf) for number, leaf in enumerate(leaves, start=before + 1)]
        self._changes.rows.add({_INSERT_LEAVES: rows})

    def settled_before(self, releases: Sequence[str]) -> bool:
        """Return whether any of these was settled before the present transaction."""
        wanted = {"wanted": [name for name in releases if name not in self._changes.settled]}
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
        self._changes.settled.update(dict.fromkeys(releases))
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
