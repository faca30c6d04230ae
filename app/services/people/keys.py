"""Keys: who is calling, and making and revoking what they call with.

A secret has 256 random bits and is shown once; the store keeps its SHA-256,
which needs no salt or stretching at that entropy.

A person is who releases and Idempotency-Keys belong to, and keeps them when a
key is replaced. Keys of one name that one admin makes are one person's; the
same name by another admin is somebody else's, unless that admin names the person.
No new person has a name that looks like somebody else's (:mod:`app.services.people.names`).
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio.to_thread

from app.domain.policies import Acting, Role
from app.domain.problems import Problem, invalid_request
from app.services.people.names import known_person, require_no_twin, spelled, twins_of
from app.store import Store, UnitOfWork
from app.store.ledger.records import KeyRecord

__all__ = ["BOOTSTRAP_NAME", "Caller", "KeyRecord", "KeyService", "NewKey", "secret_hash"]

_LOG = logging.getLogger(__name__)
SECRET_BYTES = 32  # 256 bits: nothing to guess, and no need of salt or stretching
BOOTSTRAP_NAME = "bootstrap"
_MAX_SECRET_LENGTH = 1_000  # a longer one is none of ours, and is not worth hashing
_MAX_CACHED = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request."""

    key: str
    person: str
    role: Role

    @property
    def acting(self) -> Acting:
        """Return what the ledger's entries are made by at this request."""
        return Acting(self.key, self.role.value)

    def require(self, role: Role) -> None:
        """Pass, or refuse a caller whose role does not include ``role``.

        Raises
        ------
        Problem
            ``forbidden``.
        """
        if not self.role.may_act_as(role):
            raise Problem("forbidden", f"This needs the role {role}.")


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key, and the other holders of keys that its person may be taken for."""

    record: KeyRecord
    twins: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class NewKey(KnownKey):
    """A key just made, with its secret."""

    secret: str = field(kw_only=True)


def secret_hash(secret: bytes) -> str:
    """Return the SHA-256 of a secret, in hex."""
    return hashlib.sha256(secret).hexdigest()


class KeyService:
    """Authentication, and the life of keys.

    Found keys are remembered in this process, unless another one may revoke them;
    a revocation forgets before it answers, and expiry is judged at every use.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[str, KeyRecord] = {}
        self._noted: dict[str, int] = {}

    def authenticate(self, secret: bytes) -> Caller:
        """Return who holds a secret.

        To be called on the event loop, where :meth:`revoke` ends too: a look-up
        that began before a revocation can then not be remembered after it.

        Raises
        ------
        Problem
            ``unauthorized``, in the same words whatever is wrong.
        """
        if not 1 <= len(secret) <= _MAX_SECRET_LENGTH:
            raise Problem("unauthorized")
        digest = secret_hash(secret)
        known = None if self._store.shared else self._found.get(digest)
        record = known or self._look_up(digest)
        if record is None or not hmac.compare_digest(record.secret_hash, digest):
            raise Problem("unauthorized")
        return self._valid(record)

    def holder(self, key: str) -> Caller:
        """Return who holds a key that is valid still, by its id.

        Raises
        ------
        Problem
            ``unauthorized``.
        """
        with self._store.reading() as reader:
            record = reader.keys.get(key)
        if record is None:
            raise Problem("unauthorized")
        return self._valid(record)

    def _valid(self, record: KeyRecord) -> Caller:
        """Return a key's holder, and note its use; refuse one that is revoked or expired."""
        if record.revoked_at is not None or _expired(record):
            raise Problem("unauthorized")
        self._note_use(record.id)
        return Caller(key=record.id, person=record.person, role=record.role)

    def _note_use(self, key: str) -> None:
        """Record the use of a key once a minute; no request waits for it."""
        minute = int(time.time()) // 60
        if self._noted.get(key) == minute:
            return
        if len(self._noted) >= _MAX_CACHED:
            self._noted.clear()
        self._noted[key] = minute
        at = _utc(datetime.fromtimestamp(minute * 60, UTC))
        self._store.write_later(lambda work: work.keys.note_use(key, at=at))

    async def recognise(self, secret: bytes) -> Caller:
        """Do what :meth:`authenticate` does, without holding the event loop up for a server.

        Raises
        ------
        Problem
            ``unauthorized``.
        """
        if self._store.shared:
            return await anyio.to_thread.run_sync(self.authenticate, secret)
        return self.authenticate(secret)

    def _look_up(self, digest: str) -> KeyRecord | None:
        with self._store.reading() as reader:
            record = reader.keys.by_secret_hash(digest)
        # only keys that exist are remembered, so guesses cannot fill the memory
        if record is not None and not self._store.shared:
            if len(self._found) >= _MAX_CACHED:
                self._found.clear()
            self._found[digest] = record
        return record

    def get(self, key: str) -> KeyRecord:
        """Return a key by its id.

        Raises
        ------
        Problem
            ``not-found``.
        """
        with self._store.reading() as reader:
            record = reader.keys.get(key)
        if record is None:
            raise Problem("not-found")
        return record

    async def create(
        self,
        *,
        name: str,
        role: Role,
        expires: datetime | None,
        caller: Caller,
        person: str | None = None,
    ) -> NewKey:
        """Make a key for a person: ``person``, or the one this admin has called ``name``.

        Raises
        ------
        Problem
            ``invalid-request``: there is no such ``person``, or ``name`` is none or the
            service's own; ``name-confusable``.
        """
        name = spelled(name)
        secret = f"rd_{secrets.token_urlsafe(SECRET_BYTES)}"
        expires_at = None if expires is None else _utc(expires)

        def make(work: UnitOfWork) -> NewKey:
            meant = (
                _person_for(work, name, principal=caller.person)
                if person is None
                else _earlier_person(work, person)
            )
            record = work.by(caller.acting).keys.insert(
                name=name,
                role=role,
                person=meant,
                secret_hash=secret_hash(secret.encode()),
                expires_at=expires_at,
                principal=caller.person,
            )
            lookalikes = twins_of(work.keys.holders()).get(meant, ())
            return NewKey(record, lookalikes, secret=secret)

        return await self._store.awrite(make)

    async def revoke(self, key: str, *, caller: Caller) -> None:
        """Revoke a key; the next request that carries it is refused.

        Raises
        ------
        Problem
            ``not-found``, ``last-admin-key``.
        """
        record = await self._store.awrite(
            lambda work: work.by(caller.acting, urgent=True).keys.revoke(
                key, principal=caller.person
            )
        )
        self._found[record.secret_hash] = record

    def list(self, *, before: int | None, limit: int) -> Sequence[KnownKey]:
        """Return keys, newest first, each with the persons that its person may be taken for."""
        with self._store.reading() as reader:
            records = reader.keys.list(before=before, limit=limit)
            lookalikes = twins_of(reader.keys.holders())
        return [KnownKey(record, lookalikes.get(record.person, ())) for record in records]

    def bootstrap(self, secret: str | None) -> str | None:
        """Make sure of a first admin key; return its secret if it had to be made up.

        A given secret becomes an admin key unless it is one already, or was
        one that has been revoked. It replaces the bootstrap keys before it, which
        are revoked. Without a given secret one is made only while the service
        has no key at all. The log has a line for each key that is made, replaced or not accepted.
        """
        given = secret or f"rd_{secrets.token_urlsafe(SECRET_BYTES)}"
        digest = secret_hash(given.encode())

        # In the writer, so that of several processes that start at once only one makes a key.
        def make_sure(work: UnitOfWork) -> _Bootstrap:
            if secret is None and work.keys.count() > 0:
                return _Bootstrap()
            if (known := work.keys.by_secret_hash(digest)) is not None:
                return _Bootstrap(known=known)
            replaced = work.keys.valid_of(BOOTSTRAP_NAME, role=Role.ADMIN)
            made = work.keys.insert(
                name=BOOTSTRAP_NAME,
                role=Role.ADMIN,
                person=BOOTSTRAP_NAME,
                secret_hash=digest,
                expires_at=None,
                principal=BOOTSTRAP_NAME,
            )
            ended = [work.keys.revoke(each.id, principal=BOOTSTRAP_NAME) for each in replaced]
            return _Bootstrap(made=made, replaced=ended)

        found = self._store.write(make_sure)
        found.log()
        self._found.update({each.secret_hash: each for each in found.replaced})
        return given if found.made is not None and secret is None else None


