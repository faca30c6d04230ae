"""Results in the chain: each is a leaf, and an entry holds the root over those of one commit.

An entry of kind ``result`` in the system account seals what one transaction stored: its
fingerprint is the Merkle root over the leaves, its note how many leaves there are since the
beginning. So editing a result and signing it again requires writing the system account's chain
again. Leaves are numbered without gaps, and are what proofs for others can be made of.

These entries are not shown over HTTP, and neither their number nor their hashes: an answer has a
public moment, and when it was stored would reveal how long its draw took.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sqlalchemy import Connection, select

from app.domain.ledger import SYSTEM_ACCOUNT
from app.domain.merkle import result_leaves, tree_root
from app.store.database import tables
from app.store.ledger.entries import SYSTEM, EntriesWriter, Occasion
from app.store.ledger.multi_row import change_rows, insert_of, select_rows
from app.store.ledger.records import AccountRecord, now

RESULT = "result"
"""The kind of the entry that seals the results of one transaction."""

RESULT_KEPT = "result_kept"
"""The kind of the one entry that seals the results which an earlier version stored."""

# Where the system account stands, and how many leaves there are: in one statement of the bare
# driver, since one of these is run with each commit of results.
_BEFORE = (
    "SELECT id, seq, total, spent, reserved, head,"
    " (SELECT coalesce(max(number), 0) FROM leaf) AS leaves"
    " FROM (VALUES {values}) AS asked JOIN account ON account.id = asked.column1"
)
_LOCKED = {"sqlite": _BEFORE, "postgresql": f"{_BEFORE} FOR UPDATE OF account"}
_INSERT = insert_of("leaf", ("number", "release", "hash"))
_release, _entry = tables.release.c, tables.entry.c
_ANY = (
    select(_entry.seq)
    .where(_entry.account == SYSTEM_ACCOUNT, _entry.kind.in_([RESULT, RESULT_KEPT]))
    .limit(1)
)
_KEPT = (
    select(_release.number, _release.id, _entry.hash, _release.result)
    .join(
        tables.entry,
        (_entry.account == _release.account) & (_entry.seq == _release.seq),
    )
    .where(_release.result.is_not(None))
    .order_by(_release.number)
    .execution_options(yield_per=1000)
)


def seal(
    entries: EntriesWriter,
    connection: Connection,
    leaves: Sequence[tuple[int, str]],
    kind: str = RESULT,
) -> None:
    """Seal results that the present transaction has stored: their releases' numbers and leaves."""
    if not leaves:
        return
    # Locked where there are several writers: the leaves' numbers follow from this count.
    [row] = select_rows(connection, _LOCKED[connection.dialect.name], [(SYSTEM_ACCOUNT,)])
    account = {**row._mapping}
    before = int(account.pop("leaves"))
    # The system account has no grants that could end.
    chain = entries.chain_from(AccountRecord(**account), now(), due=False)
    occasion = Occasion(
        principal=SYSTEM,
        fingerprint=tree_root([leaf for _, leaf in leaves]),
        note=str(before + len(leaves)),
    )
    chain.add(kind, 0, chain.balance, occasion)
    entries.write_all([chain])
    rows = [(number, *leaf) for number, leaf in enumerate(leaves, start=before + 1)]
    entries.writes.add(partial(change_rows, connection, _INSERT, rows))


def seal_kept_results(entries: EntriesWriter, connection: Connection) -> None:
    """Seal what an earlier version stored, once: a ledger that has sealed anything has done so."""
    if not has_sealed(connection):
        seal(entries, connection, [*_kept(connection)], RESULT_KEPT)


def has_sealed(connection: Connection) -> bool:
    """Return whether the ledger holds any results in its chain."""
    return connection.execute(_ANY).first() is not None


def _kept(connection: Connection) -> Iterator[tuple[int, str]]:
    for page in connection.execute(_KEPT).partitions():
        numbers, *columns = zip(*page, strict=True)
        yield from zip(numbers, result_leaves(*columns), strict=True)
