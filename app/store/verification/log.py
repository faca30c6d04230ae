"""The public log against the chains: every part, computed from its entries, and every checkpoint.

A part is a run of one account's entries. Each must begin where the parts before it have ended, of
the whole log and of its account: so no entry is left out and none is in it twice. What has been
committed last may still wait to come in.

*The leaves of results against the entries that seal them, by ranges of the system account.* Every
entry of kind ``result`` says how many leaves there are up to it, and has the root over those that
it adds. Whether a leaf is of the result that is stored, the walk over releases looks at.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, zip_longest
from operator import itemgetter
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy import Connection, text

from app.domain.checkpoints import Checkpoint, origin_of, read_checkpoint
from app.domain.ledger import HASH_BYTES, SYSTEM_ACCOUNT, Peaks, tree_root
from app.store.ledger.releases import RESULT
from app.store.merkle_log import CHECKPOINT
from app.store.verification.blocks import ENTRY_COLUMNS, Row, leaf_hashes, rows
from app.store.verification.walks import place_of

# The leaves of results against the entries that seal them, by ranges of the system account

_SEALS = (
    "SELECT e.seq, e.fingerprint, e.note FROM entry AS e"  # noqa: S608 - constants
    f" WHERE e.account = '{SYSTEM_ACCOUNT}' AND e.kind = '{RESULT}'"
)
_SEAL_BEFORE = f"{_SEALS} AND e.seq <= :after ORDER BY e.seq DESC LIMIT 1"
_LEAVES = "SELECT f.number, f.hash FROM leaf AS f WHERE f.number > :after"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealRange:
    """The sealing entries of the system account after one number up to another, or to its end."""

    after: int
    until: int | None

    def faults(self, connection: Connection) -> Iterator[str]:
        """Walk them on this connection's snapshot."""
        seals = [*self._seals(connection)]
        earlier = [*rows(connection, _SEAL_BEFORE, {"after": self.after})]
        start = _size(earlier[0]) if earlier else 0
        sizes = [start, *map(_size, seals)]
        sound: set[int] = set()
        for index, own in groupby(self._leaves(connection, sizes), itemgetter(0)):
            numbers, hashes = zip(*((number, leaf) for _, number, leaf in own), strict=True)
            if index > len(seals):
                yield "the results: there are leaves that no entry seals"
            elif numbers == tuple(range(sizes[index - 1] + 1, sizes[index] + 1)) and (
                seals[index - 1][1] == tree_root(hashes)
            ):
                sound.add(index)
        for index, (seq, *_) in enumerate(seals, start=1):
            if index not in sound:
                yield f"{place_of(SYSTEM_ACCOUNT, seq)}: it does not hold its results' leaves"

    def _seals(self, connection: Connection) -> Iterator[Row]:
        if self.until is None:
            query = f"{_SEALS} AND e.seq > :after ORDER BY e.seq"
            return rows(connection, query, {"after": self.after})
        query = f"{_SEALS} AND e.seq > :after AND e.seq <= :until ORDER BY e.seq"
        return rows(connection, query, {"after": self.after, "until": self.until})

    def _leaves(self, connection: Connection, sizes: list[int]) -> Iterator[Row]:
        """Yield each leaf behind the index of the seal that it belongs to."""
        if self.until is None:
            found = rows(connection, f"{_LEAVES} ORDER BY f.number", {"after": sizes[0]})
        else:
            query = f"{_LEAVES} AND f.number <= :until ORDER BY f.number"
            found = rows(connection, query, {"after": sizes[0], "until": sizes[-1]})
        return ((bisect_left(sizes, number), number, leaf) for number, leaf in found)


def cut_seals(last: int, *, length: int) -> Iterator[SealRange]:
    """Cut the system account, which ends at ``last``, into ranges; the last one is open."""
    cuts = [*range(0, max(last, 1), length)]
    for after, until in zip(cuts, [*cuts[1:], None], strict=True):
        yield SealRange(after=after, until=until)


def _size(seal: Row) -> int:
    """Return how many leaves there are up to a seal; none where it does not say."""
    note = str(seal[2])
    return int(note) if note.isdecimal() and len(note) < 19 else 0


# The public log against the chains: every part of it computed from its entries, and every
# checkpoint

_PAGE = 64
_FIELDS = (
    "p.number, p.account, p.after_seq, p.last_seq, p.leaves_before, p.leaves_after, p.seed,"
    " p.hashes"
)
_RANGE = "p.number > :after AND p.number <= :until"
_PARTS = f"SELECT {_FIELDS} FROM log_part AS p WHERE {_RANGE} ORDER BY p.number"  # noqa: S608
_ENTRIES = (
    f"SELECT p.number, {', '.join(f'e.{name}' for name in ENTRY_COLUMNS)}"  # noqa: S608 - constants
    " FROM log_part AS p JOIN entry AS e ON e.account = p.account AND e.seq > p.after_seq"
    f" AND e.seq <= p.last_seq AND e.kind NOT IN ('{RESULT}', '{CHECKPOINT}')"
    f" WHERE {_RANGE} ORDER BY p.number, e.seq"
)
_BEFORE = text(f"SELECT {_FIELDS} FROM log_part AS p WHERE p.number = :number")  # noqa: S608
_OF_ACCOUNT = text(
    "SELECT coalesce(max(last_seq), 0) FROM log_part WHERE account = :of AND number <= :after"
)
_CUTS = text("SELECT max(number) FROM log_part GROUP BY leaves_before / :length ORDER BY 1")
_HASHES = "SELECT p.hashes FROM log_part AS p WHERE p.number > :part ORDER BY p.number"
_CHECKPOINTS = "SELECT c.size, c.note FROM log_checkpoint AS c WHERE c.size > :size ORDER BY c.size"
_KEPT = (
    "SELECT e.note, e.fingerprint FROM entry AS e"  # noqa: S608 - constants
    f" WHERE e.account = '{SYSTEM_ACCOUNT}' AND e.kind = '{CHECKPOINT}' AND e.seq > :after"
    " ORDER BY e.seq"
)
_NUMBER = re.compile(r"(?<=/)[1-9][0-9]{0,18}\Z")
_SEQ = ENTRY_COLUMNS.index("seq")
_END = 2**62


