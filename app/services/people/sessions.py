"""Sessions of browsers: signing in with a key, and acting on a form once.

A session lives as long as its key, but at most a day, and ends after an hour in which nothing
was heard of it, or when its key has signed in :data:`MOST_OF_A_KEY` times since.

A token is 256 random bits, the id of the key and the time of its beginning. The store keeps its
HMAC under a secret of the server, which is not in the database. So a row that was written or
edited by hand signs no one in: a token that would fit it cannot be made, and who signed in and when
is read from the token.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Awaitable, Callable

import anyio.to_thread

from app.domain.problems import Problem, StoppedError
from app.services.people.keys import Caller, KeyService
from app.store import Store, UnitOfWork
from app.store.desk import SessionRecord

IDLE_S = 60 * 60
"""A session that was not used for so long is over, in seconds."""
LONGEST_S = 24 * 60 * 60
"""A session is over after so long in any case, in seconds."""
MOST_OF_A_KEY = 100
"""The most sessions of a key that are stored; all are looked through at each sign-in."""
_NOTED_EVERY_S = 60  # a page view is no write
_FORMS_KEPT_S = 30 * 24 * 60 * 60  # a form that was shown a month ago is no longer sent
_WAIT_S = 0.1  # an act of the same form may be about to end
_WAITS = 300  # half a minute in all
_TOKEN_BYTES = 32  # 256 bits: nothing to guess
_OWN_ADDRESS = re.compile(r"/(?![/\\])")
_HOME = "/desk"
_PURPOSE = b"release-desk desk session"  # a key of its own, derived from the server's secret


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
        self._clock = clock

    async def begin(self, secret: str) -> str:
        """Sign in with a key's secret; return the token of the new session.

        Raises
        ------
        Problem
            ``unauthorized``, in the same words whatever is wrong.
        """
        caller = await self._keys.recognise(secret.strip().encode())
        now = int(self._clock())
        token = f"{secrets.token_urlsafe(_TOKEN_BYTES)}.{caller.key}.{now}"
        record = SessionRecord(self._mac(token), caller.key, now, now)

        def write(work: UnitOfWork) -> None:
            work.sessions.sweep(began_before_s=now - LONGEST_S, seen_before_s=now - IDLE_S)
            work.forms.sweep(before_s=now - _FORMS_KEPT_S)
            work.sessions.keep_latest(caller.key, MOST_OF_A_KEY - 1)
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
        _, key, began_at_s = token.split(".")
        if not (now - record.seen_at_s < IDLE_S and now - int(began_at_s) < LONGEST_S):
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
