"""Ranges of entries and of releases, each a part of a verification that stands alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, text

from app.domain.ledger import SYSTEM_ACCOUNT
from app.domain.releases import ReleaseState
from app.store.database import tables
from app.store.ledger.records import shown
from app.store.ledger.releases import ENDED_AS, REPEATED
from app.store.verification.blocks import (
    CHARGE_COLUMNS,
    ENTRY_COLUMNS,
    PAGE,
    RELEASE_COLUMNS,
    EntryRow,
    Place,
    blocks,
    rows,
)
from app.store.verification.system_account import keys_of
from app.store.verification.walks import EntryWalk, ReleaseWalk, place_of

_MOST_RANGES = 1000
_END = 2**62
"""Beyond every sequence number: a range up to here ends with its account."""


def _listed(alias: str, columns: Sequence[str]) -> str:
    return ", ".join(f"{alias}.{column}" for column in columns)


_ENTRIES = f"SELECT {_listed('e', ENTRY_COLUMNS)} FROM entry AS e"  # noqa: S608 - constants
_CHARGED = "SELECT count(*) FROM release AS r"
_UNCHARGED = (
    "SELECT e.account, e.seq FROM entry AS e"
    " {where} AND e.kind = 'debit' AND NOT EXISTS"
    " (SELECT 1 FROM release AS r WHERE r.account = e.account AND r.seq = e.seq)"
    " ORDER BY e.account, e.seq"
)
_ACCOUNTS = "SELECT a.id, a.seq, a.total, a.spent, a.reserved, a.head FROM account AS a"
_RELEASES = (
    f"SELECT {_listed('r', RELEASE_COLUMNS)}, {_listed('e', CHARGE_COLUMNS)}, f.hash"  # noqa: S608 - constants
    " FROM release AS r LEFT JOIN entry AS e ON e.account = r.account AND e.seq = r.seq"
    " LEFT JOIN leaf AS f ON f.release = r.number"
)
_LEAVES = "SELECT count(*) FROM leaf AS f"
_RESERVED = text("SELECT release, at FROM entry WHERE kind = 'reserve' AND idem IS NOT NULL")
_KNOWN = select(tables.release.c.id, tables.release.c.account, tables.release.c.seq).where(
    tables.release.c.id.in_(bindparam("wanted", expanding=True))
)
_SAID = select(tables.entry.c.kind, tables.entry.c.note, tables.entry.c.at).where(
    tables.entry.c.account == SYSTEM_ACCOUNT,
    tables.entry.c.kind.in_([*ENDED_AS.values(), REPEATED]),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRange:
    """The entries after one place up to another, and the account rows that end there."""

    ledger: str
    epoch: int
    after: Place | None
    until: Place | None

    def faults(self, connection: Connection) -> Iterator[str]:
        """Walk them on this connection's snapshot."""
        where, values = _between("a.id", "a.seq", self.after, self.until)
        accounts = {row[0]: row[1:] for row in rows(connection, f"{_ACCOUNTS} {where}", values)}
        walk = EntryWalk(
            ledger=self.ledger,
            epoch=self.epoch,
            accounts=accounts,
            keys=keys_of(connection),
            before=self._before(connection),
            ends_inside=self.until is not None and self.until[1] != _END,
        )
        where, values = _between("e.account", "e.seq", self.after, self.until)
        query = f"{_ENTRIES} {where} ORDER BY e.account, e.seq"
        yield from walk.walk(blocks(connection, query, values))
        yield from self._without_release(connection, walk)

    def _without_release(self, connection: Connection, walk: EntryWalk) -> Iterator[str]:
        """Fault charges without their release.

        A release is at one entry. So where as many releases are in the range as charges
        are, and nothing is wrong with the releases themselves, every charge has its own.
        """
        waiting, reserved = 0, [*walk.reserved]
        for start in range(0, len(reserved), PAGE):
            some = reserved[start : start + PAGE]
            places = connection.execute(_KNOWN, {"wanted": some})
            known = {row.id: (row.account, row.seq) for row in places}
            waiting += sum(known.get(release) == walk.reserved[release] for release in some)
            for release in some:
                if release not in known:
                    yield f"{place_of(*walk.reserved[release])}: its release is missing"
        where, values = _between("r.account", "r.seq", self.after, self.until)
        ((count,),) = rows(connection, f"{_CHARGED} {where}", values)
        if count != walk.debits + waiting:
            where, values = _between("e.account", "e.seq", self.after, self.until)
            query = _UNCHARGED.format(where=where or "WHERE true")
            for account, seq in rows(connection, query, values):
                yield f"{place_of(account, seq)}: its release is missing"

    def _before(self, connection: Connection) -> EntryRow | None:
        # the range begins with an account's first entry
        if self.after is None or self.after[1] == _END:
            return None
        where = "WHERE e.account = :account AND e.seq = :seq"
        values = {"account": self.after[0], "seq": self.after[1]}
        found = [*rows(connection, f"{_ENTRIES} {where}", values)]
        return EntryRow._make(found[0]) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRange:
    """The releases after one number up to another."""

    ledger: str
    keys: Mapping[str, str] | None
    after: int | None
    until: int | None

    def faults(self, connection: Connection) -> Iterator[str]:
        """Walk them on this connection's snapshot."""
        bounds = {"after": ("r.number > :after", self.after),
                  "until": ("r.number <= :until", self.until)}  # fmt: skip
        given = {name: bound for name, bound in bounds.items() if bound[1] is not None}
        where = "WHERE " * bool(given) + " AND ".join(condition for condition, _ in given.values())
        query = f"{_RELEASES} {where} ORDER BY r.number"
        values = {name: value for name, (_, value) in given.items()}
        walk = ReleaseWalk(ledger=self.ledger, keys=self.keys, before=self.after or 0)
        yield from walk.walk(blocks(connection, query, values))
        ((leaves,),) = rows(
            connection, f"{_LEAVES} {where.replace('r.number', 'f.release')}", values
        )
        if leaves != walk.leaves:
            yield "the results: there are leaves without a release"
        if self.until is not None and walk.number != self.until:
            yield "the releases: numbers are missing"
        if walk.reviewed:
            for release, at in connection.execute(_RESERVED):
                if walk.reviewed.get(release) == at:
                    del walk.reviewed[release]
        for release in sorted(walk.reviewed):
            yield f"release {shown(release)}: its time has been edited"
        if walk.ended or walk.repeated:
            yield from _unsaid(connection, walk)


