"""Opaque identifiers and timestamps."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from app.domain.ledger import SYSTEM_ACCOUNT

_ID = re.compile(r"[a-z]{2,10}_[0-9a-f]{32}")


def new_id(prefix: str) -> str:
    """Return ``prefix_`` and 128 random bits in hex; it says nothing and cannot be guessed."""
    return f"{prefix}_{secrets.token_hex(16)}"


def release_ids(count: int = 1) -> Iterator[str]:
    """Return new ids of releases: when they are made and 80 random bits, in hex.

    The time is that of Unix in 1/65536 seconds. What is made together lies
    together in the indexes, so that few of their pages are written for each,
    a million releases later too. The time is no secret: it is every release's
    ``created_at``.
    """
    moment = f"{int(time.time() * 65536) & 0xFFFFFFFFFFFF:012x}"
    bits = os.urandom(10 * count).hex()
    return (f"rel_{moment}{bits[start : start + 20]}" for start in range(0, 20 * count, 20))


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
