"""The public log of a small ledger, and a stranger who checks it by the standard's own words."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.services.releases.receipts import Receipts
from app.services.transparency.log import LogService
from tests.app.ledgers import Ledger


def log_of(ledger: Ledger) -> LogService:
    """Return the service that keeps a ledger's log; it runs when it is asked to."""
    return LogService(ledger.store, Receipts(ledger.store).keys, every_s=3600)


def node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


def signed(note: str, verifier: str) -> tuple[str, int, bytes]:
    """Return a checkpoint's name, size and root, once the key has signed it."""
    name, key_hash, key = verifier.split("+", 2)
    kind, public = base64.b64decode(key)[:1], base64.b64decode(key)[1:]
    assert kind == b"\1"
    assert sha256(name.encode() + b"\n" + kind + public).digest()[:4].hex() == key_hash
    body, _, line = note.rpartition("\n\n")
    dash, signer, signature = line.split(" ")
    assert (dash, signer) == ("\N{EM DASH}", name)
    decoded = base64.b64decode(signature)
    assert f"{base64.b64encode(decoded).decode()}\n" == signature
    assert decoded[:4].hex() == key_hash
    Ed25519PublicKey.from_public_bytes(public).verify(decoded[4:], f"{body}\n".encode())
    origin, size, root = body.split("\n")
    return origin, int(size), base64.b64decode(root)


def root_of_path(index: int, size: int, leaf: bytes, path: Sequence[bytes]) -> bytes | None:
    """Return the root that an audit path leads to (RFC 9162, 2.1.3.2), or None."""
    first, second, root = index, size - 1, leaf
    for each in path:
        if second == 0:
            return None
        if first & 1 or first == second:
            root = node(each, root)
            while not first & 1 and first:
                first, second = first >> 1, second >> 1
        else:
            root = node(root, each)
        first, second = first >> 1, second >> 1
    return root if second == 0 else None


def is_consistent(
    before: int, old_root: bytes, size: int, new_root: bytes, path: Sequence[bytes]
) -> bool:
    """Return whether a path shows that the larger tree begins with the other (2.1.4.2)."""
    if before == size:
        return not path and old_root == new_root
    parts = [old_root, *path] if before & (before - 1) == 0 else [*path]
    if not parts:
        return False
    first, second = before - 1, size - 1
    while first & 1:
        first, second = first >> 1, second >> 1
    old = new = parts[0]
    for each in parts[1:]:
        if second == 0:
            return False
        if first & 1 or first == second:
            old, new = node(each, old), node(each, new)
            while not first & 1 and first:
                first, second = first >> 1, second >> 1
        else:
            new = node(new, each)
        first, second = first >> 1, second >> 1
    return (old, new, second) == (old_root, new_root, 0)