@dataclass(frozen=True, slots=True)
class _Bootstrap:
    """What came of a first admin key: one that was known before, or a new one for others."""

    known: KeyRecord | None = None
    made: KeyRecord | None = None
    replaced: Sequence[KeyRecord] = ()

    def log(self) -> None:
        """Say what has happened to which key."""
        if self.known is not None and self.known.revoked_at is not None:
            _LOG.warning(
                "the bootstrap key of the settings is revoked, and opens nothing",
                extra={"key": self.known.id},
            )
        for key in self.replaced:
            _LOG.warning("a bootstrap key was replaced and is revoked", extra={"key": key.id})
        if self.made is not None:
            _LOG.warning("a bootstrap key was made", extra={"key": self.made.id})


def _person_for(work: UnitOfWork, name: str, *, principal: str) -> str:
    """Return the person whom an admin calls ``name``; a new name must resemble no other."""
    person = work.keys.person_called(name, principal=principal)
    if not work.keys.is_person(person):
        require_no_twin(person, work.keys.persons())
    return person


def _earlier_person(work: UnitOfWork, named: str) -> str:
    person = known_person(work.keys, named)
    if person is None:
        raise invalid_request("person", "has no key; leave it out for a new person")
    return person


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _expired(record: KeyRecord) -> bool:
    return record.expires_at is not None and datetime.now(UTC) >= datetime.fromisoformat(
        record.expires_at
    )
