"""Verifying again: from where an earlier verification has come to, and no more.

A :class:`Mark` says how far everything was found sound: the last entry of each account, the last
release that can change no more, the log's last checkpoint. Verifying from there walks what has
come since, and makes sure that the entries that the mark names are still those. Since an entry's
hash binds every entry before it, new entries continue the chain that was walked then. Whether the
older rows themselves are still there, and as they were, only a walk over everything says.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, func, select, text

from app.domain.ledger import HASH_BYTES, SYSTEM_ACCOUNT, Peaks
from app.domain.releases import ReleaseState
from app.store.database import tables
from app.store.ledger.records import shown
from app.store.verification.blocks import rows
from app.store.verification.log import Checkpoints, PartRange, SealRange
from app.store.verification.ranges import EntryRange, ReleaseRange

_END = 2**62
_PAGE = 64
_NOT_COMPARED = {
    "entry", "release", "leaf", "log_part", "log_checkpoint", "log_stamp", "account",
    "worker", "job", "turn", "allowance", "rate", "upload", "key_use", "desk_session", "desk_form",
    "notice_read", "delivery", "sight",
}  # fmt: skip
"""What grows with releases, which the walks look at, and what verification does not cover."""
_RECORDS = [
    select(tables.account.c.id).order_by(tables.account.c.id),
    *(
        select(table).order_by(*table.primary_key)
        for name, table in sorted(tables.metadata.tables.items())
        if name not in _NOT_COMPARED
    ),
]
_LAST_ACT = (
    select(tables.entry.c.hash)
    .where(tables.entry.c.account == SYSTEM_ACCOUNT, text(tables.ACTS))
    .order_by(tables.entry.c.seq.desc())
    .limit(1)
)
_account, _release, _part = tables.account.c, tables.release.c, tables.log_part.c
_HEADS = select(_account.id, _account.seq, _account.head)
_UNFINISHED = select(func.min(_release.number)).where(
    _release.state.in_([ReleaseState.RESERVED, ReleaseState.DEBITED])
)
_LAST_RELEASE = select(func.coalesce(func.max(_release.number), 0))
_SIGNED_PART = select(_part.number).where(
    _part.leaves_after == select(func.max(tables.log_checkpoint.c.size)).scalar_subquery()
)
_HASHES = "SELECT p.hashes FROM log_part AS p WHERE p.number > :after AND p.number <= :until"
_KNOWN = text("SELECT hash FROM entry WHERE account = :account AND seq = :seq")
_UNLIKE = text(
    "SELECT a.id FROM account AS a LEFT JOIN entry AS e ON e.account = a.id AND e.seq = a.seq"
    " WHERE (a.total = e.total_after AND a.spent = e.spent_after"
    " AND a.reserved = e.reserved_after AND a.head = e.hash) IS NOT TRUE"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How far a ledger was found sound.

    ``accounts`` has each account's last entry, by number and hash; ``releases`` is the number up
    to which no release changes any more; ``part`` the log's last part in a checkpoint, whose
    ``size`` leaves have ``peaks`` as the roots of the full trees that they make. ``records`` is a
    digest of the tables that the system account is compared with. ``signed`` is whether receipts
    and checkpoints were checked, too.
    """

    ledger: str
    epoch: int
    signed: bool
    accounts: Mapping[str, tuple[int, str]]
    releases: int
    part: int
    size: int
    peaks: Sequence[str]
    records: str

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, content: str) -> Mark | None:
        """Return what a text says, or None if it is no mark."""
        try:
            said = json.loads(content)
            heads = {name: (int(seq), str(head)) for name, (seq, head) in said["accounts"].items()}
            numbers = {name: int(said[name]) for name in ("epoch", "releases", "part", "size")}
            peaks = [bytes.fromhex(each).hex() for each in said["peaks"]]
            said["records"] = str(said["records"])
            return cls(**{**said, **numbers, "accounts": heads, "peaks": peaks})
        except (AttributeError, KeyError, TypeError, ValueError):
            return None


