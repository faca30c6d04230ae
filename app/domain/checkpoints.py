"""Checkpoints: the log's size and root, signed, in the text form of C2SP ``tlog-checkpoint``.

A checkpoint is a *signed note*: three lines, an empty one, and a line for each signature::

    release-desk/ledger_0123.../1
    42
    <the root, base64>

    — release-desk/ledger_0123.../1 <four bytes of the key's name, and the signature, base64>

The first line names the log: the ledger's id and its epoch, because a reconciliation after a
restored backup may have forgotten entries, and goes on as another log. A receipt is signed by the
same key and is no note: it has no line breaks, and a note always has.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from hashlib import sha256

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
