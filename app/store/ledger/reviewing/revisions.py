"""Versions of a request: those that a later one has taken the place of stay, as they were."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, select

from app.store.database import tables
from app.store.ledger.records import ReleaseRecord

_revision, _entry = tables.revision.c, tables.entry.c
_OF = (
    select(_revision.version, _revision.request, _revision.plan, _entry.at, _entry.amount)
    .join(tables.entry, (_entry.account == _revision.account) & (_entry.seq == _revision.seq))
    .where(_revision.release == bindparam("of"))
    .order_by(_revision.version)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """A version of a release's request and its plan, JSON both, and what was set aside when."""

    version: int
    request: str
    plan: str
    at: str
    amount: int


def versions_of(connection: Connection, release: ReleaseRecord) -> tuple[VersionRecord, ...]:
    """Return every version of a release's request, the present one last."""
    rows = connection.execute(_OF, {"of": release.id})
    present = VersionRecord(
        version=release.version,
        request=release.request,
        plan=release.plan,
        at=release.charged_at,
        amount=release.amount,
    )
    return (*(VersionRecord(**row._mapping) for row in rows), present)


def supersede(connection: Connection, release: ReleaseRecord) -> None:
    """Keep the present version of a release, which another is about to take the place of."""
    row = {
        "release": release.id,
        "version": release.version,
        "account": release.account,
        "seq": release.seq,
        "request": release.request,
        "plan": release.plan,
    }
    connection.execute(insert(tables.revision), row)
