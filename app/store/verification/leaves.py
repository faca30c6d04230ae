"""The leaves of results against the entries that seal them, by ranges of the system account.

Every entry of kind ``result`` says how many leaves there are up to it, and has the root over those
that it adds. Whether a leaf is of the result that is stored, the walk over releases looks at.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from sqlalchemy import Connection

from app.domain.ledger import SYSTEM_ACCOUNT
from app.domain.merkle import tree_root
from app.store.seals import RESULT, RESULT_KEPT
from app.store.verification.blocks import Row
from app.store.verification.raw_rows import rows
from app.store.verification.walks import place_of

_SEALS = (
    "SELECT e.seq, e.kind, e.fingerprint, e.note FROM entry AS e"  # noqa: S608 - constants
    f" WHERE e.account = '{SYSTEM_ACCOUNT}' AND e.kind IN ('{RESULT}', '{RESULT_KEPT}')"
)
_BEFORE = f"{_SEALS} AND e.seq <= :after ORDER BY e.seq DESC LIMIT 1"
_LEAVES = "SELECT f.number, f.hash FROM leaf AS f WHERE f.number > :after"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealRange:
    """The sealing entries of the system account after one number up to another, or to its end."""

    after: int
    until: int | None

    def faults(self, connection: Connection) -> Iterator[str]:
        """Walk them on this connection's snapshot."""
        seals = [*self._seals(connection)]
        earlier = [*rows(connection, _BEFORE, {"after": self.after})]
        start = _size(earlier[0]) if earlier else 0
        sizes = [start, *map(_size, seals)]
        sound: set[int] = set()
        for index, own in groupby(self._leaves(connection, sizes), itemgetter(0)):
            numbers, hashes = zip(*((number, leaf) for _, number, leaf in own), strict=True)
            if index > len(seals):
                yield "the results: there are leaves that no entry seals"
            elif numbers == tuple(range(sizes[index - 1] + 1, sizes[index] + 1)) and (
                seals[index - 1][2] == tree_root(hashes)
            ):
                sound.add(index)
        for index, (seq, kind, *_) in enumerate(seals, start=1):
            first = index == 1 and not earlier
            if index not in sound or (kind == RESULT_KEPT and not first):
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
    note = str(seal[3])
    return int(note) if note.isdecimal() and len(note) < 19 else 0
