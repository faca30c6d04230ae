"""Budget arithmetic and the hash chain: what one ledger entry is, and what may follow it.

Amounts are integers of the account's own unit: 1e-9 epsilon (nano-epsilon) in an
account where epsilons add up, 1e-12 rho in one kept in zCDP. Nothing here depends
on which (:mod:`app.services.datasets.accounting` does). An account's balance after an entry is a
function of the balance before it, the entry's kind and its amount; the same
rule is held a second time by SQL triggers, and a third time by verification.

*The chain.* ``hash = SHA-256(tag, ledger id, epoch, every column, previous hash)``
with each field length-prefixed and typed, so that no two different entries have
the same bytes. It detects any edit made without recomputing every later hash of
the account; noting the ledger's head elsewhere covers the rest.

Merkle trees of RFC 9162: one hash over many leaves, of which each can be proved to be one.

Two kinds of things are leaves. A *result* says which release it answers, the entry that charged
it, and the hash of its bytes; no time is in it, so that a leaf reveals no more than the answer
does. An *entry* of the ledger is a leaf of the public log (:mod:`app.domain.checkpoints`).

*Proofs.* A node's audit path leads from a leaf to the root; a consistency path leads from a smaller
tree's root to that of a larger one, which begins with the same leaves. Both are lists of roots of
parts of the tree, so they are made by whatever can say ``root(first, end)`` of leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter

from app.domain.problems import BudgetExceededError, Problem, invalid_request

# SHA-256 of small inputs, without blocking other threads

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


# Budget arithmetic and the hash chain: what one ledger entry is, and what may follow it

SYSTEM_ACCOUNT = "0"
"""The account whose chain holds the system's own entries: keys, policies, archive."""

GENESIS = "0" * 64
"""The previous hash of an account's first entry."""

MAX_TOTAL = 10**18
"""The largest total of an account, in its own unit; keeps every sum inside 64 bits."""

_TAG = b"release-desk entry 2"


class EntryKind(StrEnum):
    """What an entry of a budget account does to its balance.

    The system account has entries of other kinds, which move no budget.
    """

    OPEN = "open"
    GRANT = "grant"
    EXPIRE = "expire"
    DEBIT = "debit"
    RESERVE = "reserve"
    UNRESERVE = "unreserve"
    BURN = "burn"


ASKED_FOR = frozenset({EntryKind.DEBIT.value, EntryKind.RESERVE.value})
"""The kinds that a request with a key of its own leads to."""
OF_RELEASES = ASKED_FOR | {EntryKind.UNRESERVE.value}
"""The kinds that belong to a release, and have its request's digest."""
_KINDS = frozenset(EntryKind)
_TAKING = (EntryKind.DEBIT, EntryKind.RESERVE, EntryKind.BURN)
"""The kinds that take from what remains."""


@dataclass(frozen=True, slots=True)
class Balance:
    """An account's budget in its own unit; ``spent + reserved <= total`` always."""

    total: int
    spent: int = 0
    reserved: int = 0

    @property
    def remaining(self) -> int:
        """Return what a release may still cost."""
        return self.total - self.spent - self.reserved

    def after(self, kind: EntryKind, amount: int) -> Balance:
        """Return the balance after an entry, or refuse it.

        Raises
        ------
        BudgetExceededError
            The remaining budget does not cover the amount.
        Problem
            ``invalid-request`` when a grant passes the largest total.
        ValueError
            The amount is not one this kind of entry can have, or more is given back than is
            reserved.
        """
        _check_amount(kind, amount)
        if kind in _TAKING and amount > self.remaining:
            raise BudgetExceededError(requested=amount, remaining=self.remaining)
        if kind is EntryKind.UNRESERVE and amount > self.reserved:
            raise ValueError("more than is reserved")
        match kind:
            case EntryKind.DEBIT | EntryKind.BURN:
                return Balance(self.total, self.spent + amount, self.reserved)
            case EntryKind.OPEN | EntryKind.GRANT:
                if self.total + amount > MAX_TOTAL:
                    raise invalid_request("epsilon", "goes above what an account may hold")
                return Balance(self.total + amount, self.spent, self.reserved)
            case EntryKind.EXPIRE:
                # What is spent or reserved of a grant can no longer end.
                left = max(self.spent + self.reserved, self.total - amount)
                return Balance(left, self.spent, self.reserved)
            case EntryKind.RESERVE:
                return Balance(self.total, self.spent, self.reserved + amount)
            case _:  # unreserve
                return Balance(self.total, self.spent, self.reserved - amount)

    def approved(self, amount: int) -> Balance:
        """Return the balance after the debit of something reserved: it moves to what is spent.

        Raises
        ------
        ValueError
            The amount is not one a debit can have, or more than is reserved.
        """
        _check_amount(EntryKind.DEBIT, amount)
        if amount > self.reserved:
            raise ValueError("more than is reserved")
        return Balance(self.total, self.spent + amount, self.reserved - amount)

    def may_become(self, after: Balance, kind: str, amount: int) -> bool:
        """Return whether an entry of this kind and amount leads from here to ``after``.

        A debit may take its amount from what is reserved (an approved review)
        as well as from what remains; a kind that is none of
        :class:`EntryKind` moves nothing.
        """
        if not (after.spent >= 0 and after.reserved >= 0 and after.remaining >= 0):
            return False
        try:
            known = EntryKind(kind)
        except ValueError:
            return amount == 0 and after == self
        approved = known is EntryKind.DEBIT and after.reserved != self.reserved
        try:
            return after == (self.approved(amount) if approved else self.after(known, amount))
        except (Problem, ValueError):
            return False


