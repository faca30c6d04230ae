"""SHA-256 of small inputs, without blocking other threads."""

from __future__ import annotations

from hashlib import sha256

_HELD_BYTES = 2047  # the most that the library hashes without letting others run
_SMALL_BYTES = 1 << 15  # beyond, others have waited long enough


def sha256_hex(content: bytes) -> str:
    """Return the SHA-256 of bytes, in hex.

    The library lets other threads run while it hashes more than 2,047 bytes. For a
    few thousand the way back to the interpreter's lock takes longer than the hash,
    so these are given to it in pieces.
    """
    if len(content) > _SMALL_BYTES:
        return sha256(content).hexdigest()
    digest = sha256(content[:_HELD_BYTES])
    for start in range(_HELD_BYTES, len(content), _HELD_BYTES):
        digest.update(content[start : start + _HELD_BYTES])
    return digest.hexdigest()
