r"""At most k rows of each person, chosen by a keyed hash of that person's own rows alone.

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

import numpy as np
from numpy.typing import NDArray

from app.uploads.people.ids import WORDS, Words, digests_of
from app.uploads.prf import Prf
from app.uploads.samples import Digests

Places = NDArray[np.intp]


def by_person(people: Digests) -> tuple[Places, Places, NDArray[np.int64]]:
    """Return an order that puts each person's rows side by side, as they come.

    With it where each person's rows start in it, and how many they are; ``people`` are digests of
    shape (n, 2).
    """
    order = np.lexsort((people[:, 1], people[:, 0]))
    starts = _starts(people[order])
    return order, starts, np.diff(starts, append=len(order))


def kept(rows: Words, most: int | NDArray[np.int64], prf: Prf) -> Places:
    """Return which rows of some people are kept, at most ``most`` of each, in ascending order.

    ``most`` may differ from person to person, in the order of :func:`by_person`.
    """
    people = digests_of(rows[:, -WORDS:])
    order, _, counts = by_person(people)
    many = np.empty(len(rows), dtype=np.bool_)
    room = np.empty(len(rows), dtype=np.int64)
    room[order] = np.repeat(np.broadcast_to(most, counts.shape), counts)
    many[order] = np.repeat(counts > most, counts)
    # Hashing takes long, and most people have no more rows than they may.
    few, more = np.flatnonzero(~many), np.flatnonzero(many)
    if not len(more):
        return few
    chosen = _least(people[more], _hashes(rows[more], prf), room[more])
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
