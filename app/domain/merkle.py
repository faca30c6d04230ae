"""Merkle trees of RFC 9162: one hash over many leaves, of which each can be proved to be one.

Two kinds of things are leaves. A *result* says which release it answers, the entry that charged
it, and the hash of its bytes; no time is in it, so that a leaf reveals no more than the answer
does. An *entry* of the ledger is a leaf of the public log (:mod:`app.domain.checkpoints`).

*Proofs.* A node's audit path leads from a leaf to the root; a consistency path leads from a smaller
tree's root to that of a larger one, which begins with the same leaves. Both are lists of roots of
parts of the tree, so they are made by whatever can say ``root(first, end)`` of leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

from app.domain.ledger import canonical_bytes, sha256_hex

LEAF = b"\0"
"""What the bytes of every leaf begin with."""

HASH_BYTES = 32

_NODE = b"\1"
_RESULT = LEAF + canonical_bytes("release-desk leaf 1")
# A text of 64 characters in canonical form, up to its characters
_SHA256 = (64).to_bytes(8, "big") + b"t"

RootOf = Callable[[int, int], bytes]
"""Returns the root over the leaves from one number up to, and without, another."""


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
    """Return the root of a tree of at least one leaf, in hex (RFC 9162, 2.1.1)."""
    return root_over([bytes.fromhex(leaf) for leaf in leaves]).hex()


def root_over(level: Sequence[bytes]) -> bytes:
    """Return the root of a tree of at least one leaf.

    An odd node at the end of a level goes up as it is, which is the tree that the standard
    splits at the largest power of two. So the nodes may as well be roots of full trees of
    one size, the last of a smaller one.
    """
    while len(level) > 1:
        above = [
            sha256(_NODE + left + right).digest()
            for left, right in zip(level[::2], level[1::2], strict=False)
        ]
        level = [*above, *level[len(above) * 2 :]]
    return level[0]


class Peaks:
    """A tree that grows leaf by leaf, of which only the roots of its full parts are kept.

    Parameters
    ----------
    size
        How many leaves there are.
    roots
        The roots of its full parts, the largest first: one for each bit that is set in the size.
    """

    __slots__ = ("roots", "size")

    def __init__(self, size: int = 0, roots: Sequence[bytes] = ()) -> None:
        self.size = size
        self.roots = [*roots]

    def add(self, leaf: bytes) -> None:
        """Add the hash of the next leaf."""
        roots, before = self.roots, self.size
        # As 1 is added to a binary number: each set bit at the end is joined and carried.
        while before & 1:
            leaf = sha256(_NODE + roots.pop() + leaf).digest()
            before >>= 1
        roots.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """Return the root over all leaves, of which there is at least one."""
        above, *lower = reversed(self.roots)
        for root in lower:
            above = sha256(_NODE + root + above).digest()
        return above


def audit_path(index: int, size: int, root_of: RootOf) -> list[bytes]:
    """Return the audit path of a leaf in the tree of ``size`` leaves (RFC 9162, 2.1.3.1)."""
    return _path(index, 0, size, root_of)


def consistency_path(before: int, size: int, root_of: RootOf) -> list[bytes]:
    """Return what leads from the root of the first leaves to that of more (RFC 9162, 2.1.4.1).

    ``0 < before <= size``; for equal sizes there is nothing to prove.
    """
    return _subproof(before, 0, size, root_of, whole=True)


def _path(index: int, first: int, end: int, root_of: RootOf) -> list[bytes]:
    if end - first == 1:
        return []
    middle = _split(first, end)
    if index < middle:
        return [*_path(index, first, middle, root_of), root_of(middle, end)]
    return [*_path(index, middle, end, root_of), root_of(first, middle)]


def _subproof(before: int, first: int, end: int, root_of: RootOf, *, whole: bool) -> list[bytes]:
    if before == end:
        return [] if whole else [root_of(first, end)]
    middle = _split(first, end)
    if before <= middle:
        return [*_subproof(before, first, middle, root_of, whole=whole), root_of(middle, end)]
    return [*_subproof(before, middle, end, root_of, whole=False), root_of(first, middle)]


def _split(first: int, end: int) -> int:
    """Return where the standard splits: the largest power of two below the count."""
    return first + (1 << (end - first - 1).bit_length() - 1)
