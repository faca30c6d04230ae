"""What is read of a release first: its row without the result, and what entries say of it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, Select, and_, case, func, literal_column, select

from app.domain.releases import GIVEN_BACK, ReleaseState
from app.store.database import tables
from app.store.ledger.records import ReleaseRecord

_release, _review = tables.release.c, tables.review.c
_CHARGE, _END = tables.entry.alias("charge"), tables.entry.alias("given_back")


def _of_charge(column: str) -> Any:
    """Return a column of the entry that a release stands on."""
    return (
        select(_CHARGE.c[column])
        .where(_CHARGE.c.account == _release.account, _CHARGE.c.seq == _release.seq)
        .correlate(tables.release)
        .scalar_subquery()
    )


IS_RETURNED = (
    select(_review.release)
    .where(_review.release == _release.id, _review.returned == literal_column("1"))
    .correlate(tables.release)
    .exists()
)
"""The condition on a release that waits for who asked for it: its reviewers want changes."""

_STATE = case(
    (
        and_(_release.state == ReleaseState.RESERVED.value, _review.returned == 1),
        ReleaseState.CHANGES_REQUESTED.value,
    ),
    else_=_release.state,
)
# The kind is written into the statement, or the index of these few entries would not be used;
# of a release that has an answer, or waits for one, no entry is looked for. The last one counts:
# those before it moved the reserve to another version.
_REASON = case(
    (
        _release.state.in_(sorted(GIVEN_BACK)),
        select(_END.c.note)
        .where(_END.c.release == _release.id, _END.c.kind == literal_column("'unreserve'"))
        .order_by(_END.c.seq.desc())
        .limit(1)
        .correlate(tables.release)
        .scalar_subquery(),
    ),
    (_review.returned == 1, _review.reason),
)

_RELEASE = (
    *(
        column
        for column in tables.release.columns
        if column.name not in {"state", "result", "result_hash"}
    ),
    _STATE.label("state"),
    _of_charge("hash").label("entry_hash"),
    _of_charge("at").label("charged_at"),
    _of_charge("amount").label("amount"),
    _REASON.label("reason"),
    func.coalesce(_review.turn, 1).label("turn"),
    func.coalesce(_review.version, 1).label("version"),
    func.coalesce(_review.shown, 0).label("shown"),
)


def select_releases() -> Select[Any]:
    """Return the query for the columns of a :class:`ReleaseRecord`, but for its result."""
    table = tables.release.outerjoin(tables.review, _review.release == _release.id)
    return select(*_RELEASE).select_from(table)


def release_of(row: Row[Any]) -> ReleaseRecord:
    """Return the release that a row of these columns holds, its result not read yet."""
    state = ReleaseState(row.state)
    return ReleaseRecord(**{**row._mapping, "state": state, "result": None, "result_hash": None})
