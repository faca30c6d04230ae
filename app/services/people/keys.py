"""Keys: who is calling, what they may see, and making and revoking what they call with.

A secret has 256 random bits and is shown once; the store keeps its SHA-256,
which needs no salt or stretching at that entropy.

A person is who releases and Idempotency-Keys belong to, and keeps them when a
key is replaced. Keys of one name that one admin makes are one person's; the
same name by another admin is somebody else's, unless that admin names the person.
No new person has a name that looks like somebody else's (:mod:`app.services.people.keys`).

Names of persons: one spelling of each, and no two that look alike.

Caps, reviews and releases identify persons by their names, letter by letter. So a
new name is spelled in one way (:func:`spelled`), and may not be taken for the name of
somebody who is there (:func:`duplicates_of`). The likeness is Unicode's, UTS #39: two names
are confusable when their skeletons are equal, as they are written or in small letters.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial

import anyio.to_thread
from confusable_homoglyphs.confusables import confusables_data

from app.domain.access import Access, Span
from app.domain.policies import Acting, Right, Role
from app.domain.problems import Problem, invalid_request
from app.store import Reader, Store, UnitOfWork
from app.store.ledger.entries import SYSTEM
from app.store.ledger.records import KeyRecord
from mechanisms.words import worded

MAX_LENGTH = 100
_MARKS = ("\u200e", "\u200f")
"""Marks of direction that the table puts around letters written from the right."""
_RANGES = (
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x115F, 0x1160),  # fillers of Hangul
    (0x17B4, 0x17B5),  # inherent vowels of Khmer
    (0x180B, 0x180F),  # selectors of Mongolian
    (0x2800, 0x2800),  # the empty pattern of Braille
    (0x2D7F, 0x2D7F),  # joiners and fillers, which draw nothing themselves
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),  # selectors of variants
    (0xFFA0, 0xFFA0),
    (0xFFFC, 0xFFFC),  # stands for a picture that is not there
    (0x1107F, 0x1107F),
    (0x11A47, 0x11A47),
    (0x11A99, 0x11A99),
    (0x16FE4, 0x16FE4),
    (0x1BC9D, 0x1BC9D),
    (0x1D159, 0x1D159),  # the head of a note that has none
    (0xE0100, 0xE01EF),
)
_INVISIBLE = frozenset(chr(code) for first, last in _RANGES for code in range(first, last + 1))
"""Letters that Python counts as printable but that are invisible."""


def spelled(name: str) -> str:
    """Return the one spelling of a name: NFKC, single spaces, none around it; case is kept.

    >>> spelled(" Ada   Lovelace ")
    'Ada Lovelace'

    Raises
    ------
    Problem
        ``invalid-request``: nothing is left of it, or not all of it can be seen.
    """
    # a line's end in the middle is no space that somebody meant
    controls = any(unicodedata.category(letter) == "Cc" for letter in name.strip())
    name = _spelled(name)
    if not name:
        raise invalid_request("name", "must hold more than spaces")
    if len(name) > MAX_LENGTH:
        raise invalid_request("name", f"must have at most {MAX_LENGTH} letters, spelled out")
    if controls or not name.isprintable() or not _INVISIBLE.isdisjoint(name):
        raise invalid_request("name", "must not hold invisible letters")
    return name


def _spelled(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).split())


def known_person(is_person: Callable[[str], bool], named: str) -> str | None:
    """Return who is meant: the person of exactly this name, or of its one spelling; None if there
    is none.

    The exact name goes first, since persons of earlier versions may be spelled in any way.
    """
    return next((each for each in (named, _spelled(named)) if is_person(each)), None)


def require_no_duplicate(name: str, persons: Iterable[str]) -> None:
    """Pass for a new person whose name resembles no other.

    Raises
    ------
    Problem
        ``name-confusable``; ``invalid-request`` where it looks like the service's own.
    """
    looks = _looks(name)
    if not looks.isdisjoint(_looks(SYSTEM)):
        raise invalid_request("name", "is the service's own; choose another one")
    for person in persons:
        if not looks.isdisjoint(_looks(person)):
            raise Problem("name-confusable", person=person)


def duplicates_of(persons: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return which other persons may be taken for each, of those whose names have lookalikes.

    >>> duplicates_of(["Ada", "Bob", "Ada "])
    {'Ada': ['Ada '], 'Ada ': ['Ada']}
    """
    alike: dict[str, set[str]] = defaultdict(set)
    for person in persons:
        for look in _looks(person):
            alike[look].add(person)
    lookalikes: dict[str, set[str]] = defaultdict(set)
    for group in alike.values():
        for person in group if len(group) > 1 else ():
            lookalikes[person] |= group - {person}
    return {person: sorted(others) for person, others in sorted(lookalikes.items())}


