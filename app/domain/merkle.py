"""Merkle trees of RFC 9162: one hash over many leaves, of which each can be proved to be one.

A result is a leaf: which release it answers, the entry that charged it, and the hash of its
bytes. No time is in it, so that a leaf tells no more than the answer does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from app.domain.hashing import sha256_hex
from app.domain.ledger import canonical_bytes

_LEAF, _NODE = b"\0", b"\1"
_RESULT = _LEAF + canonical_bytes("release-desk leaf 1")
_SHA256 = (64).to_bytes(8, "big") + b"t"


def result_leaves(
    releases: Iterable[str], charges: Iterable[str], results: Iterable[bytes]
) -> tuple[str, ...]:
    """Return the leaves of results: each of a release's id, its charge's hash and its bytes."""
    return tuple(
        [
            sha256(
                b"".join(
                    (
                        _RESULT, canonical_bytes(release), canonical_bytes(charge),
                        _SHA256, sha256_hex(result).encode(),
                    )
                )
            ).hexdigest()
            for release, charge, result in zip(releases, charges, results, strict=True)
        ]
    )  # fmt: skip


def tree_root(leaves: Sequence[str]) -> str:
    """Return the root of a tree of at least one leaf (RFC 9162, 2.1.1).

    An odd node at the end of a level goes up as it is, which is the tree that the standard
    splits at the largest power of two.
    """
    level = [bytes.fromhex(leaf) for leaf in leaves]
    while len(level) > 1:
        above = [
            sha256(_NODE + left + right).digest()
            for left, right in zip(level[::2], level[1::2], strict=False)
        ]
        level = above + level[len(above) * 2 :]
    return level[0].hex()
