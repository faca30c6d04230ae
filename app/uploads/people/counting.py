r"""How many rows of each person are stored, so that a cap of rows holds over all versions.

A version adds a file's rows to those of an earlier one. Of a person p with c(p) rows in the earlier
version at most ``max(k - c(p), 0)`` rows of the new file are kept, and the counts of both are kept
for the next one:

    c'(p) = c(p) + |choice of p|  <=  k.

**Privacy.** What is kept of p follows from p's rows in all files and a key, and from no one
else's rows. So two growing data sets that differ in one person differ in every version by at most
k rows, all of them p's: what :mod:`app.uploads.people.counting` says of one file.

*Stored form.* People are their keyed digests, 128 bits each. Few people are in one file,
``people``; more are in up to 256, ``people-<place>``, by the same bits that sort rows into groups.
Each holds digests in ascending order, then counts of 16 bits. Both are erased with the rows.

*At most k rows of each person, chosen by a keyed hash of that person's own rows alone.*

    kept(D) = union over persons p of  choice(rows of p in D),   |choice| <= k.

*The choice.* Of a person with more than k rows the k of least hash are kept. The hash is a keyed
function of the person, of the row as it is stored, and of how many equal rows of the person were
counted before it: so of the person's multiset of rows, in whatever order the file has them.

**Privacy.** ``choice`` sees one person's rows, and a key that is drawn before any data. So if D' is
D without the rows of p, ``kept(D) - kept(D') = choice(rows of p)``: at most k rows, and no one
else's. If it depended on other people's rows (the first rows of a file up to a total, say), one
person's rows would decide which of all others' are kept, and k would bound nothing. Where files
follow one another, k is less by what earlier ones have of p (:mod:`app.uploads.people.counting`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.uploads.people.wire import GROUPS, WORDS, Words, digests_of
from app.uploads.prf import Prf
from app.uploads.samples import Digests
from app.vault.stored import Attached

# At most k rows of each person, chosen by a keyed hash of that person's own rows alone

Places = NDArray[np.intp]
Counts = NDArray[np.int64]


def by_person(people: Digests) -> tuple[Places, Places, Counts]:
    """Return an order that puts each person's rows side by side, as they come.

    With it where each person's rows start in it, and how many they are; ``people`` are digests of
    shape (n, 2).
    """
    order = np.lexsort((people[:, 1], people[:, 0]))
    starts = _starts(people[order])
    return order, starts, np.diff(starts, append=len(order))


def kept(rows: Words, order: Places, counts: Counts, most: Counts, prf: Prf) -> Places:
    """Return which rows of some people are kept, at most ``most`` of each, in ascending order.

    ``order``, and with each person their ``counts`` of rows, are those of :func:`by_person`; so
    are the people of ``most``.
    """
    many = np.empty(len(rows), dtype=np.bool_)
    room = np.empty(len(rows), dtype=np.int64)
    room[order] = np.repeat(most, counts)
    many[order] = np.repeat(counts > most, counts)
    # Hashing takes long, and most people have no more rows than they may.
    few, more = np.flatnonzero(~many), np.flatnonzero(many)
    if not len(more):
        return few
    people = digests_of(rows[more, -WORDS:])
    chosen = _least(people, _hashes(rows[more], prf), room[more])
    return np.sort(np.concatenate([few, more[chosen]]))


def _hashes(rows: Words, prf: Prf) -> Digests:
    """Return a hash of each row: a count of equal rows before it makes each unique."""
    digests = prf.of_rows(rows)
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    starts = _starts(digests[order])
    before = np.empty(len(rows), dtype=np.int32)
    sizes = np.diff(starts, append=len(order))
    before[order] = np.arange(len(order)) - np.repeat(starts, sizes)
    return prf.of_rows(np.column_stack([digests.view(np.int32), before]))


def _least(people: Digests, hashes: Digests, most: NDArray[np.int64]) -> Places:
    """Return the places of each person's rows of least hash; ``most`` says with each how many."""
    order = np.lexsort((hashes[:, 1], hashes[:, 0], people[:, 1], people[:, 0]))
    starts = _starts(people[order])
    sizes = np.diff(starts, append=len(order))
    rank = np.arange(len(order)) - np.repeat(starts, sizes)
    return order[rank < most[order]]


def _starts(sorted_digests: Digests) -> Places:
    """Return where runs of equal digests start."""
    if not len(sorted_digests):
        return np.zeros(0, dtype=np.intp)
    changes = (sorted_digests[1:] != sorted_digests[:-1]).any(axis=1)
    return np.concatenate([[0], 1 + np.flatnonzero(changes)])


# How many rows of each person are stored, so that a cap of rows holds over all versions

