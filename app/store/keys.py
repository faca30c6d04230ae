"""API keys: who holds which role. A secret is kept as its SHA-256 only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from app.domain.problems import Problem
from app.domain.roles import Role
from app.store import tables
from app.store.accounts import AccountsWriter
from app.store.ids import new_id, now
from app.store.records import KeyRecord

_key = tables.api_key.c

_GET = select(tables.api_key).where(_key.id == bindparam("wanted"))
_BY_SECRET = select(tables.api_key).where(_key.secret_hash == bindparam("wanted"))
_REVOKE = (
    update(tables.api_key)
    .where(_key.id == bindparam("wanted"), _key.revoked_at.is_(None))
    .values(revoked_at=bindparam("at"))
)


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

    def list(self, *, before: int | None = None, limit: int = 100) -> tuple[KeyRecord, ...]:
        """Return keys, newest first, whose number is below ``before``."""
        query = select(tables.api_key).order_by(_key.number.desc()).limit(limit)
        if before is not None:
            query = query.where(_key.number < before)
        return tuple(key_of(row) for row in self._connection.execute(query))

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
        """Register a key for a person."""
        key = new_id("key")
        self._connection.execute(
            insert(tables.api_key),
            {
                "id": key,
                "name": name,
                "role": role.value,
                "person": person,
                "secret_hash": secret_hash,
                "created_by": principal,
                "created_at": now(),
                "expires_at": expires_at,
                "revoked_at": None,
            },
        )
        inserted = self._found(key)
        self._accounts.system_entry(
            "key_created", principal=principal, fingerprint=inserted.digest, note=key
        )
        return inserted

    def revoke(self, key: str, *, principal: str) -> KeyRecord:
        """Revoke a key, once and for good.

        Raises
        ------
        Problem
            ``not-found``.
        """
        changed = self._connection.execute(_REVOKE, {"wanted": key, "at": now()})
        if changed.rowcount == 1:
            self._accounts.system_entry("key_revoked", principal=principal, note=key)
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
