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
    """Return new ids of releases: the second they are made in and 96 random bits, in hex.

    What is made together lies together in the indexes, so that a million releases
    later as few of their pages are written for each as at the beginning. The second
    is no secret: it is every release's ``created_at``. No finer: when a charge could be
    written may depend on how long another draw took.
    """
    second = f"{int(time.time()) & 0xFFFFFFFF:08x}"
    bits = os.urandom(12 * count).hex()
    return (f"rel_{second}{bits[start : start + 24]}" for start in range(0, 24 * count, 24))


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