@lru_cache(maxsize=4_096)
def _looks(name: str) -> frozenset[str]:
    """Return what a name looks like, as it is written and in small letters.

    They are two and not one: a capital I is taken for a small l, a small i is not.
    """
    name = _spelled(name)
    return frozenset(
        (f"as written: {_skeleton(name)}", f"small: {_skeleton(name.casefold()).casefold()}")
    )


def _skeleton(name: str) -> str:
    letters = unicodedata.normalize("NFD", name)
    seen = "".join(_prototype(letter) for letter in letters if letter not in _INVISIBLE)
    return unicodedata.normalize("NFD", seen)


def _prototype(letter: str) -> str:
    """Return what a letter is confused with.

    The table lists both ways: a prototype names all that look like it, and each of
    those names only the prototype. Where two name each other the lesser one stands.
    """
    found = _homoglyphs(letter)
    if len(found) != 1:
        return letter
    other = found[0]
    return min(letter, other) if _homoglyphs(other) == [letter] else other


def _homoglyphs(letter: str) -> list[str]:
    found = [each["c"] for each in confusables_data.get(letter, ())]
    for mark in _MARKS:
        found = [each.replace(mark, "") for each in found]
    return found


# Keys: who is calling, and making and revoking what they call with


__all__ = ["BOOTSTRAP_NAME", "Caller", "KeyRecord", "KeyService", "NewKey", "secret_hash"]

_LOG = logging.getLogger(__name__)
SECRET_BYTES = 32  # 256 bits: nothing to guess, and no need of salt or stretching
BOOTSTRAP_NAME = "bootstrap"
SIGN_IN_ALLOWED = "sign_in_allowed"
"""The kind of the entry that lets a person sign in whose key, its note, was revoked."""
_MAX_SECRET_LENGTH = 1_000  # a longer one is none of ours, and is not worth hashing
_MAX_CACHED = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request."""

    key: str
    person: str
    role: Role
    hidden: frozenset[str] = frozenset()
    """The accounts whose data sets they may not see."""

    @property
    def acting(self) -> Acting:
        """Return what the ledger's entries are made by at this request."""
        return Acting(self.key, self.role.value)

    def require(self, right: Right) -> None:
        """Pass, or refuse a caller whose role has not got a right.

        Raises
        ------
        Problem
            ``forbidden``.
        """
        if not self.role.may(right):
            raise Problem("forbidden", right.needed)


_NO_SUCH = {
    "dataset": worded("There is no such data set."),
    "release": worded("There is no such release."),
    "plan": worded("There is no such study plan."),
}


