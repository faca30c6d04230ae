"""Opaque identifiers and timestamps."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime


def new_id(prefix: str) -> str:
    """Return ``prefix_`` and 128 random bits in hex; it says nothing and cannot be guessed."""
    return f"{prefix}_{secrets.token_hex(16)}"


def new_ids(prefix: str, count: int) -> Iterator[str]:
    """Return as many of them, made from one read of the operating system's randomness."""
    bits = os.urandom(16 * count).hex()
    return (f"{prefix}_{bits[start : start + 32]}" for start in range(0, 32 * count, 32))


def now() -> str:
    """Return the time in UTC as ISO 8601 text with microseconds, which sorts by time."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
