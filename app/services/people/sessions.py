"""Sessions of browsers: signing in with a key, and acting on a form once.

A session lives as long as its key, but at most a day, and ends after an hour in which nothing
was heard of it, or when its key has signed in :data:`MOST_OF_A_KEY` times since.

A token is 256 random bits, the id of the key and the time of its end. The store keeps its
HMAC under a secret of the server, which is not in the database. So a row that was written or
edited by hand signs no one in: a token that would fit it cannot be made, and who signed in and when
is read from the token.

*Who has signed in at a provider* (:mod:`app.web.providers`) is its issuer and its ``sub`` claim,
which never change hands. The name of a person new to the service is another claim, such as the mail
address. It must resemble no other person's: so a provider cannot give its users the releases of
somebody else. A person who has signed in holds a key, one for each role they have been in. It has
no secret that could be known: what the store keeps in place of a secret's SHA-256 is a MAC of the
identity. It is listed, shown in the ledger and revoked like all keys. A person with a revoked one
no longer signs in, until an admin allows it again: then they get another key. Such a session ends
early: then the provider is asked again, and groups that the person has left count no more. Which
groups they are in is written down at each sign-in, for lists of access.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import anyio.to_thread

from app.domain.policies import Role
from app.domain.problems import Problem, StoppedError
from app.services.people.keys import (
    SIGN_IN_ALLOWED,
    Caller,
    KeyService,
    require_no_duplicate,
    spelled,
)
from app.store import Store, UnitOfWork
from app.store.desk import SessionRecord
from app.store.ledger.entries import SYSTEM
from app.store.ledger.records import KeyRecord
from mechanisms.words import worded

IDLE_S = 60 * 60
"""A session that was not used for so long is over, in seconds."""
LONGEST_S = 24 * 60 * 60
"""A session is over after so long in any case, in seconds."""
MOST_OF_A_KEY = 100
"""The most sessions of a key that are stored; all are looked through at each sign-in."""
_NOTED_EVERY_S = 60  # a page view is no write
_FORMS_KEPT_S = 30 * 24 * 60 * 60  # a form that was shown a month ago is no longer sent
_LANGUAGE = "language"
"""Where a choice is kept, as drafts of pages are; no page has this path."""
_WAIT_S = 0.1  # an act of the same form may be about to end
_WAITS = 300  # half a minute in all
_TOKEN_BYTES = 32  # 256 bits: nothing to guess
_OWN_ADDRESS = re.compile(r"/(?![/\\])")
_HOME = "/desk"
_PURPOSE = b"release-desk desk session"  # keys of their own, derived from the server's secret
_PURPOSE_IDENTITIES = b"release-desk identities of providers"


SIGN_IN_ROLES = (Role.ADMIN, Role.CURATOR, Role.REVIEWER, Role.ANALYST, Role.AUDITOR)
"""What somebody may be by the groups of a provider, the highest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who has signed in at a provider: ``role`` is None where no group of theirs has one.

    ``groups`` are as lists of access name them.
    """

    provider: str
    issuer: str
    subject: str
    name: str
    role: Role | None
    groups: tuple[str, ...] = ()


class SessionService:
    """Who a browser is signed in as.

    Parameters
    ----------
    store, keys
        Where sessions are kept, and who a key's holder is.
    secret
        A secret of the server, or of all servers of a database, that is stored outside of it.
    clock
        Seconds since 1970.
    """

    def __init__(
        self,
        store: Store,
        keys: KeyService,
        *,
        secret: bytes,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._keys = keys
        self._secret = hmac.digest(secret, _PURPOSE, hashlib.sha256)
        self._of_identities = hmac.digest(secret, _PURPOSE_IDENTITIES, hashlib.sha256)
        self._clock = clock

    async def begin(self, secret: str) -> str:
        """Sign in with a key's secret; return the token of the new session.

        Raises
        ------
        Problem
            ``unauthorized``, in the same words whatever is wrong.
        """
        caller = await self._keys.recognise(secret.strip().encode())
        return await self._begin_of(caller.key)

    async def begin_for(self, identity: Identity, *, longest_s: int) -> str:
        """Sign in whom a provider vouches for, for so many seconds; return the session's token.

        Raises
        ------
        Problem
            ``sign-in-failed``: none of their groups has a role, or an admin has revoked a key of
            theirs; ``name-confusable``: somebody else has the name that the provider gives.
        """
        key = await self._store.awrite(lambda work: self._key_of(work, identity))
        await anyio.to_thread.run_sync(self._keys.access.refresh)
        if isinstance(key, Problem):
            raise key
        return await self._begin_of(key, longest_s=longest_s)

    def _key_of(self, work: UnitOfWork, identity: Identity) -> str | Problem:
        """Return the key of an identity in its role; sessions of its other roles end.

        A refusal is returned, as what was written before it stays.
        """
        allowed = {entry.note for entry in work.entries.of_system(SIGN_IN_ALLOWED)}
        found = {role: self._keys_in(work, identity, role) for role in SIGN_IN_ROLES}
        known = [each for keys in found.values() for each in keys]
        if known:
            _keep_groups(work, known[0].person, identity)
        known = [each for each in known if each.id not in allowed]
        for each in known:
            if each.role is not identity.role or each.revoked_at is not None:
                work.sessions.keep_latest(each.id, 0)
        if identity.role is None:
            return Problem(
                "sign-in-failed",
                worded(
                    "No group of yours at %(provider)s has a role here.", provider=identity.provider
                ),
            )
        if any(each.revoked_at is not None for each in known):
            return Problem("sign-in-failed", "An admin has ended your access.")
        own = found[identity.role]
        if own and own[-1].id not in allowed:
            return own[-1].id
        every = [each for keys in found.values() for each in keys]
        if every:
            person = every[0].person
        else:
            person = spelled(identity.name)
            require_no_duplicate(person, work.keys.persons())
            _keep_groups(work, person, identity)
        made = work.keys.insert(
            name=f"Sign-in: {identity.provider}",
            role=identity.role,
            person=person,
            secret_hash=self._mac_of(identity, identity.role, len(own)),
            expires_at=None,
            principal=SYSTEM,  # no admin is called so, and none makes keys for its persons by it
        )
        return made.id

    def _keys_in(self, work: UnitOfWork, identity: Identity, role: Role) -> Sequence[KeyRecord]:
        """Return the keys that an identity has had in a role: more than one once let in again."""
        found: list[KeyRecord] = []
        while True:
            mac = self._mac_of(identity, role, len(found))
            if (key := work.keys.by_secret_hash(mac)) is None:
                return found
            found.append(key)

    def _mac_of(self, identity: Identity, role: Role, earlier: int) -> str:
        # A MAC and no hash: who sends the text that a plain SHA-256 was made of would be let in.
        named = [identity.issuer, identity.subject, role.value]
        content = json.dumps([*named, earlier] if earlier else named).encode()
        return hmac.new(self._of_identities, content, hashlib.sha256).hexdigest()

    async def _begin_of(self, key: str, *, longest_s: int = LONGEST_S) -> str:
        now = int(self._clock())
        over = now + min(longest_s, LONGEST_S)
        token = f"{secrets.token_urlsafe(_TOKEN_BYTES)}.{key}.{over}"
        record = SessionRecord(self._mac(token), key, now, now)

        def write(work: UnitOfWork) -> None:
            work.sessions.sweep(began_before_s=now - LONGEST_S, seen_before_s=now - IDLE_S)
            work.forms.sweep(before_s=now - _FORMS_KEPT_S)
            work.sessions.keep_latest(key, MOST_OF_A_KEY - 1)
            work.sessions.begin(record)

        await self._store.awrite(write)
        return token

    async def caller(self, token: str) -> Caller:
        """Return who a session is.

        Raises
        ------
        Problem
            ``unauthorized``: it is over, its key is revoked or expired, or there is none.
        """
        return await anyio.to_thread.run_sync(self._caller, token)

    def _caller(self, token: str) -> Caller:
        hashed, now = self._mac(token), int(self._clock())
        with self._store.reading() as reader:
            record = reader.sessions.get(hashed)
        if record is None:
            raise Problem("unauthorized")
        # From the token, which the MAC vouches for. Those columns of the row are for sweeping.
        _, key, over_at_s = token.split(".")
        if not (now - record.seen_at_s < IDLE_S and now < int(over_at_s)):
            raise Problem("unauthorized")
        caller = self._keys.holder(key)
        if now - record.seen_at_s >= _NOTED_EVERY_S:
            self._store.write_later(lambda work: work.sessions.see(hashed, at_s=now))
        return caller

    async def end(self, token: str) -> None:
        """Sign out; a session that is over already stays so."""
        hashed = self._mac(token)
        await self._store.awrite(lambda work: work.sessions.end(hashed))

    def _mac(self, token: str) -> str:
        """Return what the store keeps of a token."""
        return hmac.new(self._secret, token.encode(), hashlib.sha256).hexdigest()

    def keep_draft(self, page: str, address: str, *, caller: Caller) -> None:
        """Keep what somebody has filled in on a page, as the address that fills it in again.

        Only they see it. It is kept for 30 days, and may be lost by a crash in its first moments.
        """
        now = int(self._clock())
        self._store.write_later(
            lambda work: work.forms.keep_draft(caller.person, page, location=address, at_s=now)
        )

    def draft(self, page: str, *, caller: Caller) -> tuple[str, str] | None:
        """Return the address that fills a page in as somebody left it, and when that was (UTC)."""
        with self._store.reading() as reader:
            found = reader.forms.draft(caller.person, page)
        if found is None or found.location is None or not found.location.startswith(f"{page}?"):
            return None
        if found.at_s < self._clock() - _FORMS_KEPT_S:
            return None
        at = datetime.fromtimestamp(found.at_s, UTC)
        return found.location, at.strftime("%Y-%m-%dT%H:%M:%SZ")

    def keep_language(self, language: str, *, caller: Caller) -> None:
        """Keep the language in which somebody reads pages, for 30 days after their last sign-in."""
        now = int(self._clock())
        self._store.write_later(
            lambda work: work.forms.keep_draft(
                caller.person, _LANGUAGE, location=language, at_s=now
            )
        )

    def language(self, *, caller: Caller) -> str:
        """Return the language that somebody chose last, or an empty text."""
        with self._store.reading() as reader:
            found = reader.forms.draft(caller.person, _LANGUAGE)
        return (found and found.location) or ""

    async def forget_draft(self, page: str, *, caller: Caller) -> None:
        """Forget what somebody has filled in on a page."""
        await self._store.awrite(lambda work: work.forms.forget_draft(caller.person, page))

    async def once(self, form: str, *, caller: Caller, act: Callable[[], Awaitable[str]]) -> str:
        """Act on a form, unless it was acted on; return the address where the act is shown.

        ``form`` is the key that was made when the form was shown. A form whose act was refused or
        stopped may be sent again. One whose act was cut off by a crash is not acted on again.

        Raises
        ------
        Problem
            What the act raises; ``busy``: an earlier sending of it has not ended.
        """
        person = caller.person
        shown = await self._shown(person, form)
        if shown is not None:
            return shown
        try:
            location = await act()
        except (Problem, StoppedError):
            await self._store.awrite(lambda work: work.forms.forget(person, form))
            raise
        await self._store.awrite(lambda work: work.forms.done(person, form, location=location))
        return location

    async def _shown(self, person: str, form: str) -> str | None:
        """Return where an earlier sending's act is shown; None: the act is this one's to do."""
        now = int(self._clock())
        for _ in range(_WAITS):
            earlier = await self._store.awrite(
                lambda work: work.forms.claim(person, form, at_s=now)
            )
            if earlier is None:
                return None
            if earlier.location is not None:
                # an edited row leads to no other site
                return earlier.location if _OWN_ADDRESS.match(earlier.location) else _HOME
            await asyncio.sleep(_WAIT_S)
        raise Problem("busy", "The same form was sent before, and its act has not ended.")


def _keep_groups(work: UnitOfWork, person: str, identity: Identity) -> None:
    """Write down which groups a person is in at their provider, where that has changed."""
    if work.access.now().given.get(person, ()) != identity.groups:
        work.access.give_groups(person, [*identity.groups], principal=SYSTEM)
