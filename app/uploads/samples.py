"""Samples of digests that two tables choose alike, in bounded memory.

A sample keeps a fixed number of the smallest *different* digests it has seen. Digests are
pseudo-random, so two tables that share rows keep the shared ones below the
smaller of their two limits both; which rows those are depends on nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.domain.overlap import TableShape

Digests = NDArray[np.uint64]

SPACE = 2.0**64
_NOTHING = np.uint64(0)
"""The digest of a row without cells; it is in no sample."""
_TELLS_AFTER_ROWS = 1 << 16  # before, few rows may repeat by chance
_MOST_REPEATED = 0.95  # a column with so few different values identifies no people
_RUN_ROWS = 1 << 14  # this many sums fit the CPU cache
_LOWER_BITS = 48
_UPPER_PLACE = 3 if sys.byteorder == "little" else 0
"""Which of a digest's four words of 16 bits is the upper one."""
_MANY = 1 << 13  # of 2**16: where more rows are wanted, looking at upper bits first is no use

Word = TypeVar("Word", np.uint16, np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The different digests below ``limit``, ascending, and what is known of the whole table."""

    digests: Digests
    limit: int
    rows: int
    repeated: float

    @property
    def distinct(self) -> float:
        """Return about how many different digests the table has."""
        return len(self.digests) * SPACE / self.limit

    def below(self, limit: int) -> Digests:
        """Return the digests below another limit."""
        if limit >= self.limit:
            return self.digests
        return self.digests[: int(self.digests.searchsorted(np.uint64(limit)))]

    def merged(self, other: Sample, *, keep: int) -> Sample:
        """Return the sample of both tables together, of at most ``keep`` digests.

        Rows that both tables have are repeated. Their number is estimated from the
        shares of the digests.
        """
        limit = min(self.limit, other.limit)
        ours, theirs = self.below(limit), other.below(limit)
        both = np.union1d(ours, theirs)
        shared = len(ours) + len(theirs) - len(both)
        repeated = sum(
            each.rows * (each.repeated + (1 - each.repeated) * shared / max(1, len(digests)))
            for each, digests in ((self, ours), (other, theirs))
        )
        rows = self.rows + other.rows
        if len(both) > keep:
            limit, both = int(both[keep]), both[:keep].copy()
        return Sample(
            digests=both, limit=limit, rows=rows, repeated=repeated / rows if rows else 0.0
        )

    def shape(self, bits: float) -> TableShape:
        """Return the table's shape for the public rule, where its columns hold ``bits`` bits."""
        return TableShape(rows=self.rows, distinct=self.distinct, repeated=self.repeated, bits=bits)

    def facts(self) -> dict[str, object]:
        """Return all but the digests, JSON-ready."""
        return {
            "size": len(self.digests),
            "limit": self.limit,
            "rows": self.rows,
            "repeated": self.repeated,
        }

    @classmethod
    def of(cls, facts: Mapping[str, Any], digests: Digests) -> Sample:
        """Return the inverse of :meth:`facts`."""
        limit, rows, repeated = int(facts["limit"]), int(facts["rows"]), float(facts["repeated"])
        return cls(digests=digests, limit=limit, rows=rows, repeated=repeated)


class Sampler:
    """Collects a sample while digests stream by.

    Parameters
    ----------
    keep
        How many different digests the sample holds at most.
    patient
        Whether to go on when nearly all digests have turned out to be repeated;
        otherwise such a sample is given up, and :meth:`sample` returns None.
    """

    def __init__(self, keep: int, *, patient: bool = False) -> None:
        self._keep = keep
        self._patient = patient
        self._limit = 2**64 - 1
        self._rows = 0
        self._digests = np.zeros(0, dtype=np.uint64)
        self._counts = np.zeros(0, dtype=np.int64)
        self._pending: list[Digests] = []
        self._pending_rows = 0
        self._given_up = False

    @property
    def limit(self) -> int:
        """Return what digests must be below; it only falls, so that others never will be."""
        return 0 if self._given_up else self._limit

    def add(self, digests: Digests) -> None:
        """Look at some more rows."""
        low = np.flatnonzero(digests < np.uint64(self.limit))
        self.take(len(digests), low, digests[low])

    def take(self, rows: int, low: NDArray[np.intp], digests: Digests) -> None:
        """Add ``rows`` more rows, of which those below the limit have these digests."""
        # what counts as nothing is below any limit
        self._rows += rows - len(low) + int(np.count_nonzero(digests))
        if self._pending_rows + len(low) <= 2 * self._keep:
            self._wait(digests)
            return
        start, size = 0, 2 * self._keep
        while len(low) and not self._given_up:
            # short pieces first: each lowers the limit that the next ones must come below
            stop = int(low.searchsorted(start + size))
            piece, low, digests = digests[:stop], low[stop:], digests[stop:]
            self._wait(piece[piece < np.uint64(self._limit)])
            if self._pending_rows > 2 * self._keep:
                self._settle()
            start, size = start + size, 2 * size

    def _wait(self, found: Digests) -> None:
        """Have digests below the limit wait to be merged."""
        if len(found) and not self._given_up:
            self._pending.append(found)
            self._pending_rows += len(found)

    def sample(self) -> Sample | None:
        """Return the sample, unless it was given up."""
        if self._given_up:
            return None
        self._settle()
        held = int(self._counts.sum())
        repeated = int(self._counts[self._counts > 1].sum())
        return Sample(
            digests=self._digests,
            limit=self._limit,
            rows=self._rows,
            repeated=repeated / held if held else 0.0,
        )

    def counts(self) -> NDArray[np.int64] | None:
        """Return how often each different digest occurs, if the sample holds all of them."""
        self._settle()
        return self._counts if self._limit == 2**64 - 1 else None

    def _settle(self) -> None:
        """Merge what is pending, and lower the limit until the sample fits."""
        if not self._pending:
            return
        fresh, fresh_counts = np.unique(np.concatenate(self._pending), return_counts=True)
        self._pending.clear()
        self._pending_rows = 0
        if len(fresh) and fresh[0] == _NOTHING:
            fresh, fresh_counts = fresh[1:], fresh_counts[1:]
        both = np.concatenate([self._digests, fresh])
        counts = np.concatenate([self._counts, fresh_counts])
        order = np.argsort(both, kind="stable")
        both, counts = both[order], counts[order]
        starts = np.flatnonzero(np.diff(both, prepend=~both[:1]) != 0)
        self._digests, self._counts = both[starts], _sums(counts, starts)
        if len(self._digests) > self._keep:
            self._limit = int(self._digests[self._keep])
            # A slice would keep all that was merged in memory.
            self._digests = self._digests[: self._keep].copy()
            self._counts = self._counts[: self._keep].copy()
        held = int(self._counts.sum())
        if not self._patient and held > _TELLS_AFTER_ROWS:
            repeated = int(self._counts[self._counts > 1].sum())
            self._given_up = repeated > _MOST_REPEATED * held


class Prefilter:
    """Has samplers look at rows: each at the sums, modulo 2**64, over columns of its own.

    The upper 16 bits of the cells' digests rule out nearly every row that no sampler needs.

    Parameters
    ----------
    columns
        How many there are.
    samplers
        What looks, each with the places of its columns.
    """

    def __init__(self, columns: int, samplers: Sequence[tuple[Sampler, Sequence[int]]]) -> None:
        self._samplers = [sampler for sampler, _ in samplers]
        self._sizes = [len(own) for _, own in samplers]
        every = tuple(range(columns))
        rests = [tuple(sorted({*every} - {*own})) for _, own in samplers]
        # the sum over many columns is what the few others leave of the whole
        self._ways = [
            (rest, True) if len(rest) < len(own) else (tuple(sorted(own)), False)
            for rest, (_, own) in zip(rests, samplers, strict=True)
        ]

    def add(self, columns: Sequence[Digests]) -> None:
        """Look at some more rows: every column's digests of them."""
        rows = len(columns[0])
        chosen = self._wanted(columns)
        some = columns if chosen is None else [column[chosen] for column in columns]
        for sampler, digests in zip(self._samplers, self._sums(some), strict=True):
            low = np.flatnonzero(digests < np.uint64(sampler.limit))
            sampler.take(rows, low if chosen is None else chosen[low], digests[low])

    def _sums(self, columns: Sequence[NDArray[Word]]) -> Iterator[NDArray[Word]]:
        """Yield the sums for each sampler."""
        every = _summed(columns)
        sums: dict[tuple[int, ...], NDArray[Word]] = {(): np.zeros_like(every)}
        for few, is_rest in self._ways:
            if few not in sums:
                sums[few] = _summed([columns[place] for place in few])
            yield np.subtract(every, sums[few]) if is_rest else sums[few]

    def _wanted(self, columns: Sequence[Digests]) -> NDArray[np.intp] | None:
        """Return the rows that a sampler may want; None where many are.

        A sum's upper bits are those of the terms, and a carry below their number: with one more
        for every term they are above their own by 1 at least, and by that number at most.
        """
        bounds = [
            ((sampler.limit - 1) >> _LOWER_BITS) + size
            for sampler, size in zip(self._samplers, self._sizes, strict=True)
        ]
        if max(bounds) > _MANY:
            return None
        upper = [column.view(np.uint16)[_UPPER_PLACE::4] + np.uint16(1) for column in columns]
        found = []
        for start in range(0, len(columns[0]), _RUN_ROWS):
            run = [column[start : start + _RUN_ROWS] for column in upper]
            wanted = np.zeros(len(run[0]), dtype=np.bool_)
            for sums, bound in zip(self._sums(run), bounds, strict=True):
                wanted |= sums <= np.uint16(bound)
            found.append(start + np.flatnonzero(wanted))
        return np.concatenate([np.zeros(0, dtype=np.intp), *found])


def _summed(columns: Sequence[NDArray[Word]]) -> NDArray[Word]:
    """Return the sums of some columns, as far as their words hold them."""
    first, *others = columns
    if not others:
        return first
    total = first + others[0]
    for each in others[1:]:
        total += each
    return total


def _sums(counts: NDArray[np.int64], starts: NDArray[np.intp]) -> NDArray[np.int64]:
    return np.add.reduceat(counts, starts) if len(starts) else counts[:0]


def in_both(one: Digests, other: Digests) -> int:
    """Return how many digests are in both samples, which are in order and hold each once."""
    few, many = (one, other) if len(one) <= len(other) else (other, one)
    places = many.searchsorted(few)
    # Any place will do for what would be behind the last one: it is not what lies there.
    places[places == len(many)] = 0
    return int(np.count_nonzero(many[places] == few)) if len(many) else 0
