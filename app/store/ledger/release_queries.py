"""Reading releases: what is public of each comes first, and results only where they are shown.

A client may ask for a release whose draw has ended and whose outcome is not public yet.
How long the answer takes must not reveal that it has ended, so the statements that are run
then are the ones of a release still under way: none of them reads a result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, func, select

from app.domain.releases import UNDECIDED, ReleaseState
from app.store.database import tables
from app.store.ledger.jobs import next_to_draw
from app.store.ledger.multi_row import select_rows
from app.store.ledger.records import ReleaseRecord, fitting
from app.store.ledger.release_columns import IS_RETURNED, release_of, select_releases

Shown = Callable[[ReleaseRecord], ReleaseRecord]
"""Says how a release, its result not read yet, is shown; only a ``released`` one's is then read."""

# In one statement: databases bound how many parameters it may have.
_MOST = 500
_release, _entry = tables.release.c, tables.entry.c

_GET = select_releases().where(_release.id == bindparam("wanted"))
_OF_PERSON = _GET.where(_release.principal == bindparam("by"))
_GET_MANY = select_releases().where(_release.id.in_(bindparam("wanted", expanding=True)))
_KNOWN = (
    "SELECT entry.principal, entry.idem, entry.release FROM (VALUES {values}) AS asked"
    " JOIN entry ON entry.principal = asked.column1 AND entry.idem = asked.column2"
)
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
        return _only(self._read(_GET, {"wanted": release}, shown))

    def of_person(
        self, release: str, principal: str, shown: Shown = _as_stored
    ) -> ReleaseRecord | None:
        """Return the release if this person asked for it, or None."""
        return _only(self._read(_OF_PERSON, {"wanted": release, "by": principal}, shown))

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
        rows = select_rows(self._connection, _KNOWN, [*keys])
        if not rows:
            return {}
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
    ) -> tuple[ReleaseRecord, ...]:
        """Return releases, newest first, whose number is below ``before``."""
        query = _listed(select_releases(), principal, dataset, state, before)
        return tuple(self._read(query.limit(limit)))

    def page_of_heads(
        self,
        *,
        principal: str | None = None,
        dataset: str | None = None,
        state: ReleaseState | None = None,
        before: int | None = None,
        limit: int,
        shown: Shown = _as_stored,
    ) -> ReleasePage:
        """Return what :meth:`list` does as it is shown, no results read."""
        query = _listed(select_releases(), principal, dataset, state, before)
        # One more than is wanted, to know whether there are more.
        found = self._heads(query.limit(limit + 1), shown=shown)
        return ReleasePage(tuple(found[:limit]), more=len(found) > limit)

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
    ) -> ReleasePage:
        """Return what :meth:`list` does as it is shown, limited to a number of bytes.

        There is one release at least, if there are any. Lengths are asked for first, so no
        more than that is read; a result that is not shown does not count.
        """
        sizes = self._connection.execute(
            _listed(select(_release.number, _SIZE), principal, dataset, state, before).limit(
                limit + 1
            )
        ).all()
        # Requests and plans are counted first, since they are read whether a result
        # is shown or not.
        own = [row.size for row in sizes[:limit]]
        query = _listed(select_releases(), principal, dataset, state, before)
        found = self._heads(query.limit(fitting(own, most_bytes)), shown=shown)
        lengths = self._lengths(found)
        each = [size + lengths.get(head.id, 0) for size, head in zip(own, found, strict=False)]
        records = self._with_results(found[: fitting(each, most_bytes)])
        return ReleasePage(tuple(records), more=len(records) < len(sizes))

    def to_draw(
        self, *, longest_s: int | None = None, without: Collection[str] = ()
    ) -> ReleaseRecord | None:
        """Return the charged release that is drawn next: see :mod:`app.store.ledger.jobs`."""
        found = next_to_draw(self._connection, longest_s=longest_s, without=without)
        return None if found is None else _only(self._heads(_GET, {"wanted": found}))

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
    if state in UNDECIDED:
        query = query.where(
            IS_RETURNED if state is ReleaseState.CHANGES_REQUESTED else ~IS_RETURNED
        )
    if before is not None:
        query = query.where(_release.number < before)
    return query


def _only(records: Sequence[ReleaseRecord]) -> ReleaseRecord | None:
    return next(iter(records), None)


def _by_id(records: Iterable[ReleaseRecord]) -> Mapping[str, ReleaseRecord]:
    return {record.id: record for record in records}