class KnownAccess:
    """What the ledger says of who may see which data sets, read when it may have changed.

    What a caller may not see is refused as what is not there is, before anything of a request is
    judged.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: tuple[Access, dict[str, frozenset[str]]] | None = None
        # Whose a data set or a release is never changes, and neither is ever removed.
        self._accounts: dict[tuple[str, str, str | None], str] = {}

    def read(self, reader: Reader) -> Access:
        """Return what the ledger says in a snapshot, unless something newer is known."""
        known = self._known
        if known is not None and not self._store.shared:
            return known[0]
        return self._read(reader)

    def _read(self, reader: Reader) -> Access:
        found = reader.access.now(None if self._known is None else self._known[0])
        known = self._known  # another thread may have read a newer snapshot
        if known is None or known[0].seq < found.seq:
            self._known = found, {}
        return found

    def now(self) -> Access:
        """Return what the ledger says now."""
        known = self._known
        if known is not None and not self._store.shared:
            return known[0]
        return self.refresh()

    def refresh(self) -> Access:
        """Read it again: this process has changed it."""
        with self._store.reading() as reader:
            return self._read(reader)

    def hidden_from(self, person: str, role: Role) -> frozenset[str]:
        """Return the accounts whose data sets a person in a role may not see, as last read."""
        if self._known is None:
            self.refresh()
        assert self._known is not None
        access, hidden = self._known
        if not access.lists or role.may(Right.SEE_ALL):
            return frozenset()
        if person not in hidden:
            if len(hidden) >= _MAX_CACHED:
                hidden.clear()
            hidden[person] = access.hidden_from(person)
        return hidden[person]

    async def require(
        self,
        caller: Caller,
        ids: Mapping[str, str],
        *,
        leaving: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
    ) -> None:
        """Pass where the data set and the release of a path are there for a caller.

        A refusal leaves through ``leaving``, at a public moment.

        Raises
        ------
        Problem
            ``not-found``: there is none, or they may not see it; in the same words.
        """
        for name in _NO_SUCH.keys() & ids.keys():
            if not await self._seen(caller, name, ids[name]):
                async with leaving():
                    raise Problem("not-found", _NO_SUCH[name])

    async def _seen(self, caller: Caller, name: str, id: str) -> bool:
        person = None
        overseer = caller.role.may(Right.OVERSEE)
        if name == "plan" or (name == "release" and not overseer):
            person = caller.person
        # For whom something is hidden all look-ups are alike: what is known would be found sooner.
        known = None if caller.hidden else self._accounts.get((name, id, person))
        if known is None:
            look = partial(self.account, name, id, person, overseer=overseer)
            known = await anyio.to_thread.run_sync(look) if self._store.shared else look()
        return known is not None and known not in caller.hidden

    def account(
        self, name: str, id: str, person: str | None = None, *, overseer: bool = False
    ) -> str | None:
        """Return the account of a data set or a release, or None; of a person's releases alone.

        Of study plans it is that of those that the person may see, as an overseer or not.
        """
        if not id.isprintable():  # some databases cannot even be asked for a NUL
            return None
        with self._store.reading() as reader:
            if name == "plan":
                # Not remembered: a request of others is seen where a draft was not.
                return reader.study_plans.account_for(id, person=person or "", overseer=overseer)
            found = (
                reader.access.account_of_dataset(id)
                if name == "dataset"
                else reader.access.account_of_release(id, person=person)
            )
        if found is not None:
            if len(self._accounts) >= _MAX_CACHED:
                self._accounts.clear()
            self._accounts[name, id, person] = found
        return found


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key, and the other holders of keys that its person may be taken for.

    ``barred``: it is a revoked key of a sign-in, whose person may not sign in again.
    """

    record: KeyRecord
    duplicates: Sequence[str] = ()
    barred: bool = False


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
        self.access = KnownAccess(store)
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
            self.access.read(reader)
        if record is None:
            raise Problem("unauthorized")
        return self._valid(record)

    def _valid(self, record: KeyRecord) -> Caller:
        """Return a key's holder, and note its use; refuse one that is revoked or expired."""
        if record.revoked_at is not None or _expired(record):
            raise Problem("unauthorized")
        self._note_use(record.id)
        hidden = self.access.hidden_from(record.person, record.role)
        return Caller(key=record.id, person=record.person, role=record.role, hidden=hidden)

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
            self.access.read(reader)
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
            lookalikes = duplicates_of(work.keys.holders()).get(meant, ())
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

    async def allow_sign_in(self, key: str, *, caller: Caller) -> None:
        """Let a person sign in at their provider again, whose key of a sign-in was revoked.

        The key stays revoked. They get another one when they sign in. Once more changes nothing.

        Raises
        ------
        Problem
            ``not-found``: there is no such key, or it is not revoked or of no sign-in.
        """

        def write(work: UnitOfWork) -> None:
            of_person = work.keys.of_sign_ins(key)
            if key not in of_person:
                raise Problem("not-found", "No revoked key of a sign-in has this id.")
            allowed = {entry.note for entry in work.entries.of_system(SIGN_IN_ALLOWED)}
            for each in of_person:
                if each not in allowed:
                    work.by(caller.acting).accounts.system_entry(
                        SIGN_IN_ALLOWED, principal=caller.person, note=each
                    )

        await self._store.awrite(write)

    def list(self, span: Span) -> Sequence[KnownKey]:
        """Return keys of a span, each with the persons that its person may be taken for."""
        with self._store.reading() as reader:
            records = reader.keys.list(span)
            lookalikes = duplicates_of(reader.keys.holders())
            allowed = {entry.note for entry in reader.entries.of_system(SIGN_IN_ALLOWED)}
        return [
            KnownKey(
                record,
                lookalikes.get(record.person, ()),
                barred=record.created_by == SYSTEM
                and record.revoked_at is not None
                and record.id not in allowed,
            )
            for record in records
        ]

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
        require_no_duplicate(person, work.keys.persons())
    return person


def _earlier_person(work: UnitOfWork, named: str) -> str:
    person = known_person(work.keys.is_person, named)
    if person is None:
        raise invalid_request("person", "has no key; leave it out for a new person")
    return person


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _expired(record: KeyRecord) -> bool:
    return record.expires_at is not None and datetime.now(UTC) >= datetime.fromisoformat(
        record.expires_at
    )
