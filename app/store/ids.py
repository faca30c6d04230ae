"""Opaque identifiers and timestamps."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime

from app.domain.ledger import SYSTEM_ACCOUNT

_ID = re.compile(r"[a-z]{2,10}_[0-9a-f]{32}")


def new_id(prefix: str) -> str:
    """Return ``prefix_`` and 128 random bits in hex; it says nothing and cannot be guessed."""
    return f"{prefix}_{secrets.token_hex(16)}"


def new_ids(prefix: str, count: int) -> Iterator[str]:
    """Return as many of them, made from one read of the operating system's randomness."""
    bits = os.urandom(16 * count).hex()
    return (f"{prefix}_{bits[start : start + 32]}" for start in range(0, 32 * count, 32))


def shown(name: object) -> str:
    """Return an id as a message may tell it: what was put in an id's place stays untold."""
    known = isinstance(name, str) and (name == SYSTEM_ACCOUNT or _ID.fullmatch(name))
    return str(name) if known else "(not an id)"


def now() -> str:
    """Return the time in UTC as ISO 8601 text with microseconds, which sorts by time."""
    return text_of(datetime.now(UTC))


def text_of(moment: datetime) -> str:
    """Return a moment as :func:`now` returns the present one."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
