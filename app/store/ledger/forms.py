"""Where the entries of the first form end, which say neither key nor role.

A ledger that an earlier version began has such entries. The first start of this version records in
the system account the last of each chain. So none can be added later: neither to a chain that
nothing has been added to since, nor as a chain of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, text

from app.domain.ledger import SECOND_FORM, digest_of
from app.store.ledger.entries import SYSTEM, EntriesWriter, Occasion

# One account after the other: a join of all may begin with every entry.
_OF_FIRST_FORM = text(
    "SELECT a.id FROM account AS a WHERE EXISTS"
    " (SELECT 1 FROM entry AS f WHERE f.account = a.id AND f.seq = 1 AND f.role IS NULL)"
    " ORDER BY a.id"
)
_LAST = text(
    "SELECT account, seq, hash FROM entry WHERE account = :of AND role IS NULL"
    " ORDER BY seq DESC LIMIT 1"
)
_BEGUN = text(
    "SELECT 1 FROM account AS a JOIN entry AS e ON e.account = a.id AND e.seq = a.seq"
    " WHERE e.role IS NOT NULL LIMIT 1"
)


def begin_second_form(entries: EntriesWriter, connection: Connection) -> None:
    """Record where the entries of the first form end, once; a new ledger has none."""
    ends = _ends_digest(connection)
    if ends is not None and not entries.of_system(SECOND_FORM):
        occasion = Occasion(principal=SYSTEM, fingerprint=ends, note="entries say key and role")
        entries.append_system(SECOND_FORM, occasion)


def form_faults(connection: Connection, recorded: Sequence[str | None]) -> Iterator[str]:
    """Fault what is of the first form, going by the digests that have been recorded."""
    ends = _ends_digest(connection)
    expected = [] if ends is None else [ends]
    begun = bool(recorded) or connection.execute(_BEGUN).first() is not None
    if begun and [*recorded] != expected:
        yield "the ledger: entries of the first form are not those that were recorded"


def _ends_digest(connection: Connection) -> str | None:
    """Return the digest of the last entries of the first form; None where there are none."""
    accounts = connection.execute(_OF_FIRST_FORM).scalars().all()
    rows = [connection.execute(_LAST, {"of": account}).one() for account in accounts]
    parts = [part for row in rows for part in row]
    return digest_of("release-desk first form 1", *parts) if rows else None
