"""The public log: the ledger's entries as leaves of one Merkle tree, and its signed checkpoints.

*Order.* Every account has a chain of its own, so something must say which entry of which account
comes next. That is the table of parts: each part is a run of one account's entries, and begins
where the part before it in the tree, and the part before it of its account, have ended. Parts are
appended by the ledger's writer and never changed; on PostgreSQL writers take turns. So the order
is the one in which entries came into the log, the same for everyone, and an account's entries are
in the order of its chain.

*When.* Entries come into the log a little after their commit, so that no charge waits for it. Only
a size that is durable is ever signed. Entries that seal results are left out: their number and
moment would reveal how long a draw took. So are those that keep the log's own checkpoints.

*The tree.* The roots of full blocks of leaves never change, so a process keeps them: 32 bytes for
every 256 leaves. A root of many leaves is made of those, and of the leaves of one block at most.

*Time stamps of checkpoints*, by an authority outside, say when each was there at the latest. They
are made after their checkpoint, in the order of sizes. Where the log is older than the request for
stamps, the newest checkpoint is the first to get one.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, text

from app.domain.checkpoints import leaf_hash
from app.domain.ledger import HASH_BYTES, SYSTEM_ACCOUNT, RootOf, root_over
from app.store.database import tables
from app.store.ledger.entries import SYSTEM, EntriesWriter, Occasion
from app.store.ledger.releases import RESULT

# The tree over the log's leaves, of which most is computed once and remembered

_BLOCK = 256  # a power of two, so that a full block is a subtree of any larger tree
_BLOCKS_AT_ONCE = 64


class LogTree:
    """Roots over ranges of leaves, as proofs need them; any thread may ask."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._lock = threading.Lock()

    def over(self, log: Log) -> RootOf:
        """Return what gives roots over leaves of the log, in one snapshot of it.

        A range of more than a block must begin where a block does, as those of proofs do.
        """

        def root_of(first: int, until: int) -> bytes:
            if until - first <= _BLOCK:
                return root_over(log.hashes(first, until))
            # The last block may still grow: its root is not kept.
            full = until // _BLOCK
            roots = self._full_blocks(log, full)[first // _BLOCK :]
            if until % _BLOCK:
                roots.append(root_over(log.hashes(full * _BLOCK, until)))
            return root_over(roots)

        return root_of

    def _full_blocks(self, log: Log, count: int) -> list[bytes]:
        """Return the roots of the first blocks."""
        with self._lock:
            while len(self._blocks) < count:
                first = len(self._blocks)
                until = min(count, first + _BLOCKS_AT_ONCE)
                leaves = log.hashes(first * _BLOCK, until * _BLOCK)
                self._blocks += [
                    root_over(leaves[start : start + _BLOCK])
                    for start in range(0, len(leaves), _BLOCK)
                ]
            return self._blocks[:count]


# Parts of the log: which entries are in it, in which order, and the hashes of their leaves

CHECKPOINT = "checkpoint"
"""The kind of the system account's entry that keeps a signed root: its fingerprint, and in the note
how many leaves there are. So nothing can be taken off the log's end again."""

MOST_OF_PART = 1024
"""How many leaves a part has at most."""
_MOST_PARTS = 64

_part, _entry, _checkpoint = tables.log_part.c, tables.entry.c, tables.log_checkpoint.c
_MOVED = text(
    "SELECT id, logged FROM (SELECT a.id, a.seq,"
    " coalesce((SELECT max(p.last_seq) FROM log_part AS p WHERE p.account = a.id), 0) AS logged"
    " FROM account AS a) AS at WHERE seq > logged ORDER BY id"
)
_NEXT = (
    select(tables.entry)
    .where(_entry.account == bindparam("of"), _entry.seq > bindparam("after"))
    .order_by(_entry.seq)
    .limit(MOST_OF_PART)
)
# Nearly all that the system account holds are seals and checkpoints: an index leads past them.
_NEXT_OF_SYSTEM = _NEXT.where(text(tables.ACTS))
_END = select(_part.number, _part.leaves_after).order_by(_part.number.desc()).limit(1)
_HASHES = text(
    "SELECT leaves_before, hashes FROM log_part WHERE leaves_before < :until AND leaves_before >="
    " (SELECT max(leaves_before) FROM log_part WHERE leaves_before <= :first)"
    " ORDER BY leaves_before"
)
_OF_ENTRY = (
    select(tables.log_part)
    .where(_part.account == bindparam("of"), _part.last_seq >= bindparam("at"))
    .order_by(_part.last_seq)
    .limit(1)
)
_LEFT_OUT = text(
    f"SELECT count(*) FROM entry WHERE account = :of AND kind IN ('{RESULT}', '{CHECKPOINT}')"  # noqa: S608 - a constant
    " AND seq > :after AND seq < :at"
)
_NEWEST = select(_checkpoint.note).order_by(_checkpoint.size.desc()).limit(1)
_LARGEST = select(func.max(_checkpoint.size))
_COVERING = (
    select(_checkpoint.note)
    .where(_checkpoint.size > bindparam("leaf"))
    .order_by(_checkpoint.size)
    .limit(1)
)
_OF_SIZE = select(_checkpoint.note).where(_checkpoint.size == bindparam("of"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPart:
    """Entries of one account that are to come into the log next, after its entry ``after``."""

    account: str
    after: int
    last_seq: int
    seed: str
    hashes: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafPlace:
    """Where an entry is in the log: the leaf's index, from 0, and the seed of its part."""

    index: int
    seed: str


class Log:
    """The log as it is stored."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def size(self) -> int:
        """Return how many leaves there are."""
        return self._end()[1]

    def _end(self) -> tuple[int, int]:
        """Return the last part's number, and how many leaves there are."""
        row = self._connection.execute(_END).one_or_none()
        if row is None:
            return 0, 0
        return row.number, row.leaves_after

    def unlogged(self, ledger: str) -> tuple[Sequence[NewPart], bool]:
        """Return what is to come into the log next, and whether there is more."""
        found = []
        for account, logged in self._connection.execute(_MOVED).all():
            part = self._next(account, logged, ledger)
            if part is not None:
                found.append(part)
            if len(found) == _MOST_PARTS:
                return found, True
        return found, any(len(part.hashes) == MOST_OF_PART * HASH_BYTES for part in found)

    def _next(self, account: str, logged: int, ledger: str) -> NewPart | None:
        query = _NEXT_OF_SYSTEM if account == SYSTEM_ACCOUNT else _NEXT
        rows = self._connection.execute(query, {"of": account, "after": logged}).all()
        if not rows:
            return None
        # Leaves are hashed with it: an entry cannot be guessed from its hash.
        seed = secrets.token_hex(32)
        return NewPart(
            account=account,
            after=logged,
            last_seq=rows[-1].seq,
            seed=seed,
            hashes=b"".join([leaf_hash(row, ledger=ledger, seed=seed) for row in rows]),
        )

    def hashes(self, first: int, until: int) -> list[bytes]:
        """Return the hashes of the leaves from one index up to, and without, another."""
        rows = self._connection.execute(_HASHES, {"first": first, "until": until}).all()
        start = first - rows[0].leaves_before
        content = b"".join([row.hashes for row in rows])
        places = range(start * HASH_BYTES, (start + until - first) * HASH_BYTES, HASH_BYTES)
        return [content[place : place + HASH_BYTES] for place in places]

    def place_of(self, account: str, seq: int) -> LeafPlace | None:
        """Return where an entry that is no seal is in the log, or None while it is not."""
        part = self._connection.execute(_OF_ENTRY, {"of": account, "at": seq}).one_or_none()
        if part is None:
            return None
        # Only the system account has entries that are no leaves.
        left_out = 0
        if account == SYSTEM_ACCOUNT:
            between = {"of": account, "after": part.after_seq, "at": seq}
            left_out = self._connection.execute(_LEFT_OUT, between).scalar_one()
        index = part.leaves_before + seq - part.after_seq - 1 - left_out
        return LeafPlace(index=index, seed=part.seed)

    def newest_checkpoint(self) -> str | None:
        """Return the note of the largest signed size."""
        return self._connection.execute(_NEWEST).scalar_one_or_none()

    def checkpoint_covering(self, leaf: int) -> str | None:
        """Return the note of the first checkpoint that a leaf is in; it stays the same one."""
        return self._connection.execute(_COVERING, {"leaf": leaf}).scalar_one_or_none()

    def checkpoint_of(self, size: int) -> str | None:
        """Return the note of a size that has been signed."""
        return self._connection.execute(_OF_SIZE, {"of": size}).scalar_one_or_none()


class LogWriter(Log):
    """Appends to the log; the system account's chain keeps what is signed of it."""

    __slots__ = ("_entries",)

    def __init__(self, connection: Connection, entries: EntriesWriter) -> None:
        super().__init__(connection)
        self._entries = entries

    def append(self, parts: Sequence[NewPart]) -> None:
        """Append those parts that still continue their accounts: another process may be faster."""
        logged = {row.id: row.logged for row in self._connection.execute(_MOVED)}
        number, before = self._end()
        for part in parts:
            # Hashed outside the writer's transaction, and another process was first:
            # made again next time.
            if logged.get(part.account) != part.after:
                continue
            number += 1
            row: dict[str, Any] = {
                "number": number,
                "account": part.account,
                "after_seq": part.after,
                "last_seq": part.last_seq,
                "leaves_before": before,
                "leaves_after": before + len(part.hashes) // HASH_BYTES,
                "seed": part.seed,
                "hashes": part.hashes,
            }
            self._connection.execute(insert(tables.log_part), row)
            before = row["leaves_after"]

    def add_checkpoint(self, size: int, root: bytes, note: str) -> None:
        """Keep a signed checkpoint, unless there is one of this size or a larger one."""
        # Checkpoints only grow; of two processes that signed at once the larger is enough.
        if size > (self._connection.execute(_LARGEST).scalar_one() or 0):
            occasion = Occasion(principal=SYSTEM, fingerprint=root.hex(), note=str(size))
            self._entries.append_system(CHECKPOINT, occasion)
            self._connection.execute(insert(tables.log_checkpoint), {"size": size, "note": note})


# Time stamps of checkpoints, by an authority outside: when each was there at the latest

_PAGE = 64
_stamp = tables.log_stamp.c
_DUE = text(
    "SELECT size, note FROM log_checkpoint WHERE size > coalesce("
    "(SELECT max(size) FROM log_stamp), (SELECT max(size) - 1 FROM log_checkpoint))"
    " ORDER BY size LIMIT 1"
)
_STAMP_OF_SIZE = select(_stamp.stamp).where(_stamp.size == bindparam("of"))
_LARGEST_STAMPED = select(func.max(_stamp.size))
_KEPT = (
    select(_stamp.size, _stamp.stamp, _checkpoint.note)
    .select_from(tables.log_stamp.outerjoin(tables.log_checkpoint, _stamp.size == _checkpoint.size))
    .order_by(_stamp.size)
    .execution_options(yield_per=_PAGE)
)
_SIGNED = select(_entry.note, _entry.at).where(
    _entry.account == SYSTEM_ACCOUNT, _entry.kind == CHECKPOINT
)
_UNSTAMPED = text(
    "SELECT c.size FROM log_checkpoint AS c LEFT JOIN log_stamp AS s ON s.size = c.size"
    " WHERE s.size IS NULL AND c.size > (SELECT min(size) FROM log_stamp)"
    " AND c.size < (SELECT max(size) FROM log_stamp) ORDER BY c.size LIMIT :most"
)
_WAITING = text(
    "SELECT count(*) FROM log_checkpoint WHERE size > (SELECT max(size) FROM log_stamp)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptStamp:
    """A stamp as it is stored, and the checkpoint of its size.

    ``note`` is that checkpoint and ``signed_at`` when the chain says that it was signed; None
    where there is none.
    """

    size: int
    stamp: bytes
    note: str | None
    signed_at: str | None


class Stamps:
    """Stamps as they are stored."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def due(self) -> tuple[int, str] | None:
        """Return the size and the note of the checkpoint to be stamped next, if there is one."""
        row = self._connection.execute(_DUE).one_or_none()
        return None if row is None else (row.size, row.note)

    def of(self, size: int) -> bytes | None:
        """Return the stamp of the checkpoint of a size."""
        return self._connection.execute(_STAMP_OF_SIZE, {"of": size}).scalar_one_or_none()

    def newest(self) -> int | None:
        """Return the largest size that has a stamp."""
        found: int | None = self._connection.execute(_LARGEST_STAMPED).scalar_one()
        return found

    def kept(self) -> Iterator[KeptStamp]:
        """Yield every stamp, in the order of sizes."""
        signed = {row.note: row.at for row in self._connection.execute(_SIGNED)}
        for row in self._connection.execute(_KEPT):
            yield KeptStamp(
                size=row.size,
                stamp=row.stamp,
                note=row.note,
                signed_at=signed.get(str(row.size)),
            )

    def left_out(self, most: int) -> list[int]:
        """Return the first sizes between stamped ones that have none: there should be none."""
        return [*self._connection.execute(_UNSTAMPED, {"most": most}).scalars()]

    def waiting(self) -> int:
        """Return how many checkpoints are larger than the last one stamped."""
        found: int = self._connection.execute(_WAITING).scalar_one()
        return found


class StampsWriter(Stamps):
    """Keeps stamps."""

    __slots__ = ()

    def add(self, size: int, stamp: bytes) -> None:
        """Store a stamp, unless another process has stamped as much."""
        if size > (self.newest() or 0):
            self._connection.execute(insert(tables.log_stamp), {"size": size, "stamp": stamp})
