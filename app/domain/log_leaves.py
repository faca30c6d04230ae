"""What a ledger's entry is in the public log: a leaf that reveals nothing until it is opened.

A leaf is the RFC 9162 hash of these parts, each with its length and type before it::

    "release-desk log leaf 1", ledger, account, seq, epoch, kind, release, amount, at, hash, hidden

``hash`` is the entry's hash in its chain. ``hidden`` is the SHA-256 of::

    "release-desk log hidden 1", seed, account, seq, principal, idem, fingerprint, note,
    total_after, spent_after, reserved_after, prev, key, role

so an opened leaf shows what was charged for which release, but neither who asked, under
which Idempotency-Key, nor what else the account has spent. The seed is 256 random bits that stay
with the service: without it no one can guess names by trial, neither on an opened leaf nor on
a closed one. The entry's own hash gives no way around: it binds the random id of a key, and the
hash of the entry before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from app.domain.ledger import Entry, canonical_bytes, column_digest
from app.domain.merkle import LEAF

LEAF_START = (LEAF + canonical_bytes("release-desk log leaf 1")).decode()
"""What the bytes of every leaf begin with."""

HIDDEN_START = canonical_bytes("release-desk log hidden 1").decode()
"""What the bytes begin with that are hashed of what is not shown."""

Columns = Sequence[str | int | None]
"""All columns of an entry, in the table's order."""


def hidden_digest(entry: Columns, seed: str) -> str:
    """Return the digest of what of an entry is not shown."""
    (account, seq, _, _, principal, _, idem, fingerprint, note, _, total, spent, reserved, _, prev,
     _, key, role) = entry  # fmt: skip
    hidden = (
        seed, account, seq, principal, idem, fingerprint, note, total, spent, reserved, prev, key,
        role,
    )  # fmt: skip
    return column_digest(HIDDEN_START, hidden).hex()


def leaf_hash(entry: Columns, *, ledger: str, seed: str) -> bytes:
    """Return the hash of an entry's leaf, 32 bytes."""
    (account, seq, epoch, kind, _, release, _, _, _, amount, _, _, _, at, _, own, _, _) = entry
    shown = (
        ledger, account, seq, epoch, kind, release, amount, at, own, hidden_digest(entry, seed),
    )  # fmt: skip
    return column_digest(LEAF_START, shown)


def columns_of(entry: Entry) -> Columns:
    """Return the columns of an entry."""
    return astuple(entry)
