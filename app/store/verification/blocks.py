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

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate, chain, count, islice, repeat
from operator import methodcaller
from typing import Any, NamedTuple

from sqlalchemy import Connection

from app.domain.checkpoints import HIDDEN_START, LEAF_START
from app.domain.ledger import (
    ASKED_FOR,
    MAX_TOTAL,
    OF_RELEASES,
    chain_start,
    may_hold,
    result_leaves,
)
from app.domain.releases import plan_digest, request_fingerprint, result_digests

# Rows as the driver gives them, a page at a time, which a walk over millions of them needs

PAGE = 1000
_WALKS = count()
_NAMED = re.compile(r":(\w+)")


def rows(
    connection: Connection, query: str, values: Mapping[str, Any], *, page: int = PAGE
) -> Iterator[Row]:
    """Yield the rows of a query one by one."""
    return chain.from_iterable(blocks(connection, query, values, page=page))


def blocks(
    connection: Connection, query: str, values: Mapping[str, Any], *, page: int = PAGE
) -> Iterator[Sequence[Row]]:
    """Yield the driver's own tuples, a page in memory at a time, of one transaction's snapshot."""
    if not connection.in_transaction():
        connection.begin()
    driver = connection.connection.dbapi_connection
    assert driver is not None
    if connection.dialect.name == "sqlite":
        cursor = driver.cursor()
    else:
        # A named one stays on the server, which then sends no more than is asked for.
        cursor = driver.cursor(f"walk_{next(_WALKS)}")
        query = _NAMED.sub(r"%(\1)s", query)
    try:
        cursor.execute(query, values)
        while block := cursor.fetchmany(page):
            yield block
    finally:
        cursor.close()


# Entries and releases a block at a time: hashes, sums, and whether each follows the one before

Column = tuple[Any, ...]
Row = tuple[Any, ...]


class EntryRow(NamedTuple):
    """An entry as the driver gives it: of any type, for a database may hold what it likes.

    A block of entries turned into columns has one of these for all of them.
    """

    account: Any
    seq: Any
    epoch: Any
    kind: Any
    principal: Any
    release: Any
    idem: Any
    fingerprint: Any
    note: Any
    amount: Any
    total_after: Any
    spent_after: Any
    reserved_after: Any
    at: Any
    prev: Any
    hash: Any
    key: Any
    role: Any

    @property
    def chained(self) -> Row:
        """Return what a hash is made of: all columns but the hash."""
        return *self[:_HASH], *self[_HASH + 1 :]


class ReleaseRow(NamedTuple):
    """A release as the driver gives it, and the entry that charged it."""

    number: Any
    id: Any
    account: Any
    seq: Any
    dataset: Any
    principal: Any
    state: Any
    attempts: Any
    request: Any
    plan: Any
    fingerprint: Any
    result: Any
    result_hash: Any
    created_at: Any
    finished_at: Any
    charge_kind: Any
    charge_release: Any
    charge_principal: Any
    charge_fingerprint: Any
    charge_note: Any
    charge_at: Any
    charge_hash: Any
    leaf: Any


Place = tuple[str, int]
"""An account and a sequence number."""

ENTRY_COLUMNS = EntryRow._fields
RELEASE_COLUMNS = tuple(name for name in ReleaseRow._fields[:-1] if not name.startswith("charge_"))
CHARGE_COLUMNS = tuple(
    name.removeprefix("charge_") for name in ReleaseRow._fields if name.startswith("charge_")
)
_HASH = ENTRY_COLUMNS.index("hash")
_INTEGERS = frozenset({"seq", "epoch", "amount", "total_after", "spent_after", "reserved_after"})
_GROWS = {
    "grant": "total_after", "debit": "spent_after", "burn": "spent_after",
    "reserve": "reserved_after", "result": "total_after",
}  # fmt: skip
"""What the amount is added to, for kinds that do no more."""
_BALANCE = ("total_after", "spent_after", "reserved_after")
_HIDDEN = (
    "account", "seq", "principal", "idem", "fingerprint", "note", *_BALANCE, "prev", "key", "role",
)  # fmt: skip
_SHOWN = ("account", "seq", "epoch", "kind", "release", "amount", "at", "hash")
"""What the leaves of the public log are made of, in this order."""

_SHORT = 128
# Latin-1 has a character for every byte, so lengths can be part of a text.
_TEXT = tuple(f"{chr(0) * 7}{chr(length)}t" for length in range(_SHORT))
_NUMBER = tuple(f"{chr(0) * 7}{chr(length)}i" for length in range(_SHORT))
_LATIN_1 = methodcaller("encode", "latin-1")
_NOTHING = f"{chr(0) * 8}n"


