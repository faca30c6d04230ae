"""Entries and releases a block at a time: hashes, sums, and whether each follows the one before.

A million entries are verified in seconds because Python does as little as it can
for each of them. A block is a page of rows turned into columns. Most columns of a
block hold one value, and those that do not hold texts of one length: so the
canonical bytes of an entry are a few pieces put together, most of them made once
for the block, and sums and links are compared a column at a time.

This is :func:`app.domain.ledger.hash_of_columns` and
:meth:`app.domain.ledger.Balance.may_become` a second time, in a way of their own.
A block that does not pass is looked at row by row, which finds and words the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate, islice, repeat
from typing import Any

from app.domain.ledger import MAX_TOTAL, chain_start
from app.domain.releases import plan_digest, request_fingerprint, result_digests

Column = tuple[Any, ...]
Row = tuple[Any, ...]
Place = tuple[str, int]
"""An account and a sequence number."""

RELEASE_COLUMNS = (
    "number", "id", "account", "seq", "dataset", "principal", "state", "attempts", "request",
    "plan", "fingerprint", "result", "result_hash", "created_at", "finished_at",
)  # fmt: skip
CHARGE_COLUMNS = ("kind", "release", "principal", "fingerprint", "note", "at", "hash")
ENTRY_COLUMNS = (
    "account", "seq", "epoch", "kind", "principal", "release", "idem", "fingerprint", "note",
    "amount", "total_after", "spent_after", "reserved_after", "at", "prev", "hash",
)  # fmt: skip
_HASHED = ENTRY_COLUMNS.index("hash")
_INTEGERS = frozenset(
    map(
        ENTRY_COLUMNS.index,
        ("seq", "epoch", "amount", "total_after", "spent_after", "reserved_after"),
    )
)
_GROWS = {"grant": 0, "debit": 1, "burn": 1, "reserve": 2}
"""Which of total, spent and reserved the amount is added to, for kinds that do no more."""

_SHORT = 128
# Latin-1 has a character for every byte, so lengths can be part of a text.
_TEXT = tuple(f"{chr(0) * 7}{chr(length)}t" for length in range(_SHORT))
_NUMBER = tuple(f"{chr(0) * 7}{chr(length)}i" for length in range(_SHORT))
_NOTHING = f"{chr(0) * 8}n"


def entry_hashes(columns: Sequence[Column], ledger: str) -> tuple[str, ...]:
    """Return the hashes of a block of entries, given as :data:`ENTRY_COLUMNS`."""
    count = len(columns[0])
    parts: list[Iterable[str]] = []
    same = chain_start(ledger).encode().decode("latin-1")
    for place, column in enumerate(columns[:_HASHED]):
        text, varying = _part_of(column, is_integer=place in _INTEGERS)
        same += text
        if varying is not None:
            parts += (repeat(same, count), varying)
            same = ""
    parts.append(repeat(same, count))
    contents = map("".join, zip(*parts, strict=True))
    return tuple([sha256(content.encode("latin-1")).hexdigest() for content in contents])


def _part_of(column: Column, *, is_integer: bool) -> tuple[str, Sequence[str] | None]:
    """Return what a column adds to the bytes of every entry, and what to those of each."""
    if is_one(column, column[0]):
        return _canonical(column[0], is_integer=is_integer), None
    if is_integer:
        texts: Sequence[Any] = list(map(str, column))
    elif None in column:
        return "", [_canonical(value, is_integer=False) for value in column]
    else:
        texts = column
    lengths = set(map(len, texts))
    if len(lengths) > 1 or max(lengths) >= _SHORT or not "".join(texts).isascii():
        return "", [_canonical(value, is_integer=is_integer) for value in column]
    return (_NUMBER if is_integer else _TEXT)[lengths.pop()], texts


def _canonical(value: Any, *, is_integer: bool) -> str:
    """Return a value's canonical bytes, in Latin-1."""
    if value is None:
        return _NOTHING
    if is_integer:
        digits = str(value)
        return _NUMBER[len(digits)] + digits
    text: str = value
    if len(text) < _SHORT and text.isascii():
        return _TEXT[len(text)] + text
    content = text.encode("utf-8", "surrogatepass")
    return (len(content).to_bytes(8, "big") + b"t" + content).decode("latin-1")


def all_follow(columns: Sequence[Column], last: Row | None) -> bool:
    """Return whether a block of entries of one kind in one account continues an entry.

    For kinds that only add their amount to something; of others, and of blocks
    with several, this knows nothing.
    """
    (accounts, seqs, epochs, kinds, _, _, _, _, _, amounts, totals, spents, reserveds, _,
     prevs, hashes, *_) = columns  # fmt: skip
    kind, balances = kinds[0], (totals, spents, reserveds)
    grows = _GROWS.get(kind)
    if grows is None or last is None:
        return False
    sums = tuple(islice(accumulate(amounts, initial=last[10 + grows]), 1, None))
    return (
        is_one(kinds, kind)
        and is_one(accounts, last[0])
        and is_one(epochs, last[2])
        and seqs == tuple(range(last[1] + 1, last[1] + 1 + len(seqs)))
        and prevs == (last[15], *hashes[:-1])
        and min(amounts) > 0
        and balances[grows] == sums
        and all(is_one(balances[i], last[10 + i]) for i in range(3) if i != grows)
        # What grows is furthest at the end, and a total only makes room.
        and min(last[10:13]) >= 0
        and last[11] + last[12] <= last[10]
        and spents[-1] + reserveds[-1] <= totals[-1] <= MAX_TOTAL
    )


def all_answered(columns: Sequence[Column], before: int) -> bool:
    """Return whether a block of releases is what was charged for, each at once, and answered.

    The block is given as :data:`RELEASE_COLUMNS` and :data:`CHARGE_COLUMNS`, and is to be
    numbered from after ``before``.
    """
    (numbers, ids, _, _, datasets, persons, states, attempts, requests, plans, fingerprints,
     results, hashes, created, finished, kinds, charged, charged_to, charged_for, notes,
     charged_at, _) = columns  # fmt: skip
    return (
        is_one(states, "released")
        and is_one(kinds, "debit")
        and is_one(attempts, 1)
        and numbers == tuple(range(before + 1, before + 1 + len(numbers)))
        and (ids, persons, fingerprints, created) == (charged, charged_to, charged_for, charged_at)
        and fingerprints == _each(fingerprint_of, datasets, requests)
        and notes == _each(plan_digest_of, plans)
        and None not in (*results, *finished)
        and hashes == result_digests(results, finished)
    )


@lru_cache(maxsize=64)
def fingerprint_of(dataset: str, request: str) -> str:
    """Return :func:`app.domain.releases.request_fingerprint`, which is often asked for again."""
    return request_fingerprint(dataset=dataset, request=request)


@lru_cache(maxsize=64)
def plan_digest_of(plan: str) -> str:
    """Return :func:`app.domain.releases.plan_digest`, which is often asked for again."""
    return plan_digest(plan)


def _each(function: Callable[..., str], *columns: Column) -> Column:
    """Return a function's values; long texts that are all the same are looked at once."""
    if all(is_one(column, column[0]) for column in columns):
        return (function(*(column[0] for column in columns)),) * len(columns[0])
    return tuple(map(function, *columns))


def is_one(column: Column, value: object) -> bool:
    """Return whether a column holds one value."""
    # The ends first: a column that varies mostly does so there.
    return column[0] == column[-1] == value and column.count(value) == len(column)