def mark_of(
    connection: Connection,
    *,
    ledger: str,
    epoch: int,
    signed: bool,
    records: str,
    since: Mark | None,
) -> Mark:
    """Return how far a ledger has come in a snapshot; ``since`` saves the hashing of old leaves."""
    unfinished = connection.execute(_UNFINISHED).scalar_one()
    last = connection.execute(_LAST_RELEASE).scalar_one()
    until = connection.execute(_SIGNED_PART).scalar_one_or_none() or 0
    tree = Peaks() if since is None else _tree_of(since)
    after = 0 if since is None else since.part
    query = f"{_HASHES} ORDER BY p.number"
    for (hashes,) in rows(connection, query, {"after": after, "until": until}, page=_PAGE):
        for place in range(0, len(hashes), HASH_BYTES):
            tree.add(hashes[place : place + HASH_BYTES])
    return Mark(
        ledger=ledger,
        epoch=epoch,
        signed=signed,
        accounts={row.id: (row.seq, row.head) for row in connection.execute(_HEADS)},
        # what may still change is walked again
        releases=last if unfinished is None else unfinished - 1,
        part=until,
        size=tree.size,
        peaks=[each.hex() for each in tree.roots],
        records=records,
    )


def records_digest(connection: Connection) -> str:
    """Return a digest of the rows that the system account is compared with, and of its last act.

    To read them takes a hundredth of what it takes to compare them.
    """
    digest = hashlib.sha256(repr(connection.execute(_LAST_ACT).scalars().all()).encode())
    for query in _RECORDS:
        for row in connection.execute(query):
            digest.update(repr(tuple(row)).encode())
        digest.update(b";")
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Known:
    """The entries that a mark names are still those, and each balance is its last entry's."""

    mark: Mark

    def faults(self, connection: Connection) -> Iterator[str]:
        now = {row.id: (row.seq, row.head) for row in connection.execute(_HEADS)}
        for account, (seq, head) in self.mark.accounts.items():
            if now.get(account) == (seq, head):
                continue  # whether that entry is there is asked of all balances at once
            found = connection.execute(_KNOWN, {"account": account, "seq": seq}).scalars().all()
            if found != [head]:
                yield f"account {shown(account)}, entry {seq}: it is not the one verified earlier"
        for account in connection.execute(_UNLIKE).scalars():
            yield f"account {shown(account)}: its balance is not its last entry's"


Task = _Known | EntryRange | ReleaseRange | SealRange | PartRange | Checkpoints


def tasks_since(
    connection: Connection, mark: Mark, *, epoch: int, keys: Mapping[str, str] | None
) -> list[Task]:
    """Return what is to be walked of what has come since a mark."""
    tasks: list[Task] = [_Known(mark)]
    for row in connection.execute(_HEADS):
        seq = mark.accounts.get(row.id, (0, ""))[0]
        if row.seq != seq:
            tasks.append(
                EntryRange(
                    ledger=mark.ledger, epoch=epoch, after=(row.id, seq), until=(row.id, _END)
                )
            )
    tasks.append(ReleaseRange(ledger=mark.ledger, keys=keys, after=mark.releases, until=None))
    system = mark.accounts.get(SYSTEM_ACCOUNT, (0, ""))[0]
    tasks.append(SealRange(after=system, until=None))
    tasks.append(PartRange(ledger=mark.ledger, after=mark.part, until=_END))
    tasks.append(
        Checkpoints(
            ledger=mark.ledger,
            epoch=epoch,
            keys=keys,
            after=system,
            part=mark.part,
            size=mark.size,
            peaks=tuple(mark.peaks),
        )
    )
    return tasks


def _tree_of(mark: Mark) -> Peaks:
    return Peaks(mark.size, [bytes.fromhex(each) for each in mark.peaks])
