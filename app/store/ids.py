"""Opaque identifiers and timestamps."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime


def new_id(prefix: str) -> str:
    """Return ``prefix_`` and 128 random bits in hex; it says nothing and cannot be guessed."""
    return f"{prefix}_{secrets.token_hex(16)}"


def now() -> str:
    """Return the time in UTC as ISO 8601 text with microseconds, which sorts by time."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
