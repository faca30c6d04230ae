"""Forms that were sent: each is acted on once, however often it arrives.

A form is claimed before its act, and afterwards gets the address where the act is shown.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from app.store.database import tables

_form = tables.desk_form.c
_IT = (_form.person == bindparam("whose"), _form.form == bindparam("named"))
_GET = select(tables.desk_form).where(*_IT)
_CLAIM = insert(tables.desk_form)
_DONE = update(tables.desk_form).where(*_IT).values(location=bindparam("shown_at"))
_FORGET = delete(tables.desk_form).where(*_IT)
_SWEEP = delete(tables.desk_form).where(_form.at_s < bindparam("before"))


class FormRecord(NamedTuple):
    """A form that was sent; ``location`` is None until its act is done."""

    person: str
    form: str
    location: str | None
    at_s: int


class FormsWriter:
    """Claims of forms, inside a transaction of the writer."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def claim(self, person: str, form: str, *, at_s: int) -> FormRecord | None:
        """Take a form, or return the record of who took it before."""
        row = self._connection.execute(_GET, {"whose": person, "named": form}).one_or_none()
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
        self._connection.execute(_SWEEP, {"before": before_s})
