"""Opaque identifiers and timestamps."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b

from app.domain.ledger import SYSTEM_ACCOUNT

_ID = re.compile(r"[a-z]{2,10}_[0-9a-f]{32}")
_NEIGHBOURS = 256  # ids made one after the other begin alike, and so share pages of the index
# Of this process: no one outside it learns which neighbourhood a number is in.
_KEY = os.urandom(16)


def new_id(prefix: str) -> str:
    """Return ``prefix_`` and 128 random bits in hex; it says nothing and cannot be guessed."""
    return f"{prefix}_{secrets.token_hex(16)}"


def release_ids(first: int, count: int = 1) -> Iterator[str]:
    """Return ids of releases, numbered from ``first`` on: 32 bits of a neighbourhood, 96 random.

    What is made together lies together in the indexes, so that a million releases
    later as few of their pages are written for each as at the beginning. Neither a time nor
    how many came before can be read from an id: when a charge could be written may depend on
    how long another draw took. Many ids together reveal which were made close to each other.
    """
    bits = os.urandom(12 * count).hex()
    for place in range(count):
        shared = _neighbourhood((first + place) // _NEIGHBOURS)
        yield f"rel_{shared}{bits[24 * place : 24 * place + 24]}"


@lru_cache(maxsize=4)
def _neighbourhood(number: int) -> str:
    """Return what the ids of one neighbourhood begin with, in this process."""
    return blake2b(number.to_bytes(8), key=_KEY, digest_size=4).hexdigest()


def shown(name: object) -> str:
    """Return an id as a message may show it: another text in an id's place is not shown."""
    known = isinstance(name, str) and (name == SYSTEM_ACCOUNT or _ID.fullmatch(name))
    return str(name) if known else "(not an id)"


def now() -> str:
    """Return the time in UTC as ISO 8601 text with microseconds, which sorts by time."""
    return text_of(datetime.now(UTC))


def text_of(moment: datetime) -> str:
    """Return a moment as :func:`now` returns the present one."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
