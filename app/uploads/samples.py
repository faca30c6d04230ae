"""Samples of digests that two tables choose alike, in bounded memory.

A sample keeps the smallest so many *different* digests it has seen. Digests are
pseudo-random, so two tables that share rows keep the shared ones below the
smaller of their two limits both; which rows those are depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.domain.overlap import TableShape

Digests = NDArray[np.uint64]

SPACE = 2.0**64
_NOTHING = np.uint64(0)
"""The digest of a row without cells; it is in no sample."""
_TELLS_AFTER_ROWS = 1 << 16  # before, few rows may be twins by chance
_TOO_MANY_TWINS = 0.95  # a column of so few different values tells no people
_SUMMED_ROWS = 1 << 13  # so many sums stay in the cache while the columns are added


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The different digests below ``limit``, ascending, and what is known of the whole table."""

    digests: Digests
    limit: int
    rows: int
    twins: float

    @property
    def distinct(self) -> float:
        """Return about how many different digests the table has."""
        return len(self.digests) * SPACE / self.limit

    def below(self, limit: int) -> Digests:
        """Return the digests below another limit."""
        return self.digests[: int(np.searchsorted(self.digests, np.uint64(limit)))]

    def shape(self, bits: float) -> TableShape:
        """Return what the public rule asks of a table whose columns could hold so many bits."""
        return TableShape(rows=self.rows, distinct=self.distinct, twins=self.twins, bits=bits)

    def facts(self) -> dict[str, object]:
        """Return all but the digests, JSON-ready."""
        return {
            "size": len(self.digests),
            "limit": self.limit,
            "rows": self.rows,
            "twins": self.twins,
        }

    @classmethod
    def of(cls, facts: Mapping[str, Any], digests: Digests) -> Sample:
        """Return the inverse of :meth:`facts`."""
        limit, rows, twins = int(facts["limit"]), int(facts["rows"]), float(facts["twins"])
        return cls(digests=digests, limit=limit, rows=rows, twins=twins)


class Sampler:
    """Collects a sample while digests stream by.

    Parameters
    ----------
    keep
        How many different digests the sample holds at most.
    patient
        Whether to go on when nearly all digests have turned out to be twins;
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

    def add(self, digests: Digests) -> None:
        """Look at some more rows."""
        # the limit only falls: what is not below it now never will be
        low = np.flatnonzero(digests < np.uint64(self._limit))
        # what counts as nothing is below any limit
        self._rows += len(digests) - len(low) + int(np.count_nonzero(digests[low]))
        if self._pending_rows + len(low) <= 2 * self._keep:
            self._wait(digests[low])
            return
        start, size = 0, 2 * self._keep
        while len(low) and not self._given_up:
            # short pieces first: each lowers the limit that the next ones must come below
            stop = int(low.searchsorted(start + size))
            piece, low = digests[low[:stop]], low[stop:]
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
        twins = int(self._counts[self._counts > 1].sum())
        return Sample(
            digests=self._digests,
            limit=self._limit,
            rows=self._rows,
            twins=twins / held if held else 0.0,
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
            twins = int(self._counts[self._counts > 1].sum())
            self._given_up = twins > _TOO_MANY_TWINS * held


def summed(columns: Sequence[Digests]) -> Digests:
    """Return the sums modulo 2**64 of some columns, a short run of rows after the other."""
    first, *others = columns
    if not others:
        return first
    total = np.empty_like(first)
    for start in range(0, len(total), _SUMMED_ROWS):
        stop = start + _SUMMED_ROWS
        some = np.add(first[start:stop], others[0][start:stop], out=total[start:stop])
        for each in others[1:]:
            some += each[start:stop]
    return total


def _sums(counts: NDArray[np.int64], starts: NDArray[np.intp]) -> NDArray[np.int64]:
    return np.add.reduceat(counts, starts) if len(starts) else counts[:0]
