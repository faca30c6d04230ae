"""The bodies of answers about keys."""

from __future__ import annotations

from typing import Any, Literal

from app.api.answers.paging import Answer
from app.services.people.keys import KnownKey, NewKey


class KeyAnswer(Answer):
    """A key, without its secret."""

    id: str
    """Names the key in addresses."""
    name: str
    """What its maker called it."""
    role: Literal["admin", "curator", "analyst", "metrics"]
    """What it may do; each role may also do what a later one here may."""
    expires: str | None
    """When it ends by itself (UTC); null for never."""
    created_at: str
    """When it was made (UTC)."""
    created_by: str
    """The person who made it."""
    revoked_at: str | None
    """When it was revoked (UTC); null while it is good."""
    person: str
    """Who releases made with this key belong to."""
    last_used_at: str | None
    """To the minute; null before the first use."""
    twins: list[str]
    """Other persons with a good key whose names look like this person's; earlier versions let
    them in."""


class NewKeyAnswer(KeyAnswer):
    """A key just made; the secret is shown this once."""

    secret: str
    """The text to send as `Authorization: Bearer`."""


def key_answer(known: KnownKey) -> KeyAnswer:
    """Return a key without its secret."""
    return KeyAnswer(**_key_fields(known))


def new_key_answer(made: NewKey) -> NewKeyAnswer:
    """Return a key with its secret."""
    return NewKeyAnswer(**_key_fields(made), secret=made.secret)


def _key_fields(known: KnownKey) -> dict[str, Any]:
    record = known.record
    return {
        "id": record.id,
        "name": record.name,
        "role": record.role.value,
        "expires": record.expires_at,
        "created_at": record.created_at,
        "created_by": record.created_by,
        "revoked_at": record.revoked_at,
        "person": record.person,
        "last_used_at": record.used_at,
        "twins": [*known.twins],
    }