def _unsaid(connection: Connection, walk: ReleaseWalk) -> Iterator[str]:
    """Fault releases that ended, or were begun again, without the system account's word."""
    ended: dict[str, tuple[str, str]] = {}
    attempts: Counter[str] = Counter()
    for kind, release, at in connection.execute(_SAID):
        if kind == REPEATED:
            attempts[release] += 1
        else:
            ended[release] = (kind, at)
    for release, (state, at) in walk.ended.items():
        if ended.get(release) != (ENDED_AS[ReleaseState(state)], at):
            yield f"release {shown(release)}: the system account does not know of its end"
    for release, count in walk.repeated.items():
        if attempts[release] != count - 1:
            yield f"release {shown(release)}: its attempts have been edited"


def cut_entries(
    accounts: Sequence[tuple[str, int]], *, ledger: str, epoch: int, length: int
) -> Iterator[EntryRange]:
    """Cut all entries into ranges of about a length; the first and the last are open.

    ``accounts`` are ids and last sequence numbers, in the database's own order.
    A cut is between accounts or well inside one, so that an account that moves
    during the walk ends in the same range in every snapshot.
    """
    # However large an edited number is, there are not many more ranges than this.
    length = max(length, sum(last for _, last in accounts) // _MOST_RANGES)
    cuts: list[Place] = []
    filled = 0
    for account, last in accounts:
        seq = length - filled
        while seq < last:
            cuts.append((account, seq))
            seq += length
        filled = last - (seq - length)
        if filled == length:
            cuts.append((account, _END))
            filled = 0
    for after, until in zip([None, *cuts], [*cuts, None], strict=True):
        yield EntryRange(ledger=ledger, epoch=epoch, after=after, until=until)


def cut_releases(
    connection: Connection,
    *,
    ledger: str,
    keys: Mapping[str, str] | None,
    length: int,
) -> Iterator[ReleaseRange]:
    """Cut all releases into ranges of about a length; the first and the last are open."""
    number = tables.release.c.number
    low, high = connection.execute(select(func.min(number), func.max(number))).one()
    length = max(length, 0 if low is None else (high - low) // _MOST_RANGES)
    cuts = [] if low is None else [*range(low - 1, high, length)][1:]
    for after, until in zip([None, *cuts], [*cuts, None], strict=True):
        yield ReleaseRange(ledger=ledger, keys=keys, after=after, until=until)


def _between(
    account: str, seq: str, after: Place | None, until: Place | None
) -> tuple[str, dict[str, Any]]:
    """Return the condition that a place lies in a range, and its values."""
    conditions: list[str] = []
    values: dict[str, Any] = {}
    # Inside one account two numbers are compared for each row, and not two pairs.
    inside = after is not None and until is not None and after[0] == until[0]
    for sign, name, bound in ((">", "after", after), ("<=", "until", until)):
        if bound is not None:
            conditions.append(
                f"{account} = :{name} AND {seq} {sign} :{name}_seq"
                if inside
                else f"({account}, {seq}) {sign} (:{name}, :{name}_seq)"
            )
            values |= {name: bound[0], f"{name}_seq": bound[1]}
    return ("WHERE " + " AND ".join(conditions) if conditions else ""), values
