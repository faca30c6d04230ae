"""API keys: who holds which role. A secret is kept as its SHA-256 only."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, count
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    bindparam,
    case,
    func,
    insert,
    or_,
    select,
    update,
)

from app.domain.access import FIRST, Span, sorts_as
from app.domain.policies import Role
from app.domain.problems import Problem, invalid_request
from app.store.database import tables
from app.store.ledger.accounts import AccountsWriter
from app.store.ledger.entries import SYSTEM
from app.store.ledger.records import KeyRecord, new_id, now, spanned

_key, _OTHER = tables.api_key.c, tables.api_key.alias("other")

FACTS = [each for each in _key if each.name != "sorts_as"]
"""What a record has of its row: all but what lists are sorted by."""

_GET = select(*FACTS).where(_key.id == bindparam("wanted"))
_BY_SECRET = select(*FACTS).where(_key.secret_hash == bindparam("wanted"))
_OF_THEMSELVES = select(*FACTS).where(
    _key.name == bindparam("named"),
    _key.created_by == bindparam("named"),
    _key.role == bindparam("of"),
    _key.revoked_at.is_(None),
)
_REVOKE = (
    update(tables.api_key)
    .where(_key.id == bindparam("wanted"), _key.revoked_at.is_(None))
    .values(revoked_at=bindparam("at"))
)


_use = tables.key_use.c
_WITH_USE = select(*FACTS, _use.used_at).outerjoin(tables.key_use, _use.key == _key.id)
_USED_LATER = (
    update(tables.key_use)
    .where(_use.key == bindparam("wanted"))
    .values(used_at=case((_use.used_at < bindparam("at"), bindparam("at")), else_=_use.used_at))
)
_OTHER_ADMINS = select(func.count()).where(
    _key.role == Role.ADMIN.value,
    _key.id != bindparam("wanted"),
    _key.revoked_at.is_(None),
    or_(_key.expires_at.is_(None), _key.expires_at > bindparam("at")),
)
_PERSON_OF = (
    select(_key.person)
    .where(_key.name == bindparam("named"), _key.created_by == bindparam("by"))
    .order_by(_key.number.desc())
    .limit(1)
)
_PERSONS = select(_key.person).distinct().order_by(_key.person)
# The service itself makes no other keys.
_OF_SIGN_INS = (
    select(_key.id)
    .where(
        _key.person.in_(
            select(_OTHER.c.person).where(_OTHER.c.id == bindparam("wanted")).scalar_subquery()
        ),
        _key.created_by == SYSTEM,
        _key.revoked_at.is_not(None),
    )
    .order_by(_key.number)
)
_HOLDERS = _PERSONS.where(_key.revoked_at.is_(None))
_IS_PERSON = select(_key.number).where(_key.person == bindparam("wanted")).limit(1)


_SORTED: Mapping[str, ColumnElement[Any]] = {"name": _key.sorts_as}


class Keys:
    """Keys by id, by their secret's hash, or newest first."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, key: str) -> KeyRecord | None:
        """Return the key, revoked and expired ones too, or None."""
        return _record(self._connection.execute(_GET, {"wanted": key}).one_or_none())

    def by_secret_hash(self, secret_hash: str) -> KeyRecord | None:
        """Return the key whose secret has this SHA-256 in hex, or None."""
        found = self._connection.execute(_BY_SECRET, {"wanted": secret_hash})
        return _record(found.one_or_none())

    def list(self, span: Span = FIRST) -> tuple[KeyRecord, ...]:
        """Return keys of a span, sorted by ``name`` where it says so."""
        query = spanned(self._connection, _WITH_USE, span, _key.number, _SORTED.get(span.by))
        return tuple(key_of(row) for row in self._connection.execute(query))

    def valid_of(self, name: str, *, role: Role) -> tuple[KeyRecord, ...]:
        """Return the keys of a role that somebody made under their own name, not revoked."""
        found = self._connection.execute(_OF_THEMSELVES, {"named": name, "of": role.value})
        return tuple(key_of(row) for row in found)

    def of_sign_ins(self, key: str) -> tuple[str, ...]:
        """Return the revoked keys of sign-ins that the person of a key has, by their ids."""
        return tuple(self._connection.execute(_OF_SIGN_INS, {"wanted": key}).scalars())

    def persons(self) -> tuple[str, ...]:
        """Return everyone who has had a key."""
        return tuple(self._connection.execute(_PERSONS).scalars())

    def holders(self) -> tuple[str, ...]:
        """Return everyone who has a key that is not revoked."""
        return tuple(self._connection.execute(_HOLDERS).scalars())

    def is_person(self, person: str) -> bool:
        """Say whether a person of this name has had a key."""
        found = self._connection.execute(_IS_PERSON, {"wanted": person})
        return found.scalar_one_or_none() is not None

    def count(self) -> int:
        """Return how many keys have ever been made."""
        counted = self._connection.execute(select(func.count()).select_from(tables.api_key))
        return int(counted.scalar_one())


