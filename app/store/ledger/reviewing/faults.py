"""Reviews against the ledger's word: turns, versions and votes must match the entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, bindparam, select, text

from app.domain.ledger import SYSTEM_ACCOUNT
from app.domain.releases import GIVEN_BACK, plan_digest, request_fingerprint
from app.store.database import tables
from app.store.ledger.datasets import DATASET_EDITED, edit_faults
from app.store.ledger.ids import shown
from app.store.ledger.reviewing.turns import CHANGES_REQUESTED, RETURNED
from app.store.ledger.reviewing.votes import VOTED, vote_faults

_SAID = text(
    "SELECT seq, kind, note, fingerprint FROM entry WHERE account = :system AND kind IN"  # noqa: S608
    f" (:changes, :returned, :voted, :edited) AND {tables.ACTS} ORDER BY seq"
)
_REVISIONS = text(
    "SELECT v.release, v.version, v.request, v.plan, r.dataset,"
    " e.release AS reserved, e.fingerprint, e.note"
    " FROM revision AS v LEFT JOIN release AS r ON r.id = v.release"
    " LEFT JOIN entry AS e ON e.account = v.account AND e.seq = v.seq"
    " ORDER BY v.release, v.version"
)
_GIVEN_BACK = text(
    "SELECT release, count(*) AS times FROM entry WHERE kind = 'unreserve' GROUP BY release"
)
_ENDED = select(tables.release.c.id).where(
    tables.release.c.id.in_(bindparam("wanted", expanding=True)),
    tables.release.c.state.in_(sorted(GIVEN_BACK)),
)
_CHUNK = 500  # databases limit how many values a statement may have


def review_faults(connection: Connection) -> Iterator[str]:
    """Yield where reviews are not what the ledger says."""
    kinds = {
        "system": SYSTEM_ACCOUNT, "changes": CHANGES_REQUESTED, "returned": RETURNED,
        "voted": VOTED, "edited": DATASET_EDITED,
    }  # fmt: skip
    changes, returned = Counter[str](), Counter[str]()
    digests: dict[str, dict[int, str | None]] = {VOTED: {}, DATASET_EDITED: {}}
    for row in connection.execute(_SAID, kinds):
        if row.kind == CHANGES_REQUESTED:
            # The note is the release, a colon and the reason.
            changes[row.note.partition(":")[0]] += 1
        elif row.kind == RETURNED:
            returned[row.note] += 1
        else:
            digests[row.kind][row.seq] = row.fingerprint
    yield from vote_faults(connection, digests[VOTED])
    yield from edit_faults(connection, digests[DATASET_EDITED])
    revised = Counter[str]()
    for row in connection.execute(_REVISIONS):
        revised[row.release] += 1
        said = (row.release, request_fingerprint(dataset=row.dataset or "", request=row.request))
        fits = (row.reserved, row.fingerprint) == said and row.note == plan_digest(row.plan)
        if not fits or row.version != revised[row.release]:
            yield f"release {shown(row.release)}: a version of it has been edited"
    yield from _turn_faults(connection, changes, returned, revised)
    yield from _given_back_faults(connection, revised)


def _turn_faults(
    connection: Connection,
    changes: Mapping[str, int],
    returned: Mapping[str, int],
    revised: Mapping[str, int],
) -> Iterator[str]:
    """Fault turns that have not come about as they are written down."""
    found: dict[str, tuple[int, int, int]] = {}
    for row in connection.execute(select(tables.review)):
        found[row.release] = (row.turn, row.returned, row.version)
    nothing = 1, 0, 1
    for release in sorted({*found, *changes, *returned, *revised}):
        turns = returned.get(release, 0)
        # Each request for changes passes the turn over, each return passes it back
        # and begins the next.
        said = (1 + turns, changes.get(release, 0) - turns, 1 + revised.get(release, 0))
        if found.get(release, nothing) != said:
            yield f"release {shown(release)}: its review is not the one in the ledger"


def _given_back_faults(connection: Connection, revised: Mapping[str, int]) -> Iterator[str]:
    """Fault what was given back more often, or less, than its versions and its end require."""
    times = {row.release: int(row.times) for row in connection.execute(_GIVEN_BACK)}
    odd = sorted({*times, *revised})
    for start in range(0, len(odd), _CHUNK):
        wanted = odd[start : start + _CHUNK]
        ended = {*connection.execute(_ENDED, {"wanted": wanted}).scalars()}
        for release in wanted:
            if times.get(release, 0) != revised.get(release, 0) + (release in ended):
                yield f"release {shown(release)}: its versions are not those in the ledger"
