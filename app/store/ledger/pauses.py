"""Pauses: people and data sets for which nothing is charged or drawn until they are resumed.

What is charged already waits. The system account has an entry for every pause and every
end of one, whose note says all that the table does.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, or_, select

from app.domain.problems import Problem
from app.store.database import tables
from app.store.ledger.accounts import AccountsWriter
from app.store.ledger.records import PauseRecord, now, shown

PAUSE_SET = "pause_set"
"""The kind of the system account's entry about a pause; its note is JSON."""


class Paused(StrEnum):
    """What can be paused: all that a person asks, or all that is asked of a data set."""

    PERSON = "person"
    DATASET = "dataset"


_pause, _release = tables.pause.c, tables.release.c
_IT = (_pause.what == bindparam("kind"), _pause.name == bindparam("named"))
_GET = select(tables.pause).where(*_IT)
_LIST = (
    select(tables.pause)
    .where(_pause.number > bindparam("after"))
    .order_by(_pause.number)
    .limit(bindparam("most"))
)
_ALL = select(_pause.what, _pause.name)
_END = delete(tables.pause).where(*_IT)


def is_paused() -> ColumnElement[bool]:
    """Return the condition on a release that its person or its data set is paused."""
    person = (_pause.what == Paused.PERSON.value) & (_pause.name == _release.principal)
    dataset = (_pause.what == Paused.DATASET.value) & (_pause.name == _release.dataset)
    return select(_pause.number).where(or_(person, dataset)).exists()


class Pauses:
    """What is paused."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, what: Paused, name: str) -> PauseRecord | None:
        """Return the pause of a person or a data set, or None."""
        row = self._connection.execute(_GET, {"kind": what.value, "named": name}).one_or_none()
        return None if row is None else PauseRecord(**row._mapping)

    def list(self, *, after: int = 0, limit: int = 100) -> tuple[PauseRecord, ...]:
        """Return pauses numbered above ``after``, in the order they were made."""
        rows = self._connection.execute(_LIST, {"after": after, "most": limit})
        return tuple(PauseRecord(**row._mapping) for row in rows)

    def check(self, *, person: str, dataset: str) -> None:
        """Pass for a person and a data set that are not paused.

        Raises
        ------
        Problem
            ``paused``.
        """
        require_running(all_paused(self._connection), person=person, dataset=dataset)


def require_running(paused: Collection[tuple[str, str]], *, person: str, dataset: str) -> None:
    """Pass for a person and a data set that are not among what is paused.

    Raises
    ------
    Problem
        ``paused``.
    """
    for what, name in ((Paused.PERSON, person), (Paused.DATASET, dataset)):
        if (what.value, name) in paused:
            raise Problem("paused", what=what.value)


def all_paused(connection: Connection) -> Collection[tuple[str, str]]:
    """Return all that is paused: each as what it is, and its name."""
    return {(row.what, row.name) for row in connection.execute(_ALL)}


class PausesWriter(Pauses):
    """Pausing and resuming; the system account records both."""

    __slots__ = ("_accounts",)

    def __init__(self, connection: Connection, accounts: AccountsWriter) -> None:
        super().__init__(connection)
        self._accounts = accounts

    def pause(self, what: Paused, name: str, *, principal: str, reason: str) -> PauseRecord:
        """Pause a person or a data set; one that is paused already gets the new reason."""
        at = self._note(what, name, True, principal=principal, reason=reason)
        # Never updated: a row stands for one entry, and the role may only insert and delete it.
        self._end(what, name)
        self._connection.execute(
            insert(tables.pause),
            {
                "what": what.value,
                "name": name,
                "reason": reason,
                "paused_by": principal,
                "paused_at": at,
            },
        )
        made = self.get(what, name)
        assert made is not None
        return made

    def resume(self, what: Paused, name: str, *, principal: str, reason: str) -> None:
        """End a pause; where there is none nothing changes."""
        if self.get(what, name) is not None:
            self._note(what, name, False, principal=principal, reason=reason)
            self._end(what, name)

    def _end(self, what: Paused, name: str) -> None:
        self._connection.execute(_END, {"kind": what.value, "named": name})

    def _note(self, what: Paused, name: str, paused: bool, *, principal: str, reason: str) -> str:
        at = now()
        said = {
            "what": what.value,
            "name": name,
            "paused": paused,
            "reason": reason,
            "by": principal,
            "at": at,
        }
        self._accounts.system_entry(PAUSE_SET, principal=principal, note=json.dumps(said), at=at)
        return at


def faults(connection: Connection, notes: Collection[str | None]) -> Iterator[str]:
    """Yield where pauses are not what the ledger's notes, oldest first, say."""
    said: dict[tuple[str, str], Mapping[str, Any]] = {}
    for note in notes:
        found: Mapping[str, Any] = json.loads(note or "{}")
        key = str(found.get("what")), str(found.get("name"))
        said.pop(key, None)
        if found.get("paused"):
            said[key] = found
    for row in connection.execute(select(tables.pause)).all():
        made = said.pop((row.what, row.name), {})
        if (row.reason, row.paused_by, row.paused_at) != tuple(
            made.get(name) for name in ("reason", "by", "at")
        ):
            yield f"{shown(row.what)} {shown(row.name)}: a pause has been edited"
    for what, name in said:
        yield f"{shown(what)} {shown(name)}: a pause is missing"