TOGETHER = "people"
_MOST_TOGETHER = 1 << 16  # people in one file: beyond, who reads one group would read all
_PERSON_BYTES, _COUNT_BYTES = 16, 2


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Different people, digests of shape (n, 2) in ascending order, and how many rows each has."""

    people: Digests
    rows: Counts

    @classmethod
    def summed(cls, people: Digests, rows: Counts) -> Table:
        """Return a table of people who may occur several times, their rows added up."""
        order, starts, _ = by_person(people)
        sums = np.add.reduceat(rows[order], starts) if len(order) else rows
        return cls(people[order[starts]], sums)

    def merged(self, other: Table) -> Table:
        """Return the rows that both have of each person."""
        if not len(self.rows):
            return other
        people = np.concatenate([self.people, other.people])
        return Table.summed(people, np.concatenate([self.rows, other.rows]))

    def of(self, people: Digests) -> Counts:
        """Return how many rows some different people have, 0 for those who are not here."""
        if not len(self.rows):
            return np.zeros(len(people), dtype=np.int64)
        both = np.concatenate([self.people, people])
        order, starts, sizes = by_person(both)
        rows = np.concatenate([self.rows, np.zeros(len(people), dtype=np.int64)])
        found = np.empty_like(rows)
        found[order] = np.repeat(np.add.reduceat(rows[order], starts), sizes)
        return found[len(self.people) :]

    def at(self, place: int) -> Table:
        """Return those who are at one place."""
        here = _places(self.people) == place
        return Table(self.people[here], self.rows[here])

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        return self.people.astype("<u8").tobytes() + self.rows.astype("<u2").tobytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> Table:
        """Return the inverse of :meth:`to_bytes`."""
        end = len(content) // (_PERSON_BYTES + _COUNT_BYTES) * _PERSON_BYTES
        people = np.frombuffer(content[:end], dtype="<u8").astype(np.uint64).reshape(-1, 2)
        return cls(people, np.frombuffer(content[end:], dtype="<u2").astype(np.int64))


_NOBODY = Table(np.zeros((0, 2), dtype=np.uint64), np.zeros(0, dtype=np.int64))


class RowsStored:
    """Looks up how many rows earlier versions hold of a person, and stores the new number.

    Each person is noted once, and all who share a place at the same time.

    Parameters
    ----------
    attach
        Keeps a file under a name.
    earlier
        What was kept with the version before, by name.
    """

    def __init__(
        self, attach: Callable[[str, bytes], None], earlier: Mapping[str, Attached] | None = None
    ) -> None:
        self._attach = attach
        self._earlier = earlier or {}
        together = self._earlier.get(TOGETHER)
        self._together = _NOBODY if together is None else Table.from_bytes(together.read())
        self._held: dict[int, Table] = {}
        self._noted: set[int] = set()
        self._split = False

    def before(self, people: Digests) -> Counts:
        """Return how many rows of some different people earlier versions hold."""
        found = np.zeros(len(people), dtype=np.int64)
        for place, here in _by_place(people):
            found[here] = self._before(place).of(people[here])
        return found

    def note(self, people: Digests, rows: Counts) -> None:
        """Note how many rows of some different people, in ascending order, are stored now."""
        for place, here in _by_place(people):
            own = Table(people[here], rows[here])
            self._keep(place, self._before(place).merged(own))

    def finish(self) -> None:
        """Keep what earlier versions hold of everyone else, and have all of it attached."""
        for place in range(GROUPS):
            if place not in self._noted and len((table := self._before(place)).rows):
                self._keep(place, table)
        if not self._split:
            tables = [self._held[place] for place in sorted(self._held)]
            people = np.concatenate([_NOBODY.people, *(table.people for table in tables)])
            rows = np.concatenate([_NOBODY.rows, *(table.rows for table in tables)])
            self._attach(TOGETHER, Table.summed(people, rows).to_bytes())

    def _before(self, place: int) -> Table:
        if (file := self._earlier.get(_name(place))) is not None:
            return Table.from_bytes(file.read())
        return self._together.at(place)

    def _keep(self, place: int, table: Table) -> None:
        self._noted.add(place)
        self._held[place] = table
        if self._split or sum(len(each.rows) for each in self._held.values()) > _MOST_TOGETHER:
            self._split = True
            for each, held in self._held.items():
                self._attach(_name(each), held.to_bytes())
            self._held.clear()


def _name(place: int) -> str:
    return f"{TOGETHER}-{place:02x}"


def _places(people: Digests) -> NDArray[np.int64]:
    return (people[:, 0] % np.uint64(GROUPS)).astype(np.int64)


def _by_place(people: Digests) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each place that somebody is at, and who."""
    places = _places(people)
    order = np.argsort(places, kind="stable")
    found, starts = np.unique(places[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, starts[1:]), strict=False)