class KeysWriter(Keys):
    """Making and revoking keys; the system account records both."""

    __slots__ = ("_accounts",)

    def __init__(self, connection: Connection, accounts: AccountsWriter) -> None:
        super().__init__(connection)
        self._accounts = accounts

    def insert(
        self,
        *,
        name: str,
        role: Role,
        person: str,
        secret_hash: str,
        expires_at: str | None,
        principal: str,
    ) -> KeyRecord:
        """Register a key for a person.

        Raises
        ------
        Problem
            ``invalid-request``: the ledger calls what the service does by itself so.
        """
        # An entry of this principal has no key: a person called so could not be
        # distinguished from the service.
        if person.strip().casefold() == SYSTEM:
            raise invalid_request("name", "is the service's own; choose another one")
        key, at = new_id("key"), now()
        self._connection.execute(
            insert(tables.api_key),
            {
                "id": key,
                "name": name,
                "role": role.value,
                "person": person,
                "secret_hash": secret_hash,
                "created_by": principal,
                "created_at": at,
                "expires_at": expires_at,
                "revoked_at": None,
                "sorts_as": sorts_as(name),
            },
        )
        # Read back, so that the entry binds what the database holds.
        inserted = self._found(key)
        self._accounts.system_entry(
            "key_created", principal=principal, fingerprint=inserted.digest, note=key, at=at
        )
        return inserted

    def person_called(self, name: str, *, principal: str) -> str:
        """Return the person that a new key of an admin is for, who may be a new one.

        An admin's keys of one name are one person's, and the same name by another
        admin is another person's: two people may share a name, and neither may then
        see the other's releases.
        """
        found = self._connection.execute(_PERSON_OF, {"named": name, "by": principal})
        known: str | None = found.scalar_one_or_none()
        if known is not None:
            return known
        candidates = chain((name,), (f"{name} #{number}" for number in count(2)))
        return next(each for each in candidates if not self.is_person(each))

    def note_use(self, key: str, *, at: str) -> None:
        """Write down that a key was used; no part of the ledger."""
        noted = self._connection.execute(_USED_LATER, {"wanted": key, "at": at})
        if noted.rowcount == 0:
            self._connection.execute(insert(tables.key_use), {"key": key, "used_at": at})

    def revoke(self, key: str, *, principal: str) -> KeyRecord:
        """Revoke a key, once and for good.

        Raises
        ------
        Problem
            ``not-found``; ``last-admin-key``: no one could make another.
        """
        doomed = self._found(key)
        if doomed.role is Role.ADMIN and doomed.revoked_at is None:
            others = self._connection.execute(_OTHER_ADMINS, {"wanted": key, "at": now()})
            # In the writer's transaction: two admins who revoke each other's keys
            # cannot both do so.
            if others.scalar_one() == 0:
                raise Problem("last-admin-key")
        at = now()
        changed = self._connection.execute(_REVOKE, {"wanted": key, "at": at})
        if changed.rowcount == 1:
            self._accounts.system_entry("key_revoked", principal=principal, note=key, at=at)
        return self._found(key)

    def _found(self, key: str) -> KeyRecord:
        found = self.get(key)
        if found is None:
            raise Problem("not-found")
        return found


def _record(row: Row[Any] | None) -> KeyRecord | None:
    return None if row is None else key_of(row)


def key_of(row: Row[Any]) -> KeyRecord:
    """Return the key a row of the table holds."""
    return KeyRecord(**{**row._mapping, "role": Role(row.role)})