class _Part(NamedTuple):
    number: Any
    account: Any
    after_seq: Any
    last_seq: Any
    leaves_before: Any
    leaves_after: Any
    seed: Any
    hashes: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRange:
    """The parts of the log after one number up to another."""

    ledger: str
    after: int
    until: int

    def faults(self, connection: Connection) -> Iterator[str]:
        """Walk them on this connection's snapshot."""
        bounds = {"after": self.after, "until": self.until}
        entries = groupby(rows(connection, _ENTRIES, bounds), itemgetter(0))
        found = {}
        logged: dict[Any, Any] = {}
        last = self._before(connection)
        for part in map(_Part._make, rows(connection, _PARTS, bounds, page=_PAGE)):
            if part.account not in logged:
                known = {"of": part.account, "after": self.after}
                logged[part.account] = connection.execute(_OF_ACCOUNT, known).scalar_one()
            expected = (last.number + 1, last.leaves_after, logged[part.account])
            if (part.number, part.leaves_before, part.after_seq) != expected:
                yield f"the log, part {part.number}: it does not follow the one before"
            while part.number not in found and (group := next(entries, None)) is not None:
                found = {group[0]: [row[1:] for row in group[1]]}
            own = found.pop(part.number, [])
            count = part.leaves_after - part.leaves_before
            ends = (len(own), own[-1][_SEQ]) if own else (0, 0)
            if ends != (count, part.last_seq) or self._hashes(own, part.seed) != part.hashes:
                yield f"the log, part {part.number}: it does not hold its entries"
            logged[part.account] = part.last_seq
            last = part

    def _hashes(self, entries: list[Any], seed: str) -> bytes:
        return b"".join(leaf_hashes([*zip(*entries, strict=True)], self.ledger, seed))

    def _before(self, connection: Connection) -> _Part:
        row = connection.execute(_BEFORE, {"number": self.after}).one_or_none()
        return _Part(self.after, "", 0, 0, 0, 0, "", b"") if row is None else _Part._make(row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Checkpoints against the leaves: their sizes, roots and signatures, and the chain's word.

    ``keys`` are the public keys of the ledger, by name; None where signatures are not looked at.
    Where the first have been verified, it is those that are larger than ``size``, and their
    entries come ``after`` one of the system account; the log's parts up to ``part`` have ``leaves``
    leaves, and ``peaks`` are their roots.
    """

    ledger: str
    epoch: int
    keys: Mapping[str, str] | None
    after: int = 0
    part: int = 0
    size: int = 0
    peaks: tuple[str, ...] = ()

    def faults(self, connection: Connection) -> Iterator[str]:
        """Walk them on this connection's snapshot."""
        tree = Peaks(self.size, [bytes.fromhex(each) for each in self.peaks])
        leaves = self._leaves(connection)
        kept = rows(connection, _KEPT, {"after": self.after})
        signed = rows(connection, _CHECKPOINTS, {"size": self.size})
        nothing: Row = ("", None)
        for (said, root), (size, note) in zip_longest(kept, signed, fillvalue=nothing):
            if said != str(size):
                yield "the log: its checkpoints are not those in the chain"
                return
            while tree.size < size and (leaf := next(leaves, None)) is not None:
                tree.add(leaf)
            sound = tree.size == size and tree.root().hex() == root
            if not (sound and self._is_of(note, tree)):
                yield f"the log: the checkpoint of {size} leaves is not of these leaves"

    def _leaves(self, connection: Connection) -> Iterator[bytes]:
        for (hashes,) in rows(connection, _HASHES, {"part": self.part}, page=_PAGE):
            for place in range(0, len(hashes), HASH_BYTES):
                yield hashes[place : place + HASH_BYTES]

    def _is_of(self, note: str, tree: Peaks) -> bool:
        read = read_checkpoint(note)
        if read is None:
            return False
        checkpoint, signature = read
        found = (self._is_ours(checkpoint.origin), checkpoint.size, checkpoint.root)
        return found == (True, tree.size, tree.root()) and (
            self.keys is None
            or any(_is_signed(checkpoint, note, signature, key) for key in self.keys.values())
        )

    def _is_ours(self, origin: str) -> bool:
        """Return whether a log is this ledger's, of an epoch that has been.

        Not by listing them: what somebody wrote in the epoch's place may be any number.
        """
        number = _NUMBER.search(origin)
        epoch = 0 if number is None else int(number[0])
        return 1 <= epoch <= self.epoch and origin == origin_of(self.ledger, epoch)


def cut_log(connection: Connection, *, ledger: str, length: int) -> Iterator[PartRange]:
    """Cut the log into ranges of about ``length`` leaves."""
    cuts = connection.execute(_CUTS, {"length": length}).scalars().all()[:-1]
    for after, until in zip([0, *cuts], [*cuts, _END], strict=True):
        yield PartRange(ledger=ledger, after=after, until=until)


def _is_signed(checkpoint: Checkpoint, note: str, signature: bytes, key: str) -> bool:
    public = base64.urlsafe_b64decode(key + "=" * (-len(key) % 4))
    if checkpoint.signed(public, signature) != note:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, checkpoint.body.encode())
    except InvalidSignature:
        return False
    return True
