"""What is read of a release first: its row without the result, and what entries say of it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, case, literal_column, select

from app.domain.releases import GIVEN_BACK, ReleaseState
from app.store.database import tables
from app.store.ledger.records import ReleaseRecord

_release = tables.release.c
_CHARGE, _END = tables.entry.alias("charge"), tables.entry.alias("given_back")


def _of_charge(column: str) -> Any:
    """Return a column of the entry that a release stands on."""
    return (
        select(_CHARGE.c[column])
        .where(_CHARGE.c.account == _release.account, _CHARGE.c.seq == _release.seq)
        .correlate(tables.release)
        .scalar_subquery()
    )


# The kind is written into the statement, or the index of these few entries would not be used;
# of a release that has an answer, or waits for one, no entry is looked for.
_REASON = case(
    (
        _release.state.in_(sorted(GIVEN_BACK)),
        select(_END.c.note)
        .where(_END.c.release == _release.id, _END.c.kind == literal_column("'unreserve'"))
        .correlate(tables.release)
        .scalar_subquery(),
    )
)

RELEASE = (
    *(column for column in tables.release.columns if column.name not in {"result", "result_hash"}),
    _of_charge("hash").label("entry_hash"),
    _of_charge("at").label("charged_at"),
    _of_charge("amount").label("amount"),
    _REASON.label("reason"),
)
"""The columns of a :class:`ReleaseRecord`, but for its result."""


def release_of(row: Row[Any]) -> ReleaseRecord:
    """Return the release that a row of these columns holds, its result not read yet."""
    state = ReleaseState(row.state)
    return ReleaseRecord(**{**row._mapping, "state": state, "result": None, "result_hash": None})
