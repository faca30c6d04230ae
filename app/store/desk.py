"""Forms that were sent: each is acted on once, however often it arrives.

A form is claimed before its act, and afterwards gets the address where the act is shown.

*Drafts of forms: what somebody has filled in and not sent.* A draft is kept in the same table. Its
form is ``draft`` and the path of the page, which is no form's key; its location is the address that
fills the form in. A person has one for each page, and so has it after signing in again.

*Sessions of browsers: which key signed in, and when it was last heard of.* A session is found by
the MAC of its token, which only the browser holds (:mod:`app.services.people.sessions`). The other
columns are for sweeping, and believed of no one.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from app.domain.ledger import sha256_hex
from app.store.database import tables

_LONGEST = 90  # the column takes 100 letters
_form = tables.desk_form.c
_THIS_FORM = (_form.person == bindparam("whose"), _form.form == bindparam("named"))
_GET_FORM = select(tables.desk_form).where(*_THIS_FORM)
_CLAIM = insert(tables.desk_form)
_DONE = update(tables.desk_form).where(*_THIS_FORM).values(location=bindparam("shown_at"))
_FORGET = delete(tables.desk_form).where(*_THIS_FORM)
_SWEEP_FORMS = delete(tables.desk_form).where(_form.at_s < bindparam("before"))


class FormRecord(NamedTuple):
    """A form that was sent; ``location`` is None until its act is done."""

    person: str
    form: str
    location: str | None
    at_s: int


class Forms:
    """What was filled in and not sent."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def draft(self, person: str, page: str) -> FormRecord | None:
        """Return what a person has filled in on a page, or None."""
        this = {"whose": person, "named": _draft(page)}
        row = self._connection.execute(_GET_FORM, this).one_or_none()
        return None if row is None else FormRecord(**row._mapping)


def _draft(page: str) -> str:
    """Return what the draft of a page is stored as: the path, or its digest where it is long."""
    return f"draft {page if len(page) <= _LONGEST else sha256_hex(page.encode())}"


class FormsWriter(Forms):
    """Claims of forms, inside a transaction of the writer."""

    __slots__ = ()

    def keep_draft(self, person: str, page: str, *, location: str, at_s: int) -> None:
        """Keep what a person has filled in on a page, in place of what was kept of it."""
        self.forget_draft(person, page)
        self._connection.execute(_CLAIM, FormRecord(person, _draft(page), location, at_s)._asdict())

    def forget_draft(self, person: str, page: str) -> None:
        """Forget what a person has filled in on a page."""
        self.forget(person, _draft(page))

    def claim(self, person: str, form: str, *, at_s: int) -> FormRecord | None:
        """Take a form, or return the record of who took it before."""
        row = self._connection.execute(_GET_FORM, {"whose": person, "named": form}).one_or_none()
        if row is not None:
            return FormRecord(**row._mapping)
        claimed = FormRecord(person, form, None, at_s)
        self._connection.execute(_CLAIM, claimed._asdict())
        return None

    def done(self, person: str, form: str, *, location: str) -> None:
        """Note where a form's act is shown."""
        self._connection.execute(_DONE, {"whose": person, "named": form, "shown_at": location})

    def forget(self, person: str, form: str) -> None:
        """Let a form be sent again: its act was refused."""
        self._connection.execute(_FORGET, {"whose": person, "named": form})

    def sweep(self, *, before_s: int) -> None:
        """Forget forms sent before a moment."""
        self._connection.execute(_SWEEP_FORMS, {"before": before_s})


# Sessions of browsers: which key signed in, and when it was last heard of

_session = tables.desk_session.c
_THIS_SESSION = _session.token_hash == bindparam("token")
_GET_SESSION = select(tables.desk_session).where(_THIS_SESSION)
_END = delete(tables.desk_session).where(_THIS_SESSION)
_BEGIN = insert(tables.desk_session)
_SEEN = update(tables.desk_session).where(_THIS_SESSION).values(seen_at_s=bindparam("at"))
_SWEEP_SESSIONS = delete(tables.desk_session).where(
    or_(
        _session.began_at_s < bindparam("began_before"),
        _session.seen_at_s < bindparam("seen_before"),
    )
)

_LATEST = (
    select(_session.token_hash)
    .where(_session.key_id == bindparam("of_key"))
    .order_by(_session.began_at_s.desc(), _session.seen_at_s.desc())
    .limit(bindparam("most"))
)
_KEEP = delete(tables.desk_session).where(
    _session.key_id == bindparam("of_key"), _session.token_hash.not_in(_LATEST)
)


class SessionRecord(NamedTuple):
    """A session; times are seconds since 1970."""

    token_hash: str
    key_id: str
    began_at_s: int
    seen_at_s: int


class Sessions:
    """What sessions there are."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, token_hash: str) -> SessionRecord | None:
        """Return a session, or None."""
        row = self._connection.execute(_GET_SESSION, {"token": token_hash}).one_or_none()
        return None if row is None else SessionRecord(**row._mapping)


class SessionsWriter(Sessions):
    """Beginning and ending sessions."""

    __slots__ = ()

    def begin(self, record: SessionRecord) -> None:
        """Keep a new session."""
        self._connection.execute(_BEGIN, record._asdict())

    def keep_latest(self, key: str, most: int) -> None:
        """Forget the sessions of a key, except the newest ``most``."""
        self._connection.execute(_KEEP, {"of_key": key, "most": most})

    def see(self, token_hash: str, *, at_s: int) -> None:
        """Note that a session was used."""
        self._connection.execute(_SEEN, {"token": token_hash, "at": at_s})

    def end(self, token_hash: str) -> None:
        """Forget a session; where there is none nothing changes."""
        self._connection.execute(_END, {"token": token_hash})

    def sweep(self, *, began_before_s: int, seen_before_s: int) -> None:
        """Forget sessions that are over."""
        times = {"began_before": began_before_s, "seen_before": seen_before_s}
        self._connection.execute(_SWEEP_SESSIONS, times)
