"""The note of how far `audit verify` has found a ledger sound, from which the next run goes on."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from app.store.verification.marks import Mark
from app.store.verification.verify import Verification

VERIFIED = "verified.json"
"""The note's name in the data directory."""

LARGE = 5_000
"""A ledger of no more entries is always walked from its beginning, which takes no time."""


def earlier_mark(note: Path, *, signed: bool) -> Mark | None:
    """Return where a verification may go on from, with signatures or without; None: nowhere."""
    try:
        mark = Mark.of_json(note.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    # A walk without the keys has not looked at receipts: one with them starts again.
    if mark is None or mark.size <= LARGE or (signed and not mark.signed):
        return None
    return mark


def keep_mark(note: Path, found: Verification) -> None:
    """Note how far a ledger was found sound; where a note cannot be written, there is none."""
    if found.mark is not None and found.mark.size > LARGE:
        fresh = note.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            fresh.touch(mode=0o600)
            fresh.write_text(found.mark.to_json(), "utf-8")
            fresh.replace(note)  # at once: no process reads half a note
