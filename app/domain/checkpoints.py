"""Checkpoints: the log's size and root, signed, in the text form of C2SP ``tlog-checkpoint``.

A checkpoint is a *signed note*: three lines, an empty one, and a line for each signature::

    release-desk/ledger_0123.../1
    42
    <the root, base64>

    — release-desk/ledger_0123.../1 <four bytes of the key's name, and the signature, base64>

The first line names the log: the ledger's id and its epoch, because a reconciliation after a
restored backup may have forgotten entries, and goes on as another log. A receipt is signed by the
same key and is no note: it has no line breaks, and a note always has.

*What a ledger's entry is in the public log: a leaf that reveals nothing until it is opened.* A
leaf is the RFC 9162 hash of these parts, each with its length and type before it::

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

import base64
import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from hashlib import sha256

from app.domain.ledger import LEAF, Entry, canonical_bytes, column_digest

# What a ledger's entry is in the public log: a leaf that reveals nothing until it is opened

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


# Checkpoints: the log's size and root, signed, in the text form of C2SP ``tlog-checkpoint``

_ED25519 = b"\x01"
_DASH = "\N{EM DASH} "
_BODY = re.compile(r"([^\s+]+)\n(0|[1-9][0-9]{0,17})\n([A-Za-z0-9+/]{43}=)\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a checkpoint says: the log's name, how many leaves it has, and their root."""

    origin: str
    size: int
    root: bytes

    @property
    def body(self) -> str:
        """Return the text that is signed."""
        return f"{self.origin}\n{self.size}\n{_base64(self.root)}\n"

    def signed(self, public: bytes, signature: bytes) -> str:
        """Return the note with the signature of a key."""
        line = _base64(_key_hash(self.origin, public) + signature)
        return f"{self.body}\n{_DASH}{self.origin} {line}\n"


def origin_of(ledger: str, epoch: int) -> str:
    """Return the name of the log of a ledger's epoch."""
    return f"release-desk/{ledger}/{epoch}"


def verifier_key(origin: str, public: bytes) -> str:
    """Return a public key in the text form that tools for signed notes take."""
    key_hash = _key_hash(origin, public).hex()
    return f"{origin}+{key_hash}+{_base64(_ED25519 + public)}"


def read_checkpoint(note: str) -> tuple[Checkpoint, bytes] | None:
    """Return what a note of ours says and its signature, unchecked; None if it is none."""
    body, found, line = note.partition(f"\n{_DASH}")
    match = _BODY.fullmatch(body)
    if not found or match is None:
        return None
    origin, size, root = match.groups()
    try:
        signature = base64.b64decode(
            line.removeprefix(f"{origin} ").removesuffix("\n"), validate=True
        )
    except ValueError:
        return None
    # The first four bytes name the key.
    return Checkpoint(origin=origin, size=int(size), root=base64.b64decode(root)), signature[4:]


def _key_hash(origin: str, public: bytes) -> bytes:
    return sha256(origin.encode() + b"\n" + _ED25519 + public).digest()[:4]


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