def entry_hashes(columns: Sequence[Column], ledger: str) -> tuple[str, ...]:
    """Return the hashes of a block of entries, given as :class:`EntryRow` has them."""
    hashed = dict(zip(ENTRY_COLUMNS, columns, strict=True))
    del hashed["hash"]
    return tuple([sha256(each).hexdigest() for each in _contents(chain_start(ledger), hashed)])


def leaf_hashes(columns: Sequence[Column], ledger: str, seed: str) -> tuple[bytes, ...]:
    """Return the hashes of a block of entries' leaves, of a part of the log with this seed."""
    block, count = EntryRow(*columns), len(columns[0])
    hidden = {"seed": (seed,) * count}
    hidden |= {name: getattr(block, name) for name in _HIDDEN}
    digests = tuple([sha256(each).hexdigest() for each in _contents(HIDDEN_START, hidden)])
    shown = {"ledger": (ledger,) * count}
    shown |= {name: getattr(block, name) for name in _SHOWN}
    leaves = _contents(LEAF_START, shown | {"hidden": digests})
    return tuple([sha256(each).digest() for each in leaves])


def _contents(start: str, columns: Mapping[str, Column]) -> Iterator[bytes]:
    """Return the bytes of each row of some columns, behind what those of all begin with."""
    parts: list[Iterable[str]] = []
    count = len(next(iter(columns.values())))
    same = start.encode().decode("latin-1")
    for name, column in columns.items():
        text, varying = _part_of(column, is_integer=name in _INTEGERS)
        same += text
        if varying is not None:
            parts += (repeat(same, count), varying)
            same = ""
    parts.append(repeat(same, count))
    return map(_LATIN_1, map("".join, zip(*parts, strict=True)))


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


def all_follow(columns: Sequence[Column], last: EntryRow | None) -> bool:
    """Return whether a block of entries of one kind in one account continues an entry.

    For kinds that only add their amount to something; of others, and of blocks
    with several, this knows nothing.
    """
    block = EntryRow(*columns)
    kind, seqs = block.kind[0], block.seq
    grows = _GROWS.get(kind)
    if grows is None or last is None:
        return False
    sums = tuple(islice(accumulate(block.amount, initial=getattr(last, grows)), 1, None))
    stays = (name for name in _BALANCE if name != grows)
    return (
        is_one(block.kind, kind)
        and is_one(block.account, last.account)
        and may_hold(last.account, kind)
        and (kind in ASKED_FOR or is_one(block.idem, None))
        and (kind not in OF_RELEASES or None not in (*block.release, *block.fingerprint))
        and is_one(block.epoch, last.epoch)
        and seqs == tuple(range(last.seq + 1, last.seq + 1 + len(seqs)))
        and block.prev == (last.hash, *block.hash[:-1])
        and (is_one(block.amount, 0) if kind == "result" else min(block.amount) > 0)
        and getattr(block, grows) == sums
        and all(is_one(getattr(block, name), getattr(last, name)) for name in stays)
        # What grows is furthest at the end, and a total only makes room.
        and min(last.total_after, last.spent_after, last.reserved_after) >= 0
        and last.spent_after + last.reserved_after <= last.total_after
        and block.spent_after[-1] + block.reserved_after[-1] <= block.total_after[-1]
        and block.total_after[-1] <= MAX_TOTAL
    )


def all_answered(columns: Sequence[Column], before: int) -> bool:
    """Return whether a block of releases is what was charged for, each at once, and answered.

    The block is given as :class:`ReleaseRow` has them, and is to be numbered from after
    ``before``; each result has its leaf.
    """
    block = ReleaseRow(*columns)
    charge = (block.charge_release, block.charge_principal, block.charge_fingerprint)
    return (
        is_one(block.state, "released")
        and is_one(block.charge_kind, "debit")
        and is_one(block.attempts, 1)
        and block.number == tuple(range(before + 1, before + 1 + len(block.number)))
        and (block.id, block.principal, block.fingerprint) == charge
        and block.created_at == block.charge_at
        and block.fingerprint == _each(fingerprint_of, block.dataset, block.request)
        and block.charge_note == _each(plan_digest, block.plan)
        and None not in (*block.result, *block.finished_at)
        and block.result_hash == result_digests(block.result, block.finished_at)
        and block.leaf == result_leaves(block.id, block.charge_hash, block.result)
    )


def fingerprint_of(dataset: str, request: str) -> str:
    """Return :func:`app.domain.releases.request_fingerprint`."""
    return request_fingerprint(dataset=dataset, request=request)


def _each(function: Callable[..., str], *columns: Column) -> Column:
    """Return a function's values; long texts that are all the same are looked at once."""
    if all(is_one(column, column[0]) for column in columns):
        return (function(*(column[0] for column in columns)),) * len(columns[0])
    return tuple(map(function, *columns))


def is_one(column: Column, value: object) -> bool:
    """Return whether a column holds one value."""
    # The ends first: a column that varies mostly does so there.
    return column[0] == column[-1] == value and column.count(value) == len(column)