def may_hold(account: str, kind: str) -> bool:
    """Return whether an account has entries of a kind: only the system account records."""
    if account == SYSTEM_ACCOUNT:
        return kind == EntryKind.OPEN or kind not in _KINDS
    return kind in _KINDS


def _check_amount(kind: EntryKind, amount: int) -> None:
    # By type: isinstance would take True for 1.
    if type(amount) is not int or amount < (0 if kind is EntryKind.OPEN else 1):
        raise ValueError(f"not an amount for an entry of kind {kind}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the ledger, column by column.

    ``idem`` and ``release`` are None except on entries that belong to a
    release. ``fingerprint`` is the digest of a release's request, or of what
    a system entry records. ``note`` is public text: a grant's reason, an id,
    the digest of a release's plan. ``key`` and ``role`` are what it was made by; the
    service itself has no key.
    """

    account: str
    seq: int
    epoch: int
    kind: str
    principal: str
    release: str | None
    idem: str | None
    fingerprint: str | None
    note: str | None
    amount: int
    total_after: int
    spent_after: int
    reserved_after: int
    at: str
    prev: str
    hash: str = ""
    key: str | None = None
    role: str = "system"

    def sealed(self, ledger_id: str) -> Entry:
        """Return the entry with its hash filled in."""
        return replace(self, hash=chain_hash(self, ledger_id))


_chained_columns = attrgetter(*(field.name for field in fields(Entry) if field.name != "hash"))


def chain_hash(entry: Entry, ledger_id: str) -> str:
    """Return the entry's hash: every column but the hash itself, and the ledger's id."""
    return hash_of_columns(_chained_columns(entry), ledger_id)


def hash_of_columns(columns: Sequence[str | int | None], ledger_id: str) -> str:
    """Return the hash of an entry given as all its columns but the hash, in the table's order."""
    return column_digest(chain_start(ledger_id), columns).hex()


def column_digest(start: str, columns: Sequence[str | int | None]) -> bytes:
    """Return the SHA-256 of a start and the canonical bytes of columns.

    Short columns in ASCII are put together as one text, which is several times
    faster than column by column and gives the same bytes.
    """
    parts = [start]
    try:
        for value in columns:
            if value is None:
                parts.append(_NOTHING)
            elif isinstance(value, str):
                parts += (_TEXT_PREFIXES[len(value)], value)
            else:
                digits = str(int(value))
                parts += (_INTEGER_PREFIXES[len(digits)], digits)
        text = "".join(parts)
        if text.isascii():
            return hashlib.sha256(text.encode()).digest()
    except IndexError:
        pass  # a long column
    content = b"".join((start.encode(), *map(canonical_bytes, columns)))
    return hashlib.sha256(content).digest()


@lru_cache(maxsize=8)
def chain_start(ledger_id: str) -> str:
    """Return what the bytes of every entry begin with."""
    return (_TAG + canonical_bytes(ledger_id)).decode()


def digest_of(*parts: str | int | bytes | None) -> str:
    """Return the SHA-256, in hex, of length-prefixed and typed parts."""
    return sha256_hex(b"".join([canonical_bytes(part) for part in parts]))


def canonical_bytes(value: str | int | bytes | None) -> bytes:
    """Return length, type and content; no two different values share these bytes."""
    if isinstance(value, str):
        # A lone surrogate is not valid UTF-8, but an edited entry must still have a hash.
        kind, content = b"t", value.encode("utf-8", "surrogatepass")
    elif isinstance(value, bytes):
        kind, content = b"b", value
    elif value is None:
        kind, content = b"n", b""
    else:
        kind, content = b"i", str(int(value)).encode()
    return len(content).to_bytes(8, "big") + kind + content


def ledger_head(account_heads: Iterable[str]) -> str:
    """Return the SHA-256 over the sorted heads of all accounts."""
    return hashlib.sha256("".join(sorted(account_heads)).encode()).hexdigest()


def _short_prefixes(kind: str) -> tuple[str, ...]:
    """Return the length and type that precede a short content, by its length."""
    return tuple(f"{chr(0) * 7}{chr(length)}{kind}" for length in range(128))


_TEXT_PREFIXES = _short_prefixes("t")
_INTEGER_PREFIXES = _short_prefixes("i")
_NOTHING = canonical_bytes(None).decode()


# Merkle trees of RFC 9162: one hash over many leaves, of which each can be proved to be one


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
