"""Comparing a ledger with its anchor from another process, while a server moves both.

The anchor is noted before each COMMIT, so the two are never read at one moment.
It is looked at before the ledger's snapshot is taken and after it: the snapshot
then is one of the states that the anchor went through from the first look to the
second. Where that is none of them, the ledger is not the one that was last
written: a result that has been taken out again, say, with everything that
belongs to it, makes one release more that waits for its result.
"""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, func, select

from app.domain.releases import ReleaseState
from app.store.anchor.standing import Anchored, LedgerState, Standing, Witness, judge
from app.store.database import tables
from app.store.ledger.entries import Position

_MOST_LOOKS = 100
_SNAPSHOT = select(tables.ledger.c.id)
_account, _release = tables.account.c, tables.release.c
_POSITIONS = select(_account.id, _account.seq, _account.head, _account.spent)
_UNFINISHED = (
    select(func.count())
    .select_from(tables.release)
    .where(_release.state == ReleaseState.DEBITED.value)
)
_STORED = (
    select(func.count())
    .select_from(tables.release)
    .where(
        _release.id.in_(bindparam("wanted", expanding=True)),
        _release.state.in_([ReleaseState.RELEASED.value, ReleaseState.VOID.value]),
    )
)


def read_state(connection: Connection) -> LedgerState:
    """Return what the database holds, as an anchor would note it."""
    ledger = connection.execute(select(tables.ledger)).one()
    accounts = {
        row.id: Position(row.seq, row.head, row.spent) for row in connection.execute(_POSITIONS)
    }
    return LedgerState(
        ledger=ledger.id,
        epoch=ledger.epoch,
        accounts=accounts,
        unfinished=connection.execute(_UNFINISHED).scalar_one(),
    )


def standing_of(connection: Connection, known: Anchored | None, found: LedgerState) -> Standing:
    """Return how a database stands to what an anchor knows, the last results included.

    With a transaction that does nothing but store results, a copy that lacks one
    of an older release is as far as the state before: only that one has the results.
    """
    standing = judge(known, found)
    if known is None or standing not in (Standing.CURRENT, Standing.BEHIND):
        return standing
    # Where the anchor's last step is done all its results are there, before it none is.
    stored = connection.execute(_STORED, {"wanted": [*known.results]}).scalar_one()
    expected = len(known.results) if standing is Standing.CURRENT else 0
    return standing if stored == expected else Standing.OLDER


def standing_to(connection: Connection, witness: Witness) -> Standing | None:
    """Return how a reader's fresh snapshot stands to the anchor.

    None where the anchor moves too fast to be looked at.

    Raises
    ------
    AnchorError
        The anchor cannot be read.
    """
    for _ in range(_MOST_LOOKS):
        # A fresh snapshot each time: the old one would be compared with looks that came after it.
        before = witness.look()
        connection.rollback()
        connection.execute(_SNAPSHOT).all()
        known = witness.between(before, witness.look())
        if known is not None:
            found = read_state(connection)
            standings = [standing_of(connection, each, found) for each in known]
            # Whichever of the states between the looks the snapshot is: one that fits is enough.
            return next((each for each in standings if not each.frozen), standings[-1])
    return None
