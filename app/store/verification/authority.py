"""By whom entries were made: a key, its person, and a role that allows it.

An entry says by which key and in which role it was made; the table of keys says whose each key
is, and the system account holds it to that. So a person who edits a key's role or person, acts, and
puts the row back, has left an entry that fits the key no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, Select, select, text

from app.domain.roles import SERVICE, Acting
from app.store.database import tables
from app.store.ledger.ids import shown

UNAUTHORISED = "it was not made by a key in a role that allows it"

_key, _entry = tables.api_key.c, tables.entry.c
_KEYS = select(_key.id, _key.role, _key.person)
_MAKERS = text(f"SELECT DISTINCT kind, key, role, principal FROM entry WHERE {tables.ACTS}")  # noqa: S608


def keys_of(connection: Connection) -> Mapping[str, tuple[str, str]]:
    """Return each key's role and person, by id."""
    return {row.id: (row.role, row.person) for row in connection.execute(_KEYS)}


def is_authorised(
    keys: Mapping[str, tuple[str, str]],
    kind: str,
    key: str | None,
    role: str | None,
    principal: str | None,
) -> bool:
    """Return whether an entry may have been made so; None for ``principal`` is any person.

    Of an entry of the first form nothing is known.
    """
    if role is None:
        return key is None
    if not Acting(key, role).may_make(kind):
        return False
    if role == SERVICE.role:
        return True
    known = keys.get(key or "")
    return known is not None and known[0] == role and principal in (None, known[1])


def act_faults(connection: Connection) -> Iterator[str]:
    """Yield acts (all entries but charges and results) that no key allowed."""
    keys = keys_of(connection)
    for maker in connection.execute(_MAKERS).all():
        if not is_authorised(keys, *maker):
            first = connection.execute(_first_of(**maker._asdict())).one()
            yield f"account {shown(first.account)}, entry {first.seq}: {UNAUTHORISED}"


def _first_of(**maker: str | None) -> Select[tuple[str, int]]:
    """Return the question for the first act that was made so."""
    same = (_entry[name].is_not_distinct_from(value) for name, value in maker.items())
    acts = select(_entry.account, _entry.seq).where(text(tables.ACTS), *same)
    return acts.order_by(_entry.account, _entry.seq).limit(1)
